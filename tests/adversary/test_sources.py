"""Attacks on the rule that one source has one account: other tables for an old budget, one table for two budgets, and what queries do."""

from __future__ import annotations

import contextlib
import os
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from sudare.cli.main import app
from sudare.consortium.member import Data, Member
from sudare.errors import AccountMismatch, BudgetError, SourceTaken, SourceUnreadable, SudareError
from sudare.frames import SqlSource, batches, read
from sudare.linear import PrivateLogisticRegression
from sudare.privacy import Ledger, PrivateMean
from sudare.privacy.storage import Storage
from sudare.records import RecordPerturbation
from sudare.schema import Label, Number, Schema

SCHEMA = """
[columns.age]
kind = "number"
low = 0
high = 110

[columns.smoker]
kind = "category"
values = ["no", "yes"]
"""
SICK = Schema({"age": Number(0, 110), "sick": Label(("no", "yes"))})


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder with two tables, a schema, a key, and a database with a table."""
    random = np.random.default_rng(1)
    for name in ("patients", "staff"):
        table = pd.DataFrame({"age": random.uniform(20, 90, 200), "smoker": random.choice(["no", "yes"], 200)})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        (table.rename(columns={"smoker": "sick"})).to_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    (tmp_path / "key.pem").chmod(0o600)
    with contextlib.closing(sqlite3.connect(tmp_path / "clinic.db")) as connection:
        connection.execute("CREATE TABLE visits (age REAL)")
        connection.executemany("INSERT INTO visits VALUES (?)", [(float(age),) for age in range(20, 60)])
        connection.commit()
    return tmp_path


@pytest.fixture
def ledger(house: Path) -> Ledger:
    return Ledger(house / "ledger.db")


def classifier(account: Any) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(epsilon=0.1, schema=SICK, account=account)


def charges(ledger: Ledger) -> int:
    return sum(entry.kind == "charge" for entry in ledger.entries())


# An account that pays for another table


COMMANDS = {
    "fit": ["fit", "mean", "staff.csv", "--epsilon", "0.1"],
    "perturb": ["perturb", "staff.csv", "--epsilon", "0.1"],
    "synthesize": ["synthesize", "staff.csv", "--epsilon", "0.1"],
}


@pytest.mark.parametrize("dry_run", [False, True], ids=["charged", "dry run"])
@pytest.mark.parametrize("command", list(COMMANDS))
def test_charge_another_table_to_an_account_from_the_shell(house, ledger, monkeypatch, command, dry_run):
    monkeypatch.chdir(house)
    ledger.account("patients", epsilon=3.0, source="patients.csv")
    options = ["--schema", "schema.toml", "--account", "patients", "--ledger", "ledger.db"]
    signing = ["--dry-run"] if dry_run else ["--output", "out.sudare", "--key", "key.pem"]
    found = CliRunner().invoke(app, [*COMMANDS[command], *options, *signing])
    assert found.exit_code == 39
    assert charges(ledger) == 0
    assert not (house / "out.sudare").exists()


def test_charge_another_file_to_an_account_in_python(house, ledger):
    account = ledger.account("patients", epsilon=3.0, source=house / "patients.parquet")
    with pytest.raises(BudgetError):
        classifier(account).fit(house / "staff.parquet")
    assert charges(ledger) == 0


def test_charge_a_table_that_was_read_from_another_file(house, ledger):
    account = ledger.account("patients", epsilon=3.0, source=house / "patients.parquet")
    with pytest.raises(BudgetError):
        PrivateMean(epsilon=0.1, schema=Schema({"age": Number(0, 110)}), account=account).fit(
            read(house / "staff.parquet")
        )
    assert charges(ledger) == 0


def test_charge_one_file_after_the_other_to_an_account_without_a_source(house, ledger):
    account = ledger.account("patients", epsilon=3.0)
    classifier(account).fit(house / "patients.parquet")
    with pytest.raises(BudgetError):
        classifier(account).fit(house / "staff.parquet")
    assert charges(ledger) == 1


def test_charge_another_table_of_a_database(house, ledger):
    url = f"sqlite:///{house / 'clinic.db'}"
    with contextlib.closing(sqlite3.connect(house / "clinic.db")) as connection:
        connection.execute("CREATE TABLE staff AS SELECT * FROM visits")
    account = ledger.account("visits", epsilon=3.0, source=f"{url} visits")
    with pytest.raises(BudgetError):
        RecordPerturbation(Schema({"age": Number(0, 110)}), epsilon=1.0, account=account).fit(SqlSource(url, "staff"))
    assert charges(ledger) == 0


def test_point_a_member_file_at_another_table_once_the_account_is_there(house, ledger):
    ledger.account("north", epsilon=3.0, source=house / "patients.parquet")
    member = Member(
        "north", house, house / "a.toml", house / "key.pem", house / "state", str(house / "ledger.db"), "north",
        Data(source="staff.parquet"),
    )  # fmt: skip
    agreement: Any = None
    with pytest.raises(BudgetError):
        member.account(agreement)


# A second account for one table


def opens_a_second_account(ledger: Ledger, source: Any, name: str = "second") -> bool:
    try:
        ledger.account(name, epsilon=3.0, source=source)
    except (SourceTaken, AccountMismatch):
        return False
    return True


def linked(house: Path) -> Any:
    os.link(house / "patients.csv", house / "other.csv")
    return house / "other.csv"


def moved(house: Path) -> Any:
    return os.rename(house / "patients.csv", house / "other.csv") or house / "other.csv"


def linked_then_replaced(house: Path) -> Any:
    os.link(house / "patients.csv", house / "other.csv")
    (house / "new.csv").write_text("age,smoker\n30,no\n")
    os.replace(house / "new.csv", house / "patients.csv")
    return house / "other.csv"


def in_a_linked_folder(house: Path) -> Any:
    (house / "folder").mkdir()
    os.link(house / "patients.csv", house / "folder" / "part.csv")
    return house / "folder"


SPELLINGS = {
    "hard link": linked,
    "moved": moved,
    "hard link to what was replaced": linked_then_replaced,
    "folder with a hard link": in_a_linked_folder,
    "folder": lambda house: house,
    "pattern": lambda house: house / "pat*.csv",
    "file scheme": lambda house: f"file://{house / 'patients.csv'}",
    "file scheme with a host": lambda house: f"FILE://localhost{house / 'patients.csv'}",
    "file scheme, escaped": lambda house: f"file:{house}/%70atients.csv",
}


@pytest.mark.parametrize("spelling", list(SPELLINGS))
def test_open_a_second_account_for_a_file_under_another_name(house, ledger, spelling):
    ledger.account("patients", epsilon=3.0, source=house / "patients.csv")
    assert not opens_a_second_account(ledger, SPELLINGS[spelling](house))


ADDRESS = "postgresql://db.example/clinic visits"
ADDRESSES = {
    "port": "postgresql://db.example:5432/clinic visits",
    "case of the host": "postgresql://DB.Example/clinic visits",
    "driver": "postgresql+psycopg://db.example/clinic visits",
    "user": "postgresql://eve:secret@db.example/clinic visits",
    "options": "postgresql://db.example/clinic?sslmode=require visits",
    "options that are the address": "postgresql:///clinic?host=db.example visits",
    "schema": "postgresql://db.example/clinic public.visits",
    "case of the table": 'postgresql://db.example/clinic "Visits"',
    "query": "postgresql://db.example/clinic SELECT age FROM visits",
    "final point": "postgresql://db.example./clinic visits",
}


@pytest.mark.parametrize("address", list(ADDRESSES))
def test_open_a_second_account_for_a_database_under_another_address(ledger, address):
    ledger.account("visits", epsilon=3.0, source=ADDRESS)
    assert not opens_a_second_account(ledger, ADDRESSES[address])


def test_open_a_second_account_for_an_sqlite_file_under_another_path(house, ledger, monkeypatch):
    monkeypatch.chdir(house)
    os.link(house / "clinic.db", house / "other.db")
    ledger.account("visits", epsilon=3.0, source=f"sqlite:///{house / 'clinic.db'} visits")
    spellings = (
        "sqlite:///clinic.db visits",
        "sqlite+pysqlite:///./clinic.db main.visits",
        "sqlite:///other.db visits",
    )
    assert not any(opens_a_second_account(ledger, spelling, f"number {n}") for n, spelling in enumerate(spellings))


NAMES = {
    "case": "Patients",
    "full width": "ｐａｔｉｅｎｔｓ",
    "Cyrillic letters": "раtiеnts",
    "Greek letter": "pαtients",
    "nothing to see": "pat\u200bients",
    "soft hyphen": "pati\u00adents",
    "blanks": "patients\u3000",
    "mathematical": "𝐩atients",
}


@pytest.mark.parametrize("kind", list(NAMES))
def test_open_a_second_account_whose_name_looks_like_the_first(ledger, kind):
    ledger.account("patients", epsilon=3.0)
    with pytest.raises(SudareError):
        ledger.account(NAMES[kind], epsilon=3.0, source="something else altogether")
    assert len(ledger.accounts()) == 1


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "blanks"])
def test_open_a_second_account_for_a_source_that_looks_like_the_first(ledger, kind):
    ledger.account("patients", epsilon=3.0)
    with pytest.raises(SudareError):
        ledger.account("second", epsilon=3.0, source=NAMES[kind])
    assert len(ledger.accounts()) == 1


# What a query can do, and what is kept of a password


WRITING = ("DROP TABLE visits", "CREATE TABLE copy AS SELECT * FROM visits", "PRAGMA user_version = 7")


@pytest.mark.parametrize("query", WRITING)
@pytest.mark.parametrize("as_engine", [False, True], ids=["address", "engine"])
def test_change_the_database_by_a_query_for_its_rows(house, query, as_engine):
    url = f"sqlite:///{house / 'clinic.db'}"
    before = (house / "clinic.db").read_bytes()
    with contextlib.suppress(SourceUnreadable):
        list(batches(SqlSource(sqlalchemy.create_engine(url) if as_engine else url, query)))
    assert (house / "clinic.db").read_bytes() == before


def test_leave_an_empty_database_behind_where_there_was_none(house, monkeypatch):
    monkeypatch.chdir(house)
    with pytest.raises(SourceUnreadable):
        list(batches(SqlSource("sqlite:///missing.db", "visits")))
    assert not (house / "missing.db").exists()


SECRET = "correct-horse-battery"


@pytest.mark.parametrize(
    "address", [f"postgresql://ann:{SECRET}@db/ledger", f"postgresql://ann@db/ledger?password={SECRET}"]
)
@pytest.mark.parametrize("kind", ["ledger", "source"])
def test_find_the_password_of_the_database_in_a_pickle(address, kind):
    handle = Storage(address, 1.0) if kind == "ledger" else SqlSource(address, "visits")
    assert SECRET.encode() not in pickle.dumps(handle)
