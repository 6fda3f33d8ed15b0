"""Theorem 4 of paper 002, measured: one parameter of AnonymizedLearning shows more than the ε that the theorem claims."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sudare.array_types import Floats
from sudare.audit import Audit, distinguish
from sudare.neural.per_row_clipping import Array, Parameters
from sudare.papers.p002_networks.anonymized_learning import Quantisation, noisy_update
from sudare.papers.p002_networks.parameter_intervals import Interval
from sudare.papers.study import ResultTable, Tell

BATCHES, RUNS = 4, 10_000
# Inputs that the private row fills, and how much of them public rows show.
_PRIVATE_INPUTS, _TRACE = 300, 0.05
_THRESHOLD, _RATE, _LEVELS = 0.5, 1000.0, 2**16


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


def measured(tell: Tell) -> Audit:
    """The audit of the study."""
    tell("Theorem 4")
    return theorem_4_audit(BATCHES, RUNS)


def table(audit: Audit) -> ResultTable:
    """What is claimed, and what was measured."""
    return ResultTable(
        "Theorem 4, measured",
        ("claimed ε of one parameter", "measured: ε at least", "the claim"),
        [(audit.claimed.epsilon, audit.epsilon_lower_bound, "holds" if audit.holds else "refuted")],
        f"Replace-one records. One epoch of {BATCHES} batches, {RUNS:,} runs with each of two labels of one row; the bound errs with probability at most 1e-6. With one epoch of one batch, which is one change in all, the claim holds.",
    )
