"""Unbiased proportions of pairs with standard errors, and a test of independence, from two columns that were perturbed independently.

A score of an answer has mean 1 given that the value lies in a bin (or is a category) and mean 0 given that it does not. Scores of two columns
multiply, so their mean product is an unbiased proportion of the pair.

Original columns that are independent of each other stay so when each is perturbed on its own. A test of independence of the answers is
therefore one of the originals, with the same level and without any estimate of the noise.
"""

from __future__ import annotations

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


@dataclass(frozen=True, eq=False)
class ScoredAnswers:
    """A column: for each record the number of its answer, and the scores of each answer, a column a bin or category."""

    answers: NDArray[np.intp]
    scores: Floats


@dataclass(frozen=True)
class IndependenceTest:
    """Pearson's test: the statistic has a chi-square law with so many degrees of freedom if the columns are independent."""

    statistic: float
    degrees_of_freedom: int
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


def independence(first: ScoredAnswers, second: ScoredAnswers) -> IndependenceTest:
    """Whether scores of both columns go together: the sum of their squared canonical correlations times the number of records.

    For single categories this is Pearson's statistic of the table of answers.
    """
    counts, one, other = counted_pairs(first, second)
    records = float(counts.sum())
    left, right = (
        whitened(scored.scores, np.bincount(scored.answers, minlength=len(scored.scores)) / records)
        for scored in (first, second)
    )
    together = (left[one] * (counts / records)[:, np.newaxis]).T @ right[other]
    degrees = together.size
    statistic = records * float((together**2).sum())
    return IndependenceTest(statistic, degrees, float(chi2.sf(statistic, degrees)) if degrees else 1.0)


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
