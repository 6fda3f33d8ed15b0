"""A member that others may leave answers each round once, and only where its own messages justify it; whatever else a collector says stops it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from sudare.errors import MaskReused, MembersMissing, SecondTotalRefused, StatementsContradict, SumError
from sudare.sums import member
from sudare.sums.context import Participant, SumContext, bitmap, members_in
from sudare.sums.masks import MaskKey, dealt, mask_secret
from sudare.sums.member import MemberState
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
    Heard,
    Included,
    Masked,
    Message,
    Opened,
    OpenedShares,
    Passed,
    Revealed,
    SumKeys,
    Voted,
    Withdrawn,
    heard_content,
    vote_content,
)
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.simulation import simulate
from sudare.sums.statements import stated
from tests.sums.montgomery import ENCODINGS_OF_SMALL_ORDER
from tests.sums.parties import SPARSE, context, participants, parties, random_words

MEMBERS, THRESHOLD, LENGTH = 7, 5, 2
WORDS = random_words(10, LENGTH)
VICTIM = 1
ROUNDS = (Directory, Delivered, Included, Certified, Opened)


def heard_in(where: SumContext, leave_after: Mapping[int, int] | None = None) -> list[Message]:
    """What the victim is sent in an honest sum; member 6 leaves after so many messages as said."""
    found: list[Message] = []
    members = parties(where, WORDS[: len(where.roster)])
    simulate(members, leave_after, lambda message: found.append(message) if message.receiver == VICTIM else None)
    return found


class Run:
    """The victim in an honest sum, up to the round in which it is told something else."""

    def __init__(self, where: SumContext, leave_after: Mapping[int, int] | None = None) -> None:
        self.where, self.participants = where, participants(where)
        self.participant: Participant = self.participants[VICTIM]
        self.script = heard_in(where, leave_after)

    def before(self, kind: type) -> tuple[MemberState, Message]:
        """The state in which a message of this kind comes, and that message."""
        state, _ = member.begun(self.participant, WORDS[VICTIM])
        for message in self.script:
            if isinstance(message.body, kind):
                return state, message
            state, _ = member.step(self.participant, state, message)
        raise AssertionError(kind)

    def told(self, kind: type, body: Body) -> tuple[MemberState, tuple[Message, ...]]:
        """What it does when the collector says this instead."""
        state, message = self.before(kind)
        return member.step(self.participant, state, replace(message, body=body))

    def keys_of(self, other: int) -> SumKeys:
        _, message = self.before(Directory)
        return SumKeys.from_bytes(message.body.keys[other].content, self.where, other)

    def directory_with(self, other: int, keys: SumKeys | bytes) -> Directory:
        """The directory with keys that this other member has really signed."""
        body = self.before(Directory)[1].body
        content = keys if isinstance(keys, bytes) else keys.to_bytes()
        return replace(body, keys={**body.keys, other: stated(self.participants[other], "keys", content)})


@pytest.fixture(scope="module")
def complete() -> Run:
    return Run(context(MEMBERS, THRESHOLD, 2))


@pytest.fixture(scope="module")
def sparse() -> Run:
    return Run(context(10, 8, 1, neighbourhood=SPARSE))


@pytest.fixture(scope="module")
def with_leaver() -> Run:
    """Member 6 has dealt and then fell silent."""
    return Run(context(MEMBERS, THRESHOLD, 2), {6: 2})


def assert_stopped(
    step: tuple[MemberState, tuple[Message, ...]], participant: Participant, reason: str = "unjustified"
) -> None:
    """It says only that it takes no further part, and never anything again."""
    state, outgoing = step
    assert state.stopped == reason
    assert [message.body for message in outgoing] == [Withdrawn()]
    assert member.failure(participant, state) is not None
    assert state.total is None


def members_set(*members: int, count: int = MEMBERS) -> bytes:
    return bitmap(members, count)


# An honest sum


@pytest.mark.parametrize("which", ["complete", "sparse", "with_leaver"])
def test_each_round_has_its_answer(which, request):
    run: Run = request.getfixturevalue(which)
    state, outgoing = member.begun(run.participant, WORDS[VICTIM])
    said = [message.body for message in outgoing]
    for message in run.script:
        state, outgoing = member.step(run.participant, state, message)
        said += [each.body for each in outgoing]
        assert all(each.receiver == run.where.collector or isinstance(each.body, Heard) for each in outgoing)
    kinds = [type(body) for body in said]
    assert kinds[:5] == [Advertised, Dealt, Masked, Voted, Revealed]
    assert set(kinds[5:]) == ({Heard, Affirmed} if which == "sparse" else {Heard})
    included = members_in(state.included, len(run.where.roster))
    assert included == frozenset(range(len(run.where.roster))) - ({6} if which == "with_leaver" else set())
    expected = WORDS[sorted(included)].sum(axis=0, dtype=np.uint64)
    assert state.total is not None
    assert state.total.tolist() == expected.tolist()
    assert member.failure(run.participant, state) is None


@pytest.mark.parametrize("kind", ROUNDS)
@pytest.mark.parametrize("which", ["complete", "sparse"])
def test_what_comes_twice_out_of_turn_or_from_somebody_else_changes_nothing(which, kind, request):
    run: Run = request.getfixturevalue(which)
    state, message = run.before(kind)
    for other in run.script:
        if type(other.body) in set(ROUNDS) - {kind}:
            assert member.step(run.participant, state, other) == (state, ())
    assert member.step(run.participant, state, replace(message, sender=3)) == (state, ())
    assert member.step(run.participant, state, replace(message, sender=3, body=GivenUp())) == (state, ())
    assert member.step(run.participant, state, replace(message, body=Passed(0, WORDS[0], None))) == (state, ())
    assert member.step(run.participant, state, replace(message, body=Withdrawn())) == (state, ())


def test_a_member_begins_again_with_the_same_message_and_the_same_data_only(complete):
    state, first = member.begun(complete.participant, WORDS[VICTIM])
    _, again = member.begun(complete.participant, WORDS[VICTIM], state.record)
    assert [each.to_bytes() for each in first] == [each.to_bytes() for each in again]
    with pytest.raises(MaskReused):
        member.begun(complete.participant, WORDS[VICTIM] + np.uint64(1), state.record)


# Round 1: who is there


def test_directories_of_too_few_or_without_itself(complete):
    body = complete.before(Directory)[1].body
    for there in ((0, 1, 2, 3), (0, 2, 3, 4, 5, 6), (1,), ()):
        keys = {other: each for other, each in body.keys.items() if other in there}
        assert_stopped(complete.told(Directory, Directory(members_set(*there), keys)), complete.participant)
    for present in (b"", b"\xff", members_set(*range(MEMBERS)) + b"\x00"):
        assert_stopped(complete.told(Directory, replace(body, present=present)), complete.participant)


@pytest.mark.parametrize("which", ["complete", "sparse"])
def test_directories_lack_no_neighbour_and_name_nobody_else(which, request):
    run: Run = request.getfixturevalue(which)
    body = run.before(Directory)[1].body
    chosen = run.participant.out_neighbours[0]
    without = {other: each for other, each in body.keys.items() if other != chosen}
    own = stated(run.participant, "keys", b"")
    for keys in (without, {}, {**body.keys, VICTIM: own}, {**body.keys, 99: own}, {**body.keys, -1: own}):
        assert_stopped(run.told(Directory, replace(body, keys=keys)), run.participant)


def test_keys_are_signed_by_their_owner_for_this_sum(complete):
    body = complete.before(Directory)[1].body
    content = body.keys[2].content
    elsewhere = participants(replace(complete.where, attempt=MEMBERS))
    for forged in (
        replace(body.keys[2], signature=bytes(64)),
        replace(body.keys[2], content=content[:-1] + b"x"),
        stated(complete.participants[3], "keys", content),
        replace(stated(complete.participants[3], "keys", content), signer=2),
        stated(complete.participants[2], "vote", content),
        stated(elsewhere[2], "keys", content),
        stated(complete.participants[2], "keys", content + b"x"),
        stated(complete.participants[2], "keys", b""),
    ):
        assert_stopped(complete.told(Directory, replace(body, keys={**body.keys, 2: forged})), complete.participant)


@pytest.mark.parametrize("which", ["complete", "sparse"])
def test_a_reflected_mask_key_stops_the_sum(which, request):
    """A dishonest member signs the mask key of another, or the victim's own, as its own."""
    run: Run = request.getfixturevalue(which)
    other, victim_too = run.participant.out_neighbours[1:3]
    own = MaskKey.of(mask_secret(run.participant)).public
    for key in (run.keys_of(victim_too).mask_key, own):
        lie = replace(run.keys_of(other), mask_key=key)
        assert_stopped(run.told(Directory, run.directory_with(other, lie)), run.participant)


def test_who_did_not_choose_a_member_is_not_its_neighbour(sparse):
    """Or a collector could have everybody masked with everybody dishonest."""
    others = set(range(10)) - {VICTIM, *sparse.participant.out_neighbours}
    stranger = next(iter(others))
    choices = tuple(each for each in range(10) if each not in (stranger, VICTIM))[:6]
    lie = SumKeys(bytes(range(32)), bytes(32), choices)
    assert_stopped(sparse.told(Directory, sparse.directory_with(stranger, lie)), sparse.participant)
    chooses = SumKeys(bytes(range(32)), bytes(32), tuple(sorted({VICTIM, *choices[:5]})))
    state, _ = sparse.told(Directory, sparse.directory_with(stranger, chooses))
    assert state.stopped is None


def test_nobody_is_chosen_by_very_many():
    """4k + 40 neighbours, those it chose itself among them, and no more."""
    members = 60
    where = context(members, 50, neighbourhood=Neighbourhood(2, 1))
    places = participants(where)
    state, _ = member.begun(places[VICTIM], WORDS[VICTIM])
    chosen = places[VICTIM].out_neighbours
    keys = {}
    for other in [*chosen, *(each for each in range(members) if each not in (VICTIM, *chosen))]:
        choice = tuple(sorted((VICTIM, next(each for each in (0, 2) if each != other))))
        keys[other] = stated(places[other], "keys", SumKeys(bytes([other]) * 32, bytes(32), choice).to_bytes())
    for count in (48, 49):
        body = Directory(bitmap(range(members), members), dict(list(keys.items())[:count]))
        after, _ = member.step(places[VICTIM], state, Message(where.collector, VICTIM, body))
        assert (after.stopped is None) == (count == 48)


# Round 2: who has dealt


def test_dealers_are_enough_were_there_and_have_this_member_among_them(with_leaver, complete):
    body = complete.before(Delivered)[1].body
    for dealers in ((0, 1, 2, 3), (0, 2, 3, 4, 5, 6)):
        boxes = {other: each for other, each in body.boxes.items() if other in dealers}
        assert_stopped(complete.told(Delivered, Delivered(members_set(*dealers), boxes)), complete.participant)
    late = Run(context(MEMBERS, THRESHOLD, 2), {6: 0})
    body = late.before(Delivered)[1].body
    assert members_in(late.before(Delivered)[0].present, MEMBERS) == frozenset(range(6))
    assert_stopped(late.told(Delivered, replace(body, dealers=members_set(*range(7)))), late.participant)


@pytest.mark.parametrize("which", ["complete", "sparse"])
def test_every_dealer_that_chose_this_member_has_a_box_for_it_that_opens(which, request):
    run: Run = request.getfixturevalue(which)
    body = run.before(Delivered)[1].body
    dealer = next(iter(body.boxes))
    other = next(each for each in body.boxes if each != dealer)
    without = {each: box for each, box in body.boxes.items() if each != dealer}
    for boxes in (
        without,
        {**body.boxes, VICTIM: body.boxes[dealer]},
        {**body.boxes, dealer: body.boxes[other]},
        {**body.boxes, dealer: body.boxes[dealer][:-1] + b"x"},
        {**body.boxes, dealer: b""},
        {**without, 99: body.boxes[dealer]},
    ):
        assert_stopped(run.told(Delivered, replace(body, boxes=boxes)), run.participant)


def test_boxes_dealt_to_another_set_of_members_do_not_open(complete):
    """A collector that tells members different sets of who is there gets no masked vector from either."""
    body = complete.before(Delivered)[1].body
    _, boxes = dealt(complete.participants[2], members_set(*range(6)), (VICTIM,))
    assert_stopped(
        complete.told(Delivered, replace(body, boxes={**body.boxes, 2: boxes[VICTIM]})), complete.participant
    )


@pytest.mark.parametrize("encoding", ENCODINGS_OF_SMALL_ORDER[::3])
def test_a_mask_key_of_small_order_stops_the_sum_before_the_vector_is_sent(complete, encoding):
    lie = replace(complete.keys_of(2), mask_key=encoding)
    state, _ = complete.told(Directory, complete.directory_with(2, lie))
    assert state.stopped is None
    message = complete.before(Delivered)[1]
    assert_stopped(member.step(complete.participant, state, message), complete.participant)


# Round 3: who is in the sum


def test_sets_that_are_not_voted_for(with_leaver):
    run, where = with_leaver, with_leaver.where
    collector = run.participants[where.collector]
    for included in ((0, 1, 2, 3), (0, 2, 3, 4, 5), (1,), (), (0, 2, 3, 4, 5, 6)):
        statement = stated(collector, "included", where.bitmap(frozenset(included)))
        assert_stopped(run.told(Included, Included(statement)), run.participant)
    good = frozenset(range(6))
    for statement in (
        stated(run.participants[2], "included", where.bitmap(good)),
        stated(collector, "total", where.bitmap(good)),
        stated(collector, "included", b""),
        stated(collector, "included", b"\xff"),
        replace(stated(collector, "included", where.bitmap(good)), signature=bytes(64)),
        stated(participants(replace(where, attempt=MEMBERS))[where.collector], "included", where.bitmap(good)),
    ):
        assert_stopped(run.told(Included, Included(statement)), run.participant)


def test_nobody_is_in_a_sum_that_has_not_dealt():
    """Its masks with others are not in their vectors."""
    run = Run(context(MEMBERS, THRESHOLD, 2), {6: 1})
    everyone = run.where.bitmap(frozenset(range(MEMBERS)))
    assert members_in(run.before(Included)[0].dealers, MEMBERS) == frozenset(range(6))
    assert_stopped(run.told(Included, Included(stated(run.participants[0], "included", everyone))), run.participant)


def test_enough_of_its_own_neighbours_are_in_the_sum(sparse):
    """t_k of the members whom it chose itself: those it knows not to be all dishonest."""
    chosen = sparse.participant.out_neighbours
    where = replace(sparse.where, threshold=6)
    run = Run(where)
    chosen = run.participant.out_neighbours
    few = frozenset(range(10)) - frozenset(chosen[:3])
    assert len(few) >= where.threshold
    content = where.bitmap(few)
    assert_stopped(
        run.told(Included, Included(stated(run.participants[where.collector], "included", content))), run.participant
    )
    enough = frozenset(range(10)) - frozenset(chosen[:2])
    content = where.bitmap(enough)
    state, _ = run.told(Included, Included(stated(run.participants[where.collector], "included", content)))
    assert state.stopped is None


def test_a_vote_is_remembered_and_no_other_is_cast_for_the_same_input_in_any_attempt(complete):
    state, message = complete.before(Included)
    voted, outgoing = member.step(complete.participant, state, message)
    assert voted.record.voted_for == members_set(*range(MEMBERS))
    assert isinstance(outgoing[0].body, Voted)
    # A later attempt over fewer members.
    later = Run(replace(complete.where, attempt=MEMBERS), {6: 2})
    state, _ = member.begun(later.participant, WORDS[VICTIM], voted.record)
    for each in later.script:
        if isinstance(each.body, Included):
            break
        state, _ = member.step(later.participant, state, each)
    step = member.step(later.participant, state, each)
    assert_stopped(step, later.participant, "second total")
    assert isinstance(member.failure(later.participant, step[0]), SecondTotalRefused)
    # And over the same members: the same total again.
    again = Run(replace(complete.where, attempt=2 * MEMBERS))
    state, _ = member.begun(again.participant, WORDS[VICTIM], voted.record)
    for each in again.script:
        state, _ = member.step(again.participant, state, each)
    assert state.total is not None


# Round 4: t votes


def certificate(run: Run, voters: tuple[int, ...], content: bytes | None = None) -> Certified:
    dealers = frozenset(range(MEMBERS))
    included = members_in(run.before(Certified)[0].included, MEMBERS)
    text = vote_content(run.where, dealers, included) if content is None else content
    signatures = [stated(run.participants[voter], "vote", text).signature for voter in sorted(voters)]
    return Certified(members_set(*voters), b"".join(signatures), run.before(Certified)[1].body.dealers)


def test_shares_of_one_half_only_are_given_after_t_votes(with_leaver):
    """Of those in the sum the shares of self-seeds, of those who left the shares of keys for masks."""
    state, outgoing = with_leaver.told(Certified, certificate(with_leaver, (0, 1, 2, 3, 4)))
    assert state.stopped is None
    shares = OpenedShares.from_bytes(outgoing[0].body.shares.content)
    assert set(shares.of_self_seeds) == set(range(6))
    assert set(shares.of_mask_keys) == {6}


def test_certificates_that_are_none(with_leaver):
    run = with_leaver
    good = certificate(run, (0, 1, 2, 3, 4))
    dealers = frozenset(range(MEMBERS))
    others = [vote_content(run.where, dealers, frozenset(each)) for each in (range(5), range(7))]
    fewer_dealers = vote_content(run.where, frozenset(range(6)), frozenset(range(6)))
    another_input = vote_content(replace(run.where, iteration=0), dealers, frozenset(range(6)))
    elsewhere = participants(replace(run.where, attempt=MEMBERS))
    content = vote_content(run.where, dealers, frozenset(range(6)))
    of_another_attempt = b"".join(stated(elsewhere[voter], "vote", content).signature for voter in range(5))
    for wrong in (
        certificate(run, (0, 1, 2, 3)),
        certificate(run, ()),
        certificate(run, (0, 1, 2, 3, 6)),
        certificate(run, (0, 1, 2, 3, 4, 5, 6)),
        *(certificate(run, (0, 1, 2, 3, 4), each) for each in (*others, fewer_dealers, another_input, b"")),
        replace(good, signatures=of_another_attempt),
        replace(good, signatures=good.signatures[:-1]),
        replace(good, signatures=good.signatures + bytes(64)),
        replace(good, signatures=good.signatures[:64] * 5),
        replace(good, signatures=bytes(320)),
        replace(good, voters=members_set(0, 1, 2, 3, 5)),
        replace(good, voters=b""),
    ):
        assert_stopped(run.told(Certified, wrong), run.participant)


@pytest.mark.parametrize("which", ["with_leaver", "sparse"])
def test_a_self_mask_stays_closed_unless_its_owner_masked_for_the_dealers_voted_for(which, request):
    """A member told that others dealt has masks with others; with the wrong ones none may be left when its self-mask is opened."""
    run: Run = request.getfixturevalue(which)
    body = run.before(Certified)[1].body
    owner = next(iter(body.dealers))
    other = next(each for each in body.dealers if each != owner)
    count = len(run.where.roster)
    fewer = stated(run.participants[owner], "dealers", bitmap(range(count - 1), count)).signature
    without = {each: signature for each, signature in body.dealers.items() if each != owner}
    for dealers in (
        without,
        {},
        {**body.dealers, owner: fewer},
        {**body.dealers, owner: body.dealers[other]},
        {**body.dealers, owner: b""},
        {**body.dealers, owner: bytes(64)},
    ):
        assert_stopped(run.told(Certified, replace(body, dealers=dealers)), run.participant)
    state, _ = run.told(Certified, replace(body, dealers={**body.dealers, 99: b""}))
    assert state.stopped is None


# Rounds 5 and 6: the total


def test_totals_that_are_not_heard(complete):
    body = complete.before(Opened)[1].body
    collector, everyone = complete.participants[complete.where.collector], frozenset(range(MEMBERS))
    short = body.words[:1]
    for wrong in (
        replace(body, words=body.words + np.uint64(1)),
        replace(body, words=body.words.reshape(1, -1)),
        replace(body, total=stated(complete.participants[2], "total", body.total.content)),
        replace(body, total=stated(collector, "heard", body.total.content)),
        Opened(body.words, stated(collector, "total", heard_content(complete.where, frozenset(range(5)), body.words))),
        Opened(short, stated(collector, "total", heard_content(complete.where, everyone, short))),
    ):
        assert_stopped(complete.told(Opened, wrong), complete.participant)


def test_a_total_is_used_once_enough_have_heard_the_same(complete):
    state, opened = complete.before(Opened)
    state, outgoing = member.step(complete.participant, state, opened)
    assert {message.receiver for message in outgoing} == set(range(MEMBERS)) - {VICTIM}
    content = opened.body.total.content
    for number, other in enumerate((0, 2, 3, 4)):
        assert state.total is None
        assert number + 1 < THRESHOLD
        body = Heard(stated(complete.participants[other], "heard", content), opened.body.total)
        state, _ = member.step(complete.participant, state, Message(other, VICTIM, body))
    assert state.total is not None
    # From then on it is used: neither a collector nor members take it back.
    after, _ = member.step(complete.participant, state, Message(0, VICTIM, GivenUp()))
    assert after.total is not None
    assert after.stopped is None


def test_hearing_of_another_total_stops_with_evidence(complete):
    state, opened = complete.before(Opened)
    state, _ = member.step(complete.participant, state, opened)
    other = heard_content(complete.where, frozenset(range(MEMBERS)), WORDS[3])
    lie = stated(complete.participants[complete.where.collector], "total", other)
    body = Heard(stated(complete.participants[3], "heard", other), lie)
    step = member.step(complete.participant, state, Message(3, VICTIM, body))
    assert_stopped(step, complete.participant, "contradiction")
    assert isinstance(member.failure(complete.participant, step[0]), StatementsContradict)
    assert lie in step[0].heard_totals.contradiction
    assert opened.body.total in step[0].heard_totals.contradiction


def test_one_member_alone_cannot_stop_others_by_a_false_word(complete):
    """Without the collector's signature nobody is heard."""
    state, opened = complete.before(Opened)
    state, _ = member.step(complete.participant, state, opened)
    other = heard_content(complete.where, frozenset(range(MEMBERS)), WORDS[3])
    for word in (None, opened.body.total, stated(complete.participants[3], "total", other)):
        body = Heard(stated(complete.participants[3], "heard", other), word)
        assert member.step(complete.participant, state, Message(3, VICTIM, body)) == (state, ())


def test_on_a_sparse_graph_a_total_is_used_after_t_have_signed_that_they_heard_it(sparse):
    state, message = sparse.before(Confirmed)
    assert state.total is None
    content = state.heard_totals.own.heard.content

    def confirmed(hearers: range, text: bytes = content, kind: str = "heard") -> Confirmed:
        signatures = [stated(sparse.participants[each], kind, text).signature for each in hearers]
        return Confirmed(bitmap(hearers, 10), b"".join(signatures))

    good = confirmed(range(8))
    assert sparse.told(Confirmed, good)[0].total is not None
    for wrong in (
        confirmed(range(7)),
        confirmed(range(8), b"other"),
        confirmed(range(8), kind="total"),
        replace(good, signatures=good.signatures[:-64]),
        replace(good, signatures=bytes(8 * 64)),
        replace(good, hearers=bitmap(range(1, 9), 10)),
        replace(good, hearers=b""),
    ):
        assert_stopped(sparse.told(Confirmed, wrong), sparse.participant)
    # Neighbours' words alone do not do.
    for other in range(10):
        if other != VICTIM:
            body = Heard(stated(sparse.participants[other], "heard", content), state.heard_totals.own.total)
            state, _ = member.step(sparse.participant, state, Message(other, VICTIM, body))
    assert state.total is None
    assert isinstance(message.body, Confirmed)


def test_on_a_complete_graph_no_collector_confirms_a_total(complete):
    state, opened = complete.before(Opened)
    state, _ = member.step(complete.participant, state, opened)
    content = state.heard_totals.own.heard.content
    signatures = [stated(participant, "heard", content).signature for participant in complete.participants]
    body = Confirmed(members_set(*range(MEMBERS)), b"".join(signatures))
    assert_stopped(
        member.step(complete.participant, state, Message(complete.where.collector, VICTIM, body)), complete.participant
    )


# Why it stopped


def test_reasons_say_what_happened_and_what_to_do(complete):
    state, message = complete.before(Included)
    given_up, outgoing = member.step(complete.participant, state, replace(message, body=GivenUp()))
    assert outgoing == ()
    failure = member.failure(complete.participant, given_up)
    assert isinstance(failure, MembersMissing)
    assert "'member-0' collected" in str(failure)
    assert "5 of 7" in str(failure)
    assert member.step(complete.participant, given_up, message) == (given_up, ())
    wrong, _ = complete.told(Certified, certificate(complete, ()))
    failure = member.failure(complete.participant, wrong)
    assert type(failure) is SumError
    assert "'member-0'" in str(failure)
    assert "Nothing of this member was opened" in str(failure)
    assert member.failure(complete.participant, state) is None


def test_after_it_has_stopped_nothing_moves_it(complete):
    stopped, _ = complete.told(Certified, certificate(complete, ()))
    for message in complete.script:
        assert member.step(complete.participant, stopped, message) == (stopped, ())


def test_revealing_happens_once(with_leaver):
    state, message = with_leaver.before(Certified)
    state, outgoing = member.step(with_leaver.participant, state, message)
    assert isinstance(outgoing[0].body, Revealed)
    assert member.step(with_leaver.participant, state, message) == (state, ())
