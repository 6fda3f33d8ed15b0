"""Modes and evidence, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from sudare.reconstruction.binning import Counts, States
from sudare.reconstruction.laplace_approximation import averaged, most_likely
from sudare.reconstruction.normal_mixture import NormalMixture
from sudare.reconstruction.smooth_density import LogDensity, log_density


def states(cells=12, atoms=(), bins=20, seed=0):
    """Some states with some channel."""
    generator = np.random.default_rng(seed)
    channel = generator.random((bins, cells + len(atoms))) ** 3 + 0.01
    return States(np.linspace(0, 1, cells + 1), np.array(atoms), True, channel / channel.sum(axis=0))


def counts_of(shares, records, seed=0):
    values = np.random.default_rng(seed).multinomial(records, shares / shares.sum()).astype(float)
    return Counts(np.arange(len(values) + 1.0), values)


MODELS = [
    log_density(states(atoms=(0.0, 1.0)), 0.1, 1.4),
    log_density(states(), 0.33, 0.7),
    NormalMixture(states(), 3, 0.06),
    NormalMixture(states(atoms=(0.0, 1.0)), 2, 0.12),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@given(seed=st.integers(0, 1000))
def test_slopes_are_derivatives(model, seed):
    generator = np.random.default_rng(seed)
    place = generator.normal(size=model.size)
    shares, slopes = model.probabilities(place)
    assert shares.sum() == pytest.approx(1, abs=1e-9)
    assert shares.min() >= 0
    step = 1e-5
    for number in generator.choice(model.size, 4):
        move = np.zeros(model.size)
        move[number] = step
        numeric = (model.probabilities(place + move)[0] - model.probabilities(place - move)[0]) / (2 * step)
        np.testing.assert_allclose(slopes[:, number], numeric, atol=2e-8)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_mode_is_higher_than_its_surroundings_and_where_it_started(model):
    # The models' states carry the channel they are to be seen through.
    seen = (
        model.states if isinstance(model, NormalMixture) else states(atoms=(0.0, 1.0) if len(model.offset) > 12 else ())
    )
    counts = counts_of(np.random.default_rng(3).random(20), 3000)
    fit = most_likely(model, seen, counts, np.zeros(model.size))

    def height(place):
        shares, _ = model.probabilities(place)
        return counts.counts @ np.log(seen.channel @ shares) - place @ place / 2

    assert fit.log_posterior == pytest.approx(height(fit.parameters), abs=1e-9)
    assert fit.log_posterior > height(np.zeros(model.size))
    generator = np.random.default_rng(0)
    root = np.linalg.cholesky(np.linalg.inv(fit.precision))
    for _ in range(50):
        # Scoring stops when a step gains less than 0.01.
        assert height(fit.parameters + root @ generator.normal(size=model.size)) < fit.log_posterior + 0.05
    assert fit.log_likelihood == pytest.approx(counts.counts @ np.log(seen.channel @ fit.probabilities), abs=1e-8)


def test_evidence_is_the_integral_over_the_prior():
    """One parameter, two states: Laplace's approximation against quadrature, exact to O(1/n)."""
    seen = States(np.array([0.0, 1.0, 2.0]), np.empty(0), True, np.array([[0.8, 0.3], [0.2, 0.7]]))
    model = LogDensity(np.array([[1.0], [-1.0]]), np.zeros(2), 0.1, 1.0, 1)
    counts = Counts(np.arange(3.0), np.array([1150.0, 850.0]))
    fit = most_likely(model, seen, counts, np.zeros(1))

    def integrand(z):
        shares, _ = model.probabilities(np.array([z]))
        log = counts.counts @ np.log(seen.channel @ shares)
        return math.exp(log - fit.log_posterior) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    exact = fit.log_posterior + math.log(quad(integrand, -3, 3, points=[float(fit.parameters[0])])[0])
    assert fit.log_evidence == pytest.approx(exact, abs=0.02)


def test_evidence_prefers_the_model_that_made_the_data():
    seen = states(cells=40, bins=40)
    smooth = np.exp(-0.5 * ((np.arange(40) - 20) / 8.0) ** 2)
    counts = counts_of(seen.channel @ (smooth / smooth.sum()), 50_000)
    long, short = (
        most_likely(log_density(seen, length, 2.8), seen, counts, np.zeros(log_density(seen, length, 2.8).size))
        for length in (0.33, 0.02)
    )
    assert long.log_evidence > short.log_evidence + 3


def test_spread_is_the_linearised_covariance():
    model = MODELS[1]
    seen = states()
    fit = most_likely(model, seen, counts_of(np.ones(20), 2000), np.zeros(model.size))
    spread = fit.spread()
    draws = fit.parameters[:, np.newaxis] + np.linalg.solve(
        np.linalg.cholesky(fit.precision).T, np.random.default_rng(0).normal(size=(model.size, 4000)) * 1e-2
    )
    sampled = np.array([model.probabilities(draw)[0] for draw in draws.T])
    np.testing.assert_allclose((spread**2).sum(axis=1), sampled.var(axis=0) * 1e4, rtol=0.15)
    # Probabilities sum to one whatever the parameters are.
    np.testing.assert_allclose(spread.sum(axis=0), 0, atol=1e-9)


def test_an_average_of_fits_is_weighted():
    model, seen = MODELS[1], states()
    fits = [most_likely(model, seen, counts_of(np.ones(20), 500, seed), np.zeros(model.size)) for seed in (0, 1)]
    mean = averaged(fits, np.log([0.25, 0.75]))
    np.testing.assert_allclose(mean, 0.25 * fits[0].probabilities + 0.75 * fits[1].probabilities)
