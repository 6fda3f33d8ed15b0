"""Ordinary learning: small batches, momentum and a falling rate, or as printed. It protects nobody; what is private comes before or after it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from sudare.array_types import Singles
from sudare.neural.per_row_clipping import (
    LARGEST_PARAMETER,
    Array,
    DescentState,
    Loss,
    StepSettings,
    initial_parameters,
    initial_state,
    plain_step,
    weight_count,
)
from sudare.neural.seeded_randomness import random_order, standard_normals
from sudare.neural.training import as_layers
from sudare.neural.training_method_base import Layers
from sudare.papers.p002_networks.approaches import SgdSettings
from sudare.papers.p002_networks.printed_training import Batches, Descent, fixed_batches, trained
from sudare.privacy.noise import NoiseSource
from sudare.sums.pseudorandom_streams import SEED_BYTES


def trained_without_privacy(
    rows: Singles,
    targets: Singles,
    sizes: tuple[int, ...],
    loss: Loss,
    sgd: SgdSettings,
    source: NoiseSource,
    limit: float | None = None,
) -> Layers:
    """A network without any protection; with a limit, no parameter ever leaves [−limit, limit]."""
    bound = LARGEST_PARAMETER if limit is None else limit
    if sgd.descent == "printed":
        return _trained_as_printed(rows, targets, sizes, loss, sgd, source, bound)
    batch = min(sgd.batch_size, len(rows))
    batches = len(rows) // batch
    settings = StepSettings(
        max_iter=float(sgd.epochs * batches),
        learning_rate=sgd.learning_rate,
        momentum=sgd.momentum,
        clip=1.0,
        noise_multiplier=0.0,
        expected_rows=float(batch),
        limit=bound,
    )
    start_key, *order_keys = fresh_keys(source, sgd.epochs + 1)
    state = started(start_key, sizes, bound)
    held, wanted = jnp.asarray(rows, jnp.float32), jnp.asarray(targets, jnp.float32)
    for order_key in order_keys:
        order = random_order(order_key, len(rows)).astype(np.int32)[: batches * batch].reshape(batches, batch)
        state = _after_epoch(state, held, wanted, order, settings, loss)
    return as_layers(state.average)


def _trained_as_printed(
    rows: Singles,
    targets: Singles,
    sizes: tuple[int, ...],
    loss: Loss,
    sgd: SgdSettings,
    source: NoiseSource,
    limit: float,
) -> Layers:
    start_key, order_key = fresh_keys(source, 2)
    chosen, kept = fixed_batches(len(rows), sgd.batch_size, random_order(order_key, len(rows)))
    batches = Batches(rows[chosen], targets[chosen], kept)
    descent = Descent(sgd.learning_rate, sgd.regularization, float(chosen.shape[1]), limit)
    return as_layers(trained(started(start_key, sizes, limit).parameters, batches, sgd.epochs, descent, loss))


@functools.partial(jax.jit, static_argnames="loss")
def _after_epoch(
    state: DescentState, rows: Array, targets: Array, order: Array, settings: StepSettings, loss: Loss
) -> DescentState:
    """The state after one pass over the rows in a random order, a batch a line; what fills no batch waits for another order."""
    kept = jnp.ones(order.shape[1], jnp.float32)

    def step(current: DescentState, chosen: Array) -> tuple[DescentState, None]:
        return plain_step(current, rows[chosen], targets[chosen], kept, settings, loss), None

    after: DescentState = jax.lax.scan(step, state, order)[0]
    return after


def started(key: bytes, sizes: tuple[int, ...], limit: float) -> DescentState:
    """At rest at random parameters within the limit, from a key that serves nothing else."""
    start = initial_parameters(standard_normals(key, weight_count(sizes)), sizes, zero_last=False)
    return initial_state(jax.tree.map(lambda part: jnp.clip(part, -limit, limit), start))


def fresh_keys(source: NoiseSource, count: int) -> list[bytes]:
    """Keys of 256 fresh bits each."""
    drawn = np.ascontiguousarray(source.words(count * SEED_BYTES // 8)).tobytes()
    return [drawn[start : start + SEED_BYTES] for start in range(0, len(drawn), SEED_BYTES)]
