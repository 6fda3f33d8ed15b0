"""Eigenvalues, steps and rounds: closed forms against matrices, predictions against what happens."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.averaging import averaging_plan, trajectory
from sudare.papers.p003_decentralised.graphs import (
    complete,
    cycle,
    exponential,
    from_edges,
    hypercube,
    random_regular,
)
from sudare.papers.p003_decentralised.spectra import (
    chebyshev_contraction,
    chebyshev_rounds,
    constant_rounds,
    contraction,
    distinct_eigenvalues,
    laplacian,
    laplacian_eigenvalues,
    nonzero_range,
    optimal_step,
    rounds_to,
    safe_step,
    sparse_laplacian,
)


def test_the_laplacian_keeps_the_mean() -> None:
    for graph in (cycle(7, 2), random_regular(12, 3), from_edges("a path", 4, [(0, 1), (1, 2), (2, 3)])):
        matrix = laplacian(graph)
        np.testing.assert_allclose(matrix.sum(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(matrix, matrix.T)
        np.testing.assert_array_equal(sparse_laplacian(graph).toarray(), matrix)


@given(st.integers(2, 6), st.floats(1e-3, 1.0))
def test_no_constant_step_beats_the_optimal_one(degree: int, step: float) -> None:
    graph = random_regular(14, degree)
    assert contraction(graph, optimal_step(graph)) <= contraction(graph, step) + 1e-12


def test_the_safe_step_leaves_no_negative_eigenvalue() -> None:
    for graph in (cycle(8), cycle(9, 3), exponential(20), complete(5), from_edges("a path", 3, [(0, 1), (1, 2)])):
        assert safe_step(graph) * laplacian_eigenvalues(graph)[-1] <= 1 + 1e-12


@given(st.floats(1e-9, 0.9), st.floats(0.001, 0.999))
def test_rounds_are_the_fewest(tolerance: float, factor: float) -> None:
    rounds = rounds_to(tolerance, factor)
    assert rounds is not None
    assert factor**rounds <= tolerance * (1 + 1e-6)
    assert rounds == 1 or factor ** (rounds - 1) > tolerance


def test_some_steps_never_converge() -> None:
    assert rounds_to(0.1, 1.0) is None
    assert rounds_to(0.1, 0.0) == 1
    assert constant_rounds(cycle(6), 1e-3, step=0.5) is None
    assert constant_rounds(cycle(7), 1e-3, step=0.5) is not None


def test_distinct_eigenvalues() -> None:
    np.testing.assert_allclose(distinct_eigenvalues(hypercube(32)), [2, 4, 6, 8, 10], atol=1e-12)
    np.testing.assert_allclose(distinct_eigenvalues(complete(9)), [9], atol=1e-12)
    assert len(distinct_eigenvalues(cycle(20))) == 10
    assert len(distinct_eigenvalues(cycle(21))) == 10


@pytest.mark.parametrize("graph", [cycle(12, 2), random_regular(30, 4), exponential(25)], ids=lambda graph: graph.name)
def test_chebyshev_shrinks_every_eigenvector_by_what_is_predicted_and_the_slowest_by_just_that(graph) -> None:
    values, vectors = np.linalg.eigh(laplacian(graph))
    plan = averaging_plan(graph, "chebyshev", rounds=9)
    for rounds, state in enumerate(trajectory(vectors, plan)):
        left = np.linalg.norm(state, axis=0)[1:]
        assert left.max() <= chebyshev_contraction(graph, rounds) + 1e-12
        assert left[0] == pytest.approx(chebyshev_contraction(graph, rounds), rel=1e-9)
    assert nonzero_range(graph) == pytest.approx((values[1], values[-1]))


def test_chebyshev_rounds_are_the_fewest() -> None:
    for graph, tolerance in itertools.product((cycle(15), cycle(40, 3), random_regular(50, 4)), (1e-2, 1e-6, 1e-12)):
        rounds = chebyshev_rounds(graph, tolerance)
        assert chebyshev_contraction(graph, rounds) <= tolerance < chebyshev_contraction(graph, rounds - 1)
        constant = constant_rounds(graph, tolerance, optimal_step(graph))
        assert constant is not None
        assert rounds <= constant


def test_complete_graphs_agree_in_one_round() -> None:
    assert chebyshev_rounds(complete(6), 1e-12) == 1
    assert chebyshev_contraction(complete(6), 0) == 1
    assert chebyshev_contraction(complete(6), 1) == 0
    assert constant_rounds(complete(6), 1e-12, optimal_step(complete(6))) == 1


def test_cached_eigenvalues_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        laplacian_eigenvalues(cycle(5))[0] = 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda: nonzero_range(from_edges("two pairs", 4, [(0, 1), (2, 3)])),
        lambda: distinct_eigenvalues(from_edges("two pairs", 4, [(0, 1), (2, 3)])),
        lambda: rounds_to(0.0, 0.5),
        lambda: rounds_to(1.0, 0.5),
        lambda: chebyshev_rounds(cycle(5), math.nan),
    ],
)
def test_refusals(ask) -> None:
    with pytest.raises(InvalidParameter):
        ask()
