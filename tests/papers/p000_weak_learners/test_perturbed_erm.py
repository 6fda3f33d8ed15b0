"""Algorithm 1 and Chaudhuri's recipes: minimisers, noise, and the ε that each really keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from sudare.errors import InvalidParameter
from sudare.linear.losses import Logistic
from sudare.linear.noise_calibration import gaussian_loss_delta
from sudare.papers.p000_weak_learners import perturbed_erm as perturbation


def made_up(tables, rows, width, seed=0):
    generator = np.random.default_rng(seed)
    found = generator.normal(size=(tables, rows, width))
    found /= np.linalg.norm(found, axis=2, keepdims=True)
    return found, np.where(found[:, :, 0] > 0, 1.0, -1.0)


def objective(rows, labels, penalty, linear):
    return lambda theta: np.logaddexp(0, -labels * (rows @ theta)).sum() + penalty / 2 * theta @ theta + linear @ theta


@pytest.mark.parametrize("radius", [0.3, 2.0, math.inf])
def test_minimisers_in_a_ball_are_those_of_a_general_solver(radius):
    rows, labels = made_up(4, 30, 3)
    linear = np.random.default_rng(1).normal(scale=[[0.1], [1.0], [5.0], [20.0]], size=(4, 3))
    found = perturbation.minimisers_in_ball(rows, labels, 0.5, linear, radius)
    assert np.linalg.norm(found, axis=1).max() <= radius * (1 + 1e-12)
    for table in range(4):
        value = objective(rows[table], labels[table], 0.5, linear[table])
        constraint = [] if math.isinf(radius) else [{"type": "ineq", "fun": lambda theta: radius**2 - theta @ theta}]
        solved = minimize(
            value, np.zeros(3), method="SLSQP", constraints=constraint, options={"ftol": 1e-12, "maxiter": 500}
        )
        assert value(found[table]) <= value(solved.x) + 1e-6


def test_noise_of_algorithm_1_has_the_printed_scale():
    """With no rows to speak of the minimiser is −b/Δ."""
    rows, labels = np.full((20_000, 1, 2), 1e-9), np.ones((20_000, 1))
    delta_term = 3.0
    pure = perturbation.algorithm_1(rows, labels, 0.5, 0.0, np.random.default_rng(2), extra_penalty=delta_term)
    normal = perturbation.algorithm_1(rows, labels, 0.5, 1e-3, np.random.default_rng(3), extra_penalty=delta_term)
    assert np.mean(np.linalg.norm(pure, axis=1)) * delta_term == pytest.approx(2 * 2 / 0.5, rel=0.03)
    assert normal.std() * delta_term == pytest.approx(math.sqrt(8 * math.log(2e3) + 2) / 0.5, rel=0.03)


def test_the_extra_penalty_is_at_least_what_algorithm_1_asks_for():
    rows, labels = made_up(1, 5, 2)
    with pytest.raises(InvalidParameter, match="at least"):
        perturbation.algorithm_1(rows, labels, 1.0, 0.0, np.random.default_rng(0), extra_penalty=0.1)


def test_the_epsilon_that_algorithm_1_keeps_is_above_the_one_asked_for():
    assert perturbation.algorithm_1_epsilon(1.0, 0.0) == pytest.approx(1.2013, abs=1e-3)
    kept = perturbation.algorithm_1_epsilon(1.0, 1e-6)
    deviation, penalty = perturbation.algorithm_1_deviation(1.0, 1e-6), perturbation.least_extra_penalty(1.0)
    assert gaussian_loss_delta(deviation, kept, 1.0, penalty, Logistic()) <= 1e-6
    assert gaussian_loss_delta(deviation, kept * 0.999, 1.0, penalty, Logistic()) > 1e-6
    # With a large extra penalty there is no slack, and the noise is that of one record.
    assert perturbation.algorithm_1_epsilon(1.0, 0.0, extra_penalty=100.0) == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("regularization", [1e-4, 0.02, 1.0])
def test_chaudhuris_recipe_keeps_less_than_it_promises(epsilon, regularization):
    kept = perturbation.chaudhuri_epsilon(epsilon, 50, regularization)
    assert 0.4 * epsilon < kept <= epsilon


def test_output_perturbation_moves_the_minimiser_by_noise_of_the_stated_scale():
    rows, labels = made_up(1, 40, 3)
    tables = np.broadcast_to(rows, (4_000, 40, 3)), np.broadcast_to(labels, (4_000, 40))
    rate = 40 * 0.1 * 2.0 / 2
    plain = perturbation.minimisers_in_ball(rows, labels, 40 * 0.1, np.zeros((1, 3)))
    noise = perturbation.chaudhuri_output(*tables, 2.0, 0.1, np.random.default_rng(4)) - plain
    by_entry = perturbation.chaudhuri_output(*tables, 2.0, 0.1, np.random.default_rng(5), by_coordinate=True) - plain
    assert np.mean(np.linalg.norm(noise, axis=1)) == pytest.approx(3 / rate, rel=0.05)
    assert np.mean(np.abs(by_entry)) == pytest.approx(math.sqrt(3) / rate, rel=0.05)


def test_least_epsilon_is_rounded_up_and_infinite_where_nothing_holds():
    found = perturbation.least_epsilon(lambda epsilon: epsilon >= 0.7)
    assert 0.7 <= found <= 0.7001
    assert perturbation.least_epsilon(lambda epsilon: False) == math.inf
    assert perturbation.least_epsilon(lambda epsilon: True) <= 1e-3
