"""One reader for every source of records: what `source` takes is read in batches with bounded memory, in one order.

Errors say what could not be read and never quote it: libraries put values, statements and addresses with passwords
into their messages, so theirs are replaced outside of the `except` block and leave no trace in the chain of causes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
import sqlalchemy

from sudare.errors import DataError, InvalidParameter, SourceUnreadable, WrongType
from sudare.frames.addresses import STORES, ObjectAddress, TableAddress, is_text, parsed
from sudare.frames.csv_dialects import CsvFile, described
from sudare.frames.csv_files import csv_batches, csv_types, unreadable_csv
from sudare.frames.databases import SqlSource, opened_for_reading, reading, refuse_writing
from sudare.frames.file_discovery import (
    CSV_ENDINGS,
    DELTA_LOG,
    PARQUET_ENDINGS,
    DataFile,
    file_system,
    files_at,
    is_parquet,
    objects_at,
    opened_bytes,
    state_of,
)
from sudare.frames.lazy_frames import duckdb_batches, lazy_frame, quoted_names
from sudare.frames.record_source import Origin, RecordSource, arrow_batches, named_types, quietly
from sudare.frames.table_formats import (
    DatasetSource,
    IcebergSource,
    delta_source,
    delta_table,
    hive_folder,
    iceberg_table,
    store_of,
)
from sudare.frames.wanted_columns import pieces, selected, unreadable, wanted_columns
from sudare.optional_packages import optional_package
from sudare.schema import Schema
from sudare.schema.frame_conversion import Table, as_table, attempt, unique_names

__all__ = [
    "CSV_ENDINGS",
    "CsvFile",
    "PARQUET_ENDINGS",
    "SqlSource",
    "Table",
    "as_table",
    "batches",
    "column_types",
    "read",
    "row_count",
    "source",
]

DEFAULT_BATCH_ROWS = 65536
PARQUET_BUFFER_BYTES = 2**16
DEFAULT_SCHEMAS = {"postgresql": "public"}


def source(data: object, *, filesystem: object = None) -> RecordSource:
    """The one reader of `data`, whatever it is.

    A text is the path of a Parquet or CSV file, of a folder of Parquet files (or of folders such as month=3/), or a pattern such as
    "2026-*.parquet"; the same in an object store ("s3://bucket/…", "gs://…", "abfs://…"); "delta:…" or "iceberg:…" and the folder of
    such a table; or the address of a database, a blank, and a table or query in it ("sqlite:///clinic.db visits"). Beside texts:
    a Path, a CsvFile, a Slice of a file, a SqlSource; a Dataset of pyarrow, a DeltaTable, a table of pyiceberg; a lazy frame of polars, a relation of DuckDB, a
    dataframe of Dask; any table that `as_table` takes; and an iterator of such tables, which can be read only once.
    `filesystem` is one of pyarrow.fs or fsspec, for a path in it. Nothing is read here but lists of files.
    """
    if isinstance(data, RecordSource):
        return data
    if filesystem is not None:
        return _in_file_system(data, file_system(filesystem))
    if isinstance(data, str | os.PathLike):
        return _at(data)
    if isinstance(data, SqlSource):
        return DatabaseTable(data)
    if isinstance(data, Iterator | pa.RecordBatchReader):
        return PassingTables(data)
    return _by_library(data) or lazy_frame(data) or HeldTable(data)


def _by_library(data: object) -> RecordSource | None:
    """A Dataset, or a table of deltalake or pyiceberg, told by the name of its class: the library is there where somebody made one."""
    for kind in type(data).__mro__:
        library = kind.__module__.partition(".")[0]
        if (library, kind.__name__) == ("pyarrow", "Dataset"):
            return DatasetSource(data)
        if (library, kind.__name__) == ("deltalake", "DeltaTable"):
            return delta_source(data)
        if (library, kind.__name__) == ("pyiceberg", "Table"):
            return IcebergSource(data)
    return None


def _at(data: str | os.PathLike[str]) -> RecordSource:
    said = described(data)
    place = parsed(os.fspath(data)) if is_text(data) else os.fspath(data)
    if isinstance(place, SqlSource):
        return DatabaseTable(place)
    if isinstance(place, TableAddress):
        return delta_table(place) if place.form == "delta" else iceberg_table(place)
    if isinstance(place, ObjectAddress):
        return StoredFiles(place, said)
    folder = Path(place)
    if folder.is_dir():
        names = os.listdir(folder)
        if DELTA_LOG in names:
            return delta_table(TableAddress("delta", place))
        if not any(name.lower().endswith(PARQUET_ENDINGS) for name in names):
            return hive_folder(folder)
    return StoredFiles(place, said)


def _in_file_system(data: object, filesystem: Any) -> RecordSource:
    """Files of a file system by their path in it."""
    if not isinstance(data, str | os.PathLike):
        raise InvalidParameter("`filesystem` was given for what is no path.", "Leave it out.")
    said = described(data)
    place, within = parsed(os.fspath(said.path)), filesystem
    base = ""
    while isinstance(within, pyarrow.fs.SubTreeFileSystem):
        base, within = f"{within.base_path.rstrip('/')}/{base}", within.base_fs
    store = store_of(within)
    if store == "file" and isinstance(place, str):
        return _at(base + place if base else place)
    if not store:
        raise SourceUnreadable(
            "This kind of file system is not known, so that an account could not tell its tables apart.",
            f"Known are files of this machine, {', '.join(f'{name}://' for name in sorted(set(STORES.values())))}.",
        )
    if isinstance(place, str):
        place = parsed(f"{store}://{(base + place).lstrip('/')}")
    if not isinstance(place, ObjectAddress):
        raise InvalidParameter("`filesystem` was given for what is no path.", "Leave it out.")
    return StoredFiles(place, said, within)


# Below, sources are called so.
_opened = source


def batches(
    source: object,
    columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    schema: Schema | None = None,
) -> Iterator[Table]:
    """The rows of whatever `source` takes as tables of 1 to `batch_rows` rows, read as they are asked for.

    Encoding, separator and decimal mark of a CSV file are told from its beginning; one whose first line may be a record is refused, unless a
    CsvFile says what that line is.
    `columns` are read and no others. Without them a `schema` selects the columns it knows, as far as they are there,
    and fixes the types of a CSV file: without it they are guessed from the beginning of the file, and a later line
    may contradict. In declared text columns a field is missing if it is empty or a usual word for missing (NA, null, …),
    unless the schema lists that word.
    """
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1:
        raise InvalidParameter(
            "`batch_rows` is not a whole number from 1.", "Leave it out, or give a number such as 65536."
        )
    return _opened(source).batches(columns, batch_rows, schema)


def read(source: object, columns: Sequence[str] | None = None, schema: Schema | None = None) -> Table:
    """All rows of a source in one table."""
    opened = _opened(source)
    parts = [batch.arrow for batch in batches(opened, columns, schema=schema)]
    if not parts:
        raise DataError("The source has no rows.", "Check the path or query.")
    together = attempt(lambda: pa.concat_tables(parts, promote_options="permissive"))
    if together is None:
        raise WrongType("A column of the source changes its type on the way.", "Give it one type throughout.")
    return Table(together, opened.origin)


def row_count(source: object) -> int | None:
    """The number of rows where that is known without reading them; None elsewhere."""
    return _opened(source).row_count()


def column_types(source: object, expected: Collection[str] = ()) -> pa.Schema:
    """The names and Arrow types of the columns of a source, read from the least of it that tells them.

    `expected` are names that a person declared: they tell a header of a CSV file that holds nothing but text from a record.
    """
    return _opened(source).types(expected)


def is_stored(source: object) -> bool:
    """Whether a source is a file, a folder, a database or a lazy frame: something that can be read again in batches."""
    return isinstance(source, str | os.PathLike | SqlSource) or _opened(source).is_stored


def is_read_once(source: object) -> bool:
    """Whether the rows of a source come only once."""
    return isinstance(source, Iterator | pa.RecordBatchReader | PassingTables)


def is_in_memory(source: object) -> bool:
    """Whether a source is a table in memory; all others are read in batches."""
    return not is_stored(source) and not is_read_once(source)


def in_memory(source: Any, schema: Schema | None = None, columns: Sequence[str] | None = None) -> Any:
    """A table in memory as it is; all rows of every other source, in one table."""
    if not is_in_memory(source):
        return read(source, columns, schema)
    return source.table if isinstance(source, HeldTable) else source


def steadied(source: Any, schema: Schema | None = None) -> Any:
    """A source that gives the same rows in the same order whenever it is read: itself, or its rows in memory."""
    return source if _opened(source).is_steady else in_memory(source, schema)


@dataclass(frozen=True, eq=False, repr=False)
class HeldTable(RecordSource):
    """A table in memory: a frame, a dictionary of columns, an array. It may have been read from somewhere."""

    table: Any
    is_stored = False
    is_steady = True

    @property
    def origin(self) -> Origin | None:
        return cast(Origin | None, self.table.origin) if isinstance(self.table, Table) else None

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        return (piece for table in [self.table] for piece in pieces(selected(table, columns, schema), batch_rows))

    def types(self, expected: Collection[str]) -> pa.Schema:
        return as_table(self.table).arrow.schema

    def row_count(self) -> int | None:
        held = next(iter(self.table.values()), ()) if isinstance(self.table, Mapping) else self.table
        return attempt(lambda: len(held)) if hasattr(held, "__len__") else None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return as_table(self.table).__arrow_c_stream__(requested_schema)


class PassingTables(RecordSource):
    """Tables that come once."""

    is_stored = False

    def __init__(self, tables: Any) -> None:
        self._tables = iter(tables)
        self._first: list[Any] = []

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        tables = itertools.chain(self._waiting(), self._tables)
        return (piece for table in tables for piece in pieces(selected(table, columns, schema), batch_rows))

    def _waiting(self) -> Iterator[Any]:
        while self._first:
            yield self._first.pop()

    def types(self, expected: Collection[str]) -> pa.Schema:
        """Those of the first table, which stays to be read."""
        if not self._first:
            self._first.extend(itertools.islice(self._tables, 1))
        return as_table(self._first[0]).arrow.schema if self._first else pa.schema([])


# Files


class StoredFiles(RecordSource):
    """Parquet and CSV files at a path, in a folder or by a pattern, on this machine or in an object store."""

    is_steady = True

    def __init__(self, place: str | ObjectAddress, said: CsvFile, filesystem: Any = None) -> None:
        self._place, self._said, self._filesystem = place, said, filesystem

    def files(self) -> list[DataFile]:
        """The files that are there now, in the order of their names."""
        if isinstance(self._place, ObjectAddress):
            return objects_at(self._place, self._filesystem)
        return files_at(self._place)

    @property
    def origin(self) -> Origin | None:
        if isinstance(self._place, ObjectAddress):
            return ObjectAddress(self._place.store, self._place.place, self._place.key, "")
        # Not shortened: a/.. is where a link leads, and not always here.
        return os.path.join(os.getcwd(), self._place)

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        files = self.files()
        return itertools.chain.from_iterable(
            file_batches(file, columns, batch_rows, schema, self._said) for file in files
        )

    def types(self, expected: Collection[str]) -> pa.Schema:
        first, *others = (_types_in(file, expected, self._said) for file in self.files())
        if any(set(types.names) != set(first.names) for types in others):
            raise DataError(
                f"The files at {str(self._place)!r} do not all have the same columns.",
                "Keep those together that are parts of one table.",
            )
        return first

    def row_count(self) -> int | None:
        files = self.files()
        if not all(is_parquet(file) for file in files):
            return None
        return sum(int(opened_parquet(file).metadata.num_rows) for file in files)

    def state(self) -> Any:
        return state_of(self.files())


def _types_in(file: DataFile, expected: Collection[str], said: CsvFile) -> pa.Schema:
    if not is_parquet(file):
        return csv_types(file, expected, said)
    return named_types(opened_parquet(file).schema_arrow)


def file_batches(
    file: DataFile, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None, said: CsvFile
) -> Iterator[Table]:
    """The tables of one file."""
    if is_parquet(file):
        return parquet_batches(file, columns, batch_rows, schema)
    rows = csv_batches(file, columns, batch_rows, schema, said)
    return quietly(rows, lambda error: unreadable_csv(error, file, schema, said))


def opened_parquet(file: DataFile) -> Any:
    """The Parquet file, its metadata read and its rows not. Pre-buffering would hold whole row groups; without a buffer whole columns of one."""
    parquet = attempt(
        lambda: pyarrow.parquet.ParquetFile(opened_bytes(file), pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES)
    )
    if parquet is None:
        raise unreadable(file, "Parquet")
    return parquet


def parquet_batches(
    file: DataFile,
    columns: Sequence[str] | None,
    batch_rows: int,
    schema: Schema | None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[Table]:
    """The tables of a Parquet file, or of some of its row groups."""

    def tables() -> Iterator[Table]:
        # Threads would share out the columns of one batch at a time, which costs more than it brings.
        asked: dict[str, Any] = {"batch_size": batch_rows, "row_groups": row_groups, "use_threads": False}
        with opened_parquet(file) as parquet:
            yield from arrow_batches(
                lambda stored: parquet.iter_batches(columns=stored, **asked),
                parquet.schema_arrow.names, columns, batch_rows, schema,
            )  # fmt: skip

    return quietly(tables(), lambda error: unreadable(file, "Parquet"))


def has_local_files(data: object) -> bool:
    """Whether a path or pattern was given that stands for Parquet or CSV files of this machine."""
    if not isinstance(data, str | os.PathLike):
        return False
    opened = source(data)
    return isinstance(opened, StoredFiles) and isinstance(opened.origin, str)


# Databases


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
