"""Everything in which a table disagrees with a schema, with counts, found in one go. For the owner's eyes only.

Messages name columns and counts, never values.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sudare.errors import ColumnMissing, MissingValue, SudareError, UnknownCategory, WrongType
from sudare.frames.person_buckets import RowLimits
from sudare.frames.person_rows import PersonRows
from sudare.frames.sources import batches, column_types
from sudare.schema import Column, Date, DatePart, Number, Schema, Table
from sudare.schema.column_values import (
    MISSING,
    UNKNOWN,
    column_codes,
    fractions_in,
    holds_the_part,
    numbers,
    spelling_hint,
)
from sudare.schema.dates import read_moments, unreadable_dates

# Part of the name of a column that usually says whose row it is.
IDENTIFYING: Final = (
    "id",
    "no",
    "number",
    "code",
    "patient",
    "person",
    "customer",
    "user",
    "member",
    "name",
    "account",
    "card",
    "client",
    "employee",
    "household",
    "insured",
    "student",
    "subject",
    "subscriber",
    "番号",
    "氏名",
    "患者",
    "会員",
    "顧客",
    "個人",
    "世帯",
    "利用者",
    "受診者",
    "被保険者",
    "契約者",
    "従業員",
    "社員",
    "学生",
    "カード",
    "口座",
)
# So many values of a column are looked at for repeats.
LOOKED_AT: Final = 100_000
# Fewer different values than this share of the rows are groups, not persons.
LEAST_DISTINCT_SHARE: Final = 0.05


@dataclass(frozen=True)
class Problem:
    """Why a table cannot be used with a schema, as the error that a fit would end with."""

    column: str
    error: SudareError


@dataclass
class SchemaReport:
    """What was found: rows, problems, values that will be clipped, rows that are cut where a person has too many, columns that are ignored, and columns that look like persons."""

    rows: int = 0
    problems: list[Problem] = field(default_factory=list)
    clipped: dict[str, int] = field(default_factory=dict)
    cut_rows: int = 0
    ignored: list[str] = field(default_factory=list)
    person_like: list[str] = field(default_factory=list)


@dataclass
class _Counts:
    rows: int = 0
    unknown: int = 0
    missing: int = 0
    outside: int = 0
    unreadable: int = 0
    fractions: int = 0
    hint: str = ""


def schema_report(source: object, schema: Schema, tell: Callable[[str], None] = lambda text: None) -> SchemaReport:
    """Everything in which a source disagrees with a schema. Raise an error only where the source cannot be read at all."""
    present = list(column_types(source, schema.source_columns).names)
    found = SchemaReport()
    found.ignored = [name for name in present if name not in (*schema.source_columns, *schema.drop)]
    for name in schema.source_columns:
        if name not in present:
            found.problems.append(Problem(name, _absent(name, found.ignored)))
    for name, column in schema.columns.items():
        if name in present:
            tell(f"column {name}")
            _look_at(found, source, schema, name, column)
    if schema.person is not None and schema.person.column in present:
        _look_at_persons(found, source, schema)
    elif schema.person is None:
        found.person_like = [name for name in present if _looks_like_persons(source, name)]
    return found


def _absent(name: str, ignored: list[str]) -> ColumnMissing:
    near = difflib.get_close_matches(name.casefold(), [each.casefold() for each in ignored], n=1, cutoff=0.6)
    meant = next((each for each in ignored if near and each.casefold() == near[0]), None)
    hint = "" if meant is None else f" Did you mean {meant!r}, which the table has?"
    return ColumnMissing(f"The table lacks {name!r}.{hint}", "Rename the column of the table, or change the schema.")


def _look_at(found: SchemaReport, source: object, schema: Schema, name: str, column: Column) -> None:
    counts = _Counts()
    try:
        # One column at a time, so that what is wrong with one hides nothing of the others.
        for batch in batches(source, [name], schema=schema):
            _count(counts, batch, name, column)
    except SudareError as error:
        found.problems.append(Problem(name, error))
        return
    found.rows = max(found.rows, counts.rows)
    if counts.unknown:
        listed = "classes" if name == schema.label else "values"
        text = f"Column {name!r} holds {counts.unknown:,} values that the schema does not list.{counts.hint}"
        found.problems.append(
            Problem(
                name, UnknownCategory(text, f"Add them to `{listed}`, map them to listed ones, or declare `other`.")
            )
        )
    if counts.unreadable and isinstance(column, Date | DatePart):
        found.problems.append(Problem(name, unreadable_dates(name, column, f"{counts.unreadable:,}")))
    if counts.fractions:
        text = f"Column {name!r} is declared to hold whole numbers, and holds {counts.fractions:,} that are not whole."
        found.problems.append(Problem(name, WrongType(text, "Leave `whole` out of its declaration, or round them.")))
    if counts.missing:
        text = f"Column {name!r} lacks {counts.missing:,} values, and the schema does not say what stands for them."
        found.problems.append(Problem(name, MissingValue(text, "Declare `missing` for this column, or fill the gaps.")))
    if counts.outside:
        found.clipped[name] = counts.outside


def _count(counts: _Counts, batch: Table, name: str, column: Column) -> None:
    values = batch.column(name)
    counts.rows += batch.rows
    if isinstance(column, Date) or (isinstance(column, DatePart) and not holds_the_part(values, column)):
        moments, unreadable = read_moments(values, column, name)
        counts.unreadable += unreadable
        if unreadable:
            return
    if isinstance(column, Number):
        held = column.units_since_first(moments) if isinstance(column, Date) else numbers(values, name)
        counts.fractions += fractions_in(held) if column.whole else 0
        counts.outside += int(np.count_nonzero((held < column.low) | (held > column.high)))
        counts.missing += int(np.count_nonzero(np.isnan(held))) if column.stand_in is None else 0
        return
    codes = column_codes(values, column, name)
    unknown = codes == UNKNOWN if column.other_code is None else np.zeros(len(codes), dtype=np.bool_)
    counts.unknown += int(np.count_nonzero(unknown))
    counts.hint = counts.hint or spelling_hint(values, column, unknown)
    counts.missing += int(np.count_nonzero(codes == MISSING)) if column.missing_code is None else 0


def _look_at_persons(found: SchemaReport, source: object, schema: Schema) -> None:
    """Note how many rows are above what is kept of a person, or where a row names nobody."""
    try:
        persons = PersonRows.of(source, schema)
    except SudareError as error:
        found.problems.append(Problem(schema.source_columns[-1], error))
    else:
        found.cut_rows = persons.counts.rows - persons.counts.kept(RowLimits.equal(persons.person.bound))


def _looks_like_persons(source: object, name: str) -> bool:
    """Whether a column has the name of an identifier, many different values, and some of them again."""
    words = name.casefold().replace("-", "_").replace(" ", "_").split("_")
    if not any(mark in words or (not mark.isascii() and mark in name) for mark in IDENTIFYING) and not words[
        -1
    ].endswith("id"):
        return False
    seen: set[Any] = set()
    rows = 0
    for batch in batches(source, [name]):
        values = batch.column(name).drop_null().to_pylist()
        rows += len(values)
        seen.update(values)
        if rows >= LOOKED_AT:
            break
    return LEAST_DISTINCT_SHARE * rows <= len(seen) < rows
