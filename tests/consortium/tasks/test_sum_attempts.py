"""Attempts at a sum of one member: which contexts it begins."""

from __future__ import annotations

import numpy as np

from sudare.consortium.tasks.sum_attempts import IterationStart, SumAttempts
from sudare.consortium.tasks.sum_participant import Attempt, SumGroup
from sudare.sums.context import NO_HISTORY
from sudare.sums.keys import MemberKeys, PublicKeys
from sudare.sums.party import PartyState

NAMES = ("east", "north", "south", "west")
KEYS = [MemberKeys.generated() for _ in range(5)]
FIRST = tuple(each.public for each in KEYS[:4])
OTHER = (*FIRST[:3], KEYS[4].public)
START = IterationStart(0, b"", np.arange(3, dtype=np.uint64), NO_HISTORY, takes_part=True)


def begun(publics: tuple[PublicKeys, ...], saved: Attempt | None) -> Attempt:
    """What a member has saved after it began, or began again."""
    kept: list[Attempt] = []
    group = SumGroup("ab" * 32, NAMES, "north", KEYS[1], threshold=3, dishonest=1)
    SumAttempts("mean", group, publics, START, kept.append).begin(saved, now=0.0)
    return kept[-1]


def test_the_same_keys_take_up_what_was_saved() -> None:
    first = begun(FIRST, None)
    assert begun(FIRST, first) == first


def test_no_context_is_begun_twice_whatever_keys_are_shown() -> None:
    """Keys A, B and A again: the second time with A is a later attempt, with secrets of its own."""
    saved, numbers, contexts = None, [], set()
    for publics in (FIRST, OTHER, FIRST, OTHER, FIRST):
        saved = begun(publics, saved)
        numbers.append(saved.number)
        contexts.add(PartyState.from_bytes(saved.sum_state).context_digest)
    assert numbers == [0, 1, 2, 3, 4]
    assert len(contexts) == 5
