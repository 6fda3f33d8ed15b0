"""The proximal sampler: its plan, its restricted draws, its decisions, and the law of the whole chain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit

from sudare.errors import InvalidParameter, NotSolved
from sudare.gibbs import proximal_sampler as proximal
from sudare.gibbs.double_double_normals import DoubleDouble, double_double_normals
from sudare.gibbs.exact_draws import exact_draws
from sudare.gibbs.gaussian_envelope import envelope
from sudare.gibbs.proximal_sampler import ProximalPlan, proximal_draw
from sudare.privacy.noise import SeededNoise, SystemNoise
from tests.gibbs.posteriors import energies, logistic_posterior
from tests.gibbs.test_exact_draws import allowed_gap, cumulative, largest_gap


def plan_for(posterior, distance=1e-12):
    count, width = posterior.rows.shape
    return ProximalPlan(count, width, 1.0, posterior.inverse_temperature, posterior.penalty, 1e-6, distance)


def restricted(posterior, plan, seed):
    """A restricted law at a random goal, around the tangent point that the chain would use."""
    chain = proximal._Chain(posterior, plan)
    goal = double_double_normals(chain.width, SeededNoise(seed)).times(2 * plan.spread)
    tangent = chain.tangent_near_mode(chain.tangent_at(np.zeros(chain.width)), goal)
    return proximal._Restricted.of(chain, tangent, goal)


# The plan


@given(
    st.integers(1, 10_000),
    st.integers(1, 200),
    st.floats(-3, 1),
    st.floats(-1, 2),
    st.floats(-16, -6),
)
def test_the_plan_reaches_its_distance_by_an_independent_formula(rows, width, beta, penalty, distance):
    try:
        plan = ProximalPlan(rows, width, 1.5, 10.0**beta, 10.0**penalty, 1e-8, 10.0**distance)
    except InvalidParameter:
        return
    m, eta = plan.prior_precision, plan.spread**2
    largest = m + 10.0**beta * rows * 1.5**2 / 4
    first = width / 2 * math.log(largest / m) + (10.0**beta * 1e-8) ** 2 / (2 * m)
    reached = math.sqrt(first / 2) * (1 + m * eta) ** -plan.steps
    assert reached <= 10.0**distance / 2 * (1 + 1e-6)
    assert reached <= float(plan.total_variation) <= 10.0**distance
    # One step less would not do, unless there is only one.
    assert plan.steps == 1 or reached * (1 + m * eta) ** 2 > 10.0**distance / 2


def test_too_many_steps_are_refused():
    with pytest.raises(InvalidParameter, match="too many steps"):
        ProximalPlan(10**6, 100, 1.0, 1.0, 1e-3, 1e-6, 1e-12)
    with pytest.raises(InvalidParameter, match="too many steps"):
        ProximalPlan(1000, 10, 1.0, 1.0, 1.0, 1e-6, 1e-30)


def test_a_mode_that_is_worse_than_planned_is_refused():
    posterior = replace(logistic_posterior(20, 2, 1, 1.0, 1.0), gradient_bound=1.0)
    with pytest.raises(NotSolved, match="mode"):
        proximal_draw(posterior, plan_for(posterior), 2.0**-14, SeededNoise(0))


# Products


def test_sparse_and_dense_rows_give_the_same_products(monkeypatch):
    random = np.random.default_rng(0)
    rows = random.standard_normal((50, 12)) * (random.random((50, 12)) < 0.2)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    posterior = replace(logistic_posterior(50, 12, 0, 0.5, 1.2), rows=rows)
    offset, offsets = random.standard_normal(12), random.standard_normal((3, 12))
    sparse = proximal._Chain(posterior, plan_for(posterior))
    monkeypatch.setattr(proximal, "_SPARSE_BELOW", 0.0)
    dense = proximal._Chain(posterior, plan_for(posterior))
    assert type(sparse._rows) is not type(dense._rows)
    np.testing.assert_allclose(sparse.changes(offsets), dense.changes(offsets), atol=1e-13)
    for one, two in zip(dense.tangent_at(offset), sparse.tangent_at(offset), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-13)
    expected = expit(-(posterior.scores + rows @ offset))
    np.testing.assert_allclose(dense.tangent_at(offset).weights, expected, rtol=1e-13)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 200])
def test_summed_rises_are_sums_of_losses(count):
    random = np.random.default_rng(count)
    scores, changes = 3 * random.standard_normal(count), random.standard_normal((count, 4))
    expected = np.logaddexp(0, -(scores[:, np.newaxis] + changes)) - np.logaddexp(0, -scores)[:, np.newaxis]
    np.testing.assert_allclose(proximal._summed_rises(expit(-scores), changes), expected.sum(axis=0), atol=1e-12)


# Restricted draws


@pytest.mark.parametrize(("rows", "width"), [(40, 2), (300, 5)])
def test_acceptance_is_the_ratio_of_densities_and_at_most_one(rows, width):
    posterior = logistic_posterior(rows, width, 3, 0.5, 1.2)
    plan = plan_for(posterior)
    law = restricted(posterior, plan, 7)
    noise = double_double_normals(8 * width, SeededNoise(1))
    steps = DoubleDouble.of(np.tile(law.mean, 8)).plus(noise.times(law.chain.deviation))
    points, normal = (DoubleDouble(*(part.reshape(8, width) for part in pair)) for pair in (steps, noise))
    words = SeededNoise(2).words(8)
    gaps, errors = proximal._gaps(law, points, normal, words)
    log_acceptance = gaps + np.log((words + 0.5) / 2.0**64)
    assert np.all(log_acceptance <= 0)
    assert np.all(errors < 1e-9)
    # Target over proposal, by the plain definitions, is the same up to one constant.
    target = -energies(posterior, posterior.mode + points.high)
    target -= ((points.high - law.goal.high) ** 2).sum(axis=1) / (2 * plan.spread**2)
    proposal = -((points.high - law.mean) ** 2).sum(axis=1) / (2 * law.chain.deviation**2)
    difference = log_acceptance - (target - proposal)
    np.testing.assert_allclose(difference, difference[0], atol=1e-8)


@pytest.mark.parametrize("seed", [1, 2])
def test_floats_and_balls_agree_on_acceptance(seed):
    posterior = logistic_posterior(15, 3, seed, 0.5, 1.0)
    law = restricted(posterior, plan_for(posterior), seed)
    noise = double_double_normals(24, SeededNoise(seed))
    steps = DoubleDouble.of(np.tile(law.mean, 8)).plus(noise.times(law.chain.deviation))
    points, normal = (DoubleDouble(*(part.reshape(8, 3) for part in pair)) for pair in (steps, noise))
    words = SeededNoise(5).words(8)
    gaps, errors = proximal._gaps(law, points, normal, words)
    for index in range(8):
        point, one = (DoubleDouble(pair.high[index], pair.low[index]) for pair in (points, normal))
        exact = float(proximal._log_acceptance(law, point, one).mid()) - math.log((int(words[index]) + 0.5) / 2**64)
        assert abs(exact - gaps[index]) <= errors[index] + 1e-15
        assert proximal._is_accepted(law, point, one, words[index : index + 1], SeededNoise(0)) == (gaps[index] > 0)


def test_restricted_draws_have_the_law_of_quadrature():
    posterior = logistic_posterior(60, 1, 3, 0.4, 1.5)
    plan = plan_for(posterior)
    law = restricted(posterior, plan, 4)
    source = SystemNoise()
    draws = np.array([proximal._restricted_draw(law, source)[0].high[0] for _ in range(4_000)])
    axis = np.linspace(law.mean[0] - 12 * plan.spread, law.mean[0] + 12 * plan.spread, 20_001)
    energy = energies(posterior, posterior.mode + axis[:, np.newaxis])
    energy = energy + (axis - law.goal.high[0]) ** 2 / (2 * plan.spread**2)
    assert largest_gap(draws, axis, cumulative(np.exp(energy.min() - energy))) <= allowed_gap(4_000)


def test_an_open_decision_is_made_in_balls(monkeypatch):
    posterior = logistic_posterior(10, 2, 1, 1.0, 1.0)
    law = restricted(posterior, plan_for(posterior), 1)
    seen = []

    def counted(*arguments):
        seen.append(1)
        return decided(*arguments)

    decided, plain = proximal._is_accepted, proximal._gaps
    monkeypatch.setattr(proximal, "_is_accepted", counted)
    monkeypatch.setattr(proximal, "_gaps", lambda *arguments: (plain(*arguments)[0], np.full(8, np.inf)))
    first = proximal._restricted_draw(law, SeededNoise(3))
    assert seen
    monkeypatch.undo()
    second = proximal._restricted_draw(law, SeededNoise(3))
    assert np.array_equal(first[0].high, second[0].high)
    assert first[1] == second[1]


# The whole chain


def test_the_chain_has_the_law_of_quadrature():
    posterior = logistic_posterior(30, 1, 5, 0.5, 2.0)
    plan = plan_for(posterior, 1e-5)
    source = SystemNoise()
    draws = np.array([proximal_draw(posterior, plan, 2.0**-20, source).point[0] for _ in range(250)])
    axis = np.linspace(-30, 30, 60_001)
    energy = energies(posterior, axis[:, np.newaxis])
    assert largest_gap(draws, axis, cumulative(np.exp(energy.min() - energy))) <= allowed_gap(250)
    assert np.array_equal(draws * 2.0**20, np.rint(draws * 2.0**20))


def importance_reference(posterior, count):
    """Weighted points of a multivariate Student proposal around the mode; their effective number says how good they are."""
    random = np.random.default_rng(0)
    scores, freedom, width = posterior.scores, 8, posterior.width
    hessian = (posterior.rows.T * (expit(scores) * expit(-scores))) @ posterior.rows
    hessian += posterior.penalty * np.eye(width)
    factor = np.linalg.cholesky(np.linalg.inv(hessian * posterior.inverse_temperature))
    steps = random.standard_normal((count, width)) @ factor.T
    steps *= np.sqrt(freedom / random.chisquare(freedom, (count, 1)))
    heights = posterior.inverse_temperature * np.einsum("ij,jk,ik->i", steps, hessian, steps, optimize=True)
    points = posterior.mode + steps
    log_weights = (freedom + width) / 2 * np.log1p(heights / freedom)
    log_weights -= np.concatenate([energies(posterior, part) for part in np.array_split(points, 50)])
    weights = np.exp(log_weights - log_weights.max())
    return points, weights / weights.sum()


def assert_same_marginals(draws, points, weights):
    """The reference itself is off by about one over the root of its effective number; five times that is allowed."""
    slack = 5 * math.sqrt(float((weights**2).sum()))
    assert slack < 0.02
    for column in range(points.shape[1]):
        order = np.argsort(points[:, column])
        cumulated = np.cumsum(weights[order])
        assert largest_gap(draws[:, column], points[order, column], cumulated) <= allowed_gap(len(draws)) + slack


@pytest.mark.long
def test_ten_dimensions_against_an_independent_reference():
    """Exact draws against importance sampling, which shares no code with them and checks itself."""
    posterior = logistic_posterior(200, 10, 9, 0.5, 1.0)
    points, weights = importance_reference(posterior, 200_000)
    draws = exact_draws(posterior, envelope(posterior), 2.0**-16, 30_000, SystemNoise(), 10**7).points
    assert_same_marginals(draws, points, weights)
    # A posterior at another temperature is noticed.
    warmer = replace(posterior, inverse_temperature=0.7)
    hotter = exact_draws(warmer, envelope(warmer), 2.0**-16, 30_000, SystemNoise(), 10**7).points
    with pytest.raises(AssertionError):
        assert_same_marginals(hotter, points, weights)


@pytest.mark.long
def test_the_chain_in_ten_dimensions_against_an_independent_reference():
    posterior = logistic_posterior(200, 10, 9, 0.5, 1.0)
    points, weights = importance_reference(posterior, 200_000)
    plan, source = plan_for(posterior, 1e-10), SystemNoise()
    draws = np.array([proximal_draw(posterior, plan, 2.0**-16, source).point for _ in range(300)])
    assert_same_marginals(draws, points, weights)


@pytest.mark.long
def test_ten_dimensions_against_nuts():
    """An unproven reference: 40,000 steps of blackjax's NUTS, thinned until they are nearly independent."""
    jax = pytest.importorskip("jax", reason="blackjax not installed")
    blackjax = pytest.importorskip("blackjax", reason="blackjax not installed")
    posterior = logistic_posterior(200, 10, 9, 0.5, 1.0)
    with jax.enable_x64(True):
        rows = jax.numpy.asarray(posterior.rows)

        def log_density(theta):
            return -jax.numpy.logaddexp(0.0, -rows @ theta).sum() - 0.25 * theta @ theta

        warm_key, run_key = jax.random.split(jax.random.key(0))
        warm = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), _ = warm.run(warm_key, jax.numpy.asarray(posterior.mode), num_steps=1_000)
        kernel = jax.jit(blackjax.nuts(log_density, **parameters).step)

        def one(state, key):
            state, _ = kernel(key, state)
            return state, state.position

        _, positions = jax.lax.scan(one, state, jax.random.split(run_key, 40_000))
    reference = np.asarray(positions)[::10]
    lag = np.corrcoef(reference[:-1, 0], reference[1:, 0])[0, 1]
    assert abs(lag) < 0.1
    exact = exact_draws(posterior, envelope(posterior), 2.0**-16, 100_000, SystemNoise(), 10**7).points
    for column in range(10):
        # A false alarm once in 1e8 for independent draws; those of NUTS are nearly so.
        assert stats.ks_2samp(exact[:, column], reference[:, column]).pvalue > 1e-8
