"""What tests of the ledger share: a quick folder, a ledger with some of everything in it, and shorter calls."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sudare.privacy import tables
from sudare.privacy.accounting import approximate_cost, gaussian_cost, pure_cost
from sudare.privacy.chain import Receipt, next_entry
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Charged, Ledger, Result
from sudare.privacy.storage import Storage

# The identity and the first entry of a ledger.
LEDGER = "1" * 32
FIRST = next_entry(None, "now", "", "ledger", {"ledger": LEDGER})

_MEMORY = Path("/dev/shm")


def fork() -> int:
    """`os.fork`, without warnings of threads that other tests started: the child uses none and leaves by `os._exit`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*\bfork\(\)")
        return os.fork()


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is such a thing: waiting for disks is for the tests that need one."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="sudare-test-") as folder:
        yield Path(folder)


def started_storage(folder: Path) -> Storage:
    """The storage of a ledger with its first entry."""
    created = Storage(folder / "ledger.db", 60.0)
    created.create_file_if_absent()
    with created.transaction() as connection:
        tables.create_tables_if_absent(connection)
        tables.start(connection, LEDGER, FIRST)
    return created


def charge(account: Account, epsilon: float, delta: float = 0.0, **changes: Any) -> Charged:
    """A pure or approximate charge with the guarantee that goes with it."""
    cost = approximate_cost(epsilon, delta) if delta else pure_cost(epsilon)
    return account.charge(Guarantee(epsilon, delta, **changes), cost, "a test")


def charge_gaussian(account: Account, epsilon: float, delta: float) -> Charged:
    """A Gaussian charge."""
    return account.charge(Guarantee(epsilon, delta), gaussian_cost(epsilon, delta), "a test")


def compute(ledger: Ledger, receipt: Receipt, content: str) -> None:
    """Enter a result for a charge, as a learner does at the end of its fit."""
    promised = ledger.promised(receipt)
    assert promised is not None
    ledger._enter_result(receipt, promised, Result("PrivateMean", content, "5" * 64))


def release(ledger: Ledger, receipt: Receipt, content: str) -> None:
    """Enter a result for a charge, and that it leaves."""
    compute(ledger, receipt, content)
    ledger.enter_release(receipt, content)


def busy_ledger(path: Path) -> tuple[Ledger, list[Receipt]]:
    """A ledger with two accounts and an entry of every kind, and the receipts it gave out."""
    ledger = Ledger(path)
    patients = ledger.account("patients", epsilon=3.0, delta=1e-6)
    visits = ledger.account("visits", epsilon=1.0, delta=1e-6, composition="gaussian", reserved_delta=1e-7)
    receipts = [
        charge(patients, 1.0).receipt,
        charge_gaussian(visits, 0.1, 1e-7).receipt,
        patients.disclose("sums", towards="the members", numbers=7, purpose="a sum"),
        charge(patients, 0.5, 1e-7).receipt,
    ]
    release(ledger, receipts[0], "c" * 64)
    ledger.raise_budget("patients", epsilon=4.0, reason="a second study")
    return ledger, receipts


@contextlib.contextmanager
def edited(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection to a ledger's file, as somebody without sudare would open it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        yield connection
        connection.commit()
