"""Two tables about the same persons as one source: every kept row of a person in the one beside every kept row of the same person in the other.

Proof of what one person can change: proofs/persons.md, "Joins".
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.array_types import Words
from sudare.errors import InvalidParameter, SchemaError
from sudare.frames.derived_sources import DerivedSource, origins_of
from sudare.frames.keyed_tags import TagKeys, tags_in_place, with_tags
from sudare.frames.person_buckets import begins_group, bucket_order, first_bits
from sudare.frames.person_rows import PersonRows, new_key, tags_in
from sudare.frames.record_source import known_source
from sudare.frames.row_spool import TableSpool
from sudare.frames.sources import DEFAULT_BATCH_ROWS, batches, column_types
from sudare.frames.wanted_columns import pieces, selected
from sudare.schema import Person, Schema, Table

JOIN_BUCKETS: Final = 64
# Rows of one side that are sorted into buckets at once.
CHUNK_ROWS: Final = 2**18

Places = list[list[int]]


@known_source
class PersonJoin(DerivedSource):
    """Rows of `left` with the rows of `right` of the same person, as a source for every learner that protects persons.

    Parameters
    ----------
    left, right : two sources, such as paths of visits and of prescriptions. Both have the person column of the schema; every other declared column is in one of them.
    schema : the declared columns of both, with the person.
    most_rows : how many rows of a person are kept on the left and on the right. One person then has most_rows[0] · most_rows[1] rows at most;
        `joined_schema` declares that number where the schema has a larger one, and learners keep no more than the schema they are given allows.

    Persons that are in one table only have no rows here. Which rows are kept is chosen by a secret of this object; in place of the person stands a tag under it.
    """

    def __init__(
        self, left: Any, right: Any, schema: Schema, most_rows: tuple[int, int], *, key: bytes | None = None
    ) -> None:
        if type(schema) is not Schema or schema.person is None:
            raise SchemaError("A join on persons needs a schema that declares the person.", "Add a section [person].")
        bounds = [each for each in most_rows if type(each) is int and each >= 1] if type(most_rows) is tuple else []
        if len(bounds) != 2:
            raise InvalidParameter(
                "most_rows is not two whole numbers from 1.", "Give the rows kept of a person on either side: (3, 4)."
            )
        self._sides, self._key, self._spool = (left, right), key or new_key(), TableSpool()
        self._person, self._bounds = schema.person, (bounds[0], bounds[1])
        self._schemas = _divided(schema, [set(column_types(side).names) for side in self._sides], self._bounds)
        self.joined_schema = _with_product(schema, bounds[0] * bounds[1])

    @property
    def origins(self) -> tuple[object, ...]:
        """What an account pays for: both sources."""
        return origins_of(*self._sides)

    def types(self, expected: Collection[str]) -> pa.Schema:
        """The names and types of the columns, those of the left first."""
        left, right = (column_types(side) for side in self._sides)
        columns = [left.field(name) for name in left.names if name in self._schemas[0].source_columns]
        columns += [right.field(name) for name in right.names if name in self._schemas[1].columns]
        return pa.schema(
            [each.with_type(pa.binary(16)) if each.name == self._person.column else each for each in columns]
        )

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        """The joined rows, persons in the order of their tags."""
        for left, right in zip(*self._buckets, strict=True):
            if left and right:
                for part in _joined(self._together(left), self._together(right), self._person.column, batch_rows):
                    yield from pieces(selected(Table(part), columns, schema), batch_rows)

    def _together(self, places: list[int]) -> pa.Table:
        return pa.concat_tables([self._spool.get(place) for place in places], promote_options="permissive")

    @cached_property
    def _buckets(self) -> tuple[Places, Places]:
        """The kept rows of both sides, by the first bits of their persons' tags."""
        left, right = (
            self._sorted(side, schema, bound)
            for side, schema, bound in zip(self._sides, self._schemas, self._bounds, strict=True)
        )
        return left, right

    def _sorted(self, side: Any, schema: Schema, bound: int) -> Places:
        found: Places = [[] for _ in range(JOIN_BUCKETS)]
        source = PersonRows.of(side, schema, self._key).at_most(bound).source
        keys, name, waiting, rows = TagKeys.of(self._key), self._person.column, [], 0
        base = getattr(source, "base", source)
        for part in batches(source, None, DEFAULT_BATCH_ROWS, schema):
            waiting.append(with_tags(part.arrow, name, tags_in(base, part, name, keys)))
            rows += part.rows
            if rows >= CHUNK_ROWS:
                self._put(found, waiting)
                waiting, rows = [], 0
        self._put(found, waiting)
        return found

    def _put(self, found: Places, tables: list[pa.Table]) -> None:
        if not tables:
            return
        table = pa.concat_tables(tables, promote_options="permissive")
        order, starts = bucket_order(
            first_bits(tags_in_place(table, self._person.column)[:, 0], JOIN_BUCKETS), JOIN_BUCKETS
        )
        ordered = table.take(pa.array(order))
        for places, (start, end) in zip(found, itertools.pairwise(starts.tolist()), strict=True):
            if end > start:
                places.append(self._spool.put(ordered.slice(start, end - start).combine_chunks()))


def _divided(schema: Schema, present: list[set[str]], bounds: tuple[int, int]) -> list[Schema]:
    """The declared columns of either side. Raise SchemaError unless each is in one of them, and the person in both."""
    person = schema.person.column if schema.person is not None else ""
    if not all(person in names for names in present):
        raise SchemaError(f"The person column {person!r} is not in both tables.", "Name it alike in both.")
    for name in schema.columns:
        if sum(name in names for names in present) != 1:
            where = "both tables" if all(name in names for names in present) else "neither table"
            raise SchemaError(f"Column {name!r} is in {where}.", "A declared column belongs to one of the two.")
    sides = [{name: each for name, each in schema.columns.items() if name in names} for names in present]
    if not all(sides):
        raise SchemaError("The schema declares no column of one of the tables.", "Declare one, or leave out the join.")
    return [Schema(side, Person(person, bound)) for side, bound in zip(sides, bounds, strict=True)]


def _with_product(schema: Schema, product: int) -> Schema:
    person = schema.person
    if person is None or person.bound <= product:
        return schema
    return replace(schema, person=Person(person.column, product))


def _joined(left: pa.Table, right: pa.Table, name: str, most_rows: int) -> Iterator[pa.Table]:
    """Every pair of a left and a right row with one tag, some at a time."""
    numbers = _numbered(tags_in_place(left, name), tags_in_place(right, name))
    left_order, right_order = (np.argsort(each, kind="stable") for each in numbers)
    left_person, right_person = numbers[0][left_order], numbers[1][right_order]
    start = np.searchsorted(right_person, left_person, "left")
    count = np.searchsorted(right_person, left_person, "right") - start
    ends = np.cumsum(count)
    first = 0
    while first < len(count):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most_rows, "right")))
        pairs = count[first:last]
        within = np.arange(int(pairs.sum())) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        if len(within):
            left_rows = left.take(pa.array(np.repeat(left_order[first:last], pairs)))
            right_rows = right.drop_columns([name]).take(
                pa.array(right_order[np.repeat(start[first:last], pairs) + within])
            )
            yield pa.table(
                [*left_rows.columns, *right_rows.columns], [*left_rows.column_names, *right_rows.column_names]
            )
        first = last


def _numbered(left: Words, right: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers in place of tags, in the order of the tags, equal where those are."""
    both = np.concatenate([left, right])
    order = np.lexsort((both[:, 1], both[:, 0]))
    numbers = np.empty(len(both), np.int64)
    numbers[order] = np.cumsum(begins_group(both[order]))
    return numbers[: len(left)], numbers[len(left) :]
