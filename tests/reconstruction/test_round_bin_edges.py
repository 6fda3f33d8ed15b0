"""Bins between round numbers, from public bounds alone."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sudare.reconstruction.round_bin_edges import round_edges

STEPS = {factor * Fraction(10) ** power for power in range(-20, 21) for factor in (1, 2, 5)}


@given(low=st.floats(-1e9, 1e9), width=st.floats(1e-6, 1e9))
def test_round_edges_cover_the_bounds(low: float, width: float) -> None:
    high = low + width
    # Narrower ranges than this have no room for fifty different floats.
    assume(high - low > 1e-9 * max(abs(low), abs(high)))
    edges = round_edges(low, high)
    assert 10 <= len(edges) - 1 <= 50
    assert edges == sorted(set(edges))
    # Floats are the nearest to their round numbers: take those back before anything is compared.
    exact = [Fraction(edge).limit_denominator(10**17) for edge in edges]
    step = min(STEPS, key=lambda each: abs(each - (exact[-1] - exact[0]) / (len(edges) - 1)))
    numbers = [round(edge / step) for edge in exact]
    assert numbers == list(range(numbers[0], numbers[0] + len(edges)))
    assert edges == [float(number * step) for number in numbers]
    assert numbers[0] * step <= Fraction(low) < (numbers[0] + 1) * step
    assert (numbers[-1] - 1) * step < Fraction(high) <= numbers[-1] * step


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 110, [5.0 * number for number in range(23)]),
        (0, 1, [round(0.05 * number, 2) for number in range(21)]),
        (17, 90, [5.0 * number for number in range(3, 19)]),
        (-20, 20, [2.0 * number for number in range(-10, 11)]),
        (0, 250_000, [10_000.0 * number for number in range(26)]),
    ],
)
def test_bounds_that_people_declare(low: float, high: float, expected: list[float]) -> None:
    assert round_edges(low, high) == expected


@pytest.mark.parametrize(("low", "high"), [(1e16, 1e16 + 2), (5.0, 5.000000000000002), (0.0, 5e-324)])
def test_edges_ascend_even_where_floats_are_few(low, high):
    edges = round_edges(low, high)
    assert edges[0] <= low < high <= edges[-1]
    assert edges == sorted(set(edges))
