"""Sums over more rows than fit into memory: the same function over the blocks of a source, here or on a Dask cluster.

A source is cut into blocks of a fixed number of rows however it is stored, and blocks are added in a fixed tree (`frames.fixed_tree`). So
the result has the same bits from memory, from files with any row groups, and from any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import DataError
from sudare.frames.fixed_tree import BLOCK_ROWS, Sum, pairwise_total
from sudare.frames.rows import checked_rows, fixed_blocks, is_stored
from sudare.frames.sources import batches
from sudare.schema.column_values import numbers
from sudare.schema.frame_conversion import Table, attempt

Floats = NDArray[np.float64]


def statistics_over(
    source: object,
    function: Callable[[Floats], Sum],
    cluster: Any = None,
    columns: Sequence[str] | None = None,
) -> Sum:
    """The sum of `function(block)` over all blocks of a source; the function gives anything that can be added.

    A source is a matrix, an iterator of matrices, or what `sudare.frames.batches` reads: paths of Parquet or CSV files,
    SQL, frames. `columns` chooses and orders columns that have names. Memory holds one block. `cluster` is a `distributed.Client`, a
    cluster of `dask.distributed` or the address of a scheduler; its workers read the blocks.
    """
    if cluster is not None and is_stored(source):
        return checked_rows(source, _matrix_of_table, columns=columns, cluster=cluster).total(function)
    parts_of_rows = ((matrix,) for matrix in matrices(source, columns))
    blocks = fixed_blocks(parts_of_rows, BLOCK_ROWS)
    if cluster is not None:
        from sudare.frames.dask_rows import sent

        return sent(cluster, blocks).total(function)
    total = pairwise_total(function(block) for (block,) in blocks)
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
            (matrix,) = _matrix_of_table(table)
            yield matrix


def _matrix_of_table(table: Table) -> tuple[Floats]:
    return (np.stack([numbers(table.column(name), name) for name in table.names], axis=1),)
