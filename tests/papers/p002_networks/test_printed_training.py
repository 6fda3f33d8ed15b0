"""Training as printed: eqs 5 and 6, batches that stay, thresholds that hold, and the same numbers through the estimators."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sudare.neural.per_row_clipping import initial_parameters, weight_count
from sudare.papers.p002_networks.printed_training import (
    Batches,
    Descent,
    NoisyChanges,
    laplace_numbers,
    trained,
    trained_with_noisy_changes,
    updated,
)

SIZES = (3, 4, 2)


@pytest.fixture(scope="module")
def batches():
    generator = np.random.default_rng(0)
    rows = generator.random((5, 6, 3)).astype(np.float32)
    targets = np.eye(2, dtype=np.float32)[(rows.sum(axis=2) > 1.5).astype(int)]
    return Batches(rows, targets, np.ones((5, 6), dtype=np.float32))


@pytest.fixture(scope="module")
def start():
    return initial_parameters(np.random.default_rng(1).normal(size=weight_count(SIZES)), SIZES, zero_last=False)


def cross_entropy(parameters, rows, targets):
    """Eqs 1, 16 and 17, summed over a batch."""
    values = rows
    for weights, bias in parameters[:-1]:
        values = jnp.maximum(values @ weights + bias, 0)
    weights, bias = parameters[-1]
    return -jnp.sum(targets * jax.nn.log_softmax(values @ weights + bias, axis=1))


def test_an_update_is_that_of_equations_5_and_6(start):
    changes = jax.tree.map(jnp.ones_like, start)
    after = updated(start, changes, Descent(0.1, 0.5, 10.0))
    for (w, b), (new_w, new_b) in zip(start, after, strict=True):
        np.testing.assert_allclose(new_w, w - 0.1 * (1 + 0.5 * w) / 10, rtol=1e-6)
        np.testing.assert_allclose(new_b, b - 0.1 / 10, rtol=1e-6)
    within = updated(start, changes, Descent(0.1, 0.5, 10.0, 0.2))
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(within)) <= np.float32(0.2)


@pytest.mark.long
def test_epochs_pass_over_the_same_batches(start, batches):
    """Two epochs, step by step, with the gradient of the loss that JAX finds."""
    expected = start
    for _ in range(2):
        for rows, targets, _ in zip(*batches, strict=True):
            changes = jax.grad(cross_entropy)(expected, rows, targets)
            expected = tuple(
                (w - 0.3 * (dw + 0.01 * w) / 6, b - 0.3 * db / 6)
                for (w, b), (dw, db) in zip(expected, changes, strict=True)
            )
    found = trained(start, batches, 2, Descent(0.3, 0.01, 6.0), "cross_entropy")
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_without_noise_and_beyond_all_thresholds_noisy_changes_are_the_changes(start, batches):
    descent, generator = Descent(0.3, 0.01, 6.0), np.random.default_rng(0)
    plain = trained(start, batches, 3, descent, "cross_entropy")
    _, quiet = trained_with_noisy_changes(
        start, batches, 3, descent, NoisyChanges(100.0, (5.0, 0.0)), "cross_entropy", generator
    )
    for one, other in zip(jax.tree.leaves(quiet), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_no_noise_moves_a_parameter_beyond_the_threshold(start, batches):
    descent, threshold = Descent(6.0, 0.0, 6.0), 0.25
    noisy = NoisyChanges(threshold, (1000.0,))
    (after,) = trained_with_noisy_changes(start, batches, 1, descent, noisy, "cross_entropy", np.random.default_rng(2))
    moves = [np.abs(np.asarray(new - old)) for new, old in zip(*map(jax.tree.leaves, (after, start)), strict=True)]
    # Five updates; noise so large that each is at one of the ends.
    ends = np.array([1, 3, 5]) * threshold
    assert all(np.abs(each[..., None] - ends).min(axis=-1).max() < 0.01 for each in moves)


def test_noise_of_the_simulation_is_laplace():
    drawn = laplace_numbers((4, 50_000), np.random.default_rng(3))
    assert drawn.dtype == np.float32
    # Deviations of these means over 200,000 draws are .0032, .0022 and .0011.
    assert abs(drawn.mean()) < 0.02
    assert np.abs(drawn).mean() == pytest.approx(1, abs=0.02)
    assert np.mean(np.abs(drawn) > np.log(2)) == pytest.approx(0.5, abs=0.01)
