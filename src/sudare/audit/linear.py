"""Private linear models under audit: the law of what each method releases, and neighbouring tables that are hard for it.

The laws are those of two fixed tables, from the same public numbers that the method planned with (proofs/objective.md, output.md,
descent.md, mean_message.md). Tables are in two dimensions or more: in one, half the sensitivity is nearly invisible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.signal import lfilter

from sudare.audit.densities import exact_epsilon, gaussian_epsilon_at, largest_loss
from sudare.audit.evidence import Floats
from sudare.frames.rows import Rows
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.linear.descent import GradientDescent, Recipe
from sudare.linear.linear_model import PrivateLinearModel
from sudare.linear.losses import Loss
from sudare.linear.mean_message import MeanMessage
from sudare.linear.mechanism import LinearMechanism
from sudare.linear.objective_perturbation import ObjectivePerturbation
from sudare.linear.output_perturbation import OutputPerturbation
from sudare.linear.rows import bounded_rows
from sudare.linear.solvers import Objective, minimised

# Rows and targets, the latter −1 and +1 (for ridge regression, numbers between).
Table = tuple[Floats, Floats]

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
    table: CountedRows, points: Floats, loss: Loss, rate: float, penalty: Floats | float, order: int = 2
) -> Floats:
    """log density of the minimiser, up to a constant, for noise ∝ exp(−rate·‖b‖): θ and b determine each other.

    The norm is Euclidean for order 2 and the sum of absolute values for order 1.
    """
    sizes = np.linalg.norm(linear_terms(table, points, loss, penalty), ord=order, axis=1)
    return np.asarray(-rate * sizes + log_determinants(table, points, loss, penalty))


def gaussian_objective_log_density(
    table: CountedRows, points: Floats, loss: Loss, deviation: float, penalty: Floats | float
) -> Floats:
    """The same for noise N(0, deviation²·I)."""
    squares = np.sum(linear_terms(table, points, loss, penalty) ** 2, axis=1)
    return np.asarray(-squares / (2 * deviation**2) + log_determinants(table, points, loss, penalty))


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
    noise = facts.loss, method.rate, method.penalty, 1 if method.by_coordinates else 2

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


# Tables that are hard, two of each: neighbours by one replaced row


@dataclass(frozen=True)
class LinearCase:
    """A model of every ε, two neighbouring tables, and how many fits to each."""

    subject: str
    samples: int
    model: Callable[[float], PrivateLinearModel]
    pair: tuple[Table, Table]

    def held(self) -> tuple[Rows, Rows]:
        """Both tables as the model sees them."""
        first, second = (Rows.held(bounded_rows(rows, 1.0)[0], targets[:, np.newaxis]) for rows, targets in self.pair)
        return first, second


def flipped_pair() -> tuple[Table, Table]:
    """One unit row whose target goes from +1 to −1, beside five rows across."""
    rows = np.array([[1.0, 0.0], *[[0.0, 1.0]] * 5])
    first, second = np.ones(len(rows)), np.ones(len(rows))
    second[0] = -1.0
    return (rows, first), (rows, second)


def misclassified_pair(angle: float, others: Floats, count: int) -> tuple[Table, Table]:
    """A row at `angle` below the first axis, mirrored at the second: both ways it may be misclassified far off.

    The logistic loss pulls with its full slope only there. `others` is the row that holds the parameters in place.
    """
    along, down = math.cos(angle), -math.sin(angle)
    rest = np.tile(others, (count, 1))
    targets = np.ones(count + 1)
    return (np.vstack([[-along, down], rest]), targets), (np.vstack([[along, down], rest]), targets)


# Rows that hold the parameters in place, and the penalty ρ at which both ways of the replaced row pull hardest.
_OBJECTIVE_OTHERS, _OUTPUT_OTHERS, _OUTPUT_PENALTY = 400, 4096, 2.0
# A penalty that keeps scores near zero, where a hinge and a residual have their full slope.
_STIFF_PENALTY: Final = 2_000.0
# Residuals are capped so low that all gradients are clipped, always.
_LOW_CAP: Final = 0.01
_DELTA: Final = 1e-6

_FLIPPED: Final = flipped_pair()
_ACROSS_FIRST_AXIS: Final = misclassified_pair(0.35, np.array([1.0, 0.0]), _OBJECTIVE_OTHERS)
_ALONG_SECOND_AXIS: Final = misclassified_pair(0.465, np.array([0.0, 1.0]), _OUTPUT_OTHERS)


def _logistic(epsilon: float, **options: Any) -> PrivateLinearModel:
    return PrivateLogisticRegression(epsilon, classes=[-1, 1], fit_intercept=False, **options)


def _hinge(epsilon: float, **options: Any) -> PrivateLinearModel:
    return PrivateLinearSVC(epsilon, classes=[-1, 1], fit_intercept=False, **options)


def _ridge(epsilon: float, **options: Any) -> PrivateLinearModel:
    return PrivateRidge(epsilon, target_bounds=(-1, 1), fit_intercept=False, **options)


def _weight(penalty: float, pair: tuple[Table, Table]) -> float:
    """Λ of the penalty ρ = nΛ."""
    return penalty / len(pair[0][0])


CASES: Final[dict[str, LinearCase]] = {
    "PrivateLogisticRegression-objective": LinearCase(
        "PrivateLogisticRegression, objective perturbation",
        10_000,
        lambda epsilon: _logistic(epsilon, method="objective", regularization=_weight(1 / epsilon, _ACROSS_FIRST_AXIS)),
        _ACROSS_FIRST_AXIS,
    ),
    "PrivateLogisticRegression-output": LinearCase(
        "PrivateLogisticRegression, output perturbation",
        4_000,
        lambda epsilon: _logistic(
            epsilon, method="output", regularization=_weight(_OUTPUT_PENALTY, _ALONG_SECOND_AXIS)
        ),
        _ALONG_SECOND_AXIS,
    ),
    "PrivateLogisticRegression-descent": LinearCase(
        f"PrivateLogisticRegression, noisy descent, δ = {_DELTA:g}",
        3_000,
        lambda epsilon: _logistic(epsilon, delta=_DELTA, method="descent"),
        _FLIPPED,
    ),
    "PrivateLogisticRegression-mean": LinearCase(
        "PrivateLogisticRegression, mean message",
        18_000,
        lambda epsilon: _logistic(epsilon, method="mean"),
        _FLIPPED,
    ),
    "PrivateLinearSVC-objective": LinearCase(
        "PrivateLinearSVC, objective perturbation",
        16_000,
        lambda epsilon: _hinge(epsilon, method="objective", regularization=_weight(_STIFF_PENALTY, _FLIPPED)),
        _FLIPPED,
    ),
    "PrivateLinearSVC-output": LinearCase(
        "PrivateLinearSVC, output perturbation",
        16_000,
        lambda epsilon: _hinge(epsilon, method="output", regularization=_weight(_STIFF_PENALTY, _FLIPPED)),
        _FLIPPED,
    ),
    "PrivateRidge-objective": LinearCase(
        "PrivateRidge, objective perturbation",
        16_000,
        lambda epsilon: _ridge(epsilon, method="objective", regularization=_weight(_STIFF_PENALTY, _FLIPPED)),
        _FLIPPED,
    ),
    "PrivateRidge-descent": LinearCase(
        f"PrivateRidge, noisy descent, δ = {_DELTA:g}",
        3_000,
        lambda epsilon: _ridge(epsilon, delta=_DELTA, method="descent", residual_cap=_LOW_CAP),
        _FLIPPED,
    ),
}
