"""The form of a request, made from the kinds of release over a table's schema, and what somebody filled in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sudare.requests.declared_parameters import FieldType
from sudare.requests.request import Values
from sudare.requests.request_kinds import TARGET, Field, Kind, epsilon_fields, kind_named
from sudare.schema import Number, Schema
from sudare.web.signed_in_request import Form

PREFIX: Final = "value-"
Control = Literal["number", "text", "choice", "columns"]
# What most requests need; the rest is folded.
_FIRST: Final = ("target", "epsilon", "delta", "k", "by", "mean_of", "quantile_of", "quantiles")


@dataclass(frozen=True)
class FormField:
    """One field of a form: how it is asked for, what can be chosen, and what was filled in."""

    name: str
    # How messages call it.
    word: str
    control: Control
    help: str
    choices: Sequence[str]
    given: Sequence[str]
    default: str
    is_first: bool
    is_required: bool

    @property
    def text(self) -> str:
        """What was filled in, in one line."""
        return ", ".join(self.given)


def form_fields(kind: str, schema: Schema, given: Values) -> list[FormField]:
    """The fields of a kind: those that most need first."""
    chosen = kind_named(kind)
    found = [_form_field(field, chosen, schema, given.get(field.name, ())) for field in chosen.fields]
    return sorted(found, key=lambda field: _FIRST.index(field.name) if field.is_first else len(_FIRST))


def values_in(form: Form, kind: Kind) -> dict[str, list[str]]:
    """What was filled in, by field; empty fields are left out."""
    names = [field.name for field in kind.fields]
    found = {name: [text.strip() for text in form.fields.get(f"{PREFIX}{name}", [])] for name in names}
    return {name: [text for text in texts if text] for name, texts in found.items() if any(texts)}


def _form_field(field: Field, kind: Kind, schema: Schema, given: Sequence[str]) -> FormField:
    epsilons = epsilon_fields(kind)
    choices = kind.targets(schema) if field.name == TARGET else _choices(field, schema)
    control: Control = "text"
    if field.type is FieldType.COLUMNS and field.columns in ("number", "category"):
        control = "columns"
    elif choices or field.name == TARGET:
        control = "choice"
    elif field.type in (FieldType.NUMBER, FieldType.WHOLE):
        control = "number"
    return FormField(
        name=field.name,
        word=field.option.removeprefix("--"),
        control=control,
        help=field.help,
        choices=choices,
        given=list(given),
        # How much may be revealed is chosen by somebody, and has no default.
        default="" if field.name in epsilons else _default(field),
        is_first=field.name in _FIRST,
        is_required=field.default is inspect.Parameter.empty or (field.name,) == epsilons,
    )


def _choices(field: Field, schema: Schema) -> list[str]:
    if field.type is FieldType.FLAG:
        return ["yes", "no"]
    if field.type in (FieldType.COLUMN, FieldType.COLUMNS) and field.columns != "undeclared":
        return _columns(field, schema)
    return list(field.choices)


def _columns(field: Field, schema: Schema) -> list[str]:
    numbers = [name for name, column in schema.columns.items() if isinstance(column, Number)]
    others = [name for name in schema.columns if name not in numbers]
    return {"number": numbers, "category": [*others, *_binned(numbers, schema)]}.get(
        field.columns, list(schema.columns)
    )


def _binned(numbers: Sequence[str], schema: Schema) -> list[str]:
    """Numbers that are declared with bins, which can be grouped by, too."""
    return [name for name in numbers if getattr(schema.columns[name], "bins", None)]


def _default(field: Field) -> str:
    known: Mapping[bool, str] = {True: "yes", False: "no"}
    if isinstance(field.default, bool):
        return known[field.default]
    return str(field.default) if isinstance(field.default, int | float | str) else ""
