"""Databases are opened for reading, queries that could write are refused, and passwords are not pickled."""

from __future__ import annotations

import contextlib
import copy
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from sudare.errors import SourceUnreadable
from sudare.frames import batches, databases, read
from sudare.frames.databases import (
    SqlSource,
    opened_for_reading,
    reading,
    refuse_writing,
    with_secrets,
    without_secrets,
)


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    file = tmp_path / "my clinic.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE visits (age REAL, note TEXT)")
        connection.executemany("INSERT INTO visits VALUES (?, ?)", [(30.0, "update; insert"), (40.0, "it's")])
        connection.commit()
    return file


READING = [
    "visits",
    "clinic.visits",
    "SELECT age FROM visits",
    " select age from visits ; ",
    "WITH old AS (SELECT age FROM visits) SELECT * FROM old",
    "(SELECT age FROM visits) UNION (SELECT age FROM visits)",
    "VALUES (1), (2)",
    "TABLE visits",
    "SELECT replace(note, 'a', 'b') FROM visits WHERE note <> 'delete'",
    'SELECT t.update, "insert", `merge` FROM visits t',
    "SELECT updated, inserted_at FROM visits",
    "SELECT note FROM visits WHERE note = 'it''s' OR note = 'into'",
    "SELECT a #> b FROM visits",
]
WRITING = [
    "DROP TABLE visits",
    "delete from visits",
    "INSERT INTO visits VALUES (1)",
    "UPDATE visits SET age = 0",
    "SELECT * INTO copy FROM visits",
    "WITH gone AS (DELETE FROM visits RETURNING *) SELECT * FROM gone",
    "with x as (select 1) insert into visits select * from x",
    "MERGE INTO visits USING x ON true",
    "SELECT age FROM visits FOR UPDATE",
    "PRAGMA query_only = OFF",
    "ATTACH DATABASE 'x' AS y",
    "EXPLAIN ANALYZE DELETE FROM visits",
    "CREATE TABLE x AS SELECT 1",
    "SET TRANSACTION READ WRITE",
    "COPY visits TO '/tmp/x'",
    "CALL wipe ( )",
    "'SELECT' 1",
    "1 2",
]
UNCLEAR = [
    "SELECT 1; DROP TABLE visits",
    "SELECT ';' FROM visits",
    "SELECT 1 -- comment",
    "SELECT /* comment */ 1",
    "SELECT 'a\\' , ' DROP'",
    "SELECT $$it's$$ FROM visits",
    "SELECT $x$it's$x$ FROM visits",
]


@pytest.mark.parametrize("query", READING)
def test_what_reads_is_allowed(query: str) -> None:
    refuse_writing(query, "postgresql")


@pytest.mark.parametrize("query", WRITING)
def test_what_writes_is_refused(query: str) -> None:
    with pytest.raises(SourceUnreadable) as caught:
        refuse_writing(query, "postgresql")
    assert caught.value.problem == "The query is not one that only reads."


@pytest.mark.parametrize("query", [*UNCLEAR, "SELECT 1 # comment"])
def test_what_databases_read_differently_is_refused(query: str) -> None:
    with pytest.raises(SourceUnreadable) as caught:
        refuse_writing(query, "mysql")
    assert caught.value.problem == "The query has a comment, a semicolon, a backslash before a quote, or $…$."
    assert "make a view" in caught.value.remedy


@pytest.mark.parametrize(
    "spelling", ["sqlite:///{}", "sqlite+pysqlite:///{}", "sqlite:///file:{}?mode=rw&uri=true&cache=private"]
)
def test_sqlite_is_opened_for_reading(clinic: Path, spelling: str) -> None:
    engine = opened_for_reading(spelling.format(str(clinic).replace(" ", "%20") if "file:" in spelling else clinic))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM visits").scalar() == 2
        with pytest.raises(sqlalchemy.exc.OperationalError, match="readonly database"):
            connection.exec_driver_sql("DROP TABLE visits")


def test_an_engine_of_the_owner_can_write_again_afterwards(clinic: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{clinic}", poolclass=sqlalchemy.StaticPool)
    with reading(engine) as connection, pytest.raises(sqlalchemy.exc.OperationalError, match="readonly database"):
        connection.exec_driver_sql("DELETE FROM visits")
    assert read(SqlSource(engine, "visits")).rows == 2
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM visits WHERE age > 35")
    assert read(SqlSource(engine, "SELECT age FROM visits")).rows == 1


def test_a_database_in_memory_is_what_it_was() -> None:
    assert list(batches(SqlSource("sqlite://", "SELECT 1 AS x"))) != []


class Recorded:
    """A connection that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_error: object) -> None:
        self.told.append("closed")

    def execution_options(self, **options: object) -> Recorded:
        self.told.append(options)
        return self

    def rollback(self) -> None:
        self.told.append("rollback")


@pytest.mark.parametrize(
    ("dialect", "options"),
    [("postgresql", [{"isolation_level": "READ COMMITTED", "postgresql_readonly": True}]), ("mysql", [])],
)
def test_servers_are_read_in_a_transaction_that_is_rolled_back(dialect: str, options: list[object]) -> None:
    recorded = Recorded()
    engine: Any = type(
        "Engine", (), {"dialect": type("Dialect", (), {"name": dialect}), "connect": lambda _: recorded}
    )()
    with reading(engine):
        recorded.told.append("read")
    assert recorded.told == [*options, "read", "rollback", "closed"]


@pytest.mark.parametrize("kind", [str, sqlalchemy.make_url, sqlalchemy.create_engine])
def test_pickles_of_a_source_hold_no_password(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_WHOLE_ADDRESSES", {})
    whole = sqlalchemy.make_url(
        "postgresql+psycopg://ann:hunter2@db/clinic?sslpassword=hunter2&passfile=p&sslmode=require"
    )
    source = SqlSource(kind(whole.render_as_string(hide_password=False)), "visits")
    text = pickle.dumps(source)
    assert b"hunter2" not in text
    for twin in (pickle.loads(text), copy.deepcopy(source), copy.copy(source)):
        assert sqlalchemy.make_url(twin.url) == whole
        assert isinstance(twin.url, str) == isinstance(source.url, str)
        assert twin.query == "visits"
    monkeypatch.setattr(databases, "_WHOLE_ADDRESSES", {})
    lost = sqlalchemy.make_url(pickle.loads(text).url)
    assert (lost.password, dict(lost.query)) == (None, {"passfile": "p", "sslmode": "require"})


def test_an_address_without_secrets_is_itself() -> None:
    url = sqlalchemy.make_url("postgresql://ann@db/clinic?sslmode=require")
    assert without_secrets(url) == url == with_secrets(url)
    assert url not in databases._WHOLE_ADDRESSES


@pytest.mark.parametrize(
    "option",
    [
        "sslpassword",
        "pwd",
        "token",
        "access_token",
        "aws_secret_access_key",
        "credentials_base64",
        "odbc_connect",
        "KEY",
    ],
)
def test_only_listed_options_are_pickled(option: str) -> None:
    source = SqlSource(f"postgresql://ann@db/clinic?sslmode=require&{option}=hunter2", "visits")
    text = pickle.dumps(source)
    assert b"hunter2" not in text
    assert b"sslmode" in text
    assert sqlalchemy.make_url(pickle.loads(text).url) == sqlalchemy.make_url(source.url)


@pytest.mark.parametrize("name", ['"visits"', "`visits`", "[visits]", 'vis"its'])
def test_a_name_has_no_quotes(name: str) -> None:
    with pytest.raises(SourceUnreadable) as caught:
        refuse_writing(name, "postgresql")
    assert caught.value.problem == "The name of a table has quotes or brackets."
    assert caught.value.remedy == "Give it without, or give a query."
