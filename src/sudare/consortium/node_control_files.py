"""Notes in a member's state folder: what commands ask of the node that runs there, and what it says about its tasks."""

from __future__ import annotations

import os
from typing import Any, Final

from sudare.consortium.agreement.member_settings import Member
from sudare.files import make_private_folder, write_atomically
from sudare.parsing import bounded_bytes, parsed_json

REQUESTS: Final = "requests"
RUN, WITHDRAW, CANCEL = "run", "withdraw", "cancel"
STATES: Final = "node.json"


def ask_running_node(member: Member, task: str, *, withdraw: bool = False, cancel: bool = False) -> None:
    """Leave a request for the node that is running in the same folder: to run a task, to withdraw its release, or to cancel it."""
    member.agreement().task(task)
    folder = member.state_folder / REQUESTS
    make_private_folder(folder)
    write_atomically(folder / f"{task}.{CANCEL if cancel else WITHDRAW if withdraw else RUN}", b"")


def states_of(member: Member, digest: str | None = None) -> dict[str, Any]:
    """What the member's node last wrote about its tasks, by name; under the agreement of this digest, or the one that the member's file is now."""
    return dict(_told_by_node(member, digest).get("tasks", {}))


def present_members(member: Member) -> list[str] | None:
    """Who was present when the member's node last looked; None where no node is running."""
    told = _told_by_node(member)
    return list(told.get("present", [])) if _is_alive(told.get("process")) else None


def reaches_relay(member: Member) -> bool | None:
    """Whether the member's node reached the relay when it last looked; None where no node is running."""
    told = _told_by_node(member)
    return bool(told.get("relay_reached", True)) if _is_alive(told.get("process")) else None


def _told_by_node(member: Member, digest: str | None = None) -> dict[str, Any]:
    try:
        found = parsed_json(bounded_bytes(member.state_folder / STATES))
    except (OSError, ValueError):
        return {}
    wanted = member.agreement().digest if digest is None else digest
    return dict(found) if found.get("agreement") == wanted else {}


def _is_alive(process: object) -> bool:
    if type(process) is not int:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
