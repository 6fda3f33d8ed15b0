"""Sparse precision matrices: the graphical lasso, with a duality gap that certifies the answer.

The problem is (1.63) of Ide (2021): minimise −ln det Λ + tr(SΛ) + Σ ρᵢⱼ|Λᵢⱼ|. Its dual is: maximise ln det(S + U) + M
over |Uᵢⱼ| ≤ ρᵢⱼ. Any such U bounds the minimum from below, so the difference of the two values, in nats, says how far
Λ can be from the best.

Variables that no chain of pairs with |Sᵢⱼ| > ρᵢⱼ joins are solved apart (Mazumder & Hastie 2012). Each block is solved
by the steps of Hsieh et al. (2014, QUIC): the smooth part is replaced by its quadratic model, the model with the penalty
is minimised over the entries that are free to move, and a line search keeps Λ positive definite (`graphical_lasso_newton_steps`).
If that takes too many steps, because variables nearly determine each other and the penalty is small, an interior-point method
takes over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from sudare.array_types import Floats
from sudare.dictionary.graphical_lasso_newton_steps import Start, newton_solution, point_at
from sudare.errors import DataError, InvalidParameter, NotSolved
from sudare.parameter_checks import Numbers
from sudare.schema.table_from_any_frame import attempt

_ASYMMETRY: Final = 1e-8
# In nats.
_TOL: Final = Numbers(0, open_low=True)


@dataclass(frozen=True, eq=False)
class GraphicalLassoResult:
    """A precision matrix, its inverse, and by how many nats at most its objective is above the minimum.

    `n_iter` counts the Newton steps of the block of variables that took most.
    """

    precision: Floats
    covariance: Floats
    gap: float
    n_iter: int


def graphical_lasso(
    covariance: ArrayLike,
    penalty: float | ArrayLike,
    tol: float = 1e-8,
    start: ArrayLike | GraphicalLassoResult | None = None,
    penalize_diagonal: bool = False,
) -> GraphicalLassoResult:
    """The Λ that minimises −ln det Λ + tr(SΛ) + Σ ρᵢⱼ|Λᵢⱼ|, with a duality gap of at most `tol` nats.

    `penalty` is one number for all pairs or a symmetric matrix of them; infinity forces an entry to zero. Diagonal entries
    are penalised only with `penalize_diagonal`. `start` is where to begin: the result for a covariance that differed a
    little, or only its precision; one that is not positive definite is not used. Raises NotSolved if the gap is not reached.
    """
    S = checked_covariance(covariance).copy()
    penalties = penalty_matrix(penalty, len(S), penalize_diagonal)
    _TOL.check("tol", tol)
    first = None if start is None else _checked_start(start, len(S))
    # Diagonal entries are positive, so that penalising them is the same as adding to the variances.
    S[np.diag_indices(len(S))] += penalties.diagonal()
    np.fill_diagonal(penalties, 0.0)
    _refuse_constant_variables(S)
    return _solved_by_blocks(S, penalties, tol, first)


def checked_covariance(covariance: ArrayLike) -> Floats:
    """The covariance as a symmetric array; raises DataError if it is none."""
    return _checked_square(covariance, "covariance", None)


def _checked_square(matrix: ArrayLike, name: str, size: int | None) -> Floats:
    values = attempt(lambda: np.asarray(matrix, dtype=np.float64, order="C"))
    if values is None:
        raise DataError(f"`{name}` is not an array of numbers.", "Give an M × M array.")
    _refuse_other_shapes(values, name, size)
    if not np.isfinite(values).all():
        raise DataError(f"`{name}` holds NaN or infinity.", "Fill or drop missing values before taking moments.")
    if np.array_equal(values, values.T):
        return values
    if np.abs(values - values.T).max() > _ASYMMETRY * np.abs(values).max():
        raise DataError(f"`{name}` is not symmetric.", "Give (A + Aᵀ)/2 if the asymmetry is only rounding.")
    return np.asarray((values + values.T) / 2)


def _refuse_other_shapes(values: Floats, name: str, size: int | None) -> None:
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not len(values):
        raise DataError(f"`{name}` is not a square matrix: its shape is {values.shape}.", "Give an M × M array.")
    if size is not None and len(values) != size:
        raise DataError(
            f"`{name}` has {len(values)} rows, the covariance {size}.", "Give matrices over the same variables."
        )


def _checked_start(start: ArrayLike | GraphicalLassoResult, size: int) -> Start:
    """Where to begin. A result is not looked through as an array is: if it were changed, it could only cost time."""
    if not isinstance(start, GraphicalLassoResult):
        return Start(_checked_square(start, "start", size), None)
    for matrix in (start.precision, start.covariance):
        _refuse_other_shapes(matrix, "start", size)
    return Start(start.precision, start.covariance)


def penalty_matrix(penalty: float | ArrayLike, size: int, penalize_diagonal: bool) -> Floats:
    """One penalty for each entry; zeros on the diagonal unless that is penalised too."""
    given = attempt(lambda: np.asarray(penalty, dtype=np.float64))
    if given is None:
        raise InvalidParameter("`penalty` is neither a number nor a matrix of numbers.", "Give numbers from 0 up.")
    if given.ndim and given.shape != (size, size):
        raise InvalidParameter(
            f"`penalty` has the shape {given.shape}.", f"Give one number or a {size} × {size} matrix."
        )
    if not (given >= 0).all():
        raise InvalidParameter("`penalty` is negative or NaN somewhere.", "Give numbers from 0 up.")
    if given.ndim and not np.array_equal(given, given.T):
        raise InvalidParameter("`penalty` is not symmetric.", "Give the same penalty for (i, j) and (j, i).")
    penalties = np.array(np.broadcast_to(given, (size, size)))
    if not penalize_diagonal:
        np.fill_diagonal(penalties, 0.0)
    elif not np.isfinite(np.diag(penalties)).all():
        raise InvalidParameter("`penalty` is infinite on the diagonal.", "Only pairs can be forced to zero.")
    return penalties


def _refuse_constant_variables(S: Floats) -> None:
    variances = S.diagonal()
    if not (variances > 0).all():
        constant = int(np.flatnonzero(~(variances > 0))[0])
        raise DataError(
            f"Variable {constant} has no variance, so its precision has no bound.",
            "Drop the constant column, or use penalize_diagonal=True with a penalty above zero.",
        )


def _solved_by_blocks(S: Floats, penalties: Floats, tol: float, start: Start | None) -> GraphicalLassoResult:
    """The solution put together from those of the blocks, which share the tolerance by their sizes."""
    from sudare.dictionary.graphical_lasso_newton_kernels import component_labels

    labels = component_labels(S, penalties)
    if not labels.any() and len(S) > 1:
        return _solved(S, penalties, tol, start)
    precision, covariance, gap, n_iter = np.diag(1 / S.diagonal()), np.diag(S.diagonal()), 0.0, 0
    sizes = np.bincount(labels)
    for label in np.flatnonzero(sizes > 1):
        block = np.ix_(*2 * (np.flatnonzero(labels == label),))
        share = tol * sizes[label] / sizes[sizes > 1].sum()
        part = _solved(S[block], penalties[block], share, None if start is None else start.within(block))
        precision[block], covariance[block] = part.precision, part.covariance
        gap, n_iter = gap + part.gap, max(n_iter, part.n_iter)
    return GraphicalLassoResult(precision, covariance, gap, n_iter)


def _solved(S: Floats, penalties: Floats, tol: float, start: Start | None) -> GraphicalLassoResult:
    """The solution of one block, in units in which variances are one: the gap stays, rounding gets smaller.

    S and the penalties are changed to these units.
    """
    from sudare.dictionary.graphical_lasso_newton_kernels import rescale

    deviations = np.sqrt(S.diagonal())
    first = None if start is None else start.standardised(deviations)
    rescale(S, deviations, True)
    rescale(penalties, deviations, True)
    found = _standardised_solution(S, penalties, tol, first)
    if not found.gap <= tol:
        raise NotSolved(
            f"The graphical lasso stopped at a duality gap of {found.gap:.2g} nats; {tol:.2g} was asked for.",
            "Use a larger penalty or tol; without a penalty the covariance must be well conditioned.",
        )
    rescale(found.covariance, deviations, False)
    if not found.n_iter and start and first and np.array_equal(found.precision, first.precision):
        # To other units and back, the last bits of a start that is the answer would change.
        np.copyto(found.precision, start.precision)
    else:
        rescale(found.precision, deviations, True)
    return found


def _standardised_solution(S: Floats, penalties: Floats, tol: float, start: Start | None) -> GraphicalLassoResult:
    """By Newton steps, and by the interior point where these did not get there."""
    from sudare.dictionary.graphical_lasso_interior_point import interior_solution, solvable

    point, gap, steps = newton_solution(S, penalties, tol, start)
    if gap <= tol or not solvable(len(S)):
        return GraphicalLassoResult(point.precision, point.inverse, gap, steps)
    precision, bound, more_steps = interior_solution(S, penalties, tol / 2)
    inside = point_at(S, penalties, precision)
    if inside is not None:
        point, gap, steps = inside, max(inside.objective - bound, 0.0), steps + more_steps
    return GraphicalLassoResult(point.precision, point.inverse, gap, steps)
