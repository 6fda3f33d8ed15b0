"""Channels of one or more columns, applied one column after the other."""

from __future__ import annotations

import tracemalloc
from functools import reduce

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sudare.perturbation import LaplacePerturbation
from sudare.reconstruction.binning import bin_edges, continuous_states
from sudare.reconstruction.channels import ListedPairs, ProductChannel, outer_product
from sudare.reconstruction.iterative_bayes import expectation_maximisation


@given(sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_axis_by_axis_is_the_kronecker_product(sizes, seed):
    generator = np.random.default_rng(seed)
    channel = ProductChannel([generator.random(size) for size in sizes])
    dense = reduce(np.kron, channel.matrices)
    states, answers = generator.random(channel.shape), generator.random(channel.answers)
    np.testing.assert_allclose(channel.forward(states).ravel(), dense @ states.ravel())
    np.testing.assert_allclose(channel.backward(answers).ravel(), dense.T @ answers.ravel())


def test_several_problems_stand_in_the_first_axis():
    generator = np.random.default_rng(0)
    product = ProductChannel([generator.random((4, 2)), generator.random((5, 3))])
    listed = ListedPairs(generator.random((4, 2)), np.array([0, 0, 2, 3, 3]), generator.random((5, 3)))
    several = generator.random((6, 2, 3))
    for channel, answers in ((product, generator.random((6, 4, 5))), (listed, generator.random((6, 5)))):
        together, back = channel.forward(several), channel.backward(answers)
        for number in range(6):
            np.testing.assert_allclose(together[number], channel.forward(several[number]))
            np.testing.assert_allclose(back[number], channel.backward(answers[number]))


@given(seed=st.integers(0, 99))
def test_rows_are_the_dense_matrix_too(seed):
    generator = np.random.default_rng(seed)
    first, second = generator.random((4, 3)), generator.random((7, 2))
    places = np.sort(generator.integers(0, 4, 7))
    channel = ListedPairs(first, places, second)
    dense = np.einsum("iu,iv->iuv", first[places], second).reshape(7, 6)
    states, weights = generator.random((3, 2)), generator.random(7)
    assert channel.shape == (3, 2)
    np.testing.assert_allclose(channel.forward(states), dense @ states.ravel())
    np.testing.assert_allclose(channel.backward(weights).ravel(), dense.T @ weights)


def test_memory_does_not_hold_a_kronecker_matrix():
    """Of three columns it would have (26·24)³ entries: 1.9 GB."""
    perturbation = LaplacePerturbation((0, 1), epsilon=3)
    edges = bin_edges(perturbation, 24)
    channel = ProductChannel([continuous_states(perturbation, edges, 24, np.empty(0)).channel] * 3)
    frequencies = np.random.default_rng(0).random(channel.answers)
    frequencies /= frequencies.sum()
    tracemalloc.start()
    expectation_maximisation(np.full(channel.shape, 24.0**-3), channel, frequencies, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


def test_independent_columns_multiply():
    np.testing.assert_allclose(
        outer_product([np.array([0.2, 0.8]), np.array([0.5, 0.5]), np.array([1.0])]), [[[0.1], [0.1]], [[0.4], [0.4]]]
    )


def test_answers_are_counted_together():
    channel = ProductChannel([np.ones((2, 4)), np.ones((3, 5))])
    counts = channel.counted([np.array([0, 1, 1]), np.array([2, 0, 0])])
    np.testing.assert_array_equal(counts, [[0, 0, 1], [2, 0, 0]])
