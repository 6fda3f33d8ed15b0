"""`sudare budget`: show, raise, verify, head, export, backup."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest

from sudare.privacy import Ledger
from tests.cli.conftest import FIT_MEAN, Sudare


def test_budget_alone_shows_every_account(house: Path, sudare: Sudare) -> None:
    alone, shown = sudare("budget"), sudare("budget", "show")
    assert alone.stdout == shown.stdout
    line = "patients  ████░░░░░░░░░░░  ε 0.5 of 2.0   δ 0 of 1e-6   3 entries   chain intact\n"
    assert alone.stdout == line


def test_one_account_with_its_entries(house: Path, sudare: Sudare) -> None:
    shown = sudare("budget", "show", "patients").stdout
    assert "PrivateMean" in shown
    assert [line.split()[1] for line in shown.splitlines()[2:]] == ["open", "charge", "release"]


def test_show_as_json(house: Path, sudare: Sudare) -> None:
    for command in (("budget", "--json"), ("budget", "show", "--json"), ("budget", "show", "patients", "--json")):
        values = sudare(*command).values
        (account,) = values["accounts"]
        assert account["spent"] == {"epsilon": 0.5, "delta": 0.0}
        assert account["budget"] == {"epsilon": 2.0, "delta": 1e-6}
        assert account["remaining"] == {"epsilon": 1.5, "delta": 1e-6}
    assert len(values["entries"]) == account["entries"] == 3


def test_the_ledger_can_come_from_the_environment(house: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch) -> None:
    (house / "ledger.db").rename(house / "elsewhere.db")
    monkeypatch.setenv("SUDARE_LEDGER", "elsewhere.db")
    assert sudare("budget").exit_code == 0
    assert sudare("budget", "--ledger", "ledger.db").exit_code == 45


def test_an_empty_ledger_says_so(house: Path, sudare: Sudare) -> None:
    Ledger("empty.db")
    assert "No account yet" in sudare("budget", "--ledger", "empty.db").stdout


def test_showing_never_creates_a_ledger(house: Path, sudare: Sudare) -> None:
    for command in ("show", "verify", "head", "export"):
        assert sudare("budget", command, "--ledger", "none.db").exit_code == 45
    assert sudare("budget", "backup", "copy.db", "--ledger", "none.db").exit_code == 45
    assert not (house / "none.db").exists()


def test_an_option_before_the_subcommand_is_not_ignored(house: Path, sudare: Sudare) -> None:
    refused = sudare("budget", "--ledger", "other.db", "raise", "patients", "--reason", "x", "--epsilon", 3)
    assert refused.exit_code == 2
    assert "after 'raise'" in refused.stderr


def test_raise_is_recorded_with_its_reason(house: Path, sudare: Sudare) -> None:
    raised = sudare("budget", "raise", "patients", "--epsilon", 4, "--reason", "the second study")
    assert raised.exit_code == 0
    assert "ε 2.0, δ 1e-6 → ε 4.0, δ 1e-6" in raised.stdout
    assert "weak" in raised.stdout
    assert "the second study" in sudare("budget", "show", "patients").stdout
    assert sudare("budget", "--json").values["accounts"][0]["budget"]["epsilon"] == 4.0


def test_raise_as_json(house: Path, sudare: Sudare) -> None:
    values = sudare("budget", "raise", "patients", "--delta", 1e-5, "--reason", "x", "--json").values
    assert values["before"]["budget"]["delta"] == 1e-6
    assert values["after"]["budget"]["delta"] == 1e-5
    assert values["dry_run"] is False


def test_a_dry_run_of_raise_changes_nothing(house: Path, sudare: Sudare) -> None:
    before = (house / "ledger.db").read_bytes()
    told = sudare("budget", "raise", "patients", "--epsilon", 4, "--reason", "x", "--dry-run")
    assert "→ ε 4.0" in told.stdout
    assert "nothing was changed" in told.stdout
    assert sudare("budget", "raise", "patients", "--epsilon", 1, "--reason", "x", "--dry-run").exit_code == 10
    assert (house / "ledger.db").read_bytes() == before
    assert sorted(path.name for path in house.glob("*.db*")) == ["ledger.db"]


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (["patients", "--epsilon", 1, "--reason", "less"], 10),
        (["patients", "--reason", "nothing named"], 10),
        (["patients", "--epsilon", 4, "--reason", " "], 10),
        (["nobody", "--epsilon", 4, "--reason", "x"], 35),
        (["patients", "--epsilon", "nan", "--reason", "x"], 32),
        (["patients", "--epsilon", 4], 2),
    ],
)
def test_raises_that_are_refused(house: Path, sudare: Sudare, words: list[object], exit_code: int) -> None:
    before = (house / "ledger.db").read_bytes()
    assert sudare("budget", "raise", *words).exit_code == exit_code
    assert (house / "ledger.db").read_bytes() == before


def test_verify_with_heads_and_receipts(house: Path, sudare: Sudare) -> None:
    assert "cannot be noticed without" in sudare("budget", "verify").stdout
    assert sudare("budget", "head", "-o", "head.json").exit_code == 0
    found = sudare("budget", "verify", "--head", "head.json", "--receipt", "mean.sudare")
    assert "intact and contains 2 known points" in found.stdout
    assert sudare("budget", "verify", "--head", "head.json", "--json").values["known_points"] == 1


def test_a_rollback_is_noticed(house: Path, sudare: Sudare) -> None:
    sudare("budget", "backup", "older.db")
    second = sudare(*FIT_MEAN, "-o", "second.sudare", "--key", "key.pem")
    assert second.exit_code == 0
    sudare("budget", "head", "-o", "head.json")
    (house / "older.db").replace(house / "ledger.db")
    assert sudare("budget", "verify").exit_code == 0
    assert sudare("budget", "verify", "--head", "head.json").exit_code == 42
    assert sudare("budget", "verify", "--receipt", "second.sudare").exit_code == 42


def test_an_edit_is_noticed(house: Path, sudare: Sudare) -> None:
    with sqlite3.connect(house / "ledger.db") as connection:
        connection.execute("UPDATE entries SET time = 'now' WHERE position = 2")
    connection.close()
    assert sudare("budget", "verify").exit_code == 41
    assert sudare("budget").exit_code == 41


def test_a_file_that_is_no_head(house: Path, sudare: Sudare) -> None:
    (house / "no.json").write_text("{}")
    refused = sudare("budget", "verify", "--head", "no.json")
    assert refused.exit_code == 10
    assert "'no.json' is not a head" in refused.stderr
    assert sudare("budget", "verify", "--receipt", "table.parquet").exit_code == 51


def test_head_is_json_in_any_case(house: Path, sudare: Sudare) -> None:
    assert json.loads(sudare("budget", "head").stdout) == sudare("budget", "head", "--json").values
    assert sudare("budget", "head").stdout.count("\n") == 1


def test_export(house: Path, sudare: Sudare) -> None:
    as_json = json.loads(sudare("budget", "export").stdout)
    as_csv = list(csv.DictReader(io.StringIO(sudare("budget", "export", "--format", "csv").stdout)))
    assert len(as_json) == len(as_csv) == 4
    assert [entry["hash"] for entry in as_json] == [entry["hash"] for entry in as_csv]
    assert sudare("budget", "export", "--json").values["entries"] == as_json
    assert sudare("budget", "export", "-o", "out.json", "--json").values == {"output": "out.json", "entries": 4}
    assert json.loads((house / "out.json").read_text()) == as_json


def test_nothing_is_overwritten(house: Path, sudare: Sudare) -> None:
    (house / "mine.txt").write_text("mine")
    for command in (("export", "-o", "mine.txt"), ("head", "-o", "mine.txt"), ("backup", "mine.txt")):
        assert sudare("budget", *command).exit_code == 10
    assert (house / "mine.txt").read_text() == "mine"


def test_backup(house: Path, sudare: Sudare) -> None:
    made = sudare("budget", "backup", "copy.db", "--json")
    assert made.values == {"output": "copy.db", "last_entry": 3}
    assert sudare("budget", "--ledger", "copy.db").stdout == sudare("budget").stdout
