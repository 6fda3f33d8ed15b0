"""Ball arithmetic at a working precision that no other thread changes: flint keeps one precision for the whole process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Final

from flint import ctx

_PROCESS: Final = SimpleNamespace(lock=threading.RLock())
# In a forked process the thread that held the lock does not exist.
os.register_at_fork(after_in_child=lambda: setattr(_PROCESS, "lock", threading.RLock()))


@contextmanager
def ball_precision(bits: int) -> Iterator[None]:
    """Ball arithmetic with so many bits. Other threads wait, so that none computes with a precision that it did not ask for."""
    with _PROCESS.lock, ctx.workprec(bits):
        yield
