"""Newton steps of the graphical lasso, as in QUIC (Hsieh et al. 2014), for variances of one.

The smooth part is replaced by its quadratic model, the model with the penalty is minimised over the entries that are free
to move, and a line search keeps Λ positive definite. Near the solution, where the signs are settled, the model is mostly
a linear system and is solved as one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sudare.array_types import Floats

_MOST_STEPS: Final = 30
_TRUSTING_STEPS: Final = 10
_SMALLEST_STEP: Final = 2.0**-40
_SUFFICIENT_DECREASE: Final = 1e-3
_NEAR: Final = 0.05
# Single precision does not do where others explain more than 99% of a variable.
_MOST_INFLATION: Final = 100.0
_INACCURACY: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Start:
    """A Λ to begin from, with what is said to be its inverse, if anything is."""

    precision: Floats
    inverse: Floats | None

    def within(self, block: tuple[NDArray[np.int64], ...]) -> Start:
        """The part for some of the variables."""
        return Start(self.precision[block], None if self.inverse is None else self.inverse[block])

    def standardised(self, deviations: Floats) -> Start:
        """In units in which the variances are one."""
        from sudare.dictionary.graphical_lasso_newton_kernels import rescale

        start = Start(self.precision.copy(), None if self.inverse is None else self.inverse.copy())
        rescale(start.precision, deviations, False)
        if start.inverse is not None:
            rescale(start.inverse, deviations, True)
        return start

    @property
    def has_inverse(self) -> bool:
        """Whether ΛW = 1, as far as one product shows: a wrong W could only cost time."""
        if self.inverse is None:
            return False
        probe = np.cos(np.arange(len(self.precision)))
        return bool(np.abs(self.precision @ (self.inverse @ probe) - probe).max() <= _INACCURACY)


@dataclass(frozen=True, eq=False)
class Point:
    """A positive definite Λ with its inverse and its objective."""

    precision: Floats
    inverse: Floats
    objective: float


def newton_solution(S: Floats, penalties: Floats, tol: float, start: Start | None) -> tuple[Point, float, int]:
    """Returns the point that Newton steps lead to, its duality gap, which bounds how far from the solution it is, and the number of steps."""
    from sudare.dictionary.graphical_lasso_newton_kernels import newton_target

    point, steps = _begun(S, penalties, tol, start)
    bound, near = -math.inf, _NEAR
    while True:
        bound = max(bound, lower_bound(S, penalties, point))
        gap = max(point.objective - bound, 0.0)
        if gap <= tol or steps >= _MOST_STEPS:
            break
        if gap <= near:
            settled, taken = _settled(S, penalties, min(tol, gap / 4), point.precision, point.inverse)
            # To be tried again these steps must have been worth it.
            near = gap / 10
            if settled is not None and settled.objective < point.objective:
                point, steps = settled, steps + taken
                continue
        # Far from the solution the model is poor and its minimum not worth much; near it steps converge quadratically.
        accuracy = min(0.03, max(0.1 * gap, 1e-3))
        # After many steps sweeps are not to be trusted: they can be fast for a while and then slow.
        slow = 0.7 if steps < _TRUSTING_STEPS else 0.0
        target = newton_target(S, penalties, point.precision, point.inverse, accuracy, slow)
        moved = _line_search(S, penalties, point, target)
        if moved is None:
            break
        point = moved
        steps += 1
    return point, gap, steps


def _begun(S: Floats, penalties: Floats, tol: float, start: Start | None) -> tuple[Point, int]:
    """Where to begin, and how many steps led there: from near the solution all that are needed."""
    if start is None:
        return _first_point(S, penalties, None), 0
    if start.inverse is not None and start.has_inverse:
        point, precision, inverse = None, start.precision, start.inverse
    else:
        point = _first_point(S, penalties, start.precision)
        precision, inverse = point.precision, point.inverse
    settled, taken = _settled(S, penalties, tol, precision, inverse)
    if settled is not None:
        return settled, taken
    return point or _first_point(S, penalties, start.precision), 0


def _settled(S: Floats, penalties: Floats, tol: float, precision: Floats, inverse: Floats) -> tuple[Point | None, int]:
    """Where steps near the solution lead, and how many; None if Λ is not near it, or needs none.

    Near it a step makes the duality gap to expect a tenth of what it was or less; the caller sees whether it came true.
    """
    from sudare.dictionary.graphical_lasso_newton_kernels import Room, settled_target

    if not float((precision.diagonal() * inverse.diagonal()).max()) <= _MOST_INFLATION:
        return None, 0
    point, steps, limit, expected = None, 0, _NEAR, math.inf
    room = Room(*(np.empty(S.shape, np.float32) for _ in Room._fields))
    while expected > tol:
        target, here, expected = settled_target(S, penalties, precision, inverse, room, limit, tol)
        if not (tol < here <= limit and expected <= max(here / 10, tol)):
            break
        moved = point_at(S, penalties, target)
        if moved is None:
            break
        point, precision, inverse = moved, moved.precision, moved.inverse
        steps, limit = steps + 1, here / 2
    return point, steps


def _first_point(S: Floats, penalties: Floats, start: Floats | None) -> Point:
    """The given start if it can be used, else the solution without any pair."""
    point = None if start is None else point_at(S, penalties, np.where(np.isinf(penalties), 0.0, start))
    if point is not None:
        return point
    variances = S.diagonal()
    return Point(np.diag(1 / variances), np.diag(variances), len(S) + float(np.log(variances).sum()))


def point_at(S: Floats, penalties: Floats, precision: Floats) -> Point | None:
    """Λ with its inverse and objective, or None if it is not positive definite."""
    from sudare.dictionary.graphical_lasso_newton_kernels import linear_and_penalty, mirrored

    # The transpose of a symmetric matrix is in the order that LAPACK wants.
    factor, failed = lapack.dpotrf(precision.T, lower=1, clean=0)
    if failed:
        return None
    log_det = _log_det(factor)
    half, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    objective = linear_and_penalty(S, penalties, precision) - log_det
    if failed or not math.isfinite(objective):
        return None
    return Point(precision, mirrored(half.T), objective)


def _log_det(factor: Floats) -> float:
    """ln det of a matrix from its Cholesky factor."""
    return 2 * float(np.log(factor.diagonal()).sum())


def _line_search(S: Floats, penalties: Floats, point: Point, target: Floats) -> Point | None:
    """The first of 1, ½, ¼, … of the way that lowers the objective enough, or None if none does."""
    from sudare.dictionary.graphical_lasso_newton_kernels import slope_towards

    slope = slope_towards(S, penalties, point.inverse, point.precision, target)
    length = 1.0
    rounding = 1e-14 * max(abs(point.objective), len(S))
    while length > _SMALLEST_STEP:
        there = target if length == 1.0 else point.precision + length * (target - point.precision)
        moved = point_at(S, penalties, there)
        if moved is not None and moved.objective <= point.objective + _SUFFICIENT_DECREASE * length * slope + rounding:
            return moved
        length /= 2
    return None


def lower_bound(S: Floats, penalties: Floats, point: Point) -> float:
    """A value of the dual problem at a feasible U derived from Λ and its inverse; −∞ if S + U is not positive definite.

    U = ρ·sign(Λ) where Λ is not zero is off by the square of the error of Λ once the signs are right; U nearest to
    Λ⁻¹ − S is off in proportion to the error, but may be had earlier.
    """
    from sudare.dictionary.graphical_lasso_newton_kernels import dual_point

    for by_signs in (True, False):
        dual = dual_point(S, penalties, point.precision, point.inverse, by_signs)
        factor, failed = lapack.dpotrf(dual.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return _log_det(factor) + len(S)
    return -math.inf
