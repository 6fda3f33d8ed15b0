"""Answers: one JSON object that any reader can parse, and progress only where somebody watches."""

from __future__ import annotations

import json
import math

import pytest

from sudare.cli.answers import answer, progress
from sudare.cli.demo import _duration


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
