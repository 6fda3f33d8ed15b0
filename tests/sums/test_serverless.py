"""Sums without a collector: exact, compared by everyone before they are used, and stopped by any difference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sudare.errors import MaskReused, SecondTotalRefused, StatementsContradict, SumError
from sudare.sums import serverless
from sudare.sums.context import bitmap
from sudare.sums.input_records import admitted
from sudare.sums.messages import GivenUp, Heard, Included, Message, Passed, Withdrawn, heard_content
from sudare.sums.simulation import simulate
from sudare.sums.statements import stated
from tests.sums.parties import context, participants, parties, random_words, sent_by_all

MEMBERS = 6
WORDS = random_words(MEMBERS, 2)


def heard_by(position: int, where) -> list[Message]:
    return [message for message in sent_by_all(parties(where, WORDS)) if message.receiver == position]


def test_members_pass_parcels_and_say_which_total_they_hold():
    where = context(MEMBERS)
    messages = list(sent_by_all(parties(where, WORDS)))
    assert {type(message.body) for message in messages} == {Passed, Heard}
    assert sum(isinstance(message.body, Passed) for message in messages) == 3 * MEMBERS
    heard = {(m.sender, m.receiver) for m in messages if isinstance(m.body, Heard)}
    assert heard == {(one, other) for one in range(MEMBERS) for other in range(MEMBERS) if one != other}
    assert len({m.body.heard.content for m in messages if isinstance(m.body, Heard)}) == 1


def test_a_total_is_used_only_after_everybody_has_said_that_it_is_the_same():
    where = context(MEMBERS)
    participant = participants(where)[1]
    state, _ = serverless.begun(participant, WORDS[1])
    script = heard_by(1, where)
    for message in script:
        assert state.total is None
        state, _ = serverless.step(participant, state, message)
    assert state.total is not None
    assert state.total.tolist() == WORDS.sum(axis=0, dtype=np.uint64).tolist()
    assert serverless.failure(participant, state) is None
    # Used is used.
    state, _ = serverless.step(participant, state, Message(2, 1, GivenUp()))
    assert state.stopped is None


def test_parcels_in_any_order_and_twice():
    where = context(MEMBERS)
    participant = participants(where)[1]
    state, _ = serverless.begun(participant, WORDS[1])
    for message in reversed(heard_by(1, where)):
        state, _ = serverless.step(participant, state, message)
        again, outgoing = serverless.step(participant, state, message)
        assert outgoing == ()
        assert len(again.waiting) == len(state.waiting)
    assert state.total is not None


def test_parcels_that_are_no_part_of_the_sum_change_nothing():
    where = context(MEMBERS)
    participant = participants(where)[1]
    state, _ = serverless.begun(participant, WORDS[1])
    (first,) = [m for m in heard_by(1, where) if isinstance(m.body, Passed) and m.body.round == 0]
    row = WORDS[0]
    for message in (
        replace(first, sender=3),
        replace(first, body=replace(first.body, round=1)),
        replace(first, body=replace(first.body, round=-1)),
        replace(first, body=replace(first.body, round=3)),
        replace(first, body=replace(first.body, round=2**60)),
        replace(first, body=replace(first.body, window=row[:1])),
        replace(first, body=replace(first.body, window=row.reshape(1, -1))),
        replace(first, body=replace(first.body, window=None)),
        replace(first, body=replace(first.body, partial=row)),
        replace(first, body=Withdrawn()),
        replace(first, body=Included(stated(participants(where)[2], "included", b""))),
    ):
        assert serverless.step(participant, state, message) == (state, ())


@pytest.mark.parametrize("own_total_came", [False, True])
def test_different_totals_stop_the_sum_and_the_statements_are_kept(own_total_came):
    where = context(MEMBERS)
    participant = participants(where)[1]
    state, _ = serverless.begun(participant, WORDS[1])
    lie = stated(participants(where)[3], "heard", heard_content(where, frozenset(range(MEMBERS)), WORDS[3]))
    script = heard_by(1, where)
    if own_total_came:
        script = [message for message in script if isinstance(message.body, Passed)]
        for message in script:
            state, _ = serverless.step(participant, state, message)
        script = []
    state, _ = serverless.step(participant, state, Message(3, 1, Heard(lie, None)))
    for message in script:
        state, _ = serverless.step(participant, state, message)
    assert state.stopped == "contradiction"
    assert state.total is None
    assert isinstance(serverless.failure(participant, state), StatementsContradict)
    assert lie in state.heard_totals.contradiction
    assert serverless.step(participant, state, Message(3, 1, Heard(lie, None))) == (state, ())


def test_what_nobody_signed_stops_nothing():
    where = context(MEMBERS)
    participant = participants(where)[1]
    state, _ = serverless.begun(participant, WORDS[1])
    lie = stated(participants(where)[3], "heard", heard_content(where, frozenset(range(MEMBERS)), WORDS[3]))
    for sender, statement in ((2, lie), (3, replace(lie, signature=bytes(64))), (3, replace(lie, kind="total"))):
        after, _ = serverless.step(participant, state, Message(sender, 1, Heard(statement, None)))
        assert after.heard_totals.others == {}


def plus_one(body: Passed) -> Passed:
    window, partial = (None if each is None else each + np.uint64(1) for each in (body.window, body.partial))
    return replace(body, window=window, partial=partial)


@pytest.mark.parametrize("round_", range(3))
@pytest.mark.parametrize("liar", range(MEMBERS))
def test_a_changed_parcel_is_noticed_before_anybody_uses_a_total(round_, liar):
    """Wherever one member changes one parcel, statements differ and nobody has a total."""
    members = parties(context(MEMBERS), WORDS)
    queue = [message for member in members for message in member.begin()]
    for message in queue:
        body, told = message.body, message
        if message.sender == liar and isinstance(body, Passed) and body.round == round_:
            told = replace(message, body=plus_one(body))
        queue.extend(members[message.receiver].receive(told))
    assert all(each.total is None for each in members)
    assert any(isinstance(each.failure, StatementsContradict) for each in members)


def test_one_who_gives_up_stops_a_sum_that_nobody_may_leave():
    where = context(MEMBERS)
    participant = participants(where)[1]
    state, _ = serverless.begun(participant, WORDS[1])
    state, _ = serverless.step(participant, state, Message(4, 1, GivenUp()))
    assert state.stopped == "given up"
    assert type(serverless.failure(participant, state)) is SumError


def test_an_input_is_promised_to_all_members_at_once():
    """After a sum that nobody may leave, the same input is voted for in no smaller sum."""
    where = context(MEMBERS)
    participant = participants(where)[1]
    record = serverless.begun(participant, WORDS[1])[0].record
    assert record.voted_for == bitmap(range(MEMBERS), MEMBERS)
    again = participants(replace(where, attempt=1))[1]
    assert serverless.begun(again, WORDS[1], record)[0].record.voted_for == record.voted_for
    with pytest.raises(MaskReused):
        serverless.begun(again, WORDS[2], record)
    fewer = admitted(participant, WORDS[1], None).with_vote(where, bitmap(range(5), MEMBERS))
    with pytest.raises(SecondTotalRefused):
        serverless.begun(again, WORDS[1], fewer)


def test_one_member_alone_has_its_own_sum():
    members = parties(context(1), WORDS[:1])
    simulate(members)
    assert members[0].total is not None
    assert members[0].total.tolist() == WORDS[0].tolist()
