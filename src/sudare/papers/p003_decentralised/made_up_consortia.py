"""Made-up consortia whose patterns are known: the chapter's example (1.85)–(1.87), and a harder one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sudare.array_types import Floats
from sudare.dictionary import MemberModel, PatternDictionary
from sudare.dictionary.dependency_selection import fitted_on
from sudare.dictionary.exponential_families import Patterns
from sudare.dictionary.gaussian_families import SparseGaussian

# Three plants, three patterns, four sensors; each plant lacks one pattern (figure 1.7).
CHAPTER_WEIGHTS: Final = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 2.0]]) / 3
CHAPTER_MEANS: Final = np.array([[5.0, 0.0, 0.0, 5.0], [0.0, 5.0, 5.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
CHAPTER_PAIRS: Final = (((0, 3), (1, 2)), ((0, 2), (1, 3)), ((0, 1), (2, 3)))


@dataclass(frozen=True, eq=False)
class Truth:
    """Gaussian patterns and members' weights."""

    means: Floats
    precisions: Floats
    weights: Floats

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names: x0, x1 and so on."""
        return tuple(f"x{index}" for index in range(self.means.shape[1]))

    def records(self, generator: np.random.Generator, rows: int) -> list[Floats]:
        """So many records of every member."""
        return [records for _, records in self.labelled_records(generator, rows)]

    def labelled_records(self, generator: np.random.Generator, rows: int) -> list[tuple[NDArray[np.intp], Floats]]:
        """The same, each member's with the patterns that they come from."""
        labels = [generator.choice(len(self.means), rows, p=weights) for weights in self.weights]
        return [(own, self.of_patterns(generator, own)) for own in labels]

    def fitted_with_labels(self, labelled: Sequence[tuple[NDArray[np.intp], Floats]]) -> Truth:
        """The most likely patterns and weights for somebody who knows from which pattern each record comes, and which precisions are zero."""
        labels, records = (np.concatenate(parts) for parts in zip(*labelled, strict=True))
        means, precisions = np.empty_like(self.means), np.empty_like(self.precisions)
        for index, precision in enumerate(self.precisions):
            own = records[labels == index]
            means[index] = own.mean(axis=0)
            roots = own.std(axis=0)
            fit = fitted_on(np.corrcoef(own.T), precision != 0, len(own))
            precisions[index] = fit.precision / np.outer(roots, roots)
        counts = [np.bincount(own, minlength=len(means)) for own, _ in labelled]
        return Truth(means, precisions, np.array([count / count.sum() for count in counts]))

    def of_patterns(self, generator: np.random.Generator, labels: NDArray[np.intp]) -> Floats:
        """One record of each named pattern."""
        roots = np.linalg.cholesky(np.linalg.inv(self.precisions))
        noise = generator.standard_normal((len(labels), self.means.shape[1]))
        return np.asarray(self.means[labels] + np.einsum("nij,nj->ni", roots[labels], noise))

    def model(self, member: int) -> MemberModel:
        """A member's true model."""
        patterns = Patterns({"means": self.means, "precisions": self.precisions})
        return MemberModel(SparseGaussian(), patterns, self.weights[member], self.columns)

    def gap(self, scores: list[Floats], tests: list[Floats]) -> float:
        """Mean of −ln p minus that under the truth over all members' test records, in nats a record."""
        best = np.concatenate([self.model(member).score_samples(rows) for member, rows in enumerate(tests)])
        return float(np.mean(np.concatenate(scores)) - np.mean(best))


def chapter_truth(members: int = 3) -> Truth:
    """The chapter's example; with more members its three kinds of plants repeat."""
    precisions = np.stack([np.eye(4) * 1.2] * 3)
    for precision, pairs in zip(precisions, CHAPTER_PAIRS, strict=True):
        for first, second in pairs:
            precision[first, second] = precision[second, first] = 1.0
    return Truth(CHAPTER_MEANS, precisions, CHAPTER_WEIGHTS[np.arange(members) % 3])


def hard_truth(
    generator: np.random.Generator, members: int = 10, patterns: int = 5, columns: int = 10, used: int = 3
) -> Truth:
    """Overlapping patterns of unit variances with means of unit spread, a fifth of the pairs dependent; members use three each."""
    precisions = np.stack([_sparse_precision(generator, columns) for _ in range(patterns)])
    weights = np.zeros((members, patterns))
    for own in weights:
        own[generator.choice(patterns, used, replace=False)] = generator.dirichlet(np.full(used, 2.0))
    return Truth(generator.standard_normal((patterns, columns)), precisions, weights)


def _sparse_precision(generator: np.random.Generator, columns: int) -> Floats:
    chosen = np.triu(generator.random((columns, columns)) < 0.2, 1)
    strengths = generator.choice([-1.0, 1.0], chosen.shape) * generator.uniform(0.4, 0.8, chosen.shape)
    matrix = np.where(chosen, strengths, 0.0)
    matrix = matrix + matrix.T
    matrix += np.eye(columns) * (max(0.0, -float(np.linalg.eigvalsh(matrix)[0])) + 0.3)
    deviations = np.sqrt(np.diag(np.linalg.inv(matrix)))
    return np.asarray(matrix * np.outer(deviations, deviations))


def dictionary_scores(fitted: PatternDictionary, tests: list[Floats]) -> list[Floats]:
    """−ln p of every member's test records under its own model."""
    return [fitted.member(position).score_samples(rows) for position, rows in enumerate(tests)]


def support_f1(fitted: PatternDictionary, truth: Truth) -> float:
    """F1 of the dependencies found, over the patterns matched to true ones by their means; zero if too few were found."""
    distances = np.sum((fitted.means_[:, np.newaxis] - truth.means) ** 2, axis=2)
    found, true = linear_sum_assignment(distances)
    if len(found) < len(truth.means):
        return 0.0
    pairs = np.triu_indices(truth.means.shape[1], 1)
    guessed = np.abs(fitted.precisions_[found][:, pairs[0], pairs[1]]) > 1e-9
    real = truth.precisions[true][:, pairs[0], pairs[1]] != 0
    right = np.count_nonzero(guessed & real)
    return float(2 * right / (np.count_nonzero(guessed) + np.count_nonzero(real)))
