"""Tables become matrices by the schema alone: within its bounds and norm, whatever frame they come in, telling no value."""

from __future__ import annotations

import copy
import decimal
import math
import pickle
import uuid
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from sudare.errors import (
    ColumnMissing,
    DataError,
    InvalidParameter,
    MissingValue,
    SchemaError,
    SudareError,
    UnknownCategory,
    WrongType,
)
from sudare.schema import ENCODINGS, Category, Encoding, Label, Number, Schema, SchemaEncoder, counted, encode
from sudare.schema.encoded_array import block_rows
from sudare.schema.encoder import bin_positions, encoded_by_blocks
from sudare.schema.encodings import square_root_rounded_up
from tests.schema_strategies import SCHEMAS_WITH_TABLES, assert_keeps, numbers, schemas

EVERY_ENCODING = pytest.mark.parametrize("encoding", ENCODINGS)


def categorical(values: list[Any], categories: list[Any] | None = None) -> pd.Series:
    """A column that is stored as codes and a dictionary."""
    return pd.Series(pd.Categorical(values, categories))


def norm_squared(row: np.ndarray) -> Fraction:
    """The squared Euclidean norm without any rounding."""
    return sum((Fraction(float(value)) ** 2 for value in row), Fraction(0))


def absolute_sum(row: np.ndarray) -> Fraction:
    """The sum of absolute values without any rounding."""
    return sum((abs(Fraction(float(value))) for value in row), Fraction(0))


@given(SCHEMAS_WITH_TABLES)
def test_no_row_leaves_the_public_bounds(drawn: tuple[Schema, dict[str, list[Any]]]) -> None:
    schema, table = drawn
    for encoding in ENCODINGS:
        matrix = SchemaEncoder(schema, encoding).fit_transform(table)
        low, high = schema.bounds(encoding)
        names = schema.names(encoding)
        assert matrix.dtype == np.float64
        assert matrix.shape == (len(next(iter(table.values()))), len(names))
        assert len(set(names)) == len(names) == len(low) == len(high)
        assert (low <= matrix).all()
        assert (matrix <= high).all()
        bound_squared = Fraction(schema.norm_bound(encoding)) ** 2
        for row in matrix:
            assert norm_squared(row) <= bound_squared
            assert absolute_sum(row) <= Fraction(schema.sum_bound(encoding))


@given(
    st.lists(numbers(), min_size=1, max_size=4),
    st.lists(st.integers(0, 2**32), min_size=1, max_size=3),
    st.sampled_from([1, 7, "a block", "a row more than a block"]),
    st.sampled_from([0.0, 0.2]),
    st.booleans(),
)
def test_an_array_is_encoded_as_its_columns_are(
    declared: list[Number], seeds: list[int], size: int | str, beyond: float, gaps: bool
) -> None:
    """The quick path for whole arrays gives the very numbers of the general one; gaps, infinities and zeros included."""
    schema = Schema({f"c{index}": number for index, number in enumerate(declared)})
    random = np.random.default_rng(seeds)
    rows = size if isinstance(size, int) else block_rows(len(declared)) + (size != "a block")
    low, high = (np.array([getattr(number, end) for number in declared]) for end in ("low", "high"))
    with np.errstate(over="ignore"):
        array = low + (high - low) * random.uniform(-beyond, 1 + beyond, size=(rows, len(declared)))
    if beyond:
        array[random.random(array.shape) < 0.1] = random.choice([0.0, -0.0, np.inf, -np.inf])
    if gaps and all(number.missing is not None for number in declared):
        array[random.random(array.shape) < 0.2] = np.nan
    columns = {name: array[:, index] for index, name in enumerate(schema.features)}
    for encoding in ENCODINGS:
        from_array, from_columns = encode(schema, array, encoding), encode(schema, columns, encoding)
        np.testing.assert_array_equal(from_array.matrix, from_columns.matrix)
        assert from_array.clipped == from_columns.clipped
        by_blocks = encoded_by_blocks(schema, array, encoding)
        blocks = [block.copy() for block in by_blocks.blocks()]
        np.testing.assert_array_equal(np.concatenate(blocks), from_columns.matrix)
        assert (by_blocks.shape, by_blocks.clipped) == (from_columns.matrix.shape, from_columns.clipped)
    for table in (array, columns):
        found = counted(schema, table)
        assert found.cells.tolist() == encode(schema, columns, "binned").matrix.sum(axis=0).tolist()
        assert (found.rows, found.clipped) == (rows, encode(schema, columns).clipped)


@given(SCHEMAS_WITH_TABLES)
def test_counts_are_the_sums_of_the_binned_columns(drawn: tuple[Schema, dict[str, list[Any]]]) -> None:
    schema, table = drawn
    encoded, found = encode(schema, table, "binned"), counted(schema, table)
    assert found.cells.tolist() == encoded.matrix.sum(axis=0).tolist()
    assert (found.rows, found.clipped) == (len(encoded.matrix), encoded.clipped)


@pytest.mark.parametrize("edges", [1, 2, 64, 65, 300])
def test_bins_are_found_by_comparing_or_by_searching(edges: int) -> None:
    number = Number(0, 1, bins=tuple(np.linspace(0, 1, edges + 2)[1:-1].tolist()), missing="indicator")
    values = np.concatenate([np.random.default_rng(0).random(500), number.edges, [0.0, 1.0]])
    gaps = np.arange(len(values)) % 7 == 0
    expected = np.where(gaps, edges + 1, np.searchsorted(number.edges, values, side="right"))
    np.testing.assert_array_equal(bin_positions(values, gaps, number), expected)


def test_rounding_does_not_carry_an_array_out_of_its_bounds() -> None:
    """(−2 + 1.9)/0.1 comes out below −1: floats have no tenths."""
    number = Number(-2.0, -1.8)
    assert (number.low - number.public_centre) / number.public_scale < -1
    encoded = encode(Schema({"x": number}), np.array([[-2.0], [-1.8]]), "centred").matrix
    assert encoded[0, 0] == -1
    assert encoded[1, 0] <= 1


def test_a_gap_is_filled_in_the_column_that_has_it() -> None:
    schema = Schema({"x": Number(0, 10, missing="centre"), "y": Number(0, 10, missing=2.0)})
    encoded = encode(schema, np.array([[4.0, np.nan], [11.0, 3.0]]))
    np.testing.assert_array_equal(encoded.matrix, [[0.4, 0.2], [1.0, 0.3]])
    assert encoded.clipped == {"x": 1, "y": 0}


def test_an_array_with_a_gap_that_means_nothing_is_refused() -> None:
    schema = Schema({"x": Number(0, 1)})
    for look in (encode, counted):
        with pytest.raises(MissingValue, match="'x'"):
            look(schema, np.array([[0.5], [np.nan]]))


def test_an_unknown_encoding_of_an_array_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no encoding of that name"):
        encode(Schema({"x": Number(0, 1)}), np.array([[0.5]]), "magic")  # type: ignore[arg-type]


@given(schemas())
def test_the_bounds_on_norm_and_sum_are_reached(schema: Schema) -> None:
    for encoding in ENCODINGS:
        largest, largest_sum = Fraction(0), Fraction(0)
        for name, column in schema.features.items():
            values = [column.low, column.high] if isinstance(column, Number) else [column.levels[0]]
            gap = [] if column.missing is None else [None]
            rows = encode(Schema({name: column}), {name: [*values, *gap]}, encoding).matrix
            largest += max(norm_squared(row) for row in rows)
            largest_sum += max(absolute_sum(row) for row in rows)
        bound, sum_bound = schema.norm_bound(encoding), schema.sum_bound(encoding)
        assert Fraction(math.nextafter(bound, 0)) ** 2 < largest <= Fraction(bound) ** 2
        assert Fraction(math.nextafter(sum_bound, 0)) < largest_sum <= Fraction(sum_bound)


def test_one_hot_groups_count_once() -> None:
    schema = Schema({"a": Category(("x", "y", "z")), "b": Number(0, 7), "c": Category((1, 2)), "d": Number(-3, 3)})
    for encoding in ENCODINGS:
        assert schema.norm_bound(encoding) == 2.0
        assert schema.sum_bound(encoding) == 4.0
    marked = Schema({"x": Number(0, 10, missing="indicator")})
    assert marked.norm_bound("centred") == marked.norm_bound("binned") == 1.0
    assert marked.norm_bound("scaled") == math.sqrt(1.25)
    assert marked.sum_bound("centred") == marked.sum_bound("binned") == 1.0
    assert marked.sum_bound("scaled") == 1.5


@given(st.fractions(min_value=0) | st.floats(0, 1e300).map(lambda value: Fraction(value) ** 2))
def test_square_roots_are_rounded_up_once(value: Fraction) -> None:
    root = square_root_rounded_up(value)
    assert Fraction(root) ** 2 >= value
    assert root == 0 or Fraction(math.nextafter(root, 0)) ** 2 < value


def test_the_three_encodings_of_a_number() -> None:
    schema = Schema({"x": Number(0, 10, centre=4, scale=2, bins=(2, 5))})
    table = {"x": [-math.inf, 0, 2, 5, 10, math.inf]}
    assert encode(schema, table, "scaled").matrix.ravel().tolist() == [0, 0, 0.2, 0.5, 1, 1]
    assert encode(schema, table, "centred").matrix.ravel().tolist() == [-2, -2, -1, 0.5, 3, 3]
    # A bin contains its left edge; the last one also `high`.
    assert encode(schema, table, "binned").matrix.argmax(axis=1).tolist() == [0, 0, 1, 2, 2, 2]
    assert schema.names("binned") == ("x=[0, 2)", "x=[2, 5)", "x=[5, 10]")
    assert schema.bounds("centred")[0].tolist() == [-2]
    assert schema.bounds("centred")[1].tolist() == [3]


def test_defaults_are_the_middle_half_the_range_and_ten_bins() -> None:
    schema = Schema({"x": Number(-1, 3)})
    assert encode(schema, {"x": [-1, 1, 3]}, "centred").matrix.ravel().tolist() == [-1, 0, 1]
    assert len(schema.names("binned")) == 10
    assert schema.names("binned")[0] == "x=[-1, -0.6)"


@given(numbers(), st.data())
def test_bins_are_closed_on_the_left(number: Number, data: st.DataObject) -> None:
    edges = (number.low, *number.edges, number.high)
    value = data.draw(st.sampled_from(edges) | st.floats(number.low, number.high))
    row = encode(Schema({"x": number}), {"x": [value]}, "binned").matrix[0]
    expected = next(
        i for i in range(len(edges) - 1) if edges[i] <= value < edges[i + 1] or value == edges[-1] == edges[i + 1]
    )
    assert row.argmax() == expected
    assert row.sum() == 1


@EVERY_ENCODING
@pytest.mark.parametrize(
    "column", [Number(-1.5, 4), Number(1, math.nextafter(1, 2)), Number(0, 5e-324), Number(-8e307, 8e307)]
)
def test_extreme_ranges_encode(column: Number, encoding: Encoding) -> None:
    schema = Schema({"x": column})
    matrix = encode(schema, {"x": [column.low, column.high, math.inf]}, encoding).matrix
    assert np.isfinite(matrix).all()
    assert (np.abs(matrix) <= 1).all()


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


def test_how_much_was_clipped_is_told_to_the_owner_only() -> None:
    schema = Schema({"x": Number(0, 1), "y": Number(0, 1, missing="centre"), "c": Category(("a", "b"))})
    encoder = SchemaEncoder(schema)
    assert encoder.clipped_ == {}
    encoder.fit_transform({"x": [-1, 2, 0.5, math.inf], "y": [None, None, 0, 1], "c": ["a"] * 4})
    assert encoder.clipped_ == {"x": 3, "y": 0}
    encoder.clipped_["x"] = 0
    assert encoder.clipped_ == {"x": 3, "y": 0}
    assert "clipped" not in repr(encoder)
    assert list(encoder.get_params()) == ["encoding", "schema"]
    for traveller in (clone(encoder), pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder)):
        assert traveller.clipped_ == {}
        assert traveller.schema == schema
    assert b"clipped" not in pickle.dumps(encoder)


def test_fit_reads_names_and_nothing_else() -> None:
    schema = Schema({"x": Number(0, 1), "c": Category(("a", "b"))})
    unfit = {"x": ["text"], "c": [3.5], "other": [1]}
    encoder = SchemaEncoder(schema, "centred").fit(unfit)
    assert encoder.n_features_in_ == 2
    assert encoder.feature_names_in_.tolist() == ["x", "c"]
    assert encoder.norm_bound_ == schema.norm_bound("centred")
    fitted_elsewhere = SchemaEncoder(schema, "centred").fit(pd.DataFrame({"x": [1e9], "c": ["b"]}))
    table = {"x": [0.25], "c": ["a"]}
    assert encoder.transform(table).tolist() == fitted_elsewhere.transform(table).tolist()
    assert SchemaEncoder(schema, "centred").transform(table).tolist() == encoder.transform(table).tolist()
    with pytest.raises(ColumnMissing, match="lacks 'x', 'c'"):
        encoder.fit({"y": [1]})
    with pytest.raises(ColumnMissing, match="lacks 'c'"):
        encoder.transform(pd.DataFrame({"x": [1]}))
    with pytest.raises(DataError, match="0 sample"):
        encoder.transform(pd.DataFrame({"x": [], "c": []}))


def test_wrong_parameters_are_refused_in_fit() -> None:
    schema = Schema({"x": Number(0, 1)})
    with pytest.raises(InvalidParameter, match="'scaled', 'centred', 'binned'"):
        SchemaEncoder(schema, "onehot").fit({"x": [1]})  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="not a Schema"):
        SchemaEncoder("patients.toml").fit({"x": [1]})  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="no features"):
        SchemaEncoder(Schema({"y": Label((0, 1))})).fit({"y": [1]})
    with pytest.raises(InvalidParameter, match="input_features"):
        SchemaEncoder(schema).get_feature_names_out(["z"])
    assert SchemaEncoder(schema).get_feature_names_out(["x"]).tolist() == ["x"]


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


def test_frames_come_out_with_names_and_index() -> None:
    schema = Schema({"x": Number(0, 1), "c": Category(("a", "b"))})
    table = pd.DataFrame({"c": ["a", "b"], "x": [0.5, 1]}, index=[7, 9])
    out = SchemaEncoder(schema).set_output(transform="pandas").fit_transform(table)
    assert list(out.columns) == ["x", "c=a", "c=b"]
    assert out.index.tolist() == [7, 9]
    polars = SchemaEncoder(schema).set_output(transform="polars").fit_transform(table)
    assert polars.columns == ["x", "c=a", "c=b"]


def test_the_encoder_works_in_a_pipeline() -> None:
    schema = Schema({"x": Number(0, 10), "c": Category(("a", "b")), "y": Label(("no", "yes"))})
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 200)
    table = pd.DataFrame({"x": x, "c": rng.choice(["a", "b"], 200), "y": np.where(x > 5, "yes", "no")})
    pipeline = make_pipeline(SchemaEncoder(schema), LogisticRegression())
    codes = schema.encode_target(table)
    assert cross_val_score(pipeline, table, codes, cv=3).min() > 0.9
    assert pipeline.fit(table, codes)[:-1].get_feature_names_out().tolist() == ["x", "c=a", "c=b"]


# The number of columns of the data that a scikit-learn check makes; those not named take any number.
WIDTHS = {
    "check_fit2d_1feature": 1,
    **dict.fromkeys(
        [
            "check_estimators_overwrite_params",
            "check_estimators_fit_returns_self",
            "check_readonly_memmap_input",
            "check_fit_idempotent",
            "check_fit_check_is_fitted",
            "check_n_features_in",
        ],
        2,
    ),
    "check_n_features_in_after_fitting": 4,
    "check_positive_only_tag_during_fit": 4,
    "check_estimators_dtypes": 5,
    "check_transformers_unfitted_stateless": 5,
    "check_dtype_object": 10,
    "check_fit2d_1sample": 10,
}
# It skips itself unless scipy was started in a special mode.
NOT_RUN = {"check_array_api_input"}


def encoder_of_width(width: int) -> SchemaEncoder:
    return SchemaEncoder(Schema({f"x{index}": Number(-100, 100, missing="centre") for index in range(width)}))


CHECKS = sorted({check.func.__name__ for _, check in estimator_checks_generator(encoder_of_width(3))} - NOT_RUN)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_accepts_the_encoder(name: str) -> None:
    encoder = encoder_of_width(WIDTHS.get(name, 3))
    found = [check for _, check in estimator_checks_generator(encoder) if check.func.__name__ == name]
    assert found
    for check in found:
        check(encoder)


def test_the_list_of_scikit_learn_checks_is_not_empty() -> None:
    assert len(CHECKS) > 30
    assert set(WIDTHS) <= set(CHECKS)


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
