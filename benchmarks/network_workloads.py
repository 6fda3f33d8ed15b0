"""Rows, targets and a network to step, for both of our sides of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sudare.neural import per_row_clipping as network

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class StepInputs:
    """What a step on one batch needs, on the device."""

    state: network.State
    x: jax.Array
    targets: jax.Array
    kept: jax.Array
    settings: network.StepSettings


def rows_of_two_classes(rows: int, inputs: int) -> tuple[Singles, Singles]:
    """Random rows and one-hot targets."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((rows, inputs), dtype=np.float32)
    return x, np.eye(2, dtype=np.float32)[generator.integers(0, 2, rows)]


def step_inputs(batch: int, inputs: int, width: int) -> StepInputs:
    """Two hidden layers of that width, every row kept."""
    x, targets = rows_of_two_classes(batch, inputs)
    sizes = (inputs, width, width, 2)
    normals = np.random.default_rng(1).normal(size=network.weight_count(sizes))
    start = network.initial_parameters(normals, sizes, zero_last=False)
    settings = network.StepSettings(
        max_iter=1e6, learning_rate=0.1, momentum=0.9, clip=1.0, noise_multiplier=1.0, expected_rows=float(batch)
    )
    kept = jnp.ones(batch, jnp.float32)
    return StepInputs(network.initial_state(start), jnp.asarray(x), jnp.asarray(targets), kept, settings)
