"""Declarations check themselves, survive every way of writing them down, and never take a fact from data."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.errors import (
    ColumnMissing,
    InvalidParameter,
    MissingValue,
    PersonRowsExceeded,
    SchemaError,
    UnknownCategory,
    WrongType,
)
from sudare.schema import Category, Label, Number, Person, Schema
from tests.schema_strategies import schemas

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


@pytest.mark.parametrize("most_rows", [0, -1, 1.0, True, "3", None])
def test_most_rows_is_a_whole_number_from_one(most_rows: object) -> None:
    with pytest.raises(SchemaError, match="most_rows"):
        Person("id", most_rows)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PATIENTS.replace("low = 0", "lwo = 0"), "Did you mean 'low'"),
        (PATIENTS.replace("[person]", "[persons]"), "Did you mean 'person'"),
        (PATIENTS.replace("most_rows = 3", "most_row = 3"), "Did you mean 'most_rows'"),
        (PATIENTS.replace('"category"', '"categorie"'), "Did you mean 'category'"),
        (PATIENTS.replace("high = 110", ""), "'age' lacks `high`"),
        (PATIENTS.replace("most_rows = 3", ""), "lacks `most_rows`"),
        (PATIENTS.replace('kind = "label"', ""), "'diabetes' has no known `kind`"),
        (PATIENTS + "[target]\n", "lacks `column`"),
        (PATIENTS + "\n[columns.age]\n", "not valid TOML .at line "),
        ("columns = 3", "not a table of columns"),
        ("columns.x = 3", "'x' is not a section"),
        ("person = 3\ncolumns = {}", "not a table"),
        ("", "no columns"),
        ("x = " + "[" * 20000, "not valid TOML"),
        ("x = " + "9" * 5000, "not valid TOML"),
    ],
)
def test_a_faulty_document_is_told_where_and_what(text: str, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        Schema.from_toml(text)


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


@given(schemas())
def test_every_way_of_writing_gives_the_same_schema_back(schema: Schema) -> None:
    copies = [
        Schema.from_toml(schema.to_toml()),
        Schema.from_dict(schema.to_dict()),
        Schema.from_dict(json.loads(json.dumps(schema.to_dict()))),
        pickle.loads(pickle.dumps(schema)),
        copy.deepcopy(schema),
    ]
    for other in copies:
        assert other == schema
        assert hash(other) == hash(schema)
        assert other.digest == schema.digest
        assert other.to_toml() == schema.to_toml()
        assert list(other.columns) == list(schema.columns)


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


def test_the_largest_whole_numbers_survive() -> None:
    schema = Schema({"x": Category((-(2**63), 2**63 - 1), missing=2**53 + 1), "y": Number(-(2**60), 2**60)})
    assert Schema.from_toml(schema.to_toml()) == schema
    assert schema != "another thing"
    assert schema.names() == (f"x={-(2**63)}", f"x={2**63 - 1}", f"x={2**53 + 1}", "y")


def test_a_question_mark_can_be_a_name() -> None:
    number = Number(0, 1, unit="?")
    for schema in (
        Schema({"?": number}, target="?"),
        Schema({"x": number}, Person("?", 1)),
        Schema({"x": Category(("a", "?"), missing="?")}),
    ):
        assert Schema.from_toml(schema.to_toml()) == schema


def test_the_order_of_columns_is_a_fact() -> None:
    one = Schema({"a": Number(0, 1), "b": Number(0, 2)})
    other = Schema({"b": Number(0, 2), "a": Number(0, 1)})
    assert one != other
    assert one.digest != other.digest


def test_whole_and_fractional_notation_are_the_same_number() -> None:
    assert Number(0, 1) == Number(0.0, 1.0) == Number(-0.0, np.float64(1))
    assert Schema({"x": Number(-0.0, 1)}).digest == Schema({"x": Number(0, 1)}).digest


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


SECRETS = {"age": [17.25, 93.5], "count": [417, 998], "town": ["Xanadu", "Atlantis"], "ok": [True, False]}


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(SECRETS),
        pd.DataFrame(SECRETS).astype({"town": "category"}),
        pl.DataFrame(SECRETS),
        pl.DataFrame(SECRETS, schema_overrides={"town": pl.Enum(["Xanadu", "Atlantis"])}),
        pa.table(SECRETS),
        pa.table(SECRETS).schema,
        SECRETS,
    ],
    ids=["pandas", "pandas categories", "polars", "polars enum", "pyarrow", "pyarrow schema", "dictionary"],
)
def test_a_draft_asks_and_takes_nothing_from_the_data(table: object) -> None:
    text = Schema.draft(table)
    for secrets in ("17.25", "93.5", "417", "998", "Xanadu", "Atlantis"):
        assert secrets not in text
    with pytest.raises(
        SchemaError, match=r"is a draft: columns.age.low, columns.age.high, columns.count.low"
    ) as caught:
        Schema.from_toml(text)
    assert "columns.town.values" in str(caught.value)
    filled = text.replace('low = "?"', "low = 0").replace('high = "?"', "high = 1000")
    schema = Schema.from_toml(filled.replace('values = "?"', 'values = ["?", "a"]'))
    assert schema.columns["ok"] == Category((False, True))
    assert schema.columns["town"] == Category(("?", "a"))


def test_a_draft_asks_what_an_odd_column_is() -> None:
    text = Schema.draft({"mixed": [1, "a"], "when": [pd.Timestamp(0)], 'odd "name"': [1.0], "empty": [None]})
    with pytest.raises(SchemaError, match=r'columns.mixed.kind, columns.when.kind, columns.odd "name".low'):
        Schema.from_toml(text)


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
    with pytest.raises(WrongType, match="different types"):
        schema.check_person(iter([{"id": [1]}, {"id": ["a"]}]))
    schema.check_person(iter([]))
    Schema({"x": Number(0, 1)}).check_person({"anything": [1, 1]})


def test_a_schema_shows_itself_briefly() -> None:
    schema = Schema.from_toml(PATIENTS)
    assert repr(schema) == f"<Schema of 4 columns, target 'diabetes', digest {schema.digest[:12]}>"
