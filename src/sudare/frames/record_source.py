"""What every source of records is: rows in batches, the names and types of its columns, and where its records are."""

from __future__ import annotations

import inspect
import os
import pathlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import pyarrow as pa

from sudare.errors import InvalidParameter, SourceUnreadable, SudareError
from sudare.frames.csv_dialects import CsvFile
from sudare.frames.databases import SqlSource
from sudare.frames.table_addresses import ObjectAddress
from sudare.frames.wanted_columns import pieces, wanted_columns
from sudare.schema import Schema
from sudare.schema.table_from_any_frame import Table, unique_names


@dataclass(frozen=True)
class FileList:
    """Files that are read together: the folder that holds all of them, and each one. Both are paths, or addresses without secrets."""

    root: str
    files: tuple[str, ...]
    is_local: bool


# Where the records of a source are, as far as that can be told: a path, objects in a store, files, or a database; several of these for what is made of several.
Origin = str | ObjectAddress | FileList | SqlSource | tuple["Origin", ...]


class RecordSource(ABC):
    """Records that are read in batches.

    `is_stored` says that they can be asked for again (files, databases, lazy frames), `is_steady` that they then come in the same order
    (files, tables in memory). A table in memory is not stored; what is neither comes once.
    """

    is_stored: bool = True
    is_steady: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether every pass may read the records anew: they are stored, and come in the same order."""
        return self.is_stored and self.is_steady

    @property
    def origin(self) -> Origin | None:
        """Where the records are; None where that cannot be told, as for what is in memory."""
        return None

    @abstractmethod
    def batches(self, columns: Sequence[str] | None, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        """The rows as tables of 1 to `batch_rows` rows, with the wanted columns."""

    @abstractmethod
    def types(self, expected: Collection[str]) -> pa.Schema:
        """Names and types of the columns; `expected` are names that a person declared."""

    def row_count(self) -> int | None:
        """The number of rows where that is known without reading them."""
        return None

    def state(self) -> Any:
        """What is another thing when the records were changed, as far as that shows without reading them."""
        return None


_Kind = TypeVar("_Kind", bound=type)
# The classes whose objects are taken as what they say of themselves: exactly these, and none that is derived from them.
_KNOWN: Final[set[type]] = {
    *(SqlSource, CsvFile, os.DirEntry, pathlib.Path, pathlib.PosixPath, pathlib.WindowsPath),
    *(pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
}


def known_source(kind: _Kind) -> _Kind:
    """Take objects of a class of this package as sources."""
    _KNOWN.add(kind)
    return kind


def checked_kind(data: object) -> object:
    """What was given as a source. Raise InvalidParameter for an object of somebody's own class, or with methods of its own: what is charged depends on where records are, which of them
    are read and how many rows a person has, and such a class may say one thing to the account and read another.
    """
    if type(data) is not str and isinstance(data, str):
        return str.__str__(data)
    if not isinstance(data, RecordSource | SqlSource | os.PathLike):
        return data
    kind = type(data)
    replaced = [name for name in getattr(data, "__dict__", {}) if _is_method(inspect.getattr_static(kind, name, None))]
    if kind not in _KNOWN or replaced:
        raise InvalidParameter(
            f"An object of class {kind.__name__} is no source of records: the class was written elsewhere, or methods of the object were replaced, and nobody could tell which records it reads. "
            "Nothing was charged.",
            "Give a path as text or as a Path, an address, a table, or an iterator of tables.",
        )
    return data


def _is_method(attribute: object) -> bool:
    """Whether an attribute of a class is one of its methods or properties; a value that is computed once and kept in the object is none."""
    return not isinstance(attribute, cached_property) and (
        inspect.isroutine(attribute) or isinstance(attribute, property)
    )


def arrow_batches(
    arrow_parts: Callable[[list[str]], Iterator[Any]],
    written: Sequence[str],
    columns: Sequence[str] | None,
    batch_rows: int,
    schema: Schema | None,
) -> Iterator[Table]:
    """Tables with the wanted columns, from a function that gives record batches or tables of columns by their names as written."""
    read_as = dict(zip(unique_names(written), written, strict=True))
    names = wanted_columns(list(read_as), columns, schema)
    stored = [read_as[name] for name in names]
    for part in arrow_parts(stored):
        table = part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
        yield from pieces(Table(table.select(stored).rename_columns(names)), batch_rows)


def named_types(types: pa.Schema) -> pa.Schema:
    """Returns the types under the names that columns have here."""
    return pa.schema(list(zip(unique_names(types.names), types.types, strict=True)))


def quietly(tables: Iterator[Table], explain: Callable[[Exception], SudareError]) -> Iterator[Table]:
    """Yields the tables; an error of a library on the way is replaced by ours."""
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


def cannot_read(what: str) -> Callable[[Exception], SourceUnreadable]:
    """What to say of a source whose library failed: the class of the error is told, its text may hold values or secrets."""
    return lambda error: SourceUnreadable(
        f"{what} cannot be read ({type(error).__name__}).", "Read a few rows of it with its own library, and see why."
    )
