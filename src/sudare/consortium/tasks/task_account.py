"""The account of one run of a task: it can be charged once, and for no more than was permitted.

Every entry of a task names the task, the agreement and the run. The ledger is asked for such an entry inside the transaction that
would write another, so what was paid for once is known wherever state, approvals and results went meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from sudare.consortium.agreement.agreement import Agreement
from sudare.errors import NotApproved
from sudare.privacy.account_balance import Amount
from sudare.privacy.account_charges import beyond_permitted
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Charged
from sudare.privacy.ledger_chain import Entry, Receipt
from sudare.privacy.source_identity import Source

_MARK = re.compile(r"task '([a-z0-9-]+)' of agreement ([0-9a-f]{16})(,|$)")


@dataclass(frozen=True)
class Permission:
    """What one run of a task may cost, by plan, policy and steward. Exact sums cost no ε and are disclosed.

    `undenied` is held while something is entered: it raises `NotApproved` where the steward has denied the task since, and lets nobody do so meanwhile.
    """

    task: str
    mark: str
    epsilon: float
    delta: float
    undenied: Callable[[], AbstractContextManager[None]] = nullcontext


def mark_of(agreement: Agreement, task: str) -> str:
    """How the purposes of a task's entries begin."""
    return f"task '{task}' of agreement {agreement.digest[:16]}"


def entries_of(mark: str, entries: Iterable[Entry]) -> list[Entry]:
    """The charges and disclosures of the task with this mark."""
    return [entry for entry in entries if entry.kind in ("charge", "disclosure") and _is_marked(mark, entry)]


def is_of_a_task(entry: Entry) -> bool:
    """Whether an entry is marked as one of a task, of whichever agreement."""
    purpose = entry.body.get("purpose")
    return isinstance(purpose, str) and _MARK.match(purpose) is not None


def names_of_tasks(entries: Iterable[Entry], digests: Iterable[str]) -> frozenset[str]:
    """The names of the tasks that charges and disclosures are of, of the agreements with these digests: other consortia may pay from the same ledger."""
    purposes = (str(entry.body.get("purpose")) for entry in entries if entry.kind in ("charge", "disclosure"))
    marks, wanted = map(_MARK.match, purposes), {digest[:16] for digest in digests}
    return frozenset(match[1] for match in marks if match is not None and match[2] in wanted)


def run_already(task: str) -> NotApproved:
    """The refusal to pay for a task a second time."""
    return NotApproved(
        f"Task '{task}' was run already: the ledger has its charge or disclosure, and what that run kept is not here.",
        "Put the member's state and results folders back as they were and run it again, which costs nothing. An approval is for "
        "one run: to pay for another one, agree with the others on a new task, sign, and approve that.",
    )


class TaskAccount(Account):
    """An account as one run of a task sees it. `run` is a name that the run keeps in its state from before the charge.

    Where `is_resumed`, whoever comes again under the same run goes on with the first charge, unless its result was entered
    already: of one charge there is one result. Sums keep their own receipt instead.
    """

    def __init__(self, account: Account, permission: Permission, run: str, is_resumed: bool) -> None:
        super().__init__(account.ledger, account.name)
        self._permission, self._run, self._is_resumed = permission, run, is_resumed

    def __reduce__(self) -> tuple[object, ...]:
        return TaskAccount, (Account(self.ledger, self.name), self._permission, self._run, self._is_resumed)

    def charge(
        self, guarantee: Guarantee, cost: Cost, what: str, purpose: str = "", source: Source | None = None
    ) -> Charged:
        """Enter the charge of this run, or raise and leave everything as it was."""
        with self._permission.undenied():
            if self._is_resumed:
                begun = self.begun(guarantee, cost, what, self._marked(purpose))
                if begun is not None:
                    return begun
            return super().charge(guarantee, cost, what, self._marked(purpose), source)

    def receipt_of(self, guarantee: Guarantee, cost: Cost, what: str, mark: str) -> Receipt | None:
        """The receipt of the charge that was entered under this mark of this run; None where there is none."""
        return super().receipt_of(guarantee, cost, what, self._marked(mark))

    def disclose(self, what: str, towards: str, numbers: int, purpose: str = "") -> Receipt:
        """Enter the disclosure of this run; the one that it has entered already, where it has."""
        mark = self._marked(purpose)
        for entry in self.entries():
            if entry.kind == "disclosure" and (entry.body["purpose"], entry.body["numbers"]) == (mark, numbers):
                return Receipt(self.ledger.identity, entry.position, entry.hash, self.name)
        with self._permission.undenied():
            return super().disclose(what, towards, numbers, mark)

    def _marked(self, purpose: str) -> str:
        mark = self._permission.mark
        if purpose.startswith(f"{mark},"):
            return purpose
        return f"{mark}, {purpose or f'run {self._run}'}"

    def _check_entry(self, cost: Cost | None, entries: Callable[[], list[Entry]]) -> None:
        permitted = self._permission
        amount = Amount(permitted.epsilon, permitted.delta)
        beyond = None if cost is None else beyond_permitted(cost, amount)
        if beyond is not None:
            raise NotApproved(
                f"Task '{permitted.task}' {beyond}.",
                "Nothing was charged. See `sudare status`, and approve the task anew.",
            )
        if entries_of(permitted.mark, entries()):
            raise run_already(permitted.task)


def _is_marked(mark: str, entry: Entry) -> bool:
    purpose = entry.body.get("purpose")
    return isinstance(purpose, str) and (purpose == mark or purpose.startswith(f"{mark},"))
