"""Rows as private learners see them: within a public norm exactly, on a public fixed-point grid, in blocks of one size.

Each row is bounded and rounded by itself, so neighbouring tables stay neighbours. Blocks always hold the same rows,
whether they come from memory or from a file, so a fit gives the same result either way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.privacy.mechanisms import power_of_two_below

Floats = NDArray[np.float64]
Block = tuple[Floats, Floats]

BLOCK_ROWS: Final = 1024
ROW_BITS: Final = 26


class Rows(Protocol):
    """Bounded rows with their targets: a matrix block and a target block (one column an output) at a time."""

    @property
    def count(self) -> int:
        """How many rows there are."""

    @property
    def width(self) -> int:
        """How many columns, bias included."""

    def blocks(self) -> Iterator[Block]:
        """All rows from the beginning, BLOCK_ROWS at a time, the last block shorter."""


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Rows in memory."""

    matrix: Floats
    targets: Floats

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.matrix)

    @property
    def width(self) -> int:
        """How many columns."""
        return int(self.matrix.shape[1])

    def blocks(self) -> Iterator[Block]:
        """Slices."""
        for start in range(0, len(self.matrix), BLOCK_ROWS):
            yield self.matrix[start : start + BLOCK_ROWS], self.targets[start : start + BLOCK_ROWS]


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Rows read anew at every pass: `parts` starts a pass and gives blocks of any sizes."""

    parts: Callable[[], Iterable[Block]]
    count: int
    width: int

    def blocks(self) -> Iterator[Block]:
        """The parts, cut and joined to blocks of one size."""
        return reblocked(self.parts())


def reblocked(parts: Iterable[Block]) -> Iterator[Block]:
    """Blocks of exactly BLOCK_ROWS rows, and a last one of what is left."""
    kept: list[Block] = []
    held = 0
    for matrix, targets in parts:
        start = 0
        while held + len(matrix) - start >= BLOCK_ROWS:
            end = start + BLOCK_ROWS - held
            yield _joined([*kept, (matrix[start:end], targets[start:end])])
            kept, held, start = [], 0, end
        if start < len(matrix):
            kept.append((matrix[start:], targets[start:]))
            held += len(matrix) - start
    if kept:
        yield _joined(kept)


def _joined(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def row_step(norm_bound: float, bits: int = ROW_BITS) -> float:
    """The grid of bounded rows: a power of two, at most norm_bound·2^−bits."""
    return power_of_two_below(norm_bound) * 2.0**-bits


def bounded_rows(matrix: Floats, norm_bound: float, bits: int = ROW_BITS) -> tuple[Floats, int]:
    """Rows on the grid with Euclidean norms at most `norm_bound`, exactly; and how many had to be shortened.

    Rounding is towards zero, which cannot lengthen a row. A row that is too long is scaled down first, and the exact
    length, a sum of whole squares, is checked after.
    """
    step, limit = _step_and_limit(norm_bound, bits)
    steps, over = _shortened_steps(matrix, norm_bound, step)
    while True:
        squares = np.einsum("ij,ij->i", steps, steps)
        if squares.max(initial=0) <= limit:
            return steps.astype(np.float64) * step, over
        long = squares > limit
        shrink = np.sqrt(limit / squares[long]) * (1 - 2.0**-20)
        steps[long] = np.trunc(steps[long] * shrink[:, np.newaxis]).astype(np.int64)


@functools.lru_cache(maxsize=256)
def _step_and_limit(norm_bound: float, bits: int) -> tuple[float, int]:
    """The grid of rows, and the largest sum of squared steps that a row within the bound can have."""
    step = row_step(norm_bound, bits)
    return step, math.floor((Fraction(norm_bound) / Fraction(step)) ** 2)


def _shortened_steps(matrix: Floats, norm_bound: float, step: float) -> tuple[NDArray[np.int64], int]:
    """Rows in whole steps, scaled to the bound where they are longer, as well as floats can; and how many those are.

    Division by a power of two is exact, and a conversion to whole numbers rounds towards zero.
    """
    squares = np.einsum("ij,ij->i", matrix, matrix)
    long = squares > norm_bound * norm_bound
    count = int(np.count_nonzero(long))
    if count == 0:
        return (matrix / step).astype(np.int64), 0
    if squares.max() == np.inf:
        # Squares of entries of 1e308 overflow: of such rows only the direction is kept.
        huge = squares == np.inf
        matrix = matrix.copy()
        matrix[huge] /= np.abs(matrix[huge]).max(axis=1, keepdims=True)
        squares = np.einsum("ij,ij->i", matrix, matrix)
    factors = np.full(len(matrix), 1 / step)
    np.divide(norm_bound * (1 - 2.0**-40) / step, np.sqrt(squares), out=factors, where=long)
    return (matrix * factors[:, np.newaxis]).astype(np.int64), count


def with_bias(matrix: Floats, bias: float) -> Floats:
    """The matrix with a constant last column, or as it is when the constant is zero."""
    if bias == 0:
        return matrix
    widened = np.empty((len(matrix), matrix.shape[1] + 1))
    widened[:, :-1] = matrix
    widened[:, -1] = bias
    return widened


@functools.lru_cache(maxsize=256)
def joint_norm(norm_bound: float, bias: float) -> float:
    """√(norm_bound² + bias²), rounded up."""
    squared = Fraction(norm_bound) ** 2 + Fraction(bias) ** 2
    root = math.hypot(norm_bound, bias)
    while Fraction(root) ** 2 < squared:
        root = math.nextafter(root, math.inf)
    return root
