"""What an account has spent, as one line: numbers, and a bar that never shows less than was spent.

Terms and entries come as the plain values that a ledger exports: exact numbers as text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from sudare.languages import Language, translated, translator
from sudare.report.number_formatting import rounded_up, whole
from sudare.safe_text import escaped_for_terminal

BAR_WIDTH = 15
ENTRY_HEADINGS = ("entry", "kind", "what", "ε", "δ", "time")


@dataclass(frozen=True)
class BudgetBar:
    """Spending of one account, in plain numbers."""

    account: str
    epsilon_spent: float
    epsilon_budget: float
    delta_spent: float
    delta_budget: float
    entries: int
    relation: str = "replace-one record"

    @classmethod
    def from_terms(cls, account: str, terms: Mapping[str, str], spent: tuple[float, float], entries: int) -> Self:
        """The bar of an account from its exported terms and what it has spent of ε and δ."""
        return cls(
            account=account,
            epsilon_spent=spent[0],
            epsilon_budget=float(Fraction(terms["epsilon"])),
            delta_spent=spent[1],
            delta_budget=float(Fraction(terms["delta"])),
            entries=entries,
            relation=f"{terms['neighbours']} {terms['unit']}",
        )

    @property
    def share(self) -> float:
        """The part that is spent: of ε, or of δ where more of that is spent."""
        delta_share = self.delta_spent / self.delta_budget if self.delta_budget > 0 else 0.0
        return min(1.0, max(self.epsilon_spent / self.epsilon_budget, delta_share))

    @property
    def epsilon_text(self) -> str:
        """How much of ε is spent, of how much."""
        return f"ε {rounded_up(self.epsilon_spent)} of {rounded_up(self.epsilon_budget)}"

    @property
    def delta_text(self) -> str:
        """How much of δ is spent, of how much; an account without δ says so."""
        if self.delta_budget == 0:
            return "δ 0 of 0"
        spent = "0" if self.delta_spent == 0 else rounded_up(self.delta_spent)
        return f"δ {spent} of {rounded_up(self.delta_budget)}"

    @property
    def entries_text(self) -> str:
        """How many lines the ledger has about this account."""
        return f"{whole(self.entries)} {'entry' if self.entries == 1 else 'entries'}"

    @property
    def blocks(self) -> str:
        """Full and empty blocks; anything spent fills at least one, and all are full only when the budget is used up."""
        least = 1 if self.epsilon_spent > 0 or self.delta_spent > 0 else 0
        most = BAR_WIDTH if self.share >= 1 else BAR_WIDTH - 1
        full = min(max(math.ceil(self.share * BAR_WIDTH), least), most)
        return "█" * full + "░" * (BAR_WIDTH - full)

    def line(self, name_width: int = 0) -> str:
        """The whole bar in one line of a terminal."""
        name = f"{escaped_for_terminal(self.account):<{name_width}}"
        return f"{name}  {self.blocks}  {self.epsilon_text}   {self.delta_text}   {self.entries_text}"


def entry_cells(entry: Mapping[str, Any], language: Language = "en") -> tuple[str, ...]:
    """One exported line of a ledger as a steward reads it, under `ENTRY_HEADINGS`; what somebody wrote stays as it is."""
    kind, body = entry["kind"], entry["body"]
    described = {
        "open": "budget",
        "bind": f"source {body.get('source')}",
        "result": f"{body.get('learner')} of entry {body.get('charge')}",
        "release": f"file of entry {body.get('charge')}",
    }
    what = body.get("what") or body.get("reason") or translated(described.get(kind, ""), language)
    if kind == "request":
        what = translator(language)(
            _request_text(body["event"], body.get("purpose")),
            request=body["request"],
            event=translated(body["event"], language),
            who=body["who"],
            what=translated(str(what), language),
            purpose=body.get("purpose"),
        )
    amounts = {"open": body, "raise": body, "charge": body.get("cost")}.get(kind)
    epsilon, delta = ("–", "–") if amounts is None else (_exact_text(amounts[name]) for name in ("epsilon", "delta"))
    cells = (str(entry["position"]), translated(kind, language), str(what), epsilon, delta, time_text(entry["time"]))
    return tuple(map(escaped_for_terminal, cells))


def _request_text(event: str, purpose: str | None) -> str:
    """What is said of an event: who asked names a purpose, who decides a reason; a run is ended by nobody, and names its file or its error."""
    if not purpose:
        return "request {request} {event} by {who}: {what}"
    if event == "asked":
        return "request {request} {event} by {who}: {what}, for: {purpose}"
    if event == "done":
        return "request {request} of {who} {event}: {what}, file {purpose}"
    if event in ("failed", "interrupted"):
        return "request {request} of {who} {event}: {what} ({purpose})"
    return "request {request} {event} by {who}: {what}, because: {purpose}"


def time_text(time: str) -> str:
    """A time as people write it: 2026-11-15T05:19:11+00:00 is 2026-11-15 05:19:11 UTC."""
    return time.replace("T", " ").replace("+00:00", " UTC")


def _exact_text(number: str) -> str:
    value = float(Fraction(number))
    return rounded_up(value) if value else "0"
