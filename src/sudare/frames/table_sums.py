"""Sums over the tables of a source, each of which is read once and then forgotten: what a statistic needs of any number of rows.

A part is what one table gives, made of whole numbers or of multiples of a public step, so that parts add up without rounding: the total has the same
bits however the rows are cut into tables. Whoever makes a part raises where a value is not what was declared. So one pass finds what is wrong with the
rows *and* adds them up, before anything is charged.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, TypeVar

from sudare.frames.fixed_order_summation import Added, Sum
from sudare.frames.rows import changed_source
from sudare.frames.source_checks import check_persons, check_unchanged
from sudare.frames.sources import batches, has_local_files, in_memory, is_in_memory, is_read_once, row_count
from sudare.frames.sources import source as source_of
from sudare.frames.spark_sums import is_spark
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import no_rows

# So few that what is worked on stays in the processor's cache, so many that calling functions costs little beside the rows.
BATCH_VALUES: Final = 2**17
FEWEST_BATCH_ROWS, MOST_BATCH_ROWS = 2**10, 2**16
# So often a file is opened at most to be read a few columns at a time.
MOST_COLUMN_GROUPS: Final = 16


class CountsRows(Added, Protocol):
    """What can be added to its like, and knows how many rows it is about."""

    @property
    def rows(self) -> int: ...


Counts = TypeVar("Counts", bound=CountsRows)


def total_over_tables(source: Any, part_of: Callable[[Any], Sum], schema: Schema) -> Sum:
    """The sum of `part_of(table)` over the tables of a source, of which the columns of the schema are read once.

    A table in memory is one part, and whoever gives it has counted its persons.
    Raise DataError where there are no tables, PersonRowsExceeded where a person has more rows than the schema allows.
    """
    if is_spark(source):
        from sudare.frames.spark_sums import total_on_spark

        return total_on_spark(source, part_of, schema)
    if is_in_memory(source):
        return part_of(in_memory(source))
    passes_once, opened = is_read_once(source), source_of(source)
    state = opened.state()
    if not passes_once:
        check_persons(opened, schema)
    total: list[Sum] = []

    def passing() -> Iterator[Any]:
        for table in batches(opened, None, rows_at_once(len(schema.columns)), schema):
            part = part_of(table)
            total[:] = [total[0] + part] if total else [part]
            yield table

    passed = passing()
    if passes_once:
        schema.check_person(passed)
    # Without persons nobody has looked at the tables yet.
    collections.deque(passed, maxlen=0)
    check_unchanged(opened, state)
    if not total:
        raise no_rows()
    return total[0]


def totals_by_columns(source: Any, part_of: Callable[[Schema, Any], Counts], schema: Schema) -> list[Counts]:
    """The sums of `part_of(columns, table)` over the tables of a source, of groups of columns one after the other.

    Where columns lie apart, as in Parquet, few are read at a time: that is quicker, and takes less memory. Elsewhere all are one group.
    """
    # Files that tell how many rows they have are Parquet.
    groups = column_groups(schema) if has_local_files(source) and row_count(source) is not None else [schema]
    if len(groups) > 1:
        check_persons(source, schema)
    totals = [total_over_tables(source, functools.partial(part_of, columns), columns) for columns in groups]
    if len({total.rows for total in totals}) > 1:
        raise changed_source()
    return totals


def column_groups(schema: Schema) -> list[Schema]:
    """The features of a schema, few at a time; persons are left out where there are several groups."""
    names = list(schema.features)
    size = -(-len(names) // MOST_COLUMN_GROUPS)
    if len(names) <= size:
        return [schema]
    starts = range(0, len(names), size)
    return [Schema({name: schema.features[name] for name in names[start : start + size]}) for start in starts]


def rows_at_once(columns: int) -> int:
    """How many rows of so many columns make a batch."""
    return max(FEWEST_BATCH_ROWS, min(MOST_BATCH_ROWS, BATCH_VALUES // max(1, columns)))
