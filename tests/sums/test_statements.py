"""Signed statements: bound to kind, signer, sum and content; and two that differ contradict each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.sums.statements import KINDS, Statement, forget_verified, holds, stated
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
