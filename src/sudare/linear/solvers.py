"""Minimising a summed loss with a penalty and a linear term, to a gradient norm that is certified.

The objective is Σ loss(xᵢᵀθ, yᵢ) + (ρ/2)‖θ‖² + bᵀθ. It is ρ-strongly convex, so a point whose true gradient has norm γ is
within γ/ρ of the minimiser. Rounding in the evaluation of the gradient is bounded rigorously (proofs/objective.md) and
counted into γ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from sudare.linear.losses import Loss
from sudare.linear.rows import BLOCK_ROWS, Rows

Floats = NDArray[np.float64]

UNIT_ROUNDOFF: Final = 2.0**-53
_MOST_STEPS: Final = 400
_LARGEST_CHOLESKY: Final = 1500
_PILOT_BLOCKS: Final = 5
_LEAST_BLOCKS_FOR_PILOT: Final = 12
_MOST_CONJUGATE_STEPS: Final = 250


@dataclass(frozen=True, eq=False)
class Objective:
    """Σ loss + (penalty/2)‖θ‖² + linearᵀθ over rows whose norms are at most `norm_bound`; `output` is the target column."""

    rows: Rows
    loss: Loss
    penalty: float
    linear: Floats
    norm_bound: float
    output: int = 0


@dataclass(frozen=True)
class Minimum:
    """A point and a bound on the true gradient's norm there."""

    parameters: Floats
    gradient_bound: float
    steps: int


@dataclass(frozen=True)
class _Evaluated:
    value: float
    gradient: Floats
    hessian: Floats | None


def norm(vector: Floats) -> float:
    """Euclidean norm."""
    return math.sqrt(float(vector @ vector))


def evaluated(objective: Objective, parameters: Floats, hessian: bool, blocks: int | None = None) -> _Evaluated:
    """Value, gradient and perhaps Hessian (its upper triangle), in one pass over the rows or over the first blocks.

    A pass over a part counts each of its rows for as many as it stands for.
    """
    width = len(parameters)
    value, gradient = 0.0, np.zeros(width)
    matrix = np.zeros((width, width), order="F") if hessian else None
    seen = 0
    for index, (rows, targets) in enumerate(objective.rows.blocks()):
        if blocks is not None and index == blocks:
            break
        target = targets[:, objective.output]
        scores = rows @ parameters
        value += float(np.sum(objective.loss.value(scores, target)))
        gradient += objective.loss.slope(scores, target) @ rows
        seen += len(rows)
        if matrix is not None:
            weighted = rows * np.sqrt(objective.loss.curvature(scores, target))[:, np.newaxis]
            matrix = blas.dsyrk(1.0, weighted.T, beta=1.0, c=matrix, overwrite_c=1)
    weight = objective.rows.count / max(seen, 1)
    value = weight * value + 0.5 * objective.penalty * float(parameters @ parameters)
    value += float(objective.linear @ parameters)
    gradient = weight * gradient + objective.penalty * parameters + objective.linear
    if matrix is not None:
        matrix *= weight
        matrix[np.diag_indices(width)] += objective.penalty
    return _Evaluated(value, gradient, matrix)


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


def gradient_bound(objective: Objective, parameters: Floats, gradient: Floats) -> float:
    """A bound on the true gradient's norm from the computed one."""
    sizes = [norm(vector) * (1 + 2.0**-40) for vector in (gradient, parameters, objective.linear)]
    rows = objective.rows
    return sizes[0] + rounding_bound(
        rows.count, rows.width, objective.loss, objective.norm_bound, objective.penalty, sizes[1], sizes[2]
    )


def minimised(objective: Objective, tolerance: float) -> Minimum:
    """A minimiser with a gradient bound at most `tolerance` if floats allow it; the bound says whether they did.

    Newton steps with a Cholesky factor (conjugate gradients when there are many columns). A factor is used again as long as
    its steps shrink the gradient quickly. With many rows a first guess comes from the first of them.
    """
    parameters = np.zeros(objective.rows.width)
    if objective.rows.count >= _LEAST_BLOCKS_FOR_PILOT * BLOCK_ROWS and len(parameters) <= _LARGEST_CHOLESKY:
        parameters = _descended(objective, parameters, tolerance, _PILOT_BLOCKS).parameters
    return _descended(objective, parameters, tolerance, None)


def _descended(objective: Objective, start: Floats, tolerance: float, blocks: int | None) -> Minimum:
    by_cholesky = len(start) <= _LARGEST_CHOLESKY
    # With few rows a Hessian costs no more than a pass, so every pass brings one.
    always = by_cholesky and objective.rows.count <= BLOCK_ROWS
    place, factor = start, None
    here = evaluated(objective, place, hessian=by_cholesky, blocks=blocks)
    first_size = norm(here.gradient)
    for step in range(_MOST_STEPS):
        bound = gradient_bound(objective, place, here.gradient)
        size = norm(here.gradient)
        # A first guess from a part of the rows needs no more than the accuracy of that part.
        if bound <= tolerance or size == 0 or (blocks is not None and size <= 1e-2 * first_size):
            return Minimum(place, bound, step)
        if here.hessian is not None:
            factor = lapack.dpotrf(here.hessian, overwrite_a=1)[0]
        if factor is not None:
            direction = -lapack.dpotrs(factor, here.gradient)[0]
        else:
            direction = _conjugate_direction(objective, place, here.gradient)
        following, length = _line_search(objective, place, here, direction, blocks, always)
        if following is None:
            return Minimum(place, bound, step)
        place = place + length * direction
        if by_cholesky and not always and norm(following.gradient) > 0.1 * size:
            following = evaluated(objective, place, hessian=True, blocks=blocks)
        here = following
    return Minimum(place, gradient_bound(objective, place, here.gradient), _MOST_STEPS)


def _line_search(
    objective: Objective, place: Floats, here: _Evaluated, direction: Floats, blocks: int | None, hessian: bool
) -> tuple[_Evaluated | None, float]:
    """The first halving of the step that lowers the value enough, or the gradient's norm where values cannot tell."""
    descent = float(here.gradient @ direction)
    size, length = norm(here.gradient), 1.0
    for _ in range(60):
        there = evaluated(objective, place + length * direction, hessian=hessian, blocks=blocks)
        if there.value <= here.value + 1e-4 * length * descent or norm(there.gradient) <= 0.5 * size:
            return there, length
        length /= 2
    return None, 0.0


def _conjugate_direction(objective: Objective, place: Floats, gradient: Floats) -> Floats:
    """A Newton direction by conjugate gradients, as accurate as the gradient's size asks for."""
    size = norm(gradient)
    direction, residual = np.zeros_like(gradient), -gradient
    step, square = residual.copy(), float(residual @ residual)
    goal = min(0.1, size**0.5) * size
    for _ in range(_MOST_CONJUGATE_STEPS):
        product = _hessian_product(objective, place, step)
        length = square / float(step @ product)
        direction = direction + length * step
        residual = residual - length * product
        following = float(residual @ residual)
        if following**0.5 <= goal:
            break
        step, square = residual + (following / square) * step, following
    return direction


def _hessian_product(objective: Objective, place: Floats, vector: Floats) -> Floats:
    product = objective.penalty * vector
    for rows, targets in objective.rows.blocks():
        curvature = objective.loss.curvature(rows @ place, targets[:, objective.output])
        product = product + (curvature * (rows @ vector)) @ rows
    return product
