"""Tables as cells and back: every declared column as positions among its public bins or categories."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.errors import DataError, InvalidParameter
from sudare.frames import batches
from sudare.frames.sources import SqlSource
from sudare.perturbation.column_perturbation import unsigned_type
from sudare.privacy.private_estimator import no_rows
from sudare.schema import Column, Number, Schema, Table, as_table
from sudare.schema.encoder import bin_positions
from sudare.schema.table import as_column, column_names
from sudare.schema.values import clipped_numbers, codes

Codes = NDArray[np.unsignedinteger[Any]]
Floats = NDArray[np.float64]

# Values scaled to [0, 1] are rounded to this, so that sums of up to 2³² of them are exact in floats.
SCALED_STEP: Final = 2.0**-20
# Counts beyond this are noise; differences of one row still show in sums of floats of this size.
LARGEST_CELL: Final = 2**45


@dataclass(frozen=True)
class Layout:
    """What is public about a table of cells: features with their numbers of cells, and the label with its classes.

    Without a label there is one class, to which every row belongs.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    label: str | None
    classes: int

    @classmethod
    def of(cls, declared: Schema, label: str | None) -> Layout:
        """The layout of declared columns."""
        features = {name: column for name, column in declared.columns.items() if name != label}
        classes = 1 if label is None else cell_count(declared.columns[label])
        return cls(tuple(features), tuple(map(cell_count, features.values())), label, classes)


@dataclass(frozen=True, eq=False, repr=False)
class CodedRows:
    """Rows for their owner: a position for every column, numbers scaled to [0, 1] where wanted, and what was clipped."""

    codes: Mapping[str, Codes]
    scaled: Mapping[str, Floats]
    count: int
    clipped: Mapping[str, int]

    def label(self, layout: Layout) -> NDArray[np.intp]:
        """The class of every row."""
        if layout.label is None:
            return np.zeros(self.count, dtype=np.intp)
        return self.codes[layout.label].astype(np.intp)


def cell_count(column: Column) -> int:
    """In how many cells a column is counted: bins, one for missing numbers where they have one, or categories."""
    if isinstance(column, Number):
        return len(column.edges) + 1 + column.has_indicator
    return len(column.levels)


def coded_rows(tables: Iterator[Table], declared: Schema, scaled: Sequence[str] = ()) -> CodedRows:
    """All rows as cells; the numbers named in `scaled` also as multiples of the public step in [0, 1]."""
    parts: dict[str, list[Codes]] = {name: [] for name in declared.columns}
    numbers: dict[str, list[Floats]] = {name: [] for name in scaled}
    clipped, count = dict.fromkeys(declared.columns, 0), 0
    for table in tables:
        count += table.rows
        for name, column in declared.columns.items():
            if isinstance(column, Number):
                within, missing, outside = clipped_numbers(table.column(name), column, name)
                clipped[name] += outside
                positions = bin_positions(within, missing, column)
                if name in numbers:
                    numbers[name].append(scaled_numbers(within, column))
            else:
                positions = codes(table.column(name), column, name)
            parts[name].append(positions.astype(unsigned_type(max(2, cell_count(column)))))
    if count == 0:
        raise no_rows()
    return CodedRows(
        {name: np.concatenate(part) for name, part in parts.items()},
        {name: np.concatenate(part) for name, part in numbers.items()},
        count,
        clipped,
    )


def scaled_numbers(within: Floats, number: Number) -> Floats:
    """Numbers within their bounds as multiples of the public step in [0, 1]."""
    share = np.clip((within - number.low) / (number.high - number.low), 0.0, 1.0)
    return np.asarray(np.rint(share / SCALED_STEP) * SCALED_STEP)


def opened_tables(data: Any, y: Any, declared: Schema, label: str | None) -> Iterator[Table]:
    """The declared columns of a source in batches, or of a table in one; a label that the table lacks is taken from y."""
    if isinstance(data, Iterator | pa.RecordBatchReader):
        raise InvalidParameter(
            "Rows that can be read only once cannot be checked before they are charged.",
            "Give a path, a SqlSource, or a table.",
        )
    names = list(declared.columns)
    if isinstance(data, str | os.PathLike | SqlSource):
        declared.check_person(batches(data, [declared.person.column]) if declared.person else data)
        return batches(data, names, schema=declared)
    declared.check_person(data)
    features = [name for name in names if name != label]
    present = column_names(data, features if y is not None else names)
    if label is None or label in present:
        return iter([as_table(data, names)])
    if y is None:
        raise DataError(f"The table lacks its label {label!r}, and y is missing.", "Give the column, or y.")
    table, column = as_table(data, features), as_column(y, "y")
    if len(column) != table.rows:
        raise DataError(f"y has {len(column)} labels for {table.rows} rows.", "Give one label a row.")
    return iter([Table(table.arrow.append_column(label, column))])


def decoded(column: Column, positions: NDArray[np.intp], generator: np.random.Generator) -> NDArray[Any]:
    """Values in the terms of a column: numbers evenly spread within their bins, or categories."""
    if not isinstance(column, Number):
        return levels_array(column)[positions]
    edges = np.array([column.low, *column.edges, column.high])
    bins = np.minimum(positions, len(edges) - 2)
    left, right = edges[bins], edges[bins + 1]
    # The right edge of a bin belongs to the next one; rounding must not reach it.
    values = np.minimum(left + (right - left) * generator.random(len(bins)), np.nextafter(right, left))
    return np.where(positions == len(edges) - 1, math.nan, values)


def levels_array(column: Any) -> NDArray[Any]:
    """The levels of a category as an array; a level for missing values of another kind than the others is missing (None)."""
    of_one_kind = len({type(level) for level in column.levels}) == 1
    levels = np.empty(len(column.levels), dtype=object)
    levels[:] = column.levels
    if not of_one_kind:
        levels[column.missing_code] = None
        return levels
    return levels if isinstance(column.levels[0], str) else np.array(column.levels)
