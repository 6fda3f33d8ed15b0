"""Fully connected ReLU networks whose gradients are clipped row by row without ever being formed row by row.

Needs JAX and numpy only, so that it runs on a bare machine with a GPU. Everything is float32 and can be compiled.
The gradient of one row in a layer is the outer product of the layer's input a and the slope δ at its output, and the
bias sees the constant input 1: its squared norm is (‖a‖² + 1)·‖δ‖². So one forward and one backward pass give the norms of
all rows ("ghost" norms), and the clipped sum is one weighted product per layer. Proof: proofs/dp_sgd.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array
Parameters = tuple[tuple[Array, Array], ...]
Loss = Literal["cross_entropy", "squared"]

# Graphics cards round the factors of float32 products to 11 bits, which can lengthen a row's gradient by a factor of
# 1 + 2⁻¹⁰: rows are clipped by so much more that the promised clip holds all the same.
ROUNDING_MARGIN: Final = 2.0**-9
# Values beyond these end at them. Then no pass over rows of entries up to 2³⁰ overflows: no row can make a sum infinite or undefined.
LARGEST_VALUE: Final = 2.0**30
LARGEST_PARAMETER: Final = 2.0**10
_LONGEST_MEMORY: Final = 0.98


class State(NamedTuple):
    """Where a descent stands: its place, its velocity, the running average of its places and the steps done."""

    parameters: Parameters
    velocity: Parameters
    average: Parameters
    step: Array


class Pace(NamedTuple):
    """Public numbers of a descent.

    `noise_multiplier` is the noise's standard deviation over the clip; `expected_rows` the sampling rate times the rows;
    `rate` multiplies the mean clipped gradient in units of the clip, and falls to zero along a cosine over `steps`;
    `limit` bounds every parameter.
    """

    steps: float
    rate: float
    momentum: float
    clip: float
    noise_multiplier: float
    expected_rows: float
    limit: float = LARGEST_PARAMETER


def initial_parameters(
    key: Array, sizes: Sequence[int], zero_last: bool = True, gain: float = math.sqrt(2)
) -> Parameters:
    """Random weights of deviation gain/√inputs and zero biases; by default the last layer starts at zero."""
    keys = jax.random.split(key, len(sizes) - 1)
    layers = []
    for place, (layer_key, (inputs, width)) in enumerate(zip(keys, itertools.pairwise(sizes), strict=True)):
        scale = 0.0 if zero_last and place == len(sizes) - 2 else gain / math.sqrt(inputs)
        weights = scale * jax.random.normal(layer_key, (inputs, width), jnp.float32)
        layers.append((weights, jnp.zeros(width, jnp.float32)))
    return tuple(layers)


def parameter_count(sizes: Sequence[int]) -> int:
    """Weights and biases of a network of these layer sizes, inputs first."""
    return sum((inputs + 1) * width for inputs, width in itertools.pairwise(sizes))


def outputs(parameters: Parameters, x: Array) -> Array:
    """The last layer's values: logits, or predictions in units of the target."""
    return layer_values(parameters, x)[1]


def losses(parameters: Parameters, x: Array, targets: Array, loss: Loss) -> Array:
    """Each row's loss: cross-entropy against a one-hot row, or half the squared distance."""
    predicted = outputs(parameters, x)
    if loss == "cross_entropy":
        return -jnp.sum(targets * jax.nn.log_softmax(predicted, axis=1), axis=1)
    return 0.5 * jnp.sum((predicted - targets) ** 2, axis=1)


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


def squared_norms(parameters: Parameters, x: Array, targets: Array, loss: Loss) -> Array:
    """Each row's squared gradient norm over all parameters."""
    inputs, predicted = layer_values(parameters, x)
    return _ghost_norms(inputs, layer_slopes(parameters, inputs, output_residuals(predicted, targets, loss)))


def clipped_gradient_sum(
    parameters: Parameters, x: Array, targets: Array, kept: Array, clip: float | Array, loss: Loss
) -> Parameters:
    """The sum of the kept rows' gradients, each shortened to norm `clip` at most. Adding a row moves it by `clip` at most.

    `kept` is 1 for a row that was sampled and 0 for padding. A row whose norm is not finite counts as zero.
    """
    inputs, predicted = layer_values(parameters, x)
    slopes = layer_slopes(parameters, inputs, output_residuals(predicted, targets, loss))
    factors = kept * clip_factors(_ghost_norms(inputs, slopes), clip)
    # The bias of a layer sees the constant input 1, so its clipped sum is the factors times the slopes.
    return tuple(
        (_weighted_product(a, slope, factors[:, None]), factors @ slope)
        for a, slope in zip(inputs, slopes, strict=True)
    )


def _weighted_product(a: Array, slope: Array, factors: Array) -> Array:
    """aᵀ·Diag(factors)·slope; the narrower of the two is weighted, which is less to write and to read."""
    return (a * factors).T @ slope if a.shape[1] < slope.shape[1] else a.T @ (slope * factors)


def clip_factors(squared: Array, clip: float | Array) -> Array:
    """What shortens each row's gradient to `clip` at most; zero where its norm is infinite or undefined."""
    bound = clip * (1 - ROUNDING_MARGIN)
    return jnp.where(squared < jnp.inf, jnp.minimum(1.0, bound * jax.lax.rsqrt(jnp.maximum(squared, 1e-30))), 0.0)


def mapped(function: Callable[..., Array], *parts: Parameters) -> Parameters:
    """A function of every parameter."""
    result: Parameters = jax.tree.map(function, *parts)
    return result


def initial_state(parameters: Parameters) -> State:
    """At rest at these parameters."""
    return State(parameters, nothing_like(parameters), parameters, jnp.zeros((), jnp.int32))


def nothing_like(parameters: Parameters) -> Parameters:
    """The sum over no rows: where accumulation starts, and what an empty batch gives."""
    return mapped(jnp.zeros_like, parameters)


@functools.partial(jax.jit, static_argnames="loss")
def accumulated(
    total: Parameters,
    parameters: Parameters,
    rows: Array,
    targets: Array,
    chosen: Array,
    kept: Array,
    clip: float | Array,
    loss: Loss,
) -> Parameters:
    """`total` plus the clipped gradients of the chosen rows: one physical batch."""
    part = clipped_gradient_sum(parameters, rows[chosen], targets[chosen], kept, clip, loss)
    return mapped(jnp.add, total, part)


def gaussian_like(key: Array, parameters: Parameters) -> Parameters:
    """Independent standard normal values in the shape of the parameters."""
    leaves, structure = jax.tree.flatten(parameters)
    drawn, start, parts = standard_normals(key, sum(leaf.size for leaf in leaves)), 0, []
    for leaf in leaves:
        parts.append(drawn[start : start + leaf.size].reshape(leaf.shape))
        start += leaf.size
    shaped: Parameters = jax.tree.unflatten(structure, parts)
    return shaped


def standard_normals(key: Array, count: int) -> Array:
    """Standard normal values by Box and Muller's method: √(−2·log u)·(±cos, ±sin)(θ) for uniform u in (0, 1) and θ in [0, π/2).

    u has 40 bits, so that small values are as fine as large ones and tails reach 7.5 deviations. JAX's own normal values
    have 23 bits and end at 5.4, which among many parameters and steps happens often enough to show where the sum was.
    """
    words = jax.random.bits(key, (2, (count + 1) // 2), jnp.uint32)
    high, low = _small_floats(words[0] >> 8), _small_floats(((words[0] & 0xFF) << 8) | (words[1] & 0xFF))
    radius = jnp.sqrt(-2 * jnp.log(high * 2.0**-24 + (low + 0.5) * 2.0**-40))
    cosine, sine = _quarter_turn(_small_floats(words[1] >> 10) * 2.0**-22)
    signs = [jnp.where(words[1] & bit, -radius, radius) for bit in (0x100, 0x200)]
    return jnp.concatenate([signs[0] * cosine, signs[1] * sine])[:count]


def _small_floats(words: Array) -> Array:
    """Whole numbers below 2²⁴ as floats, exactly."""
    return words.astype(jnp.int32).astype(jnp.float32)


def _quarter_turn(share: Array) -> tuple[Array, Array]:
    """Cosine and sine of a share in [0, 1) of a right angle, by Taylor's polynomials around its middle: right to 3e-7."""
    angle = (share - 0.5) * (math.pi / 2)
    square = angle * angle
    sine = angle * (1 + square * (-1 / 6 + square * (1 / 120 - square / 5040)))
    cosine = 1 + square * (-1 / 2 + square * (1 / 24 + square * (-1 / 720 + square / 40320)))
    return (cosine - sine) * math.sqrt(0.5), (cosine + sine) * math.sqrt(0.5)


def with_noise(state: State, total: Parameters, key: Array, pace: Pace) -> State:
    """The state after one step on a sum of clipped gradients, with noise for the whole sum drawn from `key`."""
    deviation = pace.clip * pace.noise_multiplier
    noisy = mapped(lambda part, noise: part + deviation * noise, total, gaussian_like(key, total))
    return stepped(state, noisy, pace)


noisy_step = jax.jit(with_noise)


def stepped(state: State, total: Parameters, pace: Pace) -> State:
    """Momentum, a cosine schedule and an average that remembers ever longer: post-processing of the sum."""
    done = state.step.astype(jnp.float32)
    rate = pace.rate * 0.5 * (1 + jnp.cos(jnp.pi * done / pace.steps))
    memory = jnp.minimum(_LONGEST_MEMORY, (1 + done) / (10 + done))
    unit = 1 / (pace.expected_rows * pace.clip)
    velocity = mapped(lambda old, part: pace.momentum * old + unit * part, state.velocity, total)
    parameters = mapped(
        lambda old, move: jnp.clip(old - rate * move, -pace.limit, pace.limit), state.parameters, velocity
    )
    average = mapped(lambda old, new: memory * old + (1 - memory) * new, state.average, parameters)
    return State(parameters, velocity, average, state.step + 1)


@functools.partial(jax.jit, static_argnames="loss")
def sampled_step(
    state: State,
    total: Parameters,
    rows: Array,
    targets: Array,
    chosen: Array,
    kept: Array,
    key: Array,
    pace: Pace,
    loss: Loss,
) -> State:
    """The last physical batch of a sample and the step that follows, compiled as one; `total` holds the batches before."""
    part = clipped_gradient_sum(state.parameters, rows[chosen], targets[chosen], kept, pace.clip, loss)
    return with_noise(state, mapped(jnp.add, total, part), key, pace)


@functools.partial(jax.jit, static_argnames="loss")
def private_step(state: State, x: Array, targets: Array, kept: Array, key: Array, pace: Pace, loss: Loss) -> State:
    """A whole private step on one physical batch, compiled as one."""
    return with_noise(state, clipped_gradient_sum(state.parameters, x, targets, kept, pace.clip, loss), key, pace)


@functools.partial(jax.jit, static_argnames="loss")
def plain_step(state: State, x: Array, targets: Array, kept: Array, pace: Pace, loss: Loss) -> State:
    """The same step without clipping and noise: what ordinary learning would do, and what benchmarks compare with."""
    return stepped(state, gradient_sum(state.parameters, x, targets, kept, loss), pace)


def layer_values(parameters: Parameters, x: Array) -> tuple[list[Array], Array]:
    """The input of every layer, and the last layer's output."""
    inputs = [x]
    for weights, bias in parameters[:-1]:
        inputs.append(jnp.minimum(jax.nn.relu(inputs[-1] @ weights + bias), LARGEST_VALUE))
    weights, bias = parameters[-1]
    return inputs, inputs[-1] @ weights + bias


def layer_slopes(parameters: Parameters, inputs: list[Array], last: Array) -> list[Array]:
    """The slope of each row's loss at every layer's output, first layer first."""
    slopes = [last]
    for (weights, _), values in zip(reversed(parameters[1:]), reversed(inputs[1:]), strict=True):
        slope = jnp.clip(slopes[-1] @ weights.T, -LARGEST_VALUE, LARGEST_VALUE)
        slopes.append(jnp.where(values > 0, slope, 0.0))
    return slopes[::-1]


def _ghost_norms(inputs: list[Array], slopes: list[Array]) -> Array:
    """(‖a‖² + 1)·‖δ‖² summed over layers, per row."""
    total = jnp.zeros(len(inputs[0]), jnp.float32)
    for a, slope in zip(inputs, slopes, strict=True):
        total += (jnp.sum(a * a, axis=1) + 1) * jnp.sum(slope * slope, axis=1)
    return total
