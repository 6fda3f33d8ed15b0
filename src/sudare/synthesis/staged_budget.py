"""One budget spent in stages, each of which may look at the noisy results of those before. Proof: proofs/synthesis.md."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from scipy.special import log_ndtr

from sudare.array_types import Floats
from sudare.privacy.accounting import (
    Cost,
    decimal_down,
    exact,
    gaussian_cost,
    gaussian_mu_within,
    mu_of_pure,
    pure_cost,
)
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.mechanisms import Gaussian, Laplace, gaussian_grid_bits
from sudare.privacy.noise import WholeNoise
from sudare.schema.encodings import square_root_rounded_up


@dataclass(frozen=True)
class StagedNoise:
    """(ε, δ)-DP in stages: with δ = 0 Laplace noise and shares of ε, else Gaussian noise and shares of μ².

    Proof: proofs/synthesis.md. `unit_rows` is how many rows one protected unit has at most, `stages` how many stages there
    are at most; their shares add up to one or less.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    unit_rows: int
    stages: int

    @property
    def row_moves(self) -> int:
        """How many cells of one table change when a row does: a replaced row leaves one and enters another."""
        return 2 if self.neighbours == "replace-one" else 1

    @property
    def cost(self) -> Cost:
        """Pure ε; or the largest μ that (ε, δ) allows, with the distances of all stages to ideal noise."""
        if self.delta == 0:
            return pure_cost(self.epsilon)
        # However many cells a stage has, its discrete noise is within μ²/(24·4^bits) of ideal noise (proofs/synthesis.md).
        mu = Fraction(gaussian_mu_within(self.epsilon, self.delta))
        bits = gaussian_grid_bits(self.epsilon, self.delta, self.stages)
        return gaussian_cost(self.epsilon, self.delta, self.stages * mu**2 / (24 * 4**bits))

    def for_counts(self, share: Fraction, tables: int, cells: int, grid: float = 1.0) -> Laplace | Gaussian:
        """Noise for tables in which every row is in one cell each; `cells` are those of all tables together."""
        l1 = Fraction(tables * self.row_moves * self.unit_rows)
        return self._part(share, l1, Fraction(tables * self.row_moves * self.unit_rows**2), cells, grid)

    def for_scores(self, share: Fraction, scores: int) -> Laplace | Gaussian:
        """Noise for whole-numbered scores that a row moves by no more than the cells it moves."""
        of_one = self.row_moves * self.unit_rows
        return self._part(share, Fraction(scores * of_one), Fraction(scores * of_one**2), scores, 1.0)

    @property
    def law(self) -> Literal["gaussian", "laplace"]:
        """The law of the noise."""
        return "laplace" if self.delta == 0 else "gaussian"

    def choice_rate(self, share: Fraction) -> Fraction:
        """The rate r of a choice with P(j) ∝ e^(−r·loss_j), whose losses a row moves by no more than the cells it moves.

        It is ε′-DP with ε′ = 2·r·moves, of which the shares are; with Gaussian noise beside it, it is as good as μ′-GDP for ε′/2 (proofs/synthesis.md).
        """
        moves = self.row_moves * self.unit_rows
        if self.delta == 0:
            return exact(decimal_down(exact(self.epsilon) * share)) / (2 * moves)
        allowed = Fraction(gaussian_mu_within(self.epsilon, self.delta)) ** 2 * share
        return _half_range_within(allowed) / moves

    def _part(
        self, share: Fraction, l1: Fraction, l2_squared: Fraction, dimension: int, grid: float
    ) -> Laplace | Gaussian:
        if self.delta == 0:
            return Laplace(float(l1), decimal_down(exact(self.epsilon) * share), dimension, integer_grid=grid)
        # Noise for a longer distance: what really moves is then √share of what (ε, δ) allows.
        longer = square_root_rounded_up(l2_squared / share)
        return Gaussian(longer, self.epsilon, self.delta, dimension, integer_grid=grid, stages=self.stages)

    @property
    def noise_scale(self) -> float:
        """Noise scale of one table that gets the whole budget."""
        return self.for_counts(Fraction(1), 1, 1).noise_scale

    def apply(self, values: Floats, source: WholeNoise) -> Floats:
        """One table of whole counts with noise, from the whole budget."""
        return self.for_counts(Fraction(1), 1, len(values)).apply(values, source)


@functools.lru_cache(maxsize=4096)
def _half_range_within(mu_squared: Fraction) -> Fraction:
    """Nearly the largest ε′/2 for which a choice of range ε′ is μ′-GDP, with μ′² at most as given."""
    half = math.sqrt(mu_squared) / 2
    found = float(log_ndtr(half) - log_ndtr(-half)) * (1 - 2.0**-40)
    while Fraction(mu_of_pure(Fraction(found))) ** 2 > mu_squared:
        found *= 1 - 2.0**-20
    return Fraction(found)


def standard_deviation(noise: Laplace | Gaussian) -> float:
    """The standard deviation of the noise on one value."""
    return noise.noise_scale * (math.sqrt(2) if isinstance(noise, Laplace) else 1.0)


def mean_size(noise: Laplace | Gaussian) -> float:
    """The mean absolute noise on one value."""
    return noise.noise_scale * (1.0 if isinstance(noise, Laplace) else math.sqrt(2 / math.pi))
