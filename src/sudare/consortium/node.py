"""A member's process: connects outwards, waits for tasks, asks the steward, takes part, and writes what came of it.

A node that was killed is started again and goes on: everything it promised the others is in its state folder. Others learn
that this member stopped a task, never why.
"""

from __future__ import annotations

import datetime
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.signed_statements import KeysInForce, check_is_key_of, file_mark
from sudare.consortium.agreement.taken_versions import remember_statements, take_version
from sudare.consortium.event_log import EventLog
from sudare.consortium.ledger_rollback import checked_ledger, remember_head
from sudare.consortium.loop_watch import LOOP_LEDGER_SECONDS, TASK_LEDGER_SECONDS, LoopWatch
from sudare.consortium.network.message_dispatch import Activity, MessageDispatcher, drive, leave, unexpected
from sudare.consortium.network.session import Session
from sudare.consortium.network.transport.base import Transport
from sudare.consortium.node_connection import beat_seconds_of, pins_of, talking_names
from sudare.consortium.node_control_files import (
    CANCEL,
    REQUESTS,
    RUN,
    STATES,
    WITHDRAW,
    cancelled_under_another_version,
    is_damaged,
    states_of,
)
from sudare.consortium.node_restart_on_change import OVER, NodeReload, Reason, tasks_under_way, version_to_begin
from sudare.consortium.operator_warnings import OperatorWarnings
from sudare.consortium.peer_watch import PeerWatch
from sudare.consortium.relay_failover import RelayFailover
from sudare.consortium.state_format import migrate_state
from sudare.consortium.task_run import WAITING, TaskRun, has_ended, is_done, round_of
from sudare.consortium.tasks.checkpoints import WITHDRAWN, CheckpointStore, place_of_release
from sudare.consortium.tasks.definitions import Task
from sudare.consortium.tasks.results_folder import is_finished
from sudare.errors import (
    ConsortiumError,
    InvalidParameter,
    KeyRevoked,
    LedgerBusy,
    LedgerError,
    NotApproved,
    NotConnected,
    StateDamaged,
    SudareError,
    TaskStopped,
)
from sudare.files import check_unshared, held_alone, make_private_folder, set_aside, write_atomically
from sudare.sums.context import RELAY_NAME

if TYPE_CHECKING:
    from sudare.consortium.tasks.task_activities import TaskEnvironment

_LOOK_SECONDS: Final = 0.5
_SETTLE_SECONDS: Final = 30.0
# How often the ledger is asked whether a new version of the agreement can be taken.
_WEIGH_SECONDS: Final = 5.0
# A task that stopped because of others is not taken up again sooner than that, whoever asks for it; each time twice as late, up to the longest or the deadline of a round.
_AGAIN_SECONDS: Final = 5.0
_LONGEST_AGAIN_SECONDS: Final = 60.0
# After how many intervals of silence a member is taken to be away.
_BEATS_OF_SILENCE: Final = 3.0
Tell = Callable[[str], None]


@dataclass
class Node:
    """One member among the others, for one life of its process."""

    member: Member
    identity: Identity
    transport: Transport
    log: EventLog
    tell: Tell = lambda text: None
    clock: Callable[[], float] = time.monotonic
    today: Callable[[], datetime.date] = lambda: datetime.datetime.now(datetime.UTC).date()
    task_runs: dict[str, TaskRun] = field(default_factory=dict)
    reload: NodeReload | None = None
    # Where there is more than one relay.
    failover: RelayFailover | None = None
    # Raises KeyboardInterrupt where the process was told to stop; asked between two steps of the loop.
    check_stop: Callable[[], None] = lambda: None
    # Why this life ended and another one is to begin, once it has.
    renewed_for: Reason | None = None

    def __post_init__(self) -> None:
        self.agreement = version_to_begin(self.member, self.today())
        self.agreement.check_complete()
        if self.reload is not None:
            self.reload.agreement = self.agreement
        self._agreement_mark = file_mark(self.member.agreement_path)
        identity = self.identity
        # A node that takes new versions also starts while a key is revoked, and waits for the version without it.
        known = self.member.known_statements(self.agreement)
        self._keys = KeysInForce(self.agreement, self.member.agreement_path, known, may_wait=self.reload is not None)
        keys = self._keys.keys
        check_is_key_of(self.agreement, self._keys.statements, self.member.name, identity.public_key)
        make_private_folder(self.member.state_folder)
        check_unshared(self.member.state_folder, "The state folder")
        migrate_state(self.member.state_folder)
        # A ledger older than the one this node used last is refused: what was spent must not be forgotten.
        checked_ledger(self.member)
        missing = take_version(self.member, self.agreement)
        self._member_of_tasks = replace(self.member, ledger_wait_seconds=TASK_LEDGER_SECONDS)
        self.member = replace(self.member, ledger_wait_seconds=LOOP_LEDGER_SECONDS)
        sum_keys = identity.member_keys(bytes.fromhex(self.agreement.digest))
        self._beat_seconds = beat_seconds_of(self.agreement)
        pins = pins_of(self.agreement, keys)
        session = Session(self.member.name, identity, sum_keys.public, pins, self._beat_seconds)
        self.dispatcher = MessageDispatcher(session, [task.name for task in self.agreement.tasks])
        self._sum_keys, self._pinned_keys = sum_keys, {name: keys[name] for name in self.agreement.member_names}
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._looked_at, self._started_at = float("-inf"), self.clock()
        talking, silence = talking_names(self.agreement), _BEATS_OF_SILENCE * self._beat_seconds
        watched = self.dispatcher, self.transport, self.log, lambda text: self.tell(text)  # noqa: PLW0108 - it can be replaced
        self.peers = PeerWatch(self.agreement.member_names, talking, silence, *watched)
        self.warnings = OperatorWarnings(self.member, self.agreement, self.log, lambda text: self.tell(text))  # noqa: PLW0108 - the same
        self.loop = LoopWatch(self.member, self.log, lambda text: self.tell(text), lambda: self.clock())  # noqa: PLW0108 - the same
        self._head_is_due, self._heads_at = False, float("-inf")
        self._written: dict[str, Any] = {}
        # Replaced whole and never changed: other threads read it.
        self._told: dict[str, Any] | None = None
        self._unwritten: set[str] = set()
        self._untaken: set[str] = set()
        self._states_mark: tuple[int, ...] = ()
        if is_damaged(self.member):
            set_aside(self.member.state_folder / STATES, "damaged")
            self.tell(
                f"'{STATES}' in the state folder was damaged and is set aside (damaged/): what was said there of tasks that ended is forgotten, and nothing else"
            )
        self._scheduled_on: datetime.date | None = None
        # What was cancelled under the version before does not begin by itself under this one.
        cancelled, names = (
            cancelled_under_another_version(self.member, self.agreement.digest),
            {task.name for task in self.agreement.tasks},
        )
        self._cancelled_before = {name: each for name, each in cancelled.items() if name in names}
        self._revocation: KeyRevoked | None = None
        self._remembered_statements = self._keys.statements
        self._keys_have_changed, self._is_told_of_version, self._weighed_at = False, False, float("-inf")
        self.log.write("started", agreement=self.agreement.digest, version=version("sudare"), process=os.getpid())
        if missing:
            numbers = ", ".join(map(str, missing))
            self.tell(
                f"the history lacked versions of the agreement that this member has taken ({numbers}): they are put back"
            )

    def run(self, tasks: Iterable[str] = (), *, stay: bool = False, most_seconds: float = float("inf")) -> bool:
        """Take part. Without `stay`, until these tasks are over here and the others have heard everything; False if time ran out.

        With `stay` also what an earlier process of this member had taken up and not ended goes on.

        Raise InvalidParameter where another node runs with this state folder: both would begin the same sums, with the same secrets.
        """
        with held_alone(self.member.state_folder / "run.lock") as alone:
            if not alone:
                raise InvalidParameter(
                    "Another node or job of this member is running with its state folder.",
                    "Let it finish, or stop it, and start this one again.",
                )
            try:
                for name in dict.fromkeys([*tasks, *(self._unended_before() if stay else ())]):
                    self.ask(name, withdraw=self._was_withdrawing(name))
                in_time = drive(self.dispatcher, self.transport, lambda: self._poll(stay), most_seconds, self.clock)
                # Without a relay, and after nobody ever answered, there is nobody to wait for.
                if self.transport.reaches_relay() or self.dispatcher.session.has_met_anybody:
                    drive(self.dispatcher, self.transport, self._is_settled, _SETTLE_SECONDS)
            finally:
                # Also where a signal ends it, in the middle of whatever it was doing: others know at once.
                leave(self.dispatcher, self.transport)
                self._workers.shutdown(wait=False, cancel_futures=True)
                self._write_states(is_running=False)
                self.log.write("stopped")
        return in_time

    def _unended_before(self) -> list[str]:
        """Tasks that an earlier process of this member had taken up under this version of the agreement, and not ended: also the others may have forgotten them."""
        told = states_of(self.member, self.agreement.digest)
        return [
            task.name
            for task in self.agreement.tasks
            if told.get(task.name, {"state": OVER[0]})["state"] not in OVER
            or self._was_withdrawing(task.name)
            or self._keeps_withdrawn(task)
        ]

    def _keeps_withdrawn(self, task: Task) -> bool:
        """Whether an earlier process of this member was told that a release is taken back, and ended before it had deleted it."""
        if task.has_sums:
            return False
        written = [path for path in self._release_files(task, self.agreement.member_names) if path.is_file()]
        if not written:
            return False
        store = CheckpointStore(self.member.task_folder(self.agreement, task.name))
        try:
            return any(store.holds(place_of_release(path.stem), WITHDRAWN) for path in written)
        except StateDamaged:
            # Whose task is begun is told of it; nothing here depends on it.
            return False

    def _was_withdrawing(self, name: str) -> bool:
        """Whether an earlier process of this member was to take its release of a task back, and had not yet."""
        return bool(states_of(self.member, self.agreement.digest).get(name, {}).get("withdrawing", False))

    def _is_settled(self) -> bool:
        self.check_stop()
        self.loop.turn(self.clock())
        return self.dispatcher.session.is_settled()

    @property
    def is_busy(self) -> bool:
        """Whether something is being prepared or written beside the loop. A process that ends in its middle loses nothing that was promised."""
        found = (future for run in self.task_runs.values() for future in (run.prepared, run.written))
        return any(future is not None and not future.done() for future in found)

    def ask(self, name: str, *, withdraw: bool = False) -> None:
        """Take up a task, anew if it failed before; and take this member's release back once it is known to all. Sums have none."""
        known = self.task_runs.get(name)
        if known is not None and known.state in ("failed", "denied"):
            withdraw |= self.task_runs.pop(name).withdrawing
            self.dispatcher.forget(name)
        self._add_run(name)
        self.task_runs[name].withdrawing |= withdraw and not self.task_runs[name].task.has_sums
        self.task_runs[name].is_asked_here = True

    def health(self) -> dict[str, Any]:
        """Names, counts and states; no data."""
        return {
            "member": self.member.name,
            "agreement": self.agreement.digest[:12],
            "version": version("sudare"),
            "up_seconds": round(self.clock() - self._started_at, 1),
            "turned_seconds_ago": round(self.loop.seconds_since_turn(), 1),
            "problem": self.loop.problem(),
            "members": len(self.agreement.members),
            "present": len(self.peers.present & set(self.agreement.member_names)),
            "relay_reached": self.peers.reaches_relay,
            "dropped": Counter(self.transport.drops.by_reason()) + Counter(self.dispatcher.drops.by_reason()),
            "held_bytes": self.dispatcher.held_bytes,
            "tasks": {name: each.state for name, each in list(self.task_runs.items())},
        }

    def live_states(self) -> dict[str, Any] | None:
        """What the loop last put into `node.json`, or would have where that cannot be written, and how long ago it came round; None before its first look. For any thread."""
        told, seconds = self._told, round(self.loop.seconds_since_turn(), 1)
        return None if told is None else {"states": told, "turned_seconds_ago": seconds}

    # What tasks compute with is loaded by the first of them, beside the loop: a node that waits does without

    @cached_property
    def _environment(self) -> TaskEnvironment:
        from sudare.consortium.tasks.task_activities import TaskEnvironment

        keys = self._sum_keys, self._pinned_keys, self._keys.for_sums
        return TaskEnvironment(self._member_of_tasks, self.agreement, self.identity, *keys, self.dispatcher.session)

    def _prepared(self, task: Task, check_wanted: Callable[[], None] = lambda: None) -> Activity:
        from sudare.consortium.tasks.task_activities import activity_of

        return activity_of(task, replace(self._environment, check_wanted=check_wanted))

    def _check_wanted(self, run: TaskRun) -> None:
        """Raise where nothing is to be paid for a run any more: it was cancelled while it was prepared, or a key was revoked."""
        if self._revocation is not None:
            raise self._revocation
        if run.state in OVER or run.ended_by == "cancel":
            raise _cancelled(run.task.name)

    def _results_of(self, task: Task, activity: Activity) -> list[Path]:
        from sudare.consortium.tasks.task_results import write_results

        try:
            return write_results(task, activity, self._environment)
        except OSError as error:
            self.log.write("not-written", kind="results", count=1)
            raise ConsortiumError(
                f"The results of task '{task.name}' cannot be written ({error.strerror}).",
                "Make room, then run the task again: what was computed is kept, and nothing is paid twice.",
            ) from None

    # Looking after the tasks, a few times a second

    def _poll(self, stay: bool) -> bool:
        self.check_stop()
        now = self.clock()
        self.loop.turn(now)
        if now - self._looked_at < _LOOK_SECONDS and not any(has_ended(each) for each in self.task_runs.values()):
            return False
        self._looked_at = now
        self._check_statements()
        self.peers.look(now)
        if self.loop.may_ask_ledger(now):
            self.warnings.look(now)
        self._take_requests()
        self._join_others(now)
        if stay:
            self._ask_for_scheduled()
        for run in self.task_runs.values():
            self._advance(run, now)
        self._look_at_ledger(now)
        if self._document() != self._written or file_mark(self.member.state_folder / STATES) != self._states_mark:
            self._write_states()
        self.renewed_for = self._due_renewal()
        if self.renewed_for is not None:
            return True
        return not stay and bool(self.task_runs) and all(each.is_over for each in self.task_runs.values())

    def _join_others(self, now: float) -> None:
        """Take up what others ask for, also again what stopped here because of others."""
        wanted = self.dispatcher.wanted(self.agreement.member_names)
        for name in wanted & {task.name for task in self.agreement.tasks}:
            # Whoever asks: a run's day was agreed on, and so was that it is of the records of that day.
            if self.agreement.time_of(name, self.today()) == "early":
                continue
            times, withdrawing = 0, False
            if self._resumes(name, now):
                before = self.task_runs.pop(name)
                times, withdrawing = before.times_resumed + 1, before.withdrawing
            if name not in self.task_runs:
                self._join(name)
                self.task_runs[name].times_resumed, self.task_runs[name].withdrawing = times, withdrawing

    def _join(self, name: str) -> None:
        """Take up a task that others ask for. One that was cancelled here in an earlier life of this node is not: only who asks here takes it up again."""
        told = (self._cancelled_before | states_of(self.member, self.agreement.digest)).get(name, {})
        self._add_run(name)
        if told.get("ended_by") == "cancel" and told["state"] != "finished":
            run = self.task_runs[name]
            run.ended_by = "cancel"
            self._fail(run, _cancelled(name))

    def _resumes(self, name: str, now: float) -> bool:
        """Whether a task that stopped here because of others is taken up again with them."""
        run = self.task_runs.get(name)
        if run is None or run.state != "failed" or run.ended_by is not None:
            return False
        # Whoever asks waits for others by rounds, and is not to give up meanwhile.
        longest = max(min(_LONGEST_AGAIN_SECONDS, self.agreement.deadlines.round_seconds), _AGAIN_SECONDS)
        waits = min(_AGAIN_SECONDS * 2 ** min(run.times_resumed, 10), longest)
        return now - run.ended_at >= waits and run.activity is not None and run.activity.can_resume

    def _add_run(self, name: str) -> None:
        if name not in self.task_runs and name in {task.name for task in self.agreement.tasks}:
            self.task_runs[name] = TaskRun(self.agreement.task(name), began_at=self.clock())
            self.log.write("task-requested", task=name)
        elif name not in self.task_runs:
            raise InvalidParameter(
                f"The agreement has no task '{name}'.",
                f"There are: {', '.join(task.name for task in self.agreement.tasks)}.",
            )

    def _advance(self, run: TaskRun, now: float) -> None:
        """One step, and what follows from an error in it. A task that waits goes on waiting where another process holds the ledger."""
        try:
            self._step(run, now)
        except LedgerBusy as error:
            self.loop.note_held()
            if run.state not in WAITING:
                self._fail(run, error)
            elif run.state == "asked for":
                run.state = "waits for the ledger"
        except SudareError as error:
            self._fail(run, error)
        except Exception as error:  # noqa: BLE001 - a foreign error ends the task, not the node; its text may hold data
            self._fail(run, unexpected(error))

    def _step(self, run: TaskRun, now: float) -> None:
        """Ask the steward, prepare, start, and see whether it has ended."""
        if run.state in WAITING:
            if self._revocation is None and self.loop.may_ask_ledger(now):
                self._ask_steward(run)
        elif run.state in ("preparing", "running") and self._is_denied(run):
            pass
        elif run.state == "preparing" and run.prepared is not None and run.prepared.done():
            self._start(run, run.prepared.result(), now)
        elif run.state == "running":
            self._check_ended(run, now)
        elif run.state == "writing results" and run.written is not None and run.written.done():
            self._finish(run, run.written.result(), now)
        elif run.state == "finished":
            self._handle_finished(run, now)

    def _ask_steward(self, run: TaskRun) -> None:
        from sudare.consortium.agreement.approvals import Approvals, has_begun, permit, required

        task, time_of_run = run.task, self.agreement.time_of(run.task.name, self.today())
        if time_of_run == "early":
            return
        if time_of_run == "over" and not has_begun(self.member, self.agreement, task):
            run.ended_by = "time"
            self._deny(run, NotApproved(f"The time of run '{task.name}' is over.", "The next one begins on its day."))
            return
        before = Approvals(self.member.state_folder).state(self.agreement, task).state
        try:
            permit(self.member, self.agreement, task)
        except NotApproved as error:
            self._handle_not_approved(run, error, before)
            return
        self.loop.note_reached()
        if required(self.member, task):
            self.log.write("task-approved", task=task.name)
        if run.is_asked_here:
            # Getting ready takes seconds: all do it at once, and not each when the one before has something to say.
            self.dispatcher.ask(task.name, self._other_names)
        run.state = "preparing"
        run.prepared = self._workers.submit(self._prepared, task, partial(self._check_wanted, run))

    def _handle_not_approved(self, run: TaskRun, error: NotApproved, before: str) -> None:
        """Wait for the steward, or deny the run. `before` is what was decided when it was asked for: where that has changed since, it is asked for again."""
        from sudare.consortium.agreement.approvals import Approvals

        state = Approvals(self.member.state_folder).state(self.agreement, run.task).state
        if state == "pending":
            if run.state != "waits for the steward":
                name = run.task.name
                self.tell(f"task '{name}' needs the steward's approval: sudare approve {name}")
                self.log.write("task-waits", task=name)
            run.state = "waits for the steward"
        elif state == before:
            self._deny(run, error)

    def _deny(self, run: TaskRun, error: NotApproved) -> None:
        run.state, run.error = "denied", error
        self.log.write("task-denied", task=run.task.name)
        self._refuse_task(run)

    def _is_denied(self, run: TaskRun) -> bool:
        """Whether the steward has denied a task since it was begun: then it is stopped. What it has cost stays spent."""
        from sudare.consortium.agreement.approvals import Approvals

        if run.activity is not None and run.activity.finished:
            # All members have what came of it.
            return False
        try:
            Approvals(self.member.state_folder).undenied_state(self.agreement, run.task)
        except SudareError as error:
            if run.activity is not None:
                run.activity.stop(error)
            if not isinstance(error, NotApproved):
                raise
            self.tell(f"task '{run.task.name}' stopped: {type(error).__name__}: {error}")
            self._deny(run, error)
            return True
        return False

    def _start(self, run: TaskRun, activity: Activity, now: float) -> None:
        if self._revocation is not None:
            raise self._revocation
        # Where it cannot begin there is none, and the others are told as of a task that was never prepared.
        self.dispatcher.start(activity, now)
        run.activity, run.state, run.began_at, run.prepared = activity, "running", now, None
        self._remember_head()
        self.log.write("task-started", task=run.task.name, kind=run.task.kind)
        self.tell(f"task '{run.task.name}' has begun")

    def _check_ended(self, run: TaskRun, now: float) -> None:
        activity = run.activity
        if activity is None:
            return
        if activity.failure is not None:
            self._fail(run, activity.failure)
        elif activity.finished:
            run.state = "writing results"
            # Beside the loop, so that the others go on hearing of this member.
            run.written = self._workers.submit(self._results_of, run.task, activity)
        elif now - run.began_at > self.agreement.deadlines.task_seconds:
            activity.stop(NotConnected("The task was not finished in the agreed time.", NotConnected.help))

    def _finish(self, run: TaskRun, files: list[Path], now: float) -> None:
        from sudare.consortium.tasks.sum_script_runner import SumRunner

        activity, name = run.activity, run.task.name
        run.files, run.state, run.written = tuple(files), "finished", None
        self._remember_head()
        rounds = activity.iteration + 1 if isinstance(activity, SumRunner) else 1
        self.log.write("task-finished", task=name, round=rounds, seconds=now - run.began_at)
        places = ", ".join(os.path.relpath(path, self.member.folder) for path in files)
        self.tell(f"task '{name}' is done: {places}")

    def _handle_finished(self, run: TaskRun, now: float) -> None:
        """Sums rest. This member's release is taken back where that was asked for; what others took back is forgotten here too."""
        from sudare.consortium.tasks.release_exchange import ReleaseExchange, withdrawal_of
        from sudare.consortium.tasks.sum_script_runner import SumRunner

        activity = run.activity
        if isinstance(activity, SumRunner):
            activity.rest(now)
        if not isinstance(activity, ReleaseExchange):
            return
        if run.withdrawing:
            run.withdrawing, run.is_telling_withdrawal = False, True
            activity.withdraw()
        elif run.is_telling_withdrawal:
            # Until then it is said again by the next life of this node, too.
            run.is_telling_withdrawal = not self.dispatcher.is_told(withdrawal_of(run.task.name))
        # Also those that an earlier life of this node has written.
        gone = [path for path in self._release_files(run.task, activity.withdrawn()) if path.is_file()]
        if gone:
            for path in gone:
                path.unlink(missing_ok=True)
                self.log.write("release-withdrawn", task=run.task.name, peer=path.stem)
                self.tell(f"task '{run.task.name}': the release of '{path.stem}' was withdrawn")
            run.files = tuple(self._results_of(run.task, activity))
            self._write_states()

    def _release_files(self, task: Task, names: Iterable[str]) -> list[Path]:
        """Where the releases of these members are written in the results of a task."""
        folder = self.member.results_folder(task.name)
        return [folder / f"{name}.sudare" for name in sorted(names)]

    def _fail(self, run: TaskRun, error: SudareError) -> None:
        run.state, run.error, run.ended_at = "failed", error, self.clock()
        self._remember_head()
        self.log.write("task-failed", task=run.task.name, error=type(error).__name__)
        self.tell(f"task '{run.task.name}' stopped: {type(error).__name__}: {error}")
        for name in sorted(self.dispatcher.session.mistrusted()):
            self.tell(f"in the name of '{name}' somebody spoke with another key than the agreement's")
        for name in sorted(self.dispatcher.session.refused_by()):
            self.tell(f"'{name}' does not take this member's key for the one in its agreement")
        for text in self.dispatcher.session.other_versions().values():
            self.tell(text)
        if run.activity is None:
            self._refuse_task(run)

    @property
    def _other_names(self) -> list[str]:
        return [name for name in self.agreement.member_names if name != self.member.name]

    def _refuse_task(self, run: TaskRun) -> None:
        relay = [RELAY_NAME] if self.agreement.relay_collects and run.task.has_sums else []
        self.dispatcher.refuse(run.task.name, [*self._other_names, *relay], self.clock())

    def _check_statements(self) -> None:
        """Look whether keys were rotated or revoked since. Raise as `_handle_revocation` does."""
        self._tell_of_changed_agreement()
        try:
            if self._keys.have_changed() and not self._keys_have_changed:
                self._keys_have_changed = True
                self.tell(
                    "a member has rotated its key: start the node again, so that it takes the new one"
                    if self.reload is None
                    else "a member has rotated its key: the node takes the new one once no task is under way"
                )
        except KeyRevoked as error:
            self._handle_revocation(error)
        except SudareError as error:
            self.tell(f"the statements beside the agreement cannot be used: {type(error).__name__}: {error}")
        finally:
            self._remember_statements()

    def _remember_statements(self) -> None:
        """Keep what was seen, before anything is done about it: it counts in the next life too, whatever the file says then."""
        seen = self._keys.statements
        if seen is not self._remembered_statements:
            self._remembered_statements = seen
            self._write_or_warn("state", lambda: remember_statements(self.member, self.agreement, seen))

    def _handle_revocation(self, error: KeyRevoked) -> None:
        """Stop what is under way, since the agreement is no longer in force, and hear nothing more of who lost its key. Tasks that wait go on waiting.

        Raise the error where this member's own key was revoked, and where a new version would not be taken.
        """
        for run in self.task_runs.values():
            if run.activity is not None and not run.is_over:
                run.activity.stop(error)
        lost = self._keys.lost()
        if self.reload is None or self.member.name in lost:
            raise error
        self._revocation = error
        self.dispatcher.session.bar(lost)
        for name in sorted(lost):
            self.log.write("key-revoked", peer=name)
        self.tell(
            f"{error.problem} No task begins until a version of the agreement without it is in force, which this node takes then: sudare consortium amend --remove NAME"
        )

    def _due_renewal(self) -> Reason | None:
        """Why another life begins now. Where a task has begun, none does; settings are taken at once where the relay is not reached.

        Tasks that wait for the steward hold a new version back, unless a key was revoked: then nothing of the present one can be finished.
        """
        if self.reload is None:
            return None
        found = self.reload.reason()
        self._tell_of_refused_version(self.reload)
        reason = found or ("keys" if self._keys_have_changed else None)
        if self._revocation is not None and reason != "agreement":
            return None
        holding = [each for each in self.task_runs.values() if not each.is_over and not self._is_early(each)]
        if self._moves_to_another_relay(is_idle=not holding):
            return "relay"
        if reason != "agreement" or self._revocation is not None:
            holding = [each for each in holding if each.state not in WAITING]
        is_idle = not holding
        if reason == "agreement" and self._revocation is None:
            is_idle = is_idle and self._can_take_new_version(self.reload)
        return reason if is_idle or (reason == "settings" and not self.transport.reaches_relay()) else None

    def _is_early(self, run: TaskRun) -> bool:
        """Whether a run of a schedule was asked for before its day: nothing of it begins until then, and a new version has its own runs."""
        return run.state == "asked for" and self.agreement.time_of(run.task.name, self.today()) == "early"

    def _moves_to_another_relay(self, *, is_idle: bool) -> bool:
        """Whether another relay is used from now on. One that is reached is left where no task is under way, or somebody is missing, who may be at the other."""
        if self.failover is None:
            return False
        is_missing = not self.peers.present >= set(self.agreement.member_names)
        reaches = self.transport.reaches_relay()
        return self.failover.moves(self.clock(), reaches_relay=reaches, may_leave=is_idle or is_missing)

    def _can_take_new_version(self, reload: NodeReload) -> bool:
        """Whether a new version can be taken: nothing that was paid for under this one is unfinished, or this member's steward has taken it."""
        now = self.clock()
        if now - self._weighed_at < _WEIGH_SECONDS:
            return False
        self._weighed_at = now
        try:
            held = {} if reload.is_left() else tasks_under_way(self.member, self.agreement, self.today())
        except LedgerBusy:
            self.loop.note_held()
            return False
        self.loop.note_reached()
        if not held:
            return True
        # Another member that uses the same file may have put the version in place.
        self._write_or_warn("state", reload.hold)
        if not self._is_told_of_version:
            self._is_told_of_version = True
            self.tell(
                f"a new version of the agreement is in force, and waits for tasks that were paid for: {', '.join(sorted(held))}"
            )
        return False

    def _tell_of_refused_version(self, reload: NodeReload) -> None:
        """Say once of each version that was found and is not taken why that is so. The node goes on under the one that it has."""
        if reload.refused is not None:
            (digest, error), reload.refused = reload.refused, None
            self.log.write("version-refused", agreement=digest, error=type(error).__name__)
            self.tell(f"a version of the agreement ({digest[:12]}) is not taken: {error}")

    def _tell_of_changed_agreement(self) -> None:
        """Say once for each text that the agreement's file is another than the one that this node was started under, and no version that follows it."""
        mark = file_mark(self.member.agreement_path)
        if mark == self._agreement_mark:
            return
        self._agreement_mark = mark
        try:
            is_same = Agreement.load(self.member.agreement_path).digest == self.agreement.digest
        except SudareError:
            is_same = False
        is_renewed = self.reload is not None and (
            self.reload.reason() == "agreement" or self.reload.refused is not None
        )
        if not is_same and not is_renewed:
            self.tell(
                f"the agreement's file was changed: this node goes on with what all have signed ({self.agreement.digest[:12]}), until it is started again"
            )

    # What is kept in the state folder

    def _take_requests(self) -> None:
        """What was asked for beside this process. A task that failed is begun again; one that is done is not."""
        folder = self.member.state_folder / REQUESTS
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            name, _, wish = path.name.rpartition(".")
            if wish in (RUN, WITHDRAW, CANCEL) and name in {task.name for task in self.agreement.tasks}:
                if not self._is_taken(path):
                    continue
                if wish == CANCEL:
                    self._cancel(name)
                else:
                    self.ask(name, withdraw=wish == WITHDRAW)

    def _is_taken(self, path: Path) -> bool:
        """Whether a request could be taken away, so that it is heeded once. What cannot is told of once, and changes nothing."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            if path.name not in self._untaken:
                self._untaken.add(path.name)
                self.tell(
                    f"the request '{path.name}' cannot be taken ({error.strerror}): remove it from the state folder"
                )
            return False
        self._untaken.discard(path.name)
        return True

    def _cancel(self, name: str) -> None:
        """End a task here, and tell the others that it was stopped. What it has cost stays spent; asked for again, it goes on."""
        told = states_of(self.member, self.agreement.digest).get(name, {}).get("state")
        is_done = is_finished(self.member.results_folder(name), self.agreement.digest)
        if name not in self.task_runs and told not in ("finished", "denied") and not is_done:
            # Also one that stopped in an earlier life of this node, or that others begin just now: they may ask for it later.
            self._add_run(name)
        run = self.task_runs.get(name)
        if run is None or (run.is_over and run.state != "failed") or (run.activity and run.activity.finished):
            return
        run.ended_by, run.withdrawing = "cancel", False
        if run.activity is not None:
            run.activity.stop(_cancelled(name))
            # Others are told already; from now on also whoever begins it again.
            self.dispatcher.refuse(name, (), self.clock())
        elif not run.is_over:
            self._fail(run, _cancelled(name))

    def _ask_for_scheduled(self) -> None:
        """Take up the runs of schedules whose time is now, once a day and life; those that are done are left."""
        from sudare.consortium.agreement.approvals import is_paid_in_another_version

        today = self.today()
        if today == self._scheduled_on or not self.loop.may_ask_ledger(self.clock()):
            return
        states = self._cancelled_before | states_of(self.member) | self._document()["tasks"]
        done = {name for name, each in states.items() if is_done(each)}
        due = [name for each in self.agreement.schedules if (name := each.due(today)) is not None and name not in done]
        tasks = [self.agreement.task(name) for name in due]
        try:
            wanted = [each for each in tasks if not is_paid_in_another_version(self.member, self.agreement, each)]
        except LedgerBusy:
            self.loop.note_held()
            return
        self._scheduled_on = today
        for task in wanted:
            self.ask(task.name)

    def _document(self) -> dict[str, Any]:
        """What is told of this node beside its log: who is present, and how far its tasks are."""
        states = {
            name: {
                "state": each.state,
                "round": round_of(each),
                "error": None if each.error is None else f"{type(each.error).__name__}: {each.error}",
                "files": [os.path.relpath(path, self.member.folder) for path in each.files],
                "ended_by": each.ended_by,
                **({"withdrawing": True} if each.withdrawing or each.is_telling_withdrawal else {}),
            }
            for name, each in self.task_runs.items()
        }
        return {
            "member": self.member.name,
            "agreement": self.agreement.digest,
            "process": os.getpid(),
            "present": sorted(self.peers.present & set(self.agreement.member_names)),
            "relay_reached": self.peers.reaches_relay,
            "tasks": states,
        }

    def _write_states(self, is_running: bool = True) -> None:
        told = self._document()
        # What an earlier process of this member said about tasks that were over then stays said.
        earlier = self._cancelled_before | {
            name: each for name, each in states_of(self.member, self.agreement.digest).items() if each["state"] in OVER
        }
        document = {**told, "tasks": {**earlier, **told["tasks"]}}
        document |= {} if is_running else {"process": None}
        self._told = document
        content = json.dumps(document, indent=1).encode()
        if self._write_or_warn("state", lambda: write_atomically(self.member.state_folder / STATES, content)):
            self._written, self._states_mark = told, file_mark(self.member.state_folder / STATES)

    def _look_at_ledger(self, now: float) -> None:
        """Keep its last point where that could not be done before, and see whether it can be had again."""
        if not self.loop.may_ask_ledger(now):
            return
        if self._head_is_due and now >= self._heads_at:
            self._keep_head()
        elif not self._head_is_due and not any(
            each.state == "waits for the ledger" for each in self.task_runs.values()
        ):
            self.loop.look()

    def _remember_head(self) -> None:
        self.warnings.look_soon()
        self._keep_head()

    def _keep_head(self) -> None:
        """Keep the ledger's last point, or try it again soon."""
        self._head_is_due, self._heads_at = True, self.clock() + _WEIGH_SECONDS
        try:
            # A ledger that is gone is not made anew: its empty head would take the place of what was spent.
            ledger = self.member.ledger(create=False)
            is_kept = self._write_or_warn("ledger-head", lambda: remember_head(self.member, ledger))
        except LedgerBusy:
            self.loop.note_held()
            return
        except LedgerError as error:
            # A database that cannot be used now (a full disk, a server that restarts) is tried again; one that is damaged or gone ends the node.
            if type(error) is not LedgerError:
                raise
            return
        self._head_is_due = not is_kept
        self.loop.note_reached()

    def _write_or_warn(self, what: str, write: Callable[[], None]) -> bool:
        """Write what the node can do without; whether that was done. On a disk that is full it goes on, and says so once until there is room again.

        Raise LedgerBusy where the ledger could not be read in time.
        """
        try:
            write()
        except LedgerBusy:
            raise
        except (OSError, ConsortiumError) as error:
            if what not in self._unwritten:
                self.log.write("not-written", kind=what, count=1)
                self.tell(
                    f"the state folder cannot be written ({error.strerror}): make room, the node goes on meanwhile"
                    if isinstance(error, OSError)
                    else f"the state folder cannot be written, the node goes on meanwhile: {error}"
                )
            self._unwritten.add(what)
            return False
        self._unwritten.discard(what)
        return True


def _cancelled(task: str) -> TaskStopped:
    return TaskStopped(f"Task '{task}' was cancelled here.", "Run it again to go on.")
