"""What an account was opened with and what its entries add up to: pure functions and values, no storage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from sudare.errors import AccountMismatch, InvalidCost, InvalidParameter, LedgerCorrupt, UnknownAccount
from sudare.privacy.accounting import Budget, Composition, Cost, Spent, decimal_down, exact
from sudare.privacy.chain import Entry, canonical_json
from sudare.privacy.guarantee import NEIGHBOURS, UNITS, Neighbours, Unit, checked_delta, checked_epsilon


class Amount(NamedTuple):
    """So much of ε and δ."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Terms:
    """What an account was opened with."""

    budget: Budget
    neighbours: Neighbours
    unit: Unit
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Exact values as text."""
        return {
            "epsilon": str(self.budget.epsilon),
            "delta": str(self.budget.delta),
            "composition": self.budget.composition,
            "reserved_delta": str(self.budget.reserved_delta),
            "neighbours": self.neighbours,
            "unit": self.unit,
            "source": self.source,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Terms:
        """The terms that `to_dict` wrote."""
        budget = Budget(
            Fraction(values["epsilon"]),
            Fraction(values["delta"]),
            values["composition"],
            Fraction(values["reserved_delta"]),
        )
        return cls(budget, values["neighbours"], values["unit"], values["source"])


@dataclass(frozen=True)
class AskedTerms:
    """The terms a caller names when opening an account; None stands for the default, or for whatever it has."""

    epsilon: float | None
    delta: float | None
    neighbours: Neighbours | None
    unit: Unit | None
    composition: Composition | None
    reserved_delta: float | None
    source: str | os.PathLike[str] | None

    def for_new(self, name: str) -> Terms:
        """The terms of an account that does not exist yet."""
        if self.epsilon is None:
            raise UnknownAccount(
                f"The ledger has no account '{name}', and no budget was given to open it with.", UnknownAccount.help
            )
        neighbours, unit = self.neighbours or "replace-one", self.unit or "record"
        if neighbours not in NEIGHBOURS or unit not in UNITS:
            raise InvalidParameter(
                f"neighbours must be one of {', '.join(NEIGHBOURS)} and unit one of {', '.join(UNITS)}.",
                "Use these words.",
            )
        budget = Budget.of(self.epsilon, self.delta or 0.0, self.composition or "basic", self.reserved_delta)
        return Terms(budget, neighbours, unit, name if self.source is None else source_text(self.source))

    def check_same(self, name: str, terms: Terms) -> None:
        """Nothing, if every term that was given is the account's own; an ε alone means δ = 0."""
        budget = terms.budget
        delta = 0.0 if self.delta is None and self.epsilon is not None else self.delta
        asked: list[tuple[str, object, object]] = [
            ("epsilon", None if self.epsilon is None else exact(checked_epsilon(self.epsilon)), budget.epsilon),
            ("delta", None if delta is None else exact(checked_delta(delta)), budget.delta),
            ("neighbours", self.neighbours, terms.neighbours),
            ("unit", self.unit, terms.unit),
            ("composition", self.composition, budget.composition),
            (
                "reserved_delta",
                None if self.reserved_delta is None else exact(self.reserved_delta),
                budget.reserved_delta,
            ),
            ("source", None if self.source is None else source_text(self.source), terms.source),
        ]
        different = [term for term, value, kept in asked if value is not None and value != kept]
        if different:
            raise AccountMismatch(
                f"Account '{name}' was opened with another {' and '.join(different)}: it has "
                f"ε = {float(budget.epsilon):g}, δ = {float(budget.delta):g}, {terms.neighbours} {terms.unit}, "
                f"{budget.composition} composition.",
                AccountMismatch.help,
            )


def source_text(source: str | os.PathLike[str]) -> str:
    """One text for one source: a file that exists is named by its real path, so that two spellings are one source."""
    text = os.fspath(source).strip()
    return os.path.realpath(text) if os.path.exists(text) else text


@dataclass(frozen=True)
class AccountState:
    """Terms and running totals of an account: what the entries add up to."""

    terms: Terms
    spent: Spent
    entries: int

    def to_text(self) -> str:
        """The one text for this state."""
        totals = {
            name: str(getattr(self.spent, name))
            for name in ("epsilon", "delta", "mu_squared", "total_variation", "leaked_delta")
        }
        return canonical_json(
            {
                "terms": self.terms.to_dict(),
                "spent": totals,
                "gaussian_charges": self.spent.gaussian_charges,
                "entries": self.entries,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> AccountState:
        """The state that `to_text` wrote."""
        try:
            values = json.loads(text)
            totals = {name: Fraction(total) for name, total in values["spent"].items()}
            spent = Spent(**totals, gaussian_charges=values["gaussian_charges"])
            return cls(Terms.from_dict(values["terms"]), spent, values["entries"])
        except (ValueError, KeyError, TypeError, AttributeError, InvalidCost):
            raise LedgerCorrupt("An account of the ledger cannot be read.", LedgerCorrupt.help) from None

    def after(self, entry: Entry) -> AccountState:
        """The state after one more entry."""
        if entry.kind == "charge":
            spent = self.spent.plus(Cost.from_dict(entry.body["cost"]))
            return replace(self, spent=spent, entries=self.entries + 1)
        if entry.kind == "raise":
            return replace(self, terms=Terms.from_dict(entry.body), entries=self.entries + 1)
        return replace(self, entries=self.entries + 1)

    def amount_spent(self) -> Amount:
        """For people to read, rounded up."""
        return Amount(*self.terms.budget.shown(self.spent))

    def amount_left(self) -> Amount:
        """For people to read, rounded down; never below zero."""
        budget = self.terms.budget
        epsilon, delta = (exact(part) for part in self.amount_spent())
        return Amount(
            decimal_down(max(Fraction(0), budget.epsilon - epsilon)),
            decimal_down(max(Fraction(0), budget.delta - delta)),
        )


def replayed(entries: Iterable[Entry]) -> dict[str, AccountState]:
    """The state of every account from its entries alone, checking that each charge fitted when it was made."""
    states: dict[str, AccountState] = {}
    for entry in entries:
        if entry.kind == "ledger":
            continue
        try:
            if entry.kind == "open":
                states[entry.account] = AccountState(Terms.from_dict(entry.body), Spent(), 1)
                continue
            state = states[entry.account].after(entry)
        except (ValueError, KeyError, TypeError, InvalidCost):
            raise LedgerCorrupt(f"Entry {entry.position} of the ledger cannot be read.", LedgerCorrupt.help) from None
        if not state.terms.budget.admits(state.spent):
            raise LedgerCorrupt(f"Entry {entry.position} of the ledger overspends its account.", LedgerCorrupt.help)
        states[entry.account] = state
    return states
