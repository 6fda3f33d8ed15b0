"""A member at the edge: what it sends is saved first, and a restart anywhere sends the same bytes again."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from sudare.errors import MaskReused, MembersMissing, MessageMalformed, SumError
from sudare.sums.context import SumContext
from sudare.sums.messages import GivenUp, Heard, Masked, Message, Opened, Voted
from sudare.sums.party import Party, PartyState
from sudare.sums.simulation import simulate
from sudare.sums.statements import Statement
from tests.sums.parties import SPARSE, context, outcome, participants, parties, random_words

CASES = {
    "serverless": (4, 4, None),
    "collector": (5, 3, None),
    "sparse": (9, 7, SPARSE),
}


def case(name: str) -> SumContext:
    members, threshold, hood = CASES[name]
    return context(members, threshold, neighbourhood=hood)


class Disk:
    """What members have saved last, and all they have handed out."""

    def __init__(self, where: SumContext) -> None:
        self.participants, self.words = participants(where), random_words(len(where.roster), 2)
        self.saved: dict[int, bytes] = {}
        self.sent: dict[int, list[bytes]] = {position: [] for position in range(len(self.words))}

    def party(self, position: int) -> Party:
        def persist(content: bytes) -> None:
            self.saved[position] = content

        return Party(self.participants[position], self.words[position], persist, self.saved.get(position))


def check_restart(where: SumContext, victim: int, killed_at: int, after_saving: bool) -> bool:
    """Kill a member at its n-th event, before or after it was saved. False if it has fewer events."""
    disk = Disk(where)
    members = [disk.party(position) for position in range(len(disk.words))]
    queue: list[Message] = []
    for position, member in enumerate(members):
        messages = member.begin()
        disk.sent[position] += [message.to_bytes() for message in messages]
        queue += messages
    events, was_killed = 0, False
    while queue:
        message = queue.pop(0)
        receiver = message.receiver
        dies = receiver == victim and events == killed_at
        events += receiver == victim
        if dies:
            was_killed = True
            if after_saving:
                # It was saved, and nothing of it was sent.
                disk.sent[victim] += [each.to_bytes() for each in members[victim].receive(message)]
            else:
                # What nobody saved comes again.
                queue.insert(0, message)
            members[victim] = disk.party(victim)
            resent = members[victim].begin()
            assert [each.to_bytes() for each in resent] == disk.sent[victim]
            queue += resent
            continue
        outgoing = members[receiver].receive(message)
        disk.sent[receiver] += [each.to_bytes() for each in outgoing]
        queue += outgoing
    assert outcome(members, disk.words, set()) == frozenset(range(len(members)))
    assert all(member.total is not None for member in members)
    return was_killed


@pytest.mark.parametrize("after_saving", [False, True])
@pytest.mark.parametrize("name", ["serverless", "collector"])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_restart_anywhere_sends_the_same_bytes_and_the_sum_is_right(name, victim, after_saving):
    """The collector (member 0) at every fourth of its events, and other members at each."""
    every = 4 if (name, victim) == ("collector", 0) else 1
    killed_at = int(after_saving)
    while check_restart(case(name), victim, killed_at, after_saving):
        killed_at += every
    assert killed_at > 4


@pytest.mark.parametrize("killed_at", [0, 3, 9])
@pytest.mark.parametrize("victim", [0, 3])
def test_a_restart_in_a_sparse_sum(victim, killed_at):
    check_restart(case("sparse"), victim, killed_at, after_saving=killed_at % 2 == 0)


@pytest.mark.long
@pytest.mark.parametrize("after_saving", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_restart_of_anybody_anywhere(name, after_saving):
    for victim in range(CASES[name][0]):
        killed_at = 0
        while check_restart(case(name), victim, killed_at, after_saving):
            killed_at += 1


def test_everybody_restarts_before_every_event():
    for name in ("serverless", "collector"):
        disk = Disk(case(name))
        queue = [message for position in range(len(disk.words)) for message in disk.party(position).begin()]
        for message in queue:
            queue.extend(disk.party(message.receiver).receive(message))
        members = [disk.party(position) for position in range(len(disk.words))]
        assert outcome(members, disk.words, set()) == frozenset(range(len(members)))


# What is saved


@pytest.mark.parametrize("name", CASES)
def test_the_state_is_saved_before_messages_are_handed_out(name):
    order: list[str] = []
    where = case(name)
    member = Party(participants(where)[1], random_words(1, 2)[0], lambda content: order.append("saved"))
    assert order == []
    assert member.begin()
    assert order == ["saved"]

    def failing(content: bytes) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Party(participants(where)[1], random_words(1, 2)[0], failing).begin()


@pytest.mark.parametrize("name", ["serverless", "collector"])
def test_what_was_sent_is_in_what_was_saved(name):
    """Every vote and every vector that others have seen is remembered by whoever sent it."""
    disk = Disk(case(name))
    members = [disk.party(position) for position in range(len(disk.words))]
    queue = [message for member in members for message in member.begin()]
    for message in queue:
        outgoing = members[message.receiver].receive(message)
        saved = PartyState.from_bytes(disk.saved[message.receiver])
        contents = {each.to_bytes() for each in saved.sent}
        assert all(each.to_bytes() in contents for each in outgoing)
        if any(isinstance(each.body, Voted) for each in outgoing):
            assert saved.record.voted_for is not None
        queue.extend(outgoing)


def test_a_restart_with_other_data_is_refused():
    for name in CASES:
        disk = Disk(case(name))
        disk.party(1).begin()
        disk.words[1] += np.uint64(1)
        with pytest.raises(MaskReused):
            disk.party(1)


def test_garbage_in_place_of_what_was_saved_is_refused():
    where = case("collector")
    for content in (b"", b"garbage", Message(0, 1, GivenUp()).to_bytes()):
        with pytest.raises(MessageMalformed):
            Party(participants(where)[1], random_words(1, 2)[0], saved=content)


def test_what_was_saved_of_another_input_is_refused():
    where = case("collector")
    saved: list[bytes] = []
    Party(participants(where)[1], random_words(1, 2)[0], saved.append).begin()
    with pytest.raises(SumError, match="another input"):
        Party(participants(replace(where, iteration=1))[1], random_words(1, 2)[0], saved=saved[-1])


def test_nothing_is_kept_to_be_sent_again_where_nothing_is_saved():
    members = parties(case("collector"), random_words(5, 2))
    simulate(members)
    assert all(len(member.state.sent) <= 1 for member in members)


# Attempts


def test_a_vote_binds_every_later_attempt():
    """Members 0 to 3 vote for all five, then the collector is gone; no later attempt opens a sum over four of them."""
    where, words = context(5, 3), random_words(5, 2)
    saved: dict[int, bytes] = {}
    members = [
        Party(participant, row, lambda content, position=position: saved.__setitem__(position, content))
        for position, (participant, row) in enumerate(zip(participants(where), words, strict=True))
    ]

    def until_the_votes(message: Message) -> None:
        if isinstance(message.body, Voted):
            votes.append(message.sender)

    votes: list[int] = []
    # The collector tells everyone who is in the sum, and then falls silent: 4 directories, 4 deliveries, 4 sets.
    simulate(members, {0: 12}, until_the_votes)
    assert sorted(votes) == [1, 2, 3, 4]
    assert outcome(members, words, {0}) is None
    second = replace(where, attempt=1)
    again = [
        Party(participant, row, saved=saved[position])
        for position, (participant, row) in enumerate(zip(participants(second), words, strict=True))
    ]
    simulate(again, {0: 0})
    assert all(each.total is None for each in again)
    # Whoever collects has voted itself, and asks nobody for another set.
    assert {type(each.failure) for each in again[1:]} == {MembersMissing}
    # With everybody back the same set is voted for, and the total is opened.
    third = replace(where, attempt=2)
    back = [
        Party(participant, row, saved=saved[position])
        for position, (participant, row) in enumerate(zip(participants(third), words, strict=True))
    ]
    simulate(back)
    assert outcome(back, words, set()) == frozenset(range(5))


def test_masked_vectors_of_two_attempts_are_unrelated():
    where, words = context(5, 3), random_words(5, 2)
    seen: dict[tuple[int, int], list[int]] = {}
    for attempt in (0, 5):

        def watch(message: Message, attempt: int = attempt) -> None:
            if isinstance(message.body, Masked):
                seen[attempt, message.sender] = message.body.words.tolist()

        simulate(parties(replace(where, attempt=attempt), words), watch=watch)
    # The collector's own vector does not travel.
    assert len({tuple(each) for each in seen.values()}) == 8


# What it tells its owner


def test_whom_it_waits_for():
    where = context(5, 3)
    members = parties(where, random_words(5, 2))
    assert members[0].waits_for == frozenset({1, 2, 3, 4})
    assert members[1].waits_for == frozenset({0})
    assert members[1].expire() == ()
    simulate(members)
    assert all(member.waits_for == frozenset() for member in members)
    alone = parties(context(4), random_words(4, 2))
    assert alone[1].waits_for == frozenset({0, 2, 3})
    simulate(alone)
    assert alone[1].waits_for == frozenset()


def test_progress_changes_with_every_round():
    where = context(5, 3)
    members = parties(where, random_words(5, 2))
    seen: list[tuple[str, str]] = []

    def watch(message: Message) -> None:
        if members[0].progress not in seen:
            seen.append(members[0].progress)

    simulate(members, watch=watch)
    assert [stage for _, stage in seen] == ["keys", "boxes", "inputs", "votes", "shares", "done"]
    assert members[1].progress == ("heard", "")


@pytest.mark.parametrize("name", CASES)
def test_everything_signed_is_kept_for_blame(name):
    where = case(name)
    members = parties(where, random_words(len(where.roster), 2), persist=lambda content: None)
    heard: dict[int, set[Statement]] = {position: set() for position in range(len(members))}

    def watch(message: Message) -> None:
        for each in vars(message.body).values():
            if isinstance(each, Statement):
                heard[message.sender].add(each)
                if isinstance(message.body, Heard | Opened):
                    heard[message.receiver].add(each)

    simulate(members, watch=watch)
    for position, member in enumerate(members):
        assert heard[position] <= set(member.statements)
        assert all(each.is_signed_by(where.roster.publics[each.signer].signing) for each in member.statements)
        assert len(set(member.statements)) == len(member.statements)


def test_a_failure_is_there_once_it_was_given_up():
    members = parties(context(5, 4), random_words(5, 2))
    simulate(members, {3: 1, 4: 1})
    assert all(isinstance(member.failure, MembersMissing) for member in members[:3])
    assert all(member.stopped == "given up" for member in members[:3])
    assert all(member.included is None for member in members)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("serverless", "040e291f4e9c9e1da7697eb20f7e64ae"),
        ("collector", "39e974a68a9f10ca8e2bd0c32a92fe20"),
        ("sparse", "0b53364108abd5326109ee439056a8d4"),
    ],
)
def test_messages_and_states_keep_their_bytes(name: str, digest: str) -> None:
    """Whoever changes this changes the protocol: give it a version then."""
    where = replace(case(name), iteration=0)
    rows = np.arange(2, dtype=np.uint64) + np.arange(len(where.roster), dtype=np.uint64)[:, np.newaxis]
    members = [Party(me, row, saves_state=True) for me, row in zip(participants(where), rows, strict=True)]
    seen = hashlib.sha256()
    simulate(members, watch=lambda message: seen.update(message.to_bytes()))
    for each in members:
        seen.update(each.state.to_bytes())
    assert seen.hexdigest()[:32] == digest
