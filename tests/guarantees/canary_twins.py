"""Sums as DP-SGD must make them, and three as they have been shipped elsewhere: what canaries must tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sudare.array_types import Floats
from sudare.audit import Audit, distinguish_gaussian
from sudare.audit.canaries import canary_audit
from sudare.neural import per_row_clipping as network
from sudare.neural.seeded_randomness import RunSeed
from sudare.neural.training_method_base import parameters_in
from sudare.papers.p002_networks.canaries import CLIP, STRENGTH, Trial, canary_scores, planted
from sudare.privacy.accounting import gaussian_epsilon
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SeededNoise

# What stands in for the clipped sum: parameters, rows, targets, kept, clip and expected rows in, a sum out.
Summed = Callable[[network.Parameters, Any, Any, Any, float, float], network.Parameters]


def audit_of_sums(
    trial: Trial, summed: Summed, generator: np.random.Generator, confidence: float, noise: float = 1.0
) -> Audit:
    """The product's noisy steps on sums that `summed` makes, each row sampled by a coin; `noise` multiplies the noise."""
    seed = RunSeed.drawn(SeededNoise(int(generator.integers(2**31))))
    start = network.initial_parameters(seed.start(network.weight_count(trial.sizes)), trial.sizes, zero_last=False)
    rows = planted(trial, start, generator)
    settings = trial.training().step_settings._replace(noise_multiplier=noise * trial.noise_multiplier)
    state = network.initial_state(start)
    held, wanted = jnp.asarray(rows.rows), jnp.asarray(rows.targets)
    unit = CLIP * settings.noise_multiplier / network.NOISE_DEVIATION
    for step in range(trial.max_iter):
        kept = jnp.asarray(generator.random(len(held)) < trial.sampling_rate, jnp.float32)
        total = summed(state.parameters, held, wanted, kept, CLIP, trial.expected_rows)
        with jax.enable_x64(True):
            whole = network.mapped(lambda part: jnp.rint(part.astype(jnp.float64) / unit).astype(jnp.int64), total)
            drawn = seed.noise(step, parameters_in(trial.sizes))
            state = jax.jit(network.with_noise)(state, whole, drawn, settings)
    moves = np.asarray(state.average[0][0] - start[0][0], dtype=np.float64)
    return canary_audit(canary_scores(moves, rows, start), rows.included, trial.claimed, confidence)


# Sums: the right one and three that have been shipped


def clipped_rows(parameters: Any, x: Any, targets: Any, kept: Any, clip: float, expected_rows: float) -> Any:
    """The product's: every row's gradient is clipped."""
    settings = network.StepSettings(1.0, 1.0, 0.0, clip, 1.0, expected_rows)
    with jax.enable_x64(True):
        whole = network.accumulated(
            None, network.row_parts(parameters, x, targets, None, "cross_entropy"), kept, settings
        )
        return network.mapped(lambda part: (part * (clip / network.NOISE_DEVIATION)).astype(jnp.float32), whole)


@jax.jit
def clipped_after_averaging(parameters: Any, x: Any, targets: Any, kept: Any, clip: float, expected_rows: float) -> Any:
    """The mean gradient is clipped, and its noise divided by the rows as if each row had been: one row can be all of it."""
    total = network.gradient_sum(parameters, x, targets, kept, "cross_entropy")
    return _shortened(total, expected_rows * clip)


@jax.jit
def clipped_batch_sum(parameters: Any, x: Any, targets: Any, kept: Any, clip: float, expected_rows: float) -> Any:
    """The sum is clipped, as the paper does, and claimed to move by `clip` when a row comes: it can turn around."""
    return _shortened(network.gradient_sum(parameters, x, targets, kept, "cross_entropy"), clip)


def _shortened(total: Any, length: Any) -> Any:
    norm = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(total)))
    return jax.tree.map(lambda part: part * jnp.minimum(1.0, length / jnp.maximum(norm, 1e-30)), total)


# One canary in each of many runs: what batch sums need


def audit_of_turning(summed: Summed, mu: float, delta: float, runs: int, seed: int, confidence: float) -> Audit:
    """Runs of one step on two rows or one: the second pulls against the first, twice as hard. The claim is μ for one row.

    Clipped row by row, the second row moves the sum by the clip. Clipped as a sum, by twice the clip.
    """
    claimed = Guarantee(gaussian_epsilon(mu, delta), delta, neighbours="add-remove")
    parameters = ((jnp.zeros((1, 2)), jnp.zeros(2)),)
    x, targets = jnp.asarray([[STRENGTH], [2 * STRENGTH]]), jnp.asarray([[1.0, 0.0], [0.0, 1.0]])
    generator = np.random.default_rng(seed)

    def noisy_sums(kept: Any, count: int) -> Floats:
        total = summed(parameters, x, targets, jnp.asarray(kept), CLIP, 2.0)
        exact = np.concatenate([np.ravel(part) for part in jax.tree.leaves(total)])
        return exact + generator.normal(scale=CLIP / mu, size=(count, len(exact)))

    pair = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    return distinguish_gaussian(noisy_sums, pair, claimed, mu, runs, confidence, batched=True, measured_share=0.7)
