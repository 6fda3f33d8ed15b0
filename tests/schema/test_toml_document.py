"""Schemas as documents: what is written is read back, faults are told where they are, and a draft asks for every bound."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from sudare.errors import (
    SchemaError,
)
from sudare.schema import Category, Number, Person, Schema
from tests.schema.test_declaration import PATIENTS
from tests.schema_strategies import schemas


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


def test_whole_and_fractional_notation_are_the_same_number() -> None:
    assert Number(0, 1) == Number(0.0, 1.0) == Number(-0.0, np.float64(1))
    assert Schema({"x": Number(-0.0, 1)}).digest == Schema({"x": Number(0, 1)}).digest


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
    with pytest.raises(
        SchemaError, match=r'columns.mixed.kind, columns.when.first, columns.when.last, columns.odd "name".low'
    ):
        Schema.from_toml(text)
