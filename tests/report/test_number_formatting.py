"""Numbers are never rounded to the flattering side."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.report.number_formatting import (
    left_text,
    nearest,
    one_in,
    percent_up,
    rounded_down,
    rounded_up,
    six_digits,
    spent_text,
    whole,
)

numbers = st.floats(min_value=1e-300, max_value=1e300, allow_nan=False)


@given(numbers)
def test_up_is_not_below_and_down_is_not_above(number: float) -> None:
    assert float(rounded_up(number)) >= number >= float(rounded_down(number))


@given(numbers)
def test_rounding_changes_less_than_a_thousandth(number: float) -> None:
    assert float(rounded_up(number)) <= number * 1.0011
    assert float(rounded_down(number)) >= number * 0.9989


@given(numbers)
def test_few_digits(number: float) -> None:
    for text in (rounded_up(number), rounded_down(number), nearest(number)):
        digits = re.sub(r"e.*|\.|-", "", text).strip("0")
        assert 0 < len(digits) <= 4


@pytest.mark.parametrize(
    ("number", "text"), [(0.1, "0.1"), (3.0, "3.0"), (1e-6, "1e-6"), (1.5, "1.5"), (1e22, "1e22"), (math.inf, "∞")]
)
def test_what_a_person_typed_stays(number: float, text: str) -> None:
    assert rounded_up(number) == rounded_down(number) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.5, "50 %"), (0.731, "74 %"), (0.9933, "99.4 %"), (1 - 1e-12, "practically 100 %")]
)
def test_percent(share: float, text: str) -> None:
    assert percent_up(share) == text


@given(st.floats(min_value=0.001, max_value=1 - 1e-6))
def test_percent_is_not_below_the_share_and_not_certain(share: float) -> None:
    shown = float(percent_up(share).removesuffix(" %"))
    assert 100 * share - 1e-7 <= shown < 100


def test_words() -> None:
    assert one_in(1e-6) == "1 in 1,000,000"
    assert one_in(0.0) == "never"
    assert whole(1234567) == "1,234,567"


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (194454321.0, "194454000"),
        (2e6, "2000000"),
        (-2e6, "-2000000"),
        (1e15, "1e+15"),
        (-0.0, "0"),
        (1.25, "1.25"),
        (1e-7, "1e-07"),
    ],
)
def test_numbers_of_tables_are_written_out(number: float, told: str) -> None:
    assert six_digits(number) == told


def test_delta_is_told_where_it_counts() -> None:
    assert spent_text(0.5, 0.0) == "ε = 0.5"
    assert spent_text(0.50001, 1e-6) == "ε = 0.5001, δ = 1e-6"
    assert spent_text(0.0, 0.0) == "ε = 0"
    assert left_text(1.5, 0.0, has_delta=False) == "ε = 1.5"
    assert left_text(1.49999, 0.0, has_delta=True) == "ε = 1.499, δ = 0"
