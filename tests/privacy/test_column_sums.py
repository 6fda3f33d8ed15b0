"""Sums without rounding, what one unit moves them by, and the grid that released numbers lie on."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudare.privacy.column_sums import (
    ScaledSums,
    exact_moments,
    exact_sums,
    fixed_point_step,
    l1_sensitivity,
    l2_sensitivity,
    mean_mechanism,
    mean_noise,
    on_grid_within,
    public_grid,
    sum_mechanism,
)
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace

STEP = 2.0**-30


def test_fixed_point_step():
    assert fixed_point_step(1) == STEP
    assert fixed_point_step(2**22 - 1) == STEP
    assert fixed_point_step(2**22) == 2.0**-29
    assert fixed_point_step(2**31) == 2.0**-20
    assert fixed_point_step(2**40 - 1) == 2.0**-12


@given(st.integers(1, 2**48))
def test_sums_on_the_fixed_point_grid_fit_into_a_float(rows):
    """So many ones, in steps, are at most 2^52: every sum of that many numbers of at most one is exact."""
    assert Fraction(rows) / Fraction(fixed_point_step(rows)) <= 2**52


@given(
    arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=st.floats(-1, 1)),
    st.sampled_from([STEP, 2.0**-12, 0.25]),
)
def test_exact_sums(values, step):
    expected = [sum(round(Fraction(value) / Fraction(step)) for value in column) for column in values.T.tolist()]
    found = exact_sums(values, step)
    assert found.dtype == np.float64
    assert [Fraction(total) for total in found.tolist()] == [total * Fraction(step) for total in expected]
    assert np.array_equal(exact_sums(values[::-1], step), found)


@pytest.mark.parametrize("rows", [1023, 1024, 1025, 3000])
def test_exact_sums_of_many_rows(rows):
    steps = np.random.default_rng(rows).integers(-(2**30), 2**30, size=(rows, 2))
    assert exact_sums(steps * STEP, STEP).tolist() == (steps.sum(axis=0) * STEP).tolist()


def test_exact_moments():
    scaled = np.array([[0.0, 0.5], [1.0, 0.75], [0.25, 0.625]])
    assert exact_moments(scaled, STEP).tolist() == [-0.5, 0.75, 2.25, 0.3125]
    coarse = exact_moments(np.array([[0.6]]), 0.25)
    assert coarse.tolist() == [0.25, 0.0]


def test_sensitivities_are_exact_or_rounded_up():
    assert l1_sensitivity(Fraction(1), 3, 2) == 6.0
    assert l1_sensitivity(Fraction(9, 4), 1, 1) == 2.25
    assert l2_sensitivity(Fraction(1), 4, 3) == 6.0
    assert l2_sensitivity(Fraction(4), 9, 1) == 6.0
    for squared, columns, rows in ((Fraction(1), 2, 1), (Fraction(2), 3, 7), ((2 + Fraction(STEP)) ** 2, 5, 3)):
        exact_square = squared * columns * rows**2
        root = l2_sensitivity(squared, columns, rows)
        assert Fraction(math.nextafter(root, 0)) ** 2 < exact_square <= Fraction(root) ** 2
    third = l1_sensitivity(Fraction(1, 3), 1, 1)
    assert Fraction(math.nextafter(third, 0)) < Fraction(1, 3) < Fraction(third)


def test_mechanism_of_sums():
    assert sum_mechanism(1, 2, 3.0, 2.0, 0.5, 0.0, STEP) == Laplace(3.0, 0.5, 2, integer_grid=STEP)
    assert sum_mechanism(2, 4, 3.0, 2.0, 0.5, 0.0, STEP) == GammaNorm(2.0, 0.5, 4)
    for columns in (1, 2):
        assert sum_mechanism(columns, 2, 3.0, 2.0, 0.5, 1e-6, STEP) == Gaussian(2.0, 0.5, 1e-6, 2, integer_grid=STEP)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5])
def test_the_noise_of_means_is_the_quietest(epsilon, delta):
    """By the expected squared error of every mechanism that keeps the promise."""
    for columns in (1, 2, 3, 10, 30, 60, 100, 1000):
        known = [
            mean_mechanism(noise, columns, 1, epsilon, delta, STEP)
            for noise in ("laplace", "infinity-norm", "gamma-norm", *(["gaussian"] if delta else []))
        ]
        chosen = mean_mechanism(mean_noise(columns, epsilon, delta), columns, 1, epsilon, delta, STEP)
        assert chosen.variance == pytest.approx(min(mechanism.variance for mechanism in known), rel=1e-6)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.5])
def test_more_epsilon_never_makes_the_noise_of_means_gaussian(delta):
    """A fit whose person's bound is chosen is asked which noise it has at a little less ε than it gets (proofs/persons.md)."""
    for columns in (1, 10, 50, 100):
        chosen = [mean_noise(columns, epsilon, delta) for epsilon in np.geomspace(1e-4, 60, 60).tolist()]
        assert chosen == sorted(chosen)


# Grids


def test_public_grid():
    assert public_grid(1.0, np.array([1.0])) == 2.0**-16
    assert public_grid(0.5, np.array([8.0, 4.0])) == 2.0**-15
    assert public_grid(0.7, np.array([5.0])) == 2.0**-15
    assert public_grid(1000.0, np.array([1.0])) == 2.0**-16
    assert public_grid(1e-300, np.array([1e-200])) == 2.0**-1074
    assert public_grid(1e-10, np.array([2.0**1023])) == 2.0 ** (1023 - 34 - 16)


@given(st.floats(1e-300, 1e300), st.lists(st.floats(2.0**-900, 1e308), min_size=1))
def test_grid_is_far_below_noise_and_range(noise_scale, ranges):
    grid = public_grid(noise_scale, np.array(ranges))
    assert math.frexp(grid)[0] == 0.5
    finest = Fraction(min(1.0, noise_scale)) * Fraction(min(ranges))
    assert grid == 2.0**-1074 or finest / 2**18 < Fraction(grid) <= finest / 2**16


def test_on_grid_within():
    low, high = np.array([0.1, -0.3]), np.array([0.9, 0.3])
    assert on_grid_within(np.array([0.0, 5.0]), low, high, 0.25).tolist() == [0.25, 0.25]
    assert on_grid_within(np.array([1.0, -5.0]), low, high, 0.25).tolist() == [0.75, -0.25]
    assert on_grid_within(np.array([0.4, 0.0]), low, high, 0.25).tolist() == [0.5, 0.0]
    assert on_grid_within(np.array([0.0]), 0.25, np.array([1.0]), 0.25).tolist() == [0.25]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.floats(allow_nan=False), st.integers(0, 30))
def test_numbers_on_the_grid_stay_within_the_bounds(low, width, value, bits):
    high = low + width
    grid = public_grid(2.0**-bits, np.array([high - low]))
    found = on_grid_within(np.array([value]), np.array([low]), np.array([high]), grid)[0]
    assert low <= found <= high
    assert (Fraction(float(found)) / Fraction(grid)).denominator == 1
    assert abs(found - min(max(value, low), high)) <= grid


def test_scaled_sums_of_tables_and_of_columns_add_up():
    first, second = (ScaledSums(np.array([n, 2.0]), 3, {"age": n, "dose": 1}) for n in (1, 4))
    both = first + second
    assert (both.sums.tolist(), both.rows, dict(both.clipped)) == ([5.0, 4.0], 6, {"age": 5, "dose": 2})
    beside = first.beside(ScaledSums(np.array([7.0]), 3, {"height": 9}))
    assert (beside.sums.tolist(), beside.rows) == ([1.0, 2.0, 7.0], 3)
    assert dict(beside.clipped) == {"age": 1, "dose": 1, "height": 9}
