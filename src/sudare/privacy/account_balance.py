"""What the entries of an account add up to: pure functions and values, no storage."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

from sudare.errors import InvalidCost, LedgerCorrupt
from sudare.parsing import parsed_json
from sudare.privacy.account_terms import Terms, is_raise
from sudare.privacy.accounting import (
    TOTALS,
    Budget,
    Cost,
    Spent,
    decimal_down,
    exact,
    gaussian_cost,
    gaussian_mu_within,
    rational,
    rounded_up,
)
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.ledger_chain import Entry, canonical_json
from sudare.privacy.source_identity import SliceIdentity, Source

# Totals are exact fractions, and may have many digits.
LARGEST_STATE_BYTES: Final = 1 << 24
# What an event of a request tells in words; `digest` is that of what was asked for in this version.
REQUEST_TEXTS: Final = ("request", "event", "who", "what", "purpose", "digest")
# What a closed account takes no more; results and releases of earlier charges, and requests that are denied, it does.
NOT_WHEN_CLOSED: Final = ("charge", "disclosure", "raise", "bind", "close")
# What changes how much is spent, or how much may be.
_SPENDING_KINDS: Final = ("open", "charge", "raise", "restore")
# Everything that reading an entry or a balance which sudare did not write can end in.
_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)


class Amount(NamedTuple):
    """An amount of ε and δ."""

    epsilon: float
    delta: float


class SpendingStep(NamedTuple):
    """ε that an account has spent, and its budget, after an entry made at `time`."""

    time: str
    epsilon_spent: float
    epsilon_budget: float


@dataclass(frozen=True)
class AccountState:
    """Terms and running totals of an account: what the entries add up to.

    `whole` are the charges for all records. `slices` has by partition, and by the values of a slice of it, the charges that looked at that slice only.
    An account that is closed pays for nothing any more.
    """

    terms: Terms
    whole: Spent
    entries: int
    slices: Mapping[str, Mapping[str, Spent]] = field(default_factory=dict)
    is_closed: bool = False

    @property
    def spent(self) -> Spent:
        """What any record was charged at most: of every partition a record is in one slice (proofs/slices.md)."""
        total = self.whole
        for charged in self.slices.values():
            total = total.beside(functools.reduce(Spent.or_at_most, charged.values()))
        return total

    def of_slice(self, part: SliceIdentity | None) -> AccountState:
        """The state as the records of one slice have it; as it is, where there is none."""
        if part is None or part.partition not in self.slices:
            return self
        others = {partition: charged for partition, charged in self.slices.items() if partition != part.partition}
        own = self.slices[part.partition].get(slice_text(part.where), Spent())
        return replace(self, whole=self.whole.beside(own), slices=others)

    def charged_slices(self) -> list[SliceIdentity]:
        """The slices that charges were for."""
        return [
            SliceIdentity(partition, tuple(parsed_json(where).items()))
            for partition, charged in self.slices.items()
            for where in charged
        ]

    def charged(self, cost: Cost, part: SliceIdentity | None) -> AccountState:
        """The state after a charge that looks at all records, or at a slice."""
        if part is None:
            return replace(self, whole=self.whole.plus(cost))
        slices = self.slices.get(part.partition, {})
        where = slice_text(part.where)
        charged = {**slices, where: slices.get(where, Spent()).plus(cost)}
        return replace(self, slices={**self.slices, part.partition: charged})

    def to_text(self) -> str:
        """The one text for this state."""
        slices = {
            partition: {where: _spent_values(spent) for where, spent in charged.items()}
            for partition, charged in self.slices.items()
        }
        return canonical_json(
            {
                "terms": self.terms.to_dict(),
                **_spent_values(self.whole),
                "entries": self.entries,
                # States of ledgers without slices have the text that they always had.
                **({"slices": slices} if slices else {}),
                **({"closed": True} if self.is_closed else {}),
            }
        )

    @classmethod
    def from_text(cls, text: str) -> AccountState:
        """The state that `to_text` wrote."""
        try:
            values = parsed_json(text, largest_bytes=LARGEST_STATE_BYTES)
            slices = {
                partition: {where: _spent_of(spent) for where, spent in charged.items()}
                for partition, charged in values.get("slices", {}).items()
            }
            is_closed = values.get("closed") is True
            state = cls(Terms.from_dict(values["terms"]), _spent_of(values), values["entries"], slices, is_closed)
            is_canonical = state.to_text() == text and type(state.entries) is int
        except _UNREADABLE:
            is_canonical = False
        if not is_canonical:
            raise LedgerCorrupt("An account of the ledger cannot be read.", LedgerCorrupt.help)
        return state

    def after(self, entry: Entry) -> AccountState:
        """The state after one more entry; a ValueError or the like if that is not one this account can have."""
        state = replace(self, entries=self.entries + 1)
        if self.is_closed and entry.kind in NOT_WHEN_CLOSED:
            raise ValueError("the account is closed")
        match entry.kind:
            case "charge":
                return state.charged(Cost.from_dict(entry.body["cost"]), _charged_slice(entry.body))
            case "raise":
                return replace(state, terms=_raised(self.terms, entry.body))
            case "bind":
                return replace(state, terms=_bound(self.terms, entry.body))
            case "restore":
                if not is_restore_body(entry.body):
                    raise ValueError("not a restore")
                return replace(state, whole=self.terms.budget.used_up(self.spent), slices={})
            case "request":
                check_request_body(entry.body)
                return state
            case "close":
                check_closing_body(entry.body)
                return replace(state, is_closed=True)
            case "disclosure" | "result" | "release":
                return state
            case _:
                raise ValueError("not an entry of an open account")

    def is_admitted(self) -> bool:
        """Whether the charges so far are within the budget."""
        return self.terms.budget.admits(self.spent)

    def amount_spent(self) -> Amount:
        """Returns what was spent for people to read, rounded up."""
        return Amount(*self.terms.budget.shown(self.spent))

    def amount_left(self) -> Amount:
        """Returns what is left for people to read, rounded down; never below zero, and nothing where the account is closed."""
        return Amount(0.0, 0.0) if self.is_closed else amount_left(self.terms.budget, self.spent)

    def affordable_epsilon(self, cost: Cost, neighbours: Neighbours) -> float:
        """The largest ε found at which a charge otherwise like `cost`, in relation `neighbours`, fits; 0 if there is none."""
        budget = self.terms.budget
        steps = cost.to(self.terms.neighbours, neighbours).epsilon / cost.epsilon
        plain = decimal_down((budget.epsilon - self.spent.epsilon) / steps)
        low, high = plain if self._affords(cost, neighbours, plain) else 0.0, rounded_up(cost.epsilon)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self._affords(cost, neighbours, middle) else (low, middle)
        return low

    def _affords(self, cost: Cost, neighbours: Neighbours, epsilon: float) -> bool:
        try:
            if cost.mu is None:
                like = Cost(exact(epsilon), cost.delta)
            elif cost.apart:
                delta = decimal_down(cost.delta)
                ratio = gaussian_mu_within(epsilon, delta) / gaussian_mu_within(rounded_up(cost.epsilon), delta)
                like = replace(cost, epsilon=exact(epsilon), mu=cost.mu * ratio)
            else:
                like = gaussian_cost(epsilon, decimal_down(cost.delta), cost.total_variation)
            after = self.charged(like.to(self.terms.neighbours, neighbours), None)
        except InvalidCost:
            return False
        return after.is_admitted()


def amount_left(budget: Budget, spent: Spent) -> Amount:
    """What is left of a budget after charges, for people to read: rounded down, never below zero."""
    if budget.composition == "basic":
        return Amount(_left(budget.epsilon, spent.epsilon), _left(budget.delta, spent.delta))
    shown = Amount(*budget.shown(spent))
    epsilon, delta = (budget.epsilon if part == math.inf else exact(part) for part in shown)
    return Amount(_left(budget.epsilon, epsilon), _left(budget.delta, delta))


def _raised(terms: Terms, body: Mapping[str, Any]) -> Terms:
    """The terms after a raise. Raise ValueError where it is none."""
    raised = Terms.from_dict(body)
    if not is_raise(terms.budget, raised.budget) or raised != replace(terms, budget=raised.budget):
        raise ValueError("not a raise")
    return raised


def _bound(terms: Terms, body: Mapping[str, Any]) -> Terms:
    """The terms after a binding. Raise ValueError where it is none."""
    bound = Source(body["source"], tuple(body["files"]))
    if terms.pays_for.is_verifiable or not bound.is_verifiable:
        raise ValueError("not a binding")
    return replace(terms, bound=bound.text, files=bound.files)


def check_closing_body(body: Mapping[str, Any]) -> None:
    """Raise ValueError unless a body says why an account was closed, and nothing else."""
    if set(body) != {"reason"} or not isinstance(body["reason"], str):
        raise ValueError("not a closing")


def _spent_values(spent: Spent) -> dict[str, Any]:
    """Totals with exact values as text."""
    return {
        "spent": {name: str(getattr(spent, name)) for name in TOTALS},
        "gaussian_charges": spent.gaussian_charges,
    }


def _spent_of(values: Mapping[str, Any]) -> Spent:
    """The totals that `_spent_values` wrote. Raise ValueError and the like for anything else."""
    totals = {name: rational(total) for name, total in values["spent"].items()}
    if type(values["gaussian_charges"]) is not int:
        raise ValueError("not a number of charges")
    return Spent(**totals, gaussian_charges=values["gaussian_charges"])


def slice_text(where: tuple[tuple[str, str], ...]) -> str:
    """One text for the values of a slice."""
    return canonical_json(dict(where))


def _charged_slice(body: Mapping[str, Any]) -> SliceIdentity | None:
    """The slice that a charge is for; None where it is for all records. Raise ValueError for what no charge says."""
    if "slice" not in body:
        return None
    partition, where = body["slice"]["partition"], body["slice"]["where"]
    is_where = isinstance(where, dict) and where and all(isinstance(value, str) for value in where.values())
    if set(body["slice"]) != {"partition", "where"} or not isinstance(partition, str) or not is_where:
        raise ValueError("not a slice")
    return SliceIdentity(partition, tuple(where.items()))


def _left(limit: Fraction, spent: Fraction) -> float:
    return decimal_down(max(Fraction(0), limit - spent))


def is_restore_body(body: Mapping[str, Any]) -> bool:
    """Whether a body says why a copy was restored and which points (position, hash) it lacks."""
    return (
        set(body) == {"lost", "reason"}
        and isinstance(body["reason"], str)
        and isinstance(body["lost"], list)
        and all(isinstance(point, list) and [type(part) for part in point] == [int, str] for point in body["lost"])
    )


def check_request_body(body: Mapping[str, Any]) -> None:
    """Raise ValueError unless a body says what happened to a request for a release: which one, in which version, by whom, and why."""
    is_request = (
        set(body) == {*REQUEST_TEXTS, "version"}
        and type(body["version"]) is int
        and all(isinstance(body[name], str) for name in REQUEST_TEXTS)
    )
    if not is_request:
        raise ValueError("not an event of a request")


class _Passages:
    """By the position of the charge: who was charged, the content that was computed for it, and whether that has left."""

    def __init__(self) -> None:
        self._payers: dict[int, str] = {}
        self._contents: dict[int, str] = {}
        self._released: set[int] = set()

    def enter(self, entry: Entry) -> None:
        """Keep what an entry says; raise LedgerCorrupt if what was not charged or not computed is a result or leaves."""
        if entry.kind == "charge":
            self._payers[entry.position] = entry.account
        if entry.kind not in ("result", "release"):
            return
        charge, content = entry.body["charge"], entry.body["content"]
        is_again = charge in (self._contents if entry.kind == "result" else self._released)
        if is_again or self._payers.get(charge) != entry.account:
            raise _refused(entry, "releases what was not charged")
        # Ledgers of format 1 have releases without results.
        if self._contents.get(charge, content) != content:
            raise _refused(entry, "releases what was not computed")
        if entry.kind == "result":
            self._contents[charge] = content
        else:
            self._released.add(charge)


def replayed(entries: Iterable[Entry]) -> dict[str, AccountState]:
    """The state of every account from its entries alone, checking that each entry was allowed when it was made."""
    states: dict[str, AccountState] = {}
    owners: dict[str, str] = {}
    passages = _Passages()
    for entry in entries:
        if (entry.kind == "ledger") != (entry.position == 0):
            raise _refused(entry, "is out of place")
        if entry.kind == "ledger":
            continue
        try:
            if entry.kind == "open":
                state = AccountState(Terms.from_dict(entry.body), Spent(), 1)
            else:
                state = states[entry.account].after(entry)
            passages.enter(entry)
        except _UNREADABLE:
            raise _refused(entry, "cannot be read") from None
        is_taken = any(owners.get(source.text, entry.account) != entry.account for source in state.terms.sources)
        if is_taken or (entry.kind == "open" and entry.account in states):
            raise _refused(entry, "opens an account or a source a second time")
        if not state.is_admitted():
            raise _refused(entry, "overspends its account")
        states[entry.account] = state
        owners |= dict.fromkeys((source.text for source in state.terms.sources), entry.account)
    return states


def spending_steps(entries: Iterable[Entry]) -> list[SpendingStep]:
    """What one account had spent, at most its budget, after each entry that changed it or the budget, for people to read.

    The entries are all of an account that `replayed` accepts, its opening first.
    """
    found: list[SpendingStep] = []
    state: AccountState | None = None
    for entry in entries:
        state = AccountState(Terms.from_dict(entry.body), Spent(), 1) if state is None else state.after(entry)
        if entry.kind in _SPENDING_KINDS:
            budget = float(state.terms.budget.epsilon)
            found.append(SpendingStep(entry.time, min(state.amount_spent().epsilon, budget), budget))
    return found


def _refused(entry: Entry, reason: str) -> LedgerCorrupt:
    return LedgerCorrupt(f"Entry {entry.position} of the ledger {reason}.", LedgerCorrupt.help)
