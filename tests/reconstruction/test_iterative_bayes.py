"""The Iterative Bayesian Technique."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.binning import States, continuous_states, counted
from sudare.reconstruction.channels import ProductChannel
from sudare.reconstruction.iterative_bayes import (
    checkpoints,
    expectation_maximisation,
    log_likelihood,
    random_parts,
    stopped_by_validation,
    uniform_start,
)


@given(
    seed=st.integers(0, 200), sizes=st.lists(st.tuples(st.integers(2, 8), st.integers(2, 8)), min_size=1, max_size=2)
)
def test_every_step_raises_the_likelihood_and_keeps_a_distribution(seed, sizes):
    """The theorem of expectation maximisation, for one column and for two."""
    generator = np.random.default_rng(seed)
    channel = ProductChannel([generator.dirichlet(np.ones(bins), states).T for bins, states in sizes])
    counts = generator.poisson(20, channel.answers).astype(float) + 1
    shares = np.full(channel.shape, 1 / np.prod(channel.shape))
    before = log_likelihood(channel, shares, counts)
    for _ in range(20):
        shares = expectation_maximisation(shares, channel, counts / counts.sum(), 1)
        after = log_likelihood(channel, shares, counts)
        assert after >= before - 1e-9
        assert shares.sum() == pytest.approx(1)
        assert shares.min() >= 0
        before = after


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_without_noise_one_step_gives_the_frequencies(shape):
    frequencies = np.random.default_rng(0).dirichlet(np.ones(np.prod(shape))).reshape(shape)
    channel = ProductChannel([np.eye(size) for size in shape])
    start = np.full(shape, 1 / np.prod(shape))
    np.testing.assert_allclose(expectation_maximisation(start, channel, frequencies, 1), frequencies)


def test_the_truth_is_a_fixed_point():
    channel = ProductChannel([np.random.default_rng(0).dirichlet(np.ones(6), 4).T])
    truth = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(expectation_maximisation(truth, channel, channel.forward(truth), 5), truth, atol=1e-12)


def test_leading_axes_are_problems_of_their_own():
    generator = np.random.default_rng(1)
    channel = ProductChannel([generator.dirichlet(np.ones(6), 4).T])
    frequencies = generator.dirichlet(np.ones(6), 3)
    together = expectation_maximisation(np.full((3, 4), 0.25), channel, frequencies, 7)
    for number in range(3):
        alone = expectation_maximisation(np.full(4, 0.25), channel, frequencies[number], 7)
        np.testing.assert_allclose(together[number], alone)


def test_parts_left_out_have_not_been_seen():
    """Without noise, what is reached without a part is the frequencies of the others."""
    channel = ProductChannel([np.eye(2), np.eye(2)])
    counts = np.array([[10.0, 20.0], [30.0, 40.0]])
    parts = random_parts(counts, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sum(parts, axis=0), counts)
    stopped = stopped_by_validation(channel, np.full((2, 2), 0.25), parts, 3162)
    np.testing.assert_allclose(stopped.probabilities, counts / 100)
    for part, reached in zip(parts, stopped.left_out, strict=True):
        np.testing.assert_allclose(reached, (counts - part) / (counts - part).sum())


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=10), st.integers(2, 6), st.integers(0, 5))
def test_parts_add_up_to_the_whole(values, parts, seed):
    found = random_parts(np.array(values, dtype=float), parts, np.random.default_rng(seed))
    assert len(found) == parts
    np.testing.assert_array_equal(np.sum(found, axis=0), values)
    assert all(part.min() >= 0 for part in found)


def test_parts_are_about_equal():
    for part in random_parts(np.array([1_000_000.0]), 5, np.random.default_rng(0)):
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
    channel, parts = ProductChannel([states.channel]), random_parts(counts.counts, 5, np.random.default_rng(0))
    stopped = stopped_by_validation(channel, uniform_start(states), parts, 5623)
    endless = expectation_maximisation(uniform_start(states), channel, counts.counts / 3000, 5000)

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
