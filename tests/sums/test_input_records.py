"""What a member remembers of an input: the same data in every attempt, and one set of members."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sudare.errors import MaskReused, SecondTotalRefused, SumError
from sudare.sums.context import bitmap
from sudare.sums.input_records import admitted
from tests.sums.parties import SPARSE, context, participants, random_words


def test_other_data_of_the_same_input_are_refused_in_every_attempt():
    where, words = context(4, 3), random_words(2, 3)
    record = admitted(participants(where)[0], words[0], None)
    for attempt in (0, 1, 5):
        again = participants(replace(where, attempt=attempt))[0]
        with pytest.raises(MaskReused, match="other data"):
            admitted(again, words[1], record)
        assert admitted(again, words[0].copy(), record) == record


def test_every_word_counts_and_so_does_the_length():
    participant, words = participants(context(4, 3))[0], random_words(1, 5)[0]
    record = admitted(participant, words, None)
    for place in range(5):
        other = words.copy()
        other[place] ^= np.uint64(1)
        with pytest.raises(MaskReused):
            admitted(participant, other, record)
    for other in (words[:4], np.append(words, np.uint64(0))):
        with pytest.raises(MaskReused):
            admitted(participant, other, record)


def test_records_of_another_input_are_refused():
    where, words = context(4, 3), random_words(1, 3)[0]
    record = admitted(participants(where)[0], words, None)
    for field, value in (("iteration", 1), ("task", "other"), ("agreement", "other")):
        with pytest.raises(SumError, match="another input"):
            admitted(participants(replace(where, **{field: value}))[0], words, record)


def test_records_do_not_let_data_be_guessed():
    """The tag depends on the member's own secret, and on the input: others with the same data have other tags."""
    where, words = context(3), random_words(1, 3)[0]
    tags = {
        admitted(participant, words, None).data_tag for participant in (*participants(where), *participants(context(3)))
    }
    assert len(tags) == 6


def test_one_set_of_members_is_voted_for():
    where = context(4, 3)
    record = admitted(participants(where)[0], random_words(1, 3)[0], None)
    assert record.voted_for is None
    four, three = bitmap(range(4), 4), bitmap(range(3), 4)
    voted = record.with_vote(where, four)
    assert (voted.voted_for, voted.voted_in) == (four, where.attempt)
    assert voted.with_vote(where, four) == voted
    later = replace(where, attempt=1)
    assert voted.with_vote(later, four).voted_for == four
    for attempt in (where, later):
        with pytest.raises(SecondTotalRefused, match="same input"):
            voted.with_vote(attempt, three)


def test_on_a_sparse_graph_one_attempt_is_voted_in():
    """There a lying collector can leave a few members out of what it opens: two attempts over one set could show the difference."""
    where = context(10, 8, neighbourhood=SPARSE)
    everyone = bitmap(range(10), 10)
    voted = admitted(participants(where)[0], random_words(1, 3)[0], None).with_vote(where, everyone)
    assert voted.with_vote(where, everyone) == voted
    with pytest.raises(SecondTotalRefused):
        voted.with_vote(replace(where, attempt=1), everyone)
