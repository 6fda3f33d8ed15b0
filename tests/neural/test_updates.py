"""Updates of AnonymizedLearning: what one row can move, against the interval that the noise is scaled to."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.neural.intervals import Interval
from sudare.neural.network import gradient_sum
from sudare.neural.updates import (
    Noise,
    dealt_out,
    laplace_like,
    largest_entries,
    noisy_update,
    shortened_sum,
    update_intervals,
)
from tests.neural.test_intervals import network

LOSS = "cross_entropy"
SIZES = (3, 5, 2)
BOX = Interval(jnp.zeros(3), jnp.ones(3))
THRESHOLD = 0.3
QUIET = Noise(THRESHOLD, 0.0)


@jax.jit
def own_gradients(parameters, x, targets):
    def own(row, target):
        return gradient_sum(parameters, row[None], target[None], jnp.ones(1), LOSS)

    return jax.vmap(own)(x, targets), largest_entries(parameters, x, targets, LOSS)


@functools.partial(jax.jit, static_argnames="clipping")
def updates(parameters, x, targets, kept, key, noise, clipping):
    return noisy_update(parameters, x, targets, kept, key, BOX, noise, LOSS, clipping)


@jax.jit
def ends(parameters, times):
    return update_intervals(parameters, BOX, times, THRESHOLD, LOSS)


def rows_of(seed, count=8):
    generator = np.random.default_rng(seed)
    x = jnp.asarray(generator.uniform(size=(count, 3)), jnp.float32)
    return x, jnp.asarray(np.eye(2)[generator.integers(2, size=count)], jnp.float32)


def test_the_largest_entry_is_found_without_forming_a_gradient():
    parameters = network(SIZES, 1)
    own, largest = own_gradients(parameters, *rows_of(2))
    formed = np.max([np.abs(part).reshape(8, -1).max(axis=1) for part in jax.tree.leaves(own)], axis=0)
    np.testing.assert_allclose(largest, formed, rtol=1e-6)


def test_a_shortened_row_keeps_its_direction_and_stays_within():
    parameters = network(SIZES, 1)
    x, targets = rows_of(2, 1)
    # The other class than the one the network is sure of.
    targets = 1 - targets
    total = jax.jit(shortened_sum, static_argnames="loss")(parameters, x, targets, jnp.ones(1), THRESHOLD, LOSS)
    whole, _ = own_gradients(parameters, x, targets)
    entries = np.concatenate([np.ravel(part) for part in jax.tree.leaves(total)])
    originals = np.concatenate([np.ravel(part) for part in jax.tree.leaves(whole)])
    assert np.abs(originals).max() > THRESHOLD
    assert np.abs(entries).max() <= THRESHOLD
    assert np.abs(entries).max() > 0.99 * THRESHOLD
    assert entries @ originals == pytest.approx(np.linalg.norm(entries) * np.linalg.norm(originals), rel=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    clipping=st.sampled_from(["example", "batch"]),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_replacing_a_row_moves_no_entry_by_more_than_its_interval(seed, clipping, scale):
    """The statement that the noise rests on, for both ways of clipping and for large and small parameters."""
    parameters = network(SIZES, seed, scale)
    x, targets = rows_of(seed + 1)
    other_x, other_targets = rows_of(seed + 2)
    kept, key = jnp.ones(8), jax.random.key(0)
    first = updates(parameters, x, targets, kept, key, QUIET, clipping)
    second = updates(
        parameters, x.at[0].set(other_x[0]), targets.at[0].set(other_targets[0]), kept, key, QUIET, clipping
    )
    low, high = ends(parameters, jnp.ones(()) if clipping == "example" else jnp.full((), 8.0))
    for one, other, least, most in zip(*map(jax.tree.leaves, (first, second, low, high)), strict=True):
        assert np.all(np.abs(one - other) <= np.asarray(most - least) + 1e-5)


def test_intervals_narrow_the_threshold_where_the_network_leaves_less_room():
    low, high = ends(network(SIZES, 5, 0.01), jnp.ones(()))
    widths = [np.asarray(most - least) for least, most in zip(*map(jax.tree.leaves, (low, high)), strict=True)]
    # The first layer's slopes pass through small weights; the last bias does not.
    assert widths[0].max() < 0.2 * THRESHOLD
    assert widths[-1].max() == pytest.approx(2 * THRESHOLD)


def test_noise_of_a_summed_batch_does_not_know_its_size_and_that_of_rows_is_drowned_by_more_rows():
    """The paper clips sums: noise over the largest signal is 2/ε for any batch. Clipped by row it falls with the batch."""
    parameters = network(SIZES, 7)
    for rows in (1.0, 8.0):
        low, high = ends(parameters, jnp.full((), rows))
        noise = np.asarray(high[-1][1] - low[-1][1])
        reach_of_sum, reach_of_rows = THRESHOLD, rows * THRESHOLD
        assert noise / reach_of_sum == pytest.approx(2)
        assert noise / reach_of_rows == pytest.approx(2 / rows)


def test_noise_is_laplace_of_the_interval_and_clipped_again():
    parameters = network(SIZES, 8)
    x, targets = rows_of(9)
    keys = jax.random.split(jax.random.key(3), 4000)
    many = jax.vmap(updates, in_axes=(None, None, None, None, 0, None, None))
    drawn = np.asarray(many(parameters, x, targets, jnp.ones(8), keys, Noise(THRESHOLD, 0.5), "example")[-1][1])[:, 0]
    exact = float(updates(parameters, x, targets, jnp.ones(8), keys[0], QUIET, "example")[-1][1][0])
    scale = 0.5 * 2 * THRESHOLD
    assert np.abs(drawn).max() <= 8 * THRESHOLD + 1e-6
    # Mean absolute deviation of a Laplace law is its scale; its mean over 4,000 has deviation 0.016 of it, and 8 of those are 0.13.
    assert np.mean(np.abs(drawn - exact)) == pytest.approx(scale, rel=0.13)
    plain = laplace_like(keys[0], parameters)
    assert [part.shape for part in jax.tree.leaves(plain)] == [part.shape for part in jax.tree.leaves(parameters)]


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(1, 300), batch=st.integers(1, 64))
def test_every_row_is_dealt_out_once(rows, batch):
    order = np.random.default_rng(rows).random(rows)
    chosen, kept = dealt_out(rows, batch, order)
    assert sorted(chosen[kept == 1].tolist()) == list(range(rows))
    assert kept.sum() == rows
    assert np.ptp(kept.sum(axis=1)) <= 1
