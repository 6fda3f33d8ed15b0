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
# What stands in the place of a member's release once that was taken back.
WITHDRAWN: Final = b"withdrawn"


class CheckpointStore:
    """The checkpoints of one task, as files that only their owner can read. They hold addends and shares: keep them like a key."""

    def __init__(self, folder: Path, hold: _Hold | None = None) -> None:
        make_private_folder(folder)
        self._folder, self._hold = folder, hold
        self._turn = 0 if hold is None else hold.turns

    def opened_alone(self) -> CheckpointStore:
        """Returns the store for one that runs with it, so that no two do.

        Whoever opened it so before in this process can save nothing more: what it has saved is what the new one finds. Raise InvalidParameter where
        another process has it open.
        """
        with _opening:
            lock = FileLock(self._folder / _LOCK)
            hold = _holds.get(lock.place)
            if hold is None or not hold.lock.is_held:
                if not lock.take():
                    raise _open_elsewhere()
                hold = _holds[lock.place] = _Hold(lock)
            hold.turns += 1
            return CheckpointStore(self._folder, hold)

    def save(self, name: str, content: bytes) -> None:
        """Replace the content of a name; durable when this returns. Raise InvalidParameter where it was opened alone and is no longer."""
        with _opening:
            hold = self._hold
            if hold is not None and (self._turn != hold.turns or not hold.lock.is_held):
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

    def holds(self, name: str, content: bytes) -> bool:
        """Whether this is the content of a name. A file that is larger is not read."""
        path = self._path(name)
        sizes = len(content), len(enveloped(name, content))
        return path.is_file() and path.stat().st_size in sizes and self.load(name) == content

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


class _Hold:
    """The lock of a folder in this process, as long as any store that opened it alone is left, whichever; the last of so many turns is the one that saves."""

    def __init__(self, lock: FileLock) -> None:
        self.lock, self.turns = lock, 0


_holds: WeakValueDictionary[tuple[int, int], _Hold] = WeakValueDictionary()
_opening: Final = threading.Lock()


def place_of_release(member: str) -> str:
    """The name under which the release of a member is kept."""
    return f"release-{member}"


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
