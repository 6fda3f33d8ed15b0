"""The training loop of DP-SGD with JAX: samples, clipped sums, noise and steps. It can stop anywhere and go on from what was kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np

from sudare.array_types import Singles
from sudare.neural import per_row_clipping as network
from sudare.neural.dp_sgd import Recipe, slots_for
from sudare.neural.seeded_randomness import RunSeed, RunState
from sudare.neural.training_methods import Layers, flattened, layered

# Smaller weights than ordinary learning starts from: what noise does to a network grows with them (docs/neural.md).
_START_GAIN: Final = 0.5
_ROW_STEP: Final = 1024
# After so many steps a run is kept, so that one that was killed loses no more.
_STEPS_BETWEEN_STATES: Final = 50


@dataclass(frozen=True)
class Training:
    """Public numbers of a whole run; `sizes` are the widths of the layers, inputs first."""

    recipe: Recipe
    sizes: tuple[int, ...]
    loss: network.Loss
    noise_multiplier: float
    expected_rows: float

    @property
    def batches(self) -> int:
        """Physical batches of a step: public, and enough for all samples but one in 2⁶⁹."""
        rate = self.recipe.sampling_rate
        return math.ceil(slots_for(self.expected_rows / rate, rate) / self.recipe.max_physical_batch_size)

    @property
    def step_settings(self) -> network.StepSettings:
        """The numbers that a step needs."""
        recipe = self.recipe
        return network.StepSettings(
            max_iter=float(recipe.max_iter),
            learning_rate=recipe.learning_rate,
            momentum=recipe.momentum,
            clip=recipe.clip,
            noise_multiplier=self.noise_multiplier,
            expected_rows=self.expected_rows,
        )


def trained_layers(
    training: Training,
    rows: Singles,
    targets: Singles,
    seed: RunSeed,
    *,
    state: RunState | None = None,
    keep: Callable[[RunState], None] | None = None,
    tell: Callable[[int], None] | None = None,
) -> Layers:
    """The averaged parameters after all steps, from the beginning or from a kept state.

    `keep` is given the state now and then, and at the end; `tell` the number of steps done.
    """
    sizes, recipe, settings = training.sizes, training.recipe, training.step_settings
    current = _initial_state(seed, sizes) if state is None else _state_on_device(state, sizes)
    held_rows, held_targets = _padded(rows), _padded(targets)
    parameters = network.parameter_count(sizes)
    for step in range(0 if state is None else state.step, recipe.max_iter):
        kept = seed.kept_rows(step, len(rows), recipe.sampling_rate)
        *before, last = seed.batches(step, kept, recipe.max_physical_batch_size, training.batches)
        # Sums are whole numbers of 64 bits.
        with jax.enable_x64(True):
            total = None
            for chosen, mask in before:
                parts = network.row_parts(current.parameters, held_rows, held_targets, chosen, training.loss)
                total = network.accumulated(total, *parts, mask, settings)
            parts = network.row_parts(current.parameters, held_rows, held_targets, last[0], training.loss)
            # Drawn here while the device is at work.
            noise = seed.noise(step, parameters)
            current = network.sampled_step(current, total, *parts, last[1], noise, settings)
        if keep is not None and (step + 1 == recipe.max_iter or (step + 1) % _STEPS_BETWEEN_STATES == 0):
            keep(_kept_state(current, step + 1))
        if tell is not None:
            tell(step + 1)
    return as_layers(current.average)


def as_layers(parameters: network.Parameters) -> Layers:
    """Parameters as arrays of numpy."""
    return tuple(
        (np.asarray(weights, dtype=np.float64), np.asarray(bias, dtype=np.float64)) for weights, bias in parameters
    )


def _initial_state(seed: RunSeed, sizes: tuple[int, ...]) -> network.State:
    normals = seed.start(network.weight_count(sizes))
    return network.initial_state(network.initial_parameters(normals, sizes, gain=_START_GAIN))


def _padded(rows: Singles) -> jax.Array:
    """Rows on the device, with rows of zeros after them that are never sampled: tables of about one size are compiled for once."""
    return jnp.asarray(np.pad(rows, ((0, -len(rows) % _ROW_STEP), (0, 0))))


def _kept_state(state: network.State, step: int) -> RunState:
    parts = (state.parameters, state.velocity, state.average)
    return RunState(step, np.concatenate([flattened(as_layers(part)) for part in parts]).astype(np.float32))


def _state_on_device(kept: RunState, sizes: tuple[int, ...]) -> network.State:
    parts = [_on_device(part, sizes) for part in np.split(kept.values, 3)]
    return network.State(parts[0], parts[1], parts[2], jnp.asarray(kept.step, jnp.int32))


def _on_device(flat: Singles, sizes: tuple[int, ...]) -> network.Parameters:
    layers = layered(flat.astype(np.float64), sizes)
    return tuple((jnp.asarray(weights, jnp.float32), jnp.asarray(bias, jnp.float32)) for weights, bias in layers)
