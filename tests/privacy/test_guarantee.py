"""What a guarantee may say, how it converts, and how it is written down."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidCost, RelationMismatch
from sudare.privacy.guarantee import (
    NEIGHBOURS,
    NOTIONS,
    SMALLEST_NORMAL,
    UNITS,
    Guarantee,
    checked_delta,
    checked_epsilon,
    group_delta,
    group_epsilon,
    readable_down,
    readable_up,
)

LARGEST = 1.7976931348623157e308
SUBNORMAL = math.nextafter(SMALLEST_NORMAL, 0)
NOT_NUMBERS = [True, False, np.True_, None, "1.0", [1.0], 1j]


def test_the_words_there_are() -> None:
    assert NEIGHBOURS == ("replace-one", "add-remove")
    assert UNITS == ("record", "person")
    assert NOTIONS == ("central", "local", "parameter", "none")
    assert SMALLEST_NORMAL == 2.2250738585072014e-308


@pytest.mark.parametrize("epsilon", [SMALLEST_NORMAL, 1e-300, 0.1, 1, 3.0, Fraction(1, 4), np.float32(0.5), LARGEST])
def test_epsilons_that_are_accepted_become_floats(epsilon: float) -> None:
    checked = checked_epsilon(epsilon)
    assert type(checked) is float
    assert checked == epsilon


@pytest.mark.parametrize(
    "epsilon",
    [0, 0.0, -0.0, -1.0, SUBNORMAL, 5e-324, math.inf, -math.inf, math.nan, 10**400, Fraction(1, 10**400), *NOT_NUMBERS],
)
def test_epsilons_that_are_refused(epsilon: Any) -> None:
    with pytest.raises(InvalidCost) as caught:
        checked_epsilon(epsilon)
    assert caught.value.problem == f"epsilon must be a positive, finite, normal number, got {epsilon!r}."
    assert caught.value.remedy == "Use for example 1.0."


@pytest.mark.parametrize("delta", [0, 0.0, SMALLEST_NORMAL, 1e-6, 0.5, Fraction(1, 4), math.nextafter(1, 0)])
def test_deltas_that_are_accepted_become_floats(delta: float) -> None:
    checked = checked_delta(delta)
    assert type(checked) is float
    assert checked == delta


@pytest.mark.parametrize(
    "delta", [1, 1.0, 2.0, -1e-6, SUBNORMAL, 5e-324, math.inf, -math.inf, math.nan, -(10**400), *NOT_NUMBERS]
)
def test_deltas_that_are_refused(delta: Any) -> None:
    with pytest.raises(InvalidCost) as caught:
        checked_delta(delta)
    assert caught.value.problem == f"delta must be 0 or a normal number below 1, got {delta!r}."
    assert caught.value.remedy == "Use for example 1e-6."


def test_a_refused_number_is_named() -> None:
    with pytest.raises(InvalidCost, match=r"^mu must be a positive"):
        checked_epsilon(-1.0, "mu")
    with pytest.raises(InvalidCost, match=r"^reserved_delta must be 0 or"):
        checked_delta(-1.0, "reserved_delta")


def test_minus_zero_becomes_zero() -> None:
    assert math.copysign(1, checked_delta(-0.0)) == 1


@pytest.mark.parametrize(
    ("number", "up", "down"),
    [
        (3.0, "3", "3"),
        (0.1, "0.1", "0.1"),
        (0, "0", "0"),
        (0.3333333333, "0.333334", "0.333333"),
        (0.6666666666, "0.666667", "0.666666"),
        (1.0000001, "1.00001", "1"),
        (1e-6, "1e-06", "1e-06"),
        (123456, "123456", "123456"),
        (math.inf, "inf", "inf"),
    ],
)
def test_numbers_are_never_rounded_to_the_flattering_side(number: float, up: str, down: str) -> None:
    assert readable_up(number) == up
    assert readable_down(number) == down


def test_defaults() -> None:
    guarantee = Guarantee(1.0)
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 0.0)
    assert (guarantee.neighbours, guarantee.unit) == ("replace-one", "record")
    assert (guarantee.notion, guarantee.towards, guarantee.valid) == ("central", "everyone", True)


def test_a_guarantee_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Guarantee(1.0).epsilon = 2.0  # type: ignore[misc]


@pytest.mark.parametrize("number", [1, np.float64(1.0), np.float32(1.0), Fraction(1)])
def test_numbers_are_kept_as_plain_floats(number: float) -> None:
    guarantee = Guarantee(number, Fraction(1, 4))  # type: ignore[arg-type]
    assert type(guarantee.epsilon) is float
    assert type(guarantee.delta) is float
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


@pytest.mark.parametrize(
    ("field", "known"),
    [
        ("neighbours", "replace-one, add-remove"),
        ("unit", "record, person"),
        ("notion", "central, local, parameter, none"),
    ],
)
def test_unknown_words_are_refused(field: str, known: str) -> None:
    with pytest.raises(InvalidCost) as caught:
        Guarantee(1.0, **{field: "banana"})  # type: ignore[arg-type]
    assert caught.value.problem == f"{field} must be one of {known}, got 'banana'."
    assert caught.value.remedy == "Use one of these words."


@pytest.mark.parametrize("changes", [{"towards": ""}, {"towards": 5}, {"valid": 1}, {"valid": None}])
def test_towards_is_text_and_valid_a_truth_value(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidCost) as caught:
        Guarantee(1.0, **changes)
    assert caught.value.problem == "A guarantee names towards whom it holds, and is valid or not."
    assert caught.value.remedy == "Use text and a bool."


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, SUBNORMAL])
def test_a_guarantee_needs_a_usable_epsilon(epsilon: float) -> None:
    with pytest.raises(InvalidCost, match="epsilon must be"):
        Guarantee(epsilon)


@pytest.mark.parametrize("delta", [1.0, -1.0, math.nan, SUBNORMAL])
def test_a_guarantee_needs_a_usable_delta(delta: float) -> None:
    with pytest.raises(InvalidCost, match="delta must be"):
        Guarantee(1.0, delta)


def test_no_guarantee_is_infinite_and_has_no_delta() -> None:
    none = Guarantee.none("the members of diabetes-2026")
    assert none == Guarantee(math.inf, 0.0, notion="none", towards="the members of diabetes-2026")
    assert type(Guarantee(math.inf, 0, notion="none").delta) is float
    for epsilon, delta in ((1.0, 0.0), (math.inf, 0.1), (math.nan, 0.0), (-math.inf, 0.0)):
        with pytest.raises(InvalidCost) as caught:
            Guarantee(epsilon, delta, notion="none")
        assert caught.value.problem == "A disclosure without a guarantee has epsilon = inf and delta = 0."
        assert caught.value.remedy == "Use Guarantee.none()."


class TestConversion:
    def test_the_same_relation_is_the_same_guarantee(self) -> None:
        for neighbours in NEIGHBOURS:
            guarantee = Guarantee(1.0, 1e-6, neighbours=neighbours)
            assert guarantee.to(neighbours) is guarantee

    def test_add_remove_becomes_replace_one_by_two_steps(self) -> None:
        converted = Guarantee(0.3, 1e-6, neighbours="add-remove", unit="person", towards="B").to("replace-one")
        assert converted.epsilon == 0.6
        assert converted.delta == pytest.approx((1 + math.exp(0.3)) * 1e-6, rel=1e-11)
        assert Fraction(converted.delta) > Fraction(math.exp(0.3)) * Fraction(1e-6) + Fraction(1e-6)
        assert (converted.neighbours, converted.unit, converted.towards) == ("replace-one", "person", "B")

    def test_the_reverse_is_refused(self) -> None:
        with pytest.raises(RelationMismatch) as caught:
            Guarantee(1.0).to("add-remove")
        assert caught.value.problem == "A replace-one guarantee says nothing about add/remove neighbours."
        assert caught.value.remedy == "Calibrate the mechanism for add/remove, or use a replace-one account."

    def test_no_guarantee_stays_none(self) -> None:
        none = Guarantee(math.inf, notion="none", neighbours="add-remove").to("replace-one")
        assert none == Guarantee(math.inf, notion="none")

    @pytest.mark.parametrize("size", [0, -1, 1.0, True, "2", None])
    def test_a_group_has_members(self, size: Any) -> None:
        with pytest.raises(InvalidCost) as caught:
            Guarantee(1.0).for_group(size)
        assert caught.value.problem == f"A group has a whole number of members, at least 1; got {size!r}."
        assert caught.value.remedy == "Use for example 3."

    def test_a_group_of_one_is_the_unit_itself(self) -> None:
        guarantee = Guarantee(1.0, 1e-6)
        assert guarantee.for_group(1) is guarantee

    def test_a_group_too_large_has_no_guarantee(self) -> None:
        with pytest.raises(InvalidCost) as caught:
            Guarantee(5.0, 0.01).for_group(2)
        assert caught.value.problem == "A group of 2 at epsilon = 5, delta = 0.01 has no guarantee left."
        assert caught.value.remedy == "Use a smaller epsilon or delta, or fewer rows per person."
        with pytest.raises(InvalidCost, match="has no guarantee left"):
            Guarantee(math.log(3), 0.25).for_group(2)
        assert Guarantee(math.log(2.99), 0.25).for_group(2).delta < 1
        with pytest.raises(InvalidCost, match="has no guarantee left"):
            Guarantee(400.0, 1e-300).for_group(2)
        with pytest.raises(InvalidCost, match="got inf"):
            Guarantee(1e308).for_group(2)


def test_group_epsilon_is_read_as_decimals() -> None:
    assert group_epsilon(0.1, 3) == 0.3
    assert group_epsilon(0.1, 10) == 1.0
    assert group_epsilon(LARGEST, 1) == LARGEST
    assert group_epsilon(LARGEST, 2) == math.inf


@given(st.floats(1e-3, 50), st.integers(1, 100))
def test_group_epsilon_is_rounded_up_by_one_step_at_most(epsilon: float, size: int) -> None:
    product = Fraction(repr(epsilon)) * size
    grouped = group_epsilon(epsilon, size)
    assert Fraction(repr(grouped)) >= product
    assert Fraction(repr(math.nextafter(grouped, 0))) < product or Fraction(math.nextafter(grouped, 0)) <= product


@given(st.floats(1e-6, 5), st.floats(1e-30, 1e-3), st.integers(1, 50))
def test_group_delta_is_the_sum_rounded_up(epsilon: float, delta: float, size: int) -> None:
    total = delta * math.fsum(math.exp(step * epsilon) for step in range(size))
    found = group_delta(epsilon, delta, size)
    assert total < found
    assert found <= total * (1 + 3e-12)


def test_group_delta_at_its_ends() -> None:
    assert group_delta(1.0, 0.0, 5) == 0.0
    assert group_delta(1000.0, 0.0, 5) == 0.0
    assert group_delta(350.0, 1e-300, 2) < 1
    assert group_delta(350.1, 1e-320, 2) == 1.0
    assert group_delta(701.0, 1e-320, 1) == 1.0
    assert group_delta(1e-9, 1e-12, 10**7) == pytest.approx(1e-12 * math.expm1(0.01) / 1e-9, rel=1e-6)


@st.composite
def guarantees(draw: st.DrawFn) -> Guarantee:
    return Guarantee(
        epsilon=draw(st.floats(SMALLEST_NORMAL, LARGEST)),
        delta=draw(st.just(0.0) | st.floats(SMALLEST_NORMAL, math.nextafter(1, 0))),
        neighbours=draw(st.sampled_from(NEIGHBOURS)),
        unit=draw(st.sampled_from(UNITS)),
        notion=draw(st.sampled_from(["central", "local", "parameter"])),
        towards=draw(st.text(min_size=1)),
        valid=draw(st.booleans()),
    )


@given(guarantees() | st.just(Guarantee.none("B")))
def test_a_guarantee_can_be_written_and_read_back(guarantee: Guarantee) -> None:
    text = json.dumps(guarantee.to_dict(), allow_nan=False)
    assert Guarantee.from_dict(json.loads(text)) == guarantee


def test_infinity_is_written_as_text() -> None:
    assert Guarantee.none("B").to_dict() == {
        "epsilon": "inf",
        "delta": 0.0,
        "neighbours": "replace-one",
        "unit": "record",
        "notion": "none",
        "towards": "B",
        "valid": True,
    }


@pytest.mark.parametrize("values", [{}, [], "text", 5, {**Guarantee(1.0).to_dict(), "extra": 1}])
def test_other_fields_are_refused(values: Any) -> None:
    with pytest.raises(InvalidCost) as caught:
        Guarantee.from_dict(values)
    assert caught.value.problem == "A guarantee lacks a field or has one too many."
    assert caught.value.remedy == "Ask for the file again."


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1},
        {"epsilon": "1.0"},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"epsilon": True},
        {"delta": 0},
        {"delta": "inf"},
        {"delta": None},
        {"neighbours": 1},
        {"unit": None},
        {"notion": ["central"]},
        {"towards": 5},
        {"valid": 1},
        {"valid": "True"},
    ],
)
def test_fields_of_another_type_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidCost) as caught:
        Guarantee.from_dict({**Guarantee(1.0).to_dict(), **change})
    assert caught.value.problem == "A guarantee has a field of the wrong type."
    assert caught.value.remedy == "Ask for the file again."


@pytest.mark.parametrize("change", [{"epsilon": -1.0}, {"delta": 1.0}, {"unit": "family"}, {"epsilon": "inf"}])
def test_fields_out_of_range_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidCost):
        Guarantee.from_dict({**Guarantee(1.0).to_dict(), **change})


def test_how_guarantees_read() -> None:
    assert str(Guarantee(1.0)) == "ε = 1, δ = 0, replace-one record, towards everyone"
    assert (
        str(Guarantee(0.33333333333, 1e-6, "add-remove", "person", "local", "B", False))
        == "local ε = 0.333334, δ = 1e-06, add-remove person, towards B — NOT VALID"
    )
    assert str(Guarantee.none("the members")) == "no guarantee: exact values shown to the members"
