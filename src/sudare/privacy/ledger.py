"""The ledger: charge first, then compute. A budget that copies, crashes and races cannot walk around.

The entries are the truth; an account's balance is a projection of them that is updated in the same transaction and
recomputed by `verify`. Handles (`Ledger`, `Account`) hold an address and an identity, no state: copies made by
`clone`, `deepcopy`, pickle, joblib or fork charge the same account.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sql

from sudare.errors import (
    BudgetExceeded,
    InvalidCost,
    InvalidParameter,
    LedgerCorrupt,
    LedgerError,
    LedgerMissing,
    NotCharged,
    RelationMismatch,
    SourceTaken,
    UnknownAccount,
)
from sudare.privacy import storage
from sudare.privacy.accounting import Composition, Cost, Spent, decimal_up, exact
from sudare.privacy.balance import AccountState, Amount, AskedTerms, Terms, replayed
from sudare.privacy.chain import Entry, Head, Kind, Receipt, canonical_json, next_entry, verify_chain, verify_contains
from sudare.privacy.guarantee import Guarantee, Neighbours, Unit, checked_delta, checked_epsilon
from sudare.privacy.storage import Storage


@dataclass(frozen=True)
class Quote:
    """What a charge would do, found out without charging."""

    asked: Amount
    left_before: Amount
    left_after: Amount
    admitted: bool


@dataclass(frozen=True)
class Charged:
    """A charge that was entered: the receipt, and the guarantee in the account's own relation."""

    receipt: Receipt
    guarantee: Guarantee


class Ledger:
    """The book of one owner: every passage through the door, entered before anything was computed.

    Parameters
    ----------
    address : a path to an SQLite file, or a SQLAlchemy URL.
    create : whether a ledger may be created where none is.
    timeout_seconds : how long to wait while another process writes.
    """

    def __init__(self, address: str | os.PathLike[str], *, create: bool = True, timeout_seconds: float = 60.0) -> None:
        self._storage = Storage(address, timeout_seconds)
        if create:
            self._storage.create_if_absent()
        elif self._storage.path is not None and not self._storage.path.exists():
            raise LedgerMissing(f"There is no ledger at '{self._storage.path.name}'.", LedgerMissing.help)
        with self._storage.transaction() as connection:
            head = storage.head(connection)
            if head is None:
                if not create:
                    raise LedgerMissing("The database holds no ledger.", LedgerMissing.help)
                head = _started(connection)
        self.identity = head.ledger

    def __repr__(self) -> str:
        return f"Ledger({self._storage.url.render_as_string(hide_password=True)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def account(
        self,
        name: str,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        neighbours: Neighbours | None = None,
        unit: Unit | None = None,
        composition: Composition | None = None,
        reserved_delta: float | None = None,
        source: str | os.PathLike[str] | None = None,
    ) -> Account:
        """The account of that name; created with this budget the first time, and never with another one later.

        `source` says which data it is for (default: the name itself). One source has one account in a ledger.
        """
        if not name or not isinstance(name, str):
            raise InvalidParameter("An account needs a name.", "Use for example 'patients-2026'.")
        asked = AskedTerms(epsilon, delta, neighbours, unit, composition, reserved_delta, source)
        with self._storage.transaction() as connection:
            head = self._head(connection)
            text = storage.account_state(connection, name)
            if text is None:
                self._open(connection, head, name, asked.for_new(name))
            else:
                asked.check_same(name, AccountState.from_text(text).terms)
        return Account(self, name)

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        with self._storage.transaction() as connection:
            self._head(connection)
            return [Account(self, name) for name in storage.account_states(connection)]

    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        with self._storage.transaction() as connection:
            self._head(connection)
            return storage.entries(connection)

    def contains(self, receipt: Receipt) -> bool:
        """Whether this ledger has the entry that a receipt names."""
        if receipt.ledger != self.identity:
            return False
        with self._storage.transaction() as connection:
            self._head(connection)
            entry = storage.entry_at(connection, receipt.position)
        return entry is not None and entry.hash == receipt.hash and entry.account == receipt.account

    def enter_release(self, receipt: Receipt, content: str) -> None:
        """Enter that what a charge paid for leaves, by the digest of its content: one charge, one content."""
        with self._storage.transaction() as connection:
            head = self._head(connection)
            state = _state(connection, receipt.account)
            body = {"charge": receipt.position, "content": content}
            for entry in storage.entries(connection, receipt.account):
                if entry.kind == "release" and entry.body["charge"] == receipt.position:
                    if entry.body == body:
                        return
                    raise NotCharged(
                        "The charge behind this release has paid for another one already.", NotCharged.help
                    )
            self._append(connection, head, receipt.account, state, "release", body)

    def raise_budget(self, name: str, *, epsilon: float | None = None, delta: float | None = None, reason: str) -> None:
        """Give an account a larger budget: an act of the steward that stays in the ledger with its reason."""
        if not reason.strip():
            raise InvalidParameter("Raising a budget needs a reason.", "Say why in a sentence; it stays in the ledger.")
        with self._storage.transaction() as connection:
            head = self._head(connection)
            state = _state(connection, name)
            budget = state.terms.budget
            larger = replace(
                budget,
                epsilon=budget.epsilon if epsilon is None else exact(checked_epsilon(epsilon)),
                delta=budget.delta if delta is None else exact(checked_delta(delta)),
            )
            if larger == budget or larger.epsilon < budget.epsilon or larger.delta < budget.delta:
                raise InvalidParameter(
                    f"A budget can only be raised: account '{name}' has ε = {float(budget.epsilon):g}, "
                    f"δ = {float(budget.delta):g}.",
                    "Give a larger epsilon or delta.",
                )
            body = {**replace(state.terms, budget=larger).to_dict(), "reason": reason}
            self._append(connection, head, name, state, "raise", body)

    def head(self) -> Head:
        """The chain's last point. Keep it somewhere else; `verify` finds an older copy of the ledger by it."""
        with self._storage.transaction() as connection:
            return self._head(connection)

    def verify(self, known: Iterable[Head] = ()) -> Head:
        """The head, if nothing was edited, deleted or reordered and every known head and receipt is still there."""
        with self._storage.transaction() as connection:
            head = self._head(connection)
            problem = self._storage.integrity_problem(connection)
            if problem is not None:
                raise LedgerCorrupt(problem, LedgerCorrupt.help)
            entries = verify_chain(storage.entries(connection))
            states = storage.account_states(connection)
        if not entries or (entries[-1].position, entries[-1].hash) != (head.position, head.hash):
            raise LedgerCorrupt("The ledger's last entry is not the one its head names.", LedgerCorrupt.help)
        if entries[0].body.get("ledger") != head.ledger:
            raise LedgerCorrupt("The ledger's identity was changed.", LedgerCorrupt.help)
        if {name: (state.terms.source, state.to_text()) for name, state in replayed(entries).items()} != states:
            raise LedgerCorrupt("An account's balance is not what its entries add up to.", LedgerCorrupt.help)
        verify_contains(head.ledger, entries, known)
        return head

    def backup(self, path: str | os.PathLike[str]) -> None:
        """A consistent copy in a new file, which appears whole or not at all."""
        target = Path(path)
        if self._storage.path is None:
            raise LedgerError(
                "This ledger is kept by a database server.", "Back it up with the server's own tool (pg_dump)."
            )
        if target.exists():
            raise InvalidParameter(f"'{target.name}' exists already.", "Choose a new name for the copy.")
        with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".backup-") as folder:
            copy = Path(folder) / "ledger.db"
            storage.copy_file(self._storage.path, copy)
            os.link(copy, target)

    def export(self, kind: Literal["json", "csv"] = "json") -> str:
        """All entries as text, for the steward's own tools."""
        entries = [entry.to_dict() for entry in self.entries()]
        if kind == "json":
            return json.dumps(entries, indent=2, ensure_ascii=False)
        text = io.StringIO()
        writer = csv.DictWriter(text, ["position", "time", "account", "kind", "body", "previous", "hash"])
        writer.writeheader()
        writer.writerows({**entry, "body": canonical_json(entry["body"])} for entry in entries)
        return text.getvalue()

    def _head(self, connection: sql.Connection) -> Head:
        head = storage.head(connection, ledger=self.identity)
        if head is None:
            raise LedgerMissing("The ledger was emptied.", LedgerMissing.help)
        return head

    def _open(self, connection: sql.Connection, head: Head, name: str, terms: Terms) -> None:
        owner = storage.account_of_source(connection, terms.source)
        if owner is not None:
            raise SourceTaken(
                f"The source of account '{name}' is bound to account '{owner}' already.", SourceTaken.help
            )
        entry = next_entry(head, _now(), name, "open", terms.to_dict())
        storage.append(connection, entry)
        storage.add_account(connection, name, terms.source, AccountState(terms, Spent(), 1).to_text())

    def _append(
        self,
        connection: sql.Connection,
        head: Head,
        name: str,
        state: AccountState,
        kind: Kind,
        body: Mapping[str, Any],
    ) -> Receipt:
        entry = next_entry(head, _now(), name, kind, body)
        storage.append(connection, entry)
        storage.set_account_state(connection, name, state.after(entry).to_text())
        return Receipt(head.ledger, entry.position, entry.hash, name)


class Account:
    """One budget for one source of data. A handle: copies of it charge the same account."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.ledger = ledger
        self.name = name

    def __repr__(self) -> str:
        return f"Account({self.name!r}, {self.ledger!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and (self.ledger, self.name) == (other.ledger, other.name)

    def __hash__(self) -> int:
        return hash((self.ledger, self.name))

    @property
    def terms(self) -> Terms:
        """Budget, relation, unit, composition and source."""
        return self._read().terms

    def spent(self) -> Amount:
        """What the charges so far add up to, rounded up."""
        return self._read().amount_spent()

    def remaining(self) -> Amount:
        """What is left, rounded down."""
        return self._read().amount_left()

    def entries(self) -> list[Entry]:
        """This account's entries, oldest first."""
        with self.ledger._storage.transaction() as connection:
            self.ledger._head(connection)
            return storage.entries(connection, self.name)

    def quote(self, guarantee: Guarantee, cost: Cost) -> Quote:
        """What charging this would do. Nothing is written."""
        state = self._read()
        cost, _ = _in_relation(self.name, state.terms, guarantee, cost)
        after = replace(state, spent=state.spent.plus(cost))
        return Quote(_asked(cost), state.amount_left(), after.amount_left(), after.terms.budget.admits(after.spent))

    def charge(self, guarantee: Guarantee, cost: Cost, what: str, purpose: str = "") -> Charged:
        """Enter a charge, or raise and leave everything as it was. Only after this returns may noise be drawn."""
        ledger = self.ledger
        with ledger._storage.transaction() as connection:
            head = ledger._head(connection)
            state = _state(connection, self.name)
            cost, guarantee = _in_relation(self.name, state.terms, guarantee, cost)
            if not state.terms.budget.admits(state.spent.plus(cost)):
                raise _budget_exceeded(self.name, what, cost, state)
            body = {"what": what, "purpose": purpose, "cost": cost.to_dict(), "guarantee": guarantee.to_dict()}
            receipt = ledger._append(connection, head, self.name, state, "charge", body)
        return Charged(receipt, guarantee)

    def disclose(self, what: str, towards: str, numbers: int, purpose: str = "") -> Receipt:
        """Enter that exact values are shown to others: no ε, but a line that says what and to whom."""
        if isinstance(numbers, bool) or not isinstance(numbers, int) or numbers < 1:
            raise InvalidParameter(
                f"A disclosure shows at least one number, got {numbers!r}.", "Count the values that leave."
            )
        guarantee = Guarantee.none(towards).to_dict()
        body = {"what": what, "purpose": purpose, "numbers": numbers, "guarantee": guarantee}
        ledger = self.ledger
        with ledger._storage.transaction() as connection:
            head = ledger._head(connection)
            return ledger._append(connection, head, self.name, _state(connection, self.name), "disclosure", body)

    def _read(self) -> AccountState:
        with self.ledger._storage.transaction() as connection:
            self.ledger._head(connection)
            return _state(connection, self.name)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _started(connection: sql.Connection) -> Head:
    identity = uuid.uuid4().hex
    entry = next_entry(None, _now(), "", "ledger", {"ledger": identity})
    storage.start(connection, identity, entry)
    return Head(identity, entry.position, entry.hash)


def _state(connection: sql.Connection, name: str) -> AccountState:
    text = storage.account_state(connection, name)
    if text is None:
        raise UnknownAccount(f"The ledger has no account '{name}'.", UnknownAccount.help)
    return AccountState.from_text(text)


def _in_relation(name: str, terms: Terms, guarantee: Guarantee, cost: Cost) -> tuple[Cost, Guarantee]:
    """Cost and guarantee in the account's relation and unit; what cannot be converted is refused."""
    if guarantee.notion == "none":
        raise InvalidCost("What has no guarantee cannot be charged.", "Enter it with Account.disclose.")
    if terms.unit == "person" and guarantee.unit != "person":
        raise RelationMismatch(f"Account '{name}' protects persons, the guarantee only records.", RelationMismatch.help)
    converted = guarantee.to(terms.neighbours)
    return cost.to(terms.neighbours, guarantee.neighbours), converted


def _asked(cost: Cost) -> Amount:
    return Amount(decimal_up(cost.epsilon), decimal_up(cost.delta))


def _budget_exceeded(name: str, what: str, cost: Cost, state: AccountState) -> BudgetExceeded:
    asked, left, budget = _asked(cost), state.amount_left(), state.terms.budget
    delta = f", δ = {asked.delta:g}" if asked.delta else ""
    left_delta = f", δ {left.delta:g} of {float(budget.delta):g}," if asked.delta else ""
    return BudgetExceeded(
        f"{what} asks for ε = {asked.epsilon:g}{delta} of account '{name}'; "
        f"{left.epsilon:g} of {float(budget.epsilon):g}{left_delta} is left.",
        f"Use epsilon <= {left.epsilon:g}{' and delta <= %g' % left.delta if asked.delta else ''}, or have the steward raise "
        f"the budget (`sudare budget raise {name}`). Nothing was computed or spent.",
    )
