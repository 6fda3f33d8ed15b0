"""Whether a node's main loop still goes round, and whether another process holds its ledger: for the health endpoint, and in words for its owner.

The loop asks the ledger for a short time only, and tasks for a little longer: whoever holds it (a backup, a program that has the file open) keeps tasks
waiting, and not the others without a word from this member.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.event_log import EventLog
from sudare.errors import LedgerBusy, SudareError

# A loop that has not turned for longer, and a ledger that was held for longer, is a fault: the health endpoint answers with 503.
UNHEALTHY_SECONDS: Final = 30.0
# How long the loop waits for the ledger between two looks, and how long a step of a task does.
LOOP_LEDGER_SECONDS: Final = 2.0
TASK_LEDGER_SECONDS: Final = 10.0
_ASK_AGAIN_SECONDS: Final = 5.0


@dataclass
class LoopWatch:
    """When the loop last turned, and since when another process holds the ledger. `now` is a time of `clock`, in seconds."""

    member: Member
    log: EventLog
    tell: Callable[[str], None]
    clock: Callable[[], float]
    turned_at: float = field(init=False)
    held_since: float | None = None
    _asks_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.turned_at = self.clock()

    def turn(self, now: float) -> None:
        """The loop came round."""
        self.turned_at = now

    def may_ask_ledger(self, now: float) -> bool:
        """Whether the ledger is to be asked: not at once again where it was held."""
        return now >= self._asks_at

    def note_held(self) -> None:
        """The ledger could not be had in time."""
        now = self.clock()
        self._asks_at = now + _ASK_AGAIN_SECONDS
        if self.held_since is None:
            self.held_since = now
            self.log.write("ledger-held")
            self.tell(
                "another process holds the ledger: tasks wait until it lets go; look which program has the file open (a backup, a shell, a scanner) and end it"
            )

    def look(self) -> None:
        """See whether a ledger that was held can be had again."""
        if self.held_since is not None and is_held(self.member):
            self._asks_at = self.clock() + _ASK_AGAIN_SECONDS
        else:
            self.note_reached()

    def note_reached(self) -> None:
        """The ledger answered."""
        if self.held_since is not None:
            self.held_since = None
            self.log.write("ledger-free")
            self.tell("the ledger can be used again")

    def seconds_since_turn(self) -> float:
        """How long ago the loop last came round."""
        return max(self.clock() - self.turned_at, 0.0)

    def problem(self) -> str | None:
        """What keeps the node from working, with what to do; None where nothing does."""
        still, held_since = self.seconds_since_turn(), self.held_since
        if still > UNHEALTHY_SECONDS:
            what = f"the loop has not turned for {still:.0f} s"
            if is_held(self.member):
                return f"{what}, and another process holds the ledger: look which program has the file open and end it"
            return f"{what}: see the log; if it does not come round, start the node again, nothing is lost by it"
        held = 0.0 if held_since is None else self.clock() - held_since
        if held > UNHEALTHY_SECONDS:
            return f"another process has held the ledger for {held:.0f} s and tasks wait for it: look which program has the file open and end it"
        return None


def is_held(member: Member) -> bool:
    """Whether another process holds the member's ledger at this moment."""
    try:
        replace(member, ledger_wait_seconds=0.0).ledger(create=False).head()
    except LedgerBusy:
        return True
    except SudareError:
        return False
    return False
