"""The mean message: sums are exact, their sensitivity is what the proof says, brute force over extreme rows included."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.audit import distinguish, largest_log_ratio
from sudare.audit.density_ratios import cloud, gamma_norm_log_density
from sudare.audit.linear_output_laws import law_epsilon
from sudare.frames.rows import Rows
from sudare.linear.losses import CappedSquares, Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.noisy_gradient_at_zero import MeanMessage
from sudare.linear.rows import bounded_rows
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.mechanisms import GammaNorm, Laplace
from sudare.privacy.noise import SystemNoise


def _blocks_sum(method, row, label, outputs):
    targets = np.where(np.arange(outputs) == label, 1.0, -1.0)[np.newaxis]
    return method.sums(Rows.held(row[np.newaxis], targets if outputs > 1 else np.array([[2.0 * label - 1]]))).ravel()


def _unit_rows(nonnegative):
    angles = np.linspace(0, np.pi / 2 if nonnegative else 2 * np.pi, 13)
    return [bounded_rows(np.array([[np.cos(a), np.sin(a)]]).clip(0 if nonnegative else -1), 1.0)[0][0] for a in angles]


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_sensitivity_by_brute_force(outputs, nonnegative):
    """Every pair of extreme rows and labels. Blocks need 2R in general, √2·R where no entry can be negative; and not less.

    The issue's √2·R holds under that condition only: within one block, x against −x is 2R.
    """
    method = MeanMessage(Facts(1, 2, 1.0, Logistic(), 0.0, outputs=outputs, nonnegative=nonnegative), 1.0)
    labels = range(max(outputs, 2))
    sums = [
        _blocks_sum(method, row, label, outputs) for row, label in itertools.product(_unit_rows(nonnegative), labels)
    ]
    largest = max(np.linalg.norm(first - second) for first, second in itertools.combinations(sums, 2))
    assert 0.99 * method.mechanism.sensitivity < largest <= method.mechanism.sensitivity
    expected = np.sqrt(2) if outputs > 1 and nonnegative else 2.0
    assert method.mechanism.sensitivity == pytest.approx(expected)


@pytest.mark.parametrize("outputs", [1, 3])
def test_sensitivity_of_sums_by_brute_force(outputs):
    """Where one-hot columns make Laplace noise the quieter, a replaced row moves absolute values by 2R₁ together; and not less."""
    groups, levels = 3, 8
    facts = Facts(1, groups * levels, np.sqrt(3) + 1e-9, Logistic(), 0.0, outputs, nonnegative=True, sum_bound=3.0)
    method = MeanMessage(facts, 1.0)
    assert isinstance(method.mechanism, Laplace)
    rows = [np.eye(levels)[list(chosen)].ravel() for chosen in itertools.product(range(2), repeat=groups)]
    rows = bounded_rows(np.array(rows), facts.norm_bound)[0]
    sums = [_blocks_sum(method, row, label, outputs) for row in rows for label in range(max(outputs, 2))]
    largest = max(np.abs(first - second).sum() for first, second in itertools.combinations(sums, 2))
    assert 0.99 * method.mechanism.sensitivity < largest <= method.mechanism.sensitivity
    assert method.mechanism.sensitivity == pytest.approx(6.0)
    # An array's rows, of which only the norm is known, keep Euclidean noise.
    assert isinstance(MeanMessage(replace(facts, sum_bound=math.inf), 1.0).mechanism, GammaNorm)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_claimed_epsilon_is_reached_by_laplace_noise(epsilon):
    """On two rows that share no column; the twin that takes R₂ for R₁ is caught."""
    facts = Facts(1, 24, np.sqrt(3), Logistic(), 0.0, sum_bound=3.0)
    rows = bounded_rows(np.kron(np.ones((2, 3)), np.eye(8)[0]), facts.norm_bound)[0]
    pair = tuple(Rows.held(rows[side : side + 1], np.array([[1.0 - 2 * side]])) for side in range(2))
    assert 0.99 * epsilon < law_epsilon(MeanMessage(facts, epsilon), pair) <= epsilon
    planted = MeanMessage(replace(facts, sum_bound=np.sqrt(3)), epsilon)
    assert law_epsilon(planted, pair) > 1.5 * epsilon


@given(st.integers(1, 3000), st.integers(0, 10**6), st.booleans())
def test_sums_do_not_depend_on_the_order_of_rows(rows, seed, regression):
    """No rounding anywhere: floats hold every partial sum exactly."""
    random = np.random.default_rng(seed)
    matrix, _ = bounded_rows(random.normal(size=(rows, 3)), 1.0)
    targets = random.uniform(-1, 1, size=(rows, 1)) if regression else random.choice([-1.0, 1.0], size=(rows, 1))
    method = MeanMessage(Facts(rows, 3, 1.0, CappedSquares() if regression else Logistic(), 0.0), 1.0)
    order = random.permutation(rows)
    first = method.sums(Rows.held(matrix, targets))
    second = method.sums(Rows.held(matrix[order], targets[order]))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first[0], (matrix * targets).sum(axis=0), atol=rows * 1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_claimed_epsilon_is_reached_by_the_density(epsilon):
    method = MeanMessage(Facts(2, 2, 1.0, Logistic(), 0.0), epsilon)
    pair = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    measured = largest_log_ratio(
        gamma_norm_log_density(method.mechanism.rate), pair, cloud(pair, method.mechanism.noise_scale)
    )
    assert 0.99 * epsilon < measured.epsilon_lower_bound <= epsilon


@pytest.mark.parametrize(("delta", "sum_bound"), [(0.0, math.inf), (0.0, 1.0), (1e-3, math.inf)])
def test_released_parameters_cannot_be_told_apart_better_than_claimed(delta, sum_bound):
    first, second = np.array([[1.0, 0.0, 1.0]]), np.array([[1.0, 0.0, -1.0]])
    source = SystemNoise()
    facts = Facts(1, 2, 1.0, Logistic(), 0.0, sum_bound=sum_bound)
    method, loud = MeanMessage(facts, 1.0, delta), MeanMessage(facts, 10.0, delta)
    audit = distinguish(lambda values: method.apply(values, source), (first, second), Guarantee(1.0, delta), 2000)
    assert audit.epsilon_lower_bound <= 1.0
    caught = distinguish(lambda values: loud.apply(values, source), (first, second), Guarantee(1.0, delta), 2000)
    assert caught.epsilon_lower_bound > 1.0


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("level", [0.0, -0.7, 3.0])
def test_positions_of_ones_have_the_sums_of_their_rows(outputs, level):
    """Weights about any level stay within one, so that sums move as much as without it."""
    random = np.random.default_rng(0)
    positions = np.column_stack([random.integers(0, 4, 1500), random.integers(4, 7, 1500)])
    matrix = np.eye(7)[positions].sum(axis=1)
    targets = random.choice([-1.0, 1.0], (1500, 1))
    if outputs > 1:
        targets = 2 * np.eye(outputs)[random.integers(0, outputs, 1500)] - 1
    facts = Facts(1500, 7, np.sqrt(2) + 1e-9, Logistic(), 0.0, outputs, nonnegative=True, sum_bound=2.0)
    method = MeanMessage(facts, 1.0, centred=True)
    by_rows = method.sums(Rows.held(matrix, targets), level)
    np.testing.assert_array_equal(by_rows, method.sums(Rows.held(positions, targets), level))
    if outputs == 1:
        weights = (targets - level) / (1 + abs(level))
        assert np.abs(weights).max() <= 1
        np.testing.assert_allclose(by_rows[0], (weights * matrix).sum(axis=0), atol=0.01)
