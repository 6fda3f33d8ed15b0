"""Noise in shares: what each member adds, so that totals are (ε, δ)-DP towards everyone. Proof: proofs/dictionary.md.

A total is seen by all, and whoever looks knows its own share of the noise, as do those it colludes with; who leaves takes its share away.
So the shares of the others alone must be enough: with t such members of S, each adds discrete Gaussian noise of variance σ²/(S−t), and
the S−t shares that are left add up to σ² or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidCost, InvalidParameter
from sudare.privacy.accounting import Cost, gaussian_cost, gaussian_mu_within, rounded_up
from sudare.privacy.noise import NoiseSource

# Fixed-point bits after the point of a record's contribution, whose values are at most one.
GRID_BITS: Final = 30
_SUM_BITS: Final = 52
# A share of more than so many deviations saturates. Its probability, below 2e^(−24²/2) < 2⁻⁴⁰⁰ a value, is part of the distance.
_FARTHEST_SHARE: Final = 24.0
_SATURATION: Final = Fraction(1, 2**400)


@dataclass(frozen=True)
class NoisyTotal:
    """One noisy total: how many numbers, by how much a replaced record moves it (L2, in units of one), its part of μ².

    `rows_per_unit` is how many records one protected unit has at most.
    """

    size: int
    sensitivity: float
    share: Fraction
    rows_per_unit: int = 1

    def steps_moved(self, grid: float) -> Fraction:
        """By how many steps of the grid one unit moves a sum of truncated contributions: m(Δ/g + 2⌈√d⌉).

        A record's numbers are truncated to the grid, which moves each by less than a step: both neighbours, √d each; so does each of
        the unit's records.
        """
        return self.rows_per_unit * (Fraction(self.sensitivity) / Fraction(grid) + 2 * (math.isqrt(self.size - 1) + 1))


@dataclass(frozen=True)
class NoisePlan:
    """The noise of a whole training, fixed before it begins.

    `colluders` is t, the members whose share of the noise is not counted on: whoever looks, those it colludes with, and those who leave.
    """

    epsilon: float
    delta: float
    members: int
    colluders: int
    releases: tuple[NoisyTotal, ...]
    rows: int

    def __post_init__(self) -> None:
        check_colluders(self.members, self.colluders)
        if sum(release.share for release in self.releases) > 1:
            raise InvalidParameter("The releases' shares of the budget exceed one.", "Use shares that add up to one.")
        _ = self.cost

    @cached_property
    def grid(self) -> float:
        """Spacing of the totals: sums over all records stay within 52 bits."""
        return 2.0 ** -min(GRID_BITS, _SUM_BITS - self.rows.bit_length())

    def deviation_in_steps(self, release: NoisyTotal) -> float:
        """σ of the noise that must be unknown, in grid steps, rounded up: m(Δ/g + 2⌈√d⌉)/(μ√share)."""
        root = Fraction(math.nextafter(math.sqrt(release.share), 0.0))
        return rounded_up(
            release.steps_moved(self.grid) / (Fraction(gaussian_mu_within(self.epsilon, self.delta)) * root)
        )

    def share_in_steps(self, release: NoisyTotal) -> float:
        """σ/√(S−t): the deviation of one member's noise, rounded up."""
        honest = self.members - self.colluders
        root = Fraction(math.nextafter(math.sqrt(honest), 0.0))
        return rounded_up(Fraction(self.deviation_in_steps(release)) / root)

    def total_deviation(self, release: NoisyTotal) -> float:
        """Standard deviation of the noise in a total, all shares together, in units of one."""
        return self.share_in_steps(release) * math.sqrt(self.members) * self.grid

    def limit(self, release: NoisyTotal) -> float:
        """A bound on one member's noisy addend."""
        return self.rows + _FARTHEST_SHARE * self.share_in_steps(release) * self.grid

    @cached_property
    def cost(self) -> Cost:
        """Gaussian: μ of (ε, δ), and the distance between sums of discrete shares and rounded normal noise."""
        distance = sum((self._distance(release) for release in self.releases), Fraction(0))
        try:
            return gaussian_cost(self.epsilon, self.delta, distance)
        except InvalidCost:
            raise InvalidCost(
                f"On the grid for {self.rows} rows the noise is too far from normal noise for this epsilon and delta.",
                "Check the number of rows; use a smaller epsilon or a larger delta.",
            ) from None

    def _distance(self, release: NoisyTotal) -> Fraction:
        """Total variation between a sum of discrete shares and rounded normal noise, saturation included.

        A coordinate: 1/(24σ²) between discrete and rounded normal law, and e^τ − 1 ≤ 2τ, τ = 5(n−1)e^{−π²σ₁²}, between the sum of n
        discrete shares of σ₁ ≥ 2 steps and one discrete law; 16·S·e^{−π²σ₁²} is more than that.
        """
        share = self.share_in_steps(release)
        if share < 2:
            raise InvalidParameter("The noise is too small for exact shares.", "Use a smaller epsilon.")
        between = Fraction(math.nextafter(16 * self.members * math.exp(-(math.pi**2) * min(share, 8.0) ** 2), 1.0))
        honest = self.members - self.colluders
        ideal = 1 / (24 * honest * Fraction(share) ** 2)
        return release.size * (ideal + between + self.members * _SATURATION)

    def noisy(self, sums: Floats, release: NoisyTotal, source: NoiseSource) -> Floats:
        """A member's sums, whole multiples of the grid, with its share of the noise."""
        steps = np.rint(sums / self.grid).astype(np.int64)
        return source.gaussian(steps, self.share_in_steps(release)).astype(np.float64) * self.grid


def check_colluders(members: int, colluders: int) -> None:
    """Raise InvalidParameter unless whoever looks is counted and at least one member's share is left to count on."""
    if not 1 <= colluders < members:
        raise InvalidParameter(
            f"colluders must be at least 1 (whoever looks) and below the number of members ({members}), got {colluders}.",
            "Count whoever looks, those it may collude with, and those who may leave.",
        )


def on_grid_towards_zero(contributions: Floats, grid: float) -> Floats:
    """Contributions of records truncated to the grid; sums of the result are exact in any order."""
    return np.trunc(contributions / grid) * grid
