"""Samples and keys: functions of seed and step, cut into batches of one shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.neural.sampling import RunSeed, physical_batches
from sudare.privacy.noise import SeededNoise, SystemNoise

SEED = RunSeed(bytes(range(32)))


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 12))
def test_batches_hold_every_kept_row_once(kept, size):
    parts = list(physical_batches(np.array(kept, dtype=bool), size))
    assert all(chosen.shape == mask.shape == (size,) for chosen, mask in parts)
    held = [int(place) for chosen, mask in parts for place, one in zip(chosen, mask, strict=True) if one == 1]
    assert held == [place for place, one in enumerate(kept) if one]
    assert len(parts) == max(1, -(-sum(kept) // size))
    assert {float(one) for _, mask in parts for one in mask} <= {0.0, 1.0}


def test_an_empty_sample_is_a_batch_of_padding():
    [(chosen, mask)] = physical_batches(np.zeros(9, dtype=bool), 4)
    assert chosen.tolist() == [0, 0, 0, 0]
    assert mask.tolist() == [0, 0, 0, 0]


def test_a_step_is_sampled_the_same_way_again_and_others_otherwise():
    first, again, other = (SEED.kept_rows(step, 200, 0.25) for step in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first != RunSeed(bytes(32)).kept_rows(3, 200, 0.25)).any()


def test_a_row_is_sampled_the_same_way_whatever_rows_follow():
    np.testing.assert_array_equal(SEED.kept_rows(5, 100, 0.3), SEED.kept_rows(5, 300, 0.3)[:100])


def test_full_batches_hold_all_rows():
    assert SEED.kept_rows(0, 7, 1.0).all()


def test_keys_differ_between_steps_and_purposes():
    keys = [SEED.noise_key(step).tobytes() for step in range(50)] + [SEED.start_key().tobytes()]
    assert len(set(keys)) == 51
    assert SEED.noise_key(0).dtype == np.uint32
    assert SEED.noise_key(0).shape == (2,)


def test_seeds_are_fresh_and_not_shown():
    assert RunSeed.drawn(SystemNoise()) != RunSeed.drawn(SystemNoise())
    assert RunSeed.drawn(SeededNoise(5)) == RunSeed.drawn(SeededNoise(5))
    assert len(RunSeed.drawn(SystemNoise()).seed) == 32
    assert SEED.seed.hex() not in repr(SEED)
    assert repr(SEED.seed) not in repr(SEED)


@pytest.mark.parametrize("rate", [2.0**-32, 0.125, 1 - 2.0**-32])
def test_any_rate_can_be_sampled(rate):
    assert SEED.kept_rows(0, 1000, rate).shape == (1000,)
