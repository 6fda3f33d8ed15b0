"""The relay as collector: exact sums whoever leaves, restarts that send the same bytes, and no voice beyond a collector's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from sudare.errors import InvalidParameter, MessageMalformed, SumError
from sudare.sums import secure_sum
from sudare.sums.blame import Transcript, contradictions
from sudare.sums.context import Participant, RelayedSumContext, SumContext
from sudare.sums.keys import PublicKeys
from sudare.sums.messages import Heard, Included, Message, Opened, Passed, heard_content
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.party import Party
from sudare.sums.relay_collector import RelayCollector, RelayState
from sudare.sums.simulation import simulate
from sudare.sums.statements import KINDS, holds, stated
from tests.sums.parties import SPARSE, context, in_any_order, keys_of, outcome, participants, parties, random_words

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


def test_another_attempt_includes_those_whom_members_may_have_voted_for_or_nobody() -> None:
    where, words = relayed(5, 3), random_words(5, 2)
    first = RelayCollector(relay_in(where), 2)
    members = parties(where, words)
    # Member 4 says nothing after its keys, and nobody hears the total of the other four.
    queue = [message for each in members for message in each.begin()]
    while queue or not isinstance(first.state.included, bytes):
        if not queue:
            queue += first.expire()
            continue
        message = queue.pop(0)
        if message.receiver == 5:
            queue += first.receive(message) if message.sender != 4 or not queue else ()
        elif message.receiver != 4 and not isinstance(message.body, Opened):
            queue += members[message.receiver].receive(message)
    included = where.members_in(first.state.included)
    assert included == frozenset(range(4))
    again = replace(where, attempt=1)
    second = RelayCollector(relay_in(again), 2, saved=first.state.to_bytes())
    assert second.waits_for == included
    others = [
        Party(each, row, saved=member.state.to_bytes())
        for each, row, member in zip(participants(again), words, members, strict=True)
    ]
    simulate([*others, second])
    for each in others[:4]:
        assert each.included == included
        np.testing.assert_array_equal(each.total, words[:4].sum(axis=0, dtype=np.uint64))


def test_saved_state_is_of_the_same_input() -> None:
    where = relayed(5, 4)
    relay = RelayCollector(relay_in(where), 2)
    with pytest.raises(SumError, match="another input"):
        RelayCollector(relay_in(relayed(5, 4)), 2, saved=relay.state.to_bytes())
    with pytest.raises(MessageMalformed):
        RelayCollector(relay_in(where), 2, saved=b"garbage")
    assert relay.receive(Message(0, 5, Passed(0, None, None))) == ()
    assert not relay.has_enough
