"""Every text of the source has one in Japanese, with the same gaps, and is found again when it is finished."""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

from sudare.languages import translated
from sudare.languages.text_template import filled, gaps
from tests.languages.missing import catalogues, missing_texts, stale_entries
from tests.languages.source_texts import SYSTEM_ERRORS

ENTRIES: Final = [
    (room, english, japanese) for room, entries in catalogues().items() for english, japanese in entries.items()
]


def test_every_text_has_one_in_japanese() -> None:
    missing = {room: [text.template for text in texts] for room, texts in missing_texts().items()}
    assert not missing, "see `python -m tests.languages.missing`"


def test_no_entry_is_stale() -> None:
    assert not stale_entries()


def test_no_text_is_in_two_catalogues() -> None:
    assert not [text for text, count in Counter(english for _, english, _ in ENTRIES).items() if count > 1]


def test_gaps_are_the_same_in_both_languages() -> None:
    assert not [english for _, english, japanese in ENTRIES if gaps(english) != gaps(japanese)]


def test_no_entry_is_empty_or_english() -> None:
    assert not [english for _, english, japanese in ENTRIES if japanese in ("", english)]


def test_a_finished_text_finds_its_own_entry() -> None:
    """Gaps hold words that nobody says; another template that made the same text would be found first."""
    confused = []
    for _, english, japanese in ENTRIES:
        values = {gap: f"zq{number}x" for number, gap in enumerate(sorted(gaps(english)))}
        if translated(filled(english, values), "ja") != filled(japanese, values):
            confused.append(english)
    assert not confused


def test_what_the_operating_system_says_is_japanese_within_our_texts() -> None:
    """Every text with a gap for it, and every error that files and connections have, at least once each."""
    texts = [(english, japanese) for _, english, japanese in ENTRIES if "strerror" in gaps(english)]
    assert len(texts) > 20
    for place in range(max(len(texts), len(SYSTEM_ERRORS))):
        english, japanese = texts[place % len(texts)]
        said = os.strerror(SYSTEM_ERRORS[place % len(SYSTEM_ERRORS)])
        values = {gap: f"zq{number}x" for number, gap in enumerate(sorted(gaps(english)))}
        told = translated(filled(english, {**values, "strerror": said}), "ja")
        assert said not in told
        assert told == filled(japanese, {**values, "strerror": translated(said, "ja")})
