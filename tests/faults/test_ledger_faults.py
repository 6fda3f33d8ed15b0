"""Whatever fails, and whenever: the ledger is as before or as after, never in between, and never says less was spent."""

from __future__ import annotations

import collections
import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from sudare.errors import LedgerBusy, LedgerCorrupt, LedgerError, LedgerMissing
from sudare.privacy import ledger_storage as storage
from sudare.privacy.ledger import Ledger
from sudare.privacy.ledger_chain import Receipt
from tests.faults.harness import harness
from tests.ledgers import busy_ledger, charge, charge_gaussian, compute, edited, quick_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


class Failing:
    """Makes the statement with a given number fail, before it is executed or just after."""

    def __init__(self, at: int, error: BaseException, after: bool) -> None:
        self.at = at
        self.error = error
        self.after = after
        self.count = 0

    def around(self, execute: Callable[[], Any]) -> Any:
        self.count += 1
        is_now = self.count - 1 == self.at
        if is_now and not self.after:
            raise self.error
        result = execute()
        if is_now:
            raise self.error
        return result


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Failing], None]:
    """From now on every statement to SQLite, whoever sends it, goes past this fault; so do commits."""

    def install(fault: Failing) -> None:
        class FaultyCursor(sqlite3.Cursor):
            def execute(self, *arguments: Any) -> Any:
                return fault.around(lambda: super(FaultyCursor, self).execute(*arguments))

        class FaultyConnection(storage._FileConnection):
            def cursor(self, factory: Any = FaultyCursor) -> Any:
                return super().cursor(factory)

            def execute(self, *arguments: Any) -> Any:
                return fault.around(lambda: super(FaultyConnection, self).execute(*arguments))

            def commit(self) -> None:
                fault.around(super().commit)

        connect = sqlite3.connect

        def connect_faultily(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **{**options, "factory": FaultyConnection})
            return connection

        monkeypatch.setattr(sqlite3, "connect", connect_faultily)

    return install


def content_of(path: Path) -> list[str]:
    with edited(path) as connection:
        return list(connection.iterdump())


Act = Callable[[Ledger, list[Receipt]], object]
ACTS: dict[str, Act] = {
    "open an account": lambda ledger, _: ledger.account("new", epsilon=1.0),
    "charge": lambda ledger, _: charge(ledger.account("patients"), 0.5),
    "charge Gaussian noise": lambda ledger, _: charge_gaussian(ledger.account("visits"), 0.1, 1e-7),
    "raise": lambda ledger, _: ledger.raise_budget("patients", epsilon=5.0, reason="x"),
    "disclose": lambda ledger, _: ledger.account("patients").disclose("sums", "the members", 3),
    "compute": lambda ledger, receipts: compute(ledger, receipts[3], "d" * 64),
    "release": lambda ledger, receipts: ledger.enter_release(receipts[1], "d" * 64),
    "verify": lambda ledger, receipts: ledger.verify(receipts),
}
ERRORS: dict[str, Callable[[], BaseException]] = {
    "disk full": lambda: sqlite3.OperationalError("database or disk is full"),
    "malformed": lambda: sqlite3.DatabaseError("database disk image is malformed"),
    "interrupted": KeyboardInterrupt,
}


class TestFailureAtEveryStatement:
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("error", ERRORS)
    @pytest.mark.parametrize("act", ACTS)
    def test_before_or_after_never_between(
        self,
        folder: Path,
        failing: Callable[[Failing], None],
        monkeypatch: pytest.MonkeyPatch,
        act: str,
        error: str,
        after: bool,
    ) -> None:
        path = folder / "ledger.db"
        ledger, receipts = busy_ledger(path)
        compute(ledger, receipts[1], "d" * 64)
        old, old_bytes = content_of(path), path.read_bytes()
        failures = 0
        while True:
            path.write_bytes(old_bytes)
            fault = Failing(failures, ERRORS[error](), after)
            failing(fault)
            try:
                ACTS[act](ledger, receipts)
                is_done = True
            except (LedgerError, KeyboardInterrupt):
                is_done = False
            monkeypatch.undo()
            new = content_of(path)
            assert Ledger(path, create=False).verify(receipts).position in (10, 11)
            entered = [line for line in new if line not in old]
            if act == "verify":
                assert new == old
            elif new != old:
                # All three tables have moved together: one entry, the head, and the account.
                assert sum('INSERT INTO "entries"' in line for line in entered) == 1
                assert sum('INSERT INTO "chain"' in line for line in entered) == 1
                assert sum('INSERT INTO "accounts"' in line for line in entered) == 1
            if is_done:
                assert act == "verify" or new != old
            elif not after:
                assert new == old
            if fault.count <= fault.at:
                assert is_done
                break
            failures += 1
        assert failures >= (5 if act == "verify" else 10)

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("error", ERRORS)
    def test_creation_is_finished_later(
        self, folder: Path, failing: Callable[[Failing], None], monkeypatch: pytest.MonkeyPatch, error: str, after: bool
    ) -> None:
        failures = 0
        while True:
            path = folder / f"{failures}.db"
            fault = Failing(failures, ERRORS[error](), after)
            failing(fault)
            identity = None
            with contextlib.suppress(LedgerError, KeyboardInterrupt):
                identity = Ledger(path).identity
            monkeypatch.undo()
            try:
                existing = Ledger(path, create=False).identity
            except LedgerMissing:
                existing = None
            assert identity is None or existing == identity
            finished = Ledger(path)
            assert existing is None or finished.identity == existing
            assert finished.verify().position == 0
            if fault.count <= fault.at:
                break
            failures += 1
        assert failures >= 10

    def test_every_statement_of_a_charge_goes_past_the_fault(
        self, folder: Path, failing: Callable[[Failing], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The injector sees what SQLAlchemy sees, the pragmas, the beginning and the commit."""
        ledger, _ = busy_ledger(folder / "ledger.db")
        account = ledger.account("patients")
        seen: list[str] = []
        sql.event.listen(ledger._storage.engine, "before_cursor_execute", lambda *arguments: seen.append(arguments[2]))
        fault = Failing(-1, KeyboardInterrupt(), False)
        failing(fault)
        charge(account, 0.1)
        monkeypatch.undo()
        assert [statement.split()[0] for statement in seen] == ["SELECT", "SELECT", "INSERT", "UPDATE", "UPDATE"]
        pragmas_begin_and_commit = 5 + 1
        assert fault.count == len(seen) + pragmas_begin_and_commit

    @pytest.mark.parametrize("at", range(5))
    def test_a_failure_inside_sqlalchemy(self, folder: Path, at: int) -> None:
        ledger, receipts = busy_ledger(folder / "ledger.db")
        account = ledger.account("patients")
        count = iter(range(100))

        def fail(*_arguments: object) -> None:
            if next(count) == at:
                raise sql.exc.OperationalError("secret", {}, sqlite3.OperationalError("secret"))

        sql.event.listen(ledger._storage.engine, "before_cursor_execute", fail)
        with pytest.raises(LedgerError, match=r"cannot be used \(OperationalError\)") as caught:
            charge(account, 0.5)
        assert "secret" not in str(caught.value)
        sql.event.remove(ledger._storage.engine, "before_cursor_execute", fail)
        assert ledger.verify(receipts).position == 9
        assert account.remaining().epsilon == 2.5


class TestErrorsInOurWords:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("database or disk is full", LedgerError),
            ("disk I/O error", LedgerError),
            ("attempt to write a readonly database", LedgerError),
            ("unable to open database file", LedgerError),
        ],
    )
    def test_operational_errors(
        self, folder: Path, failing: Callable[[Failing], None], text: str, expected: type[LedgerError]
    ) -> None:
        ledger, _ = busy_ledger(folder / "ledger.db")
        account = ledger.account("patients")
        failing(Failing(5, sqlite3.OperationalError(text), False))
        with pytest.raises(LedgerError) as caught:
            charge(account, 0.5)
        assert type(caught.value) is expected
        assert str(caught.value) == (
            "The ledger's database cannot be used (OperationalError). Check that the disk has space, the file may be "
            "written and the server answers. Nothing was charged."
        )

    def test_a_real_full_disk(self, folder: Path) -> None:
        """SQLite's own limit on the number of pages stands for the disk."""
        ledger, receipts = busy_ledger(folder / "ledger.db")
        account = ledger.account("patients")

        def limit(connection: Any, _record: object) -> None:
            connection.execute("PRAGMA max_page_count = 1")

        sql.event.listen(ledger._storage.engine, "connect", limit)
        fill = itertools.repeat(lambda: account.disclose("x" * 1000, "the members", 1), 200)
        with pytest.raises(LedgerError, match=r"cannot be used \(OperationalError\)"):
            collections.deque((disclose() for disclose in fill), maxlen=0)
        sql.event.remove(ledger._storage.engine, "connect", limit)
        assert ledger.verify([*receipts, ledger.head()]).position < 200
        charge(account, 0.5)

    def test_a_lock_held_by_somebody_else(self, folder: Path) -> None:
        busy_ledger(folder / "ledger.db")
        ledger = Ledger(folder / "ledger.db", timeout_seconds=0.02)
        account = ledger.account("patients")
        other = sqlite3.connect(folder / "ledger.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        acts: list[Callable[[], object]] = [lambda: charge(account, 0.1), account.spent, ledger.verify]
        for act in acts:
            with pytest.raises(LedgerBusy, match=r"locked by another process for 0\.02 s"):
                act()
        other.execute("ROLLBACK")
        other.close()
        assert ledger.verify().position == 9

    def test_half_a_file(self, folder: Path) -> None:
        path = folder / "ledger.db"
        ledger, _ = busy_ledger(path)
        original = path.read_bytes()
        for length in (0, 1, 99, 100, 4096, len(original) // 2, len(original) - 1):
            path.write_bytes(original[:length])
            with pytest.raises((LedgerCorrupt, LedgerMissing)):
                ledger.verify()


def no_problems(answer: dict[str, Any], kills: int) -> None:
    assert answer["problems"] == [], answer
    assert answer["kills"] == answer["killed"] == kills, answer


def killing(kind: str, kills: int, folder: Path) -> dict[str, Any]:
    (folder / kind).mkdir()
    return {"task": "kill", "kind": kind, "kills": kills, "folder": str(folder / kind)}


class TestKilled:
    """kill -9 at random moments; tests/faults/harness.py says what must hold after each."""

    def test_while_creating_charging_fitting_and_saving(self, tmp_path: Path) -> None:
        kills = {"create": 10, "charge": 60, "release": 40}
        answers = harness(*(killing(kind, number, tmp_path) for kind, number in kills.items()))
        for answer, number in zip(answers, kills.values(), strict=True):
            no_problems(answer, number)
        assert answers[1]["charges in a ledger"] > 0
        assert answers[2]["charges in a ledger"] > 0

    @pytest.mark.long
    @pytest.mark.parametrize("kind", ["create", "charge", "release"])
    def test_a_thousand_times(self, tmp_path: Path, kind: str) -> None:
        no_problems(harness(killing(kind, 1000, tmp_path))[0], 1000)
