"""Declarations check themselves, survive every way of writing them down, and never take a fact from data."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.errors import (
    ColumnMissing,
    DataError,
    InvalidParameter,
    MissingValue,
    PersonRowsExceeded,
    SchemaError,
    UnknownCategory,
)
from sudare.schema import Category, Label, Number, Person, Schema

PATIENTS = """
[columns.age]
kind = "number"
low = 0
high = 110
unit = "years"

[columns.bmi]
kind = "number"
low = 10
high = 60
bins = [18.5, 25, 30, 35]

[columns.smoker]
kind = "category"
values = ["no", "yes", "former"]
missing = "no answer"

[columns.diabetes]
kind = "label"
classes = [0, 1]

[person]
column = "patient_id"
most_rows = 3
"""


def test_the_schema_of_the_story_is_read() -> None:
    schema = Schema.from_toml(PATIENTS)
    assert schema == Schema(
        {
            "age": Number(0, 110, unit="years"),
            "bmi": Number(10, 60, bins=(18.5, 25, 30, 35)),
            "smoker": Category(("no", "yes", "former"), missing="no answer"),
            "diabetes": Label((0, 1)),
        },
        Person("patient_id", 3),
    )
    assert schema.label == schema.target == "diabetes"
    assert list(schema.features) == ["age", "bmi", "smoker"]
    assert schema.columns["smoker"].levels == ("no", "yes", "former", "no answer")  # type: ignore[union-attr]
    assert schema.source_columns == ("age", "bmi", "smoker", "diabetes", "patient_id")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"columns": {}}, "no columns"),
        ({"columns": [("x", Number(0, 1))]}, "no columns"),
        ({"columns": {"": Number(0, 1)}}, "is empty"),
        ({"columns": {3: Number(0, 1)}}, "not text"),
        ({"columns": {"x": (0, 1)}}, "not a declaration"),
        ({"columns": {"x": Label((0, 1)), "y": Label((0, 1))}}, "several labels"),
        ({"columns": {"x": Number(0, 1)}, "person": Person("x", 1)}, "also declared"),
        ({"columns": {"x": Number(0, 1)}, "person": "x"}, "not a Person"),
        ({"columns": {"x": Number(0, 1)}, "target": "y"}, "'y'"),
        ({"columns": {"x": Category((0, 1))}, "target": "x"}, "not declared as a label or a number"),
        ({"columns": {"x": Number(0, 1), "y": Label((0, 1))}, "target": "x"}, "declared a label"),
        ({"columns": {"x": Number(0, 1, missing="indicator")}, "target": "x"}, "indicator"),
        ({"columns": {"a=b": Number(0, 1), "a": Category(("b", "c"))}}, "both become"),
    ],
)
def test_schemas_that_contradict_themselves_are_refused(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        Schema(**arguments)  # type: ignore[arg-type]


def test_a_number_can_be_the_target() -> None:
    text = '[columns.x]\nkind = "number"\nlow = 0\nhigh = 1\n[columns.y]\nkind = "number"\nlow = 0\nhigh = 10\n'
    schema = Schema.from_toml(text + '[target]\ncolumn = "y"\n')
    assert schema.target == "y"
    assert schema.label is None
    assert list(schema.features) == ["x"]
    assert schema.encode_target({"y": [-1, 2.5, 11]}).tolist() == [0.0, 2.5, 10.0]
    assert Schema.from_toml(schema.to_toml()) == schema
    with pytest.raises(SchemaError, match="no label"):
        schema.decode_label([1])
    with pytest.raises(SchemaError, match="no target"):
        Schema({"x": Number(0, 1)}).encode_target({"x": [1]})


FEW_COLUMNS = st.sampled_from(
    [
        Number(0, 1),
        Number(0, 2),
        Number(0, 1, missing=1),
        Number(0, 1, missing="centre"),
        Category((0, 1)),
        Category((1, 0)),
        Category((False, True)),
        Category(("0", "1")),
        Category((0, 1), missing=1),
        Category((0, 1), missing="2"),
    ]
)


FEW_SCHEMAS = st.builds(
    Schema,
    st.lists(st.tuples(st.sampled_from("ab"), FEW_COLUMNS), min_size=1, max_size=2).map(dict),
    st.sampled_from([None, Person("id", 1), Person("id", 2), Person("name", 1)]),
)


@settings(max_examples=500)
@given(FEW_SCHEMAS, FEW_SCHEMAS)
def test_digests_differ_exactly_where_schemas_differ(one: Schema, other: Schema) -> None:
    same = (repr(list(one.columns.items())), one.person) == (repr(list(other.columns.items())), other.person)
    assert (one == other) == (one.digest == other.digest) == (one.to_toml() == other.to_toml()) == same


def test_the_digest_never_changes() -> None:
    # Releases carry it: another value for the same facts would orphan them.
    assert Schema.from_toml(PATIENTS).digest == "68b8c5122a85bc81c25d2b919a1b17ec200da00e1e84ed8ca3b50231e61a6bfa"


def test_the_order_of_columns_is_a_fact() -> None:
    one = Schema({"a": Number(0, 1), "b": Number(0, 2)})
    other = Schema({"b": Number(0, 2), "a": Number(0, 1)})
    assert one != other
    assert one.digest != other.digest


def test_a_schema_cannot_be_changed() -> None:
    schema = Schema.from_toml(PATIENTS)
    with pytest.raises(TypeError):
        schema.columns["age"] = Number(0, 1)  # type: ignore[index]
    with pytest.raises(AttributeError):
        schema.target = None  # type: ignore[misc]


def test_files_are_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, path = Schema.from_toml(PATIENTS), tmp_path / "patients.toml"
    schema.save(path)
    assert Schema.load(path) == schema

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        Schema({"x": Number(0, 1)}).save(path)
    assert Schema.load(path) == schema
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_are_no_schema_are_refused(tmp_path: Path) -> None:
    for name, content in {"binary": b"\xff\xfe\x00", "large": b"#" * (2**24 + 1)}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SchemaError, match="not a schema"):
            Schema.load(tmp_path / name)
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path / "absent.toml")
    with_mark = tmp_path / "with byte order mark.toml"
    with_mark.write_bytes(PATIENTS.encode("utf-8-sig"))
    assert Schema.load(with_mark) == Schema.from_toml(PATIENTS)


def test_labels_become_codes_and_come_back() -> None:
    schema = Schema({"y": Label(("low", "high"), missing="unknown")})
    assert schema.classes == ("low", "high", "unknown")
    found = schema.encode_target({"y": pd.Series(["high", None, "low"])})
    assert found.tolist() == [1, 2, 0]
    assert schema.decode_label(found).tolist() == ["high", "unknown", "low"]
    assert schema.encode_target({"y": ["low"]}).tolist() == [0]
    for wrong in ([3], [-1], [0.5], ["low"]):
        with pytest.raises(InvalidParameter):
            schema.decode_label(wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownCategory, match=r"'y'.*`classes`"):
        schema.encode_target({"y": ["medium"]})
    with pytest.raises(MissingValue, match="'y'"):
        Schema({"y": Label((0, 1))}).encode_target({"y": [0, None]})


def test_decoded_classes_keep_their_type() -> None:
    assert Schema({"y": Label((5, 7))}).decode_label([1, 0]).dtype == np.int64
    assert Schema({"y": Label((False, True))}).decode_label([1, 0]).dtype == np.bool_
    mixed = Schema({"y": Label((5, 7), missing="none")}).decode_label([2, 0])
    assert mixed.tolist() == ["none", 5]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 6), st.integers(1, 5))
def test_persons_are_counted_over_all_batches(persons: list[int], most_rows: int, batch_rows: int) -> None:
    schema = Schema({"x": Number(0, 1)}, Person("id", most_rows))
    most = max(persons.count(person) for person in persons)
    identifiers = [f"person {person}" for person in persons]
    for form in (persons, identifiers, pd.Categorical(identifiers), [float(person) for person in persons]):
        whole = pd.DataFrame({"id": form})
        batches = (whole[start : start + batch_rows] for start in range(0, len(whole), batch_rows))
        for data in (whole, batches):
            if most <= most_rows:
                schema.check_person(data)
            else:
                with pytest.raises(PersonRowsExceeded, match=f"more rows than the {most_rows} declared"):
                    schema.check_person(data)


def test_every_row_must_say_whose_it_is() -> None:
    schema = Schema({"x": Number(0, 1)}, Person("id", 1))
    for gap in (None, float("nan"), pd.NA):
        with pytest.raises(MissingValue, match="'id'"):
            schema.check_person({"id": [1, gap]})
    with pytest.raises(MissingValue):
        schema.check_person(pl.DataFrame({"id": [1.0, float("nan")]}))
    with pytest.raises(ColumnMissing, match="'id'"):
        schema.check_person({"x": [1]})
    schema.check_person(iter([{"id": [1]}, {"id": ["a"]}]))
    for same in ([1.0], ["1"], [Decimal("1.00")]):
        with pytest.raises(PersonRowsExceeded):
            schema.check_person(iter([{"id": [1]}, {"id": same}]))
    for array in (np.array([[0.1], [0.2]]), [[0.1], [0.2]]):
        with pytest.raises(DataError, match="no column names"):
            schema.check_person(array)
    schema.check_person(iter([]))
    Schema({"x": Number(0, 1)}).check_person({"anything": [1, 1]})


def test_a_schema_shows_itself_briefly() -> None:
    schema = Schema.from_toml(PATIENTS)
    assert repr(schema) == f"<Schema of 4 columns, target 'diabetes', digest {schema.digest[:12]}>"
