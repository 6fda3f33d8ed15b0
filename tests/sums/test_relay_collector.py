"""The relay as collector: exact sums whoever leaves, restarts that send the same bytes, and no voice beyond a collector's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.errors import InvalidParameter, MessageMalformed, SumError
from sudare.sums import secure_sum
from sudare.sums.blame import Transcript, contradictions
from sudare.sums.context import Participant, RelayedSumContext, SumContext
from sudare.sums.keys import PublicKeys
from sudare.sums.messages import Advertised, Heard, Included, Message, Passed, Voted, heard_content
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.party import Party
from sudare.sums.relay_collector import RelayCollector, RelayState
from sudare.sums.simulation import simulate
from sudare.sums.statements import KINDS, holds, stated
from tests.sums.parties import SPARSE, context, in_any_order, keys_of, outcome, participants, parties, random_words

Words = NDArray[np.uint64]
EVERYONE = frozenset(range(5))
CASES = {"least": (3, 2, None), "complete": (6, 4, None), "sparse": (9, 7, SPARSE)}


def relayed(members: int, threshold: int, hood: Neighbourhood | None = None, **changed: object) -> RelayedSumContext:
    where = context(members, threshold, neighbourhood=hood)
    values = {name: getattr(where, name) for name in where.__dataclass_fields__}
    return RelayedSumContext(**{**values, "relay": keys_of(members).public, **changed})  # type: ignore[arg-type]


def relay_in(where: RelayedSumContext) -> Participant:
    return Participant(where, where.collector, keys_of(len(where.roster)))


@pytest.mark.parametrize("name", CASES)
def test_members_hold_the_exact_sum_whoever_of_them_leaves_and_when(name: str) -> None:
    members, threshold, hood = CASES[name]
    for seed in range(12):
        order = random.Random(seed)
        where = relayed(members, threshold, hood)
        words = random_words(members, 3, seed)
        leaving: Mapping[int, int] = {
            each: order.randrange(6) for each in order.sample(range(members), order.randint(0, members - threshold))
        }
        everyone = parties(where, words)
        relay = RelayCollector(relay_in(where), 3)
        gone = in_any_order([*everyone, relay], leaving, order)  # type: ignore[list-item]
        included = outcome(everyone, words, gone)
        # A sparse graph as small as this may lose somebody's neighbours.
        assert included is not None or hood is not None
        if included is not None:
            assert relay.total is not None
            np.testing.assert_array_equal(relay.total, words[sorted(included)].sum(axis=0, dtype=np.uint64))


def test_any_member_may_leave_even_the_one_that_would_collect() -> None:
    vectors = [np.full(2, float(each)) for each in range(5)]
    for member in range(5):
        found = secure_sum(vectors, threshold=4, collector="relay", leave_after={member: 2})
        assert found.included == frozenset(range(5)) - {member}
        np.testing.assert_array_equal(found.total, [10.0 - member] * 2)


def test_what_relays_cannot_collect_is_refused() -> None:
    vectors = [np.zeros(2)] * 4
    with pytest.raises(InvalidParameter, match="nobody may leave"):
        secure_sum(vectors, collector="relay")
    with pytest.raises(InvalidParameter, match="under masks"):
        secure_sum(vectors, "nothing", collector="relay")
    with pytest.raises(InvalidParameter, match="no collector named 'server'"):
        secure_sum(vectors, threshold=3, collector="server")  # type: ignore[arg-type]
    where = relayed(5, 4)
    with pytest.raises(InvalidParameter, match="does not collect"):
        RelayCollector(participants(where)[0], 2)
    with pytest.raises(InvalidParameter, match="does not collect"):
        RelayCollector(participants(context(5, 4))[0], 2)
    with pytest.raises(InvalidParameter, match="keys"):
        Participant(where, where.collector, keys_of(77))


def test_a_relay_with_another_s_key_or_one_by_which_anybody_signs_ends_the_sum() -> None:
    own, theirs = keys_of(5).public, keys_of(2).public
    for keys in (
        theirs,
        PublicKeys(own.exchange, theirs.signing),
        PublicKeys(theirs.exchange, own.signing),
        PublicKeys(own.exchange, bytes(32)),
    ):
        with pytest.raises(InvalidParameter, match="key"):
            relayed(5, 4, relay=keys)


def test_masks_and_statements_depend_on_who_collects() -> None:
    where = relayed(5, 4)
    plain = {name: getattr(where, name) for name in context(5, 4).__dataclass_fields__}
    contexts = (where, replace(where, relay=keys_of(9).public), SumContext(**plain))
    assert len({each.digest for each in contexts}) == 3
    assert len({each.input_digest for each in contexts}) == 1


# Its voice


def test_a_relay_says_nothing_but_what_collectors_say() -> None:
    where = relayed(5, 4)
    relay, member = relay_in(where), participants(where)[1]
    believed = {kind for kind in KINDS if holds(member, stated(relay, kind, b"content"), kind, where.collector)}
    assert believed == {"included", "total"}


def test_a_relay_does_not_count_among_those_who_heard_a_total() -> None:
    where = relayed(4, 3)
    words = random_words(4, 2)
    members = parties(where, words)
    relay = RelayCollector(relay_in(where), 2)
    kept: list[Message] = []
    queue = [message for each in members for message in each.begin()]
    while queue:
        message = queue.pop(0)
        if isinstance(message.body, Heard):
            kept.append(message)
        else:
            queue += ([*members, relay][message.receiver]).receive(message)
    total = words.sum(axis=0, dtype=np.uint64)
    content = heard_content(where, where.everyone, total)
    own = Heard(stated(relay_in(where), "heard", content), stated(relay_in(where), "total", content))
    heard = [each for each in kept if each.receiver == 0]
    members[0].receive(Message(where.collector, 0, own))
    members[0].receive(heard[0])
    assert members[0].total is None
    members[0].receive(heard[1])
    np.testing.assert_array_equal(members[0].total, total)


def test_a_relay_that_signs_two_things_or_what_it_has_no_part_in_is_proven_to_lie() -> None:
    where = relayed(5, 4)
    relay = relay_in(where)
    fewer = where.bitmap(where.everyone - {4})
    members = parties(where, random_words(5, 2), lambda _: None)

    def told(message: Message) -> Message:
        if isinstance(message.body, Included) and message.receiver % 2:
            return replace(message, body=Included(stated(relay, "included", fewer)))
        return message

    everyone = [*members, RelayCollector(relay, 2, lambda _: None)]
    queue = [message for each in everyone for message in each.begin()]
    while queue:
        message = told(queue.pop(0))
        queue += everyone[message.receiver].receive(message)
    found = contradictions([Transcript(where, each.statements) for each in members])
    assert {(each.reason, each.liar) for each in found} == {("two statements", "relay")}
    for kind in ("keys", "vote", "shares", "heard", "dealers"):
        statement = stated(relay, kind, bytes(64))  # type: ignore[arg-type]
        (single,) = contradictions([Transcript(where, (statement,))])
        assert (single.reason, single.liar) == ("impossible statement", "relay")


def test_an_honest_relay_and_honest_members_contradict_nobody() -> None:
    where = relayed(5, 4)
    members = parties(where, random_words(5, 2), lambda _: None)
    relay = RelayCollector(relay_in(where), 2, lambda _: None)
    simulate([*members, relay], {3: 2})
    assert relay.statements
    assert contradictions([Transcript(where, each.statements) for each in (*members, relay)]) == []


def test_a_history_that_a_relay_invents_accuses_no_members_alone() -> None:
    where = relayed(5, 4)
    members = parties(where, random_words(5, 2), lambda _: None)
    relay = RelayCollector(relay_in(where), 2, lambda _: None)
    simulate([*members, relay])
    own = Transcript(where, members[0].statements)
    other = replace(where, history=bytes([7]) * 32)
    invented = Transcript(other, (stated(relay_in(other), "included", other.bitmap(other.everyone)),))
    found = contradictions([own, invented])
    assert {(each.reason, each.liar) for each in found} == {("two histories", "relay")}
    # Where the relay had signed nothing in the true sum, it is one of those among whom somebody lied.
    before = replace(own, statements=tuple(each for each in own.statements if each.signer < 5))
    (single,) = contradictions([before, invented])
    assert (single.reason, single.among) == ("histories differ", where.names)


# Restarts, and other attempts


@pytest.mark.parametrize("name", ["complete", "sparse"])
def test_a_relay_that_is_restarted_after_any_message_sends_the_same_bytes(name: str) -> None:
    members, threshold, hood = CASES[name]
    where, words = relayed(members, threshold, hood), random_words(members, 2)
    saved: dict[str, bytes] = {}

    def relay(content: bytes | None) -> RelayCollector:
        return RelayCollector(relay_in(where), 2, lambda each: saved.update(relay=each), content)

    sent: dict[bool, list[bytes]] = {}
    for restarts in (False, True):
        everyone: list[Party | RelayCollector] = [*parties(where, words), relay(None)]
        queue = [message for each in everyone for message in each.begin()]
        said: list[bytes] = []
        while queue:
            message = queue.pop(0)
            outgoing = everyone[message.receiver].receive(message)
            if message.receiver == members:
                said += [each.to_bytes() for each in outgoing]
                if restarts:
                    everyone[members] = relay(saved["relay"])
                    assert [each.to_bytes() for each in everyone[members].begin()] == said
            queue += outgoing
        assert all(each.total is not None for each in everyone)
        assert RelayState.from_bytes(saved["relay"]).to_bytes() == everyone[members].state.to_bytes() == saved["relay"]
        sent[restarts] = said
    assert sent[False] == sent[True]


def voted_in_first_attempt(where: RelayedSumContext, words: Words, voters: frozenset[int]) -> list[Party]:
    """Members of which these have voted for all but the last, and nobody has heard of a total."""
    relay, members = RelayCollector(relay_in(where), 2), parties(where, words)
    last, asked = len(members) - 1, False
    queue = [message for each in members[:-1] for message in each.begin()]
    while queue or not asked:
        if not queue:
            queue += relay.expire()
            continue
        message = queue.pop(0)
        asked |= isinstance(message.body, Included)
        if message.receiver > last:
            queue += relay.receive(message)
        elif message.receiver in voters or not isinstance(message.body, Included):
            queue += [each for each in members[message.receiver].receive(message) if not isinstance(each.body, Voted)]
    for position, each in enumerate(members):
        voted_for = each.state.record.voted_for
        assert voted_for == (where.bitmap(range(last)) if position in voters else None)
    return members


def again(where: RelayedSumContext, words: Words, before: list[Party], there: frozenset[int]) -> list[Party]:
    """The next attempt, with a relay that remembers nothing, among those that are there."""
    second = replace(where, attempt=where.attempt + 1)
    members = [
        Party(each, row, saved=member.state.to_bytes())
        for each, row, member in zip(participants(second), words, before, strict=True)
    ]
    simulate([*members, RelayCollector(relay_in(second), 2)], dict.fromkeys(EVERYONE - there, 0))
    return [members[each] for each in sorted(there)]


@pytest.mark.parametrize(
    ("voters", "there", "included"),
    [
        # More have voted than may be dishonest: what they voted for, and nothing while one of it is away.
        ({0, 1, 2, 3}, EVERYONE, {0, 1, 2, 3}),
        ({0, 1, 2}, {0, 1, 2, 4}, None),
        # As few as may be dishonest do not leave others out.
        ({0}, EVERYONE, {1, 2, 3, 4}),
        ({0}, {0, 1, 2, 3}, {0, 1, 2, 3}),
        ({0}, {1, 2, 3, 4}, {1, 2, 3, 4}),
        # Only three of these can vote for a set with member 4: nobody is asked to, and all can wait for the fourth.
        ({0}, {0, 1, 2, 4}, None),
        (set(), EVERYONE, EVERYONE),
    ],
)
def test_another_attempt_is_over_members_that_can_all_vote_for_it(
    voters: set[int], there: set[int], included: set[int] | None
) -> None:
    where, words = relayed(5, 4, dishonest=1), random_words(5, 2)
    before = voted_in_first_attempt(where, words, frozenset(voters))
    after = again(where, words, before, frozenset(there))
    for each in after:
        is_in = included is not None and each.participant.position in included
        assert each.included == (included if is_in else None)
        if is_in and included is not None:
            np.testing.assert_array_equal(each.total, words[sorted(included)].sum(axis=0, dtype=np.uint64))
        if included is None:
            # No vote was asked for in vain: whoever was free is.
            position = each.participant.position
            assert each.state.record.voted_for == before[position].state.record.voted_for


def test_on_a_sparse_graph_those_who_voted_in_another_attempt_are_not_asked_again() -> None:
    where, words = relayed(9, 7, SPARSE), random_words(9, 2)
    voted = where.bitmap(range(9))
    relay, members = RelayCollector(relay_in(replace(where, attempt=1)), 2), parties(replace(where, attempt=1), words)
    advertised = [each.begin()[0] for each in members]
    assert all(each.body.votes_for == b"" for each in advertised)  # type: ignore[union-attr]
    record = members[0].state.record
    assert replace(record, voted_for=voted, voted_in=0).only_set_to_vote_for(relay.participant.context) == where.bitmap(
        ()
    )
    # Settled before the sum, and not voted for yet.
    assert replace(record, voted_for=voted).only_set_to_vote_for(relay.participant.context) == voted
    spent = replace(advertised[0], body=Advertised(advertised[0].body.keys, where.bitmap(())))  # type: ignore[union-attr]
    outgoing = [each for message in (spent, *advertised[1:]) for each in relay.receive(message)]
    assert {each.receiver for each in outgoing} == frozenset(range(1, 9))


def test_a_set_without_its_own_teller_is_no_honest_member_s() -> None:
    where = relayed(5, 4)
    relay, members = RelayCollector(relay_in(where), 2), parties(where, random_words(5, 2))
    first = members[0].begin()[0]
    for wrong in (where.bitmap({1, 2, 3, 4}), b"12345"):
        relay.receive(replace(first, body=Advertised(first.body.keys, wrong)))  # type: ignore[union-attr]
        assert relay.waits_for == {1, 2, 3, 4}


def test_saved_state_is_of_the_same_input() -> None:
    where = relayed(5, 4)
    relay = RelayCollector(relay_in(where), 2)
    with pytest.raises(SumError, match="another input"):
        RelayCollector(relay_in(relayed(5, 4)), 2, saved=relay.state.to_bytes())
    with pytest.raises(MessageMalformed):
        RelayCollector(relay_in(where), 2, saved=b"garbage")
    assert relay.receive(Message(0, 5, Passed(0, None, None))) == ()
    assert not relay.has_enough
