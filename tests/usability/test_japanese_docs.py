"""The Japanese pages say what the English ones say: the same headings, code, names and links, so that they cannot drift apart."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
JAPANESE = {
    "README.md": "README.ja.md",
    **{f"docs/{page.name}": f"docs/ja/{page.name}" for page in sorted((ROOT / "docs" / "ja").glob("*.md"))},
}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAIRS = pytest.mark.parametrize(("english", "japanese"), JAPANESE.items(), ids=list(JAPANESE))


class Section(NamedTuple):
    """What a page has below one heading, whatever its language: code, names in code, links and rows of tables."""

    level: int
    blocks: list[tuple[str, str]]
    names: set[str]
    links: set[str]
    rows: int


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def without_comments(code: str) -> str:
    return re.sub(r"\s*# .*$", "", code, flags=re.MULTILINE)


def english_target(link: str, page: str) -> str:
    """The file of the repository that a link leads to, and of a page that is there in both languages the English one."""
    if "://" in link:
        return link
    path, mark, anchor = link.partition("#")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    # Pictures of the page in a Japanese browser.
    found = found.replace("docs/images/page/ja/", "docs/images/page/")
    english = {japanese: name for name, japanese in JAPANESE.items()} | {"docs/ja/glossary.md": "docs/glossary.md"}
    return english.get(found, found) + mark + anchor


def sections(page: str) -> list[Section]:
    blocks: list[tuple[str, str]] = []

    def put_aside(match: re.Match[str]) -> str:
        blocks.append((match[1], without_comments(match[2])))
        return f"\x00{len(blocks) - 1}\x00"

    text = FENCED.sub(put_aside, text_of(page))
    parts = re.split(r"^(#+) ", text, flags=re.MULTILINE)[1:]
    return [
        Section(
            len(marks),
            [blocks[int(number)] for number in re.findall("\x00(\\d+)\x00", body)],
            set(re.findall(r"`([^`\n]+)`", body)),
            {english_target(link, page) for link in re.findall(r"\]\(([^)\s]+)\)", body)},
            len(re.findall(r"^\|", body, flags=re.MULTILINE)),
        )
        for marks, body in zip(parts[::2], parts[1::2], strict=True)
    ]


@PAIRS
def test_both_languages_have_the_same_sections(english: str, japanese: str) -> None:
    told, said = sections(english), sections(japanese)
    assert [section.level for section in said] == [section.level for section in told]
    for one, other in zip(told, said, strict=True):
        assert other == one


@PAIRS
def test_each_page_leads_to_the_other_language_at_its_top(english: str, japanese: str) -> None:
    to_english = posixpath.relpath(english, posixpath.dirname(japanese) or ".")
    to_japanese = posixpath.relpath(japanese, posixpath.dirname(english) or ".")
    assert text_of(english).splitlines()[2] == f"English · [日本語]({to_japanese})"
    assert text_of(japanese).splitlines()[2] == f"[English]({to_english}) · 日本語"


@PAIRS
def test_japanese_pages_are_japanese(english: str, japanese: str) -> None:
    """No paragraph is left in English: all have a letter of Japanese, unless it is a name or code."""
    for paragraph in FENCED.sub("", text_of(japanese)).split("\n\n"):
        if paragraph.strip() not in ("", "# sudare"):
            assert re.search("[ぁ-んァ-ヶ一-龠]", paragraph), paragraph


def test_pages_that_must_be_there_in_japanese_are() -> None:
    pages = ("getting-started", "walkthrough", "sharp-edges", "requests", "page", "dossier")
    assert {"README.md", *(f"docs/{page}.md" for page in pages)} <= set(JAPANESE)
