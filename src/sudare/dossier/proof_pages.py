"""Proofs as they stand in proofs/, found in an installed package or in a checkout, and written as HTML.

Only the Markdown that these pages use is read: headings, paragraphs, lists, tables, fenced code, emphasis, code, links (whose targets are left out:
a page of a dossier leads nowhere), and lines of comment, which are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

from sudare.errors import UnknownName

_PACKAGED = Path(__file__).with_name("proofs")
_IN_CHECKOUT = Path(__file__).resolve().parents[3] / "proofs"


def proof_text(name: str) -> str:
    """The Markdown of one proof. Raise UnknownName where this installation does not have it."""
    for folder in (_PACKAGED, _IN_CHECKOUT):
        path = folder / f"{name}.md"
        if re.fullmatch(r"[a-z0-9_]+", name) and path.is_file():
            return path.read_text("utf-8")
    raise UnknownName(
        f"This installation has no proof called '{name}'.",
        "Install sudare from a wheel or a checkout, which both hold proofs/.",
    )


def proof_html(name: str) -> str:
    """One proof as HTML that can stand in a page: every character of it escaped."""
    return "\n".join(_blocks(proof_text(name).splitlines()))


def _blocks(lines: list[str]) -> Iterator[str]:
    place = 0
    while place < len(lines):
        line = lines[place]
        if line.startswith("```"):
            end = next((i for i in range(place + 1, len(lines)) if lines[i].startswith("```")), len(lines))
            yield f"<pre>{escape(chr(10).join(lines[place + 1 : end]))}</pre>"
            place = end + 1
        elif heading := re.match(r"(#{1,4}) (.*)", line):
            level = len(heading[1]) + 1
            yield f"<h{level}>{_inline(heading[2])}</h{level}>"
            place += 1
        elif line.startswith("|"):
            end = _end(lines, place, lambda each: each.startswith("|"))
            yield _table(lines[place:end])
            place = end
        elif re.match(r"(- |\d+\. )", line):
            end = _end(lines, place, lambda each: bool(each.strip()))
            yield _list(lines[place:end])
            place = end
        elif not line.strip() or re.fullmatch(r"<!--.*-->", line.strip()):
            place += 1
        else:
            end = _end(
                lines, place, lambda each: bool(each.strip()) and not re.match(r"(\||```|#{1,4} |- |\d+\. )", each)
            )
            yield f"<p>{_inline(' '.join(lines[place:end]))}</p>"
            place = max(end, place + 1)


def _end(lines: list[str], place: int, belongs: Callable[[str], bool]) -> int:
    """Where a block that begins at `place` ends."""
    return next((i for i in range(place + 1, len(lines)) if not belongs(lines[i])), len(lines))


def _list(lines: list[str]) -> str:
    tag = "ul" if lines[0].startswith("- ") else "ol"
    items: list[str] = []
    for line in lines:
        if re.match(r"\s*(- |\d+\. )", line):
            items.append(re.sub(r"^\s*(- |\d+\. )", "", line))
        else:
            items[-1] += f" {line.strip()}"
    return f"<{tag}>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</{tag}>"


def _table(lines: list[str]) -> str:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    head, *body = [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    first = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    others = "".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in body)
    return f"<div class=wide><table><thead><tr>{first}</tr></thead><tbody>{others}</tbody></table></div>"


def _inline(text: str) -> str:
    """Code first: nothing within it is anything but code."""
    pieces = re.split(r"`([^`]+)`", text)
    return "".join(
        f"<code>{escape(piece)}</code>" if place % 2 else _emphasis(piece) for place, piece in enumerate(pieces)
    )


def _emphasis(text: str) -> str:
    text = escape(re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", text)).replace("\\|", "|")
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<![\w*])\*(?!\s)([^*]+?)\*(?![\w*])", r"<em>\1</em>", text)
