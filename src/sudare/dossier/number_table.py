"""Released numbers as rows of text, and as rows of a picture: the same in the shell, on the page and in reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sudare.dossier.released_numbers import OwnText, ReleasedNumbers
from sudare.languages import Language, translated
from sudare.report.number_formatting import between, six_digits
from sudare.safe_text import escaped_for_terminal
from sudare.schema.columns import level_text

# An interval that is narrower than this part of its axis can hardly be seen.
_MOST_TIMES_NARROWER: Final = 50


@dataclass(frozen=True)
class NumberTable:
    """Text under headings, in the reader's language; units stand in headings, intervals in the cell of their number."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    rows_in_all: int


@dataclass(frozen=True)
class MeasuredRows:
    """Numbers to draw on one axis, row by row, with texts in the reader's language. Where there are no intervals, their ends are the numbers; dates are seconds since 1970."""

    axis: str
    labels: Sequence[str]
    values: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    has_intervals: bool
    are_dates: bool = False


def number_table(numbers: ReleasedNumbers, language: Language = "en", most_rows: int | None = None) -> NumberTable:
    """Columns as rows of text, at most so many."""
    found = numbers.table
    ends = _ends(found)
    headings, columns = [], []
    for name, values in found.items():
        if name in ends:
            continue
        if f"{name}_low" in ends:
            of_rows = zip(*(found[each][:most_rows] for each in (name, f"{name}_low", f"{name}_high")), strict=True)
            unknown = translated(numbers.none_text(name), language)
            written = [_with_interval(value, low, high, unknown) for value, low, high in of_rows]
        else:
            written = [_cell(numbers, name, value, language) for value in values[:most_rows]]
        headings.append(escaped_for_terminal(numbers.heading(name, language)))
        columns.append(written)
    rows_in_all = max((len(values) for values in found.values()), default=0)
    return NumberTable(headings, list(zip(*columns, strict=True)), rows_in_all)


def has_intervals(numbers: ReleasedNumbers) -> bool:
    """Whether one of the numbers has intervals."""
    return bool(_ends(numbers.table))


def measured_rows(
    numbers: ReleasedNumbers, language: Language = "en", most_rows: int | None = None
) -> list[MeasuredRows]:
    """All that there is to draw: counts, means, variances and quantiles by group are a picture each, and so are columns of different units.

    Where a picture would have more rows than `most_rows`, every column that it is about has one of its own.
    """
    with_ends = [name for name in numbers.table if f"{name}_low" in _ends(numbers.table)]
    names = with_ends if numbers.measured in with_ends else [numbers.measured]
    return [rows for name in names if name is not None for rows in _of_equal_units(numbers, name, language, most_rows)]


def _of_equal_units(
    numbers: ReleasedNumbers, name: str, language: Language, most_rows: int | None
) -> list[MeasuredRows]:
    """The rows of a column, those with one unit together, and dates apart; none where a row has no number. Too many rows are cut by what they are about."""
    found = numbers.table
    values = found[name]
    with_ends = f"{name}_low" in _ends(found)
    lows, highs = (found[f"{name}_low"], found[f"{name}_high"]) if with_ends else (values, values)
    has_units = "unit" in found and "unit" not in numbers.headings and name != "count"
    units = found["unit"] if has_units else [""] * len(values)
    kinds = [(isinstance(value, str), unit) for value, unit in zip(values, units, strict=True)]
    is_about_columns = "column" in numbers.labels and "column" not in numbers.headings
    if with_ends and is_about_columns and name != "count":
        kinds = _apart_where_sizes_differ(kinds, found["column"], lows, highs)
    heading, drawn = numbers.heading(name, language), []
    groups = [
        (kind, about, rows)
        for kind in dict.fromkeys(kinds)
        for about, rows in _cut(numbers, [row for row, each in enumerate(kinds) if each == kind], most_rows)
    ]
    for (are_dates, unit, *_), about, rows in groups:
        columns = [[_number(column[row]) for row in rows] for column in (values, lows, highs)]
        # A number that is unknown is drawn as its interval, without a point.
        if any(math.isnan(number) for column in columns[with_ends:] for number in column):
            continue
        said = unit.said(language) if isinstance(unit, OwnText) else unit
        axis = escaped_for_terminal("".join([f"{about}: " if about else "", heading, f" ({said})" if said else ""]))
        labels = [_label(numbers, row, language, is_cut=bool(about)) for row in rows]
        drawn.append(MeasuredRows(axis, labels, columns[0], columns[1], columns[2], with_ends, are_dates))
    return drawn


def _apart_where_sizes_differ(
    kinds: Sequence[tuple[Any, ...]], columns: Sequence[Any], lows: Sequence[Any], highs: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """The kinds of rows, with the column added where columns without a unit are so different that one axis would hide the intervals of the narrowest."""
    plain = [row for row, (are_dates, unit, *_) in enumerate(kinds) if not are_dates and not unit]
    widths = []
    for column in dict.fromkeys(columns[row] for row in plain):
        ends = [_number(each[row]) for row in plain if columns[row] == column for each in (lows, highs)]
        widths.append((min(ends), max(ends)))
    if len(widths) < 2 or any(math.isnan(end) for ends in widths for end in ends):
        return list(kinds)
    span = max(high for _, high in widths) - min(low for low, _ in widths)
    if all((high - low) * _MOST_TIMES_NARROWER >= span for low, high in widths):
        return list(kinds)
    return [(*kind, columns[row]) if row in set(plain) else kind for row, kind in enumerate(kinds)]


def _cut(numbers: ReleasedNumbers, rows: list[int], most_rows: int | None) -> list[tuple[str, list[int]]]:
    """The rows, those of one column together under its name where they are too many for one picture."""
    columns = numbers.table.get("column")
    if most_rows is None or len(rows) <= most_rows or columns is None or "column" not in numbers.labels:
        return [("", rows)]
    return [
        (str(column), [row for row in rows if columns[row] == column])
        for column in dict.fromkeys(columns[row] for row in rows)
    ]


def _label(numbers: ReleasedNumbers, row: int, language: Language, is_cut: bool) -> str:
    left_out = {*(() if "unit" in numbers.headings else ("unit",)), *(("column",) if is_cut else ())}
    names = [name for name in numbers.labels if name not in left_out]
    return ", ".join(_cell(numbers, name, numbers.table[name][row], language) for name in names)


def _number(value: object) -> float:
    """A number, or a date as seconds since 1970; NaN where it is neither."""
    if isinstance(value, int | float):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return math.nan


def _ends(found: Mapping[str, list[Any]]) -> set[str]:
    """The columns that are ends of intervals."""
    pairs = ((f"{name}_low", f"{name}_high") for name in found)
    return {end for pair in pairs if pair[0] in found and pair[1] in found for end in pair}


def _with_interval(value: object, low: object, high: object, unknown: str) -> str:
    """A number with as many digits as its interval leaves certain; ends are rounded outwards."""
    if value is None:
        ends = (six_digits(end) if isinstance(end, float) else str(end) for end in (low, high))
        return escaped_for_terminal(f"{unknown} ({' – '.join(ends)})")
    if all(isinstance(each, float) and math.isfinite(each) for each in (value, low, high)):
        value, low, high = between(float(str(value)), float(str(low)), float(str(high)))
    return escaped_for_terminal(f"{value} ({low} – {high})")


def _cell(numbers: ReleasedNumbers, name: str, value: object, language: Language) -> str:
    if value is None:
        return translated(numbers.none_text(name), language)
    if isinstance(value, OwnText):
        return escaped_for_terminal(value.said(language))
    if isinstance(value, bool):
        return level_text(value)
    return six_digits(value) if isinstance(value, float) else escaped_for_terminal(str(value))
