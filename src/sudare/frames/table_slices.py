"""A slice of a table: the rows that hold declared values in declared columns, such as one month or one site.

Which slice a row is in depends on that row alone, on the files with their names and bytes and on how they are read; `partition` is a digest of
these. So two slices of one partition with different values never share a row, whoever asks for them (proofs/slices.md).
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import sqlalchemy

from sudare.errors import InvalidParameter, SourceUnreadable
from sudare.frames.csv_dialects import described
from sudare.frames.database_tables import DatabaseTable, is_stored_in_duckdb, is_stored_in_sqlite
from sudare.frames.databases import SqlSource, opened_for_reading, reading
from sudare.frames.record_source import Origin, RecordSource, known_source
from sudare.frames.sources import source
from sudare.frames.stored_files import StoredFiles
from sudare.frames.table_formats import DatasetSource
from sudare.frames.wanted_columns import selected
from sudare.schema import Category, Schema
from sudare.schema.column_values import codes
from sudare.schema.columns import level_text
from sudare.schema.table_from_any_frame import Table, attempt

_CHUNK_BYTES: Final = 2**20
# Databases that are files of this machine, and how files beside them end that hold what is not in them yet.
_LOGS: Final = {"sqlite": ("-wal", "-journal"), "duckdb": (".wal",)}


@known_source
@dataclass(frozen=True, eq=False)
class Slice(RecordSource):
    """The rows of a table in files in which each of these columns holds its value; the columns are categories of the schema.

    Slices stand where a path does, for whatever is fitted with `neighbours="add-remove"`: how many rows a slice has is not public.
    An account is charged the most that is spent on any one of disjoint slices, not their sum.

    Parameters
    ----------
    path : the file, folder (also of folders such as month=3/) or pattern; a CsvFile says how it is written; or a table of SQLite or DuckDB.
    schema : declares the columns and their values.
    where : the value of each column, as text: {"month": "2026-01"}.
    """

    path: str | os.PathLike[str] | SqlSource
    schema: Schema
    where: Mapping[str, str]

    def __post_init__(self) -> None:
        if not _stays_in_files(self.path):
            raise InvalidParameter(
                "A slice is one of files of this machine, or of a table of SQLite or DuckDB: nobody could tell whether other data stay as they are.",
                "Give the path of files, or the address and name of such a table. Tables and relations in memory, queries, other databases and "
                "object stores have no slices.",
            )
        if type(self.schema) is not Schema:
            raise InvalidParameter("schema must be a Schema.", "Load one with Schema.load(…).")
        if not isinstance(self.where, Mapping) or not self.where:
            raise InvalidParameter(
                "A slice names at least one column and its value.", 'Use for example {"month": "2026-01"}.'
            )
        for name, value in self.where.items():
            column = self.schema.columns.get(name) if isinstance(name, str) else None
            if not isinstance(column, Category):
                raise InvalidParameter(
                    f"A slice is by columns that the schema declares as categories; {name!r} is not one.",
                    "Declare it with all its values.",
                )
            if value not in map(level_text, column.levels):
                near = difflib.get_close_matches(str(value), map(level_text, column.levels), n=1)
                raise InvalidParameter(
                    f"The schema does not list {value!r} for column {name!r}.",
                    f"Did you mean {near[0]!r}?" if near else "Use a listed value, as text.",
                )
        object.__setattr__(self, "where", {name: self.where[name] for name in sorted(self.where)})
        object.__setattr__(self, "is_steady", self._whole.is_steady)

    @cached_property
    def _whole(self) -> RecordSource:
        return source(self.path)

    @property
    def origin(self) -> Origin | None:
        """That of all rows: whoever has read a slice into memory pays for the whole."""
        return self._whole.origin

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        """The rows of the slice, and one table without rows where it has none. Its own schema decides which they are, and how they are read; of them the wanted columns are given."""
        found: Table | None = None
        for table in self._whole.batches(self._columns_read(columns), batch_rows, self.schema):
            is_in = np.ones(table.rows, dtype=np.bool_)
            for name, value in self.where.items():
                column = cast("Category", self.schema.columns[name])
                place = list(map(level_text, column.levels)).index(value)
                is_in &= codes(table.column(name), column, name) == place
            kept = Table(table.arrow.filter(pa.array(is_in)))
            found = kept if found is None or kept.rows else found
            if kept.rows:
                yield self._wanted(kept, columns, schema)
        if found is not None and found.rows == 0:
            yield self._wanted(found, columns, schema)

    def _columns_read(self, columns: Sequence[str] | None) -> list[str] | None:
        """The declared columns that are there with wanted ones that nobody declared; None where the schema has all."""
        known = self.schema.source_columns
        beside = [name for name in columns or () if name not in known]
        if not beside:
            return None
        present = set(self.types(known).names)
        return [*(name for name in known if name in present), *beside]

    @staticmethod
    def _wanted(table: Table, columns: Sequence[str] | None, schema: Schema | None) -> Table:
        return table if columns is None and schema is None else selected(table, columns, schema)

    def types(self, expected: Collection[str]) -> pa.Schema:
        """Those of all rows."""
        return self._whole.types(expected)

    def state(self) -> Any:
        """That of all rows."""
        return self._whole.state()

    def partition(self) -> str:
        """A digest of all that decides which slice by these columns a row is in: the files' places and bytes, the schema, and what was said of a CSV file.

        Without the places, whether two files hold the same bytes would decide what a slice costs. Raise InvalidParameter where a database
        computes what is read: then a row may be in another slice every time.
        """
        facts: dict[str, Any] = {"columns": list(self.where), "schema": self.schema.digest}
        whole = self._whole
        if isinstance(whole, DatabaseTable):
            _check_is_stored_table(whole.source)
            facts |= {"table": whole.source.query, "files": _contents(_database_files(whole.source))}
        elif isinstance(whole, DatasetSource):
            # The names of folders are values of columns, wherever links in them lead.
            folder, files = os.fspath(cast("Any", self.path)), whole.files()
            facts |= {"folders": [os.path.relpath(file, folder) for file in files], "files": _contents(files)}
        else:
            said = described(cast("Any", self.path))
            of_csv = {fact.name: getattr(said, fact.name) for fact in fields(said) if fact.name != "path"}
            files = [os.fspath(cast("Path", file)) for file in cast("StoredFiles", whole).files()]
            # A file's ending says how it is read.
            facts |= {"said": of_csv, "names": [os.path.basename(file) for file in files], "files": _contents(files)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _stays_in_files(data: object) -> bool:
    """Whether data are files of this machine, of which can be told whether they stay as they are, or a table by its name in a database that is one."""
    if isinstance(data, str | os.PathLike | SqlSource):
        opened = source(data)
        if isinstance(opened, DatabaseTable):
            return bool(_database_files(opened.source)) and not re.search(r"\s", opened.source.query)
        return isinstance(opened, StoredFiles | DatasetSource) and isinstance(opened.origin, str)
    return False


def _database_files(asked: SqlSource) -> list[str]:
    """The files that a database is made of, its log included; none where it is no file."""
    if isinstance(asked.url, sqlalchemy.Engine):
        return []
    url = sqlalchemy.make_url(asked.url)
    file, kind = url.database or "", url.get_backend_name()
    if kind not in _LOGS or file in ("", ":memory:") or file.startswith("file:"):
        return []
    # Where the file is a link, the log is beside what it leads to.
    paths = dict.fromkeys((os.path.abspath(file), os.path.realpath(file)))
    logs = (path + ending for path in paths for ending in _LOGS[kind])
    return [*paths, *filter(os.path.exists, logs)]


def _check_is_stored_table(asked: SqlSource) -> None:
    """Raise InvalidParameter unless the name is that of a table whose values are all stored: a view or a computed column may give others every time."""
    url = sqlalchemy.make_url(cast("str", asked.url))
    if url.get_backend_name() == "duckdb":
        is_stored = attempt(lambda: is_stored_in_duckdb(url, asked.query))
    else:
        is_stored = attempt(lambda: _is_stored_in_sqlite(asked))
    if not is_stored:
        raise InvalidParameter(
            "A slice of a database is one of a table that it stores, without computed columns, and without functions of its own in a DuckDB file; "
            "this is a view or another kind, or there is none of that name.",
            "Give the name of a table; or store what the view gives in one, in a file without macros.",
        )


def _is_stored_in_sqlite(asked: SqlSource) -> bool:
    engine = opened_for_reading(cast("str", asked.url))
    try:
        with reading(engine) as connection:
            return is_stored_in_sqlite(connection, asked.query)
    finally:
        engine.dispose()


def _contents(files: Sequence[str]) -> list[list[str]]:
    """The place and the digest of every file."""
    return [[os.path.realpath(file), _digest(Path(file))] for file in files]


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise SourceUnreadable(f"'{file.name}' cannot be read ({error.strerror}).", "Check its rights.") from None
    return digest.hexdigest()
