"""Whole arrays of numbers, encoded block by block, give the very numbers of the general way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import (
    InvalidParameter,
    MissingValue,
)
from sudare.schema import ENCODINGS, Number, Schema, counted, encode
from sudare.schema.blockwise_encoding import EncodedArray, block_rows
from tests.schema_strategies import numbers


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
        by_blocks = EncodedArray.of(array, schema.features, encoding)
        if by_blocks is not None:
            blocks = [block.copy() for block in by_blocks.blocks()]
            np.testing.assert_array_equal(np.concatenate(blocks), from_columns.matrix)
            assert (by_blocks.shape, by_blocks.clipped) == (from_columns.matrix.shape, from_columns.clipped)
    for table in (array, columns):
        found = counted(schema, table)
        assert found.cells.tolist() == encode(schema, columns, "binned").matrix.sum(axis=0).tolist()
        assert (found.rows, found.clipped) == (rows, encode(schema, columns).clipped)


def test_rounding_does_not_carry_an_array_out_of_its_bounds() -> None:
    """(−2 + 1.9)/0.1 comes out below −1: floats have no tenths."""
    number = Number(-2.0, -1.8)
    assert (number.low - number.public_centre) / number.public_scale < -1
    encoded = encode(Schema({"x": number}), np.array([[-2.0], [-1.8]]), "centred").matrix
    assert encoded[0, 0] == -1
    assert encoded[1, 0] <= 1


def test_a_column_too_narrow_for_edges_has_one_bin() -> None:
    """Between 0 and the smallest float there is no other."""
    schema = Schema({"x": Number(0.0, 5e-324)})
    assert schema.columns["x"].edges == ()
    assert counted(schema, np.array([[0.0], [5e-324]])).cells.tolist() == [2]


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
