"""Names that can be shown, and escapes for what cannot."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.safe_text import (
    FORMULA_STARTS,
    LONGEST_COMPOSED,
    UNSEEN,
    composed,
    escaped_for_terminal,
    escaped_in_json,
    is_printable,
    looks_like_a_value,
    looks_measured,
    name_fault,
    normal_name,
    quoted,
    spreadsheet_safe,
    text_fault,
)

FORBIDDEN = (
    "\n",
    "\r",
    "\t",
    "\x1b",
    "\x7f",
    "\x9b",
    "\u200b",
    "\u202e",
    "\u2066",
    "\u2028",
    "\u2029",
    "\ufeff",
    "\ue000",
)


@pytest.mark.parametrize(
    "name", ["age", "体重　kg", "naïve", "blood pressure (mmHg)", "a=b", "[bold]", "Größe", "x" * 256]
)
def test_names_of_columns_pass(name):
    assert name_fault(name) is None


@pytest.mark.parametrize("mark", FORBIDDEN)
def test_controls_and_invisible_marks_do_not(mark):
    assert "control character" in str(name_fault(f"a{mark}b"))
    assert "control character" in str(text_fault(f"a{mark}b"))
    assert escaped_for_terminal(f"a{mark}b").isprintable()


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (1, "not text"), ("", "empty"), ("  ", "empty"), (" a", "blanks around"), ("a\u3000", "blanks around"),
        ("e\u0301", "accents"), ("x" * 257, "longer"), ("a" + " " * 4 + "b", "blanks in a row"), ("\ud800", "control"),
    ],
)  # fmt: skip
def test_other_faults_are_named(name, fault):
    assert fault in str(name_fault(name))


@pytest.mark.parametrize("character", sorted(UNSEEN))
def test_letters_that_nobody_sees_are_refused_and_escaped(character):
    assert "invisible mark" in str(name_fault(f"a{character}b"))
    assert escaped_for_terminal(f"a{character}b").isascii()


@pytest.mark.parametrize("name", ["葛\U000e0100城", "❤\ufe0f", "ที่อยู่", "שָׁלוֹם", "Việt", "a\u0316\u0317\u0318\u0319"])
def test_marks_of_living_languages_pass(name):
    assert name_fault(normal_name(name)) is None


@pytest.mark.parametrize("name", ["\u0316", "\u0338a", "\ufe0fa", "a" + "\u0316" * 5, "a" + "\u0489" * 200])
def test_marks_without_a_letter_or_in_heaps_do_not(name):
    assert "mark that belongs to a letter" in str(name_fault(name))


@given(st.text())
def test_nothing_but_a_short_text_is_composed(text):
    assert composed(text) == unicodedata.normalize("NFC", text)
    longer = "e\u0301" * LONGEST_COMPOSED
    assert composed(longer) == longer


@pytest.mark.parametrize(
    ("cell", "is_measured"),
    [
        ("37", True), ("-1.5e3", True), ("1,200", True), ("12 %", True), ("2026-01-02", True), ("True", True), ("12:30", True),
        ("inf", True), ("-", False), ("NA", False), ("none", False), ("low", False), ("", False), ("Na", False),
        ("1" * 1000, True), ("1" * 1000 + "x", False),
    ],
)  # fmt: skip
def test_what_is_measured_speaks_for_a_name_above_it(cell, is_measured):
    assert looks_measured(cell) is is_measured


def test_sodium_is_a_name():
    assert not looks_like_a_value("Na")
    assert looks_like_a_value("NA")
    assert looks_like_a_value("na")


@pytest.mark.parametrize("separator", [";", "|", "\t"])
@pytest.mark.parametrize("formula", ["=1+1", ' "=1+1"', "@SUM(A1)", "＝1"])
def test_a_separator_begins_no_formula(separator, formula):
    safe = spreadsheet_safe(f"a{separator}{formula}")
    for part in safe.replace("\\t", "\t").split(separator):
        assert not part.lstrip('"\t ').startswith(FORMULA_STARTS)
    assert spreadsheet_safe("a; b|c, d=e") == "a; b|c, d=e"


def test_a_text_may_be_empty_but_must_be_text():
    assert text_fault("") is None
    assert text_fault(b"x") == "is not text"


@given(st.text())
def test_a_normal_name_is_normal(text):
    assert normal_name(normal_name(text)) == normal_name(text)
    assert unicodedata.is_normalized("NFC", normal_name(text))


@given(st.text(st.characters()))
def test_what_is_escaped_can_be_printed(text):
    assert all(map(is_printable, escaped_for_terminal(text)))
    assert all(map(is_printable, escaped_for_terminal(text, keep="\n").replace("\n", "")))
    document = json.dumps({text: text}, ensure_ascii=False)
    assert all(map(is_printable, escaped_in_json(document)))
    assert json.loads(escaped_in_json(document)) == {text: text}


@given(st.sampled_from(["", " ", "\t", "\n", "\u3000"]), st.sampled_from(FORMULA_STARTS), st.text())
def test_no_cell_begins_a_formula(blank, start, rest):
    cell = spreadsheet_safe(f"{blank}{start}{rest}")
    assert not cell.lstrip().startswith(FORMULA_STARTS) or float(cell) is not None


@pytest.mark.parametrize("cell", ["-1.5", "+3", "1e-6", "-.5", "0", "age", "", "2026-01-02", "x=1"])
def test_numbers_and_words_stay(cell):
    assert spreadsheet_safe(cell) == cell


@pytest.mark.parametrize(("language", "begin", "end"), [("en", "“", "”"), ("ja", "「", "」")])
@given(name=st.text(alphabet="a'\"“”„‟＂〝〞〟″「」『』｢｣﹁﹂‘’", max_size=12))
def test_no_name_closes_the_marks_it_stands_in(language, begin, end, name):
    shown = quoted(name, language)
    assert shown.startswith(begin)
    assert shown.endswith(end)
    assert not set(shown[1:-1]) & set('"“”„‟＂〝〞〟″「」｢｣﹁﹂')
    assert len(shown) == len(name) + 2


@pytest.mark.parametrize("mark", ["ʺ", "״", "˝", "❠", "''", "’’", "´´", "'\""])
def test_no_name_closes_its_marks_by_what_looks_like_them(mark):
    shown = quoted(f"age{mark}. Nobody can be found in this file")
    assert mark not in shown
    assert shown.count("'") == 1


def test_other_names_stand_as_they_are():
    assert quoted("patient's age") == "“patient's age”"
    assert quoted("患者の「年齢」", "ja") == "「患者の『年齢』」"
    assert quoted('the "age"') == "“the 'age'”"
