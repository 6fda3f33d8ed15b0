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

from sudare.dictionary.families import Floats, Frame, Patterns, log_weights, symmetric, upper
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_records import Records, total_over
from sudare.dictionary.private_noise import NoisePlan, Release, on_grid_towards_zero
from sudare.dictionary.sum_questions import Own, Question
from sudare.privacy.noise import NoiseSource

# Computed norms are this much below their bounds, so that rounding cannot lift them above.
_NORM_MARGIN: Final = 1 - 2.0**-40
# So many records' contributions are held at once.
_ROWS_AT_ONCE: Final = 4096
_ROOT_TWO: Final = float(np.sqrt(2.0))


@dataclass(frozen=True, eq=False)
class NoisyQuestion(Question):
    """A sum with noise in shares."""

    plan: NoisePlan
    release: Release

    @abstractmethod
    def contributions(self, X: Floats) -> Floats:
        """What every record of a matrix contributes, one a row."""

    def answer(self, records: Records, own: Own, noise: NoiseSource | None) -> tuple[Own, Floats]:
        """Exact sums of bounded contributions, with the member's share of the noise."""
        if noise is None:
            raise TypeError("A private question needs a source of noise.")
        return own, self.plan.noisy(total_over(records, self.exact_sums), self.release, noise)

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
        shares = public_responsibilities(Z, self)
        parts = []
        for k in range(len(self.weights)):
            inside = within_ball(Z, self.clip, k)
            rows, columns = upper(inside.shape[1])
            products = inside[:, rows] * inside[:, columns] * np.where(rows == columns, 1.0, _ROOT_TWO)
            parts.append(shares[:, [k]] * np.hstack([np.ones((len(Z), 1)), inside, products]))
        return np.hstack(parts) * _NORM_MARGIN


def public_responsibilities(Z: Floats, question: NoisyMoments) -> Floats:
    """r (1.11) with public patterns and public weights; rows add up to one but for rounding, or to zero where densities overflow.

    Whatever patterns dishonest totals describe: rows are divided by their own sums, because the logarithm of a sum is rounded by whole
    units where densities are small enough, and then every pattern would get the whole record.
    """
    patterns = Patterns({"means": question.means, "precisions": question.precisions})
    with np.errstate(over="ignore", invalid="ignore"):
        log_joint = SparseGaussian().log_densities(Z, patterns) + log_weights(question.weights)
        joint = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    joint[~np.isfinite(joint)] = 0.0
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), 1.0))


def within_ball(Z: Floats, clip: Clip, k: int) -> Floats:
    """Records in the coordinates of a pattern's ball, those outside drawn to its surface; to its centre where coordinates overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        inside = (Z - clip.centres[k]) @ clip.inverses[k].T / clip.radius
        lengths = np.sqrt(np.einsum("ij,ij->i", inside, inside))
        drawn = inside / np.maximum(lengths, 1.0)[:, np.newaxis]
    drawn[~np.isfinite(drawn).all(axis=1)] = 0.0
    return np.asarray(drawn)


def unpacked(total: Floats, patterns: int, columns: int) -> tuple[Floats, Floats, Floats]:
    """Counts, Σ r u and Σ r uuᵀ from a noisy total."""
    parts = total.reshape(patterns, -1)
    rows, others = upper(columns)
    products = parts[:, 1 + columns :] / np.where(rows == others, 1.0, _ROOT_TWO)
    return parts[:, 0], parts[:, 1 : 1 + columns], symmetric(products, columns)
