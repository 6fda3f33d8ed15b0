"""Other ways of hiding addends: which are exact, what they cost, and what is refused before anybody sends anything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError, ImplausibleTotal, InvalidParameter
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.other_hidden_sums import (
    OTHER_HIDES,
    additive_shares,
    chunk_runs,
    chunked,
    hidden_sum,
)
from sudare.sums import FixedPoint, secure_sum

EXACT = ("shares", "shamir")
SEED = bytes(range(32))


def words(values):
    return np.array(values, dtype=np.uint64)


@given(st.integers(1, 9), st.data())
def test_shares_give_the_same_bits_as_masks(members, data):
    vectors = [data.draw(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2)) for _ in range(members)]
    grid = FixedPoint(-1e5, 1e5, 1e-6)
    plain = secure_sum(vectors, hide="nothing", fixed_point=grid)
    for hide in EXACT:
        found = hidden_sum(vectors, hide, fixed_point=grid)
        assert {total.tobytes() for total in found.totals if total is not None} == {plain.total.tobytes()}
        assert found.saturated == plain.saturated


@pytest.mark.parametrize("hide", EXACT)
def test_what_shares_cost(hide):
    vectors = list(np.random.default_rng(0).normal(size=(10, 50)))
    shared = hidden_sum(vectors, hide)
    assert (shared.rounds, shared.values_per_round) == (5, 9)
    assert shared.bits_sent == secure_sum(vectors, hide="nothing").bits_sent + 10 * 9 * 50 * 64


def test_chunks_and_paillier_are_close_only():
    vectors = np.random.default_rng(1).uniform(-1, 1, (6, 2))
    expected = vectors.sum(axis=0)
    over_graph = hidden_sum(list(vectors), hide="chunks", over="cycle", tolerance=1e-6)
    np.testing.assert_allclose(over_graph.totals, np.tile(expected, (6, 1)), atol=1e-4)
    assert over_graph.values_per_round == 4
    same = hidden_sum(list(vectors), hide="chunks", over=cycle(6, 2), tolerance=1e-6)
    assert (same.rounds, same.bits_sent) == (over_graph.rounds, over_graph.bits_sent)
    assert same.bits_sent == same.rounds * 6 * 4 * 2 * 64
    encrypted = hidden_sum(list(vectors), hide="paillier", over="complete", key_bits=256, tolerance=1e-4)
    np.testing.assert_allclose(encrypted.totals, np.tile(expected, (6, 1)), atol=1e-2)


@pytest.mark.parametrize("hide", OTHER_HIDES)
@pytest.mark.parametrize(
    "vectors",
    [
        [],
        [[]],
        [[], []],
        [[1.0], [1.0, 2.0]],
        [[[1.0]], [[2.0]]],
        [[31.25, math.nan], [1.0, 2.0]],
        [1.0, 2.0],
    ],
)
def test_vectors_that_cannot_be_summed(hide, vectors):
    over = None if hide in EXACT else "complete"
    with pytest.raises(DataError) as refused:
        hidden_sum(vectors, hide=hide, over=over)
    assert "31.25" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"hide": "hope"}, "'hope'"),
        ({"hide": "shares", "over": "cycle"}, "exactly"),
        ({"hide": "shamir", "over": cycle(3)}, "exactly"),
        ({"hide": "paillier"}, "graph"),
        ({"hide": "chunks"}, "graph"),
        ({"hide": "chunks", "over": "knitting"}, "'knitting'"),
        ({"hide": "chunks", "over": cycle(4)}, "4 members"),
        ({"hide": "chunks", "over": cycle(3), "chunks": 0}, "chunks"),
        ({"hide": "paillier", "over": cycle(3), "key_bits": 64}, "64 bits"),
        ({"hide": "shamir", "threshold": 4}, "threshold"),
        ({"hide": "shares", "threshold": 2}, "no threshold"),
        ({"hide": "chunks", "threshold": 2}, "no threshold"),
    ],
)
def test_options_that_do_not_fit(options, match):
    with pytest.raises(InvalidParameter, match=match):
        hidden_sum([[1.0], [2.0], [3.0]], **options)


def test_shamir_has_less_room_than_words():
    grid = FixedPoint(-(2.0**28), 2.0**28, 2.0**-32)
    vectors = [[1.0]] * 7
    assert secure_sum(vectors, fixed_point=grid).total.tolist() == [7.0]
    with pytest.raises(InvalidParameter, match="wrap"):
        hidden_sum(vectors, hide="shamir", fixed_point=grid)


@pytest.mark.parametrize("hide", EXACT)
def test_a_hostile_addend_that_leaves_the_ranges_stops_the_sum(hide, monkeypatch):
    encode, hostile = FixedPoint.encode, FixedPoint(-100.0, 100.0, 2.0**-20)

    def by_member(grid, values):
        return encode(hostile if values[0] == 50.0 else grid, values)

    monkeypatch.setattr(FixedPoint, "encode", by_member)
    with pytest.raises(ImplausibleTotal):
        hidden_sum([[0.5], [50.0], [0.5]], hide, fixed_point=FixedPoint(-1.0, 1.0, 2.0**-20))


# Additive shares


@given(st.integers(1, 8), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))
def test_additive_shares_add_up(count, values):
    shares = additive_shares(words(values), count)
    assert len(shares) == count
    assert np.sum(shares, axis=0, dtype=np.uint64).tolist() == values
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
        np.testing.assert_allclose(run.sums, np.tile(run.values.sum(axis=0), (9, 1)), atol=9e-6 * 9 * first_error)
    np.testing.assert_allclose(sum(run.sums for run in runs), np.tile(vectors.sum(axis=0), (9, 1)), atol=1e-3)
