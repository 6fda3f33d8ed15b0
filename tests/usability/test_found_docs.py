"""Commands in the documentation exist, with the options that they are shown with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from sudare.cli.main import app
from tests.cli.conftest import command_tree

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "proofs").glob("*.md"))]


def shown_commands(page: Path) -> list[str]:
    """What stands after a prompt, in the walkthrough's scripts, or between backticks, and begins with the program's name."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^```(?:console|bash)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    typed = re.findall(r"(?:^\$ |do |^)(sudare [^;&\n]*)", blocks, re.MULTILINE)
    return [*typed, *re.findall(r"`(sudare [^`]*)`", text)]


def unknown_words(command: Any, words: list[str]) -> list[str]:
    """Words that are no command where one has to be, and options that the command does not take; all take --lang."""
    while words and getattr(command, "commands", None):
        if words[0].startswith("-"):
            break
        if words[0] not in command.commands:
            return [words[0]]
        command, words = command.commands[words[0]], words[1:]
    known = {name for parameter in command.params for name in parameter.opts} | {"-h", "--help", "--lang"}
    return [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_on_the_page_exist(page: Path) -> None:
    whole = command_tree(app)
    wrong = {
        line: found
        for line in shown_commands(page)
        if (found := unknown_words(whole, shlex.split(line.partition("#")[0].replace("…", "x"))[1:]))
    }
    assert wrong == {}


def test_the_search_finds_what_is_wrong() -> None:
    whole = command_tree(app)
    assert unknown_words(whole, ["perturbate"]) == ["perturbate"]
    assert unknown_words(whole, ["perturb", "t.csv", "--kk", "2"]) == ["--kk"]
    assert unknown_words(whole, ["consortium", "join", "a.toml", "--name", "east"]) == []
    assert len(shown_commands(ROOT / "docs" / "consortium.md")) > 5
