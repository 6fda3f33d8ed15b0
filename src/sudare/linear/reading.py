"""How tables, arrays, files and iterators become bounded rows with targets: by declared facts only."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.errors import DataError, InvalidParameter, SchemaError
from sudare.frames.rows import Arrays, Rows, Spool, checked_rows, is_read_once, is_stored
from sudare.linear.rows import bounded_rows, joint_norm, with_bias
from sudare.linear.targets import check_lengths, missing_y
from sudare.privacy.accounting import rounded_up
from sudare.privacy.array_checks import checked_matrix
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.private_estimator import PrivateEstimator
from sudare.schema import Encoding, Number, Schema, encode

Floats = NDArray[np.float64]


class RowLayout(NamedTuple):
    """What is public about a row: how many features, the bound on its norm, the constant column, and both together.

    `joint_sum` bounds the sum of absolute values, the constant one included: infinite where only the norm is known.
    """

    features: int
    norm_bound: float
    bias: float
    joint_norm: float
    nonnegative: bool
    joint_sum: float = math.inf

    @property
    def width(self) -> int:
        """Columns, the constant one included."""
        return self.features + (self.bias != 0)


@functools.lru_cache(maxsize=256)
def array_layout(features: int, norm_bound: float, fit_intercept: bool) -> RowLayout:
    """The layout of rows of an array whose norms are bounded."""
    bias = bias_beside(norm_bound) if fit_intercept else 0.0
    return RowLayout(features, norm_bound, bias, joint_norm(norm_bound, bias), nonnegative=False)


@functools.lru_cache(maxsize=256)
def table_layout(declared: Schema, encoding: Encoding, fit_intercept: bool) -> RowLayout:
    """The layout of encoded rows of a table.

    No constant column is needed where some column is encoded one-hot: its parts add up to one already.
    """
    norm_bound = declared.norm_bound(encoding)
    bias = bias_beside(norm_bound) if fit_intercept and not has_one_hot(declared, encoding) else 0.0
    nonnegative = bool(np.all(declared.bounds(encoding)[0] >= 0))
    features, joint_sum = (
        len(declared.names(encoding)),
        rounded_up(Fraction(declared.sum_bound(encoding)) + Fraction(bias)),
    )
    return RowLayout(features, norm_bound, bias, joint_norm(norm_bound, bias), nonnegative, joint_sum)


def bias_beside(norm_bound: float) -> float:
    """The constant column: a power of two near half the row norm, so that it adds little to the noise."""
    return power_of_two_below(norm_bound) / 2


def has_one_hot(declared: Schema, encoding: Encoding) -> bool:
    """Whether some column becomes a group of columns of which one is 1 and the others are 0."""
    return encoding == "binned" or not all(isinstance(column, Number) for column in declared.features.values())


@functools.lru_cache(maxsize=64)
def unnamed_columns(count: int, norm_bound: float) -> Schema:
    """What is known of the columns of an array whose rows are within a norm."""
    return Schema({f"x{index}": Number(-norm_bound, norm_bound) for index in range(count)})


class RowReader(PrivateEstimator):
    """An estimator that sees tables as bounded rows with targets. Subclasses say what the targets are."""

    numbers_only = False
    for_the_owner = (*PrivateEstimator.for_the_owner, "clipped_rows_")

    norm_bound: float
    fit_intercept: bool
    bounds = None

    clipped_rows_: int

    @abstractmethod
    def _declare_target(self, y: object) -> None:
        """Keep what is declared about the target, or what y tells where nothing is, which voids the guarantee."""

    @abstractmethod
    def _encoded_targets(self, y: object) -> Floats:
        """Targets as the loss takes them, one column an output."""

    @abstractmethod
    def _encoded_codes(self, target: Any) -> Floats:
        """Targets from the schema's encoding of the target column."""

    def _layout(self, declared: Schema) -> RowLayout:
        if self.schema_digest_ is None:
            return array_layout(len(declared.columns), float(self.norm_bound), bool(self.fit_intercept))
        return table_layout(declared, self.encoding, bool(self.fit_intercept))

    def _read_rows(self, X: Any, y: Any) -> Rows:
        """Bounded rows with targets, all checked; keeps what is declared."""
        self._keep_source(X)
        schema, is_source = self.schema, is_stored(X) or is_read_once(X)
        if schema is None:
            return self._read_pairs(X, y) if isinstance(X, Iterator) else self._read_arrays(X, y)
        if is_source and y is not None:
            raise InvalidParameter("y was given beside a data source.", "Declare the target in the schema.")
        self._keep(self._suited(schema), schema.digest)
        self._declare_target(y)
        return checked_rows(X, lambda table: self._block(table, y, schema), schema)

    def _read_arrays(self, X: Any, y: Any) -> Rows:
        if is_stored(X):
            raise InvalidParameter("A data source needs a schema.", "Give schema=Schema.load(…).")
        matrix = checked_matrix(self, X, reset=True)
        self._keep(unnamed_columns(matrix.shape[1], float(self.norm_bound)), None)
        if y is None:
            raise missing_y()
        self._declare_target(y)
        targets = self._encoded_targets(y)
        check_lengths(len(matrix), len(targets))
        rows, self.clipped_rows_ = self._bounded(matrix)
        return Rows.held(rows, targets)

    def _read_pairs(self, pairs: Iterator[Any], y: Any) -> Rows:
        """Rows and targets of pairs of arrays. Targets wait as they are, one value a row, where nothing is declared of them."""
        if y is not None:
            raise _not_pairs()
        spool, waiting = Spool(), []
        self.clipped_rows_ = 0
        is_declared = not self._undeclared()
        if is_declared:
            self._declare_target(None)
        for number, pair in enumerate(pairs):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise _not_pairs()
            matrix = checked_matrix(self, pair[0], reset=number == 0)
            if number == 0:
                self._keep(unnamed_columns(matrix.shape[1], float(self.norm_bound)), None)
            targets = self._encoded_targets(pair[1]) if is_declared else np.asarray(pair[1])
            check_lengths(len(matrix), len(targets))
            rows, clipped = self._bounded(matrix)
            self.clipped_rows_ += clipped
            spool.append((rows, targets) if is_declared else (rows,))
            if not is_declared:
                waiting.append(targets)
        if spool.count == 0:
            raise _not_pairs()
        if is_declared:
            return Rows.held(*spool.together())
        undeclared = np.concatenate(waiting)
        self._declare_target(undeclared)
        return Rows.held(*spool.together(), self._encoded_targets(undeclared))

    def _bounded(self, matrix: Floats) -> tuple[Floats, int]:
        layout = self._layout(self.declared_)
        bounded, clipped = bounded_rows(matrix, layout.norm_bound)
        return with_bias(bounded, layout.bias), clipped

    def _block(self, table: Any, y: Any, schema: Schema) -> Arrays:
        """Encoded, bounded rows of a table with their targets; from the table itself where y is not given."""
        encoded = encode(self.declared_, table, self.encoding)
        if y is not None:
            targets = self._encoded_targets(y)
        elif schema.target is None:
            raise SchemaError("The schema declares no target, and no y was given.", "Declare one, or give y.")
        else:
            targets = self._encoded_codes(schema.encode_target(table))
        check_lengths(len(encoded.matrix), len(targets))
        return self._bounded(encoded.matrix)[0], targets


def _not_pairs() -> DataError:
    return DataError("An iterator without a schema must give pairs (X, y).", "Give pairs, or a schema.")
