"""A member's conversations with the others over any transport: signed announcements, sealed packets, acknowledgements, resends.

Nothing here talks to anybody or looks at a clock: packets and times come in, packets go out. Each pair of members has a key
from ephemeral X25519 keys, which hellos to all hold under the Ed25519 identities that the agreement pins; they are forgotten with the process, so
what a relay recorded cannot be opened by keys that are stolen later. A life of another process is believed once it has shown that it knows
this life of ours: it names it, or says the digest of the same lives, or seals a packet under the common key. So old announcements change
nothing, but for one that was kept back until after the next life was met: of the two, the one that goes on speaking is talked to after a few beats. A message is resent until the other side has acknowledged it, which a member does only once what follows from it is on its disk. What comes twice, late from an earlier life of a
member, truncated or forged is dropped. Members whose agreements differ exchange nothing but digests of the agreements' fields.

What is larger than its kind can be is dropped before it is opened, and what is kept for or of a member has a limit: counters that came,
lives of its process, messages that it has not acknowledged.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sudare.consortium.agreement.differing_fields import differing_fields, parsed_field_digests, shown_fields
from sudare.consortium.agreement.identity import Identity, verifies
from sudare.consortium.network.dropped_messages import Drops
from sudare.consortium.network.peer_state import MOST_AHEAD, Channel, Peer
from sudare.consortium.network.presence_announcements import (
    BEAT,
    FAMILY,
    GOODBYE,
    HEADER,
    HELLO,
    LIFE_BYTES,
    MAGIC,
    MOST_HELLO_BYTES,
    PROTOCOL_VERSION,
    SIGNATURE_BYTES,
    AnnouncementSchedule,
    Greeting,
    Heard,
    agreement_tag,
    announcement,
    has_possible_size,
    heard,
    named_tags,
    tag_of,
    view_of,
)
from sudare.consortium.network.transport.base import MOST_PACKET_BYTES, Announcement, Packet
from sudare.errors import AgreementError, AgreementMismatch, MessageMalformed
from sudare.parsing import NotParsed, parsed_json
from sudare.sums.context import RELAY_NAME
from sudare.sums.keys import PublicKeys

_MESSAGE, _RECEIPT, _TERMS, _REFUSAL = range(2, 6)
_REFUSAL_PURPOSE: Final = "refusal"
_TAG_BYTES: Final = 16
MOST_MESSAGE_BYTES: Final = MOST_PACKET_BYTES - HEADER.size - _TAG_BYTES
_MOST_TERMS_BYTES: Final = 1 << 23
# What may follow the header, by kind.
_MOST_BYTES: Final = {
    HELLO: MOST_HELLO_BYTES,
    BEAT: SIGNATURE_BYTES,
    GOODBYE: SIGNATURE_BYTES,
    _MESSAGE: MOST_MESSAGE_BYTES + _TAG_BYTES,
    _RECEIPT: 8 * (1 + 2 * MOST_AHEAD) + _TAG_BYTES,
    _TERMS: _MOST_TERMS_BYTES + _TAG_BYTES,
    _REFUSAL: SIGNATURE_BYTES,
}
_TERMS_SECONDS: Final = 1.0
_RECEIPT_SECONDS: Final = 0.15
# A life that was not heard of for so many beats is not counted as present in announcements.
_BEATS_OF_SILENCE: Final = 4.0
# Of so many of our announcements refusals are believed.
_REMEMBERED_ANNOUNCEMENTS: Final = 16
# A member that began anew more often in one life of ours is not heard again in it.
_MOST_LIVES: Final = 4096
# A life that another has followed, and that speaks so often by turns with it, was not merely late: both are running, or somebody kept its words back.
_WORDS_OF_A_SECOND_NODE: Final = 3


@dataclass(frozen=True)
class PinnedAgreement:
    """What a session takes from the agreement: its digest, each member's current key, and keyed digests of every field.

    The digests of fields are asked for with a nonce that both sides chose, and sent to authenticated members only.
    """

    agreement_digest: bytes
    keys: Mapping[str, bytes]
    field_digests: Callable[[bytes], Mapping[str, str]]


class Delivery(NamedTuple):
    """A message that came, once. It is to be acknowledged when its consequences are safe."""

    sender: str
    content: bytes
    incarnation: bytes
    counter: int


class Session:
    """One life of one member's process among the others."""

    def __init__(
        self, name: str, identity: Identity, publics: PublicKeys, pins: PinnedAgreement, beat_seconds: float = 1.0
    ) -> None:
        """`publics` are the keys for masks and votes that hellos carry under this member's signature; beats come every `beat_seconds`."""
        if name not in pins.keys:
            raise AgreementMismatch(f"'{name}' is not a member of this agreement.", "Use the name that was agreed on.")
        self.name, self.pins, self.publics = name, pins, publics
        self._identity = identity
        self._incarnation, self._ephemeral = os.urandom(16), X25519PrivateKey.generate()
        self._peers = {each: Peer() for each in pins.keys if each != name}
        self._schedule = AnnouncementSchedule(name, len(pins.keys), beat_seconds)
        self._announced: deque[bytes] = deque(maxlen=_REMEMBERED_ANNOUNCEMENTS)
        self.drops = Drops()

    @property
    def others(self) -> Collection[str]:
        """Who announcements are for."""
        return self._peers.keys()

    # What the member does

    def post(self, receiver: str, content: bytes) -> None:
        """Send a message as soon as can be, and again until it is acknowledged.

        The same bytes are not sent a second time while the receiver has not acknowledged the first; and one that leaves too much
        unacknowledged gets nothing more. Raise MessageMalformed if the message is larger than any receiver takes.
        """
        if len(content) > MOST_MESSAGE_BYTES:
            raise MessageMalformed(
                f"A message has {len(content)} bytes; others take at most {MOST_MESSAGE_BYTES}.",
                "Agree on fewer patterns, columns or records in one task.",
            )
        peer = self._peers[receiver]
        if not peer.is_barred and not peer.queue(content):
            self.drops.count(receiver, "unsent")

    def bar(self, names: Collection[str]) -> None:
        """Hear nothing more of these members and send them nothing more in this life, and forget what was to be sent: their keys no longer count."""
        for name in self._peers.keys() & set(names):
            self._peers[name] = Peer(is_barred=True)

    def acknowledge(self, delivery: Delivery) -> None:
        """What follows from this message is safe: the sender may forget it."""
        peer = self._peers[delivery.sender]
        if peer.channel is not None and peer.channel.incarnation == delivery.incarnation:
            peer.channel.mark_done(delivery.counter)
            peer.receipt_owed = True

    def put_back(self, delivery: Delivery) -> None:
        """Forget that this message came: its sender sends it again later."""
        channel = self._peers[delivery.sender].channel
        if channel is not None and channel.incarnation == delivery.incarnation and delivery.counter not in channel.done:
            channel.seen.discard(delivery.counter)

    def present(self, now: float, within_seconds: float) -> frozenset[str]:
        """Members, this one included, that agree with this one and were heard of not longer ago."""
        heard = (name for name, peer in self._peers.items() if self._is_present(peer, now - within_seconds))
        return frozenset({self.name, *heard})

    def heard_within(self, now: float, seconds: float) -> frozenset[str]:
        """Returns who was heard within the time, with those that have said farewell since: whoever is restarted within a task's deadline was not away."""
        heard = (name for name, peer in self._peers.items() if self._was_heard(peer, now - seconds))
        return frozenset({self.name, *heard})

    def have_left(self) -> frozenset[str]:
        """Members that said farewell and were not heard of since."""
        return frozenset(name for name, peer in self._peers.items() if peer.has_left)

    def known_publics(self) -> dict[str, PublicKeys]:
        """The keys for masks and votes of this member and all whose hello was believed."""
        found = {name: peer.channel.publics for name, peer in self._peers.items() if peer.channel}
        return {self.name: self.publics, **found}

    def differences(self) -> Mapping[str, AgreementMismatch]:
        """Members whose agreement is another, and in which field. A relay's word stops no task: one with another agreement is not present."""
        members = ((name, peer) for name, peer in self._peers.items() if name != RELAY_NAME)
        return {name: peer.difference for name, peer in members if peer.difference is not None}

    def refused_by(self) -> frozenset[str]:
        """Members that said, signed, that they do not take this member's key for the one in the agreement."""
        return frozenset(name for name, peer in self._peers.items() if peer.refuses_our_key)

    def mistrusted(self) -> frozenset[str]:
        """Members in whose name hellos came that their pinned key did not sign, and no good one."""
        return frozenset(name for name, peer in self._peers.items() if peer.bad_signatures and peer.channel is None)

    def doubled(self) -> frozenset[str]:
        """Members with whose key two processes seem to speak at once: words of a life that another has followed go on coming.

        Whoever passes them on may have kept them back from before it ended: only that life itself, if it is told (`reporters_of_our_double`), knows more.
        """
        return frozenset(name for name, peer in self._peers.items() if peer.words_between >= _WORDS_OF_A_SECOND_NODE)

    def reporters_of_our_double(self) -> frozenset[str]:
        """Members that said, signed, that another process speaks with this member's key, and that they hear that one: so it is, or they lie."""
        return frozenset(name for name, peer in self._peers.items() if peer.reports_our_double)

    def other_versions(self) -> dict[str, str]:
        """What to do about members that this one cannot read: in whose name messages of another protocol version came, and none of this one."""
        found = {name: peer.other_version for name, peer in self._peers.items() if peer.channel is None}
        return {
            name: f"'{name}' speaks protocol version {version}, this program version {PROTOCOL_VERSION}: neither reads the other. "
            f"Install the same sudare at both; the {'older' if version < PROTOCOL_VERSION else 'newer'} one is that of '{name}'."
            for name, version in found.items()
            if version is not None
        }

    @property
    def resends(self) -> int:
        """How many messages were sent again because their answer was overdue."""
        return sum(peer.resends for peer in self._peers.values())

    def is_settled(self) -> bool:
        """Whether every message was acknowledged by those who have not said goodbye."""
        staying = [peer for peer in self._peers.values() if not peer.has_left]
        return not any(peer.waiting or (peer.channel and peer.channel.pending) for peer in staying)

    def is_acknowledged(self, content: bytes) -> bool:
        """Whether everybody that this message was posted to has acknowledged it."""
        return all(peer.has_acknowledged(content) for peer in self._peers.values())

    @property
    def has_met_anybody(self) -> bool:
        """Whether another member ever answered in this life."""
        return any(peer.channel is not None for peer in self._peers.values())

    def last_receipts(self) -> Iterator[Packet]:
        """What is owed to others for their messages, before a farewell."""
        for name, peer in self._peers.items():
            if peer.channel is not None and (peer.receipt_owed or peer.receipt_due != float("inf")):
                yield Packet(name, self._receipt(peer, peer.channel))

    def farewell(self, now: float) -> Announcement:
        """Returns what tells all that this member has what it needs, and expects nothing more in this life."""
        return self._announcement(GOODBYE, now)

    def forgive(self, seconds: float, now: float) -> None:
        """This process did not run for so long: nobody else was silent meanwhile, and no answer is overdue for it."""
        for peer in self._peers.values():
            peer.forgive(seconds, now)

    @classmethod
    def _is_present(cls, peer: Peer, since: float) -> bool:
        return not peer.has_left and cls._was_heard(peer, since)

    @staticmethod
    def _was_heard(peer: Peer, since: float) -> bool:
        agrees = peer.channel is not None and peer.difference is None
        return agrees and peer.heard_at is not None and peer.heard_at >= since

    # What goes out

    def announcement_due(self, now: float) -> Announcement | None:
        """What is to be told to all now, once."""
        kind = self._schedule.kind_due(now, self._named_lives(now), self._has_doubts(now))
        return None if kind is None else self._announcement(kind, now)

    def due(self, now: float) -> Iterator[Packet]:
        """Everything to be sent now, each with its receiver in the sender's place; what is for all, for each of them."""
        for_all = self.announcement_due(now)
        for name, peer in self._peers.items():
            if for_all is not None:
                yield Packet(name, for_all.content)
            for content in self._due_to(name, peer, now):
                peer.sent_at = now
                yield Packet(name, content)

    def next_due(self, now: float) -> float:
        """When `due` will have something again if nothing comes in."""
        times = [self._schedule.next_due(self._named_lives(now), self._has_doubts(now))]
        for peer in self._peers.values():
            channel = peer.channel
            if peer.refusal_owed is not None:
                times.append(now)
            if channel is None or peer.has_left:
                continue
            if not channel.agrees:
                # It is told the terms until it has told its own, and nothing else.
                times += [peer.sent_at + _TERMS_SECONDS] if peer.difference is None else []
            else:
                times += [now] if peer.waiting and len(channel.pending) < MOST_AHEAD else []
                times += [now if peer.receipt_owed and peer.receipt_due == float("inf") else peer.receipt_due]
                times += [pending.due for pending in channel.pending.values()]
        return max(min(times), now)

    def _due_to(self, name: str, peer: Peer, now: float) -> Iterator[bytes]:
        if peer.refusal_owed is not None:
            yield self._refusal(name, peer.refusal_owed)
            peer.refusal_owed = None
        channel = peer.channel
        if channel is None or peer.has_left:
            return
        if not channel.agrees:
            if peer.terms_owed or (peer.difference is None and now >= peer.sent_at + _TERMS_SECONDS):
                peer.terms_owed = False
                digests = dict(self.pins.field_digests(channel.context))
                yield self._sealed(channel, _TERMS, json.dumps(digests).encode())
            return
        yield from peer.messages_due(channel, lambda content: self._sealed_message(channel, content), now)
        if peer.receipt_owed and peer.receipt_due == float("inf"):
            # One receipt for all that comes meanwhile.
            peer.receipt_due = now + _RECEIPT_SECONDS
        if now >= peer.receipt_due:
            yield self._receipt(peer, channel)

    # Which lives there are

    def _since(self, now: float) -> float:
        return now - _BEATS_OF_SILENCE * self._schedule.beat_seconds

    def _named_lives(self, now: float) -> frozenset[bytes]:
        """Lives of others that were heard of lately: those that there are channels to, and those that may become so."""
        since = self._since(now)
        return frozenset(
            channel.incarnation
            for peer in self._peers.values()
            for channel in (None if peer.has_left else peer.channel, peer.candidate)
            if channel is not None and channel.announced_at >= since
        )

    def _view(self, now: float) -> bytes:
        """The digest of the lives that are present, this one included: one of each member."""
        since, lives = self._since(now), [self._incarnation]
        for peer in self._peers.values():
            channels = (None if peer.has_left else peer.channel, peer.candidate)
            recent = (each.incarnation for each in channels if each is not None and each.announced_at >= since)
            lives += list(recent)[:1]
        return view_of(lives)

    def _has_doubts(self, now: float) -> bool:
        """Whether nobody was heard of, or somebody who has heard of other lives."""
        since = self._since(now)
        views = {peer.view for peer in self._peers.values() if peer.viewed_at >= since and not peer.has_left}
        return views != {self._view(now)}

    # What comes in

    def receive(self, packet: Packet, now: float) -> Delivery | None:
        """A message that is new, or None: hellos, receipts, repetitions and whatever cannot be believed end here."""
        peer, size = self._peers.get(packet.sender), len(packet.content) - HEADER.size
        if peer is None or peer.is_barred:
            self.drops.count(packet.sender, "unknown-sender" if peer is None else "not-admitted")
            return None
        if size < 0:
            self.drops.count(packet.sender, "malformed")
            return None
        magic, kind, theirs, ours, counter = HEADER.unpack_from(packet.content)
        if magic != MAGIC and magic.startswith(FAMILY) and magic[len(FAMILY) :].isdigit():
            peer.other_version = int(magic[len(FAMILY) :])
            self.drops.count(packet.sender, "other-version")
            return None
        if magic != MAGIC or kind not in _MOST_BYTES:
            self.drops.count(packet.sender, "malformed")
            return None
        if size > _MOST_BYTES[kind]:
            self.drops.count(packet.sender, "too-large")
            return None
        if kind in (HELLO, BEAT, GOODBYE):
            self._hear(packet, peer, kind, theirs, counter, now)
            return None
        if kind == _REFUSAL:
            self._heed_refusal(packet, peer, ours)
            return None
        for channel in (peer.channel, peer.candidate):
            if channel is not None and (theirs, ours) == (channel.incarnation, self._incarnation):
                return self._opened(packet, peer, channel, kind, counter, now)
        self.drops.count(packet.sender, "repeated")
        return None

    def _opened(
        self, packet: Packet, peer: Peer, channel: Channel, kind: int, counter: int, now: float
    ) -> Delivery | None:
        header, sealed = packet.content[: HEADER.size], packet.content[HEADER.size :]
        if kind == _MESSAGE and not channel.is_new(counter):
            # Its receipt may have been lost.
            if counter < channel.done_below or counter in channel.done:
                peer.receipt_due = now
            self.drops.count(packet.sender, "ahead" if channel.is_ahead(counter) else "repeated")
            return None
        try:
            content = channel.receiving.decrypt(_nonce(kind, counter), sealed, header)
        except InvalidTag:
            self.drops.count(packet.sender, "unauthentic")
            return None
        if not self._take_into_use(packet.sender, peer, channel, now):
            return None
        peer.heard_at = now
        if kind == _RECEIPT:
            if not peer.forget_acknowledged(channel, content, now):
                self.drops.count(packet.sender, "malformed")
        elif kind == _TERMS:
            self._compare_terms(packet.sender, peer, channel, content)
        elif channel.agrees:
            channel.seen.add(counter)
            return Delivery(packet.sender, content, channel.incarnation, counter)
        else:
            self.drops.count(packet.sender, "not-admitted")
        return None

    def _compare_terms(self, name: str, peer: Peer, channel: Channel, content: bytes) -> None:
        """Learn which fields of the other agreement differ, once for each channel; who has the same agreement has no terms to tell."""
        if channel.agrees:
            self.drops.count(name, "not-admitted")
        elif peer.difference is None:
            peer.terms_owed = True
            peer.difference = _difference(name, self.pins.field_digests(channel.context), content)
        else:
            peer.terms_owed = False

    def _hear(self, packet: Packet, peer: Peer, kind: int, theirs: bytes, number: int, now: float) -> None:
        """An announcement. What an earlier life said, and what was heard already, changes nothing."""
        if not has_possible_size(kind, packet.content):
            self.drops.count(packet.sender, "malformed")
            return
        lives = {each.incarnation: each for each in (peer.candidate, peer.channel) if each is not None}
        channel = lives.get(theirs, peer.displaced.get(theirs))
        if (channel is None and theirs in peer.former) or (channel is not None and number <= channel.announced):
            self.drops.count(packet.sender, "repeated")
            return
        # Before its signature is looked at.
        if channel is None and not peer.listens_to_new_life(now):
            self.drops.count(packet.sender, "over-quota")
            return
        self._hear_new(packet, peer, channel, now)

    def _hear_new(self, packet: Packet, peer: Peer, channel: Channel | None, now: float) -> None:
        """An announcement that was not heard before, of a life that there is a channel to or of one that is not known."""
        found = heard(packet.sender, self.pins.keys[packet.sender], packet.content)
        if found is None:
            self.drops.count(packet.sender, "unauthentic")
            peer.bad_signatures += 1
            peer.refusal_owed = _digest(packet.content)
            return
        if channel is not None and found.life in peer.displaced:
            self._hear_replaced_process(packet.sender, peer, channel, found, _digest(packet.content), now)
            return
        if channel is None and found.greeting is not None:
            channel = peer.candidate = self._channel_to(packet.sender, found.greeting)
        # Of a life that has not said hello all that matters is that it has heard of others than this one: both say hello again.
        peer.view, peer.viewed_at = found.view, now
        if channel is None:
            return
        channel.announced, channel.announced_at = found.number, now
        if found.kind == GOODBYE:
            peer.candidate = None if channel is peer.candidate else peer.candidate
            if channel is peer.channel:
                peer.has_left, peer.heard_at = True, now
        elif channel is peer.channel or self._is_known_to(found, now):
            peer.heard_at = now if self._take_into_use(packet.sender, peer, channel, now) else peer.heard_at

    def _hear_replaced_process(
        self, name: str, peer: Peer, channel: Channel, found: Heard, refused: bytes, now: float
    ) -> None:
        """A life goes on speaking after another took its place. If that one is silent it was an old hello, kept back by whoever passes them on.

        If both go on by turns, two processes seem to have one key: the one that is not heard is told, if there is one, with the digest of what it said.
        """
        channel.announced, channel.announced_at = found.number, now
        is_silent = peer.channel is None or peer.channel.announced_at < self._since(now)
        if found.kind == GOODBYE:
            return
        if is_silent and self._take_into_use(name, peer, channel, now):
            peer.heard_at = now
        elif peer.channel is not None and peer.channel.announced > peer.last_word_before:
            peer.last_word_before, peer.words_between = peer.channel.announced, peer.words_between + 1
            if peer.words_between >= _WORDS_OF_A_SECOND_NODE:
                peer.refusal_owed = refused

    def _is_known_to(self, found: Heard, now: float) -> bool:
        """Whether whoever said this has heard of this life of ours."""
        return tag_of(self._incarnation) in found.tags or found.view == self._view(now)

    def _channel_to(self, name: str, greeting: Greeting) -> Channel | None:
        """The channel between this life and that of a hello; None if its key is none."""
        try:
            secret = self._ephemeral.exchange(X25519PublicKey.from_public_bytes(greeting.ephemeral))
        except ValueError:
            self.drops.count(name, "malformed")
            return None
        own = agreement_tag(self.pins.agreement_digest, self._incarnation)
        sides = sorted([(self.name, self._incarnation, own), (name, greeting.life, greeting.agreement)])
        context = hashlib.sha256(repr(sides).encode()).digest()

        def directed(sender: str) -> ChaCha20Poly1305:
            info = b"sudare session\x00" + sender.encode()
            return ChaCha20Poly1305(HKDF(SHA256(), 32, context, info).derive(secret))

        publics = PublicKeys(greeting.exchange, greeting.signing)
        agrees = greeting.agreement == agreement_tag(self.pins.agreement_digest, greeting.life)
        return Channel(greeting.life, directed(self.name), directed(name), publics, agrees, context)

    def _take_into_use(self, name: str, peer: Peer, channel: Channel, now: float) -> bool:
        """Use this channel from now on, if it was not yet: its life knows this one. False if that member has begun anew too often."""
        if channel is peer.channel:
            return True
        is_taken = len(peer.former) < _MOST_LIVES and peer.use(channel, self._since(now))
        if not is_taken:
            self.drops.count(name, "over-quota")
        return is_taken

    def _heed_refusal(self, packet: Packet, peer: Peer, ours: bytes) -> None:
        header, signature = packet.content[: HEADER.size], packet.content[HEADER.size :]
        text = _signed_text(packet.sender, self.name, header)
        # What it refuses is something that this life has said: a relay that speaks in our name is refused as well.
        is_ours = ours in self._announced
        if is_ours and verifies(self.pins.keys[packet.sender], _REFUSAL_PURPOSE, text, signature):
            _, _, peer.refusing_life, _, _ = HEADER.unpack(header)
        else:
            self.drops.count(packet.sender, "unauthentic" if is_ours else "repeated")

    # How it is written

    def _announcement(self, kind: int, now: float) -> Announcement:
        """A hello, beat or farewell of this moment."""
        lives = self._named_lives(now)
        stated = self._stated(lives) if kind == HELLO else b""
        numbered = self._incarnation, self._view(now), self._schedule.number
        content = announcement(self._identity, self.name, kind, *numbered, stated)
        self._schedule.said(now, kind, lives)
        self._announced.append(_digest(content))
        return self._schedule.packed(kind, content)

    def _stated(self, lives: Iterable[bytes]) -> bytes:
        """What a hello says: keys of this life, the agreement, and who was heard of."""
        agreement = agreement_tag(self.pins.agreement_digest, self._incarnation)
        keys = (
            self._ephemeral.public_key().public_bytes_raw() + agreement + self.publics.exchange + self.publics.signing
        )
        return keys + b"".join(named_tags(lives, self._schedule.number))

    def _refusal(self, receiver: str, refused: bytes) -> bytes:
        """The one thing that is said about an error: no reason, no detail."""
        header = HEADER.pack(MAGIC, _REFUSAL, self._incarnation, refused, 0)
        return header + self._identity.sign(_REFUSAL_PURPOSE, _signed_text(self.name, receiver, header))

    def _receipt(self, peer: Peer, channel: Channel) -> bytes:
        """Which messages were acknowledged: all below a number, and some above."""
        peer.receipt_owed, peer.receipt_due = False, float("inf")
        done = sorted(channel.done)
        return self._sealed(channel, _RECEIPT, struct.pack(f"<{1 + len(done)}Q", channel.done_below, *done))

    def _sealed_message(self, channel: Channel, content: bytes) -> tuple[int, bytes]:
        return channel.sealed_count.get(_MESSAGE, 0), self._sealed(channel, _MESSAGE, content)

    def _sealed(self, channel: Channel, kind: int, content: bytes) -> bytes:
        counter = channel.sealed_count.get(kind, 0)
        channel.sealed_count[kind] = counter + 1
        header = HEADER.pack(MAGIC, kind, self._incarnation, channel.incarnation, counter)
        return header + channel.sending.encrypt(_nonce(kind, counter), content, header)


def _nonce(kind: int, counter: int) -> bytes:
    """Every kind counts for itself, so that no nonce is used twice under a key."""
    return struct.pack("<IQ", kind, counter)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:LIFE_BYTES]


def _named(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<I", len(content)) + content


def _signed_text(sender: str, receiver: str, content: bytes) -> bytes:
    return _named(sender) + _named(receiver) + content


def _difference(peer: str, ours: Mapping[str, str], content: bytes) -> AgreementMismatch:
    """Which agreed fields differ. The content is authentic, but may come from another version."""
    remedy = "Settle what was agreed, then sign the same text."
    try:
        theirs = parsed_field_digests(parsed_json(content, largest_bytes=_MOST_TERMS_BYTES))
    except (NotParsed, AgreementError):
        what = "and its program writes it in a way that this version does not read"
    else:
        fields = differing_fields(ours, theirs)
        if "version" in fields:
            remedy = "One of you has an earlier version of the agreement: its node takes the later one once all have signed that and nothing that was paid for is unfinished there, and says what it waits for."
        what = (
            f"which differs in {shown_fields(fields)}" if fields else "though every field is the same: programs differ"
        )
    return AgreementMismatch(
        f"'{peer}' signed another text, {what}. Nobody sent anything.",
        remedy,
    )
