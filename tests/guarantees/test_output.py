"""Output perturbation: minimisers of neighbours are as close as the sensitivity says, and a pair comes near to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.audit import distinguish, largest_log_ratio
from sudare.audit.density_ratios import cloud, gamma_norm_log_density
from sudare.linear.batched_newton import batched_minimisers
from sudare.linear.losses import CappedSquares, Logistic, SmoothedHinge
from sudare.linear.mechanism import Facts
from sudare.linear.output_perturbation import OutputPerturbation
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SystemNoise

LOSSES = [Logistic(), SmoothedHinge(0.5), CappedSquares(1.0)]


def _minimiser(rows, targets, loss, penalty):
    return batched_minimisers(rows[np.newaxis], targets[np.newaxis], loss, penalty, np.zeros((1, rows.shape[1])))[0]


@given(st.integers(0, 10**6), st.sampled_from(LOSSES), st.floats(0.05, 50))
def test_neighbours_lie_within_the_sensitivity(seed, loss, penalty):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(8, 3))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    targets = np.where(random.random(8) < 0.5, 1.0, -1.0)
    changed, changed_targets = rows.copy(), targets.copy()
    changed[0], changed_targets[0] = -rows[0] / max(np.linalg.norm(rows[0]), 1e-9), -targets[0]
    method = OutputPerturbation(Facts(8, 3, 1.0, loss, penalty), 1.0)
    first, second = _minimiser(rows, targets, loss, penalty), _minimiser(changed, changed_targets, loss, penalty)
    assert np.linalg.norm(first - second) <= method.mechanism.sensitivity


def test_the_sensitivity_is_nearly_reached():
    """With a large penalty all weights are those at zero, and a hinge's slope is one there: the pull is 2RL/ρ."""
    loss, penalty = SmoothedHinge(0.5), 1000.0
    row = np.array([[1.0, 0.0], [0.0, 1.0]])
    first, second = _minimiser(row, np.ones(2), loss, penalty), _minimiser(row, np.array([-1.0, 1.0]), loss, penalty)
    method = OutputPerturbation(Facts(2, 2, 1.0, loss, penalty), 1.0)
    assert np.linalg.norm(first - second) > 0.99 * method.mechanism.sensitivity / (1 + 1e-3)
    measured = largest_log_ratio(
        gamma_norm_log_density(method.mechanism.rate),
        (first, second),
        cloud((first, second), method.mechanism.noise_scale),
    )
    assert 0.95 < measured.epsilon_lower_bound <= 1.0


@pytest.mark.parametrize("outputs", [1, 3])
def test_several_outputs_are_one_vector(outputs):
    one = OutputPerturbation(Facts(10, 2, 1.0, Logistic(), 1.0), 1.0)
    method = OutputPerturbation(Facts(10, 2, 1.0, Logistic(), 1.0, outputs=outputs), 1.0)
    assert method.mechanism.dimension == 2 * outputs
    assert method.mechanism.sensitivity == pytest.approx(np.sqrt(outputs) * one.mechanism.sensitivity)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_released_parameters_cannot_be_told_apart_better_than_claimed(delta):
    loss = SmoothedHinge(0.5)
    first = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    second = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, 1.0]])
    method = OutputPerturbation(Facts(2, 2, 1.0, loss, 10.0), 1.0, delta)
    source = SystemNoise()
    audit = distinguish(lambda values: method.apply(values, source), (first, second), Guarantee(1.0, delta), 1200)
    assert audit.epsilon_lower_bound <= 1.0
    loud = OutputPerturbation(Facts(2, 2, 1.0, loss, 10.0), 10.0, delta)
    caught = distinguish(lambda values: loud.apply(values, source), (first, second), Guarantee(1.0, delta), 1200)
    assert caught.epsilon_lower_bound > 1.0
