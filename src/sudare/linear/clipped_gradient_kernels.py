"""Loops over rows for sums of clipped gradients, compiled. Whatever is added here is a whole number below 2⁵³: order and blocks do not matter.

Rows are numbers, or the positions of their ones where every encoded column is 0 or 1 (`sudare.schema.encoder.one_positions`).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.compiled_loops import compiled

Positions = NDArray[np.unsignedinteger[Any]]

# So few rows that all their columns stay in the processor's nearest cache.
_TILE_ROWS: Final = 64
_TO_BINARY: Final = 1 / math.log(2)
# log 2 without its last 21 bits, so that whole multiples of it are exact; and what is missing.
_LOG_TWO: Final = math.floor(math.log(2) * 2.0**32) / 2.0**32
_LOG_TWO_BEYOND: Final = 1.9082149292705877e-10
_INVERSE_FACTORIALS: Final = tuple(1 / math.factorial(degree) for degree in range(14))


@compiled(contract=False, nogil=True)
def columns_of(rows: Floats) -> Floats:
    """The columns of rows, each in one piece."""
    columns = np.empty((rows.shape[1], len(rows)))
    for start in range(0, len(rows), _TILE_ROWS):
        tile = rows[start : start + _TILE_ROWS]
        for column in range(rows.shape[1]):
            piece = columns[column][start : start + _TILE_ROWS]
            for row in range(len(piece)):
                piece[row] = tile[row, column]
    return columns


@compiled(contract=False, nogil=True)
def scores_and_squares(
    columns: NDArray[Any], start: int, stop: int, unit: float, parameters: Floats, row_grid: float
) -> tuple[Floats, Floats]:
    """Scores by output, added column after column; and squared lengths of rows that are cut to whole steps of the grid, a power of two: exact.

    A row is the entries from `start` on, before `stop`, at one place of all columns, times the `unit`, a power of two.
    """
    scores, squares = np.zeros((len(parameters), stop - start)), np.zeros(stop - start)
    # Powers of two: products are exact, and quicker than quotients.
    steps, width = 1.0 / row_grid, len(columns)
    for column in range(0, width - 3, 4):
        first, second = columns[column][start:stop], columns[column + 1][start:stop]
        third, fourth = columns[column + 2][start:stop], columns[column + 3][start:stop]
        for output in range(len(parameters)):
            _add_four_products(
                scores[output], first, second, third, fourth, unit, parameters[output][column : column + 4]
            )
        _add_four_squares(squares, first, second, third, fourth, unit, steps)
    for column in range(width - width % 4, width):
        only = columns[column][start:stop]
        for output in range(len(parameters)):
            _add_products(scores[output], only, unit, parameters[output, column])
        _add_squares(squares, only, unit, steps)
    return scores, squares


@compiled(contract=False, nogil=True)
def logistic_slopes(scores: Floats, targets: Floats) -> Floats:
    """−y/(1 + e^{y·score}) for one list of scores and targets y of ±1, to some units in the last place; never beyond ±1.

    e^z = 2^k·e^r with k the nearest whole number to z/log 2, and e^r by its Taylor polynomial.
    """
    slopes, exponents = np.empty(len(scores)), np.empty(len(scores), np.int64)
    powers = exponents.view(np.float64)
    for row in range(len(scores)):
        logarithm = min(max(scores[row] * targets[row], -700.0), 700.0)
        whole = np.rint(logarithm * _TO_BINARY)
        rest = (logarithm - whole * _LOG_TWO) - whole * _LOG_TWO_BEYOND
        power = _INVERSE_FACTORIALS[13]
        for degree in range(12, -1, -1):
            power = power * rest + _INVERSE_FACTORIALS[degree]
        slopes[row] = power
        exponents[row] = (np.int64(whole) + 1023) << 52
    for row in range(len(scores)):
        slopes[row] = -targets[row] / (1.0 + slopes[row] * powers[row])
    return slopes


@compiled(contract=False, nogil=True)
def add_clipped(
    total: Floats,
    columns: NDArray[Any],
    start: int,
    unit: float,
    slopes: Floats,
    squares: Floats,
    row_grid: float,
    slope_grid: float,
    clip: float,
) -> None:
    """Add Σ slope·row in whole steps of both grids, slopes shortened so that slope times row has norm at most the clip, exactly.

    Slopes are by output. Rows are those of `scores_and_squares`, as many as there are slopes of an output.
    """
    count, steps = slopes.shape[1], 1.0 / row_grid
    factors, whole = np.zeros(count), np.empty(count)
    for output in range(len(slopes)):
        own = slopes[output]
        for row in range(count):
            factors[row] += own[row] * own[row]
    for row in range(count):
        factors[row] = shortening(factors[row], squares[row], row_grid, clip)
    for output in range(len(slopes)):
        own = slopes[output]
        for row in range(count):
            whole[row] = np.trunc(own[row] * factors[row] / slope_grid)
        for column in range(len(columns)):
            total[output, column] += _sum_of_products(whole, columns[column][start : start + count], unit, steps)


@compiled()
def add_clipped_at(
    total: Floats, positions: Positions, slopes: Floats, row_grid: float, slope_grid: float, clip: float
) -> None:
    """Add Σ slope·row for rows that have ones at these positions and are zero elsewhere, as `add_clipped` does."""
    one = np.trunc(1.0 / row_grid)
    square = positions.shape[1] * one * one
    for row in range(len(positions)):
        factor = shortening(_squared_size(slopes[row]), square, row_grid, clip)
        for output in range(slopes.shape[1]):
            added = np.trunc(slopes[row, output] * factor / slope_grid) * one
            for column in range(positions.shape[1]):
                total[output, positions[row, column]] += added


@compiled()
def add_weighted_at(
    total: Floats, positions: Positions, slopes: Floats, weights: Floats, slope_grid: float, clip: float
) -> None:
    """Add Σ slope·row for rows with a public whole number in place of each one, as `add_clipped_at` does; the clip is that of slope times whole numbers."""
    for row in range(len(positions)):
        square = 0.0
        for column in range(positions.shape[1]):
            square += weights[positions[row, column]] * weights[positions[row, column]]
        factor = shortening(_squared_size(slopes[row]), square, 1.0, clip)
        for output in range(slopes.shape[1]):
            slope = np.trunc(slopes[row, output] * factor / slope_grid)
            for column in range(positions.shape[1]):
                total[output, positions[row, column]] += slope * weights[positions[row, column]]


@compiled(contract=False, nogil=True)
def shortening(squared_size: float, square: float, row_grid: float, clip: float) -> float:
    """What a row's slopes are multiplied by, so that they and the row have a product of norm at most the clip, rounding included.

    The row's squared length is in steps of its grid.
    """
    product = math.sqrt(square * squared_size) * (row_grid * (1 + 2.0**-40))
    factor = clip / product if product > clip else 1.0
    return factor * (1 - 2.0**-40)


@compiled(contract=False, nogil=True)
def _squared_size(slopes: Floats) -> float:
    size = 0.0
    for output in range(len(slopes)):
        size += slopes[output] * slopes[output]
    return size


@compiled(contract=False, nogil=True)
def _add_products(scores: Floats, column: NDArray[Any], unit: float, parameter: float) -> None:
    for row in range(len(scores)):
        scores[row] += column[row] * unit * parameter


@compiled(contract=False, nogil=True)
def _add_four_products(
    scores: Floats,
    first: NDArray[Any],
    second: NDArray[Any],
    third: NDArray[Any],
    fourth: NDArray[Any],
    unit: float,
    parameters: Floats,
) -> None:
    """What `_add_products` adds for four columns, one after the other."""
    for row in range(len(scores)):
        score = scores[row] + first[row] * unit * parameters[0]
        score += second[row] * unit * parameters[1]
        score += third[row] * unit * parameters[2]
        scores[row] = score + fourth[row] * unit * parameters[3]


@compiled(contract=False, nogil=True)
def _add_squares(squares: Floats, column: NDArray[Any], unit: float, steps: float) -> None:
    for row in range(len(squares)):
        whole = np.trunc(column[row] * unit * steps)
        squares[row] += whole * whole


@compiled(contract=False, nogil=True)
def _add_four_squares(
    squares: Floats,
    first: NDArray[Any],
    second: NDArray[Any],
    third: NDArray[Any],
    fourth: NDArray[Any],
    unit: float,
    steps: float,
) -> None:
    """What `_add_squares` adds for four columns."""
    for row in range(len(squares)):
        one, two = np.trunc(first[row] * unit * steps), np.trunc(second[row] * unit * steps)
        three, four = np.trunc(third[row] * unit * steps), np.trunc(fourth[row] * unit * steps)
        squares[row] += one * one + two * two + three * three + four * four


@compiled(reorder_sums=True, nogil=True)
def _sum_of_products(whole: Floats, column: NDArray[Any], unit: float, steps: float) -> float:
    """Σ of whole numbers times entries cut to whole steps: exact in any order."""
    total = 0.0
    for row in range(len(whole)):
        total += whole[row] * np.trunc(column[row] * unit * steps)
    return total


@compiled()
def scores_of(rows: Floats, parameters: Floats) -> Floats:
    """Scores of rows of numbers, one column an output: sums in one order, so that a row's score depends on nothing but the row."""
    scores = np.zeros((len(rows), len(parameters)))
    for row in range(len(rows)):
        for output in range(len(parameters)):
            score = 0.0
            for column in range(rows.shape[1]):
                score += rows[row, column] * parameters[output, column]
            scores[row, output] = score
    return scores


@compiled()
def scores_at(positions: Positions, parameters: Floats) -> Floats:
    """Scores of rows that have ones at these positions: sums of parameters, one column an output."""
    scores = np.zeros((len(positions), len(parameters)))
    for row in range(len(positions)):
        for output in range(len(parameters)):
            score = 0.0
            for column in range(positions.shape[1]):
                score += parameters[output, positions[row, column]]
            scores[row, output] = score
    return scores
