"""Declarations of columns check themselves when they are made."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import (
    SchemaError,
)
from sudare.schema import Category, Number, Person, Schema


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"low": 1, "high": 1}, "not below"),
        ({"low": 2, "high": 1}, "not below"),
        ({"low": float("nan"), "high": 1}, "`low`"),
        ({"low": 0, "high": float("inf")}, "`high`"),
        ({"low": "0", "high": 1}, "`low`"),
        ({"low": False, "high": 1}, "`low`"),
        ({"low": 0, "high": 10**400}, "`high`"),
        ({"low": -1.7e308, "high": 1.7e308}, "overflows"),
        ({"low": 0, "high": 1, "centre": 2}, "`centre`"),
        ({"low": 0, "high": 1, "centre": float("nan")}, "`centre`"),
        ({"low": 0, "high": 1, "scale": 0}, "`scale`"),
        ({"low": 0, "high": 1, "scale": -1}, "`scale`"),
        ({"low": 0, "high": 1, "scale": 5e-324}, "too small"),
        ({"low": 0, "high": 1, "bins": []}, "`bins`"),
        ({"low": 0, "high": 1, "bins": [0.5, 0.5]}, "`bins`"),
        ({"low": 0, "high": 1, "bins": [0.6, 0.4]}, "`bins`"),
        ({"low": 0, "high": 1, "bins": [0, 0.4]}, "`bins`"),
        ({"low": 0, "high": 1, "bins": [0.4, 1]}, "`bins`"),
        ({"low": 0, "high": 1, "bins": 0.4}, "`bins`"),
        ({"low": 0, "high": 1, "bins": "0.4"}, "`bins`"),
        ({"low": 0, "high": 1, "unit": 3}, "`unit`"),
        ({"low": 0, "high": 1, "missing": 1.5}, "`missing`"),
        ({"low": 0, "high": 1, "missing": "mean"}, "`missing`"),
        ({"low": 0, "high": 1, "missing": True}, "`missing`"),
    ],
)
def test_numbers_that_contradict_themselves_are_refused(facts: dict[str, object], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        Number(**facts)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="'dose'"):
        Schema.from_dict({"columns": {"dose": {"kind": "number", **facts}}})


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"values": ["a"]}, "fewer than two"),
        ({"values": []}, "fewer than two"),
        ({"values": ["a", "a"]}, "twice"),
        ({"values": "ab"}, "not a list"),
        ({"values": 7}, "not a list"),
        ({"values": ["1", 1]}, "mixes integer and text"),
        ({"values": [1, True]}, "mixes boolean and integer"),
        ({"values": [0, False]}, "mixes boolean and integer"),
        ({"values": [0.0, 1.0]}, "other than text"),
        ({"values": [0, 2**63]}, "other than text"),
        ({"values": [None, 1]}, "other than text"),
        ({"values": ["\ud800", "a"]}, "control character"),
        ({"values": [0, 1], "missing": True}, "`missing`"),
        ({"values": [False, True], "missing": 1}, "`missing`"),
        ({"values": ["a", "b"], "missing": 1}, "`missing`"),
        ({"values": [0, 1], "missing": "1"}, "`missing` is the text '1'"),
        ({"values": [False, True], "missing": "true"}, "`missing` is the text 'true'"),
        ({"values": ["a", "b"], "missing": 0.5}, "`missing`"),
    ],
)
def test_categories_that_contradict_themselves_are_refused(facts: dict[str, object], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        Category(**facts)  # type: ignore[arg-type]
    as_label = {"classes" if key == "values" else key: value for key, value in facts.items()}
    with pytest.raises(SchemaError, match="'outcome'"):
        Schema.from_dict({"columns": {"outcome": {"kind": "label", **as_label}}})


def test_equal_to_python_is_not_equal_to_a_schema() -> None:
    assert (0, 1) == (False, True)
    assert Category((0, 1)) != Category((False, True))
    whole, boolean = Schema({"x": Category((0, 1))}), Schema({"x": Category((False, True))})
    assert whole != boolean
    assert whole.digest != boolean.digest
    assert Category((np.int64(0), np.int64(1))) == Category((0, 1))
    assert Category((np.bool_(False), np.bool_(True))) == Category((False, True))


def test_a_number_of_rows_that_is_to_be_chosen_has_a_largest_one() -> None:
    person = Person("id", "auto", largest=50)
    assert (person.is_auto, person.bound) == (True, 50)
    chosen = Person("id", 12, largest=50, spent=0.06)
    assert (chosen.is_auto, chosen.bound) == (False, 12)
    schema = Schema({"x": Number(0, 1)}, chosen)
    assert Schema.from_toml(schema.to_toml()) == schema
    text = (
        '[columns.x]\nkind = "number"\nlow = 0\nhigh = 1\n[person]\ncolumn = "id"\nmost_rows = "auto"\nlargest = 50\n'
    )
    assert Schema.from_toml(text).person == person
    for facts, message in [
        ({"most_rows": "auto"}, "`largest` is missing"),
        ({"most_rows": "auto", "largest": 0}, "`largest` is not a whole number"),
        ({"most_rows": "auto", "largest": 2**21}, "above"),
        ({"most_rows": 5, "largest": 4}, "below"),
        ({"most_rows": "auto", "largest": 4, "spent": 0.1}, "`spent`"),
        ({"most_rows": 4, "spent": 0.1}, "`spent`"),
        ({"most_rows": 4, "largest": 9, "spent": -0.1}, "`spent`"),
    ]:
        with pytest.raises(SchemaError, match=message):
            Person("id", **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("most_rows", [0, -1, 1.0, True, "3", None])
def test_most_rows_is_a_whole_number_from_one(most_rows: object) -> None:
    with pytest.raises(SchemaError, match="most_rows"):
        Person("id", most_rows)  # type: ignore[arg-type]


def test_atoms_and_determined_columns_are_public_facts_of_a_column():
    text = """
[columns.education]
kind = "category"
values = ["school", "college"]
[columns.years]
kind = "number"
low = 0
high = 20
whole = true
atoms = [12]
determined_by = "education"
[columns.is_academic]
kind = "category"
values = [false, true]
determined_by = "education"
"""
    schema = Schema.from_toml(text)
    assert schema.columns["years"] == Number(0, 20, whole=True, atoms=(12,), determined_by="education")
    assert schema.columns["is_academic"].determined_by == "education"
    assert Schema.from_toml(schema.to_toml()) == schema
    assert schema.digest != Schema({**schema.columns, "years": Number(0, 20, whole=True)}).digest


@pytest.mark.parametrize(
    "facts",
    [
        {"atoms": ()},
        {"atoms": (0, 0)},
        {"atoms": (21,)},
        {"atoms": 3},
        {"atoms": ("a",)},
        {"atoms": (0.5,), "whole": True},
        {"atoms": tuple(range(101)), "high": 200},
        {"determined_by": 3},
        {"determined_by": ""},
    ],
)
def test_atoms_and_names_that_cannot_be_are_refused(facts):
    with pytest.raises(SchemaError):
        Number(**{"low": 0, "high": 20, **facts})


def test_the_greatest_whole_number_can_be_a_bin_of_its_own():
    assert Number(0, 3, whole=True, bins=(1, 2, 3)).edges == Number(0, 3, whole=True).edges
    with pytest.raises(SchemaError):
        Number(0, 3, bins=(1, 2, 3))
    with pytest.raises(SchemaError):
        Number(0, 3, whole=True, bins=(1, 2, 4))
