"""Ordinary learning: small batches, momentum, a falling rate. It protects nobody; what is private comes before or after it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from sudare.neural.course import Course
from sudare.neural.network import (
    LARGEST_PARAMETER,
    Array,
    Loss,
    Pace,
    Parameters,
    State,
    initial_parameters,
    initial_state,
    plain_step,
)
from sudare.neural.routes import Layers, Singles
from sudare.privacy.noise import NoiseSource


def ordinarily_learned(
    rows: Singles,
    targets: Singles,
    sizes: tuple[int, ...],
    loss: Loss,
    course: Course,
    source: NoiseSource,
    limit: float | None = None,
) -> Layers:
    """A network without any protection; with a limit, no parameter ever leaves [−limit, limit]."""
    batch = min(course.batch_rows, len(rows))
    batches = len(rows) // batch
    bound = LARGEST_PARAMETER if limit is None else limit
    pace = Pace(
        steps=float(course.epochs * batches),
        rate=course.rate,
        momentum=course.momentum,
        clip=1.0,
        noise_multiplier=0.0,
        expected_rows=float(batch),
        limit=bound,
    )
    start_key, *orders = fresh_keys(source, course.epochs + 1)
    state = started(start_key, sizes, bound)
    held, wanted = jnp.asarray(rows, jnp.float32), jnp.asarray(targets, jnp.float32)
    for order_key in orders:
        state = _after_epoch(state, held, wanted, order_key, pace, batches, batch, loss)
    return as_layers(state.average)


@functools.partial(jax.jit, static_argnames=("batches", "batch", "loss"))
def _after_epoch(
    state: State, rows: Array, targets: Array, key: Array, pace: Pace, batches: int, batch: int, loss: Loss
) -> State:
    """The state after one pass over the rows in a random order; what does not fill a batch waits for another order."""
    order = jax.random.permutation(key, rows.shape[0])[: batches * batch].reshape(batches, batch)
    kept = jnp.ones(batch, jnp.float32)

    def step(current: State, chosen: Array) -> tuple[State, None]:
        return plain_step(current, rows[chosen], targets[chosen], kept, pace, loss), None

    after: State = jax.lax.scan(step, state, order)[0]
    return after


def started(key: Array, sizes: tuple[int, ...], limit: float) -> State:
    """At rest at random parameters within the limit."""
    start = initial_parameters(key, sizes, zero_last=False)
    return initial_state(jax.tree.map(lambda part: jnp.clip(part, -limit, limit), start))


def fresh_keys(source: NoiseSource, count: int) -> Array:
    """Keys of 64 fresh bits each."""
    data = np.ascontiguousarray(source.words(count)).view(np.uint32).reshape(count, 2)
    keys: Array = jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")
    return keys


def as_layers(parameters: Parameters) -> Layers:
    """Parameters as numpy arrays, for the outside."""
    return tuple(
        (np.asarray(weights, dtype=np.float64), np.asarray(bias, dtype=np.float64)) for weights, bias in parameters
    )
