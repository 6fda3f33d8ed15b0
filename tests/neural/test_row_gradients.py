"""Blocks of any function are its gradients row by row, as JAX forms them, whatever the function's layers are; and rows never meet."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from sudare.neural import per_row_clipping as network
from sudare.neural.row_gradients import RowGradients, RowsNotSeparable

ROWS = 6


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def convolved(x, kernel, **given):
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **given}
    return lax.conv_general_dilated(x, kernel, **options)


def sequence(trained, x):
    """A product with several vectors of a row, a scale, and one array used twice."""
    matrix, scale = trained
    return jnp.tanh((x.reshape(4, 4) @ matrix) * scale) @ matrix


# Name: arrays, the function of one row of 16 numbers, and the arrays whose gradients are not formed by JAX.
FUNCTIONS = {
    "layers": ([normal(16, 5), normal(5), normal(5, 2)], lambda w, x: jnp.tanh(x[None] @ w[0] + w[1]) @ w[2], {0, 2}),
    "transposed": ([normal(5, 16), normal(2, 5)], lambda w, x: w[1] @ jnp.tanh(w[0] @ x), {0, 1}),
    "einsum": ([normal(2, 4, 4)], lambda w, x: jnp.einsum("ij,oij->o", x.reshape(4, 4), w[0]), {0}),
    "reshaped": ([normal(32)], lambda w, x: x @ w[0].reshape(2, 16).T, {0}),
    "sequence": ([normal(4, 4), normal(4)], sequence, set()),
    "convolution": ([normal(3, 3, 1, 2)], lambda w, x: convolved(x.reshape(1, 4, 4, 1), w[0]), {0}),
    "strided and dilated": (
        [normal(2, 3, 4, 3)],
        lambda w, x: convolved(
            x.reshape(1, 2, 2, 4), w[0], window_strides=(2, 1), padding=((1, 2), (2, 2)), rhs_dilation=(1, 2), lhs_dilation=(2, 1)
        ),
        {0},
    ),
    "channels first": (
        [normal(3, 4, 2, 2)],
        lambda w, x: convolved(x.reshape(1, 4, 2, 2), w[0], dimension_numbers=("NCHW", "OIHW", "NCHW")),
        {0},
    ),
    "many channels": ([normal(3, 3, 16, 2)], lambda w, x: convolved(jnp.outer(x, x).reshape(1, 4, 4, 16), w[0]), {0}),
    "groups": ([normal(2, 2, 1, 4)], lambda w, x: convolved(x.reshape(1, 2, 2, 4), w[0], feature_group_count=4), set()),
    "pooled": (
        [normal(3, 3, 1, 2)],
        lambda w, x: lax.reduce_window(
            convolved(x.reshape(1, 4, 4, 1), w[0]), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        ),
        {0},
    ),
    "compiled": ([normal(16, 3)], lambda w, x: jax.jit(lambda m, v: jax.nn.relu(v @ m))(w[0], x), {0}),
    "loop": ([normal(16, 16)], lambda w, x: lax.fori_loop(0, 2, lambda _, v: jnp.tanh(v @ w[0]), x), set()),
}  # fmt: skip


def loss_of(function):
    return lambda trained, frozen, row, target: jnp.sum((function(trained, row) - target[0]) ** 2)


def traced(function, arrays):
    return RowGradients.traced(loss_of(function), arrays, [], jnp.zeros(16), jnp.zeros(1))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_blocks_are_the_gradients_of_rows(name):
    arrays, function, known = FUNCTIONS[name]
    rows, targets = normal(ROWS, 16, seed=1), normal(ROWS, 1, seed=2)
    gradients = traced(function, arrays)
    assert set(gradients.uses) == known
    blocks = gradients.compiled()(arrays, [], rows, targets)
    formed = jax.jit(jax.vmap(jax.grad(loss_of(function)), (None, None, 0, 0)))(
        list(map(jnp.asarray, arrays)), [], rows, targets
    )
    squares = sum(np.square(np.asarray(part, np.float64)).reshape(ROWS, -1).sum(axis=1) for part in formed)
    np.testing.assert_allclose(network.squared_norms(blocks), squares, rtol=1e-4, atol=1e-30)
    settings = network.StepSettings(1.0, 1.0, 0.0, 2.0**20, 1.0, 1.0)
    with jax.enable_x64(True):
        total = network.accumulated(None, blocks, jnp.ones(ROWS, jnp.float32), settings)
    for part, array in zip(total, formed, strict=True):
        unit = 2.0**20 / network.NOISE_DEVIATION
        np.testing.assert_allclose(np.asarray(part) * unit, np.asarray(array).sum(axis=0), rtol=1e-3, atol=2e-3)


def test_a_row_sees_no_other_row_though_the_function_would_mix_them():
    """A function that subtracts the mean of its batch is given one row at a time: other rows change no bit of what a row adds."""

    def mixing(trained, x):
        return (x[None] - jnp.mean(x[None], axis=0)) @ trained[0] + x @ trained[0]

    gradients = traced(mixing, [normal(16, 3)]).compiled()
    rows, targets = normal(64, 16, seed=1), normal(64, 1, seed=2)
    other = normal(64, 16, seed=3)
    other[5] = rows[5]
    for before, after in zip(
        jax.tree.leaves(gradients([normal(16, 3)], [], rows, targets)),
        jax.tree.leaves(gradients([normal(16, 3)], [], other, targets)),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(before)[5], np.asarray(after)[5])


@jax.custom_batching.custom_vmap
def summed_over_rows(x):
    return x


@summed_over_rows.def_vmap
def _(axis_size, in_batched, x):
    return jnp.broadcast_to(jnp.sum(x, axis=0), x.shape), True


def printed(x):
    jax.debug.print("{}", x[0])
    return x


@pytest.mark.parametrize("escape", [summed_over_rows, printed, lambda x: jax.pure_callback(lambda v: v, x, x)])
def test_functions_that_let_rows_meet_or_leave_are_refused(escape):
    with pytest.raises(RowsNotSeparable):
        traced(lambda w, x: lax.fori_loop(0, 1, lambda _, v: escape(v), x) @ w[0], [normal(16, 3)])


def test_what_is_undefined_or_too_large_counts_as_zero():
    arrays, function, _ = FUNCTIONS["layers"]
    rows = normal(ROWS, 16)
    rows[1], rows[2] = np.nan, 3e38
    blocks = traced(lambda w, x: function(w, x) * x[0] ** 3, arrays).compiled()(arrays, [], rows, normal(ROWS, 1))
    settings = network.StepSettings(1.0, 1.0, 0.0, 1.0, 1.0, 1.0)
    with jax.enable_x64(True):
        total = network.accumulated(None, blocks, jnp.ones(ROWS, jnp.float32), settings)
    assert np.linalg.norm(np.concatenate([np.ravel(part) for part in total]).astype(np.float64)) <= ROWS * 2.0**34
