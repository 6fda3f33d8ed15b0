"""Numbers in running text and tables written by hand are those of committed results, digit by digit."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from benchmarks.page_numbers import checks, linear_models, places
from benchmarks.page_numbers.__main__ import leaves, proposed, shortest_piece
from benchmarks.page_numbers.pages import numbers, pages
from benchmarks.page_numbers.places import Told, agrees, down, found, result, rewritten, row, told, up, written
from benchmarks.peers import ROOT

PAGES = {str(path.relative_to(ROOT)): path for path in pages()}


@pytest.fixture(scope="module")
def everything() -> dict[str, list[Told]]:
    """Sentences by the page on which they stand."""
    return dict(checks.by_page(checks.all_told()))


def problems(page: str, text: str, everything: dict[str, list[Told]]) -> list[str]:
    """What is wrong with the numbers of a page, if this were its text."""
    return checks.problems(page, text, everything.get(page, []), checks.declared(page))


def test_every_number_of_every_page_has_its_place(everything: dict[str, list[Told]]) -> None:
    assert set(everything) <= set(PAGES)
    wrong = [each for page, path in PAGES.items() for each in problems(page, path.read_text("utf-8"), everything)]
    assert not wrong, (
        "Run python -m benchmarks.page_numbers, which proposes places; CONTRIBUTING.md says how to add a number."
    )


def test_a_changed_digit_of_any_bound_number_is_noticed(everything: dict[str, list[Told]]) -> None:
    unnoticed = []
    for page, sentences in everything.items():
        text = PAGES[page].read_text("utf-8")
        for each in (found(sentence, text) for sentence in sentences):
            for number, value in zip(each.numbers, each.values, strict=True):
                for place, digit in product(range(len(number.text)), "0123456789"):
                    changed = number.text[:place] + digit + number.text[place + 1 :]
                    if number.text[place].isdigit() and changed != number.text and agrees(changed, value):
                        unnoticed.append((page, number.text, changed))
    assert not unnoticed


def test_a_changed_digit_or_a_new_number_of_any_page_is_noticed(everything: dict[str, list[Told]]) -> None:
    for page, path in PAGES.items():
        text = path.read_text("utf-8")
        assert problems(page, f"{text}\n\nIt took 12.5 seconds.\n", everything), page
        every = numbers(text, page.startswith("proofs/"))
        for number in every[:: max(1, len(every) // 2)]:
            last = number.end - 1
            changed = f"{text[:last]}{(int(text[last]) + 1) % 10}{text[number.end :]}"
            assert problems(page, changed, everything), f"{page}: {number.text}"


def test_a_changed_result_is_noticed_and_written(
    everything: dict[str, list[Told]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, page = "benchmarks/additive_boosting.json", "docs/linear.md"
    text = PAGES[page].read_text("utf-8")
    line = "| 1 | 1e-06 | 0.8617 |"
    assert line in text
    again = result.__wrapped__(name)
    again["adult"]["additive, ε = 1, δ = 1e-06"]["mean"][0] = 0.8717
    monkeypatch.setattr(linear_models, "result", lambda asked: again if asked == name else result(asked))
    today = {page: [each for each in linear_models.all_told() if each.page == page]}
    others = [each for each in everything[page] if each not in today[page]]
    standing, missing = checks.places(text, today[page])
    assert not missing
    assert [message for each in standing for message in each.wrong(text)]
    now = rewritten(text, standing)
    assert now == text.replace(line, "| 1 | 1e-06 | 0.8717 |")
    assert not [message for each in checks.places(now, today[page])[0] for message in each.wrong(now)]
    assert len(others) < len(everything[page])


def test_what_is_not_bound_is_a_setting_or_held_by_a_test_that_is_there() -> None:
    assert set(checks.settings()) == {"settings", "held_by_tests"}
    listed = checks.settings()["held_by_tests"]
    assert set(listed) <= set(PAGES)
    assert all((ROOT / test).is_file() for pieces in listed.values() for test in pieces.values())


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("It took 3.5 s, of .25 and 1,024 rows, at 1e-6.", ["3.5", ".25", "1,024", "1e-6"]),
        ("ε = 1, δ = 1e-6 and SHA-256 with float32", ["1"]),
        ("`code 7` and [a link](page7.md) and\n```\n12 lines\n```\n", []),
        ("<!-- part: written by a command -->\n8 rows\n<!-- end of part -->\n9 rows", ["9"]),
        ("Figure 3, eqs. (1.2) and (1.3), step 4, (Ide 2021), [7], version 0.6.6, 10⁻⁶", []),
        ("27 of 30 cases, 95 % of 120 MB", ["27", "30", "95", "120"]),
        ("五回のうち 95 は 40.4 ms 未満", ["95", "40.4"]),
    ],
)
def test_numbers_that_are_looked_at(text: str, seen: list[str]) -> None:
    assert [number.text for number in numbers(text)] == seen


def test_a_proof_is_looked_at_where_it_measures() -> None:
    text = "Let n be 7.\nMeasured with 8 rows it takes the factor 9.\nIt needs 12 ms."
    assert [number.text for number in numbers(text, is_proof=True)] == ["8", "9", "12"]


@pytest.mark.parametrize(
    ("token", "value", "right"),
    [
        (".98", 0.976, True),
        (".98", 0.985, False),
        ("0.976", 0.976, True),
        ("1,000", 1000, True),
        ("12", 11.5, True),
        ("12", 12.5, False),
        ("1e-7", 1.2e-7, True),
        ("2e-7", 1.2e-7, False),
        (".01", up(0.0041), True),
        (".01", up(0.0141), False),
        ("75", down(75.9), True),
        ("76", down(75.9), False),
        ("-.27", -0.2711, True),
        (".27", -0.2711, False),
    ],
)
def test_rounding(token: str, value: places.Value, right: bool) -> None:
    assert agrees(token, value) is right


def test_a_value_is_written_as_the_number_that_was_there() -> None:
    assert [written(0.1234, like) for like in (".98", "0.98", "7", "0.9876")] == [".12", "0.12", "0", "0.1234"]
    assert [written(12345.6, like) for like in ("1,024", "120", "1.5")] == ["12,346", "12,346", "12,345.6"]
    assert [written(1.26e-7, like) for like in ("3e-6", "3.1e-6")] == ["1e-7", "1.3e-7"]


def test_a_sentence_stands_once_wherever_its_lines_end() -> None:
    text = "Mean R² is .12\nagainst −.34 of ours. It took 7 s."
    assert not found(told("page", "is {} against −{} of ours", 0.12, -0.34), text).wrong(text)
    assert found(told("page", "is {} against −{} of ours", 0.12, 0.34), text).wrong(text)
    assert not found(told("page", "is {1} against −{0} of ours", -0.34, 0.12), text).wrong(text)
    for piece, values in (("took {} minutes", (7,)), ("{}", (1,)), ("took {} s", (7, 8))):
        with pytest.raises(LookupError):
            found(told("page", piece, *values), text)


def test_a_row_is_the_only_one() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 1, "b": 3}]
    assert row(rows, a=1, b=3) == rows[1]
    with pytest.raises(LookupError, match="2 rows have"):
        row(rows, a=1)


def test_places_are_proposed_by_the_words_on_the_way() -> None:
    known = list(
        leaves(
            "x.json", {"rows": [{"table": "breast cancer", "accuracy": 0.784}, {"table": "pima", "accuracy": 0.7841}]}
        )
    )
    assert proposed(".784", "accuracy .784 on Pima, the table", known)[0] == "x.json['rows'][1]['accuracy'] = 0.7841"
    assert proposed(".9", "accuracy .9 on Pima", known) == []


def test_a_piece_for_settings_is_as_short_as_it_can_be_and_stands_once() -> None:
    text = "Of 12 rows in 3 tables\nand of 12 rows in 4 tables."
    pieces = [shortest_piece(text, number) for number in numbers(text)]
    assert pieces == ["Of 12 rows in", "rows in 3 tables", "and of 12 rows in", "rows in 4 tables."]
    assert all(len(checks.literally(piece).findall(text)) == 1 for piece in pieces)


def test_pages_are_all_that_can_be_relied_on_today() -> None:
    assert {
        "README.md",
        "README.ja.md",
        "docs/linear.md",
        "docs/ja/page.md",
        "docs/papers/003.md",
        "proofs/gibbs.md",
    } <= set(PAGES)
    assert all(isinstance(path, Path) and path.is_file() for path in PAGES.values())
