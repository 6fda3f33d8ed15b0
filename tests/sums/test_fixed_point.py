"""Numbers on a declared grid: exact, saturating, refusing what could wrap, and never showing a value in a message."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError, ImplausibleTotal, InvalidParameter
from sudare.sums.fixed_point import FixedPoint

NUMBERS = st.floats(allow_nan=False, allow_infinity=True, width=64)


@st.composite
def grids(draw):
    low = draw(st.floats(-1e6, 1e6))
    high = low + draw(st.floats(1e-3, 1e6))
    return FixedPoint(low, high, draw(st.floats(1e-9, 1e-4)))


@given(grids(), st.lists(NUMBERS, min_size=1, max_size=20))
def test_every_value_becomes_its_nearest_step_inside_the_range(grid, values):
    encoded = grid.encode(values)
    step = Fraction(float(grid.step))
    assert Fraction(float(grid.precision)) / 2 < step <= Fraction(float(grid.precision))
    lowest, highest = math.ceil(Fraction(float(grid.low)) / step), math.floor(Fraction(float(grid.high)) / step)
    for value, word in zip(values, encoded.words.view(np.int64).tolist(), strict=True):
        if math.isinf(value):
            assert word == (highest if value > 0 else lowest)
        else:
            inside = min(max(Fraction(value) / step, Fraction(lowest)), Fraction(highest))
            assert abs(word - inside) <= Fraction(1, 2)
            assert lowest <= word <= highest
    assert encoded.saturated == sum(value < grid.low or value > grid.high for value in values)


@given(grids(), st.lists(st.lists(st.floats(-2e6, 2e6), min_size=3, max_size=3), min_size=1, max_size=9))
def test_sums_of_words_are_exact(grid, rows):
    grid.check_members(len(rows))
    words = [grid.encode(row).words for row in rows]
    total = np.sum(words, axis=0, dtype=np.uint64)
    exact = [sum(int(word.view(np.int64)[place]) for word in words) for place in range(3)]
    assert total.view(np.int64).tolist() == exact
    assert grid.decode(total).tolist() == [float(Fraction(each) * Fraction(float(grid.step))) for each in exact]
    grid.check_total(total, len(rows))


@given(
    st.lists(
        st.one_of(
            st.integers(-(2**52), 2**52).map(lambda halves: halves / 2),
            st.sampled_from([0.5, -0.5, 1.5, -1.5, -0.0, 5e-324, 2.0**51, -(2.0**51), 2.0**51 - 0.5, 0.5 - 2.0**51]),
            st.floats(-(2.0**53), 2.0**53),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_values_near_and_far_are_rounded_alike_and_ties_to_even(values):
    grid = FixedPoint(-(2.0**53), 2.0**53, 1.0)
    expected = np.array([round(value) for value in values], dtype=np.int64)
    np.testing.assert_array_equal(grid.encode(values).words.view(np.int64), expected)


def test_not_a_number_is_refused_before_anything_and_not_shown():
    with pytest.raises(DataError, match="NaN") as refused:
        FixedPoint().encode([1.5, math.nan, 77.25])
    assert "Nothing was sent" in str(refused.value)
    assert "77.25" not in str(refused.value)


def test_infinities_saturate_and_are_counted():
    encoded = FixedPoint(-1, 1, 0.25).encode([math.inf, -math.inf, 1.0, 0.3])
    assert encoded.words.view(np.int64).tolist() == [4, -4, 4, 1]
    assert encoded.saturated == 2


def test_ranges_can_differ_between_entries():
    grid = FixedPoint(np.array([0.0, -10.0]), np.array([1.0, 10.0]), np.array([2.0**-4, 1.0]))
    assert grid.encode([0.5, 3.4]).words.view(np.int64).tolist() == [8, 3]
    grid.check_total(np.array([16 * 3, -30]).view(np.uint64), 3)
    for outside in ([16 * 3 + 1, 0], [-1, 0], [0, 31], [0, -31]):
        with pytest.raises(ImplausibleTotal):
            grid.check_total(np.array(outside).view(np.uint64), 3)
    with pytest.raises(DataError, match="shape"):
        grid.encode([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("total", "plausible"), [(20, True), (-20, True), (21, False), (-21, False), (2**63 - 1, False)]
)
def test_totals_outside_the_declared_ranges_are_refused(total, plausible):
    grid = FixedPoint(-1, 1, 0.25)
    words = np.array([0, total]).view(np.uint64)
    if plausible:
        grid.check_total(words, 5)
    else:
        with pytest.raises(ImplausibleTotal, match="5 members") as refused:
            grid.check_total(words, 5)
        assert str(total) not in str(refused.value)


def test_a_sum_that_could_wrap_is_refused_at_set_up():
    """2,047 members of the default fit, by the declared range alone; one more does not, whatever the values are."""
    grid = FixedPoint()
    grid.check_members(2047)
    with pytest.raises(InvalidParameter, match="2047 can be summed"):
        grid.check_members(2048)
    assert 2047 * grid.most_steps < 2**63 <= 2048 * grid.most_steps


@given(st.integers(1, 5000), st.floats(1e-12, 1.0), st.floats(1.0, 1e9))
def test_what_is_not_refused_cannot_wrap_and_the_remedy_works(members, precision, magnitude):
    grid = FixedPoint(-magnitude, magnitude, max(precision, magnitude * 2.0**-60))
    try:
        grid.check_members(members)
    except InvalidParameter as refused:
        coarser = int(refused.remedy.split("precision ")[1].split(" times")[0])
        FixedPoint(-magnitude, magnitude, float(grid.precision) * coarser).check_members(members)
        return
    extreme = grid.encode([magnitude, -magnitude]).words
    total = np.sum([extreme] * members, axis=0, dtype=np.uint64).view(np.int64)
    assert total.tolist() == [members * int(grid.highest), members * int(grid.lowest)]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((1.0, -1.0, 0.1), "low end above"),
        ((-1.0, 1.0, 0.0), "finite"),
        ((-1.0, math.nan, 0.1), "finite"),
        ((-1.0, math.inf, 0.1), "finite"),
        ((-1e300, 1e300, 1e-300), "62 bits"),
        ((0.3, 0.4, 0.5), "no multiple"),
        ((np.zeros(2), np.ones(3), 0.1), "different lengths"),
    ],
)
def test_declarations_that_mean_nothing_are_refused(arguments, match):
    with pytest.raises(InvalidParameter, match=match):
        FixedPoint(*arguments)
