"""Many processes, one budget: not one overspend, not one lost entry, on SQLite and on PostgreSQL."""

from __future__ import annotations

import grp
import importlib.util
import os
import pwd
import stat
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sql

from sudare.errors import (
    AccountMismatch,
    BudgetExceeded,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerMissing,
    LedgerRolledBack,
    LedgerVersion,
    SourceTaken,
    SourceUnreadable,
    UnknownAccount,
)
from sudare.frames import read
from sudare.frames.sources import SqlSource
from sudare.privacy import ledger_tables as tables
from sudare.privacy.ledger import Account, Ledger
from sudare.privacy.ledger_chain import Head
from tests.faults.harness import harness
from tests.ledgers import charge, charge_gaussian, postgresql_server, quick_folder, release

if TYPE_CHECKING:
    import psycopg


def exactly_spent(answer: dict[str, Any], processes: int, charges: int, affordable: int) -> None:
    assert answer["problems"] == [], answer
    assert answer["done"] == processes, answer
    assert answer["acknowledged"] == answer["entries"] == answer["positions"] == affordable, answer
    assert answer["refused"] == processes * charges - affordable, answer
    # One entry begins the ledger and one opens the account.
    assert answer["verified"] == affordable + 1, answer


def crowd(address: Path | str, processes: int, charges: int, budget: float, epsilon: float) -> dict[str, Any]:
    return {
        "task": "race",
        "address": str(address),
        "processes": processes,
        "charges": charges,
        "budget": budget,
        "epsilon": epsilon,
    }


class TestRace:
    def test_thirty_two_processes_of_twelve_charges(self) -> None:
        """In memory where there is such a thing: locks are what is tested, not the disk."""
        with quick_folder() as folder:
            (answer,) = harness(crowd(folder / "ledger.db", 32, 12, budget=0.2405, epsilon=0.001))
        exactly_spent(answer, 32, 12, 240)
        assert answer["spent"] == 0.24

    @pytest.mark.long
    def test_thirty_two_processes_of_a_hundred_charges_on_disk(self, tmp_path: Path) -> None:
        (answer,) = harness(crowd(tmp_path / "ledger.db", 32, 100, budget=2.0005, epsilon=0.001))
        exactly_spent(answer, 32, 100, 2000)

    def test_threads(self) -> None:
        with quick_folder() as folder:
            account = Ledger(folder / "ledger.db").account("crowd", epsilon=0.3)
            outcomes: list[str] = []

            def work() -> None:
                for _ in range(10):
                    try:
                        charge(account, 0.01)
                        outcomes.append("charged")
                    except BudgetExceeded:
                        outcomes.append("refused")

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert (outcomes.count("charged"), outcomes.count("refused")) == (30, 10)
            assert account.ledger.verify().position == 31


def racing(count: int, act: Callable[[int], str]) -> list[str]:
    """What threads answer that all begin at once."""
    barrier = threading.Barrier(count)
    answers: list[str] = []

    def work(index: int) -> None:
        barrier.wait()
        answers.append(act(index))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def open_with(address: str, index: int) -> str:
    try:
        return str(Ledger(address).account("crowd", epsilon=1.0 + index).terms.budget.epsilon)
    except AccountMismatch:
        return "another budget"


def test_one_ledger_is_created_and_one_budget_wins() -> None:
    with quick_folder() as folder:
        for attempt in range(5):
            address = str(folder / f"{attempt}.db")
            answers = racing(6, lambda index, address=address: open_with(address, index))  # type: ignore[misc]
            assert answers.count("another budget") == 5
            ledger = Ledger(address, create=False)
            assert [entry.kind for entry in ledger.entries()] == ["ledger", "open"]
            assert ledger.verify().position == 1


# PostgreSQL


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server that is started for these tests, without a database's name."""
    with postgresql_server() as address:
        yield address


def rights(folders: Iterable[Path]) -> dict[Path, tuple[int, int, int]]:
    return {folder: (found.st_mode, found.st_uid, found.st_gid) for folder in folders if (found := folder.stat())}


class TestServerOfTheTests:
    def test_it_leaves_the_machine_as_it_was(self) -> None:
        """No user, no changed rights of any folder up to the root, and no files."""
        programs = importlib.util.find_spec("pgserver")
        places = [Path(tempfile.gettempdir()), Path(sys.prefix), *map(Path, ("/tmp", "/var/tmp", "/dev/shm"))]
        places += [Path(place) for place in (programs.submodule_search_locations or [] if programs else [])]
        folders = {parent for place in places if place.exists() for parent in (place, *place.resolve().parents)}
        before = (
            rights(folders),
            [entry.pw_name for entry in pwd.getpwall()],
            [entry.gr_name for entry in grp.getgrall()],
        )
        with postgresql_server() as address:
            folder = Path(str(sql.make_url(address).query["host"]))
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            process = int((folder / "data/postmaster.pid").read_text().split()[0])
            assert Path(f"/proc/{process}").stat().st_uid != 0
            with plain(address) as connection:
                assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert not folder.exists()
        assert not Path(f"/proc/{process}").exists()
        after = (
            rights(folders),
            [entry.pw_name for entry in pwd.getpwall()],
            [entry.gr_name for entry in grp.getgrall()],
        )
        assert after == before


@pytest.fixture
def address(server: str) -> str:
    """A new place for tables."""
    import psycopg

    name = f"ledger_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return with_options(server, search_path=name)


def with_options(address: str, **options: str) -> str:
    """The address of the same server, with settings that sessions begin with."""
    url = sql.make_url(address).set(drivername="postgresql+psycopg")
    before = str(url.query.get("options", ""))
    settings = " ".join([before, *(f"-c {name}={value}" for name, value in options.items())]).strip()
    return url.update_query_dict({"options": settings}).render_as_string(hide_password=False)


def plain(address: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection that knows nothing of sudare."""
    import psycopg

    url = sql.make_url(address)
    return psycopg.connect(user=url.username, dbname=url.database, **url.query)  # type: ignore[arg-type]


class TestPostgres:
    def test_records_are_read_in_a_transaction_that_cannot_write(self, address: str) -> None:
        """Neither by an address, nor by an engine that commits every statement by itself."""
        place = str(sql.make_url(address).query["options"]).rpartition("=")[2]
        with plain(address) as other:
            other.execute("CREATE TABLE visits AS SELECT generate_series(1, 5) AS age")
            other.execute("CREATE SEQUENCE tickets")
            other.execute(
                "CREATE FUNCTION wipe() RETURNS integer LANGUAGE sql AS 'DELETE FROM visits; SELECT 1 AS done'"
            )
        for url in (address, sql.create_engine(address, isolation_level="AUTOCOMMIT")):
            # A name without a schema is one in `public`, wherever the search path leads.
            with pytest.raises(SourceUnreadable):
                read(SqlSource(url, "visits"))
            assert read(SqlSource(url, f"{place}.visits")).rows == 5
            assert read(SqlSource(url, "SELECT age FROM visits WHERE age > 2"), ["age"]).rows == 3
            for query in ("SELECT wipe() AS x", "SELECT nextval('tickets') AS x", "SELECT age FROM visits FOR SHARE"):
                with pytest.raises(SourceUnreadable):
                    read(SqlSource(url, query))
        with plain(address) as other:
            assert other.execute("SELECT count(*) FROM visits").fetchone() == (5,)
            assert other.execute("SELECT last_value, is_called FROM tickets").fetchone() == (1, False)

    def test_restoring_what_the_servers_own_tool_brought_back(self, address: str) -> None:
        from sudare.errors import BudgetExceeded, LedgerRolledBack
        from sudare.privacy.ledger_chain import Head
        from sudare.privacy.ledger_restore import parsed_export, restored

        ledger = Ledger(address)
        account = ledger.account("patients", epsilon=1.0)
        charge(account, 0.25)
        assert restored(ledger, parsed_export(ledger.export()), [ledger.head()], "moved").closed == ()
        later = Head(ledger.identity, 7, "f" * 64)
        with pytest.raises(LedgerRolledBack):
            ledger.verify([later])
        assert restored(ledger, [], [later], "disk failed").closed == ("patients",)
        assert ledger.verify([later]).position == 3
        with pytest.raises(BudgetExceeded):
            charge(account, 0.01)

    def test_the_contract(self, address: str) -> None:
        ledger = Ledger(address)
        account = ledger.account("患者 it's", epsilon=1.0, delta=1e-6)
        receipt = charge(account, 0.4, 1e-7).receipt
        account.disclose("sums", "the members", 3)
        release(ledger, receipt, "c" * 64)
        assert account.spent() == (0.4, 1e-7)
        assert account.remaining() == (0.6, 9e-7)
        with pytest.raises(BudgetExceeded, match=r"0\.6 of 1 is left"):
            charge(account, 0.7)
        ledger.raise_budget("患者 it's", epsilon=1.1, reason="a reason")
        charge(account, 0.7)
        with pytest.raises(AccountMismatch):
            ledger.account("患者 it's", epsilon=1.0, delta=1e-6)
        with pytest.raises(SourceTaken):
            ledger.account("second", epsilon=1.0, source="患者 it's")
        with pytest.raises(UnknownAccount):
            ledger.account("nobody")
        again = Ledger(address, create=False)
        assert again == ledger
        assert again.verify([receipt, ledger.head()]).position == 7
        assert again.accounts() == [account]
        assert again.contains(receipt)
        gaussian = ledger.account("g", epsilon=1.0, delta=1e-6, composition="gaussian")
        for _ in range(5):
            charge_gaussian(gaussian, 0.1, 1e-6)
        assert ledger.verify().position == 13
        with pytest.raises(LedgerError, match="kept by a database server"):
            ledger.backup("copy.db")
        assert len(ledger.export("csv").splitlines()) == 15
        assert "postgres:" not in repr(account).removeprefix("Account('患者 it's', Ledger('postgresql+psycopg:")

    def test_a_race_and_kills(self, address: str, tmp_path: Path) -> None:
        raced, killed = harness(
            crowd(address, 6, 12, budget=0.505, epsilon=0.01),
            {"task": "kill", "kind": "charge", "kills": 15, "folder": str(tmp_path), "server": address},
        )
        exactly_spent(raced, 6, 12, 50)
        assert killed["problems"] == [], killed
        assert killed["killed"] == 15

    @pytest.mark.long
    def test_thirty_two_processes_of_a_hundred_charges(self, address: str) -> None:
        (answer,) = harness(crowd(address, 32, 100, budget=2.0005, epsilon=0.001))
        exactly_spent(answer, 32, 100, 2000)

    def test_one_ledger_is_created_and_one_budget_wins(self, address: str) -> None:
        answers = racing(8, lambda index: open_with(address, index))
        assert answers.count("another budget") == 7
        assert [entry.kind for entry in Ledger(address).entries()] == ["ledger", "open"]

    def test_the_balance_is_read_after_the_lock(self, address: str) -> None:
        """Somebody waits for the lock while the balance changes: it must not be decided by what was read before."""
        account = Ledger(address).account("p", epsilon=1.0)
        charge(account, 0.1)
        storing = account.ledger._storage
        refused: list[str] = []

        def late() -> None:
            try:
                charge(account, 0.5)
            except BudgetExceeded as error:
                refused.append(error.problem)

        with storing.transaction() as connection:
            head = tables.head(connection, ledger=account.ledger.identity)
            thread = threading.Thread(target=late)
            thread.start()
            # The thread waits for the lock now, or will.
            wait_for_lock(address)
            assert head is not None
            spend_all(connection, head, account)
        thread.join()
        assert refused == ["a test asks for ε = 0.5 of account 'p'; 0 of 1 is left."]
        assert account.ledger.verify().position == 3

    def test_a_lock_that_is_not_given_up_is_busy(self, address: str) -> None:
        Ledger(address).account("p", epsilon=1.0)
        impatient = Ledger(address, timeout_seconds=0.05).account("p")
        with plain(address) as other:
            other.execute("SELECT * FROM chain FOR UPDATE")
            with pytest.raises(LedgerBusy, match=r"for 0\.05 s"):
                charge(impatient, 0.1)
            assert impatient.spent() == (0.0, 0.0)
        charge(impatient, 0.1)

    def test_writing_is_durable_whatever_the_server_is_set_to(self, address: str) -> None:
        ledger = Ledger(with_options(address, synchronous_commit="off", default_transaction_isolation="serializable"))
        with ledger._storage.transaction() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
            assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"
            assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "1min"
        with ledger._storage.reading() as connection:
            assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "repeatable read"
            assert connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "on"

    @pytest.mark.parametrize(
        ("statement", "expected"),
        [
            ("UPDATE entries SET time = time || ' ' WHERE position = 2", LedgerCorrupt),
            ("UPDATE entries SET body = body || ' ' WHERE position = 2", LedgerCorrupt),
            ("DELETE FROM entries WHERE position = 1", LedgerCorrupt),
            ("DELETE FROM entries WHERE position = 2", LedgerCorrupt),
            ("UPDATE accounts SET state = replace(state, '1/10', '1/20')", LedgerCorrupt),
            ("DELETE FROM accounts", LedgerCorrupt),
            ("UPDATE chain SET position = 1", LedgerCorrupt),
            (f"UPDATE chain SET format = {tables.FORMAT + 1}", LedgerVersion),
            ("UPDATE chain SET format = 0", LedgerError),
            ("UPDATE chain SET ledger = repeat('f', 32)", LedgerMissing),
            ("DROP TABLE chain", LedgerMissing),
            ("DROP TABLE entries", LedgerCorrupt),
            ("DELETE FROM chain", LedgerMissing),
        ],
    )
    def test_edits_are_noticed(self, address: str, statement: str, expected: type[LedgerError]) -> None:
        ledger = Ledger(address)
        charge(ledger.account("p", epsilon=1.0), 0.1)
        with plain(address) as other:
            other.execute(statement)
        with pytest.raises(expected):
            ledger.verify()

    def test_rollback_is_noticed(self, address: str) -> None:
        ledger = Ledger(address)
        account = ledger.account("p", epsilon=1.0)
        charge(account, 0.1)
        head = ledger.head()
        with pytest.raises(LedgerRolledBack):
            ledger.verify([Head(ledger.identity, head.position, "f" * 64)])

    def test_a_database_without_a_ledger(self, address: str) -> None:
        with pytest.raises(LedgerMissing, match="The database holds no ledger"):
            Ledger(address, create=False)
        with plain(address) as other:
            other.execute("CREATE TABLE accounts (x INTEGER)")
        with pytest.raises(LedgerCorrupt, match="a part of a ledger's tables only"):
            Ledger(address)

    def test_a_reader_without_rights_to_write(self, address: str) -> None:
        charge(Ledger(address).account("p", epsilon=1.0), 0.1)
        reader = f"reader_{uuid.uuid4().hex}"
        with plain(address) as other:
            other.execute(f"CREATE ROLE {reader} LOGIN")
            (schema,) = other.execute("SELECT current_schema()").fetchone() or ("",)
            other.execute(f"GRANT USAGE ON SCHEMA {schema} TO {reader}")
            other.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader}")
        url = sql.make_url(address).set(username=reader).render_as_string(hide_password=False)
        ledger = Ledger(url)
        assert ledger.verify().position == 2
        account = ledger.account("p")
        assert account.remaining() == (0.9, 0.0)
        with pytest.raises(LedgerError, match=r"cannot be used \(InsufficientPrivilege\)"):
            charge(account, 0.1)

    def test_a_server_that_does_not_answer(self, address: str) -> None:
        gone = sql.make_url(address).set(query={"host": str(Path(os.sep) / "nowhere")})
        with pytest.raises(LedgerError) as caught:
            Ledger(gone.render_as_string(hide_password=False))
        assert caught.value.problem == "The ledger's database cannot be used (OperationalError)."
        assert "nowhere" not in str(caught.value)

    def test_migrations_are_one_transaction(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger = Ledger(address)

        def fails(connection: sql.Connection) -> None:
            connection.execute(sql.text("CREATE TABLE half (x INTEGER)"))
            raise OSError("no space")

        with monkeypatch.context() as newer:
            present = tables.FORMAT
            newer.setattr(tables, "FORMAT", present + 1)
            newer.setattr(tables, "OLDEST_READABLE_FORMAT", present + 1)
            newer.setattr(tables, "MIGRATIONS", {present: fails})
            with pytest.raises(OSError, match="no space"):
                Ledger(address)
        assert ledger.verify().position == 0
        with plain(address) as other:
            assert other.execute("SELECT to_regclass('half')").fetchone() == (None,)


def wait_for_lock(address: str) -> None:
    """Returns when somebody waits for a lock in this database."""
    with plain(address) as other:
        other.autocommit = True
        while other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone() == (0,):
            threading.Event().wait(0.005)


def spend_all(connection: sql.Connection, head: Head, account: Account) -> None:
    """What a charge of all that is left does, in a transaction that is open already."""
    from sudare.privacy.account_balance import AccountState
    from sudare.privacy.accounting import pure_cost
    from sudare.privacy.guarantee import Guarantee

    text = tables.account_state(connection, account.name)
    assert text is not None
    body = {"what": "x", "purpose": "", "cost": pure_cost(0.9).to_dict(), "guarantee": Guarantee(0.9).to_dict()}
    account.ledger._append(connection, head, account.name, AccountState.from_text(text), "charge", body)
