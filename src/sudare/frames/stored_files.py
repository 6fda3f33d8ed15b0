"""Parquet and CSV files, on this machine or in an object store, as one source."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from sudare.errors import DataError
from sudare.frames.csv_dialects import CsvFile
from sudare.frames.csv_files import csv_batches, csv_types, unreadable_csv
from sudare.frames.file_discovery import DataFile, files_at, is_parquet, objects_at, opened_bytes, state_of
from sudare.frames.record_source import Origin, RecordSource, arrow_batches, known_source, named_types, quietly
from sudare.frames.table_addresses import ObjectAddress
from sudare.frames.wanted_columns import unreadable
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import Table, attempt

PARQUET_BUFFER_BYTES = 2**16


@known_source
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
