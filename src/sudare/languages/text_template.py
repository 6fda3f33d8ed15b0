"""Texts with gaps: which gaps a template has, the pattern of all texts it makes, and how it is filled.

`{name}` is a gap. `{row|rows}` stands for one of the words, where English needs a plural and the other language does not.
`{{` and `}}` are braces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_QUOTES: Final = ("'", '"', "`")
_CALLED_AFTER_NAMES: Final = ("name", "names", "column", "columns")


def tokens(template: str) -> Iterator[tuple[str, str]]:
    """The template in pieces: ("text", …), ("gap", its name) or ("choice", words between bars)."""
    at = 0
    for found in _TOKEN.finditer(template):
        if at < found.start():
            yield "text", template[at : found.start()]
        name = found.group(1)
        if name is None:
            yield "text", found.group()[0]
        else:
            yield ("choice" if "|" in name else "gap"), name
        at = found.end()
    if at < len(template):
        yield "text", template[at:]


def gaps(template: str) -> set[str]:
    """The names of its gaps."""
    return {piece for kind, piece in tokens(template) if kind == "gap"}


def literal_text(template: str) -> str:
    """All that stands outside gaps; of words to choose from, the longest."""
    return "".join(
        piece if kind == "text" else max(piece.split("|"), key=len) for kind, piece in tokens(template) if kind != "gap"
    )


def is_exact(template: str) -> bool:
    """Whether the template makes one text only."""
    return all(kind == "text" for kind, _ in tokens(template))


def pattern(template: str) -> re.Pattern[str]:
    """What matches the texts that the template makes; a gap that comes twice holds the same both times.

    A gap ends where the text after it comes first, and this is not tried again: time is in proportion to the text, whoever wrote it.
    """
    parts, seen, was_gap = [""], set[str](), False
    comes_twice = False
    for kind, piece in tokens(template):
        is_new_gap = kind == "gap" and piece not in seen
        if is_new_gap and not was_gap:
            parts.append("")
        if kind == "text":
            parts[-1] += re.escape(piece)
        elif kind == "choice":
            words = sorted(piece.split("|"), key=len, reverse=True)
            parts[-1] += f"(?:{'|'.join(map(re.escape, words))})"
        elif is_new_gap:
            seen.add(piece)
            parts[-1] += f"(?P<{piece}>.*?)"
        else:
            comes_twice = True
            parts[-1] += f"(?P={piece})"
        was_gap = is_new_gap
    # The last part ends with the text. Where a gap comes twice, what it first holds may have to be longer.
    if not comes_twice:
        parts[1:-1] = [f"(?>{part})" for part in parts[1:-1]]
    return re.compile("".join(parts), re.DOTALL)


def quoted_gaps(template: str) -> set[str]:
    """Gaps between quotation marks, or anywhere in what is to be typed: what stands there is a name that somebody gave, or a word of the shell."""
    pieces = list(tokens(template))
    around = zip([("text", ""), *pieces], pieces, [*pieces[1:], ("text", "")], strict=False)
    found, backticks = set[str](), 0
    for before, (kind, name), after in around:
        if kind == "text":
            backticks += name.count("`")
        elif kind == "gap":
            is_quoted = before[1].endswith(_QUOTES) and after[1].startswith(before[1][-1])
            if is_quoted or backticks % 2:
                found.add(name)
    return found


def name_gaps(template: str) -> set[str]:
    """Gaps that are called after names or columns: a single word that stands there is a name that somebody gave."""
    return {gap for gap in gaps(template) if gap.rstrip("0123456789") in _CALLED_AFTER_NAMES}


def filled(template: str, values: Mapping[str, object]) -> str:
    """The template with the values in its gaps; of words to choose from, the last. Between wide letters a blank beside a gap is left out."""
    found = ""
    was_gap = False
    for kind, piece in tokens(template):
        told = piece if kind == "text" else str(values[piece]) if kind == "gap" else piece.split("|")[-1]
        if (was_gap or kind == "gap") and _is_wide(found.removesuffix(" ")[-1:]) and _is_wide(told.lstrip(" ")[:1]):
            found, told = found.removesuffix(" "), told.removeprefix(" ")
        found, was_gap = found + told, kind == "gap"
    return found


def _is_wide(letter: str) -> bool:
    """Whether a letter is a kana, a kanji or of full width; none is not."""
    return bool(letter) and unicodedata.east_asian_width(letter) in "WF"
