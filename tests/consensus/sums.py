"""What the tests of masked sums share: members with keys, sums that can be watched, and networks in any order."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sudare.consensus import MemberKeys, Participant, Seat, SumContext
from sudare.consensus.messages import Event, Message, Missing
from sudare.consensus.participant import Persist
from sudare.consensus.sharing.masks import apply_pair_mask
from sudare.sums.streams import stretched

Words = NDArray[np.uint64]

_ITERATIONS = itertools.count()


@functools.cache
def key(number: int) -> MemberKeys:
    """A member's keys, made once for all tests."""
    return MemberKeys.generated()


def context(members: int, threshold: int | None = None, **changed: object) -> SumContext:
    """A sum that no other test shares its masks with, unless it asks for it."""
    fields: dict[str, object] = {
        "agreement": "tests",
        "task": "sums",
        "iteration": next(_ITERATIONS),
        "attempt": 1,
        "members": tuple(f"member-{number}" for number in range(members)),
        "threshold": members if threshold is None else threshold,
    }
    return SumContext(**{**fields, **changed})  # type: ignore[arg-type]


def seats(where: SumContext, numbers: Sequence[int] | None = None) -> list[Seat]:
    """One for each member; `numbers` say whose keys they have."""
    owners = range(len(where.members)) if numbers is None else numbers
    publics = tuple(key(number).public for number in owners)
    return [Seat(where, position, key(number), publics) for position, number in enumerate(owners)]


def random_words(members: int, length: int, seed: int = 0) -> Words:
    return np.random.default_rng(seed).integers(0, 2**64, (members, length), dtype=np.uint64)


def participants(where: SumContext, words: Words, persist: Persist | None = None) -> list[Participant]:
    return [Participant(seat, row, persist) for seat, row in zip(seats(where), words, strict=True)]


def in_any_order(
    members: Sequence[Participant],
    leave_after: Mapping[int, int],
    order: random.Random,
    overtaking: float = 0.0,
    watch: Callable[[Message], None] | None = None,
) -> set[int]:
    """Deliver in a random order, first in first out between any two; news that somebody left may overtake its last messages.

    Gives who left.
    """
    links: dict[tuple[int, int], list[Event]] = {}
    gone: set[int] = set()
    spoken = [0] * len(members)

    def post(sender: int, messages: Sequence[Message]) -> None:
        most = leave_after.get(sender, 10**9)
        for message in messages[: max(0, most - spoken[sender])]:
            spoken[sender] += 1
            links.setdefault((sender, message.receiver), []).append(message)
            if watch is not None:
                watch(message)
        if spoken[sender] >= most and sender not in gone:
            gone.add(sender)
            for other in range(len(members)):
                links.setdefault((sender, other), []).append(Missing(sender))

    for position, member in enumerate(members):
        post(position, member.begin())
    while busy := [link for link, events in links.items() if events and link[1] not in gone]:
        link = order.choice(busy)
        events = links[link]
        if isinstance(events[-1], Missing) and order.random() < overtaking:
            event, links[link] = events[-1], []
        else:
            event = events.pop(0)
        post(link[1], members[link[1]].receive(event))
    return gone


def without_masks_of(hidden: Words, where: Sequence[Seat], member: int, known_by: set[int], self_mask: bool) -> Words:
    """A member's masked words less every pairwise mask that the named members know, and its self-mask if that was opened."""
    rest = hidden.copy()
    for other in known_by - {member}:
        apply_pair_mask(rest, other, member, where[member].pair_seed(other))
    if self_mask:
        rest -= stretched(where[member].self_seed(), len(rest))
    return rest
