"""A member's conversations with the others over any transport: signed hellos, sealed packets, acknowledgements, resends.

Nothing here talks to anybody or looks at a clock: packets and times come in, packets go out. Each pair of members agrees on a key
from ephemeral X25519 keys, signed by the Ed25519 identities that the agreement pins; they are forgotten with the process, so
what a relay recorded cannot be opened by keys that are stolen later. A message is resent until the other side has
acknowledged it, which a member does only once what follows from it is on its disk. What comes twice, late from an earlier life of a
member, truncated or forged is dropped. Members whose agreements differ exchange nothing but digests of the agreements' fields.

What is larger than its kind can be is dropped before it is opened, and what is kept for or of a member has a limit: counters that came,
lives of its process, messages that it has not acknowledged.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
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
from sudare.consortium.network.peer_state import MOST_AHEAD, Channel, Peer, Pending
from sudare.consortium.network.transport.base import MOST_PACKET_BYTES, Packet
from sudare.errors import AgreementError, AgreementMismatch, MessageMalformed
from sudare.parsing import NotParsed, parsed_json
from sudare.sums.context import RELAY_NAME
from sudare.sums.keys import PublicKeys

_HELLO, _MESSAGE, _RECEIPT, _TERMS, _REFUSAL, _GOODBYE = range(1, 7)
_HEADER: Final = struct.Struct("<4sB16s16sQ")
# Of everything that members send each other. It is raised whenever any of it changes (tests/consortium/network/test_protocol_version.py).
PROTOCOL_VERSION: Final = 3
_FAMILY: Final = b"SDR"
_MAGIC: Final = b"%b%d" % (_FAMILY, PROTOCOL_VERSION)
_NOBODY: Final = bytes(16)
_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_HELLO_BYTES: Final = 4 * _KEY_BYTES + _SIGNATURE_BYTES
_HELLO_PURPOSE, _REFUSAL_PURPOSE = "hello", "refusal"
_TAG_BYTES: Final = 16
MOST_MESSAGE_BYTES: Final = MOST_PACKET_BYTES - _HEADER.size - _TAG_BYTES
_MOST_TERMS_BYTES: Final = 1 << 23
# What may follow the header, by kind.
_MOST_BYTES: Final = {
    _HELLO: _HELLO_BYTES,
    _MESSAGE: MOST_MESSAGE_BYTES + _TAG_BYTES,
    _RECEIPT: 8 * (1 + 2 * MOST_AHEAD) + _TAG_BYTES,
    _TERMS: _MOST_TERMS_BYTES + _TAG_BYTES,
    _REFUSAL: _SIGNATURE_BYTES,
    _GOODBYE: _TAG_BYTES,
}
# When things are sent again.
_HELLO_SECONDS: Final = 0.5
_RESEND_SECONDS: Final = 1.0
_MOST_RESEND_SECONDS: Final = 4.0
_RECEIPT_SECONDS: Final = 0.15
_HEARTBEAT_SECONDS: Final = 1.0
# A member that began anew more often in one life of ours is not heard again in it.
_MOST_LIVES: Final = 4096


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

    def __init__(self, name: str, identity: Identity, publics: PublicKeys, pins: PinnedAgreement) -> None:
        """`publics` are the keys for masks and votes that the hellos carry under this member's signature."""
        if name not in pins.keys:
            raise AgreementMismatch(f"'{name}' is not a member of this agreement.", "Use the name that was agreed on.")
        self.name, self.pins, self.publics = name, pins, publics
        self._identity = identity
        self._incarnation = os.urandom(16)
        self._peers = {each: Peer(X25519PrivateKey.generate()) for each in pins.keys if each != name}
        self.drops = Drops()

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
        if not self._peers[receiver].queue(content):
            self.drops.count(receiver, "unsent")

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

    def known_publics(self) -> dict[str, PublicKeys]:
        """The keys for masks and votes of this member and all whose hello was believed and answered."""
        found = {name: peer.publics for name, peer in self._peers.items() if peer.publics and peer.channel}
        return {self.name: self.publics, **found}

    def differences(self) -> Mapping[str, AgreementMismatch]:
        """Members whose agreement is another, and in which field. A relay's word stops no task: one with another agreement is not present."""
        members = ((name, peer) for name, peer in self._peers.items() if name != RELAY_NAME)
        return {name: peer.difference for name, peer in members if peer.difference is not None}

    def refused_by(self) -> frozenset[str]:
        """Members that said, signed, that they do not take this member's key for the one in the agreement."""
        return frozenset(name for name, peer in self._peers.items() if peer.refuses_us and peer.channel is None)

    def mistrusted(self) -> frozenset[str]:
        """Members in whose name hellos came that their pinned key did not sign, and no good one."""
        return frozenset(name for name, peer in self._peers.items() if peer.bad_signatures and peer.channel is None)

    def other_versions(self) -> dict[str, str]:
        """What to do about members that this one cannot read: in whose name messages of another protocol version came, and none of this one."""
        found = {name: peer.other_version for name, peer in self._peers.items() if peer.channel is None}
        return {
            name: f"'{name}' speaks protocol version {version}, this program version {PROTOCOL_VERSION}: neither reads the other. "
            f"Install the same sudare at both; the {'older' if version < PROTOCOL_VERSION else 'newer'} one is that of '{name}'."
            for name, version in found.items()
            if version is not None
        }

    def is_settled(self) -> bool:
        """Whether every message was acknowledged by those who have not said goodbye."""
        staying = [peer for peer in self._peers.values() if not peer.has_left]
        return not any(peer.waiting or (peer.channel and peer.channel.pending) for peer in staying)

    def farewell(self) -> Iterator[Packet]:
        """Goodbyes to all: this member has what it needs, and expects nothing more in this life."""
        for name, peer in self._peers.items():
            if peer.channel is not None:
                yield Packet(name, self._receipt(peer, peer.channel))
                yield Packet(name, self._sealed(peer.channel, _GOODBYE, b""))

    @staticmethod
    def _is_present(peer: Peer, since: float) -> bool:
        agrees = peer.channel is not None and peer.difference is None
        return agrees and not peer.has_left and peer.heard_at is not None and peer.heard_at >= since

    # What goes out

    def due(self, now: float) -> Iterator[Packet]:
        """Everything to be sent now, each with its receiver in the sender's place."""
        for name, peer in self._peers.items():
            for content in self._due_to(name, peer, now):
                peer.sent_at = now
                yield Packet(name, content)

    def next_due(self, now: float) -> float:
        """When `due` will have something again if nothing comes in: at most a heartbeat away."""
        times = [now + _HEARTBEAT_SECONDS]
        for peer in self._peers.values():
            channel = peer.channel
            if peer.has_left:
                continue
            if channel is None or not channel.confirmed:
                times.append(peer.hello_due)
            elif channel.their_digest != self.pins.agreement_digest:
                # It is told the terms until it has told its own, and nothing else.
                times += [peer.sent_at + _RESEND_SECONDS] if peer.difference is None else []
            else:
                times += [peer.sent_at + _HEARTBEAT_SECONDS, peer.receipt_due]
                times += [pending.due for pending in channel.pending.values()]
        return max(min(times), now)

    def _due_to(self, name: str, peer: Peer, now: float) -> Iterator[bytes]:
        if peer.refusal_owed is not None:
            yield self._refusal(name, peer.refusal_owed)
            peer.refusal_owed = None
        channel = peer.channel
        if peer.has_left and peer.answering is None:
            return
        if peer.answering is not None or ((channel is None or not channel.confirmed) and now >= peer.hello_due):
            known = _NOBODY if channel is None else channel.incarnation
            yield self._hello(name, peer, known if peer.answering is None else peer.answering)
            peer.answering, peer.hello_due = None, now + _HELLO_SECONDS
        if channel is None:
            return
        if channel.their_digest != self.pins.agreement_digest:
            if peer.terms_owed or (peer.difference is None and now >= peer.sent_at + _RESEND_SECONDS):
                peer.terms_owed = False
                digests = dict(self.pins.field_digests(channel.context))
                yield self._sealed(channel, _TERMS, json.dumps(digests).encode())
            return
        yield from self._messages_due(peer, channel, now)
        if peer.receipt_owed and peer.receipt_due == float("inf"):
            # One receipt for all that comes meanwhile.
            peer.receipt_due = now + _RECEIPT_SECONDS
        if now >= min(peer.receipt_due, peer.sent_at + _HEARTBEAT_SECONDS):
            yield self._receipt(peer, channel)

    def _messages_due(self, peer: Peer, channel: Channel, now: float) -> Iterator[bytes]:
        while peer.waiting and len(channel.pending) < MOST_AHEAD:
            pending = peer.waiting.pop(0)
            counter = channel.sealed_count.get(_MESSAGE, 0)
            pending.sealed = self._sealed(channel, _MESSAGE, pending.content)
            pending.due, pending.wait = now, _RESEND_SECONDS
            channel.pending[counter] = pending
        for pending in channel.pending.values():
            if now >= pending.due and pending.sealed is not None:
                pending.due, pending.wait = now + pending.wait, min(2 * pending.wait, _MOST_RESEND_SECONDS)
                yield pending.sealed

    # What comes in

    def receive(self, packet: Packet, now: float) -> Delivery | None:
        """A message that is new, or None: hellos, receipts, repetitions and whatever cannot be believed end here."""
        peer, size = self._peers.get(packet.sender), len(packet.content) - _HEADER.size
        if peer is None:
            self.drops.count(packet.sender, "unknown-sender")
            return None
        if size < 0:
            self.drops.count(packet.sender, "malformed")
            return None
        magic, kind, theirs, ours, counter = _HEADER.unpack_from(packet.content)
        if magic != _MAGIC and magic.startswith(_FAMILY) and magic[len(_FAMILY) :].isdigit():
            peer.other_version = int(magic[len(_FAMILY) :])
            self.drops.count(packet.sender, "other-version")
            return None
        if magic != _MAGIC or kind not in _MOST_BYTES:
            self.drops.count(packet.sender, "malformed")
            return None
        if size > _MOST_BYTES[kind]:
            self.drops.count(packet.sender, "too-large")
            return None
        if kind == _HELLO:
            self._greet(packet, peer, theirs, ours, now)
            return None
        if kind == _REFUSAL:
            self._heed_refusal(packet, peer, ours)
            return None
        channel = peer.channel
        if channel is None or (theirs, ours) != (channel.incarnation, self._incarnation):
            self.drops.count(packet.sender, "repeated")
            return None
        return self._opened(packet, peer, channel, kind, counter, now)

    def _opened(
        self, packet: Packet, peer: Peer, channel: Channel, kind: int, counter: int, now: float
    ) -> Delivery | None:
        header, sealed = packet.content[: _HEADER.size], packet.content[_HEADER.size :]
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
        channel.confirmed, peer.heard_at = True, now
        if kind == _GOODBYE:
            peer.has_left = True
        elif kind == _RECEIPT:
            if not peer.forget_acknowledged(channel, content):
                self.drops.count(packet.sender, "malformed")
        elif kind == _TERMS:
            self._compare_terms(packet.sender, peer, channel, content)
        elif channel.their_digest == self.pins.agreement_digest:
            channel.seen.add(counter)
            return Delivery(packet.sender, content, channel.incarnation, counter)
        else:
            self.drops.count(packet.sender, "not-admitted")
        return None

    def _compare_terms(self, name: str, peer: Peer, channel: Channel, content: bytes) -> None:
        """Learn which fields of the other agreement differ, once for each channel; who has the same agreement has no terms to tell."""
        if channel.their_digest == self.pins.agreement_digest:
            self.drops.count(name, "not-admitted")
        elif peer.difference is None:
            peer.terms_owed = True
            peer.difference = _difference(name, self.pins.field_digests(channel.context), content)
        else:
            peer.terms_owed = False

    def _greet(self, packet: Packet, peer: Peer, theirs: bytes, answered: bytes, now: float) -> None:
        """A hello. The channel is made once the other side has answered this life of ours, so old hellos change nothing."""
        header, body = packet.content[: _HEADER.size], packet.content[_HEADER.size :]
        if len(body) != _HELLO_BYTES:
            self.drops.count(packet.sender, "malformed")
            return
        if theirs in peer.former:
            self.drops.count(packet.sender, "repeated")
            return
        stated, signature = body[:-_SIGNATURE_BYTES], body[-_SIGNATURE_BYTES:]
        text = _signed_text(packet.sender, self.name, header + stated)
        if not verifies(self.pins.keys[packet.sender], _HELLO_PURPOSE, text, signature):
            self.drops.count(packet.sender, "unauthentic")
            peer.bad_signatures += 1
            peer.refusal_owed = theirs
            return
        current = peer.channel
        if current is not None and current.incarnation == theirs:
            # It has not heard that we know it.
            peer.receipt_due = now
            peer.answering = theirs if answered != self._incarnation else None
            peer.terms_owed = current.their_digest != self.pins.agreement_digest
        elif answered != self._incarnation:
            peer.answering = theirs
        elif len(peer.former) >= _MOST_LIVES:
            self.drops.count(packet.sender, "over-quota")
        else:
            self._open_channel(packet.sender, peer, theirs, stated)
            peer.heard_at = now

    def _open_channel(self, name: str, peer: Peer, theirs: bytes, stated: bytes) -> None:
        ephemeral, digest, exchange, voting = (stated[at : at + _KEY_BYTES] for at in range(0, len(stated), _KEY_BYTES))
        try:
            secret = peer.ephemeral.exchange(X25519PublicKey.from_public_bytes(ephemeral))
        except ValueError:
            self.drops.count(name, "malformed")
            return
        if peer.channel is not None:
            peer.former.add(peer.channel.incarnation)
            # What the earlier life did not acknowledge goes to the new one, in the order it was said.
            peer.waiting[:0] = [Pending(each.content, each.digest) for each in peer.channel.pending.values()]
        sides = sorted([(self.name, self._incarnation, self.pins.agreement_digest), (name, theirs, digest)])
        context = hashlib.sha256(repr(sides).encode()).digest()

        def directed(sender: str) -> ChaCha20Poly1305:
            info = b"sudare session\x00" + sender.encode()
            return ChaCha20Poly1305(HKDF(SHA256(), 32, context, info).derive(secret))

        peer.channel = Channel(theirs, directed(self.name), directed(name), digest, context)
        peer.publics = PublicKeys(exchange, voting)
        peer.answering, peer.receipt_due, peer.difference, peer.has_left = theirs, float("-inf"), None, False
        peer.terms_owed = digest != self.pins.agreement_digest

    def _heed_refusal(self, packet: Packet, peer: Peer, ours: bytes) -> None:
        header, signature = packet.content[: _HEADER.size], packet.content[_HEADER.size :]
        text = _signed_text(packet.sender, self.name, header)
        if ours == self._incarnation and verifies(self.pins.keys[packet.sender], _REFUSAL_PURPOSE, text, signature):
            peer.refuses_us = True
        else:
            self.drops.count(packet.sender, "unauthentic" if ours == self._incarnation else "repeated")

    # How it is written

    def _hello(self, receiver: str, peer: Peer, answered: bytes) -> bytes:
        header = _HEADER.pack(_MAGIC, _HELLO, self._incarnation, answered, 0)
        ephemeral = peer.ephemeral.public_key().public_bytes_raw()
        content = header + ephemeral + self.pins.agreement_digest + self.publics.exchange + self.publics.signing
        return content + self._identity.sign(_HELLO_PURPOSE, _signed_text(self.name, receiver, content))

    def _refusal(self, receiver: str, theirs: bytes) -> bytes:
        """The one thing that is said about an error: no reason, no detail."""
        header = _HEADER.pack(_MAGIC, _REFUSAL, self._incarnation, theirs, 0)
        return header + self._identity.sign(_REFUSAL_PURPOSE, _signed_text(self.name, receiver, header))

    def _receipt(self, peer: Peer, channel: Channel) -> bytes:
        """Which messages were acknowledged: all below a number, and some above."""
        peer.receipt_owed, peer.receipt_due = False, float("inf")
        done = sorted(channel.done)
        return self._sealed(channel, _RECEIPT, struct.pack(f"<{1 + len(done)}Q", channel.done_below, *done))

    def _sealed(self, channel: Channel, kind: int, content: bytes) -> bytes:
        counter = channel.sealed_count.get(kind, 0)
        channel.sealed_count[kind] = counter + 1
        header = _HEADER.pack(_MAGIC, kind, self._incarnation, channel.incarnation, counter)
        return header + channel.sending.encrypt(_nonce(kind, counter), content, header)


def _nonce(kind: int, counter: int) -> bytes:
    """Every kind counts for itself, so that no nonce is used twice under a key."""
    return struct.pack("<IQ", kind, counter)


def _named(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<I", len(content)) + content


def _signed_text(sender: str, receiver: str, content: bytes) -> bytes:
    return _named(sender) + _named(receiver) + content


def _difference(peer: str, ours: Mapping[str, str], content: bytes) -> AgreementMismatch:
    """Which agreed fields differ. The content is authentic, but may come from another version."""
    try:
        theirs = parsed_field_digests(parsed_json(content, largest_bytes=_MOST_TERMS_BYTES))
    except (NotParsed, AgreementError):
        what = "and its program writes it in a way that this version does not read"
    else:
        fields = differing_fields(ours, theirs)
        what = (
            f"which differs in {shown_fields(fields)}" if fields else "though every field is the same: programs differ"
        )
    return AgreementMismatch(
        f"'{peer}' signed another text, {what}. Nobody sent anything.",
        "Settle what was agreed, then sign the same text.",
    )
