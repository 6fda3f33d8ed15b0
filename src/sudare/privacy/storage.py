"""Where the ledger's entries are kept: SQLite in one file, or PostgreSQL by URL.

One transaction does one thing, on a connection of its own: nothing is shared with forked or pickled copies. Writers
queue on the database's lock, so the chain has one head at a time. Both run with full durability: a commit that
returned survives a power cut.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sudare.errors import (
    ExtraMissing,
    InvalidParameter,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerMissing,
    LedgerVersion,
)
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


# Waiting writers ask for SQLite's lock this often, at random. Its own waiting (ever longer, up to 0.1 s) starves some
# of them: with 32 writers one waited for 8 of 12 seconds.
_POLL_SECONDS: Final = (0.001, 0.005)
# A number of our own, so that two processes do not create the tables of one PostgreSQL database at once.
_CREATION_LOCK: Final = 0x737564617265
# What servers call a lock that was not given in time (PostgreSQL: lock timeout, deadlock, serialisation).
_BUSY_STATES: Final = ("55P03", "40P01", "40001")
# Rights are lacking, or the server takes no writes.
_REFUSED_STATES: Final = ("42501", "25006")
_LONGEST_TIMEOUT_SECONDS: Final = 86_400.0


class _FileConnection(sqlite3.Connection):
    """Gives its lock up when it is closed; SQLite would keep it while the traceback of an interruption holds a cursor."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def cursor(self, *arguments: Any) -> Any:
        cursor: sqlite3.Cursor = super().cursor(*arguments)
        self._cursors.add(cursor)
        return cursor

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()
        if self.in_transaction:
            self.rollback()
        super().close()


class Storage:
    """The tables of one ledger. Holds no connection; can be pickled, copied and forked."""

    def __init__(self, address: str | os.PathLike[str], timeout_seconds: float) -> None:
        if not 0 <= timeout_seconds <= _LONGEST_TIMEOUT_SECONDS:
            raise InvalidParameter(
                f"timeout_seconds must be between 0 and {_LONGEST_TIMEOUT_SECONDS:g}, got {timeout_seconds!r}.",
                "Use for example 60.",
            )
        self.url = _as_url(address)
        self.timeout_seconds = timeout_seconds
        self.path = Path(self.url.database or "") if self.url.get_backend_name() == "sqlite" else None
        self._engine: sql.Engine | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}

    @property
    def public_name(self) -> str:
        """The file's name, or the server and database: no folders, no password, no options."""
        if self.path is not None:
            return self.path.name
        return f"{self.url.drivername}://{self.url.host or ''}/{self.url.database or ''}"

    @property
    def engine(self) -> sql.Engine:
        """An engine without a pool: every transaction opens a connection and closes it."""
        if self._engine is None:
            # Shown to other threads only when it is complete: without the listener they would write without a lock.
            self._engine = self._new_engine()
        return self._engine

    def _new_engine(self) -> sql.Engine:
        try:
            if self.path is not None:
                engine = sql.create_engine(self.url, poolclass=sql.NullPool, creator=self._connect_to_file)
            else:
                # What is read after the one row of `chain` is locked must be the newest there is, not a snapshot.
                engine = sql.create_engine(self.url, poolclass=sql.NullPool, isolation_level="READ COMMITTED")
        except (ImportError, SQLAlchemyError):
            raise ExtraMissing(
                f"The database driver for '{self.url.drivername}' is not installed.",
                "Install it, for example: pip install 'psycopg[binary]' for postgresql+psycopg://.",
            ) from None
        sql.event.listen(engine, "begin", self._begin_in_file if self.path is not None else self._begin_on_server)
        return engine

    def _connect_to_file(self) -> sqlite3.Connection:
        # mode=rw: a handle whose ledger is gone must not create an empty one, which would be a fresh budget.
        # sqlite3 would begin transactions by itself, and too late; `_begin_in_file` does it.
        return sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw",
            uri=True,
            timeout=self.timeout_seconds,
            isolation_level=None,
            factory=_FileConnection,
        )

    def _begin_in_file(self, connection: sql.Connection) -> None:
        raw: Any = connection.connection.driver_connection
        if _is_reading(connection):
            raw.execute("BEGIN")
            return
        deadline = time.monotonic() + self.timeout_seconds
        raw.execute("PRAGMA busy_timeout = 0")
        _execute_patiently(raw, "PRAGMA journal_mode = DELETE", deadline)
        raw.execute("PRAGMA synchronous = EXTRA")
        _execute_patiently(raw, "BEGIN IMMEDIATE", deadline)
        # The commit waits for readers.
        raw.execute(f"PRAGMA busy_timeout = {math.ceil(1000 * self.timeout_seconds)}")

    def _begin_on_server(self, connection: sql.Connection) -> None:
        if _is_reading(connection):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1, math.ceil(1000 * self.timeout_seconds))}")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sql.Connection]:
        """A write transaction: all of it is durable, or none of it happened."""
        with self._errors_explained(), self.engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A transaction that sees one state of the ledger and writes nothing, not even to a file it may not write."""
        with self._errors_explained(), self.engine.connect() as connection:
            yield connection.execution_options(**{_READING: True})

    @contextlib.contextmanager
    def _errors_explained(self) -> Iterator[None]:
        """Our errors instead of the driver's, whose messages may hold addresses and values."""
        try:
            yield
        except SQLAlchemyError as error:
            raise self._explained(getattr(error, "orig", None) or error) from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._explained(error) from None

    def _explained(self, error: BaseException) -> LedgerError:
        if _is_busy(error):
            return LedgerBusy(
                f"The ledger was locked by another process for {self.timeout_seconds:g} s.", LedgerBusy.help
            )
        if self.path is not None and not self.path.exists():
            return LedgerMissing(f"There is no ledger at '{self.path.name}'.", LedgerMissing.help)
        text = str(error)
        if "no such table: chain" in text or 'relation "chain" does not exist' in text:
            return LedgerMissing("The database holds no ledger.", LedgerMissing.help)
        kind = type(error).__name__
        if _is_about_content(error):
            return LedgerCorrupt(f"The database refused the ledger's statement ({kind}).", LedgerCorrupt.help)
        return LedgerError(
            f"The ledger's database cannot be used ({kind}).",
            "Check that the disk has space, the file may be written and the server answers. Nothing was charged.",
        )

    def create_file_if_absent(self) -> None:
        """An empty file in place, readable by its owner only; one that exists is left alone."""
        if self.path is None or self.path.is_file():
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise LedgerError(
                f"A ledger cannot be opened there ({error.strerror}).", "Check the path and its rights."
            ) from None

    def integrity_problem(self, connection: sql.Connection) -> str | None:
        """What SQLite's own check finds wrong with the file, if anything."""
        if self.path is None:
            return None
        answer = connection.exec_driver_sql("PRAGMA integrity_check").scalars().first()
        return None if answer == "ok" else "The database file is damaged."


_READING: Final = "sudare_reading"


def _is_reading(connection: sql.Connection) -> bool:
    return bool(connection.get_execution_options().get(_READING))


def _is_busy(error: BaseException) -> bool:
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or getattr(error, "sqlstate", None) in _BUSY_STATES


def _is_about_content(error: BaseException) -> bool:
    """Whether what is in the database is to blame, rather than disk, rights or server."""
    if getattr(error, "sqlite_errorname", None) == "SQLITE_ERROR" or "decode" in str(error):
        return True
    families = {family.__name__ for family in type(error).__mro__}
    is_refused = getattr(error, "sqlstate", None) in _REFUSED_STATES
    return "DatabaseError" in families and "OperationalError" not in families and not is_refused


def _execute_patiently(connection: sqlite3.Connection, statement: str, deadline: float) -> None:
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(random.uniform(*_POLL_SECONDS))  # noqa: S311 (nothing secret)


def _as_url(address: str | os.PathLike[str]) -> sql.URL:
    text = os.fspath(address)
    if not isinstance(text, str):
        raise InvalidParameter("A ledger's address is text.", "Give a path such as 'ledger.db'.")
    if isinstance(address, os.PathLike) or "://" not in text:
        return _file_url(text)
    try:
        url = sql.make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidParameter(
            "The ledger's address cannot be read.", "Use a path, or postgresql+psycopg://user@host/database."
        ) from None
    match url.get_backend_name():
        case "sqlite":
            return _file_url(url.database or "")
        case "postgresql":
            return url
        case backend:
            raise InvalidParameter(f"A ledger cannot be kept in '{backend}'.", "Use SQLite or PostgreSQL.")


def _file_url(path: str) -> sql.URL:
    if path in ("", ":memory:"):
        raise InvalidParameter("A ledger in memory would forget what was spent.", "Give a path such as 'ledger.db'.")
    return sql.URL.create("sqlite", database=str(Path(path).absolute()))


def create_tables_if_absent(connection: sql.Connection) -> None:
    """The tables of a ledger in a database that has none; one with a ledger of whatever format is left alone."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATION_LOCK)))
    found = {table for table in _tables.tables if sql.inspect(connection).has_table(table)}
    if not found:
        _tables.create_all(connection, checkfirst=False)
    elif _chain.name not in found:
        raise LedgerCorrupt("The database has a part of a ledger's tables only.", LedgerCorrupt.help)


def head(connection: sql.Connection, *, ledger: str | None = None) -> Head | None:
    """The chain's last point, locked until a write transaction ends; None in a database without a ledger.

    A newer format is refused, an older one migrated; another ledger than the expected one is refused.
    """
    is_reading = _is_reading(connection)
    query = sql.select(_chain) if is_reading else sql.select(_chain).with_for_update()
    rows = connection.execute(query.limit(2)).all()
    if not rows:
        return None
    row = rows[0]
    if len(rows) > 1 or not (_are_integers(row.format, row.position) and _are_texts(row.ledger, row.hash)):
        raise LedgerCorrupt("The head of the ledger cannot be read.", LedgerCorrupt.help)
    if row.format > FORMAT:
        raise LedgerVersion(
            f"The ledger has format {row.format}, this version knows up to {FORMAT}.", LedgerVersion.help
        )
    if row.format < FORMAT:
        _migrate(connection, row.format)
    if ledger is not None and row.ledger != ledger:
        raise LedgerMissing("Another ledger stands where the one in use was.", LedgerMissing.help)
    return Head(row.ledger, row.position, row.hash)


def _migrate(connection: sql.Connection, found: int) -> None:
    if _is_reading(connection):
        raise LedgerVersion(
            f"The ledger has format {found}, an older one than {FORMAT}.",
            "Open it anew with Ledger(…), which migrates it.",
        )
    for version in range(found, FORMAT):
        if version not in MIGRATIONS:
            raise LedgerCorrupt(f"The ledger has format {version}, which never was.", LedgerCorrupt.help)
        MIGRATIONS[version](connection)
        connection.execute(sql.update(_chain).values(format=version + 1))


def is_ready(connection: sql.Connection) -> bool:
    """Whether the database holds a ledger in this version's format, which needs nothing done to it."""
    if not sql.inspect(connection).has_table(_chain.name):
        return False
    return connection.execute(sql.select(_chain.c.format)).scalars().first() == FORMAT


def _are_integers(*values: object) -> bool:
    return all(type(value) is int for value in values)


def _are_texts(*values: object) -> bool:
    return all(type(value) is str for value in values)


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
    return [_entry(row) for row in connection.execute(query)]


def entry_at(connection: sql.Connection, position: int) -> Entry | None:
    """One entry by its position."""
    row = connection.execute(sql.select(_entries).where(_entries.c.position == position)).one_or_none()
    return None if row is None else _entry(row)


def has_entries(connection: sql.Connection, account: str) -> bool:
    """Whether anything was ever entered for an account."""
    query = sql.select(_entries.c.position).where(_entries.c.account == account).limit(1)
    return connection.execute(query).one_or_none() is not None


def _entry(row: sql.Row[Any]) -> Entry:
    """An entry, if every cell has its type and the body is the one text for what it says."""
    texts = (row.previous, row.time, row.account, row.kind, row.body, row.hash)
    body = _parsed(row.body) if _are_integers(row.position) and _are_texts(*texts) else None
    if body is None:
        raise LedgerCorrupt("An entry of the ledger cannot be read.", LedgerCorrupt.help)
    return Entry(row.position, row.previous, row.time, row.account, row.kind, body, row.hash)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        body = json.loads(text)
        return body if isinstance(body, dict) and canonical_json(body) == text else None
    except (ValueError, RecursionError):
        return None


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
    """A consistent copy of an SQLite file, taken while others may write and readable by its owner only."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    # mode=rw: a writer that was killed may have left a journal that must be rolled back first.
    with (
        contextlib.closing(sqlite3.connect(f"file:{quote(str(source))}?mode=rw", uri=True)) as reading,
        contextlib.closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)
