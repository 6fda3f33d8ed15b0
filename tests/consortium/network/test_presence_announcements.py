"""Announcements to all: what they hold, when they are due, and that a consortium of S says S of them in a period, and not S²."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from sudare.consortium.agreement.identity import Identity
from sudare.consortium.network.presence_announcements import (
    BEAT,
    GOODBYE,
    HELLO,
    SIGNATURE_BYTES,
    AnnouncementSchedule,
    agreement_tag,
    announcement,
    has_possible_size,
    heard,
    named_tags,
    tag_of,
    view_of,
)
from sudare.consortium.network.session import PinnedAgreement, Session
from sudare.consortium.network.transport.base import Packet
from tests.consortium.simulated_consortium import session_of

LIFE, VIEW = bytes(range(16)), bytes(range(16, 32))
NOBODY: frozenset[bytes] = frozenset()
SOMEBODY = frozenset({LIFE})


# What they hold


def test_a_hello_is_read_as_it_was_written_and_by_nobody_elses_key() -> None:
    identity, stated = Identity.generated(), bytes(128) + b"tag-of-1tag-of-2"
    content = announcement(identity, "east", HELLO, LIFE, VIEW, 7, stated)
    assert has_possible_size(HELLO, content)
    found = heard("east", identity.public_key, content)
    assert found is not None
    assert (found.kind, found.life, found.view, found.number) == (HELLO, LIFE, VIEW, 7)
    assert found.tags == {b"tag-of-1", b"tag-of-2"}
    assert found.greeting is not None
    assert found.greeting.life == LIFE
    assert heard("west", identity.public_key, content) is None
    assert heard("east", Identity.generated().public_key, content) is None
    changed = content[:4] + bytes([BEAT]) + content[5:]
    assert heard("east", identity.public_key, changed) is None


@pytest.mark.parametrize("kind", [BEAT, GOODBYE])
def test_a_beat_has_one_size(kind: int) -> None:
    content = announcement(Identity.generated(), "east", kind, LIFE, VIEW, 7)
    assert has_possible_size(kind, content)
    assert not has_possible_size(kind, content + b"x")
    assert not has_possible_size(kind, content[:-1])
    assert not has_possible_size(HELLO, content)
    assert not has_possible_size(HELLO, bytes(45 + 128 + SIGNATURE_BYTES + 1))


def test_the_agreement_is_named_differently_in_every_life() -> None:
    assert agreement_tag(bytes(32), LIFE) == agreement_tag(bytes(32), LIFE)
    assert agreement_tag(bytes(32), LIFE) != agreement_tag(bytes(32), VIEW)
    assert agreement_tag(bytes(32), LIFE) != agreement_tag(bytes(31) + b"x", LIFE)


def test_a_view_does_not_depend_on_the_order() -> None:
    assert view_of([LIFE, VIEW]) == view_of([VIEW, LIFE]) != view_of([LIFE])


# When they are due


def said(schedule: AnnouncementSchedule, now: float, lives: frozenset[bytes], has_doubts: bool) -> int | None:
    kind = schedule.kind_due(now, lives, has_doubts)
    if kind is not None:
        schedule.said(now, kind, lives)
    return kind


def times_said(
    schedule: AnnouncementSchedule, seconds: float, lives: frozenset[bytes], has_doubts: bool
) -> list[tuple[float, int]]:
    """What is said within the time, with the clock going from one due time to the next."""
    found, now = [], 0.0
    while now <= seconds:
        kind = said(schedule, now, lives, has_doubts)
        found += [] if kind is None else [(now, kind)]
        now = schedule.next_due(lives, has_doubts)
    return found


def test_whom_nobody_answers_says_hello_less_and_less_often() -> None:
    found = times_said(AnnouncementSchedule("east", 3, 15.0), 100.0, NOBODY, has_doubts=True)
    assert {kind for _, kind in found} == {HELLO}
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(found)]
    for gap, most in zip(gaps, (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0), strict=False):
        assert 0.75 * most <= gap <= most
    assert len(found) <= 13


def test_where_all_have_heard_of_the_same_lives_there_are_beats_only() -> None:
    schedule = AnnouncementSchedule("east", 3, 15.0)
    found = times_said(schedule, 300.0, SOMEBODY, has_doubts=False)
    assert found[0] == (0.0, HELLO)
    assert {kind for _, kind in found[1:]} == {BEAT}
    assert 20 <= len(found) - 1 <= 27


def test_intervals_differ_between_members_and_not_between_runs() -> None:
    def times(name: str) -> list[tuple[float, int]]:
        return times_said(AnnouncementSchedule(name, 3, 15.0), 100.0, SOMEBODY, has_doubts=False)

    assert times("east") == times("east") != times("west")


def test_a_new_life_is_named_at_once_and_doubts_begin_anew() -> None:
    schedule = AnnouncementSchedule("east", 3, 15.0)
    times_said(schedule, 60.0, NOBODY, has_doubts=True)
    now = schedule._said_at + 0.001
    assert said(schedule, now, SOMEBODY, has_doubts=True) == HELLO
    assert schedule.next_due(SOMEBODY, has_doubts=True) <= now + 0.5


def test_however_often_lives_change_a_member_says_few_hellos() -> None:
    """With 64 members each may say one in two seconds, beyond the first four."""
    schedule, hellos = AnnouncementSchedule("east", 64, 15.0), 0
    for step in range(1, 6_001):
        lives = frozenset({step.to_bytes(16, "big")})
        hellos += said(schedule, step / 100.0, lives, has_doubts=True) == HELLO
    assert 60.0 / 2.0 <= hellos <= 60.0 / 2.0 + 5


# Between sessions


class Hub:
    """Sessions of which some are running: what one says to all, those hear; and how much is said to all and to one is counted."""

    def __init__(self, members: int, beat_seconds: float) -> None:
        identities = {f"member-{at:02d}": Identity.generated() for at in range(members)}
        pins = PinnedAgreement(bytes(32), {name: each.public_key for name, each in identities.items()}, lambda _: {})
        self.sessions = {
            name: Session(name, identity, identity.member_keys(b"test").public, pins, beat_seconds)
            for name, identity in identities.items()
        }
        self.running = dict(self.sessions)
        self.to_all = self.to_one = 0

    def step(self, now: float) -> None:
        for name, session in self.running.items():
            found = session.announcement_due(now)
            self.to_all += found is not None
            packets = [] if found is None else [Packet(other, found.content) for other in session.others]
            direct = list(session.due(now))
            self.to_one += len(direct)
            for receiver, content in packets + direct:
                if receiver in self.running:
                    self.running[receiver].receive(Packet(name, content), now)


def test_members_that_start_one_after_the_other_are_present_after_few_words() -> None:
    members, now = 24, 0.0
    hub = Hub(members, 15.0)
    everyone, hub.running = frozenset(hub.sessions), {}
    for name, session in hub.sessions.items():
        hub.running[name] = session
        for _ in range(4):
            now += 0.25
            hub.step(now)
    for _ in range(12):
        now += 0.25
        hub.step(now)
    assert all(session.present(now, 45.0) == everyone for session in hub.sessions.values())
    # A limit for all together, whatever happens.
    assert hub.to_all <= 32 * now + 4 * members
    said_before = hub.to_all
    for _ in range(240):
        now += 0.25
        hub.step(now)
    assert hub.to_all - said_before <= members * 60.0 / (0.75 * 15.0) + members
    assert hub.to_one == 0
    assert all(session.present(now, 45.0) == everyone for session in hub.sessions.values())


def test_who_missed_a_hello_asks_for_it_without_a_word_to_one() -> None:
    """The third hears the beats of the first, whose hellos were lost: views differ, and both say hello again."""
    hub = Hub(3, 15.0)
    first, second, third = hub.sessions.values()
    for number in range(200):
        now = number * 0.25
        for session in (first, second, third):
            found = session.announcement_due(now)
            if found is not None:
                lost = session is first and number < 100 and found.is_hello
                for other in {first, second, third} - {session} - ({third} if lost else set()):
                    other.receive(Packet(session.name, found.content), now)
        if number == 99:
            assert first.name not in third.present(now, 45.0)
    assert third.present(now, 45.0) == set(hub.sessions)


def met(members: int = 2, beat_seconds: float = 1.0) -> list[Session]:
    hub = Hub(members, beat_seconds)
    for number in range(8):
        hub.step(number * 0.01)
    return list(hub.sessions.values())


def test_a_beat_that_is_repeated_makes_nobody_present() -> None:
    first, second = met()
    (beat,) = [first.announcement_due(2.0)]
    assert beat is not None
    second.receive(Packet(first.name, beat.content), 2.0)
    assert first.name in second.present(3.5, 2.0)
    for at in (5.0, 10.0):
        second.receive(Packet(first.name, beat.content), at)
    assert first.name not in second.present(10.0, 2.0)
    assert second.drops.by_reason()["repeated"] == 2


def test_a_farewell_is_heard_by_all_and_a_new_life_is_believed_again() -> None:
    hub = Hub(3, 1.0)
    for number in range(8):
        hub.step(number * 0.01)
    first, second, third = hub.sessions.values()
    farewell = first.farewell(2.0)
    for other in (second, third):
        other.receive(Packet(first.name, farewell.content), 2.0)
        assert first.name not in other.present(2.0, 10.0)
    again = Session(first.name, first._identity, first.publics, first.pins)
    hub.running[first.name] = again
    for number in range(6):
        hub.step(3.0 + 0.1 * number)
    assert first.name in second.present(3.5, 0.6)
    assert again.present(3.5, 0.6) == set(hub.sessions)


def test_whoever_said_farewell_is_waited_for_by_tasks_as_long_as_one_that_is_silent() -> None:
    hub = Hub(3, 1.0)
    for number in range(8):
        hub.step(number * 0.01)
    first, second, _ = hub.sessions.values()
    second.receive(Packet(first.name, first.farewell(2.0).content), 2.0)
    assert second.have_left() == {first.name}
    assert first.name not in second.present(2.0, 10.0)
    assert first.name in second.heard_within(11.0, 10.0)
    assert first.name not in second.heard_within(13.0, 10.0)


def test_two_processes_with_one_key_are_noticed_by_the_others_and_by_the_one_that_is_no_longer_heard() -> None:
    hub = Hub(3, 1.0)
    for number in range(8):
        hub.step(number * 0.01)
    first, second, _ = hub.sessions.values()
    twin = Session(first.name, first._identity, first.publics, first.pins)
    hub.running[first.name] = twin
    for number in range(8):
        hub.step(1.0 + 0.1 * number)
    assert first.name in second.present(2.0, 1.0)
    assert second.doubled() == set()
    for at in range(3, 60):
        # The relay passes on what both say, and the rest of it twice.
        for said in (twin.announcement_due(float(at)), first.announcement_due(float(at))):
            for _ in range(0 if said is None else 2):
                second.receive(Packet(first.name, said.content), float(at))
    assert second.doubled() == {first.name}
    replies = [packet.content for packet in second.due(60.0) if packet.sender == first.name]
    for reply in replies:
        first.receive(Packet(second.name, reply), 60.0)
        twin.receive(Packet(second.name, reply), 60.0)
    assert first.reporters_of_our_double() == {second.name}
    assert twin.reporters_of_our_double() == set()
    assert first.refused_by() == set()


def test_a_member_that_begins_anew_with_another_key_for_this_one_does_not_make_it_believe_in_a_second_process() -> None:
    """It has taken a version that names another key for it, and refuses what it says: nobody speaks with its key."""
    hub = Hub(3, 1.0)
    for number in range(8):
        hub.step(number * 0.01)
    first, second, _ = hub.sessions.values()
    others = {**second.pins.keys, first.name: Identity.generated().public_key}
    anew = Session(second.name, second._identity, second.publics, replace(second.pins, keys=others))
    said = first.announcement_due(20.0)
    assert said is not None
    anew.receive(Packet(first.name, said.content), 20.0)
    (refusal,) = [content for receiver, content in anew.due(20.0) if receiver == first.name and content[4] == 5]
    first.receive(Packet(second.name, refusal), 20.0)
    assert first.reporters_of_our_double() == set()
    assert first.refused_by() == {second.name}


def test_late_words_of_a_process_that_has_ended_are_no_second_one() -> None:
    hub = Hub(3, 1.0)
    for number in range(8):
        hub.step(number * 0.01)
    first, second, _ = hub.sessions.values()
    late = [said for at in (1.0, 2.0) if (said := first.announcement_due(at)) is not None]
    late.append(first.farewell(2.5))
    hub.running[first.name] = Session(first.name, first._identity, first.publics, first.pins)
    for number in range(8):
        hub.step(3.0 + 0.1 * number)
    for said in (*late, *late):
        second.receive(Packet(first.name, said.content), 5.0)
    assert second.doubled() == set()
    assert first.name in second.present(5.0, 3.0)


def test_words_that_a_relay_kept_back_cut_nobody_off_and_accuse_nobody_at_the_node_itself() -> None:
    """To others they look like a second node, which they say as a suspicion; they go on hearing the one that runs, and that one is told nothing."""
    hub = Hub(3, 1.0)
    for number in range(8):
        hub.step(number * 0.01)
    first, second, _ = hub.sessions.values()
    kept = [said for at in range(1, 12) if (said := first.announcement_due(float(at))) is not None]
    restarted = Session(first.name, first._identity, first.publics, first.pins)
    hub.running[first.name] = restarted
    for number in range(8):
        hub.step(12.0 + 0.1 * number)
    for at in range(13, 13 + len(kept)):
        for said in (restarted.announcement_due(float(at)), kept[at - 13]):
            if said is not None:
                second.receive(Packet(first.name, said.content), float(at))
        for packet in second.due(float(at)):
            if packet.sender == first.name:
                restarted.receive(Packet(second.name, packet.content), float(at))
    assert second.doubled() == {first.name}, "nobody can tell by announcements alone"
    assert first.name in second.present(float(at), 3.0)
    assert second._peers[first.name].channel.incarnation == restarted._incarnation
    assert restarted.reporters_of_our_double() == set()


def test_an_announcement_in_anothers_name_changes_nothing_and_is_refused_once_each() -> None:
    """A relay sees lives and numbers. It can neither speak for a member nor make others believe that the member was refused."""
    first, second = met()
    genuine = first.announcement_due(5.0)
    assert genuine is not None
    forged = genuine.content[:-1] + bytes([genuine.content[-1] ^ 1])
    second.receive(Packet(first.name, forged), 5.0)
    assert second.drops.by_reason()["unauthentic"] == 1
    (refusal,) = [content for _, content in second.due(5.0) if content[4] == 5]
    first.receive(Packet(second.name, refusal), 5.0)
    assert first.refused_by() == set()
    assert first.drops.by_reason()["repeated"] == 1
    second.receive(Packet(first.name, genuine.content), 5.0)
    assert first.name in second.present(5.0, 0.5)


def test_a_sealed_packet_shows_that_a_life_is_known() -> None:
    """Its hello that names this life was lost; nobody else can seal under the key that follows from both hellos."""
    first, second = session_of(0, 2), session_of(1, 2)
    hello = first.announcement_due(0.0)
    assert hello is not None
    second.receive(Packet(first.name, hello.content), 0.0)
    answer = second.announcement_due(0.0)
    assert answer is not None
    first.receive(Packet(second.name, answer.content), 0.0)
    assert first.present(0.0, 1.0) == {first.name, second.name}
    assert second.present(0.0, 1.0) == {second.name}
    first.post(second.name, b"at once")
    (sealed,) = [content for _, content in first.due(0.0) if content[4] == 2]
    delivery = second.receive(Packet(first.name, sealed), 0.0)
    assert delivery is not None
    assert delivery.content == b"at once"
    assert second.present(0.0, 1.0) == {first.name, second.name}


# Resends, and a process that has too little of the machine


def test_a_message_is_sent_again_later_where_answers_take_long() -> None:
    first, second = met()
    now = 1.0
    for number in range(3):
        first.post(second.name, b"message %d" % number)
        (sealed,) = [content for _, content in first.due(now) if content[4] == 2]
        delivery = second.receive(Packet(first.name, sealed), now)
        assert delivery is not None
        second.acknowledge(delivery)
        list(second.due(now))
        now += 0.9
        (receipt,) = [content for _, content in second.due(now) if content[4] == 3]
        first.receive(Packet(second.name, receipt), now)
    first.post(second.name, b"the next")
    assert [content for _, content in first.due(now) if content[4] == 2]
    assert not [content for _, content in first.due(now + 1.7) if content[4] == 2]
    assert [content for _, content in first.due(now + 1.9) if content[4] == 2]


def test_a_starved_process_takes_nobody_for_gone_and_sends_nothing_again_for_it() -> None:
    first, second = met()
    first.post(second.name, b"a message")
    assert [content for _, content in first.due(1.0) if content[4] == 2]
    assert second.name not in first.present(31.0, 10.0)
    first.forgive(30.0, 31.0)
    assert second.name in first.present(31.0, 10.0)
    assert not [content for _, content in first.due(31.0) if content[4] == 2]
    assert [content for _, content in first.due(32.5) if content[4] == 2]


def test_tags_are_the_beginnings_of_lives() -> None:
    assert tag_of(LIFE) == LIFE[:8]


def test_of_more_lives_than_a_hello_can_name_each_is_named_in_turn() -> None:
    lives = [number.to_bytes(16, "big")[::-1] for number in range(5000)]
    hellos = [named_tags(lives, number) for number in range(4)]
    assert all(len(each) <= 2048 and each == sorted(set(each)) for each in hellos)
    assert set().union(*map(set, hellos)) == set(map(tag_of, lives))
    assert named_tags(lives[:2048], 3) == sorted(map(tag_of, lives[:2048]))
