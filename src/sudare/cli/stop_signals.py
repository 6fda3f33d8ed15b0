"""SIGTERM and Ctrl-C for commands that stay: a flag, which their loops look at where they can stop.

Python raises the exception of a signal handler wherever the main thread happens to be. In a callback of the garbage collector it is dropped, and
between taking a lock and the block that lets go of it the lock is held for ever: in both cases the process would go on.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Final, Self

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS: Final = 0.5


class StopSignals:
    """Whether this process was told to stop, from `with` to its end. A second signal raises KeyboardInterrupt at once, for somebody in a hurry.

    Service managers and containers send SIGTERM, and in a container nothing at all would happen without a handler. Outside of the main thread,
    which alone can have handlers, nothing is changed.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._is_prompting = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._take) for number in _NUMBERS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if the process was told to stop."""
        if self.is_requested:
            raise KeyboardInterrupt

    def wait(self) -> None:
        """Return once the process was told to stop."""
        while not self.is_requested:
            time.sleep(_LOOK_SECONDS)

    @contextlib.contextmanager
    def prompting(self) -> Iterator[None]:
        """While a person is asked for something, the first signal raises KeyboardInterrupt at once."""
        self._is_prompting = True
        try:
            yield
        finally:
            self._is_prompting = False
        self.check()

    def _take(self, number: int, frame: FrameType | None) -> None:
        raises = self.is_requested or self._is_prompting
        self.is_requested = True
        if raises:
            raise KeyboardInterrupt
