"""Schemas: listed, edited as a form or as text, and compared with a table, with all problems shown."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import tomli_w
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from sudare.errors import InvalidParameter, SchemaError, SudareError, UnknownName
from sudare.files import changed_by_one, is_in_utf8, read_text, write_atomically
from sudare.frames import column_types
from sudare.frames.csv_dialects import described_table
from sudare.frames.schema_validation import schema_report
from sudare.frames.table_addresses import is_address
from sudare.languages import Language, with_translated_comments
from sudare.parsing import NotParsed, parsed_toml
from sudare.requests.request_kinds import KINDS as KINDS_OF_RELEASES
from sudare.schema import Schema
from sudare.schema.toml_document import KINDS, MOST_ENTRIES
from sudare.web.page_part import PagePart, Waiting
from sudare.web.rendering import NavigationItem
from sudare.web.schema_forms import (
    ColumnForm,
    all_problems,
    column_forms,
    columns_in,
    document_in,
    dropped_in,
    forms_of,
    open_questions,
    rows_and_target_in,
)
from sudare.web.settings import TableSettings
from sudare.web.signed_in_request import Form, Visit, page

SUFFIX: Final = ".toml"
# Also what a form may have: 200 columns of a few fields.
LARGEST_TEXT_BYTES: Final = 1 << 20
NEW_NAME: Final = re.compile(r"[\w][\w .-]{0,99}")
MOST_FILES: Final = 500
# What the page's settings have and no schema does: also where they cannot be parsed, they are not shown.
_OF_SETTINGS: Final = re.compile(
    r"^\s*\[+\s*[\"']?users\b|^\s*[\"']?(users|metrics_token)\b[^\n]*=|scrypt:\d+:", re.MULTILINE
)


@dataclass(frozen=True)
class ListedSchema:
    """A schema of the folder, and what is wrong with it."""

    name: str
    columns: int
    questions: int
    problems: int


@page("viewer")
def schemas(visit: Visit) -> Response:
    """All schemas of the folder."""
    found = []
    for name, path in _files(visit).items():
        text = _text_of(path)
        if _is_schema(text, False):
            document = _document(text)
            questions, problems = open_questions(document), len(all_problems(document))
            found.append(ListedSchema(name, len(document["columns"]), questions, problems))
    return visit.render("schemas.html", schemas=found, tables=list(visit.services.settings.tables.values()))


@page("steward")
def new_schema(visit: Visit) -> Response:
    """A draft from the names and types of a table's columns, or an empty one; every bound is a question."""
    name, table = visit.form.text("name"), visit.services.settings.tables.get(visit.form.text("table"))
    name = name or ("" if table is None else table.schema)
    if not NEW_NAME.fullmatch(name) or name.endswith(SUFFIX):
        raise InvalidParameter(
            "The name of a schema has letters, figures, blanks, dots and hyphens.", "Use for example visits."
        )
    path = visit.services.settings.schemas / f"{name}{SUFFIX}"
    text = tomli_w.dumps({"columns": {}}) if table is None else _draft(table, visit.language)
    with changed_by_one(path):
        if os.path.lexists(path):
            raise InvalidParameter(f"There is a schema '{name}' already.", "Choose another name, or edit that one.")
        _write(path, text)
    visit.services.log.write("schema-saved", user=visit.user)
    return visit.redirect(schema_path(name), f"Schema '{name}' was begun. Answer what is still open by knowledge.")


@page("viewer")
def schema(visit: Visit) -> Response:
    """One schema: as a form, as text, with everything that is wrong with it."""
    return _shown(visit, _text_of(_path(visit)))


@page("steward", largest_bytes=LARGEST_TEXT_BYTES)
def save_schema(visit: Visit) -> Response:
    """Write the schema whole or not at all, unless somebody else has changed it meanwhile. What is not saved is shown again as it was typed."""
    path, name, form = _path(visit), visit.path("name"), visit.form
    with changed_by_one(path):
        old = _text_of(path)
        try:
            text = (
                _typed_text(form) if form.text("mode") == "text" else tomli_w.dumps(document_in(form, _document(old)))
            )
            document = _parsed(text)
        except SchemaError as error:
            if form.text("mode") == "text":
                return _shown(visit, old, edited=_typed_text(form), refused=error, status=400)
            rows_and_target = rows_and_target_in(form, _document(old))
            forms = forms_of(columns_in(form), dropped_in(form, _document(old)))
            return _shown(visit, old, forms=forms, typed=rows_and_target, refused=error, status=400)
        problems = all_problems(document)
        refused: SudareError | None = None
        if form.text("digest") != _digest(old):
            refused = InvalidParameter(
                "Somebody has changed this schema since you opened it. Nothing was saved.",
                "Below is what you typed: save it to replace theirs, or open the schema again to see theirs.",
            )
        elif problems and not all_problems(_document(old)) and _document(old):
            refused = SchemaError(
                "The schema is complete as it stands, and would no longer be. Nothing was saved.",
                "Mend what is listed here, and save again.",
            )
        if refused is not None:
            return _shown(visit, old, edited=text, forms=column_forms(document), refused=refused, status=400)
        _write(path, text)
    visit.services.log.write("schema-saved", user=visit.user)
    if problems:
        return visit.redirect(
            schema_path(name), f"Schema '{name}' was saved as a draft: something is still to be done."
        )
    return visit.redirect(schema_path(name), f"Schema '{name}' was saved.")


def _typed_text(form: Form) -> str:
    return form.fields.get("text", [""])[0].replace("\r\n", "\n")


@page("steward")
def check_schema(visit: Visit) -> Response:
    """Everything in which a table disagrees with the schema. Counts are exact: for the owner only."""
    name, declared = visit.path("name"), Schema.from_toml(_text_of(_path(visit)))
    table = visit.services.settings.tables.get(visit.form.text("table"))
    if table is None:
        raise UnknownName("The settings of the page have no such table.", "Choose one of the list.")
    return visit.render(
        "schema_check.html", name=name, table=table.name, report=schema_report(_source(table), declared)
    )


def _waiting(visit: Visit) -> list[Waiting]:
    """Tables without a schema, and schemas of tables that are still drafts: nothing can be asked about them."""
    if not visit.is_steward:
        return []
    files, found = _files(visit), []
    for table in visit.services.settings.tables.values():
        if table.schema not in files:
            told = f"Table '{table.name}' has no schema yet: nothing can be asked about it."
            found.append(Waiting(told, "/schemas", button="Begin its schema", fields=(("table", table.name),)))
        elif all_problems(_document(_text_of(files[table.schema]))):
            told = f"The schema of table '{table.name}' is a draft: nothing can be asked about it."
            found.append(Waiting(told, schema_path(table.schema)))
    return found


def schema_path(name: str) -> str:
    """Returns the path of the page that shows a schema."""
    return f"/schemas/{quote(name, safe='')}"


def _shown(
    visit: Visit,
    text: str,
    *,
    edited: str | None = None,
    forms: list[ColumnForm] | None = None,
    typed: Mapping[str, Any] | None = None,
    refused: SudareError | None = None,
    status: int = 200,
) -> Response:
    """The schema's page; with what was typed instead of what is kept, where that was refused."""
    shown = text if edited is None else edited
    document = _document(shown) or _document(text)
    others = document if typed is None else typed
    target, person = others.get("target"), others.get("person")
    return visit.render(
        "schema.html",
        status,
        name=visit.path("name"),
        text=shown,
        digest=_digest(text),
        refused=refused,
        problems=all_problems(document) if document else [_problem_of(text)],
        forms=column_forms(document) if forms is None else forms,
        kinds=list(KINDS),
        releases={name: kind for name, kind in KINDS_OF_RELEASES.items() if name != "network" or not person},
        target=str(target.get("column", "")) if isinstance(target, Mapping) else "",
        person=person if isinstance(person, Mapping) else {},
        tables=list(visit.services.settings.tables.values()),
    )


def _problem_of(text: str) -> SchemaError:
    try:
        _parsed(text)
    except SchemaError as error:
        return error
    return SchemaError("The schema declares no columns.", "Add a column.")


def _files(visit: Visit) -> dict[str, Path]:
    """The TOML files of the folder, by name without ending. Names are compared with these, never joined."""
    folder = visit.services.settings.schemas
    try:
        with os.scandir(folder) as entries:
            # No address and no settings can name other files.
            named = [entry for entry in entries if entry.name.endswith(SUFFIX) and is_in_utf8(entry.name)]
            names = sorted(entry.name for entry in named if entry.is_file())
    except OSError as error:
        raise InvalidParameter(
            f"The folder of schemas cannot be read ({error.strerror}).", "Correct `schemas` in the settings."
        ) from None
    return {name.removesuffix(SUFFIX): folder / name for name in names[:MOST_FILES]}


def _path(visit: Visit) -> Path:
    """The file of the schema that is asked for. Raise HTTPException 404 for other files; for one that is not valid TOML, unless a steward asks who can mend it."""
    path = _files(visit).get(visit.path("name"))
    if path is None or not _is_schema(_text_of(path), visit.is_steward):
        raise HTTPException(404)
    return path


def _is_schema(text: str, counts_broken: bool) -> bool:
    """Whether a text declares columns and is not the page's settings; a text that is not valid TOML counts where that is said."""
    if _OF_SETTINGS.search(text):
        return False
    try:
        return isinstance(_parsed(text).get("columns"), Mapping)
    except SchemaError:
        return counts_broken


def _text_of(path: Path) -> str:
    try:
        return read_text(path, "The schema")
    except SudareError:
        return ""


def _document(text: str) -> dict[str, Any]:
    try:
        return _parsed(text)
    except SchemaError:
        return {}


def _parsed(text: str) -> dict[str, Any]:
    try:
        return parsed_toml(text, largest_bytes=LARGEST_TEXT_BYTES, most_entries=MOST_ENTRIES)
    except NotParsed as error:
        raise SchemaError(f"The text is not valid TOML ({error}).", "Correct it there. Nothing was saved.") from None


def _draft(table: TableSettings, language: Language) -> str:
    """A draft with its comments in the language."""
    draft = Schema.draft(column_types(_source(table)), has_header=table.has_header)
    return with_translated_comments(draft, language)


def _source(table: TableSettings) -> str | os.PathLike[str]:
    place = table.source if is_address(table.source) else Path(table.source)
    return described_table(place, table.has_header, table.encoding, table.csv)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise InvalidParameter(
            f"'{path.name}' cannot be written ({error.strerror}).", "Check folder, rights and space."
        ) from None


PART = PagePart(
    routes=[
        Route("/schemas", schemas),
        Route("/schemas", new_schema, methods=["POST"]),
        Route("/schemas/{name}", schema),
        Route("/schemas/{name}", save_schema, methods=["POST"]),
        Route("/schemas/{name}/check", check_schema, methods=["POST"]),
    ],
    navigation=[NavigationItem("/schemas", "Schemas")],
    waiting=_waiting,
)
