"""The vocabulary: one word for one thing."""

from __future__ import annotations

from sudare.glossary import TERMS


def test_words_are_different_and_in_order() -> None:
    names = [term.name for term in TERMS]
    assert names == sorted(set(names))
    assert len({term.japanese for term in TERMS}) == len(TERMS)


def test_every_word_has_a_meaning_in_both_languages() -> None:
    for term in TERMS:
        assert term.meaning.endswith(".")
        assert term.japanese_meaning.endswith("。")
        assert term.japanese_meaning.isascii() is False
