"""A member's part of a private training: clipped contributions of its records, exact sums of them, its share of the noise.

Everything that decides how a record contributes is public: bounds, frames, patterns and weights come from earlier noisy totals,
never from the member's own exact counts. Weights of its own would let one record move the responsibilities of all others,
and no clipping would bound that.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.dictionary.column_families import ColumnFamily
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal, on_grid_towards_zero
from sudare.dictionary.em import implausible
from sudare.dictionary.exponential_families import Family, Frame, Patterns, log_weights, symmetric, upper_triangle
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_tables import Records, total_over
from sudare.dictionary.sum_questions import Own, SumQuestion
from sudare.privacy.noise import NoiseSource

# Computed norms are this much below their bounds, so that rounding cannot lift them above.
_NORM_MARGIN: Final = 1 - 2.0**-40
# So many records' contributions are held at once.
_ROWS_AT_ONCE: Final = 4096
_ROOT_TWO: Final = float(np.sqrt(2.0))
# A noisy total farther out is implausible; noise alone gets there with probability 1e-23 a number.
_FARTHEST_TOTAL: Final = 10.0


@dataclass(frozen=True, eq=False)
class NoisyQuestion(SumQuestion):
    """A sum with noise in shares."""

    plan: NoisePlan
    release: NoisyTotal

    @abstractmethod
    def contributions(self, X: Floats) -> Floats:
        """What every record of a matrix contributes, one a row."""

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """Exact sums of bounded contributions, with the member's share of the noise."""
        if noise is None:
            raise TypeError("A private question needs a source of noise.")
        return own, self.plan.noisy(total_over(records, self.exact_sums), self.release, noise)

    def check_plausible(self, total: Floats) -> None:
        """Raise ImplausibleTotal unless records and noise explain a total."""
        most = self.plan.rows + _FARTHEST_TOTAL * self.plan.total_deviation(self.release)
        if not np.all(np.isfinite(total)) or np.any(np.abs(total) > most):
            raise implausible()

    def exact_sums(self, block: Floats) -> Floats:
        """The sum over a block's records of contributions in whole steps of the grid: exact, whatever the order."""
        total = np.zeros(self.size)
        for start in range(0, len(block), _ROWS_AT_ONCE):
            contributions = self.contributions(block[start : start + _ROWS_AT_ONCE])
            total += on_grid_towards_zero(contributions, self.plan.grid).sum(axis=0)
        return total


@dataclass(frozen=True, eq=False)
class NoisyOpening(NoisyQuestion):
    """Sums of the columns and of their squares, each scaled to [−1, 1] by declared bounds."""

    low: Floats
    high: Floats

    def contributions(self, X: Floats) -> Floats:
        """(u, u²) of every record with u in [−1, 1]^M. Two records differ by 2 in a column's pair at most: 2√M in all."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        scaled = np.clip((X - middle) / half, -1.0, 1.0)
        return np.hstack([scaled, scaled**2])


@dataclass(frozen=True, eq=False)
class Clip:
    """One ball for each pattern: u = roots⁻¹(z − centre)/radius, shortened to length one. `inverses` are roots⁻¹."""

    centres: Floats
    inverses: Floats
    radius: float


@dataclass(frozen=True, eq=False)
class NoisyMoments(NoisyQuestion):
    """Σ r_k·(1, u_k, u_k u_kᵀ), with public weights for the responsibilities r."""

    frame: Frame
    means: Floats
    precisions: Floats
    weights: Floats
    clip: Clip

    def contributions(self, X: Floats) -> Floats:
        """r_k·(1, u_k, u_k u_kᵀ) of every record, off-diagonal products times √2, patterns one after the other.

        Its squared norm is Σ r_k²(1 + ‖u_k‖² + ‖u_k‖⁴) ≤ 3. For two records the inner product is Σ r_k r′_k(1 + c_k + c_k²) > 0
        with c_k = u_k·u′_k, so they differ by √6 at most.
        """
        Z = self.frame.applied(X)
        patterns = Patterns({"means": self.means, "precisions": self.precisions})
        shares = public_responsibilities(SparseGaussian(), Z, patterns, self.weights)
        parts = []
        for k in range(len(self.weights)):
            inside = within_ball(Z, self.clip, k)
            rows, columns = upper_triangle(inside.shape[1])
            products = inside[:, rows] * inside[:, columns] * np.where(rows == columns, 1.0, _ROOT_TWO)
            parts.append(shares[:, [k]] * np.hstack([np.ones((len(Z), 1)), inside, products]))
        return np.hstack(parts) * _NORM_MARGIN


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals for every pattern that relative statistics are clipped to, patterns × statistics; statistics relative to `references`.

    `longest` is what the clipped ones are divided by, together.
    """

    references: Patterns
    centres: Floats
    halves: Floats
    longest: float


@dataclass(frozen=True, eq=False)
class NoisyStatistics(NoisyQuestion):
    """Σ r_k·(1, t_k) with t_k the clipped statistics of columns that are not normal; public weights for the responsibilities r."""

    family: ColumnFamily
    frame: Frame
    patterns: Patterns
    weights: Floats
    intervals: Intervals

    def contributions(self, X: Floats) -> Floats:
        """r_k·(1, t_k) of every record, ‖t_k‖ ≤ 1, patterns one after the other.

        Its squared norm is Σ r_k²(1 + ‖t_k‖²) ≤ 2. For two records the inner product is Σ r_k r′_k(1 + t_k·t′_k) ≥ 0, so they differ by
        2 at most.
        """
        Z = self.frame.applied(X)
        shares = public_responsibilities(self.family, Z, self.patterns, self.weights)
        parts = []
        for k in range(len(self.weights)):
            parts.append(shares[:, [k]] * np.hstack([np.ones((len(Z), 1)), self._within_intervals(Z, k)]))
        return np.hstack(parts) * _NORM_MARGIN

    def _within_intervals(self, Z: Floats, k: int) -> Floats:
        """t_k of every record, shortened to length one whatever the intervals; zero where it is no number."""
        intervals = self.intervals
        with np.errstate(all="ignore"):
            relative = self.family.relative_statistics(Z, intervals.references.kept(np.array([k])))
            clipped = np.clip((relative - intervals.centres[k]) / intervals.halves[k], -1.0, 1.0) / intervals.longest
        return at_most_one_long(clipped)


def public_responsibilities(family: Family, Z: Floats, patterns: Patterns, weights: Floats) -> Floats:
    """r (1.11) with public patterns and public weights; rows add up to one but for rounding, or to zero where densities overflow.

    Whatever patterns dishonest totals describe: rows are divided by their own sums, because the logarithm of a sum is rounded by whole
    units where densities are small enough, and then every pattern would get the whole record.
    """
    with np.errstate(all="ignore"):
        log_joint = family.log_densities(Z, patterns) + log_weights(weights)
        joint = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    joint[~np.isfinite(joint)] = 0.0
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), 1.0))


def within_ball(Z: Floats, clip: Clip, k: int) -> Floats:
    """Records in the coordinates of a pattern's ball, those outside drawn to its surface; to its centre where coordinates overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        inside = (Z - clip.centres[k]) @ clip.inverses[k].T / clip.radius
    return at_most_one_long(inside)


def at_most_one_long(vectors: Floats) -> Floats:
    """Rows drawn into the unit ball; zero where they are no numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        drawn = vectors / np.maximum(lengths, 1.0)[:, np.newaxis]
    drawn[~np.isfinite(drawn).all(axis=1)] = 0.0
    return np.asarray(drawn)


def unpacked(total: Floats, patterns: int, columns: int) -> tuple[Floats, Floats, Floats]:
    """Counts, Σ r u and Σ r uuᵀ from a noisy total."""
    parts = total.reshape(patterns, -1)
    rows, others = upper_triangle(columns)
    products = parts[:, 1 + columns :] / np.where(rows == others, 1.0, _ROOT_TWO)
    return parts[:, 0], parts[:, 1 : 1 + columns], symmetric(products, columns)
