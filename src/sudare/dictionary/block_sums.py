"""Sums over more rows than fit into memory: the same function over the blocks of a source, here or on a Dask cluster.

A source is cut into blocks of a fixed number of rows however it is stored, and blocks are added in a fixed tree. So the
result has the same bits from memory, from files with any row groups, and from any number of workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.dictionary.e_step import CHUNK_ROWS, Sum, pairwise_total
from sudare.errors import DataError, ExtraMissing, InvalidParameter
from sudare.frames import batches
from sudare.frames.rows import fixed_blocks
from sudare.schema.table import attempt
from sudare.schema.values import numbers

Floats = NDArray[np.float64]

# A power of two of chunks, so that a block's own total is a part of the tree over all chunks.
BLOCK_ROWS: Final = 16 * CHUNK_ROWS
_TASKS_PER_THREAD: Final = 2


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
