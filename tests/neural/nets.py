"""What the tests of networks share: random networks with rows and targets, and small tables."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from sudare.neural import per_row_clipping as network

LOSSES = ("cross_entropy", "squared")

# Inputs, hidden widths, outputs. A few shapes only: each is compiled anew, and weights and rows make the difference.
SHAPES = ((1, (), 1), (3, (1,), 2), (5, (7,), 3), (12, (9, 4), 2), (8, (6, 5, 3), 4))
ROWS = 8

shapes = st.sampled_from(SHAPES)
losses = st.sampled_from(LOSSES)


def random_network(seed, shape, loss, size=1.0, rows=ROWS):
    """Parameters, rows and targets: weights of the size that training starts from, times `size`."""
    inputs, hidden, outputs = shape
    generator = np.random.default_rng(seed)
    sizes = (inputs, *hidden, max(outputs, 2) if loss == "cross_entropy" else outputs)
    parameters = tuple(
        (
            jnp.asarray(size * generator.normal(size=(a, b)) * np.sqrt(2 / a), jnp.float32),
            jnp.asarray(size * generator.normal(size=b), jnp.float32),
        )
        for a, b in itertools.pairwise(sizes)
    )
    x = jnp.asarray(generator.uniform(-1, 1, size=(rows, inputs)), jnp.float32)
    if loss == "cross_entropy":
        targets = jnp.asarray(np.eye(sizes[-1])[generator.integers(0, sizes[-1], rows)], jnp.float32)
    else:
        targets = jnp.asarray(generator.uniform(-1, 1, size=(rows, sizes[-1])), jnp.float32)
    return parameters, x, targets


def row_losses(parameters, x, targets, loss):
    """Each row's loss: cross-entropy against a one-hot row, or half the squared distance."""
    predicted = network.outputs(parameters, x)
    if loss == "cross_entropy":
        return -jnp.sum(targets * jax.nn.log_softmax(predicted, axis=1), axis=1)
    return 0.5 * jnp.sum((predicted - targets) ** 2, axis=1)


@functools.partial(jax.jit, static_argnames="loss")
def _formed(parameters, x, targets, loss):
    def single(place, row, target):
        return row_losses(place, row[None], target[None], loss)[0]

    return jax.vmap(jax.grad(single), (None, 0, 0))(parameters, x, targets)


def squared_norms(parameters, x, targets, loss):
    """Each row's squared gradient norm, as clipping computes it."""
    return network.squared_norms(network.row_parts(parameters, x, targets, None, loss))


gradient_sum = jax.jit(network.gradient_sum, static_argnames="loss")


def whole_sum(parameters, x, targets, kept, clip, loss, noise_multiplier=1.0):
    """The sum of clipped gradients in whole units, as a step makes it."""
    settings = network.StepSettings(1.0, 1.0, 0.0, clip, noise_multiplier, 1.0)
    with jax.enable_x64(True):
        return network.accumulated(None, network.row_parts(parameters, x, targets, None, loss), kept, settings)


def private_step(state, x, targets, kept, noise, settings, loss):
    """A whole private step on one physical batch."""
    with jax.enable_x64(True):
        parts = network.row_parts(state.parameters, x, targets, None, loss)
        return network.sampled_step(state, None, parts, kept, noise, settings)


def clipped_gradient_sum(parameters, x, targets, kept, clip, loss, noise_multiplier=1.0):
    """The same as gradients, in 64-bit floats."""
    unit = clip * noise_multiplier / network.NOISE_DEVIATION
    whole = whole_sum(parameters, x, targets, kept, clip, loss, noise_multiplier)
    return jax.tree.map(lambda part: np.asarray(part, dtype=np.float64) * unit, whole)


def row_gradients(parameters, x, targets, loss):
    """Each row's gradient, formed by JAX: [rows, parameters]."""
    formed = _formed(parameters, x, targets, loss)
    return np.concatenate(
        [np.asarray(leaf, dtype=np.float64).reshape(len(x), -1) for leaf in jax.tree.leaves(formed)], axis=1
    )


def flat(parameters):
    return np.concatenate([np.asarray(leaf, dtype=np.float64).ravel() for leaf in jax.tree.leaves(parameters)])


def moons(rows=600, seed=0):
    """Two columns in [−1, 1], and a class that no line separates."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, size=(rows, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)
