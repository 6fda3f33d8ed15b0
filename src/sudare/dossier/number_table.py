"""Released numbers as rows of text, and as rows of a picture: the same in the shell, on the page and in reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sudare.dossier.released_numbers import ReleasedNumbers
from sudare.report.numbers import six_digits
from sudare.safe_text import escaped_for_terminal

# The group of all rows whose undeclared key was not selected; rows without a key are among them.
ALL_OTHERS: Final = "(all others)"


@dataclass(frozen=True)
class NumberTable:
    """Text under headings; units stand in headings, intervals in the cell of their number."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    rows_in_all: int


@dataclass(frozen=True)
class MeasuredRows:
    """The column to draw, row by row. Numbers that have no interval reach from zero."""

    axis: str
    labels: Sequence[str]
    values: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    has_intervals: bool


def number_table(numbers: ReleasedNumbers, most_rows: int | None = None) -> NumberTable:
    """Columns as rows of text, at most so many."""
    found = numbers.table
    ends = _ends(found)
    columns: dict[str, list[str]] = {}
    for name, values in found.items():
        if name in ends:
            continue
        written = [_cell(value) for value in values[:most_rows]]
        if f"{name}_low" in ends:
            low, high = ([_cell(value) for value in found[f"{name}_{end}"][:most_rows]] for end in ("low", "high"))
            written = [f"{each} ({a} – {b})" for each, a, b in zip(written, low, high, strict=True)]
        columns[_with_unit(numbers, name)] = written
    rows_in_all = max((len(values) for values in found.values()), default=0)
    return NumberTable(list(columns), list(zip(*columns.values(), strict=True)), rows_in_all)


def has_intervals(numbers: ReleasedNumbers) -> bool:
    """Whether one of the numbers has intervals."""
    return bool(_ends(numbers.table))


def measured_rows(numbers: ReleasedNumbers) -> MeasuredRows | None:
    """What there is to draw first; None where nothing is, or a row of it has no number."""
    return None if numbers.measured is None else _rows(numbers, numbers.measured)


def all_measured_rows(numbers: ReleasedNumbers) -> list[MeasuredRows]:
    """All that there is to draw: counts, means, variances and quantiles by group are one picture each."""
    with_ends = [name for name in numbers.table if f"{name}_low" in _ends(numbers.table)]
    names = with_ends if numbers.measured in with_ends else [numbers.measured]
    found = [_rows(numbers, name) for name in names if name is not None]
    return [rows for rows in found if rows is not None]


def _rows(numbers: ReleasedNumbers, name: str) -> MeasuredRows | None:
    found = numbers.table
    values = found[name]
    with_ends = f"{name}_low" in _ends(found)
    lows, highs = (found[f"{name}_low"], found[f"{name}_high"]) if with_ends else ([0.0] * len(values), values)
    if not all(isinstance(value, int | float) for value in (*values, *lows, *highs)):
        return None
    labels = [", ".join(_cell(found[each][row]) for each in numbers.labels) for row in range(len(values))]
    return MeasuredRows(_with_unit(numbers, name), labels, values, lows, highs, with_ends)


def _ends(found: Mapping[str, list[Any]]) -> set[str]:
    """The columns that are ends of intervals."""
    pairs = ((f"{name}_low", f"{name}_high") for name in found)
    return {end for pair in pairs if pair[0] in found and pair[1] in found for end in pair}


def _with_unit(numbers: ReleasedNumbers, name: str) -> str:
    return escaped_for_terminal(f"{name} ({numbers.units[name]})" if name in numbers.units else name)


def _cell(value: object) -> str:
    if value is None:
        return ALL_OTHERS
    return six_digits(value) if isinstance(value, float) else escaped_for_terminal(str(value))
