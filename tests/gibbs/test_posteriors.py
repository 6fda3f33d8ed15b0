"""Losses of scores: floats within the bounds that the samplers rely on, and bounds that are bounds."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from flint import ctx as ball_context
from scipy.special import expit

from sudare.gibbs.lazy_uniforms import LIBRARY_ULPS, UNIT_ROUNDOFF
from sudare.gibbs.posteriors import LINEAR, LOGISTIC, SQUARED, Posterior, softplus

SIZES = np.array([1e-9, 1e-3, 0.3, 1.0, 7.0, 40.0, 700.0])


def pairs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    scores = np.concatenate([random.standard_normal(40) * size for size in SIZES])
    return scores, np.concatenate([random.permutation(scores)[: len(scores)]])


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, LINEAR])
def test_floats_are_as_accurate_as_the_samplers_assume(loss):
    scores, changes = pairs(1)
    rises = loss.rises(scores, changes)
    reach = np.abs(scores) + np.abs(changes)
    allowed = LIBRARY_ULPS * UNIT_ROUNDOFF * loss.largest_value(reach)
    for index in range(len(scores)):
        with ball_context.workprec(2000):
            exact = float(loss.ball_rise(arb(float(scores[index])), arb(float(changes[index]))).mid())
        assert abs(exact - rises[index]) <= allowed[index]


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, LINEAR])
def test_slopes_and_values_are_bounded(loss):
    scores, _ = pairs(2)
    reach, step = np.abs(scores) + 1e-6, 1e-6
    slopes = np.abs(loss.rises(scores, np.full_like(scores, step))) / step
    assert np.all(slopes <= loss.largest_slope(reach) * (1 + 1e-3) + 1e-3)
    assert np.all(np.abs(loss.rises(np.zeros_like(scores), scores)) <= loss.largest_value(reach))


def test_softplus_has_the_slope_of_a_weight():
    numbers = np.linspace(-30, 30, 601)
    np.testing.assert_allclose((softplus(numbers + 1e-5) - softplus(numbers - 1e-5)) / 2e-5, expit(numbers), atol=1e-8)


def test_scores_are_products_less_offsets():
    rows = np.array([[1.0, 2.0], [0.0, -1.0]])
    plain = Posterior(rows, 1.0, 1.0, 3.0, np.array([0.5, 1.0]), 0.0)
    assert plain.scores.tolist() == [2.5, -1.0]
    assert plain.largest_offset == 0
    shifted = Posterior(rows, 1.0, 1.0, 3.0, np.array([0.5, 1.0]), 0.0, SQUARED, np.array([1.0, -4.0]))
    assert shifted.scores.tolist() == [1.5, 3.0]
    assert shifted.largest_offset == 4
