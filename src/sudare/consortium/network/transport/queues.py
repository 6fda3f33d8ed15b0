"""Bounded queues for several senders: a limit for each and one for all, and no sender can crowd out another."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
# What keeping an item costs beside its own bytes.
_OVERHEAD_BYTES: Final = 512


@dataclass(frozen=True)
class Limits:
    """How much may wait: items and bytes of one sender, and bytes of all senders together."""

    most_items: int
    most_bytes: int
    most_total_bytes: int
    most_senders: int = 1024


class SenderQuotas(Generic[Key]):
    """Which keys are kept for which sender, how many bytes they take, and which must go when a limit is passed.

    Over its own limits a sender loses its oldest. Over the limit of all, whoever has most loses its oldest: with n senders nobody that
    keeps less than an n-th of all loses anything to the others.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: dict[str, dict[Key, int]] = {}
        self._bytes: dict[str, int] = {}
        self._total_bytes = 0

    @property
    def total_bytes(self) -> int:
        """Bytes of all that is kept."""
        return self._total_bytes

    def add(self, sender: str, key: Key, size: int) -> list[tuple[str, Key]]:
        """Keep a new key. Returns the keys that must go for it, with their senders; the new one may be among them."""
        limits, size = self._limits, size + _OVERHEAD_BYTES
        if size > limits.most_bytes or (sender not in self._kept and len(self._kept) >= limits.most_senders):
            return [(sender, key)]
        self._kept.setdefault(sender, {})[key] = size
        self._bytes[sender] = self._bytes.get(sender, 0) + size
        self._total_bytes += size
        gone = []
        while len(self._kept[sender]) > limits.most_items or self._bytes[sender] > limits.most_bytes:
            gone.append(self._oldest_of(sender))
        while self._total_bytes > limits.most_total_bytes:
            # Of several that have most, the one that asks for more.
            most = max(self._bytes, key=lambda name: (self._bytes[name], name == sender))
            gone.append(self._oldest_of(most))
        for name in {sender, *(name for name, _ in gone)}:
            self._forget_if_empty(name)
        return gone

    def remove(self, sender: str, key: Key) -> None:
        """Forget a key that is kept; one that is not changes nothing."""
        if key in self._kept.get(sender, {}):
            self._take(sender, key)
            self._forget_if_empty(sender)

    def _oldest_of(self, sender: str) -> tuple[str, Key]:
        key = next(iter(self._kept[sender]))
        self._take(sender, key)
        return sender, key

    def _take(self, sender: str, key: Key) -> None:
        size = self._kept[sender].pop(key)
        self._bytes[sender] -= size
        self._total_bytes -= size

    def _forget_if_empty(self, sender: str) -> None:
        if sender in self._kept and not self._kept[sender]:
            del self._kept[sender], self._bytes[sender]


class FairQueue(Generic[Item]):
    """A queue between threads in which senders take turns, each in its own order."""

    def __init__(self, limits: Limits) -> None:
        self._quotas: SenderQuotas[int] = SenderQuotas(limits)
        self._items: dict[str, dict[int, Item]] = {}
        self._counter = 0
        self._changed = threading.Condition()

    def put(self, sender: str, item: Item, size: int) -> list[str]:
        """Queue an item. Returns the senders of the items that were dropped for it."""
        with self._changed:
            self._counter += 1
            key = self._counter
            self._items.setdefault(sender, {})[key] = item
            gone = self._quotas.add(sender, key, size)
            for name, each in gone:
                self._taken(name, each)
            self._changed.notify()
            return [name for name, _ in gone]

    def get(self, timeout_seconds: float) -> Item | None:
        """The next item, or None if none comes in time."""
        with self._changed:
            end = time.monotonic() + timeout_seconds
            while not self._items:
                left = end - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            if not self._items:
                return None
            sender = next(iter(self._items))
            key = next(iter(self._items[sender]))
            self._quotas.remove(sender, key)
            item = self._taken(sender, key)
            if sender in self._items:
                # The others come first now.
                self._items[sender] = self._items.pop(sender)
            return item

    def __len__(self) -> int:
        """How many items wait."""
        with self._changed:
            return sum(map(len, self._items.values()))

    def _taken(self, sender: str, key: int) -> Item:
        item = self._items[sender].pop(key)
        if not self._items[sender]:
            del self._items[sender]
        return item
