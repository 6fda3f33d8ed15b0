"""Patterns of columns that are not normal (counts, amounts, codes) from noisy sums. Proof: proofs/dictionary.md.

Sufficient statistics are clipped to intervals that hold most of what each pattern, as the last total described it, would make of them.
What clipping takes away from a pattern's mean is known if the pattern is right, and added again: where iterations come to rest, the
clipped means are those of the pattern. All that happens between the sums uses noisy totals only and costs nothing.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp
from scipy.stats import qmc

from sudare.array_types import Floats
from sudare.dictionary.column_families import ColumnFamily
from sudare.dictionary.component_merging import SPARE_SHARE, NoisyPatterns, merged_late, staying_patterns
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal
from sudare.dictionary.em import Script, TrainingTerms
from sudare.dictionary.exponential_families import Frame, Overall, Patterns
from sudare.dictionary.pattern_selection import normal_points
from sudare.dictionary.private_sum_questions import Intervals, NoisyStatistics
from sudare.dictionary.sum_questions import power_of_two_at_least

# By how much a replaced record moves the sum of an iteration.
STATISTIC_SENSITIVITY: Final = 2.0
# Quantiles by which a pattern's own intervals and what they cut off are computed.
_QUANTILES: Final = (np.arange(1, 1024, 2) / 1024)[:, np.newaxis]
# Doubt counts less than in the integrated classification likelihood, by which patterns as wide as Gamma ones are soon one.
_DOUBT_WEIGHT: Final = 0.3
# No mean of what cannot be negative is below half of its noise.
_FLOOR_IN_NOISE: Final = 0.5


@dataclass(frozen=True, eq=False)
class NoisyColumns(NoisyPatterns):
    """Patterns by the means of T(x), patterns × statistics, in the frame's coordinates."""

    family: ColumnFamily
    columns: int
    counts: Floats
    means: Floats

    @property
    def totals(self) -> Floats:
        """N·mean of T(x)."""
        return self.counts[:, np.newaxis] * self.means

    def patterns(self) -> Patterns:
        """The patterns that these means describe."""
        return self.family.updated(self.counts, self.totals)

    def kept(self, chosen: NDArray[np.intp]) -> Self:
        """Those that an index array chooses."""
        return type(self)(self.family, self.columns, self.counts[chosen], self.means[chosen])

    def joined(self, others: Self) -> Self:
        """These and then the others."""
        return type(self)(
            self.family, self.columns, np.append(self.counts, others.counts), np.concatenate([self.means, others.means])
        )

    def united(self, pair: tuple[int, int]) -> Self:
        """One pattern with the totals of two."""
        chosen = list(pair)
        count = self.counts[chosen].sum()
        return type(self)(
            self.family, self.columns, np.array([count]), (self.totals[chosen].sum(axis=0) / count)[np.newaxis]
        )

    def union_gain(self, pair: tuple[int, int], rows: int) -> float:
        """Twice what a union gains if the two patterns are right: fewer parameters by BIC, fewer doubtful records, less likelihood.

        Where iterations are few, one pattern of the records is still described by several that share them: doubt, the entropy of
        responsibilities, tells those from patterns that overlap at their ends. It is computed at public points, as the likelihood is.
        """
        union, parts = self.united(pair), self.kept(np.array(pair))
        patterns, one = parts.patterns(), union.patterns()
        shares = parts.counts / parts.counts.sum()
        gain = 0.0
        for k, share in enumerate(shares):
            points = self.family.draws(patterns, k, _points(self.columns))
            log_joint = self.family.log_joint(points, shares, patterns)
            mixture = logsumexp(log_joint, axis=1)
            doubt = entr(np.exp(log_joint - mixture[:, np.newaxis])).sum(axis=1)
            gain += share * float(
                np.mean(_DOUBT_WEIGHT * doubt + self.family.log_densities(points, one)[:, 0] - mixture)
            )
        return float(self.family.free_parameters(one) * math.log(rows) + 2 * union.counts[0] * gain)


@functools.cache
def _points(columns: int) -> Floats:
    """Public points that are spread evenly over the unit cube."""
    sequence = qmc.Sobol(columns, scramble=False)
    sequence.fast_forward(1)
    return np.asarray(sequence.random(2**10 - 1))


def noisy_columns(
    terms: TrainingTerms, family: ColumnFamily, plan: NoisePlan, overall: Overall, releases: tuple[NoisyTotal, ...]
) -> Script[tuple[Patterns, Floats]]:
    """All iterations, from public points or an earlier dictionary: patterns in the frame's coordinates, and their noisy counts."""
    frame = family.frame(overall)
    if terms.initial is None:
        patterns = family.start(normal_points(terms.n_patterns, len(overall.mean)), overall)
        counts = np.full(len(patterns), plan.rows / len(patterns))
        intervals, lost = _common_intervals(family, patterns, family.reference(overall), len(terms.columns))
    else:
        patterns, counts = family.framed(terms.initial.patterns, frame), terms.initial.shares * plan.rows
        spare = terms.n_patterns - len(patterns)
        if spare > 0:
            patterns = patterns.joined(family.start(normal_points(spare, len(overall.mean)), overall))
            counts = np.append(counts, np.full(spare, SPARE_SHARE * plan.rows / spare))
        intervals, lost = own_intervals(family, patterns, len(terms.columns))
    for iteration, release in enumerate(releases):
        found = yield from _noisy_iteration(terms, family, plan, release, frame, patterns, counts, intervals, lost)
        found = merged_late(found, plan, iteration, len(releases))
        patterns, counts = found.patterns(), found.counts
        intervals, lost = own_intervals(family, patterns, len(terms.columns))
    return patterns, counts


def own_intervals(family: ColumnFamily, patterns: Patterns, columns: int) -> tuple[Intervals, Floats]:
    """Intervals of each pattern in its own coordinates, and how much of the mean of its statistics they cut off."""
    centres, halves, lost = [], [], []
    for k in range(len(patterns)):
        relative = _relative(family, patterns, k, patterns.kept(np.array([k])), columns)
        centre, half = family.intervals(relative)
        centres.append(centre)
        halves.append(half)
        lost.append((relative - np.clip(relative, centre - half, centre + half)).mean(axis=0))
    return Intervals(patterns, np.array(centres), np.array(halves), family.longest(columns)), np.array(lost)


def _common_intervals(
    family: ColumnFamily, patterns: Patterns, reference: Patterns, columns: int
) -> tuple[Intervals, Floats]:
    """Intervals that suit all patterns of a start, which may be far from the records': they are not trusted to tell what is cut off."""
    count = len(patterns)
    relative = np.concatenate([_relative(family, patterns, k, reference, columns) for k in range(count)])
    centre, half = (np.repeat(part[np.newaxis], count, axis=0) for part in family.intervals(relative))
    references = reference.kept(np.zeros(count, dtype=np.intp))
    return Intervals(references, centre, half, family.longest(columns)), np.zeros_like(centre)


def _relative(family: ColumnFamily, patterns: Patterns, k: int, reference: Patterns, columns: int) -> Floats:
    """Relative statistics at evenly spread quantiles of every column of a pattern."""
    return family.relative_statistics(family.draws(patterns, k, np.repeat(_QUANTILES, columns, axis=1)), reference)


def _noisy_iteration(
    terms: TrainingTerms,
    family: ColumnFamily,
    plan: NoisePlan,
    release: NoisyTotal,
    frame: Frame,
    patterns: Patterns,
    counts: Floats,
    intervals: Intervals,
    lost: Floats,
) -> Script[NoisyColumns]:
    """One noisy E step, and the patterns that its total describes."""
    limits = np.full(len(patterns) * (1 + lost.shape[1]), power_of_two_at_least(plan.limit(release)))
    question = NoisyStatistics(limits, plan, release, family, frame, patterns, counts / counts.sum(), intervals)
    total = yield question
    question.check_plausible(total)
    parts = total.reshape(len(patterns), -1)
    deviation = plan.total_deviation(release)
    low, high = frame.applied(terms.low), frame.applied(terms.high)
    means = []
    staying = staying_patterns(parts[:, 0], plan, release)
    found = np.maximum(parts[staying, 0], max(deviation, 1.0))
    for k, count in zip(staying, found, strict=True):
        width = intervals.halves[k] * intervals.longest
        clipped = np.clip(width * parts[k, 1:] / count, -intervals.halves[k], intervals.halves[k])
        least = np.minimum(_FLOOR_IN_NOISE * width * deviation / count, intervals.halves[k])
        reference = intervals.references.kept(np.array([k]))
        relative = intervals.centres[k] + clipped + lost[k]
        means.append(family.mean_statistics(relative, reference, np.maximum(least, 1e-9)))
    return NoisyColumns(family, len(terms.columns), found, family.within(np.array(means), low, high))
