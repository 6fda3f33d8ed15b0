"""What is printed in paper 002 and does not hold, as functions that show it. tests/papers/p002_networks/test_errata.py runs them all.

The approaches of `sudare.papers.p002_networks.approaches` are built as meant, without these slips.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sudare.audit import Audit, distinguish
from sudare.neural.per_row_clipping import Array, Parameters
from sudare.neural.training_methods import parameters_in
from sudare.papers.p002_networks.anonymized_learning import Quantisation, noisy_update
from sudare.papers.p002_networks.parameter_intervals import Interval
from sudare.papers.study import Cell, ResultTable

Floats = NDArray[np.float64]

# Complete rows of Adult, and those of them who earn more.
PEOPLE, RICHER = 45_222, 11_208
# Theorem 4: inputs that the private row fills, and how much of them public rows show.
_PRIVATE_INPUTS, _TRACE = 300, 0.05
_THRESHOLD, _RATE, _LEVELS = 0.5, 1000.0, 2**16


def lemma_1_as_printed(values: Floats, low: float, high: float) -> Floats:
    """min(f_min, max(f_max, value)): always f_min."""
    return np.minimum(low, np.maximum(high, values))


def lemma_1_as_meant(values: Floats, low: float, high: float) -> Floats:
    """min(f_max, max(f_min, value))."""
    return np.minimum(high, np.maximum(low, values))


def equation_13_as_printed(value: float, high: float, sensitivity: float, epsilon: float) -> float:
    """½·exp(−(ε/Δ)(f(D) − f_max)): above ½ wherever f(D) < f_max, and above 1 where the distance is Δ and ε > log 2."""
    return 0.5 * math.exp(-epsilon / sensitivity * (value - high))


def equation_13_as_meant(value: float, high: float, sensitivity: float, epsilon: float) -> float:
    """The Laplace law's mass beyond f_max: ½·exp(−(ε/Δ)(f_max − f(D)))."""
    return 0.5 * math.exp(-epsilon / sensitivity * (high - value))


def update_as_printed(weight: float, noise: float, high: float) -> float:
    """min(Δmax, min(Δmax, w + noise)): the weight where its change is meant, and no lower threshold."""
    return min(high, high, weight + noise)


def equation_4_as_printed(inputs: Floats, slopes: Floats, row: int) -> Floats:
    """One row's input times the slopes summed over the batch."""
    return np.outer(inputs[row], slopes.sum(axis=0))


def equation_4_as_meant(inputs: Floats, slopes: Floats) -> Floats:
    """The sum over the batch of each row's input times its own slope."""
    return inputs.T @ slopes


def largest_f_measure(accuracy: float, people: int = PEOPLE, positive: int = RICHER) -> float:
    """The largest F-measure of the positive class that an accuracy leaves room for: every mistake a false alarm."""
    mistakes = (1 - accuracy) * people
    return 2 * positive / (2 * positive + mistakes)


def theorem_4_audit(batches: int, runs: int, epsilon: float = 1.0, seed: int = 0) -> Audit:
    """One parameter of a network after one epoch of AnonymizedLearning, for two labels of one row in the first batch.

    The parameter belongs to an input that the private row does not have, and each of the later batches, which the row is
    not in, moves it by an amount that depends on all other parameters. These know the label from the first batch. Theorem 4
    claims ε; each later batch adds as much.
    """
    width = _PRIVATE_INPUTS + 1
    private, public = np.append(np.ones(_PRIVATE_INPUTS), 0), np.append(np.full(_PRIVATE_INPUTS, _TRACE), 1)
    first, later = jnp.asarray([private, private], jnp.float32), jnp.asarray([public, public], jnp.float32)
    box, quantisation = Interval(jnp.zeros(width), jnp.ones(width)), Quantisation(_THRESHOLD, _LEVELS)

    def updated(parameters: Parameters, x: Array, targets: Array, kept: Array, key: Array) -> Parameters:
        # Noise of floats will do where nobody is protected: the audit only needs the law.
        drawn = jnp.round(_LEVELS / epsilon * jax.random.laplace(key, (2 * width + 2,))).astype(jnp.int32)
        update = noisy_update(parameters, x, targets, kept, drawn, box, quantisation, "cross_entropy", "batch")
        moved: Parameters = jax.tree.map(lambda old, part: old - _RATE * part, parameters, update)
        return moved

    def last_value(label: Array, key: Array) -> Array:
        """The parameter's value after one epoch: the private row alone, then batches of two public rows of either class."""
        keys = jax.random.split(key, batches)
        start = ((jnp.zeros((width, 2)), jnp.zeros(2)),)
        parameters = updated(start, first, jnp.stack([label, label]), jnp.asarray([1.0, 0.0]), keys[0])
        for step_key in keys[1:]:
            parameters = updated(parameters, later, jnp.eye(2), jnp.ones(2), step_key)
        return parameters[0][0][-1, 0]

    many = jax.jit(jax.vmap(last_value, in_axes=(None, 0)))

    def drawn(label: Any, count: int) -> Floats:
        keys = jax.random.split(jax.random.key(seed + int(label[0])), count)
        return np.asarray(many(jnp.asarray(label), keys), dtype=np.float64)

    pair = np.array([1.0, 0.0], dtype=np.float32), np.array([0.0, 1.0], dtype=np.float32)
    return distinguish(drawn, pair, epsilon, runs, batched=True, measured_share=0.7, learners=())


def table(theorem_4: Audit) -> ResultTable:
    """Every slip with a number that shows it; the audit is that of one epoch of four batches."""
    parameters = parameters_in((92, 64, 64, 64, 64, 2))
    rows: list[tuple[Cell, ...]] = [
        ("parameter-based ε protects a record", "ε", f"{parameters:,}·ε for 92 inputs and four layers of 64"),
        (
            "Lemma 1: min(f_min, max(f_max, ·))",
            "the clipped value",
            "f_min, whatever the data: min and max are swapped",
        ),
        (
            "eq. 13 at distance Δ, ε = 1",
            f"{equation_13_as_printed(0, 1, 1, 1):.3f}",
            f"{equation_13_as_meant(0, 1, 1, 1):.3f}: the sign of the exponent; a probability is not above 1",
        ),
        ("eq. 4: one row's y times the batch's δ", "the gradient of the batch", "only if all rows have the same y"),
        ("eq. 21: max(y) = max(x)", "never negative", "negative for a unit that is never active; max(x, 0)"),
        (
            "AnonymizedLearning noises w",
            "a noisy update",
            "the data do not enter; Δw is meant, and its lower threshold",
        ),
        (
            "Theorem 4: one parameter, one epoch of 4 batches",
            f"ε = {theorem_4.claimed.epsilon:g}",
            f"ε ≥ {theorem_4.epsilon_lower_bound:.2f} (errs with probability at most 1e-6)",
        ),
        (
            "thresholds on the sum over a batch",
            "less noise",
            "noise and largest signal are the same for 1 row and for 1,000",
        ),
        (
            "F-measure .79 at accuracy .85",
            "of the class that earns more",
            f"that cannot be above {largest_f_measure(0.85):.3f}: the mean of both classes",
        ),
    ]
    return ResultTable(
        "Errata",
        ("printed", "claimed", "what holds"),
        rows,
        "Replace-one records. Each line is a test of ours (tests/papers/p002_networks/test_errata.py, tests/papers/p002_networks/test_parameter_intervals.py). The approaches above are built as meant.",
    )
