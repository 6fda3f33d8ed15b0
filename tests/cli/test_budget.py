"""`sudare budget`: show, raise, verify, head, export, backup."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sqlite3
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.privacy import Guarantee, Ledger
from sudare.privacy.accounting import pure_cost
from sudare.privacy.release import audited, read
from sudare.privacy.release_file import written
from tests.cli.conftest import FIT_MEAN, Sudare


def test_budget_alone_shows_every_account(house: Path, sudare: Sudare) -> None:
    alone, shown = sudare("budget"), sudare("budget", "show")
    assert alone.stdout == shown.stdout
    line = "patients  ████░░░░░░░░░░░  ε 0.5 of 2.0   δ 0 of 1e-6   4 entries   chain intact\n"
    assert alone.stdout == line


def test_one_account_with_its_entries(house: Path, sudare: Sudare) -> None:
    shown = sudare("budget", "show", "patients").stdout
    assert "PrivateMean" in shown
    assert [line.split()[1] for line in shown.splitlines()[2:]] == ["open", "charge", "result", "release"]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_long_name_among_entries_is_broken_and_not_cut_off(
    language: str, house: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "PrivateLogisticRegression"
    Ledger(house / "ledger.db").account("patients").charge(Guarantee(0.1), pure_cost(0.1), name)
    monkeypatch.setenv("COLUMNS", "72")
    shown = sudare("budget", "show", "patients", "--lang", language).stdout
    assert "…" not in shown
    # What stands in the first line of a cell is the beginning, and what stands below it the rest.
    beginning = next(word for word in shown.split() if word.startswith("PrivateL"))
    assert beginning == name or name.removeprefix(beginning) in shown.split()


def test_show_as_json(house: Path, sudare: Sudare) -> None:
    for command in (("budget", "--json"), ("budget", "show", "--json"), ("budget", "show", "patients", "--json")):
        values = sudare(*command).values
        (account,) = values["accounts"]
        assert account["spent"] == {"epsilon": 0.5, "delta": 0.0}
        assert account["budget"] == {"epsilon": 2.0, "delta": 1e-6}
        assert account["remaining"] == {"epsilon": 1.5, "delta": 1e-6}
    assert len(values["entries"]) == account["entries"] == 4


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


def test_closing_an_account(house: Path, sudare: Sudare) -> None:
    before = (house / "ledger.db").read_bytes()
    told = sudare("budget", "close", "patients", "--reason", "the study has ended", "--dry-run")
    assert "nothing was changed" in told.stdout
    assert (house / "ledger.db").read_bytes() == before
    assert sudare("budget", "close", "patients").exit_code == 2
    assert sudare("budget", "close", "patients", "--reason", " ").exit_code == 10
    assert sudare("budget", "close", "nobody", "--reason", "x").exit_code == 35
    closed = sudare("budget", "close", "patients", "--reason", "the study has ended", "--json")
    assert closed.values["after"]["closed"] is True
    assert "the study has ended" in sudare("budget", "show", "patients").stdout
    assert sudare("budget", "raise", "patients", "--epsilon", 9, "--reason", "x").exit_code == 30
    assert sudare("budget", "close", "patients", "--reason", "again").exit_code == 30


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


def test_a_release_that_the_ledger_did_not_enter_is_found(house: Path, sudare: Sudare) -> None:
    """Even one that names a charge of this ledger."""
    release = audited(read(house / "mean.sudare"))
    assert sudare("budget", "verify", "--receipt", "mean.sudare").exit_code == 0
    tensors = {name: tensor + 2 * release.content.grid(name) for name, tensor in release.content.tensors.items()}
    forged = dataclasses.replace(release, content=dataclasses.replace(release.content, tensors=tensors))
    (house / "forged.sudare").write_bytes(written(forged.manifest(), tensors, Ed25519PrivateKey.generate()))
    refused = sudare("budget", "verify", "--receipt", "forged.sudare")
    assert refused.exit_code == 37
    assert "did not enter this content" in refused.stderr


def test_head_is_json_in_any_case(house: Path, sudare: Sudare) -> None:
    assert json.loads(sudare("budget", "head").stdout) == sudare("budget", "head", "--json").values
    assert sudare("budget", "head").stdout.count("\n") == 1


def test_export(house: Path, sudare: Sudare) -> None:
    as_json = json.loads(sudare("budget", "export").stdout)
    as_csv = list(csv.DictReader(io.StringIO(sudare("budget", "export", "--format", "csv").stdout)))
    assert len(as_json) == len(as_csv) == 5
    assert [entry["hash"] for entry in as_json] == [entry["hash"] for entry in as_csv]
    assert sudare("budget", "export", "--json").values["entries"] == as_json
    assert sudare("budget", "export", "-o", "out.json", "--json").values == {"output": "out.json", "entries": 5}
    assert json.loads((house / "out.json").read_text()) == as_json


def test_nothing_is_overwritten(house: Path, sudare: Sudare) -> None:
    (house / "mine.txt").write_text("mine")
    for command in (("export", "-o", "mine.txt"), ("head", "-o", "mine.txt"), ("backup", "mine.txt")):
        assert sudare("budget", *command).exit_code == 10
    assert (house / "mine.txt").read_text() == "mine"


def test_backup(house: Path, sudare: Sudare) -> None:
    made = sudare("budget", "backup", "copy.db", "--json")
    assert made.values == {"output": "copy.db", "last_entry": 4}
    assert sudare("budget", "--ledger", "copy.db").stdout == sudare("budget").stdout


# Restoring


def test_a_backup_is_put_back_with_the_entries_made_since(house: Path, sudare: Sudare) -> None:
    assert sudare("budget", "backup", "backup.db").exit_code == 0
    assert sudare(*FIT_MEAN, "-o", "late.sudare", "--key", "key.pem").exit_code == 0
    assert sudare("budget", "head", "-o", "head.json").exit_code == 0
    assert sudare("budget", "export", "-o", "export.json").exit_code == 0
    before = sudare("budget", "--json").values
    (house / "ledger.db").unlink()
    words = (
        "budget",
        "restore",
        "backup.db",
        "--reason",
        "disk failed",
        "--entries",
        "export.json",
        "--head",
        "head.json",
    )
    rehearsed = sudare(*words, "--dry-run", "--json")
    assert (rehearsed.values["entries_added"], rehearsed.values["closed"]) == (3, [])
    assert not (house / "ledger.db").exists()
    done = sudare(*words, "--receipt", "late.sudare")
    assert done.exit_code == 0, done.stderr
    assert "nothing is lost as far as they tell" in done.stdout
    assert sudare("budget", "--json").values == before
    assert sudare(*words).exit_code == 10, "a ledger is not overwritten"


def test_what_cannot_be_restored_leaves_nothing_that_looks_restored(house: Path, sudare: Sudare) -> None:
    """A copy that was put in place but not closed would be a rollback."""
    assert sudare("budget", "backup", "backup.db").exit_code == 0
    assert sudare("budget", "export", "-o", "export.json").exit_code == 0
    (house / "ledger.db").unlink()
    text = (house / "export.json").read_text()
    (house / "forged.json").write_text(text.replace('"hash": "', '"hash": "0', 1))
    words = ("budget", "restore", "backup.db", "--reason", "disk failed", "--entries")
    assert sudare(*words, "forged.json").exit_code == 42
    assert sudare(*words, "key.pem").exit_code == 10
    assert sudare(*words, "export.json", "--reason", " ").exit_code == 10
    assert not (house / "ledger.db").exists()
    assert sorted(path.name for path in house.iterdir() if path.name.startswith(".")) == []


def test_a_backup_without_them_closes_the_accounts(house: Path, sudare: Sudare) -> None:
    assert sudare("budget", "backup", "backup.db").exit_code == 0
    assert sudare(*FIT_MEAN, "-o", "late.sudare", "--key", "key.pem").exit_code == 0
    (house / "ledger.db").rename(house / "broken.db")
    restore = ("budget", "restore", "backup.db", "--reason", "disk failed", "--receipt", "late.sudare")
    told = sudare(*restore)
    assert told.exit_code == 0
    assert "count as spent: patients" in told.stdout
    assert sudare("budget", "verify", "--receipt", "late.sudare", "--receipt", "mean.sudare").exit_code == 0
    assert sudare(*FIT_MEAN, "-o", "more.sudare", "--key", "key.pem").exit_code == 31
    shown = sudare("budget", "show", "patients")
    assert "restore" in shown.stdout
    assert "disk failed" in shown.stdout
    assert "ε 2.0 of 2.0" in shown.stdout
    assert sudare("budget", "raise", "patients", "--epsilon", 2.5, "--reason", "checked by hand").exit_code == 0
    assert sudare(*FIT_MEAN, "-o", "more.sudare", "--key", "key.pem").exit_code == 0


def test_a_database_that_its_own_tool_brought_back_is_closed_in_place(house: Path, sudare: Sudare) -> None:
    told = sudare("budget", "restore", "--reason", "restored by the server's tool", "--json")
    assert told.values["closed"] == ["patients"]
    assert (
        sudare("budget", "restore", "backup.db", "--ledger", "postgresql://server/db", "--reason", "r").exit_code == 10
    )
    assert sudare("budget", "restore", "--entries", "table.parquet", "--reason", "r").exit_code == 10
    assert sudare("budget", "restore", "--entries", "schema.toml", "--reason", "r").exit_code == 10
