"""Networks: ghost norms are the norms of gradients, clipped sums are sums of clipped gradients in whole units."""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.neural import per_row_clipping as network
from sudare.neural.training_method_base import parameters_in
from sudare.privacy import discrete_gaussian
from tests.neural.nets import (
    LOSSES,
    clipped_gradient_sum,
    flat,
    gradient_sum,
    losses,
    private_step,
    random_network,
    row_gradients,
    shapes,
    squared_norms,
    whole_sum,
)

few = settings(max_examples=40, deadline=None)
seeds, sizes = st.integers(0, 2**31), st.floats(0.1, 3)


@few
@given(seeds, shapes, losses, sizes)
def test_ghost_norms_are_the_norms_of_each_rows_gradient(seed, shape, loss, size):
    """To 1e-6, relative, in 32-bit floats: the gradients are formed by JAX, and their norms added up in 64 bits."""
    parameters, x, targets = random_network(seed, shape, loss, size)
    formed = (row_gradients(parameters, x, targets, loss) ** 2).sum(axis=1)
    ghosts = np.asarray(squared_norms(parameters, x, targets, loss), dtype=np.float64)
    # A norm is the root of what is compared, so its error is half; slopes that cancel to nothing are compared absolutely.
    np.testing.assert_allclose(np.sqrt(ghosts), np.sqrt(formed), rtol=1e-6, atol=1e-6)


@few
@given(seeds, shapes, losses, sizes, st.floats(0.01, 10))
def test_the_clipped_sum_is_the_sum_of_clipped_gradients(seed, shape, loss, size, clip):
    parameters, x, targets = random_network(seed, shape, loss, size)
    formed = row_gradients(parameters, x, targets, loss)
    kept = np.random.default_rng(seed).integers(0, 2, len(x)).astype(np.float32)
    norms = np.linalg.norm(formed, axis=1)
    bound = clip * (1 - network.margin_of(network.row_parts(parameters, x, targets, None, loss), 1.0))
    factors = kept * np.minimum(1.0, np.divide(bound, norms, out=np.ones_like(norms), where=norms > 0))
    together = flat(clipped_gradient_sum(parameters, x, targets, jnp.asarray(kept), clip, loss))
    np.testing.assert_allclose(together, factors @ formed, rtol=1e-4, atol=1e-5 * max(1, clip))


@few
@given(seeds, shapes, losses, sizes)
def test_the_plain_sum_is_the_sum_of_gradients(seed, shape, loss, size):
    parameters, x, targets = random_network(seed, shape, loss, size)
    weights = np.random.default_rng(seed).uniform(0, 2, len(x)).astype(np.float32)
    together = flat(gradient_sum(parameters, x, targets, jnp.asarray(weights), loss))
    np.testing.assert_allclose(together, weights @ row_gradients(parameters, x, targets, loss), rtol=1e-4, atol=1e-5)


def factors_of(slopes, clip=1.0, kept=None):
    """Factors of rows with the constant input 1 alone and one slope each, over those of rows that are not clipped."""
    rows = len(slopes)
    step_settings = network.StepSettings(1.0, 1.0, 0.0, clip, 1.0, 1.0)
    held = jnp.asarray(slopes, jnp.float32)[:, None]
    blocks = (network.OuterProductBlock(jnp.zeros((rows, 1), jnp.float32), held), network.FormedBlock(held))
    kept = jnp.ones(rows) if kept is None else jnp.asarray(kept)
    return (
        np.asarray(network.row_factors(blocks, kept, step_settings), dtype=np.float64) * clip / network.NOISE_DEVIATION
    )


def test_a_row_of_no_slope_stays_as_it_is():
    """Factors are one below the clip, and zero for padding and where a norm is infinite or undefined: such a row does not count."""
    slopes = [0.0, 1e-40, 1e-8, 0.25, 4.0, 1e15, 1e30, np.inf, np.nan]
    factors = factors_of(slopes)
    assert factors[:4].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert factors[4] == pytest.approx(0.25, rel=1e-2)
    assert factors[5] == pytest.approx(1e-15, rel=1e-2)
    assert factors[6:].tolist() == [0.0, 0.0, 0.0]
    assert np.all(factors[4:6] * np.asarray(slopes[4:6]) <= 1.0)
    assert factors_of([0.5, 0.5], kept=[1.0, 0.0]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("clip", [2.0**-20, 1.0, 2.0**20])
def test_no_slope_is_too_small_to_be_clipped(clip):
    """Squares below the smallest normal float may be lost; the norm has room for all of them."""
    slopes = np.float32(2.0) ** np.arange(-140, 31)
    assert np.all(factors_of(slopes, clip) * slopes <= clip)


def test_rows_are_added_as_whole_numbers_of_parts():
    """Parts of 64 rows: with more rows than a part, and a last part that is not full, the sum is that of single rows to the unit of a part's float."""
    parameters, x, targets = random_network(3, (5, (7,), 3), "cross_entropy", rows=150)
    kept = jnp.asarray(np.random.default_rng(0).integers(0, 2, 150), jnp.float32)
    together = flat(whole_sum(parameters, x, targets, kept, 0.7, "cross_entropy"))
    single = sum(
        flat(whole_sum(parameters, x[row : row + 1], targets[row : row + 1], kept[row : row + 1], 0.7, "cross_entropy"))
        for row in range(150)
    )
    np.testing.assert_allclose(together, single, rtol=0, atol=150 * 64 * 2.0**-24 * network.NOISE_DEVIATION)
    assert np.all(together == np.rint(together))


def test_parts_are_added_in_turns_where_memory_is_short(monkeypatch):
    parameters, x, targets = random_network(4, (5, (7,), 3), "squared", rows=64 * 6)
    blocks = network.row_parts(parameters, x, targets, None, "squared")
    step_settings = network.StepSettings(1.0, 1.0, 0.0, 1.0, 2.0, 1.0)
    with jax.enable_x64(True):
        at_once = jax.jit(network.clipped_sum)(blocks, jnp.ones(64 * 6), step_settings)
        for most in (1, 120, 200):
            monkeypatch.setattr(network, "_MOST_NUMBERS_AT_ONCE", most)
            in_turns = jax.jit(functools.partial(network.clipped_sum))(blocks, jnp.ones(64 * 6), step_settings)
            np.testing.assert_array_equal(flat(in_turns), flat(at_once))


def test_what_is_undefined_counts_as_zero():
    parameters, x, targets = random_network(6, (5, (7,), 3), "cross_entropy")
    broken = x.at[3].set(jnp.nan).at[4].set(jnp.inf)
    zeros = x.at[3].set(0.0).at[4].set(0.0)
    for rows, wanted in ((broken, targets), (x, targets.at[3].set(jnp.nan).at[4].set(jnp.inf))):
        total = flat(whole_sum(parameters, rows, wanted, jnp.ones(8), 1.0, "cross_entropy"))
        without = flat(
            whole_sum(
                parameters,
                zeros if rows is broken else x,
                targets,
                jnp.ones(8) if rows is broken else jnp.asarray([1.0, 1, 1, 0, 0, 1, 1, 1]),
                1.0,
                "cross_entropy",
            )
        )
        np.testing.assert_array_equal(total, without)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sizes", [(1, 2), (30, 300, 2), (92, 64, 64, 2), (4, *[256] * 20, 2)])
def test_no_row_makes_a_sum_infinite_at_the_largest_parameters(sizes, loss):
    """Every weight at the public limit, of one sign: the largest values a network can have."""
    limit = network.LARGEST_PARAMETER
    parameters = tuple(
        (jnp.full((a, b), limit, jnp.float32), jnp.full(b, limit, jnp.float32)) for a, b in itertools.pairwise(sizes)
    )
    x = jnp.asarray(np.random.default_rng(0).choice([0.0, 1.0, -1.0], size=(5, sizes[0])), jnp.float32)
    total = flat(clipped_gradient_sum(parameters, x, jnp.eye(2)[jnp.zeros(5, int)], jnp.ones(5), 1.0, loss))
    assert np.all(np.isfinite(total))
    assert np.linalg.norm(total) <= 5.0


def test_parameters_stay_within_their_limit():
    parameters, x, targets = random_network(0, (3, (1,), 2), "cross_entropy")
    step_settings = network.StepSettings(10.0, 1e30, 0.9, 1.0, 1.0, 1.0)
    nothing = np.zeros(len(flat(parameters)), dtype=np.int64)
    state = private_step(
        network.initial_state(parameters), x, targets, jnp.ones(8), nothing, step_settings, "cross_entropy"
    )
    assert np.abs(flat(state.parameters)).max() == network.LARGEST_PARAMETER


def test_a_step_is_momentum_schedule_and_average():
    """Two steps by hand, in 64 bits."""
    parameters, x, targets = random_network(1, (5, (7,), 3), "squared")
    step_settings = network.StepSettings(
        max_iter=7.0, learning_rate=0.3, momentum=0.9, clip=0.5, noise_multiplier=2.0, expected_rows=4.0
    )
    kept = jnp.asarray([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    state, place = network.initial_state(parameters), flat(parameters)
    velocity, average = np.zeros_like(place), place.copy()
    for step in range(2):
        noise = np.random.default_rng(step).integers(-(2**35), 2**35, len(place))
        total = flat(clipped_gradient_sum(state.parameters, x, targets, kept, 0.5, "squared", 2.0))
        total = total + noise * (0.5 * 2.0 / network.NOISE_DEVIATION)
        velocity = 0.9 * velocity + total / (4.0 * 0.5)
        place = place - 0.3 * 0.5 * (1 + math.cos(math.pi * step / 7)) * velocity
        memory = min(0.98, (1 + step) / (10 + step))
        average = memory * average + (1 - memory) * place
        state = private_step(state, x, targets, kept, noise, step_settings, "squared")
    np.testing.assert_allclose(flat(state.parameters), place, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(flat(state.average), average, rtol=1e-5, atol=1e-6)
    assert int(state.step) == 2


def test_noise_is_as_wide_as_units_are_made_for():
    assert network.NOISE_DEVIATION == discrete_gaussian.DEVIATION


def test_networks_start_with_a_last_layer_of_zeros():
    normals = np.random.default_rng(0).normal(size=network.weight_count((5, 4, 3)))
    parameters = network.initial_parameters(normals, (5, 4, 3))
    assert parameters_in((5, 4, 3)) == len(flat(parameters)) == 39
    assert network.weight_count((5, 4, 3)) == 32
    np.testing.assert_allclose(flat(parameters[:1])[:20], normals[:20] * math.sqrt(2 / 5), rtol=1e-6)
    assert not np.any(flat(parameters[-1:]))
    last = network.initial_parameters(normals, (5, 4, 3), zero_last=False)[-1]
    np.testing.assert_allclose(np.ravel(last[0]), normals[20:] * math.sqrt(2 / 4), rtol=1e-6)
    assert not np.any(last[1])


def test_two_batches_make_the_sum_of_the_whole():
    """Parts of a sum are floats, so batches that are cut otherwise differ in their last bits."""
    parameters, x, targets = random_network(5, (5, (7,), 3), "cross_entropy")
    step_settings = network.StepSettings(1.0, 1.0, 0.0, 0.7, 1.0, 1.0)
    whole, total = whole_sum(parameters, x, targets, jnp.ones(8), 0.7, "cross_entropy"), None
    with jax.enable_x64(True):
        for chosen, kept in (([0, 1, 2, 3, 4], [1, 1, 1, 1, 1]), ([5, 6, 7, 0, 0], [1, 1, 1, 0, 0])):
            parts = network.row_parts(parameters, x, targets, jnp.asarray(chosen), "cross_entropy")
            total = network.accumulated(total, parts, jnp.asarray(kept, jnp.float32), step_settings)
    np.testing.assert_allclose(flat(total), flat(whole), rtol=0, atol=8 * 8 * 2.0**-24 * network.NOISE_DEVIATION)
