"""`sudare approve`, `sudare deny` and `sudare status`: the steward's say about the tasks of an agreement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.answers import AsJson, DryRun, answer, reported
from sudare.cli.key_files import MemberFile
from sudare.consortium.certificate_expiry import expiry_lines, kit_days_left
from sudare.consortium.sum_terms import sums_lines, sums_values
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from sudare.consortium import Task
    from sudare.privacy.account_balance import Amount

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task of the agreement, by its name.")]


@reported
def approve(
    task: TaskName,
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence; it stays in this house.")] = "",
    member: MemberFile = Path("member.toml"),
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a task of the agreement run at this member: once, as it stands in the agreement now."""
    _decide(task, "approved", reason, member, dry_run, as_json)


@reported
def deny(
    task: TaskName,
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence; it stays in this house.")],
    member: MemberFile = Path("member.toml"),
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Keep a task of the agreement from running at this member. What it has charged stays charged."""
    _decide(task, "denied", reason, member, dry_run, as_json)


@reported
def status(member: MemberFile = Path("member.toml"), as_json: AsJson = False) -> None:
    """How things stand: whether the agreement is in force, what waits for the steward, and what is left of the budget."""
    from sudare.consortium import DictionaryTask, Member, signature_status
    from sudare.consortium.node_request_files import states_of
    from sudare.consortium.task_review import budget_left, noisy_totals, shown_totals, task_values

    own = Member.load(member)
    agreement = own.agreement()
    found = signature_status(agreement, own.statements())
    at_node = states_of(own)
    tasks = [
        {
            **task_values(own, agreement, each.name),
            "node": str(at_node.get(each.name, {}).get("state", "")),
            "error": at_node.get(each.name, {}).get("error"),
        }
        for each in agreement.tasks
    ]
    left = budget_left(own)
    disclosed = [known for each in agreement.tasks if (known := shown_totals(own, agreement, each.name)) is not None]
    noisy = [
        noisy_totals(own, agreement, each)
        for each in agreement.tasks
        if isinstance(each, DictionaryTask) and each.is_private
    ]
    kit = own.transport.kit
    values = {
        "member": own.name,
        "agreement": agreement.name,
        "digest": agreement.digest,
        "in_force": found.is_in_force,
        "unsigned": list(found.lacking),
        "revoked": list(found.revoked),
        "tasks": tasks,
        "budget": left,
        "sums": sums_values(agreement, agreement.tasks),
        "certificate_days_left": kit_days_left(kit, "client"),
        "shown": disclosed,
        "noisy": noisy,
    }
    table = Table("task", "kind", "ε", "δ", "node", "steward", "by", "reason", box=None, pad_edge=False)
    for each in tasks:
        costs = _number(each["epsilon"]), _number(each["delta"])
        cells = (each["task"], each["kind"], *costs, each["node"], _verdict(each), each["who"], each["reason"])
        table.add_row(*(Text(escaped_for_terminal(str(cell))) for cell in cells))
    lacking = [*found.lacking, *(f"{name} (key revoked)" for name in found.revoked)]
    force = "in force" if found.is_in_force else f"not in force: no signature that counts by {', '.join(lacking)}"
    budget = "No account yet." if left is None else f"Left of the budget: ε {left['epsilon']:g}, δ {left['delta']:g}."
    stopped = [escaped_for_terminal(f"{each['task']} stopped: {each['error']}") for each in tasks if each["error"]]
    summed = sums_lines(agreement, agreement.tasks)
    shown = [*stopped, *_plan_lines(tasks), *summed, *map(_shown_text, disclosed), *map(_noisy_text, noisy)]
    opening = f"{own.name} in {agreement.name} ({agreement.digest[:12]}), {force}."
    answer(values, as_json, opening, table, *shown, budget, *expiry_lines(kit, "client"))


def _decide(
    name: str, verdict: Literal["approved", "denied"], reason: str, file: Path, dry_run: bool, as_json: bool
) -> None:
    from sudare.consortium import Member
    from sudare.consortium.task_review import decide_task

    own = Member.load(file)
    agreement = own.agreement()
    decided = decide_task(own, name, verdict, reason, dry_run=dry_run)
    task, before, amount, bound = decided.task, decided.before, decided.cost, decided.exceeded_bound
    values = {
        "task": name,
        "before": before,
        "after": before if dry_run else verdict,
        "epsilon": amount.epsilon,
        "delta": amount.delta,
        "sums": sums_values(agreement, [task]),
    }
    lines = [f"{name}: {_word(before)} → {verdict}. {_cost_text(task, amount)}"]
    if verdict == "approved":
        lines += sums_lines(agreement, [task])
    if verdict == "approved" and bound is not None:
        most = f"{'ε' if bound == 'most_epsilon' else 'δ'} {_number(getattr(own.policy, bound))}"
        lines.append(f"It will not run: the policy in {file} allows {most} at most.")
    answer({**values, "dry_run": dry_run}, as_json, *lines, *(["Dry run: nothing was changed."] if dry_run else []))


def _cost_text(task: Task, cost: Amount) -> str:
    """What the steward should know before the task runs."""
    if not cost.epsilon:
        return "Its sums are exact: they are entered as disclosures."
    text = f"It costs at most ε {_number(cost.epsilon)}, δ {_number(cost.delta)}."
    if cost != task.cost:
        text += f" The agreement says ε {_number(task.cost[0])}, δ {_number(task.cost[1])}; that is not what a record is charged."
    return text


def _verdict(task: dict[str, Any]) -> str:
    if task["used"]:
        return "was run already"
    return f"above {task['exceeded_bound']}" if task["refused_by_policy"] else _word(task["state"])


def _plan_lines(tasks: list[dict[str, Any]]) -> list[str]:
    """Where what a run charges is not what the agreement says, or cannot be told."""
    lines = []
    for each in tasks:
        agreed = f"ε {_number(each['agreed_epsilon'])}, δ {_number(each['agreed_delta'])}"
        if not each["is_planned"]:
            lines.append(f"{each['task']} cannot be planned as things are; the agreement says {agreed}.")
        elif (each["epsilon"], each["delta"]) != (each["agreed_epsilon"], each["agreed_delta"]):
            planned = f"ε {_number(each['epsilon'])}, δ {_number(each['delta'])}"
            lines.append(f"{each['task']} charges {planned} for a record; the agreement's text says {agreed}.")
    return lines


def _word(state: str) -> str:
    return "not decided" if state == "none" else "asked for" if state == "pending" else state


def _shown_text(found: dict[str, Any]) -> str:
    most, numbers, rows, columns = (found[name] for name in ("most_numbers", "numbers", "rows", "columns"))
    seen = (
        f"up to {most:,} exact totals" if numbers is None else f"{numbers:,} exact totals (up to {most:,} were agreed)"
    )
    held = "" if rows is None else f"; {rows:,} records × {columns} columns = {rows * columns:,} numbers are held here"
    return f"{found['task']} shows the others {seen}{held}."


def _noisy_text(found: dict[str, Any]) -> str:
    charges = found["charges"]
    paid = "not charged yet" if not charges else "charged" if charges == 1 else f"charged {charges} times"
    # The first of the sums is the number of rows, which is public.
    is_known = found["numbers"] is not None and found["sums"] is not None
    seen = f"; {found['numbers'] - 1:,} noisy totals in {found['sums'] - 1} sums" if is_known else ""
    return (
        f"{found['task']} shows the others noisy totals and the number of all records: ε {_number(found['epsilon'])}, "
        f"δ {_number(found['delta'])} in all, towards everyone; {paid}{seen}."
    )


def _number(value: float) -> str:
    from sudare.report.numbers import rounded_up

    return rounded_up(value) if value else "0"
