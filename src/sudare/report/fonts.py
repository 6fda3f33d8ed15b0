"""Fonts for plots: those of matplotlib itself, and one of the machine's for Japanese."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import cache
from typing import Final

from matplotlib import font_manager

from sudare.languages import Language

LATIN_FONTS: Final = ["sans-serif"]
# Fonts with Japanese letters that systems come with, the plainest first.
JAPANESE_FONTS: Final = (
    "Noto Sans CJK JP",
    "Noto Sans JP",
    "IPAexGothic",
    "IPAPGothic",
    "IPAGothic",
    "TakaoPGothic",
    "TakaoGothic",
    "VL PGothic",
    "VL Gothic",
    "Hiragino Sans",
    "Hiragino Kaku Gothic ProN",
    "Yu Gothic",
    "Meiryo",
    "BIZ UDGothic",
    "MS Gothic",
    "Droid Sans Fallback",
)


class MissingLetters(UserWarning):
    """Letters of a picture are boxes: no font of the machine has them."""


def missing_letters() -> MissingLetters:
    """What is told where a picture without text of its own has letters that no font has."""
    return MissingLetters(
        "Some letters in the picture are boxes: no font of this machine has them. Install one, such as fonts-noto-cjk or fonts-ipaexfont, or draw an SVG, which keeps letters as text."
    )


def font_family(language: Language) -> list[str]:
    """The fonts to draw words of the language with, in the order they are asked; those for English where the machine has no other.

    Names of columns and values may be Japanese whatever the language of the words is.
    """
    font = _japanese_font()
    if font is None:
        return LATIN_FONTS
    # Signs such as ⁻³ that the Japanese font may lack come from the other; the reader of an SVG may have neither.
    return [font, "DejaVu Sans", *LATIN_FONTS] if language == "ja" else ["DejaVu Sans", font, *LATIN_FONTS]


def drawn_language(language: Language) -> Language:
    """The language of words in plots: the reader's, if there is a font with its letters, else English."""
    return "en" if font_family(language) == LATIN_FONTS else language


def missing_font_note(language: Language) -> str:
    """Why words in plots are English; nothing where they are in the language."""
    if drawn_language(language) == language:
        return ""
    return "Words in plots are English: no font with Japanese letters was found. Install one, such as fonts-noto-cjk or fonts-ipaexfont."


@cache
def _japanese_font() -> str | None:
    found = _first_of(JAPANESE_FONTS)
    if found is None:
        _add_fonts_installed_since()
        found = _first_of(JAPANESE_FONTS)
    return found


def _first_of(fonts: Iterable[str]) -> str | None:
    names = {font.name for font in font_manager.fontManager.ttflist}
    return next((font for font in fonts if font in names), None)


def _add_fonts_installed_since() -> None:
    """Add fonts of the machine that matplotlib does not know: it keeps the list of its first run."""
    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            # A file that cannot be read as a font is none.
            with contextlib.suppress(OSError, RuntimeError):
                font_manager.fontManager.addfont(path)
