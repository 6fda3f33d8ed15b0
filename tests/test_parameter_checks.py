"""Which numbers an argument takes: ends, gaps, whole numbers, and what a refusal says."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.parameter_checks import SEEDS, Numbers

ENDS = st.floats(-1e6, 1e6)


@given(low=ENDS, width=st.floats(0, 1e6), value=st.floats(-3e6, 3e6), open_low=st.booleans(), open_high=st.booleans())
def test_numbers_lie_between_the_ends(low: float, width: float, value: float, open_low: bool, open_high: bool) -> None:
    high = low + width
    for tried in (value, low, high):
        numbers = Numbers(low, high, open_low=open_low, open_high=open_high)
        inside = low <= tried <= high and not (open_low and tried == low) and not (open_high and tried == high)
        assert numbers.holds(tried) == inside


@pytest.mark.parametrize("value", ["1", None, True, False, [1], 1j, object(), math.nan, math.inf, np.bool_(True), b"1"])
def test_nothing_else_is_a_number(value: Any) -> None:
    for numbers in (Numbers(), Numbers(whole=True)):
        with pytest.raises(InvalidParameter):
            numbers.check("width", value)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_all_kinds(value: Any) -> None:
    Numbers(3, 3, whole=True).check("width", value)
    Numbers(3, 3).check("width", value)


def test_fractions_are_numbers_but_not_whole() -> None:
    Numbers(0, 1).check("share", Fraction(1, 3))
    Numbers(0, 1).check("share", np.float32(0.25))
    assert not Numbers(whole=True).holds(3.0)
    assert not Numbers().holds(10**400)
    assert Numbers(whole=True).holds(10**400)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (Numbers(), "a number"),
        (Numbers(0, open_low=True), "a number above 0"),
        (Numbers(1, whole=True), "a whole number from 1"),
        (Numbers(0, 1, open_low=True, open_high=True), "a number between 0 and 1"),
        (Numbers(0, 2, whole=True), "a whole number from 0 to 2"),
        (Numbers(0, 1, open_low=True), "a number above 0 and up to 1"),
        (Numbers(high=5, whole=True, optional=True), "a whole number up to 5, or None"),
    ],
)
def test_a_refusal_says_which_numbers(numbers: Numbers, words: str) -> None:
    assert str(numbers) == words
    with pytest.raises(InvalidParameter, match=f"width must be {words}, got something of type str.") as refusal:
        numbers.check("width", "a private value")
    assert "private" not in str(refusal.value)


def test_numbers_are_shown_and_endless_ones_are_not() -> None:
    with pytest.raises(InvalidParameter, match="got -3"):
        Numbers(0).check("width", -3)
    with pytest.raises(InvalidParameter, match="beyond all measure"):
        Numbers(0, 5, whole=True).check("width", 10**5000)


def test_seeds_may_be_left_out() -> None:
    SEEDS.check("random_state", None)
    SEEDS.check("random_state", 7)
    with pytest.raises(InvalidParameter):
        SEEDS.check("random_state", -1)
