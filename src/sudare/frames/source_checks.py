"""What is refused of a source between its passes: other rows than were checked, and persons with more rows than are declared."""

from __future__ import annotations

from typing import Any

from sudare.errors import DataError
from sudare.frames.derived_sources import DerivedSource
from sudare.frames.record_source import RecordSource
from sudare.frames.sources import batches, in_memory, is_stored
from sudare.schema import Schema


def check_unchanged(source: RecordSource, state: object, aside: str = "") -> None:
    """Raise DataError where a source is not what it was when its rows were checked, as far as that shows without reading it."""
    if source.state() != state:
        raise changed_files(aside)


def changed_files(aside: str = "") -> DataError:
    """What to say of a source that somebody writes to while it is read."""
    return DataError(
        "The source was changed while it was read: its files are not those that were checked.",
        f"Give a copy that nobody changes meanwhile.{aside}",
    )


def check_persons(source: Any, schema: Schema | None) -> None:
    """Raise PersonRowsExceeded where a person has more rows in the source than the schema allows."""
    known = source.most_rows if isinstance(source, DerivedSource) else None
    if schema is not None and schema.person is not None and (known is None or known > schema.person.bound):
        is_read = is_stored(source)
        schema.check_person(batches(source, [schema.person.column], schema=schema) if is_read else in_memory(source))
