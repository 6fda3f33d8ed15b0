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
from collections.abc import Callable, Mapping, Set
from typing import Final, TextIO

from sudare.consortium.agreement.document_fields import NAME
from sudare.errors import InvalidParameter, every_error

_DIGEST: Final = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}")
_VERSION: Final = re.compile(r"[0-9][0-9a-z.+]{0,31}")
_LARGEST_WHOLE: Final = 2**53

EVENTS: Final[frozenset[str]] = frozenset(
    {
        "started",
        "stopped",
        "connected",
        "disconnected",
        "task-requested",
        "task-approved",
        "task-denied",
        "task-started",
        "task-finished",
        "task-failed",
        "message-dropped",
        "release-withdrawn",
    }
)


def _is_text_like(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: type(value) is str and pattern.fullmatch(value) is not None


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < _LARGEST_WHOLE


Fields = Mapping[str, Callable[[object], bool]]
FIELDS: Final[Fields] = {
    **dict.fromkeys(("kind", "peer", "task"), _is_text_like(NAME)),
    **dict.fromkeys(("count", "process", "round"), _is_whole),
    "agreement": _is_text_like(_DIGEST),
    "error": lambda value: type(value) is str and value in {error.__name__ for error in every_error()},
    "seconds": lambda value: type(value) is float and math.isfinite(value) and value >= 0,
    "version": _is_text_like(_VERSION),
}


class EventLog:
    """Writes events of one member to a stream, one line each, and nothing but what the lists allow."""

    def __init__(self, stream: TextIO, member: str) -> None:
        if not _is_text_like(NAME)(member):
            raise InvalidParameter("A log belongs to a member.", "Give the member's name.")
        self._stream = stream
        self._member = member
        self._lock = threading.Lock()

    def write(self, event: str, **fields: str | int | float) -> None:
        """One line. The text of an error is never logged, only the name of its class."""
        line = line_of(self._member, event, fields, datetime.datetime.now(datetime.UTC))
        with self._lock:
            self._stream.write(line)
            self._stream.flush()


def line_of(
    member: str,
    event: str,
    fields: Mapping[str, str | int | float],
    time: datetime.datetime,
    listed_events: Set[str] = EVENTS,
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
