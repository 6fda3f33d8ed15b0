"""An account as pages show it: plain numbers and texts, rounded as the ledger rounds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from sudare.privacy import Account, Ledger
from sudare.privacy.account_balance import Amount
from sudare.privacy.accounting import decimal_up
from sudare.report.budget_bar import BudgetBar
from sudare.report.privacy_card import Strength, strength_of


@dataclass(frozen=True)
class AccountView:
    """What an account has, has spent, and has left."""

    name: str
    budget: Amount
    spent: Amount
    left: Amount
    neighbours: str
    unit: str
    composition: str
    source: str
    entries: int
    is_closed: bool

    @property
    def share(self) -> float:
        """The part that is spent, in per cent: of ε, or of δ where more of that is spent."""
        bar = BudgetBar(
            self.name, self.spent.epsilon, self.budget.epsilon, self.spent.delta, self.budget.delta, self.entries
        )
        return 100 * bar.share

    @property
    def strength(self) -> Strength:
        """The word for all that this account may ever release together."""
        return strength_of(self.budget.epsilon, self.budget.delta)


def account_view(account: Account) -> AccountView:
    """An account in plain values."""
    state = account.state()
    terms = state.terms
    return AccountView(
        name=account.name,
        budget=Amount(decimal_up(terms.budget.epsilon), decimal_up(terms.budget.delta)),
        spent=state.amount_spent(),
        left=state.amount_left(),
        neighbours=terms.neighbours,
        unit=terms.unit,
        composition=terms.budget.composition,
        source=shown_source(terms.bound or terms.source),
        entries=state.entries,
        is_closed=state.is_closed,
    )


def shown_source(source: str) -> str:
    """What an account pays for, without the folders that it lies in."""
    return source if "://" in source else PurePath(source).name or source


def account_views(ledger: Ledger) -> list[AccountView]:
    """All accounts, by name."""
    return [account_view(account) for account in ledger.accounts()]
