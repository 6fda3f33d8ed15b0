"""The exact side of an audit: where the law of the output is known, its privacy loss is computed, not sampled.

Both numbers are lower bounds on ε and equal it up to optimisation: the log density ratio at any point is at most ε of a
pure mechanism, and any partition of the outputs into cells shows at most the δ that (ε, δ)-DP allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import ndtr

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.privacy.mechanisms import GammaNorm, Gaussian, InfinityNorm, Laplace

# (points, one a row; the noiseless output) → log density of each point, up to a constant that both outputs share.
LogDensity = Callable[[Floats, Floats], Floats]

_STARTS: Final = 8
_ROUNDING: Final = 2.0**-46
_BISECTIONS: Final = 60
_CELLS: Final = 20_000


@dataclass(frozen=True)
class DensityRatio:
    """The largest privacy loss found, and where."""

    epsilon_lower_bound: float
    point: tuple[float, ...]


def largest_log_ratio(log_density: LogDensity, pair: tuple[ArrayLike, ArrayLike], points: ArrayLike) -> DensityRatio:
    """The largest |log p(x | first) − log p(x | second)| over the points, improved by Nelder–Mead from the best of them."""
    first, second = (np.atleast_1d(np.asarray(centre, dtype=np.float64)) for centre in pair)
    places = np.asarray(points, dtype=np.float64)
    if places.ndim != 2 or len(places) == 0 or not places.shape[1] == len(first) == len(second):
        raise InvalidParameter(
            f"points must be rows of {len(first)} coordinates, got shape {places.shape}.", "Use cloud(pair, radius)."
        )

    return largest_loss(lambda rows: log_density(rows, first), lambda rows: log_density(rows, second), places)


def largest_loss(first: Callable[[Floats], Floats], second: Callable[[Floats], Floats], places: Floats) -> DensityRatio:
    """The largest difference of two log densities over the places, improved by Nelder–Mead from the best of them."""

    def losses(rows: Floats) -> Floats:
        left, right = first(rows), second(rows)
        # Less than the rounding of the densities could have added, so that the result stays a lower bound.
        return np.abs(left - right) - _ROUNDING * (np.abs(left) + np.abs(right))

    def found(place: Floats) -> DensityRatio:
        return DensityRatio(float(losses(place[np.newaxis])[0]), tuple(map(float, place)))

    starts = places[np.argsort(losses(places))[-_STARTS:]]
    refined = [minimize(lambda place: -losses(place[np.newaxis])[0], start, method="Nelder-Mead").x for start in starts]
    return max(map(found, [*starts, *refined]), key=lambda ratio: ratio.epsilon_lower_bound)


def cloud(pair: tuple[ArrayLike, ArrayLike], radius: float, count: int = 4096, random_state: int = 0) -> Floats:
    """Points to look for large ratios at: around the pair in every direction, and along the line through both."""
    first, second = (np.atleast_1d(np.asarray(centre, dtype=np.float64)) for centre in pair)
    random = np.random.default_rng(random_state)
    around = (first + second) / 2 + random.normal(scale=radius, size=(count, len(first)))
    along = first + np.linspace(-2, 3, 101)[:, np.newaxis] * (second - first)
    return np.vstack([along, around])


def laplace_log_density(noise_scale: float) -> LogDensity:
    """−‖x − centre‖₁/scale."""
    return lambda points, centre: -np.sum(np.abs(points - centre), axis=1) / noise_scale


def gamma_norm_log_density(rate: float) -> LogDensity:
    """−rate·‖x − centre‖₂."""
    return lambda points, centre: -rate * np.linalg.norm(points - centre, axis=1)


def infinity_norm_log_density(noise_scale: float) -> LogDensity:
    """−max|x − centre|/scale."""
    return lambda points, centre: -np.max(np.abs(points - centre), axis=1) / noise_scale


def hockey_stick(likelier: Floats, rarer: Floats, epsilon: float) -> float:
    """Σ max(0, P(cell) − e^ε Q(cell)): the δ that these cells show at ε."""
    return float(np.sum(np.maximum(likelier - math.exp(epsilon) * rarer, 0.0)))


def epsilon_of_cells(first: Floats, second: Floats, delta: float) -> float:
    """The smallest ε ≥ 0 at which no direction shows more than δ; infinite when cells are only possible on one side."""

    def shown(epsilon: float) -> float:
        return max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))

    if shown(0.0) <= delta:
        return 0.0
    high = 1.0
    while shown(high) > delta:
        high *= 2
        if high > 512:
            return math.inf
    low = 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if shown(middle) > delta else (low, middle)
    return low


def gaussian_cells(centre: float, noise_scale: float, edges: Floats) -> Floats:
    """Probabilities of N(centre, noise_scale²) between consecutive edges, from the nearer tail, with both ends open."""
    standard = (edges - centre) / noise_scale
    below, above = ndtr(standard), ndtr(-standard)
    inner = np.where(standard[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.concatenate([below[:1], inner, above[-1:]])


def gaussian_epsilon_at(distance: float, noise_scale: float, delta: float) -> float:
    """ε at δ of Gaussian noise on two values so far apart, from cells along the line through both: a lower bound."""
    edges = np.linspace(-12 * noise_scale, distance + 12 * noise_scale, _CELLS)
    first, second = (gaussian_cells(centre, noise_scale, edges) for centre in (0.0, distance))
    return epsilon_of_cells(first, second, delta)


def exact_epsilon(mechanism: object, pair: tuple[Floats, Floats]) -> float | None:
    """The largest privacy loss of known noise on a pair of vectors, by its density; None for noise of another kind.

    Rounding to the grid is left out: after the noise it can only hide more, and before the noise it is paid for. Gaussian noise is
    looked at along the line through both vectors, which tells all there is to tell.
    """
    if isinstance(mechanism, Gaussian):
        distance = float(np.linalg.norm(pair[1] - pair[0]))
        return gaussian_epsilon_at(distance, mechanism.noise_scale, mechanism.delta)
    if isinstance(mechanism, Laplace):
        density = laplace_log_density(mechanism.noise_scale)
    elif isinstance(mechanism, GammaNorm):
        density = gamma_norm_log_density(mechanism.rate)
    elif isinstance(mechanism, InfinityNorm):
        density = infinity_norm_log_density(mechanism.noise_scale)
    else:
        return None
    return largest_log_ratio(density, pair, cloud(pair, mechanism.noise_scale)).epsilon_lower_bound
