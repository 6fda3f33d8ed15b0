"""Attacks on the ledger's file: charges that a crash or a restoration undoes, and entries that end it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sudare.errors import InvalidParameter, SudareError
from sudare.privacy import Account, Guarantee, Ledger
from sudare.privacy.accounting import pure_cost
from sudare.privacy.ledger_chain import FIRST_PREVIOUS, Entry
from sudare.privacy.ledger_restore import parsed_export, restored

# A program that is killed while it writes: what undoes its half of a change lies beside the name it opened the file by.
KILLED = """
import os, sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("PRAGMA cache_size = 1")
file.execute("BEGIN IMMEDIATE")
file.execute("UPDATE entries SET time = time || 'x'")
file.execute("CREATE TABLE filling (text)")
file.executemany("INSERT INTO filling VALUES (?)", [("y" * 3000,)] * 400)
os._exit(9)
"""


def charge(account: Account, epsilon: float) -> Any:
    return account.charge(Guarantee(epsilon), pure_cost(epsilon), "a test")


def test_have_a_charge_undone_by_a_crash_under_another_name_of_the_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    account = ledger.account("patients", epsilon=10.0)
    for _ in range(5):
        charge(account, 0.1)
    os.link(tmp_path / "ledger.db", tmp_path / "other.db")
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "ledger.db")], check=False, timeout=60)
    receipts = []
    try:
        receipts.append(charge(Ledger(tmp_path / "other.db", create=False).account("patients"), 5.0).receipt)
    except SudareError:
        # What one name shows is half of a change: refused, and nothing charged.
        (tmp_path / "other.db").unlink()
    ledger.verify(receipts)


def rechained(values: list[dict[str, Any]]) -> str:
    """An export whose hashes are right again after it was edited."""
    previous, entries = FIRST_PREVIOUS, []
    for position, value in enumerate(values):
        entry = Entry(position, previous, value["time"], value["account"], value["kind"], value["body"])
        previous = entry.computed_hash()
        entries.append({**value, "position": position, "previous": entry.previous, "hash": previous})
    return json.dumps(entries)


def test_raise_a_budget_by_an_edited_export(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    account = ledger.account("patients", epsilon=3.0)
    ledger.backup(tmp_path / "backup.db")
    charge(account, 2.0)
    known, exported = ledger.head(), json.loads(ledger.export())
    raised = {**exported[1], "kind": "raise", "body": {**exported[1]["body"], "epsilon": "1000", "reason": "a study"}}
    copy = Ledger(tmp_path / "backup.db")
    restored(copy, parsed_export(rechained([*exported, raised])), [known], "disk failed")
    assert copy.account("patients").remaining().epsilon <= 1.0


def test_end_a_ledger_by_a_source_that_is_too_long_to_be_read_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    account = ledger.account("patients", epsilon=3.0)
    with pytest.raises(InvalidParameter):
        ledger.account("visits", epsilon=3.0, source="x" * (1 << 24))
    charge(account, 1.0)
    ledger.verify()
