"""A member that says hello as one new process after the other wants the others busy with it, and away from each other."""

from __future__ import annotations

import pytest

from sudare.consortium.network import session as sessions
from sudare.consortium.network.peer_state import MOST_NEW_LIVES
from sudare.consortium.network.presence_announcements import HELLO
from sudare.consortium.network.session import Session
from sudare.consortium.network.transport.base import Packet
from tests.consortium.simulated_consortium import names_of, session_of

EAST, NORTH, WEST = names_of(3)


def _pass(now: float, *living: Session) -> int:
    """Everything that is due from each to the others; how many hellos the first has said."""
    hellos = 0
    by_name = {each.name: each for each in living}
    for each in living:
        for receiver, content in list(each.due(now)):
            hellos += each is living[0] and content[4] == HELLO
            if receiver in by_name:
                by_name[receiver].receive(Packet(each.name, content), now)
    return hellos


def test_a_flood_of_new_lives_costs_others_a_signature_a_second_and_parts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    east, north = session_of(0, 3), session_of(1, 3)
    for step in range(10):
        _pass(0.1 * step, east, north)
    looked_at = []
    heard = sessions.heard
    monkeypatch.setattr(sessions, "heard", lambda name, *given: (looked_at.append(name), heard(name, *given))[1])
    seconds, hellos = 20, 0
    for tenth in range(10 * seconds):
        now = 2.0 + 0.1 * tenth
        for _ in range(10):
            content = next(packet.content for packet in session_of(2, 3).due(now))
            for each in (east, north):
                each.receive(Packet(WEST, content), now)
        hellos += _pass(now, east, north)
        assert {EAST, NORTH} <= east.present(now, 3.0)
    # Two listen, of a hundred a second.
    assert looked_at.count(WEST) <= 2 * (MOST_NEW_LIVES + seconds + 1)
    assert east.drops.by_reason()["over-quota"] >= 100 * seconds - MOST_NEW_LIVES - seconds - 1
    # To both others: those that its new lives cause, and few besides.
    assert hellos <= 2 * (MOST_NEW_LIVES + 2 * seconds)
    # What west is in earnest is heard soon after.
    west = session_of(2, 3)
    for tenth in range(60):
        _pass(2.0 + seconds + 0.1 * tenth, east, north, west)
    assert {EAST, NORTH, WEST} == east.present(8.0 + seconds, 3.0)


def test_a_member_that_is_started_again_and_again_is_heard_each_time() -> None:
    east = session_of(0, 3)
    for start in range(int(MOST_NEW_LIVES) - 1):
        west, now = session_of(2, 3), 5.0 * start
        for step in range(20):
            _pass(now + 0.1 * step, east, west)
        assert WEST in east.present(now + 2.0, 1.5)
