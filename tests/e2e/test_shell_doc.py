"""The commands of docs/shell.md, one after the other, as a person would type them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sudare.cli.main import app
from tests.cli.conftest import command_tree, invoked
from tests.languages.english_left import english_left

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


# Beside the page's own: prices that are refused, wrong words, other kinds, and commands about accounts.
MORE = (
    "sudare fit table visits.csv --schema visits.toml --by ward --variance-of stay --quantile-of age --epsilon 0.05 --dry-run",
    "sudare fit quantiles visits.csv --schema visits.toml --epsilon 0.02 --quantile 0.1,0.9 --dry-run",
    "sudare fit scaler visits.csv --schema visits.toml --epsilon 0.5 --dry-run",
    "sudare fit additive visits.csv --schema visits.toml --epsilon 1 --dry-run",
    "sudare fit network visits.csv --schema visits.toml --epsilon 1 --delta 1e-6 --dry-run",
    "sudare fit mean visits.csv --schema visits.toml --epsilon 99 --dry-run",
    "sudare fit mean visits.csv --schema visits.toml --epsilon 0.1 --delta 1e-3 --dry-run",
    "sudare fit mean visits.csv --schema visits.toml --epsilon 99 --key key.pem -o no.sudare",
    "sudare fit mean visits.csv --schema visits.toml --epsilon 1 --by ward",
    "sudare fit table visits.csv --schema visits.toml --by nowhere --epsilon 1 --dry-run",
    "sudare fit mean nothing.csv --schema visits.toml --epsilon 1 --dry-run",
    "sudare synthesize visits.csv --schema visits.toml --epsilon 1 --account visits --dry-run",
    "sudare perturb visits.csv --schema visits.toml --k 2 --account visits --dry-run",
    "sudare budget show", "sudare budget verify", "sudare budget raise visits --epsilon 9 --reason more --dry-run",
    "sudare budget close visits --reason done --dry-run", "sudare budget raise visits --epsilon 1 --reason less",
    "sudare inspect records.sudare", "sudare inspect risk.sudare --dossier dossier",
    "sudare report --account visits --output report.html", "sudare report wards.sudare --output numbers.html",
    "sudare schema draft visits.csv", "sudare key show key.pem", "sudare export wards.sudare --onnx wards.onnx",
    "sudare predict wards.sudare new.csv", "sudare show nothing.sudare", "sudare show key.pem",
    "sudare risk sums --members 10 --dishonest 2 --threshold 7", "sudare page --dry-run",
    "sudare request list", "sudare status",
)  # fmt: skip


def test_every_command_of_the_page_speaks_japanese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished answers as they come, put together of parts: none has a word of English but names."""
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_PASSPHRASE", "correct horse")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
    left = {}
    for line in (*typed(), *MORE):
        told = invoked("--lang", "ja", *shlex.split(line)[1:]).output
        assert re.search("[ぁ-んァ-ヶ]", told), line
        if found := english_left(told):
            left[line] = found
    assert left == {}


def test_every_command_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    commands = command_tree(app).commands  # type: ignore[attr-defined]
    assert [name for name in commands if f"sudare {name}" not in text] == []
