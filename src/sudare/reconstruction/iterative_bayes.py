"""The Iterative Bayesian Technique: expectation maximisation over the states, stopped before it fits the noise.

One step replaces the probabilities of the states by the mean of their posteriors given each perturbed value (Agrawal, Srikant and
Thomas 2005). The likelihood rises in every step, and for long the estimate gets better with it; then it breaks up into peaks. Where
to stop is chosen on records that the steps had not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.reconstruction.binning import Counts, States

Floats = NDArray[np.float64]

MOST_STEPS: Final = 5623
FOLDS: Final = 5
_LEAST_PROBABILITY: Final = 1e-300
_ATOMS_AT_START: Final = 0.5
# After the best number of steps the held-out likelihood falls for good; this much below it there is no coming back.
_FALL_AT_END: Final = 6.0


@dataclass(frozen=True)
class Stopped:
    """Probabilities of the states after so many steps."""

    probabilities: Floats
    steps: int


def uniform_start(states: States) -> Floats:
    """The same for every cell; atoms share one half."""
    atoms = len(states.atoms)
    for_cells = 1 - _ATOMS_AT_START if atoms else 1.0
    return np.concatenate(
        (np.full(states.cells, for_cells / states.cells), np.full(atoms, _ATOMS_AT_START / max(atoms, 1)))
    )


def expectation_maximisation(probabilities: Floats, channel: Floats, frequencies: Floats, steps: int) -> Floats:
    """So many steps. Several problems that share a channel stand side by side, one in each column."""
    for _ in range(steps):
        expected = np.maximum(channel @ probabilities, _LEAST_PROBABILITY)
        probabilities = probabilities * (channel.T @ (frequencies / expected))
    return probabilities


def checkpoints(most_steps: int) -> list[int]:
    """Numbers of steps to choose from: four to a factor of ten."""
    exponents = np.arange(2, int(4 * np.log10(most_steps) + 1e-9) + 1) / 4
    return sorted({*np.rint(10**exponents).astype(int).tolist(), most_steps})


def stopped_by_validation(
    states: States, counts: Counts, generator: np.random.Generator, most_steps: int = MOST_STEPS
) -> Stopped:
    """All records, as many steps as did best on held-out fifths of them."""
    held_out = np.array(thinned(counts, FOLDS, generator)).T
    training = counts.counts[:, np.newaxis] - held_out
    training = training / training.sum(axis=0)
    start = uniform_start(states)
    probabilities = np.repeat(start[:, np.newaxis], FOLDS, axis=1)
    best, most, done = 0, -np.inf, 0
    for steps in checkpoints(most_steps):
        probabilities = expectation_maximisation(probabilities, states.channel, training, steps - done)
        done = steps
        score = float(np.sum(held_out * np.log(np.maximum(states.channel @ probabilities, _LEAST_PROBABILITY))))
        if score > most:
            best, most = steps, score
        elif score < most - _FALL_AT_END:
            break
    frequencies = counts.counts / counts.records
    return Stopped(expectation_maximisation(start, states.channel, frequencies, best), best)


def thinned(counts: Counts, parts: int, generator: np.random.Generator) -> list[Floats]:
    """Each record put into one of several parts at random."""
    rest = counts.counts.astype(np.int64)
    found = []
    for remaining in range(parts, 1, -1):
        part = generator.binomial(rest, 1 / remaining)
        found.append(part.astype(np.float64))
        rest = rest - part
    return [*found, rest.astype(np.float64)]
