"""The chain of hashes: what an entry's hash covers, and which changes show."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any

import pytest

from sudare.errors import LedgerCorrupt, LedgerRolledBack
from sudare.privacy.ledger_chain import (
    FIRST_PREVIOUS,
    Entry,
    Head,
    Receipt,
    canonical_json,
    next_entry,
    verify_chain,
    verify_contains,
)

LEDGER = "1" * 32


def chain_of(length: int) -> list[Entry]:
    entries: list[Entry] = []
    head = None
    for index in range(length):
        entry = next_entry(head, "2026-01-01T00:00:00+00:00", f"a{index % 2}", "charge", {"number": index})
        head = Head(LEDGER, entry.position, entry.hash)
        entries.append(entry)
    return entries


def test_canonical_json_is_one_text_for_a_value() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            canonical_json(number)


def test_the_first_entry_follows_nothing() -> None:
    assert FIRST_PREVIOUS == "0" * 64
    first = next_entry(None, "now", "", "ledger", {"ledger": LEDGER})
    assert (first.position, first.previous) == (0, FIRST_PREVIOUS)
    assert (first.time, first.account, first.kind, first.body) == ("now", "", "ledger", {"ledger": LEDGER})
    text = f'[0,"{FIRST_PREVIOUS}","now","","ledger",{{"ledger":"{LEDGER}"}}]'
    assert first.hash == hashlib.sha256(text.encode()).hexdigest()
    assert first.hash == first.computed_hash()


def test_the_next_entry_follows_the_head() -> None:
    entry = next_entry(Head(LEDGER, 6, "f" * 64), "now", "é", "open", {})
    assert (entry.position, entry.previous) == (7, "f" * 64)
    text = f'[7,"{"f" * 64}","now","é","open",{{}}]'
    assert entry.hash == hashlib.sha256(text.encode()).hexdigest()


def test_an_entry_as_plain_values() -> None:
    entry = chain_of(1)[0]
    assert entry.to_dict() == {
        "position": 0,
        "previous": FIRST_PREVIOUS,
        "time": "2026-01-01T00:00:00+00:00",
        "account": "a0",
        "kind": "charge",
        "body": {"number": 0},
        "hash": entry.hash,
    }
    assert Entry(0, "p", "t", "a", "open", {}).hash == ""


def test_a_receipt_as_plain_values() -> None:
    receipt = Receipt(LEDGER, 3, "f" * 64, "patients")
    assert receipt.to_dict() == {"ledger": LEDGER, "position": 3, "hash": "f" * 64, "account": "patients"}


def test_an_untouched_chain_verifies() -> None:
    entries = chain_of(4)
    assert verify_chain(iter(entries)) == entries
    assert verify_chain([]) == []


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize(
    "change",
    [
        {"previous": "f" * 64},
        {"time": "2025-01-01T00:00:00+00:00"},
        {"account": "b"},
        {"kind": "disclosure"},
        {"body": {"number": 99}},
        {"hash": "f" * 64},
    ],
)
def test_any_changed_field_shows(position: int, change: dict[str, Any]) -> None:
    entries = chain_of(4)
    entries[position] = dataclasses.replace(entries[position], **change)
    with pytest.raises(LedgerCorrupt) as caught:
        verify_chain(entries)
    assert caught.value.problem == f"Entry {position} of the ledger was changed after it was written."
    assert caught.value.remedy == LedgerCorrupt.help


def test_an_entry_rewritten_with_a_right_hash_shows_in_the_next() -> None:
    entries = chain_of(4)
    changed = dataclasses.replace(entries[1], body={"number": 99})
    entries[1] = dataclasses.replace(changed, hash=changed.computed_hash())
    with pytest.raises(LedgerCorrupt, match="Entry 2 of the ledger was changed"):
        verify_chain(entries)


def test_a_missing_entry_shows() -> None:
    for position in range(3):
        entries = chain_of(4)
        del entries[position]
        with pytest.raises(LedgerCorrupt) as caught:
            verify_chain(entries)
        assert caught.value.problem == f"Entry {position} of the ledger is missing or out of order."
        assert caught.value.remedy == LedgerCorrupt.help


def test_swapped_entries_show() -> None:
    entries = chain_of(4)
    entries[1], entries[2] = entries[2], entries[1]
    with pytest.raises(LedgerCorrupt, match="Entry 1 of the ledger is missing or out of order"):
        verify_chain(entries)
    renumbered = [dataclasses.replace(entry, position=index) for index, entry in enumerate(entries)]
    with pytest.raises(LedgerCorrupt, match="Entry 1 of the ledger was changed"):
        verify_chain(renumbered)


def heads_of(entries: list[Entry]) -> list[Head]:
    return [Head(LEDGER, entry.position, entry.hash) for entry in entries]


def test_heads_and_receipts_that_are_there() -> None:
    entries = chain_of(4)
    receipts = [Receipt(LEDGER, entry.position, entry.hash, entry.account) for entry in entries]
    verify_contains(LEDGER, entries, [*heads_of(entries), *receipts])
    verify_contains(LEDGER, entries, [])


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_cut_off_end_shows_by_a_head(position: int) -> None:
    entries = chain_of(4)
    with pytest.raises(LedgerRolledBack) as caught:
        verify_contains(LEDGER, entries[:position], heads_of(entries)[position:])
    assert (
        caught.value.problem
        == f"The ledger once confirmed entry {position}, which it no longer has; its last is {position - 1}."
    )
    assert caught.value.remedy == LedgerRolledBack.help


@pytest.mark.parametrize("position", [-1, -4, 4])
def test_positions_outside_are_not_there(position: int) -> None:
    entries = chain_of(4)
    with pytest.raises(LedgerRolledBack, match=f"once confirmed entry {position},"):
        verify_contains(LEDGER, entries, [Head(LEDGER, position, entries[position % 4].hash)])


def test_another_entry_at_the_same_place_shows() -> None:
    entries = chain_of(4)
    with pytest.raises(LedgerRolledBack, match="once confirmed entry 2,"):
        verify_contains(LEDGER, entries, [Head(LEDGER, 2, entries[1].hash)])


def test_a_head_of_another_ledger_shows() -> None:
    entries = chain_of(4)
    with pytest.raises(LedgerRolledBack) as caught:
        verify_contains("2" * 32, entries, heads_of(entries))
    assert caught.value.problem == "A head or receipt was given out by another ledger than this one."
    assert caught.value.remedy == "Check that this is the right ledger file."


def test_a_receipt_for_another_account_shows() -> None:
    entries = chain_of(4)
    with pytest.raises(LedgerRolledBack) as caught:
        verify_contains(LEDGER, entries, [Receipt(LEDGER, 2, entries[2].hash, "a1")])
    assert caught.value.problem == "A receipt names another account than entry 2 of the ledger does."
    assert caught.value.remedy == "Check the release that the receipt came with."
