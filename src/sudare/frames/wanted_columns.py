"""Which columns of a source are read, and the tables that they make."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from sudare.errors import SourceUnreadable
from sudare.frames.file_discovery import DataFile
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import Table, as_table, column_names, refuse_missing_columns


def wanted_columns(present: Sequence[str], columns: Sequence[str] | None, schema: Schema | None) -> list[str]:
    """Which of the columns that are present to read."""
    if columns is not None:
        refuse_missing_columns(columns, present)
        return list(columns)
    if schema is not None:
        known = [name for name in schema.source_columns if name in present]
        # No names at all mean all columns to some readers, and an error of their own to others.
        if not known:
            refuse_missing_columns(schema.source_columns, present)
        return known
    return list(present)


def selected(data: object, columns: Sequence[str] | None, schema: Schema | None) -> Table:
    """The wanted columns of data in memory; data without names are the features of the schema."""
    if columns is None and schema is None:
        return as_table(data)
    names_if_none = columns if columns is not None else list(schema.features) if schema is not None else None
    return as_table(data, wanted_columns(column_names(data, names_if_none), columns, schema))


def pieces(table: Table, batch_rows: int) -> Iterator[Table]:
    """A table cut into tables of at most `batch_rows` rows."""
    return (table.slice(start, batch_rows) for start in range(0, table.rows, batch_rows))


def unreadable(file: DataFile, form: str) -> SourceUnreadable:
    return SourceUnreadable(
        f"{os.fspath(file)!r} cannot be read as {form}.", "Check that the file is whole and of that format."
    )
