"""Canaries: a lower bound on ε of the product's DP-SGD from one run. tests/guarantees/test_canaries.py plants bugs that it refutes.

Every canary has an input column of its own, so that nobody else moves the weights behind it: whoever sees the network looks
there. The rate is tiny, so that the direction in which a canary pulls stays what it was. Noise is seeded: this is a simulation.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from sudare.array_types import Floats, Singles
from sudare.audit import Audit
from sudare.audit.canaries import Flags, canary_audit, coins, scores_along
from sudare.linear.descent import sampled_multiplier
from sudare.neural import per_row_clipping as network
from sudare.neural.dp_sgd import Recipe
from sudare.neural.seeded_randomness import RunSeed
from sudare.neural.training import FullyConnected, Training, trained
from sudare.papers.study import Cell, ResultTable, Tell
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.noise import SeededNoise

CLIP: Final = 1.0
STRENGTH: Final = 20.0
LEARNING_RATE: Final = 1e-4
BYSTANDER_COLUMNS: Final = 4
SEED: Final = 20170113
CANARIES, BYSTANDERS = 1_000, 500
DELTA, CONFIDENCE = 1e-5, 0.99
CLAIMS: Final = (1.0, 8.0)


@dataclass(frozen=True)
class Trial:
    """Canaries, other rows, and the public numbers of a descent that claims (ε, δ), add/remove."""

    canaries: int
    bystanders: int
    epsilon: float
    delta: float
    max_iter: int = 20
    sampling_rate: float = 0.5
    hidden_layer_sizes: tuple[int, ...] = ()

    @property
    def claimed(self) -> Guarantee:
        """What the descent promises."""
        return Guarantee(self.epsilon, self.delta, neighbours="add-remove")

    @property
    def noise_multiplier(self) -> float:
        """The product's own calibration."""
        return _calibrated(self.sampling_rate, self.max_iter, self.epsilon, self.delta)

    @property
    def sizes(self) -> tuple[int, ...]:
        """A column a canary, a few for the others, and two classes."""
        return (BYSTANDER_COLUMNS + self.canaries, *self.hidden_layer_sizes, 2)

    @property
    def expected_rows(self) -> float:
        """Half of the canaries are there, more or less; the number that sums are divided by is public."""
        return self.sampling_rate * (self.bystanders + self.canaries / 2)

    def training(self) -> Training:
        """The product's training with these numbers."""
        batch = 64 * math.ceil((self.bystanders + self.canaries) / 64)
        recipe = Recipe(self.max_iter, self.sampling_rate, CLIP, LEARNING_RATE, 0.0, batch)
        return Training(recipe, self.noise_multiplier, self.expected_rows)


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


def audit_of_training(trial: Trial, generator: np.random.Generator, confidence: float) -> Audit:
    """The product's descent, whole: sampling, clipping, noise, steps and averaging."""
    # The product starts its last layer at zero: with one layer, all that is there in the end are moves.
    start = ((jnp.zeros(trial.sizes), jnp.zeros(2)),)
    rows = planted(trial, start, generator)
    seed = RunSeed.drawn(SeededNoise(int(generator.integers(2**31))))
    network_of = FullyConnected(trial.sizes, "cross_entropy")
    layers = trained(trial.training(), network_of, rows.rows, rows.targets, seed)
    return canary_audit(canary_scores(layers[0][0], rows, start), rows.included, trial.claimed, confidence)


def canary_scores(moves: Floats, rows: Planted, start: Any) -> Floats:
    """How far the weights behind each canary's column moved against its gradient at the start."""
    inputs, predicted = network.layer_values(start, jnp.asarray(rows.canaries))
    last = network.output_residuals(predicted, jnp.asarray(rows.canary_targets), "cross_entropy")
    slopes = np.asarray(network.layer_slopes(start, inputs, last)[0], dtype=np.float64)
    return scores_along(moves[BYSTANDER_COLUMNS:], -slopes)


def measured(tell: Tell, canaries: int = CANARIES) -> list[Audit]:
    """The audit of every claim."""
    tell(f"{canaries:,} canaries")
    generator = np.random.default_rng(SEED)
    return [audit_of_training(Trial(canaries, BYSTANDERS, epsilon, DELTA), generator, CONFIDENCE) for epsilon in CLAIMS]


def table(audits: list[Audit]) -> ResultTable:
    """Claims and what was measured."""
    rows: list[tuple[Cell, ...]] = [
        (audit.claimed.epsilon, audit.epsilon_lower_bound, "holds" if audit.holds else "refuted") for audit in audits
    ]
    return ResultTable(
        "Canaries in noisy descent",
        ("claimed ε", "measured: ε at least", "the claim"),
        rows,
        f"Add/remove records, δ = {DELTA:g}; each bound errs with probability at most {1 - CONFIDENCE:g}. {CANARIES:,} canaries in one run of 20 steps at sampling rate 1/2, each included by a coin (Steinke, Nasr and Jagielski "
        "2023). One run shows a fraction of what is claimed: it finds bugs, and proves nothing.",
    )
