"""The commands of docs/shell.md, one after the other, as a person would type them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sudare.cli.main import app
from tests.cli.conftest import command_tree, invoked

PAGE = Path(__file__).resolve().parents[2] / "docs" / "shell.md"


def typed() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_every_command_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_PASSPHRASE", "correct horse")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
    for line in typed():
        words = shlex.split(line)
        assert words[0] == "sudare"
        done = invoked(*words[1:])
        assert done.exit_code == 0, (line, done.output)
    assert (tmp_path / "scored.parquet").exists()


def test_every_command_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    commands = command_tree(app).commands  # type: ignore[attr-defined]
    assert [name for name in commands if f"sudare {name}" not in text] == []
