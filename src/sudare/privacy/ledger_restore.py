"""A ledger after a disaster: a backup, brought up to date where the later entries are known, and closed where they are not.

Later entries that were exported carry the hashes of the chain: put back, they give the very ledger that was lost. Where
they are gone, nobody knows what was spent. Then every account counts as spent up to its budget, and the ledger says which
points it once confirmed and no longer has; rollback detection takes these as known from then on, and only these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sudare.errors import InvalidParameter, LedgerCorrupt, LedgerRolledBack
from sudare.parsing import NotParsed, parsed_json
from sudare.privacy import ledger_tables as tables
from sudare.privacy.account_balance import AccountState, replayed
from sudare.privacy.first_answers import has_open_charge
from sudare.privacy.ledger import Ledger
from sudare.privacy.ledger_chain import Entry, Head, lost_points, missing_points, verify_chain
from sudare.safe_text import text_fault

LARGEST_EXPORT_BYTES: Final = 1 << 30
_FIELDS: Final = {"position", "previous", "time", "account", "kind", "body", "hash"}


@dataclass(frozen=True)
class Restoration:
    """What restoring did: entries put back, points that stay lost, accounts that were closed."""

    entries_added: int
    lost: tuple[Head, ...]
    closed: tuple[str, ...]


def restored(ledger: Ledger, exported: Iterable[Entry], known: Iterable[Head], reason: str) -> Restoration:
    """Bring a copy up to date with exported entries; close its accounts unless it then has every known point.

    Without any known point nobody can tell whether something is missing, and the accounts are closed, too. So they are if the
    export raises a budget after the last known point: whoever could write to the export could have put that in. An account with a charge for
    first answers that lacks its result is closed in any case: a receipt is one of the charge, and the result may have been entered later, and have left.
    """
    if not reason.strip() or text_fault(reason) is not None:
        raise InvalidParameter("Restoring needs a reason.", "Say why in a sentence; it stays in the ledger.")
    points = list(known)
    if any(head.ledger != ledger.identity for head in points):
        raise LedgerRolledBack(
            "A head or receipt was given out by another ledger than this one.", "Check that this is the right backup."
        )
    ledger.verify()
    added = _continued(ledger, list(exported))
    entries = ledger.entries()
    lost = missing_points(entries, points)
    is_known = points and not lost
    if is_known:
        newest = max(max(point.position for point in points) + 1, len(entries) - added)
        is_known = all(entry.kind != "raise" for entry in entries[newest:])
    closed = _closed(ledger, lost, reason, is_known=bool(is_known))
    ledger.verify(points)
    return Restoration(added, tuple(lost), closed)


def parsed_export(text: str) -> list[Entry]:
    """The entries of a ledger's JSON export, if it has the form that `Ledger.export` gives."""
    try:
        values = parsed_json(text, largest_bytes=LARGEST_EXPORT_BYTES, most_entries=LARGEST_EXPORT_BYTES)
    except NotParsed:
        values = None
    if not isinstance(values, list) or not all(map(_is_entry, values)):
        raise InvalidParameter(
            "This is not an export of a ledger.", "Give a file that `sudare budget export` wrote as JSON."
        )
    return [Entry(**value) for value in values]


def _is_entry(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == _FIELDS
        and type(value["position"]) is int
        and isinstance(value["body"], dict)
        and all(isinstance(value[name], str) for name in _FIELDS - {"position", "body"})
    )


def _continued(ledger: Ledger, exported: list[Entry]) -> int:
    """Append those exported entries that follow the ledger's last one, checked as if the ledger had them already."""
    with ledger._writing() as (connection, _):
        present = tables.entries(connection)
        overlap = [entry for entry in exported if entry.position < len(present)]
        if any(entry.hash != present[entry.position].hash for entry in overlap):
            raise LedgerRolledBack(
                "The export is of another ledger, or of one that went on differently.",
                "Check that both belong together.",
            )
        following = sorted(
            (entry for entry in exported if entry.position >= len(present)), key=lambda entry: entry.position
        )
        before = replayed(present)
        try:
            after = replayed(verify_chain([*present, *following]))
        except LedgerCorrupt as error:
            raise InvalidParameter(
                f"The export does not continue this copy: {error.problem}", "Use an export made after the backup."
            ) from None
        for entry in following:
            tables.append(connection, entry)
        for name, state in after.items():
            if name not in before:
                tables.add_account(connection, name, state.terms.source, state.to_text())
            elif state != before[name]:
                tables.set_account_state(connection, name, state.to_text())
    return len(following)


def _closed(ledger: Ledger, lost: list[Head], reason: str, *, is_known: bool) -> tuple[str, ...]:
    """Count every account as spent up to its budget, in one transaction; where all that is known is there, those that would go on with a charge."""
    with ledger._writing() as (connection, head):
        states = tables.account_states(connection)
        if is_known:
            states = {name: each for name, each in states.items() if has_open_charge(tables.entries(connection, name))}
        elif not states:
            raise InvalidParameter(
                "This copy is from before the first account.", "Use a newer backup, or add entries from an export."
            )
        acknowledged = sorted({(each.position, each.hash) for each in lost} - lost_points(tables.entries(connection)))
        body = {"lost": [list(point) for point in acknowledged], "reason": reason}
        last = head
        for name, (_, text) in states.items():
            last = ledger._append(connection, last, name, AccountState.from_text(text), "restore", body)
    return tuple(states)
