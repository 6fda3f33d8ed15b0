"""What a page says that its places do not, and which of its numbers have none."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.page_numbers import (
    constants,
    dictionaries,
    linear_models,
    other_pages,
    panel,
    records_and_statistics,
    sums_and_scale,
)
from benchmarks.page_numbers.pages import Number, numbers
from benchmarks.page_numbers.places import Found, Told, found

SETTINGS: Final = Path(__file__).with_name("settings.toml")
ABOUT: Final = (constants, dictionaries, linear_models, panel, records_and_statistics, sums_and_scale, other_pages)


def all_told() -> list[Told]:
    """Every sentence that is bound to a place."""
    return [each for about in ABOUT for each in about.all_told()]


def declared(page: str) -> list[str]:
    """Pieces of a page whose numbers are no results, or are held by another test."""
    return [piece for pieces in settings().values() for piece in pieces.get(page, ())]


@cache
def settings() -> dict[str, dict[str, Any]]:
    """What is declared, by kind and page."""
    return tomllib.loads(SETTINGS.read_text("utf-8"))


def places(text: str, told: Iterable[Told]) -> tuple[list[Found], list[str]]:
    """Where sentences of a page stand, and which are not there."""
    standing, missing = [], []
    for each in told:
        try:
            standing.append(found(each, text))
        except LookupError as error:
            missing.append(str(error))
    return standing, missing


def without_place(
    text: str, standing: Sequence[Found], pieces: Iterable[str], is_proof: bool
) -> tuple[list[Number], list[str]]:
    """Numbers that are neither bound nor declared; and declared pieces that do not stand on the page exactly once, that nothing needs, or that hold a bound number."""
    bound = [(each.start, each.end) for each in standing]
    told = [number for each in standing for number in each.numbers]
    loose = [each for each in numbers(text, is_proof) if not _is_within(each, bound)]
    needless = []
    for piece in pieces:
        spans = [(match.start(), match.end()) for match in literally(piece).finditer(text)]
        left = [each for each in loose if not _is_within(each, spans)]
        if len(spans) != 1 or len(left) == len(loose) or any(_is_within(each, spans) for each in told):
            needless.append(f"{len(spans)} times {piece!r}")
        loose = left
    return loose, needless


def _is_within(number: Number, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= number.start and number.end <= end for start, end in spans)


def problems(page: str, text: str, told: Sequence[Told], pieces: Sequence[str]) -> list[str]:
    """Everything that is wrong with the numbers of a page."""
    standing, missing = places(text, told)
    wrong = [message for each in standing for message in each.wrong(text)]
    loose, needless = without_place(text, standing, pieces, page.startswith("proofs/"))
    return [
        *missing,
        *wrong,
        *(f"{page}:{line_of(text, each)}: {each.text} has no place: … {context(text, each)} …" for each in loose),
        *(f"{page}, declared in settings.toml and needless or not once there: {piece}" for piece in needless),
    ]


def by_page(told: Iterable[Told]) -> Mapping[str, list[Told]]:
    """Sentences by the page on which they stand."""
    sorted_out: dict[str, list[Told]] = {}
    for each in told:
        sorted_out.setdefault(each.page, []).append(each)
    return sorted_out


def line_of(text: str, number: Number) -> int:
    """The line on which a number stands, from 1."""
    return text.count("\n", 0, number.start) + 1


def context(text: str, number: Number) -> str:
    """A number with the words around it on its line."""
    first = max(text.rfind("\n", 0, number.start) + 1, number.start - 60)
    last = text.find("\n", number.end)
    return text[first : min(last if last >= 0 else len(text), number.end + 40)]


def literally(piece: str) -> re.Pattern[str]:
    """A piece wherever its lines end, and not as a part of a longer number."""
    words = r"\s+".join(map(re.escape, piece.split()))
    begins = r"(?<![\d.,])" if piece[:1].isdigit() else r"(?<!\d)" if piece.startswith(".") else ""
    return re.compile(begins + words + (r"(?!\d|[.,]\d)" if piece[-1:].isdigit() else ""))
