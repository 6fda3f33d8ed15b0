"""What carries bytes between members. It may lose, delay, repeat and reorder them; the session above it puts that right."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

from sudare.consortium.network.dropped_messages import Drops
from sudare.consortium.network.transport.queues import Limits

# The largest release is 64 MiB; the rest is for what is around it. A larger packet is never sent, and dropped where it comes.
MOST_PACKET_BYTES: Final = (64 << 20) + (1 << 18)
# Of what has come and was not looked at yet.
ARRIVED: Final = Limits(most_items=1 << 13, most_bytes=2 * MOST_PACKET_BYTES, most_total_bytes=4 * MOST_PACKET_BYTES)


class Packet(NamedTuple):
    """Bytes that came, and who sent them as far as the transport can tell. The session does not believe it unproved."""

    sender: str
    content: bytes


class Announcement(NamedTuple):
    """Bytes for all others. A carrier may keep them for so long, to carry several at once; of a sender's hellos the last is enough, and so of the rest."""

    content: bytes
    is_hello: bool
    within_seconds: float


class Transport(Protocol):
    """One member's way to the others."""

    @property
    def name(self) -> str:
        """Who this member is."""

    @property
    def drops(self) -> Drops:
        """What came and was dropped before anybody looked at it."""

    def send(self, receiver: str, content: bytes) -> None:
        """Hand the bytes over. They may never arrive, and no error is raised then."""

    def announce(self, announcement: Announcement, receivers: Collection[str]) -> None:
        """Hand the same bytes over for all of these. They may never arrive, and no error is raised then."""

    def reaches_relay(self) -> bool:
        """Whether the way to the others is open, as far as the transport can tell."""

    def receive(self, timeout_seconds: float) -> Packet | None:
        """The next packet, or None if none came in time."""

    def close(self) -> None:
        """Let go of connections and threads. Nothing is received afterwards."""
