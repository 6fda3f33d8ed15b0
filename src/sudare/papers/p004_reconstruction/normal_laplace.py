"""A normal variable plus Laplace noise: equations (6) to (13) of paper 004 with their slips corrected, and what the paper holds impossible.

Given y and its component, x is a mixture of two normal distributions, one cut off above y and one below: its moments have a closed
form, and with them both the update of the means and scales and the gradient of the likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

Floats = NDArray[np.float64]

_ROOT_TWO: Final = math.sqrt(2.0)
_ROOT_TWO_PI: Final = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Parameters:
    """Weights ρ, means μ and scales σ of the components."""

    weights: Floats
    means: Floats
    scales: Floats


class Moments(NamedTuple):
    """Log-density of y, and mean and variance of x given y; a row for each y, a column for each component."""

    log_density: Floats
    mean: Floats
    variance: Floats


def component_moments(y: Floats, means: Floats, scales: Floats, noise_scale: float) -> Moments:
    """Equation (8), and the moments of x given y and component.

    With d = y − μ the part of x below y is N(μ + σ²/φ, σ²) cut off at y, and has weight e^{σ²/2φ² − d/φ}Φ(d/σ − σ/φ); the part above
    mirrors it.
    """
    distance = y[:, np.newaxis] - means
    ratio = scales / noise_scale
    below = _Side.of(distance / scales, ratio)
    above = _Side.of(-distance / scales, ratio)
    top = np.maximum(below.log_weight, above.log_weight)
    total = np.exp(below.log_weight - top) + np.exp(above.log_weight - top)
    share = np.exp(below.log_weight - top) / total
    mean_below = scales * (ratio - below.hazard)
    mean_above = -scales * (ratio - above.hazard)
    mean = share * mean_below + (1 - share) * mean_above
    variance = (
        share * scales**2 * below.narrowing
        + (1 - share) * scales**2 * above.narrowing
        + share * (1 - share) * (mean_below - mean_above) ** 2
    )
    return Moments(top + np.log(total) - math.log(2 * noise_scale), means + mean, variance)


class _Side(NamedTuple):
    """One of the two cut-off normals: log of its weight, its inverse Mills ratio, and its variance in units of σ²."""

    log_weight: Floats
    hazard: Floats
    narrowing: Floats

    @classmethod
    def of(cls, standard: Floats, ratio: Floats) -> _Side:
        cut = standard - ratio
        far = cut < 0
        # In the tail Φ(c) = e^{−c²/2} erfcx(−c/√2)/2, and the exponents combine to −d²/2σ² without overflow.
        tail = erfcx(-np.minimum(cut, 0) / _ROOT_TWO)
        body = ndtr(np.maximum(cut, 0))
        log_weight = np.where(
            far, -0.5 * standard**2 + np.log(tail / 2), 0.5 * ratio**2 - standard * ratio + np.log(body)
        )
        hazard = np.where(
            far, 2 / (_ROOT_TWO_PI * tail), np.exp(-0.5 * np.maximum(cut, 0) ** 2) / (_ROOT_TWO_PI * body)
        )
        return cls(log_weight, hazard, np.maximum(1 - cut * hazard - hazard**2, 0.0))


class Expectation(NamedTuple):
    """Log-likelihood (9), responsibilities (10), and the moments."""

    log_likelihood: float
    responsibilities: Floats
    moments: Moments


def expectation(y: Floats, counts: Floats, parameters: Parameters, noise_scale: float) -> Expectation:
    """The E-step; `counts` says how often each y occurs."""
    moments = component_moments(y, parameters.means, parameters.scales, noise_scale)
    with np.errstate(divide="ignore"):
        joint = moments.log_density + np.log(parameters.weights)
    top = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - top)
    total = shares.sum(axis=1, keepdims=True)
    return Expectation(float(counts @ (top + np.log(total))[:, 0]), shares / total, moments)


def gradients(counts: Floats, found: Expectation, parameters: Parameters) -> tuple[Floats, Floats]:
    """∂L/∂μ and ∂L/∂σ: Σ γ (E[x|y] − μ)/σ² and Σ γ (E[(x − μ)²|y] − σ²)/σ³, which equal the printed formulas."""
    shares = found.responsibilities * counts[:, np.newaxis]
    offset = found.moments.mean - parameters.means
    second = found.moments.variance + offset**2
    by_mean = (shares * offset).sum(axis=0) / parameters.scales**2
    by_scale = (shares * (second - parameters.scales**2)).sum(axis=0) / parameters.scales**3
    return by_mean, by_scale
