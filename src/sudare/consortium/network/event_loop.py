"""The one loop that looks at a clock and a transport: packets in, packets out, until a condition holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sudare.consortium.network.message_dispatch import Desk
from sudare.consortium.network.transport.base import Transport

_TICK_SECONDS: Final = 0.25
_MOST_AT_ONCE: Final = 64


def drive(
    desk: Desk,
    transport: Transport,
    until: Callable[[], bool],
    most_seconds: float = float("inf"),
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Let a member talk until the condition holds; False if it does not within the time."""
    end, ticks_at = clock() + most_seconds, clock()
    while True:
        now = clock()
        if now >= ticks_at:
            desk.tick(now)
            ticks_at = now + _TICK_SECONDS
        for receiver, content in desk.due(now):
            transport.send(receiver, content)
        if until():
            return True
        if now >= end:
            return False
        wait = min(desk.session.next_due(now), ticks_at, end) - now
        packet = transport.receive(max(wait, 0.0))
        for _ in range(_MOST_AT_ONCE):
            if packet is None:
                break
            desk.receive(packet, clock())
            packet = transport.receive(0.0)
        else:
            if packet is not None:
                desk.receive(packet, clock())


def settle(desk: Desk, transport: Transport, most_seconds: float) -> bool:
    """Stay until the others have acknowledged everything (somebody may need the last message of a task), then say goodbye."""
    is_settled = drive(desk, transport, desk.session.is_settled, most_seconds)
    for receiver, content in desk.session.farewell():
        transport.send(receiver, content)
    return is_settled
