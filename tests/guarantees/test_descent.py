"""Noisy descent: exact sums of clipped gradients, the noise that composition asks for, and audits of whole runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sudare.audit import distinguish, distinguish_gaussian
from sudare.errors import InvalidParameter
from sudare.frames.rows import Rows
from sudare.linear import descent
from sudare.linear.descent import (
    GradientDescent,
    Recipe,
    poisson_sample,
    public_recipe,
    sampled_multiplier,
)
from sudare.linear.descent_on_centred_targets import CentredDescent, LocatedSquares, budget_parts
from sudare.linear.losses import CappedSquares, Logistic, SmoothedHinge
from sudare.linear.mechanism import Facts
from sudare.linear.rows import array_layout, bounded_rows
from sudare.linear.target_moments import Located
from sudare.privacy.accounting import exact, gaussian_epsilon, gaussian_mu_within, mu_of_pure
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SeededNoise, SystemNoise


def _method(rows=20, width=3, clip=0.5, steps=5, outputs=1, loss=None, **recipe):
    facts = Facts(rows, width, 1.0, Logistic() if loss is None else loss, 0.0, outputs=outputs)
    return GradientDescent(facts, 1.0, 1e-3, Recipe(steps, clip, 1.0, **recipe))


@given(
    st.integers(0, 10**6),
    st.sampled_from([Logistic(), SmoothedHinge(0.5), CappedSquares(1.0), LocatedSquares(1.0, -0.9, 0.01)]),
    st.floats(0.01, 2),
    st.integers(1, 3),
)
def test_a_row_moves_the_sum_by_two_clips_at_most_exactly(seed, loss, clip, outputs):
    """In whole steps, squared and compared as integers: no tolerance."""
    random = np.random.default_rng(seed)
    method = _method(clip=clip, outputs=outputs, loss=loss)
    matrix, _ = bounded_rows(random.normal(size=(20, 3)) * random.choice([0.1, 1, 10]), 1.0)
    targets = random.choice([-1.0, 1.0], size=(20, outputs))
    place = random.normal(scale=5, size=(outputs, 3))
    alone = [
        method.clipped_sum(Rows.held(matrix[i : i + 1], targets[i : i + 1]), place).astype(object).ravel()
        for i in range(20)
    ]
    row, slope = method._steps_of
    limit = math.floor((clip / (row * slope)) ** 2 * (1 + 1e-12))
    assert all(sum(int(v) ** 2 for v in vector) <= limit for vector in alone)
    together = method.clipped_sum(Rows.held(matrix, targets), place).ravel()
    assert [int(v) for v in together] == [sum(int(v[j]) for v in alone) for j in range(len(together))]


@given(st.integers(0, 10**6), st.sampled_from([Logistic(), SmoothedHinge(0.5)]), st.floats(0.01, 2), st.integers(1, 3))
@settings(max_examples=30)
def test_positions_of_ones_give_the_sum_of_their_rows(seed, loss, clip, outputs):
    """Each row's part is within the clip exactly, and the sum has the bits of rows that are written out."""
    random = np.random.default_rng(seed)
    facts = Facts(20, 12, math.nextafter(math.sqrt(3), 2), loss, 0.0, outputs=outputs)
    method = GradientDescent(facts, 1.0, 1e-3, Recipe(5, clip, 1.0))
    positions = (4 * np.arange(3) + random.integers(0, 4, size=(20, 3))).astype(np.uint8)
    matrix = np.zeros((20, 12))
    np.put_along_axis(matrix, positions.astype(np.int64), 1.0, axis=1)
    targets = random.choice([-1.0, 1.0], size=(20, outputs))
    # Of whole numbers of 64ths scores are exact, however they are added up.
    place = random.integers(-200, 200, size=(outputs, 12)) / 64
    kept = random.random(20) < 0.7
    for chosen in (None, kept):
        at_positions = method.clipped_sum(Rows.held(positions, targets), place, chosen)
        assert at_positions.tolist() == method.clipped_sum(Rows.held(matrix, targets), place, chosen).tolist()
    row, slope = method._steps_of
    limit = math.floor((clip / (row * slope)) ** 2 * (1 + 1e-12))
    for i in range(20):
        alone = method.clipped_sum(Rows.held(positions[i : i + 1], targets[i : i + 1]), place)
        assert sum(int(v) ** 2 for v in alone.ravel()) <= limit


def test_noise_is_that_of_one_gaussian_for_all_steps():
    """Σ (2C/σ)² over the steps is μ², and μ costs ε at δ."""
    method = _method(steps=7)
    mu = math.sqrt(7) * 2 * 0.5 / method._deviation
    assert mu <= method.cost.mu
    assert mu == pytest.approx(method.cost.mu, rel=1e-9)
    assert gaussian_epsilon(mu, 1e-3) <= 1.0


def test_pure_promises_are_refused():
    with pytest.raises(ValueError, match="delta"):
        GradientDescent(Facts(10, 2, 1.0, Logistic(), 0.0), 1.0, 0.0, Recipe(1, 1.0, 1.0))


@given(st.integers(1, 10**7), st.floats(0.05, 8), st.floats(1e-9, 1e-2))
def test_the_public_recipe_is_always_usable(rows, epsilon, delta):
    recipe = public_recipe(Facts(rows, 5, 2.0, Logistic(), 0.0), epsilon, delta)
    assert 10 <= recipe.steps <= 200
    assert 0.5 <= recipe.clip <= 1.0
    assert recipe.learning_rate > 0


@pytest.mark.parametrize("steps", [1, pytest.param(3, marks=pytest.mark.long)])
def test_whole_runs_cannot_be_told_apart_better_than_claimed(steps):
    """A hinge far from its corner keeps its slope: then every step shows the same difference, and the bound is tight."""
    loss = SmoothedHinge(0.5)
    facts = Facts(2, 2, 1.0, loss, 0.0)
    recipe = Recipe(steps, 1.0, 1e-3, averaged=steps)
    method = GradientDescent(facts, 1.0, 1e-3, recipe)
    first, second = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 1.0]])
    source, claimed, mu = SystemNoise(), Guarantee(1.0, 1e-3), method.cost.mu
    audit = distinguish_gaussian(lambda values: method.apply(values, source), (first, second), claimed, mu, 1500)
    assert audit.epsilon_lower_bound <= 1.0
    loud = GradientDescent(facts, 10.0, 1e-3, recipe)
    caught = distinguish_gaussian(lambda values: loud.apply(values, source), (first, second), claimed, mu, 1500)
    assert caught.epsilon_lower_bound > 1.0


def test_sampling_keeps_each_row_with_the_stated_probability():
    """Binomial tails of 1e-7 on either side, for both sources."""
    for source in (SystemNoise(), SeededNoise(0)):
        kept = sum(int(poisson_sample(1000, 0.125, source).sum()) for _ in range(40))
        low, high = stats.binom.ppf([1e-7, 1 - 1e-7], 40_000, 0.125)
        assert low <= kept <= high


def test_rows_are_sampled_independently_and_anew_in_every_step():
    """Pairs of rows, and one row in two steps, agree as often as independent coins do: binomial tails of 1e-7."""
    samples = np.array([poisson_sample(400, 0.25, SystemNoise()) for _ in range(100)])
    both = int((samples[:, ::2] & samples[:, 1::2]).sum())
    twice = int((samples[::2] & samples[1::2]).sum())
    low, high = stats.binom.ppf([1e-7, 1 - 1e-7], 20_000, 0.25**2)
    assert low <= both <= high
    assert low <= twice <= high


def test_sampling_is_exact_at_the_edges():
    """A rate of k·2⁻³² keeps exactly the words below k·2³²."""

    class Edges:
        def words(self, count):
            edge = 5 << 32
            return np.array([0, edge - 1, edge, 2**64 - 1], dtype=np.uint64)

    assert poisson_sample(4, 5 * 2.0**-32, Edges()).tolist() == [True, True, False, False]
    assert Recipe(1, 1.0, 1.0, sampling_rate=5.9 * 2.0**-32).exact_sampling_rate == 5 * 2.0**-32
    assert Recipe(1, 1.0, 1.0).exact_sampling_rate == 1.0
    with pytest.raises(InvalidParameter, match="sampling_rate"):
        Recipe(1, 1.0, 1.0, sampling_rate=2.0**-33)


def _hockey_stick(sampling_rate, epsilon, first, second, deviation=1.0):
    """∫ (p − e^ε q)₊ for p, q the laws of a sum in the plane to which a row adds `first` or `second` when it is sampled."""
    axis = np.arange(-9.0, 9.0, 0.06) * deviation
    x, y = np.meshgrid(axis, axis, indexing="ij")

    def density(mean):
        return np.exp(-((x - mean[0]) ** 2 + (y - mean[1]) ** 2) / (2 * deviation**2)) / (2 * np.pi * deviation**2)

    apart = [(1 - sampling_rate) * density((0, 0)) + sampling_rate * density(mean) for mean in (first, second)]
    return float(np.maximum(apart[0] - math.exp(epsilon) * apart[1], 0).sum() * (axis[1] - axis[0]) ** 2)


unit_disc = st.tuples(st.floats(0, 1), st.floats(0, 2 * math.pi)).map(
    lambda polar: (polar[0] * math.cos(polar[1]), polar[0] * math.sin(polar[1]))
)


@settings(max_examples=60)
@given(unit_disc, unit_disc, st.floats(0.05, 1), st.floats(-1, 2))
def test_opposite_rows_at_the_clip_are_the_worst_case_of_a_sampled_step(first, second, sampling_rate, epsilon):
    """The theorem in proofs/descent.md, for every ε, negative ones too; the sum over the grid is right to about 1e-6."""
    worst = _hockey_stick(sampling_rate, epsilon, (1, 0), (-1, 0))
    assert _hockey_stick(sampling_rate, epsilon, first, second) <= worst + 1e-5


@pytest.mark.parametrize(("sampling_rate", "epsilon", "delta"), [(0.3, 1.0, 1e-2), (0.1, 0.5, 1e-3), (0.9, 2.0, 1e-2)])
def test_the_noise_of_one_sampled_step_is_just_enough(sampling_rate, epsilon, delta):
    """δ of the worst pair by quadrature, against the multiplier that dp-accounting led to."""
    multiplier = sampled_multiplier(sampling_rate, 1, epsilon, delta)
    reached = _hockey_stick(sampling_rate, epsilon, (1, 0), (-1, 0), multiplier)
    assert 0.97 * delta < reached <= delta * (1 + 1e-4)


def test_a_sampled_run_keeps_parts_of_delta_for_what_is_not_exact():
    """As `declared_batch` does: 2⁻⁴⁰ a step for Fourier transforms; a δ below that is refused, not risked."""
    assert sampled_multiplier(0.25, 10, 1.0, 2e-11) > 0
    with pytest.raises(InvalidParameter, match="delta is too small"):
        sampled_multiplier(0.25, 10, 1.0, 9e-12)


@pytest.mark.long
def test_whole_sampled_runs_cannot_be_told_apart_better_than_claimed(monkeypatch):
    """And the twin that forgets to sample, with the noise of one that does, is caught."""
    facts = Facts(2, 2, 1.0, SmoothedHinge(0.5), 0.0)
    method = GradientDescent(facts, 1.0, 0.05, Recipe(3, 1.0, 1e-3, averaged=3, sampling_rate=0.25))
    first, second = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 1.0]])
    source, claimed = SystemNoise(), Guarantee(1.0, 0.05)
    audit = distinguish(lambda values: method.apply(values, source), (first, second), claimed, 1500)
    assert audit.epsilon_lower_bound <= 1.0
    monkeypatch.setattr(descent, "poisson_sample", lambda rows, rate, source: np.ones(rows, dtype=bool))
    caught = distinguish(lambda values: method.apply(values, source), (first, second), claimed, 1500)
    assert caught.epsilon_lower_bound > 1.0


def test_sampling_needs_less_noise_a_step_than_full_batches():
    """One row in four: less noise than full batches, more than a quarter of it."""
    sampled = sampled_multiplier(0.25, 3, 1.0, 1e-5)
    full = GradientDescent(Facts(100, 2, 1.0, Logistic(), 0.0), 1.0, 1e-5, Recipe(3, 1.0, 1.0))._deviation
    assert full / 4 < sampled < full


def test_sampled_descent_runs_and_refuses_persons():
    recipe = Recipe(3, 0.5, 1.0, sampling_rate=0.25)
    facts = Facts(50, 2, 1.0, Logistic(), 0.0)
    random = np.random.default_rng(0)
    matrix, _ = bounded_rows(random.normal(size=(50, 2)), 1.0)
    fitted = GradientDescent(facts, 1.0, 1e-5, recipe).fitted(Rows.held(matrix, np.ones((50, 1))), SeededNoise(0))
    assert fitted.shape == (1, 2)
    assert np.all(np.isfinite(fitted))
    with pytest.raises(InvalidParameter, match="persons"):
        GradientDescent(Facts(50, 2, 1.0, Logistic(), 0.0, rows_per_unit=2), 1.0, 1e-5, recipe)


# Numbers about where they lie: the moments of the target, then descent.


def _centred(rows=1, epsilon=1.0, delta=1e-3, unit=1, **recipe):
    layout = array_layout(2, 1.0, True)
    facts = Facts(rows, layout.width, layout.joint_norm, CappedSquares(1.0), 0.0, rows_per_unit=unit)
    level, rest = budget_parts(epsilon, rows / unit)
    # Steps so short that the level is seen.
    made = Recipe(2, 0.5, 2.0**-10, **recipe)
    return CentredDescent(GradientDescent(facts, rest, delta, made), layout, level, epsilon, delta)


@pytest.mark.parametrize("rows", [1, 50, 100_000])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_moments_and_descent_share_the_budget(rows, epsilon):
    mechanism = _centred(rows, epsilon, 1e-6)
    parts = exact(mechanism.moments.noise.epsilon), exact(mechanism.descent.epsilon)
    assert 0.999 * exact(epsilon) < sum(parts) <= exact(epsilon)
    assert (mechanism.cost.epsilon, mechanism.cost.delta) == (exact(epsilon), exact(1e-6))
    assert mechanism.descent.delta == 1e-6
    squares = mu_of_pure(parts[0]) ** 2 + gaussian_mu_within(mechanism.descent.epsilon, 1e-6) ** 2
    assert mechanism.cost.mu == pytest.approx(math.sqrt(squares), rel=1e-9)
    assert mechanism.cost.mu**2 >= squares * (1 - 1e-12)


def test_a_person_has_moments_of_all_rows():
    one, three = _centred(30), _centred(30, unit=3)
    # The parts are of n divided by the rows of a person; at n·ε of 30 both are the largest share.
    assert one.level_epsilon == three.level_epsilon
    assert three.moments.noise.sensitivity == pytest.approx(3 * one.moments.noise.sensitivity)
    assert three.descent._deviation == pytest.approx(3 * one.descent._deviation)


@pytest.mark.parametrize("located", [Located(0.0, 1.0), Located(-0.999, 1e-6), Located(0.7, 0.3)])
def test_noise_does_not_depend_on_where_targets_lie(located):
    mechanism = _centred(40)
    about = mechanism._about(located)
    assert about.facts.loss != mechanism.facts.loss
    for name in ("_deviation", "_steps_of", "_noise_grid", "cost", "grid", "recipe"):
        assert getattr(about, name) == getattr(mechanism.descent, name)


def test_centred_descent_cannot_be_told_apart_better_than_claimed(monkeypatch):
    """One target from one end to the other; against a twin whose moments are not paid for. False alarms: one in a million at most (`distinguish`)."""
    pair, source = (np.array([[1.0, 0.0, 0.5, 1.0]]), np.array([[1.0, 0.0, 0.5, -1.0]])), SystemNoise()

    def found(mechanism):
        return distinguish(
            lambda values: mechanism.apply(values, source), pair, Guarantee(1.0, 1e-3), 300
        ).epsilon_lower_bound

    mechanism = _centred()
    assert found(mechanism) <= 1.0
    monkeypatch.setitem(mechanism.__dict__, "moments", replace(mechanism.moments, epsilon=40.0))
    assert found(mechanism) > 1.0
