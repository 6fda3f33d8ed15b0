"""Checkpoints in memory, for tests."""

from __future__ import annotations


class MemoryStore:
    """Checkpoints that live as long as this object."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def opened_alone(self) -> MemoryStore:
        """Itself: a test that begins anew has let go of what ran before."""
        return self

    def save(self, name: str, content: bytes) -> None:
        """Remember it."""
        self.contents[name] = content

    def load(self, name: str) -> bytes | None:
        """What was remembered."""
        return self.contents.get(name)

    def names(self) -> list[str]:
        """Those that were remembered."""
        return list(self.contents)

    def discard(self, name: str) -> None:
        """Forget it."""
        self.contents.pop(name, None)
