"""Tables and queries of databases, read in batches by SQLAlchemy or by DuckDB, and never written to."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import sqlalchemy

from sudare.errors import SourceUnreadable
from sudare.frames.databases import SqlSource, opened_for_reading, reading, refuse_writing
from sudare.frames.lazy_frames import duckdb_batches, quoted_names
from sudare.frames.record_source import Origin, RecordSource, arrow_batches, known_source, quietly
from sudare.frames.wanted_columns import selected, wanted_columns
from sudare.optional_packages import optional_package
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import Table, unique_names

DEFAULT_SCHEMAS = {"postgresql": "public"}
_UNUSED_NAME: Final = "sudare_given"


@known_source
@dataclass(frozen=True, eq=False, repr=False)
class DatabaseTable(RecordSource):
    """A table or query of a database, which gives its rows in any order it likes."""

    source: SqlSource

    @property
    def origin(self) -> Origin | None:
        return self.source

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        return quietly(sql_batches(self.source, columns, batch_rows, schema), unreadable_database)

    def types(self, expected: Collection[str]) -> pa.Schema:
        first = next(self.batches(None, 1000, None), None)
        return first.arrow.schema if first else pa.schema([])


def unreadable_database(error: Exception) -> SourceUnreadable:
    """What to say of a database that failed; the class of the error is told, its text may contain a password or values."""
    if isinstance(error, ImportError):
        return SourceUnreadable(
            "The driver for this kind of database is not installed.", "Install the driver that SQLAlchemy names for it."
        )
    if isinstance(error, sqlalchemy.exc.NoSuchTableError) or type(error).__name__ == "CatalogException":
        # The second one is of DuckDB, which need not be installed.
        return SourceUnreadable(
            "The database has no table or view of that name that this user may see.",
            "Check how the name is spelled; write its schema before it (clinic.visits) where it is not in the default one.",
        )
    return SourceUnreadable(
        f"The database cannot be read ({type(error).__name__}).",
        "Check address, password and query with the database's own client.",
    )


def sql_batches(
    source: SqlSource, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None
) -> Iterator[Table]:
    if not isinstance(source.url, sqlalchemy.Engine):
        url = sqlalchemy.make_url(source.url)
        if url.get_backend_name() == "duckdb":
            yield from _duckdb_batches(url, source.query, columns, batch_rows, schema)
            return
    engine = source.url if isinstance(source.url, sqlalchemy.Engine) else opened_for_reading(source.url)
    refuse_writing(source.query, engine.dialect.name)
    try:
        with reading(engine) as connection:
            connection.execution_options(stream_results=True, yield_per=batch_rows)
            result = sql_result(connection, source.query, columns, schema)
            present = unique_names(list(result.keys()))
            for rows in result.partitions(batch_rows):
                by_column = dict(zip(present, zip(*rows, strict=True), strict=True))
                yield selected(by_column, columns, schema)
    finally:
        if engine is not source.url:
            engine.dispose()


def sql_result(
    connection: sqlalchemy.Connection, query: str, columns: Sequence[str] | None, schema: Schema | None
) -> sqlalchemy.CursorResult[Any]:
    """The rows of a query, or the wanted columns of a table by its name."""
    if re.search(r"\s", query):
        return connection.exec_driver_sql(query)
    table = reflected_table(connection, query)
    names = wanted_columns([column.name for column in table.columns], columns, schema)
    return connection.execute(sqlalchemy.select(*(table.columns[name] for name in names)))


def reflected_table(connection: sqlalchemy.Connection, query: str) -> sqlalchemy.Table:
    """A table or view by its name, with its columns."""
    place, _, name = query.rpartition(".")
    # Not where a search path leads, which every connection may set otherwise: the account for a table pays for no other one.
    place = place or DEFAULT_SCHEMAS.get(connection.dialect.name, "")
    return sqlalchemy.Table(name, sqlalchemy.MetaData(), schema=place or None, autoload_with=connection)


def _duckdb_batches(
    url: sqlalchemy.URL, query: str, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None
) -> Iterator[Table]:
    with duckdb_relation(url, query) as relation:
        yield from arrow_batches(
            lambda stored: duckdb_batches(relation.project(quoted_names(stored)), batch_rows),
            relation.columns, columns, batch_rows, schema,
        )  # fmt: skip


@contextlib.contextmanager
def duckdb_relation(url: sqlalchemy.URL, query: str) -> Iterator[Any]:
    """Rows of a DuckDB file, opened for reading only and kept from reading any other file."""
    duckdb = optional_package(
        "duckdb",
        "Databases of DuckDB are read by a package that is not installed.",
        "Install it: pip install 'sudare[duckdb]'",
    )
    refuse_writing(query, "duckdb")
    file = os.path.abspath(url.database or "")
    if not os.path.isfile(file):
        raise SourceUnreadable("There is no DuckDB file at that address.", "Write for example duckdb:///clinic.duckdb.")
    connection = duckdb.connect(file, read_only=True, config={"enable_external_access": "false"})
    try:
        yield connection.sql(query if re.search(r"\s", query) else _duckdb_table(connection, query))
    finally:
        connection.close()


def _duckdb_table(connection: Any, query: str) -> str:
    """A query for a table by its name; in full, because a name with one point may be that of a schema or of a file."""
    place, _, name = query.rpartition(".")
    ((catalog,),) = connection.execute("SELECT current_database()").fetchall()
    return f"FROM {'.'.join(quoted_names([part]) for part in (catalog, place or 'main', name))}"


def has_own_functions(relation: Any) -> bool:
    """Whether the database of a DuckDB relation has functions or macros that are not its own: they can take the place of built-in ones, operators too.

    Rows are compared here, because whatever compares them there could be replaced.
    """
    statement = "SELECT internal FROM system.main.duckdb_functions()"
    return any(internal is not True for (internal,) in relation.query(_UNUSED_NAME, statement).fetchall())


def is_stored_in_sqlite(connection: sqlalchemy.Connection, query: str) -> bool:
    """Whether this is the name of a table whose values are stored. A view may give others every time it is looked at.

    Expressions of computed columns are deterministic in SQLite, and what a virtual table gives is anybody's.
    """
    place, _, name = query.rpartition(".")
    statement = sqlalchemy.text("SELECT sql FROM main.sqlite_master WHERE type = 'table' AND lower(name) = :name")
    found = connection.execute(statement, {"name": name.lower()}).scalars().all()
    is_virtual = any(re.match(r"\s*create\s+virtual", str(each), re.I) for each in found)
    return place.lower() in ("", "main") and len(found) == 1 and not is_virtual


def is_stored_in_duckdb(url: sqlalchemy.URL, query: str) -> bool:
    """Whether this is the name of a table of a DuckDB file whose values are all stored, in a file without functions of its own.

    Expressions of computed columns may be random numbers in DuckDB.
    """
    place, _, name = (part.lower().replace("'", "''") for part in query.rpartition("."))
    named = f"table_catalog = current_database() AND lower(table_schema) = '{place or 'main'}' AND lower(table_name) = '{name}'"
    statement = (
        f"SELECT (SELECT list(table_type) FROM information_schema.tables WHERE {named}), "  # noqa: S608 - quoted
        f"(SELECT count(*) FROM information_schema.columns WHERE {named} AND is_generated IS DISTINCT FROM 'NEVER')"
    )
    with duckdb_relation(url, statement) as found:
        return not has_own_functions(found) and bool(found.fetchall() == [(["BASE TABLE"], 0)])
