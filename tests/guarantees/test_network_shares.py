"""Networks that a consortium trains: a row moves a sum by no more than the noise is for, and what a curious member faces is the claimed μ.

Gates use 99.9999 % confidence: a false alarm comes once in a million runs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

pytest.importorskip("jax")

from sudare.audit import distinguish_gaussian
from sudare.joint import NetworkTerms
from sudare.joint.network_training import NetworkGradientSum, NetworkShares, start_parameters
from sudare.neural import per_row_clipping
from sudare.privacy.discrete_gaussian import DEVIATION
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise
from sudare.schema import Label, Number, Schema

SCHEMA = Schema({"a": Number(-4.0, 4.0, scale=1.0), "b": Number(0.0, 8.0, scale=1.0), "ill": Label((0, 1))})
TERMS = NetworkTerms(SCHEMA, 2.0, 1e-5, 3, 1, hidden_layer_sizes=(3,), encoding="centred")
PLAN = TERMS.plan(200)
CLIP_IN_UNITS = DEVIATION / PLAN.share_multiplier


def request_at(parameters):
    values = np.asarray(parameters, dtype=np.float32)
    return NetworkGradientSum(len(values), 1e18, TERMS.reading, NetworkShares(3), values, TERMS.sizes, PLAN)


def block_of(random, rows=5):
    wild = random.choice([0.0, 1.0, -30.0, 2.0**30, 1e-30], size=(rows, 2))
    return np.column_stack([wild * random.normal(size=(rows, 2)), np.eye(2)[random.integers(2, size=rows)]])


def moved(request, seed):
    """How far a replaced row moves the sum over it and some others, over the clip in units."""
    random = np.random.default_rng(seed)
    block = block_of(random)
    other = np.vstack([block_of(random)[:1], block[1:]])
    difference = request.block_sums(block) - request.block_sums(other)
    return math.sqrt(sum(int(each) ** 2 for each in difference)) / CLIP_IN_UNITS


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0, 1000.0]))
@settings(max_examples=40)
def test_a_replaced_row_moves_a_sum_by_two_clips_at_most(seed, scale):
    random = np.random.default_rng(seed)
    parameters = np.clip(scale * random.normal(size=len(start_parameters(TERMS.sizes))), -1024, 1024)
    assert moved(request_at(parameters), seed) <= 2


def test_gradients_that_are_not_clipped_are_refused(monkeypatch):
    """Twin: every row with the factor of a short one."""

    def unclipped(blocks, kept, settings):
        return (kept * (DEVIATION / settings.noise_multiplier / settings.clip)).astype("float32")

    monkeypatch.setattr(per_row_clipping, "row_factors", unclipped)
    monkeypatch.setattr(per_row_clipping, "accumulated", per_row_clipping._with_batch)
    parameters = 3 * np.random.default_rng(0).normal(size=len(start_parameters(TERMS.sizes)))
    assert max(moved(request_at(parameters), seed) for seed in range(20)) > 2


def is_enough(plan, shares):
    """Whether so many shares make the noise that was charged for: by the formulas of the proof, not by the plan's own."""
    deviation = plan.share_multiplier * math.sqrt(shares)
    mu, epsilon = 2 * math.sqrt(plan.recipe.max_iter) / deviation, plan.epsilon
    delta = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    return delta + (1 + math.exp(epsilon)) * float(plan.distance) <= plan.delta * (1 + 1e-9)


@pytest.mark.parametrize(("members", "colluders"), [(2, 1), (3, 1), (3, 2), (10, 4)])
def test_the_shares_that_are_left_are_enough_and_one_fewer_is_not(members, colluders):
    plan = NetworkTerms(SCHEMA, 1.0, 1e-6, members, colluders, (3,), "centred").plan(5000)
    assert is_enough(plan, members - colluders)
    assert members - colluders == 1 or not is_enough(plan, members - colluders - 1)
    # Twin: whoever looks is not counted.
    assert not is_enough(replace(plan, colluders=0), members - colluders)


def test_every_share_is_counted_in_the_distance():
    more = NetworkTerms(SCHEMA, 2.0, 1e-5, 30, 1, (3,), "centred").plan(200)
    assert more.distance / more.recipe.max_iter == Fraction(10) * PLAN.distance / PLAN.recipe.max_iter


def gate(honest_members, samples=4000):
    """One step from the seat of a curious member of three: two shares are left to it, and one row differs."""
    random = np.random.default_rng(1)
    # Large hidden values and a last layer of zeros: rows of two labels have opposite gradients, both longer than the clip.
    request = request_at(20 * np.abs(start_parameters(TERMS.sizes)))
    rows = [np.array([[4.0, 8.0, 1.0, 0.0]]), np.array([[4.0, 8.0, 0.0, 1.0]])]
    sums = [request.block_sums(np.vstack([row, [[0.0, 1.0, 1.0, 0.0]]])) for row in rows]
    direction = (sums[0] - sums[1]).astype(np.float64)
    assert np.linalg.norm(direction) > 1.5 * CLIP_IN_UNITS
    # What shows most, and a second direction that shows nothing.
    plane = np.linalg.qr(np.column_stack([direction, random.normal(size=len(direction))]))[0]
    source = SystemNoise()

    def draws(which, count):
        seen = np.zeros((count, request.size))
        for number in range(count):
            words = np.zeros(request.size, dtype=np.uint64)
            for place in range(honest_members):
                own = sums[which] if place == 0 else np.zeros_like(sums[0])
                words = words + request.noise.noisy(own, source)
            seen[number] = words.view(np.int64)
        return seen @ plane / DEVIATION

    # Of the whole run this step is one in so many.
    mu = 2 / PLAN.noise_multiplier
    claimed = Guarantee(PLAN.epsilon, PLAN.delta)
    return distinguish_gaussian(draws, (0, 1), claimed, mu, samples, batched=True, measured_share=0.7)


@pytest.fixture
def one_loud_step(monkeypatch):
    """A plan whose single step shows much, so that few draws are enough."""
    plan = replace(PLAN, epsilon=15.0, recipe=replace(PLAN.recipe, max_iter=1))
    monkeypatch.setitem(globals(), "PLAN", plan)
    monkeypatch.setitem(globals(), "CLIP_IN_UNITS", DEVIATION / plan.share_multiplier)


def test_a_member_that_subtracts_its_own_share_faces_the_claimed_mu(one_loud_step):
    audit = gate(2)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.4, str(audit)


def test_a_forgotten_share_is_refused(one_loud_step):
    """Twin: the other honest member adds no noise."""
    audit = gate(1)
    assert not audit.holds, str(audit)
