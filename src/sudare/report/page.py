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
from dataclasses import dataclass, field
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from sudare.report.budget_bar import BudgetBar
from sudare.report.plots import Picture
from sudare.report.privacy_card import Card, card_rows, card_strength
from sudare.safe_text import escaped_for_terminal

# A page of fewer parts is read from top to bottom.
FEWEST_LISTED_PARTS = 3
CONTENTS_ANCHOR = "contents"


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Transcript:
    """Lines as a terminal showed them."""

    lines: Sequence[str]
    caption: str = ""


Block = Picture | Card | BudgetBar | Table | Transcript


@dataclass(frozen=True)
class Part:
    """One part of a page. `result` is a sentence without jargon; the picture comes before any explanation."""

    title: str
    result: str
    blocks: Sequence[Block]
    how_to_read: Sequence[str]


@dataclass(frozen=True)
class Page:
    """A title, a sentence that says what this is, and parts."""

    title: str
    lead: str
    parts: Sequence[Part]
    made_by: str
    notes: Sequence[str] = field(default_factory=tuple)


def page_html(page: Page) -> str:
    """The whole page as one text."""
    anchors = anchors_of([part.title for part in page.parts])
    return _template().render(page=page, anchors=anchors, has_contents=len(anchors) >= FEWEST_LISTED_PARTS)


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
