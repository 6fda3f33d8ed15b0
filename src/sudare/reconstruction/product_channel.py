"""Channels of several columns that were perturbed independently of each other, and EM through them.

The likelihood of a row of answers is a product over columns. So it is applied one column after the other: the matrix from all
combinations of values to all combinations of answers, a Kronecker product, is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.reconstruction.binning import Counts
from sudare.reconstruction.iterative_bayes import Stopped, checkpoints, thinned
from sudare.reconstruction.maximum_likelihood import Channel, maximum_likelihood

Floats = NDArray[np.float64]

FOLDS: Final = 5
MOST_STEPS: Final = 3162
_LEAST_PROBABILITY: Final = 1e-300
# After the best number of steps the held-out likelihood falls for good; this much below it there is no coming back.
_FALL_AT_END: Final = 6.0
_STACKING_STEPS: Final = 500


class JointChannel(Protocol):
    """From probabilities of combined states to those of combined answers, and back."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many states each column has."""

    def forward(self, probabilities: Floats) -> Floats:
        """Probabilities (or likelihoods) of the answers."""

    def backward(self, weights: Floats) -> Floats:
        """The transposed map."""


@dataclass(frozen=True, eq=False)
class ProductChannel:
    """One matrix a column: P(answer | state), one row an answer. Tensors have one axis a column."""

    matrices: Sequence[Floats]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many states each column has."""
        return tuple(matrix.shape[1] for matrix in self.matrices)

    @property
    def answers(self) -> tuple[int, ...]:
        """How many answers each column has."""
        return tuple(matrix.shape[0] for matrix in self.matrices)

    def forward(self, probabilities: Floats) -> Floats:
        """Probabilities of the combined answers."""
        return along_axes(self.matrices, probabilities)

    def backward(self, weights: Floats) -> Floats:
        """The transposed map."""
        return along_axes([matrix.T for matrix in self.matrices], weights)


@dataclass(frozen=True, eq=False)
class RowChannel:
    """Two columns, the second with answers that are too many to enumerate, such as sets: likelihoods for each pair that came.

    A distinct pair of answers has the row `places` of `first` and its own row of `second`; places rise.
    """

    first: Floats
    places: NDArray[np.int64]
    second: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """How many states each column has."""
        return self.first.shape[1], self.second.shape[1]

    def forward(self, probabilities: Floats) -> Floats:
        """Σ_uv first_u·p_uv·second_v for each pair of answers."""
        mixed: Floats = np.einsum("iv,iv->i", (self.first @ probabilities)[self.places], self.second)
        return mixed

    def backward(self, weights: Floats) -> Floats:
        """The transposed map."""
        there, starts = np.unique(self.places, return_index=True)
        sums = np.add.reduceat(self.second * weights[:, np.newaxis], starts)
        return self.first[there].T @ sums


def along_axes(matrices: Sequence[Floats], tensor: Floats) -> Floats:
    """The tensor with each axis multiplied by its matrix.

    Every product moves its axis to the end, so that after all of them the axes are in order again.
    """
    shape = [*tensor.shape]
    for matrix in matrices:
        tensor = tensor.reshape(shape[0], -1).T @ matrix.T
        shape = [*shape[1:], matrix.shape[0]]
    return np.ascontiguousarray(tensor.reshape(shape))


def log_likelihood(channel: JointChannel, probabilities: Floats, counts: Floats) -> float:
    """Σ counts·log P(answers)."""
    return float(np.sum(counts * np.log(np.maximum(channel.forward(probabilities), _LEAST_PROBABILITY))))


def expectation_maximisation(probabilities: Floats, channel: JointChannel, frequencies: Floats, steps: int) -> Floats:
    """So many steps of the Iterative Bayesian Technique. Answers' likelihoods may lack a factor of their own: it cancels."""
    for _ in range(steps):
        expected = np.maximum(channel.forward(probabilities), _LEAST_PROBABILITY)
        probabilities = probabilities * channel.backward(frequencies / expected)
        probabilities /= probabilities.sum()
    return probabilities


def folds_of(counts: Floats, folds: int, generator: np.random.Generator) -> list[Floats]:
    """Counts of records in random parts of about equal size."""
    return thinned(Counts(np.empty(0), counts), folds, generator)


@dataclass(frozen=True, eq=False)
class Validated:
    """Where to stop, what was reached with all records, and with each part of them left out."""

    stopped: Stopped
    left_out: Sequence[Floats]


def stopped_by_validation(
    channel: JointChannel, start: Floats, parts: Sequence[Floats], most_steps: int = MOST_STEPS
) -> Validated:
    """All records, as many steps as did best on parts that the steps had not seen."""
    counts = np.sum(parts, axis=0)
    training = [(counts - part) / (counts.sum() - part.sum()) for part in parts]
    current = [start] * len(parts)
    best, most, done = 0, -np.inf, 0
    at_best = current
    for steps in checkpoints(most_steps):
        current = [
            expectation_maximisation(shares, channel, frequencies, steps - done)
            for shares, frequencies in zip(current, training, strict=True)
        ]
        done = steps
        score = sum(log_likelihood(channel, shares, part) for shares, part in zip(current, parts, strict=True))
        if score > most:
            best, most, at_best = steps, score, current
        elif score < most - _FALL_AT_END:
            break
    full = expectation_maximisation(start, channel, counts / counts.sum(), best)
    return Validated(Stopped(full, best), at_best)


def stacked(channel: JointChannel, candidates: Sequence[Sequence[Floats]], parts: Sequence[Floats]) -> Floats:
    """Weights of the candidates with the largest likelihood of held-out records (Breiman 1996; a concave problem).

    `candidates` has for each method one reconstruction a part, made without that part.
    """
    if len(candidates) == 1:
        return np.ones(1)
    predicted = np.vstack(
        [
            np.column_stack([channel.forward(reconstructed[number]).ravel() for reconstructed in candidates])
            for number in range(len(parts))
        ]
    )
    counts = np.concatenate([part.ravel() for part in parts])
    seen = counts > 0
    # A factor for each answer changes nothing but keeps products of small probabilities away from zero.
    likelihoods = predicted[seen] / np.maximum(predicted[seen].max(axis=1, keepdims=True), _LEAST_PROBABILITY)
    problem = Channel(
        lambda weights: likelihoods @ weights, lambda pull: pull @ likelihoods, counts[seen], (len(candidates),)
    )
    return maximum_likelihood(problem, most_steps=_STACKING_STEPS).proportions
