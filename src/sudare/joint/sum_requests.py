"""What members are asked for: sums over their own rows in whole steps, with a share of the noise, as words modulo 2⁶⁴.

A request depends on public numbers and earlier totals only. Contributions of a row are bounded before they are added and lie on a
grid, so sums are exact, whatever the order, the blocks or the cluster.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np

from sudare.array_types import Floats, Integers, Words
from sudare.errors import ImplausibleTotal, InvalidParameter
from sudare.joint.member_rows import MemberTable, Reading
from sudare.joint.noise_shares import ShareNoise
from sudare.linear.additive_boosting import WEIGHT_STEPS, weighted_slopes
from sudare.linear.losses import Logistic
from sudare.privacy.noise import NoiseSource

# Computed norms are this much below their bounds, so that rounding cannot lift them above.
_NORM_MARGIN: Final = 1 - 2.0**-40
# So many rows' contributions are held at once.
_ROWS_AT_ONCE: Final = 4096
_MOST_ROWS: Final = 2**40
_WORD_LIMIT: Final = 2.0**62


@dataclass(frozen=True, eq=False)
class SumRequest:
    """A sum over all members of `size` numbers; `reading` says how rows are read, `most` bounds each number without noise, in steps."""

    size: int
    most: float
    reading: Reading

    def received(self, words: Words) -> Integers:
        """A total in steps. Raise ImplausibleTotal where neither rows nor noise can explain it: all that masks leave to check."""
        total = words.view(np.int64)
        if total.shape != (self.size,) or not self.allows(total.astype(np.float64)):
            raise ImplausibleTotal(
                "A total lies where neither the declared bounds nor the noise can bring it.",
                "Some member did not keep to the script, and masks hide which. Nothing of this total was used; ask the members.",
            )
        return total

    @property
    def largest_total(self) -> float:
        """Beyond this a total is implausible."""
        return self.most

    def allows(self, total: Floats) -> bool:
        """Whether every number lies where it can."""
        return bool(np.all(np.abs(total) <= self.largest_total))


@dataclass(frozen=True, eq=False)
class RowCount(SumRequest):
    """How many rows there are. Public, because neighbours replace a row."""

    def allows(self, total: Floats) -> bool:
        """Whether the total is a number of rows: one at least, and no more than can be."""
        return bool(np.all((total >= 1) & (total <= self.most)))


@dataclass(frozen=True, eq=False)
class NoisySum(SumRequest):
    """A sum with noise in shares."""

    noise: ShareNoise

    def __post_init__(self) -> None:
        if self.largest_total >= _WORD_LIMIT:
            raise InvalidParameter(
                "Sums with so much noise over so many rows do not fit into 64 bits.", "Use a larger epsilon."
            )

    @property
    def largest_total(self) -> float:
        """All rows pulling one way, and noise as far as it gets."""
        return self.most + self.noise.farthest

    @abstractmethod
    def block_sums(self, block: Floats) -> Integers:
        """The sums over the rows of a block, in whole steps."""


@dataclass(frozen=True, eq=False)
class MeanSum(NoisySum):
    """Σ y·x: the gradient at zero. `step` is the grid of the rows."""

    step: float

    def block_sums(self, block: Floats) -> Integers:
        """Whole multiples of the step: below 2²⁷ a number, so a block's products are exact in floats."""
        sums = block[:, -1] @ np.rint(block[:, :-1] / self.step)
        return np.asarray(sums.astype(np.int64))


@dataclass(frozen=True, eq=False)
class GradientSum(NoisySum):
    """Σ clipped gradients at a public place, in units of the clip; `grid` is the grid of these units."""

    place: Floats
    clip: float
    grid: float

    def block_sums(self, block: Floats) -> Integers:
        """Returns the sum over rows of gradients divided by the clip, each no longer than one and truncated to the grid."""
        total = np.zeros(self.size, dtype=np.int64)
        for start in range(0, len(block), _ROWS_AT_ONCE):
            part = block[start : start + _ROWS_AT_ONCE]
            total += clipped_gradients(part, self.place, self.clip, self.grid)
        return total


def clipped_gradients(part: Floats, place: Floats, clip: float, grid: float) -> Integers:
    """The sum over rows of slope·x/max(clip, ‖slope·x‖), in steps towards zero; of zero for a row whose score is no number.

    Such a row would otherwise take the sum of all others with it.
    """
    rows, targets = part[:, :-1], part[:, -1]
    with np.errstate(over="ignore", invalid="ignore"):
        gradients = Logistic().slope(rows @ place, targets)[:, np.newaxis] * rows
        lengths = np.sqrt(np.einsum("ij,ij->i", gradients, gradients))
        units = gradients * (_NORM_MARGIN / np.maximum(lengths, clip))[:, np.newaxis]
    units[~np.isfinite(units).all(axis=1)] = 0.0
    return np.asarray(np.trunc(units / grid).sum(axis=0).astype(np.int64))


@dataclass(frozen=True, eq=False)
class BinCount(NoisySum):
    """How many rows each bin has; a row has one in every column. `grid` is that of all sums of the training, of which a row is many steps."""

    outputs: int
    grid: float

    def block_sums(self, block: Floats) -> Integers:
        """Returns the number of rows in each bin, in steps."""
        positions = block[:, : -self.outputs].astype(np.int64)
        return np.bincount(positions.ravel(), minlength=self.size) * round(1 / self.grid)


@dataclass(frozen=True, eq=False)
class WeightedSlopeSum(NoisySum):
    """Σ slope·weight in each bin at public shapes, in units of the clip: no row's vector is longer than one. `grid` is its grid.

    `shapes` has one line an output; `weights` are whole steps of 1/WEIGHT_STEPS, one a bin.
    """

    shapes: Floats
    weights: Floats
    clip: float
    grid: float

    def block_sums(self, block: Floats) -> Integers:
        """Returns the sum over rows of slopes times weights, each shortened to the clip and truncated to whole steps."""
        outputs = len(self.shapes)
        positions, targets = block[:, :-outputs].astype(np.uint32), block[:, -outputs:]
        slope_grid = self.clip * WEIGHT_STEPS * self.grid
        whole = weighted_slopes(positions, targets, self.shapes, self.weights, slope_grid, self.clip)
        return whole.ravel().astype(np.int64)


@dataclass(frozen=True, eq=False)
class CentreSum(NoisySum):
    """Σ z/√p over p number columns, z in [−1, 1] by declared bounds; no row's vector is longer than one. `grid` is its grid."""

    grid: float

    def block_sums(self, block: Floats) -> Integers:
        """Returns the sum over rows of vectors, each of length at most one and truncated to the grid."""
        return _unit_sums((2 * block - 1) / math.sqrt(self.size), self.grid)


@dataclass(frozen=True, eq=False)
class SpreadSum(NoisySum):
    """Σ (e, w·e²) about a public centre, e = (z − centre)/reach, every row's vector shortened to length one. `grid` is its grid."""

    centre: Floats
    reach: float
    weight: float
    grid: float

    def block_sums(self, block: Floats) -> Integers:
        """Returns the sum over rows of vectors, each of length at most one and truncated to the grid."""
        offsets = (2 * block - 1 - self.centre) / self.reach
        return _unit_sums(np.hstack([offsets, self.weight * offsets**2]), self.grid)


def _unit_sums(vectors: Floats, grid: float) -> Integers:
    """The sum of vectors, each shortened to length one where it is longer, in steps towards zero."""
    total = np.zeros(vectors.shape[1], dtype=np.int64)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        part = vectors[start : start + _ROWS_AT_ONCE]
        lengths = np.sqrt(np.einsum("ij,ij->i", part, part))
        units = part * (_NORM_MARGIN / np.maximum(lengths, 1.0))[:, np.newaxis]
        total += np.trunc(units / grid).sum(axis=0).astype(np.int64)
    return total


def row_count(reading: Reading) -> RowCount:
    """The question that comes first."""
    return RowCount(1, float(_MOST_ROWS), reading)


def exact_answer(table: MemberTable, request: NoisySum) -> Integers:
    """A member's sums without noise. They never leave as they are."""
    return table.total(request.reading, request.block_sums)


def answered(table: MemberTable, request: SumRequest, noise: NoiseSource | None) -> Words:
    """A member's addend."""
    if isinstance(request, RowCount):
        return np.array([table.counted(request.reading)], dtype=np.uint64)
    if not isinstance(request, NoisySum) or noise is None:
        raise TypeError("A noisy sum needs a source of noise.")
    return request.noise.noisy(exact_answer(table, request), noise)
