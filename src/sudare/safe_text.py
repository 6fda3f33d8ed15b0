"""Text that others wrote, fit to be kept and shown: names without controls, and escapes for terminals, JSON and spreadsheets.

A name that holds a line break, an escape sequence or a mark that turns the direction of writing can forge a line of a privacy card. Names are
checked where they enter, and whatever is printed is escaped all the same.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final, Literal

LONGEST_NAME: Final = 256
LONGEST_SENTENCE: Final = 1024
MOST_BLANKS_IN_A_ROW: Final = 3
MOST_MARKS_IN_A_ROW: Final = 4
# Putting marks in order takes time in proportion to the square of their number: what is longer is no name, and stays as it is.
LONGEST_COMPOSED: Final = 2 * LONGEST_SENTENCE

# Controls, invisible formats (directions, zero width), private use, unassigned, halves of characters, line and paragraph separators.
UNPRINTABLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
# Letters, marks and symbols that show as a blank or as nothing. Not among them: selectors of variants, which Japanese names and emoji need.
UNSEEN: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159"
)
_MARKS: Final = frozenset({"Mn", "Me"})
# A cell that begins with one of these is a formula to spreadsheets.
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# A spreadsheet that separates columns by one of these, as in many countries, sees a new cell after it.
_FORMULA_INSIDE: Final = re.compile(rf"""([;|\t])(?=["'\s]*+[{re.escape("".join(FORMULA_STARTS))}])""")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_QUOTATION_MARKS: Final = {"en": ("“", "”"), "ja": ("「", "」")}
# What looks like the mark that ends a quoted name, and what stands for it inside one.
_INNER_MARKS: Final = str.maketrans(
    {
        **dict.fromkeys('"＂“”„‟〝〞〟″‶ˮ❝❞ʺ˝˶״‴⁗⹂❠🙶🙷🙸', "'"),
        **dict.fromkeys("「｢﹁⌜⌈⸢", "『"),
        **dict.fromkeys("」｣﹂⌟⌋⸥", "』"),
    }
)
# Two in a row look like one that ends a name.
_SINGLE_MARKS: Final = re.compile("['’‘‚‛`´ʹʻʼˊˋ′‵＇❛❜]{2,}")
# In small letters: words that are a value, and words that people write where there is none.
_VALUE_WORDS: Final = frozenset({"true", "false", "inf", "-inf", "infinity", "-infinity"})
_MISSING_WORDS: Final = frozenset(
    (
        "na",
        "n/a",
        "n.a.",
        "#n/a",
        "#na",
        "nd",
        "n.d.",
        "nan",
        "-nan",
        "nil",
        "null",
        "none",
        "missing",
        "unknown",
        "refused",
    )
    + ("no answer", "no data", "not applicable", "not available", "not known", "not measured", "unbekannt", "inconnu")
    + (
        "desconocido",
        "不明",
        "なし",
        "無し",
        "無",
        "無回答",
        "未回答",
        "未測定",
        "未検査",
        "未記入",
        "欠測",
        "欠損",
        "該当なし",
        "拒否",
    )
)
# Sodium.
_NAMES_LIKE_MISSING_WORDS: Final = frozenset({"Na"})
# Possessive: one pass over the longest cell.
_NUMBER_IN_A_TABLE: Final = re.compile(r"[+-]?(\d[\d_,' ]*+(\.\d*+)?|\.\d++)([eE][+-]?\d++)?\s*+%?")
_ADDRESS_IN_A_TABLE: Final = re.compile(r"[^\s@]++@[^\s@]++|[A-Za-z][A-Za-z0-9+.-]{0,15}://.*+", re.DOTALL)
_DATE_IN_A_TABLE: Final = re.compile(
    r"\d{1,4}[-/. ]?(\d{1,2}|[A-Za-z]{3,9})[-/. ,]{0,2}\d{1,4}([T ]\d{1,2}(:\d{2}){1,2}.*)?|(明治|大正|昭和|平成|令和)?\s*(\d+|元)\s*年.*",
)


def normal_name(text: str) -> str:
    """The one spelling of a name: composed characters (NFC), no blanks around it."""
    return composed(text).strip()


def composed(text: str) -> str:
    """The text with accents in one character with their letters (NFC); unchanged where it is too long to be a name or a sentence."""
    return unicodedata.normalize("NFC", text) if len(text) <= LONGEST_COMPOSED else text


def name_fault(text: object) -> str | None:
    """What keeps `text` from being shown as a name, in words that follow "the name …"; None if nothing does."""
    if not isinstance(text, str):
        return "is not text"
    if not text.strip():
        return "is empty"
    if len(text) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} characters"
    if text != normal_name(text):
        return "has blanks around it, or accents that are written apart from their letters"
    return text_fault(text, LONGEST_NAME)


def text_fault(text: object, longest: int = LONGEST_SENTENCE) -> str | None:
    """What keeps `text` from being shown in one line, in words that follow "the text …"; None if nothing does. It may be empty."""
    if not isinstance(text, str):
        return "is not text"
    if len(text) > longest:
        return f"is longer than {longest} characters"
    if not all(map(is_printable, text)):
        return "has a control character, a line break or an invisible mark"
    return _fault_in_a_row(text)


def _fault_in_a_row(text: str) -> str | None:
    """What many blanks push to the next line of a terminal looks like a line of its own; many marks cover the lines above and below."""
    blanks = marks = 0
    for place, character in enumerate(text):
        blanks = blanks + 1 if character.isspace() else 0
        marks = marks + 1 if not character.isascii() and unicodedata.category(character) in _MARKS else 0
        if blanks > MOST_BLANKS_IN_A_ROW:
            return f"has more than {MOST_BLANKS_IN_A_ROW} blanks in a row"
        if marks > MOST_MARKS_IN_A_ROW or (marks and place == 0):
            return (
                f"begins with a mark that belongs to a letter, or has more than {MOST_MARKS_IN_A_ROW} of them in a row"
            )
    return None


def is_printable(character: str) -> bool:
    """Whether a character shows as itself and changes nothing else on the page."""
    if " " <= character <= "~":
        return True
    return unicodedata.category(character) not in UNPRINTABLE_CATEGORIES and character not in UNSEEN


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
    """A cell of a CSV file that no spreadsheet takes for a formula: an apostrophe stands before what might be one; numbers stay as they are.

    That is so too where a spreadsheet separates columns not by commas but by semicolons, bars or tabs.
    """
    shown = escaped_for_terminal(_FORMULA_INSIDE.sub(r"\1'", cell))
    beginning = cell.lstrip()[:1]
    is_formula = cell.startswith(FORMULA_STARTS) or (beginning != "" and beginning in FORMULA_STARTS)
    return f"'{shown}" if is_formula and not _NUMBER.fullmatch(cell) else shown


def quoted(name: str, language: Literal["en", "ja"] = "en") -> str:
    """A name as it stands in a sentence: “name”, in Japanese 「name」. Marks in it that could close either become those of a quotation inside another."""
    begin, end = _QUOTATION_MARKS[language]
    inner = _SINGLE_MARKS.sub(lambda found: ("' " * len(found[0]))[: len(found[0])], name.translate(_INNER_MARKS))
    return f"{begin}{inner}{end}"


def told(parameter: object) -> str:
    """A parameter as errors quote it: a word in its beginning, of anything else the type alone, since it may be data in the wrong place."""
    return repr(parameter[:40]) if isinstance(parameter, str) else f"a {type(parameter).__name__}"


def looks_like_a_value(cell: str) -> bool:
    """Whether text is a number, a date, a truth value, an address, a word for missing, or has no letter at all."""
    text = _as_in_a_table(cell)
    if looks_measured(cell) or not _has_letter(text):
        return True
    is_missing = text.casefold() in _MISSING_WORDS and text not in _NAMES_LIKE_MISSING_WORDS
    return is_missing or _ADDRESS_IN_A_TABLE.fullmatch(text) is not None


def looks_measured(cell: str) -> bool:
    """Whether text is a number, a date or a truth value. Words for missing and dashes are not: they stand below words as well."""
    text = _as_in_a_table(cell)
    if text.casefold() in _VALUE_WORDS or (not _has_letter(text) and any(map(str.isdigit, text))):
        return True
    if len(text) > LONGEST_NAME:
        return False
    return _NUMBER_IN_A_TABLE.fullmatch(text) is not None or _DATE_IN_A_TABLE.fullmatch(text) is not None


def _as_in_a_table(cell: str) -> str:
    """A cell without differences in width; no value is longer than a name, and what is longer stays as it is."""
    return (unicodedata.normalize("NFKC", cell) if len(cell) <= LONGEST_NAME else cell).strip()


def _has_letter(text: str) -> bool:
    return any(unicodedata.category(character).startswith("L") for character in text)
