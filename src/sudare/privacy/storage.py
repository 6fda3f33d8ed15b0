"""Where the ledger's entries are kept: SQLite in one file, or PostgreSQL by URL.

One transaction does one thing, on a connection of its own: nothing is shared with forked or pickled copies. Writers
queue on the database's lock, so the chain has one head at a time. SQLite runs with full durability: a commit that
returned survives a power cut.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy.exc import DatabaseError, OperationalError, SQLAlchemyError

from sudare.errors import InvalidParameter, LedgerBusy, LedgerCorrupt, LedgerError, LedgerMissing, LedgerVersion
from sudare.privacy.chain import Entry, Head, canonical_json

FORMAT: Final = 1

# From a format to the next: each function changes the tables inside one transaction and leaves the entries' bytes alone.
MIGRATIONS: Final[dict[int, Callable[[sql.Connection], None]]] = {}

_tables = sql.MetaData()
_chain = sql.Table(
    "chain",
    _tables,
    sql.Column("one", sql.Integer, sql.CheckConstraint("one = 1"), primary_key=True),
    sql.Column("format", sql.Integer, nullable=False),
    sql.Column("ledger", sql.Text, nullable=False),
    sql.Column("position", sql.Integer, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
)
_entries = sql.Table(
    "entries",
    _tables,
    sql.Column("position", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("previous", sql.Text, nullable=False),
    sql.Column("time", sql.Text, nullable=False),
    sql.Column("account", sql.Text, nullable=False, index=True),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("body", sql.Text, nullable=False),
    sql.Column("hash", sql.Text, nullable=False, unique=True),
)
_accounts = sql.Table(
    "accounts",
    _tables,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("source", sql.Text, nullable=False, unique=True),
    sql.Column("state", sql.Text, nullable=False),
)


class Storage:
    """The tables of one ledger. Holds no connection; can be pickled, copied and forked."""

    def __init__(self, address: str | os.PathLike[str], timeout_seconds: float) -> None:
        self.url = _as_url(address)
        self.timeout_seconds = timeout_seconds
        self.path = Path(self.url.database) if self.url.get_backend_name() == "sqlite" and self.url.database else None
        self._engine: sql.Engine | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}

    @property
    def engine(self) -> sql.Engine:
        """An engine without a pool: every transaction opens a connection and closes it."""
        if self._engine is None:
            options: dict[str, Any] = {"poolclass": sql.NullPool}
            if self.path is not None:
                options["creator"] = self._connect_to_file
            self._engine = sql.create_engine(self.url, **options)
            if self.path is not None:
                # sqlite3 would begin transactions by itself, and too late; `_begin` does it.
                sql.event.listen(self._engine, "begin", _begin_immediately)
        return self._engine

    def _connect_to_file(self) -> sqlite3.Connection:
        # mode=rw: a handle whose ledger is gone must not create an empty one, which would be a fresh budget.
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw", uri=True, timeout=self.timeout_seconds, isolation_level=None
        )
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        return connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sql.Connection]:
        """A write transaction: all of it is durable, or none of it happened."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except OperationalError as error:
            raise self._explained(error) from None
        except DatabaseError as error:
            raise LedgerCorrupt(
                f"The database refused the ledger's statement ({type(error.orig).__name__}).", LedgerCorrupt.help
            ) from None
        except SQLAlchemyError as error:
            raise LedgerError(
                f"The ledger's database cannot be reached ({type(error).__name__}).", "Check its address."
            ) from None

    def _explained(self, error: OperationalError) -> LedgerError:
        if "locked" in str(error.orig):
            return LedgerBusy(
                f"The ledger was locked by another process for {self.timeout_seconds:g} s.", LedgerBusy.help
            )
        if self.path is not None and not self.path.exists():
            return LedgerMissing(f"There is no ledger at '{self.path.name}'.", LedgerMissing.help)
        return LedgerError(
            f"The ledger's database cannot be used ({type(error.orig).__name__}).",
            "Check that the disk has space, the file may be written and the server answers. Nothing was charged.",
        )

    def create_if_absent(self) -> None:
        """An empty database in place, readable by its owner only; one that exists is left alone."""
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise LedgerError(
                    f"A ledger cannot be opened there ({error.strerror}).", "Check the path and its rights."
                ) from None
        with self.transaction() as connection:
            _tables.create_all(connection)

    def integrity_problem(self, connection: sql.Connection) -> str | None:
        """What SQLite's own check finds wrong with the file, if anything."""
        if self.path is None:
            return None
        answer = connection.exec_driver_sql("PRAGMA integrity_check").scalar_one()
        return None if answer == "ok" else "The database file is damaged."


def _as_url(address: str | os.PathLike[str]) -> sql.URL:
    text = os.fspath(address)
    url = sql.make_url(text) if "://" in text else sql.URL.create("sqlite", database=text)
    if url.get_backend_name() != "sqlite":
        return url
    if not url.database or url.database == ":memory:":
        raise InvalidParameter("A ledger in memory would forget what was spent.", "Give a path such as 'ledger.db'.")
    return url.set(database=str(Path(url.database).absolute()))


def _begin_immediately(connection: sql.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def head(connection: sql.Connection, *, ledger: str | None = None) -> Head | None:
    """The chain's last point, locked until the transaction ends; None in a database without a ledger.

    A newer format is refused, an older one migrated; another ledger than the expected one is refused.
    """
    row = connection.execute(sql.select(_chain).with_for_update()).one_or_none()
    if row is None:
        return None
    if row.format > FORMAT:
        raise LedgerVersion(
            f"The ledger has format {row.format}, this version knows up to {FORMAT}.", LedgerVersion.help
        )
    for version in range(row.format, FORMAT):
        MIGRATIONS[version](connection)
        connection.execute(sql.update(_chain).values(format=version + 1))
    if ledger is not None and row.ledger != ledger:
        raise LedgerMissing("Another ledger stands where the one in use was.", LedgerMissing.help)
    return Head(row.ledger, row.position, row.hash)


def start(connection: sql.Connection, ledger: str, entry: Entry) -> None:
    """Write the first entry of a new ledger."""
    connection.execute(sql.insert(_chain).values(one=1, format=FORMAT, ledger=ledger, position=0, hash=entry.hash))
    _insert(connection, entry)


def append(connection: sql.Connection, entry: Entry) -> None:
    """Write an entry and move the head to it."""
    _insert(connection, entry)
    connection.execute(sql.update(_chain).values(position=entry.position, hash=entry.hash))


def _insert(connection: sql.Connection, entry: Entry) -> None:
    connection.execute(
        sql.insert(_entries).values(
            position=entry.position,
            previous=entry.previous,
            time=entry.time,
            account=entry.account,
            kind=entry.kind,
            body=canonical_json(dict(entry.body)),
            hash=entry.hash,
        )
    )


def entries(connection: sql.Connection, account: str | None = None) -> list[Entry]:
    """All entries in order, or those of one account."""
    query = sql.select(_entries).order_by(_entries.c.position)
    if account is not None:
        query = query.where(_entries.c.account == account)
    return [
        Entry(row.position, row.previous, row.time, row.account, row.kind, _parsed(row.body), row.hash)
        for row in connection.execute(query)
    ]


def entry_at(connection: sql.Connection, position: int) -> Entry | None:
    """One entry by its position."""
    row = connection.execute(sql.select(_entries).where(_entries.c.position == position)).one_or_none()
    if row is None:
        return None
    return Entry(row.position, row.previous, row.time, row.account, row.kind, _parsed(row.body), row.hash)


def _parsed(body: str) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise LedgerCorrupt("An entry of the ledger cannot be read.", LedgerCorrupt.help)
    return values


def account_states(connection: sql.Connection) -> dict[str, tuple[str, str]]:
    """Source and state of every account, by name."""
    return {
        row.name: (row.source, row.state)
        for row in connection.execute(sql.select(_accounts).order_by(_accounts.c.name))
    }


def account_state(connection: sql.Connection, name: str) -> str | None:
    """State of one account."""
    return connection.execute(sql.select(_accounts.c.state).where(_accounts.c.name == name)).scalar_one_or_none()


def account_of_source(connection: sql.Connection, source: str) -> str | None:
    """The account that a source is bound to."""
    return connection.execute(sql.select(_accounts.c.name).where(_accounts.c.source == source)).scalar_one_or_none()


def add_account(connection: sql.Connection, name: str, source: str, state: str) -> None:
    """Write a new account."""
    connection.execute(sql.insert(_accounts).values(name=name, source=source, state=state))


def set_account_state(connection: sql.Connection, name: str, state: str) -> None:
    """Overwrite an account's state."""
    connection.execute(sql.update(_accounts).where(_accounts.c.name == name).values(state=state))


def copy_file(source: Path, target: Path) -> None:
    """A consistent copy of an SQLite file, taken while others may write."""
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True)) as reading:
        with contextlib.closing(sqlite3.connect(target)) as writing:
            reading.backup(writing)
