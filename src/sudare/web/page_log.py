"""The page's log: one JSON object a line, in the form of a node's log, made of listed events and fields only.

Names of users, of pages and of errors, counts and seconds; no addresses that were asked for, no texts, no data.
"""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Mapping
from typing import Final, TextIO

from sudare.consortium.event_log import FIELDS as NODE_FIELDS
from sudare.consortium.event_log import Fields, line_of

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")

EVENTS: Final[frozenset[str]] = frozenset(
    {
        "started",
        "stopped",
        "signed-in",
        "signed-out",
        "sign-in-refused",
        "refused",
        "failed",
        "budget-raised",
        "account-opened",
        "account-closed",
        "schema-saved",
        "file-verified",
        "request-asked",
        "request-changed",
        "request-approved",
        "request-denied",
        "job-started",
        "job-failed",
        "task-approved",
        "task-denied",
        "not-written",
    }
)
FIELDS: Final[Fields] = {
    **{name: NODE_FIELDS[name] for name in ("count", "error", "kind", "process", "seconds", "version")},
    "user": lambda value: type(value) is str and 0 < len(value) <= 63 and value.isprintable(),
    "place": lambda value: type(value) is str and _WORD.fullmatch(value) is not None,
    "request": lambda value: type(value) is str and _WORD.fullmatch(f"_{value}") is not None,
}


class PageLog:
    """Writes events of a page to a stream, one line each; to None it writes nothing.

    A disk that is full stops nobody: lines that could not be written are counted, and the count is written once there is room.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lost = 0
        self._lock = threading.Lock()

    def write(self, event: str, **fields: str | int | float) -> None:
        """One line. The text of an error is never logged, only the name of its class."""
        line = _line(event, fields)
        if self._stream is None:
            return
        with self._lock:
            if self._lost and self._is_written(
                self._stream, _line("not-written", {"kind": "log", "count": self._lost})
            ):
                self._lost = 0
            self._lost += not self._is_written(self._stream, line)

    @staticmethod
    def _is_written(stream: TextIO, line: str) -> bool:
        try:
            stream.write(line)
            stream.flush()
        except OSError:
            return False
        return True


def _line(event: str, fields: Mapping[str, str | int | float]) -> str:
    return line_of("page", event, fields, datetime.datetime.now(datetime.UTC), EVENTS, FIELDS)
