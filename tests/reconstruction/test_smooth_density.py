"""Smooth log-densities."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.binning import continuous_states, counted
from sudare.reconstruction.laplace_approximation import averaged
from sudare.reconstruction.smooth_density import AMPLITUDES, LENGTHS, log_density, smooth_curves, smooth_fits


@pytest.mark.parametrize("length", LENGTHS)
def test_curves_have_the_covariance_they_are_named_after(length):
    curves = smooth_curves(240, length)
    places = (np.arange(240) + 0.5) / 240
    wanted = np.exp(-0.5 * ((places[:, np.newaxis] - places) / length) ** 2)
    np.testing.assert_allclose(curves @ curves.T, wanted, atol=1e-3)
    assert curves.shape[1] <= 100
    with pytest.raises(ValueError, match="read-only"):
        curves[0, 0] = 1.0


def test_there_are_few_values_beside_an_atom_a_priori():
    perturbation = LaplacePerturbation((0, 1), epsilon=3.0)
    counts = counted(perturbation, perturbation.perturb(np.full(100, 0.5), random_state=0), 100)
    with_atom = log_density(continuous_states(perturbation, counts.edges, 100, np.array([0.0])), 0.1, 1.0)
    without = log_density(continuous_states(perturbation, counts.edges, 100, np.empty(0)), 0.1, 1.0)
    beside, _ = with_atom.probabilities(np.zeros(with_atom.size))
    plain, _ = without.probabilities(np.zeros(without.size))
    np.testing.assert_allclose(plain, 1 / 100)
    assert beside[0] < 0.2 * beside[50]
    assert beside[30] == pytest.approx(beside[50], rel=1e-3)


def test_smooth_columns_are_found_smooth_and_rough_ones_rough():
    perturbation = LaplacePerturbation((0, 10), epsilon=6.0)
    generator = np.random.default_rng(0)
    smooth = np.clip(generator.normal(5, 2, 20_000), 0, 10)
    rough = np.clip(generator.choice([1.0, 3.5, 8.0], 20_000) + 0.15 * generator.normal(size=20_000), 0, 10)
    best = {}
    for name, column in (("smooth", smooth), ("rough", rough)):
        counts = counted(perturbation, perturbation.perturb(column, random_state=1), 240)
        states = continuous_states(perturbation, counts.edges, 240, np.empty(0))
        fits = smooth_fits(states, counts, LENGTHS, AMPLITUDES)
        assert len(fits) == len(LENGTHS) * len(AMPLITUDES)
        best[name] = max(fits, key=lambda fit: fit.log_evidence).model
        mean = averaged(fits, np.array([fit.log_evidence for fit in fits]))
        histogram = np.histogram(states.centres, np.arange(11), weights=mean)[0]
        truth = np.histogram(column, np.arange(11))[0] / 20_000
        assert 1 - 0.5 * np.abs(histogram - truth).sum() > 0.9
    assert best["smooth"].length > 0.2
    assert best["rough"].length < 0.1
