"""A curious member against averaging, against chunks and against masks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.attacks import (
    determined_members,
    parcel_equations,
    recovered,
    recovered_addends,
    recovered_words,
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
from sudare.sums.dissemination import Parcel, begun, step

# Approximate in the far tail, so a thousand times stricter than one false alarm in a million; seeded besides.
SMALLEST_CHI_SQUARE_P = 1e-9


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
    assert np.isfinite(found.magnification).all()


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
        assert np.isinf(found.magnification[~determined]).all()


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


# Words modulo 2^64

MEMBERS, WATCHER = 7, 2
DRAWS = 100_000


def parcels_to(position: int, words: np.ndarray) -> list[Parcel]:
    """What one member receives while everybody's words (members × numbers) are summed by dissemination."""
    begins = [begun(len(words), member, word) for member, word in enumerate(words)]
    states, sent = [state for state, _ in begins], [parcel for _, parcel in begins if parcel is not None]
    received = []
    while sent:
        arrived = {parcel.receiver: parcel for parcel in sent}
        received.append(arrived[position])
        steps = [step(state, arrived[member]) for member, state in enumerate(states)]
        states, sent = [state for state, _ in steps], [parcel for _, parcel in steps if parcel is not None]
    for state in states:
        np.testing.assert_array_equal(state.total, words.sum(axis=0, dtype=np.uint64))
    return received


def attacked(words: np.ndarray, position: int) -> dict[int, np.ndarray]:
    members = len(words)
    return recovered_words(*parcel_equations(members, position, words[position], parcels_to(position, words)))


def masks(generator: np.random.Generator, draws: int) -> np.ndarray:
    """Uniform words that cancel in the sum."""
    drawn = generator.integers(0, 2**64, (MEMBERS, draws), dtype=np.uint64)
    drawn[-1] = 0 - drawn[:-1].sum(axis=0, dtype=np.uint64)
    return drawn


@pytest.mark.parametrize("members", range(2, 20))
def test_without_masks_words_are_read(members: int) -> None:
    """The next member's word comes as it is; with three members the total gives away the last one too."""
    words = np.random.default_rng(0).integers(0, 2**64, (members, 5), dtype=np.uint64)
    position = members // 2
    found = attacked(words, position)
    assert {position, (position + 1) % members} <= set(found)
    assert (set(found) == set(range(members))) == (members <= 3)
    for member, word in found.items():
        np.testing.assert_array_equal(word, words[member])


def test_masks_hide() -> None:
    """The attack reads the masked word exactly, and it is uniform whatever it hides: both ends of the word, 100,000 times."""
    generator = np.random.default_rng(0)
    values = generator.integers(0, 1000, (MEMBERS, DRAWS), dtype=np.uint64)
    hidden = values + masks(generator, DRAWS)
    np.testing.assert_array_equal(hidden.sum(axis=0, dtype=np.uint64), values.sum(axis=0, dtype=np.uint64))
    found = attacked(hidden, WATCHER)[WATCHER + 1]
    np.testing.assert_array_equal(found, hidden[WATCHER + 1])
    for bits in (found >> np.uint64(56), found & np.uint64(255)):
        assert stats.chisquare(np.bincount(bits.astype(np.intp), minlength=256)).pvalue > SMALLEST_CHI_SQUARE_P
    # Small values and large ones leave words of the same law.
    truth = values[WATCHER + 1]
    highest = (found >> np.uint64(58)).astype(np.intp)
    by_value = [np.bincount(highest[part], minlength=64) for part in (truth < 500, truth >= 500)]
    assert stats.chi2_contingency(by_value).pvalue > SMALLEST_CHI_SQUARE_P
    correlation = np.corrcoef(found.astype(np.float64), truth.astype(np.float64))[0, 1]
    # A correlation of independent samples is normal with deviation 1/√n: six of them are a false alarm of 2e-9.
    assert abs(correlation) < 6 / np.sqrt(DRAWS)


def test_bounded_chunks_do_not_pass_that_test() -> None:
    """The planted bug: masks from a bounded range, as floats would have them, tell small values from large ones."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 1000, DRAWS)
    bounded = truth + generator.integers(0, 5000, DRAWS)
    assert np.corrcoef(bounded, truth)[0, 1] > 6 / np.sqrt(DRAWS)


def test_words_are_solved_for_modulo_two_to_the_64() -> None:
    """Odd coefficients have inverses; an even one leaves its lowest bits in doubt, so nothing is claimed."""
    words = np.array([[2**63 + 5], [7], [11]], dtype=np.uint64)
    odd = np.array([[3, 1, 0], [0, 1, 2], [0, 0, 5]], dtype=np.uint64)
    found = recovered_words(odd, odd @ words)
    assert {member: int(word[0]) for member, word in found.items()} == {0: 2**63 + 5, 1: 7, 2: 11}
    even = np.array([[2, 0, 0], [0, 1, 1]], dtype=np.uint64)
    assert recovered_words(even, even @ words) == {}
    with pytest.raises(DataError, match="differ in length"):
        recovered_words(odd, words[:2])
