"""What a task of an agreement will charge one member: planned from public facts, in the relation of the member's own account."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.tasks.definitions import Task
from sudare.consortium.tasks.task_learners import promise_of
from sudare.errors import LedgerMissing, UnknownAccount
from sudare.frames import batches, row_count
from sudare.privacy.account_balance import Amount, Terms
from sudare.privacy.account_charges import asked_amount, in_relation
from sudare.privacy.accounting import Budget, approximate_cost, pure_cost
from sudare.privacy.ledger_chain import Entry

if TYPE_CHECKING:
    from sudare.privacy.ledger import Account


def planned_amount(task: Task, agreement: Agreement, terms: Terms, rows: Callable[[], int]) -> Amount | None:
    """The ε and δ that one run charges an account with these terms, at a member with so many rows; None where sums are exact."""
    promise = promise_of(task, agreement.schema, rows)
    if promise is None:
        return None
    cost = approximate_cost(promise.epsilon, promise.delta) if promise.delta else pure_cost(promise.epsilon)
    paid, _ = in_relation(task.name, terms, promise, cost)
    return asked_amount(paid)


def cost_at(member: Member, agreement: Agreement, task: Task) -> Amount | None:
    """What one run of a task charges at this member."""
    return planned_amount(task, agreement, terms_at(member, agreement), lambda: rows_at(member, agreement))


def planned_for_new_member(task: Task, agreement: Agreement, rows: int) -> Amount:
    """What one run charges the new account of a member with so many rows."""
    return planned_amount(task, agreement, new_terms(agreement), lambda: rows) or Amount(0.0, 0.0)


def opened_account(member: Member) -> Account | None:
    """The member's account, if it was opened."""
    try:
        return member.ledger(create=False).account(member.account_name)
    except (LedgerMissing, UnknownAccount):
        return None


def entries_at(member: Member) -> list[Entry]:
    """The entries of the member's ledger, of all accounts: a task is paid for once, whichever paid. None before there is a ledger."""
    try:
        return member.ledger(create=False).entries()
    except LedgerMissing:
        return []


def terms_at(member: Member, agreement: Agreement) -> Terms:
    """The terms of the member's account, or those that it will be opened with."""
    account = opened_account(member)
    return new_terms(agreement) if account is None else account.terms


def new_terms(agreement: Agreement) -> Terms:
    """The terms with which members' accounts are opened. Their budget and source are no part of a price, and are not told."""
    return Terms(Budget.of(1.0), "replace-one", "record" if agreement.schema.person is None else "person", "")


def rows_at(member: Member, agreement: Agreement) -> int:
    """How many records the member holds."""
    source = member.source()
    known = row_count(source) if isinstance(source, str) else None
    return sum(batch.rows for batch in batches(source, schema=agreement.schema)) if known is None else known
