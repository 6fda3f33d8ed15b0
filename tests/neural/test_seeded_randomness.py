"""Samples and keys: functions of seed and step, cut into batches of one shape."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.neural import seeded_randomness as sampling
from sudare.neural.seeded_randomness import RunSeed, physical_batches
from sudare.privacy.discrete_gaussian import standard_table
from sudare.privacy.noise import SeededNoise, SystemNoise

SEED = RunSeed(bytes(range(32)))


KEY = bytes(32)


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 12), st.integers(1, 3))
def test_batches_hold_every_kept_row_once(kept, size, batches):
    parts = list(physical_batches(np.array(kept, dtype=bool), size, batches, KEY))
    assert all(chosen.shape == mask.shape == (size,) for chosen, mask in parts)
    held = [int(place) for chosen, mask in parts for place, one in zip(chosen, mask, strict=True) if one == 1]
    assert sorted(held) == [place for place, one in enumerate(kept) if one]
    assert len(parts) == batches * max(1, -(-sum(kept) // (size * batches)))
    assert {float(one) for _, mask in parts for one in mask} <= {0.0, 1.0}


def test_an_empty_sample_is_a_batch_of_padding():
    [(chosen, mask)] = physical_batches(np.zeros(9, dtype=bool), 4, 1, KEY)
    assert chosen.tolist() == [0, 0, 0, 0]
    assert mask.tolist() == [0, 0, 0, 0]


def slots_taken(rows, slots, draws):
    """How often each arrangement of so many rows in so many slots comes."""
    counts = Counter()
    for draw in range(draws):
        key = hashlib.sha256(draw.to_bytes(8, "little")).digest()
        [(chosen, mask)] = physical_batches(np.ones(rows, dtype=bool), slots, 1, key)
        counts[tuple(int(place) if one else -1 for place, one in zip(chosen, mask, strict=True))] += 1
    return counts


def test_every_arrangement_of_rows_in_slots_is_as_likely():
    """12 arrangements of two rows in four slots, 24 of three: chi-square, false alarms below 1e-6 each. One row more then finds a free slot."""
    for rows, arrangements in ((2, 12), (3, 24)):
        counts = slots_taken(rows, 4, 6000)
        assert len(counts) == arrangements
        assert stats.chisquare(list(counts.values())).pvalue > 1e-6


def test_rows_that_wait_are_chosen_at_random():
    waiting = Counter()
    for draw in range(600):
        key = hashlib.sha256(draw.to_bytes(8, "little")).digest()
        *_, (chosen, mask) = physical_batches(np.ones(3, dtype=bool), 2, 1, key)
        waiting[int(chosen[mask == 1][0])] += 1
    assert stats.chisquare([waiting[row] for row in range(3)]).pvalue > 1e-6


def test_an_order_with_equal_words_is_drawn_anew(monkeypatch):
    drawn = iter([np.array([5, 3, 5], dtype=np.uint64), np.array([7, 1, 4], dtype=np.uint64)])
    monkeypatch.setattr(sampling, "stretched", lambda key, count: next(drawn))
    assert sampling.random_order(KEY, 3).tolist() == [1, 2, 0]


def test_a_step_is_sampled_the_same_way_again_and_others_otherwise():
    first, again, other = (SEED.kept_rows(step, 200, 0.25) for step in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first != RunSeed(bytes(32)).kept_rows(3, 200, 0.25)).any()


def test_a_row_is_sampled_the_same_way_whatever_rows_follow():
    np.testing.assert_array_equal(SEED.kept_rows(5, 100, 0.3), SEED.kept_rows(5, 300, 0.3)[:100])


def test_full_batches_hold_all_rows():
    assert SEED.kept_rows(0, 7, 1.0).all()


def test_noise_differs_between_steps_and_is_the_same_again():
    first, again, other = (SEED.noise(step, 50) for step in (3, 3, 4))
    assert first.dtype == np.int64
    np.testing.assert_array_equal(first, again)
    assert np.all(first != other)
    assert np.all(first != RunSeed(bytes(32)).noise(3, 50))
    assert len(np.unique(np.concatenate([SEED.noise(step, 50) for step in range(20)]))) == 1000


def test_much_noise_is_drawn_in_blocks_of_their_own(monkeypatch):
    monkeypatch.setattr(sampling, "_NUMBERS_IN_A_BLOCK", 40)
    drawn = SEED.noise(3, 100)
    assert drawn.shape == (100,)
    assert len(np.unique(drawn)) == 100
    np.testing.assert_array_equal(drawn, SEED.noise(3, 100))
    np.testing.assert_array_equal(drawn[:80], SEED.noise(3, 80))


@pytest.mark.parametrize("byte", range(32))
def test_noise_hangs_on_every_byte_of_the_seed(byte):
    changed = bytearray(SEED.seed)
    changed[byte] ^= 1
    assert np.all(SEED.noise(0, 4) != RunSeed(bytes(changed)).noise(0, 4))


def test_bits_that_do_not_decide_are_followed_by_more_of_the_same_seed(monkeypatch):
    """The first word is the first threshold of the table itself."""
    word = np.uint64(int(standard_table().firsts[700]) << 1)
    monkeypatch.setattr(sampling, "stretched", lambda key, count: np.full(count, word))
    drawn = {int(RunSeed(bytes([seed]) * 32).noise(0, 1)[0]) % 2048 for seed in range(20)}
    assert drawn == {700, 701}
    assert SEED.noise(0, 5).tolist() == SEED.noise(0, 5).tolist()


def test_weights_start_from_normal_numbers_of_their_own():
    start = SEED.start(20_000)
    assert start.dtype == np.float32
    assert np.all(np.isfinite(start))
    assert stats.kstest(start, stats.norm.cdf).pvalue > 1e-6
    assert len(np.unique(start)) > 19_000
    assert np.all(np.isfinite(sampling.standard_normals(KEY, 1000)))


def test_seeds_are_fresh_and_not_shown():
    assert RunSeed.drawn(SystemNoise()) != RunSeed.drawn(SystemNoise())
    assert RunSeed.drawn(SeededNoise(5)) == RunSeed.drawn(SeededNoise(5))
    assert len(RunSeed.drawn(SystemNoise()).seed) == 32
    assert SEED.seed.hex() not in repr(SEED)
    assert repr(SEED.seed) not in repr(SEED)


@pytest.mark.parametrize("rate", [2.0**-32, 0.125, 1 - 2.0**-32])
def test_any_rate_can_be_sampled(rate):
    assert SEED.kept_rows(0, 1000, rate).shape == (1000,)
