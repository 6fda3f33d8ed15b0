"""Quantiles of mixtures of normals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sudare.reconstruction.confidence_bands import Band, Seen, WeightedDistribution, mixture_quantiles, solved

MANY = 10**15
"""So many records that their sampling noise is nothing."""


def member(weight, mean, deviation):
    """A member over one state of a two-state layout, whose deviation in the band is as given."""
    spread = np.array([[deviation / 0.9], [-deviation / 0.9]])
    return WeightedDistribution(weight, np.array([mean, 1 - mean]), spread)


@given(mean=st.floats(0.3, 0.7), deviation=st.floats(0.001, 0.05), level=st.floats(0.5, 0.99))
def test_one_member_gives_normal_limits(mean, deviation, level):
    sides = (1 - level) / 2, (1 + level) / 2
    low, high = mixture_quantiles([member(1.0, mean, deviation)], np.eye(2)[:1], MANY, sides)
    np.testing.assert_allclose([low[0], high[0]], norm.ppf(sides, mean, deviation), atol=1e-7)


def test_members_that_disagree_widen_the_band():
    alone = mixture_quantiles([member(1.0, 0.4, 0.01)], np.eye(2), MANY, (0.05, 0.95))
    split = mixture_quantiles([member(0.5, 0.4, 0.01), member(0.5, 0.6, 0.01)], np.eye(2), MANY, (0.05, 0.95))
    assert alone[1][0] - alone[0][0] < 0.04
    assert split[0][0] < 0.4
    assert split[1][0] > 0.6
    # A quarter of the mixture lies below the quantile that has half of the first member below it.
    quarter, _ = mixture_quantiles([member(0.5, 0.4, 0.01), member(0.5, 0.6, 0.01)], np.eye(2), MANY, (0.25, 0.5))
    assert quarter[0] == pytest.approx(0.4, abs=1e-6)


def test_limits_are_shares():
    low, high = mixture_quantiles([member(1.0, 0.01, 0.5)], np.eye(2), MANY, (0.05, 0.95))
    assert np.all(low >= 0)
    assert np.all(high <= 1)


def test_few_records_make_bands_of_their_own_sampling_noise():
    low, high = mixture_quantiles([member(1.0, 0.5, 1e-9)], np.eye(2), 100, (0.05, 0.95))
    assert high[0] - low[0] == pytest.approx(2 * 1.6449 * 0.05, abs=1e-3)


def random_problem(seed):
    """Frequencies of five answers, a channel from four states to them, two bins of the states, and a member."""
    generator = np.random.default_rng(seed)
    channel = generator.dirichlet(np.ones(5), 4).T
    seen = Seen(generator.dirichlet(np.ones(5)), lambda: channel)
    bins = np.array([[1.0, 0.5, 0.0, 0.0], [0.0, 0.5, 1.0, 0.0]])
    return (
        seen,
        bins,
        WeightedDistribution(1.0, generator.dirichlet(np.ones(4)), 0.01 * generator.standard_normal((4, 3))),
    )


def test_values_that_tell_everything_leave_nothing_open():
    """Without noise the records' own shares are known, whatever is known of the population they came from."""
    seen = Seen(np.array([0.2, 0.5, 0.3]), lambda: np.eye(3))
    unsure = WeightedDistribution(1.0, np.array([0.3, 0.3, 0.4]), 0.1 * np.eye(3))
    means, variances = unsure.shares(np.eye(3)[:2], 100, seen)
    np.testing.assert_allclose(means, [0.2, 0.5])
    np.testing.assert_allclose(variances, 0.0, atol=1e-18)


def test_values_that_tell_nothing_leave_a_sample_of_the_population():
    nothing = Seen(np.array([0.2, 0.5, 0.3]), lambda: np.full((3, 2), 1 / 3))
    # Probabilities add up to one, so what is unknown about them adds up to nothing.
    one = WeightedDistribution(1.0, np.array([0.4, 0.6]), np.array([[0.02], [-0.02]]))
    for told, untold in zip(one.shares(np.eye(2), 100, nothing), one.shares(np.eye(2), 100, None), strict=True):
        np.testing.assert_allclose(told, untold)


@given(seed=st.integers(0, 1000))
def test_shares_follow_from_what_each_value_says(seed):
    """Mean and sampling noise by sums over answers; what is unknown of θ by moving it a little."""
    seen, bins, one = random_problem(seed)

    def mean_share(probabilities):
        joint = seen.channel * probabilities
        return seen.frequencies @ (joint / joint.sum(axis=1, keepdims=True) @ bins.T)

    means, variances = one.shares(bins, 50, seen)
    np.testing.assert_allclose(means, mean_share(one.probabilities))
    joint = seen.channel * one.probabilities
    within = joint / joint.sum(axis=1, keepdims=True) @ bins.T
    step = 1e-6
    moved = [mean_share(one.probabilities + step * column) - means for column in one.spread.T]
    unknown = 0.81 * (np.array(moved) ** 2).sum(axis=0) / step**2
    np.testing.assert_allclose(variances, unknown + seen.frequencies @ (within * (1 - within)) / 50, rtol=1e-3)


def test_halving_finds_where_a_rising_function_takes_a_value():
    root = solved(lambda x: x**3, np.zeros(2), np.full(2, 10.0), 27.0)
    np.testing.assert_allclose(root, 3.0)


def test_a_band_says_what_it_is():
    edges, estimate = np.arange(3.0), np.array([0.5, 0.5])
    assert str(Band(edges, estimate, 0.9, True)) == "90% band over 2 bins"
    assert str(Band(edges, estimate, 0.9, False, "too rough.")) == "not calibrated: too rough."
