"""Files in a member's state folder by which commands and its node tell each other: what commands ask of the node that runs there, and what it says about its tasks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from sudare.consortium.agreement.member_settings import Member
from sudare.errors import ConsortiumError
from sudare.files import make_private_folder, write_atomically
from sudare.parsing import bounded_bytes, parsed_json

REQUESTS: Final = "requests"
RUN, WITHDRAW, CANCEL = "run", "withdraw", "cancel"
STATES: Final = "node.json"
Told = Mapping[str, Any]


def ask_running_node(member: Member, task: str, *, withdraw: bool = False, cancel: bool = False) -> None:
    """Leave a request for the node that is running in the same folder: to run a task, to withdraw its release, or to cancel it."""
    member.agreement().task(task)
    check_is_own_node(member)
    folder = member.state_folder / REQUESTS
    make_private_folder(folder)
    wish = CANCEL if cancel else WITHDRAW if withdraw else RUN
    path = folder / f"{task}.{wish}"
    # The last word counts, also where the node has taken neither yet.
    for opposite in (RUN, WITHDRAW) if wish == CANCEL else (CANCEL,):
        with contextlib.suppress(OSError):
            (folder / f"{task}.{opposite}").unlink()
    try:
        write_atomically(path, b"")
    except OSError as error:
        raise ConsortiumError(
            f"The request '{path.name}' cannot be left for the node ({error.strerror}).",
            "Look at the folder `requests` in the state folder, its rights and the space; then try again.",
        ) from None


def states_of(member: Member, digest: str | None = None, live: Told | None = None) -> dict[str, Any]:
    """What the member's node last wrote about its tasks, by name; under the agreement of this digest, or the one that the member's file is now.

    Here and below, `live` is what a running node has told by itself, which then counts in the place of what it wrote.
    """
    return dict(_told_by_node(member, digest, live).get("tasks", {}))


def cancelled_under_another_version(member: Member, digest: str) -> dict[str, Any]:
    """What the member's node last wrote about tasks that were cancelled, where that was under another version of the agreement than the one of this digest."""
    found = _written_by_own_node(member)
    tasks = {} if found.get("agreement") == digest else found.get("tasks", {})
    return {name: each for name, each in tasks.items() if (each["state"], each.get("ended_by")) == ("failed", "cancel")}


def present_members(member: Member, live: Told | None = None) -> list[str] | None:
    """Who was present when the member's node last looked; None where no node is running."""
    told = _told_by_node(member, live=live)
    return list(told.get("present", [])) if _is_running(told, live) else None


def reaches_relay(member: Member, live: Told | None = None) -> bool | None:
    """Whether the member's node reached the relay when it last looked; None where no node is running."""
    told = _told_by_node(member, live=live)
    return bool(told.get("relay_reached", True)) if _is_running(told, live) else None


def agreement_of_running_node(member: Member, live: Told | None = None) -> str | None:
    """The digest of the agreement under which the member's node runs, whatever the member's file is now; None where no node is running."""
    told = _written_by_own_node(member) if live is None else live
    return str(told["agreement"]) if _is_running(told, live) else None


def is_damaged(member: Member) -> bool:
    """Whether the file of what the node last wrote is there and is none: nothing that it said counts, and nothing is lost that a ledger or a checkpoint does not have."""
    path = member.state_folder / STATES
    return (path.exists() or path.is_symlink()) and _read(member) is None


def is_states_document(found: object) -> bool:
    """Whether something is what a node says of its tasks, whole and of the right types."""
    return _has_form(found, _DOCUMENT, _LATER_IN_DOCUMENT)


def is_of_another_member(found: Told, member: Member) -> bool:
    """Whether it says that another member's node has told it, as where two members have one state folder. Earlier versions do not say whose it is."""
    return bool(found.get("member", member.name) != member.name)


def check_is_own_node(member: Member) -> None:
    """Raise ConsortiumError where another member's node runs, or ran last, with the state folder: it would take what is asked for as its own."""
    found = _read(member)
    if found is not None and is_of_another_member(found, member):
        raise ConsortiumError(
            "The node of this state folder is another member's, so nothing is asked of it.",
            "Give each member a state folder of its own: `state` in its member file.",
        )


def _told_by_node(member: Member, digest: str | None = None, live: Told | None = None) -> Told:
    found = _written_by_own_node(member) if live is None else live
    wanted = member.agreement().digest if digest is None else digest
    return found if found.get("agreement") == wanted else {}


def _written_by_own_node(member: Member) -> Told:
    found = _read(member)
    return {} if found is None or is_of_another_member(found, member) else found


def _read(member: Member) -> dict[str, Any] | None:
    """What the node last wrote, whole and of the right types; None where there is nothing, or something else."""
    path = member.state_folder / STATES
    try:
        found = parsed_json(bounded_bytes(path)) if path.is_file() else None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and is_states_document(found) else None


def _has_form(found: object, needed: Mapping[str, _Check], optional: Mapping[str, _Check]) -> bool:
    """Whether something is a table with these fields; others may be there that a later version has."""
    if not isinstance(found, dict) or not needed.keys() <= found.keys():
        return False
    checks = {**optional, **needed}
    return all(check(found[name]) for name, check in checks.items() if name in found)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _or_none(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _are_tasks(value: object) -> bool:
    return isinstance(value, dict) and all(_has_form(each, _TASK, _LATER_IN_TASK) for each in value.values())


_Check = Callable[[object], bool]
_TASK: Final[Mapping[str, _Check]] = {"state": _is_text, "files": _is_list_of_texts}
# Earlier versions write tasks without them.
_LATER_IN_TASK: Final[Mapping[str, _Check]] = {
    "round": _or_none(_is_whole),
    "error": _or_none(_is_text),
    "ended_by": _or_none(_is_text),
    "withdrawing": lambda value: isinstance(value, bool),
}
_DOCUMENT: Final[Mapping[str, _Check]] = {
    "agreement": _is_text,
    "process": _or_none(_is_whole),
    "present": _is_list_of_texts,
    "tasks": _are_tasks,
}
_LATER_IN_DOCUMENT: Final[Mapping[str, _Check]] = {
    "member": _is_text,
    "relay_reached": lambda value: isinstance(value, bool),
}


def _is_running(told: Told, live: Told | None) -> bool:
    """Whether the node of what was told runs; one that has just answered does, unless it says that it ends."""
    process = told.get("process")
    return _is_alive(process) if live is None else process is not None


def _is_alive(process: object) -> bool:
    # Zero and below are groups of processes.
    if type(process) is not int or process <= 0:
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
