"""What colluders see of a masked sum can be made from the sum of the others alone; each planted bug shows in the same gates.

A vector of 100,000 equal numbers gives 100,000 samples in one run: every entry has its own words of every mask.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats
from sudare.consensus.messages import Message, Passed, Revealed
from sudare.consensus.rehearsal import rehearse
from sudare.consensus.sharing.masks import Seat, apply_pair_mask, masked, opened_dealing

from sudare.consensus import Participant, SumContext, cycle
from sudare.consensus.attacks import parcel_equations, recovered, recovered_addends, recovered_words, transcript_of
from sudare.consensus.sharing import masks, shamir
from sudare.consensus.sharing.chunks import chunk_runs
from sudare.consensus.sharing.shares import additive_shares
from sudare.sums.dissemination import Parcel, covered
from sudare.sums.streams import fresh_seed, stretched
from tests.consensus.sums import context, in_any_order, participants, seats, without_masks_of

SAMPLES = 100_000
# Nine gates for one sample: each a tenth of what is promised of all, 1e-6. Chi-square values are approximate in the far
# tail, so theirs is a thousand times stricter still.
SMALLEST_KS_P = 1e-7
SMALLEST_CHI_SQUARE_P = 1e-10


def is_uniform(words: np.ndarray) -> bool:
    """Kolmogorov–Smirnov on the whole words, and chi-square on each of their eight bytes."""
    if stats.kstest(words / 2.0**64, "uniform").pvalue <= SMALLEST_KS_P:
        return False
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)
    return all(
        stats.chisquare(np.bincount(octets[:, place], minlength=256)).pvalue > SMALLEST_CHI_SQUARE_P
        for place in range(8)
    )


def constant_words(values: list[int]) -> np.ndarray:
    """Each member's value, over and over."""
    return np.repeat(np.array(values, dtype=np.int64).view(np.uint64)[:, np.newaxis], SAMPLES, axis=1)


def seen_by(colluders: set[int], where: SumContext, words: np.ndarray) -> tuple[list[Participant], list[Message]]:
    """A run that nobody leaves, and every message that colluders received from others."""
    seen: list[Message] = []

    def watch(message: Message) -> None:
        if message.receiver in colluders and message.sender not in colluders:
            seen.append(message)

    members = participants(where, words)
    in_any_order(members, {}, random.Random(0), watch=watch)
    return members, seen


def residues(
    where: list[Seat], words: np.ndarray, colluders: set[int], seen: list[Message], opened: bool
) -> dict[frozenset[int], np.ndarray]:
    """What is left of each window and partial sum when colluders take off all that they know, by the honest members in it."""
    count = len(where)
    hidden = [masked(seat, row) for seat, row in zip(where, words, strict=True)]
    honest = {
        member: without_masks_of(hidden[member], where, member, colluders, opened)
        for member in range(count)
        if member not in colluders
    }
    found = {}
    for message in seen:
        if isinstance(message.body, Passed):
            parcel = Parcel(message.sender, message.receiver, message.body.round)
            for span, value in zip(covered(parcel, count), (message.body.window, message.body.partial), strict=True):
                if value is not None:
                    inside = [place % count for place in span]
                    np.testing.assert_array_equal(value, np.sum([hidden[member] for member in inside], axis=0))
                    these = frozenset(inside) - colluders
                    if these:
                        found[these] = np.sum([honest[member] for member in these], axis=0, dtype=np.uint64)
    return found


@pytest.mark.parametrize(
    ("members", "threshold", "colluders"),
    [(4, 4, {0, 2}), (5, 5, {0, 2, 3}), (7, 7, {1, 2, 3, 4, 6}), (5, 4, {0, 2, 3}), (8, 5, {0, 1, 4, 6})],
)
def test_colluders_see_uniform_words_and_the_sum_of_the_others(members, threshold, colluders):
    """S − 2 colluders without repair, t − 1 with it, after everything was opened."""
    values = [3, -7, 11, 1000, -5, 2**40, 0, 9][:members]
    words = constant_words(values)
    where = context(members, threshold)
    places = seats(where)
    state, seen = seen_by(colluders, where, words)
    np.testing.assert_array_equal(state[0].total, words.sum(axis=0, dtype=np.uint64))
    everyone_honest = frozenset(range(members)) - colluders
    views = residues(places, words, colluders, seen, opened=threshold < members)
    part = {these: view for these, view in views.items() if these != everyone_honest}
    assert part
    for view in part.values():
        assert is_uniform(view)
    honest_sum = np.int64(sum(values[member] for member in everyone_honest)).view(np.uint64)
    for these, view in part.items():
        # Whatever completes it to all honest members gives their sum, and nothing else is fixed.
        rest = np.sum(
            [
                without_masks_of(masked(places[member], words[member]), places, member, colluders, threshold < members)
                for member in everyone_honest - these
            ],
            axis=0,
            dtype=np.uint64,
        )
        assert is_uniform(rest)
        assert set((view + rest).tolist()) == {int(honest_sum)}


def test_views_are_what_a_simulator_makes_from_the_sum():
    """Two honest members: a uniform word and the sum minus it. Real and simulated pairs have the same law, other values too."""
    colluders, pairs = {0, 2}, []
    for values in ([1, 500, 1, -400], [1, -3, 1, 103]):
        where, words = context(4), constant_words(values)
        places = seats(where)
        views = residues(places, words, colluders, seen_by(colluders, where, words)[1], opened=False)
        first = views.get(frozenset({1}), np.uint64(100) - views.get(frozenset({3}), np.uint64(0)))
        pairs.append(first)
    simulated = stretched(fresh_seed(), SAMPLES)
    for real in pairs:
        assert stats.ks_2samp(real / 2.0**64, simulated / 2.0**64).pvalue > SMALLEST_KS_P
        octets = [
            np.bincount((each >> np.uint64(shift)).astype(np.uint8), minlength=256)
            for each in (real, simulated)
            for shift in (0, 56)
        ]
        assert stats.chi2_contingency([octets[0], octets[2]]).pvalue > SMALLEST_CHI_SQUARE_P
        assert stats.chi2_contingency([octets[1], octets[3]]).pvalue > SMALLEST_CHI_SQUARE_P


# Leaving after the first round


def left_after_the_first_round() -> tuple[list[Seat], np.ndarray, list[Message], frozenset[int]]:
    """S = 6, t = 4: members 2 and 3 leave after round 0. Only colluder 2 got member 3's masked value; the others repair the sum."""
    where, words = context(6, 4), constant_words([5, 6, 7, 1234, 8, 9])
    messages: list[Message] = []
    members = participants(where, words)
    rehearse(members, {2: 11, 3: 11}, messages.append)
    (included,) = {members[member].included for member in (0, 1, 4, 5)}
    assert included is not None
    np.testing.assert_array_equal(members[0].total, words[sorted(included)].sum(axis=0, dtype=np.uint64))
    return seats(where), words, messages, included


def test_one_who_left_after_the_first_round_stays_hidden_after_the_repair():
    """Colluders 0, 2 and 5 (t − 1 of them) hold its masked value, learn all its pairwise seeds, and still see uniform words."""
    places, words, messages, included = left_after_the_first_round()
    assert included == frozenset({0, 1, 2, 4, 5})
    (heard,) = [message.body.window for message in messages if isinstance(message.body, Passed) and message.sender == 3]
    np.testing.assert_array_equal(heard, masked(places[3], words[3]))
    everyone_else = {0, 1, 2, 4, 5}
    assert is_uniform(without_masks_of(heard, places, 3, everyone_else, self_mask=False))
    # The planted bug: without self-masks the repair gives the value away, and the gate says so.
    exposed = without_masks_of(heard, places, 3, everyone_else, self_mask=True)
    assert not is_uniform(exposed)
    assert set(exposed.tolist()) == {1234}


def test_colluders_never_hold_enough_shares_of_its_self_seed():
    places, _, messages, included = left_after_the_first_round()
    colluders = {0, 2, 5}
    revealed = [message.body for message in messages if isinstance(message.body, Revealed)]
    assert {body.included for body in revealed} == {included}
    assert not any(body.boxes.keys() & included for body in revealed)
    own, dealt = masks.dealings(places[3])
    self_shares = {holder: opened_dealing(places[holder], 3, dealt[holder]).of_self_seed for holder in colluders}
    given = [body.shares[3] for body in revealed if 3 in body.shares]
    # What others gave of member 3 is of its box: none is a share of the self-seed.
    every_self_share = {
        tuple(opened_dealing(places[holder], 3, dealt[holder]).of_self_seed) for holder in (0, 1, 2, 4, 5)
    }
    assert not every_self_share & {tuple(share) for share in given}
    assert len(self_shares) == places[3].context.threshold - 1
    assert tuple(own.of_self_seed) not in {tuple(share) for share in given}


def test_a_total_that_one_colluder_completed_does_not_give_a_second_one():
    """S = 8, t = 5: only colluder 2 heard member 3, and holds the masked total over all; the others open one without member 3.

    The difference of the two is member 3's value under its self-mask.
    """
    where, words = context(8, 5), constant_words([1, 2, 3, 4321, 5, 6, 7, 8])
    members, messages = participants(where, words), list[Message]()
    rehearse(members, {2: 15, 3: 15}, messages.append)
    (included,) = {members[member].included for member in (0, 1, 4, 5, 6, 7)}
    assert included == frozenset(range(8)) - {3}
    places = seats(where)
    to_colluder = [
        message.body.window
        for message in messages
        if message.receiver == 2 and isinstance(message.body, Passed) and not message.body.left
    ]
    masked_total = np.sum([masked(places[2], words[2]), *to_colluder], axis=0, dtype=np.uint64)
    everyone = [masked(seat, row) for seat, row in zip(places, words, strict=True)]
    np.testing.assert_array_equal(masked_total, np.sum(everyone, axis=0, dtype=np.uint64))
    total = members[0].total
    assert total is not None
    difference = masked_total - total
    for member in included:
        difference -= stretched(places[member].self_seed(), SAMPLES)
    assert is_uniform(difference)
    # The planted bug: without self-masks the difference of the two totals is the value.
    exposed = difference - stretched(places[3].self_seed(), SAMPLES)
    assert set(exposed.tolist()) == {4321}


# Shares


@pytest.mark.parametrize(("threshold", "count"), [(2, 3), (3, 4), (5, 8)])
@pytest.mark.parametrize("secret", [0, 123456789])
def test_fewer_shares_than_the_threshold_are_uniform(threshold, count, secret):
    secrets = np.full(SAMPLES, secret, dtype=np.uint64)
    shares = shamir.shares_of(secrets, threshold, count, fresh_seed())
    held = shares[-(threshold - 1) :]
    for share in held:
        # 61 uniform bits, moved up to the top of a word with random ones below.
        assert is_uniform((share << np.uint64(3)) | (stretched(fresh_seed(), SAMPLES) >> np.uint64(61)))
    joint = np.bincount(sum((share >> np.uint64(59)).astype(int) * 4**place for place, share in enumerate(held)))
    assert stats.chisquare(joint).pvalue > SMALLEST_CHI_SQUARE_P
    # The planted bug: one degree too few, and t − 1 holders have the secret.
    weak = shamir.shares_of(secrets, threshold - 1, count, fresh_seed())[: threshold - 1]
    found = shamir.secrets_from(dict(enumerate(weak)), threshold - 1)
    assert set(found.tolist()) == {secret}
    # The correct ones, interpolated the same way, give a uniform answer.
    guess = shamir.secrets_from(dict(enumerate(shares[: threshold - 1])), threshold - 1)
    assert is_uniform((guess << np.uint64(3)) | (stretched(fresh_seed(), SAMPLES) >> np.uint64(61)))


def test_all_additive_shares_but_one_are_uniform_whichever_is_missing():
    words = np.full(SAMPLES, 77, dtype=np.uint64)
    shares = additive_shares(words, 4)
    for missing in range(4):
        others = [share for place, share in enumerate(shares) if place != missing]
        assert all(is_uniform(share) for share in others)
        assert is_uniform(others[0] + others[1] + others[2])


# Planted bugs in masks


def short_masks(seed, count, into=None):
    """Words of 32 bits: enough for the numbers, not for hiding them."""
    return stretched(seed, count) >> np.uint64(32)


def one_word_masks(seed, count, into=None):
    """One word for the whole vector."""
    return np.full(count, stretched(seed, 1)[0])


def small_float_masks(seed, count, into=None):
    """Whole numbers up to 2^40, as masks on floats would be."""
    return stretched(seed, count) >> np.uint64(24)


@pytest.mark.parametrize("bug", [short_masks, one_word_masks, small_float_masks])
def test_weak_masks_are_found(bug, monkeypatch):
    where, words = context(4), constant_words([1, 2, 3, 4])
    places = seats(where)
    monkeypatch.setattr(masks, "stretched", bug)
    hidden = masked(places[1], words[1])
    assert not is_uniform(without_masks_of(hidden, places, 1, {0, 2}, self_mask=False))


def test_masks_with_neighbours_only_are_found():
    """Masks along a ring, as cheap as they are useless: both neighbours collude and nothing is left."""
    places, words = seats(context(6)), constant_words([1, 2, 3, 4, 5, 6])
    hidden = words[2].copy()
    for other in (1, 3):
        apply_pair_mask(hidden, 2, other, places[2].pair_seed(other))
    assert not is_uniform(without_masks_of(hidden, places, 2, {1, 3}, self_mask=False))
    assert is_uniform(without_masks_of(masked(places[2], words[2]), places, 2, {1, 3}, self_mask=False))


# A curious member that remembers


def test_the_observability_attack_reads_chunks_and_not_masks():
    """Twelve members on a cycle, five chunks: one member recovers everyone's value. From masks it recovers masked words."""
    values = np.random.default_rng(3).uniform(-10, 10, (12, 4))
    runs = list(chunk_runs(values, cycle(12, 2), 5, 10.0, "constant", 1e-3, fresh_seed()))
    recoveries = [recovered(run.plan, [0], transcript_of(run.values, run.plan, [0])) for run in runs]
    assert np.abs(recovered_addends(recoveries) - values).max() < 1e-9

    scale = 2.0**32
    words = np.rint(values * scale).astype(np.int64).view(np.uint64)
    where = context(12)
    _, seen = seen_by({0}, where, words)
    hidden = [masked(seat, row) for seat, row in zip(seats(where), words, strict=True)]
    parcels = [
        Parcel(message.sender, message.receiver, message.body.round, message.body.window, message.body.partial)
        for message in seen
        if isinstance(message.body, Passed)
    ]
    found = recovered_words(*parcel_equations(12, 0, hidden[0], parcels))
    assert set(found) == {0, 1}
    np.testing.assert_array_equal(found[1], hidden[1])
    # The best it can say of member 1 is a uniform word: off by more than the whole range in all four entries but by chance 1e-7.
    assert np.abs(found[1].view(np.int64) / scale - values[1]).max() > 1e6
