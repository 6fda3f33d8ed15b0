"""Japanese texts use the words of the table of terms, in catalogues, glossary and pages alike."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sudare.glossary import TERMS
from tests.languages.missing import catalogues

ROOT: Final = Path(__file__).parents[2]


def words_not_used() -> set[str]:
    """The last column of the table."""
    table = (ROOT / "src" / "sudare" / "languages" / "TERMS.md").read_text("utf-8")
    rows = [line.strip("| \n").split("|") for line in table.splitlines() if line.startswith("| ")][2:]
    return {word.strip() for row in rows if len(row) == 3 for word in row[2].split(",")}


def japanese_texts() -> dict[str, str]:
    """Every Japanese text, by where it stands."""
    entries = {
        f"{room}.toml: {english}": japanese
        for room, texts in catalogues().items()
        for english, japanese in texts.items()
    }
    glossary = {f"glossary: {term.name}": term.japanese + term.japanese_meaning for term in TERMS}
    pages = [ROOT / "README.ja.md", *(ROOT / "docs" / "ja").glob("*.md")]
    return entries | glossary | {page.name: page.read_text("utf-8") for page in pages}


def test_no_text_uses_another_word() -> None:
    words = words_not_used()
    assert {"課金", "雑音"} <= words
    assert not [(word, place) for place, text in japanese_texts().items() for word in words if word in text]
