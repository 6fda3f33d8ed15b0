"""Unbiased proportions of pairs with standard errors, and a test of independence, from two columns that were perturbed independently.

A score of an answer has mean 1 given that the value lies in a bin (or is a category) and mean 0 given that it does not. Scores of two columns
multiply, so their mean product is an unbiased proportion of the pair.

Original columns that are independent of each other stay so when each is perturbed on its own. A test of independence of the answers is
therefore one of the originals, with the same level and without any estimate of the noise. Given the answers of each column, every pairing of
them is then as likely, whatever the scores, as long as these depend on one column only: the mean and variance of the statistic are known exactly.
Where they are not those of the usual law, because records are few or answers rare, pairings are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from sudare.array_types import Floats
from sudare.perturbation.categorical import CategoryPerturbation
from sudare.perturbation.number_channels import NumberPerturbation
from sudare.reconstruction.category_frequencies import Ticks, mean_scores, tick_scores
from sudare.reconstruction.reconstructed_distribution import Distribution

_LEAST_PROBABILITY: Final = 1e-12
# Directions of scores with a smaller part of the largest variance are the same for every record, up to rounding.
_LEAST_VARIANCE: Final = 1e-8
# With fewer there is no variance over pairings to speak of.
_LEAST_RECORDS: Final = 4
_PAIRINGS: Final = 999
# No pairings are drawn where the law's variance is so near to the usual one (its share), nor where one would take so many products.
_NEAR_THE_LAW: Final = 0.02
_MOST_WORK: Final = 5 * 10**6
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, eq=False)
class ScoredAnswers:
    """A column: for each record the number of its answer, and the scores of each answer, a column a bin or category."""

    answers: NDArray[np.intp]
    scores: Floats


@dataclass(frozen=True)
class IndependenceTest:
    """Pearson's test: the statistic has about a chi-square law with so many degrees of freedom if the columns are independent.

    Both are scaled, so that the law has the mean and variance that the statistic has over all pairings of the answers: with many records by next to nothing,
    with few records and rare answers by much. Then `p_value` is the share of drawn pairings with such a statistic, and else that of the law.
    """

    statistic: float
    degrees_of_freedom: float
    p_value: float

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return {"statistic": self.statistic, "degrees_of_freedom": self.degrees_of_freedom, "p_value": self.p_value}


def scored_categories(perturbation: CategoryPerturbation, ticks: Ticks) -> ScoredAnswers:
    """Ticks, made unbiased."""
    packed = np.packbits(ticks, axis=1)
    _, first, answers = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return ScoredAnswers(answers.reshape(-1), tick_scores(perturbation, ticks[first]))


def scored_numbers(
    perturbation: NumberPerturbation, margin: Distribution, edges_y: Floats, edges: Floats, values: Floats
) -> ScoredAnswers:
    """Scores of the bins between `edges`, given how the margin is spread within each; what lies outside of them is a bin that is left out.

    Of all scores of bins of the perturbed value they are those of least variance (weighted least squares).
    """
    inside = margin.layout.binning(edges)
    every = np.vstack([inside, np.clip(1 - inside.sum(axis=0), 0.0, 1.0)])
    weights = every * (margin.probabilities + _LEAST_PROBABILITY)
    totals = weights.sum(axis=1)
    weights = weights[totals > 0] / totals[totals > 0, np.newaxis]
    channel = margin.layout.channel(perturbation, edges_y)
    roots = np.sqrt(channel @ margin.probabilities + _LEAST_PROBABILITY)[:, np.newaxis]
    scores = np.linalg.pinv(channel @ weights.T / roots).T / roots
    return ScoredAnswers(np.searchsorted(edges_y[1:-1], values), scores[:, : len(inside)])


def scored_pairs(first: ScoredAnswers, second: ScoredAnswers) -> tuple[Floats, Floats]:
    """Unbiased proportions of all pairs, and their standard errors."""
    counts, one, other = counted_pairs(first, second)
    return mean_scores(counts, first.scores[one], second.scores[other])


def independence(first: ScoredAnswers, second: ScoredAnswers, generator: np.random.Generator) -> IndependenceTest:
    """Whether scores of both columns go together: the sum of their squared canonical correlations times the number of records.

    For single categories this is Pearson's statistic of the table of answers, but for its scale. The generator is that of drawn pairings.
    """
    counts, one, other = counted_pairs(first, second)
    records = len(first.answers)
    shares = [np.bincount(scored.answers, minlength=len(scored.scores)) / records for scored in (first, second)]
    left, right = (whitened(scored.scores, own) for scored, own in zip((first, second), shares, strict=True))
    together = (left[one] * (counts / records)[:, np.newaxis]).T @ right[other]
    if records < _LEAST_RECORDS or not together.size:
        return IndependenceTest(0.0, 0.0, 1.0)
    mean = records * together.size / (records - 1)
    variance = variance_over_pairings([(left, shares[0]), (right, shares[1])], records)
    if variance < _LEAST_VARIANCE * mean**2:
        return IndependenceTest(0.0, 0.0, 1.0)
    found = records * float((together**2).sum())
    scale = 2 * mean / variance
    by_law = float(chi2.sf(scale * found, scale * mean))
    if abs(1 - 1 / scale) < _NEAR_THE_LAW or records * together.size > _MOST_WORK:
        return IndependenceTest(scale * found, scale * mean, by_law)
    rows, others = left[first.answers], right[second.answers]
    reached = 0
    for _ in range(_PAIRINGS):
        drawn = rows.T @ others[generator.permutation(records)]
        reached += float((drawn**2).sum()) / records >= found * (1 - _ROUNDING)
    by_pairings = (1 + reached) / (1 + _PAIRINGS)
    return IndependenceTest(scale * found, scale * mean, by_pairings if reached else min(by_pairings, by_law))


def variance_over_pairings(columns: Sequence[tuple[Floats, Floats]], records: int) -> float:
    """Of the sum of squared canonical correlations times the number of records, where every pairing of the answers of both columns is as likely.

    Each column has whitened scores of its answers and how often each answer came (Kazi-Aoual et al. 1995, "Refined approximations to permutation tests for multivariate inference").
    """
    n = float(records)
    alike, uneven = 2.0, 1.0
    for scores, shares in columns:
        directions = scores.shape[1]
        # Of the matrix of inner products of all records' scores, over the number of records: the sum of squares on its diagonal.
        squares = float(shares @ (scores**2).sum(axis=1) ** 2) / n
        alike *= directions * (n - 1 - directions)
        uneven *= n * (n + 1) * squares - (n - 1) * (directions**2 + 2 * directions)
    return n**2 * (alike / ((n - 1) ** 2 * (n + 1) * (n - 2)) + uneven / (n * (n + 1) * (n - 1) * (n - 2) * (n - 3)))


def whitened(scores: Floats, shares: Floats) -> Floats:
    """Uncorrelated scores with mean zero and variance one that span the given ones."""
    seen = shares > 0
    centred = np.where(seen[:, np.newaxis], scores - shares @ scores, 0.0)
    scales = np.sqrt(shares @ centred**2)
    # Scores of different bins may differ by orders of magnitude.
    scaled = centred / np.where(scales > 0, scales, 1.0)
    variances, directions = np.linalg.eigh((scaled * shares[:, np.newaxis]).T @ scaled)
    kept = variances > _LEAST_VARIANCE * max(float(variances[-1]), _LEAST_VARIANCE)
    return np.asarray(scaled @ directions[:, kept] / np.sqrt(variances[kept]))


def counted_pairs(first: ScoredAnswers, second: ScoredAnswers) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """How often each distinct pair of answers came, and both answers' numbers."""
    columns = len(second.scores)
    pairs, counts = np.unique(first.answers * columns + second.answers, return_counts=True)
    return counts.astype(np.float64), pairs // columns, pairs % columns
