"""Rows, targets and a network to step, for both of our sides of a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from sudare.neural import per_row_clipping as network
from sudare.neural.row_gradients import RowGradients

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class StepInputs:
    """What a step on one batch needs, on the device."""

    state: network.DescentState
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


# A network with convolutions, as anybody would write it.


def convolutions(params: Any, images: jax.Array) -> jax.Array:
    """Ten scores an image [rows, side, side]: two convolutions of 3×3 with pooling, and one hidden layer."""
    values = images[..., None]
    for kernel, bias in params["convolutions"]:
        convolved = lax.conv_general_dilated(values, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        values = lax.reduce_window(
            jax.nn.relu(convolved + bias), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
    values = values.reshape(len(values), -1)
    (weights, bias), (last, last_bias) = params["layers"]
    return jax.nn.relu(values @ weights + bias) @ last + last_bias


def convolution_parameters(side: int, channels: int, width: int, classes: int = 10) -> Any:
    """Weights of deviation 1/√inputs, and biases and a last layer of zeros."""
    generator = np.random.default_rng(1)

    def layer(*shape: int, gain: float = 1.0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        weights = gain * generator.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))
        return weights.astype(np.float32), np.zeros(shape[-1], dtype=np.float32)

    return {
        "convolutions": [layer(3, 3, 1, channels), layer(3, 3, channels, 2 * channels)],
        "layers": [layer(2 * channels * (side // 4) ** 2, width), layer(width, classes, gain=0.0)],
    }


@dataclass(frozen=True)
class ImageInputs:
    """What a step on one batch of images needs, on the device, and the functions that private and ordinary steps call."""

    state: network.DescentState
    images: jax.Array
    targets: jax.Array
    kept: jax.Array
    settings: network.StepSettings
    blocks: Callable[..., network.Blocks]
    loss: Callable[..., jax.Array]

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.state.parameters))


def image_inputs(batch: int, side: int, channels: int, width: int) -> ImageInputs:
    """Random images of ten classes, every one kept."""
    generator = np.random.default_rng(0)
    images = jnp.asarray(generator.standard_normal((batch, side, side), dtype=np.float32))
    targets = jnp.asarray(generator.integers(0, 10, (batch, 1)), jnp.float32)
    leaves, structure = jax.tree.flatten(convolution_parameters(side, channels, width))

    def loss(trained: Any, frozen: Any, image: jax.Array, target: jax.Array) -> jax.Array:
        scores = convolutions(jax.tree.unflatten(structure, list(trained)), image[None])[0]
        return -jax.nn.log_softmax(scores)[target[0].astype(jnp.int32)]

    gradients = RowGradients.traced(loss, leaves, [], images[0], targets[0])
    settings = network.StepSettings(
        max_iter=1e6, learning_rate=0.1, momentum=0.9, clip=1.0, noise_multiplier=1.0, expected_rows=float(batch)
    )
    return ImageInputs(
        network.initial_state(tuple(map(jnp.asarray, leaves))),
        images,
        targets,
        jnp.ones(batch, jnp.float32),
        settings,
        gradients.compiled(),
        loss,
    )


def private_image_step(given: ImageInputs, noise: NDArray[np.int64]) -> network.DescentState:
    """A whole private step on one physical batch."""
    blocks = given.blocks(given.state.parameters, [], given.images, given.targets)
    with jax.enable_x64(True):
        return network.sampled_step(given.state, None, blocks, given.kept, noise, given.settings)


def ordinary_image_step(given: ImageInputs) -> Callable[[], network.DescentState]:
    """The same step without clipping and noise, compiled."""

    @jax.jit
    def step(state: network.DescentState, images: jax.Array, targets: jax.Array) -> network.DescentState:
        def summed(trained: Any) -> jax.Array:
            return jnp.sum(jax.vmap(given.loss, (None, None, 0, 0))(trained, [], images, targets))

        return network.stepped(state, jax.grad(summed)(state.parameters), given.settings)

    return lambda: step(given.state, given.images, given.targets)
