"""Updates of AnonymizedLearning: whole numbers that one row moves by K at most, whatever it holds and whatever floats do."""

from __future__ import annotations

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.neural.per_row_clipping import gradient_sum, layer_slopes, layer_values, output_residuals
from sudare.neural.training_method_base import Facts, flattened
from sudare.papers.p002_networks import anonymized_learning as module
from sudare.papers.p002_networks.anonymized_learning import (
    Quantisation,
    clipped_sum,
    entry_levels,
    largest_entries,
    levels_of,
    noisy_update,
    shaped_like,
    shortened_gradients,
    trained_with_noisy_updates,
    update_intervals,
)
from sudare.papers.p002_networks.approaches import AnonymizedLearning
from sudare.papers.p002_networks.discrete_laplace import discrete_laplace
from sudare.papers.p002_networks.parameter_intervals import Interval
from sudare.papers.p002_networks.printed_training import fixed_batches
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.schema import Number, Schema
from tests.papers.p002_networks.test_parameter_intervals import network

LOSS = "cross_entropy"
SIZES = (3, 5, 2)
BOX = Interval(jnp.zeros(3), jnp.ones(3))
THRESHOLD = 0.3
LEVELS = 2**20
QUANTISATION = Quantisation(THRESHOLD, LEVELS)
PARAMETERS = 4 * 5 + 6 * 2


@jax.jit
def own_gradients(parameters, x, targets):
    def own(row, target):
        return gradient_sum(parameters, row[None], target[None], jnp.ones(1), LOSS)

    inputs, predicted = layer_values(parameters, x)
    slopes = layer_slopes(parameters, inputs, output_residuals(predicted, targets, LOSS))
    return jax.vmap(own)(x, targets), largest_entries(inputs, slopes)


@functools.partial(jax.jit, static_argnames="clipping")
def updates(parameters, x, targets, kept, drawn, clipping):
    return noisy_update(parameters, x, targets, kept, drawn, BOX, QUANTISATION, LOSS, clipping)


@jax.jit
def ends(parameters, times):
    return update_intervals(parameters, BOX, times, THRESHOLD, LOSS)


def rows_of(seed, count=8):
    generator = np.random.default_rng(seed)
    x = jnp.asarray(generator.uniform(size=(count, 3)), jnp.float32)
    return x, jnp.asarray(np.eye(2)[generator.integers(2, size=count)], jnp.float32)


def vector(tree):
    return np.concatenate([np.ravel(part) for part in jax.tree.leaves(tree)])


def test_the_largest_entry_is_found_without_forming_a_gradient():
    own, largest = own_gradients(network(SIZES, 1), *rows_of(2))
    formed = np.max([np.abs(part).reshape(8, -1).max(axis=1) for part in jax.tree.leaves(own)], axis=0)
    np.testing.assert_allclose(largest, formed, rtol=1e-6)


def test_a_shortened_row_keeps_its_direction_and_stays_within():
    parameters = network(SIZES, 1)
    x, targets = rows_of(2, 1)
    # The other class than the one the network is sure of.
    targets = 1 - targets
    total = updates(parameters, x, targets, jnp.ones(1), jnp.zeros(PARAMETERS, jnp.int32), "example")
    entries, originals = vector(total), vector(own_gradients(parameters, x, targets)[0])
    assert np.abs(originals).max() > THRESHOLD
    assert 0.99 * THRESHOLD < np.abs(entries).max() <= THRESHOLD
    assert entries @ originals == pytest.approx(np.linalg.norm(entries) * np.linalg.norm(originals), rel=1e-5)


def test_levels_are_a_million_and_fewer_where_32_bits_would_not_hold_the_sum_or_the_noise():
    assert levels_of(512, Fraction(1)) == 2**20
    assert levels_of(2**15, Fraction(1)) == 2**15
    assert levels_of(2**15 + 1, Fraction(1)) == 2**14
    assert levels_of(1, Fraction(2**10)) == 2**14
    assert levels_of(2**40, Fraction(10**12)) == 1
    assert levels_of(10, Fraction(1, 10**9)) == 2**20


clipped_sums = jax.jit(clipped_sum, static_argnames=("loss", "clipping"))


@jax.jit
def levels_between(low, high, levels):
    return entry_levels(low, high, levels)


EXTREMES = st.sampled_from([0.0, 1.0, -1.0, 1.25, 1e-30, 1e30, -1e38, float("inf"), float("nan")])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    loss=st.sampled_from(["cross_entropy", "squared"]),
    sizes=st.sampled_from([(3, 2), (3, 4, 4, 2)]),
    clipping=st.sampled_from(["example", "batch"]),
    scale=st.sampled_from([0.0, 0.1, 1.0, 8.0, 1e20]),
    threshold=st.sampled_from([2.0**-60, 0.05, 7.04, 2.0**60]),
    levels=st.sampled_from([1, 2**10, 2**20]),
    box=st.sampled_from([(0.0, 1.0), (-1.0, 1.25), (0.0, 0.0), (-1e38, 1e38), (0.0, float("inf"))]),
    strange=st.tuples(EXTREMES, EXTREMES, EXTREMES),
    target=EXTREMES,
)
def test_a_replaced_row_moves_no_entry_by_more_than_its_levels(
    seed, loss, sizes, clipping, scale, threshold, levels, box, strange, target
):
    """The statement that the noise rests on, in whole numbers: rows beyond their bounds, infinite and undefined ones, and floats
    that overflow change nothing about it.
    """
    parameters = network(sizes, seed, scale)
    x, targets = rows_of(seed + 1)
    kept = jnp.ones(8).at[7].set(0.0)
    ends_of_inputs = Interval(*(jnp.full(3, end) for end in box))
    other_x = x.at[0].set(jnp.asarray(strange))
    other_targets = targets.at[0].set(jnp.asarray([target, 1.0]))
    of = (ends_of_inputs, Quantisation(threshold, levels), loss, clipping)
    first, low, high = clipped_sums(parameters, x, targets, kept, *of)
    second, other_low, other_high = clipped_sums(parameters, other_x, other_targets, kept, *of)
    np.testing.assert_array_equal(vector((low, high)), vector((other_low, other_high)))
    assert vector(first).dtype == np.int32
    assert np.all(np.abs(vector(first).astype(np.int64) - vector(second)) <= levels)
    assert np.all((vector(low) <= 0) & (vector(high) >= 0))
    assert np.all(vector(high) - vector(low) <= 2 * threshold)
    grid = levels_between(low, high, levels)
    lowest, highest = vector(grid.lowest), vector(grid.highest)
    assert np.all((-levels <= lowest) & (lowest <= 0) & (highest - lowest == levels))
    rows = 7 if clipping == "example" else 1
    for total in (first, second):
        assert np.all((rows * lowest <= vector(total)) & (vector(total) <= rows * highest))
    # Padding counts nothing, whatever it holds.
    padded = clipped_sums(parameters, x.at[7].set(jnp.asarray(strange)), targets, kept, *of).total
    np.testing.assert_array_equal(vector(padded), vector(first))


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_whole_numbers_are_the_shortened_gradients(loss):
    """Where the intervals hold, rounding is all that clipping to levels does: half a level a row at most."""
    for scale in (0.3, 3.0):
        parameters = network(SIZES, 4, scale)
        x, targets = rows_of(5)
        kept = jnp.ones(8)
        total, low, high = clipped_sums(parameters, x, targets, kept, BOX, QUANTISATION, loss, "example")
        inputs, slopes = shortened_gradients(parameters, x, targets, kept, THRESHOLD, loss)
        exact = vector([(a.T @ slope, slope.sum(axis=0)) for a, slope in zip(inputs, slopes, strict=True)])
        density = vector(levels_between(low, high, LEVELS).per_unit)
        alive = density > 0
        np.testing.assert_allclose(
            vector(total)[alive] / density[alive], exact[alive], atol=8 / density[alive].min() + 1e-5
        )


def test_sums_of_rows_do_not_depend_on_their_order():
    parameters, (x, targets) = network(SIZES, 6), rows_of(7, 37)
    first, second = (
        vector(clipped_sums(parameters, a, b, jnp.ones(37), BOX, QUANTISATION, LOSS, "example").total)
        for a, b in ((x, targets), (x[::-1], targets[::-1]))
    )
    # A row's place may change its float products, and so a level here and there, but no sum of levels is rounded.
    assert np.abs(first - second).max() <= 37


def test_noise_goes_around_at_two_to_the_32():
    """A sum beyond 2³¹ is the same as the one 2³² lower: only the residue becomes a float."""
    parameters, (x, targets) = network(SIZES, 8), rows_of(9)
    kept = jnp.ones(8)
    total = vector(clipped_sums(parameters, x, targets, kept, BOX, QUANTISATION, LOSS, "example").total)
    around = (np.sign(total).astype(np.int64) * 2**31).astype(np.uint32).view(np.int32)
    wrapped = vector(updates(parameters, x, targets, kept, jnp.asarray(around), "example"))
    moved = np.flatnonzero(total)
    # From the outermost residue of its own sign it goes to that of the other.
    assert np.all(np.sign(wrapped[moved]) * np.sign(total[moved]) <= 0)


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
    noise = discrete_laplace(4000 * PARAMETERS, Fraction(LEVELS, 2), SystemNoise()).reshape(4000, PARAMETERS)
    many = jax.vmap(updates, in_axes=(None, None, None, None, 0, None))
    drawn = np.asarray(many(parameters, x, targets, jnp.ones(8), noise, "example")[-1][1])[:, 0]
    quiet = updates(parameters, x, targets, jnp.ones(8), jnp.zeros(PARAMETERS, jnp.int32), "example")
    scale = 0.5 * 2 * THRESHOLD
    assert np.abs(drawn).max() <= 8 * THRESHOLD + 1e-6
    # Mean absolute deviation of a Laplace law is its scale; its mean over 4,000 has deviation 0.016 of it, and 8 of those are 0.13.
    assert np.mean(np.abs(drawn - float(quiet[-1][1][0]))) == pytest.approx(scale, rel=0.13)


def test_a_vector_takes_the_shapes_of_the_parameters_in_the_order_of_a_release():
    parameters = network(SIZES, 1)
    shaped = shaped_like(jnp.arange(PARAMETERS), parameters)
    assert [part.shape for part in jax.tree.leaves(shaped)] == [part.shape for part in jax.tree.leaves(parameters)]
    np.testing.assert_array_equal(flattened(shaped), np.arange(PARAMETERS))


def test_noise_is_drawn_for_every_update_of_every_epoch_in_parts_that_memory_holds(monkeypatch):
    """K·E/ε is the scale of every draw, and there is a number for each parameter in each update."""
    drawn = []

    def recorded(count, scale, source):
        drawn.append((count, scale))
        return discrete_laplace(count, scale, source)

    monkeypatch.setattr(module, "discrete_laplace", recorded)
    monkeypatch.setattr(module, "_MOST_DRAWN_AT_ONCE", 2 * 8)
    x, targets = map(np.asarray, rows_of(3, 20))
    schema = Schema({name: Number(0, 1) for name in "abc"})
    facts = Facts(20, (3, 2), LOSS, "replace-one", schema, "scaled", (0, 1))
    method = AnonymizedLearning(facts, 2.0, epochs=3, batch_size=4, learning_rate=0.1, threshold=THRESHOLD)
    layers = trained_with_noisy_updates(method, x, targets, SeededNoise(0))
    assert np.all(np.abs(flattened(layers)) <= 8)
    scale = levels_of(4, Fraction(3, 2)) * Fraction(3, 2)
    assert drawn == 3 * [(2 * 8, scale), (2 * 8, scale), (8, scale)]


@settings(max_examples=50, deadline=None)
@given(rows=st.integers(1, 300), batch=st.integers(1, 64))
def test_every_row_is_dealt_out_once(rows, batch):
    order = np.random.default_rng(rows).random(rows)
    chosen, kept = fixed_batches(rows, batch, order)
    assert sorted(chosen[kept == 1].tolist()) == list(range(rows))
    assert kept.sum() == rows
    assert np.ptp(kept.sum(axis=1)) <= 1
