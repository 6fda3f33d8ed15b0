"""The steward's say: which tasks wait for approval, who approved or denied them, when and why.

Requests and decisions are files that are only ever added, one event each and each whole: the newest decision counts. They are bound
to the agreement's digest and to the task as it stands there: another agreement, or the task changed, is another question.
One approval is for one run of a task, its attempts and restarts included, and for what the run was planned to cost when it was
given. That a run was paid for is in the ledger, not here.

A schedule can be decided as a whole: that counts for each of its runs about which nothing was decided, at the cost of one run; none begins before its day.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.amendments import history_folder
from sudare.consortium.agreement.document_fields import Field, Reader, hexadecimal, parsed_json
from sudare.consortium.agreement.member_settings import Member, Policy
from sudare.consortium.agreement.schedules import Schedule
from sudare.consortium.agreement.signed_statements import now
from sudare.consortium.agreement.taken_versions import knows_all_versions, version_digests
from sudare.consortium.ledger_rollback import check_not_older, heads_in
from sudare.consortium.tasks.definitions import DictionaryTask, Task
from sudare.consortium.tasks.task_account import (
    Permission,
    agreements_that_paid,
    mark_of,
    run_already,
    short_digest,
)
from sudare.consortium.tasks.task_costs import cost_at, entries_at
from sudare.errors import ConsortiumError, InvalidParameter, NotApproved
from sudare.files import PRIVATE_MODE, changed_by_one, make_private_folder, read_text, write_new
from sudare.privacy.account_balance import Amount
from sudare.privacy.guarantee import readable_up
from sudare.privacy.ledger_chain import canonical_json
from sudare.privacy.run_account import entries_of

State = Literal["none", "pending", "approved", "denied"]
Verdict = Literal["approved", "denied"]

FOLDER: Final = "approvals"
_EVENT_FILE: Final = re.compile(r"([0-9]{6})\.json")
_EXACT: Final = Amount(0.0, 0.0)
_MOST_EVENTS: Final = 10_000


@dataclass(frozen=True)
class Decision:
    """How things stand with one task of one agreement. ε and δ are what the run was planned to cost then, where that was known."""

    agreement: str
    task: str
    task_digest: str
    state: State
    who: str = ""
    when: str = ""
    reason: str = ""
    epsilon: float | None = None
    delta: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))


def required(member: Member, task: Task) -> bool:
    """Whether a task waits for the steward of this member. No bound on ε holds for exact sums, so where there is one they do."""
    is_exact = isinstance(task, DictionaryTask) and not task.is_private
    has_bound = member.policy.most_epsilon is not None or member.policy.most_delta is not None
    return task.kind in member.policy.approval or (is_exact and has_bound)


def permit(member: Member, agreement: Agreement, task: Task) -> Permission:
    """What one run of the task may cost at this member; raises `NotApproved` unless it may start.

    Policy and steward judge what the run is planned to charge, whatever the agreement's text says. What still needs the steward
    is entered as a request. Raise LedgerRolledBack where the ledger is an older one than this member knows, and LedgerMissing where it is gone.
    """
    needed, approvals = required(member, task), Approvals(member.state_folder)
    # A denial counts also where the policy asks for no approval: whoever entered it wants the task not to run.
    found = approvals.undenied_state(agreement, task)
    if needed and found.state == "pending":
        raise undecided(task.name)
    # What the ledger says is paid counts only where it is the ledger that this member knows.
    check_not_older(member)
    check_not_run(member, agreement, task)
    _check_nothing_unknown_paid(member, agreement, task)
    planned = cost_at(member, agreement, task)
    cost = _EXACT if planned is None else planned
    check_policy(member, task, cost)
    if needed and found.state == "none":
        approvals.request(agreement, task, who="node", cost=cost)
        raise undecided(task.name)
    if needed:
        _check_approved(found, task, cost)
    undenied = partial(_held_undenied, member.state_folder, agreement, task)
    return Permission(task.name, mark_of(agreement, task.name), *cost, undenied, partial(heads_in, member.state_folder))


@contextlib.contextmanager
def _held_undenied(state_folder: Path, agreement: Agreement, task: Task) -> Iterator[None]:
    """Let nobody decide meanwhile. Raise `NotApproved` where the task was denied: whoever has denied it never sees it paid for afterwards."""
    approvals = Approvals(state_folder)
    with approvals.held():
        approvals.undenied_state(agreement, task)
        yield


def exceeded_bound(policy: Policy, cost: Amount) -> str | None:
    """The bound of a policy that a run at this cost is above, by its name; None where it is within all."""
    if policy.most_epsilon is not None and cost.epsilon > policy.most_epsilon:
        return "most_epsilon"
    return "most_delta" if policy.most_delta is not None and cost.delta > policy.most_delta else None


def check_policy(member: Member, task: Task, cost: Amount) -> None:
    """Raise `NotApproved` where the member's own policy keeps a run at this cost from starting, whatever the steward says."""
    bound = exceeded_bound(member.policy, cost)
    if bound is not None:
        sign, asked = ("ε", cost.epsilon) if bound == "most_epsilon" else ("δ", cost.delta)
        raise NotApproved(
            f"Task '{task.name}' costs {sign} = {readable_up(asked)}; this member's policy has at most "
            f"{getattr(member.policy, bound):g} a task.",
            f"Agree on a smaller {sign}, or change `policy.{bound}`.",
        )


def is_used(member: Member, agreement: Agreement, task: Task) -> bool:
    """Whether a run of the task was paid for or disclosed and cannot be gone on with, because nothing that it kept is here.

    It goes on from its state, or with the release that it made. If not all is here, the charge itself is refused.
    """
    if member.own_release(task.name).exists():
        return False
    entered = entries_of(mark_of(agreement, task.name), entries_at(member))
    folder = member.task_folder(agreement, task.name)
    return bool(entered) and not (folder.is_dir() and any(folder.iterdir()))


def check_not_run(member: Member, agreement: Agreement, task: Task) -> None:
    """Raise NotApproved where the task was run here already, or as a run of a schedule under another version of the agreement: no steward begins it again."""
    if is_used(member, agreement, task):
        raise run_already(task.name)
    if is_paid_in_another_version(member, agreement, task):
        raise NotApproved(
            f"Run '{task.name}' was paid for under another version of the agreement.",
            "Nothing is missing: the next run is begun on its day. To have another one before, agree on a task of its own.",
        )


def has_begun(member: Member, agreement: Agreement, task: Task) -> bool:
    """Whether something of the task was kept here, or paid for."""
    folder = member.task_folder(agreement, task.name)
    return (folder.is_dir() and any(folder.iterdir())) or bool(
        entries_of(mark_of(agreement, task.name), entries_at(member))
    )


def is_paid_in_another_version(member: Member, agreement: Agreement, task: Task) -> bool:
    """Whether the task is a run of a schedule that was paid for under another version of the agreement, and not under this one: a new version repeats no run."""
    if agreement.schedule_of(task.name) is None:
        return False
    paid = agreements_that_paid(task.name, entries_at(member))
    if not paid or short_digest(agreement.digest) in paid:
        return False
    return bool(paid & {short_digest(digest) for digest in version_digests(member, agreement)})


def _check_nothing_unknown_paid(member: Member, agreement: Agreement, task: Task) -> None:
    """Raise `NotApproved` where the ledger has a run of this name under an agreement that is not known here, and versions of this one are missing: it may be one of them.

    Where all versions are known, it is another consortium's run.
    """
    if agreement.schedule_of(task.name) is None or knows_all_versions(member, agreement):
        return
    known = {short_digest(digest) for digest in version_digests(member, agreement)}
    unknown = min(agreements_that_paid(task.name, entries_at(member)) - known, default=None)
    if unknown is not None:
        raise NotApproved(
            f"The ledger has run '{task.name}' of agreement {unknown}, which may be a version of this one: versions before version {agreement.version} are not all here.",
            f"Put those of another member's folder '{history_folder(member.agreement_path).name}' beside the agreement. A run that was paid for is not paid for again.",
        )


def _check_approved(found: Decision, task: Task, cost: Amount) -> None:
    """Raise `NotApproved` where the run has come to cost more than when it was approved."""
    if found.epsilon is None or found.delta is None:
        # Whoever approves without planning approves what stands in the agreement.
        approved = Amount(*task.cost)
    else:
        approved = Amount(found.epsilon, found.delta)
    if cost.epsilon > approved.epsilon or cost.delta > approved.delta:
        raise NotApproved(
            f"Task '{task.name}' would cost ε = {readable_up(cost.epsilon)}, δ = {readable_up(cost.delta)}; the steward approved "
            f"ε = {readable_up(approved.epsilon)}, δ = {readable_up(approved.delta)}.",
            f"See `sudare status`; run: sudare approve {task.name}, or: sudare deny {task.name}",
        )


def undecided(task: str) -> NotApproved:
    """That a task waits for the steward, and what the steward does."""
    return NotApproved(
        f"Task '{task}' waits for the steward.",
        f"Run: sudare approve {task}, or: sudare deny {task}",
    )


class Approvals:
    """The requests and decisions in a member's state folder."""

    def __init__(self, state_folder: str | os.PathLike[str]) -> None:
        self.folder = Path(state_folder) / FOLDER

    def state(self, agreement: Agreement, task: Task) -> Decision:
        """The newest decision about a task, else about the schedule that it is a run of, else that it was asked for, else "none"."""
        found, schedule = self._newest(agreement, task), agreement.schedule_of(task.name)
        if schedule is None or found.state in ("approved", "denied"):
            return found
        of_schedule = self._newest(agreement, schedule)
        return found if of_schedule.state == "none" else replace(of_schedule, task=task.name, task_digest=task.digest)

    def undenied_state(self, agreement: Agreement, task: Task) -> Decision:
        """Returns what was decided. Raise `NotApproved` where it is a denial."""
        found = self.state(agreement, task)
        if found.state == "denied":
            raise NotApproved(
                f"The steward denied task '{task.name}' ({found.reason}).",
                "Ask the steward; `sudare approve` takes it back.",
            )
        return found

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until nobody decides, and let nobody decide meanwhile."""
        make_private_folder(self.folder)
        with changed_by_one(self.folder / "decisions", PRIVATE_MODE):
            yield

    def schedule_state(self, agreement: Agreement, schedule: Schedule) -> Decision:
        """The newest decision about a whole schedule, else "none"."""
        return self._newest(agreement, schedule)

    def _newest(self, agreement: Agreement, task: Task | Schedule) -> Decision:
        found = Decision(agreement.digest, task.name, task.digest, "none")
        for _, event in self._events(self._place(agreement, task)):
            is_same = (event.agreement, event.task, event.task_digest) == (agreement.digest, task.name, task.digest)
            # A request that crossed a decision on the way does not undo it.
            if is_same and (event.state != "pending" or found.state == "none"):
                found = event
        return found

    def request(self, agreement: Agreement, task: Task, who: str, cost: Amount | None = None) -> Decision:
        """Ask the steward, unless that was done before; how things stand then."""
        found = self.state(agreement, task)
        return self._enter(agreement, task, "pending", who, "", cost) if found.state == "none" else found

    def decide(
        self,
        agreement: Agreement,
        task: Task | Schedule,
        verdict: Verdict,
        reason: str,
        who: str | None = None,
        cost: Amount | None = None,
    ) -> Decision:
        """Enter the steward's decision; a later one takes its place, and both stay. `cost` is what is approved at most, for one run."""
        if verdict == "denied" and not reason.strip():
            raise InvalidParameter("A denial needs a reason.", "Say why in a sentence; it stays with this member.")
        with self.held():
            return self._enter(agreement, task, verdict, who or _user(), reason, cost)

    def history(self) -> list[Decision]:
        """All events of all agreements, oldest first within a task."""
        if not self.folder.is_dir():
            return []
        places = sorted(path for path in self.folder.glob("*/*") if path.is_dir())
        return [event for place in places for _, event in self._events(place)]

    def _place(self, agreement: Agreement, task: Task | Schedule) -> Path:
        return self.folder / agreement.digest[:16] / task.name

    def _enter(
        self,
        agreement: Agreement,
        task: Task | Schedule,
        state: State,
        who: str,
        reason: str,
        cost: Amount | None = None,
    ) -> Decision:
        Field("who", who).text()
        Field("reason", reason).text()
        amount = (None, None) if cost is None else (cost.epsilon, cost.delta)
        event = Decision(agreement.digest, task.name, task.digest, state, who, now(), reason, *amount)
        place = self._place(agreement, task)
        content = canonical_json(event.to_dict()).encode()
        try:
            make_private_folder(place)
            for _ in range(_MOST_EVENTS):
                number = max((number for number, _ in self._events(place)), default=0) + 1
                try:
                    write_new(place / f"{number:06d}.json", content, PRIVATE_MODE)
                except FileExistsError:
                    continue
                return event
        except OSError as error:
            raise ConsortiumError(
                f"The state folder cannot be written ({error.strerror}).", "Check the path, its rights and the space."
            ) from None
        raise ConsortiumError("The state folder is too busy.", "Try again.")

    def _events(self, place: Path) -> Iterator[tuple[int, Decision]]:
        """Events of one task, oldest first."""
        found = {}
        if place.is_dir():
            found = {int(match[1]): path for path in place.iterdir() if (match := _EVENT_FILE.fullmatch(path.name))}
        for number in sorted(found):
            yield number, parsed_event(read_text(found[number], "The decision"))


def parsed_event(text: str) -> Decision:
    """An event from its file, if it has the form that it was written in."""
    document = parsed_json(text, "A decision in the state folder")
    return document.built(Decision, _READERS, {"epsilon": _cost, "delta": _cost})


def _cost(value: Field) -> float | None:
    return None if value.value is None else 0.0 if value.value == 0 else value.number(0.0)


_READERS: Final[Mapping[str, Reader]] = {
    "agreement": hexadecimal(64),
    "task": Field.name,
    "task_digest": hexadecimal(64),
    "state": lambda field: field.word(("pending", "approved", "denied")),
    **dict.fromkeys(("who", "when", "reason"), Field.text),
}


def _user() -> str:
    """Who decides: the account on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
