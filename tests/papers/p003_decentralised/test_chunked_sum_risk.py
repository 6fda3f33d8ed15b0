"""Breaches counted over all relabellings, gambler's ruin from its recursion, and the tables of the Bitcoin paper."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.chunked_sum_risk import (
    Simulation,
    any_breach_bound,
    any_pair_bound,
    breach_bound,
    breach_probability,
    catch_up_probability,
    coalition_probability,
    composed,
    confirmations_needed,
    nakamoto_probability,
    neighbour_probability,
    rewrite_probability,
    simulated_any_breach,
    simulated_coalition_breach,
)
from sudare.papers.p003_decentralised.graphs import Graph, complete, cycle, from_edges, random_regular

# Simulations are checked against exact values with intervals that miss the truth once in a million times, at most.
SURE = 1 - 1e-6

PATH = from_edges("a path", 4, [(0, 1), (1, 2), (2, 3)])
STAR = from_edges("a star", 5, [(0, other) for other in range(1, 5)])
SMALL = [cycle(4), cycle(5), PATH, STAR, complete(4)]


def neighbour_sets(graph: Graph) -> list[list[set[int]]]:
    """For every relabelling, who sits next to each member."""
    return [
        [set(each) for each in graph.relabelled(places).neighbours]
        for places in itertools.permutations(range(graph.members))
    ]


def counted(graph: Graph, chunks: int, happens) -> Fraction:
    """The share of all sequences of relabellings in which it happens; it may look at who was next to whom in every chunk."""
    # Only places relative to each other matter, so the last relabelling may stay the same.
    every = neighbour_sets(graph)
    total = hits = 0
    for sequence in itertools.product(every, repeat=chunks - 1):
        total += 1
        hits += bool(happens([every[0], *sequence]))
    return Fraction(hits, total)


def always_beside(sequence: list[list[set[int]]], member: int) -> set[int]:
    return set.intersection(*(near[member] for near in sequence))


@pytest.mark.parametrize("graph", SMALL, ids=lambda graph: graph.name)
def test_probabilities_of_one_member_are_exact(graph: Graph) -> None:
    """One and two chunks, all relabellings; also where degrees differ, since relabelling puts a member at every place."""
    every = neighbour_sets(graph)
    pairs = list(itertools.product(every, repeat=2))

    def share(happens) -> Fraction:
        return Fraction(sum(bool(happens(first[0], second[0])) for first, second in pairs), len(pairs))

    assert share(lambda first, _: 1 in first) == neighbour_probability(graph)
    assert share(lambda first, second: 1 in first & second) == neighbour_probability(graph) ** 2
    assert share(lambda first, _: first) == breach_probability(graph, 1) == 1
    assert share(lambda first, second: first & second) == breach_probability(graph, 2)
    for colluders in range(1, graph.members):
        them = set(range(1, 1 + colluders))
        assert share(lambda first, _, them=them: first & them) == coalition_probability(graph, colluders, 1)
        pooled = share(lambda first, second, them=them: first & them and second & them)
        assert pooled == coalition_probability(graph, colluders, 2)


@pytest.mark.parametrize(("graph", "chunks"), [(cycle(4), 2), (cycle(5), 2), (cycle(5), 3), (PATH, 2), (STAR, 2)])
def test_simulated_breaches_agree_with_counting(graph: Graph, chunks: int) -> None:
    truth = counted(graph, chunks, lambda seq: any(always_beside(seq, member) for member in range(graph.members)))
    low, high = simulated_any_breach(graph, chunks, 20_000, np.random.default_rng(0)).interval(SURE)
    assert low <= truth <= high
    assert truth <= any_pair_bound(graph, chunks)


@pytest.mark.parametrize(("graph", "colluders"), [(cycle(5), 1), (cycle(5), 2), (STAR, 2), (cycle(5), 4)])
def test_simulated_coalitions_agree_with_counting(graph: Graph, colluders: int) -> None:
    every = neighbour_sets(graph)
    coalition = set(range(colluders))

    def exposed(first, second) -> bool:
        return any(
            first[member] & coalition and second[member] & coalition for member in range(colluders, graph.members)
        )

    pairs = list(itertools.product(every, repeat=2))
    truth = sum(exposed(*pair) for pair in pairs) / len(pairs)
    low, high = simulated_coalition_breach(graph, colluders, 2, 20_000, np.random.default_rng(0)).interval(SURE)
    assert low <= truth <= high


@given(st.integers(1, 3), st.integers(0, 25), st.integers(1, 8))
def test_bounds_are_above_exact_probabilities(reach: int, more: int, chunks: int) -> None:
    graph = cycle(2 * reach + 1 + more, reach)
    exact = breach_probability(graph, chunks)
    assert neighbour_probability(graph) ** chunks <= exact <= min(1, breach_bound(graph, chunks) * (1 + 1e-12))
    assert any_breach_bound(graph, chunks) == pytest.approx(2 * any_pair_bound(graph, chunks))


@given(st.integers(5, 30), st.integers(1, 6))
def test_more_colluders_see_more_and_one_colluder_is_one_neighbour(members: int, chunks: int) -> None:
    graph = cycle(members, 2)
    seen = [coalition_probability(graph, colluders, chunks) for colluders in range(1, members)]
    assert seen == sorted(seen)
    assert seen[0] == neighbour_probability(graph) ** chunks
    assert seen[-1] == 1


def test_fifty_iterations() -> None:
    """S = 20, d = 4, N_c = 5: 8 % in one sum become 98 % in a training of fifty."""
    graph = cycle(20, 2)
    simulation = simulated_any_breach(graph, 5, 100_000, np.random.default_rng(0))
    assert simulation.probability == pytest.approx(0.0749, abs=0.004)
    assert composed(simulation.probability, 50) == pytest.approx(0.98, abs=0.005)
    assert simulation.interval(SURE)[0] <= any_pair_bound(graph, 5) == pytest.approx(0.0786, abs=1e-4)
    assert 1 - (1 - breach_bound(graph, 5)) ** 20 > simulation.interval(SURE)[1]


@given(st.integers(1, 3), st.integers(0, 40), st.integers(2, 12))
def test_the_product_follows_from_pairs_where_it_is_said_to(reach: int, more: int, chunks: int) -> None:
    graph = cycle(2 * reach + 2 + more, reach)
    if graph.members * breach_bound(graph, chunks) <= 1.59:
        product = (1 - breach_bound(graph, chunks)) ** graph.members
        assert product <= 1 - any_pair_bound(graph, chunks) + 1e-12


def test_everybody_next_to_everybody_hides_nothing() -> None:
    assert breach_probability(complete(6), 9) == 1
    assert simulated_any_breach(complete(6), 9, 100, np.random.default_rng(0)) == Simulation(100, 100)


@given(st.floats(0, 1), st.integers(1, 1000))
def test_composition(probability: float, iterations: int) -> None:
    assert composed(probability, iterations) == pytest.approx(1 - (1 - probability) ** iterations, abs=1e-12)
    assert composed(1e-12, 1000) == pytest.approx(1e-9, rel=1e-6)


def test_intervals() -> None:
    assert Simulation(0, 100).interval()[0] == 0
    assert Simulation(100, 100).interval()[1] == 1
    for hits, trials in ((0, 50), (3, 50), (50, 50)):
        low, high = Simulation(hits, trials).interval(0.9)
        assert low <= Simulation(hits, trials).probability <= high
        if hits:
            assert stats.binom.sf(hits - 1, trials, low) == pytest.approx(0.05)
        if hits < trials:
            assert stats.binom.cdf(hits, trials, high) == pytest.approx(0.05)


def test_simulations_in_batches_count_every_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.papers.p003_decentralised.chunked_sum_risk._NUMBERS_AT_ONCE", 1_000)
    graph, generator = random_regular(12, 3), np.random.default_rng(0)
    small = simulated_any_breach(graph, 2, 5_003, generator)
    pooled = simulated_coalition_breach(graph, 2, 2, 5_003, generator)
    assert small.trials == pooled.trials == 5_003
    assert small.hits > 4_000
    low, high = pooled.interval(SURE)
    assert high <= 10 * coalition_probability(graph, 2, 2) + 1
    assert low > coalition_probability(graph, 2, 2)


# Chains of blocks


@given(st.floats(0.01, 0.49), st.integers(1, 30))
def test_gamblers_ruin_solves_its_recursion(share: float, behind: int) -> None:
    """(1.21) without time: R_z = p R_{z+1} + q R_{z−1}, R_0 = 1, and it dies out."""
    here, up, down = (catch_up_probability(share, behind + move) for move in (0, 1, -1))
    assert here == pytest.approx((1 - share) * up + share * down, rel=1e-9)
    assert catch_up_probability(share, 0) == 1
    assert catch_up_probability(share, 100_000) < 1e-6


def test_half_is_enough() -> None:
    assert catch_up_probability(0.5, 10**6) == 1
    assert rewrite_probability(0.5, 1000) == nakamoto_probability(0.6, 1000) == 1
    assert catch_up_probability(0.4999, 10**6) < 1e-100
    assert confirmations_needed(0.5, 0.01) is None


NAKAMOTO_TENTH = {
    0: 1.0, 1: 0.2045873, 2: 0.0509779, 3: 0.0131722, 4: 0.0034552, 5: 0.0009137, 6: 0.0002428, 7: 0.0000647,
    8: 0.0000173, 9: 0.0000046, 10: 0.0000012,
}  # fmt: skip
NAKAMOTO_THREE_TENTHS = {
    0: 1.0, 5: 0.1773523, 10: 0.0416605, 15: 0.0101008, 20: 0.0024804, 25: 0.0006132, 30: 0.0001522, 35: 0.0000379,
    40: 0.0000095, 45: 0.0000024, 50: 0.0000006,
}  # fmt: skip
NAKAMOTO_BELOW_A_THOUSANDTH = {0.1: 5, 0.15: 8, 0.2: 11, 0.25: 15, 0.3: 24, 0.35: 41, 0.4: 89, 0.45: 340}


def test_the_tables_of_the_bitcoin_paper() -> None:
    for share, table in ((0.1, NAKAMOTO_TENTH), (0.3, NAKAMOTO_THREE_TENTHS)):
        for confirmations, printed in table.items():
            assert round(nakamoto_probability(share, confirmations), 7) == printed
    for share, confirmations in NAKAMOTO_BELOW_A_THOUSANDTH.items():
        assert confirmations_needed(share, 0.001, exact=False) == confirmations


@given(st.floats(0.02, 0.48), st.integers(1, 60))
def test_rewriting_from_first_principles(share: float, confirmations: int) -> None:
    """While z honest blocks are found the attacker finds k, negative binomial; then he has z − k to make up."""
    found = np.arange(confirmations)
    law = stats.nbinom(confirmations, 1 - share)
    behind = [catch_up_probability(share, confirmations - k) for k in found]
    truth = law.sf(confirmations - 1) + (law.pmf(found) * behind).sum()
    assert rewrite_probability(share, confirmations) == pytest.approx(truth, rel=1e-7)


def test_the_poisson_approximation_flatters() -> None:
    """Ten per cent of the power, six confirmations: 0.00059, not 0.00024. So it is for all risks below a tenth."""
    assert rewrite_probability(0.1, 6) == pytest.approx(0.0005914, abs=1e-7)
    for share in (0.1, 0.2, 0.3, 0.4):
        for confirmations in range(2, 100):
            approximation = nakamoto_probability(share, confirmations)
            assert approximation > 0.1 or rewrite_probability(share, confirmations) > approximation
    assert confirmations_needed(0.1, 0.001) == 6
    assert confirmations_needed(0.3, 0.001) == 32


@given(st.floats(0.01, 0.4), st.floats(1e-6, 0.5))
def test_confirmations_are_the_fewest(share: float, risk: float) -> None:
    needed = confirmations_needed(share, risk)
    assert needed is not None
    assert rewrite_probability(share, needed) < risk
    assert needed == 1 or rewrite_probability(share, needed - 1) >= risk


@pytest.mark.parametrize(
    "ask",
    [
        lambda: breach_bound(cycle(5), 0),
        lambda: breach_probability(cycle(5), 0),
        lambda: coalition_probability(cycle(5), 0, 2),
        lambda: coalition_probability(cycle(5), 5, 2),
        lambda: simulated_any_breach(cycle(5), 2, 0, np.random.default_rng(0)),
        lambda: composed(0.5, 0),
        lambda: catch_up_probability(1.5, 2),
        lambda: nakamoto_probability(-0.1, 2),
        lambda: confirmations_needed(0.1, 0.0),
    ],
)
def test_refusals(ask) -> None:
    with pytest.raises(InvalidParameter):
        ask()


@pytest.mark.parametrize("probability", [catch_up_probability, nakamoto_probability, rewrite_probability])
@pytest.mark.parametrize(("share", "blocks"), [(0.1, -2), (0.1, 1.5), ("a", 2), (float("nan"), 2)])
def test_fewer_blocks_than_none_have_no_probability(probability, share, blocks):
    """(1.25) at z = −2 would be 81."""
    with pytest.raises(InvalidParameter):
        probability(share, blocks)
