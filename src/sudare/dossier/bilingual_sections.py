"""Texts in two languages, and the shape of a statement that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sudare.languages import Language


class Text(NamedTuple):
    """One text in both languages."""

    en: str
    ja: str

    def in_language(self, language: Language) -> str:
        """The text as a reader of this language has it."""
        return self.ja if language == "ja" else self.en


@dataclass(frozen=True)
class Row:
    """A question, or the heading of a standard, and what holds for this file."""

    heading: Text
    answer: Text


@dataclass(frozen=True)
class Section:
    """A part of a statement: an opening sentence, then headed answers."""

    name: str
    title: Text
    opening: Text
    rows: Sequence[Row] = ()
    # Questions that only a person can answer, printed with a box to tick.
    questions: Sequence[Text] = ()
    # A text that is meant to be copied, and published by whoever answers for it.
    to_publish: Text | None = None
