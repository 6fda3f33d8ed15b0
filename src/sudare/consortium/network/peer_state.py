"""What a session keeps about each of the other members: keys, which messages came, what was not acknowledged. All of it is bounded."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sudare.consortium.network.transport.base import MOST_PACKET_BYTES
from sudare.errors import AgreementMismatch
from sudare.sums.keys import PublicKeys

# A receiver remembers which counters came; a sender never runs further ahead of what was acknowledged.
MOST_AHEAD: Final = 4096
# Of what one member has not acknowledged. A member that asks again and again for the same and acknowledges nothing gets no more.
_MOST_UNACKNOWLEDGED: Final = 1 << 16
_MOST_UNACKNOWLEDGED_BYTES: Final = 4 * MOST_PACKET_BYTES
# Lives in use one after the other within a few beats: more are not taken up until some of them are silent.
_MOST_DISPLACED: Final = 16
# Announcements of lives that are not known yet: so many at once, then so many a second. Each costs a signature and a key, and makes this member say hello to all.
MOST_NEW_LIVES: Final = 16.0
_NEW_LIVES_A_SECOND: Final = 1.0
# How long an answer is waited for before a message is sent again: twice what answers took lately, within these limits.
_LEAST_RESEND_SECONDS: Final = 1.0
_MOST_RESEND_SECONDS: Final = 8.0


@dataclass
class Pending:
    """A message that the other side has not acknowledged."""

    content: bytes
    digest: bytes
    sealed: bytes | None = None
    sent_at: float = float("-inf")
    due: float = 0.0
    wait: float = 0.0
    times: int = 0


@dataclass
class Channel:
    """Keys with one incarnation of a peer, and which of its messages came."""

    incarnation: bytes
    sending: ChaCha20Poly1305
    receiving: ChaCha20Poly1305
    publics: PublicKeys
    agrees: bool
    context: bytes
    # The number of the last announcement of that life, and when it came.
    announced: int = -1
    announced_at: float = float("-inf")
    sealed_count: dict[int, int] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    done_below: int = 0
    pending: dict[int, Pending] = field(default_factory=dict)

    def is_new(self, counter: int) -> bool:
        """Whether a message with this counter has not come yet, and may."""
        return counter >= self.done_below and counter not in self.seen and counter < self.done_below + 2 * MOST_AHEAD

    def is_ahead(self, counter: int) -> bool:
        """Whether a counter is farther ahead than any sender that keeps to the limit."""
        return counter >= self.done_below + 2 * MOST_AHEAD

    def mark_done(self, counter: int) -> None:
        """Remember that a message was acknowledged; below the first that was not, one number says it all."""
        self.done.add(counter)
        while self.done_below in self.done:
            self.done.discard(self.done_below)
            self.seen.discard(self.done_below)
            self.done_below += 1


@dataclass
class Peer:
    """All that is known about another member."""

    channel: Channel | None = None
    other_version: int | None = None
    # A life that has said hello and has not shown yet that it knows this life of ours, with the channel to it.
    candidate: Channel | None = None
    # Which lives it last said are present, as a digest.
    view: bytes = b""
    viewed_at: float = float("-inf")
    # Lives that were in use before. Channels to those of them that were heard of lately are kept: what took their place may have been an old hello.
    former: set[bytes] = field(default_factory=set)
    # How many announcements of lives that are not known yet are listened to now, and since when that is so.
    new_lives_allowed: float = MOST_NEW_LIVES
    new_lives_at: float = float("-inf")
    displaced: dict[bytes, Channel] = field(default_factory=dict)
    # How often such a life spoke between two words of the one that took its place, and which the last of those was.
    words_between: int = 0
    last_word_before: int = -1
    waiting: list[Pending] = field(default_factory=list)
    unacknowledged: dict[bytes, int] = field(default_factory=dict)
    unacknowledged_bytes: int = 0
    resend_seconds: float = _LEAST_RESEND_SECONDS
    receipt_owed: bool = False
    receipt_due: float = float("inf")
    refusal_owed: bytes | None = None
    terms_owed: bool = False
    sent_at: float = float("-inf")
    resends: int = 0
    heard_at: float | None = None
    # The life of it that has refused something that this life has said.
    refusing_life: bytes | None = None
    bad_signatures: int = 0
    difference: AgreementMismatch | None = None
    has_left: bool = False
    # Its key no longer counts: nothing is heard of it, and nothing sent to it.
    is_barred: bool = False

    @property
    def refuses_our_key(self) -> bool:
        """Whether a life of it that does not know this one refuses what this one says: it has another key for this member."""
        return self.refusing_life is not None and not self.reports_our_double

    @property
    def reports_our_double(self) -> bool:
        """Whether the life of it that this one has keys with refuses what this one says: it hears another process with the same key."""
        return self.channel is not None and self.refusing_life == self.channel.incarnation

    def listens_to_new_life(self, now: float) -> bool:
        """Whether an announcement of a life that is not known is looked at: a few at once, and from then on one a second."""
        passed = max(now - self.new_lives_at, 0.0)
        allowed = min(self.new_lives_allowed + passed * _NEW_LIVES_A_SECOND, MOST_NEW_LIVES)
        self.new_lives_at = now
        self.new_lives_allowed = allowed - 1.0 if allowed >= 1.0 else allowed
        return allowed >= 1.0

    def queue(self, content: bytes) -> bool:
        """Keep a message to be sent, once while it is not acknowledged. False if too much is not acknowledged already."""
        digest = hashlib.sha256(content).digest()
        if digest in self.unacknowledged:
            return True
        too_many = len(self.unacknowledged) >= _MOST_UNACKNOWLEDGED
        if too_many or self.unacknowledged_bytes + len(content) > _MOST_UNACKNOWLEDGED_BYTES:
            return False
        self.unacknowledged[digest] = len(content)
        self.unacknowledged_bytes += len(content)
        self.waiting.append(Pending(content, digest))
        return True

    def has_acknowledged(self, content: bytes) -> bool:
        """Whether nothing of a message is to be sent any more."""
        return hashlib.sha256(content).digest() not in self.unacknowledged

    def use(self, channel: Channel, since: float) -> bool:
        """Use this channel in the place of the present one. False if too many others were in use and heard of since then."""
        lately = {
            life: each for life, each in self.displaced.items() if each.announced_at >= since and each is not channel
        }
        if len(lately) >= _MOST_DISPLACED:
            return False
        if self.channel is not None:
            self.former.add(self.channel.incarnation)
            lately[self.channel.incarnation] = self.channel
            # What the earlier life did not acknowledge goes to the new one, in the order it was said.
            self.waiting[:0] = [Pending(each.content, each.digest) for each in self.channel.pending.values()]
            self.channel.pending = {}
        self.displaced, self.channel, self.candidate = lately, channel, None
        self.receipt_owed, self.receipt_due, self.difference, self.has_left = False, float("inf"), None, False
        self.terms_owed = not channel.agrees
        self.words_between, self.last_word_before, self.refusing_life = 0, channel.announced, None
        return True

    def messages_due(self, channel: Channel, seal: Callable[[bytes], tuple[int, bytes]], now: float) -> Iterator[bytes]:
        """Sealed messages that are to be sent now: new ones, and those whose answer is overdue. `seal` gives the counter and the packet."""
        while self.waiting and len(channel.pending) < MOST_AHEAD:
            pending = self.waiting.pop(0)
            counter, pending.sealed = seal(pending.content)
            pending.due, pending.wait = now, self.resend_seconds
            channel.pending[counter] = pending
        for pending in channel.pending.values():
            if now >= pending.due and pending.sealed is not None:
                self.resends += pending.times > 0
                pending.sent_at, pending.times = now, pending.times + 1
                pending.due, pending.wait = now + pending.wait, min(2 * pending.wait, _MOST_RESEND_SECONDS)
                yield pending.sealed

    def forgive(self, seconds: float, now: float) -> None:
        """Take this process's own delay out of what is known about the other: it was not silent, and no answer is overdue, for so long."""
        if self.heard_at is not None:
            self.heard_at = min(self.heard_at + seconds, now)
        self.viewed_at = min(self.viewed_at + seconds, now)
        for channel in (self.channel, self.candidate, *self.displaced.values()):
            if channel is not None:
                channel.announced_at = min(channel.announced_at + seconds, now)
        for pending in () if self.channel is None else self.channel.pending.values():
            pending.due += seconds
            pending.sent_at = min(pending.sent_at + seconds, now)

    def forget_acknowledged(self, channel: Channel, receipt: bytes, now: float) -> bool:
        """Forget what a receipt names: all counters below its first number, and the others in it. False if it is no receipt."""
        if len(receipt) < 8 or len(receipt) % 8:
            return False
        below, *others = struct.unpack(f"<{len(receipt) // 8}Q", receipt)
        named = frozenset(others)
        for counter in [counter for counter in channel.pending if counter < below or counter in named]:
            pending = channel.pending.pop(counter)
            self.unacknowledged_bytes -= self.unacknowledged.pop(pending.digest)
            if pending.times == 1:
                # Of a message that was sent twice nobody knows which was answered.
                took = max(2.0 * (now - pending.sent_at), 0.75 * self.resend_seconds)
                self.resend_seconds = min(max(took, _LEAST_RESEND_SECONDS), _MOST_RESEND_SECONDS)
        return True
