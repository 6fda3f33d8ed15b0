"""The Iterative Bayesian Technique."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.binning import Counts, States, continuous_states, counted
from sudare.reconstruction.iterative_bayes import (
    checkpoints,
    expectation_maximisation,
    stopped_by_validation,
    thinned,
    uniform_start,
)


@given(seed=st.integers(0, 200), states=st.integers(2, 8), bins=st.integers(2, 8))
def test_every_step_raises_the_likelihood_and_keeps_a_distribution(seed, states, bins):
    """The theorem of expectation maximisation."""
    generator = np.random.default_rng(seed)
    channel = generator.dirichlet(np.ones(bins), states).T
    frequencies = generator.dirichlet(np.ones(bins))
    shares = np.full(states, 1 / states)
    before = frequencies @ np.log(channel @ shares)
    for _ in range(20):
        shares = expectation_maximisation(shares, channel, frequencies, 1)
        after = frequencies @ np.log(channel @ shares)
        assert after >= before - 1e-12
        assert shares.sum() == pytest.approx(1)
        assert shares.min() >= 0
        before = after


def test_without_noise_one_step_gives_the_frequencies():
    frequencies = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(expectation_maximisation(np.full(3, 1 / 3), np.eye(3), frequencies, 1), frequencies)


def test_the_truth_is_a_fixed_point():
    channel = np.random.default_rng(0).dirichlet(np.ones(6), 4).T
    truth = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(expectation_maximisation(truth, channel, channel @ truth, 5), truth, atol=1e-12)


def test_columns_are_problems_of_their_own():
    generator = np.random.default_rng(1)
    channel, frequencies = generator.dirichlet(np.ones(6), 4).T, generator.dirichlet(np.ones(6), 3).T
    together = expectation_maximisation(np.full((4, 3), 0.25), channel, frequencies, 7)
    for number in range(3):
        alone = expectation_maximisation(np.full(4, 0.25), channel, frequencies[:, number], 7)
        np.testing.assert_allclose(together[:, number], alone)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=10), st.integers(2, 6), st.integers(0, 5))
def test_parts_add_up_to_the_whole(values, parts, seed):
    counts = Counts(np.arange(len(values) + 1.0), np.array(values, dtype=float))
    found = thinned(counts, parts, np.random.default_rng(seed))
    assert len(found) == parts
    np.testing.assert_array_equal(np.sum(found, axis=0), values)
    assert all(part.min() >= 0 for part in found)


def test_parts_are_about_equal():
    counts = Counts(np.arange(2.0), np.array([1_000_000.0]))
    for part in thinned(counts, 5, np.random.default_rng(0)):
        # Binomial(1e6, 1/5): six standard deviations are 2,400.
        assert abs(part[0] - 200_000) < 2400


def test_steps_to_choose_from_rise_to_the_most():
    steps = checkpoints(5623)
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (3, 5623)
    assert checkpoints(10) == [3, 6, 10]


def test_stopping_early_is_better_than_going_on():
    """A smooth column at N = 3,000: the limit of the iteration is a handful of peaks."""
    perturbation = LaplacePerturbation((0, 10), k=2, n_records=3000)
    column = np.clip(np.random.default_rng(0).normal(5, 1.5, 3000), 0, 10)
    counts = counted(perturbation, perturbation.perturb(column, random_state=0), 240)
    states = continuous_states(perturbation, counts.edges, 240, np.empty(0))
    stopped = stopped_by_validation(states, counts, np.random.default_rng(0))
    endless = expectation_maximisation(uniform_start(states), states.channel, counts.counts / 3000, 5000)

    def distance(shares):
        found = np.histogram(states.centres, np.arange(11), weights=shares)[0]
        return np.abs(found - np.histogram(column, np.arange(11))[0] / 3000).sum()

    assert 3 <= stopped.steps < 2000
    assert distance(stopped.probabilities) < 0.6 * distance(endless)


def test_atoms_start_with_half_of_the_mass():
    states = States(np.linspace(0, 1, 5), np.array([0.0, 1.0]), True, np.eye(6))
    np.testing.assert_allclose(uniform_start(states), [0.125] * 4 + [0.25] * 2)
    bare = States(np.linspace(0, 1, 5), np.empty(0), True, np.eye(4))
    np.testing.assert_allclose(uniform_start(bare), 0.25)
