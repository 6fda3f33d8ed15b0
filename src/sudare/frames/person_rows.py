"""The rows that are kept of persons who have more than the schema declares. Proof: proofs/persons.md.

Kept are, of each person, the rows with the least pseudo-random priorities under a key that is secret to the member: which ones depends on that person's own rows
and on nothing else: not on other persons, on the order of rows, on how a source stores them, or on where its batches end. A source is read once to count the rows of
persons and, only where somebody has too many, once more to choose.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.array_types import Words
from sudare.errors import DataError
from sudare.frames.derived_sources import DerivedSource, origins_of
from sudare.frames.keyed_tags import (
    TagKeys,
    content_words,
    person_texts,
    row_tags,
    tags_in_place,
    tags_of_texts,
    with_tags,
)
from sudare.frames.person_buckets import PersonCounts, RowChoice, RowLimits, sequence_check
from sudare.frames.record_source import known_source
from sudare.frames.row_spool import TableSpool
from sudare.frames.sources import DEFAULT_BATCH_ROWS, batches, column_types, in_memory, is_in_memory, row_count
from sudare.frames.sources import source as source_of
from sudare.frames.wanted_columns import pieces, selected
from sudare.schema import Person, Schema, Table
from sudare.schema.table_from_any_frame import as_column, as_table, attempt, column_names

# Rows whose persons are told apart at once.
COUNTED_ROWS: Final = 2**16


@dataclass(frozen=True)
class Kept:
    """Rows of which no person has more than were asked for, their targets, and how many rows were cut (for the owner only)."""

    source: Any
    y: Any
    cut: int = field(repr=False)


def new_key() -> bytes:
    """A secret: for one run, or for what is kept of persons."""
    return secrets.token_bytes(32)


def kept_persons(
    source: Any, schema: Schema | None, key: bytes | None = None, y: Any = None, beside: Sequence[str] = ()
) -> Kept:
    """The source with no more rows of a person than the schema declares; the source itself where nobody has more.

    `beside` are columns that are read and not declared: rows that differ in these alone are chosen among without regard to their order as well.
    Raise MissingValue where a row names no person, ColumnMissing where the column is not there, DataError where an array has no column names. Messages name no person and no number.
    """
    if schema is None or schema.person is None:
        return Kept(source, y, 0)
    return PersonRows.of(source, schema, key, y, beside).at_most(schema.person.bound)


def kept_count(source: Any, schema: Schema) -> int:
    """How many rows are kept of all persons: the same under every key."""
    rows = PersonRows.of(source, schema)
    return rows.counts.kept(RowLimits.equal(rows.person.bound))


def used_row_count(source: Any, schema: Schema | None) -> int:
    """How many rows a learner uses of a source that can be read again: all, or those that are kept of persons. With replaced records or persons it is public."""
    if schema is not None and schema.person is not None:
        return kept_count(source, schema)
    known = row_count(source)
    return sum(batch.rows for batch in batches(source, schema=schema)) if known is None else known


@dataclass(eq=False, repr=False)
class PersonRows:
    """The rows of a source by person, counted; which are kept is chosen for any bound."""

    source: Any
    schema: Schema
    person: Person
    keys: TagKeys
    y: Any
    counts: PersonCounts
    beside: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, source: Any, schema: Schema, key: bytes | None = None, y: Any = None, beside: Sequence[str] = ()
    ) -> PersonRows:
        """Count the rows of each person. What comes only once, or in an order that a database chooses, is kept for the passes after this one."""
        if schema.person is None:
            raise ValueError("no person is declared")
        keys, counts, name = TagKeys.of(key or new_key()), PersonCounts(), schema.person.column
        if source_of(source).is_repeatable:
            for part in batches(source, [name], COUNTED_ROWS, schema):
                counts.append(_tags(part, name, keys))
        elif not is_in_memory(source):
            source = _waiting(source, schema, keys, counts, beside)
        else:
            source = in_memory(source)
            counts.append(_tags(as_table(source, [name], names_arrays=False), name, keys))
        return cls(source, schema, schema.person, keys, y, counts, tuple(beside))

    def look_through(self) -> None:
        """Read what rows are chosen by, where any bound could cut one. Raise what is wrong with it now, and not when a bound was drawn."""
        if self.counts.most() > 1:
            _ = self._choice

    def at_most(self, most_rows: int) -> Kept:
        """The rows with at most so many of each person."""
        return self.within(RowLimits.equal(most_rows))

    def within(self, limits: RowLimits) -> Kept:
        """The rows with no more of each person than the limits allow."""
        if self.counts.most() <= limits.few:
            return Kept(self.source, self.y, 0)
        packed, kept = self._choice.kept(limits), self.counts.kept(limits)
        cut = self.counts.rows - kept
        if source_of(self.source).is_repeatable:
            return Kept(
                KeptRows(self.source, self.person, packed, self.keys, self.counts, kept, limits.many), self.y, cut
            )
        mask = _unpacked(packed, 0, self.counts.rows)
        return Kept(_filtered(self.source, mask), None if self.y is None else np.asarray(self.y)[mask], cut)

    @cached_property
    def _choice(self) -> RowChoice:
        choice, name = RowChoice(self.keys.copies), self.person.column
        if source_of(self.source).is_repeatable:
            for part in _read_batches(self.source, self.schema, self.beside):
                persons = tags_in(self.source, part, name, self.keys)
                choice.append(persons, self._row_tags(part, persons, None))
            if choice.rows != self.counts.rows:
                raise changed()
            return choice
        present = set(column_names(self.source))
        table = as_table(self.source, [each for each in (*self.schema.source_columns, *self.beside) if each in present])
        y = None if self.y is None else as_column(self.y, "y")
        if y is not None and len(y) != table.rows:
            raise DataError(f"There are {table.rows} rows and {len(y)} targets.", "Give one target a row.")
        persons = _tags(table, name, self.keys)
        choice.append(persons, self._row_tags(table, persons, y))
        return choice

    def _row_tags(self, table: Table, persons: Words, y: pa.ChunkedArray | None) -> Words:
        """What distinguishes rows of a person: the declared columns that are there, those read beside them, and targets given apart."""
        words: list[Words] = []
        for column, facts in self.schema.columns.items():
            if column in table.names:
                words += content_words(table.column(column), facts, column, self.keys.rows)
        for column in self.beside:
            if column in table.names:
                words += content_words(table.column(column), None, column, self.keys.rows)
        if y is not None:
            words += content_words(y, None, "y", self.keys.rows)
        return row_tags(persons, words, self.keys.rows)


@known_source
@dataclass(eq=False, repr=False)
class KeptRows(DerivedSource):
    """A source without the rows that were cut, as packed bits say. Raise DataError where its rows are others than those that were chosen from."""

    base: Any
    person: Person
    packed: NDArray[np.uint8]
    keys: TagKeys
    counts: PersonCounts
    rows: int
    most_rows: int | None = None

    @property
    def origins(self) -> tuple[object, ...]:
        """What an account pays for."""
        return origins_of(self.base)

    def __len__(self) -> int:
        return self.rows

    def types(self, expected: Collection[str]) -> pa.Schema:
        """The names and types of the columns."""
        return column_types(self.base, expected)

    def row_count(self) -> int:
        """How many rows are kept."""
        return self.rows

    def state(self) -> Any:
        """That of the source they are kept of."""
        return source_of(self.base).state()

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        """The kept rows in their order."""
        name, place, check = self.person.column, 0, 0
        is_wanted = columns is None or name in columns
        wanted = columns if columns is None or is_wanted else [*columns, name]
        for part in batches(self.base, wanted, batch_rows, _with_person(schema, self.person)):
            persons = tags_in(self.base, part, name, self.keys)
            check = sequence_check(persons, place, check)
            if place + part.rows > self.counts.rows:
                raise changed()
            kept = part.arrow.filter(pa.array(_unpacked(self.packed, place, part.rows)))
            place += part.rows
            yield from pieces(Table(kept if is_wanted else kept.drop_columns([name])), batch_rows)
        if place != self.counts.rows or check != self.counts.check:
            raise changed()


@known_source
@dataclass(eq=False, repr=False)
class WaitingTables(DerivedSource):
    """Tables that came once, without the names of persons, which are replaced by their tags."""

    origins: tuple[object, ...] = ()
    _spool: TableSpool = field(default_factory=TableSpool)
    _places: list[int] = field(default_factory=list)

    def append(self, table: pa.Table) -> None:
        """Add rows below the others."""
        self._places.append(self._spool.put(table))

    def types(self, expected: Collection[str]) -> pa.Schema:
        """The names and types of the columns."""
        return self._spool.get(self._places[0]).schema if self._places else pa.schema([])

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        """The rows in the order in which they came; a table without rows, as a slice may be, is one here as well."""
        for place in self._places:
            table = selected(Table(self._spool.get(place)), columns, schema)
            yield from pieces(table, batch_rows) if table.rows else [table]


def changed() -> DataError:
    """What is raised where a source has other rows than when persons were counted."""
    return DataError(
        "The source had other rows when it was read again.",
        "Give a copy that nobody changes meanwhile. What was charged stays charged.",
    )


def _read_batches(source: Any, schema: Schema, beside: Sequence[str]) -> Iterator[Table]:
    """The declared columns that are there, and those beside them. Raise ColumnMissing where one of the latter is not."""
    if not beside:
        return batches(source, None, DEFAULT_BATCH_ROWS, schema)
    # Opened once: looking at the columns of tables that come once takes the first of them.
    opened = source_of(source)
    present = set(opened.types(schema.source_columns).names)
    columns = [*(each for each in schema.source_columns if each in present), *beside]
    return batches(opened, columns, DEFAULT_BATCH_ROWS, schema)


def _waiting(source: Any, schema: Schema, keys: TagKeys, counts: PersonCounts, beside: Sequence[str]) -> WaitingTables:
    if schema.person is None:
        raise ValueError("no person is declared")
    waiting, name = WaitingTables((source,)), schema.person.column
    for part in _read_batches(source, schema, beside):
        persons = _tags(part, name, keys)
        counts.append(persons)
        waiting.append(with_tags(part.arrow, name, persons))
    return waiting


def origin_of(source: object) -> object:
    """The source of which rows were kept; itself where none were cut."""
    return source.base if isinstance(source, KeptRows) else source


def tags_in(source: object, table: Table, name: str, keys: TagKeys) -> Words:
    """The tags of the persons of a table of this source; those of tables that waited are there already."""
    if isinstance(source, WaitingTables):
        return tags_in_place(table.arrow, name)
    return _tags(table, name, keys)


def _tags(table: Table, name: str, keys: TagKeys) -> Words:
    return tags_of_texts(person_texts(table.column(name), name), keys.persons)


def _filtered(source: Any, mask: NDArray[np.bool_]) -> Any:
    """A table in memory without the rows where the mask is not set, as what it was given."""
    if isinstance(source, Mapping):
        return {name: as_column(values, repr(name)).filter(pa.array(mask)) for name, values in source.items()}
    frame = attempt(lambda: nw.from_native(source, pass_through=True))
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        return frame.filter(mask.tolist()).to_native()
    table = as_table(source)
    return Table(table.arrow.filter(pa.array(mask)), table.origin)


def _with_person(schema: Schema | None, person: Person) -> Schema | None:
    return schema if schema is None or schema.person is not None else replace(schema, person=person)


def _unpacked(packed: NDArray[np.uint8], start: int, rows: int) -> NDArray[np.bool_]:
    first = start // 8
    bits = np.unpackbits(packed[first : (start + rows + 7) // 8])
    return bits[start - 8 * first : start - 8 * first + rows].astype(np.bool_)
