"""Gaussian posteriors on a ball: the law by quadrature, domination, and decisions in floats and balls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sudare.gibbs import exact_draws as rejection
from sudare.gibbs import rejection_decisions as exact_rejection
from sudare.gibbs.exact_draws import exact_draws
from sudare.gibbs.rejection_decisions import Sampler
from sudare.gibbs.truncated_gaussian import linear_posterior, squared_posterior
from sudare.privacy.noise import SeededNoise, SystemNoise
from tests.gibbs.test_exact_draws import allowed_gap, cumulative, largest_gap

GRID = 2.0**-14


def regression(rows, width, seed, slope=1.0):
    random = np.random.default_rng(seed)
    matrix = random.standard_normal((rows, width))
    matrix /= np.maximum(1.0, np.linalg.norm(matrix, axis=1, keepdims=True))
    targets = np.clip(slope * matrix @ random.standard_normal(width) + 0.2 * random.standard_normal(rows), -1, 1)
    return matrix, targets


@pytest.mark.parametrize(
    ("total", "beta", "penalty", "radius"), [(3.0, 0.5, 4.0, 1.0), (40.0, 0.2, 5.0, 2.0), (0.0, 1.0, 0.01, 1.5)]
)
def test_the_mean_in_one_dimension_is_a_truncated_normal(total, beta, penalty, radius):
    """Mode inside, mode far outside, and a prior much wider than the interval."""
    draws = exact_draws(
        *linear_posterior(np.array([total]), beta, penalty, 50.0, radius), GRID, 100_000, SystemNoise(), 10**7
    ).points[:, 0]
    middle, deviation = total / penalty, 1 / np.sqrt(beta * penalty)
    law = stats.truncnorm((-radius - middle) / deviation, (radius - middle) / deviation, middle, deviation)
    assert stats.kstest(draws, law.cdf).statistic <= allowed_gap(100_000)


@pytest.mark.parametrize(("slope", "beta", "radius"), [(0.5, 2.0, 1.2), (4.0, 1.0, 0.6), (0.5, 0.05, 1.0)])
def test_ridge_in_two_dimensions_has_the_law_of_quadrature(slope, beta, radius):
    """Mode inside, mode outside, and almost no data: the ball itself."""
    rows, targets = regression(30, 2, 4, slope)
    draws = exact_draws(
        *squared_posterior(rows, targets, beta, 0.7, 1.0, radius), GRID, 100_000, SystemNoise(), 10**7
    ).points
    axis = np.linspace(-radius, radius, 801)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    energy = beta * (0.5 * ((points @ rows.T - targets) ** 2).sum(axis=1) + 0.35 * (points**2).sum(axis=1))
    inside = (points**2).sum(axis=1) <= radius**2
    density = np.where(inside, np.exp(energy[inside].min() - energy), 0.0).reshape(801, 801)
    for direction in (0, 1):
        marginal = cumulative(density.sum(axis=1 - direction))
        # The lattice cuts the circle in steps: a thousandth more.
        assert largest_gap(draws[:, direction], axis, marginal) <= allowed_gap(100_000) + 1e-3
    assert np.linalg.norm(draws, axis=1).max() <= radius + GRID


@settings(max_examples=30)
@given(
    st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**31), st.floats(-2, 2), st.floats(-1.5, 1), st.floats(-1, 1)
)
def test_the_envelope_dominates_on_the_ball(rows, width, seed, temperature, penalty, radius):
    matrix, targets = regression(rows, width, seed, 2.0)
    size = 10.0**radius
    posterior, bound = squared_posterior(matrix, targets, 10.0**temperature, 10.0**penalty, 1.0, size)
    random = np.random.default_rng(seed)
    points = random.standard_normal((300, width))
    points *= (size * random.random((300, 1)) ** (1 / width)) / np.linalg.norm(points, axis=1, keepdims=True)
    offsets = points - posterior.mode
    whitened = offsets @ bound.pieces[0].factor / bound.step
    zeros = np.zeros(300)
    log_ratio, _ = rejection._log_ratio(
        Sampler(posterior, bound, GRID), offsets, whitened, offsets @ matrix.T, zeros, zeros
    )
    assert np.all(log_ratio <= 1e-9 * (1 + np.abs(log_ratio)))


@pytest.mark.parametrize("radius", [0.3, 0.9])
def test_floats_and_balls_decide_alike(radius):
    matrix, targets = regression(12, 3, 1)
    posterior, bound = squared_posterior(matrix, targets, 1.0, 0.5, 1.0, radius)
    sampler, source = Sampler(posterior, bound, GRID), SeededNoise(3)
    words = source.words(40 * sampler.words_per_proposal).reshape(40, -1)
    outcomes, points = rejection._decided(sampler, bound.pieces[0], words)
    assert set(outcomes) == {0.0, 1.0}
    for word, outcome, point in zip(words, outcomes, points, strict=True):
        exact_outcome, exact_point = exact_rejection.decided_exactly(sampler, word, source)
        assert outcome == exact_outcome
        if outcome == 1:
            assert np.array_equal(point, exact_point)


def test_a_point_on_the_sphere_is_left_open():
    posterior, _ = linear_posterior(np.array([1.0, 0.0]), 1.0, 2.0, 1.0, 1.0)
    beside = replace(posterior, mode=np.array([0.6, 0.0]))
    offsets = np.array([[0.4, 0.0], [0.4 - 1e-9, 0.0], [0.4 + 1e-9, 0.0]])
    sure_in, sure_out = rejection._within_ball(beside, offsets, np.full(3, 1e-15), 1.0)
    assert sure_in.tolist() == [False, True, False]
    assert sure_out.tolist() == [False, False, True]


def test_a_forgotten_constant_breaks_the_envelope():
    """The planted bug: a tilt without the constant that it costs, so that acceptance exceeds one near the sphere."""
    posterior, bound = linear_posterior(np.array([40.0]), 0.2, 5.0, 50.0, 2.0)
    offsets = np.array([[1.999]]) - posterior.mode
    whitened = offsets @ bound.pieces[0].factor / bound.step
    zeros = np.zeros(1)
    arguments = offsets, whitened, offsets @ posterior.rows.T, zeros, zeros
    assert rejection._log_ratio(Sampler(posterior, bound, GRID), *arguments)[0][0] <= 0
    without = replace(bound, log_constant=0.0)
    assert rejection._log_ratio(Sampler(posterior, without, GRID), *arguments)[0][0] > 0.1
