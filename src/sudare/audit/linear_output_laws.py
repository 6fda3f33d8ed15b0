"""The law of what each method of private linear models releases on two fixed tables, from the public numbers that the method planned with.

Laws: proofs/objective.md, output.md, descent.md, mean_message.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.signal import lfilter

from sudare.array_types import Floats
from sudare.audit.density_ratios import exact_epsilon, gaussian_epsilon_at, largest_loss
from sudare.frames.rows import Rows
from sudare.linear.descent import GradientDescent, Recipe
from sudare.linear.losses import Loss
from sudare.linear.mechanism import LinearMechanism
from sudare.linear.noisy_gradient_at_zero import MeanMessage
from sudare.linear.objective_perturbation import ObjectivePerturbation
from sudare.linear.output_perturbation import OutputPerturbation
from sudare.linear.solvers import Objective, minimised

_PLACES: Final = 4096
_NEAREST, _FARTHEST = 1e-3, 300.0
_DEVIATIONS: Final = 12.0


# The law of objective perturbation


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Rows with targets and multiplicities: as many rows as one likes at the price of the different ones."""

    rows: Floats
    targets: Floats
    counts: Floats

    @classmethod
    def of(cls, held: Rows) -> CountedRows:
        """The different rows of a table with one target."""
        different, counts = np.unique(np.hstack(held.together()), axis=0, return_counts=True)
        return cls(different[:, :-1], different[:, -1], counts.astype(np.float64))


def linear_terms(table: CountedRows, points: Floats, loss: Loss, penalty: Floats | float) -> Floats:
    """The linear term for which each point is the minimiser: b = −Σ slope·x − ρθ. A penalty is one number, or one a coordinate."""
    slopes = loss.slope(points @ table.rows.T, np.broadcast_to(table.targets, (len(points), len(table.targets))))
    return np.asarray(-(slopes * table.counts) @ table.rows - penalty * points)


def log_determinants(table: CountedRows, points: Floats, loss: Loss, penalty: Floats | float) -> Floats:
    """log det of the Hessian Σ curvature·xxᵀ + ρI at each point."""
    targets = np.broadcast_to(table.targets, (len(points), len(table.targets)))
    weights = loss.curvature(points @ table.rows.T, targets) * table.counts
    hessians = np.einsum("ki,ij,il->kjl", weights, table.rows, table.rows, optimize=True)
    width = points.shape[1]
    return np.asarray(np.linalg.slogdet(hessians + np.diag(np.broadcast_to(penalty, width)))[1], dtype=np.float64)


def pure_objective_log_density(
    table: CountedRows,
    points: Floats,
    loss: Loss,
    rate: float,
    penalty: Floats | float,
    order: float = 2,
    units: Floats | float = 1.0,
) -> Floats:
    """log density of the minimiser, up to a constant, for noise ∝ exp(−rate·‖b‖): θ and b determine each other.

    The norm of b over the units is Euclidean for order 2, the sum of absolute values for order 1, and the largest of them for infinity.
    """
    sizes = np.linalg.norm(linear_terms(table, points, loss, penalty) / units, ord=order, axis=1)
    return np.asarray(-rate * sizes + log_determinants(table, points, loss, penalty))


def rays(width: int, reach: float) -> Floats:
    """Places in every direction, from a thousandth to hundreds of `reach` away, always the same ones."""
    random = np.random.default_rng(0)
    directions = random.normal(size=(_PLACES, width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * (reach * np.geomspace(_NEAREST, _FARTHEST, _PLACES))[:, np.newaxis])


# The law of every method


def law_epsilon(method: LinearMechanism, pair: tuple[Rows, Rows]) -> float | None:
    """The largest privacy loss of a method on two tables of bounded rows; None where the law of its output is not known.

    Objective perturbation is looked at before its finishing noise, which costs a hundredth of ε and hides next to nothing.
    """
    if isinstance(method, MeanMessage):
        first, second = (method.sums(table).ravel() for table in pair)
        return exact_epsilon(method.mechanism, (first, second))
    if isinstance(method, OutputPerturbation):
        first, second = (_minimisers(method, table) for table in pair)
        return exact_epsilon(method.mechanism, (first, second))
    if isinstance(method, ObjectivePerturbation) and method.delta == 0 and method.facts.outputs == 1:
        return _objective_epsilon(method, pair)
    if isinstance(method, GradientDescent):
        return _descent_epsilon(method, pair)
    return None


def _minimisers(method: OutputPerturbation, table: Rows) -> Floats:
    facts = method.facts
    objectives = [
        Objective(table, facts.loss, facts.penalty, np.zeros(facts.width), facts.norm_bound, output)
        for output in range(facts.outputs)
    ]
    return np.concatenate([minimised(objective, method.tolerance).parameters for objective in objectives])


def _objective_epsilon(method: ObjectivePerturbation, pair: tuple[Rows, Rows]) -> float:
    facts, tables = method.facts, [CountedRows.of(table) for table in pair]
    order = {"euclidean": 2.0, "sum": 1.0, "largest": math.inf}[method.norm]
    units = np.array(facts.entry_bounds) if method.norm == "largest" else np.ones(facts.width)
    noise = facts.loss, method.rate, method.penalty, order, units

    def log_density(side: int) -> Callable[[Floats], Floats]:
        return lambda points: pure_objective_log_density(tables[side], points, *noise)

    return largest_loss(log_density(0), log_density(1), rays(facts.width, 1 / facts.norm_bound)).epsilon_lower_bound


def _descent_epsilon(method: GradientDescent, pair: tuple[Rows, Rows]) -> float | None:
    """Known where every gradient is clipped in every step: all steps see the same sum then and add up to one Gaussian.

    The average of the iterates weighs the steps unequally, so it shows less than all of them would.
    """
    first, second = (_always_clipped_sum(method, table) for table in pair)
    if first is None or second is None:
        return None
    weights = step_weights(method.recipe)
    distance = float(np.linalg.norm(second - first)) * float(weights.sum() / np.linalg.norm(weights))
    return gaussian_epsilon_at(distance, step_deviation(method), method.delta)


def _always_clipped_sum(method: GradientDescent, table: Rows) -> Floats | None:
    """The sum of clipped gradients where each is longer than the clip, and of one sign, wherever the descent can get.

    It gets no farther than momentum carries the largest clipped sum and twelve deviations of noise in every step.
    """
    facts, recipe = method.facts, method.recipe
    if facts.outputs > 1 or facts.penalty > 0 or recipe.sampling_rate < 1:
        return None
    push = recipe.clip * facts.rows + _DEVIATIONS * step_deviation(method) * math.sqrt(facts.width)
    farthest = recipe.learning_rate * recipe.steps / (1 - recipe.momentum) * push / facts.rows
    matrix, targets = table.together()
    lengths = np.linalg.norm(matrix, axis=1)
    # A convex loss has a rising slope: two ends of one sign and beyond the clip hold everything between.
    low, high = (facts.loss.slope(side * farthest * lengths, targets[:, 0]) * lengths for side in (-1.0, 1.0))
    if np.any(low * high <= 0) or np.any(np.minimum(np.abs(low), np.abs(high)) < recipe.clip):
        return None
    return np.asarray((np.sign(low) * recipe.clip / lengths) @ matrix)


def step_deviation(method: GradientDescent) -> float:
    """Standard deviation of the noise on the sum of one step."""
    recipe = method.recipe
    return method.noise_scale * method.facts.rows / (recipe.learning_rate * math.sqrt(recipe.steps))


def step_weights(recipe: Recipe) -> Floats:
    """How much each step's noisy sum counts in the average of the last iterates, up to a factor."""
    # Where a single push of size one at the start has carried after 1, 2, … steps.
    carried = np.cumsum(lfilter([1.0], [1.0, -recipe.momentum], np.eye(1, recipe.steps)[0]))
    seen = np.arange(recipe.steps - recipe.averaged, recipe.steps)
    return np.array([carried[seen[seen >= step] - step].sum() for step in range(recipe.steps)]) / recipe.averaged
