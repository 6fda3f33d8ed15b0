"""Sums over more rows than fit into memory: the same function over the blocks of a source, here or on a Dask cluster.

A source is cut into blocks of a fixed number of rows however it is stored, and blocks are added in a fixed tree. So the
result has the same bits from memory, from files with any row groups, and from any number of workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.errors import DataError, ExtraMissing, InvalidParameter
from sudare.frames.rows import fixed_blocks
from sudare.frames.sources import batches
from sudare.schema.column_values import numbers
from sudare.schema.frame_conversion import attempt

Floats = NDArray[np.float64]

BLOCK_ROWS: Final = 2**16
_TASKS_PER_THREAD: Final = 2


class Added(Protocol):
    """What can be added to its like."""

    def __add__(self, other: Any, /) -> Any: ...


Sum = TypeVar("Sum", bound=Added)


def statistics_over(
    source: object,
    function: Callable[[Floats], Sum],
    cluster: Any = None,
    columns: Sequence[str] | None = None,
) -> Sum:
    """The sum of `function(block)` over all blocks of a source; the function gives anything that can be added.

    A source is a matrix, an iterator of matrices, or what `sudare.frames.batches` reads: paths of Parquet or CSV files,
    SQL, frames. `columns` chooses and orders columns that have names. `cluster` is a `distributed.Client`, a cluster of
    `dask.distributed` or the address of a scheduler; the blocks are read here and sent to the workers. Memory holds one
    block, or two for each thread of the cluster.
    """
    parts_of_rows = ((matrix,) for matrix in matrices(source, columns))
    blocks = (block for (block,) in fixed_blocks(parts_of_rows, BLOCK_ROWS))
    parts = (function(block) for block in blocks) if cluster is None else _parts_of_cluster(blocks, function, cluster)
    total = pairwise_total(parts)
    if total is None:
        raise DataError("The source has no rows.", "Check the path or query.")
    return total


def matrices(source: object, columns: Sequence[str] | None = None) -> Iterator[Floats]:
    """A source as matrices of float64, as they come; gaps are NaN."""
    if isinstance(source, np.ndarray):
        matrix = attempt(lambda: np.asarray(source, dtype=np.float64))
        if matrix is None or matrix.ndim != 2:
            raise DataError("A part of the source is not a matrix of numbers.", "Give one row per record.")
        yield matrix
    elif isinstance(source, Iterator):
        for part in source:
            yield from matrices(part, columns)
    else:
        for table in batches(source, columns):
            yield np.stack([numbers(table.column(name), name) for name in table.names], axis=1)


def pairwise_total(parts: Iterable[Sum]) -> Sum | None:
    """The sum of the parts in a fixed tree: neighbours first, then neighbouring pairs, and so on; None without parts.

    2ⁿ parts from a multiple of 2ⁿ may be replaced by their own total without changing a bit of the result.
    """
    levels: list[Sum | None] = []
    for part in parts:
        carried, level = part, 0
        while level < len(levels) and (waiting := levels[level]) is not None:
            carried, levels[level] = waiting + carried, None
            level += 1
        if level == len(levels):
            levels.append(None)
        levels[level] = carried
    total: Sum | None = None
    for left in levels:
        if left is not None:
            total = left if total is None else left + total
    return total


@dataclass(frozen=True, eq=False, repr=False)
class _Rows:
    """Rows on their way to a worker, whose log shows the arguments of a task that failed."""

    matrix: Floats

    def __repr__(self) -> str:
        return f"<{len(self.matrix)} rows>"


def _of_rows(function: Callable[[Floats], Sum], rows: _Rows) -> Sum:
    return function(rows.matrix)


def _parts_of_cluster(blocks: Iterator[Floats], function: Callable[[Floats], Sum], cluster: Any) -> Iterator[Sum]:
    """Results in the order of the blocks, with so many on their way that all threads are busy."""
    client, is_ours = _client(cluster)
    try:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InvalidParameter("The cluster has no workers.", "Start at least one worker before summing.")
        waiting: deque[Any] = deque()
        for block in blocks:
            rows = client.scatter(_Rows(block), hash=False)
            waiting.append(client.submit(_of_rows, function, rows, pure=False))
            del rows
            if len(waiting) >= _TASKS_PER_THREAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        if is_ours:
            client.close()


def _client(cluster: Any) -> tuple[Any, bool]:
    """A client of the cluster, and whether it was made here."""
    try:
        import distributed
    except ImportError:
        raise ExtraMissing(
            "Sums on a cluster need dask.distributed, which is not installed.",
            "Install it: pip install 'sudare[consortium]'",
        ) from None
    client_class: Any = distributed.Client
    if isinstance(cluster, client_class):
        return cluster, False
    client = attempt(lambda: client_class(cluster, set_as_default=False, timeout=10))
    if client is None:
        raise InvalidParameter(
            "`cluster` is not a cluster that can be reached.", "Give a Client, a LocalCluster or a scheduler's address."
        )
    return client, True
