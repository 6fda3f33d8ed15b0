"""Rows: norms hold exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sudare.linear.rows import bounded_rows, joint_norm, row_step, with_bias

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=finite), st.floats(1e-3, 1e3)
)
def test_norms_hold_exactly_for_any_finite_rows(matrix, norm_bound):
    """In rational arithmetic; entries of 1e308 and subnormal ones included."""
    with np.errstate(under="ignore"):
        bounded, _ = bounded_rows(matrix, norm_bound)
    for row in bounded:
        assert sum(Fraction(value) ** 2 for value in row) <= Fraction(norm_bound) ** 2
    steps = bounded / row_step(norm_bound)
    np.testing.assert_array_equal(steps, np.rint(steps))


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_rows_at_the_bound_stay_long(seed, width):
    row = np.random.default_rng(seed).normal(size=(1, width))
    long, count = bounded_rows(row * 1e6, 1.0)
    assert count == 1
    assert np.linalg.norm(long) > 1 - 1e-5
    np.testing.assert_allclose(long, row / np.linalg.norm(row), atol=1e-5)


def test_short_rows_are_only_rounded():
    rows = np.array([[0.3, -0.2], [0.0, 0.0], [1.0, 0.0]])
    bounded, count = bounded_rows(rows, 1.0)
    assert count == 0
    np.testing.assert_allclose(bounded, rows, atol=2.0**-26)
    assert np.all(np.abs(bounded) <= np.abs(rows))


@given(st.floats(1e-6, 1e6), st.floats(0, 1e6))
def test_joint_norm_is_not_too_small(norm, bias):
    joint = joint_norm(norm, bias)
    assert Fraction(joint) ** 2 >= Fraction(norm) ** 2 + Fraction(bias) ** 2
    assert joint <= np.hypot(norm, bias) * (1 + 1e-15)


def test_bias_column():
    np.testing.assert_array_equal(with_bias(np.ones((2, 1)), 0.5), [[1, 0.5], [1, 0.5]])
    assert with_bias(np.ones((2, 1)), 0.0).shape == (2, 1)
