"""Text that others wrote, fit to be kept and shown: names without controls, and escapes for terminals, JSON and spreadsheets.

A name that holds a line break, an escape sequence or a mark that turns the direction of writing can forge a line of a privacy card. Names are
checked where they enter, and whatever is printed is escaped all the same.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final

LONGEST_NAME: Final = 256
LONGEST_SENTENCE: Final = 1024
MOST_BLANKS_IN_A_ROW: Final = 3

# Controls, invisible formats (directions, zero width), private use, unassigned, halves of characters, line and paragraph separators.
UNPRINTABLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
# A cell that begins with one of these is a formula to spreadsheets.
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# Words that stand for a value or for none; "Na" may be sodium, and "y" is a usual name of a target.
VALUE_WORDS: Final = frozenset(
    ("NA", "N/A", "n/a", "NULL", "Null", "null", "NaN", "nan", "-nan", "-NaN", "None", "none", "#N/A", "#NA")
    + ("true", "True", "TRUE", "false", "False", "FALSE", "inf", "Inf", "-inf", "Infinity", "missing", "unknown")
)
_NUMBER_IN_A_TABLE: Final = re.compile(r"[+-]?(\d[\d_,' ]*\.?\d*|\.\d+)([eE][+-]?\d+)?\s*%?")
_DATE_IN_A_TABLE: Final = re.compile(
    r"\d{1,4}[-/. ]?(\d{1,2}|[A-Za-z]{3,9})[-/. ,]{0,2}\d{1,4}([T ]\d{1,2}(:\d{2}){1,2}.*)?|(明治|大正|昭和|平成|令和)?\s*(\d+|元)\s*年.*",
)


def normal_name(text: str) -> str:
    """The one spelling of a name: composed characters (NFC), no blanks around it."""
    return unicodedata.normalize("NFC", text).strip()


def name_fault(text: object, longest: int = LONGEST_NAME) -> str | None:
    """What keeps `text` from being shown as a name, in words that follow "the name …"; None if nothing does."""
    if not isinstance(text, str):
        return "is not text"
    if not text.strip():
        return "is empty"
    if text != normal_name(text):
        return "has blanks around it, or accents that are written apart from their letters"
    return text_fault(text, longest)


def text_fault(text: object, longest: int = LONGEST_SENTENCE) -> str | None:
    """What keeps `text` from being shown in one line, in words that follow "the text …"; None if nothing does. It may be empty."""
    if not isinstance(text, str):
        return "is not text"
    if len(text) > longest:
        return f"is longer than {longest} characters"
    if not all(map(is_printable, text)):
        return "has a control character, a line break or an invisible mark"
    blanks = 0
    for character in text:
        blanks = blanks + 1 if character.isspace() else 0
        if blanks > MOST_BLANKS_IN_A_ROW:
            return f"has more than {MOST_BLANKS_IN_A_ROW} blanks in a row"
    return None


def is_printable(character: str) -> bool:
    """Whether a character shows as itself and changes nothing else on the page."""
    return " " <= character <= "~" or unicodedata.category(character) not in UNPRINTABLE_CATEGORIES


def escaped_for_terminal(text: str, keep: str = "") -> str:
    r"""The text with what cannot be printed written as \x1b, \u202e and so on; characters in `keep` (our own line breaks) stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character in keep or is_printable(character)
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def escaped_in_json(document: str) -> str:
    r"""A JSON text with what cannot be printed inside its strings written as \u202e and so on; the same value, and still JSON."""
    if document.isascii() and document.isprintable():
        return document
    return "".join(
        character if character == "\n" or is_printable(character) else json.dumps(character)[1:-1]
        for character in document
    )


def spreadsheet_safe(cell: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula: an apostrophe stands before what might be one; numbers stay as they are."""
    shown = escaped_for_terminal(cell)
    beginning = cell.lstrip()[:1]
    is_formula = cell.startswith(FORMULA_STARTS) or (beginning != "" and beginning in FORMULA_STARTS)
    return f"'{shown}" if is_formula and not _NUMBER.fullmatch(cell) else shown


def told(parameter: object) -> str:
    """A parameter as errors quote it: a word in its beginning, of anything else the type alone, since it may be data in the wrong place."""
    return repr(parameter[:40]) if isinstance(parameter, str) else f"a {type(parameter).__name__}"


def looks_like_a_value(cell: str) -> bool:
    """Whether text is a number, a date, a truth value, a word for missing, or has no letter at all."""
    text = unicodedata.normalize("NFKC", cell).strip()
    has_letter = any(unicodedata.category(character).startswith("L") for character in text)
    if not has_letter or text in VALUE_WORDS:
        return True
    return _NUMBER_IN_A_TABLE.fullmatch(text) is not None or _DATE_IN_A_TABLE.fullmatch(text) is not None
