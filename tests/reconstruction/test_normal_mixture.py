"""Mixtures seen through the channel, beside the closed forms of the paper."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, truncnorm

from sudare.papers.p004_reconstruction.normal_laplace import Parameters, expectation, gradients
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.binning import bin_edges, continuous_states, counted
from sudare.reconstruction.laplace_approximation import most_likely
from sudare.reconstruction.normal_mixture import (
    NormalMixture,
    bayesian_information,
    cell_masses,
    log_evidence,
    log_namings,
    mixture_fits,
    mixture_modes,
    splits,
    start_at_quantiles,
)

PERTURBATION = LaplacePerturbation((0, 10), epsilon=5.0)
EDGES = bin_edges(PERTURBATION, 240)
STATES = continuous_states(PERTURBATION, EDGES, 240, np.empty(0))


def fitted(column, components, atoms=(), **kwargs):
    counts = counted(PERTURBATION, PERTURBATION.perturb(column, random_state=0), 240)
    states = continuous_states(PERTURBATION, counts.edges, 240, np.array(atoms))
    flat = np.full(240 + len(atoms), 1 / (240 + len(atoms)))
    return mixture_fits(states, counts, 0.06, [flat], components, **kwargs), counts


@given(mean=st.floats(0, 1), scale=st.floats(0.01, 1))
def test_masses_are_those_of_a_cut_off_normal(mean, scale):
    edges = np.linspace(0, 1, 31)
    masses, _, _ = cell_masses(edges, np.array([mean]), np.array([scale]))
    law = truncnorm((0 - mean) / scale, (1 - mean) / scale, loc=mean, scale=scale)
    np.testing.assert_allclose(masses[:, 0], np.diff(law.cdf(edges)), atol=1e-9)


@given(seed=st.integers(0, 500), components=st.integers(1, 6), atoms=st.integers(0, 2))
def test_parameters_survive_packing(seed, components, atoms):
    generator = np.random.default_rng(seed)
    states = continuous_states(PERTURBATION, EDGES, 240, np.array((0.0, 10.0)[:atoms]))
    model = NormalMixture(states, components, 0.06)
    weights = generator.dirichlet(np.full(components + atoms, 3.0))
    means, scales = generator.uniform(0.1, 0.9, components), generator.uniform(0.03, 0.15, components)
    found = model.unpacked(model.packed(weights, means, scales))
    np.testing.assert_allclose(found[1], means, atol=1e-9)
    np.testing.assert_allclose(found[2], scales, atol=1e-9)
    if weights.min() > 0.03:
        np.testing.assert_allclose(found[0], weights, atol=1e-9)


def test_likelihood_and_gradient_are_those_of_the_closed_form():
    """Far from the bounds the cut-off mixture is the paper's, and bins are fine: eq. (13) and the gradients after it."""
    model = NormalMixture(STATES, 2, 0.06)
    truth = Parameters(np.array([0.4, 0.6]), np.array([4.0, 6.0]), np.array([0.5, 0.4]))
    place = model.packed(truth.weights, truth.means / 10, truth.scales / 10)
    generator = np.random.default_rng(0)
    column = truth.means[generator.choice(2, 50_000, p=truth.weights)] + 0.45 * generator.normal(size=50_000)
    y = PERTURBATION.perturb(column, random_state=0)
    y = y[(y > 1) & (y < 9)]
    counts = counted(PERTURBATION, y, 240)
    shares, slopes = model.probabilities(place)
    expected = STATES.channel @ shares
    likelihood = counts.counts @ np.log(expected / np.diff(counts.edges))
    found = expectation(y, np.ones(len(y)), truth, PERTURBATION.noise_scale)
    # Within a bin the density varies by a per cent: over 50,000 values that adds up to a unit or so.
    assert likelihood == pytest.approx(found.log_likelihood, abs=3.0)
    by_mean, by_scale = gradients(np.ones(len(y)), found, truth)
    gradient = (STATES.channel @ slopes).T @ (counts.counts / expected)
    pace = norm.pdf(place[2:4]) * 10
    np.testing.assert_allclose(gradient[2:4], by_mean * pace, rtol=0.02, atol=3.0)
    np.testing.assert_allclose(gradient[4:6], by_scale * truth.scales * 0.6, rtol=0.02, atol=3.0)


def test_a_known_mixture_is_found_again():
    generator = np.random.default_rng(1)
    component = generator.choice(3, 200_000, p=[0.2, 0.5, 0.3])
    column = np.array([2.0, 5.0, 8.0])[component] + np.array([0.3, 0.5, 0.4])[component] * generator.normal(
        size=200_000
    )
    fits, counts = fitted(np.clip(column, 0, 10), 5)
    best = min(fits, key=lambda fit: bayesian_information(fit, counts.records))
    assert best.model.components == 3
    found = best.model.described(best.parameters)
    order = np.argsort(found.means)
    # Standard errors at this size are about 0.02 (Fisher information); seeded.
    np.testing.assert_allclose(found.means[order], [2, 5, 8], atol=0.08)
    np.testing.assert_allclose(found.weights[order], [0.2, 0.5, 0.3], atol=0.02)
    np.testing.assert_allclose(found.scales[order], [0.3, 0.5, 0.4], atol=0.12)


def test_likelihood_rises_with_the_number_of_components():
    generator = np.random.default_rng(2)
    column = np.clip(generator.gamma(3.0, 1.0, 20_000), 0, 10)
    fits, _ = fitted(column, 5)
    best = [max(f.log_likelihood for f in fits if f.model.components == count) for count in range(1, 6)]
    assert all(later > earlier - 1.0 for earlier, later in itertools.pairwise(best))


def test_atoms_get_their_weight():
    generator = np.random.default_rng(3)
    column = np.where(generator.random(100_000) < 0.4, 0.0, np.clip(generator.normal(6, 1, 100_000), 0, 10))
    fits, _ = fitted(column, 2, atoms=(0.0, 10.0))
    best = max(fits, key=log_evidence)
    weights, _, _ = best.model.unpacked(best.parameters)
    np.testing.assert_allclose(weights[-2:], [0.4, 0.0], atol=0.02)


def test_components_far_apart_have_as_many_namings_as_there_are_orders():
    counts = counted(PERTURBATION, PERTURBATION.perturb(np.repeat([1.0, 5.0, 9.0], 50_000), random_state=0), 240)
    model = NormalMixture(STATES, 3, 0.06)
    apart = most_likely(model, STATES, counts, model.packed(np.ones(3), np.array([0.1, 0.5, 0.9]), np.full(3, 0.03)))
    assert log_namings(apart) == pytest.approx(math.log(6), abs=1e-3)
    same = most_likely(model, STATES, counts, model.packed(np.ones(3), np.full(3, 0.5), np.full(3, 0.1)))
    assert log_namings(same) == pytest.approx(0, abs=1e-3)
    assert log_evidence(apart) == pytest.approx(apart.log_evidence + 0.5 * math.log(6), abs=1e-3)


def test_starts_follow_the_shape_they_are_given():
    model = NormalMixture(STATES, 2, 0.06)
    shape = np.zeros(240)
    shape[[24, 216]] = 0.5
    weights, means, scales = model.unpacked(start_at_quantiles(model, shape))
    np.testing.assert_allclose(np.sort(means), [24.5 / 240, 216.5 / 240], atol=0.01)
    np.testing.assert_allclose(weights, 0.5, atol=1e-6)
    assert np.all(scales < 0.05)
    shape[:] = 0
    shape[0] = 1.0
    assert np.all(np.isfinite(start_at_quantiles(NormalMixture(STATES, 5, 0.06), shape)))


def test_a_split_keeps_the_mass_and_adds_a_component():
    fits, _ = fitted(np.clip(np.random.default_rng(0).normal(5, 1, 5000), 0, 10), 1)
    model = NormalMixture(STATES, 2, 0.06)
    starts = splits(model, fits[0])
    weights, means, scales = model.unpacked(starts[0])
    before = fits[0].model.unpacked(fits[0].parameters)
    assert len(weights) == 2
    assert weights @ means == pytest.approx(before[1][0], abs=0.02)
    assert means[0] < before[1][0] < means[1]
    assert np.all(scales < before[2][0])


def test_modes_are_different_and_the_highest_is_first():
    generator = np.random.default_rng(4)
    column = np.clip(generator.normal(5, 2, 3000), 0, 10)
    counts = counted(PERTURBATION, PERTURBATION.perturb(column, random_state=0), 240)
    shapes = [np.full(240, 1 / 240), np.linspace(1, 3, 240) / 480, np.linspace(3, 1, 240) / 480]
    modes = mixture_modes(STATES, counts, 4, 0.06, shapes)
    heights = [mode.log_posterior for mode in modes]
    assert heights == sorted(heights, reverse=True)
    assert all(first - second > 0.05 for first, second in itertools.pairwise(heights))
