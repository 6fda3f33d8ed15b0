"""The private dictionary: sensitivities by brute force, sums of discrete shares, and audits from the seat of a curious member.

Each audit has a twin with a planted bug, which the same gate refuses. A correct mechanism is refused with probability at
most 1e-6, the confidence of the audit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sudare.audit import distinguish_gaussian
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal
from sudare.dictionary.exponential_families import Frame, Patterns
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_tables import Records
from sudare.dictionary.mixture_weights import needed_weights
from sudare.dictionary.private_sum_questions import (
    Clip,
    NoisyMoments,
    NoisyOpening,
)
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.sum_questions import Own
from sudare.dictionary.training import trained
from sudare.errors import InvalidCost, InvalidParameter
from sudare.privacy.accounting import gaussian_epsilon, gaussian_mu_within
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise
from tests.dictionary.kit import chapter_terms, held, random_precision

ROOT_SIX = math.sqrt(6)
# Samples of this size see little of a small μ; at ε = 5 they see most of it.
EPSILON = 5.0


def moments_question(random, patterns=2, columns=2, plan=None, clip=None):
    """A question with random public patterns; responsibilities and balls of every shape."""
    means = random.normal(size=(patterns, columns))
    precisions = np.stack([random_precision(random, columns) for _ in range(patterns)])
    size = patterns * (1 + columns + columns * (columns + 1) // 2)
    plan = plan or NoisePlan(1.0, 1e-3, 3, 1, (NoisyTotal(size, ROOT_SIX, Fraction(1)),), 100)
    clip = clip or Clip(random.normal(size=(patterns, columns)), precisions * 0.7, 1.5)
    frame = Frame(np.zeros(columns), np.ones(columns))
    weights = random.dirichlet(np.ones(patterns))
    return NoisyMoments(np.ones(size), plan, plan.releases[0], frame, means, precisions, weights, clip)


# By how much one record can move a sum


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.1, 1.0, 100.0]))
@settings(max_examples=200, deadline=None)
def test_two_records_differ_by_root_six_at_most(seed, patterns, columns, spread):
    random = np.random.default_rng(seed)
    question = moments_question(random, patterns, columns)
    rows = question.contributions(spread * random.normal(size=(6, columns)))
    assert np.all(np.linalg.norm(rows, axis=1) <= math.sqrt(3))
    distances = np.linalg.norm(rows[:, np.newaxis] - rows, axis=2)
    assert distances.max() <= ROOT_SIX


def far_pair():
    """Two records that belong to different patterns, each on the surface of its ball: they differ by √6."""
    precisions = np.stack([np.eye(1)] * 2)
    means = np.array([[-30.0], [30.0]])
    clip = Clip(means, precisions, 1.0)
    plan = NoisePlan(EPSILON, 1e-3, 2, 1, (NoisyTotal(6, ROOT_SIX, Fraction(1)),), 2)
    question = NoisyMoments(
        np.ones(6), plan, plan.releases[0], Frame(np.zeros(1), np.ones(1)), means, precisions, np.full(2, 0.5), clip
    )
    return question, (np.array([[-40.0]]), np.array([[40.0]]))


def test_root_six_is_reached():
    question, (first, second) = far_pair()
    distance = np.linalg.norm(question.contributions(first) - question.contributions(second))
    assert distance == pytest.approx(ROOT_SIX)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_two_records_differ_by_two_root_columns_in_the_opening(seed, columns):
    random = np.random.default_rng(seed)
    plan = NoisePlan(1.0, 1e-3, 2, 1, (NoisyTotal(2 * columns, 2 * math.sqrt(columns), Fraction(1)),), 9)
    question = NoisyOpening(np.ones(2 * columns), plan, plan.releases[0], np.full(columns, -3.0), np.full(columns, 5.0))
    rows = question.contributions(10 * random.normal(size=(8, columns)))
    distances = np.linalg.norm(rows[:, np.newaxis] - rows, axis=2)
    assert distances.max() <= 2 * math.sqrt(columns)
    ends = question.contributions(np.array([np.full(columns, -3.0), np.full(columns, 5.0)]))
    assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(2 * math.sqrt(columns))


@given(st.integers(0, 10**6), st.integers(1, 200))
@settings(max_examples=30, deadline=None)
def test_sums_are_exact_in_any_order(seed, rows):
    random = np.random.default_rng(seed)
    question = moments_question(random)
    table = random.normal(size=(rows, 2))
    forward = question.exact_sums(table)
    backward = question.exact_sums(table[::-1])
    np.testing.assert_array_equal(forward, backward)
    parts = question.exact_sums(table[: rows // 2]) + question.exact_sums(table[rows // 2 :])
    np.testing.assert_array_equal(forward, parts)
    steps = forward / question.plan.grid
    np.testing.assert_array_equal(steps, np.rint(steps))


# The noise of shares


def test_the_noise_of_all_sums_is_that_of_one_gaussian():
    """Σ (Δ/σ)² over the sums is μ² at most, and nearly; μ costs ε at δ."""
    plan = PrivateTerms(chapter_terms(members=10), 1.0, 1e-6, iterations=8).plan(10_000)
    squares = [(release.sensitivity / (plan.deviation_in_steps(release) * plan.grid)) ** 2 for release in plan.releases]
    mu = math.sqrt(sum(squares))
    assert mu <= plan.cost.mu
    assert mu == pytest.approx(plan.cost.mu, rel=1e-6)
    assert gaussian_epsilon(mu, 1e-6) <= 1.0
    assert len(plan.releases) == 9


@given(st.integers(2, 50), st.data(), st.floats(0.1, 8))
@settings(max_examples=40, deadline=None)
def test_unknown_shares_alone_have_the_variance(members, data, epsilon):
    """S − t shares of σ²/(S−t): exactly, as rationals, not less than σ²."""
    known = data.draw(st.integers(1, members - 1))
    release = NoisyTotal(10, 1.0, Fraction(1))
    plan = NoisePlan(epsilon, 1e-6, members, known, (release,), 1000)
    unknown = (members - known) * Fraction(plan.share_in_steps(release)) ** 2
    assert unknown >= Fraction(plan.deviation_in_steps(release)) ** 2
    assert unknown <= Fraction(plan.deviation_in_steps(release)) ** 2 * Fraction(1001, 1000)
    needed = Fraction(release.sensitivity) / Fraction(plan.grid) / Fraction(gaussian_mu_within(epsilon, 1e-6))
    assert Fraction(plan.deviation_in_steps(release)) >= needed


def discrete_gaussian(deviation, most):
    support = np.arange(-most, most + 1)
    weights = np.exp(-(support**2) / (2 * deviation**2))
    return weights / weights.sum()


@pytest.mark.parametrize(("shares", "deviation"), [(2, 0.6), (2, 1.0), (3, 0.8), (5, 1.0), (4, 2.0)])
def test_sums_of_discrete_shares_are_nearly_discrete_gaussian(shares, deviation):
    """The lemma of the proof: pointwise within e^±τ, τ = 5(n−1)·e^(−π²σ₁²); for σ₁ ≥ 2 that is below 1e-15."""
    most = 60
    one = discrete_gaussian(deviation, most)
    total = one
    for _ in range(shares - 1):
        total = np.convolve(total, one)
    ideal = discrete_gaussian(math.sqrt(shares) * deviation, shares * most)
    inner = ideal > 1e-14
    tau = 5 * (shares - 1) * math.exp(-(math.pi**2) * deviation**2)
    assert np.abs(np.log(total[inner] / ideal[inner])).max() <= tau + 1e-9
    if deviation < 1:
        assert np.abs(np.log(total[inner] / ideal[inner])).max() > 1e-2 * tau


@pytest.mark.parametrize("deviation", [2.0, 4.0])
def test_shares_are_within_the_stated_distance_of_rounded_normal_noise(deviation):
    one = discrete_gaussian(deviation, 80)
    total = np.convolve(np.convolve(one, one), one)
    edges = np.arange(-240, 242) - 0.5
    rounded = np.diff(norm.cdf(edges, scale=math.sqrt(3) * deviation))
    distance = 0.5 * np.abs(total - rounded).sum()
    assert distance <= 1 / (24 * 3 * deviation**2)


def test_plans_that_cannot_hold_are_refused():
    release = NoisyTotal(10, 1.0, Fraction(1))
    for known in (0, 3):
        with pytest.raises(InvalidParameter, match="colluders"):
            NoisePlan(1.0, 1e-6, 3, known, (release,), 100)
    with pytest.raises(InvalidParameter, match="exceed"):
        NoisePlan(1.0, 1e-6, 3, 1, (release, release), 100)
    with pytest.raises(InvalidCost):
        NoisePlan(200.0, 1e-6, 3, 1, (release,), 100)


# Audits: what a curious member sees when it has subtracted its own share and its own records


def seen_by_a_curious_member(question, honest, source):
    """The honest members' noisy addends, added up: the total less what the curious member knows of it."""

    def draws(table, count):
        shares = []
        for rows in (table, *honest):
            sums = np.tile(question.exact_sums(rows), count)
            shares.append(question.plan.noisy(sums, question.release, source).reshape(count, -1))
        return np.sum(shares, axis=0)

    return draws


def gate(question, pair, honest=(), draws=None, samples=2500):
    claimed = Guarantee(question.plan.epsilon, question.plan.delta)
    mechanism = draws or seen_by_a_curious_member(question, honest, SystemNoise())
    return distinguish_gaussian(
        mechanism, pair, claimed, question.plan.cost.mu, samples, batched=True, measured_share=0.7
    )


def test_a_curious_member_of_two_learns_no_more_than_was_promised():
    """S = 2, t = 1: only the other's share is between the curious member and the other's record. The bound is tight."""
    question, pair = far_pair()
    audit = gate(question, pair)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.3, str(audit)


def test_colluders_learn_no_more_than_was_promised():
    """S = 5, t = 3: the shares of two honest members are enough."""
    question, pair = far_pair()
    plan = replace(question.plan, members=5, colluders=3)
    audit = gate(replace(question, plan=plan), pair, honest=[np.array([[0.0]])])
    assert audit.holds, str(audit)
    assert audit.tightness > 0.3, str(audit)


@dataclass(frozen=True)
class ForgetsItsOwnShare(NoisePlan):
    """Bug: variance σ²/S, as if nobody knew a share."""

    def share_in_steps(self, release):
        return self.deviation_in_steps(release) / math.sqrt(self.members)


def test_a_plan_that_forgets_who_looks_is_refused():
    question, pair = far_pair()
    plan = ForgetsItsOwnShare(EPSILON, 1e-3, 2, 1, question.plan.releases, 2)
    # √2 of μ is a small bug: with 2,500 draws the gate missed it once in some hundred runs.
    audit = gate(replace(question, plan=plan), pair, samples=10_000)
    assert not audit.holds, str(audit)


def test_too_few_colluders_planned_for_are_refused():
    """Bug: t = 1 where three collude."""
    question, pair = far_pair()
    plan = replace(question.plan, members=5, colluders=1)
    audit = gate(replace(question, plan=plan), pair, honest=[np.array([[0.0]])])
    assert not audit.holds, str(audit)


def test_the_sensitivity_of_an_added_record_is_refused():
    """Bug: √3, the norm of one record, where a replaced one moves the sum by √6."""
    question, pair = far_pair()
    small = NoisyTotal(6, math.sqrt(3), Fraction(1))
    plan = replace(question.plan, releases=(small,))
    audit = gate(replace(question, plan=plan, release=small), pair)
    assert not audit.holds, str(audit)


def test_records_that_are_not_clipped_are_refused():
    """Bug: a ball so large that it holds the far record, with the noise of a small one."""
    question, pair = far_pair()

    def draws(table, count):
        total = question.exact_sums(table)
        far = (table[0, 0] - question.clip.centres[0, 0]) * (table[0, 0] < 0)
        sums = np.tile(total * (1 + abs(far)), count)
        return question.plan.noisy(sums, question.release, SystemNoise()).reshape(count, -1)

    audit = gate(question, pair, draws=draws)
    assert not audit.holds, str(audit)


def test_exact_weights_of_a_members_own_are_refused():
    """Bug: responsibilities with the member's own exact weights. One record decides the weights, and so where forty others belong."""
    question, _ = far_pair()
    means = np.array([[-1.0], [1.0]])
    question = replace(question, means=means, clip=replace(question.clip, centres=means))
    doubtful = np.zeros((40, 1))
    pair = np.concatenate([doubtful, [[-4.0]]]), np.concatenate([doubtful, [[4.0]]])
    source = SystemNoise()

    def own(table, count):
        patterns = Patterns({"means": question.means, "precisions": question.precisions})
        weights = needed_weights(Records.of(table), SparseGaussian(), question.frame, patterns, np.full(2, 0.5))
        asked = replace(question, weights=np.maximum(weights, 1e-6))
        return seen_by_a_curious_member(asked, (), source)(table, count)

    assert not gate(question, pair, draws=own, samples=600).holds
    audit = gate(question, pair)
    assert audit.holds, str(audit)


def whole_training(private, honest, source):
    """All totals of a training as a curious member sees them: what honest members add, question after question."""

    def outputs(table):
        script = trained(private)
        question, seen = next(script), []
        members = [Records.of(table), *held(honest)]
        while True:
            if isinstance(question, NoisyMoments | NoisyOpening):
                total = np.sum([question.answer(each, Own({}), source)[1] for each in members], axis=0)
                seen.append(total)
            else:
                total = np.array([float(sum(each.rows for each in members))])
            try:
                question = script.send(total)
            except StopIteration:
                return np.concatenate(seen)

    return outputs


class Quiet(SystemNoise):
    """Bug: an eighth of the noise."""

    def gaussian(self, values, scale):
        return super().gaussian(values, scale / 8)


@pytest.mark.long
def test_whole_trainings_cannot_be_told_apart_better_than_claimed():
    """Opening and two iterations, adaptive: later questions depend on earlier noise. One column, one pattern."""
    base = chapter_terms(columns=("a",), low=np.array([-1.0]), high=np.array([1.0]), members=2, n_patterns=1)
    private = PrivateTerms(base, EPSILON, 1e-3, iterations=2)
    # Rows beside the one that changes are the same; the total is that of the only honest member.
    rest = np.zeros((3, 1))
    pair = np.concatenate([rest, [[-1.0]]]), np.concatenate([rest, [[1.0]]])
    source = SystemNoise()
    mu = private.plan(4).cost.mu
    claimed = Guarantee(EPSILON, 1e-3)
    audit = distinguish_gaussian(whole_training(private, [], source), pair, claimed, mu, 200)
    assert audit.holds, str(audit)
    caught = distinguish_gaussian(whole_training(private, [], Quiet()), pair, claimed, mu, 1200)
    assert not caught.holds, str(caught)
