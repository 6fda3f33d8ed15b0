"""A regression line from noisy sums, squares and products, by the posterior mean under their noise: a function of released numbers alone.

Coefficients are normal before, with variances from none to what would explain all of the target; how large it is weighs by how likely that makes the noisy
numbers (empirical Bayes, as a mean over a grid). Where noise hides everything the line is flat: the private mean is always among the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sudare.array_types import Floats
from sudare.linear.rows import RowLayout

# The parts of the target's variance that lines explain before anything is known.
_EXPLAINED: Final = tuple(2.0**power for power in range(-9, 2))
# The probability of no line from which on there is none.
_FLAT: Final = 0.75
_RIDGE: Final = 1e-8
_LEAST_SPREAD: Final = 1e-3
# Variances of the mean of a column and of its mean square, over columns, before anything is known.
_MEAN_VARIANCE: Final = 0.05
_SQUARE_VARIANCE: Final = 0.02
# Correlations of columns whose products are not known.
_UNKNOWN_CORRELATION: Final = 0.1
# Over which part of a number's range coefficients of bins are alike, and how much of their variance is not.
_SMOOTH_LENGTH: Final = 0.8
_ROUGHNESS: Final = 0.05
_TREND_ROUGHNESS: Final = 0.01


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy sums over rows of columns within [−1, 1], their squares and products (`gram`), of a target in [−1, 1], and of both multiplied; and the noise in them.

    `pairs` are the products that are known; of others only that those within a one-hot group are zero. `cross_noise` is the covariance of the noise in `cross`, other noise is told by standard deviations.
    """

    rows: int
    sums: Floats
    gram: Floats
    target_sum: float
    cross: Floats
    cross_noise: Floats
    one_hot_blocks: tuple[tuple[int, int], ...]
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]]
    product_deviation: float
    square_deviation: float
    is_centred: bool

    @property
    def column_means(self) -> Floats:
        """Means of the columns, shrunk by their noise, those of a one-hot group towards equal parts; zero where the line goes through zero."""
        return self._means() if self.is_centred else np.zeros(len(self.sums))

    def _means(self) -> Floats:
        expected = np.zeros(len(self.sums))
        for start, stop in self.one_hot_blocks:
            expected[start:stop] = 1 / (stop - start)
        trust = _trust(_MEAN_VARIANCE, self.product_deviation / self.rows)
        return np.clip(expected + trust * (self.sums / self.rows - expected), -1.0, 1.0)

    def _mean_squares(self) -> Floats:
        """Mean squares of the columns, shrunk by their noise towards their mean; those of one-hot columns are their means."""
        is_hot = one_hot_columns(self.one_hot_blocks, len(self.sums))
        found = np.where(is_hot, self._means(), np.diag(self.gram) / self.rows)
        if not is_hot.all():
            common = float(np.clip(found[~is_hot].mean(), 0.0, 1.0))
            trust = _trust(_SQUARE_VARIANCE, self.square_deviation / self.rows)
            found = np.where(is_hot, found, common + trust * (found - common))
        return np.clip(found, 0.0, 1.0)

    def covariance(self) -> tuple[Floats, float]:
        """n times the covariance of columns, without negative eigenvalues; and the variance of what is not known of a row's products with other columns.

        Products of different columns are shrunk towards those of independent columns by what noise alone would make them (James and Stein 1961).
        """
        means, count = self.column_means, self.rows
        diagonal = count * np.maximum(self._mean_squares() - means**2, _LEAST_SPREAD)
        found, declared = (
            np.diag(diagonal),
            len(diagonal) - sum(stop - start - 1 for start, stop in self.one_hot_blocks),
        )
        unknown = (declared - 1) * float(np.mean(diagonal) * _UNKNOWN_CORRELATION) ** 2
        for start, stop in self.one_hot_blocks:
            block = -count * np.outer(means[start:stop], means[start:stop])
            np.fill_diagonal(block, diagonal[start:stop])
            found[start:stop, start:stop] = block
        first, second = self.pairs
        if len(first):
            products = self.gram[first, second] - count * means[first] * means[second]
            by_noise = len(first) * self.product_deviation**2
            kept = max(0.0, 1 - by_noise / max(float(products @ products), by_noise))
            found[first, second] = found[second, first] = kept * products
            unknown = min(unknown, (len(diagonal) - 1) * self.product_deviation**2)
        values, vectors = np.linalg.eigh(found)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T), unknown

    def covariance_with_target(self) -> Floats:
        """n times the covariance of columns with the target."""
        return np.asarray(self.cross - self.column_means * self.target_sum)


def coefficients(
    moments: NoisyMoments,
    target_variance: float,
    priors: Sequence[Floats],
    no_line: float,
    penalty: Floats,
    flat: float = _FLAT,
) -> Floats:
    """The line's coefficients: of ridge regression with that penalty on each coefficient's square, where it is not zero; else the posterior mean.

    `priors` are covariances of coefficients, up to a factor; `no_line` is the probability that all are zero before anything is known. They are zero where that is above `flat` after.
    """
    covariance, product_variance = moments.covariance()
    cross, width = moments.covariance_with_target(), len(moments.cross)
    if np.any(penalty):
        return np.asarray(np.linalg.solve(covariance + np.diag(penalty), cross))
    noise = moments.cross_noise + target_variance * covariance
    found, evidence = [np.zeros(width)], [_evidence(noise, cross)[0] + np.log(no_line)]
    doubt = moments.square_deviation**2 + product_variance
    for prior in priors:
        # What one unit of prior variance explains of the target, on the mean over rows.
        explained = float(np.sum(prior * covariance)) / moments.rows
        spread = covariance @ prior @ covariance + float(np.trace(prior)) / width * doubt * np.eye(width)
        for part in _EXPLAINED:
            size = part * target_variance / explained
            told, solved = _evidence(noise + size * spread, cross)
            found.append(size * prior @ (covariance @ solved))
            evidence.append(told + np.log((1 - no_line) / (len(priors) * len(_EXPLAINED))))
    weights = np.exp(np.array(evidence) - max(evidence))
    if weights[0] > flat * weights.sum():
        return np.zeros(width)
    return np.asarray(weights @ np.array(found) / weights.sum())


def _trust(variance: float, deviation: float) -> float:
    """What part of a noisy number's distance from what is expected of it is kept."""
    return variance / (variance + deviation**2)


def _evidence(covariance: Floats, values: Floats) -> tuple[float, Floats]:
    """The log density of values under a normal law, up to a constant; and the inverse covariance times the values."""
    # Rounding may leave the matrix a little below zero in some direction.
    factor = cho_factor(covariance + _RIDGE * float(np.mean(np.diag(covariance))) * np.eye(len(values)))
    solved = cho_solve(factor, values)
    return float(-np.log(np.diag(factor[0])).sum() - values @ solved / 2), np.asarray(solved)


def combined(
    numbers: Floats, deviations: Floats, trend: Floats, trends: Floats, deviation: float
) -> tuple[Floats, Floats]:
    """The best estimate of a vector from noisy values of it and of `trend`ᵀ times it, and the covariance of its noise."""
    precision = np.diag(deviations**-2.0) + trend @ trend.T / deviation**2
    noise = np.linalg.inv(precision)
    return np.asarray(noise @ (numbers / deviations**2 + trend @ trends / deviation**2)), np.asarray(noise)


def one_hot_columns(blocks: tuple[tuple[int, int], ...], width: int) -> NDArray[np.bool_]:
    """Which columns belong to a one-hot group."""
    found = np.zeros(width, dtype=bool)
    for start, stop in blocks:
        found[start:stop] = True
    return found


def prior_covariances(layout: RowLayout) -> list[Floats]:
    """Covariances of coefficients, up to a factor: independent ones; and where numbers are cut into bins, those that are alike for near bins and those of a line."""
    plain = np.eye(layout.features)
    if not layout.bin_centres:
        return [plain]
    smooth, line = plain.copy(), plain.copy()
    for start, centres in layout.bin_centres:
        places, block = np.array(centres), slice(start, start + len(centres))
        distance = (places[:, np.newaxis] - places) / _SMOOTH_LENGTH
        smooth[block, block] = (1 - _ROUGHNESS) * np.exp(-(distance**2) / 2) + _ROUGHNESS * np.eye(len(centres))
        line[block, block] = np.outer(places, places) + _TREND_ROUGHNESS * np.eye(len(centres))
    return [plain, smooth, line]
