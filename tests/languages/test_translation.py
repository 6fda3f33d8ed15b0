"""The language that is used, and finished texts in it."""

from __future__ import annotations

import time

import pytest

from sudare.languages import language_in_use, translated, translator
from sudare.languages.text_template import filled, gaps, literal_text, pattern, tokens
from sudare.languages.translation import _LONGEST_TEXT, _MOST_PARTS, _Catalogue, _catalogue, _Translation
from tests.languages.english_left import english_left

CATALOGUE = _Catalogue(
    {
        "There is no folder for '{output}'.": "'{output}' を置くフォルダがありません。",
        "Make it first.": "先に作ってください。",
        "{count} {row|rows} of {what} were read.": "{what}の{count}行を読みました。",
        "the table": "表",
        "{problem} Nothing was charged.": "{problem}課金はしていません。",
        "{name} is not there.": "{name} がありません。",
        "{name} is not there, but {name} was named.": "{name} は名前だけで、ありません。",
        "A brace: {{}}": "波括弧: {{}}",
    }
)


@pytest.mark.parametrize(
    ("english", "japanese"),
    [
        ("There is no folder for 'a/b.sudare'.", "'a/b.sudare' を置くフォルダがありません。"),
        ("1 row of the table were read.", "表の1行を読みました。"),
        ("a is not there, but a was named.", "a は名前だけで、ありません。"),
        ("There is no folder for 'x'. Make it first.", "'x' を置くフォルダがありません。先に作ってください。"),
        ("There is no folder for 'the table'.", "'the table' を置くフォルダがありません。"),
        ("Make it first. Nothing was charged.", "先に作ってください。課金はしていません。"),
        ("A brace: {}", "波括弧: {}"),
    ],
)
def test_a_finished_text_is_found_by_its_template(english: str, japanese: str) -> None:
    assert CATALOGUE.translated(english, 4) == japanese


def test_prose_that_is_no_text_of_ours_is_not_moved_about_in_a_sentence() -> None:
    assert CATALOGUE.translated("7 rows of the file were read.", 4) is None


def test_a_line_of_the_budget_says_its_own_numbers() -> None:
    line = translated("loans  ███░  ε 4.0 of 20.0   δ 0 of 1e-5   10 entries", "ja")
    assert line == "loans  ███░  ε 20.0 のうち 4.0   δ 1e-5 のうち 0   記載 10 件"


def test_a_value_of_a_request_is_not_taken_for_a_sentence_without_its_first_word() -> None:
    assert translated("  by = 病棟", "ja") == "  by = 病棟"
    assert translated("approved by aiko", "ja") == "aiko により承認"


def test_a_guarantee_at_the_end_of_a_sentence_is_told_whole() -> None:
    guarantee = "ε = 1, δ = 0, replace-one person, towards everyone"
    told = "ε = 1、δ = 0、一件置換（個人）、すべての人に対して"
    assert translated(f"Guarantee: {guarantee}.", "ja") == f"保証：{told}。"
    assert translated(f"Wrote m.onnx; its guarantee: {guarantee}.", "ja") == f"m.onnx に書きました。保証：{told}。"
    assert (
        translated("Computed from: at most 3 rows a person; further rows of a person were left out.", "ja")
        == "計算の対象：個人ごとに最大 3 行。それを超える行は除きました。"
    )


def test_a_command_between_backticks_stays_what_is_to_be_typed() -> None:
    assert translated("`sudare fit mean` has no --by.", "ja") == "`sudare fit mean` に --by はありません。"


def test_a_text_that_no_template_makes_is_left_as_it_is() -> None:
    assert CATALOGUE.translated("Something else", 4) is None
    assert translated("Zyx wvu tsr.", "ja") == "Zyx wvu tsr."
    assert translated("x" * 100_000, "ja") == "x" * 100_000


def test_english_stays_english_and_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.languages.translation._catalogue", lambda language: pytest.fail("read a catalogue"))
    assert translated("Make it first.", "en") == "Make it first."
    assert translator("en")("a {b} {c|d}", b=1) == "a 1 d"


@pytest.mark.parametrize(
    ("option", "environment", "language"),
    [
        (None, {}, "en"),
        ("ja", {"LANG": "en_GB.UTF-8"}, "ja"),
        ("en", {"SUDARE_LANG": "ja", "LANG": "ja_JP.UTF-8"}, "en"),
        (None, {"SUDARE_LANG": "ja", "LC_ALL": "C"}, "ja"),
        (None, {"LC_ALL": "ja_JP.UTF-8", "LANG": "C"}, "ja"),
        (None, {"LC_ALL": "C", "LANG": "ja_JP.UTF-8"}, "en"),
        (None, {"LC_ALL": "", "LC_MESSAGES": "ja", "LANG": "C"}, "ja"),
        (None, {"LANG": "ja_JP.UTF-8"}, "ja"),
        (None, {"LANG": "jam_JM"}, "en"),
        (None, {"LANG": "fr_FR"}, "en"),
    ],
)
def test_option_then_variable_then_locale_decide(
    option: str | None, environment: dict[str, str], language: str
) -> None:
    assert language_in_use(option, environment) == language


def test_templates() -> None:
    assert gaps("{a} {b|c} {{d}} {a}") == {"a"}
    assert literal_text("x {a} y {b|cd}z") == "x  y cdz"
    assert pattern("{a}-{a}").fullmatch("1-1")
    assert not pattern("{a}-{a}").fullmatch("1-2")
    assert filled("{a} {b|c} {{d}}", {"a": 1}) == "1 c {d}"


def test_sentences_of_a_remedy_are_told_one_by_one() -> None:
    remedy = "Use at least 11 members. Or let at most 2 leave."
    assert translated(remedy, "ja") == "参加組織を 11 以上にしてください。または、離脱を 2 以下にしてください。"


@pytest.mark.parametrize("column", ["count", "mean", "noise", "person"])
def test_columns_that_are_called_like_our_words_stay_as_they_are(column: str) -> None:
    assert translated(f"means of {column}", "ja") == f"{column} の各平均"
    assert translated(f"The table lacks {column}.", "ja") == f"表に {column} がありません。"
    assert translator("ja")("mean of {column}", column=column) == f"{column} の平均"


@pytest.mark.parametrize(("name", "told"), [("年齢", "年齢の平均"), ("age", "age の平均"), ("", " の平均")])
def test_no_blank_stands_between_wide_letters_of_a_name_and_a_sentence(name: str, told: str) -> None:
    assert filled("{name} の平均", {"name": name}) == told


def test_blanks_inside_names_and_templates_stay() -> None:
    assert filled("表 {name} は {kind} で", {"name": "支店 別", "kind": "数値"}) == "表支店 別は数値で"


def test_english_in_a_japanese_text_is_found() -> None:
    assert english_left("台帳は intact です。") == []
    assert english_left("合意書 'two clinics' は `sudare status` で。sudare fit table a.csv --by ward") == []
    assert english_left("費用は ε = 1 です。It would be refused.") == ["It would be refused"]
    assert english_left("days kept の平均", names=["days kept"]) == []


def test_a_text_of_many_parts_is_looked_up_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody wrote is in messages, too: a name of a few hundred letters took ten seconds."""
    looked_up = []
    plain = _Translation._looked_up

    def counted(self: _Translation, text: str, depth: int) -> str | None:
        looked_up.append((text, depth))
        return plain(self, text, depth)

    monkeypatch.setattr(_Translation, "_looked_up", counted)
    same = "ab; cd. ef: gh  ij\n" * (_LONGEST_TEXT // 20)
    assert translated(same, "ja") == same
    assert len(looked_up) == len(set(looked_up)) < 200
    looked_up.clear()
    different = "; ".join(f"ab{number:x}. cd{number:x}" for number in range(700))[:_LONGEST_TEXT]
    assert translated(different, "ja") == different
    assert len(looked_up) <= _MOST_PARTS


def test_no_template_is_compared_with_a_text_for_long() -> None:
    """Each gap could end at many places: all of them together were tried, which took minutes for a name of 250 letters."""
    patterns = [(template, pattern(template)) for template in _catalogue("ja").templates if len(gaps(template)) > 2]
    began = time.process_time()
    for template, compiled in patterns:
        pieces = [piece for kind, piece in tokens(template) if kind == "text"]
        inner = pieces[1:-1] or pieces
        for again in ("".join(inner), min(inner, key=len)):
            compiled.fullmatch(f"{pieces[0]}{''.join(inner)}{again * 60}!")
    assert time.process_time() - began < 10


def test_a_gap_ends_where_the_text_after_it_comes_first() -> None:
    found = pattern("{first} of {second}{third} is {count} {row|rows}.").fullmatch("a of b of c is d is 2 rows.")
    assert found is not None
    assert found.groupdict() == {"first": "a", "second": "", "third": "b of c", "count": "d is 2"}
