"""The graphical lasso by a primal-dual interior-point method: few steps, however nearly variables determine each other.

Off the diagonal Λ = A − B with A, B ≥ 0 and slacks ρ − U, ρ + U ≥ 0; a solution has Λ⁻¹ = S + U, A(ρ − U) = 0 and
B(ρ + U) = 0. Each step solves the linearised conditions with the zeros replaced by a falling number. The system has one
unknown for each pair of variables and is factored directly, which limits the number of variables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh, lapack, solve_triangular

from sudare.array_types import Floats, Integers

MOST_PAIRS: Final = 2600
_MOST_STEPS: Final = 80
_CENTRING: Final = 0.1
_TO_THE_BORDER: Final = 0.95
_MORE_ON_THE_DIAGONAL: Final = (0.0, 1e-14, 1e-12)
_LARGEST_RIDGE: Final = 1e-3
_SMALLEST_RIDGE: Final = 1e-10


@dataclass(frozen=True, eq=False)
class _Problem:
    """S and ρ over the pairs i ≤ j, as are all vectors here, and which entries must be zero."""

    size: int
    rows: Integers
    columns: Integers
    covariances: Floats
    bounds: Floats
    must_be_zero: NDArray[np.bool_]

    @property
    def halves(self) -> Floats:
        """½ on the diagonal, 1 off it: with these the system is symmetric."""
        return np.where(self.rows == self.columns, 0.5, 1.0)

    def matrix(self, values: Floats) -> Floats:
        """The symmetric matrix with these values."""
        full = np.empty((self.size, self.size))
        full[self.rows, self.columns] = full[self.columns, self.rows] = values
        return full


@dataclass(frozen=True, eq=False)
class _State:
    """Λ, and at the pairs A, B, and the slacks ρ − U above and ρ + U below; all zero for pairs without a penalty.

    The slacks are kept rather than U, because close to zero they are exact.
    """

    precision: Floats
    positive: Floats
    negative: Floats
    above: Floats
    below: Floats

    @property
    def dual(self) -> Floats:
        """U."""
        return (self.below - self.above) / 2


def solvable(size: int) -> bool:
    """Whether the problem is small enough for this method."""
    return size * (size + 1) // 2 <= MOST_PAIRS


def interior_solution(covariance: Floats, penalty: Floats, tol: float) -> tuple[Floats, float, int]:
    """Λ with exact zeros, a lower bound of the objective within `tol` if it was reached, and the steps taken.

    All variances must be one.
    """
    problem = _problem(covariance, penalty)
    state = _first_state(problem)
    sparse, bound, steps = state.precision, -math.inf, 0
    # Where there is no solution, numbers grow until they overflow, and the bound stays far.
    with np.errstate(all="ignore"):
        while steps < _MOST_STEPS and _log_det(state.precision) > -math.inf:
            sparse = _with_exact_zeros(problem, state)
            bound = max(bound, _dual_value(problem, state))
            if _objective(problem, sparse) - bound <= tol:
                break
            moved = _moved(problem, state)
            if moved is None:
                break
            state, steps = moved, steps + 1
    return sparse, bound, steps


def _problem(covariance: Floats, penalty: Floats) -> _Problem:
    """The problem with large and infinite penalties lowered to 1 + |S|, which changes nothing.

    The diagonal of Λ⁻¹ is that of S, ones, so that |Λ⁻¹ − S| < 1 + |S|; and where that is less than ρ, Λ is zero.
    """
    rows, columns = np.triu_indices(len(covariance))
    covariances, bounds = covariance[rows, columns], penalty[rows, columns]
    enough = 1 + np.abs(covariances)
    return _Problem(len(covariance), rows, columns, covariances, np.minimum(bounds, enough), bounds >= enough)


def _first_state(problem: _Problem) -> _State:
    """The inverse of S with a small ridge, because Λ falls faster than it rises; A and B so that all products are alike."""
    penalised = problem.bounds > 0
    ridge = max(float(problem.bounds[penalised].min(initial=_LARGEST_RIDGE)), _SMALLEST_RIDGE)
    precision = np.linalg.inv(problem.matrix(problem.covariances) + ridge * np.eye(problem.size))
    precision = (precision + precision.T) / 2
    if _log_det(precision) == -math.inf:
        precision = np.eye(problem.size)
    values = precision[problem.rows, problem.columns]
    products = problem.bounds * np.maximum(np.abs(values), 0.01)
    away = np.where(penalised, products.mean() / np.where(penalised, problem.bounds, 1.0), 0.0)
    return _State(
        precision,
        np.where(penalised, np.maximum(values, 0), 0) + away,
        np.where(penalised, np.maximum(-values, 0), 0) + away,
        problem.bounds,
        problem.bounds,
    )


def _log_det(matrix: Floats) -> float:
    """ln det, or −∞ if the matrix is not positive definite."""
    factor, failed = lapack.dpotrf(matrix, lower=1)
    return -math.inf if failed else 2 * float(np.log(np.diag(factor)).sum())


def _objective(problem: _Problem, precision: Floats) -> float:
    values = precision[problem.rows, problem.columns]
    weights = np.where(problem.rows == problem.columns, 1, 2)
    return float((weights * (problem.covariances * values + problem.bounds * np.abs(values))).sum()) - _log_det(
        precision
    )


def _dual_value(problem: _Problem, state: _State) -> float:
    """ln det(S + U) + M."""
    feasible = np.clip(state.dual, -problem.bounds, problem.bounds)
    return _log_det(problem.matrix(problem.covariances + feasible)) + problem.size


def _with_exact_zeros(problem: _Problem, state: _State) -> Floats:
    """Λ with zeros where its entry, as a partial correlation, is smaller than what |U| lacks to ρ, as a share of ρ."""
    values = state.precision[problem.rows, problem.columns]
    scale = np.sqrt(np.diag(state.precision))
    correlations = np.abs(values) / (scale[problem.rows] * scale[problem.columns])
    zero = correlations * problem.bounds < np.minimum(state.above, state.below)
    return problem.matrix(np.where(zero | problem.must_be_zero, 0.0, values))


def _moved(problem: _Problem, state: _State) -> _State | None:
    """One step; None if the system can no longer be solved."""
    inverse = np.asarray(np.linalg.inv(state.precision), dtype=np.float64)
    rows, columns, halves = problem.rows, problem.columns, problem.halves
    penalised = problem.bounds > 0
    product = (state.positive * state.above + state.negative * state.below)[penalised]
    aim = _CENTRING * float(product.mean()) / 2 if len(product) else 0.0
    safe_above, safe_below = np.where(penalised, state.above, 1.0), np.where(penalised, state.below, 1.0)
    to_positive = np.where(penalised, aim / safe_above - state.positive, 0.0)
    to_negative = np.where(penalised, aim / safe_below - state.negative, 0.0)
    values = state.precision[rows, columns]
    shift = np.where(penalised, to_positive - to_negative + (state.positive - state.negative) - values, 0.0)
    spread = state.positive / safe_above + state.negative / safe_below
    stiffness = np.where(penalised, 1 / np.where(penalised, spread, 1.0), 0.0)
    residual = problem.covariances - (inverse[rows, columns] + inverse[columns, rows]) / 2 + state.dual
    right = halves * (shift * stiffness - residual)
    system = _system(inverse, rows, columns, halves)
    system[np.diag_indices(len(rows))] += stiffness
    change = _solution(system, right)
    if change is None:
        return None
    dual = (change - shift) * stiffness
    positive = np.where(penalised, to_positive + state.positive / safe_above * dual, 0.0)
    negative = np.where(penalised, to_negative - state.negative / safe_below * dual, 0.0)
    full_change = problem.matrix(change)
    primal_length = min(
        _room(state.positive, positive), _room(state.negative, negative), _room_inside(state.precision, full_change)
    )
    dual_length = min(_room(state.above, -dual), _room(state.below, dual))
    return replace(
        state,
        precision=state.precision + primal_length * full_change,
        positive=state.positive + primal_length * positive,
        negative=state.negative + primal_length * negative,
        above=state.above - dual_length * dual,
        below=state.below + dual_length * dual,
    )


def _system(inverse: Floats, rows: Integers, columns: Integers, halves: Floats) -> Floats:
    """The matrix of D ↦ WDW over the pairs, symmetric by halving the rows and columns of diagonal entries."""
    by_row, by_column = inverse[rows], inverse[columns]
    system = by_row[:, rows] * by_column[:, columns]
    system += by_row[:, columns] * by_column[:, rows]
    system *= halves
    system *= halves[:, np.newaxis]
    return np.asarray(system)


def _solution(system: Floats, right: Floats) -> Floats | None:
    """The solution of a positive definite system, with a little more on the diagonal if rounding made it indefinite."""
    diagonal = np.diag_indices(len(system))
    for share in _MORE_ON_THE_DIAGONAL:
        system[diagonal] *= 1 + share
        factor, failed = lapack.dpotrf(system.T, lower=1, clean=0)
        if not failed:
            solution = np.asarray(lapack.dpotrs(factor, right, lower=1)[0])
            return solution if np.isfinite(solution).all() else None
    return None


def _room(values: Floats, change: Floats) -> float:
    """How much of a change keeps all values positive, at most 1."""
    falling = change < 0
    return min(1.0, float((_TO_THE_BORDER * values[falling] / -change[falling]).min(initial=1.0)))


def _room_inside(precision: Floats, change: Floats) -> float:
    """How much of a change keeps Λ positive definite, at most 1."""
    factor = np.linalg.cholesky(precision)
    half = solve_triangular(factor, change, lower=True)
    whole = solve_triangular(factor, half.T, lower=True)
    smallest = float(eigvalsh((whole + whole.T) / 2, subset_by_index=[0, 0])[0])
    return min(1.0, _TO_THE_BORDER / -smallest) if smallest < 0 else 1.0
