"""Where entries are kept: addresses, durability, waiting for the lock, and errors in our own words."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sql
from sqlalchemy.exc import DatabaseError, InvalidRequestError, OperationalError

from sudare.errors import (
    ExtraMissing,
    InvalidParameter,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerMissing,
    LedgerVersion,
)
from sudare.privacy import ledger_storage as storage
from sudare.privacy import ledger_tables as tables
from sudare.privacy.ledger_chain import Head, next_entry
from sudare.privacy.ledger_storage import PASSWORD_VARIABLE, Storage
from tests.ledgers import FIRST, LEDGER, edited, fork, quick_folder, started_storage


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


@pytest.fixture
def store(folder: Path) -> Storage:
    return started_storage(folder)


def waiting(store: Storage, timeout_seconds: float) -> Storage:
    assert store.path is not None
    return Storage(store.path, timeout_seconds)


class TestAddresses:
    def test_a_path_is_made_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for address in (
            "a/ledger.db",
            Path("a/ledger.db"),
            "sqlite:///a/ledger.db",
            "sqlite+pysqlite:///a/ledger.db?x=1",
        ):
            found = Storage(address, 1.0)
            assert found.path == tmp_path / "a" / "ledger.db"
            assert found.url == sql.URL.create("sqlite", database=str(tmp_path / "a" / "ledger.db"))
            assert found.public_name == "ledger.db"

    def test_a_path_object_is_never_a_url(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert Storage(Path("postgresql://host/db"), 1.0).path == tmp_path / "postgresql:/host/db"

    @pytest.mark.parametrize("address", ["", ":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:"])
    def test_memory_is_refused(self, address: str) -> None:
        with pytest.raises(InvalidParameter) as caught:
            Storage(address, 1.0)
        assert caught.value.problem == "A ledger in memory would forget what was spent."
        assert caught.value.remedy == "Give a path such as 'ledger.db'."

    def test_an_address_is_text(self) -> None:
        with pytest.raises(InvalidParameter) as caught:
            Storage(cast("str", b"ledger.db"), 1.0)
        assert caught.value.problem == "A ledger's address is text."
        assert caught.value.remedy == "Give a path such as 'ledger.db'."

    @pytest.mark.parametrize("address", ["://", "postgresql://user:secret@host:port/db"])
    def test_an_unreadable_address_is_refused_and_not_repeated(self, address: str) -> None:
        with pytest.raises(InvalidParameter) as caught:
            Storage(address, 1.0)
        assert caught.value.problem == "The ledger's address cannot be read."
        assert caught.value.remedy == "Use a path, or postgresql+psycopg://user@host/database."

    def test_other_databases_are_refused(self) -> None:
        with pytest.raises(InvalidParameter) as caught:
            Storage("mysql://user:secret@host/db", 1.0)
        assert caught.value.problem == "A ledger cannot be kept in 'mysql'."
        assert caught.value.remedy == "Use SQLite or PostgreSQL."

    def test_a_server_is_named_without_its_secrets(self) -> None:
        found = Storage("postgresql+psycopg://user:secret@host/db?password=secret", 1.0)
        assert found.path is None
        assert found.public_name == "postgresql+psycopg://host/db"
        assert Storage("postgresql://", 1.0).public_name == "postgresql:///"

    @pytest.mark.parametrize("driver", ["postgresql+nosuchdriver", "postgresql+pypostgresql"])
    def test_a_missing_driver_is_named(self, driver: str) -> None:
        with pytest.raises(ExtraMissing) as caught:
            _ = Storage(f"{driver}://user:secret@host/db", 1.0).engine
        assert caught.value.problem == f"The database driver for '{driver}' is not installed."
        assert caught.value.remedy == (
            "Install it, for example: pip install 'psycopg[binary]' for postgresql+psycopg://."
        )

    @pytest.mark.parametrize("timeout", [-1, -1e-9, 86_401, float("nan"), float("inf")])
    def test_waiting_times_that_cannot_be(self, timeout: float) -> None:
        with pytest.raises(InvalidParameter) as caught:
            Storage("ledger.db", timeout)
        assert caught.value.problem == f"timeout_seconds must be between 0 and 86400, got {timeout!r}."
        assert caught.value.remedy == "Use for example 60."

    @pytest.mark.parametrize("timeout", [0, 86_400])
    def test_waiting_times_that_can_be(self, timeout: float) -> None:
        assert Storage("ledger.db", timeout).timeout_seconds == timeout


class TestFile:
    def test_created_with_its_folders_for_its_owner_only(self, tmp_path: Path) -> None:
        store = Storage(tmp_path / "a" / "b" / "ledger.db", 1.0)
        store.create_file_if_absent()
        path = tmp_path / "a" / "b" / "ledger.db"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o640)
        path.write_bytes(b"untouched")
        store.create_file_if_absent()
        assert path.read_bytes() == b"untouched"
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_a_folder_is_not_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerError) as caught:
            Storage(tmp_path, 1.0).create_file_if_absent()
        assert caught.value.problem == "A ledger cannot be opened there (Is a directory)."
        assert caught.value.remedy == "Check the path and its rights."

    def test_a_file_is_not_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(LedgerError, match="cannot be opened there"):
            Storage(tmp_path / "file" / "ledger.db", 1.0).create_file_if_absent()

    def test_servers_have_no_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Storage("postgresql://host/db", 1.0).create_file_if_absent()
        assert list(tmp_path.iterdir()) == []

    def test_a_handle_never_creates_a_file(self, tmp_path: Path) -> None:
        store = Storage(tmp_path / "ledger.db", 1.0)
        for begin in (store.transaction, store.reading):
            with pytest.raises(LedgerMissing) as caught, begin() as connection:
                connection.execute(sql.text("SELECT 1"))
            assert caught.value.problem == "There is no ledger at 'ledger.db'."
            assert caught.value.remedy == LedgerMissing.help
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("name", ["a b.db", "100%.db", "a?b#c.db", "ü.db", "file:x.db", "'q'.db"])
    def test_odd_names(self, tmp_path: Path, name: str) -> None:
        store = Storage(tmp_path / name, 1.0)
        store.create_file_if_absent()
        with store.transaction() as connection:
            tables.create_tables_if_absent(connection)
        assert [path.name for path in tmp_path.iterdir()] == [name]


class TestCopies:
    def test_pickled_and_copied_without_the_engine(self, store: Storage) -> None:
        assert store._engine is not None
        for twin in (pickle.loads(pickle.dumps(store)), copy.deepcopy(store), copy.copy(store)):
            assert twin._engine is None
            assert (twin.url, twin.path, twin.timeout_seconds) == (store.url, store.path, 60.0)
            with twin.reading() as connection:
                assert tables.head(connection) == Head(LEDGER, 0, FIRST.hash)
        assert store._engine is not None

    ADDRESSES = (
        "postgresql+psycopg://ann:correct-horse@localhost:1/ledger?connect_timeout=1",
        "postgresql+psycopg://ann@localhost:1/ledger?password=correct-horse&connect_timeout=1",
    )

    @pytest.mark.parametrize("address", ADDRESSES)
    def test_a_password_stays_in_the_process(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sudare.frames.databases._WHOLE_ADDRESSES", {})
        store = Storage(address, 1.0)
        text = pickle.dumps(store)
        assert b"correct-horse" not in text
        for twin in (pickle.loads(text), copy.deepcopy(store), pickle.loads(pickle.dumps(pickle.loads(text)))):
            assert twin.url == store.url
        # As in a process that was spawned, not forked.
        monkeypatch.setattr("sudare.frames.databases._WHOLE_ADDRESSES", {})
        monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
        lost = pickle.loads(text)
        assert lost.url.password is None
        with pytest.raises(LedgerError) as caught, lost.reading():
            pass
        assert "its password does not travel with copies of a handle" in caught.value.problem
        assert caught.value.remedy == (
            "Set SUDARE_LEDGER_PASSWORD in this process, or use libpq's PGPASSFILE. Nothing was charged."
        )
        with pytest.raises(LedgerError, match="password does not travel"), pickle.loads(pickle.dumps(lost)).reading():
            pass
        monkeypatch.setenv(PASSWORD_VARIABLE, "from the environment")
        found = pickle.loads(text)
        assert found.url.password == "from the environment"
        assert b"from the environment" not in pickle.dumps(found)
        with pytest.raises(LedgerError) as caught, found.reading():
            pass
        assert "travel" not in caught.value.problem

    def test_without_a_password_nothing_is_looked_for(self, store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(PASSWORD_VARIABLE, "from the environment")
        for each in (store, Storage("postgresql+psycopg://ann@db/ledger", 1.0)):
            twin = pickle.loads(pickle.dumps(each))
            assert (twin.url, twin.had_password) == (each.url, False)

    def test_an_address_that_cannot_be_read_leaves_no_trace(self) -> None:
        with pytest.raises(InvalidParameter) as caught:
            Storage("postgresql://ann:correct-horse@db:port/ledger", 1.0)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None

    def test_one_engine_without_a_pool(self, store: Storage) -> None:
        assert store.engine is store.engine
        assert isinstance(store.engine.pool, sql.NullPool)

    def test_an_engine_is_shown_to_other_threads_only_with_its_lock(
        self, store: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        twin = copy.copy(store)
        seen: list[object] = []
        listen = sql.event.listen

        def noted(target: object, event: str, *arguments: Any, **options: Any) -> None:
            if event == "begin":
                seen.append(twin._engine)
            listen(target, event, *arguments, **options)

        monkeypatch.setattr(sql.event, "listen", noted)
        _ = twin.engine
        assert seen == [None]

    def test_threads_charge_one_after_the_other(self, store: Storage) -> None:
        twin = copy.copy(store)

        def append_ten() -> None:
            for _ in range(10):
                with twin.transaction() as connection:
                    head = tables.head(connection)
                    tables.append(connection, next_entry(head, "now", "", "disclosure", {}))

        threads = [threading.Thread(target=append_ten) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.reading() as connection:
            assert [entry.position for entry in tables.entries(connection)] == list(range(41))


class TestDurability:
    def test_writing_is_fully_durable_and_locked(self, store: Storage) -> None:
        with store.transaction() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 60_000
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                sqlite3.connect(str(store.path), timeout=0).execute("BEGIN IMMEDIATE")

    def test_the_journal_mode_is_set_back(self, store: Storage) -> None:
        with edited(cast("Path", store.path)) as connection:
            assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        with store.transaction() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"

    def test_the_commit_waits_as_long_as_the_beginning(self, store: Storage) -> None:
        with waiting(store, 0.0015).transaction() as connection:
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 2

    def test_a_failed_transaction_leaves_nothing(self, store: Storage) -> None:
        def interrupted() -> None:
            with store.transaction() as connection:
                tables.add_account(connection, "a", "s", "x")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        with store.reading() as connection:
            assert tables.account_states(connection) == {}

    @pytest.mark.parametrize("begin", [Storage.transaction, Storage.reading])
    def test_an_interruption_gives_the_lock_up_while_its_traceback_is_kept(
        self, store: Storage, begin: Callable[[Storage], Any]
    ) -> None:
        def interrupted() -> None:
            with begin(store) as connection:
                raw = connection.connection.driver_connection
                cursor = raw.execute("SELECT * FROM entries, entries AS more")
                assert cursor.fetchone() is not None
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as kept:
            interrupted()
        with waiting(store, 0.0).transaction() as connection:
            tables.add_account(connection, "a", "s", "x")
        assert kept.tb is not None

    def test_a_closed_connection_has_left_its_transaction(self, store: Storage) -> None:
        raw = store._connect_to_file()
        pending = raw.execute("SELECT 1 UNION SELECT 2")
        raw.execute("BEGIN IMMEDIATE")
        raw.close()
        with pytest.raises(sqlite3.ProgrammingError):
            pending.fetchone()
        with waiting(store, 0.0).transaction() as connection:
            assert tables.head(connection) is not None

    def test_reading_sees_one_state(self, store: Storage) -> None:
        with store.reading() as connection:
            assert tables.account_states(connection) == {}
            with pytest.raises(LedgerBusy), waiting(store, 0.0).transaction() as writing:
                tables.add_account(writing, "a", "s", "x")
            assert tables.account_states(connection) == {}

    def test_reading_writes_nothing(self, store: Storage) -> None:
        with store.reading() as connection:
            tables.add_account(connection, "a", "s", "x")
        with store.reading() as connection:
            assert tables.account_states(connection) == {}

    def test_connections_wait_and_begin_nothing_by_themselves(self, store: Storage) -> None:
        raw = store._connect_to_file()
        assert raw.isolation_level is None
        assert raw.execute("PRAGMA busy_timeout").fetchone() == (60_000,)
        raw.close()

    def test_two_may_read(self, store: Storage) -> None:
        with store.reading() as first, waiting(store, 0.0).reading() as second:
            assert tables.head(first) == tables.head(second)


class TestWaiting:
    def test_a_lock_that_is_not_given_up_is_busy(self, store: Storage) -> None:
        with store.transaction(), pytest.raises(LedgerBusy) as caught, waiting(store, 0.02).transaction():
            pass
        assert caught.value.problem == "The ledger was locked by another process for 0.02 s."
        assert caught.value.remedy == LedgerBusy.help

    def test_waiting_ends_when_the_lock_is_given_up(self, store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        other = sqlite3.connect(str(store.path), isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                other.execute("COMMIT")

        monkeypatch.setattr(time, "sleep", sleep)
        with store.transaction() as connection:
            assert tables.head(connection) == Head(LEDGER, 0, FIRST.hash)
        assert len(slept) == 3
        assert all(0.001 <= seconds <= 0.005 for seconds in slept)
        other.close()

    def test_two_polls_before_the_deadline(self, store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        other = sqlite3.connect(str(store.path), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        now = iter([100.0, 101.0, 101.999, 102.0])
        slept: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: next(now))
        monkeypatch.setattr(time, "sleep", slept.append)
        with pytest.raises(LedgerBusy), waiting(store, 2.0).transaction():
            pass
        assert len(slept) == 2
        assert next(now, None) is None
        other.close()

    def test_other_errors_are_not_waited_for(self, store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        cast("Path", store.path).write_bytes(b"this is not a database" * 100)
        monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("waited"))
        with pytest.raises(LedgerCorrupt), store.transaction():
            pass

    def test_the_commit_can_be_busy_too(self, store: Storage) -> None:
        other = sqlite3.connect(str(store.path), isolation_level=None)
        other.execute("BEGIN")
        other.execute("SELECT * FROM chain").fetchall()
        with pytest.raises(LedgerBusy), waiting(store, 0.01).transaction() as connection:
            tables.add_account(connection, "a", "s", "x")
        other.close()
        with store.reading() as connection:
            assert tables.account_states(connection) == {}


def named(kind: str, bases: tuple[type, ...], **attributes: object) -> BaseException:
    return cast("BaseException", type(kind, bases, attributes)("host=secret"))


class ServerDatabaseError(Exception):
    """Stands for psycopg.DatabaseError."""


ServerDatabaseError.__name__ = "DatabaseError"
ServerOperationalError = type("OperationalError", (ServerDatabaseError,), {})


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (named("LockNotAvailable", (ServerOperationalError,), sqlstate="55P03"), LedgerBusy),
            (named("DeadlockDetected", (ServerOperationalError,), sqlstate="40P01"), LedgerBusy),
            (named("SerializationFailure", (ServerOperationalError,), sqlstate="40001"), LedgerBusy),
            (named("OperationalError", (ServerOperationalError,), sqlstate=None), LedgerError),
            (named("DiskFull", (ServerOperationalError,), sqlstate="53100"), LedgerError),
            (named("InsufficientPrivilege", (ServerDatabaseError,), sqlstate="42501"), LedgerError),
            (named("ReadOnlySqlTransaction", (ServerDatabaseError,), sqlstate="25006"), LedgerError),
            (named("UniqueViolation", (ServerDatabaseError,), sqlstate="23505"), LedgerCorrupt),
            (named("UndefinedTable", (ServerDatabaseError,), sqlstate="42P01"), LedgerCorrupt),
            (named("InterfaceError", (Exception,)), LedgerError),
            (sqlite3.OperationalError("database or disk is full"), LedgerError),
            (sqlite3.OperationalError("Could not decode to UTF-8 column"), LedgerCorrupt),
            (named("OperationalError", (sqlite3.OperationalError,), sqlite_errorname="SQLITE_LOCKED_X"), LedgerBusy),
            (named("OperationalError", (sqlite3.OperationalError,), sqlite_errorname="SQLITE_BUSY_X"), LedgerBusy),
            (named("OperationalError", (sqlite3.OperationalError,), sqlite_errorname="SQLITE_FULL"), LedgerError),
            (named("OperationalError", (sqlite3.OperationalError,), sqlite_errorname="SQLITE_ERROR"), LedgerCorrupt),
            (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), LedgerCorrupt),
            (sqlite3.DatabaseError("database disk image is malformed"), LedgerCorrupt),
            (sqlite3.IntegrityError("UNIQUE constraint failed"), LedgerCorrupt),
        ],
        ids=lambda value: getattr(value, "__name__", type(value).__name__),
    )
    def test_the_drivers_errors_become_ours(
        self, store: Storage, error: BaseException, expected: type[LedgerError]
    ) -> None:
        with pytest.raises(LedgerError) as caught, store.transaction():
            raise DatabaseError("SELECT secret", {}, error)
        assert type(caught.value) is expected
        assert "secret" not in str(caught.value)
        assert caught.value.__suppress_context__
        if expected is LedgerError:
            assert caught.value.problem == f"The ledger's database cannot be used ({type(error).__name__})."
            assert caught.value.remedy == (
                "Check that the disk has space, the file may be written and the server answers. Nothing was charged."
            )
        if expected is LedgerCorrupt:
            assert caught.value.problem == f"The database refused the ledger's statement ({type(error).__name__})."
            assert caught.value.remedy == LedgerCorrupt.help

    def test_errors_of_sqlalchemy_itself(self, store: Storage) -> None:
        with pytest.raises(LedgerError, match=r"cannot be used \(InvalidRequestError\)"), store.transaction():
            raise InvalidRequestError("secret")
        with pytest.raises(LedgerError, match=r"cannot be used \(OperationalError\)"), store.reading():
            raise OperationalError("secret", {}, None)  # type: ignore[arg-type]

    def test_a_file_that_is_taken_away_while_it_is_read_is_missing(self, store: Storage) -> None:
        def read() -> None:
            with store.reading():
                assert store.path is not None
                store.path.unlink()
                raise OperationalError("secret", {}, None)  # type: ignore[arg-type]

        with pytest.raises(LedgerMissing, match="There is no ledger at"):
            read()

    def test_a_file_that_is_made_while_it_is_opened_is_opened(
        self, store: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As the first start of a node does while somebody asks for its status: that is no fault of the disk."""
        tries = []
        connect = sqlite3.connect

        def not_there_at_first(*arguments: Any, **options: Any) -> sqlite3.Connection:
            tries.append(1)
            if len(tries) == 1:
                raise sqlite3.OperationalError("unable to open database file")
            return connect(*arguments, **options)

        monkeypatch.setattr(sqlite3, "connect", not_there_at_first)
        with store.reading() as connection:
            head = tables.head(connection)
        assert head is not None
        assert (head.ledger, len(tries)) == (LEDGER, 2)

    @pytest.mark.parametrize("text", ["no such table: chain", 'relation "chain" does not exist'])
    def test_a_database_without_a_ledger(self, store: Storage, text: str) -> None:
        with pytest.raises(LedgerMissing) as caught, store.transaction():
            raise DatabaseError("", {}, sqlite3.OperationalError(text))
        assert caught.value.problem == "The database holds no ledger."
        assert caught.value.remedy == LedgerMissing.help

    def test_a_dropped_table_is_a_corrupt_ledger(self, store: Storage) -> None:
        with edited(cast("Path", store.path)) as connection:
            connection.execute("DROP TABLE entries")
        with pytest.raises(LedgerCorrupt, match="refused the ledger's statement"), store.reading() as connection:
            tables.entries(connection)

    def test_a_schema_that_is_not_text(self, store: Storage) -> None:
        for begin in (store.transaction, store.reading):
            with pytest.raises(LedgerCorrupt, match=r"refused the ledger's statement \(UnicodeDecodeError\)"), begin():
                raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    def test_our_own_errors_pass_through(self, store: Storage) -> None:
        for begin in (store.transaction, store.reading):
            with pytest.raises(LedgerVersion, match="as it is"), begin():
                raise LedgerVersion("as it is.", "x")


class Recorder:
    """A connection to nowhere that remembers what it was told."""

    def __init__(self, reading: bool) -> None:
        self.reading = reading
        self.statements: list[str] = []

    def get_execution_options(self) -> dict[str, bool]:
        return {"sudare_reading": True} if self.reading else {}

    def exec_driver_sql(self, statement: str) -> None:
        self.statements.append(statement)


class TestServer:
    """What a PostgreSQL server is told; tests/faults/test_ledger_races.py asks a real one."""

    @pytest.mark.parametrize(("timeout", "milliseconds"), [(60.0, 60_000), (0.0, 1), (0.0011, 2)])
    def test_writing_waits_for_the_lock_and_for_the_disk(self, timeout: float, milliseconds: int) -> None:
        told = Recorder(reading=False)
        Storage("postgresql://host/db", timeout)._begin_on_server(cast("sql.Connection", told))
        assert told.statements == [
            "SET LOCAL synchronous_commit = on",
            f"SET LOCAL lock_timeout = {milliseconds}",
        ]

    def test_reading_sees_one_state(self) -> None:
        told = Recorder(reading=True)
        Storage("postgresql://host/db", 1.0)._begin_on_server(cast("sql.Connection", told))
        assert told.statements == ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"]

    def test_the_engine_reads_the_newest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        created: list[dict[str, Any]] = []
        listened: list[tuple[Any, ...]] = []

        def create_engine(url: sql.URL, **options: Any) -> str:
            created.append({"url": url, **options})
            return "engine"

        monkeypatch.setattr(sql, "create_engine", create_engine)
        monkeypatch.setattr(sql.event, "listen", lambda *arguments: listened.append(arguments))
        store = Storage("postgresql://host/db", 1.0)
        assert cast("object", store.engine) == "engine"
        assert created == [{"url": store.url, "poolclass": sql.NullPool, "isolation_level": "READ COMMITTED"}]
        assert listened == [("engine", "begin", store._begin_on_server)]

    def test_servers_check_their_own_files(self) -> None:
        assert Storage("postgresql://host/db", 1.0).integrity_problem(cast("sql.Connection", None)) is None


class TestIntegrity:
    def test_a_sound_file(self, store: Storage) -> None:
        with store.reading() as connection:
            assert store.integrity_problem(connection) is None

    def test_a_damaged_file(self, store: Storage) -> None:
        with edited(cast("Path", store.path)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("DELETE FROM sqlite_master WHERE name = 'ix_entries_account'")
        with store.reading() as connection:
            assert store.integrity_problem(connection) == "The database file is damaged."


class TestCopyFile:
    def test_a_copy_is_the_same_and_for_its_owner_only(self, store: Storage, folder: Path) -> None:
        storage.copy_file(cast("Path", store.path), folder / "copy.db")
        assert stat.S_IMODE((folder / "copy.db").stat().st_mode) == 0o600
        with Storage(folder / "copy.db", 1.0).reading() as connection:
            assert tables.entries(connection) == [FIRST]

    def test_never_over_another_file(self, store: Storage, folder: Path) -> None:
        (folder / "copy.db").write_text("mine")
        with pytest.raises(FileExistsError):
            storage.copy_file(cast("Path", store.path), folder / "copy.db")
        assert (folder / "copy.db").read_text() == "mine"

    def test_what_a_killed_writer_left_is_rolled_back_first(self, store: Storage, folder: Path) -> None:
        path = cast("Path", store.path)
        child = fork()
        if child == 0:
            writing = sqlite3.connect(path, isolation_level=None)
            writing.execute("PRAGMA cache_size = 1")
            writing.execute("BEGIN IMMEDIATE")
            writing.execute("UPDATE entries SET time = 'half'")
            for number in range(200):
                writing.execute("INSERT INTO accounts VALUES (?, ?, ?)", (str(number), str(number), "x" * 4000))
            os._exit(0)
        os.waitpid(child, 0)
        assert path.with_name("ledger.db-journal").stat().st_size > 0
        storage.copy_file(path, folder / "copy.db")
        with Storage(folder / "copy.db", 1.0).reading() as connection:
            assert tables.entries(connection) == [FIRST]
            assert tables.account_states(connection) == {}


def test_a_file_with_two_names_is_not_written(tmp_path: Path) -> None:
    storage = started_storage(tmp_path)
    os.link(tmp_path / "ledger.db", tmp_path / "other.db")
    with pytest.raises(LedgerError) as caught, storage.transaction():
        pass
    assert caught.value.problem == (
        "The ledger's file has 2 names (hard links), so a crash could undo charges. Nothing was charged."
    )
    assert caught.value.remedy == "Keep one name and remove the others; copy a ledger with `sudare budget backup`."
    with storage.reading() as connection:
        assert tables.head(connection) is not None
    (tmp_path / "other.db").unlink()
    with storage.transaction() as connection:
        assert tables.head(connection) is not None
    (tmp_path / "ledger.db").unlink()
    with pytest.raises(LedgerMissing), storage.transaction():
        pass
