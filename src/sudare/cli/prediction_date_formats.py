"""How dates are written in the table that `sudare predict` reads, where that is not as the release's schema says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sudare.errors import InvalidParameter, WrongType

if TYPE_CHECKING:
    from sudare.schema import Date, DatePart, Schema, Table

DateFormats = Annotated[
    list[str] | None,
    typer.Option(
        "--date-format",
        metavar="COLUMN=FORMAT",
        help='How a column of dates is written in this table, such as "arrived=%d.%m.%Y", where the release says otherwise. May be repeated.',
    ),
]


def dates_with_formats(texts: Sequence[str], declared: Schema) -> dict[str, Date | DatePart]:
    """The date columns among the features, with the format that was given for them.

    Raise InvalidParameter where a text is not COLUMN=FORMAT or names no such column; SchemaError where a format does not say year, month and day.
    """
    from sudare.schema import Date, DatePart

    features = {name: declared.columns[name] for name in declared.features}
    dates = {name: facts for name, facts in features.items() if isinstance(facts, Date | DatePart)}
    for text in texts:
        name, mark, written = text.partition("=")
        if not mark or not written:
            raise InvalidParameter(
                "--date-format is COLUMN=FORMAT.", 'Use for example --date-format "arrived=%d.%m.%Y".'
            )
        if name not in dates:
            raise InvalidParameter(
                f"--date-format: the model reads no column {name[:64]!r} of dates.",
                f"It reads dates from: {', '.join(map(repr, dates))}." if dates else "Leave --date-format out.",
            )
        dates[name] = replace(dates[name], format=written)
    return dates


def with_dates_read(rows: Table, dates: Mapping[str, Date | DatePart]) -> Table:
    """The rows with moments in place of texts. Raise WrongType where a text cannot be read as its column's format says."""
    import pyarrow as pa

    from sudare.schema import DatePart, Table
    from sudare.schema.column_values import holds_the_part
    from sudare.schema.dates import read_moments, unreadable_dates

    arrow = rows.arrow
    for name, facts in dates.items():
        values = rows.column(name)
        if isinstance(facts, DatePart) and holds_the_part(values, facts):
            continue
        moments, unreadable = read_moments(values, facts, name)
        if unreadable:
            raise WrongType(
                unreadable_dates(name, facts).problem,
                f'Say how this table writes them, for example --date-format "{name}=%d.%m.%Y", or correct them.',
            )
        arrow = arrow.set_column(arrow.schema.get_field_index(name), name, pa.chunked_array([pa.array(moments)]))
    return Table(arrow, rows.origin)
