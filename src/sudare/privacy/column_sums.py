"""Exact sums of scaled columns, by how much one unit moves them, the noise for that, and the grid of what is released.

Sums are exact: values are scaled to declared bounds and rounded to a public fixed-point grid before they are added, so
that no floating-point rounding makes a sum more sensitive than the proof says. Proof: proofs/statistics.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np

from sudare.array_types import Floats
from sudare.privacy.accounting import gaussian_mu_within, rounded_up
from sudare.privacy.fit_plan import Mechanism
from sudare.privacy.mechanisms import GammaNorm, Gaussian, InfinityNorm, Laplace
from sudare.privacy.release_content import on_grid
from sudare.schema import Number, Schema
from sudare.schema.blockwise_encoding import EncodedArray, EncodedColumn, row_slices
from sudare.schema.column_values import declared_numbers
from sudare.schema.encoder import opened_columns
from sudare.schema.encodings import square_root_rounded_up

# Releases of older versions have gamma-norm noise on means.
MeanNoise = Literal["laplace", "infinity-norm", "gamma-norm", "gaussian"]

_FIXED_POINT_BITS: Final = 30
_GRID_BITS: Final = 16


def fixed_point_step(rows: int) -> float:
    """The fixed-point grid on which sums of `rows` numbers of at most one are exact in float64."""
    return 2.0 ** -min(_FIXED_POINT_BITS, 52 - rows.bit_length())


def exact_sums(matrix: Floats, step: float) -> Floats:
    """Column sums of a matrix with entries in [−1, 1], each rounded to a multiple of `step`; no rounding in the sum."""
    blocks = (matrix[rows].copy() for rows in row_slices(*matrix.shape))
    return exact_sums_of_blocks(blocks, matrix.shape[1], step)


def exact_sums_of_blocks(blocks: Iterable[Floats], columns: int, step: float) -> Floats:
    """Returns exact sums of a matrix that comes in blocks of rows, which are changed. The step is a power of two.

    With a step from `fixed_point_step` all sums are whole numbers of steps below 2⁵³, which floats add exactly in any order.
    """
    sums = np.zeros(columns)
    for block in blocks:
        np.multiply(block, 1 / step, out=block)
        sums += np.ones(len(block)) @ np.rint(block, out=block)
    return sums * step


@dataclass(frozen=True, eq=False, repr=False)
class ScaledSums:
    """Exact sums of the scaled columns of a table, and how many rows it has; how many values were clipped is for its owner only."""

    sums: Floats
    rows: int
    clipped: Mapping[str, int]

    def __add__(self, other: ScaledSums) -> ScaledSums:
        """Those of both tables together; exact as long as the step of both is fine for so many rows."""
        clipped = {name: count + other.clipped[name] for name, count in self.clipped.items()}
        return ScaledSums(self.sums + other.sums, self.rows + other.rows, clipped)

    def beside(self, other: ScaledSums) -> ScaledSums:
        """Those of these columns and of other columns of the same rows."""
        return ScaledSums(np.append(self.sums, other.sums), self.rows, {**self.clipped, **other.clipped})


@functools.lru_cache(maxsize=64)
def _step_columns(declared: Schema, step: float) -> dict[str, tuple[Number, EncodedColumn]]:
    """Number columns, and their scaled encodings in units of the step."""
    numbers = {name: column for name, column in declared.features.items() if isinstance(column, Number)}
    return {name: (number, EncodedColumn(name, number, "scaled", step)) for name, number in numbers.items()}


def exact_scaled_sums(declared: Schema, table: object, step: float) -> ScaledSums:
    """Exact sums of the columns of `encode(declared, table, "scaled")`, all of them numbers, on a grid of this step; without the matrix."""
    features = declared.features
    array = EncodedArray.of(table, features, "scaled")
    if array is not None:
        rows, columns = array.shape
        return ScaledSums(exact_sums_of_blocks(array.blocks(), columns, step), rows, array.clipped)
    opened = dict(zip(features, opened_columns(features, table), strict=True))
    sums, clipped = np.zeros(len(features)), dict.fromkeys(features, 0)
    for place, (name, (number, column)) in enumerate(_step_columns(declared, step).items()):
        for block, outside in column.blocks(declared_numbers(opened[name], number, name)):
            sums[place] += np.rint(block, out=block).sum()
            clipped[name] += outside
    return ScaledSums(sums * step, len(opened[name]), clipped)


def exact_moments(scaled: Floats, step: float) -> Floats:
    """Exact sums of z and of z² rounded, where z in [−1, 1] is twice the scaled value less one, on the fixed-point grid."""
    z = np.rint((2 * scaled - 1) / step) * step
    return exact_sums(np.hstack([z, z * z]), step)


def l1_sensitivity(of_a_column: Fraction, columns: int, unit_rows: int) -> float:
    """L1 distance by which one unit moves sums over its rows: its columns add up, and so do its rows."""
    return rounded_up(of_a_column * columns * unit_rows)


def l2_sensitivity(squared_of_a_column: Fraction, columns: int, unit_rows: int) -> float:
    """L2 distance by which one unit moves sums over its rows: squares of columns add up, its rows may all point one way."""
    return square_root_rounded_up(squared_of_a_column * columns * unit_rows**2)


def sum_mechanism(
    columns: int, dimension: int, l1: float, l2: float, epsilon: float, delta: float, step: float
) -> Mechanism:
    """Noise for a vector of sums with these sensitivities: Gaussian when δ > 0, gamma-norm or Laplace when δ = 0.

    With two columns or more gamma-norm noise is smaller than Laplace noise of the same ε (proofs/statistics.md).
    """
    if delta > 0:
        return Gaussian(l2, epsilon, delta, dimension, integer_grid=step)
    if columns > 1:
        return GammaNorm(l2, epsilon, dimension)
    return Laplace(l1, epsilon, dimension, integer_grid=step)


def mean_noise(columns: int, epsilon: float, delta: float) -> MeanNoise:
    """The noise with the least expected squared error for means of so many columns under (ε, δ), by public facts alone.

    For sums that one row moves by at most one in every column the variances of a column are, times ε²: infinity-norm (d + 1)(d + 2)/3,
    Laplace 2d², which is the same at d = 1 and more beyond, and Gaussian dε²/μ² (proofs/infinity_norm.md).
    """
    pure = (columns + 1) * (columns + 2) / 3
    if delta > 0 and columns * (epsilon / gaussian_mu_within(epsilon, delta)) ** 2 < pure:
        return "gaussian"
    return "infinity-norm"


@functools.lru_cache(maxsize=64)
def mean_mechanism(
    noise: MeanNoise, columns: int, unit_rows: int, epsilon: float, delta: float, step: float
) -> Mechanism:
    """Noise for sums of columns in [0, 1]: one row moves each by at most one."""
    l1, l2 = l1_sensitivity(Fraction(1), columns, unit_rows), l2_sensitivity(Fraction(1), columns, unit_rows)
    match noise:
        case "infinity-norm":
            return InfinityNorm(rounded_up(Fraction(unit_rows)), epsilon, columns, integer_grid=step, delta=delta)
        case "gaussian":
            return Gaussian(l2, epsilon, delta, columns, integer_grid=step)
        case "gamma-norm":
            return GammaNorm(l2, epsilon, columns)
    return Laplace(l1, epsilon, columns, integer_grid=step)


@functools.lru_cache(maxsize=64)
def count_mechanism(
    cells: int, columns: int, unit_rows: int, dimension: int, epsilon: float, delta: float
) -> Laplace | Gaussian:
    """Noise for counts of which one row changes so many in each column."""
    if delta > 0:
        l2 = l2_sensitivity(Fraction(cells), columns, unit_rows)
        return Gaussian(l2, epsilon, delta, dimension, integer_grid=1.0)
    return Laplace(l1_sensitivity(Fraction(cells), columns, unit_rows), epsilon, dimension, integer_grid=1.0)


def public_grid(noise_scale: float, ranges: Floats) -> float:
    """A power of two far below the noise on the narrowest column, and far below its range: where released numbers lie."""
    exponents = math.frexp(min(1.0, noise_scale))[1] + math.frexp(float(ranges.min()))[1] - 2
    return math.ldexp(1.0, max(exponents - _GRID_BITS, -1074))


def on_grid_within(values: Floats, low: Floats | float, high: Floats, grid: float) -> Floats:
    """Values rounded to the multiples of the grid that lie from low to high."""
    rounded = on_grid(np.clip(values, low, high), grid)
    rounded = np.where(rounded < low, rounded + grid, rounded)
    return np.where(rounded > high, rounded - grid, rounded)
