"""What somebody writes with numpy in an afternoon, in our own environment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.workloads import linear_experts

Run = Callable[[], object]


def mirror_averaging(experts: int, rows: int) -> Run:
    """Equations (15) and (16) of Minami et al. (2015) as a loop over the rows."""
    X, labels, coefficients = linear_experts(experts, rows)

    def run() -> object:
        total, average = np.zeros(experts), np.zeros(experts)
        for row, label in zip(X, labels, strict=True):
            total += np.logaddexp(0, -label * (coefficients @ row))
            weights = np.exp(-(total - total.min()) / 3)
            average += weights / weights.sum()
        return average / rows

    return run


CASES = {"mirror_averaging": mirror_averaging}
