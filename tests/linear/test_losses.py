"""Losses: derivatives, convexity, and the bounds that privacy rests on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.linear.losses import CappedSquares, Logistic, SmoothedHinge

LOSSES = [Logistic(), SmoothedHinge(0.5), SmoothedHinge(0.01), CappedSquares(1.0), CappedSquares(2.0)]
losses = st.sampled_from(LOSSES)
signs = st.sampled_from([-1.0, 1.0])


def _at(function, score, target):
    return float(function(np.array([score]), np.array([target]))[0])


@given(losses, st.floats(-30, 30), signs)
def test_slope_is_the_derivative_of_the_value(loss, score, target):
    step = 1e-5
    numeric = (_at(loss.value, score + step, target) - _at(loss.value, score - step, target)) / (2 * step)
    assert _at(loss.slope, score, target) == pytest.approx(numeric, abs=1e-3 if loss == SmoothedHinge(0.01) else 1e-5)


@given(losses, st.floats(-30, 30), signs)
def test_curvature_is_the_derivative_of_the_slope(loss, score, target):
    step = 1e-7
    left, right = _at(loss.slope, score - step, target), _at(loss.slope, score + step, target)
    numeric = (right - left) / (2 * step)
    curvature = _at(loss.curvature, score, target)
    corner = 0 < numeric < loss.largest_curvature * 0.999 and not loss.joint
    assert corner or curvature == pytest.approx(numeric, abs=1e-5 * max(1, loss.largest_curvature))


@given(losses, st.floats(allow_nan=False), signs)
def test_bounds_hold_everywhere(loss, score, target):
    with np.errstate(over="ignore", invalid="ignore"):
        slope, curvature = _at(loss.slope, score, target), _at(loss.curvature, score, target)
    assert abs(slope) <= loss.largest_slope
    assert 0 <= curvature <= loss.largest_curvature
    assert _at(loss.value, 0.0, target) <= loss.value_at_zero
    if loss.one_sided:
        assert slope * target <= 0
    if loss.joint:
        assert curvature <= abs(slope) * (1 - abs(slope)) + 1e-15


@given(losses, st.floats(-20, 20), st.floats(-20, 20), signs)
def test_values_are_convex(loss, first, second, target):
    middle = _at(loss.value, (first + second) / 2, target)
    assert middle <= (_at(loss.value, first, target) + _at(loss.value, second, target)) / 2 + 1e-9


def test_known_values():
    assert _at(Logistic().value, 0.0, 1.0) == pytest.approx(np.log(2))
    assert _at(Logistic().value, -800.0, 1.0) == 800.0
    assert _at(SmoothedHinge(0.5).value, 2.0, 1.0) == 0.0
    assert _at(SmoothedHinge(0.5).value, 0.0, 1.0) == pytest.approx(1.0)
    assert _at(SmoothedHinge(0.5).value, 1.0, 1.0) == pytest.approx(0.125)
    assert _at(CappedSquares(2.0).value, 0.5, -0.5) == pytest.approx(0.5)


@pytest.mark.parametrize("make", [SmoothedHinge, CappedSquares])
@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_widths_are_refused(make, width):
    with pytest.raises(InvalidParameter):
        make(width)


@given(losses, st.lists(st.tuples(st.floats(-1e3, 1e3), signs), min_size=1, max_size=9))
def test_derivatives_together_are_the_derivatives_one_by_one(loss, points):
    """To the bit: the certificate of a gradient must not depend on whether a Hessian was asked for as well."""
    scores, targets = np.array(points).T
    slopes, curvatures = loss.derivatives(scores, targets)
    np.testing.assert_array_equal(slopes, loss.slope(scores, targets))
    np.testing.assert_array_equal(curvatures, loss.curvature(scores, targets))
