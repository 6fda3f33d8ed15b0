"""A network trained on everybody's rows: (ε, δ)-DP, replace-one rows. Proof: proofs/noise_shares.md, proofs/dp_sgd.md.

Every step is one secure sum of all rows' clipped gradients, in whole units of which a member's share of the noise has a deviation of 2³⁴. The step
that follows is the same arithmetic at every member. Only a member's own sums need JAX.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from sudare.array_types import Floats, Integers, Singles, Words
from sudare.errors import NotSolved
from sudare.joint.network_training_terms import LearnedNetwork, NetworkTerms
from sudare.joint.sum_requests import NoisySum, SumRequest, row_count
from sudare.neural.dp_sgd import GRID, DpSgd, public_recipe
from sudare.neural.seeded_randomness import RunSeed
from sudare.neural.training_method_base import Facts, layered, parameters_in, require_jax
from sudare.privacy.accounting import rounded_up
from sudare.privacy.discrete_gaussian import DEVIATION, DISTANCE
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid
from sudare.sums.pseudorandom_streams import derived, unit_floats

# All members start from the same weights, which everybody may know.
_START: Final = b"sudare joint network start, 32 b"
_START_GAIN: Final = 0.5
_FARTHEST_DEVIATIONS: Final = 12.0
_LONGEST_MEMORY: Final = 0.98
_LARGEST_PARAMETER: Final = 2.0**10
# Rows whose gradients are held at once.
_ROWS_AT_ONCE: Final = 4096


@dataclass(frozen=True)
class SharedDpSgd(DpSgd):
    """(ε, δ)-DP network by descent on full sums with noise in shares, replace-one records. Proof: proofs/noise_shares.md, proofs/dp_sgd.md."""

    members: int = 2
    colluders: int = 1

    @functools.cached_property
    def distance(self) -> Fraction:
        """Total variation to a run whose noise is normal, rounded to whole units: every share of every number adds its own."""
        return self.recipe.max_iter * self.parameters * self.members * DISTANCE

    @functools.cached_property
    def share_multiplier(self) -> float:
        """Deviation of one share over the clip: S−t of them make the noise of the run."""
        honest = Fraction(math.nextafter(math.sqrt(self.members - self.colluders), 0.0))
        return rounded_up(Fraction(self.noise_multiplier) / honest)

    @property
    def unit(self) -> float:
        """What a whole number of a sum is in units of gradients."""
        return self.recipe.clip * self.share_multiplier / DEVIATION

    @property
    def noise_scale(self) -> float:
        """Standard deviation that the noise of one step gives a parameter at the full learning rate, all S shares together."""
        return self.recipe.learning_rate * self.share_multiplier * math.sqrt(self.members) / self.expected_rows


@functools.lru_cache(maxsize=16)
def planned(terms: NetworkTerms, rows: int) -> SharedDpSgd:
    """The noise of all sums over so many rows, and what it costs."""
    reading = terms.reading
    target = tuple(terms.schema.classes)
    facts = Facts(rows, terms.sizes, "cross_entropy", "replace-one", reading.features, terms.encoding, target)
    # All S shares are in a total where S−t would do.
    worth = max(1, int(rows * math.sqrt((terms.members - terms.colluders) / terms.members)))
    recipe = public_recipe(worth, terms.epsilon, terms.delta, "replace-one", sampling_rate=1.0)
    plan = SharedDpSgd(facts, terms.epsilon, terms.delta, recipe, terms.members, terms.colluders)
    _ = plan.cost
    return plan


@dataclass(frozen=True)
class NetworkShares:
    """One step's noise: a discrete Gaussian share of deviation 2³⁴ units from every member."""

    members: int

    @property
    def total_deviation(self) -> float:
        """√S times that of a share."""
        return DEVIATION * math.sqrt(self.members)

    @property
    def farthest(self) -> float:
        """Twelve deviations, which normal noise exceeds with probability e⁻⁷² a number."""
        return _FARTHEST_DEVIATIONS * self.total_deviation

    def noisy(self, steps: Integers, source: NoiseSource) -> Words:
        """Sums plus a share, modulo 2⁶⁴, from a seed that is drawn for this share alone."""
        share = RunSeed.drawn(source).noise(0, len(steps))
        return steps.view(np.uint64) + share.view(np.uint64)


@dataclass(frozen=True, eq=False)
class NetworkGradientSum(NoisySum):
    """Σ clipped gradients of a network at public parameters, in whole units."""

    parameters: Singles
    sizes: tuple[int, ...]
    plan: SharedDpSgd

    def block_sums(self, block: Floats) -> Integers:
        """Returns the sum over rows of gradients, each shortened to the clip, in whole units modulo 2⁶⁴; some rows at a time."""
        import jax
        import jax.numpy as jnp

        from sudare.neural import per_row_clipping as network

        sizes, recipe = self.sizes, self.plan.recipe
        settings = network.StepSettings(
            float(recipe.max_iter), recipe.learning_rate, recipe.momentum, recipe.clip, self.plan.share_multiplier, 1.0
        )
        place = jax.tree.map(
            lambda values: jnp.asarray(values, jnp.float32), layered(self.parameters.astype(np.float64), sizes)
        )
        total = np.zeros(self.size, dtype=np.int64)
        for rows, targets, kept in _parts(block.astype(np.float32), sizes[-1]):
            parts = network.row_parts(place, jax.device_put(rows), jax.device_put(targets), None, "cross_entropy")
            with jax.enable_x64(True):
                sums = network.accumulated(None, parts, jax.device_put(kept), settings)
            total += np.concatenate([np.asarray(each).ravel() for each in sums])
        return total


def _parts(block: Singles, outputs: int) -> Iterator[tuple[Singles, Singles, Singles]]:
    """Rows, targets and 1 for each row, 0 for padding; of one shape but where a block is small: steps are compiled for it."""
    size = min(_ROWS_AT_ONCE, 1 << (max(1, len(block)) - 1).bit_length())
    for start in range(0, len(block), size):
        part = block[start : start + size]
        padded = np.pad(part, ((0, size - len(part)), (0, 0)))
        yield padded[:, :-outputs], padded[:, -outputs:], (np.arange(size) < len(part)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a training after some steps: all that later steps depend on. `words` holds it in 3 P + 1 numbers for P parameters."""

    step: int
    place: Floats
    velocity: Floats
    average: Floats

    @property
    def words(self) -> Words:
        """Returns the state as words, to be kept."""
        numbers = np.concatenate([self.place, self.velocity, self.average]).view(np.uint64)
        return np.concatenate([np.array([self.step], dtype=np.uint64), numbers])

    @classmethod
    def of_words(cls, words: Words) -> Progress:
        """What `words` gave."""
        return cls(int(words[0]), *np.split(words[1:].view(np.float64), 3))


class NetworkReplay:
    """The request that follows what was heard, or the network. Of totals that were used only what follows from them is kept: there may be 2²⁴ numbers in each.

    What was heard is nothing, or the number of rows and then totals of steps, or in the place of those that were used the `words` of a Progress.
    """

    def __init__(self, terms: NetworkTerms) -> None:
        require_jax()
        self._terms = terms
        self._last: tuple[tuple[Words, ...], Progress] | None = None

    def after(self, heard: tuple[Words, ...]) -> SumRequest | LearnedNetwork:
        """What follows. Raise ImplausibleTotal where a total cannot be."""
        reading = self._terms.reading
        if not heard:
            return row_count(reading)
        plan, progress = self._terms.plan(self._rows(heard)), self._progress(heard)
        if progress.step < plan.recipe.max_iter:
            return self._request(progress, plan)
        return LearnedNetwork(reading, on_grid(progress.average, GRID), plan.facts.rows, plan.noise_scale, GRID)

    def kept(self, heard: tuple[Words, ...]) -> tuple[Words, ...]:
        """What leads to the same as these."""
        return (heard[0], self._progress(heard).words) if heard else heard

    def _rows(self, heard: tuple[Words, ...]) -> int:
        return int(row_count(self._terms.reading).received(heard[0])[0])

    def _request(self, progress: Progress, plan: SharedDpSgd) -> NetworkGradientSum:
        most, noise = plan.facts.rows * DEVIATION / plan.share_multiplier, NetworkShares(self._terms.members)
        place, sizes = progress.place.astype(np.float32), self._terms.sizes
        return NetworkGradientSum(len(place), most, self._terms.reading, noise, place, sizes, plan)

    def _progress(self, heard: tuple[Words, ...]) -> Progress:
        if self._last is not None and self._last[0] is heard:
            return self._last[1]
        plan = self._terms.plan(self._rows(heard))
        place = start_parameters(self._terms.sizes)
        progress = Progress(0, place, np.zeros_like(place), place)
        for words in heard[1:]:
            if len(words) == 3 * len(place) + 1:
                progress = Progress.of_words(words)
            else:
                progress = _following(progress, self._request(progress, plan).received(words), plan)
        self._last = heard, progress
        return progress


def _following(progress: Progress, total: Integers, plan: SharedDpSgd) -> Progress:
    """Where the training is after one more step: momentum, a rate that falls to nothing, and an average of the places."""
    recipe, step = plan.recipe, progress.step
    if step >= recipe.max_iter:
        raise NotSolved("A total arrived after the training had ended.", "Begin a new training.")
    slope = total.astype(np.float64) * (plan.unit / (plan.facts.rows * recipe.clip))
    velocity = recipe.momentum * progress.velocity + slope
    rate = recipe.learning_rate * (1 - step / recipe.max_iter)
    place = np.clip(progress.place - rate * velocity, -_LARGEST_PARAMETER, _LARGEST_PARAMETER)
    memory = min(_LONGEST_MEMORY, (1 + step) / (10 + step))
    return Progress(step + 1, place, velocity, memory * progress.average + (1 - memory) * place)


def start_parameters(sizes: tuple[int, ...]) -> Floats:
    """Uniform weights of deviation gain/√inputs, zero biases, and a last layer of zeros: the same bits on every machine."""
    numbers = 2 * unit_floats(derived(_START, b"weights", b""), parameters_in(sizes)) - 1
    flat, start = np.zeros(parameters_in(sizes)), 0
    for inputs, width in itertools.pairwise(sizes[:-1]):
        end = start + inputs * width
        flat[start:end] = numbers[start:end] * (_START_GAIN * math.sqrt(3 / inputs))
        start = end + width
    return flat
