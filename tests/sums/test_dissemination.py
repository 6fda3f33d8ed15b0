"""The dissemination sum: exact for every S in ⌈log₂ S⌉ rounds, one send and one receive each, at most two values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.sums.canonical_encoding import packed, unpacked
from sudare.sums.dissemination import DisseminationState, Parcel, begun, covered, rounds_of, step


@dataclass(frozen=True)
class Span:
    """The members `start`, …, `start + length − 1`, each exactly once."""

    start: int
    length: int

    def moved(self, places: int) -> Span:
        return Span(self.start + places, self.length)


def joined(first: Span, second: Span) -> Span:
    """Two spans without a gap or an overlap: the proof that a sum counts everybody once."""
    assert first.start + first.length == second.start
    return Span(first.start, first.length + second.length)


def moved(parcel: Parcel, places: int, members: int) -> Parcel:
    """What the member so many places on sends, since all members do the same."""
    window, partial = (None if part is None else part.moved(places) for part in (parcel.window, parcel.partial))
    sender, receiver = (parcel.sender + places) % members, (parcel.receiver + places) % members
    return replace(parcel, sender=sender, receiver=receiver, window=window, partial=partial)


def spans(members: int) -> tuple[Span, list[Parcel]]:
    """Member 0's total and what it sent, with the others' messages by symmetry."""
    state, parcel = begun(members, 0, Span(0, 1))
    sent = []
    while parcel is not None:
        sent.append(parcel)
        distance = 1 << parcel.round
        state, parcel = step(state, moved(parcel, distance, members), joined)
    return state.total, sent


def test_the_schedule_sums_everyone_once_for_every_number_of_members_to_1024():
    for members in range(1, 1025):
        total, sent = spans(members)
        assert total == Span(0, members)
        assert len(sent) == len(rounds_of(members)) == math.ceil(math.log2(members))
        assert all(1 <= parcel.values <= 2 for parcel in sent)
        for parcel in sent:
            assert parcel.receiver == -(1 << parcel.round) % members
            window, partial = covered(parcel, members)
            assert Span(window.start, len(window)) == (parcel.window or Span(0, 0))
            assert Span(partial.start, len(partial)) == (parcel.partial or Span(0, 0))


def all_states(members: int, values: list[object]) -> list[DisseminationState]:
    """Everyone, in rounds."""
    pairs = [begun(members, position, value) for position, value in enumerate(values)]
    for _ in rounds_of(members):
        incoming = {parcel.receiver: parcel for _, parcel in pairs if parcel is not None}
        assert len(incoming) == members
        pairs = [step(state, incoming[state.position]) for state, _ in pairs]
    assert all(parcel is None for _, parcel in pairs)
    return [state for state, _ in pairs]


@given(st.integers(1, 70), st.integers(0, 2**32))
def test_all_members_hold_the_same_exact_words(members, seed):
    words = np.random.default_rng(seed).integers(0, 2**64, (members, 3), dtype=np.uint64)
    states = all_states(members, list(words))
    for state in states:
        np.testing.assert_array_equal(state.total, words.sum(axis=0, dtype=np.uint64))


@pytest.mark.parametrize("members", [97, 128, 255, 511, 1023, 1024])
def test_larger_numbers_of_members(members):
    values = [pow(3, position, 2**61 - 1) for position in range(members)]
    assert {state.total for state in all_states(members, values)} == {sum(values)}


def test_on_average_fewer_than_two_values_a_round():
    """Issue: at most 1.8 values a member and round over all S, by counting."""
    for members in range(2, 1025):
        _, sent = spans(members)
        assert sum(parcel.values for parcel in sent) <= 1.8 * len(sent)


def test_parcels_that_do_not_belong_are_refused():
    state, parcel = begun(6, 2, 10)
    right = Parcel(sender=3, receiver=2, round=0, window=5)
    assert step(state, right)[0].window == 15
    wrong = [
        replace(right, sender=4),
        replace(right, receiver=1),
        replace(right, round=1),
        replace(right, window=None),
        replace(right, partial=7),
    ]
    for each in wrong:
        with pytest.raises(InvalidParameter, match="position 3"):
            step(state, each)
    for members, position in ((0, 0), (3, 3), (3, -1)):
        with pytest.raises(InvalidParameter):
            begun(members, position, 1)
    with pytest.raises(InvalidParameter, match="0 members"):
        rounds_of(0)
    assert parcel == Parcel(2, 1, 0, 10)


def test_a_saved_place_is_read_by_builds_that_knew_it_under_its_former_name():
    place = DisseminationState(3, 1, 0, None)
    content = packed(place)
    assert b"State" in content[:16]
    assert b"Dissemination" not in content
    assert unpacked(content, DisseminationState) == place
