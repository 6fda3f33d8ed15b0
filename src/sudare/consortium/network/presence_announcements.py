"""What a member tells all others at once, and when: hellos, beats and farewells, the same bytes for everybody, signed.

A hello holds the keys of this life of the member's process and names the lives that it has heard of, each by a tag. A beat says that the
member is still there. Both hold a digest of all lives that the member takes to be present. Members whose digests are the same have heard of the same
lives, so that nobody needs a longer answer: where all is well S members say S short things in a period, and not S² of them.

Nothing here talks to anybody or looks at a clock.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from sudare.consortium.agreement.identity import Identity, verifies
from sudare.consortium.network.transport.base import Announcement

HEADER: Final = struct.Struct("<4sB16s16sQ")
# Of everything that members send each other. It is raised whenever any of it changes (tests/consortium/network/test_protocol_version.py).
PROTOCOL_VERSION: Final = 3
FAMILY: Final = b"SDR"
MAGIC: Final = b"%b%d" % (FAMILY, PROTOCOL_VERSION)
HELLO, BEAT, GOODBYE = 1, 7, 6
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
LIFE_BYTES: Final = 16
TAG_BYTES: Final = 8
_MOST_TAGS: Final = 2048
_STATED_BYTES: Final = 4 * KEY_BYTES
MOST_HELLO_BYTES: Final = _STATED_BYTES + _MOST_TAGS * TAG_BYTES + SIGNATURE_BYTES
_PURPOSE: Final = "hello"
# A hello is passed on at once, or nearly: a relay may wait for others that start at the same time.
_HELLO_WITHIN_SECONDS: Final = 0.2
_BURST: Final = 4
# So many members say one hello a second together, however often something changes.
_HELLOS_A_SECOND: Final = 32.0
_FIRST_WAIT_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Greeting:
    """What a hello says of a life: its ephemeral key, the agreement as `agreement_tag` names it, and the keys for masks and votes."""

    life: bytes
    ephemeral: bytes
    agreement: bytes
    exchange: bytes
    signing: bytes


@dataclass(frozen=True)
class Heard:
    """An announcement that its sender has signed."""

    kind: int
    life: bytes
    view: bytes
    number: int
    greeting: Greeting | None
    tags: frozenset[bytes]


def tag_of(life: bytes) -> bytes:
    """What hellos call a life."""
    return life[:TAG_BYTES]


def named_tags(lives: Iterable[bytes], number: int) -> list[bytes]:
    """The tags that a hello of this number names, in their order; of more than fit, some, and others in the next hello."""
    tags = sorted(map(tag_of, lives))
    if len(tags) <= _MOST_TAGS:
        return tags
    first = number * _MOST_TAGS % len(tags)
    return sorted((tags + tags)[first : first + _MOST_TAGS])


def view_of(lives: Iterable[bytes]) -> bytes:
    """A digest of lives; the same for the same ones, in whichever order."""
    return hashlib.sha256(b"".join(sorted(lives))).digest()[:LIFE_BYTES]


def agreement_tag(agreement_digest: bytes, life: bytes) -> bytes:
    """The agreement as a hello of this life names it: whoever does not have the agreement cannot tell which it is."""
    return hashlib.sha256(b"sudare agreement\x00" + life + agreement_digest).digest()


def announcement(
    identity: Identity, name: str, kind: int, life: bytes, view: bytes, number: int, stated: bytes = b""
) -> bytes:
    """The signed bytes of a hello, beat or farewell."""
    content = HEADER.pack(MAGIC, kind, life, view, number) + stated
    return content + identity.sign(_PURPOSE, _signed_text(name, content))


def has_possible_size(kind: int, content: bytes) -> bool:
    """Whether an announcement of this kind can have so many bytes."""
    beyond = len(content) - HEADER.size - SIGNATURE_BYTES
    if kind != HELLO:
        return beyond == 0
    return beyond >= _STATED_BYTES and (beyond - _STATED_BYTES) % TAG_BYTES == 0


def heard(name: str, key: bytes, content: bytes) -> Heard | None:
    """An announcement of possible size, read; None unless this key signed it in this name."""
    signed, signature = content[:-SIGNATURE_BYTES], content[-SIGNATURE_BYTES:]
    if not verifies(key, _PURPOSE, _signed_text(name, signed), signature):
        return None
    _, kind, life, view, number = HEADER.unpack_from(content)
    if kind != HELLO:
        return Heard(kind, life, view, number, None, frozenset())
    stated, tags = signed[HEADER.size : HEADER.size + _STATED_BYTES], signed[HEADER.size + _STATED_BYTES :]
    keys = (stated[at : at + KEY_BYTES] for at in range(0, _STATED_BYTES, KEY_BYTES))
    named = frozenset(tags[at : at + TAG_BYTES] for at in range(0, len(tags), TAG_BYTES))
    return Heard(kind, life, view, number, Greeting(life, *keys), named)


def _signed_text(name: str, content: bytes) -> bytes:
    written = name.encode()
    return struct.pack("<I", len(written)) + written + content


@dataclass
class AnnouncementSchedule:
    """When a hello or a beat is due. `members` is how many there are, `beat_seconds` how often each is heard of where nothing happens.

    A hello is due when the lives that it would name have changed, at once but for a limit that all keep: a few, and from then on so many
    that all members together say a fixed number a second. While others are heard that have heard of other lives, hellos are repeated at
    intervals that double up to that of beats. What is told besides are beats. Intervals are a little different for every member and number, and the
    same in every run.
    """

    name: str
    members: int
    beat_seconds: float
    number: int = 0
    _named: frozenset[bytes] | None = None
    _said_at: float = float("-inf")
    _hello_wait: float = _FIRST_WAIT_SECONDS
    _allowance: float = float(_BURST)
    _allowance_at: float = field(default=float("-inf"))

    def kind_due(self, now: float, lives: frozenset[bytes], has_doubts: bool) -> int | None:
        """HELLO, BEAT or None. `lives` are those that a hello would name; `has_doubts` is whether others heard of other ones."""
        if now < self.next_due(lives, has_doubts):
            return None
        if lives != self._named:
            self._hello_wait = _FIRST_WAIT_SECONDS
            return HELLO
        return HELLO if has_doubts else BEAT

    def next_due(self, lives: frozenset[bytes], has_doubts: bool) -> float:
        """When something is to be said, if nothing changes until then."""
        if lives != self._named:
            missing = max(1.0 - self._allowance, 0.0)
            return self._allowance_at + missing * self.members / _HELLOS_A_SECOND if missing else float("-inf")
        wait = min(self._hello_wait, self.beat_seconds) if has_doubts else self.beat_seconds
        return self._said_at + wait * self._jitter()

    def said(self, now: float, kind: int, lives: frozenset[bytes]) -> None:
        """Count an announcement of this kind, sent at `now`: it uses the allowance, and after the same hello again the next waits twice as long."""
        passed = now - self._allowance_at
        self._allowance = min(self._allowance + passed * _HELLOS_A_SECOND / self.members, float(_BURST))
        self._allowance_at, self._said_at = now, now
        self.number += 1
        if kind == HELLO:
            self._allowance -= 1.0
            if lives == self._named:
                self._hello_wait = min(2.0 * self._hello_wait, self.beat_seconds)
            self._named = lives
        else:
            self._hello_wait = _FIRST_WAIT_SECONDS

    def within_seconds(self, kind: int) -> float:
        """How long whoever passes it on may keep it, to pass on several at once."""
        return self.beat_seconds / 3.0 if kind == BEAT else _HELLO_WITHIN_SECONDS

    def packed(self, kind: int, content: bytes) -> Announcement:
        """The announcement with what its carrier may know of it."""
        return Announcement(content, kind == HELLO, self.within_seconds(kind))

    def _jitter(self) -> float:
        """From 3/4 to 1, spread by name and number."""
        spread = hashlib.sha256(f"{self.name} {self.number}".encode()).digest()
        return 0.75 + int.from_bytes(spread[:4], "big") / 2**34
