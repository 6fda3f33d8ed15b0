"""What a dossier says of every kind of release, in both languages."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import date

import pytest

from sudare.dossier.bilingual_sections import Text
from sudare.dossier.promise_texts import STRENGTH_IN_JAPANESE
from sudare.dossier.registry_entry import Publication, registry_entry
from sudare.dossier.release_product_kinds import PRODUCTS
from sudare.dossier.statement import KIND, NO_ADVICE, sections_of, whose_word
from sudare.dossier.statement_facts import Facts, Linking
from sudare.report.privacy_card import card_rows
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
        assert "「age」「bmi」" in published.ja
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


def test_it_says_on_whose_word_it_rests() -> None:
    facts = made_up_facts("PrivateMean", PROMISES[0])
    for signature, en, ja in (
        ("trusted", "trusts the key", "信頼する"),
        ("unchecked", "everything below is the word of somebody unknown", "誰とも分からない者"),
    ):
        told = whose_word(replace(facts, card=replace(facts.card, signature=signature)))
        assert "is the word of whoever signed it" in told.en
        assert en in told.en
        assert ja in told.ja


def test_it_says_that_it_is_no_advice() -> None:
    assert "not legal advice" in NO_ADVICE.en
    assert "法的助言ではなく" in NO_ADVICE.ja


def said_in(facts: Facts) -> dict[str, Text]:
    """All answers of a statement by their English headings."""
    return {row.heading.en: row.answer for section in sections_of(facts) for row in section.rows}


def test_values_that_were_found_in_the_records_are_told_wherever_columns_and_contents_are() -> None:
    facts = made_up_facts("GroupedTable", PROMISES[1], keys=["ending"], found=[["died"], ["home"]])
    said = said_in(facts)
    for heading in (
        "contents",
        "computed from",
        "7 Data assessment",
        "declared facts",
        "singling out, linking, inference",
    ):
        assert "ending" in said[heading].en, heading
        assert "ending" in said[heading].ja, heading
    assert "found in the records" in said["declared facts"].en
    assert "レコードの中から" in said["declared facts"].ja
    card = dict(card_rows(facts.card))
    assert "“ending” (values found in the records)" in card["what leaves"]
    assert card["values found in the records"].startswith("2 of “ending”, chosen privately")
    entry = str(registry_entry(facts, Publication(), date(2026, 1, 31)))
    assert "not read from the records" not in entry
    assert "values of “ending” as they stand in the records" in entry


def test_label_and_person_are_among_what_a_model_is_computed_from() -> None:
    facts = made_up_facts("PrivateLogisticRegression", PROMISES[1], target=["no", "yes"])
    for heading in ("computed from", "7 Data assessment"):
        for part in (
            "a label column, which the file does not name (classes “no”, “yes”)",
            "“patient” (whose row it is)",
        ):
            assert part in said_in(facts)[heading].en
        for part in (
            "ラベルの列（列名はファイルにありません。クラスは「no」、「yes」）",
            "「patient」（誰の行かを示す列）",
        ):
            assert part in said_in(facts)[heading].ja
    ridge = made_up_facts("PrivateRidge", PROMISES[0], target={"low": 0.0, "high": 20.0, "residual_cap": 1.0})
    assert "a target column of numbers" in said_in(ridge)["computed from"].en


def test_rows_of_persons_are_those_that_were_kept() -> None:
    said = said_in(made_up_facts("PrivateMean", PROMISES[1]))["the number of rows"]
    assert "rows that were kept" in said.en
    assert "How many rows a person has is not protected" in said.en
    assert "残された行" in said.ja
    assert "kept" not in said_in(made_up_facts("PrivateMean", PROMISES[0]))["the number of rows"].en


@pytest.mark.parametrize("learner", PRODUCTS)
@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_nothing_is_claimed_that_a_weak_guarantee_or_a_name_makes_false(learner: str, promise: Promise) -> None:
    facts = made_up_facts(learner, promise)
    english, japanese = (" ".join(getattr(text, language) for text in texts_of(facts)) for language in ("en", "ja"))
    for claim in (
        "holds no identifier",
        "identifiers are not contained",
        "cannot be collated",
        "not read from the records",
        "declared by a person as public",
    ):
        assert claim not in english
    for claim in ("識別子は含まれず", "識別子は含まない", "人が宣言したものです"):
        assert claim not in japanese
    assert (
        english.count("[check: does any item identify somebody?]")
        == japanese.count("［要確認：個人を識別できる項目はないか］")
        > 0
    )
    if facts.kind == "perturbed":
        assert ("may be close to the record" in english) == facts.strength.is_weak
        assert ("元のレコードに近い" in japanese) == facts.strength.is_weak
        assert ("may be those of a person" in english) == facts.strength.is_weak
        assert ("実在の人のもの" in japanese) == facts.strength.is_weak
    # How sure somebody can become is said with its exception, in both languages equally often.
    exceptions = english.count("but for an exception of probability"), japanese.count("以下の例外（δ）を除く")
    assert exceptions[0] == exceptions[1]
    assert (exceptions[0] > 0) == (promise.delta > 0 and promise.delta * 4000 < 1)


def test_delta_of_several_records_is_that_of_group_privacy() -> None:
    facts = made_up_facts("PrivateMean", Promise(1.0, 1e-6, "record", "replace-one", "strong"))
    assert float(facts.several_records_delta) == pytest.approx(1e-6 * (1 + math.e + math.e**2), rel=0.1)
    assert f"δ = {facts.several_records_delta}" in said_in(facts)["somebody with several records"].en
    assert "δ" not in said_in(made_up_facts("PrivateMean", PROMISES[0]))["somebody with several records"].en


def test_names_of_columns_stand_in_japanese_quotation_marks_in_japanese() -> None:
    # In perturbed rows every column is a number of its own.
    facts = made_up_facts("RecordPerturbation", PROMISES[0])
    card = replace(facts.card, what="RecordPerturbation: 9 numbers (“own car”)", columns=["own car"])
    rows = {row.heading.en: row.answer for row in sections_of(replace(facts, card=card))[0].rows}
    assert rows["contents"].en == "RecordPerturbation: 9 numbers (“own car”)."
    assert rows["contents"].ja == "RecordPerturbation: 数値 9 個（「own car」）。"


def test_repeated_answers_are_said_to_be_found_again_and_their_memory_to_be_additional_information() -> None:
    """Nothing is said of an order of rows, of shuffling, or of nothing that is kept."""
    repeated = {"memory": "0" * 32, "collection": 2, "first": 3}
    plain = made_up_facts("RecordPerturbation", PROMISES[0])
    facts = replace(
        made_up_facts("RecordPerturbation", PROMISES[0], repeated=repeated),
        linking=Linking(None, True, None, 1e-6, True),
    )
    english, japanese = (" ".join(getattr(text, side) for text in texts_of(facts)) for side in ("en", "ja"))
    assert "who takes part in which release is not protected" in english
    assert "where their rows can be found again" in english
    assert (
        "the memory of answers, says under a secret key which person gave which answer: that is additional information"
        in english
    )
    assert "追加情報に当たり" in japanese
    for wrong in ("were not shuffled", "as rows were shuffled", "keeps no additional information"):
        assert wrong not in english
        assert wrong in " ".join(
            text.en
            for each in (plain, replace(plain, linking=Linking(None, False, None, 1e-6)))
            for text in texts_of(each)
        )
    assert facts.is_repeated
    assert not plain.is_repeated
    assert facts.proofs.index("repeated_answers") > 0
    assert facts.linked_with == "100 %"
