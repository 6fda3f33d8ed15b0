"""Rows that the workers of a Dask cluster read, check and keep: functions go there, sums come back.

Each worker reads its own shards (`frames.shards`), encodes them and keeps the encoded rows, packed, between passes. What was held by a worker
that is gone is read again by another one. A task never fails: what went wrong comes back as a value, in the words of the local reader, so
that no log of a worker and no traceback shows records. Noise is drawn, and the ledger written, by the caller alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import itertools
import operator
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ClusterFailed, DataError, ExtraMissing, InvalidParameter, SourceUnreadable, SudareError
from sudare.frames.fixed_point_packing import Packed, packed
from sudare.frames.fixed_tree import BLOCK_ROWS, Node, Sum, nodes_of, total_of
from sudare.frames.rows import (
    Arrays,
    Counts,
    Rows,
    Tallied,
    added,
    array_width,
    check_persons,
    checked_rows,
    cut,
    fixed_blocks,
    is_stored,
    tallied,
    with_beside,
)
from sudare.frames.shards import Shard, shards_of
from sudare.frames.sources import DEFAULT_BATCH_ROWS, batches, has_local_files, row_count
from sudare.schema import Schema, Table
from sudare.schema.frame_conversion import attempt, no_rows

Result = TypeVar("Result")

_VERSION: Final = version("sudare")
# So many shards for each thread: fewer leave threads waiting for the last one, more cost messages.
_SHARDS_PER_THREAD: Final = 4
_MOST_SHARD_ROWS: Final = 2**22
# A worker that dies takes its task with it; a task that so many workers died of is not tried again.
_MOST_TRIES: Final = 4
# How long a scheduler may take to answer.
CONNECTION_SECONDS: Final = 5
_ADDRESS: Final = re.compile(
    r"(?:(?:tcp|tls|ws|wss|ucx)://)?(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})/?"
)
# Clients that were made here, by the address of their scheduler.
_CLIENTS: Final[dict[str | None, Any]] = {}


class _Failure(NamedTuple):
    """What went wrong at a worker."""

    kind: type[SudareError]
    problem: str
    remedy: str

    def error(self) -> SudareError:
        return self.kind(self.problem, self.remedy)


@dataclass(frozen=True, eq=False, repr=False)
class _Kept:
    """Encoded rows at a worker: blocks of `BLOCK_ROWS`, the last one shorter."""

    blocks: list[tuple[Packed, ...]]
    count: int
    width: int
    tally: Counts | None

    @classmethod
    def of(cls, parts: Iterable[Arrays], tally: Counts | None = None) -> _Kept:
        count, width, blocks = 0, 0, []
        for block in fixed_blocks(parts, BLOCK_ROWS):
            count, width = count + len(block[0]), array_width(block[0])
            blocks.append(tuple(map(packed, block)))
        return cls(blocks, count, width, tally)

    def arrays(self) -> Iterator[Arrays]:
        return (tuple(array.unpacked() for array in block) for block in self.blocks)

    def __sizeof__(self) -> int:
        """What the scheduler counts as held."""
        return sum(array.nbytes for block in self.blocks for array in block)

    def __repr__(self) -> str:
        return f"<{self.count} rows>"


@dataclass(frozen=True, eq=False, repr=False)
class Reader:
    """How a worker reads a shard: what it makes of each table, and which columns that needs."""

    function: Callable[[Any], Any]
    schema: Schema | None
    columns: Sequence[str] | None
    batch_rows: int
    # The folder that the caller's path begins in, where it is not a whole path: errors tell it as it was given.
    folder: str = ""
    caller_version: str = _VERSION

    def kept(self, shard: Any) -> _Kept:
        """The encoded rows."""
        tallies: list[Counts] = []

        def parts() -> Iterator[Arrays]:
            for each in self._made(shard):
                made = tallied(each)
                tallies.append(made.tally)
                yield made.arrays

        kept = _Kept.of(parts())
        return _Kept(kept.blocks, kept.count, kept.width, np.sum(tallies, axis=0) if tallies else None)

    def added(self, shard: Any) -> list[Any]:
        """The sum over all tables; nothing where there is none."""
        total: list[Any] = []
        for part in self._made(shard):
            total = [total[0] + part] if total else [part]
        return total

    def _made(self, shard: Any) -> Iterator[Any]:
        """What the function makes of each table."""
        try:
            yield from map(self.function, self._tables(shard))
        except SudareError as error:
            found = error
        else:
            return
        raise type(found)(found.problem.replace(self.folder, "") if self.folder else found.problem, found.remedy)

    def _tables(self, shard: Any) -> Iterator[Table]:
        if self.caller_version != _VERSION:
            raise InvalidParameter(
                f"A worker of the cluster runs sudare {_VERSION}, the caller {self.caller_version}.",
                "Install the same version everywhere: another one may give other bits.",
            )
        if not isinstance(shard, Shard):
            return batches(shard, self.columns, self.batch_rows, self.schema)
        for file in shard.files:
            if not os.path.exists(file):
                raise SourceUnreadable(
                    f"A worker of the cluster does not find {os.fspath(file)!r}.",
                    "Workers read the files themselves: put them where all see them under the same path.",
                )
        return shard.tables(self.columns, self.batch_rows, self.schema)

    def __repr__(self) -> str:
        return "<a reader of rows>"


class _Facts(NamedTuple):
    rows: int
    width: int
    tally: Counts | None


def guarded(function: Callable[..., Result], *arguments: Any) -> Result | _Failure:
    """What a function returns, or why it did not; a task that raised would be logged with its arguments."""
    failed = next((argument for argument in arguments if isinstance(argument, _Failure)), None)
    if failed is not None:
        return failed
    try:
        return function(*arguments)
    except SudareError as error:
        return _Failure(type(error), error.problem, error.remedy)
    except Exception as error:  # noqa: BLE001 - libraries quote values in their messages, so only the kind is told
        return _Failure(ClusterFailed, f"A worker failed ({type(error).__name__}).", ClusterFailed.help)


def _facts(kept: _Kept) -> _Facts:
    return _Facts(kept.count, kept.width, kept.tally)


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

    def nodes(self, kept: _Kept) -> list[Node[Sum]]:
        if kept.count != self.rows:
            raise _changed()
        blocks = kept.arrays()
        if self.first_rows is not None:
            blocks = (cut(block, self.first_rows) for block in itertools.islice(blocks, 1))
        return nodes_of((self.function(*block) for block in with_beside(blocks, self.beside)), self.first_block)

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
    """Rows kept by workers. Sums over them have the bits of sums over the same rows here."""

    pieces: Sequence[_Piece] = field(default=())
    client: Any = None

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
        answers = _answers(self.client, pieces, [question.nodes for question in questions])
        total = total_of(itertools.chain.from_iterable(answers))
        if total is None:
            raise no_rows()
        return total


def _answers(client: Any, pieces: Sequence[_Piece], functions: Sequence[Callable[[_Kept], Result]]) -> list[Result]:
    """What each function gives for its piece, in their order; what was lost with a worker is computed again."""
    found: dict[int, Result] = {}
    for _ in range(_MOST_TRIES):
        asked = {
            place: client.submit(guarded, functions[place], piece.future, pure=False, key=_key("sum"))
            for place, piece in enumerate(pieces)
            if place not in found
        }
        lost = []
        for place, answer in zip(asked, _gathered(client, list(asked.values())), strict=True):
            if answer is None:
                lost.append(place)
            else:
                found[place] = checked_answer(answer)
        if not lost:
            return [found[place] for place in range(len(pieces))]
        _wait_for_workers(client)
        for place in lost:
            if (again := pieces[place].again) is not None:
                pieces[place].future = again()
    raise _gone()


def checked_answer(answer: Result | _Failure) -> Result:
    if isinstance(answer, _Failure):
        raise answer.error()
    return answer


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
    """What `sudare.frames.rows.checked_rows` gives, read and kept by the workers of a cluster.

    Files of this machine are read by the workers; every other source is read here and sent. Raise what the local reader raises, and
    ClusterFailed where the cluster cannot do it.
    """
    if not is_sharded(source):
        here = checked_rows(source, arrays_of, schema, columns, batch_rows)
        return sent(cluster, here.blocks(BLOCK_ROWS), None if is_stored(source) else here, here.tally)
    client = _client(cluster)
    loaded = _read_by_workers(client, source, Reader(arrays_of, schema, columns, batch_rows), Reader.kept)
    pieces = [_Piece(future, 0, 0) for future in loaded]
    facts = _answers(client, pieces, [_facts] * len(pieces))
    if sum(each.rows for each in facts) == 0:
        raise no_rows()
    return _rows_of(client, _aligned(client, pieces, facts), facts)


def total_on(
    cluster: Any,
    source: Any,
    part_of: Callable[[Any], Sum],
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
) -> Sum:
    """The sum of `part_of(table)` over the tables of a source that `is_sharded`, which workers read once and do not keep.

    For whole numbers, and others that add up without rounding: how the source is cut into tables does not matter to those.
    Raise DataError where there are no rows, PersonRowsExceeded where a person has more than the schema allows.
    """
    client = _client(cluster)
    read = _read_by_workers(client, source, Reader(part_of, schema, columns, batch_rows), Reader.added)
    parts: list[list[Sum]] = _answers(client, [_Piece(future, 0, 0) for future in read], [_as_it_is] * len(read))
    found = list(itertools.chain.from_iterable(parts))
    if not found:
        raise no_rows()
    return functools.reduce(operator.add, found)


def _as_it_is(part: Any) -> Any:
    return part


def is_sharded(source: object) -> bool:
    """Whether the workers of a cluster can read a source themselves: files of this machine, or the partitions of a Dask dataframe.

    An address with a password is not sent to others, so databases and object stores are read here.
    """
    return _is_partitioned(source) or has_local_files(source)


def _is_partitioned(source: object) -> bool:
    return type(source).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(source, "to_delayed")


def _read_by_workers(client: Any, source: Any, reader: Reader, way: Callable[[Reader, Any], Any]) -> list[Any]:
    """What the reader makes of each shard, in the order of the shards, as futures."""
    threads = _threads(client)
    if _is_partitioned(source):
        from dask.delayed import delayed

        if reader.schema is not None and reader.schema.person is not None:
            raise InvalidParameter(
                "The schema declares persons, whose rows cannot be counted across the partitions of a Dask dataframe.",
                "Write it to Parquet files, and give their path.",
            )
        read = delayed(guarded, pure=False)
        found: list[Any] = client.compute([read(way, reader, partition) for partition in source.to_delayed()])
        return found
    check_persons(source, reader.schema)
    if not os.path.isabs(os.fspath(source)):
        reader = replace(reader, folder=os.path.join(os.getcwd(), ""))
    wanted = -(-(row_count(source) or 0) // (threads * _SHARDS_PER_THREAD))
    shards = shards_of(source, min(max(wanted, BLOCK_ROWS), _MOST_SHARD_ROWS))
    return [_submitted(client, "read", way, reader, shard) for shard in shards]


def sent(cluster: Any, blocks: Iterable[Arrays], held: Rows | None = None, tally: Counts | None = None) -> Rows:
    """Rows that were read here, in blocks of `BLOCK_ROWS`, kept by workers from now on; sent again from `held` where one is lost."""
    client = _client(cluster)
    _threads(client)
    pieces, start, width = [], 0, 0
    for block in blocks:
        rows, width = len(block[0]), array_width(block[0])
        again = None if held is None else _again(client, held, start)
        pieces.append(_Piece(_scattered(client, block), start, rows, again))
        start += rows
    if not pieces:
        raise no_rows()
    return _rows_of(client, pieces, [_Facts(start, width, tally)])


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
        _wait_for_workers(client)
    raise _gone()


def _rows_of(client: Any, pieces: Sequence[_Piece], facts: Sequence[_Facts]) -> ClusterRows:
    tally: Counts | None = None
    for each in facts:
        tally = tally if each.tally is None else added(tally, each.tally)

    def nowhere() -> Iterable[Arrays]:
        raise InvalidParameter("The rows are kept by a cluster; this needs them here.", "Leave `cluster` out.")

    width = max(each.width for each in facts)
    return ClusterRows(nowhere, sum(each.rows for each in facts), width, tally, pieces, client)


def _aligned(client: Any, pieces: list[_Piece], facts: Sequence[_Facts]) -> list[_Piece]:
    """The same rows in pieces that begin at multiples of `BLOCK_ROWS`: a piece gives its first rows to the one before it where it must."""
    counts = [each.rows for each in facts]
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


def _key(name: str) -> str:
    """A name for the dashboard that tells nothing."""
    return f"sudare-{name}-{os.urandom(12).hex()}"


def _threads(client: Any) -> int:
    threads = int(sum(client.nthreads().values()))
    if not threads:
        raise InvalidParameter("The cluster has no workers.", "Start at least one worker first.")
    return threads


def _wait_for_workers(client: Any) -> None:
    if attempt(lambda: client.wait_for_workers(1, timeout=30) or True) is None:
        raise _gone()


def _gone() -> ClusterFailed:
    return ClusterFailed("Workers of the cluster died while they added rows.", ClusterFailed.help)


def _changed() -> DataError:
    return DataError(
        "The source had another number of rows when it was read again.",
        "Give a copy that nobody changes meanwhile. What was charged stays charged.",
    )


def _client(cluster: Any) -> Any:
    """A client of the cluster. One that is made here is used again for the same cluster, and closed when the process ends."""
    try:
        import distributed
    except ImportError:
        raise ExtraMissing(
            "Sums on a cluster need dask.distributed, which is not installed.",
            "Install it: pip install 'sudare[consortium]'",
        ) from None
    client_class: Any = distributed.Client
    if isinstance(cluster, client_class):
        return cluster
    address = cluster if isinstance(cluster, str) else getattr(cluster, "scheduler_address", None)
    made = _CLIENTS.get(address)
    if made is not None and made.status == "running":
        return made
    if isinstance(cluster, str) and not cluster.startswith("inproc://"):
        _check_answers(cluster)
    client = attempt(lambda: client_class(cluster, set_as_default=False, timeout=CONNECTION_SECONDS))
    if client is None or not isinstance(address, str):
        raise _unreachable()
    _CLIENTS[address] = client
    return client


def _check_answers(address: str) -> None:
    """Raise InvalidParameter unless the text is the address of a scheduler that answers.

    It is looked at before a client is made: one that cannot connect goes on trying after it was given up, and prints what failed.
    """
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        raise InvalidParameter(
            "`cluster` is not the address of a scheduler.", "Write host and port, such as tls://scheduler:8786."
        )
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), CONNECTION_SECONDS).close()
    except (OSError, OverflowError):
        raise _unreachable() from None
    # In a thread of its own: here a loop of events may be running, as in notebooks.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        identity = thread.submit(lambda: asyncio.run(_identity(address.strip()))).result()
    if not isinstance(identity, dict) or identity.get("type") != "Scheduler":
        raise InvalidParameter(
            f"At the address of `cluster` something answers, and within {CONNECTION_SECONDS} seconds not as a scheduler of Dask.",
            "Check the port: that of the scheduler (8786), not of its dashboard (8787); and tls:// where it asks for TLS.",
        )


async def _identity(address: str) -> Any:
    """What a server of Dask says it is; None where something else answers, or nothing in time."""
    import distributed

    library: Any = distributed
    arguments = library.Security().get_connection_args("client")
    server = library.rpc(address, timeout=CONNECTION_SECONDS, connection_args=arguments)
    try:
        return await asyncio.wait_for(server.identity(), CONNECTION_SECONDS)
    except Exception:  # noqa: BLE001 - the first bytes of other servers are taken for lengths, larger than all memory
        return None
    finally:
        await server.close_rpc()


def _unreachable() -> InvalidParameter:
    return InvalidParameter(
        "`cluster` is not a cluster that can be reached.",
        "Check that the scheduler runs. Give its address (tls://scheduler:8786), a Client or a LocalCluster.",
    )
