"""What a relay runs beside passing messages on, where an agreement lets it collect sums: its part in them, and nothing else.

It needs the agreement, its own key and a folder for its state; no data and no account. A relay that was killed is started again and goes on:
what it promised members is in its folder.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.amendments import earlier_versions, kept_path
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.signed_statements import (
    KeysInForce,
    Statements,
    check_is_key_of,
    statements_path,
    statements_to_keep,
)
from sudare.consortium.event_log import EventLog
from sudare.consortium.network.message_dispatch import MessageDispatcher, drive
from sudare.consortium.network.session import Session
from sudare.consortium.network.transport.base import Transport
from sudare.consortium.node_connection import beat_seconds_of, pins_of
from sudare.consortium.tasks.checkpoints import CheckpointStore
from sudare.consortium.tasks.relay_sum_collector import RelayedSums
from sudare.consortium.tasks.sum_participant import SumGroup
from sudare.errors import InvalidParameter, KeyRevoked, SudareError
from sudare.files import check_unshared, make_private_folder, write_atomically
from sudare.sums.context import RELAY_NAME

_LOOK_SECONDS: Final = 0.5
# A task whose sums could not be collected, by a disk that is full or members that show one key, is taken up again after a while.
_AGAIN_SECONDS: Final = 30.0
# What a task waits for is told once it has lasted for so long.
_SETTLED_SECONDS: Final = 5.0


def relay_task_folder(state_folder: Path, agreement: Agreement, task: str) -> Path:
    """Returns the folder in which a relay keeps what it must not forget of a task's sums, and its transcripts."""
    return state_folder / "tasks" / agreement.digest[:16] / task


@dataclass
class RelayNode:
    """The relay as collector of an agreement's sums, for one life of its process."""

    agreement_path: Path
    identity: Identity
    state_folder: Path
    log: EventLog
    tell: Callable[[str], None] = lambda text: None
    clock: Callable[[], float] = time.monotonic
    tasks: dict[str, RelayedSums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.agreement = Agreement.load(self.agreement_path)
        if not self.agreement.relay_collects:
            raise InvalidParameter(
                "The agreement does not let the relay collect sums.",
                'Run the relay without --agreement, or agree on [sums] collector = "relay".',
            )
        self._known = kept_path(self.state_folder / "agreements", self.agreement)
        self._keys = KeysInForce(self.agreement, self.agreement_path, Statements.load(self._known))
        own = self.identity.public_key
        check_is_key_of(self.agreement, self._keys.statements, RELAY_NAME, own)
        make_private_folder(self.state_folder)
        check_unshared(self.state_folder, "The state folder")
        self._remember_statements()
        self._sum_keys = self.identity.member_keys(bytes.fromhex(self.agreement.digest))
        pins = pins_of(self.agreement, self._keys.keys)
        session = Session(RELAY_NAME, self.identity, self._sum_keys.public, pins, beat_seconds_of(self.agreement))
        self.dispatcher = MessageDispatcher(session, [task.name for task in self.agreement.tasks if task.has_sums])
        self._looked_at, self._failed_at = float("-inf"), dict[str, float]()
        self._situations: dict[str, tuple[str, float]] = {}
        self._told: dict[str, str] = {}
        self._told_versions: set[str] = set()
        self.log.write("started", agreement=self.agreement.digest, version=version("sudare"), process=os.getpid())

    @property
    def introduction(self) -> str:
        """What this relay does, for whoever started it."""
        agreement = self.agreement
        tasks = ", ".join(task.name for task in agreement.tasks if task.has_sums) or "none yet"
        return (
            f"collects the sums of {agreement.name} ({agreement.digest[:12]}): tasks {tasks}; {agreement.threshold} of {len(agreement.members)} members are needed to "
            f"the end of each. It learns their totals. What it must not forget is in {self.state_folder}."
        )

    def run(self, transport: Transport, until: Callable[[], bool]) -> None:
        """Collect until the condition holds, or a key no longer counts. Members are not told: who is restarted at once was not away."""
        try:
            drive(self.dispatcher, transport, lambda: until() or self._poll(), clock=self.clock)
        finally:
            self.log.write("stopped")

    def health(self) -> dict[str, Any]:
        """Names and counts; no data."""
        return {
            "agreement": self.agreement.digest[:12],
            "sums": {task: each.iteration + 1 for task, each in list(self.tasks.items())},
            "held_bytes": self.dispatcher.held_bytes,
        }

    def _poll(self) -> bool:
        """Take up tasks that members speak of, and those that failed again. True once a key no longer counts."""
        now = self.clock()
        for task in self.dispatcher.wanted(self.agreement.member_names):
            self._start(task, now)
        if now - self._looked_at < _LOOK_SECONDS:
            return False
        self._looked_at = now
        for task, failed_at in list(self._failed_at.items()):
            if now - failed_at >= _AGAIN_SECONDS:
                del self._failed_at[task]
                self._start(task, now)
        for task, activity in self.tasks.items():
            if activity.failure is not None and task not in self._failed_at:
                self._failed_at[task] = now
                self.log.write("task-failed", task=task, error=type(activity.failure).__name__)
                self.tell(
                    f"sums of task '{task}' are not collected: {activity.failure} This is tried again every {_AGAIN_SECONDS:g} seconds."
                )
        self._tell_situations(now)
        return self._is_over()

    def _tell_situations(self, now: float) -> None:
        """Say where each task stands once that has lasted, and what came up."""
        present = self.dispatcher.session.present(now, self.agreement.deadlines.round_seconds)
        for text in set(self.dispatcher.session.other_versions().values()) - self._told_versions:
            self._told_versions.add(text)
            self.tell(text)
        for task, activity in self.tasks.items():
            for notice in activity.notices():
                self.tell(f"{task}: {notice}")
            if activity.failure is not None:
                continue
            situation = activity.situation(present)
            before, since = self._situations.get(task, ("", now))
            self._situations[task] = situation, since if situation == before else now
            if situation == before and now - since >= _SETTLED_SECONDS and self._told.get(task) != situation:
                self._told[task] = situation
                self.tell(f"{task}: {situation}")

    def _start(self, task: str, now: float) -> None:
        """Take part in the sums of a task, as far as its store says."""
        agreement = self.agreement
        counts = agreement.threshold, agreement.dishonest
        who = agreement.digest, agreement.member_names, RELAY_NAME, self._sum_keys
        group = SumGroup(*who, *counts, relay_collects=True, signed=self._keys.for_sums)
        store = CheckpointStore(relay_task_folder(self.state_folder, agreement, task))
        known = self.dispatcher.session.known_publics
        self.tasks[task] = RelayedSums(task, group, store, known, agreement.deadlines.round_seconds)
        self.dispatcher.start(self.tasks[task], now)
        self.log.write("task-started", task=task)
        self.tell(f"collecting the sums of task '{task}'")

    def _is_over(self) -> bool:
        """Whether a key no longer counts; a revoked key counts no more for a running relay, either, nor for one that is started again."""
        seen = self._keys.statements
        try:
            if self._keys.have_changed():
                self.tell("a key was rotated: start the relay again, so that it takes the new one")
        except KeyRevoked as error:
            self.tell(f"nothing is collected any more: {error}")
            return True
        except SudareError as error:
            self.tell(f"the statements beside the agreement cannot be used: {type(error).__name__}: {error}")
        finally:
            if self._keys.statements is not seen:
                self._remember_statements()
        return False

    def _remember_statements(self) -> None:
        """Keep what was seen of statements, as far as there is room: it counts on, whatever the file beside the agreement forgets."""
        known = Statements.load(self._known)
        kept = statements_to_keep(
            known, self._keys.statements, self.agreement, earlier_versions(self.agreement, self.agreement_path)
        )
        with contextlib.suppress(OSError):
            if kept != known:
                make_private_folder(self._known.parent)
                write_atomically(statements_path(self._known), kept.to_toml().encode())
