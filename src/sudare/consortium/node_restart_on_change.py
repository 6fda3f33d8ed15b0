"""What a life of a node was started from, and whether something else stands there now: then it begins another life, in the same process.

A new version of the agreement, another key, new certificates, another address of the relay: each is taken once no task is under way. Where the
relay is not reached any more, new certificates and another address are taken at once: what a task has promised others is on disk.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.amendments import adopt_proposal, file_marks, following_version, proposal_path
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.signed_statements import statements_path
from sudare.consortium.agreement.taken_versions import known_statements
from sudare.consortium.node_control_files import states_of
from sudare.errors import AgreementError, SudareError

Reason = Literal["agreement", "keys", "relay", "settings"]
OVER: Final = ("finished", "failed", "denied")


@dataclass
class NodeReload:
    """The files of one life of a node, looked at whenever one of them was written. `reload` reads the member file as it was read at the start."""

    member: Member
    member_path: Path
    reload: Callable[[], Member]

    def __post_init__(self) -> None:
        self.agreement = self.member.agreement()
        self._kit = self._kit_marks()
        self._seen = self._marks()
        self._reason: Reason | None = None
        # A version that was found and is not taken, with the reason, until somebody was told of it.
        self.refused: tuple[str, SudareError] | None = None

    def reason(self) -> Reason | None:
        """Why another life is to begin; None as long as nothing has changed, or what has cannot be used (it may just be written)."""
        seen = self._marks()
        if seen != self._seen:
            self._seen = seen
            self._reason = self._found()
        return self._reason

    def is_in_place(self) -> bool:
        """Whether somebody has put the new version in the agreement's place already."""
        return Agreement.load(self.member.agreement_path).digest != self.agreement.digest

    def _found(self) -> Reason | None:
        try:
            following = following_version(
                self.agreement, self.member.agreement_path, known_statements(self.member, self.agreement)
            )
            if following is not None:
                check_names(following, self.member)
                return "agreement"
        except SudareError as error:
            self.refused = _found_digest(self.member, self.agreement), error
        try:
            member = self.reload()
            if member != self.member or (self._kit_marks() != self._kit and self._is_kit_usable()):
                return "settings"
        except SudareError:
            return None
        return None

    def _is_kit_usable(self) -> bool:
        from sudare.consortium.network.transport.certificates import is_usable

        kit = self.member.transport.kit
        return kit is not None and is_usable(kit, "client")

    def _kit_marks(self) -> tuple[tuple[int, ...], ...]:
        kit = self.member.transport.kit
        return () if kit is None else file_marks(kit / "startup" / name for name in _KIT_FILES)

    def _marks(self) -> tuple[tuple[int, ...], ...]:
        path = self.member.agreement_path
        proposal = proposal_path(path)
        files = (path, proposal, statements_path(proposal), statements_path(path), self.member_path)
        return (*file_marks(files), *self._kit_marks())


_KIT_FILES = ("rootCA.pem", "client.crt", "client.key")


def tasks_under_way(member: Member, agreement: Agreement, today: datetime.date | None = None) -> dict[str, str]:
    """Tasks of an agreement that hold a new version back at a member, with their states.

    Those that its node has begun or that wait for the steward, and those that were paid for or disclosed and are not finished; not runs that were asked
    for before their day, which comes under the new version too. Today is the day in UTC where it is not given.
    """
    from sudare.consortium.tasks.task_account import entries_of, mark_of
    from sudare.consortium.tasks.task_costs import entries_at

    states = {name: str(each.get("state", "")) for name, each in states_of(member).items()}
    entries = entries_at(member)
    day = datetime.datetime.now(datetime.UTC).date() if today is None else today
    early = {name for name, state in states.items() if state == "asked for" and _is_early(agreement, name, day)}
    found = {name: state for name, state in states.items() if state not in OVER and name not in early}
    for task in agreement.tasks:
        if states.get(task.name) != "finished" and entries_of(mark_of(agreement, task.name), entries):
            found.setdefault(task.name, "paid for, not finished")
    return found


def _is_early(agreement: Agreement, task: str, today: datetime.date) -> bool:
    return task in {each.name for each in agreement.tasks} and agreement.time_of(task, today) == "early"


def check_names(following: Agreement, member: Member) -> None:
    """Raise AgreementError where a version does not name this member."""
    if member.name not in following.member_names:
        raise AgreementError(
            f"Version {following.version} of the agreement is signed by {', '.join(following.member_names)}, and '{member.name}' is no member of it.",
            f"It is not taken here. Ask the others by telephone: where you left, stop this node; else they signed without you, and tasks of version {following.version - 1} need all of them.",
        )


def _found_digest(member: Member, agreement: Agreement) -> str:
    """The digest of the version that stands beside an agreement, or in its place; that of the agreement where it cannot be read."""
    try:
        placed = Agreement.load(member.agreement_path)
        return (
            placed.digest
            if placed.digest != agreement.digest
            else Agreement.load(proposal_path(member.agreement_path)).digest
        )
    except SudareError:
        return agreement.digest


def adopt_following_version(member: Member, agreement: Agreement) -> Agreement:
    """The version that follows, in the place of this one, unless it is there already. Raise AgreementError where it does not name this member."""
    following = following_version(agreement, member.agreement_path, known_statements(member, agreement))
    if following is None:
        raise AgreementError("No new version of the agreement is in force.", "See `sudare consortium check` about it.")
    check_names(following, member)
    is_proposed = Agreement.load(member.agreement_path).digest == agreement.digest
    return adopt_proposal(member.agreement_path) if is_proposed else following
