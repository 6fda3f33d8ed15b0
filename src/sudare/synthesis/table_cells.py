"""Tables as cells and back: every declared column as positions among its public bins or categories."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats, Integers, Positions
from sudare.errors import DataError, InvalidParameter
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Arrays
from sudare.frames.sources import is_stored
from sudare.perturbation.column_perturbation import unsigned_type
from sudare.schema import Column, Number, Schema, Table, as_table
from sudare.schema.column_values import declared_values
from sudare.schema.combinations import cell_count
from sudare.schema.encoder import bin_positions
from sudare.schema.table_from_any_frame import as_column, column_names

Codes = NDArray[np.unsignedinteger[Any]]

# Values scaled to [0, 1] are rounded to this, so that sums of up to 2³² of them are exact in floats.
SCALED_STEP: Final = 2.0**-20
# Counts beyond this are noise; differences of one row still show in sums of floats of this size.
LARGEST_CELL: Final = 2**45
# Rows that are looked at together.
BLOCK_ROWS: Final = 2**18


def are_cells(counts: NDArray[np.int64]) -> bool:
    """Whether noisy counts are none beyond the largest: the smallest whole number of 64 bits has no magnitude in them."""
    return bool(np.all((counts >= -LARGEST_CELL) & (counts <= LARGEST_CELL)))


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
    """Rows for their owner: a position for every column, numbers scaled to [0, 1] where wanted, and what was clipped.

    Arrays of large tables lie in files: look at them a block at a time.
    """

    codes: Mapping[str, Codes]
    scaled: Mapping[str, Floats]
    count: int
    clipped: Mapping[str, int]

    def label(self, layout: Layout) -> Codes:
        """The class of every row."""
        if layout.label is None:
            return np.broadcast_to(np.uint8(0), self.count)
        return self.codes[layout.label]


def cell_type(column: Column) -> np.dtype[Any]:
    """The smallest type that holds a position among the cells of a column."""
    return unsigned_type(max(2, cell_count(column)))


def coded_rows(
    data: Any, y: Any, declared: Schema, label: str | None = None, scaled: Collection[str] = ()
) -> CodedRows:
    """All rows of a source as cells, checked; the numbers named in `scaled` also as multiples of the public step in [0, 1].

    A label that a table in memory lacks is taken from y.
    """
    y = None if is_stored(data) else y
    clipped = dict.fromkeys(declared.columns, 0)

    def arrays_of(part: Any) -> Arrays:
        values, missing, outside = declared_values(labelled(part, y, declared, label), declared.columns)
        cells: list[NDArray[Any]] = []
        numbers: list[Floats] = []
        for name, column in declared.columns.items():
            clipped[name] += outside[name]
            found: NDArray[Any] = values[name]
            if isinstance(column, Number):
                cells.append(number_cells(found, missing[name], column).astype(cell_type(column)))
                if name in scaled:
                    numbers.append(scaled_numbers(found, column))
            else:
                cells.append(found.astype(cell_type(column)))
        return *cells, *numbers

    rows = checked_rows(data, arrays_of, declared, read_once=True)
    arrays, names = rows.together(), [name for name in declared.columns if name in scaled]
    coded = dict(zip(declared.columns, arrays, strict=False))
    return CodedRows(coded, dict(zip(names, arrays[len(coded) :], strict=True)), rows.count, clipped)


def row_blocks(count: int, rows: int = BLOCK_ROWS) -> Iterator[slice]:
    """All rows from the first on, so many at a time."""
    return (slice(start, start + rows) for start in range(0, count, rows))


def combination_counts(codes: Sequence[NDArray[Any]], sizes: Sequence[int]) -> Integers:
    """How many rows have each combination of the columns' cells, those of the last column next to each other."""
    cells = math.prod(sizes)
    counts = np.zeros(cells, dtype=np.int64)
    # In blocks of no fewer rows than cells, so that adding their counts up takes no longer than counting.
    for block in row_blocks(len(codes[0]), max(BLOCK_ROWS, cells)):
        place = np.ravel_multi_index([column[block].astype(np.intp) for column in codes], tuple(sizes))
        counts += np.bincount(place, minlength=cells)
    return counts


def number_cells(within: Floats, missing: NDArray[np.bool_], column: Number) -> Positions:
    """The cells of numbers within their bounds: bins in rising order, then atoms, then missing."""
    positions = bin_positions(within, missing, column)
    if not column.atoms:
        return positions
    bins = len(column.edges) + 1
    is_missing = positions == bins
    for place, atom in enumerate(column.atoms):
        positions[(within == atom) & ~is_missing] = bins + place
    positions[is_missing] = bins + len(column.atoms)
    return positions


def cell_of(column: Column, value: object) -> int:
    """The cell of one value of a column; what the column cannot hold is refused, missing values too."""
    if not isinstance(column, Number):
        if value not in column.levels or isinstance(value, bool) != isinstance(column.levels[0], bool):
            raise InvalidParameter("A value given is not one of its column's categories.", "Give a declared one.")
        return column.levels.index(value)
    if isinstance(value, bool) or not isinstance(value, Real) or not column.low <= float(value) <= column.high:
        raise InvalidParameter("A value given is not a number within its column's bounds.", "Give one that is.")
    return int(number_cells(np.array([float(value)]), np.array([False]), column)[0])


def labelled(data: Any, y: Any, declared: Schema, label: str | None) -> Table:
    """The declared columns of a table; y is the label where the table lacks it."""
    names = list(declared.columns)
    features = [name for name in names if name != label]
    if label is None or label in column_names(data, features if y is not None else names):
        return as_table(data, names)
    if y is None:
        raise DataError(f"The table lacks its label {label!r}, and y is missing.", "Give the column, or y.")
    table, column = as_table(data, features), as_column(y, "y")
    if len(column) != table.rows:
        raise DataError(f"y has {len(column)} labels for {table.rows} rows.", "Give one label a row.")
    return Table(table.arrow.append_column(label, column))


def scaled_numbers(within: Floats, number: Number) -> Floats:
    """Numbers within their bounds as multiples of the public step in [0, 1]."""
    share = np.clip((within - number.low) / (number.high - number.low), 0.0, 1.0)
    return np.asarray(np.rint(share / SCALED_STEP) * SCALED_STEP)


def decoded(column: Column, positions: NDArray[np.intp], generator: np.random.Generator) -> NDArray[Any]:
    """Values in the terms of a column: numbers evenly spread within their bins (whole ones and dates among those there) or atoms, or categories."""
    if not isinstance(column, Number):
        return levels_array(column)[positions]
    if column.atoms:
        first = len(column.edges) + 1
        is_atom = (positions >= first) & (positions < first + len(column.atoms))
        in_bins = np.where(is_atom, 0, np.minimum(positions, first))
        found = decoded(replace(column, atoms=None), in_bins, generator)
        found[is_atom] = np.array(column.atoms)[positions[is_atom] - first]
        return found
    edges = np.array([column.low, *column.edges, column.high])
    bins = np.minimum(positions, len(edges) - 2)
    left, right = edges[bins], edges[bins + 1]
    if column.whole:
        # The last bin holds its upper bound as well.
        counts = right - left + (bins == len(edges) - 2)
        values = left + np.minimum(np.floor(counts * generator.random(len(bins))), counts - 1)
        return column.values_array(np.where(positions == len(edges) - 1, math.nan, values))
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
