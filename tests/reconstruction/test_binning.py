"""Counting perturbed values, and the channel from states to bins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.perturbation.square_wave import SquareWave
from sudare.reconstruction.binning import (
    bin_edges,
    cell_count,
    checked_values,
    continuous_states,
    counted,
    whole_states,
)

PERTURBATIONS = [
    LaplacePerturbation((17, 90), epsilon=5.2),
    LaplacePerturbation((-2.5, 9.5), epsilon=0.5),
    SquareWave((0, 1), epsilon=1.0),
    SquareWave((0, 100), epsilon=6.0),
]


@pytest.mark.parametrize("perturbation", PERTURBATIONS, ids=repr)
def test_every_column_of_the_channel_is_a_distribution(perturbation):
    edges = bin_edges(perturbation, 60)
    for states in (
        continuous_states(perturbation, edges, 60, np.array(perturbation.bounds)),
        whole_states(perturbation, edges, spread=True),
        whole_states(perturbation, edges, spread=False),
    ):
        np.testing.assert_allclose(states.channel.sum(axis=0), 1, atol=1e-9)
        assert states.channel.min() >= 0
        assert states.channel.shape == (len(edges) - 1, states.cells + len(states.atoms))


@pytest.mark.parametrize("perturbation", PERTURBATIONS, ids=repr)
def test_every_possible_output_is_counted_once(perturbation):
    y = perturbation.perturb(np.linspace(*perturbation.bounds, 5000), random_state=0)
    counts = counted(perturbation, y, 60)
    assert counts.records == 5000
    np.testing.assert_array_equal(counts.counts, np.histogram(y, counts.edges)[0])
    # No output lies on an edge: edges are between the points of the grid.
    offset = (counts.edges - perturbation.bounds[0]) / perturbation.grid
    np.testing.assert_allclose(offset - np.floor(offset), 0.5, atol=1e-6)


def test_counts_of_a_known_value_agree_with_the_channel():
    perturbation = LaplacePerturbation((0, 10), epsilon=3.0)
    y = perturbation.perturb(np.full(200_000, 4.0), random_state=1)
    counts = counted(perturbation, y, 20)
    expected = continuous_states(perturbation, counts.edges, 20, np.array([4.0])).channel[:, -1]
    # Multinomial: no bin is 6 standard deviations off with probability above 22·2e-9.
    deviation = np.sqrt(200_000 * expected * (1 - expected))
    assert np.all(np.abs(counts.counts - 200_000 * expected) < 6 * deviation)


@given(epsilon=st.floats(0.3, 12), seed=st.integers(0, 10))
def test_two_tail_bins_of_laplace_noise_lose_nothing(epsilon, seed):
    """Theorem: for y beyond a bound p(y|x) = f(y)·g(x), so rows of a finer channel there are proportional."""
    perturbation = LaplacePerturbation((0, 1), epsilon=epsilon)
    low, high = perturbation.output_bounds
    cells = np.sort(np.random.default_rng(seed).random(5))
    inner = bin_edges(perturbation, 10)
    above = inner[-2] + np.array([0.0, 0.3, 1.0, 2.0]) * perturbation.noise_scale
    below = inner[1] - np.array([2.0, 1.0, 0.3, 0.0]) * perturbation.noise_scale
    for edges in (above, below):
        assert edges[0] > low
        assert edges[-1] < high
        rows = perturbation.transition_at(edges, cells)
        shares = rows / rows.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, np.broadcast_to(shares[0], shares.shape), atol=1e-9)


def test_the_square_wave_says_more_outside_of_the_bounds_and_is_cut_finely_there():
    perturbation = SquareWave((0, 1), epsilon=1.0)
    edges = bin_edges(perturbation, 60)
    assert (edges < 0).sum() > 5
    assert (edges > 1).sum() > 5


def test_narrow_noise_gets_more_cells():
    assert cell_count(LaplacePerturbation((0, 1), epsilon=1.0)) == 240
    assert cell_count(LaplacePerturbation((0, 1), epsilon=16.0)) == 240
    assert cell_count(LaplacePerturbation((0, 1), epsilon=16.0)) <= LaplacePerturbation((0, 1), epsilon=16.0).steps


def test_whole_numbers_have_a_cell_each():
    perturbation = LaplacePerturbation((1, 16), epsilon=5.2)
    edges = bin_edges(perturbation, 60)
    spread, exact = (whole_states(perturbation, edges, spread=spread) for spread in (True, False))
    assert spread.cells == exact.cells == 16
    assert (spread.edges[0], spread.edges[-1]) == (1, 16)
    np.testing.assert_array_equal(exact.centres, np.arange(1, 17))


@pytest.mark.parametrize("values", [[], [1.0] * 9, [np.nan] * 20, [np.inf] * 20, [1e9] * 20, [[1.0] * 20]])
def test_unusable_values_get_a_clear_answer_without_a_value_in_it(values):
    with pytest.raises(DataError) as caught:
        checked_values(LaplacePerturbation((0, 10), epsilon=1.0), values)
    assert "1000000000" not in str(caught.value)
    assert "1e+09" not in str(caught.value)
