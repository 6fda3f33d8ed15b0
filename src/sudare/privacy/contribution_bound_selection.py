"""How many rows of a person are kept, chosen privately. Proof: proofs/persons.md, "The bound".

Rows that are cut bias a sum, and every row that is kept adds noise: with D released sums and ε for them, a bound k costs about D·k/ε in noise and the rows above k in bias,
least where about D/ε persons have more than k rows (Amin, Kulesza, Muñoz Medina and Vassilvitskii 2019). A bound with about as many such persons is chosen by permute-and-flip (McKenna and Sheldon 2020),
small ones rather than large ones, because one that is much too large costs most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.privacy.accounting import Cost, approximate_cost, decimal_down, exact, pure_cost
from sudare.privacy.discrete_exponential_mechanism import permuted_and_flipped
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.noise import NoiseSource

# Chosen by `python -m benchmarks.persons --tune` on tables that are not those of the study.
BOUND_SHARE: Final = 0.06
PERSONS_ABOVE: Final = 1.5
SMALL_FIRST: Final = 2.0
STEP_RATIO: Final = 1.1


def bound_epsilon(epsilon: float) -> float:
    """What of ε the choice of the bound takes."""
    return decimal_down(exact(epsilon) * exact(BOUND_SHARE))


def candidate_bounds(largest: int) -> tuple[int, ...]:
    """The numbers of rows that are chosen from: all small ones, then steps of a tenth, and the largest."""
    found = [1]
    while found[-1] < largest:
        found.append(min(largest, max(found[-1] + 1, int(found[-1] * STEP_RATIO))))
    return tuple(found)


@dataclass(frozen=True)
class BoundedFit:
    """A bound for the rows of a person, then a fit with it: what both cost together."""

    cost: Cost
    noise_scale: float

    @classmethod
    def of(cls, fit: Cost, noise_scale: float, spent: float, epsilon: float, delta: float) -> BoundedFit | None:
        """A fit that costs so much, after `spent` went into the bound; None where both are not within (ε, δ)."""
        if fit.epsilon + exact(spent) > exact(epsilon) or fit.delta > exact(delta):
            return None
        is_pure = fit.delta == 0 and fit.mu is None
        return cls(pure_cost(epsilon) if is_pure else approximate_cost(epsilon, delta), noise_scale)


@dataclass(frozen=True)
class BoundChoice:
    """ε-DP choice of the most rows of a person, whatever numbers of rows persons have. Proof: proofs/persons.md.

    `epsilon` is what the choice takes, `persons_above` how many persons should have more rows than are kept.
    """

    epsilon: float
    persons_above: Fraction
    largest: int

    @classmethod
    def of(cls, epsilon: float, values_epsilon: float, sums: int, largest: int, neighbours: Neighbours) -> BoundChoice:
        """The choice for so many released sums that get `values_epsilon`; a replaced row moves two of them."""
        moved = 2 if neighbours == "replace-one" else 1
        return cls(epsilon, exact(PERSONS_ABOVE) * moved * sums / exact(values_epsilon), largest)

    def losses(self, histogram: NDArray[np.int64]) -> list[Fraction]:
        """For each candidate, by how many persons those above it miss the number wanted. One person moves each by at most one.

        `histogram` counts persons with 0, 1, …, largest and more rows.
        """
        above = np.cumsum(histogram[::-1])[::-1]
        return [abs(int(above[bound + 1]) - self.persons_above) for bound in candidate_bounds(self.largest)]

    def exponents(self, histogram: NDArray[np.int64]) -> list[Fraction]:
        """What a candidate is accepted by: half of ε times its loss, and more for larger ones, which is public; the least is zero."""
        public = [Fraction(SMALL_FIRST * math.log(bound)) for bound in candidate_bounds(self.largest)]
        found = [
            exact(self.epsilon) / 2 * loss + more for loss, more in zip(self.losses(histogram), public, strict=True)
        ]
        least = min(found)
        return [each - least for each in found]

    def drawn(self, histogram: NDArray[np.int64], noise: NoiseSource) -> int:
        """The bound."""
        return candidate_bounds(self.largest)[permuted_and_flipped(self.exponents(histogram), noise)]
