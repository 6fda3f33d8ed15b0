"""Weights against the printed formulas, and the theorem they come with."""

from __future__ import annotations

import math

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.experts.gibbs_weights import (
    LOGISTIC_TEMPERATURE,
    exponential_weights,
    gibbs_weights,
    logistic_losses,
    mirror_average,
    oracle_residual,
)

LOSSES = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 6)),
    elements=st.floats(0, 50, allow_subnormal=False),
)
TEMPERATURES = st.floats(0.05, 100)


def printed_formula(losses: np.ndarray, temperature: float) -> np.ndarray:
    """Equations (15) and (16), word for word."""
    rows, experts = losses.shape
    weights = np.zeros(experts)
    for t in range(1, rows + 1):
        energies = [math.fsum(losses[:t, m]) / temperature for m in range(experts)]
        least = min(energies)
        shares = [math.exp(least - energy) for energy in energies]
        weights += np.array(shares) / math.fsum(shares)
    return weights / rows


@given(losses=LOSSES, temperature=TEMPERATURES, cuts=st.lists(st.integers(1, 39), max_size=3))
def test_blocks_of_any_size_give_the_printed_formula(losses, temperature, cuts):
    blocks = [block.copy() for block in np.split(losses, sorted(cuts)) if len(block)]
    found = mirror_average(blocks, losses.shape[1], len(losses), temperature)
    # Exponents carry rounding of 40 sums of at most 50 over 0.05: 40·50·40·1e-16/0.05 is below 1e-10.
    np.testing.assert_allclose(found.weights, printed_formula(losses, temperature), atol=1e-9)
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(found.weights >= 0)


@given(losses=LOSSES, temperature=TEMPERATURES)
def test_path_is_what_is_averaged(losses, temperature):
    found = mirror_average([losses.copy()], losses.shape[1], len(losses), temperature)
    assert list(found.path_rows) == list(range(1, len(losses) + 1))
    np.testing.assert_allclose(found.path.mean(axis=0), found.weights, atol=1e-12)
    np.testing.assert_allclose(found.path[-1], gibbs_weights(losses.sum(axis=0), temperature), atol=1e-9)


@given(losses=LOSSES, temperature=TEMPERATURES, shift=st.floats(0, 1000))
def test_a_loss_that_all_share_changes_nothing(losses, temperature, shift):
    experts, rows = losses.shape[1], len(losses)
    shifted = losses + shift
    for weigh in (
        lambda given: mirror_average([given.copy()], experts, rows, temperature).weights,
        lambda given: exponential_weights([given.copy()], experts, temperature),
    ):
        # 40 losses of about 1000 are rounded to 1e-13 each; over a temperature of 0.05 that is 1e-10.
        np.testing.assert_allclose(weigh(shifted), weigh(losses), atol=1e-8)


@given(losses=LOSSES, temperature=TEMPERATURES)
def test_one_expert_has_all_the_weight_exactly(losses, temperature):
    one = losses[:, :1]
    assert mirror_average([one.copy()], 1, len(one), temperature).weights[0] == 1
    assert exponential_weights([one.copy()], 1, temperature)[0] == 1
    assert oracle_residual(temperature, 1, len(one)) == 0


def test_order_matters_to_mirror_averaging_and_not_to_final_weights():
    losses = np.array([[0.0, 5.0], [5.0, 0.0], [5.0, 0.0]])
    forth, back = (mirror_average([order.copy()], 2, 3, 3.0).weights for order in (losses, losses[::-1]))
    assert abs(forth[0] - back[0]) > 0.1
    np.testing.assert_allclose(
        exponential_weights([losses.copy()], 2, 3.0), exponential_weights([losses[::-1].copy()], 2, 3.0), atol=1e-15
    )


def test_whoever_falls_far_behind_may_come_back():
    """The first expert is 1,000 behind after 100 rows, is left out of the sums, and wins in the end."""
    losses = np.zeros((3000, 2))
    losses[:100, 0], losses[100:, 1] = 10.0, 10.0
    found = mirror_average([losses.copy()], 2, 3000, 3.0)
    np.testing.assert_allclose(found.weights, printed_formula(losses, 3.0), atol=1e-12)
    assert found.weights[0] > 0.9


def test_long_and_wide_data_agree_with_a_plain_loop():
    generator = np.random.default_rng(0)
    losses = generator.gamma(1.0, size=(2000, 300)) * np.linspace(0.5, 1.5, 300)
    cumulative = np.cumsum(losses, axis=0) / 3
    weights = np.exp(cumulative.min(axis=1, keepdims=True) - cumulative)
    expected = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
    found = mirror_average([losses[:700].copy(), losses[700:].copy()], 300, 2000, 3.0)
    np.testing.assert_allclose(found.weights, expected, atol=1e-12)
    assert len(found.path_rows) == 200
    assert found.path_rows[-1] == 2000


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_logistic_loss_never_overflows(values):
    margins = np.array(values)
    expected = np.logaddexp(0.0, margins)
    np.testing.assert_allclose(logistic_losses(margins.copy()), expected, rtol=1e-12, atol=1e-300)


def test_condition_19_holds_with_e_on_the_unit_interval_and_with_nothing_less():
    z = np.linspace(-1, 1, 2001)
    slope = 1 / (1 + np.exp(-z))
    curvature = slope * (1 - slope)
    assert np.all(slope**2 <= LOGISTIC_TEMPERATURE * curvature * (1 + 1e-12))
    assert np.any(slope**2 > 0.999 * LOGISTIC_TEMPERATURE * curvature)


def test_oracle_inequality_20():
    """Expected risk, exact over a finite distribution, is below the best expert's + β log M / n: right with 1 − 1e-6.

    Risks lie in [0, log(1 + e)], so by Hoeffding the mean over 1,000 tables is within 1.32·√(log(1e6)/2000) of its
    expectation but for a chance of 1e-6. Experts are chosen so that averaging has something to lose.
    """
    generator = np.random.default_rng(20)
    points, experts, rows, tables = 8, 16, 12, 1000
    answers = generator.uniform(-1, 1, size=(experts, points))
    chance = generator.uniform(0.05, 0.95, size=points)

    def risk(scores: np.ndarray) -> np.ndarray:
        return (chance * np.logaddexp(0, -scores) + (1 - chance) * np.logaddexp(0, scores)).mean(axis=-1)

    best = risk(answers).min()
    assert risk(answers).max() - best > 0.1
    excesses = []
    for _ in range(tables):
        where = generator.integers(points, size=rows)
        labels = np.where(generator.random(rows) < chance[where], 1.0, -1.0)
        losses = logistic_losses(-labels[:, np.newaxis] * answers.T[where])
        weights = mirror_average([losses], experts, rows, LOGISTIC_TEMPERATURE).weights
        excesses.append(risk(weights @ answers) - best)
    uncertainty = math.log1p(math.e) * math.sqrt(math.log(1e6) / (2 * tables))
    assert np.mean(excesses) + uncertainty <= oracle_residual(LOGISTIC_TEMPERATURE, experts, rows)
