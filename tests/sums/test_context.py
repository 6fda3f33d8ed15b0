"""Which sum this is: every part of it changes the digest, thresholds that could open two totals are refused, and sets are bitmaps of one form."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums.context import (
    Participant,
    Roster,
    bitmap,
    check_threshold,
    least_threshold,
    members_in,
    most_dishonest,
)
from sudare.sums.keys import PublicKeys
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.statements import Statement
from tests.sums.montgomery import ENCODINGS_OF_SMALL_ORDER, translated
from tests.sums.parties import SPARSE, context, keys_of, participants, roster

# Second coordinates of the points of order 8 on Edwards25519.
ORDER_8 = (
    2707385501144840649318225287225658788936804267575313519463743609750303402022,
    55188659117513257062467267217118295137698188065244968500265048394206261417927,
)


def names(count: int) -> tuple[str, ...]:
    return roster(count).members


def publics(count: int) -> tuple[PublicKeys, ...]:
    return roster(count).publics


# Rosters


def test_members_are_named_once_and_each_has_keys():
    assert len(Roster(names(3), publics(3))) == 3
    with pytest.raises(InvalidParameter, match="different"):
        Roster(("a", "b", "a"), publics(3))
    with pytest.raises(InvalidParameter, match="different"):
        Roster((), ())
    with pytest.raises(InvalidParameter, match="Public keys"):
        Roster(names(3), publics(2))


@pytest.mark.parametrize("kind", ["exchange", "signing"])
def test_two_members_that_show_one_key_end_the_sum_before_anything_is_sent(kind):
    reflected = replace(publics(4)[3], **{kind: getattr(publics(4)[1], kind)})
    with pytest.raises(InvalidParameter, match=r"'member-1' and 'member-3' show the same key.*Nothing was sent"):
        Roster(names(4), (*publics(3), reflected))


@pytest.mark.parametrize("encoding", ENCODINGS_OF_SMALL_ORDER)
def test_a_key_of_small_order_ends_the_sum_before_anything_is_sent(encoding):
    with pytest.raises(InvalidParameter, match=r"'member-3'.*Nothing was sent"):
        Roster(names(4), (*publics(3), replace(publics(4)[3], exchange=encoding)))


@pytest.mark.parametrize("sign", [0x00, 0x80])
@pytest.mark.parametrize("second", [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, *ORDER_8])
def test_a_key_for_votes_by_which_anybody_can_sign_ends_the_sum_before_anything_is_sent(second, sign):
    """Its owner could say of every lie that somebody else signed it."""
    encoding = (second | sign << 248).to_bytes(32, "little")
    forged = b"\x01" + bytes(63)
    if not sign and second < 2**255 - 19:
        # The library itself takes a forgery of every few texts, so that the refusal below is not an empty one.
        forgeries = (Statement("heard", 3, bytes(32), bytes([number]) * 64, forged) for number in range(256))
        assert any(each.is_signed_by(encoding) for each in forgeries)
    with pytest.raises(InvalidParameter, match=r"'member-3'.*anybody can sign.*Nothing was sent"):
        Roster(names(4), (*publics(3), replace(publics(4)[3], signing=encoding)))


def test_one_key_in_two_forms_ends_the_sum():
    """X25519 ignores the last bit of a key."""
    moved = translated(publics(4)[1].exchange, "high bit")
    with pytest.raises(InvalidParameter, match="show the same key"):
        Roster(names(4), (*publics(3), replace(publics(4)[3], exchange=moved)))


def test_every_name_and_key_changes_the_digest_of_all_keys():
    before = roster(4)
    changed = {before.digest}
    for place in range(4):
        named = (*before.members[:place], "somebody", *before.members[place + 1 :])
        changed.add(Roster(named, before.publics).digest)
        for kind in ("exchange", "signing"):
            fresh = replace(before.publics[place], **{kind: getattr(keys_of(99).public, kind)})
            keys = (*before.publics[:place], fresh, *before.publics[place + 1 :])
            changed.add(Roster(before.members, keys).digest)
    swapped = Roster(before.members, (before.publics[1], before.publics[0], *before.publics[2:]))
    assert len(changed | {swapped.digest}) == 1 + 4 * 3 + 1


# Thresholds


@pytest.mark.parametrize(
    ("members", "threshold", "dishonest"),
    [(1, 1, 0), (2, 2, 0), (3, 2, 0), (3, 3, 1), (4, 3, 1), (5, 3, 0), (5, 4, 2), (10, 8, 5), (20, 15, 9)],
)
def test_thresholds_that_leave_one_total(members, threshold, dishonest):
    check_threshold(members, threshold, dishonest)
    assert context(members, threshold, dishonest).may_leave == (threshold < members)


@pytest.mark.parametrize(
    ("members", "threshold", "dishonest", "match"),
    [
        (4, 2, 0, "from 3 to 4"),
        (4, 3, 2, "the threshold 4 .nobody may leave"),
        (4, 5, 0, "more than the 4 members there are"),
        (5, 3, 1, "from 4 to 5"),
        (10, 5, 0, "two totals"),
        (3, 2, 1, "the threshold 3 .nobody may leave"),
        (1, 0, 0, "threshold"),
        (4, 4, 3, "fewer than two honest"),
        (2, 2, 1, "fewer than two honest"),
        (4, 4, -1, "fewer than two honest"),
    ],
)
def test_thresholds_that_could_open_two_totals_are_refused(members, threshold, dishonest, match):
    with pytest.raises(InvalidParameter, match=match):
        context(members, threshold, dishonest)


@given(st.integers(2, 300), st.data())
def test_two_sets_of_voters_share_an_honest_member(members, data):
    """2t > S + c: two sets of t voters have more than c members in common. Threshold and number of dishonest members fit each other."""
    dishonest = data.draw(st.integers(0, members - 2))
    threshold = least_threshold(members, dishonest)
    check_threshold(members, threshold, dishonest)
    if threshold < members:
        assert 2 * threshold - members > dishonest
        assert dishonest <= most_dishonest(members, threshold)
    if threshold - 1 < members:
        with pytest.raises(InvalidParameter):
            check_threshold(members, threshold - 1, dishonest)
    other = data.draw(st.integers(members // 2 + 1, members))
    most = most_dishonest(members, other)
    check_threshold(members, other, most)
    with pytest.raises(InvalidParameter):
        check_threshold(members, other, most + 1)


# Contexts

CHANGES = {
    "agreement": "other",
    "task": "other",
    "iteration": 10**9,
    "attempt": 7,
    "threshold": 9,
    "dishonest": 0,
    "history": b"h" * 32,
    "neighbourhood": Neighbourhood(5, 4),
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_changes_the_digest(field):
    before = context(10, 8, 1, neighbourhood=SPARSE)
    after = replace(before, **{field: CHANGES[field]})
    assert before.digest != after.digest
    same_input = field not in ("agreement", "task", "iteration")
    assert (before.input_digest == after.input_digest) == same_input


def test_texts_cannot_be_moved_between_fields():
    """The digest is of fields, not of their letters one after the other."""
    one = context(4, 3, agreement='a","b', task="c", iteration=0)
    other = context(4, 3, agreement="a", task='b","c', iteration=0)
    assert one.digest != other.digest
    assert one.input_digest != other.input_digest


def test_who_collects_changes_with_every_iteration_and_attempt():
    where = context(5, 3, iteration=7)
    assert [replace(where, attempt=attempt).collector for attempt in range(5)] == [2, 3, 4, 0, 1]
    assert [replace(where, iteration=number).collector for number in (7, 8, 9)] == [2, 3, 4]


def test_sparse_and_complete_neighbourhoods():
    complete, sparse = context(10, 8), context(10, 8, neighbourhood=SPARSE)
    assert not complete.is_sparse
    assert complete.share_threshold == 8
    assert sparse.is_sparse
    assert sparse.share_threshold == 4
    everyone = context(10, 8, neighbourhood=Neighbourhood(9, 8))
    assert not everyone.is_sparse
    assert everyone.share_threshold == 8


# Participants


def test_seats_need_their_own_key_among_the_members():
    with pytest.raises(InvalidParameter, match="keys"):
        Participant(context(3), 0, keys_of(1))


def test_neighbours_are_everyone_or_a_few_of_its_own_choice_that_a_restart_does_not_change():
    complete, sparse = context(10, 8), context(10, 8, neighbourhood=SPARSE)
    assert participants(complete)[3].out_neighbours == (0, 1, 2, 4, 5, 6, 7, 8, 9)
    chosen = [participant.out_neighbours for participant in participants(sparse)]
    assert chosen == [participant.out_neighbours for participant in participants(sparse)]
    for position, each in enumerate(chosen):
        assert len(set(each)) == 6
        assert list(each) == sorted(each)
        assert position not in each
    assert len(set(chosen)) > 1


def test_enough_share_holders():
    """Everyone a neighbour: t, itself included. A few neighbours: t_k of them, where itself does not count."""
    complete = participants(context(6, 4))[2]
    assert complete.has_enough_in(frozenset({0, 1, 2, 5}))
    assert not complete.has_enough_in(frozenset({0, 1, 2}))
    assert complete.has_enough_in(frozenset({0, 1, 3, 5}))
    sparse = participants(context(10, 8, neighbourhood=SPARSE))[2]
    four = frozenset(sparse.out_neighbours[:4])
    assert sparse.has_enough_in(four)
    assert not sparse.has_enough_in(four - {sparse.out_neighbours[0]} | {2})


# Bitmaps


@given(st.integers(1, 70), st.data())
def test_sets_come_back_from_their_only_form(count, data):
    members = data.draw(st.frozensets(st.integers(0, count - 1)))
    content = bitmap(members, count)
    assert len(content) == -(-count // 8)
    assert members_in(content, count) == members


@given(st.integers(1, 70), st.binary(max_size=10))
def test_bytes_are_a_set_of_one_form_or_refused(count, content):
    try:
        found = members_in(content, count)
    except MessageMalformed:
        return
    assert bitmap(found, count) == content


@pytest.mark.parametrize(("content", "count"), [(b"", 3), (b"\x00\x00", 3), (b"\x08", 3), (b"\xff\x02", 9)])
def test_sets_that_are_none(content, count):
    with pytest.raises(MessageMalformed):
        members_in(content, count)
