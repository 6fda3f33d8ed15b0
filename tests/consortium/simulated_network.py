"""All members of a consortium in one process, under a clock that jumps from event to event, on a network that can misbehave.

Ten minutes of a consortium take as long as its arithmetic, and the same seed gives the same delays, losses and deaths.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sudare.consortium.network.message_dispatch import MessageDispatcher
from sudare.consortium.network.transport.base import Packet

_TICK_SECONDS = 0.25


class PacketCarrier(Protocol):
    """What becomes of a packet."""

    def carried(self, sender: str, receiver: str, content: bytes, now: float) -> list[tuple[float, bytes]]:
        """When it arrives and as what: nothing if lost, several entries if repeated."""


class GoodNetwork:
    """Everything arrives, in order, after a fixed time."""

    def __init__(self, delay_seconds: float = 0.001) -> None:
        self._delay = delay_seconds

    def carried(self, sender: str, receiver: str, content: bytes, now: float) -> list[tuple[float, bytes]]:
        """Once, as it was sent."""
        return [(now + self._delay, content)]


@dataclass
class _Member:
    start: Callable[[float], MessageDispatcher]
    dispatcher: MessageDispatcher | None = None
    wakes_at: float = 0.0
    ticks_at: float = 0.0
    lives: int = 0


class SimulatedNetwork:
    """The members' dispatchers and the events between them. `start` makes a dispatcher, with its activities begun: once for every life."""

    def __init__(
        self,
        members: Mapping[str, Callable[[float], MessageDispatcher]],
        network: PacketCarrier | None = None,
        restart_seconds: float = 1.0,
        death: type[BaseException] | None = None,
    ) -> None:
        """`death` is what a test raises inside a member to end its process in the middle of whatever it was doing."""
        self.now = 0.0
        self._members = {name: _Member(start) for name, start in members.items()}
        self._network = GoodNetwork() if network is None else network
        self._restart_seconds = restart_seconds
        self._deaths = () if death is None else (death,)
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        for name in members:
            self.at(0.0, partial(self.bring_up, name))

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._events, (time, next(self._numbers), action))

    def dispatcher(self, name: str) -> MessageDispatcher | None:
        """A member's dispatcher, or None while it is dead."""
        return self._members[name].dispatcher

    def lives(self, name: str) -> int:
        """How often a member was started."""
        return self._members[name].lives

    def bring_up(self, name: str) -> None:
        """Start a member that is not running."""
        member = self._members[name]
        if member.dispatcher is None:
            member.lives += 1
            self._alive(name, lambda: setattr(member, "dispatcher", member.start(self.now)))

    def kill(self, name: str, restart_seconds: float | None = None) -> None:
        """End a member's process; it is started again after a while, or never if that is infinite."""
        self._members[name].dispatcher = None
        wait = self._restart_seconds if restart_seconds is None else restart_seconds
        if wait != float("inf"):
            self.at(self.now + wait, partial(self.bring_up, name))

    def run(self, until: Callable[[], bool], most_seconds: float) -> bool:
        """Let time pass until the condition holds; False if it does not within these virtual seconds."""
        end = self.now + most_seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, action = heapq.heappop(self._events)
            action()
            if until():
                return True
        return until()

    def _alive(self, name: str, action: Callable[[], None]) -> None:
        """Something that a member does; it may die of it. Then what it did is sent, unless it dies while sending."""
        try:
            action()
            self._flush(name)
        except self._deaths:
            self.kill(name)

    def _flush(self, name: str) -> None:
        member = self._members[name]
        if member.dispatcher is None:
            return
        for receiver, content in member.dispatcher.due(self.now):
            for time, arriving in self._network.carried(name, receiver, content, self.now):
                self.at(time, partial(self._arrive, receiver, Packet(name, arriving)))
        wakes_at = min(member.dispatcher.session.next_due(self.now), member.ticks_at)
        if not self.now < member.wakes_at <= wakes_at:
            member.wakes_at = max(wakes_at, self.now + 1e-6)
            self.at(member.wakes_at, partial(self._wake, name, member.lives))

    def _arrive(self, name: str, packet: Packet) -> None:
        dispatcher = self._members[name].dispatcher
        if dispatcher is not None:
            self._alive(name, lambda: dispatcher.receive(packet, self.now))

    def _wake(self, name: str, life: int) -> None:
        member = self._members[name]
        dispatcher = member.dispatcher
        if dispatcher is not None and member.lives == life:
            self._alive(name, lambda: self._tick(member, dispatcher))

    def _tick(self, member: _Member, dispatcher: MessageDispatcher) -> None:
        """Look at who is there, as often as the loop of a node does, whatever else it woke up for."""
        if self.now >= member.ticks_at:
            member.ticks_at = (math.floor(self.now / _TICK_SECONDS + 1e-6) + 1) * _TICK_SECONDS
            dispatcher.tick(self.now)
