"""`sudare approve`, `sudare deny` and `sudare status`: the steward's say about the tasks of an agreement."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sudare.cli.command_output import AsJson, DryRun, answer, clear_screen, reported
from sudare.cli.key_files import MemberFile
from sudare.cli.language import Told, spoken, spoken_language
from sudare.consortium.certificate_expiry import expiry_lines, kit_days_left
from sudare.consortium.sum_terms import budget_lines, schedule_lines, schedule_values, sums_lines, sums_values
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from sudare.consortium import Member, Task
    from sudare.consortium.agreement.schedules import Schedule
    from sudare.privacy.account_balance import Amount

_WATCH_SECONDS: Final = 2.0
TaskName = Annotated[
    str,
    typer.Argument(metavar="TASK", help="A task of the agreement, by its name, or a schedule: all of its runs."),
]

Reason = Annotated[str, typer.Option("--reason", help="Why, in a sentence; it stays in this house.")]


@reported
def approve(
    task: TaskName,
    reason: Reason = "",
    member: MemberFile = Path("member.toml"),
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a task of the agreement run at this member: once, as it stands in the agreement now. Of a schedule, every run on its day, until it is denied."""
    _decide(task, "approved", reason, member, dry_run, as_json)


@reported
def deny(
    task: TaskName,
    reason: Reason,
    member: MemberFile = Path("member.toml"),
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Keep a task of the agreement, or the runs of a schedule, from running at this member; one that runs is stopped. What was charged stays charged."""
    _decide(task, "denied", reason, member, dry_run, as_json)


@reported
def status(
    member: MemberFile = Path("member.toml"),
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C; with --json one object a line."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """How things stand: whether the agreement is in force, what waits for the steward, who is there, and what is left of the budget."""
    from sudare.consortium import Member
    from sudare.consortium.agreement.taken_versions import as_it_left

    while True:
        named = Member.load(member)
        own = as_it_left(named)
        agreement, values = own.agreement(), _status_values(own)
        if watch and not as_json:
            clear_screen()
        sums = [*sums_lines(agreement, agreement.tasks), *schedule_lines(agreement), *budget_lines(agreement)]
        left = [] if own is named else [_left_line(own.name, agreement.version)]
        answer(values, as_json, *left, *_status_texts(values, sums), *expiry_lines(own.transport.kit, "client"))
        if not watch:
            return
        try:
            time.sleep(_WATCH_SECONDS)
        except KeyboardInterrupt:
            return


def _left_line(name: str, version: int) -> str:
    return f"{name} is no member of the agreement as the others have it now. This is version {version}, the last one that it took."


def _status_values(own: Member) -> dict[str, Any]:
    from sudare.consortium import DictionaryTask, signature_status
    from sudare.consortium.local_socket import live_states
    from sudare.consortium.node_control_files import (
        agreement_of_running_node,
        present_members,
        reaches_relay,
        states_of,
    )
    from sudare.consortium.task_review import budget_left, noisy_totals, shown_totals, start_problems, task_values

    agreement = own.agreement()
    told = live_states(own)
    live = told.document
    found, present = signature_status(agreement, own.statements()), present_members(own, live)
    at_node, running_under = states_of(own, live=live), agreement_of_running_node(own, live)
    tasks = [
        {
            **task_values(own, agreement, each.name),
            "node": str(at_node.get(each.name, {}).get("state", "")),
            "round": at_node.get(each.name, {}).get("round"),
            "error": at_node.get(each.name, {}).get("error"),
        }
        for each in agreement.tasks
    ]
    noisy = [
        noisy_totals(own, agreement, each)
        for each in agreement.tasks
        if isinstance(each, DictionaryTask) and each.is_private
    ]
    return {
        "member": own.name,
        "agreement": agreement.name,
        "digest": agreement.digest,
        "in_force": found.is_in_force,
        "unsigned": list(found.lacking),
        "revoked": list(found.revoked),
        "problems": start_problems(own),
        "proposed": _proposed_values(own),
        "node_running": running_under is not None,
        "node_agreement": running_under,
        "present": present,
        "absent": None if present is None else [name for name in agreement.member_names if name not in present],
        "relay_reached": reaches_relay(own, live),
        "told_over_socket": live is not None,
        "turned_seconds_ago": None if live is None else told.turned_seconds_ago,
        "socket_refused": told.refusal or None,
        "tasks": tasks,
        "budget": budget_left(own),
        "sums": sums_values(agreement, agreement.tasks),
        "schedules": _decided_schedules(own),
        "certificate_days_left": kit_days_left(own.transport.kit, "client"),
        "shown": [known for each in agreement.tasks if (known := shown_totals(own, agreement, each.name)) is not None],
        "noisy": noisy,
    }


def _proposed_values(own: Member) -> dict[str, Any] | None:
    """The version that is proposed after the present one, who has still to sign it, and what holds it back here; None where there is none that can be read."""
    from sudare.consortium.agreement.amendments import proposed_after
    from sudare.consortium.node_restart_on_change import tasks_under_way
    from sudare.errors import SudareError

    agreement = own.agreement()
    try:
        found = proposed_after(agreement, own.agreement_path, own.statements())
    except SudareError:
        # A node says what is wrong with it, and so does `sudare consortium check`.
        return None
    if found is None:
        return None
    proposal, signed = found
    return {
        "version": proposal.version,
        "digest": proposal.digest,
        "unsigned": sorted({*signed.lacking, *signed.revoked}),
        "waits_for": tasks_under_way(own, agreement) if own.name in proposal.member_names else {},
    }


def _proposed_lines(proposed: dict[str, Any] | None) -> list[str]:
    if proposed is None:
        return []
    number, digest = proposed["version"], proposed["digest"][:12]
    if proposed["unsigned"]:
        unsigned = ", ".join(proposed["unsigned"])
        return [f"Version {number} of the agreement ({digest}) is proposed; it is not signed yet by: {unsigned}."]
    if proposed["waits_for"]:
        waits_for = ", ".join(proposed["waits_for"])
        return [f"Version {number} of the agreement ({digest}) is signed by all. It is taken here after: {waits_for}."]
    return [
        f"Version {number} of the agreement ({digest}) is signed by all. A node takes it here at once, or: sudare consortium adopt"
    ]


def _decided_schedules(own: Member) -> list[dict[str, Any]]:
    """The schedules with what was decided about each as a whole."""
    from sudare.consortium.agreement.approvals import Approvals

    agreement, approvals = own.agreement(), Approvals(own.state_folder)
    decisions = (approvals.schedule_state(agreement, each) for each in agreement.schedules)
    return [
        {**values, "state": found.state, "who": found.who, "reason": found.reason}
        for values, found in zip(schedule_values(agreement), decisions, strict=True)
    ]


def _status_texts(values: dict[str, Any], sums: list[str]) -> list[RenderableType]:
    tasks, left = values["tasks"], values["budget"]
    table = Table("task", "kind", "ε", "δ", "node", "steward", "by", "reason", box=None, pad_edge=False)
    for each in tasks:
        costs = _number(each["epsilon"]), _number(each["delta"])
        states = spoken(each["node"]), spoken(_verdict(each))
        cells = (each["task"], each["kind"], *costs, *states, each["who"], each["reason"])
        table.add_row(*(Text(escaped_for_terminal(str(cell))) for cell in cells))
    lacking = [*values["unsigned"], *(f"{name} (key revoked)" for name in values["revoked"])]
    force = "in force" if values["in_force"] else f"not in force: no signature that counts by {', '.join(lacking)}"
    return [
        f"{values['member']} in {values['agreement']} ({values['digest'][:12]}), {force}.",
        *(escaped_for_terminal(f"No node would start here: {each}") for each in values["problems"]),
        table,
        *_node_lines(values),
        *_socket_lines(values),
        *map(escaped_for_terminal, _proposed_lines(values["proposed"])),
        *(escaped_for_terminal(f"{each['task']} stopped: {each['error']}") for each in tasks if each["error"]),
        *_plan_lines(tasks),
        *sums,
        *(
            escaped_for_terminal(
                f"{each['schedule']} as a whole: {each['state']} by {each['who']} {each['reason']}".rstrip()
            )
            for each in values["schedules"]
            if each["state"] != "none"
        ),
        *map(_shown_text, values["shown"]),
        *map(_noisy_text, values["noisy"]),
        "No account yet." if left is None else f"Left of the budget: ε {left['epsilon']:g}, δ {left['delta']:g}.",
    ]


def _node_lines(values: dict[str, Any]) -> list[str]:
    """Whether a node runs here, and whom it hears."""
    if not values["node_running"]:
        begun = [each["task"] for each in values["tasks"] if each["node"] not in ("", "finished", "failed", "denied")]
        begun_lines = [f"Begun and not ended: {', '.join(begun)}. It goes on when the node is started again."]
        return ["No node of this member is running here: sudare node", *(begun_lines if begun else [])]
    if values["present"] is None:
        under = escaped_for_terminal(str(values["node_agreement"])[:12])
        return [
            f"The node that runs here works under {under}, not under what stands in the agreement's file now; what it does is not shown."
        ]
    absent = f" Not there: {', '.join(values['absent'])}." if values["absent"] else ""
    lines = [escaped_for_terminal(f"Present: {', '.join(values['present'])}.{absent}")]
    if not values["relay_reached"]:
        lines.append(
            "The relay is not reached: it is down, or line, proxy or certificate are not right. The node tries on."
        )
    return lines


def _socket_lines(values: dict[str, Any]) -> list[str]:
    """Whether the node itself was asked; nothing where it offers no socket."""
    if values["told_over_socket"]:
        seconds = values["turned_seconds_ago"]
        return [
            f"Told by the running node itself, over its local socket. Its loop last came round {seconds:g} seconds ago."
        ]
    return [values["socket_refused"]] if values["socket_refused"] else []


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
        "runs": decided.runs,
        "sums": sums_values(agreement, [task]),
    }
    lines: list[str] = [_decided_text(name, before, verdict, _cost_text(task, amount))]
    if decided.schedule is not None:
        lines.append(_runs_text(decided.schedule, amount))
    if verdict == "approved":
        lines += sums_lines(agreement, [task])
    if verdict == "approved" and bound is not None:
        most = f"{'ε' if bound == 'most_epsilon' else 'δ'} {_number(getattr(own.policy, bound))}"
        lines.append(f"It will not run: the policy in {file} allows {most} at most.")
    answer({**values, "dry_run": dry_run}, as_json, *lines, *(["Dry run: nothing was changed."] if dry_run else []))


def _decided_text(name: str, before: str, verdict: str, cost: str) -> Told:
    """What a decision changes, and what the task costs; a task may be called like any word."""
    end = "。" if spoken_language() == "ja" else ". "
    return Told(f"{name}: {spoken(_word(before))} → {spoken(verdict)}{end}{spoken(cost)}")


def _runs_text(schedule: Schedule, cost: Amount) -> str:
    """What a decision about a schedule covers."""
    from sudare.consortium.agreement.schedules import added_up

    return (
        f"This is for each of its {schedule.runs} runs, {schedule.run_names[0]} to {schedule.run_names[-1]}, about which nothing was decided alone; "
        f"together at most ε {_number(added_up([cost.epsilon] * schedule.runs))}, δ {_number(added_up([cost.delta] * schedule.runs))}. No run begins before its day."
    )


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
    if state == "not needed":
        return "not needed"
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
    from sudare.report.number_formatting import rounded_up

    return rounded_up(value) if value else "0"
