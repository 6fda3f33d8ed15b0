"""What the tests of secure sums share: members with keys, sums that can be watched, and networks in any order."""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sudare.sums import shamir
from sudare.sums.context import Participant, Roster, SumContext
from sudare.sums.keys import MemberKeys
from sudare.sums.messages import Message
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.party import Party, Persist
from sudare.sums.statements import Statement

Words = NDArray[np.uint64]

_ITERATIONS = itertools.count(1)
SPARSE = Neighbourhood(6, 4)
"""A sparse graph for tests of mechanics among a few members; far too small for the bounds of proofs/neighbourhoods.md."""


@functools.cache
def keys_of(number: int) -> MemberKeys:
    """A member's keys: the same in every run, so that graphs and samples drawn with them are."""
    return MemberKeys(
        *(hashlib.sha256(f"{part} of byzantine test member {number}".encode()).digest() for part in "esr")
    )


@functools.cache
def roster(members: int, prefix: str = "member-") -> Roster:
    """So many members; the first ones of every roster are the same."""
    names = tuple(f"{prefix}{number}" for number in range(members))
    return Roster(names, tuple(keys_of(number).public for number in range(members)))


def context(members: int, threshold: int | None = None, dishonest: int = 0, **changed: object) -> SumContext:
    """A sum that no other test shares its masks with, unless it asks for it. Member 0 collects."""
    iteration = members * next(_ITERATIONS)
    fields: dict[str, object] = {
        "agreement": "tests",
        "task": "sums",
        "iteration": iteration,
        "attempt": 0,
        "roster": roster(members),
        "threshold": members if threshold is None else threshold,
        "dishonest": dishonest,
    }
    return SumContext(**{**fields, **changed})  # type: ignore[arg-type]


def participants(where: SumContext) -> list[Participant]:
    """One for each member."""
    return [Participant(where, position, keys_of(position)) for position in range(len(where.roster))]


def secrets_from(shares: Mapping[int, Words], threshold: int) -> Words:
    """The secrets behind the shares of the first `threshold` holders, one after the other: what `shamir.secrets_of_many` gives at once."""
    holders = sorted(shares)[:threshold]
    assert len(holders) == threshold
    total = np.zeros_like(shares[holders[0]])
    for holder, weight in zip(holders, shamir.lagrange_weights(holders), strict=True):
        total = shamir.field_sum(total, shamir.field_product(shares[holder], np.array(weight, dtype=np.uint64)))
    return total


def random_words(members: int, length: int, seed: int = 0) -> Words:
    return np.random.default_rng(seed).integers(0, 2**64, (members, length), dtype=np.uint64)


def parties(where: SumContext, words: Words, persist: Persist | None = None) -> list[Party]:
    return [Party(participant, row, persist) for participant, row in zip(participants(where), words, strict=True)]


def sent_by_all(members: Sequence[Party]) -> Iterator[Message]:
    """Every message of a sum that nobody leaves, each delivered once it was looked at, in the order they were sent."""
    queue = [message for member in members for message in member.begin()]
    for message in queue:
        yield message
        queue.extend(members[message.receiver].receive(message))


def in_any_order(
    members: Sequence[Party],
    leave_after: Mapping[int, int],
    order: random.Random,
    watch: Callable[[Message], None] | None = None,
    deadlines: float = 0.0,
) -> set[int]:
    """Deliver in a random order, first in first out between any two. Deadlines pass when all is quiet, and at random moments.

    Return who left: each after so many messages as `leave_after` says.
    """
    links: dict[tuple[int, int], list[Message]] = {}
    gone: set[int] = set()
    spoken = [0] * len(members)

    def post(sender: int, messages: Sequence[Message]) -> None:
        most = leave_after.get(sender, 10**9)
        for message in messages[: max(0, most - spoken[sender])]:
            spoken[sender] += 1
            links.setdefault((sender, message.receiver), []).append(message)
            if watch is not None:
                watch(message)
        if spoken[sender] >= most:
            gone.add(sender)

    def expire() -> None:
        for position, member in enumerate(members):
            if position not in gone:
                post(position, member.expire())

    def busy() -> list[tuple[int, int]]:
        return [link for link, messages in links.items() if messages and link[1] not in gone]

    for position, member in enumerate(members):
        post(position, member.begin())
    while True:
        while waiting := busy():
            if order.random() < deadlines:
                expire()
            link = order.choice(waiting)
            post(link[1], members[link[1]].receive(links[link].pop(0)))
        expire()
        if not busy():
            return gone


def outcome(members: Sequence[Party], words: Words, gone: set[int]) -> frozenset[int] | None:
    """Whose words are in the total of all who finished; None if nobody did.

    Fail unless all who finished hold the same exact sum over the same enough members, and every other who stayed says why it has none.
    """
    finished = [each for each in members if each.total is not None]
    for position, each in enumerate(members):
        if each.total is None and position not in gone:
            # Stopped with a reason, or waiting for members that can be named, or one that has collected all and waits for words on the total.
            assert each.failure is not None or each.waits_for or each.progress == ("heard", "done")
    if not finished:
        return None
    (included,) = {each.included for each in finished}
    assert included is not None
    assert len(included) >= members[0].participant.context.threshold
    expected = words[sorted(included)].sum(axis=0, dtype=np.uint64)
    for each in finished:
        np.testing.assert_array_equal(each.total, expected)
        assert each.failure is None
    return included


def contradict(first: Statement, second: Statement) -> bool:
    """Whether one signer said two things of one kind about one sum."""
    same = (first.kind, first.signer, first.context) == (second.kind, second.signer, second.context)
    return same and first.content != second.content
