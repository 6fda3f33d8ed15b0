"""A slice of a table: the rows that hold declared values in declared columns, such as one month or one site.

Which slice a row is in depends on that row alone, on the file with its bytes and on how they are read; `partition` is a digest of
these. So two slices of one partition with different values never share a row, whoever asks for them (proofs/slices.md).
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from sudare.errors import InvalidParameter, SourceUnreadable
from sudare.frames.csv_dialects import described
from sudare.frames.record_source import Origin, RecordSource
from sudare.frames.sources import has_local_files, source
from sudare.frames.stored_files import StoredFiles
from sudare.frames.wanted_columns import selected
from sudare.schema import Category, Schema
from sudare.schema.column_values import codes
from sudare.schema.columns import level_text
from sudare.schema.frame_conversion import Table

_CHUNK_BYTES: Final = 2**20


@dataclass(frozen=True, eq=False)
class Slice(RecordSource):
    """The rows of a file or folder in which each of these columns holds its value; the columns are categories of the schema.

    Slices stand where a path does, for whatever is fitted with `neighbours="add-remove"`: how many rows a slice has is not public.
    An account is charged the most that is spent on any one of disjoint slices, not their sum.

    Parameters
    ----------
    path : the file, folder or pattern; a CsvFile says how it is written.
    schema : declares the columns and their values.
    where : the value of each column, as text: {"month": "2026-01"}.
    """

    path: str | os.PathLike[str]
    schema: Schema
    where: Mapping[str, str]
    is_steady = True

    def __post_init__(self) -> None:
        if not has_local_files(self.path):
            raise InvalidParameter(
                "A slice is one of a file, a folder or a pattern: nobody could tell whether other data stay as they are.",
                "Give the path of files that have the columns in them. Tables in memory, databases, object stores and folders of folders such as "
                "month=1/ have no slices.",
            )
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

    @cached_property
    def _whole(self) -> StoredFiles:
        return cast("StoredFiles", source(self.path))

    @property
    def origin(self) -> Origin | None:
        """That of all rows: whoever has read a slice into memory pays for the whole."""
        return self._whole.origin

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        """The rows of the slice. Its own schema decides which they are, and how they are read; of them the wanted columns are given."""
        for table in self._whole.batches(None, batch_rows, self.schema):
            is_in = np.ones(table.rows, dtype=np.bool_)
            for name, value in self.where.items():
                column = cast("Category", self.schema.columns[name])
                place = list(map(level_text, column.levels)).index(value)
                is_in &= codes(table.column(name), column, name) == place
            if is_in.any():
                kept = Table(table.arrow.filter(pa.array(is_in)))
                yield kept if columns is None and schema is None else selected(kept, columns, schema)

    def types(self, expected: Collection[str]) -> pa.Schema:
        """Those of all rows."""
        return self._whole.types(expected)

    def state(self) -> Any:
        """That of all rows."""
        return self._whole.state()

    def partition(self) -> str:
        """A digest of all that decides which slice by these columns a row is in: the files' places and bytes, the schema, and what was said of a CSV file.

        Without the places, whether two files hold the same bytes would decide what a slice costs.
        """
        said = described(self.path)
        reading = {
            "columns": list(self.where),
            "schema": self.schema.digest,
            "said": {fact.name: getattr(said, fact.name) for fact in fields(said) if fact.name != "path"},
            "files": [[os.path.realpath(file), _digest(cast("Path", file))] for file in self._whole.files()],
        }
        return hashlib.sha256(json.dumps(reading, sort_keys=True).encode()).hexdigest()


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise SourceUnreadable(f"'{file.name}' cannot be read ({error.strerror}).", "Check its rights.") from None
    return digest.hexdigest()
