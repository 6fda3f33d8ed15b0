"""From a table to a float64 matrix by the schema alone: nothing is learned from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeGuard

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from sudare.errors import DataError, InvalidParameter, SchemaError
from sudare.schema.columns import Column, Number
from sudare.schema.declaration import Schema
from sudare.schema.layout import Encoding, Floats, checked_encoding, encoded_bounds, encoded_numbers
from sudare.schema.table import as_table, column_names, refuse_missing_columns
from sudare.schema.values import Codes, clipped_numbers, codes

# Rows treated at once, so that they stay in the processor's cache.
BLOCK_ROWS = 1024
# Beyond so many edges a search is quicker than looking at each; eight bits must hold their number.
MOST_EDGES_COMPARED = 64


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """An encoded table, for its owner.

    `clipped` says how many values of each number column lay outside the bounds: an exact count, not to be passed on.
    """

    matrix: Floats
    clipped: Mapping[str, int]


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    """How many rows there are in each cell of the binned encoding, one column's cells after the other's, for its owner."""

    cells: Codes
    rows: int
    clipped: Mapping[str, int]


def encode(schema: Schema, table: object, encoding: Encoding = "scaled") -> Encoded:
    """The features of a table as a matrix, one row per row."""
    features = schema.features
    encoded = encoded_array(features, table, checked_encoding(encoding))
    if encoded is not None:
        return encoded
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
            within, missing, clipped[name] = clipped_numbers(values, column, name)
            positions = bin_positions(within, missing, column)
        else:
            positions = codes(values, column, name)
        cells.append(np.bincount(positions, minlength=block.width))
    return Counted(np.concatenate(cells), len(columns[0]), clipped)


def opened_columns(features: Mapping[str, Column], table: object) -> list[Any]:
    """The columns of the features: Arrow arrays, or those of an array of floats as they are."""
    if is_plain(table, features):
        return list(table.T)
    named = as_table(table, list(features))
    return [named.column(name) for name in features]


def is_plain(table: object, features: Mapping[str, Column]) -> TypeGuard[Floats]:
    """Whether a table is an array of floats, and all features are numbers."""
    return (
        type(table) is np.ndarray
        and table.dtype == np.float64
        and table.ndim == 2
        and table.shape[1] == len(features)
        and all(isinstance(column, Number) for column in features.values())
    )


def encoded_array(features: Mapping[str, Column], table: object, encoding: Encoding) -> Encoded | None:
    """What `encode` gives for an array of numbers without gaps, by the same operations on whole blocks of rows; else None."""
    numbers = [column for column in features.values() if isinstance(column, Number) and not column.has_indicator]
    if encoding == "binned" or len(numbers) < len(features) or not is_plain(table, features) or table.size == 0:
        return None
    facts = [encoding_facts(number, encoding) for number in numbers]
    # One row of facts for every row of a block: operations on arrays of one shape are the quickest.
    low, high, shift, scale, least, most = (
        np.tile(fact, (min(BLOCK_ROWS, len(table)), 1)) for fact in zip(*facts, strict=True)
    )
    matrix = np.empty(table.shape)
    clipped = np.zeros(len(numbers), dtype=np.int64)
    for start in range(0, len(table), BLOCK_ROWS):
        block, part = table[start : start + BLOCK_ROWS], matrix[start : start + BLOCK_ROWS]
        size = len(part)
        np.maximum(block, low[:size], out=part)
        np.minimum(part, high[:size], out=part)
        changed = part != block
        if changed.any():
            if np.isnan(block).any():
                return None
            clipped += np.count_nonzero(changed, axis=0)
        part -= shift[:size]
        part /= scale[:size]
        np.maximum(part, least[:size], out=part)
        np.minimum(part, most[:size], out=part)
    return Encoded(matrix, dict(zip(features, clipped.tolist(), strict=True)))


def encoding_facts(number: Number, encoding: Encoding) -> tuple[float, float, float, float, float, float]:
    """Bounds of the values, what is subtracted, what is divided by, and bounds of the result."""
    least, most = encoded_bounds(number, encoding)
    if encoding == "scaled":
        return number.low, number.high, number.low, number.high - number.low, least, most
    return number.low, number.high, number.public_centre, number.public_scale, least, most


def fill_number(part: Floats, column: Any, name: str, number: Number, encoding: Encoding) -> int:
    """Writes an encoded number column; returns how many of its values were clipped."""
    values, missing, outside = clipped_numbers(column, number, name)
    if encoding == "binned":
        fill_one_hot(part, bin_positions(values, missing, number))
    else:
        part[:, 0] = encoded_numbers(values, number, encoding)
        if number.has_indicator:
            part[:, 1] = missing
    return outside


def bin_positions(values: Floats, missing: npt.NDArray[np.bool_], number: Number) -> Codes:
    """The bin of each number within the bounds; missing ones have the last where they have one of their own."""
    # The number of edges that are not above the value: one that equals an edge is in the bin that starts there.
    if len(number.edges) <= MOST_EDGES_COMPARED:
        passed = np.zeros(len(values), dtype=np.uint8)
        for edge in number.edges:
            passed += values >= edge
        positions = passed.astype(np.int64)
    else:
        positions = np.searchsorted(np.array(number.edges), values, side="right").astype(np.int64)
    if number.has_indicator:
        positions[missing] = len(number.edges) + 1
    return positions


def fill_one_hot(part: Floats, positions: Codes) -> None:
    """Writes a 1 into each row of zeros, at the given position."""
    part[np.arange(len(part)), positions] = 1.0


def no_rows() -> DataError:
    return DataError("Found array with 0 sample(s) while a minimum of 1 is required.", "Give at least one row.")


class SchemaEncoder(TransformerMixin, BaseEstimator):
    """Encodes a table by public facts; `fit` looks at the names of the columns and at nothing else.

    `schema` declares the columns; `encoding` is "scaled", "centred" or "binned" (see sudare.schema.layout).
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
        """Refuses an array that cannot be the features, in the words that scikit-learn uses."""
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
