"""Sums without a server: graphs, averaging, hiding addends, and what each way of hiding risks."""

from sudare.consensus.averaging import AveragingResult, Plan, averaged, averaging_plan
from sudare.consensus.graphs import (
    Graph,
    base_k,
    complete,
    cycle,
    cycle_with_inverse_chords,
    exponential,
    graph_named,
    hypercube,
    random_regular,
)
from sudare.consensus.secure_sum import SecureSum, secure_sum
from sudare.sums.fixed_point import FixedPoint
from sudare.sums.keys import MemberKeys, PublicKeys

__all__ = [
    "AveragingResult",
    "FixedPoint",
    "Graph",
    "MemberKeys",
    "Plan",
    "PublicKeys",
    "SecureSum",
    "averaged",
    "averaging_plan",
    "base_k",
    "complete",
    "cycle",
    "cycle_with_inverse_chords",
    "exponential",
    "graph_named",
    "hypercube",
    "random_regular",
    "secure_sum",
]
