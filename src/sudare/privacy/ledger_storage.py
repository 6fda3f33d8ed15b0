"""Where the ledger's entries are kept: SQLite in one file, or PostgreSQL by URL.

One transaction does one thing, on a connection of its own: nothing is shared with forked or pickled copies. Writers
queue on the database's lock, so the chain has one head at a time. Both run with full durability: a commit that
returned survives a power cut.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import sqlite3
import time
import weakref
from collections.abc import Iterator
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
)
from sudare.frames.databases import with_secrets, without_secrets

# Where a handle that was unpickled in another process looks for the password of its database.
PASSWORD_VARIABLE: Final = "SUDARE_LEDGER_PASSWORD"  # noqa: S105 (the name of a variable)

# Waiting writers ask for SQLite's lock this often, at random. Its own waiting (ever longer, up to 0.1 s) starves some
# of them: with 32 writers one waited for 8 of 12 seconds.
_POLL_SECONDS: Final = (0.001, 0.005)
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
        # Whether this was unpickled from a handle whose address had a password, which pickles never hold.
        self.had_password = False

    def __getstate__(self) -> dict[str, Any]:
        """Without a password: it is found again in this process and its forks, elsewhere in the environment."""
        url = without_secrets(self.url)
        return {**self.__dict__, "_engine": None, "url": url, "had_password": self.had_password or url != self.url}

    def __setstate__(self, state: dict[str, Any]) -> None:
        found, password = with_secrets(state["url"]), os.environ.get(PASSWORD_VARIABLE)
        lost = state["had_password"] and found == state["url"]
        self.__dict__.update({**state, "url": found.set(password=password) if lost and password else found})

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
        def connected() -> sqlite3.Connection:
            return sqlite3.connect(
                f"file:{quote(str(self.path))}?mode=rw",
                uri=True,
                timeout=self.timeout_seconds,
                isolation_level=None,
                factory=_FileConnection,
            )

        try:
            return connected()
        except sqlite3.OperationalError:
            # Looked at once: another process may have made it since, and that is no fault of the disk.
            missing = self._missing()
            if missing is not None:
                raise missing from None
        return connected()

    def _missing(self) -> LedgerMissing | None:
        """What says that the ledger is a file and that there is none; None where there is one, or a server has it."""
        if self.path is None or self.path.exists():
            return None
        return LedgerMissing(f"There is no ledger at '{self.path.name}'.", LedgerMissing.help)

    def _begin_in_file(self, connection: sql.Connection) -> None:
        raw: Any = connection.connection.driver_connection
        if is_reading(connection):
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
        if is_reading(connection):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1, math.ceil(1000 * self.timeout_seconds))}")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sql.Connection]:
        """A write transaction: all of it is durable, or none of it happened."""
        self._check_one_name()
        with self._errors_explained(), self.engine.begin() as connection:
            yield connection

    def _check_one_name(self) -> None:
        """Raise LedgerError if the file has several names.

        What SQLite needs after a crash lies beside the name it was opened by: opened by another one, the file would seem whole, and
        what is charged then would be undone later.
        """
        try:
            names = 1 if self.path is None else self.path.stat().st_nlink
        except OSError:
            # Opening it tells what is wrong.
            return
        if names > 1:
            raise LedgerError(
                f"The ledger's file has {names} names (hard links), so a crash could undo charges. Nothing was charged.",
                "Keep one name and remove the others; copy a ledger with `sudare budget backup`.",
            )

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
        missing = self._missing()
        if missing is not None:
            return missing
        text = str(error)
        if "no such table: chain" in text or 'relation "chain" does not exist' in text:
            return LedgerMissing("The database holds no ledger.", LedgerMissing.help)
        if "file is not a database" in text:
            return LedgerCorrupt(
                "The file is no ledger.",
                "Check the path. If the ledger was there, its file was overwritten: keep it, and restore a backup that verifies.",
            )
        kind = type(error).__name__
        if _is_about_content(error):
            return LedgerCorrupt(f"The database refused the ledger's statement ({kind}).", LedgerCorrupt.help)
        if self.had_password and without_secrets(self.url) == self.url:
            return LedgerError(
                f"The ledger's database cannot be used ({kind}), and its password does not travel with copies of a handle.",
                f"Set {PASSWORD_VARIABLE} in this process, or use libpq's PGPASSFILE. Nothing was charged.",
            )
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


def is_reading(connection: sql.Connection) -> bool:
    """Whether a transaction was begun by `Storage.reading`."""
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
        url = None
    if url is None:
        # Raised out here, without the library's error in its chain, which may quote the address with its password.
        raise InvalidParameter(
            "The ledger's address cannot be read.", "Use a path, or postgresql+psycopg://user@host/database."
        )
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


def copy_file(source: Path, target: Path) -> None:
    """A consistent copy of an SQLite file, taken while others may write and readable by its owner only."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    # mode=rw: a writer that was killed may have left a journal that must be rolled back first.
    with (
        contextlib.closing(sqlite3.connect(f"file:{quote(str(source))}?mode=rw", uri=True)) as reading,
        contextlib.closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)
