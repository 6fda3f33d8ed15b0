"""The ledger's chain of hashes: pure functions over entries, no storage.

Every entry carries the hash of the one before it, so that an edit, a deletion or a reordering shows. Cutting off the
end does not show in the chain itself; heads that were exported and receipts inside releases catch that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from sudare.errors import LedgerCorrupt, LedgerRolledBack

Kind = Literal[
    "ledger", "open", "bind", "raise", "charge", "disclosure", "result", "release", "restore", "request", "close"
]

FIRST_PREVIOUS: Final = "0" * 64

_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: object) -> str:
    """The one text for a value: sorted keys, no spaces, no NaN."""
    return _CANONICAL.encode(value)


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `body` is plain JSON and holds no value of a record."""

    position: int
    previous: str
    time: str
    account: str
    kind: Kind
    body: Mapping[str, Any]
    hash: str = ""

    def computed_hash(self) -> str:
        """SHA-256 over everything but the hash itself."""
        values = [self.position, self.previous, self.time, self.account, self.kind, dict(self.body)]
        return hashlib.sha256(canonical_json(values).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for export."""
        return {**asdict(self), "body": dict(self.body)}


@dataclass(frozen=True)
class Head:
    """A point of a ledger's chain that it must contain for ever after."""

    ledger: str
    position: int
    hash: str


@dataclass(frozen=True)
class Receipt(Head):
    """Proof that a charge or disclosure was entered before anything was computed. Travels inside a release."""

    account: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a manifest."""
        return asdict(self)


def next_entry(head: Head | None, time: str, account: str, kind: Kind, body: Mapping[str, Any]) -> Entry:
    """The entry that follows `head`, with its hash."""
    position, previous = (0, FIRST_PREVIOUS) if head is None else (head.position + 1, head.hash)
    entry = Entry(position, previous, time, account, kind, body)
    return Entry(position, previous, time, account, kind, body, entry.computed_hash())


def verify_chain(entries: Iterable[Entry]) -> list[Entry]:
    """The entries, if positions count up from zero and every hash is right."""
    verified: list[Entry] = []
    previous = FIRST_PREVIOUS
    for position, entry in enumerate(entries):
        if entry.position != position:
            raise LedgerCorrupt(f"Entry {position} of the ledger is missing or out of order.", LedgerCorrupt.help)
        if entry.previous != previous or entry.hash != entry.computed_hash():
            raise LedgerCorrupt(f"Entry {position} of the ledger was changed after it was written.", LedgerCorrupt.help)
        previous = entry.hash
        verified.append(entry)
    return verified


def verify_contains(ledger: str, entries: list[Entry], heads: Iterable[Head]) -> None:
    """Raise LedgerRolledBack unless every head or receipt this ledger gave out is still in its chain, or known to be lost."""
    lost = lost_points(entries)
    for head in heads:
        if head.ledger != ledger:
            raise LedgerRolledBack(
                "A head or receipt was given out by another ledger than this one.",
                "Check that this is the right ledger file.",
            )
        if not _is_in(head, entries):
            if (head.position, head.hash) in lost:
                continue
            raise LedgerRolledBack(
                f"The ledger once confirmed entry {head.position}, which it no longer has; its last is {len(entries) - 1}.",
                LedgerRolledBack.help,
            )
        if isinstance(head, Receipt) and entries[head.position].account != head.account:
            raise LedgerRolledBack(
                f"A receipt names another account than entry {head.position} of the ledger does.",
                "Check the release that the receipt came with.",
            )


def lost_points(entries: Iterable[Entry]) -> set[tuple[int, str]]:
    """Positions and hashes of entries that a restored copy lacks, as the steward has acknowledged."""
    return {(position, text) for entry in entries if entry.kind == "restore" for position, text in entry.body["lost"]}


def missing_points(entries: list[Entry], heads: Iterable[Head]) -> list[Head]:
    """Heads and receipts whose entries the chain does not have."""
    return [head for head in heads if not _is_in(head, entries)]


def _is_in(head: Head, entries: list[Entry]) -> bool:
    return head.position in range(len(entries)) and entries[head.position].hash == head.hash
