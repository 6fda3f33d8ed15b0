"""A member's process: connects outwards, waits for tasks, asks the steward, takes part, and writes what came of it.

A node that was killed is started again and goes on: everything it promised the others is in its state folder. Others learn
that this member stopped a task, never why.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.approvals import permit, required
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.member_settings import Member, TransportSettings
from sudare.consortium.agreement.signed_statements import check_is_key_of, in_force, statements_path
from sudare.consortium.ledger_heads import checked_ledger, remember_head
from sudare.consortium.logs import EventLog
from sudare.consortium.network.dropped_messages import DropLines
from sudare.consortium.network.event_loop import drive, settle
from sudare.consortium.network.message_dispatch import Activity, Desk, unexpected
from sudare.consortium.network.session import Pins, Session
from sudare.consortium.network.transport.base import Transport
from sudare.consortium.node_notes import REQUESTS, RUN, STATES, WITHDRAW
from sudare.consortium.tasks.definitions import Task
from sudare.consortium.tasks.release_exchange import ReleaseExchange
from sudare.consortium.tasks.sum_runner import SumRunner
from sudare.consortium.tasks.task_kinds import Workplace, activity_of, write_results
from sudare.errors import InvalidParameter, KeyRevoked, NotApproved, NotConnected, SudareError
from sudare.files import check_unshared, make_private_folder, write_atomically

_LOOK_SECONDS: Final = 0.5
_SETTLE_SECONDS: Final = 30.0
_PRESENT_SECONDS: Final = 10.0

Tell = Callable[[str], None]


@dataclass
class Undertaking:
    """One task at this node, from the first word of it to its end."""

    task: Task
    state: str = "asked for"
    prepared: Future[Activity] | None = None
    activity: Activity | None = None
    error: SudareError | None = None
    written: Future[list[Path]] | None = None
    files: tuple[Path, ...] = ()
    began_at: float = 0.0
    withdrawing: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing will come of it any more, or everything has."""
        return self.state in ("finished", "failed", "denied") and not self.withdrawing


@dataclass
class Node:
    """One member among the others, for one life of its process."""

    member: Member
    identity: Identity
    transport: Transport
    log: EventLog
    tell: Tell = lambda text: None
    clock: Callable[[], float] = time.monotonic
    undertakings: dict[str, Undertaking] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.agreement = self.member.agreement()
        self.agreement.check_complete()
        keys = in_force(self.agreement, self.member.statements())
        identity = self.identity
        check_is_key_of(self.agreement, self.member.statements(), self.member.name, identity.public_key)
        make_private_folder(self.member.state_folder)
        check_unshared(self.member.state_folder, "The state folder")
        # A ledger older than the one this node used last is refused: what was spent must not be forgotten.
        checked_ledger(self.member)
        sum_keys = identity.member_keys(bytes.fromhex(self.agreement.digest))
        session = Session(self.member.name, identity, sum_keys.public, pins_of(self.agreement, keys))
        self.desk = Desk(session, [task.name for task in self.agreement.tasks])
        self._place = Workplace(self.member, self.agreement, identity, sum_keys, keys, session)
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._looked_at, self._started_at = float("-inf"), self.clock()
        self._statements_seen = self._version_of_statements()
        self._present: frozenset[str] = frozenset()
        self._drop_lines = DropLines()
        self.log.write("started", agreement=self.agreement.digest, version=version("sudare"), process=os.getpid())

    def run(self, tasks: Iterable[str] = (), *, stay: bool = False, most_seconds: float = float("inf")) -> bool:
        """Take part. Without `stay`, until these tasks are over here and the others have heard everything; False if time ran out."""
        for name in tasks:
            self.ask(name)
        try:
            in_time = drive(self.desk, self.transport, lambda: self._look(stay), most_seconds, self.clock)
            settle(self.desk, self.transport, _SETTLE_SECONDS)
        finally:
            self._workers.shutdown(wait=False, cancel_futures=True)
            self.log.write("stopped")
        return in_time

    def ask(self, name: str, *, withdraw: bool = False) -> None:
        """Take up a task, anew if it failed before; and take this member's release back once it is known to all."""
        known = self.undertakings.get(name)
        if known is not None and known.state in ("failed", "denied"):
            del self.undertakings[name]
        self._undertake(name)
        self.undertakings[name].withdrawing |= withdraw

    def health(self) -> dict[str, Any]:
        """Names, counts and states; no data."""
        return {
            "member": self.member.name,
            "agreement": self.agreement.digest[:12],
            "version": version("sudare"),
            "up_seconds": round(self.clock() - self._started_at, 1),
            "members": len(self.agreement.members),
            "present": len(self._present),
            "dropped": self._dropped_by_reason(),
            "held_bytes": self.desk.held_bytes,
            "tasks": {name: each.state for name, each in list(self.undertakings.items())},
        }

    # Looking after the tasks, a few times a second

    def _look(self, stay: bool) -> bool:
        now = self.clock()
        if now - self._looked_at < _LOOK_SECONDS and not any(_has_ended(each) for each in self.undertakings.values()):
            return False
        self._looked_at = now
        self._heed_statements()
        self._notice_members(now)
        self._notice_drops(now)
        for name in self.desk.wanted() & {task.name for task in self.agreement.tasks}:
            self._undertake(name)
        self._take_requests()
        before = {name: each.state for name, each in self.undertakings.items()}
        for undertaking in self.undertakings.values():
            self._further(undertaking, now)
        after = {name: each.state for name, each in self.undertakings.items()}
        if after != before or not (self.member.state_folder / STATES).exists():
            self._write_states()
        return not stay and bool(after) and all(each.is_over for each in self.undertakings.values())

    def _undertake(self, name: str) -> None:
        if name not in self.undertakings and name in {task.name for task in self.agreement.tasks}:
            self.undertakings[name] = Undertaking(self.agreement.task(name), began_at=self.clock())
            self.log.write("task-requested", task=name)
        elif name not in self.undertakings:
            raise InvalidParameter(
                f"The agreement has no task '{name}'.",
                f"There are: {', '.join(task.name for task in self.agreement.tasks)}.",
            )

    def _further(self, undertaking: Undertaking, now: float) -> None:
        """One step: ask the steward, prepare, start, and see whether it has ended."""
        try:
            if undertaking.state in ("asked for", "waits for the steward"):
                self._ask_steward(undertaking)
            elif undertaking.state == "preparing" and undertaking.prepared is not None and undertaking.prepared.done():
                self._start(undertaking, undertaking.prepared.result(), now)
            elif undertaking.state == "running":
                self._see_end(undertaking, now)
            elif (
                undertaking.state == "writing results"
                and undertaking.written is not None
                and undertaking.written.done()
            ):
                self._finish(undertaking, undertaking.written.result(), now)
            elif undertaking.state == "finished":
                self._see_withdrawals(undertaking)
        except SudareError as error:
            self._fail(undertaking, error)
        except Exception as error:  # noqa: BLE001 - a foreign error ends the task, not the node; its text may hold data
            self._fail(undertaking, unexpected(error))

    def _ask_steward(self, undertaking: Undertaking) -> None:
        task = undertaking.task
        try:
            permit(self.member, self.agreement, task)
        except NotApproved as error:
            self._hear_no(undertaking, error)
            return
        if required(self.member, task):
            self.log.write("task-approved", task=task.name)
        undertaking.state = "preparing"
        undertaking.prepared = self._workers.submit(activity_of, task, self._place)

    def _hear_no(self, undertaking: Undertaking, error: NotApproved) -> None:
        from sudare.consortium.agreement.approvals import Approvals

        state = Approvals(self.member.state_folder).state(self.agreement, undertaking.task).state
        if state == "pending":
            if undertaking.state != "waits for the steward":
                name = undertaking.task.name
                self.tell(f"task '{name}' needs the steward's approval: sudare approve {name}")
            undertaking.state = "waits for the steward"
            return
        undertaking.state, undertaking.error = "denied", error
        self.log.write("task-denied", task=undertaking.task.name)
        self._tell_others_stopped(undertaking)

    def _start(self, undertaking: Undertaking, activity: Activity, now: float) -> None:
        undertaking.activity, undertaking.state, undertaking.began_at = activity, "running", now
        self.desk.start(activity, now)
        remember_head(self.member, self.member.ledger())
        self.log.write("task-started", task=undertaking.task.name, kind=undertaking.task.kind)
        self.tell(f"task '{undertaking.task.name}' has begun")

    def _see_end(self, undertaking: Undertaking, now: float) -> None:
        activity = undertaking.activity
        if activity is None:
            return
        if activity.failure is not None:
            self._fail(undertaking, activity.failure)
        elif activity.finished:
            undertaking.state = "writing results"
            # Beside the loop, so that the others go on hearing of this member.
            undertaking.written = self._workers.submit(write_results, undertaking.task, activity, self._place)
        elif now - undertaking.began_at > self.agreement.deadlines.task_seconds:
            activity.stop(NotConnected("The task was not finished in the agreed time.", NotConnected.help))

    def _finish(self, undertaking: Undertaking, files: list[Path], now: float) -> None:
        activity, name = undertaking.activity, undertaking.task.name
        undertaking.files, undertaking.state = tuple(files), "finished"
        remember_head(self.member, self.member.ledger())
        rounds = activity.iteration + 1 if isinstance(activity, SumRunner) else 1
        self.log.write("task-finished", task=name, round=rounds, seconds=now - undertaking.began_at)
        places = ", ".join(os.path.relpath(path, self.member.folder) for path in files)
        self.tell(f"task '{name}' is done: {places}")

    def _see_withdrawals(self, undertaking: Undertaking) -> None:
        """This member's release is taken back where that was asked for; what others took back is forgotten here too."""
        activity = undertaking.activity
        if not isinstance(activity, ReleaseExchange):
            return
        if undertaking.withdrawing:
            undertaking.withdrawing = False
            activity.withdraw()
        withdrawn = activity.withdrawn()
        gone = [path for path in undertaking.files if path.suffix == ".sudare" and path.stem in withdrawn]
        if gone:
            for path in gone:
                path.unlink(missing_ok=True)
                self.log.write("release-withdrawn", task=undertaking.task.name, peer=path.stem)
                self.tell(f"task '{undertaking.task.name}': the release of '{path.stem}' was withdrawn")
            undertaking.files = tuple(write_results(undertaking.task, activity, self._place))
            self._write_states()

    def _fail(self, undertaking: Undertaking, error: SudareError) -> None:
        undertaking.state, undertaking.error = "failed", error
        remember_head(self.member, self.member.ledger())
        self.log.write("task-failed", task=undertaking.task.name, error=type(error).__name__)
        self.tell(f"task '{undertaking.task.name}' stopped: {type(error).__name__}: {error}")
        for name in sorted(self.desk.session.mistrusted()):
            self.tell(f"in the name of '{name}' somebody spoke with another key than the agreement's")
        for name in sorted(self.desk.session.refused_by()):
            self.tell(f"'{name}' does not take this member's key for the one in its agreement")
        if undertaking.activity is None:
            self._tell_others_stopped(undertaking)

    def _tell_others_stopped(self, undertaking: Undertaking) -> None:
        others = [name for name in self.agreement.member_names if name != self.member.name]
        self.desk.refuse(undertaking.task.name, others, self.clock())

    def _heed_statements(self) -> None:
        """Raise `KeyRevoked` once the statements beside the agreement say so: a revoked key counts no more for a running node, either."""
        seen = self._version_of_statements()
        if seen == self._statements_seen:
            return
        self._statements_seen = seen
        try:
            keys = in_force(self.agreement, self.member.statements())
        except KeyRevoked as error:
            for undertaking in self.undertakings.values():
                if undertaking.activity is not None and not undertaking.is_over:
                    undertaking.activity.stop(error)
            raise
        except SudareError as error:
            self.tell(f"the statements beside the agreement cannot be used: {type(error).__name__}: {error}")
            return
        if dict(keys) != dict(self._place.signing_keys):
            self.tell("a member has rotated its key: start the node again, so that it takes the new one")

    def _version_of_statements(self) -> tuple[int, ...]:
        """What changes whenever the file of statements is written."""
        try:
            status = os.stat(statements_path(self.member.agreement_path))
        except OSError:
            return ()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _notice_members(self, now: float) -> None:
        present, count = self.desk.session.present(now, _PRESENT_SECONDS), len(self.agreement.members)
        for name in sorted(present - self._present - {self.member.name}):
            self.log.write("connected", peer=name)
        for name in sorted(self._present - present):
            self.log.write("disconnected", peer=name)
        if present != self._present:
            absent = [name for name in self.agreement.member_names if name not in present]
            waiting = f", waiting for {', '.join(absent)}" if absent else ""
            self.tell(f"{len(present)} of {count} members present{waiting}")
        self._present = present

    def _notice_drops(self, now: float) -> None:
        """Log what was dropped since, by sender and reason and not more than a line a minute for each; tell the owner of faults in the code."""
        counts = Counter(self.transport.drops.counts()) + Counter(self.desk.drops.counts())
        for sender, reason, amount in self._drop_lines.due(counts, now):
            self.log.write("message-dropped", peer=sender, kind=reason, count=amount)
        for place in (*self.transport.drops.new_places(), *self.desk.drops.new_places()):
            self.tell(f"a message was dropped because of a fault in sudare, please report: {place}")

    def _dropped_by_reason(self) -> dict[str, int]:
        return Counter(self.transport.drops.by_reason()) + Counter(self.desk.drops.by_reason())

    # What is kept in the state folder

    def _take_requests(self) -> None:
        """What was asked for beside this process. A task that failed is begun again; one that is done is not."""
        folder = self.member.state_folder / REQUESTS
        for task in self.agreement.tasks:
            for wish in (RUN, WITHDRAW):
                path = folder / f"{task.name}.{wish}"
                if path.exists():
                    path.unlink(missing_ok=True)
                    self.ask(task.name, withdraw=wish == WITHDRAW)

    def _write_states(self) -> None:
        states = {
            name: {
                "state": each.state,
                "error": None if each.error is None else f"{type(each.error).__name__}: {each.error}",
                "files": [os.path.relpath(path, self.member.folder) for path in each.files],
            }
            for name, each in self.undertakings.items()
        }
        document = {"agreement": self.agreement.digest, "process": os.getpid(), "tasks": states}
        write_atomically(self.member.state_folder / STATES, json.dumps(document, indent=1).encode())


def _has_ended(undertaking: Undertaking) -> bool:
    """Whether something is to be done about it at once."""
    if undertaking.state == "writing results":
        return undertaking.written is not None and undertaking.written.done()
    activity = undertaking.activity
    return undertaking.state == "running" and activity is not None and (activity.finished or bool(activity.failure))


def pins_of(agreement: Agreement, keys: Mapping[str, bytes]) -> Pins:
    """What a session takes from the agreement."""
    return Pins(bytes.fromhex(agreement.digest), dict(keys), agreement.field_digests)


def transport_of(
    name: str, settings: TransportSettings, *, peers: Collection[str] | None = None, folder: Path | None = None
) -> Transport:
    """The way to the others that a member file describes. Packets come from `peers` only; `folder` is where FLARE's own folder is made."""
    from sudare.consortium.network.transport.flare import FlareTransport

    if settings.kind != "flare" or settings.kit is None or settings.relay is None:
        raise InvalidParameter(
            "The member file does not say how to reach the others.",
            'Give --kit and --relay, or write them under [transport]: kind = "flare", kit = "…", relay = "host:port".',
        )
    if settings.proxy is not None:
        # gRPC reads an HTTP proxy, which must let CONNECT through, from this variable in small letters.
        os.environ["grpc_proxy"] = settings.proxy  # noqa: SIM112
    return FlareTransport(name, settings.kit, settings.relay, peers=peers, folder=folder)
