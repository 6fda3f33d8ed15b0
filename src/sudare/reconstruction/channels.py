"""Channels from the values of one or more columns, perturbed independently of each other, to the answers.

The likelihood of a row of answers is a product over columns. So it is applied one column after the other: the matrix from all
combinations of values to all combinations of answers, a Kronecker product, is never formed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats


class Channel(Protocol):
    """From probabilities of (combined) states to those of (combined) answers, and back. Leading axes are separate problems."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many states each column has."""

    def forward(self, probabilities: Floats) -> Floats:
        """Probabilities of the answers, or likelihoods: a factor for each answer changes no estimate."""

    def backward(self, weights: Floats) -> Floats:
        """The transposed map."""


@dataclass(frozen=True, eq=False)
class ProductChannel:
    """One matrix a column: P(answer | state), one row an answer. Tensors have one axis a column, after those of the problems."""

    matrices: Sequence[Floats]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many states each column has."""
        return tuple(matrix.shape[1] for matrix in self.matrices)

    @property
    def answers(self) -> tuple[int, ...]:
        """How many answers each column has."""
        return tuple(matrix.shape[0] for matrix in self.matrices)

    def counted(self, columns: Sequence[NDArray[np.intp]]) -> Floats:
        """How often each combination of answers came, from the number of the answer in each column."""
        combined = np.ravel_multi_index(columns, self.answers)
        return np.bincount(combined, minlength=math.prod(self.answers)).astype(np.float64).reshape(self.answers)

    def forward(self, probabilities: Floats) -> Floats:
        """Probabilities of the combined answers."""
        return along_axes(self.matrices, probabilities)

    def backward(self, weights: Floats) -> Floats:
        """The transposed map."""
        return along_axes([matrix.T for matrix in self.matrices], weights)


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """Two columns with answers that are too many to enumerate, such as sets: likelihoods for each distinct pair that came.

    A pair has the row `places` of `first` and its own row of `second`; places rise.
    """

    first: Floats
    places: NDArray[np.int64]
    second: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """How many states each column has."""
        return self.first.shape[1], self.second.shape[1]

    @cached_property
    def _groups(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The rows of `first` that occur, and where each begins in `places`."""
        return np.unique(self.places, return_index=True)

    def forward(self, probabilities: Floats) -> Floats:
        """Σ_uv first_u·p_uv·second_v for each pair of answers."""
        if probabilities.ndim > 2:
            return np.array([self.forward(problem) for problem in probabilities])
        mixed: Floats = np.einsum("iv,iv->i", (self.first @ probabilities)[self.places], self.second)
        return mixed

    def backward(self, weights: Floats) -> Floats:
        """The transposed map."""
        if weights.ndim > 1:
            return np.array([self.backward(problem) for problem in weights])
        there, starts = self._groups
        sums = np.add.reduceat(self.second * weights[:, np.newaxis], starts)
        return self.first[there].T @ sums


def along_axes(matrices: Sequence[Floats], tensor: Floats) -> Floats:
    """The tensor with each of its last axes multiplied by its matrix.

    Every product moves its axis to the end, so that after all of them the axes are in order again.
    """
    leading = tensor.ndim - len(matrices)
    order = (*range(leading), *range(leading + 1, tensor.ndim), leading)
    for matrix in matrices:
        turned = tensor.transpose(order)
        tensor = (turned.reshape(-1, turned.shape[-1]) @ matrix.T).reshape(*turned.shape[:-1], len(matrix))
    return tensor


def outer_product(shares: Sequence[Floats]) -> Floats:
    """Probabilities of combinations of independent columns."""
    product: Floats = shares[0]
    for other in shares[1:]:
        product = np.multiply.outer(product, other)
    return product
