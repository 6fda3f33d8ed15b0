"""Encodings from public facts alone: names, bounds and norms that every row keeps and some row reaches."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.schema import ENCODINGS, Category, Encoding, Number, Schema, SchemaEncoder, encode
from sudare.schema.encodings import square_root_rounded_up
from tests.schema_strategies import SCHEMAS_WITH_TABLES, numbers, schemas

EVERY_ENCODING = pytest.mark.parametrize("encoding", ENCODINGS)


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
