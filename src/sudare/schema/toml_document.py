"""A schema as a document: plain dictionaries, TOML text, and the draft that asks a human for every bound."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

import tomli_w

from sudare.errors import SchemaError
from sudare.parsing import NotParsed, parsed_toml
from sudare.schema.columns import Category, Column, Label, Number, Person
from sudare.schema.combinations import Combination, Map, plain_combination, plain_map
from sudare.schema.dates import Date, DatePart
from sudare.schema.encodings import plain_number

KINDS: dict[str, type[Column]] = {
    "number": Number,
    "category": Category,
    "label": Label,
    "date": Date,
    "date part": DatePart,
}
LARGEST_FILE_BYTES = 2**24
# Every value of a category is an entry.
MOST_ENTRIES = 2**19
SECTIONS = ("drop", "columns", "target", "person", "maps", "impossible")
QUESTION = "?"
# Here "?" may be a real category, unit or name.
MAY_BE_A_QUESTION_MARK = ("missing", "unit", "column")

# One sentence a line: each has its entry in Japanese.
DRAFT_HEADING: Final = (
    'A draft: replace every "?" by what is known without looking at the data: questionnaires, instruments, law, sense.',
    "Bounds taken from the data would tell about the data. Values outside the bounds are clipped.",
    'Columns that are not used: remove them here, and list them in drop = ["..."] at the top.',
    'The column to predict: kind = "label" with classes = [...], or, for a number, a section [target] with column = "...".',
    "Numbers that are text here because of how they are written (1,234 or １２３): draft again with --csv thousands=, or --csv tidy=yes.",
    'Dates that are: kind = "date" with first, last and how they are written, format = "%d.%m.%Y".',
    'Where values may be missing: missing = "centre", "indicator" or a number; for a category the value that gaps count as.',
    'If several rows can belong to one person: a section [person] with column = "..." and most_rows = how many of them are kept at most.',
    'Noise grows with most_rows; most_rows = "auto" with largest = the most that may be kept finds it.',
)
DRAFT_QUESTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "whole numbers": (
        "whole numbers; codes are a category, with values = [...]",
        {"kind": "number", "low": "?", "high": "?", "whole": True},
    ),
    "fractions": (
        "numbers; with whole = true where none can have a fraction",
        {"kind": "number", "low": "?", "high": "?"},
    ),
    "text": ("text; values lists every answer there can be", {"kind": "category", "values": "?"}),
    "booleans": ("booleans", {"kind": "category", "values": [False, True]}),
    "dates or times": (
        'dates or times; or kind = "date part" with part = "month", "weekday" or "hour"',
        {"kind": "date", "first": "?", "last": "?", "unit": "day"},
    ),
}
DRAFT_UNKNOWN: tuple[str, dict[str, object]] = (
    "neither numbers, text, booleans nor dates: convert or drop it",
    {"kind": "?"},
)


def read_document(document: object) -> dict[str, Any]:
    """The arguments of a Schema (columns, target, person, drop, maps, impossible) from nested dictionaries as TOML or JSON give them."""
    sections = known_keys(document, SECTIONS, (), "the schema")
    columns = sections.get("columns", {})
    if not isinstance(columns, Mapping):
        raise SchemaError("`columns` is not a table of columns.", "Write a section [columns.NAME] for every column.")
    refuse_questions(sections)
    arguments: dict[str, Any] = {"columns": {name: read_column(name, facts) for name, facts in columns.items()}}
    arguments |= {name: sections[name] for name in ("drop", "maps", "impossible") if name in sections}
    if "target" in sections:
        arguments["target"] = known_keys(sections["target"], ("column",), ("column",), "[target]")["column"]
    if "person" in sections:
        names = tuple(field.name for field in fields(Person))
        facts = known_keys(sections["person"], names, ("column", "most_rows"), "[person]")
        arguments["person"] = made("[person]", Person, facts)
    return arguments


def read_column(name: object, facts: object) -> Column:
    """One column from its section."""
    place = f"Column {name!r}"
    if not isinstance(facts, Mapping):
        raise SchemaError(f"{place} is not a section.", f"Write a section [columns.{name}] with its kind and facts.")
    kind = facts.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(
            f"{place} has no known `kind`.{suggestion(kind, KINDS)}",
            f"Give kind = one of {', '.join(map(repr, KINDS))}.",
        )
    declared = [field for field in fields(KINDS[kind]) if field.init]
    known = ("kind", *(field.name for field in declared))
    required = tuple(field.name for field in declared if field.default is MISSING)
    given = known_keys(facts, known, required, place)
    column: Column = made(place, KINDS[kind], {key: value for key, value in given.items() if key != "kind"})
    return column


def made(place: str, declaration: type[Any], facts: Mapping[str, Any]) -> Any:
    """`declaration(**facts)`, with errors that say where in the document the fault is."""
    try:
        return declaration(**facts)
    except SchemaError as error:
        raise SchemaError(f"{place}: {error.problem}", error.remedy) from None


def known_keys(section: object, known: Iterable[str], required: Iterable[str], place: str) -> Mapping[str, Any]:
    """`section` if it has all required keys and no unknown one."""
    if not isinstance(section, Mapping):
        raise SchemaError(f"{place} is not a table of facts.", "Write it as a TOML section, or as a dictionary.")
    for key in section:
        if key not in known:
            raise SchemaError(
                f"{place} has an unknown key {key!r}.{suggestion(key, known)}", f"Known are: {', '.join(known)}."
            )
    for key in required:
        if key not in section:
            raise SchemaError(
                f"{place} lacks `{key}`.", f"Add `{key}`; it must come from knowledge, not from the data."
            )
    return section


def suggestion(word: object, known: Iterable[str]) -> str:
    """A sentence with the nearest known word, if one is near."""
    near = difflib.get_close_matches(word, list(known), n=1) if isinstance(word, str) else []
    return f" Did you mean {near[0]!r}?" if near else ""


def refuse_questions(document: Mapping[str, Any]) -> None:
    """Raise SchemaError where a draft still asks a human."""
    columns = {f"columns.{name}": facts for name, facts in document.get("columns", {}).items()}
    sections = {"target": document.get("target"), "person": document.get("person"), **columns}
    places = [
        f"{place}.{key}"
        for place, facts in sections.items()
        if isinstance(facts, Mapping)
        for key, value in facts.items()
        if value == QUESTION and key not in MAY_BE_A_QUESTION_MARK
    ]
    if places:
        raise SchemaError(
            f'The schema is a draft: {", ".join(places)} still read "?".',
            "Fill them in from knowledge of the subject, never from the data.",
        )


def write_document(
    columns: Mapping[str, Column],
    target: str | None,
    person: Person | None,
    drop: tuple[str, ...],
    maps: Mapping[str, Map],
    impossible: Iterable[Combination],
) -> dict[str, Any]:
    """The nested dictionaries that `read_document` reads, in plain JSON and TOML types."""
    document: dict[str, Any] = {"drop": list(drop)} if drop else {}
    document |= {"columns": {name: write_column(column) for name, column in columns.items()}}
    if target is not None and not isinstance(columns[target], Label):
        document["target"] = {"column": target}
    if person is not None:
        chosen = {"largest": person.largest, "spent": plain_value(person.spent) or None}
        given = {name: value for name, value in chosen.items() if value is not None}
        document["person"] = {"column": person.column, "most_rows": person.most_rows, **given}
    return document | combination_sections(maps, impossible)


def combination_sections(maps: Mapping[str, Map], impossible: Iterable[Combination]) -> dict[str, Any]:
    """The sections of maps and impossible combinations, where there are any."""
    sections = {
        "maps": {name: plain_map(values) for name, values in maps.items()},
        "impossible": [plain_combination(each) for each in impossible],
    }
    return {name: section for name, section in sections.items() if section}


def write_column(column: Column) -> dict[str, Any]:
    """The section of one column: its kind, then the facts that are declared."""
    section: dict[str, Any] = {"kind": next(kind for kind, declaration in KINDS.items() if type(column) is declaration)}
    for field in fields(column):
        value = getattr(column, field.name)
        if field.init and value != field.default:
            section[field.name] = plain_value(value)
    return section


def plain_value(value: Any) -> Any:
    """A fact as files hold it: whole floats as ints, tuples as lists."""
    if isinstance(value, tuple):
        return [plain_value(entry) for entry in value]
    return plain_number(value) if isinstance(value, float) else value


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Errors tell the place and not the text, which may be data opened by mistake."""
    try:
        return parsed_toml(text, largest_bytes=LARGEST_FILE_BYTES, most_entries=MOST_ENTRIES)
    except NotParsed as error:
        reason = str(error)
    raise SchemaError(
        f"The schema is not valid TOML ({reason}).", "Correct the text there; compare with the documentation."
    )


def draft_text(columns: Mapping[str, str]) -> str:
    """A first schema in TOML from the names of columns and what they hold (in words), all else left as questions."""
    parts = ["".join(f"# {line}\n" for line in DRAFT_HEADING)]
    for name, held in columns.items():
        comment, facts = DRAFT_QUESTIONS.get(held, DRAFT_UNKNOWN)
        parts.append(f"# {comment}\n{tomli_w.dumps({'columns': {name: facts}})}")
    return "\n".join(parts)
