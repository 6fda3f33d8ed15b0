"""All randomness of one run, from one seed: a run that is killed and resumed repeats it and draws nothing anew.

The seed is 32 bytes from behind the door. Every step has keys of its own for sampling and for noise (HMAC-SHA256); sampling words
are an AES-256 stream under the step's key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.consensus.sharing.streams import SEED_BYTES, derived, stretched
from sudare.linear.descent import poisson_sample
from sudare.privacy.noise import Words, WordSource

Booleans = NDArray[np.bool_]
Places = NDArray[np.int32]
KeyData = NDArray[np.uint32]

_SAMPLE: Final = b"sudare neural sample"
_NOISE: Final = b"sudare neural noise"
_START: Final = b"sudare neural start"


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

    def noise_key(self, step: int) -> KeyData:
        """64 bits that serve the noise of one step and nothing else."""
        return _key_data(self._key(_NOISE, step))

    def start_key(self) -> KeyData:
        """64 bits for the weights that a run starts from, which are independent of all data."""
        return _key_data(self._key(_START, 0))

    def _key(self, purpose: bytes, step: int) -> bytes:
        return derived(self.seed, purpose, step.to_bytes(8, "little"))


@dataclass(frozen=True)
class Standing:
    """Where a run stands after some steps: parameters, velocity and average, one after the other in one vector."""

    step: int
    values: NDArray[np.float32]


def physical_batches(kept: Booleans, size: int) -> Iterator[tuple[Places, NDArray[np.float32]]]:
    """Places of the kept rows, `size` at a time, with 1 for a row and 0 for padding.

    All batches have one shape, so that a step is compiled once. An empty sample is a batch of padding: whether a sample
    was empty is private, so its step has noise as any other.
    """
    places = np.flatnonzero(kept).astype(np.int32)
    for start in range(0, max(1, len(places)), size):
        chosen = np.zeros(size, dtype=np.int32)
        mask = np.zeros(size, dtype=np.float32)
        part = places[start : start + size]
        chosen[: len(part)] = part
        mask[: len(part)] = 1.0
        yield chosen, mask


def _key_data(key: bytes) -> KeyData:
    return np.frombuffer(key[:8], dtype="<u4").astype(np.uint32)
