"""Frames that are computed when they are read: lazy frames of polars, relations of DuckDB, dataframes of Dask.

They may give their rows in another order every time, so that whoever needs them twice keeps them (`sudare.frames.row_reader`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sudare.errors import SourceUnreadable
from sudare.frames.record_source import RecordSource, arrow_batches, cannot_read, known_source, named_types, quietly
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import Table, as_table, attempt


class _LazyFrame(RecordSource):
    what = "The frame"

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        written = self._names()
        rows = arrow_batches(lambda stored: self._parts(stored, batch_rows), written, columns, batch_rows, schema)
        return quietly(rows, cannot_read(self.what))

    def _names(self) -> list[str]:
        names = attempt(lambda: [str(name) for name in self._written_names()])
        if names is None:
            raise SourceUnreadable(f"{self.what} does not tell its columns.", "Look at it with its own library first.")
        return names

    def types(self, expected: Collection[str]) -> pa.Schema:
        types = attempt(self._arrow_types)
        if types is None:
            raise SourceUnreadable(f"{self.what} does not tell its columns.", "Look at it with its own library first.")
        return named_types(types)

    @abstractmethod
    def _written_names(self) -> Sequence[Any]:
        """The names of the columns, as the frame has them."""

    @abstractmethod
    def _arrow_types(self) -> pa.Schema:
        """The types of the columns."""

    @abstractmethod
    def _parts(self, stored: list[str], batch_rows: int) -> Iterator[Any]:
        """These columns in batches."""


@known_source
class PolarsLazyFrame(_LazyFrame):
    """Rows that polars computes."""

    what = "The lazy frame"

    def _written_names(self) -> Sequence[Any]:
        return list(self.frame.collect_schema().names())

    def _arrow_types(self) -> pa.Schema:
        return self.frame.head(0).collect().to_arrow().schema

    def _parts(self, stored: list[str], batch_rows: int) -> Iterator[Any]:
        import polars

        # Polars takes "*" and "^…$" for patterns, also where columns are called so.
        plain = not any(name == "*" or name.startswith("^") for name in stored)
        chosen = self.frame.select([polars.col(name) for name in stored]) if plain else self.frame
        # Without streams the whole is computed at once.
        parts = (
            chosen.collect_batches(chunk_size=batch_rows, maintain_order=True)
            if hasattr(chosen, "collect_batches")
            else [chosen.collect()]
        )
        return (part.to_arrow() for part in parts)


@known_source
class DuckDBRelation(_LazyFrame):
    """Rows that DuckDB computes."""

    what = "The relation of DuckDB"

    def _written_names(self) -> Sequence[Any]:
        return list(self.frame.columns)

    def _arrow_types(self) -> pa.Schema:
        return _arrow_reader(self.frame.limit(0), 1).read_all().schema

    def _parts(self, stored: list[str], batch_rows: int) -> Iterator[Any]:
        return duckdb_batches(self.frame.project(quoted_names(stored)), batch_rows)


def quoted_names(names: Sequence[str]) -> str:
    """Names of columns in SQL, however they are spelled."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def duckdb_batches(relation: Any, batch_rows: int) -> Iterator[Any]:
    """The rows of a relation as record batches; a connection has one result at a time, so that it is closed in any case."""
    reader = _arrow_reader(relation, batch_rows)
    try:
        yield from reader
    finally:
        reader.close()


def _arrow_reader(relation: Any, batch_rows: int) -> Any:
    # The method's name has changed between versions of DuckDB.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(batch_rows)


@known_source
class DaskFrame(_LazyFrame):
    """Rows that Dask computes, a partition at a time."""

    what = "The dataframe of Dask"

    def _written_names(self) -> Sequence[Any]:
        return list(self.frame.columns)

    def _arrow_types(self) -> pa.Schema:
        return as_table(self.frame._meta).arrow.schema

    def _parts(self, stored: list[str], batch_rows: int) -> Iterator[Any]:
        chosen = self.frame[stored]
        return (as_table(chosen.partitions[place].compute()).arrow for place in range(chosen.npartitions))
