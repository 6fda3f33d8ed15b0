"""The collector goes from round to round with those who answer, leaves out who does not, and opens a total only from secrets that were committed to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from sudare.sums import collector, member
from sudare.sums.collector import CollectorState
from sudare.sums.context import Participant, SumContext, bitmap, members_in
from sudare.sums.messages import (
    Advertised,
    Affirmed,
    Body,
    Certified,
    Confirmed,
    Dealt,
    Delivered,
    Directory,
    GivenUp,
    Included,
    Masked,
    Message,
    Opened,
    OpenedShares,
    Revealed,
    SumKeys,
    Voted,
    Withdrawn,
    vote_content,
)
from sudare.sums.party import Party
from sudare.sums.shamir import PRIME
from sudare.sums.statements import stated
from tests.sums.parties import SPARSE, context, participants, random_words

MEMBERS, THRESHOLD, LENGTH = 6, 4, 2
WORDS = random_words(10, LENGTH)
Change = Callable[[Message], Message | None]


TOLD = (Directory, Delivered, Included, Certified, Opened, Confirmed)


def unchanged(message: Message) -> Message:
    return message


class Run:
    """Honest members and the collector's steps alone, with members' answers changed on the way."""

    def __init__(self, where: SumContext, change: Change = unchanged) -> None:
        self.where, self.participants, self.change = where, participants(where), change
        count = len(where.roster)
        self.participant: Participant = self.participants[where.collector]
        self.state: CollectorState = collector.begun(count, LENGTH)
        # Nobody among these collects: what they say to the collector goes through `change`.
        self.members = [
            Party(participant, row) for participant, row in zip(self.participants, WORDS[:count], strict=True)
        ]
        for each in self.members:
            each._collector = None
        self.sent: list[Message] = []
        first = [message for position, each in enumerate(self.members) for message in self._first(position, each)]
        self._deliver(first)

    def _first(self, position: int, party: Party) -> Sequence[Message]:
        if position != self.where.collector:
            return party.begin()
        return member.begun(self.participant, WORDS[position])[1]

    def _deliver(self, messages: Sequence[Message]) -> None:
        queue = list(messages)
        while queue:
            message = queue.pop(0)
            if isinstance(message.body, Advertised | Dealt | Masked | Voted | Revealed | Affirmed | Withdrawn):
                changed = self.change(message)
                outgoing = () if changed is None else collector.step(self.participant, self.state, changed)
                self.sent += outgoing
                queue += outgoing
            else:
                receiver = self.members[message.receiver]
                queue += receiver._stepped(message)

    def expire(self) -> None:
        outgoing = collector.expired(self.participant, self.state)
        self.sent += outgoing
        self._deliver(outgoing)

    def finish(self) -> CollectorState:
        """Let deadlines pass until there is nothing more to say."""
        while self.state.stage not in ("done", "stopped"):
            self.expire()
        return self.state

    def last(self, kind: type[Body]) -> Body:
        return next(message.body for message in reversed(self.sent) if isinstance(message.body, kind))


def total_of(*members: int) -> list[int]:
    return WORDS[list(members)].sum(axis=0, dtype=np.uint64).tolist()


def silent(member: int, kind: type) -> Change:
    """A member that does not send its messages from one kind on."""
    rounds = (Advertised, Dealt, Masked, Voted, Revealed)
    late = rounds[rounds.index(kind) :]
    return lambda message: None if message.sender == member and isinstance(message.body, late) else message


def instead(member: int, kind: type, body: Callable[[Message], Body]) -> Change:
    """A member that says something else."""
    return lambda message: (
        replace(message, body=body(message)) if message.sender == member and isinstance(message.body, kind) else message
    )


@pytest.mark.parametrize("hood", [None, SPARSE])
def test_nobody_leaves(hood):
    count = MEMBERS if hood is None else 10
    run = Run(context(count, count - 2, neighbourhood=hood))
    assert run.state.stage == "done"
    assert run.state.total is not None
    assert run.state.total.tolist() == total_of(*range(count))
    assert collector.waits_for(run.participant, run.state) == frozenset()
    assert collector.expired(run.participant, run.state) == ()
    told = {kind: sum(isinstance(message.body, kind) for message in run.sent) for kind in TOLD}
    assert told.pop(Confirmed) == (0 if hood is None else count)
    assert set(told.values()) == {count}
    voters = members_in(run.last(Certified).voters, count)
    assert len(voters) == run.where.threshold


@pytest.mark.parametrize(
    ("kind", "stage", "included"),
    [
        (Advertised, "keys", range(5)),
        (Dealt, "boxes", range(5)),
        (Masked, "inputs", range(5)),
        (Voted, "votes", range(6)),
        (Revealed, "shares", range(6)),
    ],
)
@pytest.mark.parametrize("how", ["silent", "withdrawn"])
def test_who_leaves_is_left_out_from_then_on(kind, stage, included, how):
    """Silent, it is waited for until a deadline; one that says so is not waited for."""
    change = silent(5, kind) if how == "silent" else instead(5, kind, lambda message: Withdrawn())
    run = Run(context(MEMBERS, THRESHOLD), change)
    if how == "silent":
        assert run.state.stage == stage
        assert collector.waits_for(run.participant, run.state) == frozenset({5})
    state = run.finish()
    assert state.stage == "done"
    assert state.total is not None
    assert state.total.tolist() == total_of(*included)
    assert run.where.members_in(run.last(Included).included.content) == frozenset(included)


@pytest.mark.parametrize("kind", [Advertised, Dealt, Masked, Voted])
def test_too_few_answers_end_it_and_everyone_is_told(kind):
    gone = {3, 4, 5}

    def change(message: Message) -> Message | None:
        return None if any(silent(each, kind)(message) is None for each in gone) else message

    run = Run(context(MEMBERS, THRESHOLD), change)
    assert run.finish().stage == "stopped"
    assert run.state.total is None
    told = {message.receiver for message in run.sent if isinstance(message.body, GivenUp)}
    assert told == set(run.state.keys)
    assert collector.step(run.participant, run.state, Message(1, 0, Withdrawn())) == ()


def test_too_few_shares_end_it():
    def change(message: Message) -> Message | None:
        return None if isinstance(message.body, Revealed) and message.sender > 2 else message

    assert Run(context(MEMBERS, THRESHOLD), change).finish().stage == "stopped"


# Answers that are none


def other_statement(run_participants: Sequence[Participant], message: Message, kind: str, content: bytes) -> Body:
    statement = stated(run_participants[message.sender], kind, content)
    return {"keys": Advertised, "vote": Voted, "shares": Revealed}[kind](statement)


def wrong_answers(where: SumContext) -> dict[str, Change]:
    places = participants(where)
    everyone = frozenset(range(MEMBERS))
    return {
        "keys of another": instead(5, Advertised, lambda m: Advertised(replace(m.body.keys, signer=4))),
        "unsigned keys": instead(5, Advertised, lambda m: Advertised(replace(m.body.keys, signature=b""))),
        "keys that are none": instead(5, Advertised, lambda m: other_statement(places, m, "keys", b"")),
        "a box too few": instead(5, Dealt, lambda m: Dealt(dict(list(m.body.boxes.items())[1:]))),
        "a box too many": instead(5, Dealt, lambda m: Dealt({**m.body.boxes, 5: b""})),
        "a box for nobody": instead(5, Dealt, lambda m: Dealt({**m.body.boxes, 99: b""})),
        "a short vector": instead(5, Masked, lambda m: replace(m.body, words=m.body.words[:1])),
        "a matrix": instead(5, Masked, lambda m: replace(m.body, words=m.body.words.reshape(1, -1))),
        "masks for other dealers": instead(
            5, Masked, lambda m: replace(m.body, dealers=stated(places[5], "dealers", bitmap(range(5), MEMBERS)))
        ),
        "unsigned dealers": instead(
            5, Masked, lambda m: replace(m.body, dealers=replace(m.body.dealers, signature=bytes(64)))
        ),
        "a vote for others": instead(
            5, Voted, lambda m: other_statement(places, m, "vote", vote_content(where, everyone, frozenset(range(5))))
        ),
        "an unsigned vote": instead(5, Voted, lambda m: Voted(replace(m.body.vote, signature=bytes(64)))),
        "unsigned shares": instead(5, Revealed, lambda m: Revealed(replace(m.body.shares, signature=bytes(64)))),
        "shares that are none": instead(5, Revealed, lambda m: other_statement(places, m, "shares", b"N")),
    }


@pytest.mark.parametrize("wrong", wrong_answers(context(MEMBERS, THRESHOLD)))
def test_whoever_answers_something_else_is_as_if_it_had_left(wrong):
    where = context(MEMBERS, THRESHOLD)
    run = Run(where, wrong_answers(where)[wrong])
    state = run.finish()
    assert state.stage == "done"
    assert state.total is not None
    assert state.total.tolist() == total_of(*sorted(state.inputs))
    assert 5 in state.gone


def test_what_comes_twice_or_out_of_turn_changes_nothing():
    first: dict[type, Message] = {}

    def change(message: Message) -> Message | None:
        first.setdefault(type(message.body), message)
        return None if message.sender == 5 else message

    run = Run(context(MEMBERS, THRESHOLD), change)
    for _ in range(5):
        before = run.state.stage, run.state.waiting
        for message in first.values():
            if message.sender != 5:
                assert collector.step(run.participant, run.state, message) == ()
        assert collector.step(run.participant, run.state, Message(1, 0, GivenUp())) == ()
        assert (run.state.stage, run.state.waiting) == before
        run.expire()
    assert run.state.total is not None
    assert run.state.total.tolist() == total_of(*range(5))


# Opening


def changed_share(
    run_participants: Sequence[Participant], owner: int, of_keys: bool = False
) -> Callable[[Message], Body]:
    """One share of an owner's secret that its holder changed before it signed."""

    def body(message: Message) -> Body:
        shares = OpenedShares.from_bytes(message.body.shares.content)
        kind = "of_mask_keys" if of_keys else "of_self_seeds"
        held = dict(getattr(shares, kind))
        # Errors of several holders that no weights of theirs cancel.
        held[owner] = (held[owner] + np.uint64(1 << 5 * message.sender)) % np.uint64(PRIME)
        return other_statement(run_participants, message, "shares", replace(shares, **{kind: held}).to_bytes())

    return body


@pytest.mark.parametrize("liar", range(1, MEMBERS))
def test_one_false_share_stops_nothing(liar):
    """Where shares do not give what their owner committed to, single holders are left out by turns."""
    where = context(MEMBERS, THRESHOLD)
    run = Run(where, instead(liar, Revealed, changed_share(participants(where), 2)))
    assert run.state.stage == "done"
    assert run.state.total is not None
    assert run.state.total.tolist() == total_of(*range(MEMBERS))


def test_a_false_share_of_the_key_of_one_who_left_stops_nothing():
    where = context(MEMBERS, THRESHOLD)
    lie = instead(1, Revealed, changed_share(participants(where), 5, of_keys=True))
    leave = silent(5, Masked)
    run = Run(where, lambda message: None if leave(message) is None else lie(message))
    assert run.finish().total is not None
    assert run.state.total.tolist() == total_of(*range(5))


def test_false_shares_of_too_many_end_it_rather_than_give_a_wrong_total():
    where = context(MEMBERS, THRESHOLD)

    def change(message: Message) -> Message:
        if isinstance(message.body, Revealed) and message.sender in (1, 2, 3):
            return replace(message, body=changed_share(participants(where), 2)(message))
        return message

    assert Run(where, change).finish().stage == "stopped"


@pytest.mark.parametrize("what", ["self-seed", "key for masks"])
def test_secrets_that_were_not_committed_to_end_it(what):
    """A member that commits to something else than it dealt can make the sum fail, and cannot make it wrong."""
    where = context(MEMBERS, THRESHOLD)
    places = participants(where)

    def lie(message: Message) -> Body:
        keys = SumKeys.from_bytes(message.body.keys.content, where, 5)
        lies = {"self-seed": replace(keys, commitment=bytes(32)), "key for masks": replace(keys, mask_key=b"k" * 32)}
        return other_statement(places, message, "keys", lies[what].to_bytes())

    leave = silent(5, Voted if what == "self-seed" else Masked)
    change = instead(5, Advertised, lie)
    run = Run(where, lambda message: None if leave(message) is None else change(message))
    assert run.finish().stage == "stopped"
    assert run.state.total is None


def test_shares_of_those_who_hold_none_are_not_used():
    """In a sparse sum only those a member dealt to count, whatever others say of its secrets."""
    where = context(10, 8, neighbourhood=SPARSE)
    places = participants(where)
    owner = 9
    strangers = set(range(10)) - {owner, *places[owner].out_neighbours}

    def change(message: Message) -> Message:
        if isinstance(message.body, Revealed) and message.sender in strangers:
            shares = OpenedShares.from_bytes(message.body.shares.content)
            own = next(iter(shares.of_self_seeds.values()))
            lie = replace(shares, of_self_seeds={**shares.of_self_seeds, owner: own, 99: own, 2**32 - 1: own})
            return replace(message, body=other_statement(places, message, "shares", lie.to_bytes()))
        return message

    run = Run(where, change)
    assert run.state.total is not None
    assert run.state.total.tolist() == total_of(*range(10))


def test_the_collector_keeps_the_sum_of_masked_vectors_only():
    run = Run(context(MEMBERS, THRESHOLD), silent(5, Voted))
    assert run.state.stage == "votes"
    assert members_in(run.last(Delivered).dealers, MEMBERS) == frozenset(range(MEMBERS))
    arrays = [value for value in vars(run.state).values() if isinstance(value, np.ndarray)]
    assert [each.shape for each in arrays] == [(LENGTH,)]


def test_on_a_sparse_graph_t_members_have_heard_the_total_before_it_is_confirmed():
    where = context(10, 8, neighbourhood=SPARSE)
    for silent_members, stage in (({8, 9}, "done"), ({7, 8, 9}, "stopped")):
        run = Run(
            where,
            lambda m, gone=silent_members: None if isinstance(m.body, Affirmed) and m.sender in gone else m,
        )
        assert run.state.stage == "heard"
        assert collector.waits_for(run.participant, run.state) == silent_members
        assert run.finish().stage == stage


@pytest.mark.parametrize("lie", ["another total", "unsigned"])
def test_words_on_another_total_are_not_counted(lie):
    where = context(10, 8, neighbourhood=SPARSE)
    places = participants(where)
    bodies = {
        "another total": lambda m: Affirmed(stated(places[m.sender], "heard", b"other")),
        "unsigned": lambda m: Affirmed(replace(m.body.heard, signature=bytes(64))),
    }
    run = Run(where, instead(5, Affirmed, bodies[lie]))
    assert run.finish().stage == "done"
    assert 5 in run.state.gone
    assert 5 not in run.state.heard
