"""One task at a node, from the first word of it to its end."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sudare.consortium.network.message_dispatch import Activity
from sudare.consortium.node_restart_on_change import OVER
from sudare.consortium.tasks.definitions import Task
from sudare.errors import SudareError

# States of a task of which nothing has begun here.
WAITING: Final = ("asked for", "waits for the steward", "waits for the ledger")


@dataclass
class TaskRun:
    """One task at this node, from the first word of it to its end."""

    task: Task
    state: str = "asked for"
    prepared: Future[Activity] | None = None
    activity: Activity | None = None
    error: SudareError | None = None
    written: Future[list[Path]] | None = None
    files: tuple[Path, ...] = ()
    began_at: float = 0.0
    ended_at: float = float("-inf")
    # How often it was taken up again, after it had stopped because of others, since it was last asked for here.
    times_resumed: int = 0
    withdrawing: bool = False
    # It was taken back here, and not all others have acknowledged that.
    is_telling_withdrawal: bool = False
    is_asked_here: bool = False
    # Why it is over, where that decides whether it is begun by itself: "cancel" here, or the "time" of a run is past.
    ended_by: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing will come of it any more, or everything has."""
        return self.state in OVER and not (self.withdrawing and self.state == "finished")

    @property
    def rounds(self) -> int:
        """Rounds of sums that have ended here."""
        iteration = int(getattr(self.activity, "iteration", 0))
        return iteration + (self.activity is not None and self.activity.finished)


def is_done(told: Mapping[str, Any]) -> bool:
    """Whether a run that the node told of is not begun by itself again: finished, denied or cancelled. That its time was over is for the clock to say anew."""
    ended_by = told.get("ended_by")
    return ended_by != "time" and (told["state"] in ("finished", "denied") or ended_by == "cancel")


def has_ended(run: TaskRun) -> bool:
    """Whether something is to be done about it at once."""
    if run.state == "writing results":
        return run.written is not None and run.written.done()
    activity = run.activity
    return run.state == "running" and activity is not None and (activity.finished or bool(activity.failure))


def round_of(run: TaskRun) -> int | None:
    """The round that a running task is in, from 1; None for tasks that have none."""
    iteration = getattr(run.activity, "iteration", None) if run.state == "running" else None
    return None if iteration is None else int(iteration) + 1
