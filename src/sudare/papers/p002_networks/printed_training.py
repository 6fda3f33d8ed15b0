"""Training as printed in paper 002, and the same with noise in every change: eqs 1 to 6, 18 and 19, with the sum of products that eq. 4 means.

The rate stays what it is, rows are divided into batches once, weights are drawn to zero by λ/B, biases are not, and the last
parameters are the result. Nothing here protects anybody: noise of the third approach is drawn as floats, to show what it does to
accuracy. Its estimator draws exact noise.

Hundreds of thousands of steps on fifty rows each are one compiled loop: steps are too small for calls of a library, and one-hot rows are mostly
zeros, which the first layer leaves out. Sums are float32, as in `sudare.neural.per_row_clipping`, in another order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sudare.array_types import Singles
from sudare.compiled_loops import compiled
from sudare.neural.per_row_clipping import LARGEST_PARAMETER, LARGEST_VALUE, Array, Loss, Parameters

Whole = NDArray[np.int64]


class Batches(NamedTuple):
    """Rows, targets and marks (0 for padding), [batches, B, ...]: the division that all epochs share."""

    rows: Singles
    targets: Singles
    kept: Singles


class Descent(NamedTuple):
    """Learning rate α, regularization λ, batch size B, and what no parameter goes beyond."""

    learning_rate: float | Array
    regularization: float | Array
    batch_size: float | Array
    limit: float | Array = LARGEST_PARAMETER


class NoisyChanges(NamedTuple):
    """The threshold of a change (−Δ_min = Δ_max), and scales of its Laplace noise, (Δ_max − Δ_min)·E/ε: one for every network."""

    threshold: float
    noise_scales: tuple[float, ...]


def fixed_batches(rows: int, batch_size: int, order: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Row numbers of every batch, a line each, and 1 for a row and 0 for padding: each row is in one batch.

    `order` has a number for each row; batches are cut from the order that these make. They never depend on data.
    """
    batch = min(batch_size, rows)
    lines = -(-rows // batch)
    chosen, kept = np.zeros(lines * batch, dtype=np.int32), np.zeros(lines * batch, dtype=np.float32)
    # The padding is spread: no batch has more than one row less than another.
    places = np.arange(rows) * (lines * batch) // rows
    chosen[places], kept[places] = np.argsort(order, kind="stable"), 1.0
    return chosen.reshape(lines, batch), kept.reshape(lines, batch)


def updated(parameters: Parameters, changes: Parameters, descent: Descent) -> Parameters:
    """Parameters after one batch: w − α(Δw + λw)/B and b − αΔb/B (eqs 5 and 6), within the limit."""
    rate, limit = descent.learning_rate / descent.batch_size, descent.limit

    def within(values: Array) -> Array:
        return jnp.clip(values, -limit, limit)

    return tuple(
        (within(w - rate * (dw + descent.regularization * w)), within(b - rate * db))
        for (w, b), (dw, db) in zip(parameters, changes, strict=True)
    )


class _Layers(NamedTuple):
    """Widths of all layers, inputs first, and where the parameters of each layer begin in a vector of all of them; the last number is its length."""

    widths: Whole
    starts: Whole


class _SparseRows(NamedTuple):
    """Rows one after another: where the entries of each begin, their columns, and their values; entries of 0 are left out."""

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Singles


class _Descending(NamedTuple):
    """α/B, λ, the limit of a parameter, and of a change; numbers of eqs 5 and 6 in float32."""

    rate: np.float32
    regularization: np.float32
    limit: np.float32
    threshold: np.float32


class _Values(NamedTuple):
    """Room for the outputs of every layer and the slopes at them, a line each, and for the changes of a step."""

    outputs: Singles
    slopes: Singles
    changes: Singles


@compiled(reorder_sums=True)
def _set_outputs(parameters: Singles, layers: _Layers, rows: _SparseRows, first: int, count: int, at: _Values) -> None:
    """The outputs of every layer for `count` rows from the first on (eq. 1)."""
    widths, starts = layers
    zero, largest = np.float32(0), np.float32(LARGEST_VALUE)
    last = len(widths) - 2
    for layer in range(last + 1):
        inputs, width = widths[layer], widths[layer + 1]
        end = starts[layer] + inputs * width
        weights = parameters[starts[layer] : end].reshape(inputs, width)
        bias = parameters[end : starts[layer + 1]]
        out = at.outputs[layer, : count * width].reshape(count, width)
        if layer == 0:
            out[:] = zero
            for row in range(count):
                line = out[row]
                for place in range(rows.starts[first + row], rows.starts[first + row + 1]):
                    value, seen = rows.values[place], weights[rows.columns[place]]
                    for unit in range(width):
                        line[unit] += value * seen[unit]
        else:
            np.dot(at.outputs[layer - 1, : count * inputs].reshape(count, inputs), weights, out)
        for row in range(count):
            for unit in range(width):
                value = out[row, unit] + bias[unit]
                if layer < last:
                    # What is undefined is not above zero.
                    value = min(value, largest) if value > zero else zero
                out[row, unit] = value


@compiled(reorder_sums=True)
def _set_residuals(predicted: Singles, targets: Singles, kept: Singles, is_squared: bool, residuals: Singles) -> None:
    """The slope of each row's loss at the last outputs: probabilities or predictions, less the target (eqs 2 and 18); 0 for padding."""
    count, width = predicted.shape
    largest = np.float32(LARGEST_VALUE)
    for row in range(count):
        if is_squared:
            for unit in range(width):
                off = min(max(predicted[row, unit] - targets[row, unit], -largest), largest)
                residuals[row, unit] = off * kept[row]
            continue
        most = predicted[row].max()
        total = np.float32(0)
        for unit in range(width):
            residuals[row, unit] = np.exp(predicted[row, unit] - most)
            total += residuals[row, unit]
        for unit in range(width):
            residuals[row, unit] = (residuals[row, unit] / total - targets[row, unit]) * kept[row]


@compiled(reorder_sums=True)
def _set_changes(parameters: Singles, layers: _Layers, rows: _SparseRows, first: int, count: int, at: _Values) -> None:
    """Δ of every parameter, from outputs and the last slopes: the sum over rows of products of inputs and slopes (eqs 3 and 4, as meant)."""
    widths, starts = layers
    zero, largest = np.float32(0), np.float32(LARGEST_VALUE)
    at.changes[:] = zero
    for layer in range(len(widths) - 2, -1, -1):
        inputs, width = widths[layer], widths[layer + 1]
        end = starts[layer] + inputs * width
        changes = at.changes[starts[layer] : end].reshape(inputs, width)
        bias = at.changes[end : starts[layer + 1]]
        slopes = at.slopes[layer, : count * width].reshape(count, width)
        for row in range(count):
            for unit in range(width):
                bias[unit] += slopes[row, unit]
        if layer == 0:
            for row in range(count):
                slope = slopes[row]
                for place in range(rows.starts[first + row], rows.starts[first + row + 1]):
                    value, moved = rows.values[place], changes[rows.columns[place]]
                    for unit in range(width):
                        moved[unit] += value * slope[unit]
        else:
            values = at.outputs[layer - 1, : count * inputs].reshape(count, inputs)
            np.dot(values.T, slopes, changes)
            before = at.slopes[layer - 1, : count * inputs].reshape(count, inputs)
            np.dot(slopes, parameters[starts[layer] : end].reshape(inputs, width).T, before)
            for row in range(count):
                for unit in range(inputs):
                    slope_there = min(max(before[row, unit], -largest), largest)
                    before[row, unit] = slope_there if values[row, unit] > zero else zero


@compiled(reorder_sums=True)
def _move_through_epoch(
    parameters: Singles,
    layers: _Layers,
    rows: _SparseRows,
    targets: Singles,
    kept: Singles,
    is_squared: bool,
    noise: Singles,
    noise_scale: np.float32,
    descent: _Descending,
    at: _Values,
) -> None:
    """Move the parameters by one pass over all batches.

    With a line of `noise` for every batch, changes are clipped, get noise, and are clipped again; with none they are as they are.
    """
    widths, starts = layers
    lines, count = kept.shape
    width, limit, threshold = widths[-1], descent.limit, descent.threshold
    predicted = at.outputs[len(widths) - 2, : count * width].reshape(count, width)
    residuals = at.slopes[len(widths) - 2, : count * width].reshape(count, width)
    for line in range(lines):
        first = line * count
        _set_outputs(parameters, layers, rows, first, count, at)
        _set_residuals(predicted, targets[first : first + count], kept[line], is_squared, residuals)
        _set_changes(parameters, layers, rows, first, count, at)
        if len(noise):
            drawn = noise[line]
            for place in range(len(parameters)):
                change = min(max(at.changes[place], -threshold), threshold) + noise_scale * drawn[place]
                at.changes[place] = min(max(change, -threshold), threshold)
        for layer in range(len(widths) - 1):
            end = starts[layer] + widths[layer] * widths[layer + 1]
            for place in range(starts[layer], end):
                shrinking = descent.regularization * parameters[place]
                moved = parameters[place] - descent.rate * (at.changes[place] + shrinking)
                parameters[place] = min(max(moved, -limit), limit)
            for place in range(end, starts[layer + 1]):
                moved = parameters[place] - descent.rate * at.changes[place]
                parameters[place] = min(max(moved, -limit), limit)


class _Training:
    """Batches as the compiled loop reads them; networks are vectors of all parameters."""

    def __init__(self, parameters: Parameters, batches: Batches, descent: Descent, loss: Loss) -> None:
        self.leaves, self.structure = jax.tree.flatten(parameters)
        widths = np.array([*(len(weights) for weights, _ in parameters), len(parameters[-1][1])], dtype=np.int64)
        self.layers = _Layers(widths, np.concatenate([[0], np.cumsum((widths[:-1] + 1) * widths[1:])]))
        self.targets = batches.targets.reshape(-1, widths[-1]).astype(np.float32)
        self.kept, self.is_squared, self.descent = batches.kept.astype(np.float32), loss == "squared", descent
        sparse = csr_array(batches.rows.reshape(-1, widths[0]).astype(np.float32))
        self.rows = _SparseRows(sparse.indptr.astype(np.int32), sparse.indices.astype(np.int32), sparse.data)
        room = np.zeros((2, len(parameters), self.kept.shape[1] * int(widths[1:].max())), dtype=np.float32)
        self.values = _Values(room[0], room[1], np.zeros(self.layers.starts[-1], dtype=np.float32))

    def vector(self) -> Singles:
        """All parameters of the start, in a copy."""
        return np.concatenate([np.asarray(leaf, dtype=np.float32).ravel() for leaf in self.leaves])

    def parameters(self, vector: Singles) -> Parameters:
        """A vector in the shapes of the start."""
        parts = np.split(vector, np.cumsum([leaf.size for leaf in self.leaves])[:-1])
        shaped = [jnp.asarray(part.reshape(leaf.shape)) for part, leaf in zip(parts, self.leaves, strict=True)]
        found: Parameters = jax.tree.unflatten(self.structure, shaped)
        return found

    def epoch(self, vector: Singles, noise: Singles, noise_scale: float, threshold: float) -> None:
        """Move the vector by one epoch; `noise` has a line for every batch, or none."""
        rate, regularization, batch_size, limit = map(float, self.descent)
        numbers = (np.float32(number) for number in (rate / batch_size, regularization, limit, threshold))
        _move_through_epoch(
            vector,
            self.layers,
            self.rows,
            self.targets,
            self.kept,
            self.is_squared,
            noise,
            np.float32(noise_scale),
            _Descending(*numbers),
            self.values,
        )


def trained(parameters: Parameters, batches: Batches, epochs: int, descent: Descent, loss: Loss) -> Parameters:
    """Parameters after so many epochs."""
    training = _Training(parameters, batches, descent, loss)
    vector, no_noise = training.vector(), np.zeros((0, 0), dtype=np.float32)
    for _ in range(epochs):
        training.epoch(vector, no_noise, 0.0, 0.0)
    return training.parameters(vector)


def trained_with_noisy_changes(
    parameters: Parameters,
    batches: Batches,
    epochs: int,
    descent: Descent,
    noisy: NoisyChanges,
    loss: Loss,
    generator: np.random.Generator,
) -> list[Parameters]:
    """A network for every noise scale, after so many epochs in which every change is clipped, gets Laplace noise, and is clipped again (AnonymizedLearning).

    The noise is a simulation's, from a seeded generator; all scales multiply the same draws.
    """
    training = _Training(parameters, batches, descent, loss)
    networks = [training.vector() for _ in noisy.noise_scales]
    for _ in range(epochs):
        noise = laplace_numbers((len(batches.kept), len(networks[0])), generator)
        for network, scale in zip(networks, noisy.noise_scales, strict=True):
            training.epoch(network, noise, scale, noisy.threshold)
    return [training.parameters(network) for network in networks]


def laplace_numbers(shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.float32]:
    """Draws from the Laplace law of scale 1, as floats: exponential ones with a random sign."""
    drawn = generator.standard_exponential(shape, dtype=np.float32)
    signs = generator.integers(2**32, size=shape, dtype=np.uint32) & np.uint32(2**31)
    return (drawn.view(np.uint32) | signs).view(np.float32)
