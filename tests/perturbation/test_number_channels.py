"""Numbers on a public grid, and the exact channel from values to outputs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.errors import DataError, InvalidParameter, WrongType
from sudare.perturbation import LaplacePerturbation, SquareWave

NUMBERS = (LaplacePerturbation, SquareWave)
# Chi-square p-values are approximate far out; a thousand times stricter than the false-alarm rate of 1e-6.
SMALLEST_P = 1e-9


@pytest.mark.parametrize(
    "bounds", [(1, 1), (2, 1), (0, math.inf), (math.nan, 1), (0,), "ab", 3, (0, 1, 2), (0, 1e-300)]
)
@pytest.mark.parametrize("kind", NUMBERS)
def test_bounds_must_be_bounds(kind: Any, bounds: Any) -> None:
    with pytest.raises(InvalidParameter, match="bounds must be two finite numbers"):
        kind(bounds, epsilon=1.0)


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_that_cannot_be_perturbed(kind: Any) -> None:
    perturbation = kind((0, 10), epsilon=1.0)
    for values, error, says in (
        ([1.0, math.nan], DataError, "missing"),
        ([], DataError, "no values"),
        ([[1.0], [2.0]], DataError, "2 dimensions"),
        (["secret"], WrongType, "not numbers"),
    ):
        with pytest.raises(error, match=says) as caught:
            perturbation.perturb(values)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("kind", NUMBERS)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0.01, 16.0))
def test_inputs_and_outputs_are_on_a_public_grid(kind: Any, low: float, width: float, epsilon: float) -> None:
    perturbation = kind((low, low + width), epsilon=epsilon)
    assert perturbation.steps * perturbation.grid == pytest.approx(
        perturbation.bounds[1] - perturbation.bounds[0], rel=1e-12
    )
    outside = np.array([low - 1e9, low, low + width / 3, low + width, math.inf, -math.inf])
    codes = perturbation.codes(outside)
    assert codes.min() == 0 == codes[0] == codes[1] == codes[5]
    assert codes.max() == perturbation.steps == codes[3] == codes[4]
    assert 16 <= perturbation.steps <= 2**16
    assert perturbation.noise_scale > 0
    assert perturbation.exact_epsilon <= epsilon
    assert perturbation.exact_epsilon >= epsilon * (1 - 1e-4) - 1e-5
    ends = perturbation.decoded(np.array([0, perturbation.output_count - 1]))
    assert ends == pytest.approx(perturbation.output_bounds, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 8.0])
def test_channel_is_that_of_the_draws(kind: Any, epsilon: float) -> None:
    """Chi-square of 40,000 draws from one value, in ten bins of about equal probability."""
    perturbation = kind((-2.0, 5.0), epsilon=epsilon)
    drawn = perturbation.perturb(np.full(40_000, 1.3), random_state=1)
    inner = np.quantile(drawn, np.linspace(0.1, 0.9, 9))
    low, high = perturbation.output_bounds
    edges = np.unique(np.concatenate([[low], np.unique(inner), [high]]))
    expected = perturbation.transition_at(edges, [1.3])[:, 0]
    assert expected.sum() == pytest.approx(1.0)
    counts = np.histogram(drawn, edges)[0]
    assert stats.chisquare(counts, 40_000 * expected / expected.sum()).pvalue > SMALLEST_P
    elsewhere = perturbation.transition_at(edges, [4.3])[:, 0]
    assert stats.chisquare(counts, 40_000 * elsewhere / elsewhere.sum()).pvalue < SMALLEST_P


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_transition_is_the_mean_over_the_bin(kind: Any, epsilon: float) -> None:
    """Against the average of `transition_at` over many points of each bin; bins that do not follow the grid."""
    perturbation = kind((0.1, 7.7), epsilon=epsilon)
    low, high = perturbation.output_bounds
    edges_y, edges_x = np.linspace(low, high, 23), np.array([0.1, 0.7, math.pi, 5.0, 7.7])
    exact = perturbation.transition(edges_y, edges_x)
    assert exact.sum(axis=0) == pytest.approx(np.ones(4))
    for column, (left, right) in enumerate(itertools.pairwise(edges_x)):
        points = np.linspace(left, right, 20_001)
        mean = perturbation.transition_at(edges_y, (points[1:] + points[:-1]) / 2).mean(axis=1)
        assert exact[:, column] == pytest.approx(mean, abs=2e-4)


@pytest.mark.parametrize("kind", NUMBERS)
def test_cdf_counts_what_lies_at_or_below(kind: Any) -> None:
    perturbation = kind((0, 1), epsilon=1.0)
    low, high = perturbation.output_bounds
    grid = perturbation.decoded(np.arange(perturbation.output_count))
    cdf = perturbation.cdf(grid, 0.25)
    assert np.all(np.diff(cdf) > 0)
    assert cdf[-1] == 1.0
    assert perturbation.cdf(low - 1e-6, 0.25) == 0.0
    masses = np.diff(np.concatenate([[0.0], cdf]))
    distance, scale = np.abs(grid - 0.25), perturbation.noise_scale
    ideal = np.exp(-distance / scale) if kind is LaplacePerturbation else np.where(distance <= scale, math.e, 1.0)
    density = ideal / ideal.sum()
    # Inside, mass and density agree up to the rounding of one to the grid.
    assert masses[10:-10] == pytest.approx(density[10:-10], rel=0.02)
    assert perturbation.cdf([[low], [high]], [0.0, 1.0]).shape == (2, 2)


@pytest.mark.parametrize("edges", [[1.0], [1.0, 1.0], [2.0, 1.0], [[0.0, 1.0]]])
def test_edges_must_rise(edges: Any) -> None:
    perturbation = LaplacePerturbation((0, 1), epsilon=1.0)
    with pytest.raises(InvalidParameter, match="edges_y must rise"):
        perturbation.transition_at(edges, [0.5])
    with pytest.raises(InvalidParameter, match="edges_x must rise"):
        perturbation.transition([0.0, 1.0], edges)
    with pytest.raises(InvalidParameter, match="outside of the bounds"):
        perturbation.transition([0.0, 1.0], [-1.0, 0.5])
