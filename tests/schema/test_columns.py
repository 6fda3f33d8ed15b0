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


@pytest.mark.parametrize("most_rows", [0, -1, 1.0, True, "3", None])
def test_most_rows_is_a_whole_number_from_one(most_rows: object) -> None:
    with pytest.raises(SchemaError, match="most_rows"):
        Person("id", most_rows)  # type: ignore[arg-type]
