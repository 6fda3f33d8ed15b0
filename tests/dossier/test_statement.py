"""What a dossier says of every kind of release, in both languages."""

from __future__ import annotations

import re

import pytest

from sudare.dossier.bilingual_sections import Text
from sudare.dossier.promise_texts import STRENGTH_IN_JAPANESE
from sudare.dossier.release_product_kinds import PRODUCTS
from sudare.dossier.statement import KIND, NO_ADVICE, sections_of
from sudare.dossier.statement_facts import Facts
from tests.dossier.made_up_facts import PROMISES, Promise, made_up_facts

JAPANESE = re.compile(r"[ぁ-んァ-ン一-龥]")
WORKS_OF = {"nist": 7, "iso": 4, "gdpr": 3, "appi": 4}


def texts_of(facts: Facts) -> list[Text]:
    """All texts of a statement."""
    found = []
    for section in sections_of(facts):
        found += [section.title, section.opening, *section.questions]
        found += [text for row in section.rows for text in (row.heading, row.answer)]
        found += [] if section.to_publish is None else [section.to_publish]
    return found


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("learner", PRODUCTS)
def test_every_release_is_stated_in_both_languages(learner: str, promise: Promise) -> None:
    facts = made_up_facts(learner, promise)
    sections = {section.name: section for section in sections_of(facts)}
    assert [*sections] == ["what", "nist", "iso", "gdpr", "appi", "limits", "decide"]
    assert {name: len(sections[name].rows) for name in WORKS_OF} == WORKS_OF
    for text in texts_of(facts):
        assert text.en.strip()
        assert text.ja.strip()
        assert "  " not in text.en
        if not re.fullmatch(r"[\x00-\x7f]*。", text.ja):
            assert JAPANESE.search(text.ja), text.ja
        assert not JAPANESE.search(text.en.replace("統計情報", "").replace("個人情報保護法", "")), text.en


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("learner", PRODUCTS)
def test_numbers_and_words_are_those_of_the_release(learner: str, promise: Promise) -> None:
    facts = made_up_facts(learner, promise)
    rows = {row.heading.en: row.answer for section in sections_of(facts) for row in section.rows}
    parameters = rows["privacy parameters ε and δ"]
    assert facts.strength.word == promise.word
    for text in parameters:
        assert f"ε = {promise.epsilon:g}" in text or f"ε = {promise.epsilon}" in text
    assert parameters.en.lower().find(promise.word) >= 0
    assert STRENGTH_IN_JAPANESE[promise.word] in parameters.ja
    unit = rows["unit of privacy"]
    assert unit.en.startswith("A person" if promise.unit == "person" else "A record")
    assert unit.ja.startswith("個人" if promise.unit == "person" else "レコード")
    assert promise.neighbours in unit.en
    assert ("一件置換" if promise.neighbours == "replace-one" else "追加・削除") in unit.ja
    assert ("the number of rows" in rows) == (promise.neighbours == "replace-one")
    assert ("somebody with several records" in rows) == (promise.unit == "record")


@pytest.mark.parametrize("learner", PRODUCTS)
def test_weak_guarantees_support_no_anonymity(learner: str) -> None:
    for promise in PROMISES:
        rows = {
            row.heading.en: row.answer
            for section in sections_of(made_up_facts(learner, promise))
            for row in section.rows
        }
        is_weak = promise.word in ("weak", "very weak")
        assert ("does not support" in rows["recital 26: anonymous information"].en) == is_weak
        if PRODUCTS[learner].kind != "perturbed":
            assert ("not excluded by the guarantee alone" in rows["statistical information (統計情報)"].en) == is_weak


@pytest.mark.parametrize("learner", PRODUCTS)
def test_what_the_file_is(learner: str) -> None:
    facts = made_up_facts(learner, PROMISES[0])
    sections = {section.name: section for section in sections_of(facts)}
    assert sections["what"].opening == KIND[PRODUCTS[learner].kind]
    is_rows = learner == "RecordPerturbation"
    published = sections["appi"].to_publish
    assert (published is not None) == is_rows
    if published is not None:
        assert "age、bmi" in published.ja
        assert "第43条第3項及び第4項" in published.ja
    about = {row.heading.en: row.answer for row in sections["appi"].rows}
    assert about["statistical information (統計情報)"].en.startswith("No:") == is_rows


def test_rows_that_were_not_shuffled_have_no_statement_about_linking() -> None:
    from dataclasses import replace

    facts = made_up_facts("RecordPerturbation", PROMISES[0])
    assert facts.linking is not None
    unshuffled = replace(facts, linking=replace(facts.linking, k=None, shuffled=False, central_epsilon=None))
    answers = [row.answer.en for section in sections_of(unshuffled) for row in section.rows]
    assert any("no statement about linking" in text for text in answers)
    assert any("linking a row to somebody is not bounded" in text for text in answers)


def test_it_says_that_it_is_no_advice() -> None:
    assert "not legal advice" in NO_ADVICE.en
    assert "法的助言ではなく" in NO_ADVICE.ja
