"""Everyone ends with the mean: as precisely as planned, in as many rounds as planned, whoever runs the rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.averaging import (
    METHODS,
    AveragingResult,
    Method,
    Plan,
    averaged,
    averaging_plan,
    polynomial_plan,
    relative_error,
    trajectory,
)
from sudare.papers.p003_decentralised.graphs import (
    Graph,
    base_k,
    complete,
    cycle,
    cycle_with_inverse_chords,
    exponential,
    from_edges,
    hypercube,
    random_regular,
)

GRAPHS = [
    cycle(9),
    cycle(10, 3),
    cycle_with_inverse_chords(13),
    random_regular(16, 4),
    exponential(11),
    hypercube(16),
    base_k(12),
    complete(5),
    from_edges("a star", 6, [(0, other) for other in range(1, 6)]),
]


def disagreement(values: np.ndarray) -> float:
    return float(np.linalg.norm(values - values.mean(axis=0)))


@given(st.sampled_from(GRAPHS), st.sampled_from(METHODS), st.sampled_from([1e-2, 1e-5, 1e-9]), st.integers(0, 2**32))
def test_disagreement_shrinks_as_planned_and_the_mean_stays(
    graph: Graph, method: Method, tolerance: float, seed: int
) -> None:
    values = np.random.default_rng(seed).uniform(-10, 10, (graph.members, 3))
    result = averaged(values, graph, method, tolerance)
    assert result.plan.contraction <= tolerance
    assert disagreement(result.values) <= max(tolerance, 1e-12) * disagreement(values)
    np.testing.assert_allclose(result.values.mean(axis=0), values.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(result.totals, result.values * graph.members)


@given(st.sampled_from(GRAPHS), st.integers(1, 12), st.integers(0, 2**32))
def test_so_many_rounds_as_asked_for(graph: Graph, rounds: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(graph.members, 2))
    for method in ("constant", "optimal", "chebyshev"):
        result = averaged(values, graph, method, rounds=rounds)
        assert result.rounds == rounds
        assert disagreement(result.values) <= (result.plan.contraction + 1e-12) * disagreement(values)


def test_chebyshev_on_random_graphs_against_the_plain_cycle() -> None:
    """S = 128, disagreement down to 1e-3, 1e-6, 1e-12: 13, 24 and 47 rounds against thousands."""
    tolerances = (1e-3, 1e-6, 1e-12)
    graph, plain = random_regular(128, 4, seed=4), cycle(128)
    assert [len(averaging_plan(graph, "chebyshev", tolerance).rounds) for tolerance in tolerances] == [13, 24, 47]
    best = [len(averaging_plan(plain, "optimal", tolerance).rounds) for tolerance in tolerances]
    assert best == [5735, 11470, 22939]
    safe = [len(averaging_plan(plain, "constant", tolerance).rounds) for tolerance in tolerances]
    assert safe == [11467, 22933, 45865]
    # This seed is the first that gives just these three; the median seed is at most one round away.
    drawn = [len(averaging_plan(random_regular(128, 4, seed), "chebyshev", 1e-6).rounds) for seed in range(20)]
    assert np.median(drawn) in (24, 25)
    values = np.random.default_rng(0).uniform(-10, 10, (128, 1))
    assert disagreement(averaged(values, graph, "chebyshev", 1e-12).values) <= 1e-12 * disagreement(values)


def test_finite_time_is_exact_for_every_number_of_members() -> None:
    """Digit by digit, as many rounds as S has prime factors."""
    for members in range(2, 65):
        values = np.random.default_rng(members).uniform(-1, 1, (members, 2))
        result = averaged(values, base_k(members), "finite_time")
        assert 2**result.rounds <= members
        np.testing.assert_allclose(result.values, np.broadcast_to(values.mean(axis=0), values.shape), atol=1e-14)


@pytest.mark.parametrize("members", [8, 31, 64, 128])
def test_a_cycle_agrees_exactly_as_soon_as_news_can_arrive(members: int) -> None:
    values = np.random.default_rng(0).uniform(-10, 10, (members, 1))
    result = averaged(values, cycle(members), "finite_time")
    assert result.rounds == members // 2
    assert disagreement(result.values) <= 1e-12 * disagreement(values)
    np.testing.assert_allclose(result.values, values.mean(), atol=1e-11)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_one_round_for_each_distinct_eigenvalue_is_exact_on_every_graph(graph: Graph) -> None:
    values = np.random.default_rng(0).uniform(-10, 10, (graph.members, 1))
    plan = polynomial_plan(graph)
    *_, last = trajectory(values, plan)
    assert plan.contraction < 1e-12
    assert disagreement(last) <= 1e-12 * disagreement(values)


def test_messages_of_finite_time() -> None:
    """A member of a hypercube talks to one other in each round, not to all its neighbours."""
    result = averaged(np.arange(64.0), hypercube(64), "finite_time")
    assert (result.rounds, result.values_per_round, result.plan.values_sent) == (6, 1, 6)
    assert averaged(np.arange(12.0), base_k(12), "finite_time").plan.values_sent == 1 + 1 + 2
    assert averaged(np.zeros((9, 5)), cycle(9, 2), rounds=3).values_per_round == 4 * 5


def exchanged(values: np.ndarray, plan: Plan) -> np.ndarray:
    """Members that know nothing but the plan, their own values and what the neighbours of a round send."""
    before = current = values
    for each in plan.rounds:
        moved = [
            own + each.step * sum((current[other] - own for other in neighbours), start=np.zeros_like(own))
            for own, neighbours in zip(current, each.graph.neighbours, strict=True)
        ]
        before, current = current, each.weight * np.array(moved) + (1 - each.weight) * before
    return current


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_messages_between_members_give_the_same(graph: Graph, method: Method) -> None:
    values = np.random.default_rng(1).uniform(-10, 10, (graph.members, 2))
    plan = averaging_plan(graph, method, 1e-6)
    *_, together = trajectory(values, plan)
    np.testing.assert_allclose(exchanged(values, plan), together, atol=1e-12)


def test_callers_keep_their_values() -> None:
    values = np.arange(5.0)[:, np.newaxis]
    states = list(trajectory(values, averaging_plan(cycle(5), "constant", rounds=2)))
    states[0][:] = -1
    np.testing.assert_array_equal(values[:, 0], np.arange(5.0))
    assert isinstance(averaged([1, 2, 3], cycle(3)), AveragingResult)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (np.zeros((4, 1)), "shape"),
        (np.zeros((5, 1, 1)), "shape"),
        (np.array([1.0, 2.0, np.nan, 4.0, 5.0]), "finite"),
        (np.array([1.0, 2.0, np.inf, 4.0, 5.0]), "finite"),
    ],
)
def test_bad_values(values: np.ndarray, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        averaged(values, cycle(5))
    assert "2." not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"method": "constant", "step": 0.5}, "never agrees"),
        ({"method": "constant", "step": -0.1}, "never agrees"),
        ({"method": "optimal", "step": 0.1}, "chooses its steps"),
        ({"method": "finite_time", "rounds": 3}, "as many rounds as it needs"),
        ({"method": "magic"}, "no method"),
        ({"rounds": 0}, "rounds must be a whole number from 1"),
        ({"tolerance": 2.0}, "tolerance"),
    ],
)
def test_bad_plans(options: dict, problem: str) -> None:
    with pytest.raises(InvalidParameter, match=problem):
        averaging_plan(cycle(6), **options)


def test_the_relative_error_is_what_members_still_differ_by():
    """(1.47) is the distance from the mean, over all members, as a share of the sum's: zero when all agree."""
    values = np.array([1.0, 2.0, 6.0])
    assert relative_error(values, 9.0) == pytest.approx(math.sqrt(3 * np.square(values - 3).sum()) / 9)
    assert relative_error([3.0, 3.0, 3.0], 9.0) == 0
    assert relative_error([1.0, -1.0], 0.0) == math.inf
