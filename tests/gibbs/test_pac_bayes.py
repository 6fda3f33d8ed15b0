"""The PAC-Bayes bound: its parts against quadrature, and the whole against the risk it bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.gibbs import GibbsLogisticRegression
from sudare.gibbs.pac_bayes import binary_divergence, log_ratio_bounds, risk_bound
from tests.gibbs.posteriors import energies, logistic_posterior


@given(st.floats(0, 1), st.floats(0, 50), st.integers(1, 10_000))
def test_the_risk_bound_inverts_the_divergence(error_rate, log_ratio, rows):
    bound = risk_bound(error_rate, log_ratio, rows)
    limit = (log_ratio + math.log(2 * math.sqrt(rows) / 0.05)) / rows
    assert error_rate <= bound <= 1
    assert bound == 1 or binary_divergence(error_rate, min(bound + 1e-9, 1.0)) >= limit * (1 - 1e-6)
    if error_rate < bound - 1e-9:
        assert binary_divergence(error_rate, bound - 1e-9) <= limit * (1 + 1e-6) + 1e-12


def test_the_divergence_of_two_coins():
    assert binary_divergence(0.3, 0.3) == 0
    assert binary_divergence(0.0, 0.5) == pytest.approx(math.log(2))
    assert binary_divergence(0.5, 0.0) == math.inf


@pytest.mark.parametrize(("rows", "penalty", "beta"), [(20, 1.0, 2.0), (3, 0.2, 0.7), (200, 5.0, 0.1)])
def test_log_ratios_are_bounded_by_quadrature(rows, penalty, beta):
    posterior = logistic_posterior(rows, 1, 3, penalty, beta)
    axis = np.linspace(-60, 60, 40_001)
    weights = np.exp(-energies(posterior, axis[:, np.newaxis]))
    log_evidence = math.log(weights.sum() * (axis[1] - axis[0])) - 0.5 * math.log(2 * math.pi / (beta * penalty))
    points = posterior.mode + np.array([[-1.0], [0.0], [0.5]])
    losses = np.logaddexp(0, -points @ posterior.rows.T).sum(axis=1)
    exact = -beta * losses - log_evidence
    bounds = log_ratio_bounds(posterior, points, 2.0**-12)
    assert np.all(bounds >= exact)
    # What the bound on the evidence loses is at most half the log of the ratio of curvatures; here less than one.
    assert np.all(bounds <= exact + 1)
    wide = log_ratio_bounds(posterior, points, 2.0**-2)
    assert np.all(wide > bounds)


def test_the_bound_holds_as_often_as_it_says():
    """Risk by 20,000 fresh records, sixty times. Fewer than 39 of 60 at a probability of .95 happens once in 1e14."""
    held, bounds = 0, []
    for seed in range(60):
        random = np.random.default_rng(seed)
        rows = random.standard_normal((20_400, 3)) / 3
        labels = random.random(20_400) < stats.logistic.cdf(6 * rows @ np.array([1.0, -1.0, 0.5]))
        model = GibbsLogisticRegression(2.0, 1e-5, classes=[False, True], random_state=seed)
        model.fit(rows[:400], labels[:400])
        held += 1 - model.score(rows[400:], labels[400:]) <= model.pac_bayes_bound_
        bounds.append(model.pac_bayes_bound_)
    assert held >= 39
    # And it says something: less than a coin would.
    assert np.mean(bounds) < 0.5
