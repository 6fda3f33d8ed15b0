"""The account of one run of a task, every entry of which names the task, the agreement and the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.errors import NotApproved
from sudare.privacy.account_balance import Amount
from sudare.privacy.accounting import Cost
from sudare.privacy.ledger import Account
from sudare.privacy.ledger_chain import Entry, Head, Receipt, verify_contains
from sudare.privacy.run_account import RunAccount

# As many digits of an agreement's digest stand in its entries.
_DIGITS: Final = 16
_MARK = re.compile(r"task '([a-z0-9-]+)' of agreement ([0-9a-f]{16})(,|$)")


@dataclass(frozen=True)
class Permission:
    """What one run of a task may cost, by plan, policy and steward. Exact sums cost no ε and are disclosed.

    `undenied` is held while something is entered: it raises `NotApproved` where the steward has denied the task since, and lets nobody do so meanwhile.
    `known_heads` are the points that the ledger must have for anything to be entered: without them it is an older copy that was put back.
    """

    task: str
    mark: str
    epsilon: float
    delta: float
    undenied: Callable[[], AbstractContextManager[None]] = nullcontext
    known_heads: Callable[[], Iterable[Head]] = tuple


def mark_of(agreement: Agreement, task: str) -> str:
    """How the purposes of a task's entries begin."""
    return f"task '{task}' of agreement {short_digest(agreement.digest)}"


def short_digest(digest: str) -> str:
    """What entries name an agreement by."""
    return digest[:_DIGITS]


def is_of_a_task(entry: Entry) -> bool:
    """Whether an entry is marked as one of a task, of whichever agreement."""
    purpose = entry.body.get("purpose")
    return isinstance(purpose, str) and _MARK.match(purpose) is not None


def agreements_that_paid(task: str, entries: Iterable[Entry]) -> frozenset[str]:
    """The beginnings of the digests of the agreements under which a task of this name was charged or disclosed. Other consortia may pay from the same ledger."""
    purposes = (str(entry.body.get("purpose")) for entry in entries if entry.kind in ("charge", "disclosure"))
    return frozenset(match[2] for match in map(_MARK.match, purposes) if match is not None and match[1] == task)


def run_already(task: str) -> NotApproved:
    """The refusal to pay for a task a second time."""
    return NotApproved(
        f"Task '{task}' was run already: the ledger has its charge or disclosure, and what that run kept is not here.",
        "Put the member's state and results folders back as they were and run it again, which costs nothing. An approval is for "
        "one run: to pay for another one, agree with the others on a new task, sign, and approve that.",
    )


class TaskAccount(RunAccount):
    """An account as one run of a task sees it. `run` is a name that the run keeps in its state from before the charge.

    Where `is_resumed`, whoever comes again under the same run goes on with its charge. Sums keep their own receipt instead. Before anything is entered
    `check_wanted` is asked in the process of the node: it raises where the run has ended there since.
    """

    def __init__(
        self,
        account: Account,
        permission: Permission,
        run: str,
        is_resumed: bool,
        check_wanted: Callable[[], None] = lambda: None,
    ) -> None:
        permitted = Amount(permission.epsilon, permission.delta)
        super().__init__(account, permission.mark, permitted, is_resumed=is_resumed)
        self._permission, self._run, self._check_wanted = permission, run, check_wanted

    def __reduce__(self) -> tuple[object, ...]:
        return TaskAccount, (Account(self.ledger, self.name), self._permission, self._run, self._is_resumed)

    def disclose(self, what: str, towards: str, numbers: int, purpose: str = "") -> Receipt:
        """Enter the disclosure of this run; the one that it has entered already, where it has."""
        marked = self._marked(purpose)
        for entry in self.entries():
            if entry.kind == "disclosure" and (entry.body["purpose"], entry.body["numbers"]) == (marked, numbers):
                return Receipt(self.ledger.identity, entry.position, entry.hash, self.name)
        with self._undenied():
            return super().disclose(what, towards, numbers, marked)

    def _marked(self, purpose: str) -> str:
        if purpose.startswith(f"{self._mark},"):
            return purpose
        return f"{self._mark}, {purpose or f'run {self._run}'}"

    def _undenied(self) -> AbstractContextManager[None]:
        return self._permission.undenied()

    def _check_entry(self, cost: Cost | None, entries: Callable[[], list[Entry]]) -> None:
        self._check_wanted()
        verify_contains(self.ledger.identity, entries(), self._permission.known_heads())
        super()._check_entry(cost, entries)

    def _beyond(self, beyond: str) -> NotApproved:
        return NotApproved(
            f"Task '{self._permission.task}' {beyond}.",
            "Nothing was charged. See `sudare status`, and approve the task anew.",
        )

    def _charged_already(self) -> NotApproved:
        return run_already(self._permission.task)
