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

__all__ = [
    "AveragingResult",
    "Graph",
    "Plan",
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
]
