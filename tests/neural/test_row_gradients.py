"""Blocks of any function are its gradients row by row, as JAX forms them, whatever the function's layers are and however many rows are treated at once; and rows never meet."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from sudare.neural import per_row_clipping as network
from sudare.neural import row_gradients
from sudare.neural.row_gradients import RowGradients, RowsNotSeparable

ROWS = 6


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def convolved(x, kernel, **given):
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **given}
    return lax.conv_general_dilated(x, kernel, **options)


def pooled(x, *window):
    return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")


def pooled_whole_numbers(trained, x):
    """Which of the products is largest, as a whole number."""
    whole = jnp.round(4 * jnp.outer(x, x)).astype(jnp.int32)
    largest = lax.reduce_window(whole, -100, lax.max, (4, 1), (4, 1), "VALID")
    return largest.astype(jnp.float32) @ trained[0]


def shared(trained, x):
    """One kernel in two convolutions, one after the other."""
    return convolved(jnp.tanh(convolved(x.reshape(1, 4, 4, 1), trained[0])), trained[0])


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
    "strided without padding": (
        [normal(2, 2, 1, 3)],
        lambda w, x: convolved(x.reshape(1, 4, 4, 1), w[0], window_strides=(2, 2), padding="VALID"),
        {0},
    ),
    "padded with nothing but zeros": (
        [normal(2, 2, 1, 3)], lambda w, x: convolved(x.reshape(1, 4, 4, 1), w[0], padding=((3, 3), (0, 5))), {0}
    ),
    "one by one, more outputs": ([normal(1, 1, 1, 6)], lambda w, x: convolved(x.reshape(1, 4, 4, 1), w[0]), {0}),
    "one by one, more inputs": ([normal(1, 1, 4, 2)], lambda w, x: convolved(x.reshape(1, 2, 2, 4), w[0]), {0}),
    "of a line": (
        [normal(3, 2, 5)],
        lambda w, x: convolved(x.reshape(1, 8, 2), w[0], window_strides=(1,), dimension_numbers=("NWC", "WIO", "NWC")),
        {0},
    ),
    "kernel turned": (
        [normal(6, 3, 3)], lambda w, x: convolved(x.reshape(1, 4, 4, 1), w[0].transpose(2, 1, 0).reshape(3, 3, 1, 6)), {0}
    ),
    "shared": ([normal(3, 3, 1, 1)], shared, set()),
    "groups": ([normal(2, 2, 1, 4)], lambda w, x: convolved(x.reshape(1, 2, 2, 4), w[0], feature_group_count=4), set()),
    "pooled": (
        [normal(3, 3, 1, 2)],
        lambda w, x: pooled(convolved(x.reshape(1, 4, 4, 1), w[0]), 1, 2, 2, 1),
        {0},
    ),
    "pooled, with a rest": (
        [normal(3, 3, 1, 2)], lambda w, x: pooled(convolved(x.reshape(1, 4, 4, 1), w[0]), 1, 3, 2, 2), {0}
    ),
    "pooled, many channels": (
        [normal(3, 3, 1, 17)], lambda w, x: pooled(convolved(x.reshape(1, 4, 4, 1), w[0]), 1, 3, 2, 1), {0}
    ),
    "pooled, smaller than a window": (
        [normal(2, 2, 1, 16), normal(16)],
        lambda w, x: jnp.sum(pooled(convolved(x.reshape(1, 4, 4, 1), w[0]), 1, 5, 2, 1)) + x @ w[1],
        {0, 1},
    ),
    "equal values, few channels": (
        [normal(1, 1, 1, 2)], lambda w, x: pooled(convolved(jnp.sign(x).reshape(1, 4, 4, 1), w[0]), 1, 2, 2, 1), {0}
    ),
    "equal values, many channels": (
        [normal(1, 1, 1, 16)], lambda w, x: pooled(convolved(jnp.sign(x).reshape(1, 4, 4, 1), w[0]), 1, 2, 2, 1), {0}
    ),
    "pooled whole numbers": ([normal(16, 2)], pooled_whole_numbers, set()),
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


@pytest.mark.parametrize("rows", [1, 8, 21])
@pytest.mark.parametrize("name", ["layers", "many channels", "pooled, many channels"])
def test_rows_that_are_treated_in_turns_add_what_they_add_at_once(monkeypatch, name, rows):
    arrays, function, _ = FUNCTIONS[name]
    given, targets = normal(rows, 16, seed=1), normal(rows, 1, seed=2)
    at_once = traced(function, arrays).compiled()(arrays, [], given, targets)
    monkeypatch.setattr(row_gradients, "_NUMBERS_IN_CACHES", 1)
    monkeypatch.setattr(row_gradients, "_FEWEST_ROWS_AT_ONCE", 2)
    gradients = traced(function, arrays)
    # So that turns are of several rows, whatever the arrays' sizes are.
    monkeypatch.setattr(RowGradients, "numbers_a_row", sum(map(np.size, arrays)))
    assert gradients.rows_at_once(rows) == (rows if name == "layers" else min(rows, 2))
    in_turns = gradients.compiled()(arrays, [], given, targets)
    for one, other in zip(jax.tree.leaves(at_once), jax.tree.leaves(in_turns), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=1e-5 * np.max(np.abs(one)))


def test_turns_are_alike_and_hold_as_many_numbers_as_the_arrays():
    arrays, function, _ = FUNCTIONS["convolution"]
    gradients = traced(function, arrays)
    fit = row_gradients._NUMBERS_IN_CACHES // gradients.numbers_a_row
    assert [gradients.rows_at_once(rows) for rows in (0, 1, fit, fit + 1)] == [0, 1, fit, -(-(fit + 1) // 2)]
    large = [*arrays, jax.ShapeDtypeStruct((16, 2**25), np.float32)]
    wide = traced(lambda w, x: function(w, x) + jnp.sum(x @ w[1]), large)
    # Fifteen rows make as many numbers as the arrays have; five turns of them would be more than 64 rows.
    assert wide.rows_at_once(64) == 13
    dense = traced(FUNCTIONS["layers"][1], FUNCTIONS["layers"][0])
    assert dense.rows_at_once(2**24) == 2**24


def test_in_turns_other_rows_change_no_bit_of_what_a_row_adds(monkeypatch):
    monkeypatch.setattr(row_gradients, "_NUMBERS_IN_CACHES", 1)
    arrays, function, _ = FUNCTIONS["pooled, many channels"]
    gradients = traced(function, arrays).compiled()
    rows, targets = normal(21, 16, seed=1), normal(21, 1, seed=2)
    for place in (0, 8, 20):
        other, wanted = normal(21, 16, seed=3), normal(21, 1, seed=4)
        other[place], wanted[place] = rows[place], targets[place]
        for before, after in zip(
            jax.tree.leaves(gradients(arrays, [], rows, targets)),
            jax.tree.leaves(gradients(arrays, [], other, wanted)),
            strict=True,
        ):
            np.testing.assert_array_equal(np.asarray(before)[place], np.asarray(after)[place])


def test_a_sample_without_a_row_adds_nothing():
    arrays, function, _ = FUNCTIONS["pooled"]
    blocks = traced(function, arrays).compiled()(arrays, [], normal(ROWS, 16), normal(ROWS, 1))
    with jax.enable_x64(True):
        settings = network.StepSettings(1.0, 1.0, 0.0, 1.0, 1.0, 1.0)
        total = network.accumulated(None, blocks, jnp.zeros(ROWS, jnp.float32), settings)
    assert not any(np.any(part) for part in total)


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
