"""Rows to be perturbed, read twice: once to count and check them before anything is charged, once to perturb them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.errors import DataError, InvalidParameter
from sudare.frames import batches, column_types
from sudare.frames.sources import SqlSource
from sudare.perturbation.epsilon_split import RecordPlan
from sudare.perturbation.perturbed_table import stored_shape
from sudare.privacy.noise import NoiseSource
from sudare.schema import Number, Schema, Table, as_table
from sudare.schema.table import column_names
from sudare.schema.values import clipped_numbers, codes

Columns = dict[str, NDArray[Any]]

BATCH_ROWS: Final = 2**16


@dataclass(frozen=True)
class Seen:
    """What looking through the rows tells: how many there are, and, for the owner only, how many values will be clipped."""

    rows: int
    clipped: dict[str, int]


@dataclass
class RecordSource:
    """A table in memory, or files or a database that are read in batches. Every declared column is read, and no other may be there."""

    data: Any
    declared: Schema
    _held: list[Columns] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.data, Iterator | pa.RecordBatchReader):
            raise InvalidParameter(
                "Rows that can be read only once cannot be perturbed: they are counted before anything is charged.",
                "Give a path, a SqlSource, or a table.",
            )
        present = (
            column_types(self.data, self.declared.source_columns).names
            if self.is_streamed
            else column_names(self.data, list(self.declared.columns))
        )
        undeclared = set(present) - set(self.declared.source_columns)
        if undeclared:
            # Not named: a file without a header has values in their place.
            raise DataError(
                f"The table has {len(undeclared)} columns that the schema does not declare, so nothing perturbs them.",
                "Declare them, or take them out of the table: what is not perturbed does not leave.",
            )

    @property
    def is_streamed(self) -> bool:
        """Whether the rows are read in batches."""
        return isinstance(self.data, str | os.PathLike | SqlSource)

    def looked_through(self) -> Seen:
        """Count and check all rows; an error here comes before any charge."""
        rows, clipped = 0, dict.fromkeys(self.declared.columns, 0)
        held: list[Columns] = []
        for table in self._tables():
            columns, outside = encoded(table, self.declared)
            rows += table.rows
            for name, count in outside.items():
                clipped[name] += count
            if not self.is_streamed:
                held.append(columns)
        if rows == 0:
            raise DataError("The table has no rows.", "Give at least one row.")
        if self.declared.person is not None:
            name = self.declared.person.column
            self.declared.check_person(batches(self.data, [name]) if self.is_streamed else self.data)
        self._held = held or None
        return Seen(rows, clipped)

    def parts(self) -> Iterator[Columns]:
        """The rows, encoded: numbers within their bounds, positions of categories."""
        if self._held is not None:
            return iter(self._held)
        return (encoded(table, self.declared)[0] for table in self._tables())

    def _tables(self) -> Iterator[Table]:
        names = list(self.declared.columns)
        if self.is_streamed:
            return batches(self.data, names, BATCH_ROWS, self.declared)
        return iter([as_table(self.data, names)])


def encoded(table: Table, declared: Schema) -> tuple[Columns, dict[str, int]]:
    """The declared columns of a table as numbers and positions; and how many numbers lay outside their bounds."""
    columns: Columns = {}
    outside: dict[str, int] = {}
    for name, column in declared.columns.items():
        if isinstance(column, Number):
            columns[name], _, outside[name] = clipped_numbers(table.column(name), column, name)
        else:
            columns[name] = codes(table.column(name), column, name)
    return columns, outside


def perturbed_parts(source: RecordSource, plan: RecordPlan, rows: int, noise: NoiseSource) -> Iterator[Columns]:
    """The rows perturbed, part by part and in their order, in the few bytes in which they are kept."""
    seen = 0
    for columns in source.parts():
        seen += len(next(iter(columns.values())))
        if seen > rows:
            break
        yield {name: each.drawn(columns[name], noise) for name, each in plan.perturbations.items()}
    if seen != rows:
        raise DataError(
            "The source had another number of rows when it was read again.",
            "Perturb a copy that nobody changes meanwhile. What was charged stays charged.",
        )


def perturbed(source: RecordSource, plan: RecordPlan, rows: int, noise: NoiseSource) -> Columns:
    """All rows perturbed, in their order: this is all that grows with the rows."""
    stored = {name: np.empty(*stored_shape(each, rows)) for name, each in plan.perturbations.items()}
    start = 0
    for part in perturbed_parts(source, plan, rows, noise):
        end = start + len(next(iter(part.values())))
        for name, column in part.items():
            stored[name][start:end] = column
        start = end
    return stored
