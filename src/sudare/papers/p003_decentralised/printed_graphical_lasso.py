"""Algorithm 3 of Ide (2021), line by line: the chapter's graphical lasso, beside the product's."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats
from sudare.compiled_loops import compiled
from sudare.dictionary.graphical_lasso import GraphicalLassoResult, checked_covariance
from sudare.dictionary.graphical_lasso_newton_steps import lower_bound, point_at
from sudare.parameter_checks import Numbers


def graphical_lasso_as_printed(
    covariance: ArrayLike, penalty: float, tol: float = 1e-8, max_iter: int = 1000, passes: int = 1
) -> GraphicalLassoResult:
    """Algorithm 3 of Ide (2021), line by line; the diagonal is penalised.

    Line 8, "β ← (1.78)", has β on both sides; β is kept from the last visit to the column and (1.78) applied `passes`
    times to all its components. "Until convergence" is: no entry of W changes by more than `tol` in a round over
    all columns. Nothing here keeps Λ positive definite: where it is not, or a number overflows, the gap is infinite.
    """
    S = checked_covariance(covariance)
    Numbers(0).check("penalty", penalty)
    Numbers(0, open_low=True).check("tol", tol)
    for name, count in (("max_iter", max_iter), ("passes", passes)):
        Numbers(1, whole=True).check(name, count)
    size = len(S)
    W = S + penalty * np.eye(size)
    precision, coefficients = np.diag(1 / W.diagonal()), np.zeros((size, size))
    rounds, change = 0, math.inf
    with np.errstate(all="ignore"):
        while rounds < max_iter and change > tol:
            before = W.copy()
            _visit_columns(S, W, precision, coefficients, penalty, passes)
            change = float(np.abs(W - before).max())
            rounds += 1
        gap = _gap_of(S, penalty, precision)
    return GraphicalLassoResult(precision, W, gap, rounds)


@compiled()
def _visit_columns(S: Floats, W: Floats, precision: Floats, coefficients: Floats, penalty: float, passes: int) -> None:
    """Lines 4 to 12 of Algorithm 3 for i = 1, …, M: column i of W and Λ from the other columns of W, in place."""
    for i in range(len(S)):
        # Entry i of β stays zero, so that sums over all entries leave column i out.
        beta = coefficients[i]
        for _ in range(passes):
            _soften(i, S, W, beta, penalty)
        W[i, i] = S[i, i] + penalty
        column = W @ beta
        scale = 1 / (W[i, i] - beta @ column)
        for row in range(len(S)):
            if row != i:
                W[row, i] = W[i, row] = column[row]
                precision[row, i] = precision[i, row] = -scale * beta[row]
        precision[i, i] = scale


@compiled()
def _soften(i: int, S: Floats, W: Floats, beta: Floats, penalty: float) -> None:
    """(1.78) once for every entry of β but the i-th."""
    for row in range(len(S)):
        if row != i:
            rest = S[row, i] - W[row] @ beta + W[row, row] * beta[row]
            beta[row] = np.sign(rest) * max(abs(rest) - penalty, 0.0) / W[row, row]


def _gap_of(S: Floats, penalty: float, precision: Floats) -> float:
    """The duality gap of any Λ, with the diagonal penalised; infinite where Λ is not positive definite."""
    if not np.isfinite(precision).all():
        return math.inf
    penalties = np.full(S.shape, penalty)
    np.fill_diagonal(penalties, 0.0)
    S = S + penalty * np.eye(len(S))
    point = point_at(S, penalties, precision)
    return math.inf if point is None else max(point.objective - lower_bound(S, penalties, point), 0.0)
