"""The descent itself: samples, clipped sums, noise and steps, with JAX. It can stop anywhere and go on from what was kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from sudare.neural import clipped_network as network
from sudare.neural.calibration import slots_for
from sudare.neural.seeded_randomness import RunSeed, Standing
from sudare.neural.training_methods import Floats, Layers, Singles, flattened, layered

# Smaller weights than ordinary learning starts from: what noise does to a network grows with them (docs/neural.md).
_START_GAIN: Final = 0.5
_ROW_STEP: Final = 1024


@dataclass(frozen=True)
class Descent:
    """Public numbers of a whole run."""

    sizes: tuple[int, ...]
    loss: network.Loss
    steps: int
    sampling_rate: float
    physical_batch: int
    clip: float
    noise_multiplier: float
    rate: float
    momentum: float
    expected_rows: float

    @property
    def batches(self) -> int:
        """Physical batches of a step: public, and enough for all samples but one in 2⁶⁹."""
        return math.ceil(slots_for(self.expected_rows / self.sampling_rate, self.sampling_rate) / self.physical_batch)

    @property
    def pace(self) -> network.Pace:
        """The numbers that a step needs."""
        return network.Pace(
            steps=float(self.steps),
            rate=self.rate,
            momentum=self.momentum,
            clip=self.clip,
            noise_multiplier=self.noise_multiplier,
            expected_rows=self.expected_rows,
        )


Keep = Callable[[Standing], None]
Tell = Callable[[int], None]


def descended(
    descent: Descent,
    rows: Singles,
    targets: Singles,
    seed: RunSeed,
    *,
    begun: Standing | None = None,
    keep: Keep | None = None,
    keep_every: int = 50,
    tell: Tell | None = None,
) -> Layers:
    """The averaged parameters after all steps, from the beginning or from where a run stood.

    `keep` is given the state now and then, and at the end; `tell` the number of steps done.
    """
    state = _started(seed, descent.sizes) if begun is None else _resumed(begun, descent.sizes)
    held_rows, held_targets = _padded(rows), _padded(targets)
    parameters = network.parameter_count(descent.sizes)
    pace, done = descent.pace, 0 if begun is None else begun.step
    for step in range(done, descent.steps):
        kept = seed.kept_rows(step, len(rows), descent.sampling_rate)
        *before, last = seed.batches(step, kept, descent.physical_batch, descent.batches)
        # Sums are whole numbers of 64 bits.
        with jax.enable_x64(True):
            total = None
            for chosen, mask in before:
                parts = network.row_parts(state.parameters, held_rows, held_targets, chosen, descent.loss)
                total = network.accumulated(total, *parts, mask, pace)
            parts = network.row_parts(state.parameters, held_rows, held_targets, last[0], descent.loss)
            # Drawn here while the device is at work.
            noise = seed.noise(step, parameters)
            state = network.sampled_step(state, total, *parts, last[1], noise, pace)
        if keep is not None and (step + 1 == descent.steps or (step + 1) % keep_every == 0):
            keep(_standing(state, step + 1))
        if tell is not None:
            tell(step + 1)
    return _plain(state.average)


def _started(seed: RunSeed, sizes: tuple[int, ...]) -> network.State:
    normals = seed.start(network.weight_count(sizes))
    return network.initial_state(network.initial_parameters(normals, sizes, gain=_START_GAIN))


def _padded(rows: Singles) -> jax.Array:
    """Rows on the device, with rows of zeros after them that are never sampled: tables of about one size are compiled for once."""
    return jnp.asarray(np.pad(rows, ((0, -len(rows) % _ROW_STEP), (0, 0))))


def _standing(state: network.State, step: int) -> Standing:
    parts = (state.parameters, state.velocity, state.average)
    return Standing(step, np.concatenate([flattened(_plain(part)) for part in parts]).astype(np.float32))


def _resumed(begun: Standing, sizes: tuple[int, ...]) -> network.State:
    parts = [_on_device(part, sizes) for part in np.split(begun.values, 3)]
    return network.State(parts[0], parts[1], parts[2], jnp.asarray(begun.step, jnp.int32))


def _on_device(flat: Singles, sizes: tuple[int, ...]) -> network.Parameters:
    layers = layered(flat.astype(np.float64), sizes)
    return tuple((jnp.asarray(weights, jnp.float32), jnp.asarray(bias, jnp.float32)) for weights, bias in layers)


def _plain(parameters: network.Parameters) -> Layers:
    return tuple((_doubles(weights), _doubles(bias)) for weights, bias in parameters)


def _doubles(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)
