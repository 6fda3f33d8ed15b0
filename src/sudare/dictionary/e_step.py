"""The E step of Gaussian patterns in one pass over the rows: N_k, m_k, C_k (1.57) and the log-likelihood.

Rows are summed in chunks of a fixed size, and the chunks in a fixed tree. A table gives the same bits whether it is held
in memory, read in batches, or spread over workers, as long as parts begin at multiples of a power of two of chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.dictionary.exponential_families import upper_triangle
from sudare.errors import DataError, InvalidParameter
from sudare.frames.fixed_order_summation import BLOCK_ROWS, pairwise_total

Precision = type[np.float64] | type[np.float32]

# A power of two of chunks makes a block, so that a block's own total is a part of the tree over all chunks.
CHUNK_ROWS: Final = BLOCK_ROWS // 16
# Best of 64 to 512 for ten columns.
_BLOCK_ROWS: Final = 256
_LOG_TWO_PI: Final = math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over rows for K patterns: N_k, m_k (K × M), C_k (K × M × M, or K × M squares), and the log-likelihood."""

    counts: Floats
    sums: Floats
    moments: Floats
    log_likelihood: float

    def __add__(self, other: Self) -> Statistics:
        return Statistics(
            self.counts + other.counts,
            self.sums + other.sums,
            self.moments + other.moments,
            self.log_likelihood + other.log_likelihood,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter((self.counts, self.sums, self.moments, self.log_likelihood))


def gaussian_statistics(
    X: Floats,
    log_weights: Floats,
    means: Floats,
    precision_choleskys: Floats,
    log_dets: Floats,
    dtype: Precision = np.float64,
) -> Statistics:
    """One E step for patterns N(μ_k, Λ_k⁻¹): responsibilities under the weights, and the sums that they weight.

    `precision_choleskys` are lower triangular L_k with Λ_k = L_k L_kᵀ, `log_dets` are ln det Λ_k. In float32 the work on
    a row is in that precision, sums in float64: log-likelihoods are right to about six digits.
    """
    rows, patterns, width = _sizes(X, log_weights, means, dtype)
    if precision_choleskys.shape != (patterns, width, width) or log_dets.shape != (patterns,):
        raise DataError(
            f"Factors of the shape {precision_choleskys.shape} do not fit {patterns} patterns of {width} columns.",
            "Give one M × M factor and one log determinant for each pattern.",
        )
    total = _statistics(rows, log_weights, means, precision_choleskys, log_dets, dtype)
    rows_above, columns_above = upper_triangle(width)
    total.moments[:, rows_above, columns_above] = total.moments[:, columns_above, rows_above]
    return total


def diagonal_gaussian_statistics(
    X: Floats, log_weights: Floats, means: Floats, precisions: Floats, dtype: Precision = np.float64
) -> Statistics:
    """One E step for patterns of independent normal columns with these precisions (K × M); `moments` are Σr·x² (K × M)."""
    rows, patterns, width = _sizes(X, log_weights, means, dtype)
    if precisions.shape != (patterns, width) or not (precisions > 0).all():
        raise DataError(
            f"Precisions of the shape {precisions.shape} do not fit {patterns} patterns of {width} columns, or are not positive.",
            "Give one positive number for each pattern and column.",
        )
    log_dets = np.log(precisions).sum(axis=1)
    return _statistics(rows, log_weights, means, np.sqrt(precisions), log_dets, dtype)


def _sizes(X: Floats, log_weights: Floats, means: Floats, dtype: Precision) -> tuple[Floats, int, int]:
    """The rows, the number of patterns and the number of columns, checked."""
    if dtype not in (np.float64, np.float32):
        raise InvalidParameter("`dtype` is neither float64 nor float32.", "Give numpy.float64 or numpy.float32.")
    rows = np.asarray(X)
    if rows.ndim != 2 or means.ndim != 2 or rows.shape[1] != means.shape[1] or log_weights.shape != means.shape[:1]:
        raise DataError(
            f"Rows {rows.shape}, means {means.shape} and weights {log_weights.shape} do not fit together.",
            "Give rows N × M, means K × M and K weights.",
        )
    if not len(means):
        raise DataError("There is no pattern.", "Give at least one.")
    return rows, len(means), means.shape[1]


def _statistics(
    rows: Floats, log_weights: Floats, means: Floats, roots: Floats, log_dets: Floats, dtype: Precision
) -> Statistics:
    """The total over chunks; moments have the shape of the roots of the precisions."""
    from sudare.dictionary.e_step_kernels import chunk_statistics

    offsets = (log_weights + 0.5 * log_dets - 0.5 * means.shape[1] * _LOG_TWO_PI).astype(dtype)
    parameters = offsets, _contiguous(means, dtype), _contiguous(roots / math.sqrt(2), dtype)
    exponential = _exponential(dtype)

    def of_chunk(start: int) -> Statistics:
        chunk = _contiguous(rows[start : start + CHUNK_ROWS], dtype)
        counts, sums, moments = np.zeros(len(means)), np.zeros(means.shape), np.zeros(roots.shape)
        log_likelihood = chunk_statistics(chunk, *parameters, exponential, counts, sums, moments)
        return Statistics(counts, sums, moments, log_likelihood)

    total = pairwise_total(of_chunk(start) for start in range(0, len(rows), CHUNK_ROWS))
    if total is None:
        return Statistics(np.zeros(len(means)), np.zeros(means.shape), np.zeros(roots.shape), 0.0)
    if not math.isfinite(total.log_likelihood):
        raise DataError(
            "The log-likelihood of the rows is not a finite number.",
            "Fill gaps, remove infinities, and give every column values of order one.",
        )
    return total


def _contiguous(values: Floats, dtype: Precision) -> NDArray[Any]:
    return np.ascontiguousarray(values, dtype=dtype)


def _exponential(dtype: Precision) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], Any]:
    """Constants, scratch memory, the same memory as integers, and digits; see `set_exponentials`.

    Terms of the series are as many as the last digit needs; the smallest value keeps the result a normal number.
    """
    digits, terms, smallest, integer = (52, 14, -708.0, np.int64) if dtype is np.float64 else (23, 8, -87.0, np.int32)
    coefficients = [math.log(2) ** power / math.factorial(power) for power in reversed(range(terms))]
    constants = np.array([1 / math.log(2), smallest, 1.5 * 2.0**digits, *coefficients], dtype=dtype)
    scratch = np.empty((2, _BLOCK_ROWS), dtype=dtype)
    return constants, scratch, scratch.view(integer), integer(digits)
