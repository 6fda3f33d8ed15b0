"""Attacks on the rule that one source has one account: other tables for an old budget, one table for two budgets, and what queries do."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sudare.consortium.agreement.member_settings import Data, Member
from sudare.errors import AccountMismatch, BudgetError, InvalidParameter, SourceTaken, SourceUnreadable, SudareError
from sudare.frames import batches, read
from sudare.frames.sources import SqlSource
from sudare.linear import PrivateLogisticRegression
from sudare.perturbation import RecordPerturbation
from sudare.privacy import Ledger
from sudare.privacy.ledger_storage import Storage
from sudare.schema import Category, Label, Number, Schema
from sudare.statistics import PrivateMean
from tests.cli.conftest import invoked

SCHEMA = """
[columns.age]
kind = "number"
low = 0
high = 110

[columns.smoker]
kind = "category"
values = ["no", "yes"]
"""
AGE = Schema({"age": Number(0, 110)})
TABLE = Schema({"age": Number(0, 110), "smoker": Category(("no", "yes"))})
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
    found = invoked(*COMMANDS[command], *options, *signing)
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


READ_OTHERWISE = {
    "a pattern without an ending": lambda house: "sta*",
    "a pattern in a folder": lambda house: "elsewhere/pat*",
    "a folder called file:": lambda house: f"file:{house / 'patients.csv'}",
    "a blank before the name": lambda house: " patients.csv",
    "a blank before the folder": lambda house: f" {house / 'patients.csv'}",
    "a pattern that goes through a link and back": lambda house: "lin*/../patients.csv",
}


@pytest.mark.parametrize("spelling", list(READ_OTHERWISE))
def test_read_another_file_than_the_account_was_asked_about(house, ledger, monkeypatch, spelling):
    monkeypatch.chdir(house)
    staff = (house / "staff.csv").read_text()
    for path in (f"file:{house}", f" {house}", "elsewhere/inner"):
        (Path(path)).mkdir(parents=True)
    os.symlink("elsewhere/inner", "link")
    for path in (f"file:{house}/patients.csv", " patients.csv", f" {house}/patients.csv", "elsewhere/patients.csv"):
        Path(path).write_text(staff)
    account = ledger.account("patients", epsilon=30.0, source=house / "patients.csv")
    with pytest.raises((BudgetError, InvalidParameter, SourceUnreadable)):
        RecordPerturbation(TABLE, epsilon=1.0, account=account).fit(READ_OTHERWISE[spelling](house))
    assert charges(ledger) == 0


def test_charge_a_table_that_was_read_through_a_link_and_back(house, ledger, monkeypatch):
    """Without looking at links, link/../patients.csv would be the account's own file."""
    monkeypatch.chdir(house)
    Path("elsewhere/inner").mkdir(parents=True)
    os.symlink("elsewhere/inner", "link")
    shutil.copy("staff.csv", "elsewhere/patients.csv")
    account = ledger.account("patients", epsilon=30.0, source=house / "patients.csv")
    with pytest.raises(BudgetError):
        RecordPerturbation(TABLE, epsilon=1.0, account=account).fit(read("link/../patients.csv"))
    assert charges(ledger) == 0


@pytest.mark.parametrize("opened", [str, sqlalchemy.create_engine], ids=["address", "engine"])
def test_charge_a_database_that_seems_to_be_behind_a_link(house, ledger, monkeypatch, opened):
    monkeypatch.chdir(house)
    Path("elsewhere/inner").mkdir(parents=True)
    os.symlink("elsewhere/inner", "link")
    shutil.copy("clinic.db", "elsewhere/clinic.db")
    source = SqlSource(f"sqlite:///{house}/elsewhere/clinic.db", "visits")
    account = ledger.account("visits", epsilon=30.0, source=source)
    # A driver opens clinic.db here, and not the one that the link leads to.
    with pytest.raises(BudgetError):
        RecordPerturbation(AGE, epsilon=1.0, account=account).fit(
            SqlSource(opened("sqlite:///link/../clinic.db"), "visits")
        )
    assert charges(ledger) == 0


def test_read_another_database_file_whose_name_is_an_escaped_one(house, ledger):
    for name in ("my clinic.db", "my%20clinic.db"):
        shutil.copy(house / "clinic.db", house / name)
    mine, other = (
        sqlalchemy.URL.create("sqlite", database=str(house / name)) for name in ("my clinic.db", "my%20clinic.db")
    )
    account = ledger.account("visits", epsilon=30.0, source=SqlSource(mine, "visits"))
    RecordPerturbation(AGE, epsilon=1.0, account=account).fit(SqlSource(mine, "visits"))
    with pytest.raises(BudgetError):
        RecordPerturbation(AGE, epsilon=1.0, account=account).fit(SqlSource(other, "visits"))
    assert charges(ledger) == 1


READ_ELSEWHERE = {
    "an option for another database": ("?dbname=staff", "visits"),
    "an option for another host": ("?host=127.0.0.9", "visits"),
    "an option for another address": ("?hostaddr=127.0.0.9", "visits"),
    "an option for another port": ("?port=9", "visits"),
    "several hosts": ("?host=127.0.0.9&host=127.0.0.8", "visits"),
    "a table that differs by case": ("", "Visits"),
}


@pytest.mark.parametrize("spelling", list(READ_ELSEWHERE))
def test_read_another_table_of_a_server_than_the_account_was_asked_about(ledger, spelling):
    """The account is asked before anybody is connected to: no server is needed here."""
    address, (options, table) = "postgresql+psycopg://localhost:1/clinic", READ_ELSEWHERE[spelling]
    account = ledger.account("visits", epsilon=3.0, source=SqlSource(address, "visits"))
    with pytest.raises(BudgetError):
        RecordPerturbation(AGE, epsilon=1.0, account=account).fit(SqlSource(f"{address}{options}", table))


def test_read_another_table_by_a_search_path(ledger):
    """By an option, by an engine, by case, and by quotes in a name: on a server."""
    from tests.ledgers import postgresql_server

    with postgresql_server() as plain:
        address = plain.replace("postgresql:", "postgresql+psycopg:")
        engine = sqlalchemy.create_engine(address)
        with engine.begin() as connection:
            for name in ("visits", "staff.visits", '"Visits"', '"vis""its"'):
                connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS staff")
                connection.exec_driver_sql(f"CREATE TABLE {name} AS SELECT {90 if '.' in name else 20}::float8 AS age")
        path = {"options": "-c search_path=staff"}
        astray = sqlalchemy.create_engine(address, connect_args=path)
        by_option = SqlSource(sqlalchemy.make_url(address).update_query_dict(path), "visits")
        for source in (SqlSource(astray, "visits"), by_option, SqlSource(address, "visits")):
            assert read(source)["age"].tolist() == [20.0]
        account = ledger.account("visits", epsilon=30.0, source=SqlSource(address, "visits"))
        for name in ("Visits", 'vis"its', "staff.visits"):
            with pytest.raises(SudareError):
                RecordPerturbation(AGE, epsilon=1.0, account=account).fit(SqlSource(address, name))
        assert charges(ledger) == 0
        engine.dispose()
        astray.dispose()


# A second account for one table


def put_in_place(house: Path) -> None:
    (house / "staff.csv").unlink()
    os.link(house / "patients.csv", house / "staff.csv")


def link_in_folder(house: Path) -> None:
    (house / "later").mkdir()
    pd.read_csv(house / "patients.csv").to_parquet(house / "later" / "part.parquet")
    os.unlink(house / "patients.csv")
    os.link(house / "later" / "part.parquet", house / "patients.csv")


LATER = {
    "a hard link made later": ("later.csv", lambda house: os.link(house / "patients.csv", house / "later.csv")),
    "a link made later": ("later.csv", lambda house: os.symlink(house / "patients.csv", house / "later.csv")),
    "a hard link put in the place of a file": ("staff.csv", put_in_place),
    "a folder that gets a hard link": ("later", link_in_folder),
}


@pytest.mark.parametrize("way", list(LATER))
def test_let_a_second_account_pay_for_a_file_by_what_is_done_after_it_was_opened(house, ledger, way):
    path, act = LATER[way]
    ledger.account("patients", epsilon=3.0, source=house / "patients.csv")
    second = ledger.account("second", epsilon=3.0, source=house / path)
    act(house)
    with pytest.raises(SourceTaken):
        RecordPerturbation(TABLE, epsilon=1.0, account=second).fit(house / path)
    assert charges(ledger) == 0


def test_let_two_accounts_pay_for_a_file_that_comes_to_match_both_patterns(house, ledger):
    first = ledger.account("first", epsilon=3.0, source=house / "week-*.csv")
    second = ledger.account("second", epsilon=3.0, source=house / "*-40.csv")
    shutil.copy(house / "patients.csv", house / "week-40.csv")
    RecordPerturbation(TABLE, epsilon=1.0, account=first).fit(house / "week-40.csv")
    with pytest.raises(SourceTaken):
        RecordPerturbation(TABLE, epsilon=1.0, account=second).fit(house / "week-40.csv")
    assert charges(ledger) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="there is no /proc")
def test_let_a_second_account_pay_for_a_file_through_an_open_handle(house, ledger):
    ledger.account("patients", epsilon=3.0, source=house / "patients.csv")
    second = ledger.account("second", epsilon=3.0)
    os.link(house / "patients.csv", house / "gone.csv")
    with (house / "gone.csv").open() as handle:
        (house / "gone.csv").unlink()
        os.symlink(f"/proc/self/fd/{handle.fileno()}", house / "through.csv")
        with pytest.raises(SourceTaken):
            RecordPerturbation(TABLE, epsilon=1.0, account=second).fit(house / "through.csv")
    assert charges(ledger) == 0


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
    "address",
    [
        f"postgresql://ann:{SECRET}@db/ledger",
        f"postgresql://ann@db/ledger?password={SECRET}",
        f"postgresql://ann@db/ledger?access_token={SECRET}",
        f"postgresql://db/ledger?odbc_connect=UID%3Dann%3BPWD%3D{SECRET}",
    ],
)
@pytest.mark.parametrize("kind", ["ledger", "source"])
def test_find_the_password_of_the_database_in_a_pickle(address, kind):
    handle = Storage(address, 1.0) if kind == "ledger" else SqlSource(address, "visits")
    assert SECRET.encode() not in pickle.dumps(handle)
