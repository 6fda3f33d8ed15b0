"""Streams, keys, shares and chunks: each does what it says, for every input."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from sudare.consensus.graphs import cycle
from sudare.consensus.sharing.chunks import averaged_sum, chunk_runs, chunked
from sudare.consensus.sharing.shares import additive_shares, words_sum
from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums import shamir
from sudare.sums.keys import MemberKeys, PublicKeys
from sudare.sums.streams import derived, extracted, permutation, stretched, unit_floats

SEED = bytes(range(32))
RESIDUES = st.integers(0, shamir.PRIME - 1)


def words(values):
    return np.array(values, dtype=np.uint64)


# Streams


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


# Keys


def test_both_ends_agree_on_a_secret_that_others_do_not_have():
    first, second, third = (MemberKeys.generated() for _ in range(3))
    assert first.secret_with(second.public) == second.secret_with(first.public)
    assert first.secret_with(second.public) == first.secret_with(second.public)
    assert (
        len({first.secret_with(second.public), first.secret_with(third.public), second.secret_with(third.public)}) == 3
    )


def test_signatures_are_checked():
    keys, other = MemberKeys.generated(), MemberKeys.generated()
    signature = keys.signature(b"text")
    assert keys.public.verifies(signature, b"text")
    assert not keys.public.verifies(signature, b"texT")
    assert not other.public.verifies(signature, b"text")


def test_unusable_keys_are_refused():
    with pytest.raises(InvalidParameter, match="32 bytes"):
        MemberKeys(b"short", bytes(32), bytes(32))
    with pytest.raises(InvalidParameter, match="X25519"):
        MemberKeys.generated().secret_with(PublicKeys(bytes(32), bytes(32)))


# Shamir


@given(RESIDUES, RESIDUES)
def test_the_field(first, second):
    a, b = words([first]), words([second])
    assert shamir.field_product(a, b)[0] == first * second % shamir.PRIME
    assert shamir.field_sum(a, b)[0] == (first + second) % shamir.PRIME


@given(st.integers(0, 2**64 - 1))
def test_reduction_of_any_word(word):
    assert shamir.reduced(words([word]))[0] == word % shamir.PRIME


@pytest.mark.parametrize("value", [0, 1, 2**30, 2**31 - 1, 2**31, 2**60, shamir.PRIME - 1])
def test_the_field_at_its_corners(value):
    corner = words([value] * 3)
    others = words([1, shamir.PRIME - 1, 2**31 + 1])
    assert shamir.field_product(corner, others).tolist() == [value * int(other) % shamir.PRIME for other in others]


@given(st.integers(1, 9), st.integers(1, 9), st.lists(RESIDUES, min_size=1, max_size=4), st.randoms())
def test_any_threshold_of_shares_gives_the_secrets(threshold, more, secrets, random):
    count = threshold + more - 1
    shares = shamir.shares_of(words(secrets), threshold, count, random.randbytes(32))
    holders = random.sample(range(count), random.randint(threshold, count))
    found = shamir.secrets_from({holder: shares[holder] for holder in holders}, threshold)
    assert found.tolist() == secrets
    with pytest.raises(InvalidParameter, match="fewer"):
        shamir.secrets_from({holder: shares[holder] for holder in range(threshold - 1)}, threshold)


@pytest.mark.parametrize(("threshold", "count"), [(0, 3), (4, 3)])
def test_thresholds_that_do_not_fit(threshold, count):
    with pytest.raises(InvalidParameter, match="between 1 and 3"):
        shamir.shares_of(words([1]), threshold, count, SEED)


@given(st.binary(min_size=32, max_size=32))
def test_seeds_survive_as_limbs(seed):
    assert shamir.seed_from_limbs(shamir.seed_limbs(seed)) == seed


def test_limbs_that_are_no_seed_are_refused():
    for limbs in (words([0] * 4), words([2**56, 0, 0, 0, 0])):
        with pytest.raises(MessageMalformed):
            shamir.seed_from_limbs(limbs)


@given(st.lists(st.integers(-(2**60) + 1, 2**60 - 1), min_size=1, max_size=5))
def test_signed_words_survive_as_residues(values):
    signed = np.array(values, dtype=np.int64).view(np.uint64)
    residues = shamir.residues(signed)
    assert residues.tolist() == [value % shamir.PRIME for value in values]
    assert shamir.signed_words(residues).view(np.int64).tolist() == values


def test_the_one_word_that_is_no_residue_is_thrown_away(monkeypatch):
    stream = words([shamir.PRIME, 5, 2**64 - 1, 6, 7, 8, 9, 10, 11, 12])
    monkeypatch.setattr(shamir, "stretched", lambda seed, count: stream[:count])
    assert shamir.field_elements(SEED, 2).tolist() == [5, 6]


# Additive shares


@given(st.integers(1, 8), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))
def test_additive_shares_add_up(count, values):
    shares = additive_shares(words(values), count)
    assert len(shares) == count
    assert words_sum(shares, len(values)).tolist() == values
    if count > 1:
        assert not np.array_equal(shares[0], additive_shares(words(values), count)[0])


def test_no_shares_at_all_are_refused():
    with pytest.raises(InvalidParameter):
        additive_shares(words([1]), 0)


# Chunks


@given(st.integers(1, 6), st.floats(0.1, 1e3), st.lists(st.floats(-10, 10), min_size=1, max_size=5))
def test_chunks_add_up_and_all_but_the_last_are_bounded(count, spread, values):
    chunks = chunked(np.array(values), count, spread, SEED)
    assert chunks.shape == (count, len(values))
    assert (np.abs(chunks[:-1]) <= spread).all()
    np.testing.assert_allclose(chunks.sum(axis=0), values, atol=1e-9 * spread)


@pytest.mark.parametrize(("count", "spread"), [(0, 1.0), (3, 0.0), (3, math.nan)])
def test_chunks_that_mean_nothing(count, spread):
    with pytest.raises(InvalidParameter):
        chunked(np.ones(2), count, spread, SEED)


def test_algorithm_2_shuffles_places_and_averages_every_chunk():
    graph = cycle(9, 2)
    vectors = np.random.default_rng(0).normal(size=(9, 3))
    runs = list(chunk_runs(vectors, graph, 4, 5.0, "constant", 1e-6, SEED))
    np.testing.assert_allclose(sum(run.values for run in runs), vectors, atol=1e-12)
    assert len({run.plan.rounds[0].graph.neighbours for run in runs}) == 4
    for run in runs:
        first_error = np.abs(run.values - run.values.mean(axis=0)).max()
        np.testing.assert_allclose(
            averaged_sum(run), np.tile(run.values.sum(axis=0), (9, 1)), atol=9e-6 * 9 * first_error
        )
    np.testing.assert_allclose(sum(averaged_sum(run) for run in runs), np.tile(vectors.sum(axis=0), (9, 1)), atol=1e-3)
