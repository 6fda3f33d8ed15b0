"""multi-freq-ldpy's side: one call of its client a record, which is the only way it has. Runs in the peers' environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_IBU, GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.HE import HE_Aggregator_IBU, HE_Aggregator_MI, HE_Client
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_IBU, SS_Aggregator_MI, SS_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_IBU, UE_Aggregator_MI, UE_Client

Run = Callable[[], object]


def client(call: Callable[[int, int, float], object], rows: int, values: int, epsilon: float) -> Run:
    """The client called for each record; compiled before it is timed."""
    records = np.random.default_rng(0).integers(0, values, rows).tolist()
    call(records[0], values, epsilon)
    return lambda: [call(record, values, epsilon) for record in records]


def retain_replace(rows: int, values: int, epsilon: float) -> Run:
    """Generalised randomised response."""
    return client(GRR_Client, rows, values, epsilon)


def unary(rows: int, values: int, epsilon: float) -> Run:
    """Optimised unary encoding."""
    return client(UE_Client, rows, values, epsilon)


def subset(rows: int, values: int, epsilon: float) -> Run:
    """Subset selection."""
    return client(SS_Client, rows, values, epsilon)


CASES = {"retain_replace": retain_replace, "unary": unary, "subset": subset}


def estimators(records: list[int], values: int, epsilon: float) -> dict[str, list[float]]:
    """What each of its protocols and estimators makes of freshly perturbed records: proportions, by name.

    Local hashing is not among them: with the current xxhash its client raises a TypeError.
    """
    direct = [GRR_Client(record, values, epsilon) for record in records]
    found = {
        "GRR MI": GRR_Aggregator_MI(direct, values, epsilon),
        "GRR IBU": GRR_Aggregator_IBU(direct, values, epsilon),
    }
    for name, optimal in (("OUE", True), ("SUE", False)):
        ticks = np.array([UE_Client(record, values, epsilon, optimal) for record in records])
        found[f"{name} MI"] = UE_Aggregator_MI(ticks, epsilon, optimal)
        found[f"{name} IBU"] = UE_Aggregator_IBU(ticks, values, epsilon, optimal)
    sets = [SS_Client(record, values, epsilon) for record in records]
    found["SS MI"] = SS_Aggregator_MI(sets, values, epsilon)
    found["SS IBU"] = SS_Aggregator_IBU(sets, values, epsilon)
    histograms = [HE_Client(record, values, epsilon) for record in records]
    found["THE MI"] = HE_Aggregator_MI(histograms, values, epsilon)
    found["THE IBU"] = HE_Aggregator_IBU(histograms, values, epsilon)
    return {name: np.asarray(proportions).tolist() for name, proportions in found.items()}


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(estimators(**json.loads(line))) + "\n")
        sys.stdout.flush()
