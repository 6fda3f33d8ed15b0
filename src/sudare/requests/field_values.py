"""Values of fields, from what a person typed in a shell or a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sudare.errors import InvalidParameter
from sudare.requests.declared_parameters import FieldType
from sudare.requests.request_kinds import Field, Kind
from sudare.schema import Schema

# Letters; a double has 17 significant digits.
_LONGEST_NUMBER: Final = 40
MOST_CANDIDATES: Final = 100
_YES, _NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


def values_of_texts(kind: Kind, schema: Schema, texts: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Values for `make`, from texts by field name; fields without any text keep their default.

    Raise UnknownName or InvalidParameter, in the words of the shell's options, where a text is none of its field's values.
    """
    given = {name: [text.strip() for text in several if text.strip()] for name, several in texts.items()}
    return {name: value_of(kind.field(name), schema, several) for name, several in given.items() if several}


def value_of(field: Field, schema: Schema, texts: Sequence[str]) -> Any:
    """The value that texts say. Raise InvalidParameter where they say none that the field has."""
    if field.is_repeated:
        return _REPEATED[field.type](field, _separated(field, schema, texts))
    if len(texts) != 1:
        raise InvalidParameter(f"{field.option} takes one value.", f"Give {field.option} once.")
    return _single(field, texts[0])


def _single(field: Field, text: str) -> Any:
    if field.type is FieldType.FLAG:
        return _flag(field, text)
    if field.type in (FieldType.NUMBER, FieldType.WHOLE):
        return _number(field, text, whole=field.type is FieldType.WHOLE)
    if field.type is FieldType.CHOICE and text not in field.choices:
        raise InvalidParameter(
            f"{field.option} must be one of {', '.join(field.choices)}, got {text[:64]!r}.", "Choose one of these."
        )
    return text


def _flag(field: Field, text: str) -> bool:
    if text.lower() not in (*_YES, *_NO):
        raise InvalidParameter(f"{field.option} must be yes or no, got {text[:64]!r}.", "Say yes or no.")
    return text.lower() in _YES


def _number(field: Field, text: str, whole: bool = False) -> float | int:
    try:
        # Python reads 1_0 as ten.
        if len(text) > _LONGEST_NUMBER or "_" in text:
            raise ValueError
        return int(text) if whole else float(text)
    except ValueError:
        said = "a whole number" if whole else "a number"
        raise InvalidParameter(
            f"{field.option} must be {said}, got {text[:64]!r}.", f"Give {field.option} {said}."
        ) from None


def _separated(field: Field, schema: Schema, texts: Sequence[str]) -> list[str]:
    """Texts, cut at commas; a declared name that has commas stays whole."""
    cut: list[str] = []
    for text in texts:
        cut += [text] if field.columns and text in schema.columns else [part.strip() for part in text.split(",")]
    return [text for text in cut if text]


def _numbers(field: Field, texts: list[str]) -> list[float]:
    return [_number(field, text) for text in texts]


def _candidates(field: Field, texts: list[str]) -> list[float]:
    """Numbers to choose from: few, since a price looks at the table once for each."""
    if len(texts) > MOST_CANDIDATES:
        raise InvalidParameter(f"{field.option} has more than {MOST_CANDIDATES} values.", "Give fewer values.")
    return _numbers(field, texts)


def _wholes(field: Field, texts: list[str]) -> list[int]:
    return [int(_number(field, text, whole=True)) for text in texts]


def _bins(field: Field, texts: list[str]) -> list[Any]:
    return list(_wholes(field, texts)) if len(texts) == 1 else list(_numbers(field, texts))


def _pairs(field: Field, texts: list[str]) -> list[tuple[str, str]]:
    """Each text split at its last sign of equality."""
    split = [text.rpartition("=")[::2] for text in texts]
    if not all(first and second for first, second in split):
        raise InvalidParameter(
            f"{field.option} takes a column, = and what belongs to it.", f"Use for example {field.option} age=2."
        )
    return [(first, second) for first, second in split]


def _words_by_column(field: Field, texts: list[str]) -> dict[str, str]:
    pairs = dict(_pairs(field, texts))
    if len(pairs) < len(texts):
        raise InvalidParameter(f"{field.option} names a column twice.", "Name every column once.")
    return pairs


def _numbers_by_column(field: Field, texts: list[str]) -> dict[str, float]:
    return {name: _number(field, text) for name, text in _words_by_column(field, texts).items()}


_REPEATED: Final[Mapping[FieldType, Callable[[Field, list[str]], Any]]] = {
    FieldType.COLUMNS: lambda field, texts: texts,
    FieldType.NUMBERS: _numbers,
    FieldType.ONE_OR_SEVERAL: _candidates,
    FieldType.WHOLES: _wholes,
    FieldType.BINS: _bins,
    FieldType.PAIRS: _pairs,
    FieldType.NUMBER_BY_COLUMN: _numbers_by_column,
    FieldType.WORD_BY_COLUMN: _words_by_column,
}
