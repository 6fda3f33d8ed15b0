"""How far the truth may be from a reconstructed histogram.

Each member of an average comes with the covariance of its probabilities (Laplace's approximation, linearised). Under a smooth prior
such intervals hold their level on average over the bins, because the prior's variance stands for the bias of smoothing (Wahba
1983, Nychka 1988). Members that disagree widen the band. The original records are a sample of their own: their noise is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

_HALVINGS: Final = 60
_LEAST_VARIANCE: Final = 1e-30
# Members' deviations times this held their level best over simulated columns; without it bands were a little wide.
_SIMULATED_FACTOR: Final = 0.9


@dataclass(frozen=True, eq=False)
class Member:
    """One distribution of an average: its weight, the states' probabilities, and S with S·Sᵀ their covariance."""

    weight: float
    probabilities: Floats
    spread: Floats


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
    members: Sequence[Member], bins: Floats, records: int, probabilities: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Two quantiles of the share of records in each bin; a row of `bins` says how much of each state lies in it."""
    weights = np.array([member.weight for member in members])[:, np.newaxis]
    means = np.array([bins @ member.probabilities for member in members])
    variances = np.array([((bins @ member.spread) ** 2).sum(axis=1) for member in members])
    sampling = np.clip(means * (1 - means), 0.0, None) / records
    deviations = np.sqrt(_SIMULATED_FACTOR**2 * variances + sampling + _LEAST_VARIANCE)

    def below(shares: Floats) -> Floats:
        return np.asarray((weights * ndtr((shares - means) / deviations)).sum(axis=0) / weights.sum())

    least, most = (means - 9 * deviations).min(axis=0), (means + 9 * deviations).max(axis=0)
    low, high = (solved(below, least, most, probability) for probability in probabilities)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def solved(rising: Callable[[Floats], Floats], low: Floats, high: Floats, target: float) -> Floats:
    """Where a rising function takes the target, for each bin, by halving."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beneath = rising(middle) < target
        low, high = np.where(beneath, middle, low), np.where(beneath, high, middle)
    return (low + high) / 2
