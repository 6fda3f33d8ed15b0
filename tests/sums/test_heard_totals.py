"""Which total members heard: only signed statements count, each member's first, and differences are kept as evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sudare.sums.heard_totals import HeardTotals
from sudare.sums.messages import Heard, heard_content
from sudare.sums.statements import stated
from tests.sums.parties import context, contradict, participants, random_words

WORDS = random_words(2, 3)


def heard(where, member: int, which: int = 0, collector: int | None = 0) -> Heard:
    """What a member says it heard; with the word of the collector where there is one."""
    content = heard_content(where[0].context, frozenset(range(len(where))), WORDS[which])
    word = None if collector is None else stated(where[collector], "total", content)
    return Heard(stated(where[member], "heard", content), word)


@pytest.mark.parametrize("threshold", [3, 4])
def test_those_who_heard_the_same_agree(threshold):
    where = participants(context(4, threshold))
    collector = 0 if threshold == 3 else None
    heard_totals = HeardTotals()
    assert heard_totals.agreeing == frozenset()
    for member in (2, 3):
        heard_totals = heard_totals.with_other(where[1], member, heard(where, member, collector=collector))
    assert heard_totals.agreeing == frozenset()
    assert not heard_totals.contradiction
    heard_totals = heard_totals.with_own(heard(where, 1, collector=collector))
    assert heard_totals.agreeing == frozenset({2, 3})
    assert not heard_totals.contradiction
    assert len(heard_totals.statements) == (6 if threshold == 3 else 3)


def test_only_the_first_word_of_a_member_counts_so_that_nothing_grows():
    where = participants(context(4))
    heard_totals = HeardTotals().with_other(where[1], 2, heard(where, 2, collector=None))
    assert heard_totals.with_other(where[1], 2, heard(where, 2, which=1, collector=None)) is heard_totals


def test_what_is_not_signed_by_its_sender_and_the_collector_is_not_heard():
    where = participants(context(4, 3))
    good = heard(where, 2)
    other_total = heard(where, 2, which=1).total
    nothing = HeardTotals()
    for sender, body in (
        (3, good),
        (2, replace(good, total=None)),
        (2, replace(good, total=other_total)),
        (2, heard(where, 2, collector=1)),
        (2, replace(good, heard=replace(good.heard, signature=bytes(64)))),
        (2, replace(good, heard=good.total)),
        (2, heard(participants(context(4, 3)), 2)),
    ):
        assert nothing.with_other(where[1], sender, body) is nothing
    assert nothing.with_other(where[1], 2, good).others == {2: good}


@pytest.mark.parametrize("own_first", [True, False])
def test_different_totals_contradict_each_other_and_the_proof_is_kept(own_first):
    """The collector's two words are proof against it; members' words alone show that somebody lied."""
    where = participants(context(4, 3))
    own, other = heard(where, 1), heard(where, 2, which=1)
    heard_totals = HeardTotals().with_own(own) if own_first else HeardTotals()
    heard_totals = heard_totals.with_other(where[1], 2, other)
    if not own_first:
        assert not heard_totals.contradiction
        heard_totals = heard_totals.with_own(own)
    words = [statement for statement in heard_totals.contradiction if statement.kind == "total"]
    assert len(words) == 2
    assert contradict(words[0], words[1])
    assert set(heard_totals.contradiction) <= set(heard_totals.statements)


def test_a_difference_between_two_others_is_seen_before_own_total_came():
    where = participants(context(4))
    heard_totals = HeardTotals()
    for member, which in ((2, 0), (3, 1)):
        heard_totals = heard_totals.with_other(where[1], member, heard(where, member, which, collector=None))
    assert len(heard_totals.contradiction) == 2
    assert {each.signer for each in heard_totals.contradiction} == {2, 3}
