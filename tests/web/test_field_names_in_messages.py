"""Messages of the page name fields of its forms, as the language in use quotes them."""

from __future__ import annotations

import pytest

from sudare.web.field_names_in_messages import field_names_in_messages, page_translator


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Give --epsilon.", "Give “epsilon”."),
        ('`by` names no column to group by. Give for example by=["sex"].', "“by” names no column to group by. Give for example “by” sex."),
        ("Run `sudare request run --epsilon`.", "Run `sudare request run --epsilon`."),
        ("Correct --trusted.", "Correct --trusted."),
    ],
)  # fmt: skip
def test_fields_are_named_as_the_form_names_them(said: str, told: str) -> None:
    assert field_names_in_messages(said) == told


def test_japanese_has_its_own_quotes_and_no_blanks() -> None:
    told = page_translator("ja")("--epsilon must be a number, got 'abc'.")
    assert told == "「epsilon」は数値でなければなりません。指定された値：'abc'。"
