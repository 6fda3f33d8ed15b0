"""Algorithm 2: its steps are the printed ones, and the ε of its n² draws is computed rightly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant

from sudare.errors import InvalidParameter
from sudare.papers.p000_weak_learners import noisy_sgd as descent
from sudare.privacy.accounting import gaussian_delta, gaussian_epsilon


def made_up(rows, width=3, seed=0):
    generator = np.random.default_rng(seed)
    found = generator.normal(size=(rows, width))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found, np.where(found[:, 0] > 0, 1.0, -1.0)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("convexity", [0.0, 0.3])
def test_steps_are_the_printed_ones(loss, convexity):
    """Line by line in plain Python, with the same draws."""
    rows, labels = made_up(12)
    count, width, radius, sigma = 12, 3, 0.8, 5.0
    generator, theta = np.random.default_rng(7), np.zeros(3)
    drawn, noise = generator.integers(0, count, count**2 - 1), generator.standard_normal((count**2 - 1, width))
    for t in range(1, count**2):
        d = drawn[t - 1]
        margin = labels[d] * (rows[d] @ theta)
        slope = -labels[d] * (float(margin < 1) if loss == "hinge" else 1 / (1 + math.exp(margin)))
        gradient = slope * rows[d] + convexity * theta
        lipschitz = 1 + convexity * radius
        rate = (
            1 / (convexity * count * t)
            if convexity
            else 2 * radius / math.sqrt(t * (count**2 * lipschitz**2 + width * sigma**2))
        )
        theta = theta - rate * (count * gradient + sigma * noise[t - 1])
        theta *= min(1.0, radius / np.linalg.norm(theta))
    found = descent.algorithm_2(
        rows, labels, sigma, np.random.default_rng(7), radius=radius, convexity=convexity, loss=loss
    )
    np.testing.assert_allclose(found, theta, rtol=1e-10)


def test_blocks_of_steps_are_one_run(monkeypatch):
    """However many steps are drawn at once, there are n² − 1 of them, numbered on."""
    rows, labels = made_up(12)
    calls = []
    monkeypatch.setattr(descent, "_BLOCK", 50)
    monkeypatch.setattr(
        descent, "_descend", lambda place, first, table, own, drawn, *rest: calls.append((first, len(drawn)))
    )
    descent.algorithm_2(rows, labels, 1.0, np.random.default_rng(0), radius=1.0)
    assert calls == [(1, 50), (51, 50), (101, 43)]


def test_without_noise_it_comes_near_the_minimiser():
    rows, labels = made_up(300)
    theta = descent.algorithm_2(rows, labels, 0.0, np.random.default_rng(0), radius=1.0)
    assert theta[0] > 0.98


def test_the_epsilon_of_many_small_steps_is_that_of_one_gaussian():
    """q√T = 1, so that with much noise the run is nearly the Gaussian mechanism with μ = 2/multiplier, and never less private than computed."""
    for multiplier in (50.0, 10.0):
        kept, gaussian = descent.algorithm_2_epsilon(400, multiplier, 1e-6), gaussian_epsilon(2 / multiplier, 1e-6)
        assert gaussian < kept < 1.2 * gaussian


@pytest.mark.parametrize(("rows", "multiplier"), [(20, 2.0), (100, 4.0), (100, 20.0)])
def test_the_epsilon_is_below_renyis_which_is_another_way_to_bound_it(rows, multiplier):
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    # Its noise is in units of what one record adds, and replacing one moves twice that.
    step = SampledWithoutReplacementDpEvent(rows, 1, GaussianDpEvent(multiplier / 2))
    accountant.compose(SelfComposedDpEvent(step, rows**2 - 1))
    assert descent.algorithm_2_epsilon(rows, multiplier, 1e-6) < accountant.get_epsilon(1e-6)


def test_one_step_has_the_profile_of_a_sampled_gaussian():
    """δ of the mixture (1 − q)N(0) + qN(μ) against N(0), by integration."""
    share, mu, losses = 0.2, 1.5, np.array([0.0, 0.3, 1.0])
    grid = np.linspace(-12, 14, 400_001)
    base, moved = (np.exp(-((grid - centre) ** 2) / 2) / math.sqrt(2 * math.pi) for centre in (0.0, mu))
    mixed = (1 - share) * base + share * moved
    integrals = [np.maximum(mixed - math.exp(loss) * base, 0).sum() * (grid[1] - grid[0]) for loss in losses]
    np.testing.assert_allclose(descent._profile(losses, share, mu), integrals, rtol=1e-6)
    assert descent._profile(np.array([0.0]), 1.0, mu)[0] == pytest.approx(gaussian_delta(mu, 0.0))


def test_modern_noise_keeps_epsilon_and_hardly_less():
    multiplier = descent.modern_multiplier(50, 1.0, 1e-6)
    assert 0.99 < descent.algorithm_2_epsilon(50, multiplier, 1e-6) <= 1.0005
    assert descent.original_sigma(50, 1.0, 1e-6) > descent.printed_sigma(50, 1.0, 1e-6) > 8 * 50 * multiplier


def test_little_noise_is_not_accounted_for():
    assert descent.algorithm_2_epsilon(20, 0.1, 1e-2) == math.inf
    assert descent.modern_multiplier(10, 1e4, 1e-2) == 0.25
    assert 0.25 < descent.modern_multiplier(10, 100.0, 1e-2) < 1


def test_what_cannot_be_accounted_for_is_refused():
    for rows, delta in ((1, 1e-6), (50, 1e-12), (50, 0.0)):
        with pytest.raises(InvalidParameter):
            descent.algorithm_2_epsilon(rows, 10.0, delta)
        with pytest.raises(InvalidParameter):
            descent.modern_multiplier(rows, 1.0, delta)
    with pytest.raises(InvalidParameter):
        descent.algorithm_2(*made_up(5), 1.0, np.random.default_rng(0), radius=math.inf)
