"""Masks: they cancel, differ for every sum, and can be repaired for one half of a member's secrets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from sudare.consensus.sharing.masks import (
    Dealing,
    Seat,
    SumContext,
    boxed_seeds,
    dealings,
    masked,
    opened_dealing,
    repaired_seed,
    unmasked,
    vote,
    vote_holds,
)
from sudare.errors import InvalidParameter, MessageMalformed
from tests.consensus.sums import context, key, random_words, seats


@given(st.integers(1, 9), st.integers(1, 5))
def test_pairwise_masks_cancel_over_all_members(members, length):
    words = random_words(members, length)
    hidden = [masked(seat, row) for seat, row in zip(seats(context(members)), words, strict=True)]
    np.testing.assert_array_equal(np.sum(hidden, axis=0, dtype=np.uint64), words.sum(axis=0, dtype=np.uint64))
    if members > 1:
        assert not any(np.array_equal(row, plain) for row, plain in zip(hidden, words, strict=True))


@given(st.integers(3, 8), st.data())
def test_any_set_of_members_can_be_opened_with_the_seeds_of_that_set_only(members, data):
    where = context(members, members - 1)
    places = seats(where)
    words = random_words(members, 2)
    hidden = [masked(seat, row) for seat, row in zip(places, words, strict=True)]
    included = sorted(data.draw(st.sets(st.integers(0, members - 1), min_size=1)))
    total = np.sum([hidden[member] for member in included], axis=0, dtype=np.uint64)
    seeds = {member: places[member].self_seed() for member in included}
    left_out = {
        member: [places[member].pair_seed(other) if other != member else bytes(32) for other in range(members)]
        for member in range(members)
        if member not in included
    }
    opened = unmasked(total, included, seeds, left_out)
    np.testing.assert_array_equal(opened, words[included].sum(axis=0, dtype=np.uint64))


CHANGES = {
    "agreement": "other",
    "task": "other",
    "iteration": 10**9,
    "attempt": 2,
    "members": ("member-0", "member-1", "member-2", "somebody"),
    "threshold": 3,
    "consortium": 5,
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_part_of_the_context_changes_every_mask(field):
    before = context(4)
    changed = {field: CHANGES[field]}
    after = replace(before, **changed)
    assert before.digest != after.digest
    first, second = (
        Seat(each, 0, key(0), tuple(key(number).public for number in range(4))) for each in (before, after)
    )
    assert first.pair_seed(1) != second.pair_seed(1)
    assert first.self_seed() != second.self_seed()
    assert first.box_key() != second.box_key()
    assert first.channel_key(0, 1) != second.channel_key(0, 1)
    same_input = field not in ("agreement", "task", "iteration")
    assert (before.input_digest == after.input_digest) == same_input


def test_secrets_of_one_sum_differ_by_purpose_and_direction():
    seat = seats(context(4, 3))[0]
    secrets = {seat.pair_seed(1), seat.self_seed(), seat.box_key(), seat.channel_key(0, 1), seat.channel_key(1, 0)}
    assert len(secrets) == 5


def test_contexts_that_could_open_two_totals_are_refused():
    for members, threshold in ((4, 2), (4, 5), (10, 5), (1, 0)):
        with pytest.raises(InvalidParameter, match="threshold"):
            context(members, threshold)
    with pytest.raises(InvalidParameter, match="threshold"):
        # A later attempt among four of ten: its three could be disjoint from seven others.
        context(4, 3, consortium=10)
    assert context(7, 6, consortium=10).repairable
    with pytest.raises(InvalidParameter, match="different"):
        SumContext("a", "t", 0, 0, ("x", "x", "y"), 3)


def test_seats_need_their_own_key_among_the_members():
    where = context(3)
    with pytest.raises(InvalidParameter, match="Public keys"):
        Seat(where, 0, key(1), tuple(key(number).public for number in range(3)))
    with pytest.raises(InvalidParameter, match="Public keys"):
        Seat(where, 0, key(0), (key(0).public,))


@pytest.mark.parametrize(("members", "threshold"), [(3, 2), (5, 3), (8, 7)])
def test_dealt_shares_give_the_self_seed_and_the_box(members, threshold):
    where = context(members, threshold)
    places = seats(where)
    own, dealt = dealings(places[1])
    held = {other: opened_dealing(places[other], 1, dealing) for other, dealing in dealt.items()} | {1: own}
    holders = list(held)[-threshold:]
    seed = repaired_seed({holder: held[holder].of_self_seed for holder in holders}, threshold)
    assert seed == places[1].self_seed()
    box_key = repaired_seed({holder: held[holder].of_box_key for holder in holders}, threshold)
    seeds = boxed_seeds(held[0].box, box_key, where)
    assert seeds == [bytes(32) if other == 1 else places[1].pair_seed(other) for other in range(members)]
    assert seeds[0] == places[0].pair_seed(1)


def test_dealings_are_the_same_after_a_restart():
    where = context(4, 3)
    assert dealings(seats(where)[2])[1] == dealings(seats(where)[2])[1]


def test_dealings_are_for_their_receiver_and_their_sum_only():
    where = context(4, 3)
    places = seats(where)
    _, dealt = dealings(places[1])
    for reader, sender, dealing in (
        (places[2], 1, dealt[3]),
        (places[3], 2, dealt[3]),
        (seats(context(4, 3))[3], 1, dealt[3]),
        (places[3], 1, Dealing(dealt[3].box, bytes(30))),
    ):
        with pytest.raises(MessageMalformed, match="does not open"):
            opened_dealing(reader, sender, dealing)
    with pytest.raises(MessageMalformed, match="does not open"):
        boxed_seeds(dealt[3].box, bytes(32), where)


def test_what_opens_but_holds_something_else_is_refused():
    where = context(4, 3)
    places = seats(where)
    short = AESGCM(places[1].channel_key(1, 3)).encrypt(bytes(12), bytes(79), where.digest)
    with pytest.raises(MessageMalformed, match="two shares"):
        opened_dealing(places[3], 1, Dealing(b"", short))
    box = AESGCM(bytes(32)).encrypt(bytes(12), bytes(96), where.digest)
    with pytest.raises(MessageMalformed, match="one seed for each"):
        boxed_seeds(box, bytes(32), where)


def test_votes_are_bound_to_member_set_and_sum():
    where = context(4, 3)
    places = seats(where)
    cast = vote(places[1], frozenset({0, 1, 3}))
    assert vote_holds(places[2], 1, cast)
    assert not vote_holds(places[2], 0, cast)
    assert not vote_holds(places[2], 1, replace(cast, included=frozenset({0, 1, 2})))
    assert not vote_holds(seats(replace(where, attempt=2))[2], 1, cast)
