"""Loops over whole matrices: symmetry, units, and which variables belong together.

Entries and their mirror images are visited tile by tile, because those of a column lie far apart in memory.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.compiled_loops import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TILE: Final = 32


@compiled()
def largest_and_difference(matrix: Floats) -> tuple[float, float]:
    """The largest absolute value, infinite if one is not finite, and the largest |Aᵢⱼ − Aⱼᵢ|."""
    size, largest, difference = len(matrix), 0.0, 0.0
    for top in range(0, size, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(size, top + TILE)):
                for j in range(left, min(i + 1, left + TILE)):
                    one, other = matrix[i, j], matrix[j, i]
                    difference = max(difference, abs(one - other))
                    largest = max(largest, abs(one), abs(other))
                    if one - one != other - other:
                        largest = np.inf
    return largest, difference


@compiled()
def symmetrised(matrix: Floats) -> Floats:
    """(A + Aᵀ)/2."""
    size, mean = len(matrix), np.empty_like(matrix)
    for top in range(0, size, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(size, top + TILE)):
                for j in range(left, min(i + 1, left + TILE)):
                    mean[i, j] = mean[j, i] = (matrix[i, j] + matrix[j, i]) / 2.0
    return mean


@compiled()
def mirrored(matrix: Floats) -> Floats:
    """The symmetric matrix whose upper triangle is given; `matrix` is changed."""
    for i in range(len(matrix)):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
    return matrix


@compiled()
def rescale(matrix: Floats, units: Floats, divide: bool) -> None:
    """Aᵢⱼ ← Aᵢⱼ·uᵢuⱼ, or divided by it, without a second matrix."""
    for i in range(len(matrix)):
        for j in range(len(matrix)):
            unit = units[i] * units[j]
            matrix[i, j] = matrix[i, j] / unit if divide else matrix[i, j] * unit


@compiled()
def component_labels(covariance: Floats, penalty: Floats) -> Integers:
    """A label for each variable; variables share one if a chain of pairs with |covariance| > penalty joins them."""
    size = len(covariance)
    labels, waiting = np.empty(size, np.int64), np.empty(size, np.int64)
    for variable in range(size):
        labels[variable] = -1
    label = 0
    for first in range(size):
        if labels[first] >= 0:
            continue
        labels[first], waiting[0], count = label, first, 1
        while count > 0:
            count -= 1
            here = waiting[count]
            for there in range(size):
                if labels[there] < 0 and abs(covariance[here, there]) > penalty[here, there]:
                    labels[there], waiting[count] = label, there
                    count += 1
        label += 1
    return labels
