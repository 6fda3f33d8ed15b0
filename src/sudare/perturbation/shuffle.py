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

from sudare.perturbation.exact_draws import MANY_ROWS, many_words
from sudare.privacy.noise import NoiseSource

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

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
        words = shuffled_in_buckets(words_of_rows(columns), source)
        return rows_of_words(words, columns)
    order = shuffled_in_buckets(np.arange(rows, dtype=np.uint32 if rows < 2**32 else np.uint64), source)
    return [column[order] for column in columns]


def row_bytes(column: NDArray[Any]) -> int:
    """How many bytes a row has in a column, or in a block of them."""
    return column.itemsize * math.prod(column.shape[1:])


def words_of_rows(columns: Sequence[NDArray[Any]]) -> Words:
    """Rows of at most eight bytes, each in one word: to move a word is quicker than to look up a row by its number."""
    words = np.zeros((len(columns[0]), _ROW_BYTES[-1]), dtype=np.uint8)
    start = 0
    for column in columns:
        parts = np.ascontiguousarray(column).view(np.uint8).reshape(len(column), -1)
        for number in range(parts.shape[1]):
            words[:, start + number] = parts[:, number]
        start += parts.shape[1]
    return words.view(np.uint64)[:, 0]


def rows_of_words(words: Words, like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The columns again."""
    every, start, columns = words.view(np.uint8).reshape(len(words), -1), 0, []
    for column in like:
        parts = np.empty((len(words), row_bytes(column)), dtype=np.uint8)
        for number in range(parts.shape[1]):
            parts[:, number] = every[:, start + number]
        start += parts.shape[1]
        columns.append(parts.view(column.dtype).reshape(column.shape))
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
    from sudare.perturbation.shuffle_kernels import shuffle_buckets, thrown

    buckets = bucket_count(len(rows))
    draws = many_words(source, (len(rows) + 7) // 8).view(np.uint8)[: len(rows)]
    grouped, ends = thrown(rows, draws, buckets)
    at_once = max(1, _ROWS_AT_ONCE * buckets // len(rows))
    start = 0
    for first in range(0, buckets, at_once):
        some = ends[first : first + at_once]
        count = (int(some[-1]) - start + 1) // 2 + _SPARE_WORDS
        while not shuffle_buckets(grouped, some, start, source.words(count).view(np.uint32)):
            pass
        start = int(some[-1])
    return grouped


def bucket_count(rows: int) -> int:
    """A power of two, so that a byte chooses a bucket without a remainder."""
    return int(min(_MOST_BUCKETS, 2 ** max(1, (rows // _ROWS_IN_BUCKET).bit_length())))
