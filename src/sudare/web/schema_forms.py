"""A schema as a form, and back: one group of fields for each column, empty where a human must answer.

Documents are the nested dictionaries of a schema's TOML text. A field that must be answered and is empty becomes "?", as in a draft:
nothing here ever looks at data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final

from sudare.errors import SchemaError
from sudare.schema import Schema
from sudare.schema.columns import finite_number
from sudare.schema.toml_document import KINDS, MAY_BE_A_QUESTION_MARK, QUESTION, SECTIONS, known_keys, read_column
from sudare.web.signed_in_request import Form

LISTS: Final = ("values", "classes", "bins", "atoms")
NUMBER_LISTS: Final = ("bins", "atoms")
FLAGS: Final = ("whole",)
NUMBERS: Final = ("low", "high", "centre", "scale")
# What one kind calls values another calls classes: what was typed is kept where the kind changes.
_SAME_ANSWERS: Final[Mapping[str, str]] = {"values": "classes", "classes": "values"}
MOST_COLUMNS: Final = 200
# What stands before a field, beside its name in the file.
LABELS: Final[Mapping[str, str]] = {
    "low": "lowest value",
    "high": "highest value",
    "centre": "centre of the encoding",
    "scale": "scale of the encoding",
    "values": "answers",
    "classes": "classes",
    "bins": "edges of bins",
    "determined_by": "column that determines it",
    "atoms": "single values that many rows have",
    "unit": "unit",
    "missing": "missing values",
    "other": "other answers",
    "first": "first date",
    "last": "last date",
    "part": "part of a date",
    "timezone": "time zone",
    "format": "how dates are written",
    "whole": "whole numbers only",
}
# What a reader is told below a field.
HELP: Final[Mapping[str, str]] = {
    "low": "The smallest value that can be, by knowledge of the subject. Smaller ones are clipped to it.",
    "high": "The largest value that can be, by knowledge of the subject. Larger ones are clipped to it.",
    "values": "Every answer there can be, one a line.",
    "classes": "Every class there can be, one a line.",
    "bins": "Inner edges of the bins, one a line.",
    "missing": "What stands for missing values. For numbers: centre, indicator or a number; for others the value that gaps count as.",
    "other": "The value that answers count as which are not listed.",
    "unit": "Of dates: week, day, hour, minute or second.",
    "first": "The first date that can be, such as 2020-01-01.",
    "last": "The last date that can be.",
    "part": "month, weekday or hour",
    "format": "How dates are written, such as %d.%m.%Y.",
}


@dataclass(frozen=True)
class FieldView:
    """One field of a column's form."""

    name: str
    label: str
    text: str
    is_required: bool
    is_list: bool
    is_flag: bool
    help: str


@dataclass(frozen=True)
class ColumnForm:
    """The form of one column."""

    place: int
    name: str
    kind: str
    are_numbers: bool
    fields: Sequence[FieldView]
    is_dropped: bool = False


def column_forms(document: Mapping[str, Any]) -> list[ColumnForm]:
    """The forms of all columns of a document, whatever is wrong with it; those that it leaves out come last."""
    columns = document.get("columns", {})
    return forms_of(list(columns.items()) if isinstance(columns, Mapping) else [], _dropped(document))


def forms_of(columns: Sequence[tuple[Any, Any]], dropped: Sequence[str] = ()) -> list[ColumnForm]:
    """The forms of columns by name, of which two may have the same, and of columns that are left out."""
    found = []
    for place, (name, facts) in enumerate(columns[:MOST_COLUMNS]):
        section = facts if isinstance(facts, Mapping) else {}
        kind = section.get("kind")
        shown = kind if isinstance(kind, str) and kind in KINDS else "number"
        listed = section.get("values", section.get("classes"))
        are_numbers = isinstance(listed, list) and bool(listed) and all(type(each) is int for each in listed)
        found.append(ColumnForm(place, str(name), shown, are_numbers, _fields(shown, section)))
    left_out = dropped[: MOST_COLUMNS - len(found)]
    return found + [
        ColumnForm(place, name, "number", False, (), True) for place, name in enumerate(left_out, len(found))
    ]


def columns_in(form: Form) -> list[tuple[str, dict[str, Any]]]:
    """The columns of a submitted form that are used, as they were typed."""
    columns = [
        (name, _section(form, place))
        for place in range(MOST_COLUMNS)
        if (name := form.text(f"name-{place}")) and form.text(f"remove-{place}") != "yes"
    ]
    added = form.text("name-new")
    return [*columns, (added, {"kind": _kind(form.text("kind-new"))})] if added else columns


def dropped_in(form: Form, old: Mapping[str, Any]) -> list[str]:
    """The columns that a submitted form leaves out: those that are ticked, and those of the old document that it does not use.

    The column that says whose row it is is not among them, ticked or not: it is read. One that said so before is.
    """
    used = {name for name, _ in columns_in(form)}
    kept = [name for name in [*_dropped(old), *_person_column(old)] if name not in used]
    return [name for name in dict.fromkeys([*kept, *_ticked(form)]) if name != form.text("person")]


def document_in(form: Form, old: Mapping[str, Any]) -> dict[str, Any]:
    """The document that a submitted form describes. What the form does not show stays as it was in the old one.

    Raise SchemaError where two columns have one name, also where one of them is left out.
    """
    columns = columns_in(form)
    names = [*(name for name, _ in columns), *_ticked(form)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"Two columns are called {twice!r}. Nothing was saved.", "Give one of them another name.")
    dropped = dropped_in(form, old)
    document: dict[str, Any] = {"drop": dropped} if dropped else {}
    person = form.text("person")
    # Whose row it is needs no answers: a column of that name that still lacks them is the person column alone.
    declared = {
        name: facts for name, facts in columns if name != person or not open_questions({"columns": {name: facts}})
    }
    hidden = {name: old[name] for name in ("maps", "impossible") if name in old}
    return {**document, "columns": declared, **rows_and_target_in(form, old), **hidden}


def rows_and_target_in(form: Form, old: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of a submitted form that are no column, as they were typed."""
    document: dict[str, Any] = {}
    target, person = form.text("target"), form.text("person")
    if target:
        document["target"] = {"column": target}
    if person:
        most_rows = form.text("most_rows")
        before = old.get("person", {})
        kept = {name: before[name] for name in ("largest", "spent") if isinstance(before, Mapping) and name in before}
        document["person"] = {"column": person, "most_rows": _number(most_rows) if most_rows else QUESTION, **kept}
    return document


def all_problems(document: Mapping[str, Any]) -> list[SchemaError]:
    """Everything that is wrong with a document, not only the first; open questions of a draft are among it."""
    found: list[SchemaError] = []
    columns = document.get("columns", {})
    for name, facts in columns.items() if isinstance(columns, Mapping) else ():
        found.extend(_column_problems(name, facts))
    try:
        known_keys(document, SECTIONS, (), "the schema")
        if not found:
            Schema.from_dict(document)
    except SchemaError as error:
        found.append(error)
    return found


def open_questions(document: Mapping[str, Any]) -> int:
    """How many answers a draft still lacks."""
    columns = document.get("columns", {})
    sections = list(columns.values()) if isinstance(columns, Mapping) else []
    return sum(
        value == QUESTION and name not in MAY_BE_A_QUESTION_MARK
        for facts in [*sections, document.get("person"), document.get("target")]
        if isinstance(facts, Mapping)
        for name, value in facts.items()
    )


def _ticked(form: Form) -> list[str]:
    """The columns of a submitted form that are ticked as not used."""
    places = [place for place in range(MOST_COLUMNS) if form.text(f"remove-{place}") == "yes"]
    return list(dict.fromkeys(name for place in places if (name := form.text(f"name-{place}"))))


def _dropped(document: Mapping[str, Any]) -> list[str]:
    names = document.get("drop", [])
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _person_column(document: Mapping[str, Any]) -> list[str]:
    person = document.get("person")
    name = person.get("column") if isinstance(person, Mapping) else None
    return [name] if isinstance(name, str) and name != QUESTION else []


def _column_problems(name: object, facts: object) -> list[SchemaError]:
    asked = [
        key
        for key, value in (facts.items() if isinstance(facts, Mapping) else ())
        if value == QUESTION and key not in MAY_BE_A_QUESTION_MARK
    ]
    if asked:
        return [
            SchemaError(
                f"Column {name!r} still lacks {', '.join(f'`{key}`' for key in asked)}.",
                "Fill it in from knowledge of the subject, never from the data.",
            ),
            *_wrong_numbers(name, facts),
        ]
    try:
        read_column(name, facts)
    except SchemaError as error:
        return [error]
    return []


def _wrong_numbers(name: object, facts: Any) -> list[SchemaError]:
    """What was answered in words of a column whose other numbers are still asked for."""
    found = []
    for key in NUMBERS:
        if key in facts and facts[key] != QUESTION:
            try:
                finite_number(facts[key], key)
            except SchemaError as error:
                found.append(SchemaError(f"Column {name!r}: {error.problem}", error.remedy))
    return found


def _fields(kind: str, section: Mapping[str, Any]) -> list[FieldView]:
    return [
        FieldView(
            name=each.name,
            label=LABELS[each.name],
            text=_shown(section.get(each.name)),
            is_required=each.default is MISSING,
            is_list=each.name in LISTS,
            is_flag=each.name in FLAGS,
            help=HELP.get(each.name, ""),
        )
        for each in fields(KINDS[kind])
        if each.init
    ]


def _shown(value: object) -> str:
    if value is None or value == QUESTION:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list):
        return "\n".join(_word(each) for each in value)
    return str(value)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _section(form: Form, place: int) -> dict[str, Any]:
    kind = _kind(form.text(f"kind-{place}"))
    section: dict[str, Any] = {"kind": kind}
    for field in _fields(kind, {}):
        text = form.text(f"{field.name}-{place}") or form.text(f"{_SAME_ANSWERS.get(field.name, field.name)}-{place}")
        if field.is_flag:
            if text == "yes":
                section[field.name] = True
        elif text:
            section[field.name] = _value(field.name, kind, text, form.text(f"numbers-{place}") == "yes")
        elif field.is_required:
            section[field.name] = QUESTION
    return section


def _kind(text: str) -> str:
    return text if text in KINDS else "number"


def _value(name: str, kind: str, text: str, are_numbers: bool) -> Any:
    if name in LISTS:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if {line.lower() for line in lines} <= {"true", "false"} and name not in NUMBER_LISTS:
            return [line.lower() == "true" for line in lines]
        as_numbers = (name in NUMBER_LISTS and kind == "number") or are_numbers
        return [_number(line) if as_numbers else line for line in lines]
    if name in NUMBERS or (name == "missing" and kind == "number"):
        return _number(text)
    if name in ("missing", "other") and are_numbers:
        return _number(text)
    return text


def _number(text: str) -> int | float | str:
    """The number that a text spells; the text itself where it is none, which the schema then refuses in words."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
