"""One self-contained page: a sentence of result, a picture, the guarantee, and how to read it, part by part.

Nothing is fetched from anywhere and nothing is executed: no script, no font, no address, and a content policy that
allows none, should a text ever get past the escaping. It reads by day, by night, on a
telephone and on paper.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from sudare.languages import Language, translated, translator
from sudare.report.budget_bar import BudgetBar
from sudare.report.fonts import missing_font_note
from sudare.report.plots import Picture
from sudare.report.privacy_card import Card, card_rows, card_strength
from sudare.safe_text import escaped_for_terminal

# A page of fewer parts is read from top to bottom.
FEWEST_LISTED_PARTS = 3
CONTENTS_ANCHOR = "contents"


@dataclass(frozen=True)
class PageTable:
    """Rows of text under a heading. A folded one shows its caption until it is opened. The texts of one that `is_told` are in the reader's language already, with names among them."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    folded: bool = False
    is_told: bool = False


@dataclass(frozen=True)
class TerminalLines:
    """Lines as a terminal showed them; with a caption they are folded under it."""

    lines: Sequence[str]
    caption: str = ""


@dataclass(frozen=True)
class FoldedPicture:
    """A picture that is shown when its caption is opened."""

    caption: str
    picture: Picture


Block = Picture | FoldedPicture | Card | BudgetBar | PageTable | TerminalLines


@dataclass(frozen=True)
class Part:
    """One part of a page. `result` is a sentence without jargon; the picture comes before any explanation."""

    title: str
    result: str
    blocks: Sequence[Block]
    how_to_read: Sequence[str]


@dataclass(frozen=True)
class Page:
    """A title, a sentence that says what this is, and parts. Many parts stand in two columns on wide screens with explanations folded; those of a report stand below each other, unfolded."""

    title: str
    lead: str
    parts: Sequence[Part]
    made_by: str
    notes: Sequence[str] = field(default_factory=tuple)
    is_report: bool = False


def page_html(page: Page, language: Language = "en") -> str:
    """The whole page as one text, in the language."""
    anchors = anchors_of([part.title for part in page.parts])
    return _template().render(
        page=page if language == "en" else _page_in(page, language),
        anchors=anchors,
        has_contents=len(anchors) >= FEWEST_LISTED_PARTS,
        language=language,
        _=translator(language),
    )


def _page_in(page: Page, language: Language) -> Page:
    """The page with its texts in the language; cards and bars are translated where they are shown."""

    def told(text: str) -> str:
        return translated(text, language)

    def sentences(cells: Sequence[str]) -> list[str]:
        # A single word in a cell may be the name of a column or a person.
        return [told(cell) if " " in cell else cell for cell in cells]

    def block_in(block: Block) -> Block:
        match block:
            case Picture():
                return replace(block, alt=told(block.alt), language=language)
            case FoldedPicture():
                inner = replace(block.picture, alt=told(block.picture.alt), language=language)
                return FoldedPicture(told(block.caption), inner)
            case PageTable():
                if block.is_told:
                    return replace(block, caption=told(block.caption))
                headings = [told(heading) for heading in block.headings]
                rows = [sentences(row) for row in block.rows]
                return replace(block, headings=headings, rows=rows, caption=told(block.caption))
            case TerminalLines():
                return TerminalLines([told(line) for line in block.lines], told(block.caption))
        return block

    parts = [
        replace(
            part,
            title=told(part.title),
            result=told(part.result),
            blocks=[block_in(block) for block in part.blocks],
            how_to_read=[told(paragraph) for paragraph in part.how_to_read],
        )
        for part in page.parts
    ]
    notes = [*page.notes, *filter(None, [missing_font_note(language)])]
    return Page(told(page.title), told(page.lead), parts, page.made_by, [told(note) for note in notes])


def anchors_of(titles: Sequence[str]) -> list[str]:
    """A name within the page for each title: readable in an address, and no two alike."""
    taken = {CONTENTS_ANCHOR}
    anchors = []
    for title in titles:
        plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "part"
        names = (plain if number == 1 else f"{plain}-{number}" for number in itertools.count(1))
        anchor = next(name for name in names if name not in taken and f"{name}-title" not in taken)
        taken |= {anchor, f"{anchor}-title"}
        anchors.append(anchor)
    return anchors


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("sudare.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data_address"] = _data_address
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["card_rows"] = card_rows
    environment.filters["card_strength"] = card_strength
    return environment.get_template("page.html")


def _shown(value: object) -> object:
    """What stands in a page, before it is escaped for HTML: text without controls and invisible marks."""
    return escaped_for_terminal(value, keep="\n") if type(value) is str else value


def _data_address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
