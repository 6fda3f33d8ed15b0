"""Gaussian posteriors restricted to a ball around zero: squared losses (ridge regression), and linear ones (means). Proof: proofs/gibbs.md.

The energy is β(½θᵀGθ − bᵀθ + (ρ/2)‖θ‖²). On the ball a Gaussian with the larger penalty ρ + ν dominates, up to a constant, because
(ν/2)(‖θ‖² − B²) ≤ 0 there. ν is 0 where most of the Gaussian lies inside; else it is what brings its mean square to the radius.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.gibbs.gaussian_envelope import (
    Envelope,
    Piece,
    ball_cost,
    gradient_cost,
    inverse_norm_for,
    log_volume,
    lowered_factor,
    step_for,
)
from sudare.gibbs.lazy_uniforms import UNIT_ROUNDOFF
from sudare.gibbs.posteriors import LINEAR, SQUARED, Posterior

_BISECTIONS: Final = 60
# Of the rounding of a gradient at the mode; one step of refinement leaves no more than that.
_REFINED: Final = 4.0


def squared_posterior(
    rows: Floats, targets: Floats, inverse_temperature: float, penalty: float, norm_bound: float, radius: float
) -> tuple[Posterior, Envelope]:
    """∝ exp(−β(Σ ½(xᵢᵀθ − yᵢ)² + (ρ/2)‖θ‖²)) on ‖θ‖ ≤ radius, and its envelope."""
    gram, pull = rows.T @ rows, rows.T @ targets
    tilt, mode = _tilted_mode(gram, pull, inverse_temperature, penalty, radius)
    # One step of refinement on the residuals themselves, then a bound on what is left.
    gradient = rows.T @ (rows @ mode - targets) + (penalty + tilt) * mode
    mode = mode - np.linalg.solve(gram + (penalty + tilt) * np.eye(len(mode)), gradient)
    gradient = rows.T @ (rows @ mode - targets) + (penalty + tilt) * mode
    size, (count, width) = float(np.linalg.norm(mode)), rows.shape
    rounding = _gradient_rounding(count, width, norm_bound, float(np.max(np.abs(targets))), penalty + tilt, size)
    bound = float(np.linalg.norm(gradient)) * (1 + 1e-9) + rounding
    posterior = Posterior(rows, inverse_temperature, penalty, norm_bound, mode, bound, SQUARED, targets, radius, tilt)
    return posterior, _envelope(posterior, np.ones(count))


def _gradient_rounding(
    rows: int, width: int, norm_bound: float, largest_target: float, penalty: float, size: float
) -> float:
    """More than the rounding in the gradient of squared losses at a point of that size."""
    reach = norm_bound * size + largest_target
    return (rows + width + 16) * UNIT_ROUNDOFF * (rows * norm_bound * reach + penalty * size)


def largest_gradient_cost(
    rows: int, width: int, inverse_temperature: float, penalty: float, norm_bound: float, radius: float
) -> float:
    """What the gradient left at the mode of squared losses can take off, for every table: public.

    ν is at most √2·nR/B + 2p/(βB²), where the Gaussian's mean square is surely within B²; the cost is largest at an end.
    """
    tilt = math.sqrt(2) * rows * norm_bound / radius + 2 * width / (inverse_temperature * radius * radius)
    ends = penalty, penalty + 2 * tilt
    sizes = (_REFINED * _gradient_rounding(rows, width, norm_bound, 1.0, end, radius) for end in ends)
    return max(gradient_cost(inverse_temperature, size, end) for size, end in zip(sizes, ends, strict=True))


def linear_posterior(
    total: Floats, inverse_temperature: float, penalty: float, norm_bound: float, radius: float
) -> tuple[Posterior, Envelope]:
    """∝ exp(β(totalᵀθ − (ρ/2)‖θ‖²)) on ‖θ‖ ≤ radius, and its envelope; ‖total‖ ≤ norm_bound."""
    width = len(total)
    tilt, mode = _tilted_mode(np.zeros((width, width)), total, inverse_temperature, penalty, radius)
    size = float(np.linalg.norm((penalty + tilt) * mode - total))
    bound = size * (1 + 1e-9) + 8 * (width + 2) * UNIT_ROUNDOFF * norm_bound
    rows = total[np.newaxis]
    posterior = Posterior(rows, inverse_temperature, penalty, norm_bound, mode, bound, LINEAR, None, radius, tilt)
    return posterior, _envelope(posterior, np.zeros(1))


def _tilted_mode(
    gram: Floats, pull: Floats, inverse_temperature: float, penalty: float, radius: float
) -> tuple[float, Floats]:
    """ν and the minimiser of ½θᵀGθ − bᵀθ + ((ρ + ν)/2)‖θ‖²."""
    stiffness, axes = np.linalg.eigh(gram)
    stiffness, along = np.maximum(stiffness, 0.0), axes.T @ pull

    def mean_square(tilt: float) -> float:
        total = stiffness + penalty + tilt
        return float(np.sum((along / total) ** 2) + np.sum(1 / total) / inverse_temperature)

    low, high = 0.0, penalty
    if mean_square(0.0) <= radius**2:
        high = 0.0
    else:
        while mean_square(high) > radius**2:
            low, high = high, 2 * high
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if mean_square(middle) > radius**2 else (low, middle)
    return high, axes @ (along / (stiffness + penalty + high))


def _envelope(posterior: Posterior, curvature: Floats) -> Envelope:
    beta, tilted = posterior.inverse_temperature, posterior.penalty + posterior.tilt
    cost = gradient_cost(beta, posterior.gradient_bound, tilted) + ball_cost(posterior)
    factor = lowered_factor(posterior.rows, curvature, tilted)
    piece = Piece(factor, None, None, np.empty(0), log_volume(factor), None)
    return Envelope([piece], step_for(beta), cost, inverse_norm_for(tilted))
