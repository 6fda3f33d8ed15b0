"""Products of rows with vectors, for the loop of the proximal sampler: by BLAS, or by compiled loops where most entries are zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

_SPARSE_BELOW: Final = 0.3


def _compiled(function: Function) -> Function:
    """Compiled once per machine where a cache folder can be written, else once per process."""
    njit: Any = numba.njit
    try:
        made: Function = njit(cache=True, error_model="numpy")(function)
    except RuntimeError:
        made = njit(error_model="numpy")(function)
    return made


class RowProducts(Protocol):
    """Signed rows S of a logistic model. Every sum has at most as many terms as it must, in any order."""

    def changes(self, offsets: Floats) -> Floats:
        """S·offsetᵀ for several offsets, one a row; one column each."""

    def slopes(self, scores: Floats, offset: Floats) -> tuple[Floats, Floats]:
        """Weights w = 1/(1 + eˢ) at the scores moved by S·offset, and the gradient −Sᵀw."""


def row_products(rows: Floats) -> RowProducts:
    """Whichever is faster."""
    sparse = np.count_nonzero(rows) < _SPARSE_BELOW * rows.size
    return SparseRows(rows) if sparse else DenseRows(rows)


class DenseRows:
    """By BLAS."""

    def __init__(self, rows: Floats) -> None:
        self._rows = rows

    def changes(self, offsets: Floats) -> Floats:
        """S·offsetᵀ."""
        return np.asarray(self._rows @ offsets.T)

    def slopes(self, scores: Floats, offset: Floats) -> tuple[Floats, Floats]:
        """Weights and gradient."""
        with np.errstate(over="ignore"):
            weights: Floats = 1 / (1 + np.exp(scores + self._rows @ offset))
        return weights, -(weights @ self._rows)


class SparseRows:
    """By loops over the entries that are not zero."""

    def __init__(self, rows: Floats) -> None:
        compressed = csr_array(rows)
        self._ends, self._columns, self._entries = compressed.indptr, compressed.indices, compressed.data

    def changes(self, offsets: Floats) -> Floats:
        """S·offsetᵀ."""
        return _changes(self._ends, self._columns, self._entries, np.ascontiguousarray(offsets.T))

    def slopes(self, scores: Floats, offset: Floats) -> tuple[Floats, Floats]:
        """Weights and gradient."""
        return _slopes(self._ends, self._columns, self._entries, scores, offset)


@_compiled
def _changes(ends: NDArray[np.int32], columns: NDArray[np.int32], entries: Floats, vectors: Floats) -> Floats:
    result = np.zeros((len(ends) - 1, vectors.shape[1]))
    for row in range(len(ends) - 1):
        target = result[row]
        for position in range(ends[row], ends[row + 1]):
            entry, source = entries[position], vectors[columns[position]]
            for index in range(len(target)):
                target[index] += entry * source[index]
    return result


@_compiled
def _slopes(
    ends: NDArray[np.int32], columns: NDArray[np.int32], entries: Floats, scores: Floats, offset: Floats
) -> tuple[Floats, Floats]:
    weights, gradient = np.empty(len(scores)), np.zeros(len(offset))
    for row in range(len(scores)):
        score = scores[row]
        for position in range(ends[row], ends[row + 1]):
            score += entries[position] * offset[columns[position]]
        weights[row] = weight = 1.0 / (1.0 + np.exp(score))
        for position in range(ends[row], ends[row + 1]):
            gradient[columns[position]] -= weight * entries[position]
    return weights, gradient
