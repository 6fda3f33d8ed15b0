"""Intervals for noisy sums and for ratios of two of them, from the public law of the noise alone.

A noisy sum is the exact one plus k independent draws of noise of one scale, where k cells were added up. A mean is a noisy sum over a noisy count: its interval holds
every ratio μ for which sum − μ·count is no larger than its noise can be (Fieller 1954). Post-processing: nothing here costs anything.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaincc

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.lazy_exports import loaded_on_use
from sudare.privacy.fit_plan import Calibrated
from sudare.privacy.mechanisms import GammaNorm, Gaussian, InfinityNorm

# Half a second to import: not before a quantile is asked for.
stats = loaded_on_use("scipy.stats")
# Frequencies at which the characteristic function of Laplace noise is added up: beyond the last it is below 1e-6.
_FREQUENCIES: Final = np.linspace(0.0, 1000.0, 200_001)[1:]
# |μ| at which quantiles of Laplace noise are computed; between them they are interpolated.
_KNOTS: Final = np.linspace(0.0, 1.0, 11)
_ROUNDS: Final = 60
# How often intervals hold where nothing else is said.
DEFAULT_LEVEL: Final = 0.95


def checked_level(level: float) -> float:
    """How often an interval is to hold. Raise InvalidParameter unless it lies between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InvalidParameter("level must lie between 0 and 1.", "Use for example 0.95.")
    return float(level)


def noise_quantile(mechanism: Calibrated, level: float) -> float:
    """What the noise of a mechanism on one number exceeds, up or down, with probability 1 − level; in the units of the numbers."""
    if isinstance(mechanism, GammaNorm):
        return mechanism.noise_scale * gamma_norm_quantile(mechanism.dimension, level)
    if isinstance(mechanism, InfinityNorm):
        return mechanism.noise_scale * infinity_norm_quantile(mechanism.dimension, level)
    quantile = gaussian_quantile if isinstance(mechanism, Gaussian) else laplace_quantile
    return mechanism.noise_scale * float(quantile(np.zeros(1), 1, level)[0])


def count_interval(counts: NDArray[Any], margin: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whole counts within `margin` of each noisy count. No end is below zero, where no exact count is; a noisy count that is negative lies below its interval."""
    low, high = np.maximum(np.floor(counts - margin), 0), np.maximum(np.ceil(counts + margin), 0)
    return low.astype(np.int64), high.astype(np.int64)


@functools.lru_cache(maxsize=128)
def gamma_norm_quantile(dimension: int, level: float) -> float:
    """The `level` quantile of the absolute value of one coordinate of noise with density ∝ exp(−‖b‖₂) in so many dimensions."""
    if dimension == 1:
        return -math.log1p(-level)
    # The norm is Gamma(dimension), the direction uniform: its coordinate squared is Beta(1/2, (dimension − 1)/2).
    norms = stats.gamma(dimension).ppf((np.arange(20_000) + 0.5) / 20_000)
    direction = stats.beta(0.5, (dimension - 1) / 2)

    def excess(bound: float) -> float:
        found: float = np.mean(direction.cdf(np.minimum((bound / norms) ** 2, 1.0))) - level
        return found

    found: float = brentq(excess, 0.0, float(norms[-1]))
    return found


@functools.lru_cache(maxsize=128)
def infinity_norm_quantile(dimension: int, level: float) -> float:
    """The `level` quantile of the absolute value of one coordinate of noise with density ∝ exp(−max|bᵢ|) in so many dimensions."""

    def excess(bound: float) -> float:
        # A coordinate is uniform on ±R with R from Gamma(dimension + 1): P(|b| > x) = E(1 − x/R)⁺ (proofs/infinity_norm.md).
        beyond = gammaincc(dimension + 1, bound) - bound / dimension * gammaincc(dimension, bound)
        found: float = (1.0 - level) - beyond
        return found

    highest = float(stats.gamma(dimension + 1).isf((1.0 - level) / 2))
    found: float = brentq(excess, 0.0, highest, xtol=1e-12)
    return found


def gaussian_quantile(ratio: Floats, cells: int, level: float) -> Floats:
    """The `level` quantile of |e₁ − ratio·e₂| for sums of so many standard normal draws."""
    found: Floats = stats.norm.ppf((1 + level) / 2) * np.sqrt(cells * (1 + ratio**2))
    return found


def laplace_quantile(ratio: Floats, cells: int, level: float) -> Floats:
    """Returns that quantile for Laplace draws of scale one, |ratio| ≤ 1."""
    knots = [_laplace_knot(float(knot), cells, level) for knot in _KNOTS]
    found: Floats = np.interp(np.abs(ratio), _KNOTS, knots)
    return found


@functools.lru_cache(maxsize=512)
def _laplace_knot(ratio: float, cells: int, level: float) -> float:
    # P(|X| ≤ x) = (2/π) ∫ sin(tx)/t φ(t) dt over t > 0, with φ(t) = (1 + t²)⁻ᵏ (1 + ratio²t²)⁻ᵏ.
    law = ((1 + _FREQUENCIES**2) * (1 + ratio**2 * _FREQUENCIES**2)) ** -float(cells) / _FREQUENCIES
    width = _FREQUENCIES[1] - _FREQUENCIES[0]

    def missing(bound: float) -> float:
        # The integrand is `bound` at zero: half of that interval belongs to the trapezoid.
        within = width * (float(np.sin(_FREQUENCIES * bound) @ law) + bound / 2)
        excess: float = 2 / math.pi * within - level
        return excess

    highest = (2 + 4 * math.sqrt(cells)) * math.log(2 / (1 - level))
    found: float = brentq(missing, 1e-6, highest)
    return found


def ratio_interval(
    sums: Floats, counts: Floats, widths: Callable[[Floats], Floats], scale: float
) -> tuple[Floats, Floats]:
    """The least and the greatest ratio in [−1, 1] that sums and counts with noise of that scale do not contradict.

    `widths` gives the quantile of the noise of sum − ratio·count, for noise of scale one. Where the count may be zero nothing is known: [−1, 1].
    """
    known = counts > scale * widths(np.ones_like(counts))
    safe = np.where(known, counts, 1.0)
    ends = []
    for sign in (-1.0, 1.0):
        end = np.clip(sums / safe, -1.0, 1.0)
        for _ in range(_ROUNDS):
            before, end = end, np.clip((sums + sign * scale * widths(end)) / safe, -1.0, 1.0)
            if np.array_equal(before, end):
                break
        ends.append(np.where(known, end, sign))
    return ends[0], ends[1]


def cube_quantile(ratio: Floats, cells: int, level: float, dimension: int) -> Floats:
    """The `level` quantile of |e₁ − ratio·e₂|, |ratio| ≤ 1, for sums of so many draws with density ∝ exp(−max|bᵢ|) in so many dimensions, at least two."""
    knots = [_cube_knot(float(knot), cells, level, dimension) for knot in _KNOTS]
    found: Floats = np.interp(np.abs(ratio), _KNOTS, knots)
    return found


@functools.lru_cache(maxsize=512)
def _cube_knot(ratio: float, cells: int, level: float, dimension: int) -> float:
    # A draw is R·u, u uniform in the cube and R from Gamma(dimension + 1): φ(t) = E sin(Rt)/(Rt) · sin(ratio·Rt)/(ratio·Rt), in units of the deviation.
    deviation = math.sqrt(cells * (dimension + 1) * (dimension + 2) / 3 * (1 + ratio**2))
    t = _FREQUENCIES / deviation
    if ratio == 0:
        one = ((1 - 1j * t) ** -float(dimension)).imag / (dimension * t)
    else:
        near, far = ((1 - 1j * t * (1 + sign * ratio)) ** -float(dimension - 1) for sign in (-1, 1))
        one = (near - far).real / (2 * ratio * t**2 * dimension * (dimension - 1))
    law, width = one**cells / _FREQUENCIES, _FREQUENCIES[1] - _FREQUENCIES[0]

    def missing(bound: float) -> float:
        within = width * (float(np.sin(_FREQUENCIES * bound) @ law) + bound / 2)
        excess: float = 2 / math.pi * within - level
        return excess

    found: float = brentq(missing, 1e-6, 6 * math.log(2 / (1 - level)))
    return found * deviation


def variance_interval(
    counts: Floats, sums: Floats, squares: Floats, scale: float, cells: int, level: float, dimension: int | None
) -> tuple[Floats, Floats, Floats]:
    """Variances of z in [−1, 1] from noisy counts, sums of z and sums of 2z² − 1, with the least and the greatest that they do not contradict.

    At the mean μ and the variance v, Σ(z − μ)² − v·count is zero; its noise has the coefficients (μ² − v + ½, −2μ, ½). Where the count may be too small, nothing is
    known: NaN in [0, 1]. The noise is Gaussian where `dimension` is None, else infinity-norm noise in so many dimensions.
    """
    known = counts > records_for_variance(scale, cells, level, dimension)
    safe = np.where(known, counts, 1.0)
    mean = np.clip(sums / safe, -1.0, 1.0)
    around = squares / 2 + counts / 2 - 2 * mean * sums + mean**2 * counts
    estimate = np.clip(around / safe, 0.0, 1.0)
    ends = []
    for sign in (-1.0, 1.0):
        end = estimate
        for _ in range(_ROUNDS):
            noise = np.stack([mean**2 - end + 0.5, -2 * mean, np.full_like(mean, 0.5)])
            width = scale * _linear_quantile(noise, cells, level, dimension)
            before, end = end, np.clip((around + sign * width) / safe, 0.0, 1.0)
            if np.array_equal(before, end):
                break
        ends.append(np.where(known, end, max(sign, 0.0)))
    return np.where(known, estimate, np.nan), ends[0], ends[1]


def records_for_variance(scale: float, cells: int, level: float, dimension: int | None) -> float:
    """The noisy count above which a variance is known better than by its bounds, for noise of that scale."""
    return 2 * scale * float(_linear_quantile(np.array([[1.5], [2.0], [0.5]]), cells, level, dimension)[0])


def _linear_quantile(coefficients: Floats, cells: int, level: float, dimension: int | None) -> Floats:
    """The `level` quantile of |Σ aⱼ eⱼ| for sums eⱼ of so many draws of scale one, by the first two even moments (Cornish and Fisher 1938)."""
    z = float(stats.norm.ppf((1 + level) / 2))
    squares, fourths = (coefficients**2).sum(axis=0), (coefficients**4).sum(axis=0)
    if dimension is None:
        return np.asarray(z * np.sqrt(squares * cells))
    second = (dimension + 1) * (dimension + 2)
    fourth = second * (dimension + 3) * (dimension + 4)
    excess = (fourth * (squares**2 / 3 - fourths * 2 / 15) / (second * squares / 3) ** 2 - 3) / cells
    return np.asarray(np.sqrt(second / 3 * squares * cells) * (z + excess / 24 * (z**3 - 3 * z)))
