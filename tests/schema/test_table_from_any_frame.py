"""Any frame is one plain table, and errors about it tell no value."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from sudare.errors import (
    DataError,
    SudareError,
)
from sudare.schema import Category, Number, Schema, SchemaEncoder, encode
from tests.schema.test_column_values import categorical
from tests.schema_strategies import SCHEMAS_WITH_TABLES, assert_keeps

FRAMES: dict[str, Callable[[dict[str, list[Any]]], object]] = {
    "pandas": pd.DataFrame,
    "pandas objects": lambda table: pd.DataFrame(table, dtype=object),
    "pandas nullable": lambda table: pd.DataFrame(table).convert_dtypes(),
    "polars": lambda table: pl.DataFrame(table, strict=False),
    "polars lazy": lambda table: pl.LazyFrame(table, strict=False),
    "pyarrow": pa.table,
    "pyarrow batch": pa.RecordBatch.from_pydict,
    "numpy columns": lambda table: {name: np.array(values, dtype=object) for name, values in table.items()},
    "tuples": lambda table: {name: tuple(values) for name, values in table.items()},
}


@given(SCHEMAS_WITH_TABLES)
def test_every_frame_gives_the_same_matrix(drawn: tuple[Schema, dict[str, list[Any]]]) -> None:
    schema, table = drawn
    # Unused columns and another order change nothing.
    other = dict(reversed([*table.items(), ("\0 unused", ["text"] * len(next(iter(table.values()))))]))
    expected = encode(schema, table).matrix
    for name, frame in FRAMES.items():
        np.testing.assert_array_equal(encode(schema, frame(other)).matrix, expected, err_msg=name)


@given(SCHEMAS_WITH_TABLES)
def test_arrays_hold_the_features_in_order(drawn: tuple[Schema, dict[str, list[Any]]]) -> None:
    schema, table = drawn
    rows = [list(row) for row in zip(*(table[name] for name in schema.features), strict=True)]
    expected = encode(schema, table).matrix
    np.testing.assert_array_equal(encode(schema, rows).matrix, expected)
    np.testing.assert_array_equal(encode(schema, np.array(rows, dtype=object)).matrix, expected)


def test_other_forms_of_input() -> None:
    schema = Schema({"x": Number(0, 10), "c": Category(("a", "b"))})
    expected = [[0.1, 1, 0], [0.5, 0, 1]]
    structured = np.array([(1, "a"), (5, "b")], dtype=[("x", "f4"), ("c", "U3")])
    assert encode(schema, structured).matrix.tolist() == expected
    assert (
        encode(schema, pd.DataFrame({"x": [1, 5], "c": categorical(["a", "b"], ["z", "b", "a"])})).matrix.tolist()
        == expected
    )
    assert (
        encode(schema, pl.DataFrame({"x": [1, 5], "c": pl.Series(["a", "b"], dtype=pl.Categorical)})).matrix.tolist()
        == expected
    )
    views = pa.table({"x": pa.array([1, 5], pa.uint8()), "c": pa.array(["a", "b"], pa.string_view())})
    assert encode(schema, views).matrix.tolist() == expected
    decimals = {"x": [decimal.Decimal("1"), decimal.Decimal("5.0")], "c": ["a", "b"]}
    assert encode(schema, decimals).matrix.tolist() == expected
    unnamed = pd.DataFrame(np.array([[1.0], [5.0]]))
    assert encode(Schema({"0": Number(0, 10)}), unnamed).matrix.ravel().tolist() == [0.1, 0.5]
    assert encode(Schema({"0": Number(0, 10)}), {"0": categorical([1.0, 5.0])}).matrix.ravel().tolist() == [0.1, 0.5]
    chunks = pa.chunked_array([["a"], [], ["b"]]).dictionary_encode()
    assert encode(schema, pa.table({"x": [1, 5], "c": chunks})).matrix.tolist() == expected


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (np.array([1.0, 2.0]), "two dimensions"),
        ([[1, 2], [3]], "two dimensions"),
        ("patients.parquet", "two dimensions"),
        (None, "two dimensions"),
        ({"x": [1, 2], "y": [1]}, "different lengths"),
        (pd.DataFrame(np.eye(2), columns=["x", "x"]), "same name"),
        (pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["x", "x"]), "same name"),
        ({"x": [1], 0: [1], "0": [1]}, "same name"),
        (np.eye(3), "3 columns where 2"),
    ],
)
def test_what_is_no_table_is_refused(data: object, told: str) -> None:
    with pytest.raises(DataError, match=told):
        encode(Schema({"x": Number(0, 1), "y": Number(0, 1)}), data)


def test_running_out_of_memory_is_not_taken_for_a_wrong_type() -> None:
    class Endless:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise MemoryError

    with pytest.raises(MemoryError):
        encode(Schema({"x": Number(0, 1)}), Endless())


def leaky_tables(secret: str) -> dict[str, tuple[Any, object]]:
    """For every way in which data can be refused: a declaration, and data that contain the secret."""
    number, text = Number(0, 1), Category(("a", "b"))
    return {
        "unknown category": (text, {"x": [secret]}),
        "unknown category in a dictionary": (text, {"x": categorical([secret])}),
        "unknown whole number": (Category((0, 1)), {"x": [int(secret, 16)]}),
        "text for numbers": (number, {"x": [secret]}),
        "text among numbers": (number, {"x": [1, secret]}),
        "text among numbers, pandas": (number, pd.DataFrame({"x": [1.5, secret]}, dtype=object)),
        "text among numbers, array": (number, np.array([[1.5], [secret]], dtype=object)),
        "numbers among text": (text, {"x": [secret, 1]}),
        "bytes": (text, {"x": [secret.encode()]}),
        "bytes among text": (text, {"x": [secret, secret.encode()]}),
        "broken text": (text, {"x": [secret + "\ud800"]}),
        "objects": (text, {"x": [{secret: secret}]}),
        "mixed categories": (text, {"x": categorical([secret, 1])}),
        "missing beside a secret": (Category((secret, "b")), {"x": [secret, None]}),
        "missing column": (number, {secret: [secret]}),
        "missing column, pandas": (number, pd.DataFrame({secret: [secret]})),
        "missing column, lazy": (number, pl.LazyFrame({secret: [secret]})),
        "two columns of one name": (number, pd.DataFrame([[secret, secret]], columns=[secret, secret])),
        "different lengths": (number, {"x": [1.0, 2.0], secret: [secret]}),
        "no table": (number, secret),
        "ragged rows": (number, [[secret], [secret, secret]]),
        "wrong width": (number, np.array([[secret, secret]])),
        "lazy failure": (number, pl.LazyFrame({"x": [secret]}).with_columns(pl.col("x").cast(pl.Float64))),
    }


@pytest.mark.parametrize("way", leaky_tables("0"))
def test_errors_about_data_tell_no_value(way: str) -> None:
    secret = uuid.uuid4().hex
    column, data = leaky_tables(secret)[way]
    if way == "different lengths":
        schema = Schema({"x": column, "y": column})
        data = {"x": [1.0, 2.0], "y": [float(int(secret, 16))]}
        secret = str(data["y"][0])
    else:
        schema = Schema({"x": column})
    with pytest.raises(SudareError) as caught:
        SchemaEncoder(schema).fit_transform(data)
    assert_keeps(secret, caught.value)
    if "unknown whole number" in way:
        assert_keeps(str(int(secret, 16)), caught.value)
