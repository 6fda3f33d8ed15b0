"""Questions whose answers are sums over all members' records, and each member's answer from its own.

A training is a sequence of questions that depends on earlier totals only, so every member knows the next question without
being told. Each answers with an addend from its own records; all learn the total. No message is sent here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.dictionary.exponential_families import Expected, Family, Frame, Patterns, log_weights
from sudare.dictionary.member_tables import Records, total_over
from sudare.dictionary.mixture_weights import inherited_weights, updated_weights
from sudare.errors import InvalidParameter
from sudare.privacy.noise import NoiseSource

# A pattern with less than one expected record at a member has no weight there, as far as BIC is concerned.
_USED_COUNT: Final = 1.0
# Records belong to patterns in parts: three of them may count as 2.999.
_SHARED_PARTS: Final = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Own:
    """What a member keeps to itself: its weights for every branch, and the part of an E step it was not yet asked for."""

    weights: Mapping[int, Floats]
    counts: Floats | None = None
    remainder: Floats | None = None
    saturated: int = 0


@dataclass(frozen=True, eq=False)
class Branch:
    """One line of patterns in the search: how a member's own weights for it come from those of its parent.

    `transfer` (patterns × parent's patterns) maps weights; None keeps those the member has. A branch without a parent
    begins with equal weights.
    """

    number: int
    parent: int | None = None
    transfer: Floats | None = None

    def weights(self, own: Own, patterns: int) -> Floats:
        """The member's weights for this branch: kept, taken over from its parent, or equal."""
        if self.transfer is None:
            return own.weights.get(self.number, np.full(patterns, 1 / patterns))
        return inherited_weights(self.transfer, own.weights[self.number if self.parent is None else self.parent])


@dataclass(frozen=True, eq=False)
class SumQuestion:
    """A sum over all records of all members. `limits` are public powers of two that bound each value of an addend."""

    limits: Floats

    @property
    def size(self) -> int:
        """How many numbers the answer has."""
        return len(self.limits)

    def received(self, total: Floats) -> Floats:
        """A total of scaled addends in the question's own units."""
        return np.asarray(total * self.limits)

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """The member's next state and what its records add to the sum."""
        raise InvalidParameter(f"{type(self).__name__} is not a question of a training.", "Use one program version.")


def answered(records: Records, own: Own, question: SumQuestion, noise: NoiseSource | None = None) -> tuple[Own, Floats]:
    """The member's next state and its addend, scaled to [−1, 1] by the question's limits.

    What lies outside saturates and is counted in the member's own state: an abort would tell the others.
    """
    own, values = question.answer(records, own, noise)
    scaled = values / question.limits
    outside = int(np.count_nonzero(np.abs(scaled) > 1))
    return replace(own, saturated=own.saturated + outside), np.clip(scaled, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class RecordCount(SumQuestion):
    """How many records there are. Public even in a private training, because neighbours replace a record."""

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """The number of the member's records."""
        return own, np.array([float(records.rows)])


@dataclass(frozen=True, eq=False)
class OpeningQuestion(SumQuestion):
    """Sums over the columns that open a training."""

    family: Family

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """The member's sums."""
        return own, total_over(records, self._of_block)

    @abstractmethod
    def _of_block(self, block: Floats) -> Floats:
        """The sums over a block of records."""


@dataclass(frozen=True, eq=False)
class OpeningSums(OpeningQuestion):
    """The sums of the columns in units of half the declared ranges, about their middles."""

    low: Floats
    high: Floats

    def _of_block(self, block: Floats) -> Floats:
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return np.asarray(((self.family.opening(block) - middle) / half).sum(axis=0))


@dataclass(frozen=True, eq=False)
class OpeningSquares(OpeningQuestion):
    """Sums of squares about a common centre, or of the products of all pairs of columns."""

    centre: Floats
    scale: Floats

    def _of_block(self, block: Floats) -> Floats:
        centred = (self.family.opening(block) - self.centre) / self.scale
        if self.family.opens_with_pairs:
            return np.asarray((centred.T @ centred)[np.triu_indices(len(self.centre))])
        return np.asarray(np.einsum("ij,ij->j", centred, centred))


@dataclass(frozen=True, eq=False)
class PatternCounts(SumQuestion):
    """N_k: how many records belong to each pattern. Answering it is the E step (1.11)."""

    family: Family
    frame: Frame
    patterns: Patterns
    branch: Branch
    concentration: float

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """The counts; everything else of the E step waits until it is known which patterns stay."""
        weights = self.branch.weights(own, len(self.patterns))
        total = total_over(records, partial(self._expected, weights))
        prior = (self.concentration - 1) * log_weights(weights).sum()
        used = int(np.count_nonzero(total.counts > _USED_COUNT))
        weight_cost = math.log(records.rows) * max(used - 1, 0)
        remainder = np.concatenate([total.statistics.ravel(), [total.log_likelihood, prior, weight_cost]])
        kept = {**own.weights, self.branch.number: updated_weights(total.counts, self.concentration)}
        return replace(own, weights=kept, counts=total.counts, remainder=remainder), total.counts

    def _expected(self, weights: Floats, block: Floats) -> Expected:
        return self.family.expected(self.frame.applied(block), weights, self.patterns)


@dataclass(frozen=True, eq=False)
class Vetoes(SumQuestion):
    """One where a member sees fewer than `fewest` records of the others behind a pattern, else zero."""

    totals: Floats
    fewest: float

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """The member's vetoes."""
        others = self.totals - _pending(own.counts)
        return own, (others < self.fewest - _SHARED_PARTS).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Moments(SumQuestion):
    """T_k of the E step that was counted, its log-likelihood, and the weights' share of the objective and of BIC."""

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """What the E step left to be asked for."""
        return replace(own, counts=None, remainder=None), _pending(own.remainder)


@dataclass(frozen=True, eq=False)
class Overlaps(SumQuestion):
    """Σ r_k r_l for all pairs, the upper triangle: which patterns share records."""

    family: Family
    frame: Frame
    patterns: Patterns
    branch: Branch

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """The member's overlaps."""
        total = total_over(records, partial(self._of_block, own.weights[self.branch.number]))
        return own, np.asarray(total[np.triu_indices(len(self.patterns))])

    def _of_block(self, weights: Floats, block: Floats) -> Floats:
        shares = self.family.responsibilities(self.frame.applied(block), weights, self.patterns)
        return np.asarray(shares.T @ shares)


def _pending(part: Floats | None) -> Floats:
    if part is None:
        raise InvalidParameter("A sum was asked for before its E step.", "Answer questions in their order.")
    return part


def power_of_two_at_least(values: Floats | float) -> Floats:
    """The smallest powers of two that are not below the values; scaling by them is exact."""
    return np.asarray(2.0 ** np.ceil(np.log2(values)), dtype=np.float64)
