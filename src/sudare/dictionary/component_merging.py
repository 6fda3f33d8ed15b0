"""Patterns as noisy totals describe them: which of them stay, and which are one. All of it is computed from totals alone."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from typing import Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal

# Patterns may merge in the last third: before, those that overlap have not yet come apart.
_MERGED_FROM: Final = 2 / 3
# What patterns at public points beside those of an earlier dictionary are taken to have of the records.
SPARE_SHARE: Final = 0.1
_SMALLEST_SHARE: Final = 0.01
_NOISE_DEVIATIONS: Final = 3.0


class NoisyPatterns(ABC):
    """Patterns with noisy counts, of whatever family."""

    counts: Floats

    @abstractmethod
    def kept(self, chosen: NDArray[np.intp]) -> Self:
        """Those that an index array chooses."""

    @abstractmethod
    def joined(self, others: Self) -> Self:
        """These and then the others."""

    @abstractmethod
    def united(self, pair: tuple[int, int]) -> Self:
        """One pattern with the totals of two."""

    @abstractmethod
    def union_gain(self, pair: tuple[int, int], rows: int) -> float:
        """By how much the union of two raises twice the integrated classification likelihood."""


Patterned = TypeVar("Patterned", bound=NoisyPatterns)


def merged(found: Patterned, rows: int) -> Patterned:
    """Pairs united as long as that raises the integrated classification likelihood (Biernacki et al. 2000)."""
    while len(found.counts) > 1:
        pairs = list(itertools.combinations(range(len(found.counts)), 2))
        gains = [found.union_gain(pair, rows) for pair in pairs]
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            break
        others = np.array([k for k in range(len(found.counts)) if k not in pairs[best]], dtype=np.intp)
        found = found.kept(others).joined(found.united(pairs[best]))
    return found


def merged_late(found: Patterned, plan: NoisePlan, iteration: int, iterations: int) -> Patterned:
    """Merged if the iteration is one of the last third."""
    return merged(found, plan.rows) if iteration >= math.floor(_MERGED_FROM * iterations) else found


def staying_patterns(counts: Floats, plan: NoisePlan, release: NoisyTotal) -> NDArray[np.intp]:
    """Patterns whose noisy counts are above the noise and a hundredth of all records; the largest if there is none."""
    least = max(_NOISE_DEVIATIONS * plan.total_deviation(release), _SMALLEST_SHARE * plan.rows)
    staying = counts > least
    return np.flatnonzero(staying if np.any(staying) else counts == counts.max())


def classification_likelihood_term(count: float) -> float:
    """What belonging to a pattern of so many records adds to twice the classification likelihood."""
    return 2 * count * math.log(count)
