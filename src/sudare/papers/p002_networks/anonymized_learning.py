"""One update with noise of its own on every parameter (paper 002, AnonymizedLearning, as meant).

The paper clips the *sum* over a batch to a threshold, so noise and largest signal are the same for one row and for a
thousand. Clipped row by row, the signal grows with the batch and the noise does not: `clipping="example"`. A row's gradient
is shortened as a whole, until its largest entry is within the threshold. The entries of a layer's gradient are products of
inputs and slopes, so the largest is the largest input times the largest slope.

What the noise is added to is whole numbers: the public interval of an entry is cut into K levels, and what is clipped (a row's
entry, or a sum's) is the nearest level. So a replaced row moves every entry by K at most whatever floats did before, sums are
exact, and one discrete Laplace law serves all entries. Proof: proofs/neural_approaches.md.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sudare.array_types import Singles
from sudare.neural.per_row_clipping import (
    LARGEST_VALUE,
    Array,
    DescentState,
    Loss,
    Parameters,
    StepSettings,
    gradient_sum,
    layer_slopes,
    layer_values,
    mapped,
    output_residuals,
    stepped,
)
from sudare.neural.training import as_layers
from sudare.neural.training_method_base import Layers
from sudare.papers.p002_networks.approaches import AnonymizedLearning, Clipping
from sudare.papers.p002_networks.discrete_laplace import discrete_laplace
from sudare.papers.p002_networks.ordinary_training import fresh_keys, started
from sudare.papers.p002_networks.parameter_intervals import Interval, gradient_intervals
from sudare.papers.p002_networks.printed_training import Descent, fixed_batches, updated
from sudare.privacy.noise import NoiseSource

_MOST_LEVELS: Final = 2**20
# Sums stay below this, and so does noise, but for a draw in e⁶⁴: then numbers modulo 2³² are the numbers.
_LARGEST_WHOLE: Final = 2**30
_LARGEST_NOISE_IN_SCALES: Final = 64
# Narrower intervals are as good as none, and what they are divided into might overflow.
_LEAST_WIDTH: Final = 2.0**-80
_LARGEST_SINGLE: Final = float(np.finfo(np.float32).max)
_ROWS_AT_ONCE: Final = 8
_MOST_DRAWN_AT_ONCE: Final = 2**24


class Quantisation(NamedTuple):
    """Public numbers of an update: the threshold of an entry, and K, the levels that its interval is cut into."""

    threshold: float
    levels: int


def levels_of(batch_size: int, noise_factor: Fraction) -> int:
    """K for batches of so many rows and noise of noise_factor intervals: the power of two for which all fits into 32 bits."""
    noise = Fraction(_LARGEST_WHOLE, _LARGEST_NOISE_IN_SCALES) / noise_factor
    most = int(min(Fraction(_MOST_LEVELS), Fraction(_LARGEST_WHOLE, batch_size), noise))
    return 1 << max(0, most.bit_length() - 1)


def update_intervals(
    parameters: Parameters, inputs: Interval, times: float | Array, threshold: float | Array, loss: Loss
) -> tuple[Parameters, Parameters]:
    """Where `times` rows' gradients and the threshold leave room for an entry: public, once the parameters are.

    Every interval holds 0 and is within ±threshold: an end that is undefined is the threshold's.
    """
    low, high = gradient_intervals(parameters, inputs, loss)
    return (
        mapped(lambda end: jnp.where(jnp.isnan(end), -threshold, jnp.clip(times * end, -threshold, 0.0)), low),
        mapped(lambda end: jnp.where(jnp.isnan(end), threshold, jnp.clip(times * end, 0.0, threshold)), high),
    )


class Levels(NamedTuple):
    """Of every entry the levels in a unit, the number of its lowest level, at most 0, and that of its highest, K more.

    An entry that nothing can move has no levels in a unit.
    """

    per_unit: Parameters
    lowest: Parameters
    highest: Parameters


def entry_levels(low: Parameters, high: Parameters, levels: int | Array) -> Levels:
    """K + 1 levels from about the low end of each interval to about its high end, 0 among them."""

    def density(least: Array, most: Array) -> Array:
        width = most - least
        return jnp.where(width >= _LEAST_WIDTH, levels / jnp.maximum(width, _LEAST_WIDTH), 0.0)

    def first(least: Array, per_unit: Array) -> Array:
        return jnp.clip(jnp.round(least * per_unit).astype(jnp.int32), -levels, 0)

    per_unit = mapped(density, low, high)
    lowest = mapped(first, low, per_unit)
    return Levels(per_unit, lowest, mapped(lambda end: end + levels, lowest))


def nearest_level(values: Array, per_unit: Array, lowest: Array, highest: Array) -> Array:
    """The number of the level nearest to each finite value, from the lowest to the highest whatever the value is."""
    # Clipped as floats first, because the conversion of a float beyond 32 bits is not defined everywhere.
    near = jnp.clip(jnp.round(values * per_unit), -2.0 * _MOST_LEVELS, 2.0 * _MOST_LEVELS)
    return jnp.clip(near.astype(jnp.int32), lowest, highest)


def _finite(values: Array) -> Array:
    """Zero where undefined, and within what products of two cannot overflow from."""
    return jnp.clip(jnp.where(jnp.isnan(values), 0.0, values), -LARGEST_VALUE, LARGEST_VALUE)


def largest_entries(inputs: list[Array], slopes: list[Array]) -> Array:
    """Each row's largest gradient entry, in absolute value, from the inputs of all layers and the slopes at their outputs."""
    # The bias of a layer sees the constant input 1.
    parts = [
        jnp.maximum(jnp.max(jnp.abs(a), axis=1), 1.0) * jnp.max(jnp.abs(slope), axis=1)
        for a, slope in zip(inputs, slopes, strict=True)
    ]
    return functools.reduce(jnp.maximum, parts)


def shortened_gradients(
    parameters: Parameters, x: Array, targets: Array, kept: Array, threshold: float | Array, loss: Loss
) -> tuple[list[Array], list[Array]]:
    """Inputs a and slopes δ of every layer such that a row's gradient is a·δ, shortened until no entry is beyond the threshold.

    Rows that are not kept have slopes of 0. All numbers are finite.
    """
    inputs, predicted = layer_values(parameters, x)
    slopes = layer_slopes(parameters, inputs, output_residuals(predicted, targets, loss))
    largest = largest_entries(inputs, slopes)
    factors = jnp.where(largest < jnp.inf, jnp.minimum(1.0, threshold / jnp.maximum(largest, 1e-30)), 0.0)
    shortened = [jnp.where(kept[:, None] > 0, _finite(factors[:, None] * slope), 0.0) for slope in slopes]
    return [_finite(a) for a in inputs], shortened


def summed_levels(inputs: list[Array], slopes: list[Array], levels: Levels) -> Parameters:
    """The sum over rows of the levels nearest to each row's gradient a·δ, in whole numbers.

    A few rows at a time: all rows' gradients together would fill the memory.
    """
    missing = -len(slopes[0]) % _ROWS_AT_ONCE

    def in_parts(values: Array) -> Array:
        padded = jnp.pad(values, ((0, missing), (0, 0)))
        return padded.reshape(-1, _ROWS_AT_ONCE, values.shape[1])

    def added(total: Parameters, rows: tuple[list[Array], list[Array]]) -> tuple[Parameters, None]:
        gradients = tuple((a[:, :, None] * slope[:, None, :], slope) for a, slope in zip(*rows, strict=True))
        near = mapped(nearest_level, gradients, *levels)
        return mapped(lambda before, part: before + jnp.sum(part, axis=0), total, near), None

    nothing = mapped(jnp.zeros_like, levels.lowest)
    parts = [in_parts(a) for a in inputs], [in_parts(slope) for slope in slopes]
    total: Parameters = jax.lax.scan(added, nothing, parts)[0]
    return total


def shaped_like(flat: Array, parameters: Parameters) -> Parameters:
    """A vector cut into the shapes of the parameters."""
    leaves, structure = jax.tree.flatten(parameters)
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = [flat[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
    shaped: Parameters = jax.tree.unflatten(structure, parts)
    return shaped


class Clipped(NamedTuple):
    """The sum over a batch in whole levels, and the ends of the interval that K levels of an entry stand for."""

    total: Parameters
    low: Parameters
    high: Parameters


def clipped_sum(
    parameters: Parameters,
    x: Array,
    targets: Array,
    kept: Array,
    inputs: Interval,
    quantisation: Quantisation,
    loss: Loss,
    clipping: Clipping,
) -> Clipped:
    """What the noise of one update is added to: replacing a kept row moves no entry of the total by more than K.

    Rows that are not kept count nothing. The intervals are made of the parameters and of public numbers alone.
    """
    threshold, rows = quantisation.threshold, jnp.sum(kept)
    # Padding repeats a row of the data, and nothing times infinity is undefined.
    x, targets = (jnp.where(kept[:, None] > 0, values, 0.0) for values in (x, targets))
    times = jnp.ones(()) if clipping == "example" else rows
    low, high = update_intervals(parameters, inputs, times, threshold, loss)
    levels = entry_levels(low, high, quantisation.levels)
    if clipping == "example":
        total = summed_levels(*shortened_gradients(parameters, x, targets, kept, threshold, loss), levels)
    else:
        summed = gradient_sum(parameters, x, targets, kept, loss)
        total = mapped(nearest_level, mapped(_finite, summed), *levels)
    return Clipped(total, low, high)


def noisy_update(
    parameters: Parameters,
    x: Array,
    targets: Array,
    kept: Array,
    drawn: Array,
    inputs: Interval,
    quantisation: Quantisation,
    loss: Loss,
    clipping: Clipping,
) -> Parameters:
    """The update of one batch: clipped, in whole levels, with the whole numbers `drawn` added to it, clipped again.

    With discrete Laplace numbers of scale K·E/ε, one for each parameter, the update is (ε/E)-DP for each entry, given the
    parameters. Proof: proofs/neural_approaches.md.
    """
    total, low, high = clipped_sum(parameters, x, targets, kept, inputs, quantisation, loss, clipping)
    reach = jnp.sum(kept) if clipping == "example" else jnp.ones(())

    def noised(part: Array, noise: Array, least: Array, most: Array) -> Array:
        # Whole numbers are added modulo 2³²; only their sum becomes a float.
        noisy = (part + noise).astype(jnp.float32) * ((most - least) / quantisation.levels)
        return jnp.clip(noisy, reach * least, reach * most)

    return mapped(noised, total, shaped_like(drawn, parameters), low, high)


@functools.partial(jax.jit, static_argnames=("loss", "clipping"))
def after_updates(
    state: DescentState,
    rows: Array,
    targets: Array,
    chosen: Array,
    kept: Array,
    drawn: Array,
    settings: StepSettings | Descent,
    inputs: Interval,
    quantisation: Quantisation,
    loss: Loss,
    clipping: Clipping,
) -> DescentState:
    """The state after one noisy update for each batch: a line of row numbers in `chosen`, of marks for padding in `kept`, of noise in `drawn`.

    With a `Descent` the moves are those of eqs 5 and 6, and the average is the last parameters.
    """

    def step(current: DescentState, batch: tuple[Array, Array, Array]) -> tuple[DescentState, None]:
        chosen_rows, chosen_kept, noise = batch
        x, wanted = rows[chosen_rows], targets[chosen_rows]
        update = noisy_update(current.parameters, x, wanted, chosen_kept, noise, inputs, quantisation, loss, clipping)
        if isinstance(settings, StepSettings):
            return stepped(current, update, settings), None
        moved = updated(current.parameters, update, settings)
        return DescentState(moved, current.velocity, moved, current.step + 1), None

    return jax.lax.scan(step, state, (chosen, kept, drawn))[0]


def trained_with_noisy_updates(
    method: AnonymizedLearning, rows: Singles, targets: Singles, source: NoiseSource
) -> Layers:
    """The running average of the parameters, or the last ones where descent is as printed: every epoch reads every row once, always in the same batch.

    Noise has `method.noise_factor` times the width of an entry's interval as its scale.
    """
    facts, sgd, clipping, threshold = method.facts, method.sgd, method.clipping, method.entry_threshold
    chosen, kept = fixed_batches(len(rows), sgd.batch_size, source.words(len(rows)).astype(np.float64))
    lines, batch = chosen.shape
    quantisation = Quantisation(threshold, levels_of(batch, method.noise_factor))
    scale = quantisation.levels * method.noise_factor
    settings: StepSettings | Descent = StepSettings(
        max_iter=float(sgd.epochs * lines),
        learning_rate=sgd.learning_rate,
        momentum=sgd.momentum,
        clip=threshold,
        noise_multiplier=0.0,
        expected_rows=len(rows) / lines if clipping == "example" else 1.0,
        limit=method.limit,
    )
    if sgd.descent == "printed":
        settings = Descent(sgd.learning_rate, sgd.regularization, float(batch), method.limit)
    (start_key,) = fresh_keys(source, 1)
    bounds = (np.clip(end, -_LARGEST_SINGLE, _LARGEST_SINGLE) for end in facts.declared.bounds(facts.encoding))
    inputs = Interval(*(jnp.asarray(end, jnp.float32) for end in bounds))
    state = started(start_key, facts.sizes, method.limit)
    held, wanted = jnp.asarray(rows, jnp.float32), jnp.asarray(targets, jnp.float32)
    d = method.parameters
    at_once = max(1, _MOST_DRAWN_AT_ONCE // d)
    for _ in range(sgd.epochs):
        for start in range(0, lines, at_once):
            part = slice(start, start + at_once)
            noise = discrete_laplace(len(chosen[part]) * d, scale, source).reshape(-1, d)
            state = after_updates(
                state,
                held,
                wanted,
                chosen[part],
                kept[part],
                noise,
                settings,
                inputs,
                quantisation,
                facts.loss,
                clipping,
            )
    return as_layers(state.average)
