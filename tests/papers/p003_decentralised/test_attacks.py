"""A curious member against averaging and against chunks."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.attacks import (
    determined_members,
    recovered,
    recovered_addends,
    transcript_of,
    watched_members,
)
from sudare.papers.p003_decentralised.averaging import METHODS, Method, averaging_plan, trajectory
from sudare.papers.p003_decentralised.graphs import (
    Graph,
    base_k,
    complete,
    cycle,
    cycle_with_inverse_chords,
    exponential,
    hypercube,
    random_regular,
)


@pytest.mark.parametrize(
    "graph",
    [cycle(12), cycle(12, 2), cycle(20, 2), cycle_with_inverse_chords(13), random_regular(20, 4), exponential(20)],
    ids=lambda graph: f"{graph.name} {graph.members}",
)
@pytest.mark.parametrize("method", ["constant", "optimal", "chebyshev"])
def test_one_watcher_recovers_everybody(graph: Graph, method: Method) -> None:
    """Observability: S rounds of one member's neighbours determine everyone's first value."""
    values = np.random.default_rng(0).uniform(-10, 10, (graph.members, 3))
    plan = averaging_plan(graph, method, rounds=graph.members)
    found = recovered(plan, [5], transcript_of(values, plan, [5]))
    assert found.determined.all()
    assert np.abs(found.values - values).max() < 1e-9


@pytest.mark.parametrize(("members", "reach", "chunks"), [(10, 1, 5), (20, 2, 5), (20, 2, 20)])
def test_chunks_do_not_hide(members: int, reach: int, chunks: int) -> None:
    """Algorithm 2 with uniform chunks ten times as large as the addends, relabelled for every chunk: all addends to 1e-9."""
    generator = np.random.default_rng(1)
    addends = generator.uniform(-10, 10, (members, 2))
    parts = generator.uniform(-100, 100, (chunks, members, 2))
    parts[-1] = addends - parts[:-1].sum(axis=0)
    found = []
    for part in parts:
        graph = cycle(members, reach).relabelled(generator.permutation(members).tolist())
        plan = averaging_plan(graph, "constant", 1e-3)
        found.append(recovered(plan, [0], transcript_of(part, plan, [0], rounds=members)))
    assert np.abs(recovered_addends(found) - addends).max() < 1e-9


def test_addends_within_the_first_message_are_safe_from_this_attack_only_before_the_second() -> None:
    graph = cycle(12)
    plan = averaging_plan(graph, "constant", rounds=12)
    seen = [int(determined_members(plan, [0], rounds).sum()) for rounds in range(1, 7)]
    # Every round shows one more member on either side.
    assert seen == [3, 5, 7, 9, 11, 12]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("graph", [hypercube(16), base_k(12), cycle(30), complete(6)], ids=lambda graph: graph.name)
def test_what_is_called_undetermined_is(graph: Graph, method: Method) -> None:
    """Two consortia with the same messages to the watcher and other values elsewhere; none differs where values are determined."""
    plan = averaging_plan(graph, method, 1e-3)
    rounds = min(6, len(plan.rounds))
    determined = determined_members(plan, [0], rounds)
    maps = [
        state[list(watched_members(plan, [0], t))]
        for t, state in zip(range(rounds), trajectory(np.eye(graph.members), plan), strict=False)
    ]
    _, strengths, right = np.linalg.svd(np.concatenate(maps))
    rank = int((strengths > 1e-10).sum())
    invisible = right[rank:]
    assert determined.sum() >= graph.largest_degree + 1 or method == "finite_time"
    assert (rank == graph.members) == bool(determined.all())
    for direction in invisible:
        values = np.random.default_rng(0).uniform(-1, 1, graph.members)
        seen = transcript_of(values, plan, [0], rounds)
        other = transcript_of(values + direction, plan, [0], rounds)
        for first, second in zip(seen, other, strict=True):
            assert all(np.allclose(first[member], second[member], atol=1e-12) for member in first)
        np.testing.assert_allclose(direction[determined], 0, atol=1e-9)
    if len(invisible):
        assert (np.abs(invisible).max(axis=0)[~determined] > 1e-7).all()
        found = recovered(plan, [0], transcript_of(np.zeros(graph.members), plan, [0], rounds))
        assert np.isnan(found.values[~determined]).all()


def test_colluders_see_more() -> None:
    plan = averaging_plan(hypercube(16), "constant", 1e-3)
    alone, together = (determined_members(plan, watchers) for watchers in ([0], [0, 3]))
    assert (together >= alone).all()
    assert together.sum() > alone.sum()
    values = np.random.default_rng(0).uniform(-10, 10, (16, 1))
    found = recovered(plan, [0, 3], transcript_of(values, plan, [0, 3]))
    np.testing.assert_allclose(found.values[together], values[together], atol=1e-9)


def test_transcripts_must_be_what_the_watchers_see() -> None:
    plan = averaging_plan(cycle(6), "constant", rounds=3)
    seen = transcript_of(np.arange(6.0), plan, [0])
    assert [sorted(sent) for sent in seen] == [[0, 1, 5]] * 3
    with pytest.raises(DataError, match="not what these watchers see"):
        recovered(plan, [1], seen)
    for wrong in ([], [*seen, seen[0]]):
        with pytest.raises(DataError, match="transcript of"):
            recovered(plan, [0], wrong)
    for nobody in ([], [6], [-1]):
        with pytest.raises(InvalidParameter, match="Watchers"):
            determined_members(plan, nobody)
