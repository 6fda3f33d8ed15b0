"""A member with a proper key and a program of its own: it seals whatever it likes, and hands it to an honest member's dispatcher."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.signed_statements import keys_in_force
from sudare.consortium.network.message_dispatch import MessageDispatcher
from sudare.consortium.network.session import Session
from sudare.consortium.network.transport.base import Packet
from sudare.consortium.node_connection import pins_of
from tests.consortium.clinics import IDENTITIES

HELLO, MESSAGE, RECEIPT, TERMS, REFUSAL = range(1, 6)


class HostileMember:
    """Speaks to one honest dispatcher, by hand: no threads, no clock."""

    def __init__(self, name: str, victim: MessageDispatcher, session: Session) -> None:
        self.name, self.victim, self.session = name, victim, session
        self.now = 0.0

    @classmethod
    def among(
        cls, name: str, node: object, identity: Identity | None = None, other_agreement: bool = False
    ) -> HostileMember:
        """The member of that name in the agreement of a node, or of another agreement among the same members."""
        agreement = node.agreement  # type: ignore[attr-defined]
        pins = pins_of(agreement, keys_in_force(agreement, node.member.statements()))  # type: ignore[attr-defined]
        if other_agreement:
            pins = replace(pins, agreement_digest=bytes(32))
        own = IDENTITIES[name] if identity is None else identity
        publics = own.member_keys(bytes.fromhex(agreement.digest)).public
        return cls(name, node.dispatcher, Session(name, own, publics, pins))  # type: ignore[attr-defined]

    def meet(self) -> HostileMember:
        """Hellos, until both know each other."""
        for _ in range(6):
            self.now += 1.0
            self.hand_over(*self.due())
            self.hear()
        assert self.channel is not None
        return self

    @property
    def channel(self) -> object:
        return self.session._peers[self.victim.session.name].channel

    def due(self) -> list[bytes]:
        """What an honest program would send to this one now."""
        return [packet.content for packet in self.session.due(self.now) if packet.sender == self.victim.session.name]

    def hear(self) -> list[Packet]:
        """What the honest member has to say."""
        said = [packet for packet in self.victim.due(self.now) if packet.sender == self.name]
        for packet in said:
            self.session.receive(Packet(self.victim.session.name, packet.content), self.now)
        return said

    def hand_over(self, *contents: bytes) -> None:
        """Packets as they come from the transport. An exception here would end the node."""
        for content in contents:
            try:
                self.victim.receive(Packet(self.name, content), self.now)
            except Exception as error:
                raise AssertionError(f"the message ended the node: {type(error).__name__}") from error

    def sealed(self, kind: int, content: bytes) -> bytes:
        """A packet under the right keys, with the next counter."""
        return self.session._sealed(self.channel, kind, content)  # type: ignore[arg-type]

    def say(self, *contents: bytes) -> None:
        """Authentic messages."""
        self.hand_over(*(self.sealed(MESSAGE, content) for content in contents))

    def flood(self, contents: Iterator[bytes]) -> None:
        """Authentic messages, one after the other, so that nothing of them is kept here."""
        for content in contents:
            self.say(content)
