"""Section 1.3 in functions: who is withstood, what it takes, and what it is worth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.byzantine_and_proof_of_work import (
    HASH_BITS,
    approval_probabilities,
    block_hash,
    byzantine_decisions,
    debt_paths,
    group_probabilities,
    oral_messages_sent,
    proof_of_work,
    ruin_probability_truncated,
    traitors_withstood,
)
from sudare.papers.p003_decentralised.chunked_sum_risk import catch_up_probability


def test_fewer_than_a_third_are_withstood():
    assert [traitors_withstood(members) for members in (1, 3, 4, 6, 7, 10)] == [0, 0, 1, 1, 2, 3]
    assert oral_messages_sent(4, 1) == 3 + 3 * 2
    assert oral_messages_sent(10, 3) == 9 + 9 * 8 + 9 * 8 * 7 + 9 * 8 * 7 * 6


@pytest.mark.parametrize("traitor", range(4))
def test_four_generals_withstand_one_traitor_whatever_it_says(traitor):
    """All ways to lie that depend on hearer and word."""
    loyal = [member for member in range(4) if member != traitor]
    for opinions in itertools.product((0, 1), repeat=4):
        for table in itertools.product((0, 1), repeat=4):
            found = byzantine_decisions(opinions, {traitor}, 1, lambda _, hearer, __, table=table: table[hearer])
            assert len({found[member] for member in loyal}) == 1
            if len({opinions[member] for member in loyal}) == 1:
                assert found[loyal[0]] == opinions[loyal[0]]


def test_three_generals_do_not():
    """One that tells each of the others what it does not want makes them decide differently."""
    found = [
        byzantine_decisions(opinions, {2}, 1, lambda _, hearer, __, table=table: table[hearer])
        for opinions in itertools.product((0, 1), repeat=3)
        for table in itertools.product((0, 1), repeat=3)
    ]
    assert any(decisions[0] != decisions[1] for decisions in found)


def test_work_is_proved_by_a_small_hash():
    below = 2 ** (HASH_BITS - 8)
    kappa = proof_of_work(7, 11, below)
    assert block_hash(7, 11, kappa) < below
    assert all(block_hash(7, 11, earlier) >= below for earlier in range(kappa))
    attempts = [proof_of_work(number, 0, below) + 1 for number in range(60)]
    # 256 on average; the mean of sixty has a deviation of 33.
    assert 130 < np.mean(attempts) < 400
    with pytest.raises(InvalidParameter):
        proof_of_work(0, 0, 0)


def test_power_is_a_share_of_the_approvals():
    np.testing.assert_allclose(approval_probabilities([1, 1, 2]), [0.25, 0.25, 0.5])
    assert group_probabilities([1, 1, 2], [0, 1]) == (0.5, 0.5)
    with pytest.raises(InvalidParameter):
        approval_probabilities([0.0, 0.0])


@pytest.mark.parametrize("share", [0.1, 0.3, 0.45, 0.5, 0.7, 1.0])
def test_1_25_solves_1_21(share):
    for debt in (1, 3, 6):
        limit = catch_up_probability(share, debt)
        assert ruin_probability_truncated(share, debt, 100_000) == pytest.approx(limit, abs=1e-4)
        after, before = catch_up_probability(share, debt + 1), catch_up_probability(share, debt - 1)
        assert limit == pytest.approx((1 - share) * after + share * before)
    with pytest.raises(InvalidParameter):
        ruin_probability_truncated(share, 0)


def test_walks_reach_zero_as_often_as_1_25_says():
    paths = debt_paths(0.3, 2, 200, 20_000, np.random.default_rng(0))
    assert paths.shape == (20_000, 201)
    assert np.mean(paths[:, -1] == 0) == pytest.approx(catch_up_probability(0.3, 2), abs=0.012)
    ended = paths[paths[:, -1] == 0]
    assert np.all(np.diff((ended == 0).astype(int), axis=1) >= 0)


@pytest.mark.parametrize("below", [0, 0.5, 2**256 + 1, True])
def test_work_that_would_never_be_proved_is_refused(below):
    """Between 0 and 1 no hash is small enough, and the search had no end."""
    with pytest.raises(InvalidParameter, match="below"):
        proof_of_work(1, 2, below)


def test_a_bad_miner_named_twice_counts_once_and_nobody_is_refused():
    assert group_probabilities([1, 2], [0, 0]) == pytest.approx((2 / 3, 1 / 3))
    with pytest.raises(InvalidParameter, match="nobody"):
        group_probabilities([1, 2], [2])


@pytest.mark.parametrize(
    ("opinions", "traitors", "depth"),
    [([2, 0, 1, 1], [0], 1), ([1, 0, 1, 1], [4], 1), ([1, 0, 1, 1], [0], -1), ([], [], 0)],
)
def test_generals_who_are_none_are_refused(opinions, traitors, depth):
    with pytest.raises(InvalidParameter):
        byzantine_decisions(opinions, traitors, depth, lambda speaker, hearer, order: 0)
