"""Training as printed in paper 002, and the same with noise in every change: eqs 1 to 6, 18 and 19, with the sum of products that eq. 4 means.

The rate stays what it is, rows are divided into batches once, weights are drawn to zero by λ/B, biases are not, and the last
parameters are the result. Nothing here protects anybody: noise of the third approach is drawn as floats, to show what it does to
accuracy. Its estimator draws exact noise. Needs JAX and numpy only.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sudare.neural.per_row_clipping import LARGEST_PARAMETER, Array, Loss, Parameters, gradient_sum, mapped


class Batches(NamedTuple):
    """Rows, targets and marks (0 for padding), [batches, B, ...]: the division that all epochs share."""

    rows: Array
    targets: Array
    kept: Array


class Descent(NamedTuple):
    """Learning rate α, regularization λ, batch size B, and what no parameter goes beyond."""

    learning_rate: float | Array
    regularization: float | Array
    batch_size: float | Array
    limit: float | Array = LARGEST_PARAMETER


class NoisyChanges(NamedTuple):
    """The threshold of a change (−Δ_min = Δ_max), and scales of its Laplace noise, (Δ_max − Δ_min)·E/ε: one for every network."""

    threshold: float | Array
    noise_scales: Array


def fixed_batches(rows: int, batch_size: int, order: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Row numbers of every batch, a line each, and 1 for a row and 0 for padding: each row is in one batch.

    `order` has a number for each row; batches are cut from the order that these make. They never depend on data.
    """
    batch = min(batch_size, rows)
    lines = -(-rows // batch)
    chosen, kept = np.zeros(lines * batch, dtype=np.int32), np.zeros(lines * batch, dtype=np.float32)
    # The padding is spread: no batch has more than one row less than another.
    places = np.arange(rows) * (lines * batch) // rows
    chosen[places], kept[places] = np.argsort(order, kind="stable"), 1.0
    return chosen.reshape(lines, batch), kept.reshape(lines, batch)


def updated(parameters: Parameters, changes: Parameters, descent: Descent) -> Parameters:
    """Parameters after one batch: w − α(Δw + λw)/B and b − αΔb/B (eqs 5 and 6), within the limit."""
    rate, limit = descent.learning_rate / descent.batch_size, descent.limit

    def within(values: Array) -> Array:
        return jnp.clip(values, -limit, limit)

    return tuple(
        (within(w - rate * (dw + descent.regularization * w)), within(b - rate * db))
        for (w, b), (dw, db) in zip(parameters, changes, strict=True)
    )


@functools.partial(jax.jit, static_argnames="loss")
def after_epoch(parameters: Parameters, batches: Batches, descent: Descent, loss: Loss) -> Parameters:
    """Parameters after one pass over all batches."""

    def step(current: Parameters, batch: Batches) -> tuple[Parameters, None]:
        return updated(current, gradient_sum(current, *batch, loss), descent), None

    after: Parameters = jax.lax.scan(step, parameters, batches)[0]
    return after


def trained(parameters: Parameters, batches: Batches, epochs: int, descent: Descent, loss: Loss) -> Parameters:
    """Parameters after so many epochs."""
    for _ in range(epochs):
        parameters = after_epoch(parameters, batches, descent, loss)
    return parameters


@functools.partial(jax.jit, static_argnames="loss")
def after_noisy_epoch(
    networks: Parameters,
    batches: Batches,
    noise: Array | NDArray[np.float32],
    descent: Descent,
    noisy: NoisyChanges,
    loss: Loss,
) -> Parameters:
    """Networks after one pass in which every change is clipped, gets Laplace noise, and is clipped again (AnonymizedLearning).

    Parameters have the networks as their first axis. `noise` has a line for every batch: a draw of scale 1 for every parameter.
    """
    leaves, structure = jax.tree.flatten(networks)
    ends = np.cumsum([leaf[0].size for leaf in leaves])

    def clipped(values: Array) -> Array:
        return jnp.clip(values, -noisy.threshold, noisy.threshold)

    def step(current: Parameters, batch: tuple[Batches, Array]) -> tuple[Parameters, None]:
        rows, drawn = batch
        parts = [
            drawn[end - leaf[0].size : end].reshape(leaf.shape[1:]) for leaf, end in zip(leaves, ends, strict=True)
        ]
        part_noise: Parameters = jax.tree.unflatten(structure, parts)

        def after(parameters: Parameters, scale: Array) -> Parameters:
            changes = gradient_sum(parameters, *rows, loss)
            noised = mapped(lambda change, part: clipped(clipped(change) + scale * part), changes, part_noise)
            return updated(parameters, noised, descent)

        return jax.vmap(after)(current, noisy.noise_scales), None

    last: Parameters = jax.lax.scan(step, networks, (batches, jnp.asarray(noise)))[0]
    return last


def trained_with_noisy_changes(
    parameters: Parameters,
    batches: Batches,
    epochs: int,
    descent: Descent,
    noisy: NoisyChanges,
    loss: Loss,
    generator: np.random.Generator,
) -> list[Parameters]:
    """A network for every noise scale, after so many epochs with noise in every change.

    The noise is a simulation's, from a seeded generator; all scales multiply the same draws, so that networks read the same batches at once.
    """
    count = len(noisy.noise_scales)
    networks = mapped(lambda part: jnp.stack([part] * count), parameters)
    shape = (len(batches.kept), sum(leaf.size for leaf in jax.tree.leaves(parameters)))
    for _ in range(epochs):
        noise = laplace_numbers(shape, generator)
        networks = after_noisy_epoch(networks, batches, noise, descent, noisy, loss)
    return [mapped(lambda part, place=place: part[place], networks) for place in range(count)]


def laplace_numbers(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.float32]:
    """Draws from the Laplace law of scale 1, as floats: exponential ones with a random sign."""
    drawn = generator.standard_exponential(shape, dtype=np.float32)
    signs = generator.integers(2**32, size=shape, dtype=np.uint32) & np.uint32(2**31)
    return (drawn.view(np.uint32) | signs).view(np.float32)
