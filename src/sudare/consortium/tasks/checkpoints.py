"""Where a task keeps what it must not forget: small named contents, each replaced whole or not at all.

A file is an envelope with its version, and a digest of name and content: one that was damaged since is told as that, and nothing is computed with it.
Earlier versions of sudare wrote the content alone, which is still read.
"""

from __future__ import annotations

import hashlib
import re
import threading
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from sudare.errors import ConsortiumError, InvalidParameter, StateDamaged
from sudare.files import FileLock, make_private_folder, set_aside, write_atomically

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_LOCK: Final = ".lock"
_MAGIC: Final = b"sudare checkpoint 1\n"
_DIGEST_BYTES: Final = 32
# Begins with a dot: no name of a checkpoint does.
_DAMAGED: Final = ".damaged"


class CheckpointStore:
    """The checkpoints of one task, as files that only their owner can read. They hold addends and shares: keep them like a key."""

    def __init__(self, folder: Path, lock: FileLock | None = None) -> None:
        make_private_folder(folder)
        self._folder, self._lock, self._is_open_elsewhere = folder, lock, False

    def opened_alone(self) -> CheckpointStore:
        """Returns the store for one that runs with it, so that no two do.

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
                write_atomically(self._path(name), enveloped(name, content))
            except OSError as error:
                raise ConsortiumError(
                    f"The state folder cannot be written ({error.strerror}), so nothing more is sent in this task.",
                    "Make room, then run the task again: it goes on where it was, and nothing is paid twice.",
                ) from None

    def load(self, name: str) -> bytes | None:
        """The content saved last, or None. Raise StateDamaged where the file is not what was saved, or cannot be read."""
        path = self._path(name)
        return content_of(path) if path.exists() or path.is_symlink() else None

    def names(self) -> list[str]:
        """All names that have a content; not those of files that were never finished."""
        return [path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name)]

    def discard(self, name: str) -> None:
        """Forget the content of a name, if it has one."""
        self._path(name).unlink(missing_ok=True)

    def set_aside(self, name: str) -> None:
        """Make room in the place of a file, or folder, that nothing depends on: it is kept in a folder beside it."""
        set_aside(self._path(name), _DAMAGED)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidParameter(f"'{name}' cannot be the name of a checkpoint.", "Use small letters and figures.")
        return self._folder / name


_opened: WeakValueDictionary[tuple[int, int], CheckpointStore] = WeakValueDictionary()
_opening: Final = threading.Lock()


def enveloped(name: str, content: bytes) -> bytes:
    """The bytes of a checkpoint's file."""
    return _MAGIC + _digest(name, content) + content


def content_of(path: Path) -> bytes:
    """What a checkpoint's file holds. Raise StateDamaged where it cannot be read, or is not as it was written."""
    try:
        found = path.read_bytes()
    except OSError as error:
        raise StateDamaged(
            f"The file '{path.name}' of this task's state cannot be read ({error.strerror}).", StateDamaged.help
        ) from None
    if not _is_enveloped(found):
        return found
    start = len(_MAGIC) + _DIGEST_BYTES
    content = found[start:]
    if found[:start] != _MAGIC + _digest(path.name, content):
        raise damaged(path.name)
    return content


def damaged(name: str) -> StateDamaged:
    """The error where a checkpoint is not what was saved."""
    return StateDamaged(
        f"The file '{name}' of this task's state is damaged: it is not what this node wrote.", StateDamaged.help
    )


def _is_enveloped(found: bytes) -> bool:
    """Whether a file was written as an envelope, also where its beginning was damaged or it was cut off. What earlier versions wrote has nothing of it."""
    begins = found[: len(_MAGIC)]
    same = sum(one == other for one, other in zip(begins, _MAGIC, strict=False))
    return 2 * same >= len(begins)


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + content).digest()


def _open_elsewhere() -> InvalidParameter:
    return InvalidParameter(
        "Another run of this task has its state folder open.", "Let it finish, or stop it, and start this one again."
    )
