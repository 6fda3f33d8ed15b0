"""What members say to all others, as a relay keeps it and passes it on: the last of each, several at once, and unread.

A relay vouches for nothing here. Announcements are signed by members, and whoever hears of one checks that. All that a relay does is to send each
member one bulletin for many announcements. It keeps two of each member: the last hello, and the last of the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from sudare.consortium.agreement.document_fields import NAME
from sudare.consortium.network.transport.base import Announcement

MOST_ANNOUNCEMENT_BYTES: Final = 1 << 15
MOST_BULLETIN_BYTES: Final = 1 << 20
# Before an announcement: whether it is a hello, and how long it may be kept, in tenths of a second.
_POSTED: Final = struct.Struct("<BB")
_LONGEST_WAIT: Final = 255
# Before each in a bulletin: bytes of the name, bytes of the announcement.
_ENTRY: Final = struct.Struct("<BH")
_LEAST_WAIT_SECONDS: Final = 0.1
# Whatever a member says of haste, what it says is passed on once a second at most.
_INTERVAL_SECONDS: Final = 1.0
# A bulletin of more announcements is the same bytes for all who have heard of the same, and has a member's own in it, which it passes over: with S
# members that start at once a relay would hold S of them, of S hellos each, that name S lives.
_MOST_OF_ITS_OWN: Final = 64


def posted(announcement: Announcement) -> bytes:
    """An announcement as a member hands it to the relay."""
    tenths = min(max(round(announcement.within_seconds * 10), 0), _LONGEST_WAIT)
    return _POSTED.pack(announcement.is_hello, tenths) + announcement.content


def announcements_in(bulletin: bytes | memoryview) -> Iterator[tuple[str, bytes]]:
    """Who is said to have said what. What is no bulletin ends it."""
    content, at = bytes(bulletin), 0
    while at + _ENTRY.size <= len(content):
        name_bytes, size = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        name, said = content[at : at + name_bytes], content[at + name_bytes : at + name_bytes + size]
        at += name_bytes + size
        text = name.decode("ascii", "replace")
        if at > len(content) or NAME.fullmatch(text) is None:
            return
        yield text, said


@dataclass
class _Entry:
    content: bytes
    number: int
    due: float


@dataclass
class AnnouncementBoard:
    """The last announcements, and which of them each member was sent."""

    _entries: dict[tuple[str, bool], _Entry] = field(default_factory=dict)
    _sent: dict[str, int] = field(default_factory=dict)
    _passed_on_at: dict[str, float] = field(default_factory=dict)
    _number: int = 0

    def put(self, sender: str, content: bytes, now: float) -> bool:
        """Keep what a member said last. False if it cannot be an announcement."""
        if not _POSTED.size < len(content) <= MOST_ANNOUNCEMENT_BYTES:
            return False
        is_hello, tenths = _POSTED.unpack_from(content)
        self._number += 1
        earliest = self._passed_on_at.get(sender, float("-inf")) + _INTERVAL_SECONDS
        due = max(now + max(tenths / 10.0, _LEAST_WAIT_SECONDS), earliest)
        self._entries[sender, bool(is_hello)] = _Entry(content[_POSTED.size :], self._number, due)
        return True

    def next_due(self) -> float:
        """When a bulletin is due; infinite where all was passed on."""
        heard_by_all = min(self._sent.values(), default=0)
        return min((entry.due for entry in self._entries.values() if entry.number > heard_by_all), default=float("inf"))

    def due(self, connected: Collection[str], now: float) -> list[tuple[str, bytes]]:
        """Bulletins to be sent now, each with its receiver. What those said who are gone is passed on, and then forgotten."""
        self._sent = {name: self._sent.get(name, 0) for name in connected}
        bulletins = []
        shared: dict[int, list[bytes]] = {}
        for receiver, sent in self._sent.items():
            unsent = [key for key, entry in self._entries.items() if entry.number > sent]
            if any(self._entries[key].due <= now for key in unsent):
                self._sent[receiver] = self._number
                self._passed_on_at.update({sender: now for sender, _ in unsent})
                if len(unsent) <= _MOST_OF_ITS_OWN:
                    contents = list(self._bulletins([key for key in unsent if key[0] != receiver]))
                else:
                    contents = shared[sent] = shared.get(sent) or list(self._bulletins(unsent))
                bulletins += [(receiver, content) for content in contents]
        passed_on = min(self._sent.values(), default=self._number)
        self._entries = {
            key: entry for key, entry in self._entries.items() if key[0] in self._sent or entry.number > passed_on
        }
        said = {sender for sender, _ in self._entries}
        self._passed_on_at = {name: at for name, at in self._passed_on_at.items() if name in said}
        return bulletins

    def _bulletins(self, keys: list[tuple[str, bool]]) -> Iterator[bytes]:
        """Hellos before what follows from them, and no more in one than a member takes."""
        written = bytearray()
        for sender, is_hello in sorted(keys, key=lambda key: not key[1]):
            name, content = sender.encode(), self._entries[sender, is_hello].content
            if len(written) + _ENTRY.size + len(name) + len(content) > MOST_BULLETIN_BYTES:
                yield bytes(written)
                written.clear()
            written += _ENTRY.pack(len(name), len(content)) + name + content
        if written:
            yield bytes(written)
