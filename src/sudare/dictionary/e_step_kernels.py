"""Loops of the E step: densities, responsibilities and moments of a chunk of rows, without a matrix of responsibilities.

Rows are taken in blocks and turned, so that each loop runs over the rows of a block, which lie next to each other and
fill the lanes of the processor. The last block is filled up with rows of weight zero. Within a block sums are in the type
of the rows, across blocks in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.compiled_loops import compiled

# Float64 or float32.
Reals = NDArray[Any]
# Constants, scratch memory of two rows, the same memory as integers, and how many bits stand behind the exponent.
Exponential = tuple[Reals, Reals, NDArray[Any], Any]


@compiled()
def set_block(rows: Reals, start: int, block: Reals) -> int:
    """block ← rows from `start`, turned, and zeros behind the last; how many there are."""
    width, most = block.shape
    count: int = min(most, len(rows) - start)
    for row in range(count):
        for i in range(width):
            block[i, row] = rows[start + row, i]
    for i in range(width):
        for row in range(count, most):
            block[i, row] = 0.0
    return count


@compiled()
def set_log_densities(
    block: Reals, offsets: Reals, means: Reals, factors: Reals, away: Reals, along: Reals, log_densities: Reals
) -> None:
    """offset − ‖Fᵀ(x − μ)‖² for each pattern and row; F is lower triangular, and FFᵀ is half of the precision."""
    width, rows = block.shape
    for k in range(len(means)):
        for row in range(rows):
            log_densities[k, row] = offsets[k]
        for i in range(width):
            for row in range(rows):
                away[i, row] = block[i, row] - means[k, i]
        for j in range(width):
            for row in range(rows):
                along[row] = factors[k, j, j] * away[j, row]
            for i in range(j + 1, width):
                for row in range(rows):
                    along[row] += factors[k, i, j] * away[i, row]
            for row in range(rows):
                log_densities[k, row] -= along[row] * along[row]


@compiled()
def set_diagonal_log_densities(
    block: Reals, offsets: Reals, means: Reals, factors: Reals, log_densities: Reals
) -> None:
    """offset − Σ (fᵢ(xᵢ − μᵢ))² for each pattern and row; f² is half of the precision."""
    width, rows = block.shape
    for k in range(len(means)):
        for row in range(rows):
            log_densities[k, row] = offsets[k]
        for i in range(width):
            for row in range(rows):
                along = factors[k, i] * (block[i, row] - means[k, i])
                log_densities[k, row] -= along * along


@compiled()
def set_exponentials(values: Reals, exponential: Exponential) -> None:
    """values ← e to their power, for values up to zero: 2ⁿ·Σ (f ln 2)ᵐ/m!, where n + f is the value divided by ln 2.

    The constants are 1/ln 2, the smallest value (what is below counts as that), a number whose last digit counts ones,
    and (ln 2)ᵐ/m! from the highest m down. Adding that number rounds to a whole n and leaves n in the last bits. The
    compiler makes vector instructions of these loops, which it would not of calls of exp.
    """
    constants, scratch, scratch_bits, digits = exponential
    to_binary, smallest, rounder = constants[0], constants[1], constants[2]
    for row in range(len(values)):
        scaled = max(values[row], smallest) * to_binary
        scratch[0, row] = scaled + rounder
        values[row] = scaled - (scratch[0, row] - rounder)
        scratch[1, row] = constants[3]
    for term in range(4, len(constants)):
        for row in range(len(values)):
            scratch[1, row] = scratch[1, row] * values[row] + constants[term]
    for row in range(len(values)):
        scratch_bits[1, row] += scratch_bits[0, row] << digits
    for row in range(len(values)):
        values[row] = scratch[1, row]


@compiled()
def set_responsibilities(
    log_densities: Reals, count: int, exponential: Exponential, highest: Reals, total: Reals
) -> float:
    """Turns log densities into responsibilities, zero behind the last row; the log-likelihood of the block."""
    patterns, rows = log_densities.shape
    for row in range(rows):
        highest[row], total[row] = log_densities[0, row], 0.0
    for k in range(1, patterns):
        for row in range(rows):
            highest[row] = max(highest[row], log_densities[k, row])
    for k in range(patterns):
        for row in range(rows):
            log_densities[k, row] -= highest[row]
        set_exponentials(log_densities[k], exponential)
        for row in range(rows):
            total[row] += log_densities[k, row]
    log_likelihood = 0.0
    for row in range(count):
        log_likelihood += np.float64(highest[row]) + np.log(np.float64(total[row]))
    divide_columns(log_densities, count, total)
    return log_likelihood


@compiled()
def divide_columns(values: Reals, count: int, divisors: Reals) -> None:
    """Divides each of the first columns by its divisor, and fills the others with zeros; the divisors are used up."""
    patterns, rows = values.shape
    for row in range(rows):
        divisors[row] = 1 / divisors[row]
    for row in range(count, rows):
        divisors[row] = 0
    for k in range(patterns):
        for row in range(rows):
            values[k, row] *= divisors[row]


@compiled(reorder_sums=True)
def add_counts_and_sums(block: Reals, responsibilities: Reals, counts: Floats, sums: Floats) -> None:
    """Adds Σr and Σr·x of the block."""
    width, rows = block.shape
    for k in range(len(responsibilities)):
        total = block.dtype.type(0)
        for row in range(rows):
            total += responsibilities[k, row]
        counts[k] += total
        for i in range(width):
            total = block.dtype.type(0)
            for row in range(rows):
                total += responsibilities[k, row] * block[i, row]
            sums[k, i] += total


@compiled(reorder_sums=True)
def add_moments(block: Reals, responsibilities: Reals, weighted: Reals, moments: Floats) -> None:
    """Adds Σr·xxᵀ of the block, on and below the diagonal."""
    width, rows = block.shape
    for k in range(len(responsibilities)):
        for i in range(width):
            for row in range(rows):
                weighted[row] = responsibilities[k, row] * block[i, row]
            for j in range(i + 1):
                total = block.dtype.type(0)
                for row in range(rows):
                    total += weighted[row] * block[j, row]
                moments[k, i, j] += total


@compiled(reorder_sums=True)
def add_squares(block: Reals, responsibilities: Reals, squares: Floats) -> None:
    """Adds Σr·x² of the block."""
    width, rows = block.shape
    for k in range(len(responsibilities)):
        for i in range(width):
            total = block.dtype.type(0)
            for row in range(rows):
                total += responsibilities[k, row] * block[i, row] * block[i, row]
            squares[k, i] += total


@compiled()
def chunk_statistics(
    rows: Reals,
    offsets: Reals,
    means: Reals,
    factors: Reals,
    exponential: Exponential,
    counts: Floats,
    sums: Floats,
    moments: Floats,
) -> float:
    """Adds the sums of all rows of a chunk, moments on and below the diagonal only; returns the log-likelihood.

    Factors and moments of one number a column are those of patterns of independent columns. The compiler drops the other branch.
    """
    patterns, width = means.shape
    size = exponential[1].shape[1]
    block, away = np.empty((width, size), rows.dtype), np.empty((width, size), rows.dtype)
    responsibilities = np.empty((patterns, size), rows.dtype)
    first, second = np.empty(size, rows.dtype), np.empty(size, rows.dtype)
    log_likelihood = 0.0
    for start in range(0, len(rows), size):
        count = set_block(rows, start, block)
        if factors.ndim == 3:
            set_log_densities(block, offsets, means, factors, away, first, responsibilities)
        else:
            set_diagonal_log_densities(block, offsets, means, factors, responsibilities)
        log_likelihood += set_responsibilities(responsibilities, count, exponential, first, second)
        add_counts_and_sums(block, responsibilities, counts, sums)
        if moments.ndim == 3:
            add_moments(block, responsibilities, first, moments)
        else:
            add_squares(block, responsibilities, moments)
    return log_likelihood
