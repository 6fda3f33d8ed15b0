"""Rows that the workers of a Dask cluster read, check and keep: functions go there, sums come back.

Each worker reads its own shards (`frames.source_shards`), encodes them and keeps the encoded rows, packed, between passes. What was held by a worker
that is gone is read again by another one. Tasks never fail (`frames.worker_failures`). Noise is drawn, and the ledger written, by the caller alone.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.errors import InvalidParameter
from sudare.frames.dask_clients import client_of, thread_count, wait_for_workers, workers_died
from sudare.frames.fixed_order_summation import BLOCK_ROWS, BlockSum, Sum, nodes_of, total_of
from sudare.frames.lossless_array_packing import Packed, UnpackingMemory, packed
from sudare.frames.rows import (
    Arrays,
    Counts,
    Rows,
    Tallied,
    added,
    array_width,
    changed_source,
    cut,
    fixed_blocks,
    tallied,
)
from sudare.frames.source_checks import check_persons
from sudare.frames.source_shards import shards_of
from sudare.frames.sources import DEFAULT_BATCH_ROWS, has_local_files, row_count
from sudare.frames.worker_failures import WorkerReader, checked_answer, guarded
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import attempt, no_rows

Result = TypeVar("Result")

# So many shards for each thread: fewer leave threads waiting for the last one, more cost messages.
_SHARDS_PER_THREAD: Final = 8
_MOST_SHARD_ROWS: Final = 2**22
# A worker that dies takes its task with it; a task that so many workers died of is not tried again.
_MOST_TRIES: Final = 4


@dataclass(frozen=True, eq=False, repr=False)
class _Kept:
    """Encoded rows at a worker: blocks of `BLOCK_ROWS`, the last one shorter."""

    blocks: list[tuple[Packed, ...]]
    count: int
    width: int
    tally: Counts | None = None

    @classmethod
    def of(cls, parts: Iterable[Arrays]) -> _Kept:
        count, width, blocks = 0, 0, []
        for block in fixed_blocks(parts, BLOCK_ROWS):
            count, width = count + len(block[0]), array_width(block[0])
            blocks.append(tuple(map(packed, block)))
        return cls(blocks, count, width)

    def arrays(self) -> Iterator[Arrays]:
        return (tuple(array.unpacked() for array in block) for block in self.blocks)

    def __sizeof__(self) -> int:
        """What the scheduler counts as held."""
        return sum(array.nbytes for block in self.blocks for array in block)

    def __repr__(self) -> str:
        return f"<{self.count} rows>"


def _kept_by(reader: WorkerReader, shard: Any) -> _Kept:
    """The encoded rows of a shard."""
    tallies: list[Counts] = []

    def parts() -> Iterator[Arrays]:
        for made in map(tallied, reader.made_of(shard)):
            tallies.append(made.tally)
            yield made.arrays

    kept = _Kept.of(parts())
    # What reading needed is given back: where a worker comes near its limit, Dask writes rows to disk.
    pa.default_memory_pool().release_unused()
    return replace(kept, tally=np.sum(tallies, axis=0) if tallies else None)


def _facts(kept: _Kept) -> _Kept:
    """What is known about encoded rows, without them."""
    return replace(kept, blocks=[])


def _head(kept: _Kept, rows: int) -> _Kept:
    """The first rows of a shard, for the one before it."""
    return _Kept.of(_first(kept.arrays(), rows))


def _first(blocks: Iterable[Arrays], rows: int) -> Iterator[Arrays]:
    for block in blocks:
        if rows <= 0:
            return
        yield cut(block, rows)
        rows -= len(block[0])


def _shifted(skipped: int, *kept: _Kept) -> _Kept:
    """The rows of shards and of pieces after them, without the first ones."""

    def parts() -> Iterator[Arrays]:
        left = skipped
        for block in itertools.chain.from_iterable(each.arrays() for each in kept):
            if left < len(block[0]):
                yield tuple(array[left:] for array in block)
            left = max(0, left - len(block[0]))

    return _Kept.of(parts())


@dataclass(frozen=True, eq=False, repr=False)
class _Question(Generic[Sum]):
    """What is to be added up over one piece."""

    function: Callable[..., Sum]
    first_block: int
    rows: int
    beside: NDArray[Any] | None
    first_rows: int | None

    def nodes(self, kept: _Kept) -> list[BlockSum[Sum]]:
        if kept.count != self.rows:
            raise changed_source()
        return nodes_of(self._values(kept.blocks), self.first_block)

    def _values(self, blocks: list[tuple[Packed, ...]]) -> Iterator[Sum]:
        memory, start = UnpackingMemory(), 0
        if self.first_rows is not None:
            blocks = [tuple(array.first(self.first_rows) for array in block) for block in blocks[:1]]
        for block in blocks:
            stop = start + len(block[0].numbers)
            yield memory.result(self.function, block, *(() if self.beside is None else (self.beside[start:stop],)))
            start = stop

    def __repr__(self) -> str:
        return "<a question>"


@dataclass(eq=False, repr=False)
class _Piece:
    """Rows at the workers that begin at a multiple of `BLOCK_ROWS`, and how to have them again where the cluster forgot them."""

    future: Any
    start: int
    rows: int
    again: Callable[[], Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRows(Rows):
    """Rows kept by workers. Sums over them have the bits of sums over the same rows here.

    Every other pass begins with the last piece: of rows that do not fit into memory, those that were looked at last are still there.
    """

    pieces: Sequence[_Piece] = field(default=())
    client: Any = None
    _backwards: Iterator[bool] = field(default_factory=lambda: itertools.cycle((False, True)))

    def total(
        self, function: Callable[..., Sum], beside: NDArray[Any] | None = None, first_rows: int | None = None
    ) -> Sum:
        """As in `Rows`: the function goes to the workers, and comes back as few sums."""
        pieces = self.pieces if first_rows is None else self.pieces[:1]
        questions = [
            _Question(
                function,
                piece.start // BLOCK_ROWS,
                piece.rows,
                None if beside is None else beside[piece.start : piece.start + piece.rows],
                first_rows,
            )
            for piece in pieces
        ]
        functions = [question.nodes for question in questions]
        answers = _answers(self.client, pieces, functions, backwards=next(self._backwards))
        total = total_of(itertools.chain.from_iterable(answers))
        if total is None:
            raise no_rows()
        return total


def _answers(
    client: Any, pieces: Sequence[_Piece], functions: Sequence[Callable[[_Kept], Result]], *, backwards: bool = False
) -> list[Result]:
    """What each function gives for its piece, in their order; what was lost with a worker is computed again."""
    found: dict[int, Result] = {}
    order = range(len(pieces))[:: -1 if backwards else 1]
    for _ in range(_MOST_TRIES):
        asked = [place for place in order if place not in found]
        answers = _submitted_together(
            client, "sum", [functions[place] for place in asked], [pieces[place].future for place in asked]
        )
        lost = []
        for place, answer in zip(asked, _gathered(client, answers), strict=True):
            if answer is None:
                lost.append(place)
            else:
                found[place] = checked_answer(answer)
        if not lost:
            return [found[place] for place in range(len(pieces))]
        wait_for_workers(client)
        for place in lost:
            if (again := pieces[place].again) is not None:
                pieces[place].future = again()
    raise workers_died()


def _gathered(client: Any, futures: list[Any]) -> list[Any]:
    """The results, with None for those that went down with a worker."""
    together = attempt(lambda: client.gather(futures))
    return [attempt(future.result) for future in futures] if together is None else list(together)


def rows_on(
    cluster: Any,
    source: Any,
    arrays_of: Callable[[Any], Arrays | Tallied],
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
) -> Rows:
    """The rows of a source that `is_sharded`, all of them read, checked and kept by the workers of a cluster.

    Raise what the local reader raises, and ClusterFailed where the cluster cannot do it.
    """
    client = client_of(cluster)
    loaded = _read_by_workers(client, source, WorkerReader(arrays_of, schema, columns, batch_rows))
    pieces = [_Piece(future, 0, 0) for future in loaded]
    facts = _answers(client, pieces, [_facts] * len(pieces))
    if sum(each.count for each in facts) == 0:
        raise no_rows()
    return _rows_of(client, _aligned(client, pieces, facts), facts)


def is_sharded(source: object) -> bool:
    """Whether the workers of a cluster can read a source themselves: files of this machine, or the partitions of a Dask dataframe.

    An address with a password is not sent to others, so databases and object stores are read here.
    """
    return _is_partitioned(source) or has_local_files(source)


def _is_partitioned(source: object) -> bool:
    return type(source).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(source, "to_delayed")


def _read_by_workers(client: Any, source: Any, reader: WorkerReader) -> list[Any]:
    """The encoded rows of each shard, in the order of the shards, as futures."""
    threads = thread_count(client)
    if _is_partitioned(source):
        from dask.delayed import delayed

        if reader.schema is not None and reader.schema.person is not None:
            raise InvalidParameter(
                "The schema declares persons, whose rows cannot be counted across the partitions of a Dask dataframe.",
                "Write it to Parquet files, and give their path.",
            )
        read = delayed(guarded, pure=False)
        found: list[Any] = client.compute([read(_kept_by, reader, partition) for partition in source.to_delayed()])
        return found
    check_persons(source, reader.schema)
    if not os.path.isabs(os.fspath(source)):
        reader = replace(reader, folder=os.path.join(os.getcwd(), ""))
    wanted = -(-(row_count(source) or 0) // (threads * _SHARDS_PER_THREAD))
    shards = shards_of(source, min(max(wanted, BLOCK_ROWS), _MOST_SHARD_ROWS))
    return [_submitted(client, "read", _kept_by, reader, shard) for shard in shards]


def sent(cluster: Any, blocks: Iterable[Arrays], held: Rows | None = None, tally: Counts | None = None) -> Rows:
    """Rows that were read here, in blocks of `BLOCK_ROWS`, kept by workers from now on; sent again from `held` where one is lost."""
    client = client_of(cluster)
    thread_count(client)
    pieces, start, width = [], 0, 0
    for block in blocks:
        rows, width = len(block[0]), array_width(block[0])
        again = None if held is None else _again(client, held, start)
        pieces.append(_Piece(_scattered(client, block), start, rows, again))
        start += rows
    if not pieces:
        raise no_rows()
    return _rows_of(client, pieces, [_Kept([], start, width, tally)])


def _again(client: Any, held: Rows, start: int) -> Callable[[], Any]:
    number = start // BLOCK_ROWS

    def again() -> Any:
        return _scattered(client, next(itertools.islice(held.blocks(BLOCK_ROWS), number, None)))

    return again


def _scattered(client: Any, block: Arrays) -> Any:
    kept = _Kept.of([block])
    for _ in range(_MOST_TRIES):
        # A worker may die while it is sent something.
        future = attempt(lambda: client.scatter(kept, hash=False))
        if future is not None:
            return future
        wait_for_workers(client)
    raise workers_died()


def _rows_of(client: Any, pieces: Sequence[_Piece], facts: Sequence[_Kept]) -> ClusterRows:
    tally: Counts | None = None
    for each in facts:
        tally = tally if each.tally is None else added(tally, each.tally)

    def nowhere() -> Iterable[Arrays]:
        raise InvalidParameter("The rows are kept by a cluster; this needs them here.", "Leave `cluster` out.")

    width = max(each.width for each in facts)
    return ClusterRows(nowhere, sum(each.count for each in facts), width, tally, pieces, client)


def _aligned(client: Any, pieces: list[_Piece], facts: Sequence[_Kept]) -> list[_Piece]:
    """The same rows in pieces that begin at multiples of `BLOCK_ROWS`: a piece gives its first rows to the one before it where it must."""
    counts = [each.count for each in facts]
    begins = [0, *itertools.accumulate(counts)]
    total = begins[-1]
    cuts = [min(-(-begin // BLOCK_ROWS) * BLOCK_ROWS, total) for begin in begins]
    found = []
    for place, piece in enumerate(pieces):
        low, high = cuts[place], cuts[place + 1]
        if low == high:
            continue
        future = piece.future
        if (low, high) != (begins[place], begins[place + 1]):
            needed = [future]
            for after in range(place + 1, len(pieces)):
                missing = min(high - begins[after], counts[after])
                if missing > 0:
                    needed.append(_submitted(client, "head", _head, pieces[after].future, missing))
            future = _submitted(client, "shift", _shifted, low - begins[place], *needed)
        found.append(_Piece(future, low, high - low))
    return found


def _submitted(client: Any, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    return client.submit(guarded, function, *arguments, pure=False, key=_key(name))


def _submitted_together(
    client: Any, name: str, functions: Sequence[Callable[..., Any]], futures: Sequence[Any]
) -> list[Any]:
    """What each function gives for its future, submitted in one message: each of its own takes the scheduler longer than many thousand rows take a worker."""
    keys = [_key(name) for _ in functions]
    found: list[Any] = client.map(guarded, functions, futures, pure=False, key=keys)
    return found


def _key(name: str) -> str:
    """A name for the dashboard that tells nothing."""
    return f"sudare-{name}-{os.urandom(12).hex()}"
