"""The training loop of DP-SGD with JAX: samples, clipped sums, noise and steps. It can stop anywhere and go on from what was kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import jax
import numpy as np

from sudare.array_types import Singles
from sudare.neural import per_row_clipping as network
from sudare.neural.dp_sgd import Recipe, slots_for
from sudare.neural.seeded_randomness import Places, RunSeed, RunState
from sudare.neural.training_method_base import Layers

# Smaller weights than ordinary learning starts from: what noise does to a network grows with them (docs/neural.md).
_START_GAIN: Final = 0.5
_ROW_STEP: Final = 1024
# A public number: larger tables stay where they are kept, and a batch at a time is taken from there.
MOST_HELD_BYTES: Final = 2**28
# After so many steps a run is kept, so that one that was killed loses no more.
_STEPS_BETWEEN_STATES: Final = 50


class Trainable(Protocol):
    """What a run trains: where it starts, and what the gradients of rows are made of."""

    def start(self, seed: RunSeed) -> Any:
        """A tree of 32-bit floats that depends on no record."""

    def row_parts(self, parameters: Any, rows: jax.Array, targets: jax.Array, chosen: Places) -> network.Blocks:
        """A block for every array of the tree, from a compiled function of its own."""


class FullyConnected(NamedTuple):
    """A fully connected network; `sizes` are the widths of its layers, inputs first."""

    sizes: tuple[int, ...]
    loss: network.Loss

    def start(self, seed: RunSeed) -> network.Parameters:
        """Small random weights, zero biases, and a last layer of zeros."""
        normals = seed.start(network.weight_count(self.sizes))
        return network.initial_parameters(normals, self.sizes, gain=_START_GAIN)

    def row_parts(
        self, parameters: network.Parameters, rows: jax.Array, targets: jax.Array, chosen: Places
    ) -> network.Blocks:
        """Two blocks a layer."""
        blocks: network.Blocks = network.row_parts(parameters, rows, targets, chosen, self.loss)
        return blocks


@dataclass(frozen=True)
class Training:
    """Public numbers of a whole run."""

    recipe: Recipe
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


def trained(
    training: Training,
    trainable: Trainable,
    rows: Singles,
    targets: Singles,
    seed: RunSeed,
    *,
    state: RunState | None = None,
    keep: Callable[[RunState], None] | None = None,
    tell: Callable[[int], None] | None = None,
) -> Any:
    """The averaged parameters after all steps, from the beginning or from a kept state: arrays of numpy in a tree like the one at the start.

    `keep` is given the state now and then, and at the end; `tell` the number of steps done.
    """
    recipe, settings = training.recipe, training.step_settings
    current = network.initial_state(trainable.start(seed))
    parameters = sum(leaf.size for leaf in jax.tree.leaves(current.parameters))
    if state is not None:
        current = _state_on_device(state, current)
    gathered = _gathering(rows, targets)
    for step in range(0 if state is None else state.step, recipe.max_iter):
        kept = seed.kept_rows(step, len(rows), recipe.sampling_rate)
        *before, last = seed.batches(step, kept, recipe.max_physical_batch_size, training.batches)
        total = None
        for chosen, mask in before:
            parts = trainable.row_parts(current.parameters, *gathered(chosen))
            # Sums are whole numbers of 64 bits.
            with jax.enable_x64(True):
                total = network.accumulated(total, parts, mask, settings)
        parts = trainable.row_parts(current.parameters, *gathered(last[0]))
        # Drawn here while the device is at work.
        noise = seed.noise(step, parameters)
        with jax.enable_x64(True):
            current = network.sampled_step(current, total, parts, last[1], noise, settings)
        if keep is not None and (step + 1 == recipe.max_iter or (step + 1) % _STEPS_BETWEEN_STATES == 0):
            keep(_kept_state(current, step + 1))
        if tell is not None:
            tell(step + 1)
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), current.average)


def as_layers(parameters: network.Parameters) -> Layers:
    """Parameters as arrays of numpy."""
    return tuple(
        (np.asarray(weights, dtype=np.float64), np.asarray(bias, dtype=np.float64)) for weights, bias in parameters
    )


def _gathering(rows: Singles, targets: Singles) -> Callable[[Places], tuple[Any, Any, Places]]:
    """Where a batch finds its rows: all rows on the device, or where these are many its own, and which ones of them it takes."""
    if rows.nbytes + targets.nbytes <= MOST_HELD_BYTES:
        held = _padded(rows), _padded(targets)
        return lambda chosen: (*held, chosen)
    return lambda chosen: (rows[chosen], targets[chosen], np.arange(len(chosen), dtype=chosen.dtype))


def _padded(rows: Singles) -> jax.Array:
    """Rows on the device, with rows of zeros after them that are never sampled: tables of about one size are compiled for once."""
    held: jax.Array = jax.device_put(np.pad(rows, ((0, -len(rows) % _ROW_STEP), (0, 0))))
    return held


def _kept_state(state: network.DescentState, step: int) -> RunState:
    leaves = jax.tree.leaves((state.parameters, state.velocity, state.average))
    return RunState(step, np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float32))


def _state_on_device(kept: RunState, like: network.DescentState) -> network.DescentState:
    """The state that was kept, its arrays of the shapes of a state of the same run."""
    leaves, structure = jax.tree.flatten(tuple(like[:3]))
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = np.split(kept.values, ends[:-1])
    held = [
        jax.device_put(np.asarray(part, np.float32).reshape(leaf.shape))
        for part, leaf in zip(parts, leaves, strict=True)
    ]
    parameters, velocity, average = jax.tree.unflatten(structure, held)
    return network.DescentState(parameters, velocity, average, jax.device_put(np.int32(kept.step)))
