"""Structured logs without data: one JSON object a line, made of listed events and listed fields of listed kinds only.

A field takes a name, a word, a whole number, seconds or a digest. There is no field for free text, no number with a
fraction but seconds, and no way to hand in an object: what is not on the lists is refused where it is written.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from sudare.consortium.agreement.document_fields import NAME
from sudare.errors import InvalidParameter, every_error

_DIGEST: Final = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}")
_VERSION: Final = re.compile(r"[0-9][0-9a-z.+]{0,31}")
_LARGEST_WHOLE: Final = 2**53

# Each event with the fields that it may have. What each of them means stands in docs/operations.md, which a test compares with this list.
EVENTS: Final[Mapping[str, frozenset[str]]] = {
    event: frozenset(fields)
    for event, fields in {
        "started": ("agreement", "version", "process"),
        "stopped": (),
        "connected": ("peer",),
        "disconnected": ("peer", "kind"),
        "relay-reached": (),
        "relay-lost": (),
        "ledger-held": (),
        "ledger-free": (),
        "member-doubled": ("peer",),
        "key-revoked": ("peer",),
        "version-refused": ("agreement", "error"),
        "message-dropped": ("peer", "kind", "count"),
        "task-requested": ("task",),
        "task-waits": ("task",),
        "task-approved": ("task",),
        "task-denied": ("task",),
        "task-started": ("task", "kind"),
        "task-finished": ("task", "round", "seconds"),
        "task-failed": ("task", "error"),
        "release-withdrawn": ("task", "peer"),
        "certificate-ends": ("days",),
        "budget-low": ("percent",),
        "not-written": ("kind", "count"),
        "notification-failed": ("kind",),
        "notification-dropped": ("kind", "count"),
    }.items()
}


def _is_text_like(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: type(value) is str and pattern.fullmatch(value) is not None


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < _LARGEST_WHOLE


Fields = Mapping[str, Callable[[object], bool]]
Listener = Callable[[str, Mapping[str, str | int | float]], None]
FIELDS: Final[Fields] = {
    **dict.fromkeys(("kind", "peer", "task"), _is_text_like(NAME)),
    **dict.fromkeys(("count", "days", "percent", "process", "round"), _is_whole),
    "agreement": _is_text_like(_DIGEST),
    "error": lambda value: type(value) is str and value in {error.__name__ for error in every_error()},
    "seconds": lambda value: type(value) is float and math.isfinite(value) and value >= 0,
    "version": _is_text_like(_VERSION),
}


class Lines(Protocol):
    """Where lines are written to; a stream of text is one."""

    def write(self, text: str, /) -> object:
        """Add a text. Raise OSError where there is no room for it."""

    def flush(self) -> object:
        """What was added is there for others to read."""


class EventLog:
    """Writes events of one member to a stream, one line each, and nothing but what the lists allow.

    A disk that is full stops nobody: lines that could not be written are counted, and the count is written once there is room.
    `listeners` are told of every event as well.
    """

    def __init__(self, stream: Lines, member: str, listeners: Iterable[Listener] = ()) -> None:
        if not _is_text_like(NAME)(member):
            raise InvalidParameter("A log belongs to a member.", "Give the member's name.")
        self._stream, self._member, self._listeners = stream, member, tuple(listeners)
        self._lost = 0
        self._lock = threading.Lock()

    def write(self, event: str, **fields: str | int | float) -> None:
        """One line. The text of an error is never logged, only the name of its class."""
        line = self._line(event, fields)
        with self._lock:
            if self._lost and self._append(self._line("not-written", {"kind": "log", "count": self._lost})):
                self._lost = 0
            self._lost += not self._append(line)
        for listener in self._listeners:
            listener(event, fields)

    def _line(self, event: str, fields: Mapping[str, str | int | float]) -> str:
        line = line_of(self._member, event, fields, datetime.datetime.now(datetime.UTC))
        if not fields.keys() <= EVENTS[event]:
            raise InvalidParameter(
                f"The event `{event}` has no such field.", f"Fields of this event: {', '.join(sorted(EVENTS[event]))}."
            )
        return line

    def _append(self, line: str) -> bool:
        """Whether the line could be written."""
        try:
            self._stream.write(line)
            self._stream.flush()
        except OSError:
            return False
        return True


def line_of(
    member: str,
    event: str,
    fields: Mapping[str, str | int | float],
    time: datetime.datetime,
    listed_events: Collection[str] = EVENTS,
    listed_fields: Fields = FIELDS,
) -> str:
    """The line for an event, if event and fields are listed and every value is of its field's kind."""
    if event not in listed_events:
        raise InvalidParameter("No event of that name is logged.", f"Use one of {', '.join(sorted(listed_events))}.")
    for name, value in fields.items():
        # The value itself is not shown: keeping it out is what this is for.
        if name not in listed_fields or not listed_fields[name](value):
            raise InvalidParameter(
                f"A log has no field `{name if name in listed_fields else '…'}` with such a value.",
                f"Log only: {', '.join(listed_fields)}.",
            )
    record = {"time": time.isoformat(timespec="milliseconds"), "member": member, "event": event, **fields}
    return json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n"
