"""The noise of tables by group. Proofs: proofs/statistics.md, proofs/quantiles.md, proofs/key_selection.md."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.array_types import Floats
from sudare.privacy.accounting import Cost, approximate_cost, pure_cost
from sudare.privacy.column_sums import l2_sensitivity
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.mechanisms import Gaussian, InfinityNorm, Laplace
from sudare.privacy.noise import NoiseSource
from sudare.statistics.exact_group_sums import STEP
from sudare.statistics.joint_quantiles import JointQuantiles
from sudare.statistics.key_selection import KeySelection


@dataclass(frozen=True)
class InfinityNormCells:
    """ε-DP for tables of which neighbours differ by at most `sensitivity`: the sum over cells of the largest difference in a cell. Proof: proofs/statistics.md.

    Every cell of so many `numbers` has infinity-norm noise of its own. Values come by number, then by cell.
    """

    sensitivity: float
    epsilon: float
    numbers: int
    dimension: int

    @functools.cached_property
    def in_a_cell(self) -> InfinityNorm:
        """The noise of one cell."""
        return InfinityNorm(self.sensitivity, self.epsilon, self.numbers, integer_grid=STEP)

    @property
    def loss_is_proportional(self) -> bool:
        """Whether tables at a share of the sensitivity are told apart by that share of ε at most."""
        return self.in_a_cell.loss_is_proportional

    @property
    def cost(self) -> Cost:
        """Pure ε."""
        return self.in_a_cell.cost

    @property
    def noise_scale(self) -> float:
        """b in the density ∝ exp(−max|bᵢ|/b) of one cell."""
        return self.in_a_cell.noise_scale

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """Values with noise, on the grid."""
        cells = values.reshape(self.numbers, -1).T
        return np.stack([self.in_a_cell.apply(cell, source) for cell in cells], axis=1).ravel()


Moments = Laplace | Gaussian | InfinityNormCells


@functools.lru_cache(maxsize=64)
def grouped_mechanism(
    means: int, neighbours: Neighbours, unit_rows: int, dimension: int, epsilon: float, delta: float
) -> Moments:
    """Noise for counts of cells and for so many sums of numbers in [−1, 1] in each cell: the quietest that (ε, δ) allows.

    A replaced row takes (1, z) from one cell and gives (1, w) to another, or changes z to w in its own; an added one gives (1, z) to one.
    """
    replaced = neighbours == "replace-one"
    moved, numbers = (2 if replaced else 1) * unit_rows, 1 + means
    if delta > 0:
        squared = Fraction(max(2 + 2 * means, 4 * means) if replaced else 1 + means)
        return Gaussian(l2_sensitivity(squared, 1, unit_rows), epsilon, delta, dimension, integer_grid=STEP)
    if means == 0:
        return Laplace(float(moved), epsilon, dimension, integer_grid=STEP)
    return InfinityNormCells(float(moved), epsilon, numbers, dimension)


@dataclass(frozen=True)
class TableNoise:
    """All noise of a table that has quantiles, or groups that nobody declared: its parts share ε, and composition adds them up."""

    moments: Moments
    quantiles: JointQuantiles | None
    keys: KeySelection | None
    epsilon: float
    delta: float

    @property
    def cost(self) -> Cost:
        """Pure ε, or (ε, δ) of which no more is known."""
        return approximate_cost(self.epsilon, self.delta) if self.delta > 0 else pure_cost(self.epsilon)

    @property
    def noise_scale(self) -> float:
        """That of a count."""
        return self.moments.noise_scale
