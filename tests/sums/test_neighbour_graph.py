"""Neighbourhoods of sparse sums: the theorems of proofs/neighbourhoods.md, by fractions, enumeration and an adversary that searches."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.errors import InvalidParameter
from sudare.sums import neighbour_graph as neighbours
from sudare.sums.neighbour_graph import (
    Neighbourhood,
    chosen_neighbours,
    complete,
    liveness_failure_log2,
    most_separated,
    neighbourhood,
    privacy_failure_log2,
    sum_neighbourhood,
)

# Rounding up may add this much to a logarithm, in these sizes.
SLACK = 1e-9


def tail(members: int, marked: int, degree: int, at_least: int) -> Fraction:
    """P[Hypergeometric(members − 1, marked, degree) ≥ at_least], exactly."""
    others = members - 1
    ways = sum(
        math.comb(marked, seen) * math.comb(others - marked, degree - seen) for seen in range(at_least, degree + 1)
    )
    return Fraction(ways, math.comb(others, degree))


def expected_sets(members: int, dishonest: int, degree: int, threshold: int, size: int) -> Fraction:
    """Of separated sets of one size."""
    marked = size - 1 + dishonest
    return math.comb(members - dishonest, size) * tail(members, marked, degree, threshold) ** size


def union_bound(members: int, dishonest: int, degree: int, threshold: int) -> Fraction:
    """The statement's bound, exactly: for every size the worst number of dishonest members."""
    return sum(
        (
            max(
                expected_sets(members, corrupt, degree, threshold, size)
                for corrupt in range(min(dishonest, members - 2 * size) + 1)
            )
            for size in range(1, members // 2 + 1)
        ),
        Fraction(0),
    )


def log2(value: Fraction) -> float:
    return math.log2(value.numerator) - math.log2(value.denominator) if value else -math.inf


@st.composite
def small_sums(draw: st.DrawFn) -> tuple[int, int, int, int]:
    members = draw(st.integers(4, 24))
    dishonest = draw(st.integers(0, members // 2))
    degree = draw(st.integers(1, members - 1))
    return members, dishonest, degree, draw(st.integers(1, degree))


def outgoing(choice: tuple[tuple[int, ...], ...], members: int) -> np.ndarray:
    """Row i marks whom member i chose."""
    chose = np.zeros((members, members), dtype=bool)
    for member, chosen in enumerate(choice):
        chose[member, list(chosen)] = True
    return chose


def random_graph(members: int, degree: int, seed: int) -> np.ndarray:
    seeds = (bytes([seed]) * 24 + member.to_bytes(8, "big") for member in range(members))
    choice = tuple(chosen_neighbours(each, members, member, degree) for member, each in enumerate(seeds))
    return outgoing(choice, members)


# Bounds against fractions


@given(small_sums())
def test_the_privacy_bound_is_never_below_the_exact_one(numbers: tuple[int, int, int, int]) -> None:
    members, dishonest, _, _ = numbers
    exact = log2(union_bound(*numbers))
    bound = privacy_failure_log2(*numbers)
    assert bound >= min(exact, 0)
    if bound < 0 and members - dishonest >= 2:
        assert bound <= exact + SLACK


@given(small_sums())
def test_more_dishonest_members_are_worse(numbers: tuple[int, int, int, int]) -> None:
    """The step of the proof that the code checks by one inequality: each term grows with the number of dishonest members."""
    members, dishonest, degree, threshold = numbers
    if neighbours._worst_if_all_dishonest(*numbers):
        for size in range(1, members // 2 + 1):
            terms = [
                expected_sets(members, corrupt, degree, threshold, size)
                for corrupt in range(min(dishonest, members - 2 * size) + 1)
            ]
            assert terms == sorted(terms)


@given(small_sums())
def test_the_liveness_bound_is_never_below_the_exact_one(numbers: tuple[int, int, int, int]) -> None:
    members, leaving, degree, threshold = numbers
    exact = log2(members * tail(members, leaving, degree, degree - threshold + 1))
    assert min(exact, 0) <= liveness_failure_log2(*numbers) <= min(exact + SLACK, 0)


@pytest.mark.parametrize(("members", "dishonest"), [(1_500, 75), (3_000, 990)])
def test_blocks_of_sizes_lose_little_and_never_too_much(
    monkeypatch: pytest.MonkeyPatch, members: int, dishonest: int
) -> None:
    found = neighbourhood(members, dishonest, members // 20, (members + dishonest) // 2 + 1)
    in_blocks = privacy_failure_log2(members, dishonest, found.degree, found.threshold)
    monkeypatch.setattr(neighbours, "_SINGLE_SIZES", members)
    one_by_one = privacy_failure_log2(members, dishonest, found.degree, found.threshold)
    assert one_by_one <= in_blocks <= 0.98 * one_by_one


@given(st.integers(1_100, 1_300), st.floats(0, 0.4))
def test_a_block_is_as_bad_as_its_worst_size(members: int, share: float) -> None:
    dishonest = int(members * share)
    sizes = np.arange(1, members // 2 + 1)
    singly = neighbours._separated_sets(members, dishonest, 40, 26, sizes, sizes)
    first, last = neighbours._blocks(members // 2)
    together = neighbours._separated_sets(members, dishonest, 40, 26, first, last)
    assert first[0] == 1
    assert last[-1] == members // 2
    assert list(first[1:]) == list(last[:-1] + 1)
    for low, high, bound in zip(first[500:], last[500:], together[500:], strict=True):
        assert np.logaddexp.reduce(singly[low - 1 : high]) <= bound + SLACK


def test_log_factorials_are_as_exact_as_the_margin_says() -> None:
    table = neighbours._log_factorials(100_000)
    assert table[0] == table[1] == 0
    with flint.ctx.workprec(200):
        for number in [*range(2, 300), *range(300, 100_000, 997), 28_426, 100_000]:
            exact = flint.arb(number + 1).lgamma()
            assert abs(flint.arb(float(table[number])) - exact) <= 4 * 2.0**-52 * exact


# Bounds against what they bound


def separated(chose: np.ndarray, honest: list[int], threshold: int) -> bool:
    """Whether some set of at most half of the honest members is separated, by trying all."""
    dishonest = [member for member in range(len(chose)) if member not in honest]
    return any(
        all(chose[member, [*group, *dishonest]].sum() >= threshold for member in group)
        for size in range(1, len(honest) // 2 + 1)
        for group in itertools.combinations(honest, size)
    )


@pytest.mark.parametrize(
    ("members", "dishonest", "degree", "threshold"),
    [(4, 0, 1, 1), (4, 2, 2, 2), (5, 0, 1, 1), (5, 1, 2, 2), (5, 2, 2, 2), (5, 2, 3, 2), (6, 2, 3, 3), (6, 3, 3, 3)],
)
def test_every_graph_of_few_members(members: int, dishonest: int, degree: int, threshold: int) -> None:
    """The probability over all choices of all honest members is at most the union bound."""
    honest = list(range(dishonest, members))
    subsets = [
        list(itertools.combinations([other for other in range(members) if other != member], degree))
        for member in honest
    ]
    nobody: tuple[tuple[int, ...], ...] = ((),) * dishonest
    found = total = 0
    for choice in itertools.product(*subsets):
        total += 1
        found += separated(outgoing((*nobody, *choice), members), honest, threshold)
    assert found > 0
    assert Fraction(found, total) <= union_bound(members, dishonest, degree, threshold)
    assert log2(Fraction(found, total)) <= privacy_failure_log2(members, dishonest, degree, threshold)


def closed_part(chose: np.ndarray, group: np.ndarray, dishonest: np.ndarray, threshold: int) -> np.ndarray:
    """The largest separated subset of a group: members with too few neighbours in it are struck until none is."""
    while True:
        kept = group & (chose[:, group | dishonest].sum(axis=1) >= threshold)
        if kept.sum() == group.sum():
            return kept
        group = kept


def halves(chose: np.ndarray, honest: np.ndarray, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Halves of the honest members that keep as many choices within as a greedy search finds, from several beginnings."""
    weights = chose.astype(float) + chose.T
    half = int(honest.sum()) // 2
    for _ in range(10):
        pull = weights[generator.choice(np.flatnonzero(honest))] + generator.random(len(chose)) * 0.1
        for _ in range(20):
            pull = np.where(honest, pull, -np.inf)
            group = np.zeros(len(chose), dtype=bool)
            group[np.argsort(-pull)[:half]] = True
            yield group
            pull = weights[:, group].sum(axis=1) + 0.5 * group


def adversary_separates(members: int, dishonest: int, found: Neighbourhood, seed: int) -> bool:
    """Whether an adversary that sees all choices finds a set to separate, by greedy search; it may exclude whom it likes."""
    chose = random_graph(members, found.degree, seed)
    corrupt = np.arange(members) < dishonest
    generator = np.random.default_rng(seed)
    return any(
        closed_part(chose, group, corrupt, found.threshold).any() for group in halves(chose, ~corrupt, generator)
    )


def test_an_adversary_that_sees_all_choices_separates_nobody() -> None:
    found = neighbourhood(300, 30, 30, 200)
    assert not found.is_complete(300)
    assert not any(adversary_separates(300, 30, found, seed) for seed in range(5))


@pytest.mark.parametrize("planted", [Neighbourhood(8, 4), Neighbourhood(40, 20), Neighbourhood(20, 10)])
def test_too_few_neighbours_or_shares_are_attacked_and_rejected(planted: Neighbourhood) -> None:
    """The planted bugs: the same adversary succeeds, and the bound says that it may."""
    assert any(adversary_separates(300, 30, planted, seed) for seed in range(5))
    assert privacy_failure_log2(300, 30, planted.degree, planted.threshold) > -40


def missing_by_exclusion(chose: np.ndarray, honest: np.ndarray, absent: int) -> int:
    """How many honest members a greedy collector leaves out of a sum: it excludes all honest members that chose them."""
    excluded: set[int] = set()
    missing: set[int] = set()
    choosers = [set(np.flatnonzero(chose[:, member] & honest)) for member in range(len(chose))]
    while True:
        left = [member for member in np.flatnonzero(honest) if member not in missing | excluded]
        cheapest = min(left, key=lambda member: len(choosers[member] - excluded - missing))
        if len(excluded | choosers[cheapest] - missing) > absent:
            return len(missing)
        excluded |= choosers[cheapest] - missing
        missing.add(int(cheapest))


def test_a_collector_leaves_out_some_honest_members_but_no_more_than_bounded() -> None:
    members, dishonest, absent = 1_000, 50, 50
    degree = neighbourhood(members, dishonest, absent, members - absent).degree
    honest = np.arange(members) >= dishonest
    left_out = [missing_by_exclusion(random_graph(members, degree, seed), honest, absent) for seed in range(3)]
    assert 1 <= max(left_out) <= most_separated(members, dishonest, absent, degree)


def test_nobody_can_be_left_out_of_a_complete_graph() -> None:
    assert most_separated(40, 5, 10, 39) == 0


def test_what_neighbours_heard_is_no_agreement_of_all() -> None:
    """Two members can be told different totals such that all whom each of them chose were told the same as it."""
    found = neighbourhood(1_000, 50, 50, 950)
    chose = random_graph(1_000, found.degree, 0)
    first, second = 0, 1
    told_first = chose[first].copy()
    told_first[first] = True
    told_second = ~told_first
    assert not told_first[second]
    assert (chose[first] & told_first).sum() >= found.threshold
    assert (chose[second] & told_second).sum() >= found.threshold


# The choice


@pytest.mark.parametrize(("members", "share"), [(50, 0.05), (50, 0.1), (120, 0.05), (200, 0.1)])
def test_no_smaller_degree_would_do(members: int, share: float) -> None:
    few = int(members * share)
    found = neighbourhood(members, few, few, members - few)
    for degree in range(1, found.degree):
        for threshold in range(1, degree + 1):
            assert (
                privacy_failure_log2(members, few, degree, threshold) > -40
                or liveness_failure_log2(members, few, degree, threshold) > -40
            )


@pytest.mark.parametrize(
    ("members", "dishonest", "leaving", "expected"),
    [
        (50, 2, 2, (9, 7)),
        (1_000, 50, 50, (46, 27)),
        (10_000, 500, 500, (55, 32)),
        (10_000, 2_000, 500, (74, 48)),
        (10_000, 3_300, 0, (33, 33)),
        (100_000, 5_000, 5_000, (57, 33)),
    ],
)
def test_chosen_neighbourhoods(members: int, dishonest: int, leaving: int, expected: tuple[int, int]) -> None:
    found = neighbourhood(members, dishonest, leaving, members - max(leaving, 1))
    assert (found.degree, found.threshold) == expected
    assert privacy_failure_log2(members, dishonest, *expected) <= -40
    assert liveness_failure_log2(members, leaving, *expected) <= -40


def test_ten_thousand_members_talk_to_less_than_three_percent() -> None:
    assert 2 * neighbourhood(10_000, 500, 500, 9_500).degree <= 0.03 * 10_000


@pytest.mark.parametrize(
    ("members", "dishonest", "threshold"), [(250, 7, 188), (250, 3, 189), (230, 1, 174), (500, 3, 499)]
)
def test_sums_count_one_more_member_that_looks(members: int, dishonest: int, threshold: int) -> None:
    """Chosen for the dishonest alone, a graph gives them and a member that looks far more than it should."""
    alone = neighbourhood(members, dishonest, members - threshold, threshold)
    assert privacy_failure_log2(members, dishonest + 1, alone.degree, alone.threshold) > -21
    chosen = sum_neighbourhood(members, dishonest, threshold)
    assert privacy_failure_log2(members, dishonest + 1, chosen.degree, chosen.threshold) <= -40


def test_a_smaller_risk_needs_more_neighbours() -> None:
    degrees = [neighbourhood(10_000, 500, 500, 9_500, failure_bits=bits).degree for bits in (20, 40, 80, 128)]
    assert degrees == sorted(set(degrees))


@pytest.mark.parametrize(
    "numbers",
    [(3, 0, 1, 2), (10, 1, 1, 9), (100, 20, 20, 80), (10_000, 3_300, 3_300, 6_700), (50, 3, 0, 50), (2, 0, 0, 2)],
)
def test_the_graph_is_complete_where_a_sparse_one_saves_nothing(numbers: tuple[int, int, int, int]) -> None:
    found = neighbourhood(*numbers)
    assert found == complete(numbers[0], numbers[3])
    assert found.is_complete(numbers[0])


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((10, 4, 1, 7), "at least 8"),
        ((10, 0, 4, 7), "at most 6"),
        ((1, 0, 0, 1), "at least 2 members"),
        ((10, 11, 0, 10), "between 0 and all"),
        ((10, 0, -1, 9), "between 0 and all"),
    ],
)
def test_numbers_that_do_not_fit_together(numbers: tuple[int, int, int, int], says: str) -> None:
    with pytest.raises(InvalidParameter, match=says):
        neighbourhood(*numbers)


@pytest.mark.parametrize(("degree", "threshold"), [(0, 1), (10, 1), (5, 0), (5, 6)])
def test_neighbourhoods_that_cannot_be(degree: int, threshold: int) -> None:
    with pytest.raises(InvalidParameter, match="1 to 9 neighbours"):
        privacy_failure_log2(10, 1, degree, threshold)
    with pytest.raises(InvalidParameter, match="1 to 9 neighbours"):
        liveness_failure_log2(10, 1, degree, threshold)


def test_a_single_honest_member_has_nobody_to_be_separated_from() -> None:
    assert privacy_failure_log2(5, 4, 3, 2) == -math.inf


# Drawing neighbours


@given(st.binary(min_size=32, max_size=32), st.integers(2, 40), st.data())
def test_neighbours_are_others_ascending(seed: bytes, members: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, members - 1))
    degree = data.draw(st.integers(0, members - 1))
    chosen = chosen_neighbours(seed, members, position, degree)
    assert len(chosen) == degree
    assert list(chosen) == sorted(set(chosen) - {position})
    assert all(0 <= other < members for other in chosen)
    assert chosen == chosen_neighbours(seed, members, position, degree)


def test_every_subset_is_equally_likely() -> None:
    """A false alarm once in a million changes of the seeds; these are fixed."""
    drawn = Counter(chosen_neighbours(number.to_bytes(32, "big"), 6, 2, 2) for number in range(6_000))
    assert set(drawn) == set(itertools.combinations([0, 1, 3, 4, 5], 2))
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-6


@pytest.mark.parametrize(("position", "degree"), [(-1, 2), (5, 2), (0, 5), (0, -1)])
def test_no_such_neighbours(position: int, degree: int) -> None:
    with pytest.raises(InvalidParameter, match="among 5 members"):
        chosen_neighbours(bytes(32), 5, position, degree)
