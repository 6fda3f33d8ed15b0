"""Additive shares and chunks: each does what it says, for every input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.additive_shares import additive_shares, words_sum
from sudare.papers.p003_decentralised.chunks import averaged_sum, chunk_runs, chunked
from sudare.papers.p003_decentralised.graphs import cycle

SEED = bytes(range(32))


def words(values):
    return np.array(values, dtype=np.uint64)


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
