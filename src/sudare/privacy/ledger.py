"""The ledger: charge first, then compute. Copies, crashes and races do not get around its budgets.

The entries are the truth; an account's balance is a projection of them that is updated in the same transaction and
recomputed by `verify`. Handles (`Ledger`, `Account`) hold an address and an identity, no state: copies made by
`clone`, `deepcopy`, pickle, joblib or fork charge the same account.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sql

from sudare.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerCorrupt,
    LedgerError,
    LedgerMissing,
    NotCharged,
    UnknownAccount,
)
from sudare.frames.databases import SqlSource
from sudare.privacy import ledger_export
from sudare.privacy import ledger_storage as storage
from sudare.privacy import ledger_tables as tables
from sudare.privacy.account_balance import NOT_WHEN_CLOSED, AccountState, Amount, replayed
from sudare.privacy.account_charges import (
    account_closed,
    asked_amount,
    budget_exceeded,
    check_relation,
    in_relation,
    slice_of,
)
from sudare.privacy.account_terms import AskedTerms, Terms, is_raise
from sudare.privacy.accounting import Composition, Cost, Spent, decimal_up, exact
from sudare.privacy.confusable_names import check_scripts
from sudare.privacy.first_answers import AnswerStep, check_persons, known_digest, last_restore, step_body
from sudare.privacy.guarantee import (
    Guarantee,
    Neighbours,
    Unit,
    checked_delta,
    checked_epsilon,
    readable_up,
)
from sudare.privacy.ledger_chain import (
    Entry,
    Head,
    Kind,
    Receipt,
    next_entry,
    verify_chain,
    verify_contains,
)
from sudare.privacy.ledger_storage import Storage
from sudare.privacy.source_identity import SliceIdentity, Source, check_free, check_pays_for, check_unshared
from sudare.safe_text import name_fault, text_fault

# A release, which carries the name in its receipt, takes no longer one.
_LONGEST_NAME: Final = 256
# How the purpose of the charge of a request begins.
_REQUEST_MARK: Final = re.compile(r"request [0-9a-f]+, version [0-9]+(?:,|$)")


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


@dataclass(frozen=True)
class Result:
    """What a charged fit computed: which learner, the digest of what may leave, and the seal over it, its promise and receipt."""

    learner: str
    content: str
    seal: str


class Ledger:
    """The book of one owner: every charge and disclosure, entered before anything was computed.

    Parameters
    ----------
    address : a path to an SQLite file, or a SQLAlchemy URL.
    create : whether a ledger may be created where none is.
    timeout_seconds : how long to wait while another process writes.
    """

    def __init__(self, address: str | os.PathLike[str], *, create: bool = True, timeout_seconds: float = 60.0) -> None:
        self._storage = Storage(address, timeout_seconds)
        if create:
            self._storage.create_file_if_absent()
        with self._storage.reading() as connection:
            is_ready = tables.is_ready(connection)
        with self._storage.reading() if is_ready else self._storage.transaction() as connection:
            if create and not is_ready:
                tables.create_tables_if_absent(connection)
            head = tables.head(connection)
            if head is None and not create:
                raise LedgerMissing("The database holds no ledger.", LedgerMissing.help)
            self.identity = _started(connection) if head is None else head.ledger

    def __repr__(self) -> str:
        return f"Ledger({self._storage.public_name!r})"

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
        source: str | os.PathLike[str] | SqlSource | None = None,
    ) -> Account:
        """The account of that name; created with this budget the first time, and never with another one later.

        `source` says which data it is for: a path, a SqlSource or a description. Without it, or with a description, the account
        is bound to the first path or database that it is charged for. One source has one account in a ledger, and no two
        accounts have names that look alike.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidParameter("An account needs a name.", "Use for example 'patients-2026'.")
        _checked_texts(name=name)
        if len(name) > _LONGEST_NAME:
            raise InvalidParameter(f"An account's name has at most {_LONGEST_NAME} letters.", "Use a shorter one.")
        asked = AskedTerms(epsilon, delta, neighbours, unit, composition, reserved_delta, source)
        with self._storage.reading() as connection:
            exists = tables.account_state(connection, name) is not None
        with self._storage.reading() if exists else self._storage.transaction() as connection:
            head = self._head(connection)
            text = tables.account_state(connection, name)
            if text is None:
                self._open(connection, head, name, asked.for_new(name))
            else:
                asked.check_same(name, AccountState.from_text(text).terms)
        return Account(self, name)

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        with self._reading() as connection:
            return [Account(self, name) for name in tables.account_states(connection)]

    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        with self._reading() as connection:
            return tables.entries(connection)

    def contains(self, receipt: Receipt) -> bool:
        """Whether this ledger has the entry that a receipt names."""
        if receipt.ledger != self.identity:
            return False
        with self._reading() as connection:
            return _entry_of(connection, receipt) is not None

    def promised(self, receipt: Receipt) -> Guarantee | None:
        """What the charge that a receipt names has paid for; None where this ledger has no such charge."""
        charge = self.charge_of(receipt)
        return None if charge is None else Guarantee.from_dict(charge.body["guarantee"])

    def charge_of(self, receipt: Receipt) -> Entry | None:
        """The charge that a receipt names; None where this ledger has no such charge."""
        with self._reading() as connection:
            return self._charge_of(connection, receipt)

    def result_of(self, receipt: Receipt) -> Result | None:
        """What was computed for the charge that a receipt names; None where nothing was."""
        with self._reading() as connection:
            charge = self._charge_of(connection, receipt)
            return None if charge is None else _result_of(connection, charge)

    def released_content(self, receipt: Receipt) -> str | None:
        """The digest of what left for the charge that a receipt names; None where nothing did."""
        with self._reading() as connection:
            charge = self._charge_of(connection, receipt)
            release = None if charge is None else _following(connection, charge, "release")
        return None if release is None else str(release.body["content"])

    def enter_release(self, receipt: Receipt, content: str) -> None:
        """Enter that what a charge paid for leaves, by the digest of its content: of one charge only what was computed for it."""
        with self._writing() as (connection, head):
            charge = self._charge_of(connection, receipt)
            if charge is None:
                raise NotCharged(
                    "The ledger does not have the charge that this release's receipt names.", NotCharged.help
                )
            result = _result_of(connection, charge)
            if result is None or result.content != content:
                raise NotCharged("This is not what was computed for the charge behind this release.", NotCharged.help)
            if _following(connection, charge, "release") is None:
                body = {"charge": charge.position, "content": content}
                self._append(connection, head, charge.account, _state(connection, charge.account), "release", body)

    def _enter_result(
        self, receipt: Receipt, guarantee: Guarantee, result: Result, step: AnswerStep | None = None
    ) -> None:
        """Enter what a fit computed for its charge. Of one charge there is one result; nothing else may leave for it.

        `step` is what it made of a memory of first answers: a charge for these takes no result without it.
        For learners at the end of `fit` only: whoever could call this with a content of their own could release anything.
        """
        with self._writing() as (connection, head):
            charge = self._charge_of(connection, receipt)
            if charge is None or Guarantee.from_dict(charge.body["guarantee"]) != guarantee:
                raise NotCharged("The ledger does not have the charge that this fit's receipt names.", NotCharged.help)
            earlier = _result_of(connection, charge)
            if earlier is None:
                kept = step_body(charge, step, tables.entries(connection, charge.account))
                body = {"charge": charge.position, **vars(result), **kept}
                self._append(connection, head, charge.account, _state(connection, charge.account), "result", body)
            elif earlier != result:
                raise NotCharged(
                    "The charge behind this fit has paid for another result already.",
                    "Release that one, or refit: every fit is charged.",
                )

    def _charge_of(self, connection: sql.Connection, receipt: Receipt) -> Entry | None:
        entry = _entry_of(connection, receipt) if receipt.ledger == self.identity else None
        return None if entry is None or entry.kind != "charge" else entry

    def raise_budget(self, name: str, *, epsilon: float | None = None, delta: float | None = None, reason: str) -> None:
        """Give an account a larger budget: an act of the steward that stays in the ledger with its reason."""
        _checked_sentences(reason=reason)
        if not reason.strip():
            raise InvalidParameter("Raising a budget needs a reason.", "Say why in a sentence; it stays in the ledger.")
        with self._writing() as (connection, head):
            state = _state(connection, name)
            budget = state.terms.budget
            larger = replace(
                budget,
                epsilon=budget.epsilon if epsilon is None else exact(checked_epsilon(epsilon)),
                delta=budget.delta if delta is None else exact(checked_delta(delta)),
            )
            if not is_raise(budget, larger):
                raise InvalidParameter(
                    f"A budget can only be raised: account '{name}' has ε = {readable_up(decimal_up(budget.epsilon))}, "
                    f"δ = {readable_up(decimal_up(budget.delta))}.",
                    "Give a larger epsilon or delta.",
                )
            if not larger.admits(state.spent):
                raise InvalidParameter(
                    f"At that ε the reserved δ of account '{name}' does not cover the noise it has paid for.",
                    "Raise ε by less, or delta only.",
                )
            body = {**replace(state.terms, budget=larger).to_dict(), "reason": reason}
            self._append(connection, head, name, state, "raise", body)

    def close_account(self, name: str, *, reason: str) -> None:
        """Let an account pay for nothing any more, for ever: an act of the steward that stays in the ledger with its reason."""
        _checked_sentences(reason=reason)
        if not reason.strip():
            raise InvalidParameter(
                "Closing an account needs a reason.", "Say why in a sentence; it stays in the ledger."
            )
        with self._writing() as (connection, head):
            self._append(connection, head, name, _state(connection, name), "close", {"reason": reason})

    def head(self) -> Head:
        """The chain's last point. Keep it somewhere else; `verify` finds an older copy of the ledger by it."""
        with self._storage.reading() as connection:
            return self._head(connection)

    def verify(self, known: Iterable[Head] = ()) -> Head:
        """The head, if nothing was edited, deleted or reordered and every known head and receipt is still there."""
        with self._storage.reading() as connection:
            head = self._head(connection)
            problem = self._storage.integrity_problem(connection)
            if problem is not None:
                raise LedgerCorrupt(problem, LedgerCorrupt.help)
            entries = verify_chain(tables.entries(connection))
            states = tables.account_states(connection)
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
        self.head()
        try:
            with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".backup-") as folder:
                copy = Path(folder) / "ledger.db"
                storage.copy_file(self._storage.path, copy)
                os.link(copy, target)
        except FileExistsError:
            raise InvalidParameter(f"'{target.name}' exists already.", "Choose a new name for the copy.") from None
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(
                f"'{target.name}' cannot be written ({type(error).__name__}).", "Check folder, rights and space."
            ) from None

    def export(self, kind: ledger_export.Kind = "json") -> str:
        """All entries as text, for the steward's own tools."""
        return ledger_export.exported(self.entries(), kind)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sql.Connection]:
        """A transaction that only reads, of this very ledger."""
        with self._storage.reading() as connection:
            self._head(connection)
            yield connection

    @contextlib.contextmanager
    def _writing(self) -> Iterator[tuple[sql.Connection, Head]]:
        """A transaction that writes to this very ledger, and the head of its chain, which nobody else moves meanwhile."""
        with self._storage.transaction() as connection:
            yield connection, self._head(connection)

    def _head(self, connection: sql.Connection) -> Head:
        head = tables.head(connection, ledger=self.identity)
        if head is None:
            raise LedgerMissing("The ledger was emptied.", LedgerMissing.help)
        return head

    def _open(self, connection: sql.Connection, head: Head, name: str, terms: Terms) -> None:
        if tables.has_entries(connection, name):
            raise LedgerCorrupt(f"Account '{name}' has entries but no balance any more.", LedgerCorrupt.help)
        # Accounts that an older version opened under such names stay as they are.
        fault = name_fault(name)
        if fault is not None:
            raise InvalidParameter(f"The name of an account {fault}.", "Use plain text, such as 'patients-2026'.")
        check_scripts("an account's name", name)
        check_free(name, terms.sources, _taken(connection))
        entry = next_entry(head, _now(), name, "open", terms.to_dict())
        tables.append(connection, entry)
        tables.add_account(connection, name, terms.source, AccountState(terms, Spent(), 1).to_text())

    def _append(
        self,
        connection: sql.Connection,
        head: Head,
        name: str,
        state: AccountState,
        kind: Kind,
        body: Mapping[str, Any],
    ) -> Receipt:
        if state.is_closed and kind in NOT_WHEN_CLOSED:
            raise account_closed(name)
        entry = next_entry(head, _now(), name, kind, body)
        after = state.after(entry)
        if not after.is_admitted():
            raise BudgetExceeded(f"Account '{name}' does not have that much left.", BudgetExceeded.help)
        tables.append(connection, entry)
        tables.set_account_state(connection, name, after.to_text())
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
        return self.state().terms

    def spent(self) -> Amount:
        """What the charges so far add up to, rounded up."""
        return self.state().amount_spent()

    def remaining(self) -> Amount:
        """What is left, rounded down."""
        return self.state().amount_left()

    def slices(self) -> list[tuple[dict[str, str], Amount]]:
        """The values of every slice that was charged for, and what its records were charged in all, rounded up."""
        state = self.state()
        found = [(part, dict(part.where)) for part in state.charged_slices()]
        return [(where, state.of_slice(part).amount_spent()) for part, where in found]

    def entries(self) -> list[Entry]:
        """This account's entries, oldest first."""
        with self.ledger._reading() as connection:
            return tables.entries(connection, self.name)

    def known_answers(self, memory: str) -> str:
        """The digest that a memory of first answers had after the last collection that this account paid for; empty where there was none."""
        return known_digest(self.entries(), memory)

    def quote(
        self, guarantee: Guarantee, cost: Cost, source: Source | None = None, answers: SliceIdentity | None = None
    ) -> Quote:
        """What charging this would do; where `source` is a slice, to the records of that slice. Nothing is written."""
        state = self.state()
        part = self._part(guarantee, source, answers)
        cost, _ = in_relation(self.name, state.terms, guarantee, cost, source)
        after = state.charged(cost, part)
        before = state.of_slice(part).amount_left()
        return Quote(
            asked_amount(cost), before, after.of_slice(part).amount_left(), after.is_admitted() and not state.is_closed
        )

    def check_relation(self, neighbours: Neighbours, unit: Unit, source: Source | None = None) -> None:
        """Raise RelationMismatch unless this account can pay for a promise in this relation, to these units, whatever it costs."""
        check_relation(self.name, self.terms, neighbours, unit, source)

    def check_source(self, source: Source | None) -> None:
        """Raise SourceMismatch unless this account is for the source, or for none yet. Data in memory have no source to look at.

        Raise SourceTaken if it leads by now to what an account that was there before pays for.
        """
        if source is None:
            return
        with self.ledger._reading() as connection:
            terms = _state(connection, self.name).terms
            before = tables.opened_before(connection, self.name)
            earlier = {name: owned for name, owned in _taken(connection).items() if name in before}
        check_pays_for(self.name, terms.pays_for, source)
        check_unshared(self.name, source, earlier)

    def bind(self, source: Source) -> None:
        """Bind an account that has only a name for its source to a path or database, for ever; one that has another is refused."""
        self.check_source(source)
        if not self.terms.pays_for.is_verifiable:
            with self.ledger._writing() as (connection, head):
                self._bound(connection, head, source)

    def _bound(self, connection: sql.Connection, head: Head, source: Source | None) -> tuple[Head, AccountState]:
        """Head and state after the account was bound to the source, where it was bound to none."""
        state = _state(connection, self.name)
        if source is None:
            return head, state
        check_pays_for(self.name, state.terms.pays_for, source)
        if state.terms.pays_for.is_verifiable:
            return head, state
        check_free(self.name, (source,), _taken(connection))
        body = {"source": source.text, "files": list(source.files)}
        bound = self.ledger._append(connection, head, self.name, state, "bind", body)
        return Head(bound.ledger, bound.position, bound.hash), _state(connection, self.name)

    def charge(
        self,
        guarantee: Guarantee,
        cost: Cost,
        what: str,
        purpose: str = "",
        source: Source | None = None,
        answers: SliceIdentity | None = None,
    ) -> Charged:
        """Enter a charge, or raise and leave everything as it was. Only after this returns may noise be drawn.

        `source` is what will be read (`sudare.privacy.source_identity.given_source`): it must be the account's own. An account that has
        only a name for its source is bound to it. Of a slice only the slice is charged, and of `answers` only the persons who give their first one.
        """
        _checked_sentences(what=what, purpose=purpose)
        self._check_purpose(purpose)
        self.check_source(source)
        part = self._part(guarantee, source, answers)
        try:
            with self.ledger._writing() as (connection, head):
                last, state = self._bound(connection, head, source)
                paid, stated = in_relation(self.name, state.terms, guarantee, cost, source)
                self._check_entry(paid, lambda: tables.entries(connection))
                body = {"what": what, "purpose": purpose, "cost": paid.to_dict(), "guarantee": stated.to_dict()}
                charge = {**body, **_slice_body(part), "nonce": _nonce()}
                receipt = self.ledger._append(connection, last, self.name, state, "charge", charge)
        except BudgetExceeded:
            raise budget_exceeded(self.name, what, guarantee, cost, state.of_slice(part)) from None
        return Charged(receipt, stated)

    def _part(self, guarantee: Guarantee, source: Source | None, answers: SliceIdentity | None) -> SliceIdentity | None:
        """What a charge is for; None where it is for all records."""
        if answers is None:
            return slice_of(guarantee, source)
        check_persons(self.name, self.terms, guarantee)
        return answers

    def receipt_of(self, guarantee: Guarantee, cost: Cost, what: str, mark: str) -> Receipt | None:
        """The receipt of a charge that was entered under this mark, for this guarantee at this price; None where there is none.

        A mark is a purpose that no other charge ever has: what was killed before it could keep its receipt finds it by
        the mark that it kept before the charge.
        """
        _, stated = in_relation(self.name, self.terms, guarantee, cost)
        body = {"what": what, "purpose": mark, "guarantee": stated.to_dict()}
        # The guarantee has ε and δ; what else is known of the cost may be another thing in another version.
        for entry in self.entries():
            if entry.kind == "charge" and {name: entry.body[name] for name in body} == body:
                return Receipt(self.ledger.identity, entry.position, entry.hash, self.name)
        return None

    def begun(self, guarantee: Guarantee, cost: Cost, what: str, mark: str) -> Charged | None:
        """The charge that was entered under this mark, if nothing was computed for it yet; None otherwise.

        Whoever was killed after the charge goes on with it: the noise that was drawn then never left. Of one from before a copy was restored nobody
        can say that: the copy may lack its result.
        """
        receipt = Account.receipt_of(self, guarantee, cost, what, mark)
        if receipt is not None and receipt.position < last_restore(self.entries()):
            return None
        promised = None if receipt is None else self.ledger.promised(receipt)
        if receipt is None or promised is None:
            return None
        return Charged(receipt, promised) if self.ledger.result_of(receipt) is None else None

    def enter_request(
        self, request: str, version: int, event: str, *, who: str, what: str, purpose: str, digest: str
    ) -> Receipt:
        """Enter what happened to a request for a release: asked, approved, denied and so on. No balance changes.

        The same event of the same version by the same person is entered once: whoever was killed before it could be kept elsewhere comes again. A version
        that was made anew then is another one, by its digest.
        """
        _checked_sentences(request=request, event=event, who=who, what=what, purpose=purpose, digest=digest)
        body = {"request": request, "version": version, "event": event, "who": who, "digest": digest}
        with self.ledger._writing() as (connection, head):
            for entry in tables.entries(connection, self.name):
                if entry.kind == "request" and {name: entry.body[name] for name in body} == body:
                    return Receipt(head.ledger, entry.position, entry.hash, self.name)
            told = {**body, "what": what, "purpose": purpose}
            return self.ledger._append(connection, head, self.name, _state(connection, self.name), "request", told)

    def disclose(self, what: str, towards: str, numbers: int, purpose: str = "") -> Receipt:
        """Enter that exact values are shown to others: no ε, but a line that says what and to whom."""
        if isinstance(numbers, bool) or not isinstance(numbers, int) or numbers < 1:
            raise InvalidParameter(
                f"A disclosure shows at least one number, got {numbers!r}.", "Count the values that leave."
            )
        _checked_sentences(what=what, towards=towards, purpose=purpose)
        self._check_purpose(purpose)
        guarantee = Guarantee.none(towards).to_dict()
        body = {"what": what, "purpose": purpose, "numbers": numbers, "guarantee": guarantee, "nonce": _nonce()}
        with self.ledger._writing() as (connection, head):
            self._check_entry(None, lambda: tables.entries(connection))
            return self.ledger._append(connection, head, self.name, _state(connection, self.name), "disclosure", body)

    def _check_purpose(self, purpose: str) -> None:
        """Raise InvalidParameter where only the account of a request's run enters such a purpose: by it the run finds its own charge again."""
        if _REQUEST_MARK.match(purpose):
            raise InvalidParameter(
                "A purpose that reads like the charge of a request is entered by the run of that request only.",
                "Say what for in other words.",
            )

    def _check_entry(self, cost: Cost | None, entries: Callable[[], list[Entry]]) -> None:
        """Raise to refuse a charge at this cost, or a disclosure (None), after these entries of all accounts; a plain account refuses none.

        Asked inside the transaction that would write it, so that of two who ask at once the second sees the first one's entry.
        """

    def state(self) -> AccountState:
        """Terms and totals, as one transaction saw them."""
        with self.ledger._reading() as connection:
            return _state(connection, self.name)


def _slice_body(part: SliceIdentity | None) -> dict[str, Any]:
    """What a charge says of its slice; nothing where it is for all records."""
    return {} if part is None else {"slice": {"partition": part.partition, "where": dict(part.where)}}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _nonce() -> str:
    """What makes every receipt unlike any other, even that of the same charge in the same second to a copy of the ledger."""
    return uuid.uuid4().hex


def _checked_texts(**texts: object) -> None:
    """Raise InvalidParameter unless every database can store these texts: no character zero, no half of a surrogate pair."""
    for name, text in texts.items():
        if not isinstance(text, str) or "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InvalidParameter(f"{name} must be text that can be stored.", "Use letters, figures and signs.")


def _checked_sentences(**texts: object) -> None:
    """Raise InvalidParameter unless these can be stored, and shown in one line of a page or terminal."""
    _checked_texts(**texts)
    for name, text in texts.items():
        fault = text_fault(text)
        if fault is not None:
            raise InvalidParameter(f"{name} {fault}.", "Say it in one line of plain text.")


def _entry_of(connection: sql.Connection, receipt: Receipt) -> Entry | None:
    """The entry that a receipt names, if it is there and the same."""
    entry = tables.entry_at(connection, receipt.position)
    return entry if entry is not None and (entry.hash, entry.account) == (receipt.hash, receipt.account) else None


def _following(connection: sql.Connection, charge: Entry, kind: Kind) -> Entry | None:
    """The result or the release of a charge."""
    later = tables.entries(connection, charge.account, after=charge.position)
    return next((entry for entry in later if entry.kind == kind and entry.body["charge"] == charge.position), None)


def _result_of(connection: sql.Connection, charge: Entry) -> Result | None:
    entry = _following(connection, charge, "result")
    return None if entry is None else Result(*(entry.body[name] for name in ("learner", "content", "seal")))


def _taken(connection: sql.Connection) -> dict[str, tuple[Source, ...]]:
    """The sources of every account, by name."""
    states = tables.account_states(connection)
    return {name: AccountState.from_text(text).terms.sources for name, (_, text) in states.items()}


def _started(connection: sql.Connection) -> str:
    """The identity of a new ledger, whose first entry names it."""
    identity = uuid.uuid4().hex
    tables.start(connection, identity, next_entry(None, _now(), "", "ledger", {"ledger": identity}))
    return identity


def _state(connection: sql.Connection, name: str) -> AccountState:
    text = tables.account_state(connection, name)
    if text is None:
        raise UnknownAccount(f"The ledger has no account '{name}'.", UnknownAccount.help)
    return AccountState.from_text(text)
