"""The one reader of rows: checked and counted before anything is charged, then given again as often as a learner asks.

A source is a table in memory, which is converted once; files, which are read anew at every pass or, by those who need many, kept; or what comes once, or in any
order it likes (an iterator of tables, a database, a lazy frame), and is kept (`frames.spool`). With a cluster, workers read the rows and keep them
(`frames.dask_rows`).
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.errors import DataError
from sudare.frames.derived_sources import MadeSource
from sudare.frames.fixed_tree import BLOCK_ROWS as TREE_BLOCK_ROWS
from sudare.frames.fixed_tree import Sum, pairwise_total
from sudare.frames.record_source import RecordSource
from sudare.frames.sources import DEFAULT_BATCH_ROWS, HeldTable, batches, in_memory, is_stored
from sudare.frames.sources import source as source_of
from sudare.frames.spool import Spool
from sudare.schema import Schema, Table
from sudare.schema.frame_conversion import no_rows

# Arrays of one length: the entries at one place belong to one row.
Arrays = tuple[NDArray[Any], ...]

Counts = NDArray[np.int64]

BLOCK_ROWS: Final = 1024
# A public number: rows of a file or database that take more are read anew at every pass.
MOST_KEPT_BYTES: Final = 2**34


class Tallied(NamedTuple):
    """Arrays of a table, and whole numbers about it that are added up over all tables when the rows are checked."""

    arrays: Arrays
    tally: Counts


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows as arrays of one length, given from the beginning as often as one asks.

    `parts` starts a pass over arrays of any lengths; `count` is the number of rows, `width` the number of columns of the first array,
    `tally` what was counted beside them.
    """

    parts: Callable[[], Iterable[Arrays]]
    count: int
    width: int
    tally: Counts | None = None

    @classmethod
    def held(cls, *arrays: NDArray[Any]) -> Rows:
        """Rows in memory."""
        return cls(lambda: [arrays], len(arrays[0]), array_width(arrays[0]))

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[Arrays]:
        """All rows in blocks of exactly `rows`, the last one shorter: the same blocks however the rows are stored.

        Raise DataError where the source no longer has the rows that were counted.
        """
        return fixed_blocks(self.counted_parts(), rows)

    def total(
        self, function: Callable[..., Sum], beside: NDArray[Any] | None = None, first_rows: int | None = None
    ) -> Sum:
        """The sum of `function(*arrays)` over blocks of 65,536 rows, in a fixed tree: the same bits wherever the rows are.

        The function gives anything that can be added. It is sent to the workers of a cluster, and must not change its arrays. `beside` is
        an array with an entry for each row, of which it gets a block's part as last argument. With `first_rows` only so many rows are
        added, from the first one on, at most a block.
        """
        blocks = self.blocks(TREE_BLOCK_ROWS)
        if first_rows is not None:
            blocks = (cut(block, first_rows) for block in itertools.islice(blocks, 1))
        total = pairwise_total(function(*block) for block in with_beside(blocks, beside))
        if total is None:
            raise no_rows()
        return total

    def counted_parts(self) -> Iterator[Arrays]:
        """One pass over the parts as they come. Raise DataError where there are not as many rows as were counted."""
        seen = 0
        for part in self.parts():
            seen += len(part[0])
            if seen > self.count:
                break
            yield part
        if seen != self.count:
            raise changed_source()

    def together(self) -> Arrays:
        """All rows in one part."""
        return _joined(list(self.counted_parts()))


def checked_rows(
    source: Any,
    arrays_of: Callable[[Any], Arrays | Tallied],
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    *,
    in_memory: bool = False,
    keep: bool = False,
    cluster: Any = None,
) -> Rows:
    """The rows of a source, all of them read once, so that what is wrong with them is said before anything is charged.

    `arrays_of` makes arrays of a table and raises where a value is not what was declared; `columns` and `schema` say which columns are
    read. With `in_memory` every source is read only once and held in memory, whatever its size. With `keep` the arrays of a file or database wait
    for later passes as those of an iterator do, up to a public size, and as long as there is room. With a `cluster` (a client of
    dask.distributed, or what one can be made from) its workers read and check the rows, and keep them: `arrays_of` is sent there.
    Raise DataError where there are no rows, PersonRowsExceeded where a person has more than the schema allows: whoever calls this leaves out
    what is too much first (`sudare.frames.kept_persons`), as every fit does.
    """
    if is_spark(source) and not in_memory:
        from sudare.frames.spark_sums import spark_rows

        return spark_rows(source, arrays_of, schema, columns)
    if cluster is not None:
        from sudare.frames.dask_rows import rows_on

        return rows_on(cluster, source, arrays_of, schema, columns, batch_rows)
    opened = source_of(source)
    if isinstance(opened, HeldTable):
        check_persons(opened, schema)
        made = tallied(arrays_of(opened.table))
        rows = replace(Rows.held(*made.arrays), tally=made.tally)
    elif opened.is_repeatable and not in_memory:
        rows = _repeated_rows(opened, arrays_of, schema, columns, batch_rows, keep=keep)
    else:
        tables = batches(opened, columns, batch_rows, schema)
        rows = _kept_rows(tables, arrays_of, schema, Spool(math.inf if in_memory else None))
    if rows.count == 0:
        raise no_rows()
    return rows


def _repeated_rows(
    opened: RecordSource,
    arrays_of: Callable[[Any], Arrays | Tallied],
    schema: Schema | None,
    columns: Sequence[str] | None,
    batch_rows: int,
    *,
    keep: bool,
) -> Rows:
    """Rows that are read anew at every pass, unless they are kept and there is room."""
    state = opened.state()
    check_persons(opened, schema)

    def parts(aside: str = "") -> Iterator[Tallied]:
        check_unchanged(opened, state, aside)
        return (tallied(arrays_of(table)) for table in batches(opened, columns, batch_rows, schema))

    count, width, tally, spool = 0, 0, None, Spool() if keep else None
    for part in parts():
        spool = _with_rows(spool, part.arrays)
        count, width, tally = count + len(part.arrays[0]), array_width(part.arrays[0]), added(tally, part.tally)
    check_unchanged(opened, state)
    if spool is not None and count > 0:
        return replace(Rows.held(*spool.together()), tally=tally)
    return Rows(lambda: (part.arrays for part in parts(" What was charged stays charged.")), count, width, tally)


def is_spark(source: object) -> bool:
    """Whether a source is a Spark dataframe, as far as `sudare.frames.spark_sums` uses it."""
    return all(hasattr(source, name) for name in ("mapInArrow", "select", "columns"))


def placed(rows: Rows, cluster: Any) -> Rows:
    """The same rows, kept by the workers of a cluster where there is one."""
    if cluster is None:
        return rows
    from sudare.frames.dask_rows import sent

    return sent(cluster, rows.blocks(TREE_BLOCK_ROWS), rows, rows.tally)


def tallied(made: Arrays | Tallied) -> Tallied:
    """Arrays with their tally, which is empty where there is none."""
    return made if isinstance(made, Tallied) else Tallied(made, np.zeros(0, np.int64))


def added(tally: Counts | None, other: Counts) -> Counts:
    """The sum of two tallies, of which the first may not have begun."""
    return other if tally is None else tally + other


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
    if spool.count == 0:
        raise no_rows()
    return replace(Rows.held(*spool.together()), tally=np.sum(tallies, axis=0))


def check_unchanged(source: RecordSource, state: object, aside: str = "") -> None:
    """Raise DataError where a source is not what it was when its rows were checked, as far as that shows without reading it."""
    if source.state() != state:
        raise DataError(
            "The source was changed while it was read: its files are not those that were checked.",
            f"Give a copy that nobody changes meanwhile.{aside}",
        )


def changed_source() -> DataError:
    """What is raised where a source no longer has the rows that were counted."""
    return DataError(
        "The source had another number of rows when it was read again.",
        "Give a copy that nobody changes meanwhile. What was charged stays charged.",
    )


def check_persons(source: Any, schema: Schema | None) -> None:
    """Raise PersonRowsExceeded where a person has more rows in the source than the schema allows."""
    known = source.most_rows if isinstance(source, MadeSource) else None
    if schema is not None and schema.person is not None and (known is None or known > schema.person.bound):
        is_read = is_stored(source)
        schema.check_person(batches(source, [schema.person.column], schema=schema) if is_read else in_memory(source))


def fixed_blocks(parts: Iterable[Arrays], rows: int) -> Iterator[Arrays]:
    """The same rows in blocks of exactly `rows`, but for the last; without copying where a part holds a whole block."""
    waiting: list[Arrays] = []
    count, width = 0, None
    for part in parts:
        start, length = 0, len(part[0])
        width = array_width(part[0]) if width is None else width
        if length and array_width(part[0]) != width:
            raise DataError(
                f"A part of the source has {array_width(part[0])} columns, those before it {width}.",
                "Give all the same.",
            )
        while start < length:
            piece = tuple(array[start : start + rows - count] for array in part)
            waiting.append(piece)
            start, count = start + len(piece[0]), count + len(piece[0])
            if count == rows:
                yield _joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def with_beside(blocks: Iterable[Arrays], beside: NDArray[Any] | None, start: int = 0) -> Iterator[Arrays]:
    """The same blocks; after the arrays of each comes the part of `beside` that belongs to its rows, counted from `start`."""
    for block in blocks:
        yield block if beside is None else (*block, beside[start : start + len(block[0])])
        start += len(block[0])


def cut(block: Arrays, rows: int) -> Arrays:
    """The first rows of a block."""
    return tuple(array[:rows] for array in block)


def _joined(parts: list[Arrays]) -> Arrays:
    return parts[0] if len(parts) == 1 else tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def array_width(array: NDArray[Any]) -> int:
    """How many columns an array has."""
    return int(array.shape[1]) if array.ndim > 1 else 1
