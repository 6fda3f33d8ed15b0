"""Messages and what statements say, as bytes: there and back, and whatever else comes is refused without taking memory."""

from __future__ import annotations

import functools
import tracemalloc
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import MessageMalformed
from sudare.sums.canonical_encoding import MOST_VALUES, packed, packed_size
from sudare.sums.messages import (
    MESSAGE_CLASSES,
    Body,
    GivenUp,
    Message,
    OpenedShares,
    SumKeys,
    Withdrawn,
    heard_content,
    history_after,
    most_message_bytes,
    total_digest,
    vote_content,
)
from sudare.sums.party import PartyState
from sudare.sums.shamir import PRIME, SEED_LIMBS
from sudare.sums.simulation import simulate
from tests.sums.parties import SPARSE, context, parties, random_words, sent_by_all

MEMBERS, LENGTH = 10, 3


@functools.cache
def samples() -> dict[str, bytes]:
    """One message of each kind, from sums with and without a collector, complete and sparse."""
    found: dict[str, bytes] = {}
    for where in (context(MEMBERS), context(MEMBERS, 8), context(MEMBERS, 8, neighbourhood=SPARSE)):
        for message in sent_by_all(parties(where, random_words(MEMBERS, LENGTH))):
            found[type(message.body).__name__ + ("" if where.is_sparse else " complete")] = message.to_bytes()
    for body in (Withdrawn(), GivenUp()):
        found[type(body).__name__] = Message(1, 0, body).to_bytes()
    return found


def kinds() -> list[str]:
    return [each.__name__ for each in get_args(Body)]


def test_every_kind_of_message_survives_as_bytes():
    assert {name.split()[0] for name in samples()} == set(kinds())
    assert {"Message", "Statement", *kinds()} == {each.__name__ for each in MESSAGE_CLASSES}
    for content in samples().values():
        message = Message.from_bytes(content)
        assert message.to_bytes() == content
        assert packed_size(message) == len(content)


def test_no_message_of_an_honest_sum_is_larger_than_the_limit():
    assert all(len(content) <= most_message_bytes(LENGTH, MEMBERS) for content in samples().values())
    for members, length in ((2, 1), (3, 1000), (30, 1)):
        for where in [context(members)] + ([context(members, members - 1)] if members > 2 else []):
            for message in sent_by_all(parties(where, random_words(members, length))):
                assert packed_size(message) <= most_message_bytes(length, members)


@functools.cache
def saved_states() -> list[bytes]:
    found = []
    for where in (context(4), context(5, 4), context(MEMBERS, 8, neighbourhood=SPARSE)):
        members = parties(where, random_words(len(where.roster), LENGTH), persist=lambda content: None)
        simulate(members)
        found += [member.state.to_bytes() for member in members[:2]]
    return found


def test_states_survive_as_bytes():
    for content in saved_states():
        assert PartyState.from_bytes(content).to_bytes() == content


def test_messages_and_states_are_not_taken_for_each_other():
    for content in (*samples().values(), packed(5), packed(Withdrawn())):
        with pytest.raises(MessageMalformed):
            PartyState.from_bytes(content)
    for content in (*saved_states(), packed(5), packed(Withdrawn())):
        with pytest.raises(MessageMalformed):
            Message.from_bytes(content)


# Whatever the bytes are


def parsed(content: bytes) -> None:
    """Read bytes by every parser: each gives a value of one form, or MessageMalformed, in little memory."""
    sparse, complete = context(MEMBERS, 8, neighbourhood=SPARSE), context(MEMBERS, 8)
    parsers = [
        (Message.from_bytes, lambda found: found.to_bytes()),
        (PartyState.from_bytes, lambda found: found.to_bytes()),
        (OpenedShares.from_bytes, lambda found: found.to_bytes()),
        (lambda each: SumKeys.from_bytes(each, sparse, 3), lambda found: found.to_bytes()),
        (lambda each: SumKeys.from_bytes(each, complete, 3), lambda found: found.to_bytes()),
        (complete.members_in, complete.bitmap),
    ]
    for parse, form in parsers:
        tracemalloc.start()
        try:
            found = parse(content)
        except MessageMalformed:
            found = None
        finally:
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert most < 200_000 + 60 * len(content)
        if found is not None:
            assert form(found) == content


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_refused(content):
    parsed(content)


@st.composite
def damaged(draw) -> bytes:
    """A message or what a statement says, with bytes changed, cut out, repeated or put in."""
    name = draw(st.sampled_from(sorted(samples())))
    message = Message.from_bytes(samples()[name])
    statements = [each for each in vars(message.body).values() if hasattr(each, "content")]
    content = draw(st.sampled_from([samples()[name], *(each.content for each in statements)]))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        size = draw(st.integers(0, 9))
        middle = draw(st.binary(max_size=9) | st.just(content[at : at + size] * 2) | st.just(b"\xff" * 8))
        content = content[:at] + middle + content[at + size :]
    return content


@given(damaged())
def test_damaged_messages_are_values_or_refused(content):
    parsed(content)


def test_messages_cut_anywhere_are_refused():
    for content in samples().values():
        for end in {*range(0, len(content), max(len(content) // 50, 1)), len(content) - 1}:
            with pytest.raises(MessageMalformed):
                Message.from_bytes(content[:end])
        with pytest.raises(MessageMalformed):
            Message.from_bytes(content + b"N")


def test_too_many_values_are_refused():
    count = MOST_VALUES + 1
    with pytest.raises(MessageMalformed, match="too many"):
        Message.from_bytes(b"L" + count.to_bytes(8, "little") + b"N" * count)


# What statements say


@given(st.data())
def test_keys_for_a_sum_survive_as_bytes(data):
    where = context(MEMBERS, 8, neighbourhood=SPARSE)
    others = [each for each in range(MEMBERS) if each != 3]
    chosen = tuple(sorted(data.draw(st.lists(st.sampled_from(others), min_size=6, max_size=6, unique=True))))
    keys = SumKeys(data.draw(st.binary(min_size=32, max_size=32)), bytes(32), chosen)
    assert SumKeys.from_bytes(keys.to_bytes(), where, 3) == keys
    with pytest.raises(MessageMalformed, match="size"):
        SumKeys.from_bytes(keys.to_bytes(), context(MEMBERS, 8), 3)


@pytest.mark.parametrize(
    "chosen",
    [
        (0, 1, 2, 3, 4, 5),
        (1, 0, 2, 4, 5, 6),
        (0, 0, 1, 2, 4, 5),
        (0, 1, 2, 4, 5, 10),
        (0, 1, 2, 4, 5, 2**32 - 1),
        (0, 1, 2, 4, 5),
        (0, 1, 2, 4, 5, 6, 7),
        (),
    ],
    ids=["itself", "out of order", "one twice", "nobody", "far out", "too few", "too many", "none"],
)
def test_choices_of_neighbours_that_are_none(chosen):
    where = context(MEMBERS, 8, neighbourhood=SPARSE)
    with pytest.raises(MessageMalformed):
        SumKeys.from_bytes(SumKeys(bytes(32), bytes(32), chosen).to_bytes(), where, 3)


def test_opened_shares_are_shares():
    share = np.full(SEED_LIMBS, PRIME - 1, dtype=np.uint64)
    good = OpenedShares({1: share}, {2: share})
    again = OpenedShares.from_bytes(good.to_bytes())
    assert again.of_self_seeds[1].tolist() == share.tolist()
    assert again.of_mask_keys[2].tolist() == share.tolist()
    for wrong in (share[:-1], np.append(share, share[:1]), share + np.uint64(1)):
        for shares in (OpenedShares({1: wrong}, {}), OpenedShares({}, {1: wrong})):
            with pytest.raises(MessageMalformed, match="share"):
                OpenedShares.from_bytes(shares.to_bytes())
    packed_good = good.to_bytes()
    descending = OpenedShares({1: share, 2: share}, {}).to_bytes()
    descending = descending[:4] + descending[8:12] + descending[4:8] + descending[12:]
    for content in (packed(5), b"", packed_good[:-1], packed_good + b"0", b"\x03" + packed_good[1:], descending):
        with pytest.raises(MessageMalformed):
            OpenedShares.from_bytes(content)


def test_contents_are_different_for_different_sets_and_totals():
    where, words = context(4, 3), random_words(2, 3)
    everyone, three = frozenset(range(4)), frozenset(range(3))
    votes = {vote_content(where, *each) for each in ((everyone, everyone), (everyone, three), (three, three))}
    assert len(votes) == 3
    assert where.members_in(where.bitmap(three)) == three
    heard = {heard_content(where, each, row) for each in (everyone, three) for row in words}
    assert len(heard) == 4
    assert total_digest(words[0]) != total_digest(words[1])


def test_history_depends_on_every_total_before():
    where, words = context(4, 3), random_words(2, 3)
    everyone, three = frozenset(range(4)), frozenset(range(3))
    begun = bytes(32)
    digests = {
        history_after(history, each, included, row)
        for history in (begun, b"h" * 32)
        for each in (where, context(4, 3))
        for included in (everyone, three)
        for row in words
    }
    assert len(digests) == 16
    first = history_after(begun, where, everyone, words[0])
    assert history_after(first, where, everyone, words[1]) != history_after(begun, where, everyone, words[1])
