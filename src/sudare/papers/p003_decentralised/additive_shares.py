"""Additive shares modulo 2^64: all but one are uniform, the last makes the sum right. Proof: proofs/secure_sums.md.

Each member gives one share to every member, adds what it received, and the members sum those sums. It needs no keys, but
S − 1 vectors from everyone; fewer than S − 1 colluders learn nothing but the sum of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from sudare.errors import InvalidParameter
from sudare.sums.streams import fresh_seed, stretched

Words = NDArray[np.uint64]


def additive_shares(words: Words, count: int, seed: bytes | None = None) -> list[Words]:
    """So many vectors that add up to the words modulo 2^64, any count − 1 of them uniform and independent."""
    if count < 1:
        raise InvalidParameter(f"{count} shares of a vector are not defined.", "Make at least one.")
    random = stretched(fresh_seed() if seed is None else seed, (count - 1) * len(words))
    free = list(random.reshape(count - 1, len(words)))
    return [*free, words - words_sum(free, len(words))]


def words_sum(vectors: Iterable[Words], length: int) -> Words:
    """The sum modulo 2^64, zero where there is nothing to add."""
    return reduce(np.add, vectors, np.zeros(length, dtype=np.uint64))
