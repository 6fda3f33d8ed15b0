"""No row there can be leaves the intervals of eqs 18–26, and ends are reached where the paper's are."""

from __future__ import annotations

import functools
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.neural.per_row_clipping import gradient_sum, outputs
from sudare.papers.p002_networks.parameter_intervals import (
    Interval,
    gradient_intervals,
    input_intervals,
    slope_intervals,
)


def network(sizes, seed, scale=1.0):
    generator = np.random.default_rng(seed)
    return tuple(
        (
            jnp.asarray(scale * generator.normal(size=(inputs, width)), jnp.float32),
            jnp.asarray(scale * generator.normal(size=width), jnp.float32),
        )
        for inputs, width in pairwise(sizes)
    )


def unit_box(width):
    return Interval(jnp.zeros(width), jnp.ones(width))


@functools.partial(jax.jit, static_argnames="loss")
def gradients_and_ends(parameters, rows, targets, box, loss):
    """Every row's own gradient, and the ends of the intervals."""

    def own(row, target):
        return gradient_sum(parameters, row[None], target[None], jnp.ones(1), loss)

    return jax.vmap(own)(rows, targets), gradient_intervals(parameters, box, loss)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    sizes=st.sampled_from([(3, 2), (3, 4, 5, 2)]),
    loss=st.sampled_from(["cross_entropy", "squared"]),
    lowest=st.sampled_from([0.0, -1.0]),
)
def test_gradients_of_all_rows_lie_within(seed, sizes, loss, lowest):
    parameters = network(sizes, seed)
    generator = np.random.default_rng(seed + 1)
    # Corners of the box are where ends are reached, so half of the rows are corners.
    rows = np.concatenate([generator.uniform(lowest, 1, (16, 3)), generator.choice([lowest, 1.0], (16, 3))])
    targets = (
        np.eye(2)[generator.integers(2, size=32)] if loss == "cross_entropy" else generator.uniform(-1, 1, (32, 2))
    )
    box = Interval(jnp.full(3, lowest), jnp.ones(3))
    own, (low, high) = gradients_and_ends(
        parameters, jnp.asarray(rows, jnp.float32), jnp.asarray(targets, jnp.float32), box, loss
    )
    for parts, least, most in zip(*(map(np.asarray, jax.tree.leaves(tree)) for tree in (own, low, high)), strict=True):
        slack = 1e-4 * (1 + np.abs(parts))
        # A shortened gradient is between 0 and the whole one.
        for share in (0.0, 0.3, 1.0):
            assert np.all(least - slack <= share * parts)
            assert np.all(share * parts <= most + slack)
        assert np.all((least <= 0) & (most >= 0))


def test_outputs_lie_within_and_reach_the_ends_of_one_layer():
    parameters = network((4, 2), 3)
    inputs, predicted = input_intervals(parameters, unit_box(4))
    assert inputs[0].high.tolist() == [1, 1, 1, 1]
    weights, bias = parameters[0]
    corner = (weights[:, 0] > 0).astype(jnp.float32)[None]
    assert outputs(parameters, corner)[0, 0] == pytest.approx(float(predicted.high[0]), rel=1e-6)
    assert float(predicted.high[0]) == pytest.approx(float(bias[0] + jnp.maximum(weights[:, 0], 0).sum()), rel=1e-6)


def test_a_unit_that_can_never_be_active_moves_nothing():
    """Eq. 21 as printed would give its output the interval [0, −2] and turn the next layer's interval around."""
    parameters = (
        (jnp.asarray([[1.0, 1.0]]), jnp.asarray([-3.0, 0.0])),
        (jnp.asarray([[1.0, -1.0], [0.5, -0.5]]), jnp.zeros(2)),
    )
    inputs, predicted = input_intervals(parameters, unit_box(1))
    assert inputs[1].low.tolist() == [0.0, 0.0]
    assert inputs[1].high.tolist() == [0.0, 1.0]
    assert jnp.all(predicted.low <= predicted.high)
    low, high = gradient_intervals(parameters, unit_box(1), "cross_entropy")
    assert float(low[0][0][0, 0]) == float(high[0][0][0, 0]) == 0.0
    assert float(high[0][0][0, 1]) > 0
    printed = float(parameters[0][1][0] + jnp.maximum(parameters[0][0][:, 0], 0).sum())
    assert printed < 0


def test_predictions_beyond_all_targets_leave_room_for_shortened_slopes():
    """Predictions of 3 to 4 are above every target: slopes are 2 to 5, and down to 0 once they are shortened."""
    parameters = ((jnp.asarray([[1.0]]), jnp.asarray([3.0])),)
    low, high = gradient_intervals(parameters, unit_box(1), "squared")
    assert (float(low[0][1][0]), float(high[0][1][0])) == (0.0, 5.0)
    assert (float(low[0][0][0, 0]), float(high[0][0][0, 0])) == (0.0, 5.0)
    low, high = gradient_intervals(jax.tree.map(jnp.negative, parameters), unit_box(1), "squared")
    assert (float(low[0][1][0]), float(high[0][1][0])) == (-5.0, 0.0)


def test_ends_of_deep_and_wide_networks_are_finite():
    """They end where the network's values and slopes do, so nothing overflows for inputs that floats hold with room."""
    sizes = (3, *(16,) * 20, 2)
    parameters = tuple((jnp.full((a, b), 1000.0), jnp.full(b, 1000.0)) for a, b in pairwise(sizes))
    for loss in ("cross_entropy", "squared"):
        for end in gradient_intervals(parameters, Interval(jnp.full(3, -1e6), jnp.full(3, 1e6)), loss):
            assert all(np.isfinite(part).all() for part in jax.tree.leaves(end))


def test_slopes_are_those_of_equations_22_and_23():
    parameters = network((2, 3, 2), 5)
    inputs, _ = input_intervals(parameters, unit_box(2))
    last = Interval(-jnp.ones(2), jnp.ones(2))
    first, second = slope_intervals(parameters, inputs, last)
    assert second is last
    weights = parameters[1][0]
    printed_high = jnp.where(weights > 0, weights, 0).sum(axis=1) + jnp.where(weights > 0, 0, -weights).sum(axis=1)
    alive = inputs[1].high > 0
    np.testing.assert_allclose(first.high, jnp.where(alive, printed_high, 0), rtol=1e-6)
    np.testing.assert_allclose(first.low, -jnp.where(alive, printed_high, 0), rtol=1e-6)
