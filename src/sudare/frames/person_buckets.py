"""Which rows are cut where persons have more than are kept, in bounded memory: rows are sorted into buckets by their keyed tags.

A bucket of persons has buckets of rows, so that neither many persons nor one person with very many rows fill the memory. What is held, or written to a file
without a name, is tags under a key that nobody else has: no person, no value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Words
from sudare.frames.keyed_tags import copy_priorities
from sudare.frames.row_spool import Spool

PERSON_BUCKETS: Final = 64
ROW_BUCKETS: Final = 32
# Public sizes: rows that are sorted at once, and bytes above which chunks go to a file.
CHUNK_ROWS: Final = 2**18
HELD_BYTES: Final = 2**23


@dataclass(frozen=True)
class RowLimits:
    """How many rows are kept at most: `many` of a person who has at least `many_from` rows, which are no fewer, and `few` of all others."""

    few: int
    many: int
    many_from: int

    @classmethod
    def equal(cls, rows: int) -> RowLimits:
        """As many of everybody."""
        return cls(rows, rows, rows)

    def kept(self, rows: int) -> int:
        """How many are kept of a person with so many rows."""
        return min(rows, self.many if rows >= self.many_from else self.few)


class Buckets:
    """Records of a fixed number of words, collected in any order and given bucket by bucket."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: list[tuple[Words, NDArray[np.int64]]] = []
        self._waiting_rows = 0
        self._spool = Spool(HELD_BYTES, "What is counted of each person does", "Point TMPDIR at a folder with room.")
        # Where the buckets of each sorted chunk begin among all records.
        self._starts: list[NDArray[np.int64]] = []

    def append(self, records: Words, buckets: NDArray[np.int64]) -> None:
        """Add records that belong to these buckets."""
        self._waiting.append((records, buckets))
        self._waiting_rows += len(records)
        if self._waiting_rows >= CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Sort what waits into buckets."""
        if not self._waiting:
            return
        records = np.concatenate([each for each, _ in self._waiting])
        buckets = np.concatenate([each for _, each in self._waiting])
        self._waiting, self._waiting_rows = [], 0
        order, starts = bucket_order(buckets, self._count)
        self._starts.append(self._spool.count + starts)
        self._spool.append((records[order],))

    def span(self, first: int, last: int) -> Words:
        """The records of the buckets from `first` to before `last`."""
        if not self._starts:
            return np.empty((0, 1), np.uint64)
        (records,) = self._spool.together()
        return np.concatenate([records[starts[first] : starts[last]] for starts in self._starts])

    def rows_in(self, first: int, last: int) -> int:
        """How many records the buckets from `first` to before `last` have."""
        return sum(int(starts[last] - starts[first]) for starts in self._starts)


class PersonCounts:
    """How many rows each person has, of persons by their tags."""

    def __init__(self) -> None:
        self._buckets = Buckets(PERSON_BUCKETS)
        self.rows = 0
        self.check = 0

    def append(self, persons: Words) -> None:
        """Count one row for each of these tags; a person may be there several times."""
        self.check = sequence_check(persons, self.rows, self.check)
        self.rows += len(persons)
        if len(persons):
            found, counts = _counted(persons, np.ones(len(persons), np.uint64))
            self._buckets.append(np.column_stack([found, counts]), first_bits(found[:, 0], PERSON_BUCKETS))

    def most(self) -> int:
        """How many rows the person with most rows has."""
        return max(self._persons_by_rows, default=0)

    def kept(self, limits: RowLimits) -> int:
        """How many rows are left of all persons."""
        return sum(persons * limits.kept(rows) for rows, persons in self._persons_by_rows.items())

    def histogram(self, largest: int) -> NDArray[np.int64]:
        """How many persons have 0, 1, 2, … and more than `largest` rows: largest + 2 counts."""
        found = np.zeros(largest + 2, np.int64)
        for rows, persons in self._persons_by_rows.items():
            found[min(rows, largest + 1)] += persons
        return found

    @cached_property
    def _persons_by_rows(self) -> Counter[int]:
        """How many persons have so many rows, of all that were counted when this was first asked."""
        self._buckets.flush()
        found: Counter[int] = Counter()
        for first, last in _spans(self.rows, 1):
            records = self._buckets.span(first, last)
            if len(records):
                rows, persons = np.unique(_counted(records[:, :2], records[:, 2])[1], return_counts=True)
                found.update(dict(zip(rows.tolist(), persons.tolist(), strict=True)))
        return found


class RowChoice:
    """The rows of every person in the order of their priorities, of which the first ones are kept."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._buckets = Buckets(PERSON_BUCKETS * ROW_BUCKETS)
        self.rows = 0

    def append(self, persons: Words, rows: Words) -> None:
        """Add rows by the tags of their persons and their own."""
        places = np.arange(self.rows, self.rows + len(rows), dtype=np.uint64)
        self.rows += len(rows)
        inner = first_bits(persons[:, 0], PERSON_BUCKETS) * ROW_BUCKETS + first_bits(rows, ROW_BUCKETS)
        self._buckets.append(np.column_stack([persons, rows, places]), inner)

    def kept(self, limits: RowLimits) -> NDArray[np.uint8]:
        """Whether each row is kept, in the order in which they came, as packed bits: of each person those that have the least priorities."""
        self._buckets.flush()
        kept = np.ones(self.rows, np.bool_)
        for first, last in _spans(self.rows, ROW_BUCKETS):
            # At once where rows are few, and then not made again.
            step = last - first if self._buckets.rows_in(first, last) <= CHUNK_ROWS else 1
            part = lru_cache(maxsize=1)(self._part)
            least = np.empty((0, 4), np.uint64)
            for number in range(first, last, step):
                records, priorities = part(number, number + step)
                # Of persons with more rows so many are enough to tell that they have them.
                least = _least(np.concatenate([least, np.column_stack([records[:, :2], priorities])]), limits.many_from)
            largest = _last_kept(least, limits)
            for number in range(first, last, step):
                records, priorities = part(number, number + step)
                cut = _above(records[:, :2], priorities, largest)
                kept[records[cut, 3].astype(np.int64)] = False
        return np.packbits(kept)

    def _part(self, first: int, last: int) -> tuple[Words, Words]:
        """The rows of these buckets with their priorities. Copies of a row are always in one bucket."""
        records = self._buckets.span(first, last)
        # By the rows' own tags, which follow from their persons' as well: equal ones are copies.
        ordered = records[_order(records[:, [2, 0, 1]], is_stable=True)]
        copies = _place_in_group(begins_group(ordered[:, :3]))
        return ordered, copy_priorities(ordered[:, 2], copies, self._key)


def _spans(rows: int, inner: int) -> list[tuple[int, int]]:
    """The buckets that are looked at together, each person's in one: all where there are few rows."""
    step = inner if rows > CHUNK_ROWS else PERSON_BUCKETS * inner
    return [(first, first + step) for first in range(0, PERSON_BUCKETS * inner, step)]


def sequence_check(persons: Words, start: int, before: int) -> int:
    """A number that depends on which persons stand in which rows, added up over a pass."""
    odd = 2 * np.arange(start, start + len(persons), dtype=np.uint64) + np.uint64(1)
    return (before + int((persons[:, 0] * odd).sum(dtype=np.uint64))) % 2**64


def bucket_order(buckets: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of records sorted by their buckets, and where each of so many buckets begins and the last one ends."""
    # Numbers of few bits are sorted fastest.
    order = np.argsort(buckets.astype(np.min_scalar_type(count)), kind="stable")
    return order, np.append(0, np.cumsum(np.bincount(buckets, minlength=count)))


def first_bits(words: Words, buckets: int) -> NDArray[np.int64]:
    """The first bits of words, as numbers of so many buckets (a power of two)."""
    return (words >> np.uint64(64 - buckets.bit_length() + 1)).astype(np.int64)


def begins_group(ordered: Words) -> NDArray[np.bool_]:
    """Returns the positions of rows that differ from the one before."""
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:, 0] != ordered[:-1, 0]
    for word in range(1, ordered.shape[1]):
        first[1:] |= ordered[1:, word] != ordered[:-1, word]
    return first


def _order(rows: Words, *, is_stable: bool = False) -> NDArray[np.int64]:
    """The order of rows by their words; equal ones as they came if `is_stable`.

    First words are pseudo-random: sorting by them is enough unless different rows have one by chance.
    """
    order = np.argsort(rows[:, 0])
    ordered = rows[order]
    is_tie = ordered[1:, 0] == ordered[:-1, 0]
    if is_tie.any():
        if (begins_group(ordered)[1:] & is_tie).any():
            return np.lexsort(rows.T[::-1])
        if is_stable:
            return np.argsort(rows[:, 0], kind="stable")
    return order


def _place_in_group(is_first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The place of each row within its group of equal ones, from 0."""
    places = np.arange(len(is_first))
    return places - np.maximum.accumulate(np.where(is_first, places, 0))


def _counted(persons: Words, counts: Words) -> tuple[Words, Words]:
    """The different persons, and the sum of the counts of each."""
    order = _order(persons)
    ordered = persons[order]
    is_first = begins_group(ordered)
    return ordered[is_first], np.add.reduceat(counts[order], np.flatnonzero(is_first))


def _least(rows: Words, count: int) -> Words:
    """Of each person the `count` rows with the least priorities, sorted by person and priority."""
    by_person = rows[_order(rows[:, :2])]
    numbers = np.cumsum(begins_group(by_person[:, :2])).astype(np.uint64)
    # One word to sort by: the number of a person, and the first bits of a priority.
    bits = np.uint64(len(numbers).bit_length())
    ordered: Words = by_person[
        _order(np.column_stack([numbers << (64 - bits) | by_person[:, 2] >> bits, numbers, by_person[:, 2:]]))
    ]
    return ordered[_place_in_group(begins_group(ordered[:, :2])) < count]


def _last_kept(least: Words, limits: RowLimits) -> Words:
    """Of each person the row with the largest priority that is kept, of rows sorted by person and priority."""
    first = np.flatnonzero(begins_group(least[:, :2]))
    rows = np.diff(np.append(first, len(least)))
    found: Words = least[first + np.minimum(rows, np.where(rows >= limits.many_from, limits.many, limits.few)) - 1]
    return found


def _above(persons: Words, priorities: Words, last: Words) -> NDArray[np.bool_]:
    """Whether each row has a priority above the last kept one of its person, of whom there is one in `last`."""
    together = np.concatenate([last[:, :2], persons])
    order = _order(together)
    numbers = np.empty(len(together), np.int64)
    numbers[order] = np.cumsum(begins_group(together[order])) - 1
    limits = np.empty((len(last), 2), np.uint64)
    limits[numbers[: len(last)]] = last[:, 2:]
    limit = limits[numbers[len(last) :]]
    above: NDArray[np.bool_] = (priorities[:, 0] > limit[:, 0]) | (
        (priorities[:, 0] == limit[:, 0]) & (priorities[:, 1] > limit[:, 1])
    )
    return above
