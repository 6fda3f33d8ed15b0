"""Whether the first line of a CSV file names its columns, or is already a record.

Names of columns are public: they stand in schemas, releases and cards. A record that is taken for names is published. So a first line
is taken for names only where something speaks for it; otherwise a person must say what it is. Errors tell places, never words.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Sequence
from typing import Final

from sudare.errors import DataError
from sudare.frames.csv_dialects import SAMPLED_BYTES, SAMPLED_LINES, CsvDialect, cells_of, first_bytes, first_text
from sudare.frames.file_discovery import DataFile
from sudare.safe_text import looks_like_a_value, looks_measured, normal_name

UNNAMED: Final = "column_{}"


def first_lines(file: DataFile, dialect: CsvDialect) -> list[list[str]]:
    """The cells of the lines in the first megabyte of a CSV file, or of the first thousand and one of them."""
    is_whole_megabyte = len(first_bytes(file)) == SAMPLED_BYTES
    lines: list[list[str]] = []
    for cells in cells_of(io.StringIO(first_text(file, dialect.encoding)), dialect.separator):
        lines.append(cells)
        if len(lines) > SAMPLED_LINES:
            break
    is_cut = is_whole_megabyte and 1 < len(lines) <= SAMPLED_LINES
    if is_whole_megabyte and len(lines) == 1:
        # Lines follow that nobody has seen: not one of them speaks for a header.
        return [*lines, []]
    return lines[:-1] if is_cut else lines


def refuse_doubtful_header(
    lines: Sequence[Sequence[str]], has_header: bool | None, expected: Collection[str], file: DataFile
) -> None:
    """Raise DataError where the first line may be a record, and nobody said whether it is.

    `expected` are names that a person declared. A first line that has all of them is a header, unless it looks like values.
    """
    reason = doubt_about(lines, expected) if has_header is None else None
    if reason is not None:
        raise DataError(
            f"The first line of {os.fspath(file)!r} may be a record and not the names of the columns: {reason}.",
            "If it is a record, say so: --no-header, sudare.frames.CsvFile(path, has_header=False) in Python, or has_header = false under [data] in "
            "member.toml; the columns are then called column_1, column_2, … If it names the columns: --header, or has_header = true. "
            "Parquet files keep names apart from values.",
        )


def public_names(cells: Sequence[str], has_header: bool | None) -> list[str]:
    """The names of the columns: the cells of the first line, or column_1, column_2, … where it is a record or a cell is empty."""
    return [
        UNNAMED.format(place) if has_header is False or not normal_name(cell) else normal_name(cell)
        for place, cell in enumerate(cells, 1)
    ]


def doubt_about(lines: Sequence[Sequence[str]], expected: Collection[str]) -> str | None:
    """Why the first line may be a record, in words that quote nothing of it; None where it names the columns."""
    if not lines:
        return None
    cells, columns = lines[0], [list(column) for column in _transposed(lines[1:], len(lines[0]))]
    declared = {normal_name(name) for name in expected if name.strip()}
    has_declared = bool(declared) and declared <= set(map(normal_name, cells))
    for place, (cell, values) in enumerate(zip(cells, columns, strict=True), 1):
        may_be_empty = place == 1 < len(cells) and (has_declared or _counts_rows(values))
        fault = None if may_be_empty and not cell.strip() else _fault_of(cell, values)
        if fault is not None:
            return f"its cell {place} {fault}"
    if has_declared:
        return None
    if len(lines) == 1:
        return "it is the only line, and holds text"
    # Row numbers speak for an empty cell above them, not for the words beside it.
    named = [values for cell, values in zip(cells, columns, strict=True) if cell.strip()]
    if any(_holds_values(values) for values in named):
        return None
    return "it holds text, and so do all lines below it"


def _fault_of(cell: str, values: Sequence[str]) -> str | None:
    """Why a cell of the first line may be a value like those below it; None where it can be a name."""
    if not cell.strip():
        return "is empty"
    if looks_like_a_value(cell):
        return "looks like a value"
    if normal_name(cell) in map(normal_name, values):
        return "occurs again in the column below it"
    if _has_digit(cell) and values and _shape(cell) == _shape(values[0]):
        return "is written like the one below it"
    return None


def _transposed(lines: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    columns: list[list[str]] = [[] for _ in range(width)]
    for line in lines:
        for column, cell in zip(columns, line, strict=False):
            if cell.strip():
                column.append(cell)
    return columns


def _holds_values(values: Sequence[str]) -> bool:
    """Whether all cells of a column look like values, and one is more than a word for missing: then a word above them is its name."""
    return any(map(looks_measured, values)) and all(map(looks_like_a_value, values))


def _counts_rows(values: Sequence[str]) -> bool:
    """Whether cells count 0, 1, 2, …, as pandas numbers rows below a cell that it leaves empty: the line above them is not counted."""
    return len(values) >= 3 and list(values) == [str(row) for row in range(len(values))]


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def _shape(text: str) -> str:
    """The text with every figure as 9 and every letter as a: P0017 and Q0023 have one shape."""
    return "".join("9" if one.isdigit() else "a" if one.isalpha() else one for one in text.strip())
