"""The tables of a ledger: made once, of one format, and read only where every cell is what it must be."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sql
from sqlalchemy.dialects import postgresql

from sudare.errors import LedgerCorrupt, LedgerMissing, LedgerVersion
from sudare.privacy import ledger_tables as tables
from sudare.privacy.ledger_chain import Entry, Head, next_entry
from sudare.privacy.ledger_storage import Storage
from tests.ledgers import FIRST, LEDGER, edited, quick_folder, started_storage


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


@pytest.fixture
def store(folder: Path) -> Storage:
    return started_storage(folder)


class TestTables:
    def test_created_once(self, store: Storage) -> None:
        with store.transaction() as connection:
            tables.create_tables_if_absent(connection)
            assert sorted(sql.inspect(connection).get_table_names()) == ["accounts", "chain", "entries"]
            assert tables.head(connection) == Head(LEDGER, 0, FIRST.hash)

    def test_a_ledger_of_another_format_is_not_touched(self, folder: Path) -> None:
        store = Storage(folder / "new.db", 1.0)
        with edited(folder / "new.db") as connection:
            connection.execute("CREATE TABLE chain (format INTEGER)")
        before = (folder / "new.db").read_bytes()
        with store.transaction() as writing:
            tables.create_tables_if_absent(writing)
        assert (folder / "new.db").read_bytes() == before

    @pytest.mark.parametrize("table", ["entries", "accounts"])
    def test_a_part_of_a_ledger_is_not_completed(self, folder: Path, table: str) -> None:
        with edited(folder / "new.db") as connection:
            connection.execute(f"CREATE TABLE {table} (x)")
        with pytest.raises(LedgerCorrupt) as caught, Storage(folder / "new.db", 1.0).transaction() as writing:
            tables.create_tables_if_absent(writing)
        assert caught.value.problem == "The database has a part of a ledger's tables only."
        assert caught.value.remedy == LedgerCorrupt.help

    def test_tables_are_created_under_a_lock_of_their_own(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        locks: list[int] = []
        store = Storage(folder / "new.db", 1.0)
        store.create_file_if_absent()
        with store.transaction() as connection:
            raw: Any = connection.connection.driver_connection
            raw.create_function("pg_advisory_xact_lock", 1, locks.append)
            tables.create_tables_if_absent(connection)
            assert locks == []
            monkeypatch.setattr(connection.dialect, "name", "postgresql")
            tables.create_tables_if_absent(connection)
        assert locks == [int.from_bytes(b"sudare", "big")]

    def test_the_layout_of_the_tables(self, store: Storage) -> None:
        with edited(cast("Path", store.path)) as connection:
            for statement in (
                "INSERT INTO chain VALUES (2, 1, 'x', 0, 'x')",
                "INSERT INTO chain VALUES (1, 1, 'x', 0, 'x')",
                "INSERT INTO entries SELECT 0, previous, time, account, kind, body, 'x' FROM entries",
                "INSERT INTO entries SELECT 1, previous, time, account, kind, body, hash FROM entries",
                "INSERT INTO accounts VALUES ('a', NULL, 'x')",
                "INSERT INTO accounts VALUES ('a', 's', NULL)",
                *(
                    f"UPDATE entries SET {name} = NULL"
                    for name in ("previous", "time", "account", "kind", "body", "hash")
                ),
                *(f"UPDATE chain SET {name} = NULL" for name in ("format", "ledger", "position", "hash")),
            ):
                connection.execute("PRAGMA ignore_check_constraints = OFF")
                with pytest.raises(sqlite3.IntegrityError):
                    connection.execute(statement)
            connection.execute("INSERT INTO accounts VALUES ('a', 's', 'x')")
            for statement in (
                "INSERT INTO accounts VALUES ('b', 's', 'x')",
                "INSERT INTO accounts VALUES ('a', 't', 'x')",
            ):
                with pytest.raises(sqlite3.IntegrityError):
                    connection.execute(statement)
            plan = connection.execute("EXPLAIN QUERY PLAN SELECT * FROM entries WHERE account = 'a'").fetchall()
            assert "USING INDEX ix_entries_account" in plan[0][3]

    def test_ready_or_not(self, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with store.reading() as connection:
            assert tables.is_ready(connection)
            monkeypatch.setattr(tables, "OLDEST_READABLE_FORMAT", 5)
            assert not tables.is_ready(connection)
        empty = Storage(folder / "empty.db", 1.0)
        empty.create_file_if_absent()
        with empty.reading() as connection:
            assert not tables.is_ready(connection)
        with empty.transaction() as connection:
            tables.create_tables_if_absent(connection)
        with empty.reading() as connection:
            assert not tables.is_ready(connection)
            assert tables.head(connection) is None


class TestHead:
    def test_the_head_moves_with_every_entry(self, store: Storage) -> None:
        entry = next_entry(Head(LEDGER, 0, FIRST.hash), "now", "a", "disclosure", {"é": [1, 2.5, None]})
        with store.transaction() as connection:
            tables.append(connection, entry)
            assert tables.head(connection) == Head(LEDGER, 1, entry.hash)
            assert tables.head(connection, ledger=LEDGER) == Head(LEDGER, 1, entry.hash)
            assert tables.entries(connection) == [FIRST, entry]

    def test_another_ledger_is_refused(self, store: Storage) -> None:
        with pytest.raises(LedgerMissing) as caught, store.reading() as connection:
            tables.head(connection, ledger="2" * 32)
        assert caught.value.problem == "Another ledger stands where the one in use was."
        assert caught.value.remedy == LedgerMissing.help

    def test_writers_lock_the_one_row_and_readers_do_not(self, store: Storage) -> None:
        asked: list[str] = []

        def noted(_connection: object, clause: Any, *_others: object) -> None:
            if isinstance(clause, sql.Select):
                asked.append(str(clause.compile(dialect=postgresql.dialect())))  # type: ignore[no-untyped-call]

        sql.event.listen(store.engine, "before_execute", noted)
        with store.transaction() as connection:
            tables.head(connection)
        with store.reading() as connection:
            tables.head(connection)
        with store.reading() as connection:
            tables.entries(connection)
        assert asked[-1].endswith("ORDER BY entries.position")
        assert asked[0].endswith("FOR UPDATE")
        assert "FOR UPDATE" not in asked[1]
        assert "chain.format" in asked[0]

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE chain SET format = 'one'",
            "UPDATE chain SET format = x'00'",
            "UPDATE chain SET position = 'zero'",
            "UPDATE chain SET position = 0.5",
            "UPDATE chain SET ledger = x'00'",
            "UPDATE chain SET hash = x'00'",
            "INSERT INTO chain VALUES (2, 1, 'x', 0, 'x')",
        ],
    )
    def test_a_head_that_cannot_be_read(self, store: Storage, statement: str) -> None:
        with edited(cast("Path", store.path)) as connection:
            connection.execute(statement)
        with pytest.raises(LedgerCorrupt) as caught, store.reading() as reading:
            tables.head(reading)
        assert caught.value.problem == "The head of the ledger cannot be read."
        assert caught.value.remedy == LedgerCorrupt.help

    def test_cells_are_of_one_type(self) -> None:
        assert tables._are_integers(1, 2)
        assert not tables._are_integers(1, True)
        assert not tables._are_integers("1", 1)
        assert tables._are_texts("a", "b")
        assert not tables._are_texts("a", b"b")
        assert not tables._are_texts(None, "b")


Migration = Callable[[sql.Connection], None]


class TestFormats:
    @staticmethod
    def adds_a_table(connection: sql.Connection) -> None:
        connection.execute(sql.text("CREATE TABLE notes (note TEXT)"))

    @staticmethod
    def fails(connection: sql.Connection) -> None:
        connection.execute(sql.text("CREATE TABLE half (note TEXT)"))
        connection.execute(sql.text("INSERT INTO nowhere VALUES (1)"))

    @pytest.fixture
    def migrations(self, monkeypatch: pytest.MonkeyPatch) -> dict[int, Migration]:
        table: dict[int, Migration] = {}
        monkeypatch.setattr(tables, "MIGRATIONS", table)
        return table

    @staticmethod
    def content(store: Storage) -> str:
        with edited(cast("Path", store.path)) as connection:
            return "\n".join(connection.iterdump())

    def test_a_newer_format_is_refused_untouched(self, store: Storage) -> None:
        with edited(cast("Path", store.path)) as connection:
            connection.execute("UPDATE chain SET format = 5")
        before = cast("Path", store.path).read_bytes()
        for begin in (store.transaction, store.reading):
            with pytest.raises(LedgerVersion) as caught, begin() as opened:
                tables.head(opened)
            assert caught.value.problem == "The ledger has format 5, this version knows up to 4."
            assert caught.value.remedy == LedgerVersion.help
        assert cast("Path", store.path).read_bytes() == before

    def test_an_older_format_is_migrated_step_by_step(
        self, store: Storage, migrations: dict[int, Migration], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[int] = []
        monkeypatch.setattr(tables, "FORMAT", 6)

        def first(connection: sql.Connection) -> None:
            steps.append(4)
            self.adds_a_table(connection)

        migrations.update({4: first, 5: lambda _connection: steps.append(5)})
        with store.transaction() as connection:
            assert tables.head(connection) == Head(LEDGER, 0, FIRST.hash)
            assert tables.head(connection) == Head(LEDGER, 0, FIRST.hash)
        assert steps == [4, 5]
        with store.reading() as connection:
            assert tables.is_ready(connection)
            assert tables.entries(connection) == [FIRST]
            assert connection.execute(sql.text("SELECT * FROM notes")).all() == []

    def test_a_failing_migration_leaves_the_file_as_it_was(
        self, store: Storage, migrations: dict[int, Migration], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tables, "FORMAT", 6)
        migrations.update({4: self.adds_a_table, 5: self.fails})
        before = self.content(store)
        with pytest.raises(LedgerCorrupt), store.transaction() as connection:
            tables.head(connection)
        assert self.content(store) == before

    def test_a_format_that_never_was(self, store: Storage, migrations: dict[int, Migration]) -> None:
        for version in (0, -5):
            with edited(cast("Path", store.path)) as connection:
                connection.execute("UPDATE chain SET format = ?", (version,))
            with pytest.raises(LedgerCorrupt) as caught, store.transaction() as opened:
                tables.head(opened)
            assert caught.value.problem == f"The ledger has format {version}, which never was."
            assert caught.value.remedy == LedgerCorrupt.help

    def test_reading_does_not_migrate(self, store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        with store.reading() as connection:
            assert tables.head(connection) == Head(LEDGER, 0, FIRST.hash)
        monkeypatch.setattr(tables, "FORMAT", 5)
        monkeypatch.setattr(tables, "OLDEST_READABLE_FORMAT", 5)
        with pytest.raises(LedgerVersion) as caught, store.reading() as connection:
            tables.head(connection)
        assert caught.value.problem == "The ledger has format 4, an older one than 5."
        assert caught.value.remedy == "Open it anew with Ledger(…), which migrates it."

    def test_this_version(self) -> None:
        assert tables.FORMAT == 4
        assert tables.OLDEST_READABLE_FORMAT == 1
        assert list(tables.MIGRATIONS) == [1, 2, 3]


class TestEntries:
    def test_of_one_account(self, store: Storage) -> None:
        with store.transaction() as connection:
            head = Head(LEDGER, 0, FIRST.hash)
            written: list[Entry] = []
            for account in ("a", "b", "a"):
                entry = next_entry(head, "now", account, "disclosure", {"numbers": 1})
                tables.append(connection, entry)
                head = Head(LEDGER, entry.position, entry.hash)
                written.append(entry)
            assert tables.entries(connection, "a") == [written[0], written[2]]
            assert tables.entries(connection, "nobody") == []
            assert tables.entries(connection) == [FIRST, *written]
            assert tables.entry_at(connection, 2) == written[1]
            assert tables.entry_at(connection, 4) is None
            assert tables.has_entries(connection, "a")
            assert tables.has_entries(connection, "b")
            assert not tables.has_entries(connection, "nobody")

    @pytest.mark.parametrize(
        "body",
        [
            "",
            "[]",
            "5",
            "{",
            '{"a":NaN}',
            '{"a": 1}',
            '{"b":1,"a":2}',
            '{"a":1,"a":1}',
            '{"a":1.00}',
            '{"a":"\\u00e9"}',
            "[" * 100_000,
            '{"a":' + "9" * 5000 + "}",
        ],
    )
    def test_a_body_that_is_not_the_one_text(self, store: Storage, body: str) -> None:
        with edited(cast("Path", store.path)) as connection:
            connection.execute("UPDATE entries SET body = ?", (body,))
        for read in (tables.entries, lambda connection: tables.entry_at(connection, 0)):
            with pytest.raises(LedgerCorrupt) as caught, store.reading() as reading:
                read(reading)
            assert caught.value.problem == "An entry of the ledger cannot be read."
            assert caught.value.remedy == LedgerCorrupt.help

    @pytest.mark.parametrize("column", ["previous", "time", "account", "kind", "body", "hash"])
    def test_a_cell_of_another_type(self, store: Storage, column: str) -> None:
        with edited(cast("Path", store.path)) as connection:
            connection.execute(f"UPDATE entries SET {column} = x'7b7d'")
        with pytest.raises(LedgerCorrupt, match="An entry of the ledger cannot be read"), store.reading() as reading:
            tables.entries(reading)

    def test_text_that_is_not_text(self, store: Storage) -> None:
        with edited(cast("Path", store.path)) as connection:
            connection.execute("UPDATE entries SET time = CAST(x'ff' AS TEXT)")
        with pytest.raises(LedgerCorrupt, match="refused the ledger's statement"), store.reading() as reading:
            tables.entries(reading)


def test_accounts(store: Storage) -> None:
    with store.transaction() as connection:
        tables.add_account(connection, "b", "s1", "x")
        tables.add_account(connection, "a", "s2", "y")
        assert list(tables.account_states(connection).items()) == [("a", ("s2", "y")), ("b", ("s1", "x"))]
        tables.set_account_state(connection, "a", "z")
        assert tables.account_state(connection, "a") == "z"
        assert tables.account_state(connection, "b") == "x"
        assert tables.account_state(connection, "c") is None
