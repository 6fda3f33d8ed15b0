"""Members' records: tables in memory or files read in batches, as blocks of finite numbers in agreed columns.

Errors name the member by its position and the column, and no value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from sudare.array_types import Floats
from sudare.dictionary.exponential_families import Family
from sudare.errors import DataError, InvalidParameter, SchemaError
from sudare.frames import column_types
from sudare.frames.fixed_order_summation import Sum
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Rows
from sudare.frames.sources import in_memory, is_in_memory, is_stored
from sudare.privacy.declared_columns import given_bounds
from sudare.schema import Category, Column, Number, Schema
from sudare.schema.column_values import clipped_numbers, codes, declared_numbers, numbers
from sudare.schema.table_from_any_frame import Table, as_table

Bounds = tuple[npt.ArrayLike, npt.ArrayLike]
Made = TypeVar("Made")

# Moments are sums of squares and of products of variances: beyond this they overflow.
_LARGEST: Final = 1e75


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """A member's own records, in blocks of finite numbers that can be read again and again, here or by the workers of a cluster."""

    checked: Rows

    @classmethod
    def of(cls, matrix: Floats) -> Records:
        """Records in memory, columns in the agreed order and units."""
        return cls(Rows.held(matrix))

    @property
    def rows(self) -> int:
        """How many."""
        return self.checked.count

    def of_blocks(self, function: Callable[[Floats], Made]) -> list[Made]:
        """What a function gives for each block, in their order: matrices of at least one row, columns in the agreed order and units."""
        return self.checked.total(partial(_listed, function))

    def thinned(self, most: int) -> Floats:
        """All records in their order, or where there are more than `most` every second, fourth, … of them."""
        step = 1
        while self.rows > most * step:
            step *= 2
        return np.concatenate(self.of_blocks(partial(_every, step)))


def _every(step: int, block: Floats) -> Floats:
    """Blocks begin at multiples of a power of two, so that which records these are does not depend on blocks."""
    return block[::step]


def _listed(function: Callable[[Floats], Made], block: Floats) -> list[Made]:
    return [function(block)]


def total_over(records: Records, function: Callable[[Floats], Sum]) -> Sum:
    """The sum of a function of blocks over all records, in an order that does not depend on how they are stored."""
    return records.checked.total(function)


@dataclass(frozen=True, eq=False)
class Layout:
    """The agreed columns. Bounds are None only while they are still to be found in one owner's simulation."""

    names: tuple[str, ...]
    low: Floats | None = None
    high: Floats | None = None
    schema: Schema | None = None

    def matrix(self, table: Table) -> Floats:
        """A table's agreed columns within their bounds. Raise DataError where one has gaps or is too large to be squared."""
        facts = {} if self.schema is None else self.schema.features
        matrix = np.stack([_column(table, name, facts.get(name), clip=True) for name in self.names], axis=1)
        if self.schema is not None:
            return matrix
        for name, largest in zip(self.names, np.abs(matrix).max(axis=0, initial=0.0), strict=True):
            if largest > _LARGEST:
                raise DataError(
                    f"Column {name!r} holds numbers beyond {_LARGEST:g}, whose squares are none.",
                    "Use other units, or a schema.",
                )
        return matrix if self.low is None or self.high is None else np.clip(matrix, self.low, self.high)


def finite_matrix(X: object, names: tuple[str, ...], schema: Schema | None) -> Floats:
    """New records to be scored: agreed columns, not clipped, so that what lies far outside scores high."""
    table, facts = _agreed(in_memory(X, schema, names), names), {} if schema is None else schema.features
    return np.stack([_column(table, name, facts.get(name), clip=False) for name in names], axis=1)


def _column(table: Table, name: str, facts: Column | None, *, clip: bool) -> Floats:
    """One column as finite numbers: codes of categories, what is declared in place of gaps; within declared bounds if `clip`."""
    values = table.column(name)
    if isinstance(facts, Category):
        return codes(values, facts, name).astype(np.float64)
    if clip and isinstance(facts, Number):
        return clipped_numbers(values, facts, name)[0]
    found = declared_numbers(values, facts, name) if isinstance(facts, Number) else numbers(values, name)
    if isinstance(facts, Number) and facts.stand_in is not None:
        found = np.where(np.isnan(found), facts.stand_in, found)
    if not np.all(np.isfinite(found)):
        raise DataError(f"Column {name!r} holds gaps or infinities.", "Fill or drop them before use.")
    return found


def opened_members(
    members: Sequence[object], schema: Schema | None, bounds: Bounds | None, family: type[Family], cluster: Any = None
) -> tuple[Layout, list[Records]]:
    """The layout that all members share, and each one's records, checked.

    Without a schema or bounds the bounds are those of all records: possible because a list of tables is one owner's
    simulation. A real consortium declares them.
    """
    tables = checked_members(members)
    layout = _layout(tables, schema, bounds, family)
    opened = [
        _during(position, lambda source=source: _opened(source, layout, cluster))
        for position, source in enumerate(tables)
    ]
    if layout.low is None:
        layout = _bounded_by_records(layout, opened)
    return layout, opened


def checked_members(members: object) -> list[Any]:
    """The members' tables. Raise InvalidParameter where they are not a list."""
    if not is_in_memory(members) or hasattr(members, "shape") or not isinstance(members, Sequence):
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
    low, high = map(np.array, given_bounds(bounds, len(names[0])))
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
    arrays_of = partial(_arrays, layout)
    return Records(checked_rows(source, arrays_of, types, layout.names, cluster=cluster))


def _arrays(layout: Layout, part: Any) -> tuple[Floats]:
    return (layout.matrix(_agreed(part, layout.names)),)


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
    ends = [end for records in members for end in records.of_blocks(_ends)]
    low = np.min([end[0] for end in ends], axis=0)
    high = np.max([end[1] for end in ends], axis=0)
    return Layout(layout.names, low, np.where(high > low, high, low + 1.0), layout.schema)


def _ends(block: Floats) -> tuple[Floats, Floats]:
    return block.min(axis=0), block.max(axis=0)


def check_family(family: Family, members: Sequence[Records]) -> None:
    """Raise DataError unless all records are of the kind a family is about."""
    for position, records in enumerate(members):
        fault = next((found for found in records.of_blocks(family.fault) if found is not None), None)
        if fault is not None:
            raise DataError(f"Member {position + 1}: {fault}.", "Use another family, or prepare the columns.")


def levels_of(layout: Layout) -> tuple[int, ...]:
    """How many codes each column of categorical patterns has."""
    if layout.high is None:
        raise InvalidParameter("Categorical patterns need declared levels.", "Give a schema or bounds.")
    return tuple(int(top) + 1 for top in layout.high)
