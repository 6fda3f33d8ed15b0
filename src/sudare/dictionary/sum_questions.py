"""What members ask each other: questions whose answers are sums, and nothing else.

A training is a sequence of questions that depends on earlier totals only, so every member knows the next question without
being told. Each answers with an addend from its own records; all learn the total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sudare.dictionary.families import Family, Floats, Frame, Patterns


@dataclass(frozen=True, eq=False)
class Branch:
    """One line of patterns in the search: how a member's own weights for it come from those of its parent.

    `transfer` (patterns × parent's patterns) maps weights; None keeps those the member has. A branch without a parent
    begins with equal weights.
    """

    number: int
    parent: int | None = None
    transfer: Floats | None = None

    def settled(self) -> Branch:
        """The same branch, once its members have weights for it."""
        return Branch(self.number)


@dataclass(frozen=True, eq=False)
class Question:
    """A sum over all records of all members. `limits` are public powers of two that bound each value of an addend."""

    limits: Floats

    @property
    def size(self) -> int:
        """How many numbers the answer has."""
        return len(self.limits)


@dataclass(frozen=True, eq=False)
class Rows(Question):
    """How many records there are. Public even in a private training, because neighbours replace a record."""


@dataclass(frozen=True, eq=False)
class OpeningSums(Question):
    """The sums of the columns, each scaled to [−1, 1] by declared bounds."""

    family: Family
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class OpeningSquares(Question):
    """Sums of squares about a common centre, or of the products of all pairs of columns."""

    family: Family
    centre: Floats
    scale: Floats


@dataclass(frozen=True, eq=False)
class Counts(Question):
    """N_k: how many records belong to each pattern. Answering it is the E step (1.11)."""

    family: Family
    frame: Frame
    patterns: Patterns
    branch: Branch
    concentration: float


@dataclass(frozen=True, eq=False)
class Vetoes(Question):
    """One where a member sees fewer than `fewest` records of the others behind a pattern, else zero."""

    totals: Floats
    fewest: float


@dataclass(frozen=True, eq=False)
class Moments(Question):
    """T_k of the E step that was counted, its log-likelihood, and the weights' share of the objective and of BIC."""


@dataclass(frozen=True, eq=False)
class Overlaps(Question):
    """Σ r_k r_l for all pairs: which patterns share records."""

    family: Family
    frame: Frame
    patterns: Patterns
    branch: Branch


@dataclass(frozen=True, eq=False, repr=False)
class Own:
    """What a member keeps to itself: its weights for every branch, and the part of an E step it was not yet asked for."""

    weights: Mapping[int, Floats]
    counts: Floats | None = None
    remainder: Floats | None = None
    saturated: int = 0

    def with_weights(self, branch: int, weights: Floats) -> Own:
        """With other weights for one branch."""
        return replace(self, weights={**self.weights, branch: weights})


def power_of_two_at_least(values: Floats | float) -> Floats:
    """The smallest powers of two that are not below the values; scaling by them is exact."""
    return np.asarray(2.0 ** np.ceil(np.log2(values)), dtype=np.float64)
