"""How far one row can move each parameter, from the parameters and the bounds of the inputs alone (paper 002, eqs 18–26).

Intervals are passed through the network: inputs to each layer forwards (eqs 20 and 21), slopes of the loss backwards
(eqs 22 and 23); their products bound the gradient of every row there can be (eqs 24–26). Nothing is read from data: in
private learning the parameters were released with noise before, so the intervals are public.

Printed, the maximum after ReLU is max(x) (eq. 21), which is negative where a unit can never be active, and would turn the
next interval around: it must be max(x, 0). The bounds here also use the least inputs, which the paper sets to zero. Slopes
are widened to hold 0, because a row's gradient is shortened towards it. Values and slopes end where the network's do.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from sudare.neural.per_row_clipping import LARGEST_VALUE, Array, Loss, Parameters


class Interval(NamedTuple):
    """Least and greatest values, entry by entry."""

    low: Array
    high: Array


def weighted(interval: Interval, weights: Array) -> Interval:
    """What y·W can be for y within the interval: the ends that each weight's sign chooses."""
    positive, negative = jnp.maximum(weights, 0), jnp.minimum(weights, 0)
    return Interval(
        interval.low @ positive + interval.high @ negative, interval.high @ positive + interval.low @ negative
    )


def input_intervals(parameters: Parameters, inputs: Interval) -> tuple[list[Interval], Interval]:
    """Of every layer's input, and of the last layer's output (eqs 20 and 21)."""
    found = [inputs]
    for weights, bias in parameters[:-1]:
        sums = weighted(found[-1], weights)
        found.append(Interval(*(jnp.clip(end + bias, 0, LARGEST_VALUE) for end in sums)))
    weights, bias = parameters[-1]
    sums = weighted(found[-1], weights)
    return found, Interval(sums.low + bias, sums.high + bias)


def residual_interval(predicted: Interval, loss: Loss) -> Interval:
    """Of the slope at the outputs, and 0: probabilities less a target within [0, 1] (eq. 22), or predictions less one within [−1, 1]."""
    if loss == "cross_entropy":
        return Interval(-jnp.ones_like(predicted.low), jnp.ones_like(predicted.high))
    return with_zero(Interval(predicted.low - 1, predicted.high + 1))


def with_zero(slopes: Interval) -> Interval:
    """The least interval that holds these slopes and 0, and ends where the network's slopes do."""
    return Interval(jnp.clip(slopes.low, -LARGEST_VALUE, 0), jnp.clip(slopes.high, 0, LARGEST_VALUE))


def slope_intervals(parameters: Parameters, inputs: list[Interval], last: Interval) -> list[Interval]:
    """Of the slopes at every layer's output, first layer first (eq. 23); a unit that can never be active has none."""
    found = [last]
    for (weights, _), values in zip(reversed(parameters[1:]), reversed(inputs[1:]), strict=True):
        back = with_zero(weighted(found[-1], weights.T))
        # Not "above 0": where the end is undefined the unit may be active.
        never_active = values.high <= 0
        found.append(Interval(*(jnp.where(never_active, 0.0, end) for end in back)))
    return found[::-1]


def gradient_intervals(parameters: Parameters, inputs: Interval, loss: Loss) -> tuple[Parameters, Parameters]:
    """The least and the greatest that any row's gradient can be, shortened or not, parameter by parameter (eqs 24–26).

    Ends are infinite or undefined only where the bounds of the inputs are too large for float32.
    """
    layer_inputs, predicted = input_intervals(parameters, inputs)
    slopes = slope_intervals(parameters, layer_inputs, residual_interval(predicted, loss))
    products = [_products(values, slope) for values, slope in zip(layer_inputs, slopes, strict=True)]
    low = tuple((product.low, slope.low) for product, slope in zip(products, slopes, strict=True))
    return low, tuple((product.high, slope.high) for product, slope in zip(products, slopes, strict=True))


def _products(values: Interval, slopes: Interval) -> Interval:
    """Of a·δ for every input a and every slope δ: the extremes are products of ends."""
    ends = [a[:, None] * slope[None, :] for a in values for slope in slopes]
    return Interval(jnp.min(jnp.stack(ends), axis=0), jnp.max(jnp.stack(ends), axis=0))
