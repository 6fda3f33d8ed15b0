"""The Iterative Bayesian Technique: expectation maximisation over states of one or more columns, stopped before it fits the noise.

One step replaces the probabilities of the states by the mean of their posteriors given each perturbed value (Agrawal, Srikant and
Thomas 2005). The likelihood rises in every step, and for long the estimate gets better with it; then it breaks up into peaks. Where
to stop is chosen on records that the steps had not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.reconstruction.binning import States
from sudare.reconstruction.channels import Channel

FOLDS: Final = 5
LEAST_PROBABILITY: Final = 1e-300
_ATOMS_AT_START: Final = 0.5
# After the best number of steps the held-out likelihood falls for good; this much below it there is no coming back.
_FALL_AT_END: Final = 6.0


@dataclass(frozen=True, eq=False)
class Stopped:
    """Probabilities of the states after so many steps with all records, and with each part of them left out."""

    probabilities: Floats
    steps: int
    left_out: Floats


def uniform_start(states: States) -> Floats:
    """Returns equal probabilities for all cells; atoms, where there are any, share one half."""
    atoms = len(states.atoms)
    for_cells = 1 - _ATOMS_AT_START if atoms else 1.0
    return np.concatenate(
        (np.full(states.cells, for_cells / states.cells), np.full(atoms, _ATOMS_AT_START / max(atoms, 1)))
    )


def expectation_maximisation(probabilities: Floats, channel: Channel, frequencies: Floats, steps: int) -> Floats:
    """Returns the probabilities after `steps` steps; leading axes are separate problems. Answers' likelihoods may lack a factor of their own: it cancels."""
    of_states = tuple(range(-len(channel.shape), 0))
    for _ in range(steps):
        expected = np.maximum(channel.forward(probabilities), LEAST_PROBABILITY)
        probabilities = probabilities * channel.backward(frequencies / expected)
        probabilities /= probabilities.sum(axis=of_states, keepdims=True)
    return probabilities


def log_likelihood(channel: Channel, probabilities: Floats, counts: Floats) -> float:
    """Σ counts·log P(answers), over all problems."""
    return float(np.sum(counts * np.log(np.maximum(channel.forward(probabilities), LEAST_PROBABILITY))))


def checkpoints(most_steps: int) -> list[int]:
    """Numbers of steps to choose from: four to a factor of ten."""
    exponents = np.arange(2, int(4 * np.log10(most_steps) + 1e-9) + 1) / 4
    return sorted({*np.rint(10**exponents).astype(int).tolist(), most_steps})


def stopped_by_validation(channel: Channel, start: Floats, parts: Sequence[Floats], most_steps: int) -> Stopped:
    """All records, as many steps as did best on parts (counts of answers) that the steps had not seen."""
    held_out, counts = np.array(parts), np.sum(parts, axis=0)
    training = np.array([(counts - part) / (counts.sum() - part.sum()) for part in parts])
    current = at_best = np.repeat(start[np.newaxis], len(parts), axis=0)
    best, most, done = 0, -np.inf, 0
    for steps in checkpoints(most_steps):
        current = expectation_maximisation(current, channel, training, steps - done)
        done = steps
        score = log_likelihood(channel, current, held_out)
        if score > most:
            best, most, at_best = steps, score, current
        elif score < most - _FALL_AT_END:
            break
    full = expectation_maximisation(start, channel, counts / counts.sum(), best)
    return Stopped(full, best, at_best)


def random_parts(counts: Floats, parts: int, generator: np.random.Generator) -> list[Floats]:
    """Counts of records, each of which is in one of several parts at random."""
    rest = counts.astype(np.int64)
    found = []
    for remaining in range(parts, 1, -1):
        part = generator.binomial(rest, 1 / remaining)
        found.append(part.astype(np.float64))
        rest = rest - part
    return [*found, rest.astype(np.float64)]
