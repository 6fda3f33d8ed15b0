"""What signed statements prove: every lie that honest members can prove, and never one of theirs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sudare.errors import InvalidParameter, MessageMalformed
from sudare.sums import blame, masks
from sudare.sums.blame import MEANINGS, Contradiction, Transcript, broken_rules, contradictions
from sudare.sums.context import Participant, RelayedSumContext, Roster, SumContext, bitmap, set_digest
from sudare.sums.keys import PublicKeys
from sudare.sums.masks import mask_secret, self_seed
from sudare.sums.messages import (
    Advertised,
    Certified,
    Dealt,
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
    heard_content,
    vote_content,
)
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.party import Party
from sudare.sums.shamir import PRIME, field_sum, lagrange_weights
from sudare.sums.simulation import simulate
from sudare.sums.statements import KINDS, Statement, stated
from tests.sums.lying import Play, context_of, statement_of
from tests.sums.parties import contradict, keys_of

SPARSE = Neighbourhood(5, 3)
CONTEXTS = [
    context_of(2, 2, 0),
    context_of(4, 4, 1),
    context_of(5, 4, 1),
    context_of(7, 5, 1),
    context_of(12, 8, 2, neighbourhood=SPARSE),
]
EVERYONE = frozenset(range(7))


def only(found: Sequence[Contradiction]) -> Contradiction:
    assert len(found) == 1, found
    return found[0]


def about(context: SumContext, *statements: Statement) -> list[Transcript]:
    return [Transcript(context, statements)]


# Honest members


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda each: f"{len(each.roster)}-{each.threshold}")
def test_honest_members_contradict_nobody(context: SumContext) -> None:
    play = Play(context).played()
    assert all(party.total is not None for party in play.parties)
    assert contradictions(play.honest) == []


@pytest.mark.parametrize("messages", range(6))
@pytest.mark.parametrize("context", CONTEXTS[2:], ids=lambda each: str(len(each.roster)))
def test_leaving_contradicts_nobody(context: SumContext, messages: int) -> None:
    parties = [
        Party(Participant(context, place, keys_of(place)), np.zeros(2, dtype=np.uint64), lambda _: None)
        for place in range(len(context.roster))
    ]
    simulate(parties, {len(parties) - 1: messages})
    assert contradictions([Transcript(context, each.statements) for each in parties]) == []


def test_a_second_attempt_and_the_next_sum_contradict_nobody() -> None:
    first = Play().played()
    second = first.again().played()
    third = Play(context_of(iteration=1, history=bytes(31) + b"\1")).played()
    assert contradictions([*first.honest, *second.honest, *third.honest]) == []


def test_a_transcript_is_read_back_as_it_was_written() -> None:
    transcript = Play(CONTEXTS[-1]).played().transcript(0)
    assert Transcript.from_bytes(transcript.to_bytes()) == transcript


@pytest.mark.parametrize("content", [b"", b"N", b"garbage", Play(CONTEXTS[0]).transcript(0).to_bytes()[:-1]])
def test_other_bytes_are_no_transcript(content: bytes) -> None:
    with pytest.raises(MessageMalformed):
        Transcript.from_bytes(content)


def test_nothing_proves_nothing() -> None:
    assert contradictions([]) == []


# Two statements of one kind: one member's program says different things, and honest members' transcripts prove it

COLLECTOR, LIAR = 0, 3
FEWER = bitmap(EVERYONE - {6}, 7)


def restated(statement: Statement, content: bytes) -> Statement:
    return statement_of(context_of(), statement.signer, statement.kind, content)  # type: ignore[arg-type]


def two_totals(message: Message) -> list[Message]:
    if not isinstance(message.body, Opened) or message.receiver % 2 == 0:
        return [message]
    words = message.body.words + np.uint64(1)
    total = restated(message.body.total, heard_content(context_of(), EVERYONE, words))
    return [replace(message, body=Opened(words, total))]


def two_sets_included(message: Message) -> list[Message]:
    if not isinstance(message.body, Included) or message.receiver % 2 == 0:
        return [message]
    return [replace(message, body=Included(restated(message.body.included, FEWER)))]


def said_twice(kind: type, name: str, content: Callable[[Statement], bytes]) -> Callable[[Message], list[Message]]:
    """Send the same, and then once more with another statement."""

    def lie(message: Message) -> list[Message]:
        if not isinstance(message.body, kind):
            return [message]
        statement = restated(getattr(message.body, name), content(getattr(message.body, name)))
        return [message, replace(message, body=replace(message.body, **{name: statement}))]

    return lie


def other_seed(statement: Statement) -> bytes:
    shares = OpenedShares.from_bytes(statement.content)
    return OpenedShares({**shares.of_self_seeds, 0: shares.of_self_seeds[1]}, shares.of_mask_keys).to_bytes()


@pytest.mark.parametrize(
    ("liar", "lie", "kind"),
    [
        (COLLECTOR, two_totals, "total"),
        (COLLECTOR, two_sets_included, "included"),
        (LIAR, said_twice(Advertised, "keys", lambda each: each.content[:40] + bytes(24)), "keys"),
        (LIAR, said_twice(Masked, "dealers", lambda _: FEWER), "dealers"),
        (LIAR, said_twice(Voted, "vote", lambda each: each.content[:-1] + b"?"), "vote"),
        (LIAR, said_twice(Revealed, "shares", other_seed), "shares"),
        (LIAR, said_twice(Heard, "heard", lambda each: each.content[:-1] + b"?"), "heard"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whoever_says_two_things_is_named(liar: int, lie: Callable[[Message], list[Message]], kind: str) -> None:
    play = Play(liars=[liar], lie=lie).played()
    found = contradictions(play.honest)
    assert {each.liar for each in found} == {f"m{liar}"}
    pair = next(each for each in found if each.reason == "two statements")
    (first,), (second,) = pair.sides
    assert contradict(first, second)
    assert (first.kind, pair.iteration, pair.attempts) == (kind, 0, (0,))


def test_two_statements_are_needed_in_all_and_not_in_one_transcript() -> None:
    """Where a collector tells two groups different sets, no member alone can prove it."""
    play = Play(liars=[COLLECTOR], lie=two_sets_included).played()
    for position in range(1, 7):
        # A member holds the one statement that it was sent, and no vote of others, because none was certified.
        assert contradictions([play.transcript(position)]) == []
    assert contradictions([play.transcript(1), play.transcript(2)])[0].liar == "m0"


# Statements that no honest program makes

CONTEXT = context_of()
HONEST = Play().played()
OWN_VOTE = vote_content(CONTEXT, EVERYONE, EVERYONE)
NO_TOTAL = bytes(32)


def digest_of(*members: int) -> bytes:
    return set_digest(frozenset(members), 7)


def keys_content(position: int, context: SumContext = CONTEXT) -> bytes:
    participant = Participant(context, position, keys_of(position))
    chosen = participant.out_neighbours if context.is_sparse else ()
    public = masks.MaskKey.of(mask_secret(participant)).public
    return SumKeys(public, masks.commitment(context, self_seed(participant)), chosen).to_bytes()


def shares_of(position: int) -> OpenedShares:
    statement = next(
        each for each in HONEST.parties[COLLECTOR].statements if (each.kind, each.signer) == ("shares", position)
    )
    return OpenedShares.from_bytes(statement.content)


@pytest.mark.parametrize(
    ("signer", "kind", "content"),
    [
        (LIAR, "keys", b"short"),
        (LIAR, "keys", keys_content(LIAR) + b"\1\0\0\0"),
        (LIAR, "keys", bytes(32) + keys_content(LIAR)[32:]),
        (LIAR, "dealers", bitmap(EVERYONE - {LIAR}, 7)),
        (LIAR, "dealers", bitmap({0, 1, 2, LIAR}, 7)),
        (LIAR, "dealers", b"\xff"),
        (LIAR, "included", bitmap(EVERYONE, 7)),
        (COLLECTOR, "included", bitmap({0, 1, 2, 3}, 7)),
        (COLLECTOR, "included", b""),
        (LIAR, "vote", bytes(32) + OWN_VOTE[32:]),
        (LIAR, "vote", OWN_VOTE + b"\0"),
        (LIAR, "shares", b"none"),
        (LIAR, "shares", OpenedShares({}, {}).to_bytes()),
        (LIAR, "shares", OpenedShares(shares_of(LIAR).of_self_seeds, shares_of(LIAR).of_self_seeds).to_bytes()),
        (LIAR, "shares", OpenedShares({**shares_of(LIAR).of_self_seeds, 7: np.zeros(5, np.uint64)}, {}).to_bytes()),
        (LIAR, "total", digest_of(*EVERYONE) + NO_TOTAL),
        (COLLECTOR, "total", digest_of(*EVERYONE)),
        (LIAR, "heard", bitmap(EVERYONE, 7) + NO_TOTAL),
    ],
)  # fmt: skip
def test_what_no_honest_program_signs_proves_a_lie(signer: int, kind: Any, content: bytes) -> None:
    statement = statement_of(CONTEXT, signer, kind, content)
    found = only(contradictions(about(CONTEXT, statement)))
    assert (found.liar, found.reason, found.sides) == (f"m{signer}", "impossible statement", ((statement,),))


@pytest.mark.parametrize(
    ("named", "kind", "content"),
    [
        (EVERYONE - {LIAR}, "vote", vote_content(CONTEXT, EVERYONE, EVERYONE - {LIAR})),
        (EVERYONE - {6}, "vote", vote_content(CONTEXT, EVERYONE - {6}, EVERYONE)),
        ({0, 1, 2, LIAR}, "vote", vote_content(CONTEXT, EVERYONE, frozenset({0, 1, 2, LIAR}))),
        (EVERYONE - {LIAR}, "heard", digest_of(*EVERYONE - {LIAR}) + NO_TOTAL),
        ({0, 1, LIAR}, "heard", digest_of(0, 1, LIAR) + NO_TOTAL),
    ],
)
def test_what_is_signed_of_a_set_is_compared_with_the_set_that_somebody_names(
    named: Any, kind: Any, content: bytes
) -> None:
    """Votes and words on totals hold digests of sets; "dealers" and "included" name them."""
    statement = statement_of(CONTEXT, LIAR, kind, content)
    assert contradictions(about(CONTEXT, statement)) == []
    found = contradictions(about(CONTEXT, statement, statement_of(CONTEXT, LIAR, "dealers", bitmap(named, 7))))
    assert {each.liar for each in found} == {f"m{LIAR}"}
    assert ("impossible statement", ((statement,),)) in [(each.reason, each.sides) for each in found]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "heard"])
def test_without_a_collector_nothing_but_the_total_is_signed(kind: Any) -> None:
    context = context_of(4, 4)
    content = {"keys": bytes(64), "vote": context.input_digest + bytes(64)}.get(kind, b"\x0f")
    assert only(contradictions(about(context, statement_of(context, 1, kind, content)))).liar == "m1"


def test_without_a_collector_a_total_is_over_everyone() -> None:
    context = context_of(4, 4)
    statement = statement_of(context, 1, "heard", set_digest(frozenset({0, 1, 2}), 4) + NO_TOTAL)
    assert only(contradictions(about(context, statement))).reason == "impossible statement"


# Two statements of one member, of different kinds

SMALLER = EVERYONE - {6}
SPARSE_CONTEXT = context_of(12, 8, 2, neighbourhood=SPARSE)


def few_neighbours(position: int) -> frozenset[int]:
    """A set of enough members with too few of those that this one chose."""
    chosen = Participant(SPARSE_CONTEXT, position, keys_of(position)).out_neighbours
    return frozenset(range(12)) - frozenset(chosen[:4])


@pytest.mark.parametrize(
    ("signer", "first", "second"),
    [
        (LIAR, ("dealers", bitmap(SMALLER, 7)), ("vote", OWN_VOTE)),
        (LIAR, ("vote", OWN_VOTE), ("heard", digest_of(*SMALLER) + NO_TOTAL)),
        (COLLECTOR, ("included", bitmap(EVERYONE, 7)), ("total", digest_of(*SMALLER) + NO_TOTAL)),
        (LIAR, ("vote", vote_content(CONTEXT, EVERYONE, SMALLER)), ("shares", shares_of(LIAR).to_bytes())),
        (LIAR, ("vote", OWN_VOTE), ("shares", OpenedShares({LIAR: shares_of(LIAR).of_self_seeds[LIAR]}, {}).to_bytes())),
    ],
)  # fmt: skip
def test_whoever_signs_what_cannot_both_be_true_is_named(signer: int, first: Any, second: Any) -> None:
    statements = [statement_of(CONTEXT, signer, *each) for each in (first, second)]
    assert contradictions(about(CONTEXT, statements[0])) == contradictions(about(CONTEXT, statements[1])) == []
    # Somebody names the smaller set, and contradicts nobody by that.
    named = (
        statement_of(context_of(), 1, "dealers", bitmap(EVERYONE, 7)),
        statement_of(CONTEXT, COLLECTOR, "included", bitmap(SMALLER, 7)),
    )
    is_vote_for_smaller = first == ("vote", vote_content(CONTEXT, EVERYONE, SMALLER))
    found = only(contradictions(about(CONTEXT, *statements, *(named if is_vote_for_smaller else ()))))
    assert (found.liar, found.reason) == (f"m{signer}", "own statements differ")
    assert found.sides == ((statements[0],), (statements[1],))


@pytest.mark.parametrize("kind", ["dealers", "vote"])
def test_on_a_sparse_graph_whoever_goes_on_with_too_few_of_its_neighbours_is_named(kind: Any) -> None:
    members = few_neighbours(LIAR)
    content = bitmap(members, 12) if kind == "dealers" else vote_content(SPARSE_CONTEXT, frozenset(range(12)), members)
    statements = [
        statement_of(SPARSE_CONTEXT, LIAR, "keys", keys_content(LIAR, SPARSE_CONTEXT)),
        statement_of(SPARSE_CONTEXT, LIAR, kind, content),
    ]
    named = statement_of(SPARSE_CONTEXT, COLLECTOR, "included", bitmap(members, 12))
    assert only(contradictions(about(SPARSE_CONTEXT, *statements, named))).liar == f"m{LIAR}"
    assert contradictions(about(SPARSE_CONTEXT, statements[1])) == []


# Over attempts and iterations


def vote_in(context: SumContext, included: frozenset[int], signer: int = LIAR) -> Statement:
    everyone = frozenset(range(len(context.roster)))
    return statement_of(context, signer, "vote", vote_content(context, everyone, included))


def test_votes_for_two_sets_with_one_input_are_named() -> None:
    second = context_of(attempt=1)
    votes = vote_in(CONTEXT, EVERYONE), vote_in(second, SMALLER)
    found = only(contradictions([*about(CONTEXT, votes[0]), *about(second, votes[1])]))
    assert (found.liar, found.reason, found.attempts) == (f"m{LIAR}", "two sets", (0, 1))
    assert contradictions(about(second, vote_in(CONTEXT, EVERYONE), vote_in(second, EVERYONE))) == []
    assert contradictions(about(second, votes[0], vote_in(second, SMALLER, 2))) == []


def test_on_a_sparse_graph_two_votes_with_one_input_are_named_whatever_the_set() -> None:
    everyone, second = frozenset(range(12)), replace(SPARSE_CONTEXT, attempt=1)
    votes = vote_in(SPARSE_CONTEXT, everyone), vote_in(second, everyone)
    assert only(contradictions(about(second, *votes))).reason == "two sets"


def test_votes_in_two_iterations_are_for_two_inputs() -> None:
    second = context_of(iteration=1)
    votes = vote_in(CONTEXT, EVERYONE), vote_in(second, SMALLER)
    assert contradictions([*about(CONTEXT, votes[0]), *about(second, votes[1])]) == []


def test_whoever_takes_part_after_two_histories_is_named() -> None:
    other = context_of(iteration=1, history=bytes(31) + b"\1")
    one = context_of(iteration=1)
    both = [statement_of(context, LIAR, "keys", keys_content(LIAR, context)) for context in (one, other)]
    found = only(contradictions([*about(one, both[0]), *about(other, both[1])]))
    assert (found.liar, found.reason, found.iteration) == (f"m{LIAR}", "two histories", 1)


def test_members_with_different_histories_are_told_apart_and_nobody_is_named() -> None:
    other = context_of(iteration=1, history=bytes(31) + b"\1")
    one = context_of(iteration=1)
    statements = [
        statement_of(each, place, "keys", keys_content(place, each)) for place, each in ((1, one), (2, other))
    ]
    found = only(contradictions([*about(one, statements[0]), *about(other, statements[1])]))
    assert (found.liar, found.reason, found.among) == (None, "histories differ", CONTEXT.members)


@pytest.mark.parametrize("places", [(0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_of_three_histories_whoever_is_in_two_is_named_once(places: tuple[int, ...]) -> None:
    contexts = [context_of(iteration=1, history=bytes(31) + bytes([number])) for number in (1, 2, 3)]
    statements = []
    for number, context in enumerate(contexts):
        signers = [(0, 1, 4)[number], *([LIAR] if number in places else [])]
        statements += about(
            context, *(statement_of(context, each, "keys", keys_content(each, context)) for each in signers)
        )
    found = [each for each in contradictions(statements) if each.reason == "two histories"]
    assert [each.liar for each in found] == [f"m{LIAR}"]


# Lies that cannot be attributed


def test_without_a_collector_a_false_parcel_is_nobodys() -> None:
    def lie(message: Message) -> list[Message]:
        body = message.body
        if not isinstance(body, Passed) or body.round != 1 or body.window is None:
            return [message]
        return [replace(message, body=replace(body, window=body.window + np.uint64(1)))]

    play = Play(context_of(4, 4), liars=[2], lie=lie).played()
    found = only(contradictions(play.honest))
    assert (found.liar, found.reason, found.among) == (None, "totals differ without a collector", play.context.members)
    heard = [sorted(each.signer for each in side) for side in found.sides]
    assert len(heard) == 2
    assert sorted(heard[0] + heard[1]) == [0, 1, 2, 3]
    assert all(party.total is None for party in play.parties)


def false_share_given(holder: int, owner: int) -> Callable[[Message], list[Message]]:
    def lie(message: Message) -> list[Message]:
        if not isinstance(message.body, Revealed):
            return [message]
        shares = OpenedShares.from_bytes(message.body.shares.content)
        changed = {**shares.of_self_seeds, owner: shares.of_self_seeds[(owner + 1) % 7]}
        content = OpenedShares(changed, shares.of_mask_keys).to_bytes()
        return [replace(message, body=Revealed(restated(message.body.shares, content)))]

    return lie


def false_share_dealt(play: list[Play], holder: int, owner: int) -> Callable[[Message], list[Message]]:
    def lie(message: Message) -> list[Message]:
        if not isinstance(message.body, Dealt):
            return [message]
        party = play[0].parties[owner]
        key = masks._channel_key(party.participant, party.state.member.present, owner, holder)
        box = AESGCM(key).encrypt(bytes(12), np.arange(10, dtype="<u8").tobytes(), party.participant.context.digest)
        return [replace(message, body=Dealt({**message.body.boxes, holder: box}))]

    return lie


def test_a_false_share_names_its_owner_and_its_holder_and_does_not_say_which() -> None:
    holder, owner = 2, 4
    given = Play(liars=[holder], lie=false_share_given(holder, owner)).played()
    plays: list[Play] = []
    plays.append(Play(liars=[owner], lie=false_share_dealt(plays, holder, owner)))
    dealt = plays[0].played()
    for play in (given, dealt):
        # One false share of seven stops nothing.
        assert all(party.total is not None for party in play.parties)
        found = only(contradictions([play.transcript(COLLECTOR)]))
        assert (found.liar, found.reason, found.among) == (None, "shares do not fit", ("m2", "m4"))
        assert [[each.kind for each in side] for side in found.sides] == [["keys"], ["shares"]]


def test_where_too_few_shares_fit_all_their_givers_are_named() -> None:
    context = context_of(5, 4)
    play = Play(context).played()
    shares = {each.signer: each for each in play.transcript(0).statements if each.kind == "shares"}
    opened = OpenedShares.from_bytes(shares[2].content)
    changed = OpenedShares({**opened.of_self_seeds, 3: opened.of_self_seeds[1]}, {}).to_bytes()
    others = [each for each in play.transcript(0).statements if (each.kind, each.signer) != ("shares", 2)]
    found = only(contradictions(about(context, *others, statement_of(context, 2, "shares", changed))))
    assert (found.reason, found.among) == ("shares do not fit", context.members)


def test_liars_whose_false_shares_undo_each_other_put_no_blame_on_honest_holders() -> None:
    """Members 0 and 1 shift their shares of member 4's self-seed so that the first seven still give it: those of 7 and 8 then do not fit."""
    context = context_of(9, 7, 3)
    statements = list(Play(context).played().transcript(0).statements)
    weights = lagrange_weights(range(7))
    shifts = 1, -weights[0] * pow(weights[1], -1, PRIME) % PRIME
    for liar, shift in enumerate(shifts):
        said = next(each for each in statements if (each.kind, each.signer) == ("shares", liar))
        shares = OpenedShares.from_bytes(said.content)
        moved = field_sum(shares.of_self_seeds[4], np.full(5, shift, dtype=np.uint64))
        content = OpenedShares({**shares.of_self_seeds, 4: moved}, {}).to_bytes()
        statements[statements.index(said)] = statement_of(context, liar, "shares", content)
    found = only(contradictions(about(context, *statements)))
    assert (found.liar, found.reason, found.among) == (None, "shares do not fit", context.members)


def test_a_member_whose_own_share_does_not_fit_is_named() -> None:
    play = Play(liars=[LIAR], lie=false_share_given(LIAR, LIAR)).played()
    found = only(contradictions([play.transcript(COLLECTOR)]))
    assert (found.liar, found.reason) == (f"m{LIAR}", "shares do not fit")


def test_a_false_share_of_a_key_for_masks_is_seen_too() -> None:
    """Member 6 leaves after it has dealt, so that its key is opened and not its self-seed."""
    parties = [
        Party(Participant(CONTEXT, place, keys_of(place)), np.zeros(2, np.uint64), lambda _: None) for place in range(7)
    ]
    simulate(parties, {6: 2})
    transcript = Transcript(CONTEXT, parties[0].statements)
    assert contradictions([transcript]) == []
    said = next(each for each in transcript.statements if (each.kind, each.signer) == ("shares", 2))
    shares = OpenedShares.from_bytes(said.content)
    assert set(shares.of_mask_keys) == {6}
    content = OpenedShares(shares.of_self_seeds, {6: shares.of_self_seeds[0]}).to_bytes()
    others = [each for each in transcript.statements if each != said]
    found = only(contradictions(about(CONTEXT, *others, restated(said, content))))
    assert found.reason == "shares do not fit"
    assert {"m2", "m6"} <= set(found.among)


@pytest.mark.parametrize("copied", [slice(0, 32), slice(32, 64)], ids=["key", "commitment"])
def test_copied_keys_name_both(copied: slice) -> None:
    content = bytearray(keys_content(2))
    content[copied] = keys_content(1)[copied]
    statements = statement_of(CONTEXT, 1, "keys", keys_content(1)), statement_of(CONTEXT, 2, "keys", bytes(content))
    found = only(contradictions(about(CONTEXT, *statements)))
    assert (found.liar, found.reason, found.among) == (None, "copied keys", ("m1", "m2"))


@pytest.mark.parametrize(
    ("word", "said", "reason"),
    [
        (("included", bitmap(EVERYONE, 7)), ("vote", vote_content(CONTEXT, EVERYONE, SMALLER)), "collector and member differ"),
        (("total", digest_of(*EVERYONE) + NO_TOTAL), ("heard", digest_of(*EVERYONE) + b"?" * 32), "collector and member differ"),
        (("total", digest_of(*EVERYONE) + NO_TOTAL), ("vote", vote_content(CONTEXT, EVERYONE, SMALLER)), "collector and member differ"),
    ],
)  # fmt: skip
def test_a_member_and_a_collector_that_differ_are_both_named(word: Any, said: Any, reason: str) -> None:
    statements = statement_of(CONTEXT, COLLECTOR, *word), statement_of(CONTEXT, LIAR, *said)
    found = only(contradictions(about(CONTEXT, *statements)))
    assert (found.liar, found.reason, found.among) == (None, reason, ("m0", "m3"))


def test_with_the_statement_that_the_member_was_sent_the_collector_is_named_alone() -> None:
    vote = vote_content(CONTEXT, EVERYONE, SMALLER)
    words = [statement_of(CONTEXT, COLLECTOR, "included", bitmap(each, 7)) for each in (EVERYONE, SMALLER)]
    found = only(
        contradictions(
            [*about(CONTEXT, words[0], statement_of(CONTEXT, LIAR, "vote", vote)), *about(CONTEXT, words[1])]
        )
    )
    assert found.liar == "m0"


@pytest.mark.parametrize("kind", ["dealers", "heard"])
def test_members_that_were_told_different_things_name_each_other_and_the_collector(kind: Any) -> None:
    contents = {
        "dealers": (bitmap(EVERYONE, 7), FEWER),
        "heard": (digest_of(*EVERYONE) + NO_TOTAL, digest_of(*EVERYONE) + b"?" * 32),
    }
    statements = [
        statement_of(CONTEXT, place, kind, content) for place, content in zip((1, 2), contents[kind], strict=True)
    ]
    found = only(contradictions(about(CONTEXT, *statements)))
    assert (found.liar, found.among) == (None, ("m0", "m1", "m2"))
    assert found.reason == {"dealers": "dealers differ", "heard": "totals differ"}[kind]


# What does not count


def test_what_others_signed_or_nobody_does_not_count() -> None:
    content, other = bitmap(EVERYONE, 7), FEWER
    honest = statement_of(CONTEXT, LIAR, "dealers", content)
    forged = [
        replace(honest, content=other),
        replace(statement_of(CONTEXT, 4, "dealers", other), signer=LIAR),
        replace(statement_of(context_of(attempt=1), LIAR, "dealers", other), context=CONTEXT.digest),
        replace(honest, kind="included"),
        replace(honest, signer=7),
        replace(honest, signer=-1),
        replace(honest, signer=2**40),
        replace(honest, kind="a kind that there is not"),
        replace(honest, signature=b""),
    ]
    assert contradictions(about(CONTEXT, honest, *forged)) == []


def test_the_bytes_of_a_signature_cannot_be_read_in_another_way() -> None:
    """Kind and context are signed one after the other: another cut between them gives the same bytes, and must not count."""
    digests = (context_of(iteration=iteration).digest for iteration in range(100_000))
    iteration, digest = next(
        (place, each) for place, each in enumerate(digests) if each.partition(b"\0")[0].isascii() and b"\0" in each
    )
    before, _, after = digest.partition(b"\0")
    unsigned = Statement("dealers", LIAR, digest, FEWER, b"")
    honest = replace(unsigned, signature=keys_of(LIAR).signature(unsigned.text))
    twin = replace(honest, kind="dealers\0" + before.decode(), context=after)
    assert twin.text == honest.text
    assert twin.is_signed_by(keys_of(LIAR).public.signing)
    assert contradictions(about(context_of(iteration=iteration), honest, twin)) == []


def test_statements_about_sums_of_nobody_do_not_count() -> None:
    imagined = replace(CONTEXT, agreement="another")
    statements = [statement_of(imagined, LIAR, "dealers", content) for content in (FEWER, bitmap(EVERYONE, 7))]
    assert contradictions(about(CONTEXT, *statements)) == []


def test_transcripts_with_other_keys_or_of_another_task_are_refused() -> None:
    others = tuple(keys_of(place).public if place != LIAR else keys_of(99).public for place in range(7))
    forged = replace(CONTEXT, roster=Roster(CONTEXT.members, others))
    for context in (forged, replace(CONTEXT, task="another"), replace(CONTEXT, agreement="another")):
        with pytest.raises(InvalidParameter):
            contradictions([Transcript(CONTEXT, ()), Transcript(context, ())])


def test_a_forged_context_gives_honest_statements_no_other_meaning() -> None:
    """Somebody gives a transcript in which a higher threshold is claimed, so that an honest set would be too small."""
    forged = replace(CONTEXT, threshold=6)
    honest = statement_of(CONTEXT, COLLECTOR, "included", bitmap(frozenset(range(5)), 7))
    assert contradictions([Transcript(CONTEXT, ()), Transcript(forged, (honest,))]) == []


def test_a_file_that_claims_endless_attempts_is_looked_at_as_far_as_there_can_be_any() -> None:
    honest = statement_of(context_of(attempt=300), COLLECTOR, "included", b"of no form")
    found = contradictions(about(context_of(attempt=10**15), honest))
    # Attempt 300 is collected by another member, so that the statement proves a lie in two ways.
    assert {each.liar for each in found} == {"m0"}
    beyond = statement_of(context_of(attempt=10**15), COLLECTOR, "included", b"of no form")
    assert contradictions(about(context_of(attempt=10**15), beyond)) == []


def test_many_sums_with_endless_attempts_neither_hold_blame_up_nor_hide_a_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blame, "_MOST_CONTEXTS", 500)
    looked_at: list[SumContext] = []
    monkeypatch.setattr(blame, "replace", lambda *old, **new: looked_at.append(replace(*old, **new)) or looked_at[-1])
    lie = statement_of(context_of(attempt=3), COLLECTOR, "included", b"of no form")
    own = about(context_of(attempt=3), lie)
    endless = [Transcript(replace(CONTEXT, iteration=number, attempt=10**15), ()) for number in range(100)]
    assert [each.liar for each in contradictions([*endless[:1], *own, *endless[1:]])] == [f"m{COLLECTOR}"]
    assert len(looked_at) <= 500 + len(endless) + len(own)


def test_keys_are_looked_at_once_however_many_attempts_a_file_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {each.name: getattr(CONTEXT, each.name) for each in fields(CONTEXT)}
    where = RelayedSumContext(**{**values, "attempt": 10**15, "relay": keys_of(7).public})
    monkeypatch.setattr(blame, "_MOST_CONTEXTS", 300)
    checked: list[Roster] = []
    true = Roster.__post_init__
    monkeypatch.setattr(Roster, "__post_init__", lambda self: (checked.append(self), true(self))[1])
    received = [
        Transcript.from_bytes(Transcript(replace(where, iteration=number), ()).to_bytes()) for number in range(3)
    ]
    assert contradictions(received) == []
    # Of each transcript that came: once its members, once with the relay.
    assert len(checked) <= 2 * len(received)


# What is kept


def test_a_transcript_holds_no_secrets() -> None:
    parties = [Party(Participant(CONTEXT, place, keys_of(place)), np.arange(4, dtype=np.uint64) + np.uint64(2**40 + place), lambda _: None)
               for place in range(7)]  # fmt: skip
    simulate(parties, {6: 2})
    kept = [Transcript(CONTEXT, each.statements) for each in parties]
    content = b"".join(each.to_bytes() for each in kept)
    for party in parties:
        member: Any = party.state.member
        secrets = [
            mask_secret(party.participant),
            self_seed(party.participant),
            member.words.tobytes(),
            party.participant.keys._root,
        ]
        assert not any(secret in content for secret in secrets)
    assert parties[0].total is not None
    assert parties[0].total.tobytes() not in content
    halves: dict[bool, set[int]] = {True: set(), False: set()}
    for each in {each for transcript in kept for each in transcript.statements if each.kind == "shares"}:
        shares = OpenedShares.from_bytes(each.content)
        halves[True] |= set(shares.of_self_seeds)
        halves[False] |= set(shares.of_mask_keys)
    assert halves == {True: set(range(6)), False: {6}}


def test_what_was_refused_is_kept_and_bounded() -> None:
    party = Play().parties[1]
    for number in range(50):
        content = number.to_bytes(33, "big")
        party.receive(
            Message(COLLECTOR, 1, Opened(np.zeros(3, np.uint64), statement_of(CONTEXT, COLLECTOR, "total", content)))
        )
        forged = replace(statement_of(CONTEXT, LIAR, "heard", content), signer=2)
        party.receive(Message(2, 1, Heard(forged, None)))
    refused = [each for each in party.statements if each.signer != 1]
    assert [each.kind for each in refused] == ["total", "total"]
    assert contradictions(about(CONTEXT, *refused))[0].liar == "m0"


def test_what_was_refused_is_there_after_a_restart() -> None:
    play = Play()
    statement = statement_of(CONTEXT, COLLECTOR, "total", b"of another form")
    play.parties[1].receive(Message(COLLECTOR, 1, Opened(np.zeros(3, np.uint64), statement)))
    assert statement in Play(saved=play.saved).parties[1].statements


def test_members_keep_the_votes_and_dealers_that_they_were_shown() -> None:
    play = Play(CONTEXTS[-1]).played()
    for position in range(1, 12):
        kinds = [each.kind for each in play.transcript(position).statements]
        assert kinds.count("vote") >= CONTEXTS[-1].threshold
        assert kinds.count("heard") >= CONTEXTS[-1].threshold
        assert {"keys", "dealers", "included", "shares", "total"} <= set(kinds)


def test_a_collector_that_cuts_signatures_anyhow_breaks_no_transcript() -> None:
    def lie(message: Message) -> list[Message]:
        if not isinstance(message.body, Certified):
            return [message]
        owners = sorted(message.body.dealers)
        joined = b"".join(message.body.dealers[owner] for owner in owners)
        return [replace(message, body=replace(message.body, dealers={owners[0]: joined}))]

    play = Play(liars=[COLLECTOR], lie=lie).played()
    assert play.parties[1].total is not None
    kinds = [each.kind for each in play.transcript(1).statements]
    assert kinds.count("dealers") == 7
    assert contradictions(play.honest) == []


def test_every_reason_is_explained() -> None:
    assert all(text and not text.endswith(".") for text in MEANINGS.values())


# Whatever dishonest members send, no honest member is blamed


def mutated(
    value: Any, draw: random.Random, context: SumContext, liars: Sequence[int], seen: Sequence[Statement]
) -> Any:
    """A value of the same class, with something in it changed; statements are signed again by a liar."""
    if isinstance(value, Statement):
        liar = draw.choice(liars)
        kind = value.kind if draw.random() < 0.8 else draw.choice(KINDS)
        alike = [each.content for each in seen if each.kind == kind] or [value.content]
        content = draw.choice(alike) if draw.random() < 0.5 else mutated(value.content, draw, context, liars, seen)
        return stated(Participant(context, liar, keys_of(liar)), kind, content)  # type: ignore[arg-type]
    if isinstance(value, bytes) and value:
        place = draw.randrange(len(value))
        return value[:place] + bytes([value[place] ^ 1 << draw.randrange(8)]) + value[place + 1 :]
    if isinstance(value, np.ndarray):
        return value + np.uint64(draw.randrange(3))
    if isinstance(value, dict) and value:
        key = draw.choice(sorted(value))
        rest = {other: each for other, each in value.items() if other != key}
        return rest if draw.random() < 0.3 else {**rest, key: mutated(value[key], draw, context, liars, seen)}
    if is_dataclass(value) and not isinstance(value, type) and fields(value):
        name = draw.choice([field.name for field in fields(value)])
        return replace(value, **{name: mutated(getattr(value, name), draw, context, liars, seen)})
    return value


def liars_that_do_anything(seed: int) -> tuple[set[str], list[Transcript]]:
    """Names of the dishonest, and transcripts of all after two attempts and the next sum; those of the dishonest hold what they like."""
    draw = random.Random(seed)
    members, threshold, dishonest, hood = draw.choice(
        [(4, 4, 2, None), (5, 4, 1, None), (7, 5, 1, None), (9, 7, 3, None), (12, 9, 2, SPARSE)]
    )
    liars = sorted(draw.sample(range(members), dishonest))
    if threshold < members and draw.random() < 0.5:
        liars[0] = 0
    liars = sorted(set(liars))
    seen: list[Statement] = []
    contexts: list[SumContext] = []
    plays: list[Play] = []
    rate = draw.choice([0.02, 0.1, 0.4])

    def lie(message: Message) -> list[Message]:
        context = contexts[-1]
        sent = [message] if draw.random() > rate / 2 else []
        if draw.random() < rate:
            body = mutated(message.body, draw, context, liars, seen)
            receiver = message.receiver if draw.random() < 0.7 else draw.randrange(members)
            sent.append(Message(message.sender, receiver, body))
            draw.shuffle(sent)
        if isinstance(message.body, Dealt) and draw.random() < rate:
            party = plays[-1].parties[message.sender]
            holder = draw.choice(sorted(message.body.boxes))
            present = party.state.member.present  # type: ignore[union-attr]
            key = masks._channel_key(party.participant, present, message.sender, holder)
            shares = np.array([draw.randrange(2**60) for _ in range(10)], dtype="<u8").tobytes()
            box = AESGCM(key).encrypt(bytes(12), shares, context.digest)
            sent = [replace(message, body=Dealt({**message.body.boxes, holder: box}))]
        seen.extend(each for each in vars(message.body).values() if isinstance(each, Statement))
        return sent

    transcripts: list[Transcript] = []
    saved: dict[int, bytes] = {}
    for iteration, attempt in ((0, 0), (0, 1), (1, 0)):
        history = bytes(31) + bytes([iteration])
        contexts.append(context_of(members, threshold, dishonest, attempt, iteration, history, hood))
        plays.append(Play(contexts[-1], liars, lie, saved if iteration == 0 else {}))
        play = plays[-1].played()
        transcripts += play.honest
        known = [each for transcript in play.honest for each in transcript.statements]
        invented = (
            [mutated(draw.choice(known), draw, contexts[-1], liars, known) for _ in range(draw.randrange(6))]
            if known
            else []
        )
        transcripts.append(Transcript(contexts[-1], (*invented, *known)))
    return {f"m{liar}" for liar in liars}, transcripts


def check_that_only_liars_are_blamed(seed: int) -> bool:
    """Whether anything was found; a failure of the promise is an assertion."""
    liars, transcripts = liars_that_do_anything(seed)
    found = broken_rules(transcripts)
    for each in found:
        assert set(each.among) & liars, (seed, each)
        assert each.liar is None or each.liar in liars, (seed, each)
    assert bool(found) == bool(contradictions(transcripts))
    return bool(found)


def test_whatever_liars_send_honest_members_are_not_blamed() -> None:
    found = sum(check_that_only_liars_are_blamed(seed) for seed in range(8))
    # The liars of this test lie nearly always in a way that shows.
    assert found >= 5


@pytest.mark.long
def test_whatever_liars_send_honest_members_are_not_blamed_for_long() -> None:
    assert sum(check_that_only_liars_are_blamed(seed) for seed in range(8, 3000)) > 2000


def test_public_keys_of_a_roster_travel_with_the_transcript() -> None:
    assert Transcript.from_bytes(HONEST.transcript(0).to_bytes()).context.roster.publics[0] == PublicKeys(
        keys_of(0).public.exchange, keys_of(0).public.signing
    )
