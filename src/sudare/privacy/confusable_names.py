"""When two names could be mistaken for each other: by case, width, invisible marks, or letters that look alike."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from sudare.errors import InvalidParameter

# Letters of other scripts that look like Latin ones (a selection from Unicode's confusables.txt, UTS #39). Full-width and
# mathematical letters are made plain by normal form KC before.
_LOOKS_LIKE: Final = {
    # Cyrillic
    "а": "a", "с": "c", "ԁ": "d", "е": "e", "һ": "h", "і": "i", "ј": "j", "ӏ": "l", "о": "o", "р": "p", "ԛ": "q",
    "ѕ": "s", "ѵ": "v", "ԝ": "w", "х": "x", "у": "y", "ү": "y", "ɡ": "g", "А": "A", "В": "B", "С": "C", "Е": "E",
    "Ԍ": "G", "Н": "H", "І": "l", "Ј": "J", "К": "K", "М": "M", "О": "O", "Р": "P", "Ѕ": "S", "Т": "T", "Ѵ": "V",
    "Ԝ": "W", "Х": "X", "У": "Y", "Ү": "Y", "Ӏ": "l", "к": "k", "м": "m", "т": "t", "в": "b", "н": "h",
    # Greek
    "α": "a", "γ": "y", "ι": "i", "κ": "k", "ν": "v", "ο": "o", "ρ": "p", "σ": "o", "τ": "t", "υ": "u", "χ": "x",
    "Α": "A", "Β": "B", "Ε": "E", "Ζ": "Z", "Η": "H", "Ι": "l", "Κ": "K", "Μ": "M", "Ν": "N", "Ο": "O", "Ρ": "P",
    "Τ": "T", "Υ": "Y", "Χ": "X", "ϲ": "c", "Ϲ": "C", "ϳ": "j",
    # Armenian
    "ա": "w", "գ": "q", "զ": "q", "հ": "h", "յ": "j", "ո": "n", "ռ": "n", "ս": "u", "օ": "o", "ց": "g", "ք": "p",
    "Լ": "L", "Ս": "U", "Տ": "S", "Օ": "O",
    # Cherokee
    "Ꭰ": "D", "Ꭱ": "R", "Ꭲ": "T", "Ꭵ": "i", "Ꭹ": "Y", "Ꭺ": "A", "Ꭻ": "J", "Ꭼ": "E", "Ꮃ": "W", "Ꮇ": "M", "Ꮋ": "H",
    "Ꮍ": "Y", "Ꮐ": "G", "Ꮓ": "Z", "Ꮞ": "4", "Ꮟ": "b", "Ꮢ": "R", "Ꮤ": "W", "Ꮥ": "S", "Ꮩ": "V", "Ꮪ": "S", "Ꮮ": "L",
    "Ꮯ": "C", "Ꮲ": "P", "Ꮶ": "K", "Ꮷ": "d", "Ᏻ": "G", "Ᏼ": "B",
    # Latin itself
    "ı": "i", "ɑ": "a", "ǀ": "l", "|": "l", "I": "l", "1": "l", "0": "O", "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-",
    "−": "-", "ー": "-", "﹣": "-", "ʼ": "'", "’": "'", "‘": "'", "․": ".", "⁄": "/", "∕": "/",
}  # fmt: skip
_SKELETON: Final = str.maketrans(_LOOKS_LIKE)
# Scripts that are written together.
_WRITTEN_TOGETHER: Final = frozenset(
    {"LATIN", "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "HANGUL", "BOPOMOFO"}
)
# Shown as nothing, although they are letters or marks.
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0") | {
    chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}


def same_letters(text: str) -> str:
    """One text for all that differ only in case, width, normal form, blanks or what nobody sees."""
    seen = "".join(letter for letter in text if unicodedata.category(letter) != "Cf" and letter not in _INVISIBLE)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
    return " ".join(folded.split())


def skeleton(text: str) -> str:
    """One text for all that look alike in most typefaces."""
    plain = unicodedata.normalize("NFKC", text).translate(_SKELETON)
    return same_letters(plain).translate(_SKELETON).replace("rn", "m").casefold()


def look_alike(one: str, other: str) -> bool:
    """Whether two names could be mistaken for each other."""
    return same_letters(one) == same_letters(other) or skeleton(one) == skeleton(other)


def check_scripts(what: str, name: str) -> None:
    """Raise InvalidParameter unless every word of a new name is in one script, or in scripts that are written together."""
    for word in re.findall(r"[^\W\d_]+", unicodedata.normalize("NFKC", name)):
        scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in word}
        if len(scripts) > 1 and not scripts <= _WRITTEN_TOGETHER:
            raise InvalidParameter(
                f"A word of {what} mixes letters of {' and '.join(sorted(scripts))}.",
                "Write every word in one script, so that no two names look alike.",
            )
