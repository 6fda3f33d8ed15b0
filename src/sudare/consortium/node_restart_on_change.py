"""Whether a node must begin anew, because its agreement, key, certificates or settings have changed, and with which version of the agreement it begins.

A *life* of a node is the time from one such beginning to the next; all of them are in one process.

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
from sudare.consortium.agreement.amendments import (
    adopt_following,
    adopt_proposal,
    file_marks,
    finish_adoption,
    following_version,
    kept_path,
    proposal_path,
)
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.signed_statements import keys_in_force, signature_status, statements_path
from sudare.consortium.agreement.taken_versions import (
    check_can_be_taken,
    check_is_signed_here,
    has_left,
    known_of,
    take_version,
    taken_version,
)
from sudare.consortium.node_control_files import states_of
from sudare.errors import AgreementError, SudareError
from sudare.files import write_atomically

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
        # Nothing was looked at yet: a version may have come into force before this life.
        self._seen: tuple[tuple[int, ...], ...] = ()
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

    def is_left(self) -> bool:
        """Whether this member has left the version of this life already: its steward took the next one by hand."""
        return has_left(self.member, self.agreement)

    def hold(self) -> None:
        """Let commands go on under the version of this life, also where the next one stands in its place."""
        _hold(self.member, self.agreement)

    def _found(self) -> Reason | None:
        try:
            following = _next_version(self.member, self.agreement)
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
    from sudare.consortium.tasks.results_folder import is_finished
    from sudare.consortium.tasks.task_account import mark_of
    from sudare.consortium.tasks.task_costs import entries_at
    from sudare.privacy.run_account import entries_of

    states = {name: str(each.get("state", "")) for name, each in states_of(member, agreement.digest).items()}
    entries = entries_at(member)
    day = datetime.datetime.now(datetime.UTC).date() if today is None else today
    early = {name for name, state in states.items() if state == "asked for" and _is_early(agreement, name, day)}
    found = {name: state for name, state in states.items() if state not in OVER and name not in early}
    for task in agreement.tasks:
        # A node whose notes were lost or damaged does not know any more that it finished a task; its results are there.
        is_done = states.get(task.name) == "finished" or is_finished(member.results_folder(task.name), agreement.digest)
        if not is_done and entries_of(mark_of(agreement, task.name), entries):
            found.setdefault(task.name, "paid for, not finished")
    return found


def _is_early(agreement: Agreement, task: str, today: datetime.date) -> bool:
    return task in {each.name for each in agreement.tasks} and agreement.time_of(task, today) == "early"


def check_names(following: Agreement, member: Member) -> None:
    """Raise AgreementError where a version does not name this member, or was signed in its name by somebody else."""
    if member.name not in following.member_names:
        raise AgreementError(
            f"Version {following.version} of the agreement is signed by {', '.join(following.member_names)}, and '{member.name}' is no member of it.",
            f"It is not taken here. Ask the others by telephone: where you left, stop this node; else they signed without you, and tasks of version {following.version - 1} need all of them.",
        )
    check_is_signed_here(member, following)


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
    placed = _placed_version(member, agreement)
    if placed is not None:
        check_names(placed, member)
        return placed
    known = known_of(member, agreement)
    return adopt_following(agreement, member.agreement_path, lambda found: check_names(found, member), known)


def version_to_begin(member: Member, today: datetime.date | None = None) -> Agreement:
    """The version that a node of this member begins with: the one in the agreement's place, once what was paid for under the last one is finished.

    Several members may use one file, so that another's node has put it there. Until then commands of this member go on under the last one, too. Where a
    key of that was revoked, or the new one does not name this member, nothing of it can be finished.
    """
    finish_adoption(member.agreement_path)
    placed, taken = Agreement.load(member.agreement_path), taken_version(member)
    if (
        taken is not None
        and placed.version > taken.version
        and member.name in placed.member_names
        and not signature_status(taken, member.statements(taken)).revoked
        and tasks_under_way(member, taken, today)
    ):
        _hold(member, taken)
    else:
        member.held_mark.unlink(missing_ok=True)
    return member.agreement()


def adopt_by_hand(member: Member, *, instead: bool = False) -> Agreement:
    """The version that is proposed, or that another member of this machine has put in the agreement's place, taken by this member whatever is under way."""
    path = member.agreement_path
    finish_adoption(path)
    proposal, taken = proposal_path(path), taken_version(member)
    placed = Agreement.load(path) if path.exists() else None
    if not proposal.exists() and placed is not None and taken is not None and placed.digest != taken.digest:
        check_names(placed, member)
        keys_in_force(placed, member.statements(placed))
        take_version(member, placed, instead=instead)
        return placed
    if taken is not None and proposal.exists():
        check_can_be_taken(member, Agreement.load(proposal), instead=instead)
    known = None if placed is None else known_of(member, placed)
    found = adopt_proposal(path, known, instead=instead)
    take_version(member, found, instead=instead)
    return found


def _hold(member: Member, agreement: Agreement) -> None:
    content = kept_path(member.versions_folder, agreement).name.encode()
    if not member.held_mark.exists() or member.held_mark.read_bytes() != content:
        write_atomically(member.held_mark, content)


def _next_version(member: Member, agreement: Agreement) -> Agreement | None:
    """The version that this member can take after this one: the next, or a later one that others have put in its place since."""
    found = _placed_version(member, agreement)
    return found or following_version(agreement, member.agreement_path, known_of(member, agreement))


def _placed_version(member: Member, agreement: Agreement) -> Agreement | None:
    """A version farther on than the next that stands in the agreement's place, is in force, and to which versions that are kept lead."""
    placed = Agreement.load(member.agreement_path)
    if placed.version <= agreement.version + 1:
        return None
    check_can_be_taken(member, placed)
    return placed if signature_status(placed, member.statements(placed)).is_in_force else None
