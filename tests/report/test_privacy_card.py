"""Cards call weak guarantees weak, and answer what a lawyer asks."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sudare.report.privacy_card import (
    Card,
    ReadBesides,
    card_of,
    card_rows,
    card_text,
    columns_text,
    computed_from,
    how_to_read_epsilon,
    strength_of,
    sureness,
)

CARD = Card(
    what="PrivateMean: 2 numbers (mean)",
    epsilon=1.0,
    delta=1e-6,
    neighbours="replace-one",
    unit="record",
    notion="central",
    towards="everyone",
    valid=True,
    rows=812,
    columns=["age", "bmi"],
    account="patients",
    entry=3,
    ledger="0123456789abcdef" * 2,
    signature="trusted",
    signed_by="d858 20fc",
    digest="e5" * 32,
    schema_digest="ae" * 32,
    versions={"sudare": "0.1.0", "opendp": "0.16.0"},
)


@pytest.mark.parametrize(
    ("epsilon", "word"),
    [(0.1, "strong"), (1.0, "strong"), (1.01, "moderate"), (3.0, "moderate"), (3.01, "weak"), (10.0, "weak"), (10.01, "very weak")],
)  # fmt: skip
def test_public_scale(epsilon: float, word: str) -> None:
    strength = strength_of(epsilon)
    assert strength.word == word
    assert strength.is_weak == ("weak" in word)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"epsilon": math.inf, "notion": "none"}, "none"),
        ({"epsilon": 0.1, "valid": False}, "not valid"),
        ({"epsilon": 0.1, "notion": "parameter"}, "very weak"),
        ({"epsilon": 0.1, "delta": 1e-3, "rows": 1000}, "very weak"),
    ],
)
def test_what_a_small_epsilon_does_not_repair(arguments: dict[str, object], word: str) -> None:
    strength = strength_of(**arguments)  # type: ignore[arg-type]
    assert strength.word == word
    assert strength.is_weak


def test_delta_below_one_in_rows_leaves_the_scale() -> None:
    assert strength_of(0.1, 1e-6, rows=1000).word == "strong"


@given(st.floats(min_value=0.01, max_value=30))
def test_sureness_is_what_bayes_gives(epsilon: float) -> None:
    # Equal priors, likelihood ratio e^ε.
    assert sureness(epsilon) == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + 1))


def test_the_card_prints_what_a_lawyer_asks() -> None:
    text = card_text(CARD)
    for answer in (
        "ε = 1.0, δ = 1e-6: strong",
        "74 % sure at most",
        "content of one record (replace-one)",
        "everyone",
        "1 in 1,000,000",
        "number of rows (812), which is public",
        "account “patients”, entry 3 of ledger 01234567",
        "by a key you trust, fingerprint d858 20fc",
        "opendp 0.16.0, sudare 0.1.0",
        "above 10 very weak",
        "“age”, “bmi”",
    ):
        assert answer in text


def test_an_unchecked_signature_is_called_that() -> None:
    assert "NOT CHECKED against a key you trust" in card_text(replace(CARD, signature="unchecked"))


def test_other_relations_and_notions() -> None:
    rows = dict(card_rows(replace(CARD, neighbours="add-remove", rows=None, unit="person", delta=0.0, notion="local")))
    assert "one has one person's rows more" in rows["holds between"]
    assert rows["protects"].startswith("every person")
    assert rows["exceptions"] == "none (δ = 0)"
    assert rows["guarantee"].startswith("local ε = 1.0, δ = 0")
    assert "number of rows" not in rows["not protected"]


def test_no_guarantee_is_no_number() -> None:
    rows = dict(card_rows(replace(CARD, epsilon=math.inf, notion="none", delta=0.0)))
    assert rows["guarantee"] == "none: none (exact values are shown)"


def test_a_bare_card_leaves_out_what_it_does_not_know() -> None:
    labels = dict(card_rows(replace(CARD, versions={}, schema_digest=None, digest=None)))
    assert not {"made with", "schema", "file"} & set(labels)


@pytest.mark.parametrize(("epsilon", "factor"), [(1.0, "2.719"), (5.0, "149"), (20.0, "10^9")])
def test_epsilon_in_words(epsilon: float, factor: str) -> None:
    assert f"at most {factor} times" in how_to_read_epsilon(epsilon)


def test_a_card_from_a_manifest() -> None:
    manifest = {
        "learner": "PrivateMean",
        "parameters": {"rows": 812, "columns": [["age", {}], ["bmi", {}]]},
        "guarantee": {
            "epsilon": 1.0, "delta": 1e-6, "neighbours": "replace-one", "unit": "record",
            "notion": "central", "towards": "everyone", "valid": True,
        },
        "receipt": {"account": "patients", "position": 3, "ledger": CARD.ledger, "hash": "00"},
        "schema": CARD.schema_digest,
        "versions": CARD.versions,
    }  # fmt: skip
    made = card_of(manifest, {"mean": 2}, signature="trusted", signed_by=CARD.signed_by, digest=CARD.digest)
    assert made == CARD


def test_a_card_says_what_it_is_given_to_say() -> None:
    remarks = (("arithmetic", "floating-point noise"), ("accepted", "says next to nothing"))
    rows = dict(card_rows(replace(CARD, remarks=remarks)))
    assert rows["arithmetic"] == "floating-point noise"
    assert rows["accepted"] == "says next to nothing"
    assert not {"arithmetic", "accepted"} & set(dict(card_rows(CARD)))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (
            {"person": {"column": "id", "most_rows": 5}},
            "at most 5 rows a person; further rows of a person were left out",
        ),
        ({"person": {"column": "id", "most_rows": 1}}, "at most 1 row a person; further"),
        ({"person": {"column": "id", "most_rows": "auto", "largest": 9}}, "at most 9 rows a person"),
        (
            {"person": {"column": "id", "most_rows": 3, "largest": 9, "spent": 0.06}},
            "chosen privately; noise has ε = 0.06 less",
        ),
        ({"person": None, "slice": {"month": "1", "site": "n"}}, "the rows with “month” = “1” and “site” = “n”"),
        (
            {"person": {"column": "id", "most_rows": 5}, "slice": {"month": "1"}},
            "“month” = “1”; of these at most 5 rows a",
        ),
    ],
)
def test_what_is_not_about_all_rows_says_so(parameters: dict[str, object], said: str) -> None:
    ((label, text),) = computed_from(parameters)
    assert label == "computed from"
    assert said in text
    assert computed_from({"person": None}) == []


def test_the_card_in_japanese_has_the_same_rows_in_columns_of_a_terminal() -> None:
    english, japanese = card_rows(CARD), card_rows(CARD, "ja")
    assert len(english) == len(japanese)
    assert all(re.search(r"[ぁ-んァ-ヶ一-龯]", label) for label, _ in japanese)
    told = dict(japanese)
    assert told["守られる単位"] == "各レコード。複数のレコードを持つ人の保護は、それだけ弱くなります"
    assert "強い" in told["保証"] or "中程度" in told["保証"] or "弱い" in told["保証"]
    starts = {
        cell_len(line[: line.index(text)])
        for line, (_, text) in zip(card_text(CARD, "ja").splitlines(), japanese, strict=True)
    }
    assert len(starts) == 1


def test_a_class_that_means_none_does_not_read_as_no_class() -> None:
    card = replace(CARD, besides=ReadBesides(classes=("なし", "あり")))
    assert "a label column, which the file does not name (classes “なし”, “あり”)" in columns_text(card)
    assert "ラベルの列（列名はファイルにありません。クラスは「なし」、「あり」）" in columns_text(card, "ja")
