"""From a table to a float64 matrix by the schema alone: nothing is learned from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter, SchemaError
from sudare.schema.blockwise_encoding import EncodedArray, is_plain, row_slices
from sudare.schema.column_values import Codes, clipped_numbers, codes, declared_numbers, within_bounds
from sudare.schema.columns import Column, Number
from sudare.schema.declaration import Schema
from sudare.schema.encodings import Encoding, checked_encoding, encoded_numbers
from sudare.schema.table_from_any_frame import as_table, column_names, refuse_missing_columns

# Beyond so many edges a search is quicker than looking at each; eight bits must hold their number.
MOST_EDGES_COMPARED = 64


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """An encoded table, for its owner.

    `clipped` says how many values of each number column lay outside the bounds: an exact count, not to be passed on.
    """

    matrix: Floats
    clipped: Mapping[str, int]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and encoded columns."""
        rows, columns = self.matrix.shape
        return rows, columns


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    """How many rows there are in each cell of the binned encoding, one column's cells after the other's, for its owner."""

    cells: Codes
    rows: int
    clipped: Mapping[str, int]

    def __add__(self, other: Counted) -> Counted:
        """How many there are in both tables together."""
        clipped = {name: count + other.clipped[name] for name, count in self.clipped.items()}
        return Counted(self.cells + other.cells, self.rows + other.rows, clipped)

    def beside(self, other: Counted) -> Counted:
        """The cells of these columns, then those of other columns of the same rows."""
        return Counted(np.append(self.cells, other.cells), self.rows, {**self.clipped, **other.clipped})


def encode(schema: Schema, table: object, encoding: Encoding = "scaled") -> Encoded:
    """The features of a table as a matrix, one row per row."""
    features = schema.features
    array = EncodedArray.of(table, features, checked_encoding(encoding))
    if array is not None:
        return Encoded(array.matrix(), array.clipped)
    columns = opened_columns(features, table)
    blocks = schema.blocks(encoding)
    matrix = np.zeros((len(columns[0]) if columns else 0, sum(block.width for block in blocks)))
    clipped: dict[str, int] = {}
    start = 0
    for (name, column), values, block in zip(features.items(), columns, blocks, strict=True):
        part = matrix[:, start : start + block.width]
        if isinstance(column, Number):
            clipped[name] = fill_number(part, values, name, column, encoding)
        else:
            fill_one_hot(part, codes(values, column, name))
        start += block.width
    return Encoded(matrix, clipped)


def counted(schema: Schema, table: object) -> Counted:
    """The sums of the columns of `encode(schema, table, "binned")`, without the matrix."""
    features = schema.features
    columns = opened_columns(features, table)
    cells: list[Codes] = []
    clipped: dict[str, int] = {}
    for (name, column), values, block in zip(features.items(), columns, schema.blocks("binned"), strict=True):
        if isinstance(column, Number):
            counts, clipped[name] = bin_counts(values, column, name)
        else:
            counts = np.bincount(codes(values, column, name), minlength=block.width)
        cells.append(counts)
    return Counted(np.concatenate(cells), len(columns[0]), clipped)


def opened_columns(features: Mapping[str, Column], table: object) -> list[Any]:
    """The columns of the features: Arrow arrays, or those of an array of floats as they are."""
    if is_plain(table, features):
        return list(table.T)
    named = as_table(table, list(features))
    return [named.column(name) for name in features]


def fill_number(part: Floats, column: Any, name: str, number: Number, encoding: Encoding) -> int:
    """Write an encoded number column; return how many of its values were clipped."""
    values, missing, outside = clipped_numbers(column, number, name)
    if encoding == "binned":
        fill_one_hot(part, bin_positions(values, missing, number))
    else:
        part[:, 0] = encoded_numbers(values, number, encoding)
        if number.has_indicator:
            part[:, 1] = missing
    return outside


def bin_counts(values: Any, number: Number, name: str) -> tuple[Codes, int]:
    """How many numbers are in each bin, missing ones last where they have one of their own; and how many were clipped."""
    found, gaps, outside = np.ascontiguousarray(declared_numbers(values, number, name)), 0, 0
    # Where a number is missing neither holds.
    if len(found) and not (number.low <= found.min() and found.max() <= number.high):
        within, missing, outside = within_bounds(found, number, name)
        found, gaps = (within[~missing], int(missing.sum())) if number.has_indicator else (within, 0)
    counts = counts_between(found, number.edges)
    return np.append(counts, gaps) if number.has_indicator else counts, outside


def counts_between(values: Floats, edges: tuple[float, ...]) -> Codes:
    """How many numbers are below the first edge, from there below the next, and so on to those from the last edge on."""
    if len(edges) > MOST_EDGES_COMPARED:
        return np.bincount(np.searchsorted(np.array(edges), values, side="right"), minlength=len(edges) + 1)
    reached: Codes = np.zeros(len(edges) + 2, dtype=np.int64)
    for rows in row_slices(len(values), 1):
        block = values[rows]
        reached[0] += len(block)
        # A list without edges would be one of floats.
        reached[1:-1] += np.array([np.count_nonzero(block >= edge) for edge in edges], dtype=np.int64)
    counts: Codes = reached[:-1] - reached[1:]
    return counts


def bin_positions(values: Floats, missing: npt.NDArray[np.bool_], number: Number) -> Codes:
    """The bin of each number within the bounds; missing ones have the last where they have one of their own."""
    # The number of edges that are not above the value: one that equals an edge is in the bin that starts there.
    if len(number.edges) <= MOST_EDGES_COMPARED:
        positions = np.zeros(len(values), dtype=np.int64)
        for rows in row_slices(len(values), 1):
            block = values[rows]
            passed = np.zeros(len(block), dtype=np.uint8)
            for edge in number.edges:
                passed += block >= edge
            positions[rows] = passed
    else:
        positions = np.searchsorted(np.array(number.edges), values, side="right").astype(np.int64)
    if number.has_indicator:
        positions[missing] = len(number.edges) + 1
    return positions


def level_positions(values: Any, column: Column, name: str) -> Codes:
    """The position of each value among the bins or declared values of its column: that of the one in its binned encoding."""
    if not isinstance(column, Number):
        return codes(values, column, name)
    found = declared_numbers(values, column, name)
    # Values beyond the bounds are in the first and the last bin, clipped or not.
    missing = np.isnan(found)
    if missing.any():
        found, missing, _ = within_bounds(found, column, name)
    return bin_positions(found, missing, column)


def one_positions(schema: Schema, table: object) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Where the ones are in each row of `encode(schema, table, "binned")`, whose other entries are 0: one for each feature."""
    features, blocks = schema.features, schema.blocks("binned")
    columns = opened_columns(features, table)
    width = sum(block.width for block in blocks)
    positions = np.empty((len(columns[0]), len(columns)), dtype=np.min_scalar_type(max(width - 1, 0)))
    start = 0
    for place, ((name, column), values, block) in enumerate(zip(features.items(), columns, blocks, strict=True)):
        positions[:, place] = start + level_positions(values, column, name)
        start += block.width
    return positions


def fill_one_hot(part: Floats, positions: Codes) -> None:
    """Write a 1 into each row of zeros, at the given position."""
    part[np.arange(len(part)), positions] = 1.0


def no_rows() -> DataError:
    return DataError("Found array with 0 sample(s) while a minimum of 1 is required.", "Give at least one row.")


class SchemaEncoder(TransformerMixin, BaseEstimator):
    """Encodes a table by public facts; `fit` looks at the names of the columns and at nothing else.

    `schema` declares the columns; `encoding` is "scaled", "centred" or "binned" (see sudare.schema.encodings).
    Frames may have further columns, which are ignored; an array must have the feature columns in schema order.
    After `transform`, `clipped_` tells the owner, and nobody else, how many values were clipped: it is not a
    parameter, is not shown, and does not travel in pickles.
    """

    def __init__(self, schema: Schema, encoding: Encoding = "scaled") -> None:
        self.schema = schema
        self.encoding = encoding

    def fit(self, X: object, y: object = None) -> Self:
        """Checks parameters and column names."""
        schema = self._checked_schema()
        checked_encoding(self.encoding)
        self._check_array(X)
        names = list(schema.features)
        refuse_missing_columns(names, column_names(X, names))
        self._clipped: dict[str, int] = {}
        self.n_features_in_ = len(schema.features)
        self.feature_names_in_ = np.array(list(schema.features), dtype=object)
        return self

    def transform(self, X: object) -> Floats:
        """The encoded features, a float64 matrix with `get_feature_names_out()` as columns."""
        schema = self._checked_schema()
        self._check_array(X)
        encoded = encode(schema, X, checked_encoding(self.encoding))
        if len(encoded.matrix) == 0:
            raise no_rows()
        # Changed in place: to scikit-learn a transformer that rebinds attributes has been fitted anew.
        if not hasattr(self, "_clipped"):
            self._clipped = {}
        self._clipped.clear()
        self._clipped.update(encoded.clipped)
        return encoded.matrix

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """The names of the encoded columns."""
        schema = self._checked_schema()
        if input_features is not None and list(np.asarray(input_features, dtype=object)) != list(schema.features):
            raise InvalidParameter(
                "input_features is not equal to feature_names_in_.", "Leave it out, or give the schema's features."
            )
        return np.array(schema.names(self.encoding), dtype=object)

    @property
    def norm_bound_(self) -> float:
        """The public bound on the Euclidean norm of an encoded row."""
        return self._checked_schema().norm_bound(self.encoding)

    @property
    def clipped_(self) -> dict[str, int]:
        """For the owner only: per number column, how many values of the last `transform` lay outside the bounds."""
        return dict(getattr(self, "_clipped", {}))

    def _checked_schema(self) -> Schema:
        if not isinstance(self.schema, Schema):
            raise InvalidParameter("`schema` is not a Schema.", "Give Schema.load(path), or Schema(columns=…).")
        if not self.schema.features:
            raise SchemaError("The schema declares no features.", "Declare a column besides the target.")
        return self.schema

    def _check_array(self, X: object) -> None:
        """Raise DataError where an array cannot be the features, in the words that scikit-learn uses."""
        if not isinstance(X, np.ndarray) or X.dtype.names is not None or X.ndim != 2:
            return
        rows, width = X.shape
        expected = len(self.schema.features)
        remedy = "Give the feature columns in the order of the schema, or a frame with named columns."
        if X.dtype.kind == "c":
            raise DataError("Complex data not supported.", "Declare and give real and imaginary parts as two columns.")
        if width == 0:
            raise DataError(
                f"Found array with 0 feature(s) (shape=({rows}, 0)) while a minimum of 1 is required.", remedy
            )
        if width != expected:
            raise DataError(
                f"X has {width} features, but {type(self).__name__} is expecting {expected} features as input.", remedy
            )
        if rows == 0:
            raise no_rows()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_clipped"}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        features = self.schema.features.values() if isinstance(self.schema, Schema) else ()
        tags.input_tags.allow_nan = all(column.missing is not None for column in features)
        return tags
