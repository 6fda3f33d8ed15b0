"""What dishonest members and a lying collector hold of a sum determines the sum of the others and nothing else; each planted bug shows.

Exactly: streams whose seeds the adversary cannot compute are unknowns, and linear algebra modulo 2^64 says which combinations of honest addends
its equations determine (`tests.sums.views`). Statistically: a vector of 100,000 equal numbers gives 100,000 samples in one run, as
every entry has its own words of every mask.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from sudare.errors import SecondTotalRefused
from sudare.papers.p003_decentralised.attacks import recovered, recovered_addends, transcript_of
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.other_hidden_sums import additive_shares, chunk_runs
from sudare.sums import keys, masks, member, serverless, shamir
from sudare.sums.context import Participant, Roster, SumContext, least_threshold
from sudare.sums.dissemination import Parcel
from sudare.sums.input_records import InputRecord
from sudare.sums.keys import MemberKeys
from sudare.sums.masks import add_pair_masks, lasting_pair_seed, mask_of, self_seed
from sudare.sums.messages import Message, OpenedShares, Passed, Revealed
from sudare.sums.neighbour_graph import Neighbourhood
from sudare.sums.pseudorandom_streams import fresh_seed, stretched
from sudare.sums.statements import stated
from tests.sums.montgomery import translated
from tests.sums.parties import SPARSE, context, participants, parties, random_words, roster, secrets_from, sent_by_all
from tests.sums.views import (
    Told,
    View,
    attacked,
    determined_sums,
    equations,
    everyone_told,
    leaks,
    serverless_view,
)
from tests.sums.word_equations import parcel_equations, recovered_words

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


def constant_words(values: Sequence[int]) -> np.ndarray:
    """Each member's value, over and over."""
    return np.repeat(np.array(values, dtype=np.int64).view(np.uint64)[:, np.newaxis], SAMPLES, axis=1)


def recovered_of(views: Sequence[View]) -> dict[int, list[int]]:
    """The addends that the adversary solves for, by member."""
    unknowns, matrix, observed = equations(views)
    found = recovered_words(matrix, observed) if len(matrix) else {}
    return {unknowns[place][2]: each.tolist() for place, each in found.items() if unknowns[place][0] == "addend"}


def honest_sum(where: SumContext, members: frozenset[int]) -> dict[tuple[str, bytes, int], int]:
    return {("addend", where.input_digest, each): 1 for each in sorted(members)}


# Exactly: nobody may leave


@pytest.mark.parametrize(
    ("members", "corrupt"), [(2, ()), (3, (1,)), (4, (0, 2)), (5, (0, 2, 3)), (7, (1, 2, 3, 4, 6)), (9, (4,))]
)
def test_colluders_of_a_sum_without_a_collector_determine_the_sum_of_the_others_only(members, corrupt):
    where, words = context(members, dishonest=len(corrupt)), random_words(members, 2)
    view = serverless_view(participants(where), words, frozenset(corrupt))
    honest = frozenset(range(members)) - set(corrupt)
    assert determined_sums([view]) == [honest_sum(where, honest)]
    assert recovered_of([view]) == {}


def test_members_that_heard_different_totals_before_show_nothing_at_all():
    """Half of the honest members have another history: no mask of one half is in the other, and not even a sum is left."""
    where, words = context(6, dishonest=1), random_words(6, 2)
    views = []
    for history, group in ((bytes(32), {1, 2}), (b"h" * 32, {3, 4, 5})):
        view = serverless_view(participants(replace(where, history=history)), words, frozenset({0}))
        view.masked = {position: each for position, each in view.masked.items() if position in group}
        views.append(view)
    assert determined_sums(views) == []


# Exactly: members may leave


def chains(members: int, threshold: int) -> Iterator[Told]:
    """All ways in which members are absent, present, have dealt, or are in the sum of at least t."""
    for stages in product(range(4), repeat=members):
        sets = [frozenset(place for place, stage in enumerate(stages) if stage >= least) for least in (1, 2, 3)]
        if len(sets[2]) >= threshold:
            yield everyone_told(present=sets[0], dealt=sets[1], included=sets[2])


def check_every_opened_set(members: int, threshold: int, corrupt: frozenset[int], every: int = 1) -> int:
    """For everything that a collector can tell all members alike: exactly the sum over the honest members of the set is determined."""
    words = random_words(members, 2)
    checked = 0
    for told in list(chains(members, threshold))[::every]:
        where = context(members, threshold, len(corrupt))
        view = attacked(where, words, corrupt, told)
        included = told["included"](0) - corrupt
        assert determined_sums([view]) == [honest_sum(where, included)]
        assert recovered_of([view]) == {}
        assert leaks([view], corrupt) == []
        checked += 1
    return checked


def test_every_set_that_can_be_opened_shows_its_sum_only():
    assert check_every_opened_set(5, 4, frozenset({0})) == 16


@pytest.mark.long
@pytest.mark.parametrize(
    ("members", "threshold", "corrupt"), [(6, 4, {0}), (6, 5, {0, 3}), (7, 5, {0, 3}), (7, 6, {0, 1, 2, 3})]
)
def test_every_set_of_more_members_that_can_be_opened_shows_its_sum_only(members, threshold, corrupt):
    assert check_every_opened_set(members, threshold, frozenset(corrupt)) > 1


def test_sets_of_seven_members_show_their_sum_only():
    check_every_opened_set(7, 5, frozenset({0, 4}), every=29)


def test_without_a_certificate_nothing_is_shown():
    """Fewer votes than t: no share is given, and every honest vector stays under its self-mask."""
    where, words = context(6, 4, 1), random_words(6, 2)
    sets = {1: frozenset(range(6)), 2: frozenset(range(6)), 3: frozenset({0, 3, 4, 5}), 4: frozenset({0, 2, 3, 4})}
    view = attacked(where, words, frozenset({0}), {"included": lambda member: sets.get(member, frozenset(range(5)))})
    assert determined_sums([view]) == []
    assert len(view.masked) == 5


def random_told(members: int, threshold: int, order: random.Random) -> Told:
    """A collector that tells each member one of two sets at each stage; of each stage mostly the same."""

    def sets() -> list[frozenset[int]]:
        full = frozenset(range(members))
        count = order.choice([0, 1, members - threshold, members - threshold])
        return [full - frozenset(order.sample(range(1, members), min(each, members - 1))) for each in (count, 0)]

    found: dict[str, object] = {}
    before: list[frozenset[int]] = [frozenset(range(members))] * 2
    for stage in ("present", "dealt", "included"):
        two = [first & second for first, second in zip(sets(), before, strict=True)]
        share = order.choice([0.0, 0.0, 0.0, 0.15, 0.4])
        which = [two[order.random() < share] for _ in range(members)]
        found[stage] = lambda member, which=which: which[member]
        before = two
    return found  # type: ignore[return-value]


def lied_to(seed: int) -> tuple[list[View], frozenset[int]]:
    """Two attempts at one input under a collector that tells different members different things, and who is dishonest."""
    order = random.Random(seed)
    members = order.randint(4, 8)
    corrupt_count = order.randint(1, members - 3)
    threshold = order.randint(least_threshold(members, corrupt_count), members - 1)
    corrupt = frozenset({0, *order.sample(range(1, members), corrupt_count - 1)})
    where, words = context(members, threshold, corrupt_count), random_words(members, 2, seed)
    views: list[View] = []
    for attempt in (0, members):
        records = views[-1].records if views else None
        told = random_told(members, threshold, order)
        views.append(attacked(replace(where, attempt=attempt), words, corrupt, told, records))
    return views, corrupt


def check_lying_collector(seed: int) -> bool:
    """Whether anything was opened; nothing more than the theorem allows."""
    views, corrupt = lied_to(seed)
    assert leaks(views, corrupt) == []
    assert recovered_of(views) == {}
    return bool(determined_sums(views))


def test_a_collector_that_tells_members_different_things_gets_one_sum_at_most():
    opened = [check_lying_collector(seed) for seed in range(60)]
    assert 10 < sum(opened) < 50


def test_the_same_search_finds_second_votes(monkeypatch):
    monkeypatch.setattr(InputRecord, "with_vote", lambda self, where, included: replace(self, voted_for=included))
    assert any(leaks(*lied_to(seed)) for seed in range(60))


@pytest.mark.long
@pytest.mark.parametrize("batch", range(40))
def test_many_collectors_that_tell_members_different_things_get_one_sum_at_most(batch):
    for seed in range(1000 + 50 * batch, 1050 + 50 * batch):
        check_lying_collector(seed)


def test_sparse_graphs_that_are_connected_show_the_sum_only():
    """Twelve members with eight neighbours each: every honest part of a set hangs together by masks that stay closed."""
    for leaving in ((), (11,), (5, 11)):
        where = context(12, 10, 1, neighbourhood=Neighbourhood(8, 5))
        included = frozenset(range(12)) - frozenset(leaving)
        view = attacked(where, random_words(12, 2), frozenset({0}), everyone_told(included=included))
        assert leaks([view], frozenset({0})) == []
        assert determined_sums([view]) == [honest_sum(where, included - {0})]


# What honest c counts


def split_told(first: set[int], second: set[int], group: set[int]) -> Told:
    """One set for a group, another for the others."""
    return {"included": lambda member: frozenset(first if member in group else second)}


def test_a_collector_that_is_a_member_counts_among_the_dishonest():
    """S = 3, t = 2 allows none: a member that collects and lies has both others vote for different sets, and opens both.

    With one dishonest member expected, t = 2 is refused for three members.
    """
    where, words = context(3, 2, 0), random_words(3, 2)
    view = attacked(where, words, frozenset({0}), split_told({0, 1}, {0, 2}, {1}))
    assert leaks([view], frozenset({0}))
    assert recovered_of([view])[1] == words[1].tolist()
    with pytest.raises(Exception, match="two totals"):
        context(3, 2, 1)
    four = context(4, 3, 1)
    view = attacked(four, random_words(4, 2), frozenset({0}), split_told({0, 1, 2}, {0, 2, 3}, {1}))
    assert leaks([view], frozenset({0})) == []


# Planted bugs


def test_a_forgotten_self_mask_is_found(monkeypatch):
    """Member 3 is left out although its vector came: its key is opened, and nothing else hides it."""
    told = everyone_told(included=(0, 1, 2, 4))
    where, words = context(5, 4, 1), random_words(5, 2)
    assert leaks([attacked(where, words, frozenset({0}), told)], frozenset({0})) == []
    monkeypatch.setattr(member, "mask_of", lambda seed, count: np.zeros(count, dtype=np.uint64))
    view = attacked(context(5, 4, 1), words, frozenset({0}), told)
    assert "a sum of 1" in leaks([view], frozenset({0}))
    assert recovered_of([view])[3] == words[3].tolist()


class ForgetsIteration(SumContext):
    """The planted bug: the digest that masks depend on is the same in every iteration."""

    @cached_property
    def digest(self) -> bytes:
        values = {each.name: getattr(self, each.name) for each in fields(SumContext)}
        return SumContext(**{**values, "iteration": 0}).digest


@pytest.mark.parametrize("kind", [SumContext, ForgetsIteration])
def test_masks_that_are_used_in_two_sums_are_found(kind):
    """Member 3 is left out of the first sum and in the second: its key is opened in one, its self-seed in the other."""
    views = []
    for number, included in ((5, (0, 1, 2, 4)), (10, range(5))):
        where = kind(
            "tests", "sums", number, 0, roster(5), 4, 1, history=fresh_seed() if kind is SumContext else bytes(32)
        )
        views.append(attacked(where, random_words(5, 2, number), frozenset({0}), everyone_told(included=included)))
    found = leaks(views, frozenset({0}))
    if kind is SumContext:
        assert found == []
        assert len(determined_sums(views)) == 2
    else:
        assert found
        assert 3 in recovered_of(views)


def test_both_halves_of_a_secret_are_found(monkeypatch):
    told = everyone_told(included=(0, 1, 2, 4))
    original = member._reveal

    def both(participant, state, body):
        after, _ = original(participant, state, body)
        shares = OpenedShares(
            {owner: held.of_self_seed for owner, held in state.shares.items()},
            {owner: held.of_mask_key for owner, held in state.shares.items()},
        )
        message = Message(
            participant.position,
            participant.context.collector,
            Revealed(stated(participant, "shares", shares.to_bytes())),
        )
        return after, (message,)

    monkeypatch.setattr(member, "_reveal", both)
    words = random_words(5, 2)
    view = attacked(context(5, 4, 1), words, frozenset({0}), told)
    assert leaks([view], frozenset({0}))
    assert recovered_of([view]) == {place: words[place].tolist() for place in range(1, 5)}


class Lenient(SumContext):
    """A context in which one vote fewer is enough."""

    def __post_init__(self) -> None:
        pass


@pytest.mark.parametrize("is_lenient", [False, True])
def test_a_certificate_of_one_vote_too_few_is_found(is_lenient, monkeypatch):
    """S = 10, t = 7, two dishonest: four honest members are told that the victim is in the sum, four that it is not.

    With the two dishonest votes that makes six for each set. Were six enough, the victim's neighbours would open both its secrets.
    """
    original = member._reveal

    def lenient(participant, state, body):
        values = {each.name: getattr(participant.context, each.name) for each in fields(SumContext)}
        where = Lenient(**{**values, "threshold": participant.context.threshold - 1})
        where.__dict__["digest"] = participant.context.digest
        return original(replace(participant, context=where), state, body)

    if is_lenient:
        monkeypatch.setattr(member, "_reveal", lenient)
    where, words = context(10, 7, 2, neighbourhood=SPARSE), random_words(10, 2)
    victim, chosen = next((s.position, s.out_neighbours) for s in participants(where)[1:] if 0 in s.out_neighbours)
    corrupt = frozenset({0, next(each for each in chosen if each != 0)})
    near = [each for each in chosen if each not in corrupt]
    far = [each for each in range(10) if each not in (*chosen, victim)]
    told = split_told(set(range(10)), set(range(10)) - {victim}, {victim, *near[:2], far[0]})
    view = attacked(where, words, corrupt, told)
    assert recovered_of([view]) == ({victim: words[victim].tolist()} if is_lenient else {})
    assert bool(leaks([view], corrupt)) == is_lenient


@pytest.mark.parametrize("votes_twice", [False, True])
def test_a_second_vote_for_one_input_is_found(votes_twice, monkeypatch):
    """The first attempt is opened over everyone, the second without member 3: the difference is its addend."""
    if votes_twice:
        monkeypatch.setattr(InputRecord, "with_vote", lambda self, where, included: replace(self, voted_for=included))
    where, words, corrupt = context(5, 4, 1), random_words(5, 2), frozenset({0})
    first = attacked(where, words, corrupt, {})
    later = replace(where, attempt=5)
    second = attacked(later, words, corrupt, everyone_told(dealt=(0, 1, 2, 4), included=(0, 1, 2, 4)), first.records)
    found = leaks([first, second], corrupt)
    if votes_twice:
        assert found
        assert recovered_of([first, second])[3] == words[3].tolist()
    else:
        assert found == []
        assert second.votes == {}
        with pytest.raises(SecondTotalRefused):
            first.records[1].with_vote(later, b"\x17")


class Careless(Roster):
    """A roster that takes two members with one key."""

    def __post_init__(self) -> None:
        pass


@pytest.mark.parametrize("kind", ["the same", "high bit", "order 8"])
@pytest.mark.parametrize("is_bound", [True, False])
def test_a_reflected_key_is_found_where_secrets_are_not_bound_to_names_and_keys(kind, is_bound, monkeypatch):
    """Member 2 shows the key of member 0, as it is or moved: member 1's masks with both would cancel, and its addend stand in clear."""
    if not is_bound:
        monkeypatch.setattr(masks, "pair_seed", lambda context, secret, first, second: secret)
        monkeypatch.setattr(keys, "extracted", lambda salt, secret: secret[:32])
    # Fresh keys: secrets are remembered.
    owned = [
        MemberKeys(bytes([place + 1]) * 32, bytes([place + 11]) * 32, bytes([place + 21]) * 32) for place in range(3)
    ]
    shown = owned[0].public.exchange
    reflected = shown if kind == "the same" else translated(shown, kind)
    publics = (owned[0].public, owned[1].public, replace(owned[2].public, exchange=reflected))
    where = context(3, roster=Careless(roster(3).members, publics), dishonest=1)
    words = random_words(3, 2)
    view = serverless_view([Participant(where, place, owned[place]) for place in (0, 1)], words, frozenset())
    assert (recovered_of([view]).get(1) == words[1].tolist()) == (not is_bound)
    if is_bound:
        assert determined_sums([view]) == []


# Statistically


@pytest.mark.parametrize(
    ("members", "threshold", "corrupt"), [(4, 4, {0, 2}), (5, 5, {0, 2, 3}), (5, 4, {0}), (8, 6, {0, 1, 4})]
)
def test_colluders_see_uniform_words_and_the_sum_of_the_others(members, threshold, corrupt):
    """After everything was opened: every proper part of the honest members is uniform, all of them give their sum."""
    values = [3, -7, 11, 1000, -5, 2**40, 0, 9][:members]
    words, adversary = constant_words(values), frozenset(corrupt)
    where = context(members, threshold, len(corrupt))
    view = (
        serverless_view(participants(where), words, adversary)
        if threshold == members
        else attacked(where, words, adversary, {})
    )
    _, _, observed = equations([view])
    honest = [member for member in range(members) if member not in corrupt]
    assert len(observed) == len(honest)
    total = np.int64(sum(values[member] for member in honest)).view(np.uint64)
    assert set(observed.sum(axis=0, dtype=np.uint64).tolist()) == {int(total)}
    parts = [part for count in range(1, len(honest)) for part in combinations(range(len(honest)), count)]
    for part in parts[:: max(1, len(parts) // 6)]:
        assert is_uniform(observed[list(part)].sum(axis=0, dtype=np.uint64))


def test_one_who_is_left_out_stays_hidden():
    """Its vector came and its key was opened; its self-mask stays closed. Without it its value would stand there."""
    where, words = context(5, 4, 1), constant_words([5, 6, 7, 1234, 8])
    view = attacked(where, words, frozenset({0}), everyone_told(included=(0, 1, 2, 4)))
    hidden = view.masked[3].copy()
    for (kind, seed, _), coefficient in view.made_of[3].items():
        if kind == "stream" and seed in view.known_seeds:
            hidden -= np.uint64(coefficient % 2**64) * mask_of(seed, SAMPLES)
    assert is_uniform(hidden)
    exposed = hidden - mask_of(self_seed(participants(where)[3]), SAMPLES)
    assert not is_uniform(exposed)
    assert set(exposed.tolist()) == {1234}


def test_views_have_the_same_law_with_other_addends_of_the_same_sum():
    """The victim holds 500 or −3, another honest member the rest: what the adversary sees is one uniform word and what is fixed by the sum."""
    samples = []
    for values in ([1, 500, 1, -400], [1, -3, 1, 103]):
        where = context(4, 3, 1)
        view = attacked(where, constant_words(values), frozenset({0}), everyone_told(included=(0, 1, 3)))
        samples.append([view.masked[place] for place in (1, 3)])
        _, matrix, observed = equations([view])
        assert determined_sums([view]) == [honest_sum(where, frozenset({1, 3}))]
        inside = [row for row, each in enumerate(sorted(view.masked)) if each in (1, 3)]
        samples[-1] += [observed[row] for row in inside[:1]]
        assert set(observed[inside].sum(axis=0, dtype=np.uint64).tolist()) == {100}
        assert len(matrix) == 3
    simulated = stretched(fresh_seed(), SAMPLES)
    for first, second in zip(*samples, strict=True):
        for one, other in ((first, second), (first, simulated), (second, simulated)):
            assert stats.ks_2samp(one / 2.0**64, other / 2.0**64).pvalue > SMALLEST_KS_P
            for shift in (0, 56):
                octets = [
                    np.bincount((each >> np.uint64(shift)).astype(np.uint8), minlength=256) for each in (one, other)
                ]
                assert stats.chi2_contingency(octets).pvalue > SMALLEST_CHI_SQUARE_P


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
    found = secrets_from(dict(enumerate(weak)), threshold - 1)
    assert set(found.tolist()) == {secret}
    # The correct ones, interpolated the same way, give a uniform answer.
    guess = secrets_from(dict(enumerate(shares[: threshold - 1])), threshold - 1)
    assert is_uniform((guess << np.uint64(3)) | (stretched(fresh_seed(), SAMPLES) >> np.uint64(61)))


def test_all_additive_shares_but_one_are_uniform_whichever_is_missing():
    words = np.full(SAMPLES, 77, dtype=np.uint64)
    shares = additive_shares(words, 4)
    for missing in range(4):
        others = [share for place, share in enumerate(shares) if place != missing]
        assert all(is_uniform(share) for share in others)
        assert is_uniform(others[0] + others[1] + others[2])


# Planted bugs in streams


def short_masks(seed, count):
    """Words of 32 bits: enough for the numbers, not for hiding them."""
    return stretched(seed, count) >> np.uint64(32)


def one_word_masks(seed, count):
    """One word for the whole vector."""
    return np.full(count, stretched(seed, 1)[0])


def small_float_masks(seed, count):
    """Whole numbers up to 2^40, as masks on floats would be."""
    return stretched(seed, count) >> np.uint64(24)


def masked_by(participant: Participant, words: np.ndarray, others: Sequence[int]) -> np.ndarray:
    hidden = words.copy()
    add_pair_masks(hidden, participant.position, {other: lasting_pair_seed(participant, other) for other in others})
    return hidden


@pytest.mark.parametrize("bug", [short_masks, one_word_masks, small_float_masks, None])
def test_weak_masks_are_found(bug, monkeypatch):
    """Members 0 and 2 collude; what is left of member 1's vector is its mask with member 3."""
    participant, words = participants(context(4))[1], constant_words([1, 2, 3, 4])
    if bug is not None:
        monkeypatch.setattr(masks, "masks_of", lambda seeds, count: (bug(seed, count) for seed in seeds))
    assert is_uniform(masked_by(participant, words[1], [3])) == (bug is None)


def test_masks_with_neighbours_only_are_found():
    """Masks along a ring, as cheap as they are useless: both neighbours collude and nothing is left."""
    participant, words = participants(context(6))[2], constant_words([1, 2, 3, 4, 5, 6])
    known = masked_by(participant, np.zeros_like(words[2]), [1, 3])
    assert not is_uniform(masked_by(participant, words[2], [1, 3]) - known)
    assert is_uniform(masked_by(participant, words[2], [0, 1, 3, 4, 5]) - known)


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
    hidden = [
        serverless.begun(participant, row)[1][0].body.window
        for participant, row in zip(participants(where), words, strict=True)
    ]
    parcels = [
        Parcel(message.sender, message.receiver, message.body.round, message.body.window, message.body.partial)
        for message in sent_by_all(parties(where, words))
        if isinstance(message.body, Passed) and message.receiver == 0
    ]
    found = recovered_words(*parcel_equations(12, 0, hidden[0], parcels))
    assert set(found) == {0, 1}
    np.testing.assert_array_equal(found[1], hidden[1])
    # The best it can say of member 1 is a uniform word: off by more than the whole range in all four entries but by chance 1e-7.
    assert np.abs(found[1].view(np.int64) / scale - values[1]).max() > 1e6
