"""Loops over rows for sums of clipped gradients, compiled. Whatever is added here is a whole number below 2⁵³: order and blocks do not matter.

Rows are numbers, or the positions of their ones where every encoded column is 0 or 1 (`sudare.schema.encoder.one_positions`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.compiled_loops import compiled

Positions = NDArray[np.unsignedinteger[Any]]


@compiled(reorder_sums=True)
def squared_lengths(rows: Floats, row_grid: float) -> Floats:
    """Squared lengths of rows that are cut to whole steps of a grid, a power of two; exact."""
    squares = np.empty(len(rows))
    # Powers of two: products are exact, and quicker than quotients.
    steps = 1.0 / row_grid
    for row in range(len(rows)):
        total = 0.0
        for column in range(rows.shape[1]):
            whole = np.trunc(rows[row, column] * steps)
            total += whole * whole
        squares[row] = total
    return squares


@compiled()
def add_clipped(
    total: Floats, rows: Floats, slopes: Floats, squares: Floats, row_grid: float, slope_grid: float, clip: float
) -> None:
    """Add Σ slope·row in whole steps of both grids, slopes shortened so that slope times row has norm at most the clip, exactly."""
    steps = 1.0 / row_grid
    for row in range(len(rows)):
        factor = shortening(slopes[row], squares[row], row_grid, clip)
        for output in range(slopes.shape[1]):
            slope = np.trunc(slopes[row, output] * factor / slope_grid)
            if slope != 0.0:
                for column in range(rows.shape[1]):
                    total[output, column] += slope * np.trunc(rows[row, column] * steps)


@compiled()
def add_clipped_at(
    total: Floats, positions: Positions, slopes: Floats, row_grid: float, slope_grid: float, clip: float
) -> None:
    """Add Σ slope·row for rows that have ones at these positions and are zero elsewhere, as `add_clipped` does."""
    one = np.trunc(1.0 / row_grid)
    square = positions.shape[1] * one * one
    for row in range(len(positions)):
        factor = shortening(slopes[row], square, row_grid, clip)
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
        factor = shortening(slopes[row], square, 1.0, clip)
        for output in range(slopes.shape[1]):
            slope = np.trunc(slopes[row, output] * factor / slope_grid)
            for column in range(positions.shape[1]):
                total[output, positions[row, column]] += slope * weights[positions[row, column]]


@compiled()
def shortening(slopes: Floats, square: float, row_grid: float, clip: float) -> float:
    """What a row's slopes are multiplied by, so that they and the row have a product of norm at most the clip, rounding included."""
    length = math.sqrt(square) * (row_grid * (1 + 2.0**-40))
    size = 0.0
    for output in range(len(slopes)):
        size += slopes[output] * slopes[output]
    product = length * (math.sqrt(size) * (1 + 2.0**-40))
    factor = clip / product if product > clip else 1.0
    return factor * (1 - 2.0**-40)


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
