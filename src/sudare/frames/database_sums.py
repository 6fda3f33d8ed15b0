"""Counts and sums that a database computes itself: DuckDB (relations and files), PostgreSQL and SQLite.

Only whole numbers come back, the same that the reader would count and add: values are clipped, scaled and rounded to the public grid by the same floating-point
operations in the same order, each of which IEEE 754 defines, and what is added are whole numbers. Bounds are written as quotients of whole numbers, text is compared by its bytes.
Rows that the reader would refuse are counted too. Wherever one is found, or a column's type, a name or a failure leaves any doubt, the answer
is None and the rows are read: the reader then says what is wrong. Nothing is written to a database.
"""

from __future__ import annotations

import contextlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import sqlalchemy
from numpy.typing import NDArray

from sudare.frames.database_tables import (
    DEFAULT_SCHEMAS,
    DatabaseTable,
    duckdb_relation,
    has_own_functions,
    is_stored_in_sqlite,
    reflected_table,
)
from sudare.frames.databases import opened_for_reading, reading, refuse_writing
from sudare.frames.lazy_frames import DuckDBRelation, quoted_names
from sudare.frames.sources import source
from sudare.schema import Number, Schema
from sudare.schema.blockwise_encoding import encoding_facts, leaves_bounds
from sudare.schema.columns import Category, Column, Label, Level
from sudare.schema.dates import Date, DatePart
from sudare.schema.table_from_any_frame import Result, attempt, unique_names

# Beyond so many values or bins a column's expression would be longer than what a database likes to read.
MOST_CASES: Final = 256
# Adding this to a float below 2⁵¹ and taking it away again rounds to the nearest whole number, halves to the even one.
_ROUNDING: Final = 3 * 2**51
# Within these a 64-bit whole number and a float are the same.
_EXACT_INTEGERS: Final = 2**53
_BAD: Final = -1
# What columns are called within a statement; a table that has such columns is read.
_PREFIX: Final = "sudare_"

Holds = Literal["float", "integer", "text", "boolean", "anything"]

# What columns hold, by their type's name (DuckDB) or number (PostgreSQL). Types that are not here, or that a reader rounds on the way (numeric, PostgreSQL's real), are read.
_DUCKDB_TYPES: Final[Mapping[str, Holds]] = {
    "double": "float", "float": "float", "varchar": "text", "boolean": "boolean",
    **dict.fromkeys(("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger"), "integer"),
}  # fmt: skip
_POSTGRESQL_TYPES: Final[Mapping[int, Holds]] = {
    701: "float", 20: "integer", 21: "integer", 23: "integer", 25: "text", 1043: "text", 16: "boolean",
}  # fmt: skip
_SQLITE_TYPES: Final = (sqlalchemy.Integer, sqlalchemy.Float, sqlalchemy.String, sqlalchemy.types.NullType, type(None))


@dataclass(frozen=True)
class SummedColumn:
    """A column of numbers to be added up in whole steps: its scaled value over `unit`, less `offset`, rounded.

    With `square` z is that value times `square`, and 2z² − 1 in steps of `square` is added up instead. All three are powers of two, or 0.
    """

    name: str
    number: Number
    unit: float
    offset: float = 0.0
    square: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class CellSums:
    """How many rows there are in each cell, and what the summed columns add up to there; how many values lay outside the bounds is for the owner only."""

    counts: NDArray[np.int64]
    sums: NDArray[np.int64]
    outside: Mapping[str, int]

    @property
    def rows(self) -> int:
        return int(self.counts.sum())


def database_rows(data: object, schema: Schema) -> int | None:
    """How many rows the database that the data are in says there are; None where they have to be read."""
    return _computed(data, schema, lambda view: view.cell_sums({}, ()).rows)


def database_sums(data: object, schema: Schema, by: Sequence[str], summed: Sequence[SummedColumn]) -> CellSums | None:
    """Counts and sums of all cells that the values of the columns `by` make, computed by the database that the data are in; None where they have to be read."""
    return _computed(data, schema, lambda view: view.cell_sums({name: schema.columns[name] for name in by}, summed))


def database_counts(data: object, schema: Schema) -> list[CellSums] | None:
    """How many rows hold each value of each feature, computed by the database that the data are in; None where they have to be read."""
    return _computed(data, schema, lambda view: view.column_counts(schema.features))


def _computed(data: object, schema: Schema, ask: Callable[[_View], Result]) -> Result | None:
    """What a database answers; None where the data are in none, where it failed, or where a row has to be refused."""
    opened = source(data)
    # Which rows of a person are kept, a database could not tell.
    if not isinstance(opened, DatabaseTable | DuckDBRelation) or schema.person is not None:
        return None

    def answered() -> Result:
        with _view(opened) as view:
            return ask(view)

    return attempt(answered)


class _MustBeRead(Exception):
    """Whatever leaves a doubt. It never leaves this module."""


class _View(ABC):
    """A table of a database: its columns by the names that a reader gives them, and how their values become codes and steps.

    The code of a value is twice its position among the bins or declared values of its column, and one more where it lies outside of its bounds. What most values are is asked first.
    """

    double: str = "DOUBLE PRECISION"
    integer: str = "BIGINT"
    has_nan = True

    def __init__(self, written: Sequence[str], holds: Sequence[Holds | None]) -> None:
        # Where a statement could mistake one column for another, rows are read.
        small = [name.lower() for name in written]
        if len(set(small)) < len(small) or any(name.startswith(_PREFIX) or "\0" in name for name in small):
            raise _MustBeRead
        self._columns = dict(zip(unique_names(written), zip(written, holds, strict=True), strict=True))

    @abstractmethod
    def _grouped(self, codes: Sequence[str], added: Sequence[str]) -> list[Sequence[Any]]:
        """For every combination of codes these, the number of rows, and the sums of what is added."""

    @abstractmethod
    def _counted(self, codes: Sequence[str]) -> list[Sequence[Any]]:
        """The place of each code in the list, each of its values, and the number of rows with it: by one statement."""

    def cell_sums(self, by: Mapping[str, Column], summed: Sequence[SummedColumn]) -> CellSums:
        """Counts and sums in all cells."""
        bounded = {each.name: each.number for each in summed}
        steps = [self._steps(each) for each in summed]
        outside = [self._outside(name, number) for name, number in bounded.items()]
        refused = [self._refused(name, number) for name, number in bounded.items()]
        rows = self._grouped([self._code(*each) for each in by.items()], [*steps, *outside, *refused])
        shape = tuple(map(_size, by.values()))
        counts = np.zeros(math.prod(shape), np.int64)
        sums, beyond = np.zeros((len(steps), counts.size), np.int64), np.zeros(len(bounded), np.int64)
        for row in rows:
            codes, (count, *added) = row[: len(by)], row[len(by) :]
            if count == 0 or _BAD in codes or any(added[len(steps) + len(bounded) :]):
                raise _MustBeRead
            cell = int(np.ravel_multi_index(tuple(int(code) // 2 for code in codes), shape)) if codes else 0
            totals = np.array([int(total) for total in added], dtype=np.int64)
            counts[cell] += int(count)
            sums[:, cell] += totals[: len(steps)]
            beyond += totals[len(steps) : len(steps) + len(bounded)]
        return CellSums(counts, sums, dict(zip(bounded, beyond.tolist(), strict=True)))

    def column_counts(self, columns: Mapping[str, Column]) -> list[CellSums]:
        """Counts of each column by itself."""
        counts = [np.zeros((_size(column), 2), np.int64) for column in columns.values()]
        for place, code, count in self._counted([self._code(*each) for each in columns.items()]):
            if code == _BAD:
                raise _MustBeRead
            counts[int(place)][divmod(int(code), 2)] += int(count)
        if len({int(each.sum()) for each in counts}) > 1:
            raise _MustBeRead
        none = np.zeros((0, 0), np.int64)
        return [
            CellSums(each.sum(axis=1), none, {name: int(each[:, 1].sum())} if isinstance(column, Number) else {})
            for (name, column), each in zip(columns.items(), counts, strict=True)
        ]

    # Expressions

    def _code(self, name: str, column: Column) -> str:
        """Twice the position of a value, one more where it lies outside; −1 for a value that is refused."""
        return self._bin(name, column) if isinstance(column, Number) else self._level(name, column)

    def _bin(self, name: str, number: Number) -> str:
        value, missing = self._number(name, number)
        if len(number.edges) >= MOST_CASES:
            raise _MustBeRead
        if number.has_indicator:
            of_missing = 2 * len(number.edges) + 2
        elif number.stand_in is None:
            of_missing = _BAD
        else:
            of_missing = 2 * sum(number.stand_in >= edge for edge in number.edges)
        last = 2 * len(number.edges)
        return _case(
            *((fault, _BAD) for fault in self._faults(name, number)),
            (f"{value} < {self._float(number.low)}", 1),
            *((f"{value} < {self._float(edge)}", 2 * place) for place, edge in enumerate(number.edges)),
            (missing, of_missing),
            (f"{value} > {self._float(number.high)}", last + 1),
            otherwise=last,
        )

    def _level(self, name: str, column: Category | Label) -> str:
        written, holds = self._column(name)
        kind, levels = column.value_kind, column.levels
        if isinstance(column, DatePart) or holds not in (kind, "anything") or len(levels) > MOST_CASES:
            raise _MustBeRead
        if kind == "text" and column.other_code is not None and not self._has_plain_text(levels):
            raise _MustBeRead
        compared = self._comparable(written, kind)
        return _case(
            *((fault, _BAD) for fault in self._type_faults(written, kind)),
            (f"{written} IS NULL", _BAD if column.missing_code is None else 2 * column.missing_code),
            # The value for missing ones may be of another kind, which is in no such column.
            *(
                (f"{compared} = {self._literal(level, kind)}", 2 * place)
                for place, level in enumerate(levels)
                if kind == "text" or not isinstance(level, str)
            ),
            otherwise=_BAD if column.other_code is None else 2 * column.other_code,
        )

    def _steps(self, summed: SummedColumn) -> str:
        """A value in whole steps: what `EncodedColumn` computes, by the same operations."""
        value, missing = self._number(summed.name, summed.number)
        facts = encoding_facts(summed.number, "scaled")
        if leaves_bounds(*facts):
            raise _MustBeRead
        low, high, shift, scale, _, _ = facts
        within = _case(
            (self._within(value, summed.number), value),
            (missing, self._float(low if summed.number.stand_in is None else summed.number.stand_in)),
            (f"{value} < {self._float(low)}", self._float(low)),
            otherwise=self._float(high),
        )
        scaled = (
            f"({within} - {self._float(shift)}) / {self._float(scale * summed.unit)} - {self._float(summed.offset)}"
        )
        if summed.square is None:
            return self._rounded(scaled)
        z = f"(({scaled}) * {self._float(summed.square)})"
        return self._rounded(f"({self._float(2)} * ({z} * {z}) - {self._float(1)}) / {self._float(summed.square)}")

    def _outside(self, name: str, number: Number) -> str:
        """1 where a value lies outside of its bounds, else 0."""
        value, missing = self._number(name, number)
        return _case((self._within(value, number), 0), (missing, 0), otherwise=1)

    def _refused(self, name: str, number: Number) -> str:
        """1 where the reader would refuse a value, else 0."""
        _, missing = self._number(name, number)
        faults = ((fault, 1) for fault in self._faults(name, number))
        return _case(*faults, (missing, int(number.stand_in is None)), otherwise=0)

    def _within(self, value: str, number: Number) -> str:
        """Whether a value lies within its bounds; a missing one does not: to databases, NaN is larger than every number."""
        return f"{value} >= {self._float(number.low)} AND {value} <= {self._float(number.high)}"

    def _column(self, name: str) -> tuple[str, Holds | None]:
        """A column by its quoted name, and what it holds."""
        if name not in self._columns:
            raise _MustBeRead
        written, holds = self._columns[name]
        return quoted_names([written]), holds

    def _number(self, name: str, number: Number) -> tuple[str, str]:
        """A column as floats, and whether a value is missing."""
        written, holds = self._column(name)
        if isinstance(number, Date) or holds not in ("float", "integer", "anything"):
            raise _MustBeRead
        value = f"CAST({written} AS {self.double})"
        is_nan = f" OR {value} = CAST('NaN' AS {self.double})" if self.has_nan and holds == "float" else ""
        return value, f"{written} IS NULL{is_nan}"

    def _faults(self, name: str, number: Number) -> list[str]:
        """When a value that is not missing is refused, or is so large that the reader has to tell whether it is whole."""
        written, holds = self._column(name)
        value, largest = f"CAST({written} AS {self.double})", self._float(2.0**51)
        faults = self._type_faults(written, "number")
        if number.whole and holds != "integer":
            faults.append(f"{value} > -{largest} AND {value} < {largest} AND {self._nearest(value)} <> {value}")
            faults.append(f"{value} <= -{largest} OR {value} >= {largest}")
        return faults

    def _has_plain_text(self, levels: Sequence[Level]) -> bool:
        """Whether all text that equals no declared value is another one to the reader too: a word that is spelled with accents apart is a listed one to it."""
        return all(str(level).isascii() for level in levels)

    def _type_faults(self, written: str, kind: str) -> list[str]:
        """When a value is of another type than it should be; only where columns hold anything."""
        return []

    def _comparable(self, written: str, kind: str) -> str:
        """A column, or a literal, so that two are equal if and only if their bytes are."""
        return written

    def _literal(self, level: Level, kind: str) -> str:
        if kind == "boolean":
            return "TRUE" if level else "FALSE"
        if kind == "integer":
            return str(level)
        text = str(level)
        if "\\" in text or "\0" in text:
            # What these stand for depends on settings.
            raise _MustBeRead
        return self._comparable("'" + text.replace("'", "''") + "'", kind)

    def _float(self, value: float) -> str:
        """A float as a quotient or product of whole numbers and powers of two, which every database computes without rounding."""
        mantissa, exponent = math.frexp(value)
        whole, power = int(math.ldexp(mantissa, 53)), exponent - 53
        while whole and whole % 2 == 0:
            whole, power = whole // 2, power + 1
        text = f"CAST({whole} AS {self.double})"
        while whole and power:
            shift = max(-62, min(62, power))
            text += f" {'*' if shift > 0 else '/'} CAST({2 ** abs(shift)} AS {self.double})"
            power -= shift
        return f"({text})"

    def _nearest(self, value: str) -> str:
        return f"(({value} + {self._float(_ROUNDING)}) - {self._float(_ROUNDING)})"

    def _rounded(self, value: str) -> str:
        return f"CAST({self._nearest(f'({value})')} AS {self.integer})"


def _case(*cases: tuple[str, str | int], otherwise: str | int) -> str:
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in cases)
    return f"(CASE {whens} ELSE {otherwise} END)"


def _size(column: Column) -> int:
    """How many values or bins a column has, one for missing numbers included."""
    return len(column.edges) + 1 + column.has_indicator if isinstance(column, Number) else len(column.levels)


def _named(texts: Sequence[str]) -> str:
    """Expressions under names of ours; something where there is none."""
    return ", ".join(f"{text} AS {_PREFIX}{place}" for place, text in enumerate(texts or ("1",)))


def _names(start: int, end: int) -> list[str]:
    return [f"{_PREFIX}{place}" for place in range(start, end)]


def _selected(codes: Sequence[str], added: Sequence[str]) -> str:
    """What is selected of codes and of what is added, under names of ours."""
    sums = [f"sum({name})" for name in _names(len(codes), len(codes) + len(added))]
    return ", ".join([*_names(0, len(codes)), "count(*)", *sums])


# Databases


class _DuckDBView(_View):
    double = "DOUBLE"

    def __init__(self, relation: Any) -> None:
        super().__init__(relation.columns, [_DUCKDB_TYPES.get(each.id) for each in relation.types])
        self._relation = relation

    def _grouped(self, codes: Sequence[str], added: Sequence[str]) -> list[Sequence[Any]]:
        encoded = self._relation.project(_named([*codes, *added]))
        return list(encoded.aggregate(_selected(codes, added), ", ".join(_names(0, len(codes)))).fetchall())

    def _counted(self, codes: Sequence[str]) -> list[Sequence[Any]]:
        names = _names(0, len(codes))
        sets = f"GROUPING SETS ({', '.join(f'({name})' for name in names)})"
        rows = self._relation.project(_named(codes)).aggregate(_selected(codes, ()), sets).fetchall()
        # Codes that are not grouped by are NULL.
        return [(place, row[place], row[-1]) for row in rows for place in range(len(codes)) if row[place] is not None]

    def _comparable(self, written: str, kind: str) -> str:
        # A column, or all of them, may be declared to be compared without case or accents.
        return f"encode({written})" if kind == "text" else written


class _SqlView(_View):
    def __init__(
        self, connection: sqlalchemy.Connection, table: str, written: Sequence[str], holds: Sequence[Holds | None]
    ) -> None:
        super().__init__(written, holds)
        self._connection, self._table = connection, table

    def _grouped(self, codes: Sequence[str], added: Sequence[str]) -> list[Sequence[Any]]:
        return _fetched(self._connection, self._statement(_selected(codes, added), [*codes, *added], len(codes)))

    def _counted(self, codes: Sequence[str]) -> list[Sequence[Any]]:
        parts = (self._statement(f"{place}, {_selected([code], ())}", [code], 1) for place, code in enumerate(codes))
        return _fetched(self._connection, " UNION ALL ".join(parts))

    def _statement(self, selected: str, texts: Sequence[str], codes: int) -> str:
        grouping = f" GROUP BY {', '.join(_names(0, codes))}" if codes else ""
        # Names are quoted, and every other word is ours or a literal of `_View`.
        return f"SELECT {selected} FROM (SELECT {_named(texts)} FROM {self._table}) AS encoded{grouping}"  # noqa: S608


class _PostgreSqlView(_SqlView):
    def _comparable(self, written: str, kind: str) -> str:
        return f'({written} COLLATE pg_catalog."C")' if kind == "text" else written


class _SqliteView(_SqlView):
    """Values of SQLite have types of their own, whatever their column says, so that they are looked at."""

    double, integer = "REAL", "INTEGER"
    has_nan = False

    def _has_plain_text(self, levels: Sequence[Level]) -> bool:
        # What is stored as text may be bytes that are none, which the reader refuses.
        return False

    def _type_faults(self, written: str, kind: str) -> list[str]:
        types = {"number": "'integer', 'real'", "integer": "'integer'", "text": "'text'"}.get(kind)
        if types is None:
            raise _MustBeRead
        beyond = f"{written} NOT BETWEEN {-_EXACT_INTEGERS} AND {_EXACT_INTEGERS}"
        large = [f"typeof({written}) = 'integer' AND {beyond}"] if kind == "number" else []
        return [f"typeof({written}) NOT IN ({types}, 'null')", *large]

    def _comparable(self, written: str, kind: str) -> str:
        return f"({written} COLLATE BINARY)" if kind == "text" else written


def _executed(connection: sqlalchemy.Connection, statement: str) -> sqlalchemy.CursorResult[Any]:
    """A statement as it is: without parameters, a % is no mark of one."""
    return connection.execution_options(no_parameters=True).exec_driver_sql(statement)


def _fetched(connection: sqlalchemy.Connection, statement: str) -> list[Sequence[Any]]:
    return [tuple(row) for row in _executed(connection, statement)]


@contextlib.contextmanager
def _view(opened: DatabaseTable | DuckDBRelation) -> Iterator[_View]:
    """The table, as long as its database is open. Raise _MustBeRead where its rows have to be read."""
    if isinstance(opened, DuckDBRelation):
        yield _duckdb_view(opened.frame)
        return
    asked = opened.source
    if isinstance(asked.url, sqlalchemy.Engine):
        # Its connections may have functions of their own.
        raise _MustBeRead
    url = sqlalchemy.make_url(asked.url)
    if url.get_backend_name() == "duckdb":
        with duckdb_relation(url, asked.query) as relation:
            yield _duckdb_view(relation)
        return
    engine = opened_for_reading(asked.url)
    refuse_writing(asked.query, engine.dialect.name)
    try:
        with reading(engine) as connection:
            yield _sql_view(connection, asked.query)
    finally:
        engine.dispose()


def _duckdb_view(relation: Any) -> _View:
    if has_own_functions(relation):
        raise _MustBeRead
    return _DuckDBView(relation)


def _sql_view(connection: sqlalchemy.Connection, query: str) -> _View:
    """A table whose values are stored. What a view or a query gives may be computed again wherever it is mentioned, so that a checked value is not the one that is added."""
    dialect = connection.dialect.name
    is_stored = {"postgresql": _is_plain_in_postgresql, "sqlite": is_stored_in_sqlite}.get(dialect)
    if is_stored is None or re.search(r"\s", query) or not is_stored(connection, query):
        raise _MustBeRead
    reflected = reflected_table(connection, query)
    table = connection.dialect.identifier_preparer.format_table(reflected)
    described: Any = _executed(connection, f"SELECT * FROM {table} LIMIT 0").cursor.description  # noqa: S608 - quoted, or a query that was looked at
    written = [str(column[0]) for column in described]
    if dialect == "sqlite":
        types = [reflected.columns[name].type for name in written]
        holds: list[Holds | None] = ["anything" if isinstance(each, _SQLITE_TYPES) else None for each in types]
        return _SqliteView(connection, table, written, holds)
    return _PostgreSqlView(connection, table, written, [_POSTGRESQL_TYPES.get(column[1]) for column in described])


# Where somebody has made functions, operators, casts or collations, names in a statement may lead to them. All objects that came with the server have smaller numbers.
_POSTGRESQL_OWN: Final = " UNION ALL ".join(
    f"SELECT 1 FROM pg_catalog.{catalog} WHERE oid OPERATOR(pg_catalog.>=) CAST(16384 AS pg_catalog.oid)"  # noqa: S608 - names of ours
    for catalog in ("pg_proc", "pg_operator", "pg_cast", "pg_collation")
)


def _is_plain_in_postgresql(connection: sqlalchemy.Connection, query: str) -> bool:
    """Whether this is the name of an ordinary table, in a database in which nobody has made functions, and text comes as it is stored."""
    place, _, name = query.rpartition(".")
    statement = sqlalchemy.text(
        "SELECT c.relkind FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace "
        "WHERE c.relname OPERATOR(pg_catalog.=) CAST(:name AS pg_catalog.name) AND n.nspname OPERATOR(pg_catalog.=) CAST(:place AS pg_catalog.name)"
    )
    found = (
        connection.execute(statement, {"name": name, "place": place or DEFAULT_SCHEMAS["postgresql"]}).scalars().all()
    )
    encodings = {_executed(connection, f"SHOW {which}").scalar() for which in ("server_encoding", "client_encoding")}
    return [*map(_text_of, found)] == ["r"] and encodings == {"UTF8"} and not _fetched(connection, _POSTGRESQL_OWN)


def _text_of(value: Any) -> str:
    """A value of the type "char", which some drivers give as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
