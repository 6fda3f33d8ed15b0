"""A normal variable plus Laplace noise: equations (6) to (13) of paper 004 with their slips corrected, and the update that it holds impossible.

Given y and its component, x is a mixture of two normal distributions, one cut off above y and one below: its moments have a closed
form, and with them both the update of the means and scales and the gradient of the likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from sudare.array_types import Floats
from sudare.compiled_loops import compiled

_ROOT_TWO: Final = math.sqrt(2.0)
_ROOT_PI: Final = math.sqrt(math.pi)
_FAR: Final = 20.0
_ROOT_TWO_PI: Final = math.sqrt(2 * math.pi)
_LEAST_TOTAL: Final = 1e-12
LEAST_SCALE: Final = 1e-6
"""Scales stay above this, in units of the noise: at zero the slope by σ vanishes, and the component would never widen again."""


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
    """Equation (8), and the moments of x given y and component."""
    return Moments(*_moments(y / noise_scale, means / noise_scale, scales / noise_scale, noise_scale))


@compiled()
def _moments(y: Floats, means: Floats, scales: Floats, noise_scale: float) -> tuple[Floats, Floats, Floats]:
    """The three arrays of `Moments` in the column's unit, from numbers in units of the noise.

    With d = y − μ the part of x below y is N(μ + σ², σ²) cut off at y, and has weight e^{σ²/2 − d}Φ(d/σ − σ); the part above
    mirrors it.
    """
    shape = (len(y), len(means))
    log_density, mean, variance = np.empty(shape), np.empty(shape), np.empty(shape)
    for i in range(len(y)):
        for k in range(len(means)):
            scale = scales[k]
            standard = (y[i] - means[k]) / scale
            log_below, hazard_below, narrowing_below = _side(standard, scale)
            log_above, hazard_above, narrowing_above = _side(-standard, scale)
            top = max(log_below, log_above)
            weight_below, weight_above = math.exp(log_below - top), math.exp(log_above - top)
            share = weight_below / (weight_below + weight_above)
            mean_below, mean_above = scale * (scale - hazard_below), -scale * (scale - hazard_above)
            log_density[i, k] = top + math.log((weight_below + weight_above) / (2 * noise_scale))
            mean[i, k] = noise_scale * (means[k] + share * mean_below + (1 - share) * mean_above)
            variance[i, k] = noise_scale**2 * (
                share * scale**2 * narrowing_below
                + (1 - share) * scale**2 * narrowing_above
                + share * (1 - share) * (mean_below - mean_above) ** 2
            )
    return log_density, mean, variance


@compiled()
def _side(standard: float, ratio: float) -> tuple[float, float, float]:
    """One of the two cut-off normals: log of its weight, its inverse Mills ratio, and its variance in units of σ²."""
    cut = standard - ratio
    if cut < 0:
        # In the tail Φ(c) = e^{−c²/2} erfcx(−c/√2)/2, and the exponents combine to −d²/2σ² without overflow.
        tail = _scaled_erfc(-cut / _ROOT_TWO)
        log_weight, hazard = -0.5 * standard**2 + math.log(tail / 2), 2 / (_ROOT_TWO_PI * tail)
    else:
        body = 0.5 * math.erfc(-cut / _ROOT_TWO)
        log_weight = 0.5 * ratio**2 - standard * ratio + math.log(body)
        hazard = math.exp(-0.5 * cut**2) / (_ROOT_TWO_PI * body)
    return log_weight, hazard, max(1 - cut * hazard - hazard**2, 0.0)


@compiled()
def _scaled_erfc(x: float) -> float:
    """erfcx(x) = e^{x²}·erfc(x) for x ≥ 0; far out by its asymptotic series, where erfc would underflow."""
    if x < _FAR:
        return math.exp(x * x) * math.erfc(x)
    inverse = 1 / (x * x)
    return (1 - inverse * (0.5 - inverse * (0.75 - inverse * (1.875 - 6.5625 * inverse)))) / (x * _ROOT_PI)


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


def closed_form_update(counts: Floats, found: Expectation) -> Parameters:
    """The M-step that equation (11) replaces by a gradient step: weighted means and variances of x given y, and ρ = N_l/N (12)."""
    shares = found.responsibilities * counts[:, np.newaxis]
    totals = np.maximum(shares.sum(axis=0), _LEAST_TOTAL)
    means = (shares * found.moments.mean).sum(axis=0) / totals
    variances = (shares * (found.moments.variance + (found.moments.mean - means) ** 2)).sum(axis=0) / totals
    return Parameters(totals / counts.sum(), means, np.maximum(np.sqrt(variances), LEAST_SCALE))


def gradient_update(counts: Floats, found: Expectation, parameters: Parameters, rate: float) -> Parameters:
    """The M-step (11) as printed: one step of the rate α along ∂L/∂μ and ∂L/∂σ, and ρ = N_l/N (12).

    For the mean of component l it is the closed-form step times α·N_l/σ_l².
    """
    by_mean, by_scale = gradients(counts, found, parameters)
    weights = (found.responsibilities * counts[:, np.newaxis]).sum(axis=0) / counts.sum()
    scales = np.maximum(np.abs(parameters.scales + rate * by_scale), LEAST_SCALE)
    return Parameters(weights, parameters.means + rate * by_mean, scales)
