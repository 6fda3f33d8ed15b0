"""All randomness of one run, from one seed: a run that is killed and resumed repeats it and draws nothing anew.

The seed is 32 bytes from behind the door. Every step has keys of 256 bits of its own (HMAC-SHA256) for sampling, for where the sampled
rows are placed, and for noise; all words are AES-256 streams under these keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sudare.array_types import Booleans, Singles, Words
from sudare.linear.descent import poisson_sample
from sudare.privacy.discrete_gaussian import MORE_BITS, WORDS_PER_NUMBER, discrete_gaussian
from sudare.privacy.noise import WordSource
from sudare.sums.pseudorandom_streams import SEED_BYTES, derived, stretched, unit_floats

Places = NDArray[np.int32]

_SAMPLE: Final = b"sudare neural sample"
_SLOTS: Final = b"sudare neural slots"
_NOISE: Final = b"sudare neural noise"
_BLOCK: Final = b"sudare neural noise block"
_MORE_NOISE: Final = b"sudare neural more noise"
_START: Final = b"sudare neural start"
_NUMBERS_IN_A_BLOCK: Final = 2**16


@dataclass(frozen=True)
class StepWords:
    """The words of one step: always the same for the same key, so that asking twice gives no second sample."""

    key: bytes

    def words(self, count: int) -> Words:
        """The first words of the stream."""
        return stretched(self.key, count)


@dataclass(frozen=True, repr=False)
class RunSeed:
    """What a run's samples and noise are made of. Whoever knows it can subtract the noise."""

    seed: bytes

    @classmethod
    def drawn(cls, source: WordSource) -> RunSeed:
        """A fresh seed."""
        return cls(np.ascontiguousarray(source.words(SEED_BYTES // 8)).tobytes())

    def kept_rows(self, step: int, rows: int, sampling_rate: float) -> Booleans:
        """Which rows a step sees: each with exactly the sampling rate, independently of all others."""
        if sampling_rate == 1:
            return np.ones(rows, dtype=np.bool_)
        return poisson_sample(rows, sampling_rate, StepWords(self._key(_SAMPLE, step)))

    def batches(self, step: int, kept: Booleans, size: int, batches: int) -> Iterator[tuple[Places, Singles]]:
        """The physical batches of one step's sample."""
        return physical_batches(kept, size, batches, self._key(_SLOTS, step))

    def noise(self, step: int, count: int) -> NDArray[np.int64]:
        """Whole-numbered Gaussian noise of one step; much of it is drawn by several threads."""
        key = self._key(_NOISE, step)
        blocks = [
            (derived(key, _BLOCK, start.to_bytes(8, "little")), min(_NUMBERS_IN_A_BLOCK, count - start))
            for start in range(0, count, _NUMBERS_IN_A_BLOCK)
        ]
        if len(blocks) == 1:
            return _block_of_noise(*blocks[0])
        with ThreadPoolExecutor() as threads:
            return np.concatenate(list(threads.map(_block_of_noise, *zip(*blocks, strict=True))))

    def start(self, count: int) -> Singles:
        """Standard normal numbers for the weights that a run starts from, which are independent of all data."""
        return standard_normals(self._key(_START, 0), count)

    def _key(self, purpose: bytes, step: int) -> bytes:
        return derived(self.seed, purpose, step.to_bytes(8, "little"))


@dataclass(frozen=True)
class RunState:
    """The state of a run after some steps: parameters, velocity and average, one after the other in one vector."""

    step: int
    values: NDArray[np.float32]


def physical_batches(kept: Booleans, size: int, batches: int, key: bytes) -> Iterator[tuple[Places, Singles]]:
    """Places of the kept rows, `size` at a time, with 1 for a row and 0 for padding, `batches` of them at least.

    Rows are put into the slots of these batches at random, so that one row more finds a free slot and moves no other row. Where there are
    more rows than slots, rows that are chosen at random wait for as many batches again. All batches have one shape, so that a step
    is compiled once. An empty sample is padding alone: whether it was empty is private, so its step has noise as any other.
    """
    places = np.flatnonzero(kept).astype(np.int32)
    slots = size * batches
    if len(places) > slots:
        places = places[random_order(derived(key, b"waiting", b""), len(places))]
    for turn, start in enumerate(range(0, max(1, len(places)), slots)):
        part = places[start : start + slots]
        free = random_order(derived(key, b"turn", turn.to_bytes(8, "little")), slots)[: len(part)]
        chosen, mask = np.zeros(slots, dtype=np.int32), np.zeros(slots, dtype=np.float32)
        chosen[free], mask[free] = part, 1.0
        yield from zip(chosen.reshape(batches, size), mask.reshape(batches, size), strict=True)


def _block_of_noise(key: bytes, count: int) -> NDArray[np.int64]:
    def more(place: int) -> int:
        return int.from_bytes(derived(key, _MORE_NOISE, place.to_bytes(8, "little"))[: MORE_BITS // 8], "little")

    return discrete_gaussian(stretched(key, WORDS_PER_NUMBER * count), more)


def random_order(key: bytes, count: int) -> NDArray[np.intp]:
    """0, …, count − 1 in an order that is as likely as any other: sorted by words, drawn anew should two be equal."""
    for attempt in itertools.count():
        words = stretched(derived(key, b"order", attempt.to_bytes(8, "little")), count)
        order = np.argsort(words)
        if np.all(words[order[1:]] != words[order[:-1]]):
            break
    return order


def standard_normals(seed: bytes, count: int) -> Singles:
    """Normal numbers from a seed that serves nothing else. They are for what a network starts from, and protect nobody."""
    return np.asarray(ndtri(unit_floats(seed, count) + 2.0**-54), dtype=np.float32)
