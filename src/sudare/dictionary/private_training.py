"""A private training: (ε, δ)-DP towards members and outsiders, replace-one records. Proof: proofs/dictionary.md.

A fixed number of noisy sums, each computed from public numbers and clipped contributions: one for centre and spread, then one for
every iteration. From the second iteration on records are clipped in the coordinates of each pattern as the last total
described it, so the noise is a fraction of the pattern's own spread and not of the declared bounds. All that happens between
the sums (shrinking, merging, sparse precisions) uses noisy totals only and costs nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from sudare.dictionary.em import Dictionary, Script, Terms, implausible, row_count
from sudare.dictionary.families import Family, Floats, Frame, Overall, Patterns
from sudare.dictionary.gaussian_families import DiagonalGaussian, SparseGaussian
from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.dictionary.pattern_selection import normal_points
from sudare.dictionary.private_noise import NoisePlan, Release
from sudare.dictionary.private_sum_questions import Clip, NoisyMoments, NoisyOpening, unpacked
from sudare.dictionary.secure_totals import ADDENDS
from sudare.dictionary.sum_questions import Branch, power_of_two_at_least
from sudare.errors import InvalidParameter
from sudare.privacy.accounting import gaussian_mu_within

_OPENING_SHARE: Final = Fraction(1, 10)
_MOMENT_SENSITIVITY: Final = math.nextafter(math.sqrt(6.0), 3.0)
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 8, 24
# Patterns may merge in the last third: before, those that overlap have not yet come apart.
_MERGED_FROM: Final = 2 / 3
_START_SHARE: Final = 0.5
# Balls hold what one deviation of the squared distance lets in, of patterns a tenth wider than they seemed.
_INFLATION: Final = 1.1
_SMALLEST_EIGENVALUE: Final = 0.05
_FLOOR_IN_NOISE: Final = 0.5
_PENALTY_IN_NOISE: Final = 0.3
_SMALLEST_SHARE: Final = 0.01
_NOISE_DEVIATIONS: Final = 3.0
# A noisy total farther out is implausible; noise alone gets there with probability 1e-23 a number.
_FARTHEST_TOTAL: Final = 10.0
# Squares of means, and covariances after one more sum, are finite within this.
_LARGEST_PATTERN: Final = 2.0**300


@dataclass(frozen=True, eq=False)
class PrivateTerms:
    """What members agree on before a private training, besides the usual terms. All of it is public."""

    terms: Terms
    epsilon: float
    delta: float
    colluders: int = 1
    iterations: int | None = None
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.terms.family, SparseGaussian | DiagonalGaussian):
            raise InvalidParameter(
                f"A private training is about Gaussian patterns, not {self.terms.family.name}.",
                "Use family='sparse_gaussian' or 'diagonal_gaussian', or train without epsilon.",
            )
        if self.iterations is not None and self.iterations < 1:
            raise InvalidParameter(
                "A private training needs at least one iteration.", "Leave it out for the public rule."
            )

    def plan(self, rows: int) -> NoisePlan:
        """The noise of all sums, from public numbers: charged for at once, before any of it is drawn."""
        iterations = self.iterations
        if iterations is None:
            iterations = public_iterations(
                self.epsilon, self.delta, rows, len(self.terms.columns), self.terms.n_patterns
            )
        releases = _releases(len(self.terms.columns), self.terms.n_patterns, iterations, self.rows_per_unit)
        plan = _plan(self.epsilon, self.delta, self.terms.members, self.colluders, releases, rows)
        check_exact_in_words(plan)
        return plan


def check_exact_in_words(plan: NoisePlan) -> None:
    """Raise InvalidParameter unless noisy addends on the plan's grid are whole steps of the words that are added up.

    Else every member would round its own noisy addend, and the total would be no function of the noisy sum that the proof is about.
    """
    coarsest = max(float(power_of_two_at_least(plan.limit(release))) for release in plan.releases) * float(ADDENDS.step)
    if coarsest > plan.grid:
        raise InvalidParameter(
            "The noise of this training is too large to be added exactly.",
            "Use a larger epsilon, fewer rows per person, or a smaller number of private_iterations.",
        )


def public_iterations(epsilon: float, delta: float, rows: int, columns: int, patterns: int) -> int:
    """How many iterations, from public numbers alone: the more records a pattern has above the noise, the more are worth it.

    The noise of an iteration grows with the root of their number; patterns that overlap need more of them to come apart.
    """
    signal = gaussian_mu_within(epsilon, delta) * rows / (patterns * ball_radius(columns) ** 2)
    return int(min(_MOST_ITERATIONS, max(_FEWEST_ITERATIONS, math.ceil(4 * signal**0.3))))


def _releases(columns: int, patterns: int, iterations: int, rows_per_unit: int) -> tuple[Release, ...]:
    """The opening and all iterations, each of at most so many numbers."""
    of_opening = math.nextafter(2 * math.sqrt(columns), math.inf)
    size = patterns * (1 + columns + columns * (columns + 1) // 2)
    moments = Release(size, _MOMENT_SENSITIVITY, (1 - _OPENING_SHARE) / iterations, rows_per_unit)
    return Release(2 * columns, of_opening, _OPENING_SHARE, rows_per_unit), *[moments] * iterations


@functools.lru_cache(maxsize=16)
def _plan(
    epsilon: float, delta: float, members: int, colluders: int, releases: tuple[Release, ...], rows: int
) -> NoisePlan:
    return NoisePlan(epsilon, delta, members, colluders, releases, rows)


@dataclass(frozen=True, eq=False)
class Noisy:
    """Patterns as noisy totals describe them, in the frame's coordinates; `noise` is the error of an entry of a whitened covariance."""

    counts: Floats
    means: Floats
    covariances: Floats
    noise: Floats

    def kept(self, chosen: NDArray[np.intp]) -> Noisy:
        """Those that a mask or index array chooses."""
        return Noisy(self.counts[chosen], self.means[chosen], self.covariances[chosen], self.noise[chosen])


def trained_privately(private: PrivateTerms) -> Script[Dictionary]:
    """The script of a private training."""
    terms = private.terms
    rows = yield from row_count(terms)
    plan = private.plan(rows)
    overall = yield from _noisy_opening(terms, plan)
    frame = Frame(overall.mean, overall.deviation)
    columns = len(terms.columns)
    patterns = terms.n_patterns
    means = normal_points(patterns, columns)
    found = Noisy(
        np.full(patterns, rows / patterns),
        means,
        np.repeat(np.eye(columns)[np.newaxis] * _START_SHARE, patterns, axis=0),
        np.zeros(patterns),
    )
    clip = Clip(np.zeros_like(means), np.repeat(np.eye(columns)[np.newaxis], patterns, axis=0), ball_radius(columns))
    is_diagonal = isinstance(terms.family, DiagonalGaussian)
    for iteration, release in enumerate(plan.releases[1:]):
        found = yield from _noisy_iteration(plan, release, frame, found, clip, is_whitened=iteration > 0)
        if is_diagonal:
            found = Noisy(found.counts, found.means, found.covariances * np.eye(columns), found.noise)
        if iteration >= math.floor(_MERGED_FROM * (len(plan.releases) - 1)):
            found = merged(found, rows)
        roots = np.linalg.cholesky(found.covariances * _INFLATION)
        clip = Clip(found.means, np.linalg.inv(roots), clip.radius)
    final = _final_patterns(terms.family, found)
    return Dictionary(terms.family, final, frame, overall, found.counts, Branch(0), ())


def ball_radius(columns: int) -> float:
    """√(M + √(2M)): one deviation beyond the mean of a squared distance."""
    return math.sqrt(columns + math.sqrt(2 * columns))


def _noisy_opening(terms: Terms, plan: NoisePlan) -> Script[Overall]:
    """Centre and spread from noisy sums; a spread below the noise counts as the noise."""
    release, columns = plan.releases[0], len(terms.columns)
    limits = np.full(release.size, power_of_two_at_least(plan.limit(release)))
    total = yield NoisyOpening(limits, plan, release, terms.low, terms.high)
    _check_plausible(total, plan, release)
    mean = np.clip(total[:columns] / plan.rows, -1.0, 1.0)
    noise = plan.total_deviation(release) / plan.rows
    variance = np.clip(total[columns:] / plan.rows - mean**2, 2 * noise, 1.0 + 2 * noise)
    middle, half = (terms.low + terms.high) / 2, (terms.high - terms.low) / 2
    return Overall(plan.rows, middle + half * mean, np.diag(variance * half**2))


def _noisy_iteration(
    plan: NoisePlan, release: Release, frame: Frame, before: Noisy, clip: Clip, *, is_whitened: bool
) -> Script[Noisy]:
    """One noisy E step, and the patterns that its total describes."""
    patterns, columns = before.means.shape
    size = patterns * (1 + columns + columns * (columns + 1) // 2)
    weights = before.counts / before.counts.sum()
    limits = np.full(size, power_of_two_at_least(plan.limit(release)))
    precisions = np.linalg.inv(before.covariances)
    total = yield NoisyMoments(
        limits, plan, release, frame, before.means, (precisions + precisions.transpose(0, 2, 1)) / 2, weights, clip
    )
    _check_plausible(total, plan, release)
    counts, sums, products = unpacked(total, patterns, columns)
    deviation = plan.total_deviation(release)
    staying = counts > max(_NOISE_DEVIATIONS * deviation, _SMALLEST_SHARE * plan.rows)
    if not np.any(staying):
        staying = counts == counts.max()
    described = [
        _described(
            max(counts[k], deviation, 1.0), sums[k], products[k], clip, int(k), deviation, is_whitened=is_whitened
        )
        for k in np.flatnonzero(staying)
    ]
    found = Noisy(*(np.array(part) for part in zip(*described, strict=True)))
    _check_finite(found)
    return found


def _check_finite(found: Noisy) -> None:
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
        covariance = covariance / clipped_share(columns, radius)
    regular = shrunk(covariance, noise)
    roots = np.linalg.inv(clip.inverses[k])
    return count, clip.centres[k] + roots @ mean, roots @ regular @ roots.T, noise


def clipped_share(columns: int, radius: float) -> float:
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


def merged(found: Noisy, rows: int) -> Noisy:
    """Pairs united as long as that raises the integrated classification likelihood (Biernacki et al. 2000), from totals alone."""
    while len(found.counts) > 1:
        gains = {pair: _merge_gain(found, pair, rows) for pair in itertools.combinations(range(len(found.counts)), 2)}
        pair = max(gains, key=lambda each: gains[each])
        if gains[pair] <= 0:
            break
        others = np.array([k for k in range(len(found.counts)) if k not in pair], dtype=np.intp)
        count, mean, covariance, noise = _union(found, pair)
        rest = found.kept(others)
        found = Noisy(
            np.append(rest.counts, count),
            np.concatenate([rest.means, mean[np.newaxis]]),
            np.concatenate([rest.covariances, covariance[np.newaxis]]),
            np.append(rest.noise, noise),
        )
    return found


def _union(found: Noisy, pair: tuple[int, int]) -> tuple[float, Floats, Floats, float]:
    """One pattern with the moments of two."""
    first, second = pair
    count = found.counts[first] + found.counts[second]
    share = found.counts[first] / count
    mean = share * found.means[first] + (1 - share) * found.means[second]
    apart = found.means[first] - found.means[second]
    covariance = share * found.covariances[first] + (1 - share) * found.covariances[second]
    covariance = covariance + share * (1 - share) * np.outer(apart, apart)
    noise = math.hypot(share * found.noise[first], (1 - share) * found.noise[second])
    return float(count), mean, covariance, noise


def _merge_gain(found: Noisy, pair: tuple[int, int], rows: int) -> float:
    """Twice the log-likelihood with known labels that a union costs, against what its parameters save."""
    count, _, covariance, _ = _union(found, pair)
    columns = found.means.shape[1]
    parameters = columns + columns * (columns + 1) / 2
    apart = sum(_label_likelihood(float(found.counts[k]), found.covariances[k]) for k in pair)
    return float(_label_likelihood(count, covariance) - apart + parameters * math.log(rows))


def _label_likelihood(count: float, covariance: Floats) -> float:
    return -count * float(np.linalg.slogdet(covariance)[1]) + 2 * count * math.log(count)


def _final_patterns(family: Family, found: Noisy) -> Patterns:
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


def _check_plausible(total: Floats, plan: NoisePlan, release: Release) -> None:
    if not np.all(np.isfinite(total)) or np.any(
        np.abs(total) > plan.rows + _FARTHEST_TOTAL * plan.total_deviation(release)
    ):
        raise implausible()
