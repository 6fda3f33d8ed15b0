"""Members that leave a masked sum: the right sum, or the same clear error, at everyone who stays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.consensus import Participant, SumContext, protocol
from sudare.consensus.messages import (
    Dealt,
    Given,
    Message,
    Missing,
    Passed,
    Ready,
    Report,
    Revealed,
    Stopped,
    Voted,
)
from sudare.consensus.recovery import Openings, can_open, recovery_plan
from sudare.consensus.rehearsal import rehearse
from sudare.consensus.sharing.masks import Vote, masked, vote
from sudare.errors import MaskReused, MembersMissing, MessageMalformed, SecondTotalRefused, SumError
from tests.consensus.sums import context, in_any_order, participants, random_words, seats


def outcome(members: Sequence[Participant], words: np.ndarray, gone: set[int]) -> frozenset[int] | None:
    """Whose words are in the sum that all who stayed hold, or None where all have the same error. Anything else fails."""
    stayed = [member for position, member in enumerate(members) if position not in gone]
    if all(member.total is not None for member in stayed):
        (included,) = {member.included for member in stayed}
        assert included is not None
        expected = words[sorted(included)].sum(axis=0, dtype=np.uint64)
        for member in stayed:
            np.testing.assert_array_equal(member.total, expected)
            assert member.failure is None
        assert included >= set(range(len(members))) - gone
        return included
    assert all(member.total is None for member in stayed)
    failures = {(type(member.failure), str(member.failure)) for member in stayed}
    assert len(failures) == 1
    assert failures.pop()[0] is MembersMissing
    return None


def values_were_sent(members: int, leave_after: dict[int, int]) -> bool:
    """Whether those who leave have dealt to everyone and said that they are ready."""
    return all(count >= 2 * (members - 1) for count in leave_after.values())


def most_messages(members: int, threshold: int) -> int:
    """How many messages a member sends in a sum that nobody leaves."""
    states = participants(context(members, threshold), random_words(members, 1), persist=lambda content: None)
    rehearse(states)
    return max(len(each.state.sent) for each in states)


CASES = [
    (members, threshold)
    for members in range(2, 9)
    for threshold in sorted({members, members - 1, members // 2 + 1})
    if 2 * threshold > members
]


def check_every_leaver(members: int, threshold: int, points: Sequence[int]) -> None:
    words = random_words(members, 2)
    for leaver in range(members):
        for after in points:
            state = participants(context(members, threshold), words)
            rehearse(state, {leaver: after})
            included = outcome(state, words, {leaver})
            if members - 1 >= threshold and values_were_sent(members, {leaver: after}):
                assert included is not None
                # Its first parcel went to the member before it, who stayed: it was heard and must not be left out.
                assert (leaver in included) == (after > 2 * (members - 1))


def every_round(members: int, threshold: int) -> list[int]:
    """After nothing, after each round, and once in the middle of each in which everyone is told something."""
    if threshold == members:
        return list(range(most_messages(members, threshold) + 1))
    others, parcels = members - 1, (members - 1).bit_length()
    dealt, ready, passed = others, 2 * others, 2 * others + parcels
    told = [0, 1, dealt, dealt + 2, ready, passed + 1, passed + others, passed + others + 2, passed + 2 * others]
    return sorted({*told, *range(ready, passed + 1)})


@pytest.mark.parametrize(("members", "threshold"), CASES)
def test_every_member_leaves_at_every_round(members, threshold):
    check_every_leaver(members, threshold, every_round(members, threshold))


@pytest.mark.parametrize(("members", "threshold"), [case for case in CASES if case[0] <= 5])
def test_every_member_leaves_after_every_message(members, threshold):
    """Also in the middle of telling everyone, so that some know what others do not."""
    check_every_leaver(members, threshold, range(most_messages(members, threshold) + 1))


@pytest.mark.long
@pytest.mark.parametrize(("members", "threshold"), [case for case in CASES if case[0] > 5])
def test_every_one_of_more_members_leaves_after_every_message(members, threshold):
    check_every_leaver(members, threshold, range(most_messages(members, threshold) + 1))


def test_without_repair_a_total_that_somebody_holds_is_handed_round():
    """S = 8 without repair. Whoever member 3 sent its masked value to can hold the total, though nobody else heard from it."""
    words = random_words(8, 2)
    for after, complete in ((0, False), (1, True), (2, True)):
        state = participants(context(8), words)
        rehearse(state, {3: after})
        assert (outcome(state, words, {3}) is not None) == complete


def test_every_pair_of_members_leaves_at_every_two_rounds():
    members, threshold = 5, 3
    words, points = random_words(members, 2), [4, 8, 9, 10, 11, 13, 17]
    for first in range(members):
        for second in range(first):
            for after_first in points:
                for after_second in points:
                    leave_after = {first: after_first, second: after_second}
                    state = participants(context(members, threshold), words)
                    rehearse(state, leave_after)
                    included = outcome(state, words, {first, second})
                    if values_were_sent(members, leave_after):
                        assert included is not None


def random_case(seed: int, most_members: int) -> tuple[SumContext, np.ndarray, dict[int, int], random.Random]:
    order = random.Random(seed)
    members = order.randint(3, most_members)
    threshold = order.randint(members // 2 + 1, members)
    few = order.random() < 0.7 and threshold < members
    count = order.randint(1, members - threshold) if few else order.randint(1, members - 1)
    leave_after = {
        member: order.randint(0, 4 * members + 10) if order.random() < 0.5 else 2 * members - 2 + order.randint(0, 6)
        for member in order.sample(range(members), count)
    }
    return context(members, threshold), random_words(members, 2, seed), leave_after, order


def check_random_case(seed: int, most_members: int) -> None:
    where, words, leave_after, order = random_case(seed, most_members)
    state = participants(where, words)
    gone = in_any_order(state, leave_after, order, overtaking=order.choice([0.0, 0.3]))
    included = outcome(state, words, gone) if len(gone) < len(words) else None
    survivable = len(gone) <= len(words) - where.threshold
    if survivable and all(leave_after[member] > 2 * (len(words) - 1) for member in gone):
        assert included is not None


@pytest.mark.parametrize("seed", range(150))
def test_random_members_leave_in_random_orders(seed):
    check_random_case(seed, 12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 4000))
def test_many_random_members_leave_in_random_orders(seed):
    check_random_case(seed, 24)


@pytest.mark.parametrize("members", [17, 33])
def test_as_many_as_may_leave_of_many(members):
    threshold, words = 2 * members // 3, random_words(members, 1)
    order = random.Random(members)
    leavers = order.sample(range(members), members - threshold)
    state = participants(context(members, threshold), words)
    rehearse(state, {leaver: 2 * members - 2 + order.randint(0, 7) for leaver in leavers})
    assert outcome(state, words, set(leavers)) is not None


def test_who_was_never_heard_is_left_out_and_who_was_heard_stays():
    """Member 3 sends its masked value to member 2 only. If member 2 stays, 3 is in the sum; if 2 leaves too, nobody heard it."""
    words, parcels = random_words(6, 2), 2 * 5
    state = participants(context(6, 4), words)
    rehearse(state, {3: parcels + 1})
    assert outcome(state, words, {3}) == frozenset(range(6))
    state = participants(context(6, 4), words)
    rehearse(state, {3: parcels + 1, 2: parcels})
    assert outcome(state, words, {2, 3}) == frozenset({0, 1, 4, 5})


# What survivors hold


@given(st.integers(3, 9), st.data())
def test_plans_add_exactly_those_who_can_be_told(members, data):
    """For random holdings: the planned sum is right, has all survivors, and everyone whom a held row shows alone."""
    survivors = data.draw(st.sets(st.integers(0, members - 1), min_size=1, max_size=members))
    words = random_words(members, 2, data.draw(st.integers(0, 1000)))
    rows = st.lists(st.integers(0, 1), min_size=members, max_size=members)
    held = {
        survivor: np.array([np.eye(members)[survivor], *data.draw(st.lists(rows, max_size=3))]).astype(np.uint64)
        for survivor in survivors
    }
    plan = recovery_plan(held)
    total = np.zeros(2, dtype=np.uint64)
    for survivor, weights in plan.weights.items():
        total += (weights[:, np.newaxis] * (held[survivor] @ words)).sum(axis=0, dtype=np.uint64)
    np.testing.assert_array_equal(total, words[sorted(plan.included)].sum(axis=0, dtype=np.uint64))
    assert survivors <= plan.included
    for row in np.concatenate(list(held.values())):
        strangers = set(np.flatnonzero(row)) - survivors
        if len(strangers) == 1:
            assert strangers <= plan.included
    untouched = {member for member in range(members) if not any(rows[:, member].any() for rows in held.values())}
    assert not untouched & plan.included


def test_a_member_is_told_by_several_survivors_together():
    """0 holds 3 + 4, 1 holds 4 + 2, so that 4 and then 3 can be told though nobody holds either alone."""
    held = {
        0: np.array([[1, 0, 0, 0, 0], [0, 0, 0, 1, 1]], dtype=np.uint64),
        1: np.array([[0, 1, 0, 0, 0], [0, 0, 1, 0, 1]], dtype=np.uint64),
        2: np.array([[0, 0, 1, 0, 0]], dtype=np.uint64),
    }
    plan = recovery_plan(held)
    assert plan.included == frozenset(range(5))
    held[1] = held[1][:1]
    assert recovery_plan(held).included == frozenset({0, 1, 2})


def test_when_a_total_can_be_opened():
    survivors, everyone = frozenset({0, 1}), frozenset({0, 1, 2})
    holders = dict.fromkeys(range(4), survivors)
    nobody = Openings(frozenset(), frozenset(), holders)
    assert can_open(everyone, 4, survivors, 2, nobody)
    assert not can_open(everyone, 4, survivors, 3, nobody)
    # Votes and shares of those who left count as long as somebody has them.
    known = Openings(frozenset({2}), frozenset(), {**holders, 2: frozenset({0, 1, 2}), 3: frozenset({0, 1, 2})})
    assert can_open(everyone, 4, survivors, 3, known)
    assert not can_open(everyone, 4, survivors, 3, replace(known, holders={**known.holders, 3: survivors}))
    # A self-seed that was said is enough for one who is in the sum, and useless for one who is not.
    said = Openings(frozenset({2}), frozenset({2, 3}), {**known.holders, 2: frozenset(), 3: frozenset()})
    assert can_open(everyone | {3}, 4, survivors, 3, said)
    assert not can_open(everyone, 4, survivors, 3, said)


# Never two totals


@pytest.mark.parametrize("seed", range(60))
def test_nobody_ever_gives_both_halves_of_a_member(seed):
    """All shares that anybody gives of a member are of one kind, for one set of members, and only after t equal votes."""
    where, words, leave_after, order = random_case(seed, 9)
    places = seats(where)
    kinds: dict[int, set[bool]] = {}
    votes: dict[int, frozenset[int]] = {}
    totals: set[frozenset[int]] = set()

    def watch(message: Message) -> None:
        body = message.body
        if isinstance(body, Voted):
            assert votes.setdefault(message.sender, body.vote.included) == body.vote.included
        if isinstance(body, Revealed):
            totals.add(body.included)
            assert list(votes.values()).count(body.included) >= where.threshold
            for member in body.shares:
                kinds.setdefault(member, set()).add(member in body.included)
            if body.self_seed is not None:
                assert message.sender in body.included
                assert body.self_seed == places[message.sender].self_seed()

    in_any_order(participants(where, words), leave_after, order, 0.3, watch)
    assert len(totals) <= 1
    assert all(len(each) == 1 for each in kinds.values())


def split_network(
    members: int, threshold: int, order: random.Random
) -> tuple[set[frozenset[int]], list[Participant], np.ndarray]:
    """A sum in which at a random moment two groups take each other to have left: the sets of members that were opened, and all."""
    where = context(members, threshold)
    words = random_words(members, 2, members)
    state = participants(where, words)
    group = frozenset(order.sample(range(members), order.randint(1, members - 1)))
    links: dict[tuple[int, int], list[Message]] = {}
    opened: set[frozenset[int]] = set()
    split = False

    def post(messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message.body, Revealed):
                opened.add(message.body.included)
            if not split or (message.sender in group) == (message.receiver in group):
                links.setdefault((message.sender, message.receiver), []).append(message)

    for member in state:
        post(member.begin())
    steps_before = order.randint(0, 6 * members * members)
    while busy := [link for link, messages in links.items() if messages]:
        sender, receiver = order.choice(busy)
        post(state[receiver].receive(links[sender, receiver].pop(0)))
        steps_before -= 1
        if steps_before == 0:
            split = True
            links = {link: messages for link, messages in links.items() if (link[0] in group) == (link[1] in group)}
            suspicions = [(a, b) for a in range(members) for b in range(members) if (a in group) != (b in group)]
            for suspicious, suspected in order.sample(suspicions, len(suspicions)):
                post(state[suspicious].receive(Missing(suspected)))
    return opened, state, words


@pytest.mark.parametrize("seed", range(80))
def test_a_split_of_the_network_never_opens_two_totals(seed):
    order = random.Random(seed)
    members = order.randint(3, 9)
    opened, state, words = split_network(members, order.randint(members // 2 + 1, members), order)
    assert len(opened) <= 1
    totals = {(member.included, member.total.tobytes()) for member in state if member.total is not None}
    assert len(totals) <= 1
    for included, total in totals:
        assert total == words[sorted(included)].sum(axis=0, dtype=np.uint64).tobytes()


def test_with_a_threshold_of_one_half_it_would(monkeypatch):
    """The planted bug: groups of one half each have enough votes and shares of their own."""
    monkeypatch.setattr(SumContext, "__post_init__", lambda self: None)
    runs = [split_network(6, 3, random.Random(seed)) for seed in range(80)]
    assert any(len(opened) == 2 for opened, _, _ in runs)


def test_a_member_votes_once_for_an_input_whatever_the_attempt():
    where = context(5, 3)
    words = random_words(5, 2)
    saved: dict[int, bytes] = {}

    def keeper(position):
        return lambda content: saved.__setitem__(position, content)

    first = [Participant(seat, row, keeper(seat.position)) for seat, row in zip(seats(where), words, strict=True)]
    rehearse(first, {4: 2 * 4})
    assert outcome(first, words, {4}) == frozenset({0, 1, 2, 3})
    again = replace(where, attempt=2)
    second = [Participant(seat, row, saved=saved[seat.position]) for seat, row in zip(seats(again), words, strict=True)]
    rehearse(second)
    assert all(member.total is None for member in second)
    assert {type(member.failure) for member in second} == {SecondTotalRefused}
    # Over the members that were agreed on, another attempt gives the same total again.
    same = SumContext(where.agreement, where.task, where.iteration, 3, where.members[:4], 3, consortium=5)
    third = [Participant(seat, row, saved=saved[seat.position]) for seat, row in zip(seats(same), words, strict=False)]
    rehearse(third)
    assert outcome(third, words[:4], set()) == frozenset({0, 1, 2, 3})


def test_without_repair_an_input_is_promised_to_its_members_at_once():
    where = context(4)
    record = protocol.begun(seats(where)[0], random_words(1, 2)[0])[0].record
    assert record.settled == where.members
    protocol.begun(seats(replace(where, attempt=2))[0], random_words(1, 2)[0], record)
    for other in (
        replace(where, attempt=2, members=where.members[:3], threshold=3),
        replace(where, attempt=2, members=where.members[:3], threshold=2, consortium=3),
        replace(where, attempt=2, members=(*where.members, "new"), threshold=5),
    ):
        with pytest.raises(SecondTotalRefused):
            protocol.begun(seats(other)[0], random_words(1, 2)[0], record)


def test_other_data_under_the_same_name_are_refused():
    where = context(4, 3)
    words = random_words(2, 3)
    record = protocol.begun(seats(where)[0], words[0])[0].record
    for attempt in (1, 2):
        with pytest.raises(MaskReused, match="other data"):
            protocol.begun(seats(replace(where, attempt=attempt))[0], words[1], record)
        protocol.begun(seats(replace(where, attempt=attempt))[0], words[0], record)
    with pytest.raises(SumError, match="another input"):
        protocol.begun(seats(replace(where, iteration=-1))[0], words[0], record)


def test_records_do_not_let_data_be_guessed():
    """The tag depends on the member's own secret: others with the same data have other tags."""
    where = context(3)
    words = random_words(1, 3)[0]
    tags = {protocol.begun(seat, words)[0].record.data_tag for seat in seats(where)}
    assert len(tags) == 3


# Restarts


@pytest.mark.parametrize(("members", "threshold"), [(4, 4), (5, 3)])
def test_a_member_killed_anywhere_resends_the_same_bytes_and_the_sum_is_right(members, threshold):
    words = random_words(members, 2)
    for killed_after in range(0, 4 * members, 3):
        where = context(members, threshold)
        places = seats(where)
        saved: dict[int, bytes] = {}

        def made(position, earlier=None, places=places, kept=saved):
            return Participant(
                places[position], words[position], lambda content: kept.__setitem__(position, content), earlier
            )

        state = [made(position) for position in range(members)]
        queue = [message for member in state for message in member.begin()]
        handled = 0
        while queue:
            message = queue.pop(0)
            if message.receiver == 1 and handled == killed_after:
                before = state[1].state
                state[1] = made(1, saved[1])
                resent = state[1].begin()
                assert [each.to_bytes() for each in resent] == [each.to_bytes() for each in before.sent]
                queue = [*resent, *queue]
            handled += message.receiver == 1
            queue.extend(state[message.receiver].receive(message))
        assert outcome(state, words, set()) == frozenset(range(members))


def test_the_state_is_saved_before_messages_are_handed_out():
    order: list[str] = []

    def persist(content: bytes) -> None:
        order.append("saved")

    member = Participant(seats(context(3, 2))[0], random_words(1, 2)[0], persist)
    assert order == []
    assert member.begin()
    assert order == ["saved"]

    def failing(content: bytes) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Participant(seats(context(3, 2))[0], random_words(1, 2)[0], failing).begin()


def test_a_restart_with_other_data_is_refused():
    where, words = context(3), random_words(2, 2)
    saved: list[bytes] = []
    Participant(seats(where)[0], words[0], saved.append).begin()
    with pytest.raises(MaskReused):
        Participant(seats(where)[0], words[1], saved=saved[-1])
    assert Participant(seats(where)[0], words[0], saved=saved[-1]).begin()


def test_events_that_come_again_change_nothing():
    where, words = context(5, 3), random_words(5, 2)
    state = participants(where, words)
    delivered: dict[int, list[Message]] = {position: [] for position in range(5)}
    queue = [message for member in state for message in member.begin()]
    while queue:
        message = queue.pop(0)
        delivered[message.receiver].append(message)
        queue.extend(state[message.receiver].receive(message))
    for position, messages in delivered.items():
        before = state[position].state.to_bytes()
        for message in messages:
            assert state[position].receive(message) == ()
        assert state[position].state.to_bytes() == before


# What no honest member sends


def test_messages_from_elsewhere_are_refused():
    where = context(4, 3)
    seat = seats(where)[0]
    state, _ = protocol.begun(seat, random_words(1, 2)[0])
    vector, short = random_words(2, 2)[0], random_words(1, 1)[0]
    nobody, odd = frozenset[int](), frozenset({9})
    report = Report(nobody, np.zeros((1, 4), dtype=np.uint64), None, nobody, state.facts)
    for message, match in (
        (Message(1, 2, Ready()), "not a member"),
        (Message(7, 0, Ready()), "not a member"),
        (Message(1, 0, Passed(odd, 0, vector, None)), "not a member"),
        (Message(1, 0, Passed(nobody, 0, short, None)), "another length"),
        (Message(1, 0, Given(nobody, odd, vector)), "not a member"),
        (Message(1, 0, Given(nobody, nobody, short)), "another length"),
        (Message(1, 0, replace(report, dealers=odd)), "not a member"),
        (Message(1, 0, replace(report, rows=np.zeros((1, 3), dtype=np.uint64))), "one column"),
        (Message(1, 0, replace(report, facts=replace(state.facts, shares={1: {9: vector}}))), "not a member"),
        (Message(1, 0, replace(report, facts=replace(state.facts, votes={1: Vote(odd, b"")}))), "not a member"),
        (Message(1, 0, replace(report, facts=replace(state.facts, shares={1: {2: vector}}))), "share"),
        (Message(1, 0, Revealed(nobody, None, {9: vector}, {})), "not a member"),
        (Message(1, 0, Revealed(nobody, None, {2: vector}, {})), "share"),
        (Message(1, 0, Revealed(nobody, None, {2: np.full(5, 2**61 - 1, dtype=np.uint64)}, {})), "share"),
        (Message(1, 0, Voted(Vote(odd, b""))), "not a member"),
        (Message(2, 0, Dealt(protocol.dealings(seats(where)[1])[1][0])), "does not open"),
    ):
        with pytest.raises(MessageMalformed, match=match):
            protocol.step(seat, state, message)


def test_a_forged_vote_is_not_counted():
    where, words = context(4, 3), random_words(4, 2)
    seat = seats(where)[0]
    state, _ = protocol.begun(seat, words[0])
    cast = vote(seats(where)[1], frozenset(range(4)))
    after, _ = protocol.step(seat, state, Message(2, 0, Voted(cast)))
    assert after.facts.votes == {}
    after, _ = protocol.step(seat, state, Message(1, 0, Voted(cast)))
    assert after.facts.votes == {1: cast}


def test_one_who_is_taken_to_have_left_stops_and_says_nothing_more():
    where, words = context(4, 3), random_words(4, 2)
    seat = seats(where)[0]
    state, _ = protocol.begun(seat, words[0])
    report = Report(frozenset({0}), np.zeros((1, 4), dtype=np.uint64), None, frozenset(), state.facts)
    after, outgoing = protocol.step(seat, state, Message(1, 0, report))
    assert outgoing == ()
    failure = protocol.failure(seat, after)
    assert isinstance(failure, MembersMissing)
    assert "without this member" in str(failure)
    assert protocol.step(seat, after, Message(1, 0, report)) == (after, ())


def test_one_who_stopped_answers_who_still_waits():
    where, words = context(3), random_words(3, 2)
    seat = seats(where)[0]
    state, _ = protocol.begun(seat, words[0])
    state, _ = protocol.step(seat, state, Message(1, 0, Stopped("missing")))
    assert protocol.step(seat, state, Missing(2)) == (state, ())
    report = Report(frozenset({2}), np.zeros((1, 3), dtype=np.uint64), None, frozenset(), state.facts)
    _, answered = protocol.step(seat, state, Message(1, 0, report))
    assert answered == (Message(0, 1, Stopped("missing")),)


def test_reports_of_two_different_totals_stop_everyone():
    """No honest run gives them; should it ever happen, nothing is opened."""
    where, words = context(4, 3), random_words(4, 2)
    places = seats(where)
    state, _ = protocol.begun(places[0], words[0])
    state, _ = protocol.step(places[0], state, Missing(3))
    rows = np.zeros((1, 4), dtype=np.uint64)
    for sender, complete in ((1, frozenset({0, 1, 2})), (2, frozenset(range(4)))):
        report = Report(frozenset({3}), rows, complete, frozenset(), state.facts)
        state, outgoing = protocol.step(places[0], state, Message(sender, 0, report))
    assert isinstance(protocol.failure(places[0], state), SecondTotalRefused)
    assert {message.receiver for message in outgoing if isinstance(message.body, Stopped)} == {1, 2}


def test_masked_values_do_not_leave_before_everyone_is_ready():
    where, words = context(4, 3), random_words(4, 2)
    state = participants(where, words)
    sent = [message for member in state for message in member.begin()]
    assert {type(message.body) for message in sent} == {Dealt}
    hidden = masked(seats(where)[1], words[1])
    for message in sent[:-1]:
        for reply in state[message.receiver].receive(message):
            assert not isinstance(reply.body, Passed)
    assert hidden.tobytes() not in b"".join(message.to_bytes() for message in sent)
