"""Rows as arrays of one length, given from the beginning as often as one asks, in blocks that do not depend on how they are stored."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.errors import DataError
from sudare.frames.fixed_order_summation import BLOCK_ROWS as TREE_BLOCK_ROWS
from sudare.frames.fixed_order_summation import Sum, pairwise_total
from sudare.schema.table_from_any_frame import no_rows

# Arrays of one length: the entries at one place belong to one row.
Arrays = tuple[NDArray[Any], ...]

Counts = NDArray[np.int64]

BLOCK_ROWS: Final = 1024


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
    def held(cls, *arrays: NDArray[Any], tally: Counts | None = None) -> Rows:
        """Rows in memory."""
        return cls(lambda: [arrays], len(arrays[0]), array_width(arrays[0]), tally)

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


def tallied(made: Arrays | Tallied) -> Tallied:
    """Arrays with their tally, which is empty where there is none."""
    return made if isinstance(made, Tallied) else Tallied(made, np.zeros(0, np.int64))


def added(tally: Counts | None, other: Counts) -> Counts:
    """The sum of two tallies, of which the first may not have begun."""
    return other if tally is None else tally + other


def fixed_blocks(parts: Iterable[Arrays], rows: int) -> Iterator[Arrays]:
    """Yields the rows in blocks of exactly `rows`, but for the last; without copying where a part holds a whole block."""
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
    """Yields the blocks; after the arrays of each comes the part of `beside` that belongs to its rows, counted from `start`."""
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


def changed_source() -> DataError:
    """What is raised where a source no longer has the rows that were counted."""
    return DataError(
        "The source had another number of rows when it was read again.",
        "Give a copy that nobody changes meanwhile. What was charged stays charged.",
    )
