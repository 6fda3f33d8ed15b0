"""Commands take addresses in the place of a table: what is read, which account pays, and that no password is told."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy

from sudare.cli.options import table_name
from sudare.privacy import Ledger
from tests.cli.conftest import Sudare
from tests.source_kinds import library

SIGN = ("--key", "key.pem")


@pytest.fixture
def address(house: Path) -> str:
    table = pd.read_parquet(house / "table.parquet")
    engine = sqlalchemy.create_engine(f"sqlite:///{house / 'clinic.db'}")
    table.to_sql("visits", engine, index=False)
    engine.dispose()
    return "sqlite:///clinic.db visits"


@pytest.mark.parametrize("statistic", ["mean", "histogram"])
def test_a_table_of_a_database(house: Path, sudare: Sudare, address: str, statistic: str) -> None:
    words = ("fit", statistic, address, "--schema", "schema.toml", "--epsilon", "0.5", "--account", "visits")
    made = sudare(*words, "--budget", "2", "-o", "new.sudare", *SIGN, "--json")
    assert made.exit_code == 0, made.stderr
    account = Ledger(house / "ledger.db").account("visits")
    assert account.terms.source == f"sqlite:///{house.resolve()}/clinic.db visits"
    assert account.spent().epsilon == 0.5


def test_the_account_is_called_like_the_table(house: Path, sudare: Sudare, address: str) -> None:
    words = ("synthesize", address, "--schema", "schema.toml", "--epsilon", "1", "--budget", "2")
    made = sudare(*words, "-o", "new.sudare", *SIGN)
    assert made.exit_code == 0, made.stderr
    assert Ledger(house / "ledger.db").account("visits").spent().epsilon == 1.0


def test_schemas_are_drafted_and_checked_from_addresses(house: Path, sudare: Sudare, address: str) -> None:
    assert "age" in sudare("schema", "draft", address).stdout
    assert sudare("schema", "check", address, "--schema", "schema.toml").exit_code == 0


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("postgresql://ann:hidden@db.example/clinic", "names no table"),
        ("s3://key:hidden/word@bucket/table", "names no bucket"),
        ("file:///x.csv", "Leave file:// out"),
        ("delta:nowhere", ""),
        ("iceberg:nowhere", ""),
        ("duckdb:///nowhere.duckdb t", ""),
    ],
)
def test_what_cannot_be_read_charges_nothing_and_tells_no_password(
    house: Path, sudare: Sudare, table: str, says: str
) -> None:
    words = ("fit", "mean", table, "--schema", "schema.toml", "--epsilon", "0.5", "--account", "new", "--budget", "2")
    made = sudare(*words, "-o", "new.sudare", *SIGN)
    assert made.exit_code not in (0, 1)
    assert says in made.stderr
    assert "hidden" not in made.stderr + made.stdout
    assert "new" not in {account.name for account in Ledger(house / "ledger.db").accounts()}


def test_delta_tables(house: Path, sudare: Sudare) -> None:
    library("deltalake").write_deltalake(str(house / "table"), pd.read_parquet(house / "table.parquet"))
    words = (
        "fit",
        "mean",
        "delta:table",
        "--schema",
        "schema.toml",
        "--epsilon",
        "0.5",
        "--account",
        "new",
        "--budget",
        "2",
    )
    assert sudare(*words, "-o", "new.sudare", *SIGN).exit_code == 0
    assert Ledger(house / "ledger.db").account("new").terms.source == f"{house.resolve()}/table"


def test_names_of_tables_hold_no_password() -> None:
    assert table_name("folder/visits.csv") == "visits.csv"
    assert table_name("s3://key:hidden@bucket/visits.parquet?region=eu") == "visits.parquet"
    assert table_name("delta:s3://key:hidden@bucket/visits") == "visits"
    assert table_name("delta:folder/visits") == "visits"
    assert table_name("postgresql://ann:hidden@h/d clinic.visits") == "clinic.visits"
    assert table_name("postgresql://ann:hidden@h/d SELECT * FROM visits") == "a query"
    assert table_name("postgresql://ann:hidden@h/d") == "a table"
