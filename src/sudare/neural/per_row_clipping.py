"""Sums of gradients that are clipped row by row, the private step on them, and the gradients of fully connected ReLU networks.

Needs JAX and numpy only, so that it runs on a bare machine with a GPU. Everything can be compiled.
What the gradients of rows are made of comes in blocks, one for every array of parameters. The gradient of one row in a fully connected
layer is the outer product of the layer's input a and the slope δ at its output (`OuterProductBlock`): its squared norm is ‖a‖²·‖δ‖², so one forward and
one backward pass give the norms of all rows ("ghost" norms), and the clipped sum is one weighted product a layer. Other gradients are
`FormedBlock`, a vector a row. `row_gradients.py` makes the blocks of any function.

Private sums are whole numbers: a unit is such that noise of deviation 2³⁴ units is what the clip needs. Rows are multiplied in
float32, a few at a time, and what comes out is added to the rest as a whole number; so the rounding of floats is the affair of the few rows
around a row, and clipping leaves room for it. Whole numbers have 64 bits: call private sums and steps under `jax.enable_x64(True)`.
Proof: proofs/dp_sgd.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Array = jax.Array
# Of fully connected networks; what clips and steps takes any tree of arrays.
Parameters = tuple[tuple[Array, Array], ...]
Loss = Literal["cross_entropy", "squared"]
_Tree = TypeVar("_Tree")
# How a block's sum becomes the array of parameters that it is for: ("reshape", shape) and ("transpose", axes), one after the other.
Layout = tuple[tuple[Literal["reshape", "transpose"], tuple[int, ...]], ...]

# Values beyond these end at them. Then no pass over rows of entries up to 2³⁰ overflows: no row can make a sum infinite or undefined.
LARGEST_VALUE: Final = 2.0**30
LARGEST_PARAMETER: Final = 2.0**10
# Of the whole-numbered noise that is added to private sums, at least.
NOISE_DEVIATION: Final = 2.0**34
# Rows whose products are added up in float32.
ROWS_IN_A_PART: Final = 128
_FLOAT32_UNIT: Final = 2.0**-24
_SMALLEST_FLOAT32: Final = 2.0**-126
_LONGEST_MEMORY: Final = 0.98
_MOST_NUMBERS_AT_ONCE: Final = 2**26


class DescentState(NamedTuple):
    """The state of a descent: parameters, velocity, the running average of the parameters (trees of one structure), and the steps done."""

    parameters: Any
    velocity: Any
    average: Any
    step: Array


class StepSettings(NamedTuple):
    """Public numbers of a descent.

    `noise_multiplier` is the noise's standard deviation over the clip, zero where there is none; `expected_rows` the sampling rate times
    the rows; `learning_rate` multiplies the mean clipped gradient in units of the clip, and falls to zero along a cosine over `max_iter`
    steps; `limit` bounds every parameter.
    """

    max_iter: float
    learning_rate: float
    momentum: float
    clip: float
    noise_multiplier: float
    expected_rows: float
    limit: float = LARGEST_PARAMETER


def initial_parameters(
    normals: Array | NDArray[Any], sizes: Sequence[int], zero_last: bool = True, gain: float = math.sqrt(2)
) -> Parameters:
    """Weights of deviation gain/√inputs, from one standard normal value a weight, and zero biases; by default the last layer is zero."""
    layers, start = [], 0
    for place, (inputs, width) in enumerate(itertools.pairwise(sizes)):
        scale = 0.0 if zero_last and place == len(sizes) - 2 else gain / math.sqrt(inputs)
        # By numpy, and put on the device as it is: nothing is compiled, which would be anew for every shape.
        weights = np.float32(scale) * np.asarray(normals[start : start + inputs * width], np.float32)
        layers.append((jax.device_put(weights.reshape(inputs, width)), jax.device_put(np.zeros(width, np.float32))))
        start += inputs * width
    return tuple(layers)


def weight_count(sizes: Sequence[int]) -> int:
    """Weights of a network of these layer sizes, without biases."""
    return sum(inputs * width for inputs, width in itertools.pairwise(sizes))


def outputs(parameters: Parameters, x: Array) -> Array:
    """The last layer's values: logits, or predictions in units of the target."""
    return layer_values(parameters, x)[1]


def output_residuals(predicted: Array, targets: Array, loss: Loss) -> Array:
    """Slope of each row's loss at the outputs: probabilities or predictions, less the target."""
    if loss == "cross_entropy":
        return jax.nn.softmax(predicted, axis=1) - targets
    return jnp.clip(predicted - targets, -LARGEST_VALUE, LARGEST_VALUE)


def gradient_sum(parameters: Parameters, x: Array, targets: Array, weights: Array, loss: Loss) -> Parameters:
    """The weighted sum of the rows' gradients, not clipped."""
    inputs, predicted = layer_values(parameters, x)
    last = output_residuals(predicted, targets, loss) * weights[:, None]
    return tuple(
        (a.T @ slope, jnp.sum(slope, axis=0))
        for a, slope in zip(inputs, layer_slopes(parameters, inputs, last), strict=True)
    )


@functools.partial(jax.tree_util.register_dataclass, data_fields=["inputs", "slopes"], meta_fields=["layout"])
@dataclass(frozen=True)
class OuterProductBlock:
    """Gradients of an array of weights, a row's being the outer product of its inputs [rows, i] and slopes [rows, o]; inputs are finite."""

    inputs: Array
    slopes: Array
    layout: Layout = ()

    @property
    def size(self) -> int:
        """Parameters of the array."""
        return int(self.inputs.shape[-1] * self.slopes.shape[-1])

    @property
    def widest(self) -> int:
        """The most squares that a norm is added up of."""
        return int(max(self.inputs.shape[-1], self.slopes.shape[-1]))

    def squared_norms(self) -> Array:
        """Each row's squared gradient norm, ‖a‖²·‖δ‖², and a little more."""
        inputs, slopes = _squares(self.inputs), _squares(self.slopes)
        return inputs * slopes + _SMALLEST_FLOAT32

    def whole_sum(self, factors: Array) -> Array:
        """From [parts, rows, …]: the sum of the rows' gradients times their factors, parts cut to whole numbers."""
        # A row that does not count may have any slopes; zero times infinity would be undefined. Inputs are finite.
        weighted = jnp.where(factors[..., None] > 0, self.slopes * factors[..., None], 0.0)
        # "highest": graphics cards would else round the factors of products to 11 bits.
        products = jnp.einsum("pri,pro->pio", self.inputs, weighted, precision="highest")
        return jnp.sum(products.astype(jnp.int64), axis=0)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["gradients"], meta_fields=["layout"])
@dataclass(frozen=True)
class FormedBlock:
    """Gradients of an array of parameters, a row's being a row of `gradients` [rows, n]."""

    gradients: Array
    layout: Layout = ()

    @property
    def size(self) -> int:
        """Parameters of the array."""
        return int(self.gradients.shape[-1])

    @property
    def widest(self) -> int:
        """The most squares that a norm is added up of."""
        return self.size

    def squared_norms(self) -> Array:
        """Each row's squared gradient norm, and a little more."""
        return _squares(self.gradients)

    def whole_sum(self, factors: Array) -> Array:
        """From [parts, rows, n]: the sum of the rows' gradients times their factors, parts cut to whole numbers."""
        weighted = jnp.where(factors[..., None] > 0, self.gradients * factors[..., None], 0.0)
        return jnp.sum(jnp.sum(weighted, axis=1).astype(jnp.int64), axis=0)


Block = OuterProductBlock | FormedBlock
Blocks = tuple[Block, ...]


def _squares(values: Array) -> Array:
    """Sums of squares over the last axis. Processors may take squares below the smallest normal float for zero; so much is added that none is missed."""
    return jnp.sum(values * values, axis=-1) + values.shape[-1] * _SMALLEST_FLOAT32


def squared_norms(blocks: Blocks) -> Array:
    """Each row's squared gradient norm over all parameters."""
    return functools.reduce(jnp.add, (block.squared_norms() for block in blocks))


def rounding_margin(widest: int, arrays: int, parameters: int, noise_multiplier: float | Array) -> float | Array:
    """The share of the clip that is left for rounding, so that a row moves a private sum by the clip at most (proofs/dp_sgd.md).

    For the sums of the part of rows that it is in, with and without it, for norms, and for whole numbers.
    """
    parts = 2.0625 * ROWS_IN_A_PART**2 * _FLOAT32_UNIT
    norms = (widest + arrays + 32) * _FLOAT32_UNIT
    return parts + norms + 2 * math.sqrt(parameters) * noise_multiplier / NOISE_DEVIATION


def margin_of(blocks: Blocks, noise_multiplier: float | Array) -> float | Array:
    """The rounding margin of sums of these blocks."""
    widest, parameters = max(block.widest for block in blocks), sum(block.size for block in blocks)
    return rounding_margin(widest, len(blocks), parameters, noise_multiplier)


def row_factors(blocks: Blocks, kept: Array, settings: StepSettings) -> Array:
    """What multiplies each row's gradient: gradients are counted in units, and none is longer than the clip less the rounding margin.

    Zero for padding, and where a norm is infinite or undefined.
    """
    units = NOISE_DEVIATION / settings.noise_multiplier
    bound = units * (1 - margin_of(blocks, settings.noise_multiplier))
    squared = squared_norms(blocks)
    factors = jnp.minimum(units / settings.clip, bound / jnp.sqrt(squared))
    return jnp.where((kept > 0) & (squared < jnp.inf), factors, 0.0).astype(jnp.float32)


def clipped_sum(blocks: Blocks, kept: Array, settings: StepSettings) -> tuple[Array, ...]:
    """The sum of the kept rows' clipped gradients in whole units, modulo 2⁶⁴, one array a block. `kept` is 0 for padding.

    The blocks must be arguments of the compiled function that this is part of: then norms and sums are of the same numbers.
    """
    factors = row_factors(blocks, kept, settings)
    size = min(ROWS_IN_A_PART, len(factors))
    parts = -(-len(factors) // size)
    numbers = parts * sum(block.size for block in blocks)
    # Equally many parts at once, and not too many for memory.
    turns = next(
        n for n in range(1, parts + 1) if parts % n == 0 and (numbers <= n * _MOST_NUMBERS_AT_ONCE or n == parts)
    )

    def split(values: Array) -> Array:
        whole = jnp.pad(values, ((0, parts * size - len(values)), *[(0, 0)] * (values.ndim - 1)))
        return whole.reshape(turns, parts // turns, size, *values.shape[1:])

    def sums(turn: tuple[Blocks, Array]) -> tuple[Array, ...]:
        return tuple(block.whole_sum(turn[1]) for block in turn[0])

    def added(total: tuple[Array, ...], turn: tuple[Blocks, Array]) -> tuple[tuple[Array, ...], None]:
        return tuple(map(jnp.add, total, sums(turn))), None

    held: tuple[Blocks, Array] = jax.tree.map(split, (blocks, factors))
    total = sums(jax.tree.map(lambda values: values[0], held))
    if turns > 1:
        total = jax.lax.scan(added, total, jax.tree.map(lambda values: values[1:], held))[0]
    return tuple(map(_arranged, total, (block.layout for block in blocks)))


def _arranged(values: Array, layout: Layout) -> Array:
    for step, numbers in layout:
        values = values.reshape(numbers) if step == "reshape" else values.transpose(numbers)
    return values


def mapped(function: Callable[..., Array], first: _Tree, *others: Any) -> _Tree:
    """A function of every parameter, in trees of one structure."""
    result: _Tree = jax.tree.map(function, first, *others)
    return result


def initial_state(parameters: Any) -> DescentState:
    """At rest at these parameters."""
    resting = mapped(lambda leaf: jax.device_put(np.zeros(leaf.shape, leaf.dtype)), parameters)
    return DescentState(parameters, resting, parameters, jax.device_put(np.int32(0)))


@functools.partial(jax.jit, static_argnames="loss")
def row_parts(parameters: Parameters, rows: Array, targets: Array, chosen: Array | None, loss: Loss) -> Blocks:
    """What the gradients of the chosen rows, or all, are made of in a fully connected network: two blocks a layer."""
    x, wanted = (rows, targets) if chosen is None else (rows[chosen], targets[chosen])
    # Declared columns are never beyond this; whatever is, and what is undefined, counts as zero.
    inputs, predicted = layer_values(parameters, jnp.where(jnp.abs(x) <= LARGEST_VALUE, x, 0.0))
    slopes = layer_slopes(parameters, inputs, output_residuals(predicted, wanted, loss))
    # The bias sees the constant input 1.
    return tuple(
        block
        for a, slope in zip(inputs, slopes, strict=True)
        for block in (OuterProductBlock(a, slope), FormedBlock(slope))
    )


def _with_batch(
    total: tuple[Array, ...] | None, blocks: Blocks, kept: Array, settings: StepSettings
) -> tuple[Array, ...]:
    part = clipped_sum(blocks, kept, settings)
    return part if total is None else tuple(map(jnp.add, total, part))


accumulated = jax.jit(_with_batch)
"""`total` (None: nothing yet) plus the clipped sum of one physical batch."""


def with_noise(state: DescentState, total: Any, noise: Array, settings: StepSettings) -> DescentState:
    """The state after one step on a clipped sum in whole units, to which `noise`, a whole number for every parameter, is added."""
    unit, start, parts = settings.clip * settings.noise_multiplier / NOISE_DEVIATION, 0, []
    for leaf in jax.tree.leaves(total):
        noisy = leaf + noise[start : start + leaf.size].reshape(leaf.shape)
        parts.append((noisy.astype(jnp.float64) * unit).astype(jnp.float32))
        start += leaf.size
    return stepped(state, jax.tree.unflatten(jax.tree.structure(state.parameters), parts), settings)


@jax.jit
def sampled_step(
    state: DescentState,
    total: tuple[Array, ...] | None,
    blocks: Blocks,
    kept: Array,
    noise: Array,
    settings: StepSettings,
) -> DescentState:
    """The last physical batch of a sample and the step that follows, compiled as one; `total` holds the batches before, if any."""
    return with_noise(state, _with_batch(total, blocks, kept, settings), noise, settings)


def stepped(state: DescentState, total: Any, settings: StepSettings) -> DescentState:
    """Momentum, a cosine schedule and an average that remembers ever longer: post-processing of the sum."""
    done = state.step.astype(jnp.float32)
    rate = settings.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * done / settings.max_iter))
    memory = jnp.minimum(_LONGEST_MEMORY, (1 + done) / (10 + done))
    unit = 1 / (settings.expected_rows * settings.clip)
    velocity = mapped(lambda old, part: settings.momentum * old + unit * part, state.velocity, total)
    parameters = mapped(
        lambda old, move: jnp.clip(old - rate * move, -settings.limit, settings.limit), state.parameters, velocity
    )
    average = mapped(lambda old, new: memory * old + (1 - memory) * new, state.average, parameters)
    return DescentState(parameters, velocity, average, state.step + 1)


@functools.partial(jax.jit, static_argnames="loss")
def plain_step(
    state: DescentState, x: Array, targets: Array, kept: Array, settings: StepSettings, loss: Loss
) -> DescentState:
    """Returns the state after a step without clipping and noise: what ordinary learning would do, and what benchmarks compare with."""
    return stepped(state, gradient_sum(state.parameters, x, targets, kept, loss), settings)


def layer_values(parameters: Parameters, x: Array) -> tuple[list[Array], Array]:
    """The input of every layer, and the last layer's output."""
    inputs = [x]
    for weights, bias in parameters[:-1]:
        values = inputs[-1] @ weights + bias
        # What is undefined is not above zero.
        inputs.append(jnp.where(values > 0, jnp.minimum(values, LARGEST_VALUE), 0.0))
    weights, bias = parameters[-1]
    return inputs, inputs[-1] @ weights + bias


def layer_slopes(parameters: Parameters, inputs: list[Array], last: Array) -> list[Array]:
    """The slope of each row's loss at every layer's output, first layer first."""
    slopes = [last]
    for (weights, _), values in zip(reversed(parameters[1:]), reversed(inputs[1:]), strict=True):
        slope = jnp.clip(slopes[-1] @ weights.T, -LARGEST_VALUE, LARGEST_VALUE)
        slopes.append(jnp.where(values > 0, slope, 0.0))
    return slopes[::-1]
