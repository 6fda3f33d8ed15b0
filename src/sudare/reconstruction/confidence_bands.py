"""How far the truth may be from a reconstructed histogram.

Each member of an average comes with the covariance of its probabilities (Laplace's approximation, linearised). Under a smooth prior
such intervals hold their level on average over the bins, because the prior's variance stands for the bias of smoothing (Wahba
1983, Nychka 1988). Members that disagree widen the band.

The band is one for shares of the original records, a sample of their own. Given the probabilities θ, a record whose perturbed value is y
lay in a bin with probability r(y, θ), independently of the others: the share of the bin has mean E_y r, a step of expectation maximisation
from θ, and variance E_y r(1 − r)/N. Where noise is wide that step is nearly θ itself and the variance that of a sample; where it is narrow,
records are nearly known, and both their own sampling noise and what is unknown about θ hardly matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import ndtr

from sudare.array_types import Floats

_HALVINGS: Final = 60
_LEAST_VARIANCE: Final = 1e-30
_LEAST_PROBABILITY: Final = 1e-300
# Members' deviations times this held their level best over simulated columns; without it bands were a little wide.
_SIMULATED_FACTOR: Final = 0.9


@dataclass(frozen=True, eq=False)
class Seen:
    """The perturbed values: how often each bin of them came, and the channel to these bins, one column a state."""

    frequencies: Floats
    made_channel: Callable[[], Floats]

    @cached_property
    def channel(self) -> Floats:
        """P(bin of the perturbed value | state); made when a band is asked for."""
        return self.made_channel()


@dataclass(frozen=True, eq=False)
class WeightedDistribution:
    """One distribution of an average: its weight, the states' probabilities, and S with S·Sᵀ their covariance."""

    weight: float
    probabilities: Floats
    spread: Floats

    def shares(self, bins: Floats, records: int, seen: Seen | None) -> tuple[Floats, Floats]:
        """Mean and variance of the share of records in each bin; without `seen`, as if no value said anything about its own record."""
        if seen is None:
            means = bins @ self.probabilities
            variances = _SIMULATED_FACTOR**2 * ((bins @ self.spread) ** 2).sum(axis=1)
            return means, variances + np.clip(means * (1 - means), 0.0, None) / records
        expected = np.maximum(seen.channel @ self.probabilities, _LEAST_PROBABILITY)
        # r(y, θ), one row a bin of y.
        within = seen.channel @ (bins * self.probabilities).T / expected[:, np.newaxis]
        pull = seen.channel.T @ (seen.frequencies / expected)
        # The derivative of E_y r by θ.
        slopes = bins * pull - (within * (seen.frequencies / expected)[:, np.newaxis]).T @ seen.channel
        variances = _SIMULATED_FACTOR**2 * ((slopes @ self.spread) ** 2).sum(axis=1)
        sampling = seen.frequencies @ np.clip(within * (1 - within), 0.0, None) / records
        return seen.frequencies @ within, variances + sampling


@dataclass(frozen=True, eq=False)
class Band:
    """Between `low` and `high` the share of the original records in each bin lies with probability `level`.

    If `calibrated` is False there is no band, and `reason` says why.
    """

    edges: Floats
    estimate: Floats
    level: float
    calibrated: bool
    reason: str = ""
    low: Floats | None = None
    high: Floats | None = None

    def __str__(self) -> str:
        if not self.calibrated:
            return f"not calibrated: {self.reason}"
        return f"{self.level:.0%} band over {len(self.estimate)} bins"


def mixture_quantiles(
    members: Sequence[WeightedDistribution],
    bins: Floats,
    records: int,
    probabilities: tuple[float, float],
    seen: Seen | None = None,
) -> tuple[Floats, Floats]:
    """Two quantiles of the share of records in each bin; a row of `bins` says how much of each state lies in it."""
    weights = np.array([member.weight for member in members])[:, np.newaxis]
    moments = [member.shares(bins, records, seen) for member in members]
    means = np.array([mean for mean, _ in moments])
    deviations = np.sqrt(np.array([variance for _, variance in moments]) + _LEAST_VARIANCE)

    def below(shares: Floats) -> Floats:
        return np.asarray((weights * ndtr((shares - means) / deviations)).sum(axis=0) / weights.sum())

    least, most = (means - 9 * deviations).min(axis=0), (means + 9 * deviations).max(axis=0)
    low, high = (solved(below, least, most, probability) for probability in probabilities)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def solved(rising: Callable[[Floats], Floats], low: Floats, high: Floats, target: float) -> Floats:
    """Returns where a rising function takes the target, for each bin, by halving the interval."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beneath = rising(middle) < target
        low, high = np.where(beneath, middle, low), np.where(beneath, high, middle)
    return (low + high) / 2
