"""Plots in Japanese: drawn where there is a font, and in English with a note where there is none."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from sudare.languages import LANGUAGES
from sudare.report import Page, Part, fonts, page_html
from sudare.report.fonts import JAPANESE_FONTS, LATIN_FONTS, MissingLetters, font_family, missing_font_note
from sudare.report.plots import Theme, picture, rendered

LABEL = "share of records"


def panel(axes: Axes, theme: Theme) -> None:
    axes.set_xlabel(LABEL)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All words of the figures that are saved."""
    words: list[str] = []

    def save(figure: Figure, file: Any, **options: Any) -> None:
        words.extend(text.get_text() for text in figure.findobj(Text))  # type: ignore[attr-defined]
        file.write(b"<svg/>")

    monkeypatch.setattr(Figure, "savefig", save)
    return words


def test_with_a_font_words_are_japanese(monkeypatch: pytest.MonkeyPatch, drawn: list[str]) -> None:
    monkeypatch.setattr(fonts, "_japanese_font", lambda: "IPAexGothic")
    rendered([panel], language="ja")
    assert "レコードの割合" in drawn
    assert font_family("ja")[0] == "IPAexGothic"
    assert missing_font_note("ja") == ""


def test_without_one_words_are_english_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch, drawn: list[str]) -> None:
    monkeypatch.setattr(fonts, "_japanese_font", lambda: None)
    rendered([panel], language="ja")
    assert LABEL in drawn
    assert font_family("ja") == LATIN_FONTS
    page = Page("t", "", [Part("p", "", [picture([panel], "alt")], [])], "sudare")
    assert "日本語のフォントが見つかりません" in page_html(page, "ja")
    assert "font" not in page_html(page, "en").split("</style>")[1]


def test_english_needs_no_font(drawn: list[str]) -> None:
    rendered([panel])
    assert LABEL in drawn
    assert missing_font_note("en") == ""


def test_the_first_font_that_there_is_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    fonts._japanese_font.cache_clear()
    known = [replace(fonts.font_manager.fontManager.ttflist[0], name=name) for name in JAPANESE_FONTS[3:5]]
    monkeypatch.setattr(fonts.font_manager.fontManager, "ttflist", known)
    assert fonts._japanese_font() == JAPANESE_FONTS[3]
    fonts._japanese_font.cache_clear()


def test_a_font_that_was_installed_since_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fonts._japanese_font.cache_clear()
    manager = fonts.font_manager.fontManager
    found, broken = Path(manager.ttflist[0].fname), tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr(manager, "ttflist", [])
    monkeypatch.setattr(fonts.font_manager, "findSystemFonts", lambda: [str(broken), str(found)])
    monkeypatch.setattr(fonts, "JAPANESE_FONTS", (fonts.font_manager.get_font(str(found)).family_name,))
    assert fonts._japanese_font() == fonts.JAPANESE_FONTS[0]
    fonts._japanese_font.cache_clear()


def tibetan(axes: Axes, theme: Theme) -> None:
    # No font that machines come with has these, and DejaVu Sans certainly not.
    axes.set_xlabel("\u0f40\u0f41")


def test_letters_that_no_font_has_are_told_of_in_every_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_japanese_font", lambda: None)
    for language in LANGUAGES:
        with pytest.warns(MissingLetters, match="boxes"):
            rendered([tibetan], "png", language=language)


def test_letters_of_an_svg_stay_text() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawing = rendered([tibetan], "svg").decode()
    assert "\u0f40\u0f41" in drawing
    # A reader who has none of the fonts still gets one without serifs.
    families = re.findall("font(?:-family)?: ([^;]*)", drawing)
    assert families
    assert all(family.endswith("sans-serif") for family in families)
