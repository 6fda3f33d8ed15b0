"""How members read their own tables: by declared facts that all share, so that equal rows become equal numbers everywhere.

Rows are counted and checked by `sudare.frames.row_reader`, once for each way in which a training reads them. Sums read a file anew, unless workers
of a cluster keep its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats, Integers
from sudare.errors import DataError, InvalidParameter, SchemaError
from sudare.frames.person_rows import kept_persons
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Rows
from sudare.frames.sources import in_memory, is_in_memory, is_read_once
from sudare.linear.rows import bias_beside, bounded_rows, has_one_hot, joint_norm, row_step, with_bias
from sudare.privacy.source_identity import given_source
from sudare.schema import Encoding, Number, Schema, encode
from sudare.schema.encoder import one_positions


class Reading(Protocol):
    """A public way from a part of a table to a matrix, one row a record."""

    @property
    def schema(self) -> Schema | None:
        """What is declared about the table; None for arrays."""

    def matrix(self, part: Any, labels: Any) -> Floats:
        """The matrix of a part of the table, checked."""

    def finished(self, matrix: Floats) -> Floats:
        """Returns the rows within their bounds."""


@dataclass(frozen=True)
class ModelReading:
    """Rows of norm at most `norm_bound`, a constant column where there is a bias, and last a target of −1 or +1.

    With a schema its label is the target; arrays come with labels, of which `classes` says what they mean. Longer rows are
    shortened. Everything lies on a grid, so sums are exact.
    """

    features: int
    norm_bound: float
    bias: float
    schema: Schema | None = None
    encoding: Encoding = "centred"
    classes: tuple[Any, Any] | None = None

    @classmethod
    def of_arrays(
        cls, features: int, norm_bound: float, classes: Sequence[Any], *, fit_intercept: bool
    ) -> ModelReading:
        """Returns a reading of arrays whose rows have a norm of at most `norm_bound` by public knowledge."""
        _check_two_classes(classes)
        bias = bias_beside(norm_bound) if fit_intercept else 0.0
        return cls(features, float(norm_bound), bias, classes=(classes[0], classes[1]))

    @classmethod
    def of_schema(
        cls, schema: Schema, encoding: Encoding = "centred", *, fit_intercept: bool, norm_bound: float | None = None
    ) -> ModelReading:
        """Returns a reading of tables with declared columns; rows are shortened to `norm_bound` where that is less than the schema's."""
        if schema.label is None:
            raise SchemaError("The schema declares no label to learn.", "Declare one.")
        _check_two_classes(schema.classes)
        features = Schema(dict(schema.features))
        bound = features.norm_bound(encoding) if norm_bound is None else min(norm_bound, features.norm_bound(encoding))
        bias = bias_beside(bound) if fit_intercept and not has_one_hot(features, encoding) else 0.0
        return cls(len(features.names(encoding)), bound, bias, schema, encoding)

    @property
    def width(self) -> int:
        """Columns, the constant one included."""
        return self.features + (self.bias != 0)

    @property
    def joint_norm(self) -> float:
        """The largest norm of a row, the constant included."""
        return joint_norm(self.norm_bound, self.bias)

    @property
    def step(self) -> float:
        """The grid of the rows."""
        return row_step(self.norm_bound)

    @cached_property
    def _features(self) -> Schema:
        if self.schema is None:
            raise InvalidParameter("Arrays have no declared columns.", "Give a schema.")
        return Schema(dict(self.schema.features))

    def matrix(self, part: Any, labels: Any) -> Floats:
        """Rows as they are, with their targets."""
        if self.schema is None:
            rows, signs = self._array(part), self._signs(np.asarray(labels))
        else:
            rows = encode(self._features, part, self.encoding).matrix
            signs = np.where(np.asarray(self.schema.encode_target(part)) == 1, 1.0, -1.0)
        if len(rows) != len(signs):
            raise DataError(f"There are {len(rows)} rows and {len(signs)} labels.", "Give one label a row.")
        return np.column_stack([rows, signs])

    def finished(self, matrix: Floats) -> Floats:
        """Rows no longer than the bound, with the constant column and their targets."""
        bounded, _ = bounded_rows(matrix[:, :-1], self.norm_bound)
        return np.column_stack([with_bias(bounded, self.bias), matrix[:, -1]])

    def _array(self, part: Any) -> Floats:
        rows = np.asarray(part)
        if rows.ndim != 2 or rows.shape[1] != self.features or rows.dtype.kind not in "fiub":
            raise DataError(f"The rows are not a table of {self.features} numbers each.", "Give the agreed columns.")
        finite = rows.astype(np.float64)
        if not np.all(np.isfinite(finite)):
            raise DataError("The rows hold gaps or infinities.", "Fill or drop them before use.")
        return finite

    def _signs(self, labels: NDArray[Any]) -> Floats:
        first, second = self.classes or (None, None)
        is_second = labels == second
        if labels.ndim != 1 or not np.all(is_second | (labels == first)):
            raise DataError("A label is not one of the declared classes.", "Declare both, one label a row.")
        return np.where(is_second, 1.0, -1.0)


@dataclass(frozen=True)
class MomentReading:
    """The declared number columns, scaled to [0, 1] by their bounds. A missing number stands at its centre."""

    schema: Schema

    @cached_property
    def numbers(self) -> Schema:
        """The number columns."""
        found = {
            name: column.with_plain_stand_in()
            for name, column in self.schema.features.items()
            if isinstance(column, Number)
        }
        if not found:
            raise SchemaError("The schema declares no number column to scale.", "Declare one.")
        return Schema(found)

    def matrix(self, part: Any, labels: Any) -> Floats:
        """Scaled numbers."""
        return encode(self.numbers, part, "scaled").matrix

    def finished(self, matrix: Floats) -> Floats:
        """Returns the rows as they are: within their bounds already."""
        return matrix


@dataclass(frozen=True)
class BinReading:
    """Reads for every row its bin in each declared column, and last its targets of −1 or +1: one for two classes, else one a class.

    `schema` is the declared one, whose digest members compare; `columns` are its features with the bins that shapes have.
    """

    schema: Schema
    columns: Schema

    @property
    def outputs(self) -> int:
        """How many targets a row has."""
        classes = len(self.schema.classes)
        return 1 if classes == 2 else classes

    def matrix(self, part: Any, labels: Any) -> Floats:
        """Bins and targets as numbers."""
        places = np.asarray(self.schema.encode_target(part))
        wanted = np.array([1]) if self.outputs == 1 else np.arange(self.outputs)
        targets = np.where(places[:, np.newaxis] == wanted, 1.0, -1.0)
        return np.column_stack([one_positions(self.columns, part).astype(np.float64), targets])

    def finished(self, matrix: Floats) -> Floats:
        """Returns the rows as they are: a bin has no bounds to keep."""
        return matrix


def _check_two_classes(classes: Sequence[Any]) -> None:
    if len(classes) != 2 or classes[0] == classes[1]:
        raise InvalidParameter(
            f"A consortium-wide model tells two classes apart; {len(classes)} were declared.",
            "Learn one class against the rest at a time.",
        )


class MemberTable:
    """A member's own table: in memory, or a file, folder or query that is read anew for every sum.

    `cluster` is whose workers read the table, keep its rows and add them up: a client of dask.distributed or what one can be made from. None is here.
    `source` is what an account pays for; None for what is in memory. `row_secret` chooses the rows that are kept of persons; without it a secret of this process does.
    """

    def __init__(self, table: Any, labels: Any = None, *, cluster: Any = None, row_secret: bytes | None = None) -> None:
        # What comes once is read in several ways, and so kept.
        self._table = in_memory(table) if is_read_once(table) else table
        self.source = given_source(table)
        self._labels, self._cluster = labels, cluster
        self._read: tuple[Reading, Rows] | None = None
        self._row_secret, self._are_persons_bounded = row_secret, False

    def __repr__(self) -> str:
        return "<a member's table>"

    def counted(self, reading: Reading) -> int:
        """How many rows there are. All are read, so that what is wrong with them is said before anything is charged."""
        if reading.schema is not None and self._labels is not None:
            raise InvalidParameter(
                "Labels were given beside a schema that declares the label.", "Leave them in the table."
            )
        if reading.schema is None and not is_in_memory(self._table):
            raise InvalidParameter("A data source needs a schema.", "Declare its columns.")
        self._read = None
        return self._rows(reading).count

    def count_read(self, reading: Reading) -> int:
        """How many rows there were when they were read last."""
        return self._rows(reading).count

    def _bound_persons(self, reading: Reading) -> None:
        """Leave out the rows that a person has above the declared number; once, as all sums are over the same rows."""
        if not self._are_persons_bounded:
            self._table = kept_persons(self._table, reading.schema, self._row_secret).source
            self._are_persons_bounded = True

    def total(self, reading: Reading, function: Callable[[Floats], Integers]) -> Integers:
        """The sum of a function of finished blocks; whole numbers, so the same in any order and on any number of workers."""
        return self._rows(reading).total(function)

    def _rows(self, reading: Reading) -> Rows:
        """Finished rows. Those of the last way of reading are kept."""
        if self._read is None or self._read[0] != reading:
            # Rows of another reading are let go before these are read.
            self._read = None
            self._bound_persons(reading)
            arrays_of = partial(_finished, reading, self._labels)
            self._read = reading, checked_rows(self._table, arrays_of, reading.schema, cluster=self._cluster)
        return self._read[1]


def _finished(reading: Reading, labels: Any, part: Any) -> tuple[Floats]:
    return (reading.finished(reading.matrix(part, labels)),)
