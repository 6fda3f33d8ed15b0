"""Texts in other languages than English. English texts in the source are the keys; `languages/ja/*.toml` says each in Japanese."""

from __future__ import annotations

from sudare.languages.translation import (
    LANGUAGES,
    Language,
    language_in_use,
    translated,
    translator,
    with_translated_comments,
)

__all__ = ["LANGUAGES", "Language", "language_in_use", "translated", "translator", "with_translated_comments"]
