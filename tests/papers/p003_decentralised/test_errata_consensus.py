"""Executable errata of paper 003 (Ide 2021), sections 1.3 and 1.4: one test a correction.

Everything is seeded: a test here fails only if the code changes.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sudare.papers.p003_decentralised.attacks import recovered, transcript_of
from sudare.papers.p003_decentralised.averaging import averaged, averaging_plan, trajectory
from sudare.papers.p003_decentralised.chunked_sum_risk import (
    any_pair_bound,
    breach_bound,
    breach_probability,
    catch_up_probability,
    coalition_probability,
    composed,
    nakamoto_probability,
    neighbour_probability,
    rewrite_probability,
    simulated_any_breach,
)
from sudare.papers.p003_decentralised.graphs import (
    complete,
    cycle,
    cycle_with_inverse_chords,
    from_edges,
    prime_factors,
)
from sudare.papers.p003_decentralised.spectra import (
    adjacency,
    constant_rounds,
    contraction,
    cycle_second_eigenvalue,
    laplacian,
    nonzero_range,
    rounds_to,
)

# The chapter's closed forms, corrected


def cycle_adjacency_eigenvalues(members, reach):
    """λ_l = Σ_j 2cos(2π(l−1)j/S) for l = 1 … S (1.43), not in descending order."""
    frequencies = 2 * np.pi * np.arange(members) / members
    return 2 * np.cos(np.outer(frequencies, np.arange(1, reach + 1))).sum(axis=1)


def cycle_mixing_eigenvalues(members, reach, step):
    """ν̃_l = 1 − 4ε Σ_j sin²(π(l−1)j/S) for l = 1 … S (1.45)."""
    frequencies = np.pi * np.arange(members) / members
    return 1 - 4 * step * (np.sin(np.outer(frequencies, np.arange(1, reach + 1))) ** 2).sum(axis=1)


def cycle_rate(members, reach, step):
    return 2 * math.pi**2 * step * reach * (reach + 1) * (2 * reach + 1) / (3 * members**2)


def cycle_decay(members, reach, step, rounds):
    """(ν₂/ν₁)^t ≈ exp(−(2π²/3S²)·ε·t·b(b+1)(2b+1)) for S ≫ πb: (1.49), which prints the exponential's first two terms."""
    return math.exp(-cycle_rate(members, reach, step) * rounds)


def cycle_rounds(members, reach, tolerance):
    """t ≈ 3S² ln(√S/δ)/(2π²ε·b(b+1)(2b+1)) (1.50) with ε = 1/4b, the largest safe step."""
    return math.log(math.sqrt(members) / tolerance) / cycle_rate(members, reach, 1 / (4 * reach))


def gap_rounds(members, step, gap, tolerance):
    """t ≈ ln(√S/δ)/|ln(1 − εΔ)| for a spectral gap Δ (1.53); right where the most negative eigenvalue of W matters less."""
    return math.log(math.sqrt(members) / tolerance) / abs(math.log1p(-step * gap))


CYCLES = [(members, reach) for reach in (1, 2, 3, 5) for members in range(2 * reach + 1, 40)]


def test_closed_forms_are_eigenvalues():
    """(1.43), (1.45) and (1.46) for every cycle up to 39 members."""
    for members, reach in CYCLES:
        graph, step = cycle(members, reach), 1 / (4 * reach)
        np.testing.assert_allclose(
            sorted(cycle_adjacency_eigenvalues(members, reach)), np.linalg.eigvalsh(adjacency(graph)), atol=1e-10
        )
        mixing = np.linalg.eigvalsh(np.eye(members) - step * laplacian(graph))
        np.testing.assert_allclose(sorted(cycle_mixing_eigenvalues(members, reach, step)), mixing, atol=1e-10)
        assert cycle_second_eigenvalue(members, reach) == pytest.approx(mixing[-2], abs=1e-10)


def test_approximations_for_long_cycles():
    """(1.49) and (1.50) against the true eigenvalue, S ≫ πb."""
    for members, reach in ((200, 1), (300, 2), (500, 4)):
        step = 1 / (4 * reach)
        second = cycle_second_eigenvalue(members, reach, step)
        rounds = math.log(math.sqrt(members) / 1e-3) / -math.log(second)
        assert cycle_rounds(members, reach, 1e-3) == pytest.approx(rounds, rel=0.01)
        assert cycle_decay(members, reach, step, 100) == pytest.approx(second**100, rel=0.01)
        gap = (1 - second) / step
        assert gap_rounds(members, step, gap, 1e-3) == pytest.approx(rounds, rel=1e-9)


def test_iteration_counts_of_ten_members():
    """Section 1.4.4 prints 236, 47 and 6 for b = 1, 2, 3; with ε = 1/4b they are 69, 28 and 16."""
    found = [rounds_to(1e-3, cycle_second_eigenvalue(10, reach)) for reach in (1, 2, 3)]
    assert found == [69, 28, 16]
    assert found == [constant_rounds(cycle(10, reach), 1e-3) for reach in (1, 2, 3)]
    # Nor is there any one step that gives the printed three.
    fitting = {
        printed: {
            step
            for step in np.round(np.linspace(0.001, 0.5, 2000), 6)
            if rounds_to(1e-3, abs(cycle_second_eigenvalue(10, reach, step))) == printed
        }
        for reach, printed in ((1, 236), (2, 47), (3, 6))
    }
    assert all(fitting.values())
    assert not set.intersection(*fitting.values())


def test_the_numbers_of_figure_1_4_are_right():
    second = cycle_second_eigenvalue(12, 2)
    assert second == pytest.approx(0.8415, abs=5e-5)
    # Printed 0.031, which is cut off, not rounded.
    assert second**20 == pytest.approx(0.0317, abs=5e-5)
    assert math.sqrt(12) * second**20 == pytest.approx(0.110, abs=5e-4)


@pytest.mark.parametrize(("members", "reach"), [(10, 1), (12, 2), (31, 5), (40, 16)])
def test_the_second_eigenvalue_is_at_l_2_and_s(members, reach):
    """Printed below (1.45): at l = 1 and l = S − 1. At l = 1 is the first one."""
    eigenvalues = cycle_mixing_eigenvalues(members, reach, 1 / (4 * reach))
    l_1, l_2, l_before_last, l_last = (eigenvalues[index] for index in (0, 1, -2, -1))
    assert l_1 == 1
    assert l_2 == pytest.approx(l_last)
    assert l_2 == pytest.approx(np.sort(eigenvalues)[-2])
    assert l_before_last < l_last - 1e-6


def test_equation_1_49_is_an_exponential():
    """Printed 1 − x: negative after the rounds that (1.50) derives from it."""
    members, reach, step = 200, 2, 1 / 8
    rounds = cycle_rounds(members, reach, 1e-3)
    decay = cycle_decay(members, reach, step, rounds)
    printed = 1 + math.log(decay)
    truth = cycle_second_eigenvalue(members, reach, step) ** rounds
    assert decay == pytest.approx(truth, rel=0.02)
    assert printed < -8


@pytest.mark.parametrize(("members", "reach"), [(200, 1), (400, 2), (400, 4), (800, 8)])
@pytest.mark.parametrize("part", [1.0, 0.5, 0.1])
def test_equation_1_50_is_right_as_printed(members, reach, part):
    """3S² ln(√S/δ)/(2π²ε b(b+1)(2b+1)) rounds, for every step ε, not only the largest safe one."""
    step = part / (4 * reach)
    logarithm = math.log(math.sqrt(members) / 1e-3)
    printed = 3 * members**2 * logarithm / (2 * math.pi**2 * step * reach * (reach + 1) * (2 * reach + 1))
    assert printed == pytest.approx(logarithm / -math.log(cycle_second_eigenvalue(members, reach, step)), rel=0.005)


def test_rounds_of_equation_1_50_grow_like_s_squared_over_b_squared():
    """S²/(εb³) as printed, with a step that shrinks like 1/b."""
    for reach in (8, 16, 32):
        growth = cycle_rounds(10**5, reach, 1e-3) / cycle_rounds(10**5, 2 * reach, 1e-3)
        assert growth == pytest.approx(4, rel=0.15)
        exact = [math.log(1e-3) / math.log(cycle_second_eigenvalue(10**5, b)) for b in (reach, 2 * reach)]
        assert exact[0] / exact[1] == pytest.approx(4, rel=0.15)
    # A step that does not shrink diverges: more than 1/2b is too much already for large b.
    assert contraction(cycle(101, 8), 1 / 4) > 1


@pytest.mark.parametrize("members", [4, 10, 40])
def test_the_step_of_figure_1_6_never_converges_on_even_cycles(members):
    """ε = 1/d_max = 1/2 on C_S^1: the eigenvalue −1 keeps every other member apart for ever."""
    assert contraction(cycle(members), 1 / 2) == pytest.approx(1)
    assert constant_rounds(cycle(members), 1e-3, 1 / 2) is None
    apart = np.tile([1.0, -1.0], members // 2)
    *_, last = trajectory(apart, averaging_plan(cycle(members), "constant", rounds=101, step=1 / 2))
    np.testing.assert_allclose(np.abs(last), 1, atol=1e-9)
    assert constant_rounds(cycle(members + 1), 1e-3, 1 / 2) is not None


def test_inverse_chords_add_no_edge_for_some_numbers():
    """S = 5 and the divisors of 24, where every invertible number is its own inverse."""
    unchanged = [
        members for members in range(3, 200) if cycle_with_inverse_chords(members).edges == cycle(members).edges
    ]
    assert unchanged == [3, 4, 5, 6, 8, 12, 24]


@pytest.mark.long
def test_the_gap_of_inverse_chords_is_constant_for_primes_only():
    gaps = {members: nonzero_range(cycle_with_inverse_chords(members))[0] for members in range(25, 430)}
    primes = [gap for members, gap in gaps.items() if len(prime_factors(members)) == 1]
    others = [gap for members, gap in gaps.items() if len(prime_factors(members)) > 1]
    assert min(primes) > 0.07
    assert min(others) < 0.01
    assert sum(gap < 0.07 for gap in others) > len(others) / 4


def test_equation_1_51_needs_the_loops_that_footnote_5_leaves_out():
    """With a loop for every number without a partner and double edges counted twice the graph is 3-regular, and (1.51) is exact."""
    members = 13
    simple = cycle_with_inverse_chords(members)
    chords = np.zeros((members, members))
    for x in range(members):
        chords[x, pow(x, -1, members) if x else 0] += 1
    whole = adjacency(cycle(members)) + chords
    assert set(whole.sum(axis=0)) == {3}
    eigenvalues = np.linalg.eigvalsh(whole)
    assert np.linalg.eigvalsh(3 * np.eye(members) - whole)[1] == pytest.approx(eigenvalues[-1] - eigenvalues[-2])
    # The printed simple graph has degrees 2 and 3, and its adjacency gap is not what W sees.
    assert set(simple.degrees) == {2, 3}
    printed = np.linalg.eigvalsh(adjacency(simple))
    assert printed[-1] - printed[-2] != pytest.approx(np.linalg.eigvalsh(laplacian(simple))[1], rel=0.01)


def test_equation_1_48_fails_where_the_sum_is_near_zero():
    """Its “O(1)” is disagreement over |sum|: unbounded. Errors must be told relative to the addends, not to the total."""
    values = np.random.default_rng(0).uniform(-10, 10, (12, 1))
    graph = cycle(12, 2)
    plan = averaging_plan(graph, "constant", rounds=20)
    errors = []
    for total in (100.0, 1e-6):
        start = values - values.mean() + total / 12
        *_, last = trajectory(start, plan)
        errors.append(float(np.linalg.norm(last * 12 - total) / math.sqrt(12) / total))
    assert errors[0] < 1
    assert errors[1] > 1e4


def test_equation_1_33_has_the_mean_degree():
    """After relabelling a member sits at every place equally often, so d^s is no property of s."""
    star = from_edges("a star", 5, [(0, other) for other in range(1, 5)])
    relabelled = [star.relabelled(places) for places in itertools.permutations(range(5))]
    assert Fraction(sum((0, 1) in each.edges for each in relabelled), len(relabelled)) == Fraction(8, 5) / 4
    assert neighbour_probability(star) == Fraction(8, 5) / 4


def test_chunks_protect_nobody_in_the_chapters_own_example():
    """S = 3 (figure 1.7): on a cycle of three everyone is next to everyone, so every chunk goes to both others."""
    for graph in (cycle(3), cycle(5, 2), complete(4)):
        assert breach_probability(graph, 1000) == 1


def test_equation_1_34_is_about_one_sum_and_members_without_friends():
    graph = cycle(20, 2)
    assert breach_bound(graph, 5) == pytest.approx(0.00786, abs=1e-5)
    anybody = simulated_any_breach(graph, 5, 50_000, np.random.default_rng(0)).probability
    assert composed(anybody, 50) == pytest.approx(0.98, abs=0.01)
    assert coalition_probability(graph, 4, 5) > 0.11


def test_equation_1_34_is_about_members_without_memory():
    """One that keeps what its neighbours send for S rounds knows all chunks of all, with probability one."""
    values = np.random.default_rng(0).uniform(-10, 10, (20, 1))
    plan = averaging_plan(cycle(20, 2), "constant", 1e-3)
    found = recovered(plan, [7], transcript_of(values, plan, [7], rounds=20))
    assert found.determined.all()
    assert np.abs(found.values - values).max() < 1e-9


def test_the_product_of_equation_1_35_needs_factors_that_are_probabilities():
    """S = 20, d = 4: at N_c = 1 every factor is −3, and the “probability” is above 3²⁰."""
    graph = cycle(20, 2)
    assert (1 - breach_bound(graph, 1)) ** 20 == pytest.approx(3.0**20)
    assert (1 - breach_bound(graph, 5)) ** 20 == pytest.approx(0.854, abs=1e-3)


def test_the_last_form_of_equation_1_35_is_true_and_may_be_halved():
    """j sits next to s when s sits next to j: half of the printed bound suffices, and is close to what happens."""
    graph = cycle(20, 2)
    printed = 20 * 19 * (4 / 19) ** 5
    assert any_pair_bound(graph, 5) == pytest.approx(printed / 2)
    low, high = simulated_any_breach(graph, 5, 50_000, np.random.default_rng(0)).interval(1 - 1e-6)
    assert high < 0.55 * printed
    assert low > 0.42 * printed


def test_from_one_half_of_the_power_on_every_past_can_be_rewritten():
    assert catch_up_probability(0.5, 1000) == 1
    assert catch_up_probability(0.49, 1000) < 1e-16


def test_equation_1_25_is_not_the_risk_after_z_confirmations():
    """The gambler of (1.25) starts z blocks behind; while z blocks confirm, the attacker works too. Ten per cent, z = 5: 54 and 105 times as much."""
    assert catch_up_probability(0.1, 5) == pytest.approx(1.69e-5, rel=0.01)
    assert nakamoto_probability(0.1, 5) == pytest.approx(0.0009137, abs=5e-8)
    assert rewrite_probability(0.1, 5) == pytest.approx(0.00178184, abs=1e-8)


def test_how_an_addend_is_split_matters():
    """“Any split will do” (1.31): shares of the addend show its sign; bounded chunks are correlated with it."""
    generator = np.random.default_rng(0)
    addends = generator.uniform(-10, 10, 100_000)
    shares = addends[:, np.newaxis] * generator.dirichlet(np.ones(5), len(addends))
    assert (np.sign(shares[:, 0]) == np.sign(addends)).all()
    bounded = addends - generator.uniform(-10, 10, (len(addends), 4)).sum(axis=1)
    assert np.corrcoef(bounded, addends)[0, 1] > 0.4


def test_a_tolerance_is_not_a_sum():
    """Twenty rounds “almost converge” (figure 1.4), to two digits: members still disagree by a few per cent of the addends."""
    values = np.random.default_rng(0).uniform(-10, 10, (12, 1))
    last = averaged(values, cycle(12, 2), "constant", rounds=20).totals
    assert np.ptp(last) > 0.01 * np.abs(values).max()
