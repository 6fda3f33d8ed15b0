"""Averaging over links that lose and delay messages: what drifts, by how much, and what is exact in the end."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sudare.errors import InvalidParameter
from sudare.papers.p003_decentralised.graphs import cycle, random_regular
from sudare.papers.p003_decentralised.lossy_averaging import (
    Links,
    dynamic_consensus,
    expected_square_error,
    gossip,
    push_sum,
    robust_push_sum,
    rounds_until,
)

GRAPH = random_regular(12, 4)
VALUES = np.random.default_rng(0).uniform(-10, 10, (12, 2))


def error(averaging, links, rounds=150, seed=0):
    """The largest distance of a member from the mean in the end, and how far members are apart."""
    *_, last = averaging(VALUES, links, rounds, np.random.default_rng(seed))
    return np.abs(last - VALUES.mean(axis=0)).max(), np.ptp(last, axis=0).max()


@pytest.mark.parametrize("averaging", [dynamic_consensus, push_sum, robust_push_sum])
def test_all_agree_on_the_mean_where_nothing_is_lost(averaging):
    assert error(averaging, Links(GRAPH))[0] < 1e-9


@pytest.mark.parametrize("averaging", [dynamic_consensus, push_sum])
def test_lost_messages_leave_an_error_that_does_not_go_away(averaging):
    """Members agree, on a wrong number."""
    wrong, apart = error(averaging, Links(GRAPH, loss=0.3))
    assert apart < 1e-6
    assert wrong > 0.01


def test_late_messages_harm_values_and_not_mass():
    links = Links(GRAPH, latest=3)
    assert error(dynamic_consensus, links)[0] > 0.01
    assert error(push_sum, links)[0] < 1e-6


@pytest.mark.parametrize(
    "links",
    [
        Links(GRAPH, loss=0.5),
        Links(GRAPH, loss=0.3, latest=3),
        Links(GRAPH, loss=0.3, changing=True),
        Links(GRAPH, loss=0.3, down=GRAPH.edges[::6]),
        Links(GRAPH, loss=0.2, latest=1, asynchronous=True),
    ],
    ids=["lost", "late", "changing", "down", "asynchronous"],
)
def test_running_sums_are_exact_whatever_the_links_do(links):
    assert error(robust_push_sum, links)[0] < 1e-4


def test_gossip_keeps_the_sum_only_if_answers_arrive():
    assert error(gossip, Links(GRAPH, asynchronous=True))[0] < 1e-6
    assert error(gossip, Links(GRAPH, loss=0.3, asynchronous=True))[0] > 0.01


def test_the_drift_of_dynamic_consensus_is_what_was_predicted():
    """Over 400 runs the measured mean square is within a fifth of the exact expectation (about three standard errors)."""
    graph, generator = cycle(6), np.random.default_rng(1)
    values = generator.uniform(-10, 10, (6, 1))
    drifts, errors = [], []
    for _ in range(400):
        *_, last = dynamic_consensus(values, Links(graph, loss=0.3), 20, generator)
        drifts.append((last.mean() - values.mean()) ** 2)
        errors.append(np.square(last - values.mean()).mean())
    drift, square = expected_square_error(values, graph, 0.3, 20)
    assert np.mean(drifts) == pytest.approx(drift, rel=0.2)
    assert np.mean(errors) == pytest.approx(square, rel=0.2)
    exact, _ = expected_square_error(values, graph, 0.0, 20)
    assert exact == pytest.approx(0, abs=1e-12)


def test_rounds_are_counted():
    states = dynamic_consensus(VALUES, Links(GRAPH), 100, np.random.default_rng(0))
    count = rounds_until(states, 0.01)
    assert count is not None
    *_, before, last = dynamic_consensus(VALUES, Links(GRAPH), count, np.random.default_rng(0))
    far = [math.sqrt(np.square(state - VALUES.mean(axis=0)).mean()) for state in (before, last)]
    assert far[1] <= 0.01 < far[0]
    assert rounds_until(iter([VALUES]), 1e-9) is None
    assert rounds_until(iter([VALUES]), 100.0) == 0


def test_arguments_are_checked():
    with pytest.raises(InvalidParameter, match="loss"):
        Links(GRAPH, loss=1.0)
    with pytest.raises(InvalidParameter, match="edge"):
        Links(cycle(6), down=((0, 3),))


def test_links_that_work_join_all_members():
    """Who hears nobody keeps its own number, and all others agree on another one."""
    with pytest.raises(InvalidParameter, match="never agree"):
        Links(cycle(5), down=((0, 1), (4, 0)))
    assert Links(cycle(5), down=((0, 1),)).down
    # Whoever sits elsewhere in the next round is heard there.
    assert Links(cycle(5), down=((0, 1), (4, 0)), changing=True).down
