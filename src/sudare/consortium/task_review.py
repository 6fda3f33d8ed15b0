"""What a steward sees and decides of an agreement's tasks: what each costs here, what it has shown others, who approved it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.approvals import (
    Approvals,
    Verdict,
    check_not_run,
    exceeded_bound,
    is_paid_in_another_version,
    is_used,
    required,
)
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.schedules import Schedule
from sudare.consortium.agreement.taken_versions import check_can_be_taken
from sudare.consortium.ledger_rollback import check_not_older
from sudare.consortium.node_control_files import states_of
from sudare.consortium.node_restart_on_change import OVER
from sudare.consortium.tasks.definitions import DictionaryTask, Task
from sudare.consortium.tasks.task_account import mark_of
from sudare.consortium.tasks.task_costs import cost_at, entries_at, opened_account
from sudare.errors import InvalidParameter, LedgerBusy, SudareError
from sudare.frames import batches
from sudare.privacy.account_balance import Amount
from sudare.privacy.run_account import entries_of


@dataclass(frozen=True)
class DecidedTask:
    """A task, or all runs of a schedule, before and after a decision: what one run costs at most, and the bound of the member's policy that it is above."""

    task: Task
    before: str
    cost: Amount
    exceeded_bound: str | None
    schedule: Schedule | None = None

    @property
    def runs(self) -> int:
        """How many runs were decided about."""
        return 1 if self.schedule is None else self.schedule.runs


def decide_task(
    own: Member, name: str, verdict: Verdict, reason: str, *, who: str | None = None, dry_run: bool = False
) -> DecidedTask:
    """Enter the steward's decision about a task, or about the schedule of this name where no task has it, unless in a dry run.

    Raise NotApproved where the task's run was paid for already. A schedule's runs are decided about where nothing was decided about them alone.
    """
    agreement = own.agreement()
    is_schedule = name in {each.name for each in agreement.schedules} - {each.name for each in agreement.tasks}
    schedule = agreement.schedule(name) if is_schedule else None
    task = agreement.task(name if schedule is None else schedule.run_names[0])
    approvals = Approvals(own.state_folder)
    found = approvals.state(agreement, task) if schedule is None else approvals.schedule_state(agreement, schedule)
    if verdict == "approved" and schedule is None:
        check_not_run(own, agreement, task)
    # What is approved is what the run will cost; to deny it, nobody needs to know.
    cost = cost_at(own, agreement, task) if verdict == "approved" else known_cost(own, agreement, task)
    amount = Amount(0.0, 0.0) if cost is None else cost
    if not dry_run:
        approvals.decide(agreement, schedule or task, verdict, reason, who=who, cost=amount)
    return DecidedTask(task, found.state, amount, exceeded_bound(own.policy, amount), schedule)


def task_values(own: Member, agreement: Agreement, name: str) -> dict[str, Any]:
    """What a run of a task costs here, whether it waits for the steward, and what was decided."""
    task = agreement.task(name)
    decision = Approvals(own.state_folder).state(agreement, task)
    needed = required(own, task)
    cost = known_cost(own, agreement, task)
    amount = Amount(*task.cost) if cost is None else cost
    bound = exceeded_bound(own.policy, amount)
    return {
        "task": name,
        "kind": task.kind,
        "epsilon": amount.epsilon,
        "delta": amount.delta,
        "agreed_epsilon": task.cost[0],
        "agreed_delta": task.cost[1],
        "is_planned": cost is not None,
        "approval_required": needed,
        "state": decision.state if needed or decision.state == "denied" else "not needed",
        "who": decision.who,
        "when": decision.when,
        "reason": decision.reason,
        "refused_by_policy": bound is not None,
        "exceeded_bound": bound,
        "used": is_used(own, agreement, task) or is_paid_in_another_version(own, agreement, task),
    }


def known_cost(own: Member, agreement: Agreement, task: Task) -> Amount | None:
    """What a run will cost here; None where that cannot be planned, because the records cannot be read or the task cannot run."""
    try:
        cost = cost_at(own, agreement, task)
    except SudareError:
        return None
    return Amount(0.0, 0.0) if cost is None else cost


def shown_totals(own: Member, agreement: Agreement, name: str) -> dict[str, Any] | None:
    """What exact sums of a task have shown the others, beside how much is held here; nothing for tasks that disclosed nothing."""
    agreed = [body["numbers"] for body in _entered(own, agreement, name, "disclosure")]
    if not agreed:
        return None
    numbers = _dictionary_result(own, name).get("numbers")
    columns = len(agreement.schema.features)
    try:
        rows = sum(batch.rows for batch in batches(own.source(), schema=agreement.schema))
    except SudareError:
        rows = None
    return {"task": name, "most_numbers": agreed[-1], "numbers": numbers, "rows": rows, "columns": columns}


def noisy_totals(own: Member, agreement: Agreement, task: DictionaryTask) -> dict[str, Any]:
    """What a private dictionary promises, whether it was charged here, and how many noisy totals it has shown."""
    found = _dictionary_result(own, task.name)
    return {
        "task": task.name,
        "epsilon": task.cost[0],
        "delta": task.cost[1],
        "charges": len(_entered(own, agreement, task.name, "charge")),
        "sums": found.get("sums"),
        "numbers": found.get("numbers"),
    }


def start_problems(own: Member) -> list[str]:
    """What keeps a node of this member from beginning: an agreement that is not the one that it has taken, an older ledger. Raise LedgerBusy where that cannot be seen now."""
    checks: tuple[Callable[[], None], ...] = (
        partial(check_can_be_taken, own, own.agreement()),
        partial(check_not_older, own),
    )
    problems = []
    for check in checks:
        try:
            check()
        except LedgerBusy:
            raise
        except SudareError as error:
            problems.append(str(error))
    return problems


def check_can_be_withdrawn(own: Member, agreement: Agreement, task: Task) -> None:
    """Raise InvalidParameter where this member has no release in a task, and none is under way: nothing is paid for to be taken back."""
    if task.has_sums:
        raise InvalidParameter(
            f"Task '{task.name}' adds up what all members have, and no release of one member could be taken back.",
            f"`sudare run {task.name} --cancel` ends one that runs.",
        )
    state = states_of(own, agreement.digest).get(task.name, {}).get("state", OVER[0])
    if state in OVER and not entries_of(mark_of(agreement, task.name), entries_at(own)):
        raise InvalidParameter(
            f"Task '{task.name}' has no release of this member under version {agreement.version} of the agreement.",
            "Nothing was begun or charged. What was published under an earlier version others can delete only by hand: ask them to.",
        )


def budget_left(own: Member) -> dict[str, float] | None:
    """What is left of the member's budget; None where it has no account yet."""
    account = opened_account(own)
    return None if account is None else dict(account.remaining()._asdict())


def _entered(own: Member, agreement: Agreement, name: str, kind: str) -> list[dict[str, Any]]:
    """The ledger's entries of a kind that are for a task."""
    entries = entries_of(mark_of(agreement, name), entries_at(own))
    return [dict(entry.body) for entry in entries if entry.kind == kind]


def _dictionary_result(own: Member, name: str) -> dict[str, Any]:
    """What a dictionary task has written here; empty before its end."""
    # With it come all that trains dictionaries and scikit-learn: only who has such a result needs them.
    from sudare.dictionary.member_model_file import read_document

    result = own.results_folder(name) / "dictionary.json"
    return dict(read_document(result)) if result.is_file() else {}
