"""`sudare node` and `sudare run`: a member's process among the others."""

from __future__ import annotations

import datetime
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sudare.cli.command_output import AsJson, answer, reported
from sudare.cli.key_files import MemberFile, PassphraseFile, passphrase
from sudare.cli.stop_signals import StopSignals
from sudare.safe_text import escaped_for_terminal

if TYPE_CHECKING:
    from sudare.consortium.agreement.member_settings import Member
    from sudare.consortium.event_log import EventLog
    from sudare.consortium.node import Node
    from sudare.consortium.node_restart_on_change import NodeReload
    from sudare.errors import SudareError

_OF_THE_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
Kit = Annotated[
    Path | None,
    typer.Option("--kit", metavar="FOLDER", help="Certificates for the relay. Default: from the member file."),
]
Relay = Annotated[
    str | None, typer.Option("--relay", metavar="HOST:PORT", help="The relay. Default: from the member file.")
]
LogFile = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Append structured logs (JSON lines, no data) to this file."),
]
HealthPort = Annotated[
    int | None,
    typer.Option("--health-port", min=1, max=65_535, help="Answer GET /health and /metrics on 127.0.0.1 at this port."),
]
Socket = Annotated[
    bool,
    typer.Option(
        "--socket",
        help="Answer the page and commands of the same user at a socket in the state folder, for nobody else.",
    ),
]


@reported
def node(
    member: MemberFile = Path("member.toml"),
    kit: Kit = None,
    relay: Relay = None,
    log: LogFile = None,
    health_port: HealthPort = None,
    with_socket: Socket = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Run this member: connect outwards, wait for tasks, take part. Ends with Ctrl-C; started again, it goes on.

    New versions of the agreement, keys, certificates and settings are taken while it runs, once no task is under way.
    """
    from sudare.consortium.node_restart_on_change import NodeReload
    from sudare.consortium.relay_failover import RelayFailover, answers_at
    from sudare.errors import ConsortiumError

    stop = StopSignals()
    phrase = cache(lambda: _asked_phrase(stop, passphrase_file, "Passphrase of the member's key"))
    relays = RelayFailover(())

    def settings() -> Member:
        nonlocal relays
        own = _member(member, kit, relay, health_port)
        if own.transport.relays != relays.addresses:
            relays = RelayFailover(own.transport.relays, partial(answers_at, kit=own.transport.kit))
        return own if len(relays.addresses) < 2 else _at_relay(own, relays.address)

    unfinished: list[str] = []
    running = None
    try:
        with stop:
            while True:
                with (
                    _full_disk_told(),
                    _started(
                        settings(),
                        phrase,
                        log,
                        stop,
                        reload_of=lambda own: NodeReload(own, member, settings),
                        with_socket=with_socket,
                    ) as running,
                ):
                    if running is None:
                        raise ConsortiumError(
                            "A node of this member is already running.", "Stop it first, or let it work."
                        )
                    running.failover = relays if len(relays.addresses) > 1 else None
                    running.run(unfinished, stay=True)
                unfinished = _taken_over(running)
    except KeyboardInterrupt:
        _say("stopped; what was begun goes on when the node is started again")
        _end_now_if_busy(running, 0)


def _taken_over(ended: Node) -> list[str]:
    """The tasks that the next life of a node goes on with, after what this one has ended for was done and told."""
    from sudare.consortium.node_restart_on_change import adopt_following_version

    unfinished = [name for name, each in ended.task_runs.items() if not each.is_over]
    if ended.renewed_for == "agreement":
        taken = adopt_following_version(ended.member, ended.agreement)
        _say(f"version {taken.version} of the agreement ({taken.digest[:12]}) is in force and taken")
        return [name for name in unfinished if name in {task.name for task in taken.tasks}]
    if ended.renewed_for == "relay":
        _say("beginning anew at another relay")
    else:
        _say(
            f"beginning anew: {'a key was' if ended.renewed_for == 'keys' else 'settings or certificates were'} changed"
        )
    return unfinished


@reported
def run(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task of the agreement, by its name.")],
    member: MemberFile = Path("member.toml"),
    kit: Kit = None,
    relay: Relay = None,
    log: LogFile = None,
    wait_seconds: Annotated[
        float | None, typer.Option("--wait-seconds", help="How long to wait for the end. Default: as agreed.")
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take this member's release back. What it cost stays spent.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End the task at the node that runs here. What it has cost stays spent.")
    ] = False,
    approve: Annotated[
        str | None,
        typer.Option(
            "--approve", metavar="REASON", help="Approve the task as well, as `sudare approve` does, for this reason."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Run a task of the agreement with the other members and wait for its end. A node that is running here does the work."""
    from sudare.consortium.relay_failover import answers_at, first_answering
    from sudare.consortium.task_review import check_can_be_withdrawn
    from sudare.errors import InvalidParameter, NotConnected
    from sudare.frames import column_types

    own = _member(member, kit, relay, None)
    agreement = own.agreement()
    agreement.task(task)
    if cancel:
        _cancel(own, task, as_json)
        return
    if agreement.time_of(task, datetime.datetime.now(datetime.UTC).date()) == "early":
        raise InvalidParameter(
            f"The day of run '{task}' has not come, so no member begins it.", "Its name ends with it (UTC)."
        )
    if withdraw:
        check_can_be_withdrawn(own, agreement, agreement.task(task))
    else:
        # Before the others wait for it: records that cannot be opened would stop the task at all of them.
        column_types(own.source(), agreement.schema.source_columns)
    if approve is not None:
        _approve_unless_done(own, task, approve)
    if own.transport.other_relays:
        own = _at_relay(own, first_answering(own.transport.relays, partial(answers_at, kit=own.transport.kit)))
    seconds = agreement.deadlines.task_seconds if wait_seconds is None else wait_seconds
    stop = StopSignals()
    phrase = cache(lambda: _asked_phrase(stop, passphrase_file, f"Passphrase of {own.key_path.name}"))
    running = None
    try:
        with stop, _full_disk_told(), _started(own, phrase, log, stop) as running:
            if running is None:
                found = _asked(own, task, seconds, withdraw, stop)
            else:
                running.ask(task, withdraw=withdraw)
                running.run(most_seconds=seconds)
                found = {**_values(running, task), "relay_reached": running.transport.reaches_relay()}
    except KeyboardInterrupt:
        if running is None:
            # The node that runs here was asked, and does not end with this command.
            raise NotConnected(
                "This command was stopped by a signal.",
                f"The node that runs here goes on with task '{task}': sudare status shows how far, sudare run {task} --cancel ends it.",
            ) from None
        error = NotConnected(f"Task '{task}' was stopped by a signal.", "Run it again: it goes on where it was.")
        _end_now_if_busy(running, error.exit_code)
        raise error from None
    _tell_outcome(task, found, own.folder, as_json)


def _cancel(own: Member, task: str, as_json: bool) -> None:
    """Leave the request for the node that runs here. Raise ConsortiumError where none does."""
    from sudare.consortium.local_socket import ask_node, live_states
    from sudare.consortium.node_control_files import present_members
    from sudare.errors import ConsortiumError

    # A node in another container is seen by its socket alone.
    if present_members(own, live_states(own).document) is None:
        raise ConsortiumError("No node of this member is running, so nothing is under way.", "See `sudare status`.")
    ask_node(own, task, cancel=True)
    answer({"task": task, "state": "cancelled"}, as_json, f"{task}: the node was told to end it; see sudare status.")


def _approve_unless_done(own: Member, task: str, reason: str) -> None:
    """Enter the steward's approval, unless it was approved as it stands: a command that is repeated decides nothing a second time."""
    from sudare.consortium.agreement.approvals import Approvals
    from sudare.consortium.task_review import decide_task

    agreement = own.agreement()
    if Approvals(own.state_folder).state(agreement, agreement.task(task)).state != "approved":
        decide_task(own, task, "approved", reason)


def _tell_outcome(task: str, found: dict[str, Any], folder: Path, as_json: bool) -> None:
    from sudare.consortium.agreement.approvals import undecided
    from sudare.errors import NotConnected, SudareError

    error = found.get("raised")
    if isinstance(error, SudareError):
        raise error
    if found["state"] != "finished" and not found.pop("relay_reached", True):
        raise NotConnected(
            f"The relay could not be reached, so task '{task}' has not ended ({found['state']}).",
            "Check --relay, proxy and certificates, and that the relay runs; then run the task again.",
        )
    if found["state"] in ("failed", "denied") and found.get("error"):
        raise _told_by_node(task, str(found["error"]))
    if found["state"] == "waits for the steward":
        raise undecided(task)
    if found["state"] != "finished":
        raise NotConnected(f"Task '{task}' has not ended ({found['state']}).", "Run it again: it goes on where it was.")
    # In the member's own file paths are relative to it; here they are as the reader can open them.
    files = [os.path.relpath(folder / name) for name in found["files"]]
    found.pop("relay_reached", None)
    answer(
        {"task": task, **found}, as_json, f"{task}: finished. {'Wrote ' + ', '.join(files) if files else 'No files'}."
    )


def _told_by_node(task: str, noted: str) -> SudareError:
    """Why the node that runs here stopped a task, as the error that it was: its exit code says what to do."""
    from sudare.errors import TaskStopped, every_error

    name, _, text = noted.partition(": ")
    kind = next((each for each in every_error() if each.__name__ == name), TaskStopped)
    return kind(f"The node that runs here stopped task '{task}':", text)


def _values(running: Node, task: str) -> dict[str, Any]:
    from sudare.consortium.node_control_files import states_of

    return {
        **states_of(running.member).get(task, {"state": "unknown", "files": []}),
        "raised": running.task_runs[task].error,
    }


def _asked(own: Member, name: str, seconds: float, withdraw: bool, stop: StopSignals) -> dict[str, Any]:
    """Let the node that runs in this folder do it, and wait. Raise KeyboardInterrupt where this process is told to stop."""
    from sudare.consortium.local_socket import ask_node, live_states
    from sudare.consortium.node_control_files import states_of

    ask_node(own, name, withdraw=withdraw)
    time.sleep(1.0)
    end, is_told = time.monotonic() + seconds, False
    while time.monotonic() < end:
        # On a disk that is full the files are old ones, and the node tells by its socket alone why a task has ended.
        found: dict[str, Any] = states_of(own, live=live_states(own).document).get(name, {"state": "asked for"})
        if found["state"] == "waits for the steward" and not is_told:
            is_told = True
            _say(f"task '{name}' needs the steward's approval: sudare approve {name}")
        if found["state"] in ("finished", "failed", "denied"):
            break
        stop.check()
        time.sleep(0.5)
    return found


def _asked_phrase(stop: StopSignals, path: Path | None, prompt: str) -> bytes:
    """The passphrase. Raise KeyboardInterrupt where the process is told to stop meanwhile."""
    with stop.prompting():
        return passphrase(path, prompt)


def _member(path: Path, kit: Path | None, relay: str | None, health_port: int | None) -> Member:
    """The member, with what the options say in the place of its file."""
    from sudare.consortium.agreement.member_settings import Member

    own = Member.load(path)
    settings = own.transport
    settings = replace(
        settings,
        kit=settings.kit if kit is None else kit,
        relay=settings.relay if relay is None else relay,
        other_relays=settings.other_relays if relay is None else (),
        health_port=settings.health_port if health_port is None else health_port,
    )
    return replace(own, transport=settings)


def _at_relay(own: Member, address: str) -> Member:
    """The member with this relay in use. The list stays as it is in the file."""
    return replace(own, transport=replace(own.transport, relay=address))


@contextmanager
def _started(
    own: Member,
    phrase: Callable[[], bytes],
    log: Path | None,
    stop: StopSignals,
    reload_of: Callable[[Member], NodeReload] | None = None,
    *,
    with_socket: bool = False,
) -> Iterator[Node | None]:
    """The node, connected; None if another process of this member is running."""
    from sudare.consortium.health_endpoint import HealthEndpoint
    from sudare.consortium.local_socket import LocalSocket
    from sudare.consortium.node import Node
    from sudare.consortium.node_connection import talking_names, transport_of
    from sudare.consortium.node_metrics import node_metrics
    from sudare.consortium.node_restart_on_change import version_to_begin
    from sudare.files import held_alone, make_private_folder

    make_private_folder(own.state_folder)
    with held_alone(own.state_folder / "node.lock") as alone, ExitStack() as stack:
        if not alone:
            yield None
            return
        local = LocalSocket(own) if with_socket else None
        if local is not None:
            stack.callback(local.close)
        version_to_begin(own)
        identity = own.identity(phrase())
        peers = [name for name in talking_names(own.agreement()) if name != own.name]
        transport = transport_of(own.name, own.transport, peers=peers, folder=own.state_folder)
        health = None
        try:
            reload = None if reload_of is None else reload_of(own)
            started = Node(own, identity, transport, _event_log(own, log, stack), _say, reload=reload)
            started.check_stop = stop.check
            port = own.transport.health_port
            health = None if port is None else HealthEndpoint(port, started.health, lambda: node_metrics(started))
            if local is not None:
                local.serve(started.live_states)
            _say(f"connecting to {own.transport.relay} as '{own.name}' (outbound only)")
            yield started
        finally:
            if health is not None:
                health.close()
            transport.close()


@contextmanager
def _full_disk_told() -> Iterator[None]:
    """Raise ConsortiumError with what to do where a file cannot be used because of the disk or its owner, and the node cannot go on without it."""
    from sudare.errors import ConsortiumError, SudareError

    try:
        yield
    except OSError as error:
        if isinstance(error, SudareError) or error.errno not in _OF_THE_DISK:
            raise
        if error.errno in (errno.EACCES, errno.EPERM) and error.filename is not None:
            raise ConsortiumError(
                f"This user may not read or write '{Path(os.fsdecode(error.filename))}' ({error.strerror}).",
                "Give it to the user that the node runs as, with its folder, and start it again: what was begun goes on, and nothing is paid twice.",
            ) from None
        raise ConsortiumError(
            f"A file of this node cannot be written ({error.strerror}).",
            "Make room, or let it write there, and start it again: what was begun goes on, and nothing is paid twice.",
        ) from None


def _event_log(own: Member, path: Path | None, stack: ExitStack) -> EventLog:
    """The log of a member's events, to a file and to the command of its own choice."""
    from sudare.consortium.event_log import EventLog
    from sudare.consortium.notifications import Notifier
    from sudare.files import LogFile

    stream = stack.enter_context(LogFile(path))
    if not own.notify.command:
        return EventLog(stream, own.name)
    notifier = Notifier(own.notify, own.name)
    stack.callback(notifier.close)
    notifier.log = EventLog(stream, own.name, [notifier.hear])
    return notifier.log


def _end_now_if_busy(running: Node | None, exit_code: int) -> None:
    """End the process at once where something is computed beside the loop: Python would wait for its end, and whoever sent the signal does not."""
    if running is not None and running.is_busy:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _say(text: str) -> None:
    """A line for people, with the time before it."""
    clock = datetime.datetime.now().astimezone().strftime("%H:%M:%S")
    sys.stderr.write(f"{clock} {escaped_for_terminal(text)}\n")
    sys.stderr.flush()
