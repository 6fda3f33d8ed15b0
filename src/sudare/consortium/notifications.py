"""Events told by a command of the operator's choice: mail, a chat, a pager.

The command is a list of words and is run as it stands, without a shell; nothing is put into its words. What happened is in its environment and, as
one JSON object, on its standard input: names and whole numbers of the log's vocabulary, so nothing that others choose can be more than a name.
The environment holds no passphrase: of the node's own, only what programs need to run is handed on.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

from sudare.consortium.agreement.member_settings import NotifySettings
from sudare.consortium.event_log import EventLog

_HANDED_ON: Final = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
_MOST_WAITING: Final = 64
_LAST_WORDS_SECONDS: Final = 5.0
Values = Mapping[str, str | int | float]


class Notifier:
    """Runs the command for each event that was asked for, one after the other and beside the node. `log` hears of those that failed, and how many were not told."""

    def __init__(self, settings: NotifySettings, member: str) -> None:
        self._settings, self._member = settings, member
        self._waiting: queue.Queue[tuple[str, Values] | None] = queue.Queue(_MOST_WAITING)
        self._dropped: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.log: EventLog | None = None
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
        self._thread.start()

    def hear(self, event: str, fields: Values) -> None:
        """Tell of an event soon, if it is one that was asked for. Where too many wait already it is counted, and the count is logged when the command that runs has ended."""
        if event not in self._settings.events:
            return
        try:
            self._waiting.put_nowait((event, dict(fields)))
        except queue.Full:
            self._drop(event)

    def close(self) -> None:
        """Tell what waits, for a few seconds; what waits then is logged as dropped."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(_LAST_WORDS_SECONDS)
        with contextlib.suppress(queue.Empty):
            while True:
                found = self._waiting.get_nowait()
                if found is not None:
                    self._drop(found[0])
        # The thread ends once the command that it runs has.
        self._waiting.put_nowait(None)
        self._log_dropped()

    def _run(self) -> None:
        while (found := self._waiting.get()) is not None:
            event, fields = found
            if not run_command(self._settings, self._member, event, fields) and self.log is not None:
                self.log.write("notification-failed", kind=event)
            self._log_dropped()

    def _drop(self, event: str) -> None:
        with self._lock:
            self._dropped[event] += 1

    def _log_dropped(self) -> None:
        """Write how many events of each kind were not told since this was last written."""
        with self._lock:
            dropped, self._dropped = self._dropped, Counter()
        if self.log is not None:
            for event, count in sorted(dropped.items()):
                self.log.write("notification-dropped", kind=event, count=count)


def run_command(settings: NotifySettings, member: str, event: str, fields: Values) -> bool:
    """Whether the command ended well in time. One that does not is killed, with what it has started in its process group; a child that has begun a session of its own is not."""
    values = {"member": member, "event": event, **fields}
    environment = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
    environment |= {f"SUDARE_{name.upper()}": str(value) for name, value in values.items()}
    nowhere = subprocess.DEVNULL
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own words, and no shell
            settings.command,
            stdin=subprocess.PIPE,
            stdout=nowhere,
            stderr=nowhere,
            env=environment,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        process.communicate(f"{json.dumps(values)}\n".encode(), settings.timeout_seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode == 0
