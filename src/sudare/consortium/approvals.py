"""The steward's say: which tasks wait for approval, who approved or denied them, when and why.

Requests and decisions are files that are only ever added, one event each and each whole: the newest decision counts. They are bound
to the agreement's digest and to the task as it stands there: another agreement, or the task changed, is another question.
One approval is for one run of a task, its attempts and restarts included.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sudare.consortium.agreement import Agreement
from sudare.consortium.documents import Field
from sudare.consortium.files import PRIVATE_MODE, make_private_folder, read_text, write_new
from sudare.consortium.member import Member
from sudare.consortium.statements import now
from sudare.consortium.tasks import Task
from sudare.errors import AgreementError, ConsortiumError, InvalidParameter, NotApproved
from sudare.parsing import NotParsed, parsed_json
from sudare.privacy.chain import canonical_json

State = Literal["none", "pending", "approved", "denied"]
Verdict = Literal["approved", "denied"]

FOLDER: Final = "approvals"
_EVENT_FILE: Final = re.compile(r"([0-9]{6})\.json")
_STATES: Final = ("pending", "approved", "denied")
_FIELDS: Final = ("agreement", "task", "task_digest", "state", "who", "when", "reason")
_MOST_EVENTS: Final = 10_000


@dataclass(frozen=True)
class Decision:
    """How things stand with one task of one agreement."""

    agreement: str
    task: str
    task_digest: str
    state: State
    who: str = ""
    when: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))


def required(member: Member, task: Task) -> bool:
    """Whether a task waits for the steward of this member."""
    return task.kind in member.policy.approval


def permit(member: Member, agreement: Agreement, task: Task) -> None:
    """Nothing, if the task may start at this member. What still needs the steward is entered as a request."""
    most = member.policy.most_epsilon
    if most is not None and task.cost[0] > most:
        raise NotApproved(
            f"Task '{task.name}' costs ε = {task.cost[0]:g}; this member's policy has at most {most:g} a task.",
            "Agree on a smaller ε, or change `policy.most_epsilon`.",
        )
    if not required(member, task):
        return
    approvals = Approvals(member.state_folder)
    found = approvals.request(agreement, task, who="node")
    if found.state == "denied":
        raise NotApproved(
            f"The steward denied task '{task.name}' ({found.reason}).",
            "Ask the steward; `sudare approve` takes it back.",
        )
    if found.state != "approved":
        raise NotApproved(
            f"Task '{task.name}' waits for the steward.",
            f"Run: sudare approve {task.name}, or: sudare deny {task.name}",
        )


class Approvals:
    """The requests and decisions in a member's state folder."""

    def __init__(self, state_folder: str | os.PathLike[str]) -> None:
        self.folder = Path(state_folder) / FOLDER

    def state(self, agreement: Agreement, task: Task) -> Decision:
        """The newest decision about a task, else that it was asked for, else "none"."""
        found = Decision(agreement.digest, task.name, task.digest, "none")
        for _, event in self._events(self._place(agreement, task)):
            is_same = (event.agreement, event.task, event.task_digest) == (agreement.digest, task.name, task.digest)
            # A request that crossed a decision on the way does not undo it.
            if is_same and (event.state != "pending" or found.state == "none"):
                found = event
        return found

    def request(self, agreement: Agreement, task: Task, who: str) -> Decision:
        """Ask the steward, unless that was done before; how things stand then."""
        found = self.state(agreement, task)
        return self._enter(agreement, task, "pending", who, "") if found.state == "none" else found

    def decide(
        self, agreement: Agreement, task: Task, verdict: Verdict, reason: str, who: str | None = None
    ) -> Decision:
        """Enter the steward's decision; a later one takes its place, and both stay."""
        if verdict == "denied" and not reason.strip():
            raise InvalidParameter("A denial needs a reason.", "Say why in a sentence; it stays in this house.")
        return self._enter(agreement, task, verdict, who or _user(), reason)

    def history(self) -> list[Decision]:
        """All events of all agreements, oldest first within a task."""
        if not self.folder.is_dir():
            return []
        places = sorted(path for path in self.folder.glob("*/*") if path.is_dir())
        return [event for place in places for _, event in self._events(place)]

    def _place(self, agreement: Agreement, task: Task) -> Path:
        return self.folder / agreement.digest[:16] / task.name

    def _enter(self, agreement: Agreement, task: Task, state: State, who: str, reason: str) -> Decision:
        Field("who", who).text()
        Field("reason", reason).text()
        event = Decision(agreement.digest, task.name, task.digest, state, who, now(), reason)
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
    try:
        document = parsed_json(text)
    except NotParsed:
        raise AgreementError("A decision in the state folder is not JSON.", "Restore the state folder.") from None
    fields = Field("", document).table(_FIELDS)
    return Decision(
        agreement=fields["agreement"].hexadecimal(64),
        task=fields["task"].name(),
        task_digest=fields["task_digest"].hexadecimal(64),
        state=fields["state"].word(_STATES),  # type: ignore[arg-type]
        who=fields["who"].text(),
        when=fields["when"].text(),
        reason=fields["reason"].text(),
    )


def _user() -> str:
    """Who decides: the account on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
