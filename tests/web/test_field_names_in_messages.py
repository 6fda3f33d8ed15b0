"""Messages of the page name fields of its forms, as the language in use quotes them."""

from __future__ import annotations

import pytest

from sudare.languages import Language
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


@pytest.mark.parametrize("language", ["en", "ja"])
def test_what_people_wrote_stays_as_it_is(language: Language) -> None:
    """Only the first entry of a list was shown: the steward saw another purpose than the ledger has."""
    purpose = "see by=[\"ward, and every name\"] with --epsilon 0.001 of '/srv/data/visits.csv'"
    told = page_translator(language, shows_folders=False)
    assert purpose in told("{who} asks: {purpose}", who="ken", purpose=purpose)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Account 'a' pays for '/srv/old/visits.csv', and not for 'visits.csv'.", "Account 'a' pays for 'visits.csv', and not for 'visits.csv'."),
        ("'/visits.csv' cannot be read.", "'visits.csv' cannot be read."),
        ("'/srv/x/../agreement.toml' is not a file.", "'agreement.toml' is not a file."),
        ("Account 'a/b' is closed.", "Account 'a/b' is closed."),
    ],
)  # fmt: skip
def test_folders_are_left_out_where_they_are_not_to_be_shown(said: str, told: str) -> None:
    assert page_translator("en", shows_folders=False)(said) == told
    assert page_translator("en")(said) == said
