"""Rows as private linear models see them: their public layout, and values within a public norm exactly, on a public fixed-point grid.

Each row is bounded and rounded by itself, so neighbouring tables stay neighbours.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.privacy.accounting import rounded_up
from sudare.privacy.declared_columns import number_within, unnamed_columns
from sudare.privacy.mechanisms import power_of_two_below
from sudare.schema import Encoding, Number, Schema

ROW_BITS: Final = 26


class RowLayout(NamedTuple):
    """What is public about a row: how many features, the bound on its norm, the constant column, and both together.

    `joint_sum` bounds the sum of absolute values, the constant one included: infinite where only the norm is known. `entry_bounds` bounds each
    absolute value, the constant one included: empty where only the norm is known. `low` and `high` are what an encoded column can be, `block_starts` where
    those of each declared column begin (of several at most one is not zero, and of that the other end is left out); empty for arrays. `one_hot` are the first
    columns of which always one is 1 and the others are 0: none where both ends are 0. `one_hot_blocks` are all such columns, with an intercept or without;
    `bin_centres` tells where the bins of a number begin and the centre of each, the number's bounds being −1 and 1.
    """

    features: int
    norm_bound: float
    bias: float
    joint_norm: float
    nonnegative: bool
    joint_sum: float = math.inf
    entry_bounds: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    block_starts: tuple[int, ...] = ()
    one_hot: tuple[int, int] = (0, 0)
    one_hot_blocks: tuple[tuple[int, int], ...] = ()
    bin_centres: tuple[tuple[int, tuple[float, ...]], ...] = ()

    @property
    def has_constant(self) -> bool:
        """Whether a number can be added to the score of every row."""
        return self.bias != 0 or self.one_hot[1] > 0

    @property
    def is_binned(self) -> bool:
        """Whether every column belongs to a one-hot group, and at least half of them are bins of numbers."""
        one_hot = sum(stop - start for start, stop in self.one_hot_blocks)
        return one_hot == self.features and 2 * sum(len(centres) for _, centres in self.bin_centres) >= self.features

    @property
    def width(self) -> int:
        """Columns, the constant one included."""
        return self.features + (self.bias != 0)


@functools.lru_cache(maxsize=256)
def array_layout(features: int, norm_bound: float, fit_intercept: bool) -> RowLayout:
    """The layout of rows of an array whose norms are bounded."""
    bias = bias_beside(norm_bound) if fit_intercept else 0.0
    return RowLayout(features, norm_bound, bias, joint_norm(norm_bound, bias), nonnegative=False)


@functools.lru_cache(maxsize=256)
def table_layout(declared: Schema, encoding: Encoding, fit_intercept: bool) -> RowLayout:
    """The layout of encoded rows of a table.

    No constant column is needed where some column is encoded one-hot: its parts add up to one already.
    """
    norm_bound = declared.norm_bound(encoding)
    bias = bias_beside(norm_bound) if fit_intercept and not has_one_hot(declared, encoding) else 0.0
    low, high = declared.bounds(encoding)
    features = len(declared.names(encoding))
    joint_sum = rounded_up(Fraction(declared.sum_bound(encoding)) + Fraction(bias))
    entries = (*np.maximum(np.abs(low), np.abs(high)).tolist(), *([bias] if bias else []))
    starts = [0, *itertools.accumulate(block.width for block in declared.blocks(encoding))]
    is_wide = np.repeat(np.diff(starts) > 1, np.diff(starts))
    places = list(zip(itertools.pairwise(starts), declared.features.values(), strict=True))
    hot = tuple(block for block, column in places if encoding == "binned" or not isinstance(column, Number))
    bins = tuple(
        (start, bin_centres(column))
        for (start, _), column in places
        if encoding == "binned" and isinstance(column, Number)
    )
    return RowLayout(
        features,
        norm_bound,
        bias,
        joint_norm(norm_bound, bias),
        bool(np.all(low >= 0)),
        joint_sum,
        entries,
        tuple(np.where(is_wide & (low == 0), high, low).tolist()),
        tuple(high.tolist()),
        tuple(starts[:-1]),
        hot[0] if hot and fit_intercept else (0, 0),
        hot,
        bins,
    )


def bin_centres(number: Number) -> tuple[float, ...]:
    """The centres of a number's bins, its bounds being −1 and 1."""
    edges = np.array([number.low, *number.edges, number.high])
    centres = (edges[:-1] / 2 + edges[1:] / 2 - number.low) / (number.high - number.low)
    return tuple(np.clip(2 * centres - 1, -1.0, 1.0).tolist())


def bias_beside(norm_bound: float) -> float:
    """The constant column: a power of two near half the row norm, so that it adds little to the noise."""
    return power_of_two_below(norm_bound) / 2


def has_one_hot(declared: Schema, encoding: Encoding) -> bool:
    """Whether some column becomes a group of columns of which one is 1 and the others are 0."""
    return encoding == "binned" or not all(isinstance(column, Number) for column in declared.features.values())


@functools.lru_cache(maxsize=64)
def norm_bounded_columns(count: int, norm_bound: float) -> Schema:
    """What is known of the columns of an array whose rows are within a norm."""
    return unnamed_columns((number_within(-norm_bound, norm_bound),) * count)


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
