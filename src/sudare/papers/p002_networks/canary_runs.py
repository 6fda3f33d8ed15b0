"""Must the claim of a noisy descent be believed? A thousand canaries in one run, and twins with bugs that must be caught.

Every canary has an input column of its own, so that nobody else moves the weights behind it: whoever sees the network looks
there. The rate is tiny, so that the direction in which a canary pulls stays what it was. Noise is seeded: this is a simulation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from sudare.audit import Audit, distinguish_gaussian
from sudare.audit.canaries import Flags, canary_audit, coins, scores_along
from sudare.linear.descent import sampled_multiplier
from sudare.neural import clipped_network as network
from sudare.neural.seeded_randomness import RunSeed
from sudare.neural.training import Descent, descended
from sudare.neural.training_methods import Floats, Singles
from sudare.privacy.accounting import gaussian_epsilon
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SeededNoise

# What stands in for the clipped sum: parameters, rows, targets, kept, clip and expected rows in, a sum out.
Summed = Callable[[network.Parameters, Any, Any, Any, float, float], network.Parameters]

CLIP: Final = 1.0
STRENGTH: Final = 20.0
RATE: Final = 1e-4
BYSTANDER_COLUMNS: Final = 4


@dataclass(frozen=True)
class Trial:
    """Canaries, other rows, and the public numbers of a descent that claims (ε, δ), add/remove."""

    canaries: int
    bystanders: int
    epsilon: float
    delta: float
    steps: int = 20
    sampling_rate: float = 0.5
    hidden: tuple[int, ...] = ()

    @property
    def claimed(self) -> Guarantee:
        """What the descent promises."""
        return Guarantee(self.epsilon, self.delta, neighbours="add-remove")

    @property
    def noise_multiplier(self) -> float:
        """The product's own calibration."""
        return _calibrated(self.sampling_rate, self.steps, self.epsilon, self.delta)

    @property
    def sizes(self) -> tuple[int, ...]:
        """A column a canary, a few for the others, and two classes."""
        return (BYSTANDER_COLUMNS + self.canaries, *self.hidden, 2)

    @property
    def expected_rows(self) -> float:
        """Half of the canaries are there, more or less; the number that sums are divided by is public."""
        return self.sampling_rate * (self.bystanders + self.canaries / 2)

    def descent(self) -> Descent:
        """The product's descent with these numbers."""
        return Descent(
            sizes=self.sizes,
            loss="cross_entropy",
            steps=self.steps,
            sampling_rate=self.sampling_rate,
            physical_batch=64 * math.ceil((self.bystanders + self.canaries) / 64),
            clip=CLIP,
            noise_multiplier=self.noise_multiplier,
            rate=RATE,
            momentum=0.0,
            expected_rows=self.expected_rows,
        )


@functools.lru_cache(maxsize=16)
def _calibrated(sampling_rate: float, steps: int, epsilon: float, delta: float) -> float:
    return sampled_multiplier(sampling_rate, steps, epsilon, delta, "add-remove")


@dataclass(frozen=True)
class Planted:
    """Rows with those canaries whose coin said so; all canaries, to score them; and the coins."""

    rows: Singles
    targets: Singles
    canaries: Singles
    canary_targets: Singles
    included: Flags


def canary_rows(trial: Trial) -> Singles:
    """All canaries, each with nothing but its own column."""
    canaries = np.zeros((trial.canaries, trial.sizes[0]), dtype=np.float32)
    canaries[:, BYSTANDER_COLUMNS:] = STRENGTH * np.eye(trial.canaries, dtype=np.float32)
    return canaries


def planted(trial: Trial, start: Any, generator: np.random.Generator) -> Planted:
    """Bystanders of every kind, and canaries of the class that the network at its start thinks least likely: they pull hardest."""
    bystanders = np.zeros((trial.bystanders, trial.sizes[0]), dtype=np.float32)
    bystanders[:, :BYSTANDER_COLUMNS] = generator.random((trial.bystanders, BYSTANDER_COLUMNS))
    classes = np.eye(2, dtype=np.float32)
    labels = classes[generator.integers(2, size=trial.bystanders)]
    canaries = canary_rows(trial)
    targets = classes[np.argmin(network.outputs(start, jnp.asarray(canaries)), axis=1)]
    included = coins(trial.canaries, generator)
    return Planted(
        np.concatenate([bystanders, canaries[included]]),
        np.concatenate([labels, targets[included]]),
        canaries,
        targets,
        included,
    )


def audit_of_descent(trial: Trial, generator: np.random.Generator, confidence: float) -> Audit:
    """The product's descent, whole: sampling, clipping, noise, steps and averaging."""
    # The product starts its last layer at zero: with one layer, all that is there in the end are moves.
    start = ((jnp.zeros(trial.sizes), jnp.zeros(2)),)
    rows = planted(trial, start, generator)
    seed = RunSeed.drawn(SeededNoise(int(generator.integers(2**31))))
    layers = descended(trial.descent(), rows.rows, rows.targets, seed)
    return canary_audit(_scores(layers[0][0], rows, start), rows.included, trial.claimed, confidence)


def audit_of_sums(
    trial: Trial, summed: Summed, generator: np.random.Generator, confidence: float, noise: float = 1.0
) -> Audit:
    """The product's noisy steps on sums that `summed` makes, each row sampled by a coin; `noise` multiplies the noise."""
    seed = RunSeed.drawn(SeededNoise(int(generator.integers(2**31))))
    start = network.initial_parameters(seed.start(network.weight_count(trial.sizes)), trial.sizes, zero_last=False)
    rows = planted(trial, start, generator)
    pace = trial.descent().pace._replace(noise_multiplier=noise * trial.noise_multiplier)
    state = network.initial_state(start)
    held, wanted = jnp.asarray(rows.rows), jnp.asarray(rows.targets)
    unit = CLIP * pace.noise_multiplier / network.NOISE_DEVIATION
    for step in range(trial.steps):
        kept = jnp.asarray(generator.random(len(held)) < trial.sampling_rate, jnp.float32)
        total = summed(state.parameters, held, wanted, kept, CLIP, trial.expected_rows)
        with jax.enable_x64(True):
            whole = network.mapped(lambda part: jnp.rint(part.astype(jnp.float64) / unit).astype(jnp.int64), total)
            drawn = seed.noise(step, network.parameter_count(trial.sizes))
            state = network.noisy_step(state, whole, drawn, pace)
    moves = np.asarray(state.average[0][0] - start[0][0], dtype=np.float64)
    return canary_audit(_scores(moves, rows, start), rows.included, trial.claimed, confidence)


def _scores(moves: Floats, rows: Planted, start: Any) -> Floats:
    """How far the weights behind each canary's column moved against its gradient at the start."""
    inputs, predicted = network.layer_values(start, jnp.asarray(rows.canaries))
    last = network.output_residuals(predicted, jnp.asarray(rows.canary_targets), "cross_entropy")
    slopes = np.asarray(network.layer_slopes(start, inputs, last)[0], dtype=np.float64)
    return scores_along(moves[BYSTANDER_COLUMNS:], -slopes)


# Sums: the right one and three that have been shipped


def clipped_rows(parameters: Any, x: Any, targets: Any, kept: Any, clip: float, expected_rows: float) -> Any:
    """The product's: every row's gradient is clipped."""
    pace = network.Pace(1.0, 1.0, 0.0, clip, 1.0, expected_rows)
    with jax.enable_x64(True):
        whole = network.accumulated(None, *network.row_parts(parameters, x, targets, None, "cross_entropy"), kept, pace)
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
