"""Names that can be shown, and escapes for what cannot."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.text import (
    FORMULA_STARTS,
    escaped_for_terminal,
    escaped_in_json,
    is_printable,
    name_fault,
    normal_name,
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
