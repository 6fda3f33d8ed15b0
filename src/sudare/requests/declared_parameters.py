"""What a learner's constructor declares about a parameter: its type and its choices."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class FieldType(StrEnum):
    """What a field's values are."""

    NUMBER = "number"
    WHOLE = "whole number"
    FLAG = "yes or no"
    CHOICE = "choice"
    COLUMN = "column"
    COLUMNS = "columns"
    NUMBERS = "numbers"
    WHOLES = "whole numbers"
    # One number, or a list to choose from privately.
    ONE_OR_SEVERAL = "one or several numbers"
    # One whole number, or several numbers: how many bins, or their edges.
    BINS = "bins"
    PAIRS = "pairs of columns"
    NUMBER_BY_COLUMN = "number by column"
    WORD_BY_COLUMN = "word by column"

    @property
    def is_repeated(self) -> bool:
        """Whether several values can be given."""
        return self not in (FieldType.NUMBER, FieldType.WHOLE, FieldType.FLAG, FieldType.CHOICE, FieldType.COLUMN)


_TYPES: Final[Mapping[str, FieldType]] = {
    "float": FieldType.NUMBER,
    "int": FieldType.WHOLE,
    "bool": FieldType.FLAG,
    "Encoding": FieldType.CHOICE,
    "Neighbours": FieldType.CHOICE,
    "EngineName": FieldType.CHOICE,
    "Sequence[str]": FieldType.COLUMNS,
    "Sequence[float]": FieldType.NUMBERS,
    "Sequence[int]": FieldType.WHOLES,
    "float | Sequence[float]": FieldType.ONE_OR_SEVERAL,
    "int | Sequence[float]": FieldType.BINS,
    "Sequence[tuple[str, str]]": FieldType.PAIRS,
    "Mapping[str, float]": FieldType.NUMBER_BY_COLUMN,
    "Mapping[str, str]": FieldType.WORD_BY_COLUMN,
}
# Declared as text, and what the text is.
_TEXTS: Final[Mapping[str, FieldType]] = {"method": FieldType.CHOICE, "label": FieldType.COLUMN}


def type_of(name: str, annotation: str) -> FieldType:
    """The type of a parameter by its annotation. Raise KeyError where no field can have it."""
    bare = annotation.removesuffix(" | None")
    if bare == "str":
        return _TEXTS[name]
    return FieldType.CHOICE if bare.startswith("Literal[") else _TYPES[bare]


def choices_of(learner: Any, name: str, annotation: str) -> tuple[str, ...]:
    """What a choice can be, as the learner or the annotation lists it; nothing for other types."""
    from sudare.schema.encodings import ENCODINGS

    bare = annotation.removesuffix(" | None")
    if bare.startswith("Literal["):
        return tuple(ast.literal_eval(f"({bare.removeprefix('Literal[').removesuffix(']')},)"))
    if bare == "Encoding":
        return ENCODINGS
    if bare == "Neighbours":
        return tuple(learner.relations)
    if bare == "EngineName":
        from sudare.synthesis.synthesizer import ENGINES

        return ENGINES
    if type_of(name, annotation) is FieldType.CHOICE:
        return ("auto", *learner.methods)
    return ()
