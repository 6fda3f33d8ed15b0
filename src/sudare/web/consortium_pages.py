"""The consortium: agreement, members, tasks that wait, and progress; of a member whose node runs on the same machine.

Everything is read from the member's own files: its state folder, which only its owner reads, and what its node writes there. What the node does now is
asked of itself where it offers a local socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from starlette.responses import Response
from starlette.routing import Route

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.signed_statements import SignatureStatus, signature_status
from sudare.consortium.certificate_expiry import WARNING_DAYS, expiry_lines, kit_days_left
from sudare.consortium.local_socket import live_states
from sudare.consortium.node_control_files import Told, agreement_of_running_node, present_members, states_of
from sudare.consortium.sum_terms import budget_lines, schedule_lines, sums_lines
from sudare.consortium.task_review import budget_left, decide_task, start_problems, task_values
from sudare.consortium.tasks.definitions import CensusTask, DictionaryTask, ModelsTask, Task
from sudare.errors import NotApproved, SudareError
from sudare.web.page_part import PagePart, Waiting
from sudare.web.rendering import NavigationItem
from sudare.web.signed_in_request import Visit, page

_REFRESH_SECONDS = 10
_UNDER_WAY = ("preparing", "running", "writing results")
Presence = Literal["present", "absent", "unknown"]


@dataclass(frozen=True)
class MemberView:
    """A member of the agreement: whether its signature counts, and whether it is there."""

    name: str
    is_own: bool
    signature: str
    presence: Presence


@dataclass(frozen=True)
class TaskView:
    """A task as a steward sees it: what it reveals and costs, how far it is, and what signed statements show."""

    name: str
    values: dict[str, Any]
    reveals: str
    node: str
    round: int | None
    error: str
    lies: tuple[str, ...]

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the steward."""
        return (
            self.values["approval_required"] and self.values["state"] in ("none", "pending") and not self.values["used"]
        )


def revealed(task: Task) -> str:
    """What the others see of this member's records, in a sentence."""
    if isinstance(task, ModelsTask):
        return "Your own private model leaves, signed; the others verify and combine it."
    if isinstance(task, CensusTask):
        return "Your records leave, each randomised before; nobody sees a true one."
    if isinstance(task, DictionaryTask) and not task.is_private:
        return "Exact totals over all members are shown to all; no ε protects them."
    return "You reveal masked sums only; what all see has noise that protects your records."


@page("viewer")
def consortium(visit: Visit) -> Response:
    """The agreement in plain words, who is present, and its tasks."""
    file = visit.services.settings.member
    if file is None:
        return visit.render("no_consortium.html")
    own, agreement = _loaded(file)
    status = signature_status(agreement, own.statements())
    told = live_states(own)
    tasks = task_views(own, agreement, told.document)
    kit = own.transport.kit
    days = kit_days_left(kit, "client")
    running_under = agreement_of_running_node(own, told.document)
    response = visit.render(
        "consortium.html",
        own=own.name,
        agreement=agreement,
        is_in_force=status.is_in_force,
        members=member_views(own, agreement, status, told.document),
        is_node_running=running_under is not None,
        works_under="" if running_under in (None, agreement.digest) else running_under,
        told=told,
        sums=sums_lines(agreement, agreement.tasks),
        schedules=[*schedule_lines(agreement), *budget_lines(agreement)],
        problems=start_problems(own) if visit.is_steward else (),
        tasks=tasks,
        budget=budget_left(own),
        days=days,
        ends_soon=days is not None and days < WARNING_DAYS,
        expiry=expiry_lines(kit, "client"),
    )
    if any(task.node in _UNDER_WAY for task in tasks):
        response.headers["Refresh"] = str(_REFRESH_SECONDS)
    return response


@page("steward")
def decide(visit: Visit) -> Response:
    """Approve or deny a task, with a reason: as `sudare approve` and `sudare deny` do."""
    file = visit.services.settings.member
    if file is None:
        return visit.redirect("/consortium")
    own, agreement = _loaded(file)
    name = visit.path("task")
    verdict = visit.form.verdict
    try:
        if visit.form.text("agreement") != agreement.digest:
            raise NotApproved(
                "The agreement is another one than the one that was shown. Nothing was decided.",
                "Look at its tasks as they are now, and decide again.",
            )
        decide_task(own, name, verdict, visit.form.text("reason"), who=visit.user)
    except SudareError as error:
        return visit.problem(error, back="/consortium")
    visit.services.log.write(f"task-{verdict}", user=visit.user)
    return visit.redirect("/consortium")


def _loaded(file: Path) -> tuple[Member, Agreement]:
    own = Member.load(file)
    return own, own.agreement()


def member_views(
    own: Member, agreement: Agreement, status: SignatureStatus, live: Told | None = None
) -> list[MemberView]:
    """The members, by name; who is there by what a running node has told, else by what it wrote."""
    present = present_members(own, live)
    return [
        MemberView(name, name == own.name, _signature(name, status), _presence(name, own.name, present))
        for name in agreement.member_names
    ]


def _signature(name: str, status: SignatureStatus) -> str:
    if name in status.revoked:
        return "key revoked"
    return "not signed" if name in status.lacking else "signed"


def _presence(name: str, own: str, present: Sequence[str] | None) -> Presence:
    if present is None:
        return "unknown"
    return "present" if name in present or name == own else "absent"


def task_views(own: Member, agreement: Agreement, live: Told | None = None) -> list[TaskView]:
    """The tasks, by name; how far they are by what a running node has told, else by what it wrote."""
    at_node, is_there = states_of(own, live=live), present_members(own, live) is not None
    return [_task_view(own, agreement, task, at_node.get(task.name, {}), is_there) for task in agreement.tasks]


def _task_view(own: Member, agreement: Agreement, task: Task, told: dict[str, Any], is_node_there: bool) -> TaskView:
    state = str(told.get("state", ""))
    return TaskView(
        name=task.name,
        values=task_values(own, agreement, task.name),
        reveals=revealed(task),
        # A node that was killed has said nothing of its end.
        node="interrupted" if state in _UNDER_WAY and not is_node_there else state,
        round=told.get("round") if is_node_there else None,
        error=str(told.get("error") or ""),
        lies=tuple(_lies(own, agreement, task)),
    )


def _lies(own: Member, agreement: Agreement, task: Task) -> list[str]:
    """Who is shown by signed statements to have lied in a task's sums, as far as this member kept them."""
    if not task.has_sums or not any(own.task_folder(agreement, task.name).glob("transcript*")):
        return []
    from sudare.consortium.tasks.sum_transcripts import own_transcripts
    from sudare.sums.blame import contradictions

    try:
        found = contradictions(own_transcripts(own.task_folder(agreement, task.name)))
    except SudareError:
        return []
    return [each.liar if each.liar is not None else ", ".join(each.among) for each in found]


def _waiting(visit: Visit) -> Sequence[Waiting]:
    file = visit.services.settings.member
    if file is None or not visit.is_steward:
        return ()
    own, agreement = _loaded(file)
    return [
        Waiting(f"Task '{task.name}' of agreement '{agreement.name}' waits for the steward.", "/consortium")
        for task in task_views(own, agreement)
        if task.is_waiting
    ]


PART = PagePart(
    routes=[Route("/consortium", consortium), Route("/consortium/{task}/decide", decide, methods=["POST"])],
    navigation=[NavigationItem("/consortium", "Consortium")],
    waiting=_waiting,
)
