"""Noise in shares: exact laws, the lattice, sensitivities by brute force, and audits from the seat of a curious member of three.

Each audit has twins with planted bugs, which the same gate refuses. A correct mechanism is refused with probability at most
1e-6, the confidence of the audit; tests of laws use p-values of 1e-7.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import kve
from scipy.stats import chisquare, gamma, kstest

from sudare.audit import distinguish, distinguish_gaussian
from sudare.dictionary.distributed_noise import NoisePlan, NoisyTotal
from sudare.errors import InvalidParameter
from sudare.joint import gamma_norm_noise_shares, noise_shares
from sudare.joint.gamma_norm_noise_shares import (
    VARIANCE_FLOOR,
    LazyUniform,
    RandomVariance,
    discrete_gaussian,
    discrete_laplace,
    drawn_gamma,
    drawn_variance,
    gamma_norm_share,
)
from sudare.joint.member_rows import MemberTable, ModelReading, MomentReading
from sudare.joint.noise_shares import GaussianShares, PureShares
from sudare.joint.sum_requests import CentreSum, GradientSum, MeanSum, SpreadSum, exact_answer
from sudare.joint.training_terms import LearningTerms
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.schema import Number, Schema

SMALLEST_P = 1e-7
SYSTEM = SystemNoise()


# The draw


@pytest.mark.parametrize("shape", [Fraction(1, 40), Fraction(3, 4), Fraction(1), Fraction(11, 4)])
def test_gamma_variables_have_their_law(shape):
    drawn = [float(drawn_gamma(shape, SYSTEM)(128).mid()) for _ in range(1000)]
    assert kstest(drawn, gamma(float(shape)).cdf).pvalue > SMALLEST_P


@pytest.mark.parametrize("variance", [0.7, 7.3])
def test_discrete_gaussians_of_a_real_variance_have_their_law(variance):
    exact = RandomVariance(lambda bits: arb(variance), variance)
    drawn = np.array([discrete_gaussian(exact, SYSTEM) for _ in range(3000)])
    most = math.ceil(2 * math.sqrt(variance))
    weights = np.exp(-(np.arange(-200, 201) ** 2) / (2 * variance))
    middle = weights[200 - most : 201 + most] / weights.sum()
    counts = np.array([(drawn == value).sum() for value in range(-most, most + 1)])
    expected = np.append(middle, 1 - middle.sum()) * len(drawn)
    assert chisquare(np.append(counts, len(drawn) - counts.sum()), expected).pvalue > SMALLEST_P


def test_discrete_laplace_candidates_have_their_law():
    drawn = np.array([discrete_laplace(3, SYSTEM) for _ in range(4000)])
    values = np.arange(-8, 9)
    weights = np.exp(-np.abs(np.arange(-400, 401)) / 3)
    middle = weights[400 - 8 : 401 + 8] / weights.sum()
    counts = np.array([(drawn == value).sum() for value in values])
    expected = np.append(middle, 1 - middle.sum()) * len(drawn)
    assert chisquare(np.append(counts, len(drawn) - counts.sum()), expected).pvalue > SMALLEST_P


@pytest.mark.parametrize(("honest", "size"), [(2, 2), (7, 3)])
def test_shares_add_up_to_gamma_norm_noise(honest, size):
    """‖Z‖ ~ Gamma(p, a) and the first coordinate's share of it is that of a uniform direction: fair signs."""
    rate = 2.0**-20
    noise = PureShares(Fraction(2**20), 1.0, size, honest + 1)
    assert noise.rate == pytest.approx(rate)
    totals = np.array(
        [
            np.sum([gamma_norm_share(size, noise.shape, noise.rate, SYSTEM) for _ in range(honest)], axis=0)
            for _ in range(400)
        ],
        dtype=np.float64,
    )
    assert kstest(np.linalg.norm(totals, axis=1) * rate, gamma(size).cdf).pvalue > SMALLEST_P
    signs = (totals[:, 0] > 0).sum()
    assert abs(signs - 200) < 5.4 * math.sqrt(400) / 2


@given(st.integers(2, 60), st.data(), st.integers(1, 40))
def test_shapes_of_unknown_shares_make_the_whole(members, data, size):
    known = data.draw(st.integers(1, members - 1))
    noise = PureShares(Fraction(1000), 0.3, size, members, known)
    assert (members - known) * noise.shape == Fraction(size + 1, 2)
    assert Fraction(noise.rate) * 1000 + size * members * Fraction(1, 2**200) <= Fraction(3, 10)
    assert Fraction(noise.rate) * 1000 > Fraction(3, 10) * (1 - Fraction(1, 2**50))


class Replayed(SeededNoise):
    """Words from a list, then from a seed."""

    def __init__(self, words):
        super().__init__(0)
        self._kept = list(words)

    def words(self, count):
        if len(self._kept) >= count:
            return np.array([self._kept.pop(0) for _ in range(count)], dtype=np.uint64)
        return super().words(count)


def test_floats_and_balls_decide_alike(monkeypatch):
    def decisions():
        source = SeededNoise(5)
        drawn = []
        for _ in range(40):
            variance = drawn_variance(Fraction(3, 10), 0.01, source)
            drawn.append([discrete_gaussian(variance, source) for _ in range(4)])
        return drawn

    by_floats = decisions()
    monkeypatch.setattr(gamma_norm_noise_shares, "_FLOAT_MARGIN", 2.0)
    assert decisions() == by_floats


def test_a_comparison_that_is_not_certain_draws_more_bits():
    """The first 128 bits of one third, then a word that lies above or below it."""
    third = int("55" * 8, 16)
    for following, is_below in ((0, True), (2**64 - 1, False)):
        uniform = LazyUniform(Replayed([third, third, following, following]))
        assert uniform.is_below(lambda bits: 1 / arb(3)) is is_below


def test_a_uniform_that_begins_with_zeros_is_refined_and_not_rounded():
    words = [0, 0, 1, 1]
    gamma_variable = LazyUniform(Replayed(words))
    ball = gamma_variable.ball(256)
    assert ball.mid() > 0
    assert ball.lower() > 0


def test_words_wrap_and_nothing_saturates(monkeypatch):
    """A share beyond 64 bits is added modulo 2⁶⁴, so the total is what it would be without a limit."""
    huge = [2**70 + 3, -(2**66) - 1]
    monkeypatch.setattr(noise_shares, "gamma_norm_share", lambda *arguments: huge)
    words = PureShares(Fraction(1000), 1.0, 2, 2).noisy(np.array([5, -7]), SYSTEM)
    assert words.dtype == np.uint64
    assert [int(word) for word in words] == [8, 2**64 - 8]


# The lattice


def lattice_probability(point, rate, floor):
    """P(Z = point) for the mixture of discrete Gaussians, by quadrature over the variance; up to a constant."""
    size, square = len(point), float(np.sum(np.square(point)))

    def density(log_gamma):
        value = math.exp(log_gamma)
        variance = floor + value
        log_density = gamma.logpdf(value, (size + 1) / 2, scale=2 / rate**2) + log_gamma
        return math.exp(log_density - square / (2 * variance) - size / 2 * math.log(2 * math.pi * variance))

    centre = math.log(max(1.0, math.sqrt(square + 1) / rate))
    return quad(density, centre - 25, centre + 12, limit=400, epsabs=0)[0]


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_no_point_of_the_plane_tells_neighbours_apart_better_than_claimed(rate):
    """log P(z) − log P(z + Δ) ≤ a‖Δ‖ for points near, between and far; and it is nearly reached."""
    largest = 0.0
    for point, move in itertools.product([(0, 0), (1, 2), (40, 3), (300, -100)], [(3, 0), (20, 1), (-5, 8)]):
        here, there = (lattice_probability(np.add(point, each), rate, 2 * VARIANCE_FLOOR) for each in ((0, 0), move))
        ratio = abs(math.log(here / there)) / (rate * math.hypot(*move))
        assert ratio <= 1 + 1e-7
        largest = max(largest, ratio)
    assert largest > 0.9


def discrete_gaussian_law(variance, most):
    weights = np.exp(-(np.arange(-most, most + 1) ** 2) / (2 * variance))
    return weights / weights.sum()


def test_sums_of_unequal_discrete_gaussians_are_nearly_discrete_gaussian_at_every_point():
    """Step 5: within λ = ln((1+η)/(1−η)), here with variances so small that η can be seen."""
    for first, second in ((0.5, 0.5), (0.4, 2.0), (1.0, 1.0)):
        total = np.convolve(discrete_gaussian_law(first, 60), discrete_gaussian_law(second, 60))
        ideal = discrete_gaussian_law(first + second, 120)
        inner = ideal > 1e-13
        eta = 2.1 * math.exp(-2 * math.pi**2 * first * second / (first + second))
        found = np.abs(np.log(total[inner] / ideal[inner])).max()
        assert found <= math.log((1 + eta) / (1 - eta)) + 1e-9
        assert found > 1e-3 * eta


def test_what_the_lattice_costs_is_below_what_is_set_aside():
    assert 12 * math.exp(-16 * math.pi**2) < 2.0**-200
    assert VARIANCE_FLOOR == 16


# Sensitivities


PLANE = ModelReading.of_arrays(2, 1.0, [-1, 1], fit_intercept=True)


def row_of(random, reading):
    x = random.normal(size=(1, reading.features)) * random.choice([0.2, 1.0, 5.0])
    return MemberTable(x, random.choice([-1, 1], size=1))


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_replaced_row_moves_sums_by_no_more_than_was_planned_for(seed):
    random = np.random.default_rng(seed)
    pure = LearningTerms("one-sum", PLANE, 1.0, 0.0, 3).plan(100)
    descent = LearningTerms("descent", PLANE, 1.0, 1e-6, 3).plan(100)
    mean = MeanSum(3, 1e12, PLANE, pure.sums[0], PLANE.step)
    place, clip = random.normal(size=3), descent.recipe.clip
    gradient = GradientSum(3, 1e12, PLANE, descent.sums[0], place, clip, descent.grid)
    first, second = row_of(random, PLANE), row_of(random, PLANE)
    for request, most in (
        (mean, pure.sums[0].sensitivity),
        (gradient, 2 / Fraction(descent.grid) + 2 * 2),
    ):
        moved = [int(value) for value in exact_answer(first, request) - exact_answer(second, request)]
        assert sum(value**2 for value in moved) <= most**2


def test_the_sensitivity_of_the_mean_message_is_reached():
    pure = LearningTerms("one-sum", PLANE, 1.0, 0.0, 3).plan(100)
    mean = MeanSum(3, 1e12, PLANE, pure.sums[0], PLANE.step)
    first, second = (MemberTable(np.array([[1.0, 0.0]]), [label]) for label in (1, -1))
    moved = exact_answer(first, mean) - exact_answer(second, mean)
    assert np.linalg.norm(moved) == pytest.approx(float(pure.sums[0].sensitivity), rel=1e-7)


@given(st.integers(0, 10**6), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_vectors_of_the_scaler_are_no_longer_than_one(seed, columns):
    random = np.random.default_rng(seed)
    reading = MomentReading(Schema({f"c{number}": Number(-1.0, 1.0) for number in range(columns)}))
    grid, noise = 2.0**-30, PureShares(Fraction(2**31), 1.0, columns, 3)
    spread_noise = replace(noise, size=2 * columns)
    centre = random.uniform(-1, 1, size=columns)
    requests = [
        CentreSum(columns, 1e12, reading, noise, grid),
        SpreadSum(2 * columns, 1e12, reading, spread_noise, centre, 0.5, 3.0, grid),
    ]
    for request in requests:
        vector = request.block_sums(random.choice([0.0, 1.0, 0.3], size=(1, columns)))
        assert sum(int(value) ** 2 for value in vector) <= 2**60


def test_sums_of_any_blocks_are_the_same_whole_numbers():
    random = np.random.default_rng(3)
    X, y = random.normal(size=(501, 2)), random.choice([-1, 1], size=501)
    plan = LearningTerms("descent", PLANE, 1.0, 1e-6, 3).plan(501)
    gradient = GradientSum(3, 1e14, PLANE, plan.sums[0], np.array([0.3, -2.0, 1.0]), plan.recipe.clip, plan.grid)
    whole = exact_answer(MemberTable(X, y), gradient)
    parts = exact_answer(MemberTable(X[:200], y[:200]), gradient) + exact_answer(
        MemberTable(X[200:], y[200:]), gradient
    )
    backwards = exact_answer(MemberTable(X[::-1], y[::-1]), gradient)
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_array_equal(whole, backwards)


# Audits: a curious member of three subtracts its own share and its own rows


FLAT = ModelReading.of_arrays(2, 1.0, [-1, 1], fit_intercept=False)
LINE = ModelReading.of_arrays(1, 1.0, [-1, 1], fit_intercept=False)
PAIR = (1, -1)


def seen_by_a_curious_member(request, honest_members=2, source=SYSTEM):
    """What is left of the total: the addends of the two others. One holds the row that changes, the other a row that does not."""
    last = np.eye(request.size)[[-1]]

    def draws(label, count):
        changing = MemberTable(np.eye(request.size)[[0]], [label])
        sums = [exact_answer(table, request) for table in [changing, MemberTable(last, [1])][:honest_members]]
        seen = np.zeros((count, request.size))
        for number in range(count):
            addends = [request.noise.noisy(own, source) for own in sums]
            seen[number] = np.sum(addends, axis=0, dtype=np.uint64).view(np.int64) * request.step
        return seen

    return draws


def correct_noise(epsilon, reading=FLAT):
    return LearningTerms("one-sum", reading, epsilon, 0.0, members=3, colluders=1).plan(100).sums[0]


def pure_gate(noise, epsilon, samples, reading=FLAT, honest_members=2):
    request = MeanSum(reading.width, 1e12, reading, noise, reading.step)
    draws = seen_by_a_curious_member(request, honest_members)
    return distinguish(draws, PAIR, epsilon, samples, batched=True, measured_share=0.7)


@pytest.mark.long
def test_a_member_that_subtracts_its_own_share_still_faces_the_claimed_epsilon():
    """In the plane, and on a line, where one event in five shows the whole ε."""
    audit = pure_gate(correct_noise(3.0), 3.0, 3000)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.5, str(audit)
    audit = pure_gate(correct_noise(1.0, LINE), 1.0, 6000, LINE)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.6, str(audit)


def largest_loss(noise, honest_members):
    """The largest log ratio of the law of so many shares, near the centre and far out, from what the code draws them with."""
    shape, rate = float(noise.shape) * honest_members, noise.rate
    losses = []
    for place in (1e-3, 0.1, 0.5, 3.0, 20.0):
        near, far = place, place + rate * float(noise.sensitivity)
        order = shape - noise.size / 2
        log_density = [order * math.log(x) + math.log(kve(order, x)) - x for x in (near, far)]
        losses.append(log_density[0] - log_density[1])
    return max(losses)


@pytest.mark.parametrize("reading", [LINE, FLAT])
def test_the_law_of_two_shares_of_three_loses_what_was_claimed_and_of_fewer_more(reading):
    """Σ of shares is N(0, s·I), s ~ Gamma(k): density ∝ r^(k−p/2)·K(r) of order k − p/2, whose slope is a exactly at k = (p+1)/2."""
    good = correct_noise(1.0, reading)
    bad = ForgetsWhoLooks(good.sensitivity, good.epsilon, good.size, 3, 1)
    assert largest_loss(good, 2) == pytest.approx(1.0, abs=1e-9)
    assert largest_loss(good, 1) > 1.2
    assert largest_loss(bad, 2) > 1.2
    # One of the three leaves its noise out and another looks: only with both counted is the third's share enough.
    assert largest_loss(replace(good, colluders=2), 1) == pytest.approx(1.0, abs=1e-9)


@dataclass(frozen=True)
class ForgetsWhoLooks(PureShares):
    """Bug: shares of one Sth, as with t = 0."""

    @property
    def honest(self):
        return self.members


@dataclass(frozen=True)
class HalvesTheSensitivity(PureShares):
    """Bug: R where a replaced row moves the sum by 2R."""

    @property
    def rate(self):
        return self.epsilon / float(self.sensitivity / 2)


@pytest.mark.long
def test_shares_of_one_sth_are_refused():
    """t = 0. On a line the loss of half of the outcomes is 1.316 then; the audit sees 1.15 of it, four deviations above 1."""
    good = correct_noise(1.0, LINE)
    bad = ForgetsWhoLooks(good.sensitivity, good.epsilon, good.size, 3, 1)
    audit = pure_gate(bad, 1.0, 14_000, LINE)
    assert not audit.holds, str(audit)


def test_a_forgotten_share_is_refused():
    """Bug: the other honest member adds no noise. The loss is 1.565, of which 1.3 is seen."""
    audit = pure_gate(correct_noise(1.0, LINE), 1.0, 6000, LINE, honest_members=1)
    assert not audit.holds, str(audit)


def test_half_of_the_sensitivity_is_refused():
    good = correct_noise(2.0)
    bad = HalvesTheSensitivity(good.sensitivity, good.epsilon, good.size, 3, 1)
    audit = pure_gate(bad, 2.0, 3000)
    assert not audit.holds, str(audit)


# The same for descent: one step from the seat of a curious member of three


def gaussian_request(plan):
    noise = GaussianShares(plan, plan.releases[0])
    return GradientSum(2, 1e12, FLAT, noise, np.zeros(2), 0.5, plan.grid)


def gaussian_gate(plan, samples=3000, honest_members=2):
    """Many draws at once: the exact sums are the same for all."""
    request = gaussian_request(plan)

    def draws(label, count):
        rows = [MemberTable(np.array([[1.0, 0.0]]), [label]), MemberTable(np.array([[0.0, 1.0]]), [1])]
        seen = np.zeros((count, 2))
        for table in rows[:honest_members]:
            steps = np.tile(exact_answer(table, request), count)
            seen += request.noise.noisy(steps, SYSTEM).view(np.int64).reshape(count, 2)
        return seen * plan.grid

    claimed = Guarantee(plan.epsilon, plan.delta)
    return distinguish_gaussian(draws, PAIR, claimed, plan.cost.mu, samples, batched=True, measured_share=0.7)


def plan_of_three(sensitivity=2.0, members=3, colluders=1):
    return NoisePlan(5.0, 1e-3, members, colluders, (NoisyTotal(2, sensitivity, Fraction(1)),), 2)


def test_a_member_that_subtracts_its_own_share_still_faces_the_claimed_mu():
    audit = gaussian_gate(plan_of_three())
    assert audit.holds, str(audit)
    assert audit.tightness > 0.5, str(audit)


def test_a_member_beside_one_that_leaves_its_noise_out_still_faces_the_claimed_mu():
    """Both are counted; with one of them only ("a share forgotten", below) it would not."""
    audit = gaussian_gate(plan_of_three(colluders=2), honest_members=1)
    assert audit.holds, str(audit)
    assert audit.tightness > 0.5, str(audit)


@pytest.mark.parametrize(
    ("plan", "honest_members"),
    [
        (plan_of_three(members=4), 2),  # σ²/3 where σ²/2 is needed: t = 0
        (plan_of_three(), 1),  # a share forgotten
        (plan_of_three(sensitivity=1.0), 2),  # half of the sensitivity
    ],
)
def test_too_little_noise_in_a_step_is_refused(plan, honest_members):
    audit = gaussian_gate(plan, samples=8000, honest_members=honest_members)
    assert not audit.holds, str(audit)


def test_noise_for_nobody_or_everybody_is_refused():
    for known in (0, 3):
        with pytest.raises(InvalidParameter, match="colluders"):
            PureShares(Fraction(1), 1.0, 2, 3, known)
    with pytest.raises(InvalidParameter):
        PureShares(Fraction(0), 1.0, 2, 3)
