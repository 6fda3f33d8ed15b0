"""The values of one column as numbers or codes, checked against what is declared; errors print no value."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sudare.array_types import Floats
from sudare.errors import MissingValue, UnknownCategory, WrongType
from sudare.schema.columns import Category, Column, Label, Level, LevelKind, Number, level_text
from sudare.schema.dates import Date, DatePart, checked_moments, no_dates
from sudare.schema.lazy_pyarrow import pa, pc
from sudare.schema.table_from_any_frame import Table, attempt

Codes = npt.NDArray[np.int64]

MISSING = -1
UNKNOWN = -2
# From here on a float64 may stand for several whole numbers.
EXACT_BELOW = 2.0**53
DECLARED_AS = {"text": "text", "integer": "whole numbers", "boolean": "booleans"}


def numbers(values: pa.ChunkedArray | Floats, name: str) -> Floats:
    """A column of numbers as float64, NaN where missing."""
    if isinstance(values, np.ndarray):
        return values
    if values.type == pa.float64() and values.num_chunks == 1:
        # As they are, without a copy where nothing is missing.
        return np.asarray(values.chunk(0).to_numpy(zero_copy_only=False))
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    # A frame without rows has columns of any type.
    if pa.types.is_null(values.type) or len(values) == 0:
        return np.full(len(values), np.nan)
    if holds(values.type) not in ("whole numbers", "fractions"):
        raise wrong_type(name, "numbers", values.type)
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def declared_numbers(values: pa.ChunkedArray | Floats, number: Number, name: str) -> Floats:
    """A column as its declaration counts it, NaN where missing: numbers, or units since the first date. Raise WrongType where it is not what was declared."""
    if isinstance(number, Date):
        if isinstance(values, np.ndarray):
            raise no_dates(name)
        return number.units_since_first(checked_moments(values, number, name))
    found = numbers(values, name)
    if number.whole and fractions_in(found):
        raise WrongType(
            f"Column {name!r} is declared to hold whole numbers, and holds some that are not whole.",
            "Round them first, or leave `whole` out of its declaration.",
        )
    return found


def fractions_in(found: Floats) -> int:
    """How many numbers are not whole; for the owner only. Gaps and infinities, which are clipped, are not among them."""
    return int(np.count_nonzero((np.trunc(found) != found) & ~np.isnan(found)))


def clipped_numbers(
    values: pa.ChunkedArray | Floats, number: Number, name: str
) -> tuple[Floats, npt.NDArray[np.bool_], int]:
    """Numbers within the declared bounds, where a number was missing, and how many lay outside (for the owner only)."""
    return within_bounds(declared_numbers(values, number, name), number, name)


def within_bounds(found: Floats, number: Number, name: str) -> tuple[Floats, npt.NDArray[np.bool_], int]:
    """What `clipped_numbers` gives, of numbers as the declaration counts them."""
    missing = np.isnan(found)
    if missing.any():
        if number.stand_in is None:
            raise missing_value(name)
        found = np.where(missing, number.stand_in, found)
    outside = int(np.count_nonzero((found < number.low) | (found > number.high)))
    return np.clip(found, number.low, number.high), missing, outside


def codes(values: pa.ChunkedArray, listed: Category | Label, name: str) -> Codes:
    """The position of each value among the declared levels."""
    found = column_codes(values, listed, name)
    if listed.other_code is not None:
        found[found == UNKNOWN] = listed.other_code
    if (found == UNKNOWN).any():
        fact = "classes" if isinstance(listed, Label) else "values"
        raise UnknownCategory(
            f"Column {name!r} holds a value that the schema does not list.{spelling_hint(values, listed, found == UNKNOWN)}",
            f"Add it to `{fact}` in the schema, or map it to a listed one before use{'' if isinstance(listed, Label) else ', or declare `other`'}.",
        )
    missing = found == MISSING
    if missing.any():
        if listed.missing_code is None:
            raise missing_value(name)
        found[missing] = listed.missing_code
    return found


# As JIS X 0208 is read by itself, and as Windows (cp932) reads it.
LOOK_ALIKES: Final = str.maketrans("〜−‖¢£¬—¦", "～－∥￠￡￢―￤")


def spelling_hint(values: pa.ChunkedArray, listed: Category | Label, unknown: npt.NDArray[np.bool_]) -> str:
    """A sentence where values that are not listed would be but for blanks, characters that look alike, the width of characters, or capitals; it quotes none."""
    if listed.value_kind != "text" or not unknown.any():
        return ""
    texts = [str(text) for text in pc.unique(values.filter(pa.array(unknown))).to_pylist() if text is not None]
    levels = set(map(str, listed.levels))
    if any(text.strip() in levels for text in texts):
        return " Some are listed values with blanks around them: --csv tidy=yes (sudare.frames.CsvFile(path, tidy=True)) reads those of a CSV file."
    alike = {level.translate(LOOK_ALIKES) for level in levels}
    if any(text.translate(LOOK_ALIKES) in alike for text in texts):
        return (
            " Some are listed values but for characters that look alike, of which Japanese encodings have two (〜 and ～, − and －, ‖ and ∥): "
            "list the values as the table writes them."
        )
    if any(unicodedata.normalize("NFKC", text).strip() in levels for text in texts):
        return " Some are listed values in characters of another width."
    small = {level.casefold() for level in levels}
    if any(text.casefold() in small for text in texts):
        return " Some are listed values in other capitals."
    return ""


def declared_values(
    table: Table, columns: Mapping[str, Column]
) -> tuple[dict[str, Floats | Codes], dict[str, npt.NDArray[np.bool_]], dict[str, int]]:
    """Columns of a table by name: numbers within their bounds, positions of categories; where a number was missing, and how many lay outside.

    The last is exact, and for the owner only.
    """
    values: dict[str, Floats | Codes] = {}
    missing: dict[str, npt.NDArray[np.bool_]] = {}
    outside = dict.fromkeys(columns, 0)
    for name, column in columns.items():
        if isinstance(column, Number):
            values[name], missing[name], outside[name] = clipped_numbers(table.column(name), column, name)
        else:
            values[name] = codes(table.column(name), column, name)
    return values, missing, outside


def column_codes(values: pa.ChunkedArray, listed: Category | Label, name: str) -> Codes:
    """The position of each value among the declared levels, MISSING and UNKNOWN where there is none."""
    if isinstance(listed, DatePart):
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if not holds_the_part(values, listed):
            moments = checked_moments(values, listed, name)
            return np.where(np.isnat(moments), MISSING, listed.positions(moments))
        if holds(values.type) == "text" and listed.value_kind == "integer":
            values = values.cast(pa.int64())
    parts = [chunk_codes(chunk, listed, name) for chunk in values.chunks if len(values)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def holds_the_part(values: pa.ChunkedArray, facts: DatePart) -> bool:
    """Whether a column holds parts of dates already, as synthetic tables do, and not dates."""
    held = holds(values.type)
    if held == "text":
        texts = pa.array([level_text(level) for level in facts.values], type=pa.large_string())
        return bool(pc.all(pc.is_in(values.cast(pa.large_string()).drop_null(), value_set=texts)).as_py())
    return held in ("whole numbers", "fractions") and facts.value_kind == "integer"


def chunk_codes(values: pa.Array, listed: Category | Label, name: str) -> Codes:
    """Codes of one Arrow array, MISSING and UNKNOWN where there is none."""
    if not pa.types.is_dictionary(values.type):
        return plain_codes(values, listed.levels, listed.value_kind, name)
    of_entries = plain_codes(values.dictionary, listed.levels, listed.value_kind, name)
    indices = values.indices.cast(pa.int64()).fill_null(len(of_entries))
    positions: Codes = indices.to_numpy(zero_copy_only=False)
    return np.append(of_entries, np.int64(MISSING))[positions]


def plain_codes(values: pa.Array, levels: tuple[Level, ...], kind: LevelKind, name: str) -> Codes:
    """Codes of an Arrow array that is not dictionary-encoded."""
    if pa.types.is_null(values.type):
        return np.full(len(values), MISSING, dtype=np.int64)
    found = holds(values.type)
    declared = DECLARED_AS[kind]
    if found == "fractions" and kind == "integer":
        # Frames turn whole numbers into fractions where a value is missing: 1.0 is then the 1 that was written.
        return codes_of_fractions(values, levels)
    if found != declared:
        raise wrong_type(name, declared, values.type)
    arrow_type = {"text": pa.large_string(), "integer": pa.int64(), "boolean": pa.bool_()}[kind]
    same_type = attempt(lambda: values.cast(arrow_type))
    if same_type is None:
        # Only a whole number beyond 64 bits cannot be cast, and none such can be listed.
        return np.full(len(values), UNKNOWN, dtype=np.int64)
    # A category for missing values of another kind than the listed ones is last and cannot occur in the data.
    comparable = levels if kind == "text" else [level for level in levels if not isinstance(level, str)]
    if kind == "text" and not all(str(level).isascii() for level in levels):
        # Declared values are composed (NFC); a table may spell the same word with accents apart.
        same_type = pc.utf8_normalize(same_type, form="NFC")
    positions = pc.index_in(same_type, value_set=pa.array(comparable, type=arrow_type)).fill_null(UNKNOWN)
    return np.where(values.is_null().to_numpy(zero_copy_only=False), MISSING, positions.to_numpy().astype(np.int64))


def codes_of_fractions(values: pa.Array, levels: tuple[Level, ...]) -> Codes:
    """Codes of whole numbers that are stored as fractions."""
    found = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    missing = np.isnan(found)
    whole = (np.trunc(found) == found) & (np.abs(found) < EXACT_BELOW)
    written = pa.array(np.where(whole, found, 0).astype(np.int64))
    listed = [level for level in levels if not isinstance(level, str)]
    positions = pc.index_in(written, value_set=pa.array(listed, type=pa.int64())).fill_null(UNKNOWN).to_numpy()
    return np.where(missing, MISSING, np.where(whole, positions, UNKNOWN)).astype(np.int64)


def holds(arrow_type: Any) -> str:
    """What a column of that Arrow type holds, in words."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return holds(arrow_type.value_type)
    words = (
        (types.is_boolean, "booleans"),
        (types.is_integer, "whole numbers"),
        (types.is_floating, "fractions"),
        (types.is_decimal, "fractions"),
        (types.is_string, "text"),
        (types.is_large_string, "text"),
        (types.is_string_view, "text"),
        (types.is_temporal, "dates or times"),
        (types.is_null, "nothing"),
    )
    return next((word for is_type, word in words if is_type(arrow_type)), "values of an unsupported type")


def wrong_type(name: str, declared: str, arrow_type: Any) -> WrongType:
    return WrongType(
        f"Column {name!r} is declared to hold {declared}, and holds {holds(arrow_type)}.",
        "Convert the column, or change its declaration in the schema.",
    )


def missing_value(name: str) -> MissingValue:
    return MissingValue(
        f"Column {name!r} lacks a value, and the schema does not say what that means.",
        'Declare `missing` for it in the schema ("centre", "indicator" or a number; for a category the value that gaps count as), '
        "or fill the gap before use.",
    )


def nobody_named(name: str) -> MissingValue:
    """What is raised where a row does not say whose it is."""
    return MissingValue(
        f"Column {name!r} lacks a value: a row that names no person may be anybody's.",
        "Leave such rows out, or give each a person of its own.",
    )
