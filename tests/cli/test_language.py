"""Commands in Japanese: where it is asked for, in all that people are told, and in nothing that programs read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from sudare.cli import language
from sudare.cli.language import Speech, lang_option, spoken_table, wrapped
from sudare.cli.main import app
from sudare.glossary import TERMS
from tests.cli.conftest import invoked

JAPANESE = re.compile(r"[ぁ-んァ-ヶ一-龯]")


@pytest.mark.parametrize(
    "words",
    [
        ("--lang", "ja", "budget", "show", "--ledger", "none.db"),
        ("budget", "--lang", "ja", "show", "--ledger", "none.db"),
        ("budget", "show", "--ledger", "none.db", "--lang=ja"),
    ],
)
def test_the_option_stands_anywhere_on_the_line(words: tuple[str, ...]) -> None:
    told = invoked(*words)
    assert told.exit_code == 45
    assert "'none.db' に台帳はありません。" in told.stderr
    assert "`sudare explain LedgerMissing` もご覧ください" in told.stderr


@pytest.mark.parametrize(
    "environment", [{"SUDARE_LANG": "ja"}, {"SUDARE_LANG": "", "LC_ALL": "", "LC_MESSAGES": "", "LANG": "ja_JP.UTF-8"}]
)
def test_the_environment_decides_without_it(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert "台帳はありません" in invoked("budget", "show", "--ledger", "none.db").stderr
    assert "There is no ledger" in invoked("budget", "show", "--ledger", "none.db", "--lang", "en").stderr


def test_json_is_translated_only_where_the_line_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja")
    words = ("budget", "show", "--ledger", "none.db", "--json")
    english = invoked(*words).values["error"]
    japanese = invoked(*words, "--lang", "ja").values["error"]
    assert english["problem"] == "There is no ledger at 'none.db'."
    assert japanese["problem"] == "'none.db' に台帳はありません。"
    assert english.keys() == japanese.keys()
    assert english["exit_code"] == japanese["exit_code"]


@pytest.mark.parametrize(("language", "said"), [("en", "with a budget (--budget)."), ("ja", "（--budget）。")])
def test_a_missing_ledger_is_told_in_words_of_the_shell(language: str, said: str) -> None:
    told = " ".join(invoked("budget", "show", "--ledger", "none.db", "--lang", language).stderr.split())
    assert said in told
    assert "Python" not in told
    assert "epsilon" not in told


def test_a_language_that_is_not_spoken_is_refused() -> None:
    assert invoked("--lang", "xx", "demo").exit_code == 2


def test_arguments_after_two_hyphens_are_left_alone() -> None:
    assert lang_option(["a", "--lang", "ja", "--", "--lang", "en"]) == (["--lang", "ja"], ["a", "--", "--lang", "en"])
    assert lang_option(["--lang"]) == (["--lang"], [])


def commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All commands below a group."""
    below = getattr(group, "commands", {})
    return [path, *(found for name, command in below.items() for found in commands(command, (*path, name)))]


def test_help_of_every_command_is_japanese_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli.conftest import command_tree

    monkeypatch.setenv("COLUMNS", "80")
    english = invoked("budget", "--help").stdout
    for path in commands(command_tree(app)):
        told = invoked(*path, "--help", "--lang", "ja").stdout
        assert told.startswith("使い方: ")
        assert JAPANESE.search(told.split("\n\n")[1]), path
        assert "この説明を表示して終わります。" in told
        assert not re.search(r"\b(the|Without|repeated|Usage|Options)\b", told), (path, told)
        assert all(cell_len(line) <= 80 for line in told.splitlines() if JAPANESE.search(line)), path
    invoked("--lang", "ja", "--help")
    assert invoked("budget", "--help").stdout == english, "a tree of commands that spoke Japanese speaks English again"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("budget", "show", "--bogus"), "オプション --bogus はありません"),
        (("no-such-command",), "コマンド 'no-such-command' はありません。"),
        (("inspect",), "引数 'FILE' がありません。"),
        (("audit", "list", "--samples", "x"), "整数として読めません"),
    ],
)
def test_lines_that_are_not_understood(words: tuple[str, ...], said: str) -> None:
    told = invoked(*words, "--lang", "ja")
    assert told.exit_code == 2
    assert said in told.stderr
    assert "使い方: " in told.stderr
    assert "で使い方が見られます。" in told.stderr
    assert "Usage" not in told.stderr


@pytest.mark.parametrize("term", TERMS[:5], ids=lambda term: term.name)
def test_words_are_explained_in_japanese_alone(term: Any) -> None:
    told = invoked("explain", term.name, "--lang", "ja").stdout
    assert told.splitlines() == [f"{term.japanese} ({term.name})", term.japanese_meaning]


def test_errors_are_explained_in_japanese() -> None:
    told = invoked("explain", "31", "--lang", "ja").stdout
    assert "BudgetExceeded（終了コード 31）" in told
    assert "対処：口座の残りが足りません。" in told


def test_tables_are_translated_but_for_single_words() -> None:
    token = language._SPEECH.set(Speech("ja", asked=True))
    try:
        table = Table("task", "reason", title="No account yet.")
        table.add_row(Text("member"), Text("two statements"))
        shown = spoken_table(table)
        assert [column.header for column in shown.columns] == ["タスク", "理由"]
        assert [cell.plain for column in shown.columns for cell in column.cells] == ["member", "二つの表明"]  # type: ignore[union-attr]
        assert shown.title == "口座はまだありません。"
    finally:
        language._SPEECH.reset(token)


def test_lines_end_between_wide_letters_and_never_before_a_closing_mark() -> None:
    assert wrapped("あいうえお、かき", 10) == ["あいうえ", "お、かき"]
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("", 10) == []
    assert all(cell_len(line) <= 20 for line in wrapped("台帳のファイル ledger.db を開けません。" * 5, 20))
