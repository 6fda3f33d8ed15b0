"""Pseudorandom words from secrets: HKDF to derive keys, AES-256 in counter mode to stretch them.

Nothing here draws from numpy: what hides people's numbers comes from the operating system's entropy or from keys made of it.
"""

from __future__ import annotations

import hmac
import os
from functools import lru_cache
from hashlib import sha256
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

SEED_BYTES: Final = 32
_BLOCK_BYTES: Final = 16
_WORD_BYTES: Final = 8
_HASH_BLOCK_BYTES: Final = 64
_INNER_PAD, _OUTER_PAD = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def fresh_seed() -> bytes:
    """32 bytes of the operating system's entropy."""
    return os.urandom(SEED_BYTES)


def extracted(salt: bytes, secret: bytes) -> bytes:
    """HKDF-Extract with SHA-256 (RFC 5869): a uniform key from a secret that is merely hard to guess."""
    return hmac.digest(salt, secret, "sha256")


def derived(key: bytes, purpose: bytes, context: bytes) -> bytes:
    """HKDF-Expand with SHA-256 to 32 bytes (RFC 5869): one independent key for every purpose and context.

    Purposes are of this library and hold no zero byte, which therefore ends them. HMAC (RFC 2104, for keys of at most a block) is
    written out here: `hmac.digest` looks its algorithm up in every call, which takes as long as the hashing.
    """
    block = key.ljust(_HASH_BLOCK_BYTES, b"\x00")
    inner = sha256(block.translate(_INNER_PAD) + purpose + b"\x00" + context + b"\x01").digest()
    return sha256(block.translate(_OUTER_PAD) + inner).digest()


def stretched(seed: bytes, count: int) -> Words:
    """`count` words from a seed that serves nothing else: AES-256-CTR from a zero counter, read as little-endian words."""
    room = np.empty(count + 2, dtype="<u8")
    encryptor = Cipher(algorithms.AES(seed), modes.CTR(bytes(_BLOCK_BYTES))).encryptor()
    encryptor.update_into(zeros(count), room.data.cast("B"))
    return room[:count]


def unit_floats(seed: bytes, count: int) -> Floats:
    """Uniform multiples of 2^−53 in [0, 1)."""
    return np.asarray((stretched(seed, count) >> np.uint64(11)) * 2.0**-53)


def permutation(seed: bytes, count: int) -> list[int]:
    """A random order of 0, …, count − 1: sorted by 64-bit words, so that any two orders are equally likely but for collisions."""
    return [int(place) for place in np.argsort(stretched(seed, count), kind="stable")]


@lru_cache(maxsize=8)
def zeros(count: int) -> bytes:
    """The bytes of `count` words that are zero."""
    return bytes(_WORD_BYTES * count)
