"""Whole sums: exact and identical for every number of members, whoever leaves at whatever message, in whatever order messages come."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np
import pytest

from sudare.errors import MembersMissing
from sudare.sums.context import SumContext, least_threshold
from sudare.sums.messages import Included, Message, OpenedShares, Revealed, Voted
from sudare.sums.neighbour_graph import Neighbourhood, neighbourhood
from sudare.sums.party import Party
from sudare.sums.simulation import failure_of, simulate
from tests.sums.parties import SPARSE, context, in_any_order, outcome, parties, random_words


def check_exact(where: SumContext, length: int = 2) -> None:
    """Everyone holds the same exact sum over everyone."""
    words = random_words(len(where.roster), length, seed=len(where.roster))
    members = parties(where, words)
    simulate(members)
    assert outcome(members, words, set()) == frozenset(range(len(words)))
    assert all(each.total is not None for each in members)


# Nobody leaves


@pytest.mark.parametrize("members", range(1, 65))
def test_exact_sums_without_a_collector(members):
    check_exact(context(members, dishonest=max(members - 2, 0)))


COLLECTED = [*range(3, 11), 16, 33, 64]


def thresholds(members: int) -> list[tuple[int, int]]:
    """(t, c) with t < S: without and with dishonest members, and as many of them as t = S − 1 allows."""
    found = {(least_threshold(members, 0), 0), (members - 1, max(members - 3, 0))}
    if members >= 4:
        found.add((least_threshold(members, 1), 1))
    return sorted((threshold, dishonest) for threshold, dishonest in found if threshold < members)


@pytest.mark.parametrize("members", COLLECTED)
def test_exact_sums_with_a_collector(members):
    for threshold, dishonest in thresholds(members)[: 3 if members < 11 else 1]:
        check_exact(context(members, threshold, dishonest))


@pytest.mark.long
@pytest.mark.parametrize("members", range(3, 65))
def test_exact_sums_with_a_collector_for_every_number_of_members(members):
    for threshold, dishonest in thresholds(members):
        check_exact(context(members, threshold, dishonest))


@pytest.mark.parametrize(("members", "leaving", "dishonest"), [(100, 2, 0)])
def test_exact_sums_over_sparse_graphs(members, leaving, dishonest):
    check_sparse(members, leaving, dishonest)


@pytest.mark.long
@pytest.mark.parametrize(
    ("members", "leaving", "dishonest"), [(150, 3, 3), (203, 5, 5), (256, 4, 2), (300, 8, 8), (300, 15, 0)]
)
def test_exact_sums_over_larger_sparse_graphs(members, leaving, dishonest):
    check_sparse(members, leaving, dishonest)


def check_sparse(members: int, leaving: int, dishonest: int) -> None:
    """On a neighbourhood of the proven bounds: nobody leaves, and then as many as may, at random messages."""
    threshold = members - leaving
    hood = neighbourhood(members, dishonest, leaving, threshold)
    where = context(members, threshold, dishonest, neighbourhood=hood)
    assert where.is_sparse
    check_exact(where)
    order, words = random.Random(members), random_words(members, 2)
    leavers = order.sample(range(1, members), leaving)
    state = parties(context(members, threshold, dishonest, neighbourhood=hood), words)
    traffic = simulate(state, {leaver: order.randint(0, 8) for leaver in leavers})
    included = outcome(state, words, traffic.left)
    assert included is not None
    assert included >= frozenset(range(members)) - frozenset(leavers)
    assert all(each.total is not None for place, each in enumerate(state) if place not in traffic.left)


@pytest.mark.long
@pytest.mark.parametrize("members", [100, 127, 128, 129, 200, 255])
def test_exact_sums_of_many_without_a_collector(members):
    check_exact(context(members))


@pytest.mark.parametrize("length", [1, 2, 3, 1000])
def test_vectors_of_every_length(length):
    check_exact(context(4), length)
    check_exact(context(4, 3), length)


# Members that leave


def check_leavers(where: SumContext, leave_after: Mapping[int, int]) -> frozenset[int] | None:
    """Who finish hold the same exact sum. If no more leave than may and the collector stays, all who stay finish."""
    words = random_words(len(where.roster), 2)
    members = parties(where, words)
    traffic = simulate(members, leave_after)
    included = outcome(members, words, traffic.left)
    may_leave = len(where.roster) - where.threshold
    if where.collector not in traffic.left and len(traffic.left) <= may_leave:
        assert included is not None
        assert included >= frozenset(range(len(members))) - traffic.left
        assert all(each.total is not None for place, each in enumerate(members) if place not in traffic.left)
    if where.collector not in traffic.left and included is None and where.may_leave:
        assert all(
            isinstance(each.failure, MembersMissing)
            for place, each in enumerate(members)
            if place not in traffic.left and each.progress[0] != "heard"
        )
    return included


def messages_of(where: SumContext, member: int) -> int:
    """How many messages a member sends in a sum that nobody leaves."""
    counted = []
    words = random_words(len(where.roster), 1)
    simulate(parties(where, words), watch=lambda message: counted.append(message.sender == member))
    return sum(counted)


def check_every_leaver(
    members: int, threshold: int, hood: Neighbourhood | None, leavers: Iterable[int], every: int
) -> None:
    for leaver in leavers:
        most = messages_of(context(members, threshold, neighbourhood=hood), leaver)
        for after in range(leaver % every, most + 1, every):
            check_leavers(context(members, threshold, neighbourhood=hood), {leaver: after})


CASES = [(2, 2), (3, 2), (3, 3), (4, 3), (4, 4), (5, 3), (5, 4), (6, 4), (7, 6), (8, 5)]


@pytest.mark.parametrize(("members", "threshold"), CASES)
def test_a_member_leaves_at_some_message(members, threshold):
    """The collector (member 0) and two others, at every one of few messages or some of many."""
    check_every_leaver(members, threshold, None, {0, 1, members - 1}, every=1 if members < 5 else 4)


def test_a_member_leaves_a_sparse_sum_at_some_message():
    check_every_leaver(10, 8, SPARSE, (0, 9), every=6)


@pytest.mark.long
@pytest.mark.parametrize(("members", "threshold"), [*CASES, (8, 7), (8, 8), (10, 6), (12, 9)])
def test_every_member_leaves_at_every_message(members, threshold):
    check_every_leaver(members, threshold, None, range(members), every=1)


@pytest.mark.long
def test_every_member_leaves_a_sparse_sum_at_every_message():
    check_every_leaver(10, 8, SPARSE, range(10), every=1)


def check_pairs(members: int, threshold: int, points: Iterable[int]) -> None:
    for first, second in combinations(range(members), 2):
        for after in points:
            for after_second in points:
                check_leavers(context(members, threshold), {first: after, second: after_second})


def test_two_members_leave_at_every_two_rounds():
    check_pairs(5, 3, (1, 3))


@pytest.mark.long
def test_two_members_leave_at_every_two_messages():
    check_pairs(5, 3, range(9))
    check_pairs(6, 4, range(6))


@pytest.mark.parametrize(("members", "threshold"), [(9, 5), (17, 11)])
def test_as_many_as_may_leave(members, threshold):
    order = random.Random(members)
    leavers = order.sample(range(1, members), members - threshold)
    assert check_leavers(context(members, threshold), {leaver: order.randint(0, 7) for leaver in leavers}) is not None


def test_who_is_in_the_sum_depends_on_whether_its_vector_came():
    """A member sends keys, boxes, its vector, its vote, its shares: in the sum from the third message on."""
    for after in range(6):
        included = check_leavers(context(5, 3), {4: after})
        assert included is not None
        assert (4 in included) == (after >= 3)


def test_a_collector_that_leaves_ends_the_attempt_until_enough_have_the_total():
    """S = 5: four messages a round from the collector. Nobody has a total before the fifth round, everyone after it."""
    for after in range(20):
        assert check_leavers(context(5, 3), {0: after}) is None or after >= 18
    assert check_leavers(context(5, 3), {0: 20}) is not None


# In any order


def random_case(seed: int, most_members: int) -> tuple[SumContext, dict[int, int], random.Random]:
    order = random.Random(seed)
    members = order.randint(3, most_members)
    dishonest = order.randint(0, max(members - 3, 0) // 2)
    threshold = order.choice([members, *range(least_threshold(members, dishonest), members)])
    hood = Neighbourhood(members // 2, members // 3 + 1) if members > 8 and order.random() < 0.5 else None
    few = order.random() < 0.7 and threshold < members
    count = order.randint(1, members - threshold) if few else order.randint(0, members - 1)
    leave_after = {
        member: order.randint(0, 5) if order.random() < 0.6 else order.randint(0, 5 * members)
        for member in order.sample(range(members), count)
    }
    return (
        context(members, threshold, dishonest, neighbourhood=hood, iteration=order.randint(0, 10**6)),
        leave_after,
        order,
    )


class Invariants:
    """Of every message that is sent: one vote a member, t votes before any share, and one half of anybody's secrets."""

    def __init__(self, where: SumContext) -> None:
        self.where = where
        self.votes: dict[int, bytes] = {}
        self.sets: set[frozenset[int]] = set()
        self.halves: dict[int, set[str]] = {}

    def watch(self, message: Message) -> None:
        body = message.body
        if isinstance(body, Voted):
            content = body.vote.content
            assert self.votes.setdefault(message.sender, content) == content
        if isinstance(body, Included):
            self.sets.add(self.where.members_in(body.included.content))
        if isinstance(body, Revealed):
            # The collector's own vote does not travel.
            assert len(set(self.votes) | {self.where.collector}) >= self.where.threshold
            assert len(set(self.votes.values())) == 1
            shares = OpenedShares.from_bytes(body.shares.content)
            for owner in shares.of_self_seeds:
                self.halves.setdefault(owner, set()).add("self-seed")
            for owner in shares.of_mask_keys:
                self.halves.setdefault(owner, set()).add("key")

    def check(self) -> None:
        assert len(self.sets) <= 1
        assert all(len(each) == 1 for each in self.halves.values())
        for included in self.sets:
            assert all(("self-seed" in each) == (owner in included) for owner, each in self.halves.items())


def check_random_case(seed: int, most_members: int) -> None:
    where, leave_after, order = random_case(seed, most_members)
    words = random_words(len(where.roster), 2, seed)
    members = parties(where, words)
    invariants = Invariants(where)
    gone = in_any_order(members, leave_after, order, invariants.watch, deadlines=order.choice([0.0, 0.05]))
    outcome(members, words, gone)
    invariants.check()


@pytest.mark.parametrize("seed", range(30))
def test_random_members_leave_in_random_orders(seed):
    check_random_case(seed, 9)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_many_random_members_leave_in_random_orders(seed):
    check_random_case(seed, 20)


# Counting and failing


@pytest.mark.parametrize("members", [2, 3, 6, 8, 11])
def test_vectors_without_a_collector_go_by_dissemination(members):
    traffic = simulate(parties(context(members), random_words(members, 2)))
    assert traffic.rounds == math.ceil(math.log2(members))
    assert traffic.vectors_per_round <= 2
    assert traffic.left == set()


def test_vectors_with_a_collector_go_to_it_and_the_total_back():
    traffic = simulate(parties(context(6, 4), random_words(6, 2)))
    assert traffic.rounds == 2
    assert set(traffic.vectors) == {(0, -2), *((each, -1) for each in range(1, 6))}
    assert traffic.vectors[0, -2] == traffic.vectors_per_round == 5


def test_failures_are_found():
    members = parties(context(5, 4), random_words(5, 2))
    assert failure_of(members) is None
    simulate(members, {3: 0, 4: 0})
    assert isinstance(failure_of(members), MembersMissing)
    with pytest.raises(MembersMissing, match="needs 4 of 5"):
        raise failure_of(members)  # type: ignore[misc]


def test_bits_are_those_of_what_is_sent():
    sent: list[Message] = []
    members: list[Party] = parties(context(6, 4), np.zeros((6, 3), dtype=np.uint64))
    traffic = simulate(members, watch=sent.append)
    # A message is its two ends, each a number of one byte with tag and length, and its body under a name.
    around = len(Message(0, 1, sent[0].body).to_bytes()) * 8
    assert traffic.bits < sum(8 * len(message.to_bytes()) for message in sent) < traffic.bits + around * len(sent)
