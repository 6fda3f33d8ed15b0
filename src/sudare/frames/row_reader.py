"""The one reader of rows: checked and counted before anything is charged, then given again as often as a learner asks.

A source is a table in memory, which is converted once; files, which are read anew at every pass or, by those who need many, kept; or what comes once, or in any
order it likes (an iterator of tables, a database, a lazy frame), and is kept (`frames.row_spool`). With a cluster, workers read the rows and keep them
(`frames.dask_worker_rows`).
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sudare.errors import DataError
from sudare.frames.dask_worker_rows import is_sharded, rows_on, sent
from sudare.frames.fixed_order_summation import BLOCK_ROWS as TREE_BLOCK_ROWS
from sudare.frames.record_source import RecordSource
from sudare.frames.row_spool import Spool
from sudare.frames.rows import Arrays, Counts, Rows, Tallied, added, array_width, tallied
from sudare.frames.source_checks import check_persons, check_unchanged
from sudare.frames.sources import DEFAULT_BATCH_ROWS, HeldTable, batches, is_stored
from sudare.frames.sources import source as source_of
from sudare.frames.spark_sums import is_spark, spark_rows
from sudare.schema import Schema, Table
from sudare.schema.table_from_any_frame import no_rows

# A public number: rows of a file or database that take more are read anew at every pass.
MOST_KEPT_BYTES: Final = 2**34


def checked_rows(
    source: Any,
    arrays_of: Callable[[Any], Arrays | Tallied],
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    *,
    read_once: bool = False,
    keep: bool = False,
    cluster: Any = None,
    may_be_empty: bool = False,
) -> Rows:
    """The rows of a source, all of them read once, so that what is wrong with them is said before anything is charged.

    `arrays_of` makes arrays of a table and raises where a value is not what was declared; `columns` and `schema` say which columns are
    read. With `read_once` the arrays of every source are kept as those of an iterator are, so that any row can be asked for. With `keep` the arrays of a file or database wait
    for later passes as those of an iterator do, up to a public size, and as long as there is room. With a `cluster` (a client of
    dask.distributed, or what one can be made from) its workers read and check the rows, and keep them: `arrays_of` is sent there.
    Raise DataError where there are no rows, unless a source `may_be_empty` and gives a table without any, PersonRowsExceeded where a person has more than the schema allows: whoever calls this leaves out
    what is too much first (`sudare.frames.kept_persons`), as every fit does.
    """
    if is_spark(source) and not read_once:
        return spark_rows(source, arrays_of, schema, columns)
    if cluster is not None and is_sharded(source):
        return rows_on(cluster, source, arrays_of, schema, columns, batch_rows)
    opened = source_of(source)

    def tables() -> Iterator[Table]:
        return batches(opened, columns, batch_rows, schema)

    if isinstance(opened, HeldTable):
        check_persons(opened, schema)
        made = tallied(arrays_of(opened.table))
        rows = Rows.held(*made.arrays, tally=made.tally)
    elif opened.is_repeatable and not read_once:
        rows = _repeated_rows(
            opened, lambda: map(tallied, map(arrays_of, tables())), schema, keep=keep and cluster is None
        )
    else:
        rows = _kept_rows(tables(), arrays_of, schema, Spool())
    if rows.count == 0:
        if may_be_empty and any(True for _ in rows.parts()):
            return replace(rows, may_be_empty=True)
        raise no_rows()
    if cluster is None:
        return rows
    return sent(cluster, rows.blocks(TREE_BLOCK_ROWS), None if is_stored(source) else rows, rows.tally)


def _repeated_rows(
    opened: RecordSource, read: Callable[[], Iterator[Tallied]], schema: Schema | None, *, keep: bool
) -> Rows:
    """Rows that are read anew at every pass, unless they are kept and there is room."""
    state = opened.state()
    check_persons(opened, schema)

    def parts(aside: str = "") -> Iterator[Tallied]:
        check_unchanged(opened, state, aside)
        return read()

    count, width, tally, spool = 0, 0, None, Spool() if keep else None
    for part in parts():
        spool = _with_rows(spool, part.arrays)
        count, width, tally = count + len(part.arrays[0]), array_width(part.arrays[0]), added(tally, part.tally)
    check_unchanged(opened, state)
    if spool is not None and count > 0:
        return Rows.held(*spool.together(), tally=tally)
    return Rows(lambda: (part.arrays for part in parts(" What was charged stays charged.")), count, width, tally)


def _with_rows(spool: Spool | None, arrays: Arrays) -> Spool | None:
    """The spool with further rows; None where they would be too many to be kept, or no file has room for them."""
    if spool is None or spool.bytes + sum(array.nbytes for array in arrays) > MOST_KEPT_BYTES:
        return None
    try:
        spool.append(arrays)
    except DataError:
        return None
    return spool


def _kept_rows(
    tables: Iterator[Table], arrays_of: Callable[[Any], Arrays | Tallied], schema: Schema | None, spool: Spool
) -> Rows:
    """Rows that come once, kept for every later pass; persons are counted as they pass."""
    tallies: list[Counts] = []

    def passing() -> Iterator[Table]:
        for table in tables:
            made = tallied(arrays_of(table))
            spool.append(made.arrays)
            tallies.append(made.tally)
            yield table

    passed = passing()
    if schema is not None:
        schema.check_person(passed)
    # Without persons nobody has looked at the tables yet.
    collections.deque(passed, maxlen=0)
    if not tallies:
        raise no_rows()
    return Rows.held(*spool.together(), tally=np.sum(tallies, axis=0))


def placed(rows: Rows, cluster: Any) -> Rows:
    """Returns the rows, kept by the workers of a cluster where there is one."""
    if cluster is None:
        return rows
    return sent(cluster, rows.blocks(TREE_BLOCK_ROWS), rows, rows.tally)
