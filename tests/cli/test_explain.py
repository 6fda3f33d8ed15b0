"""`sudare explain`: every error and every word can be looked up without a checkout."""

from __future__ import annotations

from typing import Any

import pytest

from sudare.errors import every_error
from sudare.glossary import TERMS


@pytest.mark.parametrize("error", list(every_error()), ids=lambda error: error.__name__)
def test_every_error_is_explained_by_name_and_by_code(error: Any, sudare: Any) -> None:
    by_name = sudare("explain", error.__name__)
    assert by_name.exit_code == 0
    assert error.help in by_name.stdout
    by_code = sudare("explain", str(error.exit_code), "--json").values
    assert by_code["exit_code"] == error.exit_code
    assert sudare("explain", error.__name__.lower(), "--json").values["error"] == error.__name__


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_every_word_is_explained_in_both_languages(term: Any, sudare: Any) -> None:
    for word in (term.name, term.name.upper(), term.japanese):
        told = sudare("explain", word)
        assert told.exit_code == 0
        assert term.meaning in told.stdout
        assert term.japanese_meaning in told.stdout


def test_codes_of_no_error_symbols_and_all_words(sudare: Any) -> None:
    assert "did what was asked" in sudare("explain", "0").stdout
    assert "--help" in sudare("explain", "2").stdout
    assert sudare("explain", "ε", "--json").values["name"] == "epsilon"
    listed = sudare("explain", "--json").values
    assert len(listed["words"]) == len(TERMS)
    assert listed["errors"]["InvalidParameter"] == 10
    assert "予算" in sudare("explain", "プライバシー予算").stderr


def test_an_unknown_word_is_refused_with_near_ones(sudare: Any) -> None:
    told = sudare("explain", "treshold")
    assert told.exit_code != 0
    assert "threshold" in told.stderr
    assert "Words are: 'account'" in sudare("explain", "zzzz").stderr


@pytest.mark.parametrize("word", ["x", "secure sun", "prvacy budget", "treshold"])
def test_an_unknown_word_is_refused_in_japanese_alone(word: str, sudare: Any) -> None:
    told = sudare("--lang", "ja", "explain", word)
    assert told.exit_code != 0
    assert "Words are" not in told.stderr
    assert "Did you mean" not in told.stderr


def test_the_list_of_words_and_the_code_of_faults_are_told_in_japanese(sudare: Any) -> None:
    told = sudare("--lang", "ja", "explain").stdout
    assert "用語：" in told
    assert "エラー：" in told
    assert "Words" not in told
    assert sudare("explain", "1", "--json").values["exit_code"] == 1
