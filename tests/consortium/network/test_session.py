"""Hellos, sealed packets, acknowledgements: what a session believes, repeats and refuses."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.consortium.agreement.identity import Identity
from sudare.consortium.network.session import Delivery, Session
from sudare.consortium.network.transport.base import Packet
from sudare.errors import AgreementMismatch
from sudare.sums.context import RELAY_NAME
from tests.consortium.simulated_consortium import IDENTITIES, names_of, pins_of, session_of

FIRST, SECOND = names_of(2)


def exchanged(first: Session, second: Session, now: float, rounds: int = 6) -> list[Delivery]:
    """Pass everything between two sessions; what was delivered."""
    delivered = []
    for _ in range(rounds):
        for one, other in ((first, second), (second, first)):
            for receiver, content in list(one.due(now)):
                if receiver == other.name:
                    found = other.receive(Packet(one.name, content), now)
                    delivered += [] if found is None else [found]
    return delivered


def pair() -> tuple[Session, Session]:
    first, second = session_of(0, 2), session_of(1, 2)
    exchanged(first, second, 0.0)
    assert first.present(0.0, 1.0) == second.present(0.0, 1.0) == {FIRST, SECOND}
    return first, second


def test_messages_arrive_once_and_in_order_and_are_forgotten_when_acknowledged() -> None:
    first, second = pair()
    for number in range(5):
        first.post(SECOND, b"message %d" % number)
    delivered = exchanged(first, second, 1.0, rounds=1)
    assert [each.content for each in delivered] == [b"message %d" % number for number in range(5)]
    assert not first.is_settled()
    assert exchanged(first, second, 5.0) == []
    assert not first.is_settled()
    for each in delivered:
        second.acknowledge(each)
    for now in (6.0, 6.2):
        # One receipt for all, a moment later.
        exchanged(first, second, now)
    assert first.is_settled()
    assert not [packet for packet in first.due(6.3) if packet.content[4] == 2]


def test_a_lost_message_is_sent_again_as_the_same_bytes() -> None:
    first, second = pair()
    first.post(SECOND, b"payload")
    (sent,) = [packet.content for packet in first.due(1.0) if packet.content[4] == 2]
    (again,) = [packet.content for packet in first.due(2.0) if packet.content[4] == 2]
    assert sent == again
    assert second.receive(Packet(FIRST, again), 2.0) is not None
    assert second.receive(Packet(FIRST, sent), 2.1) is None


def test_what_was_not_acknowledged_goes_to_the_next_life_of_the_receiver() -> None:
    first, second = pair()
    first.post(SECOND, b"before the crash")
    (delivery,) = exchanged(first, second, 1.0, rounds=1)
    reborn = session_of(1, 2)
    (again,) = exchanged(first, reborn, 3.0)
    assert again.content == delivery.content
    assert again.incarnation != b""
    second.acknowledge(delivery)
    assert not first.is_settled()


def test_packets_of_an_earlier_life_are_dropped_and_old_hellos_change_nothing() -> None:
    first, second = pair()
    recorded = []
    first.post(SECOND, b"old")
    for packet in first.due(1.0):
        recorded.append(packet.content)
    hello = session_of(0, 2)
    recorded += [packet.content for packet in hello.due(1.0)]
    reborn = session_of(0, 2)
    exchanged(reborn, second, 2.0)
    reborn.post(SECOND, b"new")
    for content in recorded:
        assert second.receive(Packet(FIRST, content), 2.5) is None
    delivered = exchanged(reborn, second, 3.0)
    assert [each.content for each in delivered] == [b"new"]


def test_hellos_of_a_former_life_that_answered_this_one_are_not_believed_again() -> None:
    first, second = session_of(0, 2), session_of(1, 2)
    recorded = []
    for _ in range(4):
        for packet in list(first.due(0.0)):
            recorded.append(packet.content)
            second.receive(Packet(FIRST, packet.content), 0.0)
        for packet in list(second.due(0.0)):
            first.receive(Packet(SECOND, packet.content), 0.0)
    reborn = session_of(0, 2)
    exchanged(reborn, second, 2.0)
    for content in recorded:
        second.receive(Packet(FIRST, content), 3.0)
    reborn.post(SECOND, b"still here")
    assert [each.content for each in exchanged(reborn, second, 4.0)] == [b"still here"]


def test_a_withheld_hello_of_a_former_life_cuts_two_members_off_for_a_few_beats_only() -> None:
    first, second, earlier = session_of(0, 2), session_of(1, 2), session_of(0, 2)
    withheld: list[bytes] = []

    def passed_on(one: Session, other: Session, start: float, seconds: int, *, withholds: bool = False) -> list[bytes]:
        """What is delivered while both talk, `one`'s packets being kept back or not."""
        delivered = []
        for half in range(2 * seconds):
            now = start + half / 2
            for sender, receiver in ((one, other), (other, one)):
                for packet in list(sender.due(now)):
                    if sender is one and withholds:
                        withheld.append(packet.content)
                    elif (found := receiver.receive(Packet(sender.name, packet.content), now)) is not None:
                        receiver.acknowledge(found)
                        delivered.append(found.content)
        return delivered

    passed_on(earlier, second, 0.0, 5, withholds=True)
    passed_on(first, second, 5.0, 5)
    for content in withheld:
        second.receive(Packet(FIRST, content), 10.0)
    first.post(SECOND, b"still here")
    second.post(FIRST, b"so am I")
    assert passed_on(first, second, 10.0, 3) == []
    assert sorted(passed_on(first, second, 13.0, 20)) == [b"so am I", b"still here"]
    assert first.is_settled()
    assert second.is_settled()
    for content in withheld:
        assert second.receive(Packet(FIRST, content), 33.0) is None
    first.post(SECOND, b"at once")
    assert passed_on(first, second, 33.0, 1) == [b"at once"]


def test_more_withheld_lives_than_are_remembered_are_not_taken_up() -> None:
    first, second = session_of(0, 2), session_of(1, 2)
    withheld, hellos = [], [packet.content for packet in second.due(0.0)]
    for _ in range(40):
        earlier = session_of(0, 2)
        for content in hellos:
            earlier.receive(Packet(SECOND, content), 0.0)
        withheld += [packet.content for packet in earlier.due(0.0)]
    exchanged(first, second, 1.0)
    for content in withheld:
        second.receive(Packet(FIRST, content), 2.0)
    assert len(second._peers[FIRST].displaced) == 16
    assert second.drops.counts()[FIRST, "over-quota"] == 24
    for second_half in range(60):
        for packet in list(first.due(2.0 + second_half / 2)):
            second.receive(Packet(FIRST, packet.content), 2.0 + second_half / 2)
    first.post(SECOND, b"still here")
    assert [each.content for each in exchanged(first, second, 33.0)] == [b"still here"]


@settings(max_examples=60)
@given(spot=st.integers(0, 10_000), bit=st.integers(0, 7), cut=st.booleans())
def test_no_damaged_packet_is_delivered_or_disturbs_the_session(spot: int, bit: int, cut: bool) -> None:
    first, second = pair()
    first.post(SECOND, b"payload")
    (sent,) = [packet.content for packet in first.due(1.0) if packet.content[4] == 2]
    spot %= len(sent)
    damaged = sent[:spot] if cut else sent[:spot] + bytes([sent[spot] ^ (1 << bit)]) + sent[spot + 1 :]
    assert second.receive(Packet(FIRST, damaged), 1.0) is None
    found = second.receive(Packet(FIRST, sent), 1.0)
    assert found is not None
    assert found.content == b"payload"


@given(st.binary(max_size=300))
def test_garbage_is_dropped(content: bytes) -> None:
    session = session_of(0, 2)
    assert session.receive(Packet(SECOND, content), 0.0) is None
    assert session.receive(Packet("stranger", content), 0.0) is None
    assert session.present(0.0, 1.0) == {FIRST}


def test_packets_for_somebody_else_or_from_somebody_else_do_not_open() -> None:
    sessions = [session_of(position, 3) for position in range(3)]
    for _ in range(6):
        for one in sessions:
            for receiver, content in list(one.due(0.0)):
                sessions[names_of(3).index(receiver)].receive(Packet(one.name, content), 0.0)
    sessions[0].post(names_of(3)[1], b"for the second")
    (sent,) = [packet.content for packet in sessions[0].due(1.0) if packet.content[4] == 2]
    assert sessions[2].receive(Packet(sessions[0].name, sent), 1.0) is None
    assert sessions[1].receive(Packet(sessions[2].name, sent), 1.0) is None
    assert sessions[1].receive(Packet(sessions[0].name, sent), 1.0) is not None


def test_nothing_of_a_message_is_on_the_wire() -> None:
    first, _ = pair()
    secret = os.urandom(64)
    first.post(SECOND, secret)
    packets = [packet.content for packet in first.due(1.0)]
    for content in packets:
        assert not any(secret[at : at + 6] in content for at in range(len(secret) - 6))


def test_the_same_message_looks_different_in_every_session() -> None:
    sealed = []
    for _ in range(2):
        first, _second = pair()
        first.post(SECOND, b"payload")
        sealed += [packet.content[45:] for packet in first.due(1.0) if packet.content[4] == 2]
    assert sealed[0] != sealed[1]


def test_members_with_different_agreements_learn_the_field_and_exchange_nothing() -> None:
    other = pins_of(2, {"name": "test", "tasks.joint.epsilon": "1.0"})
    first, second = session_of(0, 2), session_of(1, 2, other)
    first.post(SECOND, b"data")
    assert exchanged(first, second, 0.0) == []
    assert exchanged(first, second, 5.0) == []
    for session, peer in ((first, SECOND), (second, FIRST)):
        difference = session.differences()[peer]
        assert isinstance(difference, AgreementMismatch)
        assert "tasks.joint.epsilon" in str(difference)
        assert f"'{peer}'" in str(difference)
        # Nothing is due to it: a loop that waits for what is due does not spin.
        assert session.next_due(5.0) > 5.0
        assert session.present(5.0, 10.0) == {session.name}


def test_who_has_another_version_is_not_told_to_sign_the_same_text() -> None:
    fields = {"name": "test", "version": "2", "previous": "00"}
    first, second = session_of(0, 2), session_of(1, 2, pins_of(2, fields))
    assert exchanged(first, second, 0.0) == []
    assert exchanged(first, second, 5.0) == []
    for session, peer in ((first, SECOND), (second, FIRST)):
        remedy = session.differences()[peer].remedy
        assert "an earlier version of the agreement" in remedy
        assert "sign the same text" not in remedy


def test_a_relay_with_another_agreement_is_not_present_and_no_reason_to_stop() -> None:
    relay = Identity.generated()
    pins = pins_of(2, keys={RELAY_NAME: relay.public_key})
    first, other = session_of(0, 2, pins), pins_of(2, {"name": "another"}, {RELAY_NAME: relay.public_key})
    lying = Session(RELAY_NAME, relay, relay.member_keys(b"test").public, other)
    assert exchanged(first, lying, 0.0) == []
    assert FIRST in lying.differences()
    assert first.differences() == {}
    assert first.present(0.0, 10.0) == {FIRST}


def test_a_stranger_with_a_members_name_gets_a_refusal_and_no_channel() -> None:
    first, stranger = session_of(0, 2), session_of(1, 2, identity=Identity.generated())
    first.post(SECOND, b"data")
    assert exchanged(first, stranger, 0.0) == []
    assert first.mistrusted() == {SECOND}
    assert stranger.refused_by() == {FIRST}
    assert first.present(0.0, 1.0) == {FIRST}
    honest = session_of(1, 2)
    assert [each.content for each in exchanged(first, honest, 2.0)] == [b"data"]
    assert first.mistrusted() == set()


def test_keys_for_masks_come_signed() -> None:
    first, second = pair()
    assert first.known_publics() == second.known_publics()
    assert first.known_publics()[SECOND] == IDENTITIES[1].member_keys(b"test").public


def test_a_name_outside_the_agreement_is_refused() -> None:
    with pytest.raises(AgreementMismatch, match="not a member"):
        Session("nobody", IDENTITIES[0], IDENTITIES[0].member_keys(b"test").public, pins_of(2))
