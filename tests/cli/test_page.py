"""`sudare page`: what it would serve, passwords, and a server that answers until it is told to stop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Sudare
from tests.e2e.page_kit import served


def test_a_dry_run_says_what_would_be_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sudare: Sudare) -> None:
    monkeypatch.chdir(tmp_path)
    told = sudare("page", "--dry-run", "--table", "visits.parquet", "--json").values
    assert told["address"] == "http://127.0.0.1:8177"
    assert told["tables"] == ["visits"]
    assert not told["https"]
    assert "one-time address" in sudare("page", "--dry-run").stdout
    assert sudare("page", "--dry-run", "--port", 99999).exit_code == 10
    Path("page.toml").write_text('ledger = "x.db"\n')
    assert sudare("page", "--dry-run", "--json").values["ledger"].endswith("x.db")
    assert sudare("page", "--dry-run", "--settings", "nothing.toml").exit_code != 0


def test_keys_and_tables_are_looked_at_before_anything_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sudare: Sudare
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("age\n3\n")
    settings = '[tables.visits]\nsource = "visits.csv"\n[tables.gone]\nsource = "gone.csv"\n'
    Path("page.toml").write_text(settings)
    assert "no 'visits.toml'" in sudare("page", "--dry-run", "--json").values["problems"]["visits"]
    Path("visits.toml").write_text('[columns.age]\nkind = "number"\nlow = 0\nhigh = 9\n')
    told = sudare("page", "--dry-run", "--json").values
    assert list(told["problems"]) == ["gone"]
    shown = sudare("page", "--dry-run").stdout
    assert "'gone' cannot be asked about now" in shown
    assert f"; {len(told['tables']) - 1} table" in shown
    Path("page.toml").write_text(f'signing_key = "key.pem"\n{settings}')
    assert sudare("page", "--dry-run").exit_code != 0
    Path("key.pem").write_text("no key")
    Path("key.pem").chmod(0o600)
    for options in (("--dry-run",), ("--port", "0")):
        refused = sudare("page", *options)
        assert refused.exit_code != 0
        assert "'key.pem' does not open" in refused.stderr
    Path("page.toml").write_text(f'{settings}[server]\ncertificate = "visits.csv"\nkey = "key.pem"\n')
    assert "are not a certificate and its key" in sudare("page", "--dry-run").stderr


def test_a_password_is_hashed(sudare: Sudare) -> None:
    program = [sys.executable, "-c", "from sudare.cli.main import app; app()", "page", "password"]
    done = subprocess.run(program, input="correct horse battery\n", capture_output=True, text=True, check=True)
    assert done.stdout.startswith("scrypt:32768:8:1:")
    assert subprocess.run(program, input="short\n", capture_output=True, text=True, check=False).returncode == 10


def test_a_page_is_served_until_it_is_stopped(tmp_path: Path) -> None:
    with served(tmp_path, "--log", "page.log") as address:
        with httpx.Client(follow_redirects=True) as browser:
            entered = browser.get(address)
            assert entered.status_code == 200
            assert "Sign out" in entered.text
        assert httpx.get(address).status_code == 403
    events = [json.loads(line)["event"] for line in (tmp_path / "page.log").read_text().splitlines()]
    assert events == ["started", "signed-in", "sign-in-refused", "stopped"]


def test_the_address_is_told_in_the_language_of_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sudare: Sudare
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sudare.web.server.serve", lambda *arguments: arguments[-1]())
    told = sudare("page", "--port", 0, "--lang", "ja").stdout
    assert told.startswith("次を開いてください：http://127.0.0.1:")
    assert "sign-in?token=" in told
    assert told.endswith("   （このコンピュータのみ。Ctrl-C で終わります）\n")
    assert sudare("page", "--port", 0, "--lang", "en").stdout.startswith("Open http://127.0.0.1:")


def test_a_table_that_cannot_be_asked_about_is_told_in_japanese(house: Path, sudare: Sudare) -> None:
    (house / "page.toml").write_text('schemas = "none"\n[tables.k]\nsource = "patients.csv"\nschema = "k"\n')
    (house / "none").mkdir()
    (house / "patients.csv").write_text("age\n40\n")
    told = sudare("page", "--dry-run", "--lang", "ja").stdout
    assert "表 'k' は今は依頼できません" in told
    assert "スキーマのフォルダに" in told


def test_settings_that_are_not_there_are_no_fault_of_an_agreement(house: Path, sudare: Sudare) -> None:
    refused = sudare("page", "--settings", "nosuch.toml")
    assert refused.exit_code == 10
    assert "nosuch.toml" in refused.stderr
    assert (
        "そのようなファイルやフォルダはありません" in sudare("--lang", "ja", "page", "--settings", "nosuch.toml").stderr
    )
