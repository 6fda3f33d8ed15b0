"""Members in one process, each in a thread of its own, with queues between them."""

from __future__ import annotations

import threading
from collections.abc import Collection

from sudare.consortium.network.dropped_messages import Drops
from sudare.consortium.network.transport.base import ARRIVED, MOST_PACKET_BYTES, Announcement, Packet
from sudare.consortium.network.transport.queues import FairQueue
from sudare.errors import InvalidParameter


class LocalHub:
    """Where members of one process find each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, FairQueue[Packet]] = {}

    def join(self, name: str) -> LocalTransport:
        """This member's transport, until it is closed. A name has one at a time."""
        with self._lock:
            if name in self._queues:
                raise InvalidParameter(f"'{name}' is already here.", "Close its other transport first.")
            self._queues[name] = FairQueue(ARRIVED)
        return LocalTransport(name, self)

    def queue_of(self, name: str) -> FairQueue[Packet] | None:
        """What is waiting for a member that is here."""
        with self._lock:
            return self._queues.get(name)

    def leave(self, name: str) -> None:
        """Forget a member and what is waiting for it."""
        with self._lock:
            self._queues.pop(name, None)


class LocalTransport:
    """One member's end of a hub."""

    def __init__(self, name: str, hub: LocalHub) -> None:
        self.name = name
        self.drops = Drops()
        self._hub = hub

    def send(self, receiver: str, content: bytes) -> None:
        """Into the receiver's queue; lost if nobody of that name is here, or if more is waiting than there is room for."""
        waiting = self._hub.queue_of(receiver)
        if waiting is not None and len(content) <= MOST_PACKET_BYTES:
            waiting.put(self.name, Packet(self.name, content), len(content))

    def announce(self, announcement: Announcement, receivers: Collection[str]) -> None:
        """Into the queue of each."""
        for receiver in receivers:
            self.send(receiver, announcement.content)

    def reaches_relay(self) -> bool:
        """There is none to reach."""
        return True

    def receive(self, timeout_seconds: float) -> Packet | None:
        """The next packet."""
        waiting = self._hub.queue_of(self.name)
        if waiting is None:
            return None
        return waiting.get(max(timeout_seconds, 0.0))

    def close(self) -> None:
        """Leave."""
        self._hub.leave(self.name)
