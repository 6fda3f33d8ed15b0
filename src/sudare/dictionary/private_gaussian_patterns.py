"""Gaussian patterns from noisy sums. Proof: proofs/dictionary.md.

From the second iteration on records are clipped in the coordinates of each pattern as the last total described it, so the noise is
a fraction of the pattern's own spread and not of the declared bounds. All that happens between the sums (shrinking, merging, sparse
precisions) uses noisy totals only and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from sudare.array_types import Floats
from sudare.dictionary.component_merging import (
    SPARE_SHARE,
    NoisyPatterns,
    classification_likelihood_term,
    merged_late,
    staying_patterns,
)
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal
from sudare.dictionary.em import Script, TrainingTerms, implausible
from sudare.dictionary.exponential_families import Family, Frame, Patterns
from sudare.dictionary.gaussian_families import DiagonalGaussian
from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.dictionary.pattern_selection import normal_points
from sudare.dictionary.private_sum_questions import Clip, NoisyMoments, unpacked
from sudare.dictionary.sum_questions import power_of_two_at_least

# By how much a replaced record moves the sum of an iteration.
MOMENT_SENSITIVITY: Final = math.nextafter(math.sqrt(6.0), 3.0)
_START_SHARE: Final = 0.5
# Balls hold what one deviation of the squared distance lets in, of patterns a tenth wider than they seemed.
_INFLATION: Final = 1.1
_SMALLEST_EIGENVALUE: Final = 0.05
_FLOOR_IN_NOISE: Final = 0.5
_PENALTY_IN_NOISE: Final = 0.3
# Squares of means, and covariances after one more sum, are finite within this.
_LARGEST_PATTERN: Final = 2.0**300


@dataclass(frozen=True, eq=False)
class NoisyGaussians(NoisyPatterns):
    """Patterns in the frame's coordinates; `noise` is the error of an entry of a whitened covariance."""

    counts: Floats
    means: Floats
    covariances: Floats
    noise: Floats

    def kept(self, chosen: NDArray[np.intp]) -> Self:
        """Those that an index array chooses."""
        return type(self)(self.counts[chosen], self.means[chosen], self.covariances[chosen], self.noise[chosen])

    def joined(self, others: Self) -> Self:
        """These and then the others."""
        return type(self)(
            np.append(self.counts, others.counts),
            np.concatenate([self.means, others.means]),
            np.concatenate([self.covariances, others.covariances]),
            np.append(self.noise, others.noise),
        )

    def united(self, pair: tuple[int, int]) -> Self:
        """One pattern with the moments of two."""
        first, second = pair
        count = self.counts[first] + self.counts[second]
        share = self.counts[first] / count
        mean = share * self.means[first] + (1 - share) * self.means[second]
        apart = self.means[first] - self.means[second]
        covariance = share * self.covariances[first] + (1 - share) * self.covariances[second]
        covariance = covariance + share * (1 - share) * np.outer(apart, apart)
        noise = math.hypot(share * self.noise[first], (1 - share) * self.noise[second])
        return type(self)(np.array([count]), mean[np.newaxis], covariance[np.newaxis], np.array([noise]))

    def union_gain(self, pair: tuple[int, int], rows: int) -> float:
        """Twice the log-likelihood with known labels that a union costs, against what its parameters save."""
        columns = self.means.shape[1]
        parameters = columns + columns * (columns + 1) / 2
        apart = sum(self._label_likelihood(k) for k in pair)
        return float(self.united(pair)._label_likelihood(0) - apart + parameters * math.log(rows))

    def _label_likelihood(self, k: int) -> float:
        count = float(self.counts[k])
        return -count * float(np.linalg.slogdet(self.covariances[k])[1]) + classification_likelihood_term(count)

    def diagonal(self) -> Self:
        """Returns the patterns with independent columns."""
        return type(self)(self.counts, self.means, self.covariances * np.eye(self.means.shape[1]), self.noise)


def moment_count(columns: int) -> int:
    """Numbers of one pattern in the sum of an iteration."""
    return 1 + columns + columns * (columns + 1) // 2


def noisy_gaussians(
    terms: TrainingTerms, plan: NoisePlan, frame: Frame, releases: tuple[NoisyTotal, ...]
) -> Script[NoisyGaussians]:
    """All iterations, from public points or an earlier dictionary."""
    columns, family = len(terms.columns), terms.family
    is_diagonal, is_warm = isinstance(family, DiagonalGaussian), terms.initial is not None
    if terms.initial is None:
        found = _from_points(terms.n_patterns, columns, float(plan.rows))
        eyes = np.repeat(np.eye(columns)[np.newaxis], terms.n_patterns, axis=0)
        clip = Clip(np.zeros_like(found.means), eyes, ball_radius(columns))
    else:
        found = _from_earlier(family.framed(terms.initial.patterns, frame), terms.initial.shares * plan.rows)
        spare = terms.n_patterns - len(found.counts)
        if spare > 0:
            found = found.joined(_from_points(spare, columns, SPARE_SHARE * plan.rows))
        clip = _own_clip(found)
    for iteration, release in enumerate(releases):
        found = yield from _noisy_iteration(plan, release, frame, found, clip, is_whitened=is_warm or iteration > 0)
        found = merged_late(found.diagonal() if is_diagonal else found, plan, iteration, len(releases))
        clip = _own_clip(found)
    return found


def _from_points(patterns: int, columns: int, rows: float) -> NoisyGaussians:
    """Patterns around public points, with so many records together."""
    covariances = np.repeat(np.eye(columns)[np.newaxis] * _START_SHARE, patterns, axis=0)
    return NoisyGaussians(
        np.full(patterns, rows / patterns), normal_points(patterns, columns), covariances, np.zeros(patterns)
    )


def _from_earlier(patterns: Patterns, counts: Floats) -> NoisyGaussians:
    """An earlier dictionary's patterns, in the frame's coordinates."""
    precisions = patterns["precisions"]
    if precisions.ndim == 2:
        precisions = np.eye(precisions.shape[1]) * precisions[:, np.newaxis]
    covariances = np.asarray(np.linalg.inv(precisions), dtype=np.float64)
    covariances = (covariances + covariances.transpose(0, 2, 1)) / 2
    return NoisyGaussians(counts, patterns["means"], covariances, np.zeros(len(counts)))


def _own_clip(found: NoisyGaussians) -> Clip:
    """Balls in the coordinates of each pattern."""
    roots = np.linalg.cholesky(found.covariances * _INFLATION)
    return Clip(found.means, np.linalg.inv(roots), ball_radius(found.means.shape[1]))


def ball_radius(columns: int) -> float:
    """√(M + √(2M)): one deviation beyond the mean of a squared distance."""
    return math.sqrt(columns + math.sqrt(2 * columns))


def _noisy_iteration(
    plan: NoisePlan, release: NoisyTotal, frame: Frame, before: NoisyGaussians, clip: Clip, *, is_whitened: bool
) -> Script[NoisyGaussians]:
    """One noisy E step, and the patterns that its total describes."""
    patterns, columns = before.means.shape
    size = patterns * moment_count(columns)
    weights = before.counts / before.counts.sum()
    limits = np.full(size, power_of_two_at_least(plan.limit(release)))
    precisions = np.linalg.inv(before.covariances)
    question = NoisyMoments(
        limits, plan, release, frame, before.means, (precisions + precisions.transpose(0, 2, 1)) / 2, weights, clip
    )
    total = yield question
    question.check_plausible(total)
    counts, sums, products = unpacked(total, patterns, columns)
    deviation = plan.total_deviation(release)
    described = [
        _described(
            max(counts[k], deviation, 1.0), sums[k], products[k], clip, int(k), deviation, is_whitened=is_whitened
        )
        for k in staying_patterns(counts, plan, release)
    ]
    found = NoisyGaussians(*(np.array(part) for part in zip(*described, strict=True)))
    _check_finite(found)
    return found


def _check_finite(found: NoisyGaussians) -> None:
    """Raise ImplausibleTotal where totals make patterns grow or shrink from sum to sum until numbers overflow."""
    variances = np.diagonal(found.covariances, axis1=1, axis2=2)
    is_within = all(np.all(np.abs(part) <= _LARGEST_PATTERN) for part in (found.means, found.covariances))
    if not is_within or not np.all(variances >= 1 / _LARGEST_PATTERN):
        raise implausible()


def _described(
    count: float, sums: Floats, products: Floats, clip: Clip, k: int, deviation: float, *, is_whitened: bool
) -> tuple[float, Floats, Floats, float]:
    """Count, mean, covariance and noise of one pattern, back in the frame's coordinates."""
    columns = len(sums)
    radius = clip.radius
    mean = radius * sums / count
    noise = radius**2 * deviation / count
    covariance = radius**2 * products / count - np.outer(mean, mean)
    if is_whitened:
        covariance = covariance / variance_left_by_clipping(columns, radius)
    regular = shrunk(covariance, noise)
    roots = np.linalg.inv(clip.inverses[k])
    return count, clip.centres[k] + roots @ mean, roots @ regular @ roots.T, noise


def variance_left_by_clipping(columns: int, radius: float) -> float:
    """E min(q, a)/M for a squared distance q ~ χ²_M and a = radius²·inflation: what clipping leaves of a normal pattern's variance."""
    most = radius**2 * _INFLATION
    return float((columns * chi2.cdf(most, columns + 2) + most * chi2.sf(most, columns)) / columns)


def shrunk(covariance: Floats, noise: float) -> Floats:
    """Drawn towards a multiple of the identity by the known share of noise in what differs from it; eigenvalues above a floor."""
    columns = len(covariance)
    target = max(float(np.trace(covariance)) / columns, _SMALLEST_EIGENVALUE) * np.eye(columns)
    distance = float(np.sum((covariance - target) ** 2))
    # Diagonal entries have the noise once; of two equal entries off it, each has half the variance.
    expected = noise**2 * columns * (columns + 1) / 2
    share = min(1.0, expected / distance) if distance > 0 else 1.0
    values, vectors = np.linalg.eigh((1 - share) * covariance + share * target)
    floor = max(_SMALLEST_EIGENVALUE, _FLOOR_IN_NOISE * noise)
    regular = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray((regular + regular.T) / 2)


def gaussian_patterns(family: Family, found: NoisyGaussians) -> Patterns:
    """Precisions: of the diagonal, or sparse with a penalty of the size of the noise."""
    if isinstance(family, DiagonalGaussian):
        return Patterns({"means": found.means, "precisions": 1 / np.diagonal(found.covariances, axis1=1, axis2=2)})
    precisions = np.empty_like(found.covariances)
    for k, covariance in enumerate(found.covariances):
        roots = np.sqrt(np.diag(covariance))
        outer = np.outer(roots, roots)
        penalty = _PENALTY_IN_NOISE * found.noise[k] * _INFLATION / math.sqrt(2) + 0.5 / found.counts[k]
        precisions[k] = graphical_lasso(covariance / outer, penalty, 1e-7).precision / outer
    return Patterns({"means": found.means, "precisions": precisions})
