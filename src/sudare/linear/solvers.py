"""Minimising a summed loss with a penalty and a linear term, to an accuracy that is certified, without ever failing.

The objective is Σ loss(xᵢᵀθ, yᵢ) + (ρ/2)‖θ‖² + bᵀθ. It is ρ-strongly convex, so a point whose true gradient has norm γ is
within γ/ρ of the minimiser. Rounding in the evaluation of the gradient is bounded rigorously (proofs/objective.md) and
counted into γ. Newton's steps are quick, but whether they arrive depends on the rows. Where they do not, accelerated gradient
steps follow, whose number is public and which arrive for every table (proofs/solver.md): a solver that gave up would tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack
from scipy.sparse.linalg import LinearOperator, cg

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.frames.rows import BLOCK_ROWS, Rows
from sudare.linear.losses import Loss

UNIT_ROUNDOFF: Final = 2.0**-53
_MOST_STEPS: Final = 400
_LARGEST_CHOLESKY: Final = 1500
_PILOT_BLOCKS: Final = 5
_LEAST_BLOCKS_FOR_PILOT: Final = 12
_MOST_CONJUGATE_STEPS: Final = 250
# A penalty that would need more accelerated steps than this in the worst case is refused before anything is charged.
MOST_ACCELERATED_STEPS: Final = 2**24
# So often the accelerated steps look whether they have arrived earlier than they had to.
_STEPS_BETWEEN_LOOKS: Final = 64
# γ is at least so many times the error that rounding can cause in a step's gradient.
ROUNDING_MARGIN: Final = 4.0


@dataclass(frozen=True, eq=False)
class Objective:
    """Σ loss + (penalty/2)‖θ‖² + linearᵀθ over rows whose norms are at most `norm_bound`; `output` is the target column."""

    rows: Rows
    loss: Loss
    penalty: float
    linear: Floats
    norm_bound: float
    output: int = 0

    @cached_property
    def linear_norm(self) -> float:
        """Norm of the linear term."""
        return norm(self.linear)


@dataclass(frozen=True)
class Minimum:
    """A point and a bound on the true gradient's norm there."""

    parameters: Floats
    gradient_bound: float
    steps: int


class _Evaluated(NamedTuple):
    gradient: Floats
    size: float
    hessian: Floats | None


def norm(vector: Floats) -> float:
    """Euclidean norm."""
    return math.sqrt(vector.dot(vector))


def evaluated(objective: Objective, parameters: Floats, hessian: bool, blocks: int | None = None) -> _Evaluated:
    """Gradient and perhaps Hessian (its upper triangle), in one pass over the rows or over the first blocks.

    A pass over a part counts each of its rows for as many as it stands for.
    """
    of_block = partial(_derivatives, objective.loss, objective.output, parameters, hessian)
    weight, first_rows = _part(objective, blocks)
    sums = objective.rows.total(of_block, first_rows=first_rows)
    gradient, matrix = sums.gradient, sums.hessian
    if weight > 1:
        gradient, matrix = weight * gradient, None if matrix is None else weight * matrix
    gradient += objective.penalty * parameters
    gradient += objective.linear
    if matrix is not None:
        matrix.ravel(order="K")[:: len(parameters) + 1] += objective.penalty
    return _Evaluated(gradient, norm(gradient), matrix)


@dataclass(frozen=True, eq=False)
class _Derivatives:
    gradient: Floats
    hessian: Floats | None

    def __add__(self, other: _Derivatives) -> _Derivatives:
        hessian = None if self.hessian is None or other.hessian is None else self.hessian + other.hessian
        return _Derivatives(self.gradient + other.gradient, hessian)


def _derivatives(
    loss: Loss, output: int, parameters: Floats, hessian: bool, all_rows: Floats, targets: Floats
) -> _Derivatives:
    """The sums over some rows, which are added a thousand at a time."""
    width = len(parameters)
    gradient = np.zeros(width)
    matrix = np.zeros((width, width), order="F") if hessian else None
    for start in range(0, len(all_rows), BLOCK_ROWS):
        rows, target = all_rows[start : start + BLOCK_ROWS], targets[start : start + BLOCK_ROWS, output]
        scores = rows.dot(parameters)
        if matrix is None:
            slopes = loss.slope(scores, target)
        else:
            slopes, curvatures = loss.derivatives(scores, target)
            weighted = rows * np.sqrt(curvatures)[:, np.newaxis]
            matrix = blas.dsyrk(1.0, weighted.T, beta=1.0, c=matrix, overwrite_c=1)
        gradient += slopes.dot(rows)
    return _Derivatives(gradient, matrix)


def _part(objective: Objective, blocks: int | None) -> tuple[float, int | None]:
    """How many rows each one stands for in a pass over the first blocks, and how many those are; None is all."""
    count = objective.rows.count
    first_rows = None if blocks is None else min(blocks * BLOCK_ROWS, count)
    return count / (count if first_rows is None else first_rows), first_rows


def valued(objective: Objective, parameters: Floats, blocks: int | None = None) -> float:
    """The objective's value, in one pass over the rows or over the first blocks."""
    weight, first_rows = _part(objective, blocks)
    value = objective.rows.total(partial(_value, objective.loss, objective.output, parameters), first_rows=first_rows)
    ridge = 0.5 * objective.penalty * float(parameters @ parameters)
    return weight * value + ridge + float(objective.linear @ parameters)


def _value(loss: Loss, output: int, parameters: Floats, all_rows: Floats, targets: Floats) -> float:
    value = 0.0
    for start in range(0, len(all_rows), BLOCK_ROWS):
        rows, target = all_rows[start : start + BLOCK_ROWS], targets[start : start + BLOCK_ROWS, output]
        value += float(np.sum(loss.value(rows @ parameters, target)))
    return value


def rounding_bound(
    rows: int,
    width: int,
    loss: Loss,
    norm_bound: float,
    penalty: float,
    parameters_norm: float,
    linear_norm: float,
) -> float:
    """A bound on the norm of the rounding error in a full pass's gradient. Proof: proofs/objective.md."""
    inner = loss.largest_curvature * (width + 2) * norm_bound * parameters_norm + 8 * loss.largest_slope
    summing = (min(BLOCK_ROWS, rows) + rows / BLOCK_ROWS + 6) * loss.largest_slope
    total = rows * norm_bound * (inner + summing) + 6 * penalty * parameters_norm + 6 * linear_norm
    return 1.01 * UNIT_ROUNDOFF * total


def gradient_bound(objective: Objective, parameters: Floats, gradient_norm: float) -> float:
    """A bound on the true gradient's norm from the computed one's."""
    rows, widened = objective.rows, 1 + 2.0**-40
    return gradient_norm * widened + rounding_bound(
        rows.count,
        rows.width,
        objective.loss,
        objective.norm_bound,
        objective.penalty,
        norm(parameters) * widened,
        objective.linear_norm * widened,
    )


@dataclass(frozen=True)
class WorstCase:
    """How accelerated gradient steps converge for every table with these public facts. Proof: proofs/solver.md.

    `linear_norm` bounds the norm of the linear term.
    """

    rows: int
    width: int
    norm_bound: float
    loss: Loss
    penalty: float
    linear_norm: float = 0.0

    @cached_property
    def momentum_rate(self) -> float:
        """q = √(ρ/M), rounded down, where no curvature is above M = ncR² + ρ."""
        stiffest = self.rows * self.loss.largest_curvature * self.norm_bound**2 + self.penalty
        return math.sqrt(self.penalty / stiffest) * (1 - 2.0**-40)

    @cached_property
    def stiffness(self) -> float:
        """M = ρ/q²."""
        return self.penalty / self.momentum_rate**2 * (1 + 2.0**-40)

    @cached_property
    def height(self) -> float:
        """F = nℓ(0) + ‖b‖²/2ρ: the value at zero is no more than this above the minimum."""
        at_zero = self.rows * self.loss.value_at_zero
        return (at_zero + self.linear_norm * self.linear_norm / (2 * self.penalty)) * (1 + 2.0**-40)

    @cached_property
    def farthest(self) -> float:
        """A bound on the norm of the minimiser and of every point that the steps visit."""
        return 3.5 * math.sqrt(self.height / self.penalty)

    @cached_property
    def gradient_error(self) -> float:
        """A bound on what all rounding of a step amounts to, as an error of its gradient."""
        evaluation = rounding_bound(
            self.rows, self.width, self.loss, self.norm_bound, self.penalty, self.farthest, self.linear_norm
        )
        return evaluation + 64 * UNIT_ROUNDOFF * self.stiffness * self.farthest

    @property
    def least_tolerance(self) -> float:
        """The smallest γ for which the steps are proved to come within γ/ρ of the minimiser."""
        return ROUNDING_MARGIN * self.gradient_error

    @property
    def least_gradient(self) -> float:
        """The smallest Γ for which plain gradient steps after the accelerated ones are proved to meet a gradient certified to be at most Γ."""
        return 2 * self.least_tolerance

    @property
    def plain_steps(self) -> int:
        """M/ρ: so many plain gradient steps follow where a small gradient is wanted."""
        return math.ceil(1 / self.momentum_rate**2)

    def steps(self, tolerance: float) -> int:
        """The number of steps after which the last point is within tolerance/ρ of the minimiser. Raise InvalidParameter where nobody would wait for them.

        Also where rounding could be larger than what the steps are about, which needs a penalty next to nothing.
        """
        needed = self._steps_needed(tolerance)
        if not needed <= MOST_ACCELERATED_STEPS:
            larger = (replace(self, penalty=self.penalty * 2.0**times) for times in range(1, 300))
            enough = (one.penalty for one in larger if one._steps_needed(tolerance) <= MOST_ACCELERATED_STEPS)
            raise InvalidParameter(
                "The regularization is too small for this loss: that a solver arrives cannot be certified for every table.",
                f"Use a regularization of at least {next(enough, math.inf) / self.rows:.2g}, or a smoother loss.",
            )
        return math.ceil(needed)

    def _steps_needed(self, tolerance: float) -> float:
        error = self.gradient_error
        if not (3 * error * error <= 2 * self.height * self.penalty and error <= self.stiffness * self.farthest):
            return math.inf
        ratio = 6.5 * self.height * self.penalty / (tolerance * tolerance)
        return 1 + 2 / self.momentum_rate * max(0.0, math.log(ratio) + 1e-9)


def solved(objective: Objective, tolerance: float, steps: int) -> Floats:
    """A point within tolerance/ρ of the minimiser: where Newton's steps end if that is certified, else after accelerated ones.

    `tolerance` is at least `WorstCase.least_tolerance`, and `steps` what `WorstCase.steps` says for it.
    """
    return _solved(objective, tolerance, steps).parameters


def solved_gradient(objective: Objective, tolerance: float, worst: WorstCase) -> Minimum:
    """A point whose gradient is certified to be at most `tolerance`, which is at least `WorstCase.least_gradient`."""
    found = _solved(objective, tolerance, worst.steps(tolerance / 2))
    if found.gradient_bound <= tolerance:
        return found
    return _descended_plainly(objective, found, worst, tolerance)


def _solved(objective: Objective, tolerance: float, steps: int) -> Minimum:
    found = minimised(objective, tolerance)
    if found.gradient_bound <= tolerance:
        return found
    return accelerated(objective, tolerance, steps)


def _descended_plainly(objective: Objective, start: Minimum, worst: WorstCase, tolerance: float) -> Minimum:
    """Returns the first point of plain gradient descent whose gradient is certified to be at most `tolerance`, or the last; steps are counted on."""
    place, step = start.parameters, worst.momentum_rate**2 / objective.penalty
    for done in range(worst.plain_steps + 1):
        here = evaluated(objective, place, hessian=False)
        bound = gradient_bound(objective, place, here.size)
        if bound <= tolerance or done == worst.plain_steps:
            break
        place = place - step * here.gradient
    return Minimum(place, bound, start.steps + done)


def accelerated(objective: Objective, tolerance: float, steps: int) -> Minimum:
    """Returns the point after `steps` of Nesterov's steps from zero, or after fewer where the gradient is certified to be at most `tolerance` earlier."""
    rows, width = objective.rows, len(objective.linear)
    worst = WorstCase(rows.count, rows.width, objective.norm_bound, objective.loss, objective.penalty)
    low, high = np.zeros(width), np.zeros(width)

    def gradient(place: Floats) -> Floats:
        return evaluated(objective, place, hessian=False).gradient

    for done in range(1, steps + 1):
        step = nesterov_step(gradient, low, high, objective.penalty, worst.momentum_rate)
        low, high = step.low, step.high
        if done % _STEPS_BETWEEN_LOOKS == 0 and norm(step.gradient) <= tolerance:
            bound = gradient_bound(objective, step.place, norm(step.gradient))
            if bound <= tolerance:
                return Minimum(step.place, bound, done)
    size = evaluated(objective, low, hessian=False).size
    return Minimum(low, gradient_bound(objective, low, size), steps)


class Accelerated(NamedTuple):
    """An accelerated step: where the gradient was looked at, the gradient there, and the two sequences after it.

    The first of them, `low`, comes near the minimiser.
    """

    place: Floats
    gradient: Floats
    low: Floats
    high: Floats


def nesterov_step(
    gradient: Callable[[Floats], Floats], low: Floats, high: Floats, convexity: float, rate: float
) -> Accelerated:
    """The step from two sequences of points, for rate √(m/M), m being the strong convexity and M the smoothness.

    Nesterov (2018), scheme 2.2.22, as an average of the two; proofs/solver.md bounds what rounding does to it.
    """
    place = 1 / (1 + rate) * low + rate / (1 + rate) * high
    slope = gradient(place)
    after = high + rate * ((place - high) - slope / convexity)
    return Accelerated(place, slope, place - rate * rate / convexity * slope, after)


def minimised(objective: Objective, tolerance: float) -> Minimum:
    """A minimiser with a gradient bound at most `tolerance` where Newton's steps reach it; the bound says whether they did.

    Newton steps with a Cholesky factor (conjugate gradients when there are many columns). A factor is used again as long as
    its steps shrink the gradient quickly. With many rows a first guess comes from the first of them.
    """
    parameters = _first_guess(objective)
    if objective.rows.count >= _LEAST_BLOCKS_FOR_PILOT * BLOCK_ROWS and len(parameters) <= _LARGEST_CHOLESKY:
        parameters = _descended(objective, parameters, tolerance, _PILOT_BLOCKS).parameters
    return _descended(objective, parameters, tolerance, None)


def _first_guess(objective: Objective) -> Floats:
    """The minimiser if the rows lay evenly in all directions, pulled nowhere, and had half of the largest curvature."""
    rows = objective.rows
    curvature = objective.loss.largest_curvature * objective.norm_bound**2 * rows.count / (2 * rows.width)
    return objective.linear / -(objective.penalty + curvature)


def _descended(objective: Objective, start: Floats, tolerance: float, blocks: int | None) -> Minimum:
    by_cholesky = len(start) <= _LARGEST_CHOLESKY
    # With few rows a Hessian costs little more than a pass, so every pass brings one but that which should be the last.
    always = by_cholesky and objective.rows.count <= BLOCK_ROWS
    place, factor, steps = start, None, 0
    here = evaluated(objective, place, hessian=by_cholesky, blocks=blocks)
    # A first guess from a part of the rows needs no more than the accuracy of that part.
    enough = 0.0 if blocks is None else 1e-2 * here.size
    contraction, smallest = 1.0, here.size
    while here.size > enough and steps < _MOST_STEPS:
        if here.size <= tolerance and gradient_bound(objective, place, here.size) <= tolerance:
            break
        if here.hessian is not None:
            factor = lapack.dpotrf(here.hessian, overwrite_a=1)[0]
        if factor is not None:
            direction = -lapack.dpotrs(factor, here.gradient)[0]
        else:
            direction = _conjugate_direction(objective, place, here.gradient)
        # Close to the minimum each step of Newton's squares the factor by which the one before shrank the gradient.
        hessian = always and here.size * contraction**2 > tolerance
        smallest = min(smallest, here.size)
        following, length = _line_search(objective, place, here, direction, smallest, blocks, hessian)
        if following is None:
            break
        place, steps = place + length * direction, steps + 1
        if by_cholesky and not always and following.size > 0.1 * here.size:
            following = evaluated(objective, place, hessian=True, blocks=blocks)
        contraction, here = following.size / here.size, following
    return Minimum(place, gradient_bound(objective, place, here.size), steps)


def _line_search(
    objective: Objective,
    place: Floats,
    here: _Evaluated,
    direction: Floats,
    smallest: float,
    blocks: int | None,
    hessian: bool,
) -> tuple[_Evaluated | None, float]:
    """The first halving of the step that halves the smallest gradient there was so far, or else lowers the value enough.

    A gradient can be halved only so often; between such steps values fall. So no loss makes the steps cycle.
    """
    length = 1.0
    value: float | None = None
    for _ in range(60):
        goal = place + length * direction
        there = evaluated(objective, goal, hessian=hessian, blocks=blocks)
        if there.size <= 0.5 * smallest:
            return there, length
        value = valued(objective, place, blocks) if value is None else value
        descent = length * float(here.gradient @ direction)
        if valued(objective, goal, blocks) <= value + 1e-4 * descent:
            return there, length
        length /= 2
    return None, 0.0


def _conjugate_direction(objective: Objective, place: Floats, gradient: Floats) -> Floats:
    """A Newton direction by conjugate gradients, as accurate as the gradient's size asks for."""

    def hessian_product(vector: Floats) -> Floats:
        of_block = partial(_hessian_product, objective.loss, objective.output, place, vector)
        return objective.penalty * vector + objective.rows.total(of_block)

    hessian = LinearOperator((len(place), len(place)), matvec=hessian_product, dtype=np.float64)
    accuracy = min(0.1, math.sqrt(norm(gradient)))
    return np.asarray(cg(hessian, -gradient, rtol=accuracy, maxiter=_MOST_CONJUGATE_STEPS)[0])


def _hessian_product(
    loss: Loss, output: int, place: Floats, vector: Floats, all_rows: Floats, targets: Floats
) -> Floats:
    product = np.zeros(len(vector))
    for start in range(0, len(all_rows), BLOCK_ROWS):
        rows, target = all_rows[start : start + BLOCK_ROWS], targets[start : start + BLOCK_ROWS, output]
        product += (loss.curvature(rows @ place, target) * (rows @ vector)) @ rows
    return product
