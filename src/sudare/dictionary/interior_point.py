"""The graphical lasso by a primal-dual interior-point method: a dozen steps however badly S is conditioned.

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

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_PAIRS: Final = 2600
_MOST_STEPS: Final = 80
_CENTRING: Final = 0.1
_TO_THE_BORDER: Final = 0.95


@dataclass(frozen=True, eq=False)
class _Problem:
    """S and ρ, and the pairs i ≤ j whose entry may differ from zero; vectors are over these pairs."""

    covariance: Floats
    penalty: Floats
    rows: Integers
    columns: Integers

    @property
    def bounds(self) -> Floats:
        return self.penalty[self.rows, self.columns]

    @property
    def halves(self) -> Floats:
        """½ on the diagonal, 1 off it: with these the system is symmetric."""
        return np.where(self.rows == self.columns, 0.5, 1.0)

    def matrix(self, values: Floats) -> Floats:
        """The symmetric matrix with these values at the pairs and zeros elsewhere."""
        full = np.zeros_like(self.covariance)
        full[self.rows, self.columns] = full[self.columns, self.rows] = values
        return full


@dataclass(frozen=True, eq=False)
class _State:
    """Λ, and at the pairs A, B and U. Pairs without a penalty have A = B = U = 0."""

    precision: Floats
    positive: Floats
    negative: Floats
    dual: Floats


def solvable(penalty: Floats) -> bool:
    """Whether the problem is small enough for this method."""
    return int(np.isfinite(penalty[np.triu_indices(len(penalty))]).sum()) <= MOST_PAIRS


def interior_solution(covariance: Floats, penalty: Floats, tolerance: float) -> tuple[Floats, float, int]:
    """Λ with exact zeros, a lower bound of the objective within `tolerance` if it was reached, and the steps taken."""
    rows, columns = np.nonzero(np.triu(np.isfinite(penalty)))
    problem = _Problem(covariance, penalty, rows, columns)
    state = _first_state(problem)
    sparse, bound = state.precision, -math.inf
    for step in range(_MOST_STEPS):
        if _log_det(state.precision) == -math.inf:
            break
        inverse = np.linalg.inv(state.precision)
        inverse = (inverse + inverse.T) / 2
        sparse = _with_exact_zeros(problem, state)
        bound = max(bound, _dual_value(problem, state, inverse))
        if _objective(problem, sparse) - bound <= tolerance:
            return sparse, bound, step
        moved = _moved(problem, state, inverse)
        if moved is None:
            break
        state = moved
    return sparse, bound, _MOST_STEPS


def _first_state(problem: _Problem) -> _State:
    """A ridge inverse of S where all pairs are allowed, else a diagonal; A and B a little away from zero."""
    finite = np.isfinite(problem.penalty)
    precision = np.diag(1 / np.diag(problem.covariance))
    ridged = problem.covariance + float(problem.penalty[finite].mean()) * np.eye(len(finite))
    if finite.all() and _log_det(ridged) > -math.inf:
        inverse = np.linalg.inv(ridged)
        inverse = (inverse + inverse.T) / 2
        precision = inverse if _log_det(inverse) > -math.inf else precision
    values = precision[problem.rows, problem.columns]
    penalised = problem.bounds > 0
    distance = 0.5 * max(float(np.abs(values[penalised]).mean()), 0.01) if penalised.any() else 0.0
    away = np.where(penalised, distance, 0.0)
    return _State(
        precision,
        np.where(penalised, np.maximum(values, 0), 0) + away,
        np.where(penalised, np.maximum(-values, 0), 0) + away,
        np.zeros(len(values)),
    )


def _log_det(matrix: Floats) -> float:
    """ln det, or −∞ if the matrix is not positive definite."""
    factor, failed = lapack.dpotrf(matrix, lower=1)
    return -math.inf if failed else 2 * float(np.log(np.diag(factor)).sum())


def _objective(problem: _Problem, precision: Floats) -> float:
    values = precision[problem.rows, problem.columns]
    linear = np.where(problem.rows == problem.columns, 1, 2) * (
        problem.covariance[problem.rows, problem.columns] * values + problem.bounds * np.abs(values)
    )
    return float(linear.sum()) - _log_det(precision)


def _dual_value(problem: _Problem, state: _State, inverse: Floats) -> float:
    """ln det(S + U) + M; where Λ must be zero, U is free and taken so that S + U is Λ⁻¹ there."""
    dual = np.where(np.isfinite(problem.penalty), problem.covariance + problem.matrix(state.dual), inverse)
    return _log_det(dual) + len(dual)


def _with_exact_zeros(problem: _Problem, state: _State) -> Floats:
    """Λ with zeros where its entry, as a partial correlation, is smaller than what |U| lacks to ρ, as a share of ρ."""
    values = state.precision[problem.rows, problem.columns]
    scale = np.sqrt(np.diag(state.precision))
    correlation = np.abs(values) / (scale[problem.rows] * scale[problem.columns])
    bounds = problem.bounds
    zero = (bounds > 0) & (correlation * bounds < bounds - np.abs(state.dual))
    return problem.matrix(np.where(zero, 0.0, values))


def _moved(problem: _Problem, state: _State, inverse: Floats) -> _State | None:
    """One step; None if the system can no longer be solved."""
    rows, columns, halves = problem.rows, problem.columns, problem.halves
    penalised = problem.bounds > 0
    above, below = problem.bounds - state.dual, problem.bounds + state.dual
    product = (state.positive * above + state.negative * below)[penalised]
    aim = _CENTRING * float(product.mean()) / 2 if len(product) else 0.0
    safe_above, safe_below = np.where(penalised, above, 1.0), np.where(penalised, below, 1.0)
    to_positive = np.where(penalised, aim / safe_above - state.positive, 0.0)
    to_negative = np.where(penalised, aim / safe_below - state.negative, 0.0)
    values = state.precision[rows, columns]
    shift = np.where(penalised, to_positive - to_negative + (state.positive - state.negative) - values, 0.0)
    spread = state.positive / safe_above + state.negative / safe_below
    stiffness = np.where(penalised, 1 / np.where(penalised, spread, 1.0), 0.0)
    residual = problem.covariance[rows, columns] - inverse[rows, columns] + state.dual
    right = halves * (shift * stiffness - residual)
    system = _system(inverse, rows, columns, halves)
    system[np.diag_indices(len(rows))] += stiffness
    factor, failed = lapack.dpotrf(system.T, lower=1, clean=0, overwrite_a=1)
    if failed or not np.isfinite(right).all():
        return None
    change, _ = lapack.dpotrs(factor, right, lower=1)
    dual = (change - shift) * stiffness
    positive = np.where(penalised, to_positive + state.positive / safe_above * dual, 0.0)
    negative = np.where(penalised, to_negative - state.negative / safe_below * dual, 0.0)
    full_change = problem.matrix(change)
    primal_length = min(
        _room(state.positive, positive), _room(state.negative, negative), _room_inside(state.precision, full_change)
    )
    dual_length = min(_room(above, -dual), _room(below, dual))
    return replace(
        state,
        precision=state.precision + primal_length * full_change,
        positive=state.positive + primal_length * positive,
        negative=state.negative + primal_length * negative,
        dual=state.dual + dual_length * dual,
    )


def _system(inverse: Floats, rows: Integers, columns: Integers, halves: Floats) -> Floats:
    """The matrix of D ↦ WDW over the pairs, symmetric by halving the rows and columns of diagonal entries."""
    by_row, by_column = inverse[rows], inverse[columns]
    system = by_row[:, rows] * by_column[:, columns]
    system += by_row[:, columns] * by_column[:, rows]
    system *= halves
    system *= halves[:, np.newaxis]
    return np.asarray(system)


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
