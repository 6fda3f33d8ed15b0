"""Pseudorandom words: HKDF and AES in counter mode, as their standards say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from sudare.sums.pseudorandom_streams import derived, extracted, fresh_seed, permutation, stretched, unit_floats

SEED = bytes(range(32))


@given(st.binary(min_size=1, max_size=40), st.binary(min_size=1, max_size=40), st.binary(max_size=60))
def test_keys_are_derived_by_hkdf(salt, secret, context):
    """The two steps of RFC 5869, against the library's own."""
    ours = derived(extracted(salt, secret), b"purpose", context)
    theirs = HKDF(hashes.SHA256(), 32, salt, b"purpose\x00" + context).derive(secret)
    assert ours == theirs


@pytest.mark.parametrize("count", [0, 1, 2, 5, 1000])
def test_streams_are_aes_in_counter_mode(count):
    encryptor = Cipher(algorithms.AES(SEED), modes.CTR(bytes(16))).encryptor()
    expected = np.frombuffer(encryptor.update(bytes(8 * count)), dtype="<u8")
    np.testing.assert_array_equal(stretched(SEED, count), expected)


def test_floats_and_orders_come_from_the_stream():
    floats = unit_floats(SEED, 4096)
    assert 0 <= floats.min() < 0.01
    assert 0.99 < floats.max() < 1
    assert (floats * 2**53 == np.floor(floats * 2**53)).all()
    orders = Counter(
        tuple(permutation(derived(SEED, b"order", bytes([i, j])), 3)) for i in range(20) for j in range(60)
    )
    assert len(orders) == 6
    # 1,200 draws of six orders: 200 ± 13 each; 8 deviations are a false alarm of 1e-15.
    assert all(abs(count - 200) < 104 for count in orders.values())


def test_every_purpose_and_context_gives_another_key():
    purposes, contexts = (b"box", b"boxes", b"mask"), (b"", b"s", b"\x00", b"es")
    assert len({derived(SEED, purpose, context) for purpose in purposes for context in contexts}) == 12


def test_fresh_seeds_differ():
    assert len({fresh_seed() for _ in range(10)}) == 10
    assert len(fresh_seed()) == 32
