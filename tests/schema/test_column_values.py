"""The values of one column: every width of number, every gap, and no value of another kind than declared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sudare.errors import (
    MissingValue,
    SudareError,
    UnknownCategory,
    WrongType,
)
from sudare.schema import Category, Number, Schema, encode


def categorical(values: list[Any], categories: list[Any] | None = None) -> pd.Series:
    """A column that is stored as codes and a dictionary."""
    return pd.Series(pd.Categorical(values, categories))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", ">f8", "i1", "u8", ">i4"])
def test_numbers_of_every_width(dtype: str) -> None:
    matrix = encode(Schema({"x": Number(0, 10)}), np.array([[1], [5]], dtype=dtype)).matrix
    assert matrix.ravel().tolist() == [0.1, 0.5]


GAPS = {
    "None": {"x": [5, None]},
    "NaN": {"x": [5, math.nan]},
    "pandas NA": {"x": [5, pd.NA]},
    "pandas nullable": pd.DataFrame({"x": pd.array([5, None], dtype="Int64")}),
    "pandas float": pd.DataFrame({"x": [5, None]}),
    "polars null": pl.DataFrame({"x": [5, None]}),
    "polars NaN": pl.DataFrame({"x": [5.0, math.nan]}),
    "pyarrow null": pa.table({"x": [5, None]}),
    "masked": {"x": np.ma.masked_array([5, 7], [False, True])},
    "masked objects": {"x": np.ma.masked_array(np.array([5, "?"], dtype=object), [False, True])},
    "masked matrix": np.ma.masked_array([[5], [7]], [[False], [True]]),
    "array": np.array([[5], [math.nan]]),
}


@pytest.mark.parametrize("gap", GAPS)
def test_every_gap_is_missing(gap: str) -> None:
    table = GAPS[gap]
    for declared in (Number(0, 10), Category((5, 7))):
        with pytest.raises(MissingValue, match="'x'"):
            encode(Schema({"x": declared}), table)
    assert encode(Schema({"x": Number(0, 10, missing=2)}), table).matrix.ravel().tolist() == [0.5, 0.2]
    assert encode(Schema({"x": Number(0, 10, missing="centre")}), table).matrix.ravel().tolist() == [0.5, 0.5]
    marked = Schema({"x": Number(0, 10, centre=2, missing="indicator", bins=(3,))})
    assert encode(marked, table).matrix.tolist() == [[0.5, 0], [0.2, 1]]
    assert encode(marked, table, "binned").matrix.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert marked.names() == ("x", "x=missing")
    assert encode(Schema({"x": Category((5, 7), missing=7)}), table).matrix.tolist() == [[1, 0], [0, 1]]
    further = Schema({"x": Category((5, 7), missing="no answer")})
    assert further.names() == ("x=5", "x=7", "x=no answer")
    assert encode(further, table).matrix.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_column_with_nothing_in_it_is_missing() -> None:
    schema = Schema({"x": Number(0, 1, missing=1), "c": Category(("a", "b"), missing="b")})
    for table in (pa.table({"x": pa.nulls(2), "c": pa.nulls(2)}), {"x": [None, None], "c": [None, None]}):
        assert encode(schema, table).matrix.tolist() == [[1, 0, 1]] * 2


@pytest.mark.parametrize(
    ("declared", "values", "error"),
    [
        (Category((0, 1)), [True, False], WrongType),
        (Category((0, 1)), ["0", "1"], WrongType),
        (Category((0, 1)), [0, True], WrongType),
        (Category((0, 1)), [0.0, True], WrongType),
        (Category((0, 1)), [0, 0.5], UnknownCategory),
        (Category((0, 1)), [0, 2], UnknownCategory),
        (Category((0, 1)), [0, math.inf], UnknownCategory),
        (Category((0, 1)), [0, 2**64], UnknownCategory),
        # 2^53 + 1 as a fraction is 2^53: it must not be taken for its neighbour.
        (Category((0, 2**53)), [0.0, float(2**53 + 1)], UnknownCategory),
        (Category((0, -1)), np.array([0, 2**64 - 1], dtype=np.uint64), UnknownCategory),
        (Category((False, True)), [0, 1], WrongType),
        (Category((False, True)), [0.0, 1.0], WrongType),
        (Category((False, True)), ["true"], WrongType),
        (Category(("0", "1")), [0, 1], WrongType),
        (Category(("true", "false")), [True], WrongType),
        (Category(("a", "b")), ["a", "c"], UnknownCategory),
        (Category(("a", "b")), ["a", " b"], UnknownCategory),
        (Category(("a", "b")), [b"a", b"b"], WrongType),
        (Category(("a", "b")), ["a", 1], WrongType),
        (Category(("a", "b")), categorical(["a", "c"]), UnknownCategory),
        (Category(("a", "b")), categorical([1, 2]), WrongType),
        (Number(0, 1), ["0.5"], WrongType),
        (Number(0, 1), [True], WrongType),
        (Number(0, 1), [0.5, True], WrongType),
        (Number(0, 1), [np.True_, 1], WrongType),
        (Number(0, 1), [1j], WrongType),
        (Number(0, 1), [pd.Timestamp(0)], WrongType),
        (Number(0, 1), [pd.Timedelta(1)], WrongType),
        (Number(0, 1), categorical(["a"]), WrongType),
        (Number(0, 1), [[1], [2]], WrongType),
        (Number(0, 1), np.eye(2), WrongType),
        (Number(0, 1), [{"a": 1}], WrongType),
        (Number(0, 1), pl.Series([object()], dtype=pl.Object), WrongType),
    ],
)
def test_values_of_another_kind_are_refused(declared: Any, values: object, error: type[SudareError]) -> None:
    with pytest.raises(error, match="'x'"):
        encode(Schema({"x": declared}), {"x": values})


def test_kinds_that_fit_are_taken() -> None:
    whole = Schema({"x": Category((0, 1))})
    for values in ([0, 1], [0.0, 1.0], np.array([0, 1], dtype=np.uint8), categorical([0, 1]), pd.Series([0, 1.0])):
        assert encode(whole, {"x": values}).matrix.tolist() == [[1, 0], [0, 1]]
    boolean = Schema({"x": Category((False, True))})
    for values in ([False, True], np.array([False, True]), pd.array([False, True], dtype="boolean")):
        assert encode(boolean, {"x": values}).matrix.tolist() == [[1, 0], [0, 1]]
    assert encode(Schema({"x": Number(0, 1)}), {"x": [10**30, -(10**30), 1]}).matrix.ravel().tolist() == [1, 0, 1]
    longest = (-(2**63), 2**63 - 1, 2**53, 2**53 + 1)
    assert encode(Schema({"x": Category(longest)}), {"x": longest}).matrix.tolist() == np.eye(4).tolist()
    unused = categorical(["a", "b"], ["a", "b", "never seen"])
    assert encode(Schema({"x": Category(("a", "b"))}), {"x": unused}).matrix.tolist() == [[1, 0], [0, 1]]
