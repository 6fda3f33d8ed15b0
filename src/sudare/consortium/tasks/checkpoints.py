"""Where a task keeps what it must not forget: small named contents, each replaced whole or not at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sudare.errors import InvalidParameter
from sudare.files import make_private_folder, write_atomically

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")


class CheckpointStore:
    """The checkpoints of one task, as files that only their owner can read. They hold addends and shares: keep them like a key."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._folder = folder

    def save(self, name: str, content: bytes) -> None:
        """Replace the content of a name; durable when this returns."""
        write_atomically(self._path(name), content)

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
