"""Where a task keeps what it must not forget: small named contents, each replaced whole or not at all."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from sudare.errors import ConsortiumError, InvalidParameter
from sudare.files import FileLock, make_private_folder, write_atomically

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_LOCK: Final = ".lock"


class CheckpointStore:
    """The checkpoints of one task, as files that only their owner can read. They hold addends and shares: keep them like a key."""

    def __init__(self, folder: Path, lock: FileLock | None = None) -> None:
        make_private_folder(folder)
        self._folder, self._lock, self._is_open_elsewhere = folder, lock, False

    def opened_alone(self) -> CheckpointStore:
        """The same store for one that runs with it, so that no two do.

        Whoever opened it so before in this process can save nothing more: what it has saved is what the new one finds. Raise InvalidParameter where
        another process has it open.
        """
        with _opening:
            lock = FileLock(self._folder / _LOCK)
            earlier = _opened.get(lock.place)
            if earlier is not None and earlier._lock is not None and earlier._lock.is_held:
                lock, earlier._is_open_elsewhere = earlier._lock, True
            elif not lock.take():
                raise _open_elsewhere()
            opened = CheckpointStore(self._folder, lock)
            _opened[lock.place] = opened
            return opened

    def save(self, name: str, content: bytes) -> None:
        """Replace the content of a name; durable when this returns. Raise InvalidParameter where it was opened alone and is no longer."""
        with _opening:
            if self._lock is not None and (self._is_open_elsewhere or not self._lock.is_held):
                raise _open_elsewhere()
            try:
                write_atomically(self._path(name), content)
            except OSError as error:
                raise ConsortiumError(
                    f"The state folder cannot be written ({error.strerror}), so nothing more is sent in this task.",
                    "Make room, then run the task again: it goes on where it was, and nothing is paid twice.",
                ) from None

    def load(self, name: str) -> bytes | None:
        """The content saved last, or None."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """All names that have a content; not those of files that were never finished."""
        return [path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name)]

    def discard(self, name: str) -> None:
        """Forget the content of a name, if it has one."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidParameter(f"'{name}' cannot be the name of a checkpoint.", "Use small letters and figures.")
        return self._folder / name


_opened: WeakValueDictionary[tuple[int, int], CheckpointStore] = WeakValueDictionary()
_opening: Final = threading.Lock()


def _open_elsewhere() -> InvalidParameter:
    return InvalidParameter(
        "Another run of this task has its state folder open.", "Let it finish, or stop it, and start this one again."
    )
