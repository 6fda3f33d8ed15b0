"""Our side again, without what a benchmark is about."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.workloads import sparse_correlations
from sudare.dictionary.graphical_lasso import graphical_lasso

Run = Callable[[], object]


def graphical_lasso_warm(variables: int, rows: int, penalty: float, tolerance_of_peer: float) -> Run:
    """The graphical lasso for weights that changed by 2%, without the solution before."""
    S = sparse_correlations(variables, rows, disturbance=0.02)
    return lambda: graphical_lasso(S, penalty)


CASES = {"graphical_lasso_warm": graphical_lasso_warm}
