"""Where targets in [−1, 1] lie, within a budget: noisy Σy and Σy², and the level and variance that they tell. Proof: proofs/sufficient_statistics.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.frames.rows import Rows
from sudare.linear.score_calibration import expected_shares
from sudare.privacy.accounting import rounded_up
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import NoiseSource


class Located(NamedTuple):
    """The place of targets by released numbers: their mean, and their variance with what noise may hide of it added."""

    level: float
    variance: float

    def half_width(self, widths: float) -> float:
        """Half the width of an interval of so many standard deviations about the mean, no more than reaches both ends of [−1, 1]."""
        return min(1 + abs(self.level), widths * math.sqrt(self.variance))


@dataclass(frozen=True)
class TargetMoments:
    """ε-DP moments of the targets of so many rows, replace-one, `rows_per_unit` of them a person's. Targets are rounded towards zero to so many bits."""

    rows: int
    rows_per_unit: int
    epsilon: float
    bits: int

    @cached_property
    def noise(self) -> Laplace:
        """A replaced target moves (Σy, Σy²) by at most 9/4 in the sum of absolute values."""
        largest = rounded_up(Fraction(9, 4) * self.rows_per_unit)
        return Laplace(largest, self.epsilon, 2, integer_grid=4.0**-self.bits)

    def sums(self, rows: Rows) -> Floats:
        """Σy and Σy², exact, of rounded targets."""
        return np.asarray(rows.total(partial(_block, self.bits)))

    def located(self, rows: Rows, source: NoiseSource, has_level: bool = True) -> Located:
        """The level, zero where there is no place for one, and the variance about it."""
        mean, square = self.noise.apply(self.sums(rows), source) / self.rows
        deviation = math.sqrt(self.noise.variance) / self.rows
        level = float(2 * expected_shares(np.array([(mean + 1) / 2]), deviation / 2)[0] - 1) if has_level else 0.0
        return Located(level, float(np.clip(square - level**2, 0.0, 1.0)) + deviation * (1 + 2 * abs(level)))


def _block(bits: int, matrix: NDArray[Any], targets: Floats) -> Floats:
    whole = np.trunc(targets[:, 0] * 2.0**bits)
    return np.array([whole.sum() * 2.0**-bits, (whole**2).sum() * 4.0**-bits])
