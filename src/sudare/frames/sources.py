"""One reader for every source of records: what `source` takes is read in batches with bounded memory, in one order.

Errors say what could not be read and never quote it: libraries put values, statements and addresses with passwords
into their messages, so theirs are replaced outside of the `except` block and leave no trace in the chain of causes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.fs
from numpy.typing import NDArray

from sudare.errors import DataError, InvalidParameter, SourceUnreadable, WrongType
from sudare.frames.csv_dialects import CsvFile, described
from sudare.frames.database_tables import DatabaseTable
from sudare.frames.databases import SqlSource
from sudare.frames.file_discovery import DELTA_LOG, PARQUET_ENDINGS, file_system
from sudare.frames.lazy_frames import DaskFrame, DuckDBRelation, PolarsLazyFrame
from sudare.frames.record_source import Origin, RecordSource, checked_kind, known_source
from sudare.frames.stored_files import StoredFiles
from sudare.frames.table_addresses import STORES, ObjectAddress, TableAddress, check_path_text, is_text, parsed
from sudare.frames.table_formats import (
    DatasetSource,
    IcebergSource,
    delta_source,
    delta_table,
    hive_folder,
    iceberg_table,
    store_of,
)
from sudare.frames.wanted_columns import pieces, selected
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import Table, as_table, attempt, no_rows

__all__ = ["CsvFile", "SqlSource", "batches", "column_types", "read", "row_count", "source"]

DEFAULT_BATCH_ROWS = 65536
# By library and class, told by their names: a library is there where somebody made one of its frames.
_READERS: Final[dict[tuple[str, str], Callable[[Any], RecordSource]]] = {
    ("pyarrow", "Dataset"): DatasetSource,
    ("deltalake", "DeltaTable"): delta_source,
    ("pyiceberg", "Table"): IcebergSource,
    ("polars", "LazyFrame"): PolarsLazyFrame,
    ("duckdb", "DuckDBPyRelation"): DuckDBRelation,
    ("_duckdb", "DuckDBPyRelation"): DuckDBRelation,
    ("dask", "DataFrame"): DaskFrame,
}


def source(data: object, *, filesystem: object = None) -> RecordSource:
    """The one reader of `data`, whatever it is.

    A text is the path of a Parquet or CSV file, of a folder of Parquet files (or of folders such as month=3/), or a pattern such as
    "2026-*.parquet"; the same in an object store ("s3://bucket/…", "gs://…", "abfs://…"); "delta:…" or "iceberg:…" and the folder of
    such a table; or the address of a database, a blank, and a table or query in it ("sqlite:///clinic.db visits"). Beside texts:
    a Path, a CsvFile, a Slice of a file, a SqlSource; a Dataset of pyarrow, a DeltaTable, a table of pyiceberg; a lazy frame of polars, a relation of DuckDB, a
    dataframe of Dask; any table that `as_table` takes; and an iterator of such tables, which can be read only once.
    `filesystem` is one of pyarrow.fs or fsspec, for a path in it. Nothing is read here but lists of files. Raise InvalidParameter for an object of somebody's own class that is
    derived from one of these.
    """
    data = checked_kind(data)
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
    return _of_library(data) or HeldTable(data)


def _of_library(data: object) -> RecordSource | None:
    """A dataset, a table by its format, or a frame that is still to be computed; None for every other thing."""
    native = data.to_native() if isinstance(data, nw.LazyFrame) else data
    for kind in type(native).__mro__:
        reader = _READERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if reader is not None:
            return reader(native)
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
    check_path_text(place)
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


def by_batches(function: Callable[[Table], NDArray[Any]], source: object, schema: Schema) -> NDArray[Any]:
    """What a function gives for each row of a source that is not in memory, in the order of the rows. Raise DataError where there are none."""
    parts = [function(batch) for batch in batches(source, schema=schema)]
    if not parts:
        raise no_rows()
    return np.concatenate(parts)


def steadied(source: Any, schema: Schema | None = None) -> Any:
    """A source that gives the same rows in the same order whenever it is read: itself, or its rows in memory."""
    return source if _opened(source).is_steady else in_memory(source, schema)


@known_source
@dataclass(frozen=True, eq=False, repr=False)
class HeldTable(RecordSource):
    """A table in memory: a frame, a dictionary of columns, an array. It may have been read from somewhere."""

    table: Any
    is_stored = False
    is_steady = True

    @property
    def origin(self) -> Origin | None:
        """Where a table in memory was read from; None for frames and arrays."""
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


@known_source
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


def has_local_files(data: object) -> bool:
    """Whether a path or pattern was given that stands for Parquet or CSV files of this machine."""
    if not isinstance(data, str | os.PathLike):
        return False
    opened = source(data)
    return isinstance(opened, StoredFiles) and isinstance(opened.origin, str)
