"""Ruan et al.'s exchange: the sum stays, differences go through encryption only, and the extra is named where it is missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sudare.errors import ExtraMissing, InvalidParameter
from sudare.papers.p003_decentralised import paillier
from sudare.papers.p003_decentralised.graphs import complete, cycle

SEED = bytes(range(32))


@pytest.fixture(scope="module")
def pairs():
    return paillier.keypairs(4, 256)


def test_one_exchange_gives_the_weighted_difference(pairs):
    public, private = pairs[0]
    own, other, own_weight, other_weight = 7 << 32, -3 << 32, 40_000, 50_000
    replied = paillier.answer(paillier.request(public, own), other, other_weight)
    assert private.decrypt(replied) == other_weight * (other - own)
    (step,) = paillier.steps_from(private, replied, own_weight, 1)
    assert step == pytest.approx(40_000 * 50_000 / 2**32 * -10)


def test_packed_numbers_of_either_sign_come_back_and_share_one_exchange(pairs):
    extremes = [2**111 - 1, -(2**111), -1, 0, 1, 5 << 90]
    assert paillier.unpacked(paillier.packed(extremes), len(extremes)) == extremes
    public, private = pairs[0]
    assert paillier.slots(256) == 2
    assert paillier.slots(2048) == 18
    own, others = [-(2**92), 7 << 32], [2**92, -3 << 32]
    replied = paillier.answer(paillier.request(public, paillier.packed(own)), paillier.packed(others), 2**16 - 1)
    found = paillier.unpacked(private.decrypt(replied), 2)
    assert found == [(2**16 - 1) * (other - mine) for mine, other in zip(own, others, strict=True)]


def test_numbers_that_share_ciphertexts_go_where_they_would_alone(pairs):
    vectors = np.random.default_rng(0).normal(size=(4, 5))
    together = paillier.paillier_average(vectors, cycle(4), 0.1, pairs, SEED).averages
    alone = [paillier.paillier_average(vectors[:, [place]], cycle(4), 0.1, pairs, SEED).averages for place in range(5)]
    np.testing.assert_array_equal(together, np.hstack(alone))


def test_answers_are_fresh_ciphertexts(pairs):
    public, _ = pairs[0]
    asked = paillier.request(public, 5)
    first, second = (paillier.answer(asked, 9, 3).ciphertext() for _ in range(2))
    assert first != second


@pytest.mark.parametrize("graph", [cycle(4), complete(4)])
def test_averages_agree_to_the_tolerance_and_the_sum_stays(graph, pairs):
    vectors = np.array([[1.0, -5.0], [2.0, 0.5], [-3.0, 4.0], [10.0, 0.0]])
    run = paillier.paillier_average(vectors, graph, 1e-2, pairs, SEED)
    before = np.linalg.norm(vectors - vectors.mean(axis=0))
    assert np.linalg.norm(run.averages - vectors.mean(axis=0)) <= 1e-2 * before
    np.testing.assert_allclose(run.averages.sum(axis=0), vectors.sum(axis=0), atol=1e-8)
    assert run.cost.ciphertexts_per_round == 2 * graph.largest_degree
    assert run.cost.bits_per_number == run.cost.rounds * 4 * len(graph.edges) * 2 * pairs[0][0].n.bit_length()


def test_weights_are_between_a_half_and_one():
    weights = paillier._round_weights(complete(12), SEED)
    assert len(weights) == 12 * 11
    assert all(2**15 <= weight < 2**16 for weight in weights.values())
    assert len(set(weights.values())) > 100


def test_values_too_large_are_refused(pairs):
    with pytest.raises(InvalidParameter, match="too large"):
        paillier.paillier_average(np.array([[2.0**61], [0.0], [0.0], [0.0]]), cycle(4), 1e-2, pairs, SEED)


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "phe", None)
    with pytest.raises(ExtraMissing, match=r"sudare\[papers\]"):
        paillier.keypairs(1, 256)


@pytest.mark.parametrize("tolerance", [0, 1, 2.0, -1e-3])
def test_a_tolerance_is_between_zero_and_one(tolerance):
    with pytest.raises(InvalidParameter, match="tolerance"):
        paillier.paillier_cost(cycle(3), tolerance, 256)
