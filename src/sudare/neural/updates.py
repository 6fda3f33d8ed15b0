"""One update with noise of its own on every parameter (paper 002, AnonymizedLearning, as meant).

The paper clips the *sum* over a batch to a threshold, so noise and largest signal are the same for one row and for a
thousand. Clipped row by row, the signal grows with the batch and the noise does not: `clipping="example"`. A row's gradient
is shortened as a whole, until its largest entry is within the threshold. The entries of a layer's gradient are products of
inputs and slopes, so the largest is the largest input times the largest slope, and no row's gradient is ever formed.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sudare.neural.course import Clipping, Course
from sudare.neural.intervals import Interval, gradient_intervals
from sudare.neural.network import (
    Array,
    Loss,
    Pace,
    Parameters,
    State,
    gradient_sum,
    layer_slopes,
    layer_values,
    output_residuals,
    stepped,
)
from sudare.neural.ordinary import as_layers, fresh_keys, started
from sudare.neural.routes import Floats, Layers, Singles
from sudare.privacy.noise import NoiseSource

# Ends and gradients are computed in float32.
ROUNDING_MARGIN = 2.0**-9


class Noise(NamedTuple):
    """Public numbers of a noisy update: the threshold of an entry, and the noise scale over the width of its interval."""

    threshold: float
    factor: float


def largest_entries(parameters: Parameters, x: Array, targets: Array, loss: Loss) -> Array:
    """Each row's largest gradient entry, in absolute value."""
    inputs, predicted = layer_values(parameters, x)
    found = layer_slopes(parameters, inputs, output_residuals(predicted, targets, loss))
    # The bias of a layer sees the constant input 1.
    parts = [
        jnp.maximum(jnp.max(jnp.abs(a), axis=1), 1.0) * jnp.max(jnp.abs(slope), axis=1)
        for a, slope in zip(inputs, found, strict=True)
    ]
    return functools.reduce(jnp.maximum, parts)


def shortened_sum(
    parameters: Parameters, x: Array, targets: Array, kept: Array, threshold: float | Array, loss: Loss
) -> Parameters:
    """The sum of the kept rows' gradients, each shortened until no entry is beyond the threshold."""
    largest = largest_entries(parameters, x, targets, loss)
    bound = threshold * (1 - ROUNDING_MARGIN)
    factors = jnp.where(largest < jnp.inf, jnp.minimum(1.0, bound / jnp.maximum(largest, 1e-30)), 0.0)
    return gradient_sum(parameters, x, targets, kept * factors, loss)


def update_intervals(
    parameters: Parameters, inputs: Interval, times: float | Array, threshold: float | Array, loss: Loss
) -> tuple[Parameters, Parameters]:
    """Where `times` rows' gradients and the threshold leave room for an entry: public, once the parameters are."""
    ends = gradient_intervals(parameters, inputs, loss)
    # Ends are computed in float32; a little wider, they hold for gradients that were.
    wider = times * (1 + ROUNDING_MARGIN)
    low, high = (jax.tree.map(lambda part: jnp.clip(wider * part, -threshold, threshold), end) for end in ends)
    return low, high


def laplace_like(key: Array, parameters: Parameters) -> Parameters:
    """Independent Laplace values of scale 1 in the shape of the parameters."""
    leaves, structure = jax.tree.flatten(parameters)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.laplace(leaf_key, leaf.shape, leaf.dtype) for leaf_key, leaf in zip(keys, leaves, strict=True)]
    like: Parameters = jax.tree.unflatten(structure, drawn)
    return like


def noisy_update(
    parameters: Parameters,
    x: Array,
    targets: Array,
    kept: Array,
    key: Array,
    inputs: Interval,
    noise: Noise,
    loss: Loss,
    clipping: Clipping,
) -> Parameters:
    """The update of one batch: clipped, with Laplace noise of (width of its interval)·factor on every entry, clipped again.

    Replacing a row moves entry j by at most the width of its interval: (1/factor)-DP for each entry, given the parameters.
    Proof: proofs/neural_approaches.md.
    """
    rows, once = jnp.sum(kept), jnp.ones(())
    by_row = clipping == "example"
    low, high = update_intervals(parameters, inputs, once if by_row else rows, noise.threshold, loss)
    if by_row:
        total = shortened_sum(parameters, x, targets, kept, noise.threshold, loss)
    else:
        total = jax.tree.map(jnp.clip, gradient_sum(parameters, x, targets, kept, loss), low, high)
    reach = rows if by_row else once

    def noised(part: Array, least: Array, most: Array, draw: Array) -> Array:
        return jnp.clip(part + noise.factor * (most - least) * draw, reach * least, reach * most)

    update: Parameters = jax.tree.map(noised, total, low, high, laplace_like(key, total))
    return update


@functools.partial(jax.jit, static_argnames=("loss", "clipping"))
def after_epoch(
    state: State,
    rows: Array,
    targets: Array,
    chosen: Array,
    kept: Array,
    keys: Array,
    pace: Pace,
    inputs: Interval,
    noise: Noise,
    loss: Loss,
    clipping: Clipping,
) -> State:
    """The state after one noisy update for each batch: `chosen` has a line of row numbers a batch, `kept` marks padding."""

    def step(current: State, batch: tuple[Array, Array, Array]) -> tuple[State, None]:
        chosen_rows, chosen_kept, key = batch
        update = noisy_update(
            current.parameters,
            rows[chosen_rows],
            targets[chosen_rows],
            chosen_kept,
            key,
            inputs,
            noise,
            loss,
            clipping,
        )
        return stepped(current, update, pace), None

    return jax.lax.scan(step, state, (chosen, kept, keys))[0]


def dealt_out(rows: int, batch_rows: int, order: Floats) -> tuple[NDArray[np.int32], Singles]:
    """Row numbers of every batch, a line each, and 1 for a row and 0 for padding: each row is in one batch.

    `order` has a number for each row; batches are cut from the order that these make. They never depend on data.
    """
    batch = min(batch_rows, rows)
    lines = -(-rows // batch)
    chosen, kept = np.zeros(lines * batch, dtype=np.int32), np.zeros(lines * batch, dtype=np.float32)
    # The padding is spread: no batch has more than one row less than another.
    places = np.linspace(0, lines * batch, rows, endpoint=False).astype(np.int64)
    chosen[places], kept[places] = np.argsort(order, kind="stable"), 1.0
    return chosen.reshape(lines, batch), kept.reshape(lines, batch)


def descended_with_noise(
    rows: Singles,
    targets: Singles,
    sizes: tuple[int, ...],
    loss: Loss,
    course: Course,
    noise: Noise,
    clipping: Clipping,
    bounds: tuple[Floats, Floats],
    limit: float,
    source: NoiseSource,
) -> Layers:
    """The running average of the parameters: every epoch reads every row once, always in the same batch."""
    chosen, kept = dealt_out(len(rows), course.batch_rows, source.words(len(rows)).astype(np.float64))
    pace = Pace(
        steps=float(course.epochs * len(chosen)),
        rate=course.rate,
        momentum=course.momentum,
        clip=noise.threshold,
        noise_multiplier=0.0,
        expected_rows=len(rows) / len(chosen) if clipping == "example" else 1.0,
        limit=limit,
    )
    start_key, *keys = fresh_keys(source, 1 + course.epochs * len(chosen))
    inputs = Interval(*(jnp.asarray(bound, jnp.float32) for bound in bounds))
    state = started(start_key, sizes, limit)
    held, wanted = jnp.asarray(rows, jnp.float32), jnp.asarray(targets, jnp.float32)
    for epoch in range(course.epochs):
        words = np.frombuffer(b"".join(keys[epoch * len(chosen) : (epoch + 1) * len(chosen)]), np.uint32)
        own = jax.random.wrap_key_data(jnp.asarray(words.reshape(len(chosen), -1)[:, :2]), impl="threefry2x32")
        state = after_epoch(state, held, wanted, chosen, kept, own, pace, inputs, noise, loss, clipping)
    return as_layers(state.average)
