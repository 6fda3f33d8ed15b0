"""Answers: one JSON object that any reader can parse, and progress only where somebody watches."""

from __future__ import annotations

import json
import math

import pytest
from rich.table import Table
from rich.text import Text

from sudare.cli.command_output import answer, progress, tell_error
from sudare.cli.demo import _duration
from sudare.safe_text import is_printable


def test_json_has_no_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    answer({"inf": math.inf, "least": -math.inf, "nan": math.nan, "deep": ({"x": math.inf},), "ε": 1.0}, True)
    told = capsys.readouterr().out
    assert json.loads(told, parse_constant=pytest.fail) == {
        "inf": "inf", "least": "-inf", "nan": "nan", "deep": [{"x": "inf"}], "ε": 1.0,
    }  # fmt: skip
    assert "ε" in told


def test_text_is_not_markup_and_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[bold]account[/bold] " + "long " * 60
    answer({}, False, text)
    assert capsys.readouterr().out == text + "\n"


@pytest.mark.parametrize("mark", ["\x1b[2J", "\x9b1A", "\x7f", "\u202e", "\u200b", "\u2028", "\r", "\b", "\ue000"])
def test_nothing_but_what_can_be_printed_reaches_a_terminal(mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name")
    table.add_row(Text(f"a{mark}b"))
    table.add_row(f"[bold]a{mark}b[/bold]")
    answer({}, False, f"a{mark}b\nc", table, Text(f"a{mark}b"))
    answer({"name": f"a{mark}b", f"a{mark}b": 1}, True)
    tell_error("SchemaError", f"a{mark}b", "Do.", 11, False)
    tell_error("SchemaError", f"a{mark}b", "Do.", 11, True)
    told = "".join(capsys.readouterr())
    assert all(map(is_printable, told.replace("\n", "")))
    assert "[bold]" in told
    assert json.loads(next(line for line in told.splitlines() if line.startswith("{")))["name"] == f"a{mark}b"


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell_error("SchemaError", "a\nb", "Do.", 11, False)
    assert capsys.readouterr().err.splitlines()[0] == "SchemaError: a\\nb Do."


@pytest.mark.parametrize("as_json", [False, True])
def test_progress_is_silent_where_nobody_watches(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(as_json) as tell:
        tell("reading")
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress(False) as tell:
        tell("reading the table")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err != ""


@pytest.mark.parametrize(("seconds", "text"), [(3.14, "3.1 s"), (59.4, "59.4 s"), (131.0, "2 min 11 s")])
def test_durations(seconds: float, text: str) -> None:
    assert _duration(seconds) == text
