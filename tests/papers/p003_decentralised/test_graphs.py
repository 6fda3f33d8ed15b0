"""Graphs are what their names say: mutual, connected, of the stated degree, and the same everywhere."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.graphs import (
    GRAPH_NAMES,
    Graph,
    base_k,
    complete,
    cycle,
    cycle_with_inverse_chords,
    digit_edges,
    exponential,
    from_edges,
    graph_named,
    hypercube,
    mixed_radix,
    prime_factors,
    random_regular,
)
from sudare.papers.p003_decentralised.spectra import adjacency, laplacian_eigenvalues


@given(st.integers(1, 8), st.integers(0, 40))
def test_a_cycle_reaches_b_to_either_side(reach: int, more: int) -> None:
    members = 2 * reach + 1 + more
    graph = cycle(members, reach)
    assert set(graph.degrees) == {2 * reach}
    assert graph.regular
    for member, neighbours in enumerate(graph.neighbours):
        away = {min((other - member) % members, (member - other) % members) for other in neighbours}
        assert away == set(range(1, reach + 1))


@given(st.integers(3, 120))
def test_inverse_chords_join_inverses_and_nothing_else(members: int) -> None:
    plain, graph = set(cycle(members).edges), set(cycle_with_inverse_chords(members).edges)
    assert plain <= graph
    assert all(x * y % members == 1 for x, y in graph - plain)
    for x, y in itertools.combinations(range(members), 2):
        if x * y % members == 1:
            assert (x, y) in graph


@given(st.integers(2, 6), st.integers(0, 30), st.integers(0, 10**9))
def test_random_regular_graphs_are_regular_and_connected(degree: int, more: int, seed: int) -> None:
    members = degree + 1 + more
    if members * degree % 2:
        members += 1
    graph = random_regular(members, degree, seed)
    assert set(graph.degrees) == {degree}
    assert graph.connected
    assert graph == random_regular(members, degree, seed)


@pytest.mark.parametrize(("members", "degree"), [(5, 4), (10, 8), (20, 15), (20, 18), (30, 15), (64, 32), (64, 60)])
def test_random_graphs_may_be_dense(members: int, degree: int) -> None:
    assert set(random_regular(members, degree).degrees) == {degree}


def test_a_random_graph_is_the_same_on_every_machine() -> None:
    """Members build it themselves from the agreement's seed: another graph on another machine would be no consortium."""
    edges = str(random_regular(20, 4, seed=7).edges).encode()
    assert hashlib.sha256(edges).hexdigest()[:16] == "c3ea2188e0a62fb4"
    assert random_regular(20, 4, seed=8) != random_regular(20, 4, seed=7)


def test_random_regular_graphs_are_not_always_alike() -> None:
    """Every pair of eight members is joined in some of fifty draws and not joined in others."""
    drawn = [set(random_regular(8, 3, seed).edges) for seed in range(50)]
    for pair in itertools.combinations(range(8), 2):
        assert 5 < sum(pair in edges for edges in drawn) < 45


@given(st.integers(2, 300))
def test_exponential_graphs_have_logarithmic_degree(members: int) -> None:
    graph = exponential(members)
    assert graph.connected
    assert graph.regular
    assert graph.largest_degree <= 2 * math.ceil(math.log2(members))
    assert 1 in graph.neighbours[0]


@given(st.lists(st.integers(2, 4), min_size=1, max_size=3))
def test_digits(radices: list[int]) -> None:
    graph = mixed_radix(radices)

    def digits(member: int) -> list[int]:
        found = []
        for radix in radices:
            member, digit = divmod(member, radix)
            found.append(digit)
        return found

    assert graph.members == math.prod(radices)
    edges = set(graph.edges)
    by_digit = [set(digit_edges(radices, digit)) for digit in range(len(radices))]
    for first, second in itertools.combinations(range(graph.members), 2):
        differing = [place for place, (a, b) in enumerate(zip(digits(first), digits(second), strict=True)) if a != b]
        assert ((first, second) in edges) == (len(differing) == 1)
        assert [(first, second) in each for each in by_digit] == [differing == [digit] for digit in range(len(radices))]


def test_powers() -> None:
    assert hypercube(8).degrees == (3,) * 8
    assert base_k(9, 3).degrees == (4,) * 9
    assert base_k(12).radices == (2, 2, 3)
    assert base_k(7).edges == complete(7).edges
    assert hypercube(2).edges == ((0, 1),)


@given(st.integers(2, 5000))
def test_prime_factors(number: int) -> None:
    factors = prime_factors(number)
    assert math.prod(factors) == number
    assert list(factors) == sorted(factors)
    assert all(factor % divisor for factor in factors for divisor in range(2, math.isqrt(factor) + 1))


@given(st.permutations(range(9)))
def test_relabelling_moves_members_to_other_places(places: list[int]) -> None:
    graph = cycle(9, 2)
    moved = graph.relabelled(places)
    for first, second in itertools.combinations(range(9), 2):
        before = tuple(sorted((places[first], places[second])))
        assert ((first, second) in moved.edges) == (before in graph.edges)
    np.testing.assert_allclose(laplacian_eigenvalues(moved), laplacian_eigenvalues(graph), atol=1e-12)


def test_parts_that_do_not_talk_are_noticed() -> None:
    assert not from_edges("two pairs", 4, [(0, 1), (2, 3)]).connected
    assert from_edges("a path", 4, [(0, 1), (1, 2), (2, 3)]).connected


def test_repeated_edges_and_loops_do_not_count() -> None:
    graph = from_edges("messy", 3, [(0, 1), (1, 0), (1, 1), (1, 2)])
    assert graph.edges == ((0, 1), (1, 2))
    assert not graph.regular
    np.testing.assert_array_equal(adjacency(graph), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize("name", GRAPH_NAMES)
def test_every_name_gives_a_connected_graph(name: str) -> None:
    graph = graph_named(name, 16, degree=4)
    assert graph.members == 16
    assert graph.connected


@pytest.mark.parametrize(
    "build",
    [
        lambda: cycle(4, 2),
        lambda: cycle(5, 0),
        lambda: cycle_with_inverse_chords(2),
        lambda: random_regular(5, 3),
        lambda: random_regular(4, 4),
        lambda: random_regular(4, 1),
        lambda: exponential(1),
        lambda: hypercube(12),
        lambda: hypercube(1),
        lambda: base_k(9, 1),
        lambda: mixed_radix(()),
        lambda: mixed_radix((1, 2)),
        lambda: graph_named("star", 5),
        lambda: graph_named("cycle", 9, degree=3),
        lambda: Graph("alone", ((),)),
        lambda: Graph("one way", ((1,), ())),
        lambda: Graph("to itself", ((0, 1), (0,))),
        lambda: Graph("unordered", ((2, 1), (0,), (0,))),
        lambda: Graph("nobody there", ((1, 5), (0,))),
        lambda: cycle(5).relabelled([0, 1, 2, 3, 3]),
    ],
)
def test_what_is_no_graph_is_refused(build) -> None:
    with pytest.raises(InvalidParameter):
        build()
