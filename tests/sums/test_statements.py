"""Signed statements: bound to kind, signer, sum and content; and two that differ contradict each other."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.sums.context import Participant, least_threshold
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.statements import KINDS, Statement, forget_verified, holds, quorum_holds, signatures_drawn, stated
from tests.sums.parties import context, keys_of, participants


def test_a_statement_holds_for_everyone_in_the_same_sum():
    where = participants(context(4, 3))
    for kind in KINDS:
        statement = stated(where[1], kind, b"content")
        assert all(holds(participant, statement, kind, 1) for participant in where)


def test_nothing_of_a_statement_can_be_changed():
    where = participants(context(4, 3))
    statement = stated(where[1], "vote", b"content")
    others = [
        replace(statement, kind="heard"),
        replace(statement, signer=2),
        replace(statement, context=bytes(32)),
        replace(statement, content=b"contenT"),
        replace(statement, content=b""),
        replace(statement, signature=statement.signature[:-1]),
        replace(statement, signature=bytes(64)),
        replace(statement, signature=b""),
    ]
    for forged in others:
        assert not any(holds(where[0], forged, kind, signer) for kind in KINDS for signer in range(4))
    for kind in KINDS:
        for signer in range(4):
            assert holds(where[0], statement, kind, signer) == ((kind, signer) == ("vote", 1))


def test_statements_are_of_one_sum():
    before = context(4, 3)
    statement = stated(participants(before)[1], "vote", b"content")
    assert not holds(participants(replace(before, attempt=1))[0], statement, "vote", 1)
    assert not holds(participants(context(4, 3))[0], statement, "vote", 1)


@given(st.binary(max_size=70), st.binary(max_size=40))
def test_whatever_the_key_and_signature_are_the_answer_is_no(signature, signing_key):
    statement = Statement("vote", 1, bytes(32), b"content", signature)
    assert not statement.is_signed_by(signing_key)


@pytest.mark.parametrize("signer", [-1, 4, 2**32, 2**70])
def test_signers_that_are_no_members_do_not_hold(signer):
    participant = participants(context(4, 3))[0]
    statement = Statement("vote", signer, participant.context.digest, b"", bytes(64))
    assert not any(holds(participant, statement, "vote", member) for member in range(4))


def test_verification_is_remembered_without_being_confused():
    participant = participants(context(4, 3))[1]
    statement = stated(participant, "vote", b"one")
    assert statement.is_signed_by(keys_of(1).public.signing)
    assert not statement.is_signed_by(keys_of(2).public.signing)
    forget_verified()
    assert statement.is_signed_by(keys_of(1).public.signing)


# Certificates: signatures of so many members that no other content has as many

MEMBERS, DISHONEST, THRESHOLD = 60, 3, 57


def many_participants(*, sparse: bool) -> list[Participant]:
    hood = Neighbourhood(8, 5) if sparse else None
    return participants(context(MEMBERS, THRESHOLD, DISHONEST, iteration=0, neighbourhood=hood))


def signatures(everyone: list[Participant], signers: range, content: bytes = b"content") -> list[bytes]:
    return [stated(everyone[signer], "vote", content).signature for signer in signers]


@pytest.mark.parametrize("members", [200, 1_000, 10_000, 100_000])
@pytest.mark.parametrize("leaving", [0.01, 0.05, 0.2])
def test_a_sample_misses_too_few_valid_signatures_with_a_probability_that_is_bounded(
    members: int, leaving: float
) -> None:
    named, quorum = int(members * (1 - leaving)), least_threshold(members, members // 20)
    drawn = signatures_drawn(named, quorum, members)
    # All m drawn are among q − 1 valid ones of n: exactly comb(q − 1, m)/comb(n, m).
    assert comb(quorum - 1, drawn) * members * 2**40 <= comb(named, drawn)
    assert drawn < 160


@pytest.mark.parametrize(("named", "quorum"), [(57, 57), (58, 57), (5, 1), (0, 1), (3, 7)])
def test_never_more_are_drawn_than_there_are(named: int, quorum: int) -> None:
    assert 0 <= signatures_drawn(named, quorum, 60) <= named


@pytest.mark.parametrize("sparse", [False, True])
def test_a_certificate_of_t_members_holds(sparse: bool) -> None:
    everyone, signers = many_participants(sparse=sparse), range(1, 1 + THRESHOLD)
    right = b"".join(signatures(everyone, signers))
    forget_verified()
    assert quorum_holds(everyone[0], "vote", b"content", frozenset(signers), right)
    assert not quorum_holds(everyone[0], "vote", b"other", frozenset(signers), right)
    assert not quorum_holds(everyone[0], "heard", b"content", frozenset(signers), right)
    assert not quorum_holds(everyone[0], "vote", b"content", frozenset(signers) - {5}, right)
    assert not quorum_holds(everyone[0], "vote", b"content", frozenset(signers) - {5}, right[64:])
    assert not quorum_holds(everyone[0], "vote", b"content", frozenset(range(THRESHOLD)), right)


def test_where_everyone_is_a_neighbour_every_signature_is_verified() -> None:
    everyone, signers = many_participants(sparse=False), range(THRESHOLD)
    each = signatures(everyone, signers)
    for wrong in (0, 31, THRESHOLD - 1):
        content = b"".join([*each[:wrong], bytes(64), *each[wrong + 1 :]])
        assert not quorum_holds(everyone[58], "vote", b"content", frozenset(signers), content)


def test_fewer_valid_signatures_than_a_quorum_are_noticed_by_every_member_of_a_sparse_sum() -> None:
    """One fewer than a quorum are right, wherever they stand; each member draws a sample of its own."""
    everyone, signers = many_participants(sparse=True), range(THRESHOLD)
    quorum = everyone[0].context.quorum
    assert signatures_drawn(THRESHOLD, quorum, MEMBERS) < THRESHOLD
    right, wrong = signatures(everyone, signers), signatures(everyone, signers, b"another content")
    valid = quorum - 1
    for each in (right[:valid] + wrong[valid:], wrong[: THRESHOLD - valid] + right[THRESHOLD - valid :]):
        content = b"".join(each)
        assert not any(
            quorum_holds(participant, "vote", b"content", frozenset(signers), content) for participant in everyone
        )


def test_samples_differ_between_members_and_certificates() -> None:
    """With one wrong signature some members notice and others do not, and who does depends on where it stands."""
    everyone, signers = many_participants(sparse=True), range(THRESHOLD)
    each = signatures(everyone, signers)
    noticed = []
    for place in (3, 40):
        content = b"".join([*each[:place], bytes(64), *each[place + 1 :]])
        noticed.append(
            [not quorum_holds(participant, "vote", b"content", frozenset(signers), content) for participant in everyone]
        )
    assert all(0 < sum(members) < MEMBERS for members in noticed)
    assert noticed[0] != noticed[1]
