"""Sentences whose numbers are bound to places in committed results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any, Final

from benchmarks.page_numbers.pages import Number
from benchmarks.peers import ROOT

_TOKEN: Final = r"(\d+(?:\.\d+){2,}|\d[\d,]*(?:\.\d+)?(?:e-?\d+)?|\.\d+)"


@cache
def result(name: str) -> Any:
    """A committed result: JSON, or a list of the lines of a file of JSON lines."""
    text = (ROOT / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def row(rows: Iterable[dict[str, Any]], **keys: object) -> dict[str, Any]:
    """The one row that has these values. Raise LookupError if none or several have."""
    found = rows_with(rows, **keys)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows have {keys}.")
    return found[0]


def rows_with(rows: Iterable[dict[str, Any]], **keys: object) -> list[dict[str, Any]]:
    """All rows that have these values."""
    return [each for each in rows if all(each[key] == value for key, value in keys.items())]


def study_rows(name: str, title: str) -> list[dict[str, Any]]:
    """Rows of a table of a study, their cells by the heads of the columns."""
    table = _study_table(name, title)
    return [dict(zip(table["columns"], cells, strict=True)) for cells in table["rows"]]


def study(name: str, title: str) -> dict[Any, dict[str, Any]]:
    """The same by the first cell of a row, where it is another in each."""
    return {next(iter(cells.values())): cells for cells in study_rows(name, title)}


def study_says(name: str, title: str) -> str:
    """What a study says below a table."""
    return str(_study_table(name, title)["says"])


def _study_table(name: str, title: str) -> dict[str, Any]:
    return row(result(f"docs/papers/{name}.json")["tables"], title=title)


@dataclass(frozen=True)
class Rounded:
    """A value that a page rounds up ("at most", "less than") or down ("at least")."""

    value: float
    is_up: bool


def up(value: float) -> Rounded:
    """A value that is told as the most that there is."""
    return Rounded(value, is_up=True)


def down(value: float) -> Rounded:
    """A value that is told as the least that there is."""
    return Rounded(value, is_up=False)


# A text is the version of a package, which is no number that could be rounded.
Value = float | Rounded | str


@dataclass(frozen=True)
class Told:
    """A piece of a page with braces for its numbers, and the values of these today.

    Numbers that the piece itself has, such as a level of privacy, are thereby declared. `{1}` stands for the second value, where the order is another one.
    """

    page: str
    piece: str
    values: tuple[Value, ...] = ()


def told(page: str, piece: str, *values: Value) -> Told:
    """A piece of `docs/PAGE.md`, or of the page of that name."""
    return Told(page if page.endswith(".md") else f"docs/{page}.md", piece, values)


@dataclass(frozen=True)
class Found:
    """Where a piece stands on its page, with its numbers and what they should be."""

    start: int
    end: int
    numbers: tuple[Number, ...]
    values: tuple[Value, ...]

    def wrong(self, text: str) -> list[str]:
        """What its numbers say that their values do not."""
        return [
            f"{text[self.start : self.end]!r} says {number.text}, the result {written(value, number.text)} ({value})"
            for number, value in zip(self.numbers, self.values, strict=True)
            if not agrees(_signed(text, number), value)
        ]


def found(each: Told, text: str) -> Found:
    """Where a piece stands. Raise LookupError unless it is on the page exactly once."""
    pattern, places = _pattern(each.piece)
    matches = list(pattern.finditer(text))
    if len(matches) != 1:
        raise LookupError(f"{each.page} has {len(matches)} times {each.piece!r}.")
    (match,) = matches
    if sorted(set(places)) != list(range(len(each.values))):
        raise LookupError(f"{each.page}: {each.piece!r} has other braces than its {len(each.values)} values.")
    spans = range(1, len(places) + 1)
    numbers = tuple(Number(match.start(group), match.end(group), match[group]) for group in spans)
    return Found(match.start(), match.end(), numbers, tuple(each.values[place] for place in places))


@cache
def _pattern(piece: str) -> tuple[re.Pattern[str], tuple[int, ...]]:
    """A piece as a pattern, wherever its lines end, and which value each of its groups is."""
    parts = re.split(r"\{(\d*)\}", piece)
    texts = [r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in parts[::2]]
    places = tuple(int(name) if name else place for place, name in enumerate(parts[1::2]))
    # Neither end may cut a number in two.
    begins = r"(?<![\d.,])" if piece[:1].isdigit() else ""
    ends = r"(?![\d]|[.,]\d)" if piece[-1:].isdigit() or piece.endswith("}") else ""
    return re.compile(begins + _TOKEN.join(texts) + ends), places


def agrees(token: str, value: Value) -> bool:
    """Whether a number as it is written is the value, rounded to as many digits."""
    if isinstance(value, str):
        return token == value
    return Decimal(token.replace(",", "")) == _rounded(value, token)


def written(value: Value, like: str) -> str:
    """A value with as many digits as a number that is there, and with its zero or without."""
    if isinstance(value, str):
        return value
    if "e" in like:
        decimals = len(like.partition("e")[0].partition(".")[2])
        return re.sub(
            r"e([+-])0*", r"e\1", f"{value.value if isinstance(value, Rounded) else value:.{decimals}e}"
        ).replace("e+", "e")
    rounded = abs(_rounded(value, like))
    text = f"{rounded:,}" if "," in like or rounded >= 10_000 else str(rounded)
    return text.removeprefix("0") if like.startswith(".") else text


def rewritten(text: str, places: Iterable[Found]) -> str:
    """A page with the values of today in its sentences; signs stand outside of them, and are left."""
    changed = [
        (number, written(value, number.text))
        for each in places
        for number, value in zip(each.numbers, each.values, strict=True)
        if not agrees(_signed(text, number), value)
    ]
    for number, now in sorted(changed, reverse=True):
        text = text[: number.start] + now + text[number.end :]
    return text


def _rounded(value: float | Rounded, like: str) -> Decimal:
    """A value to the last digit of a number that is there, halves away from zero; without what binary fractions add to the last of many digits."""
    exact = Decimal(f"{value.value if isinstance(value, Rounded) else value:.12g}")
    rounding = ROUND_HALF_UP if not isinstance(value, Rounded) else ROUND_CEILING if value.is_up else ROUND_FLOOR
    return exact.quantize(_step(like), rounding)


def _step(token: str) -> Decimal:
    """What the last written digit is worth."""
    mantissa, _, exponent = token.partition("e")
    return Decimal(1).scaleb(int(exponent or 0) - len(mantissa.partition(".")[2]))


def _signed(text: str, number: Number) -> str:
    """A number with the minus that stands before it, unless that is one of a difference."""
    before = text[max(0, number.start - 2) : number.start]
    return f"-{number.text}" if re.search(r"(?:^|[\s(|/])[−-]$", before) else number.text
