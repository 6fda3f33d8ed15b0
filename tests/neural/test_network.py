"""Networks: ghost norms are the norms of gradients, clipped sums are sums of clipped gradients, and noise is normal."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sudare.neural import network
from tests.neural.nets import (
    LOSSES,
    clipped_gradient_sum,
    flat,
    gradient_sum,
    losses,
    random_network,
    row_gradients,
    shapes,
    squared_norms,
)

# Compiled whole as in a step of training, and not each of its operations for itself.
standard_normals = jax.jit(network.standard_normals, static_argnums=1)
gaussian_like = jax.jit(network.gaussian_like)

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
    bound = clip * (1 - network.ROUNDING_MARGIN)
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


def test_a_row_of_no_slope_stays_as_it_is():
    """Factors are one below the clip, and zero where a norm is infinite or undefined: such a row does not count."""
    squared = jnp.asarray([0.0, 1e-40, 1e-8, 0.25, 4.0, 1e30, jnp.inf, jnp.nan], jnp.float32)
    factors = np.asarray(network.clip_factors(squared, 1.0))
    assert factors[:4].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert factors[4] == pytest.approx(0.5, rel=1e-2)
    assert factors[5] == pytest.approx(1e-15, rel=1e-2)
    assert factors[6:].tolist() == [0.0, 0.0]
    lengths = np.asarray(factors[4:6], dtype=np.float64) * np.sqrt(np.asarray(squared[4:6], dtype=np.float64))
    assert np.all(lengths <= 1.0)


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
    pace = network.Pace(10.0, 1e9, 0.9, 1.0, 0.0, 1.0)
    state = network.private_step(
        network.initial_state(parameters), x, targets, jnp.ones(8), jax.random.key(0), pace, "cross_entropy"
    )
    assert np.abs(flat(state.parameters)).max() == network.LARGEST_PARAMETER


def test_a_step_is_momentum_schedule_and_average():
    """Two steps by hand, in 64 bits."""
    parameters, x, targets = random_network(1, (5, (7,), 3), "squared")
    pace = network.Pace(steps=7.0, rate=0.3, momentum=0.9, clip=0.5, noise_multiplier=0.0, expected_rows=4.0)
    kept = jnp.asarray([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    state, place = network.initial_state(parameters), flat(parameters)
    velocity, average = np.zeros_like(place), place.copy()
    for step in range(2):
        total = flat(clipped_gradient_sum(state.parameters, x, targets, kept, 0.5, "squared"))
        velocity = 0.9 * velocity + total / (4.0 * 0.5)
        place = place - 0.3 * 0.5 * (1 + math.cos(math.pi * step / 7)) * velocity
        memory = min(0.98, (1 + step) / (10 + step))
        average = memory * average + (1 - memory) * place
        state = network.private_step(state, x, targets, kept, jax.random.key(step), pace, "squared")
    np.testing.assert_allclose(flat(state.parameters), place, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(flat(state.average), average, rtol=1e-5, atol=1e-6)
    assert int(state.step) == 2


def test_noise_is_normal_and_reaches_far():
    """Kolmogorov–Smirnov on 2⁲⁰ values at p > 1e-6, and as many beyond four deviations as a normal law has (binomial tails of 1e-7)."""
    values = np.asarray(standard_normals(jax.random.key(3), 2**20), dtype=np.float64)
    assert stats.kstest(values, stats.norm.cdf).pvalue > 1e-6
    low, high = stats.binom.ppf([1e-7, 1 - 1e-7], len(values), 2 * stats.norm.sf(4.0))
    assert low <= np.sum(np.abs(values) > 4.0) <= high


def test_noise_has_tails_beyond_those_of_plain_floats(monkeypatch):
    """Where all high bits are zero the radius is 7.4 deviations and more, and never infinite."""
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: jnp.zeros(shape, dtype))
    farthest = np.asarray(network.standard_normals(jax.random.key(0), 2))
    assert np.linalg.norm(farthest) == pytest.approx(math.sqrt(2 * 41 * math.log(2)), rel=2e-6)
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: jnp.full(shape, 2**32 - 1, dtype))
    assert np.all(np.isfinite(np.asarray(network.standard_normals(jax.random.key(0), 2))))


def test_cosine_and_sine_are_those_of_a_quarter_turn():
    shares = np.linspace(0, 1, 10_001)
    cosine, sine = network._quarter_turn(jnp.asarray(shares, jnp.float32))
    np.testing.assert_allclose(np.asarray(cosine), np.cos(shares * math.pi / 2), atol=6e-7)
    np.testing.assert_allclose(np.asarray(sine), np.sin(shares * math.pi / 2), atol=6e-7)


def test_noise_has_every_sign_equally_often():
    """Pairs of values lie in each quarter of the plane alike: binomial tails of 1e-7 for each of four."""
    cosines, sines = np.split(np.asarray(standard_normals(jax.random.key(5), 2**16)), 2)
    low, high = stats.binom.ppf([1e-7, 1 - 1e-7], 2**15, 0.25)
    for first in (1, -1):
        for second in (1, -1):
            assert low <= np.sum((first * cosines > 0) & (second * sines > 0)) <= high


@pytest.mark.parametrize("count", [1, 2, 7])
def test_noise_has_the_shape_of_the_parameters(count):
    assert standard_normals(jax.random.key(0), count).shape == (count,)
    parameters = random_network(0, (5, (7,), 3), "cross_entropy")[0]
    noise = gaussian_like(jax.random.key(0), parameters)
    assert [leaf.shape for leaf in jax.tree.leaves(noise)] == [leaf.shape for leaf in jax.tree.leaves(parameters)]
    assert len(np.unique(flat(noise))) == len(flat(noise))


def test_networks_start_with_a_last_layer_of_zeros():
    parameters = network.initial_parameters(jax.random.key(0), (5, 4, 3))
    assert network.parameter_count((5, 4, 3)) == len(flat(parameters)) == 39
    assert not np.any(flat(parameters[-1:]))
    assert np.any(flat(network.initial_parameters(jax.random.key(0), (5, 4, 3), zero_last=False)[-1:]))


def test_two_parts_make_the_sum_of_the_whole():
    parameters, x, targets = random_network(5, (5, (7,), 3), "cross_entropy")
    whole = clipped_gradient_sum(parameters, x, targets, jnp.ones(8), 0.7, "cross_entropy")
    total = network.nothing_like(parameters)
    for chosen, kept in (([0, 1, 2, 3, 4], [1, 1, 1, 1, 1]), ([5, 6, 7, 0, 0], [1, 1, 1, 0, 0])):
        total = network.accumulated(
            total, parameters, x, targets, jnp.asarray(chosen), jnp.asarray(kept, jnp.float32), 0.7, "cross_entropy"
        )
    np.testing.assert_allclose(flat(total), flat(whole), rtol=1e-5, atol=1e-6)
