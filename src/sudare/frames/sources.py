"""Data sources in batches with bounded memory: Parquet and CSV files, SQL databases, frames, iterators of frames.

Errors say what could not be read and never quote it: libraries put values, statements and addresses with passwords
into their messages, so theirs are replaced outside of the `except` block and leave no trace in the chain of causes.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import sqlalchemy

from sudare.errors import DataError, InvalidParameter, SourceUnreadable, SudareError, WrongType
from sudare.frames.csv_dialects import CsvFile, described
from sudare.frames.csv_files import csv_batches, csv_types, unreadable_csv
from sudare.frames.databases import SqlSource, opened_for_reading, reading, refuse_writing
from sudare.frames.wanted_columns import pieces, selected, unreadable, wanted_columns
from sudare.schema import Schema
from sudare.schema.frame_conversion import Table, as_table, attempt, unique_names

__all__ = ["CsvFile", "SqlSource", "Table", "as_table", "batches", "column_types", "read", "row_count"]

DEFAULT_BATCH_ROWS = 65536
PARQUET_ENDINGS = (".parquet", ".pq")
CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.zst")
DEFAULT_SCHEMAS = {"postgresql": "public"}


def batches(
    source: object,
    columns: Sequence[str] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    schema: Schema | None = None,
) -> Iterator[Table]:
    """The rows of a source as tables of 1 to `batch_rows` rows, read as they are asked for.

    A source is the path of a Parquet or CSV file, of a folder of Parquet files, or a pattern such as "2026-*.parquet";
    a CsvFile; a SqlSource; any table that `as_table` takes; or an iterator of such tables.
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
    if isinstance(source, str | os.PathLike):
        said = described(source)
        files = (file_batches(file, columns, batch_rows, schema, said) for file in files_at(source))
        return itertools.chain.from_iterable(files)
    if isinstance(source, SqlSource):
        return quietly(sql_batches(source, columns, batch_rows, schema), unreadable_database)
    parts = source if isinstance(source, Iterator | pa.RecordBatchReader) else iter([source])
    return (piece for part in parts for piece in pieces(selected(part, columns, schema), batch_rows))


def read(source: object, columns: Sequence[str] | None = None, schema: Schema | None = None) -> Table:
    """All rows of a source in one table."""
    parts = [batch.arrow for batch in batches(source, columns, schema=schema)]
    if not parts:
        raise DataError("The source has no rows.", "Check the path or query.")
    together = attempt(lambda: pa.concat_tables(parts, promote_options="permissive"))
    if together is None:
        raise WrongType("A column of the source changes its type on the way.", "Give it one type throughout.")
    # Not shortened: a/.. is where a link leads, and not always here.
    origin = os.path.join(os.getcwd(), source) if isinstance(source, str | os.PathLike) else source
    return Table(together, origin if isinstance(origin, str | SqlSource) else None)


def row_count(source: object) -> int | None:
    """The number of rows where that is known without reading them; None elsewhere."""
    if isinstance(source, str | os.PathLike):
        files = files_at(source)
        if not all(is_parquet(file) for file in files):
            return None
        return sum(int(opened_parquet(file).metadata.num_rows) for file in files)
    if isinstance(source, Mapping):
        source = next(iter(source.values()), ())
    return attempt(lambda: len(source)) if hasattr(source, "__len__") else None


def column_types(source: object, expected: Collection[str] = ()) -> pa.Schema:
    """The names and Arrow types of the columns of a source, read from the least of it that tells them.

    `expected` are names that a person declared: they tell a header of a CSV file that holds nothing but text from a record.
    """
    if isinstance(source, str | os.PathLike):
        first, *others = (_types_in(file, expected, described(source)) for file in files_at(source))
        if any(set(types.names) != set(first.names) for types in others):
            raise DataError(
                f"The files at {os.fspath(source)!r} do not all have the same columns.",
                "Keep those together that are parts of one table.",
            )
        return first
    if isinstance(source, SqlSource):
        first = next(batches(source, batch_rows=1000), None)
        return first.arrow.schema if first else pa.schema([])
    return as_table(source).arrow.schema


def quietly(tables: Iterator[Table], explain: Callable[[Exception], SudareError]) -> Iterator[Table]:
    """The same tables; an error of a library on the way is replaced by ours."""
    while True:
        try:
            table = next(tables)
        except StopIteration:
            return
        except (SudareError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - drivers fail in their own ways, and quote what they were given
            explanation = explain(error)
        else:
            yield table
            continue
        raise explanation


def files_at(source: str | os.PathLike[str]) -> list[Path]:
    """The files that a path or pattern stands for, in the order of their names."""
    path = Path(source)
    # A Path has one of the two slashes only. The address is not quoted: it may hold a password.
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", os.fspath(source)):
        raise SourceUnreadable(
            "The source is an address, not a path.",
            "Databases are read in Python, with SqlSource(address, query) from sudare.frames.sources, and by members of a consortium. "
            "For other commands write the table as Parquet or CSV.",
        )
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if is_parquet(file))
    elif path.exists():
        found = [path]
    else:
        found = sorted(Path(name) for name in glob.glob(os.fspath(source)))
    if not found:
        raise SourceUnreadable(
            f"There are no data files at {os.fspath(source)!r}.", "Check the path; a folder must hold Parquet files."
        )
    if not all(file.name.lower().endswith(PARQUET_ENDINGS + CSV_ENDINGS) for file in found):
        raise SourceUnreadable(
            f"{os.fspath(source)!r} is not a Parquet or CSV file by its name.",
            f"Known are {', '.join(PARQUET_ENDINGS + CSV_ENDINGS)}; databases are read with SqlSource(address, query).",
        )
    return found


def _types_in(file: Path, expected: Collection[str], said: CsvFile) -> pa.Schema:
    if not is_parquet(file):
        return csv_types(file, expected, said)
    types = opened_parquet(file).schema_arrow
    return pa.schema(list(zip(unique_names(types.names), types.types, strict=True)))


def is_parquet(file: Path) -> bool:
    return file.name.lower().endswith(PARQUET_ENDINGS)


def file_batches(
    file: Path, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None, said: CsvFile
) -> Iterator[Table]:
    """The tables of one file."""
    if is_parquet(file):
        return quietly(parquet_batches(file, columns, batch_rows, schema), lambda error: unreadable(file, "Parquet"))
    rows = csv_batches(file, columns, batch_rows, schema, said)
    return quietly(rows, lambda error: unreadable_csv(error, file, schema, said))


def opened_parquet(file: Path) -> Any:
    """The Parquet file, its metadata read and its rows not; pre-buffering would hold whole row groups."""
    parquet = attempt(lambda: pyarrow.parquet.ParquetFile(file, pre_buffer=False))
    if parquet is None:
        raise unreadable(file, "Parquet")
    return parquet


def parquet_batches(
    file: Path, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None
) -> Iterator[Table]:
    with opened_parquet(file) as parquet:
        written = parquet.schema_arrow.names
        read_as = dict(zip(unique_names(written), written, strict=True))
        names = wanted_columns(list(read_as), columns, schema)
        stored = [read_as[name] for name in names]
        for batch in parquet.iter_batches(batch_size=batch_rows, columns=stored):
            table = pa.Table.from_batches([batch]).select(stored).rename_columns(names)
            yield from pieces(Table(table), batch_rows)


def unreadable_database(error: Exception) -> SourceUnreadable:
    """What to say of a database that failed; the class of the error is told, its text may contain a password or values."""
    if isinstance(error, ImportError):
        return SourceUnreadable(
            "The driver for this kind of database is not installed.", "Install the driver that SQLAlchemy names for it."
        )
    return SourceUnreadable(
        f"The database cannot be read ({type(error).__name__}).",
        "Check address, password and query with the database's own client.",
    )


def sql_batches(
    source: SqlSource, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None
) -> Iterator[Table]:
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
    place, _, name = query.rpartition(".")
    # Not where a search path leads, which every connection may set otherwise: the account for a table pays for no other one.
    place = place or DEFAULT_SCHEMAS.get(connection.dialect.name, "")
    table = sqlalchemy.Table(name, sqlalchemy.MetaData(), schema=place or None, autoload_with=connection)
    names = wanted_columns([column.name for column in table.columns], columns, schema)
    return connection.execute(sqlalchemy.select(*(table.columns[name] for name in names)))
