"""How many rows of a person are kept, chosen privately. Proof: proofs/persons.md, "The bound".

Rows that are cut bias a sum, and every row that is kept adds noise: with D released sums and ε for them, a bound k costs about D·k/ε in noise and the rows above k in bias,
least where about D/ε persons have more than k rows (Amin, Kulesza, Muñoz Medina and Vassilvitskii 2019). Persons who have few rows more than k count less: what is cut of them is little, and hidden by noise.
Bounds are tried from the smallest on, and the first one that no more persons exceed, about, is taken: the sparse vector technique (Dwork, Naor, Reingold, Rothblum and Vadhan 2009), with exponential noise.
Of persons who are far above it a few rows more are kept where the fit's loss is proportional to a person's rows: the choice tells less of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.frames.person_buckets import RowLimits
from sudare.privacy.accounting import Cost, approximate_cost, decimal_down, decimal_up, exact, pure_cost
from sudare.privacy.discrete_exponential_mechanism import exponential_coin, geometric
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.noise import NoiseSource

# Chosen by `python -m benchmarks.persons --tune` on tables that are not those of the study.
BOUND_SHARE: Final = 0.07
PERSONS_ABOVE: Final = 0.9
STEP_RATIO: Final = 1.03
# A person counts fully who has more rows than the bound by this share of it.
FULL_EXCESS: Final = 0.3
# More rows of some persons are kept only if the noise grows by less than this share of it.
NOISE_GROWTH: Final = 0.01


def bound_epsilon(epsilon: float) -> float:
    """What of ε the choice of the bound takes."""
    return decimal_down(exact(epsilon) * exact(BOUND_SHARE))


def candidate_bounds(largest: int) -> tuple[int, ...]:
    """The numbers of rows that are chosen from: all small ones, then steps of three hundredths, and the largest."""
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

    `epsilon` is what the choice takes, `persons_above` how many persons, counted as `excess` says, should have more rows than are kept. `is_proportional` says that
    a fit to some of the rows that a person may have tells of them at most that share of the fit's ε.
    """

    epsilon: float
    persons_above: Fraction
    largest: int
    is_proportional: bool = False

    @classmethod
    def of(
        cls,
        epsilon: float,
        values_epsilon: float,
        sums: int,
        largest: int,
        neighbours: Neighbours,
        is_proportional: bool = False,
    ) -> BoundChoice:
        """The choice for so many released sums that get `values_epsilon`; a replaced row moves two of them."""
        moved = 2 if neighbours == "replace-one" else 1
        wanted = exact(PERSONS_ABOVE) * moved * sums / exact(values_epsilon)
        return cls(epsilon, wanted, largest, is_proportional)

    @property
    def rate(self) -> Fraction:
        """Half of ε is for the noise on the number wanted, and half for the coins."""
        return exact(self.epsilon) / 2

    def excess(self, histogram: NDArray[np.int64]) -> list[Fraction]:
        """For each candidate bound, the number of persons with more rows than it, less the number wanted. One person moves all of them in one direction, each by at most one.

        `histogram` counts persons with 0, 1, …, largest and more rows. Who has d rows more than a bound k counts min(1, d/(FULL_EXCESS·k)); whoever has more than the largest one counts 1.
        """
        share, rows = exact(FULL_EXCESS), np.arange(self.largest + 1)
        found = []
        for bound in candidate_bounds(self.largest):
            whole = share.numerator * bound
            counted = np.clip(share.denominator * (rows - bound), 0, whole)
            above = Fraction(int(histogram[:-1] @ counted), whole) + int(histogram[-1])
            found.append(above - self.persons_above)
        return found

    def drawn(self, histogram: NDArray[np.int64], noise: NoiseSource) -> int:
        """The bound: the first candidate that a coin of probability e^(−rate·max(0, excess + G)) accepts, G geometric; or else the largest."""
        lowered = geometric(self.rate, noise)
        for bound, excess in zip(candidate_bounds(self.largest), self.excess(histogram), strict=True):
            if exponential_coin(self.rate * max(excess + lowered, Fraction(0)), noise):
                return bound
        return self.largest

    def limits(self, bound: int, epsilon: float) -> tuple[RowLimits, float]:
        """The rows that are kept with a bound that was drawn, and what the choice takes of the ε of both: the fit gets the rest, for the most rows that a person may have.

        Of a person who counts fully a choice tells half as much (proofs/persons.md): of it more rows are kept, for noise that is about the same.
        """
        total, chosen = exact(epsilon), exact(self.epsilon)
        half = decimal_up(chosen / 2)
        many = math.ceil(bound * (total - exact(half)) / (total - chosen))
        many_from = math.ceil(bound * (1 + exact(FULL_EXCESS)))
        growth = many * (total - chosen) / (bound * (total - exact(half))) - 1
        if self.is_proportional and many_from <= self.largest and growth <= exact(NOISE_GROWTH):
            return RowLimits(bound, many, many_from), half
        return RowLimits.equal(bound), self.epsilon
