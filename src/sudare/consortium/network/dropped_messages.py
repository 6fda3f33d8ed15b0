"""Messages that were dropped, counted by sender and reason. Nothing that others send makes the counters grow without limit."""

from __future__ import annotations

import threading
import traceback
from pathlib import Path
from typing import Final, Literal, get_args

from sudare.consortium.agreement.document_fields import NAME

Reason = Literal[
    "ahead",
    "bad-certificate",
    "malformed",
    "no-certificate",
    "not-admitted",
    "not-bytes",
    "other-version",
    "over-quota",
    "repeated",
    "too-large",
    "unauthentic",
    "unexpected-error",
    "unknown-sender",
    "unknown-task",
    "unsent",
]
REASONS: Final[tuple[str, ...]] = get_args(Reason)
# What an honest network does every day: resent packets, and packets of a life that has ended.
ORDINARY: Final[frozenset[str]] = frozenset({"repeated"})
UNKNOWN: Final = "unknown"
_MOST_SENDERS: Final = 1024
_MOST_PLACES: Final = 16


class Drops:
    """How many messages were dropped, by sender and reason. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._senders: set[str] = set()
        self._places: dict[str, bool] = {}

    def count(self, sender: object, reason: Reason) -> None:
        """Count a dropped message. Senders that are no names, and those beyond the first thousand, are counted as one."""
        with self._lock:
            name = sender if isinstance(sender, str) and NAME.fullmatch(sender) else UNKNOWN
            if name not in self._senders and len(self._senders) >= _MOST_SENDERS:
                name = UNKNOWN
            self._senders.add(name)
            self._counts[name, reason] = self._counts.get((name, reason), 0) + 1

    def count_error(self, sender: object, error: Exception) -> None:
        """Count a message whose handling raised what nobody planned for, and keep the place in the code for the owner."""
        self.count(sender, "unexpected-error")
        place = place_of(error)
        with self._lock:
            if len(self._places) < _MOST_PLACES:
                self._places.setdefault(place, False)

    def counts(self) -> dict[tuple[str, str], int]:
        """The counts so far, by sender and reason."""
        with self._lock:
            return dict(self._counts)

    def by_reason(self) -> dict[str, int]:
        """The counts so far, over all senders."""
        totals: dict[str, int] = {}
        for (_, reason), amount in sorted(self.counts().items()):
            totals[reason] = totals.get(reason, 0) + amount
        return totals

    @property
    def total(self) -> int:
        """All that was dropped."""
        return sum(self.counts().values())

    def new_places(self) -> list[str]:
        """Places of unplanned errors, each handed out once: a programming error, to be reported."""
        with self._lock:
            fresh = [place for place, told in self._places.items() if not told]
            self._places.update(dict.fromkeys(fresh, True))
            return fresh


class DropLines:
    """Which counts are to be logged: each sender and reason at once when it is new, and then at most once a minute."""

    def __init__(self, every_seconds: float = 60.0) -> None:
        self._every_seconds = every_seconds
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}

    def due(self, counts: dict[tuple[str, str], int], now: float) -> list[tuple[str, str, int]]:
        """Sender, reason, and how many since the last line."""
        found = []
        for (sender, reason), amount in sorted(counts.items()):
            at, before = self._logged.get((sender, reason), (float("-inf"), 0))
            if reason not in ORDINARY and amount > before and now - at >= self._every_seconds:
                self._logged[sender, reason] = now, amount
                found.append((sender, reason, amount - before))
        return found


def place_of(error: Exception) -> str:
    """Returns where an error was raised, as names of functions and numbers of lines; its text and the values are left out."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    path = " > ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__} at {path}"
