"""Members' records: tables in memory or files read in batches, as blocks of finite numbers in agreed columns.

Errors name the member by its position and the column, and no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sudare.dictionary.block_sums import BLOCK_ROWS, statistics_over
from sudare.dictionary.e_step import Sum
from sudare.dictionary.families import Booleans, Family, Floats
from sudare.errors import DataError, InvalidParameter, SchemaError
from sudare.frames import column_types
from sudare.frames.rows import Rows, checked_rows, is_stored
from sudare.schema import Category, Number, Schema
from sudare.schema.table import Table, as_table
from sudare.schema.values import clipped_numbers, codes, numbers

Bounds = tuple[npt.ArrayLike, npt.ArrayLike]

# Moments are sums of squares and of products of variances: beyond this they overflow.
_LARGEST: Final = 1e75


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """A member's own records, in blocks of finite numbers that can be read again and again.

    `cluster` is where sums over them are computed: None is here, else a client of dask.distributed or what one can be made from.
    """

    checked: Rows
    cluster: Any = None

    @classmethod
    def of(cls, matrix: Floats) -> Records:
        """Records in memory, columns in the agreed order and units."""
        return cls(Rows.held(matrix))

    @property
    def rows(self) -> int:
        """How many."""
        return self.checked.count

    def blocks(self) -> Iterator[Floats]:
        """Matrices of at least one row, columns in the agreed order and units; memory holds one where they come from files."""
        return (block for (block,) in self.checked.blocks(BLOCK_ROWS))


def total_over(records: Records, function: Callable[[Floats], Sum]) -> Sum:
    """The sum of a function of blocks over all records, in an order that does not depend on how they are stored."""
    return statistics_over(records.blocks(), function, records.cluster)


@dataclass(frozen=True, eq=False)
class Layout:
    """The agreed columns. Bounds are None only while they are still to be found in one owner's simulation."""

    names: tuple[str, ...]
    low: Floats | None = None
    high: Floats | None = None
    schema: Schema | None = None

    def matrix(self, table: Table) -> Floats:
        """A table's agreed columns; declared bounds clip, gaps are refused."""
        return np.stack([self._column(table, position) for position in range(len(self.names))], axis=1)

    def _column(self, table: Table, position: int) -> Floats:
        name = self.names[position]
        values = table.column(name)
        facts = None if self.schema is None else self.schema.features[name]
        if isinstance(facts, Category):
            return codes(values, facts, name).astype(np.float64)
        if isinstance(facts, Number):
            return clipped_numbers(values, facts, name)[0]
        found = numbers(values, name)
        if not np.all(np.isfinite(found)):
            raise DataError(f"Column {name!r} holds gaps or infinities.", "Fill or drop them before use.")
        if np.abs(found).max(initial=0.0) > _LARGEST:
            raise DataError(
                f"Column {name!r} holds numbers beyond {_LARGEST:g}, whose squares are none.",
                "Use other units, or a schema.",
            )
        if self.low is None or self.high is None:
            return found
        return np.clip(found, self.low[position], self.high[position])


def opened_members(
    members: Sequence[object], schema: Schema | None, bounds: Bounds | None, family: type[Family], cluster: Any = None
) -> tuple[Layout, list[Records]]:
    """The layout that all members share, and each one's records, checked.

    Without a schema or bounds the bounds are those of all records: possible because a list of tables is one owner's
    simulation. A real consortium declares them.
    """
    tables = _checked_members(members)
    layout = _layout(tables, schema, bounds, family)
    opened = [
        _during(position, lambda source=source: _opened(source, layout, cluster))
        for position, source in enumerate(tables)
    ]
    if layout.low is None:
        layout = _bounded_by_records(layout, opened)
    return layout, opened


def _checked_members(members: object) -> list[Any]:
    if is_stored(members) or hasattr(members, "shape") or not isinstance(members, Sequence):
        raise InvalidParameter(
            "fit takes a list with one table or path per member.", "Wrap a single table: fit([X]); split others first."
        )
    if not members:
        raise DataError("There are no members.", "Give a list with one table per member.")
    return list(members)


def _layout(tables: Sequence[Any], schema: Schema | None, bounds: Bounds | None, family: type[Family]) -> Layout:
    if schema is not None:
        if bounds is not None:
            raise InvalidParameter("Both a schema and bounds were given.", "Give one of them: the schema has bounds.")
        return declared_layout(schema, family)
    names = [_during(position, lambda table=table: _names(table)) for position, table in enumerate(tables)]
    for position, other in enumerate(names):
        if len(other) != len(names[0]):
            raise DataError(
                f"Member {position + 1} has {len(other)} columns, member 1 has {len(names[0])}.",
                "Give every member's table the same columns.",
            )
        if other != names[0]:
            raise DataError(
                f"The columns of members 1 and {position + 1} differ in name or order.", "Rename or reorder them."
            )
    if bounds is None:
        return Layout(names[0])
    try:
        low, high = (np.array(np.broadcast_to(np.asarray(end, dtype=np.float64), len(names[0]))) for end in bounds)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"bounds must be two numbers or two sequences of {len(names[0])}.", "Give for example bounds=(0, 110)."
        ) from None
    if not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise InvalidParameter("Every column needs finite bounds with low < high.", "Give for example bounds=(0, 110).")
    return Layout(names[0], low, high)


def declared_layout(schema: Schema, family: type[Family]) -> Layout:
    """The schema's number columns; for categorical patterns its category columns, whose codes are bounded by their number."""
    kind: type[Category | Number] = Category if family.name == "categorical" else Number
    facts = {name: column for name, column in schema.features.items() if isinstance(column, kind)}
    if not facts:
        raise SchemaError(f"The schema declares no {kind.__name__.lower()} column.", "Declare one.")
    ranges = [
        (column.low, column.high) if isinstance(column, Number) else (0.0, len(column.levels) - 1.0)
        for column in facts.values()
    ]
    low, high = np.array(ranges, dtype=np.float64).T
    return Layout(tuple(facts), low, high, schema)


def _names(table: Any) -> tuple[str, ...]:
    if is_stored(table):
        return tuple(column_types(table).names)
    matrix = _as_plain_matrix(table)
    return tuple(f"x{index}" for index in range(matrix.shape[1])) if matrix is not None else as_table(table).names


def _as_plain_matrix(table: Any) -> npt.NDArray[Any] | None:
    """An array or a list of rows as an array; None for what has named columns."""
    if not isinstance(table, np.ndarray | list | tuple):
        return None
    matrix = np.asarray(table)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise DataError("An array is not a two-dimensional table of numbers.", "Give one row per record.")
    return matrix


def _opened(source: Any, layout: Layout, cluster: Any) -> Records:
    schema = layout.schema
    # Persons are counted by who promises them something.
    types = None if schema is None else Schema(dict(schema.columns), target=schema.target)
    rows = checked_rows(source, lambda part: (layout.matrix(_agreed(part, layout.names)),), types, layout.names)
    return Records(rows, cluster)


def _agreed(table: Any, names: tuple[str, ...]) -> Table:
    """The agreed columns of a table, or of an array that has no others."""
    matrix = _as_plain_matrix(table)
    if matrix is not None and matrix.shape[1] != len(names):
        raise DataError(
            f"An array has {matrix.shape[1]} columns, {len(names)} were agreed.", "Give the agreed columns."
        )
    return as_table(table if matrix is None else matrix, names)


def _during(position: int, action: Any) -> Any:
    """The result of an action; an error of ours says first which member it was about."""
    try:
        return action()
    except (DataError, SchemaError) as error:
        problem = f"Member {position + 1}: {error.problem}"
        raise type(error)(problem, error.remedy) from None


def _bounded_by_records(layout: Layout, members: Sequence[Records]) -> Layout:
    ends = [(block.min(axis=0), block.max(axis=0)) for records in members for block in records.blocks()]
    low = np.min([end[0] for end in ends], axis=0)
    high = np.max([end[1] for end in ends], axis=0)
    return Layout(layout.names, low, np.where(high > low, high, low + 1.0), layout.schema)


def check_family(family: Family, members: Sequence[Records]) -> None:
    """Raise DataError unless all records are of the kind a family is about."""
    for position, records in enumerate(members):
        for block in records.blocks():
            fault = family.fault(block)
            if fault is not None:
                raise DataError(f"Member {position + 1}: {fault}.", "Use another family, or prepare the columns.")


def levels_of(layout: Layout) -> tuple[int, ...]:
    """How many codes each column of categorical patterns has."""
    if layout.high is None:
        raise InvalidParameter("Categorical patterns need declared levels.", "Give a schema or bounds.")
    return tuple(int(top) + 1 for top in layout.high)


def finite_matrix(X: object, names: tuple[str, ...], schema: Schema | None) -> Floats:
    """New records to be scored: agreed columns, not clipped, so that what lies far outside scores high."""
    table = _agreed(X, names)
    facts = {} if schema is None else schema.features
    columns = []
    for name in names:
        column = facts.get(name)
        if isinstance(column, Category):
            columns.append(codes(table.column(name), column, name).astype(np.float64))
            continue
        found = numbers(table.column(name), name)
        if isinstance(column, Number) and column.stand_in is not None:
            found = np.where(np.isnan(found), column.stand_in, found)
        columns.append(found)
    matrix = np.stack(columns, axis=1)
    finite: Booleans = np.isfinite(matrix)
    if not np.all(finite):
        raise DataError("The records hold gaps or infinities.", "Fill or drop them before use.")
    return matrix
