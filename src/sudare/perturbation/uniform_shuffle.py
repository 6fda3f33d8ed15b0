"""Uniformly random orders. Which record a row came from is forgotten here, so that k has something to rest on.

Few rows are ordered by keys of fair bits. Many are first thrown into buckets, each row into any with equal probability, and
then every bucket is shuffled by itself while it lies in the processor's cache: together that is a uniformly random order
(Rao 1961, Sandelius 1962). Proof: proofs/pk_anonymity.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Integers
from sudare.perturbation.exact_draws import MANY_ROWS, many_words
from sudare.privacy.noise import NoiseSource

_ROWS_IN_BUCKET: Final = 2**12
_MOST_BUCKETS: Final = 2**8
# Words are drawn for a part of the buckets at a time, so that they stay in the processor's cache.
_ROWS_AT_ONCE: Final = 2**16
# Less than one half word in ten thousand is unfair; with so many to spare a second attempt is hardly ever seen.
_SPARE_WORDS: Final = 2**8
_ROW_BYTES: Final = (1, 2, 4, 8)


def shuffled(rows: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
    """The rows in a uniformly random order."""
    return shuffled_together([rows], source)[0]


def shuffled_together(columns: Sequence[NDArray[Any]], source: NoiseSource) -> list[NDArray[Any]]:
    """Columns (or blocks of them) of equal length in one uniformly random order of their rows."""
    rows = len(columns[0])
    if rows <= MANY_ROWS:
        order = order_by_keys(rows, source)
        return [column[order] for column in columns]
    if len(columns) == 1 and columns[0].ndim == 1 and columns[0].itemsize in _ROW_BYTES:
        as_words = np.ascontiguousarray(columns[0]).view(f"u{columns[0].itemsize}")
        return [shuffled_in_buckets(as_words, source).view(columns[0].dtype)]
    if sum(row_bytes(column) for column in columns) <= _ROW_BYTES[-1]:
        # To move a word is quicker than to look up a row by its number.
        words = rows_as_bytes(columns, _ROW_BYTES[-1]).view(np.uint64)[:, 0]
        return columns_of_bytes(shuffled_in_buckets(words, source)[:, np.newaxis].view(np.uint8), columns)
    order = shuffled_in_buckets(np.arange(rows, dtype=np.uint32 if rows < 2**32 else np.uint64), source)
    return [column[order] for column in columns]


def row_bytes(column: NDArray[Any]) -> int:
    """How many bytes a row has in a column, or in a block of them."""
    return column.itemsize * math.prod(column.shape[1:])


def rows_as_bytes(columns: Sequence[NDArray[Any]], least_width: int = 0) -> NDArray[np.uint8]:
    """The bytes of each row, one column after the other, and zeros up to `least_width`."""
    rows = np.zeros((len(columns[0]), max(least_width, sum(map(row_bytes, columns)))), dtype=np.uint8)
    place = 0
    for column in columns:
        part = np.ascontiguousarray(column).view(np.uint8).reshape(len(column), row_bytes(column))
        # Byte by byte: a row has few bytes of a column, and a copy of many rows is quick.
        for number in range(part.shape[1]):
            rows[:, place + number] = part[:, number]
        place += part.shape[1]
    return rows


def columns_of_bytes(rows: NDArray[np.uint8], like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The columns again, each of the type and width of a given one."""
    columns: list[NDArray[Any]] = []
    place = 0
    for column in like:
        part = np.empty((len(rows), row_bytes(column)), dtype=np.uint8)
        for number in range(part.shape[1]):
            part[:, number] = rows[:, place + number]
        place += part.shape[1]
        columns.append(part.view(column.dtype).reshape(len(rows), *column.shape[1:]))
    return columns


def order_by_keys(rows: int, source: NoiseSource) -> Integers:
    """By words of fair bits, all drawn again while two are the same: no tie is ever broken by where a row stood."""
    while True:
        keys = source.words(rows)
        order = np.argsort(keys)
        in_order = keys[order]
        if not np.any(in_order[1:] == in_order[:-1]):
            return order


def shuffled_in_buckets(rows: NDArray[Any], source: NoiseSource) -> NDArray[Any]:
    """Rows (unsigned whole numbers) thrown into random buckets, and a Fisher–Yates shuffle inside each."""
    from sudare.perturbation.shuffle_kernels import scattered, shuffle_buckets

    buckets = bucket_count(len(rows), _ROWS_IN_BUCKET)
    draws = many_words(source, (len(rows) + 7) // 8).view(np.uint8)[: len(rows)]
    grouped, ends = scattered(rows, draws, buckets)
    at_once = max(1, _ROWS_AT_ONCE * buckets // len(rows))
    start = 0
    for first in range(0, buckets, at_once):
        some = ends[first : first + at_once]
        count = (int(some[-1]) - start + 1) // 2 + _SPARE_WORDS
        while not shuffle_buckets(grouped, some, start, source.words(count).view(np.uint32)):
            pass
        start = int(some[-1])
    return grouped


def bucket_count(total: int, in_bucket: int) -> int:
    """How many buckets a total is divided into, about so much in each: a power of two, so that a byte chooses one without a remainder."""
    return int(min(_MOST_BUCKETS, 2 ** max(1, (total // in_bucket).bit_length())))
