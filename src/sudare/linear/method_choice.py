"""Which method, which penalty: public rules from (n, p, ε, δ), the row norm and the loss. Measured in docs/linear.md."""

from __future__ import annotations

import functools
import math
from typing import Final, Literal, get_args

from sudare.errors import InvalidParameter
from sudare.linear.descent import GradientDescent, public_recipe
from sudare.linear.mechanism import Facts, LinearMechanism
from sudare.linear.noise_calibration import expected_squares, quietest_norm
from sudare.linear.noisy_gradient_at_zero import MeanMessage
from sudare.linear.objective_perturbation import ObjectivePerturbation
from sudare.linear.output_perturbation import OutputPerturbation
from sudare.privacy.accounting import gaussian_mu_within
from sudare.schema import Encoding, Schema

MethodName = Literal["objective", "output", "descent", "mean", "statistics"]
STATISTICS: Final[Literal["statistics"]] = "statistics"
METHODS: Final = tuple(name for name in get_args(MethodName) if name != STATISTICS)

# Below so many rows times ε a column pure noise leaves little of the minimiser but its direction at zero.
_MEAN_BELOW: Final = 12.0
# The same where a calibration centres the targets (`linear_choices methods`): of columns of which none can be negative; of others, where only the norm of rows is declared; and of several classes, each of which
# has a part of ε only.
_NONNEGATIVE_MEAN_BELOW: Final = 40.0
_ARRAY_MEAN_BELOW: Final = 120.0
_SEVERAL_MEAN_BELOW: Final = 300.0
# Where columns are one-hot and most of them bins of numbers, of which sufficient statistics know that neighbours are alike, these are best from the first to the second number on: of rows times ε a column, and with
# δ > 0 of rows times μ over the root of the columns (`linear_choices methods`, `linear_choices many`). With many rows it costs more that a line is taken for log-odds.
_PURE_STATISTICS: Final = (20.0, 600.0)
_GAUSSIAN_STATISTICS: Final = (20.0, 1000.0)
_PURE_STATISTICS_OF_SEVERAL: Final = (20.0, 140.0)
_GAUSSIAN_STATISTICS_OF_SEVERAL: Final = (7.0, 140.0)
# Of two classes also below that: with Gaussian noise for tables of few rows, with pure noise for many columns, of which each tells a little.
_FEW_ROWS: Final = 2000
_MANY_COLUMNS: Final = 100
# Numbers as targets of arrays, of which only the norm of rows is known, which is most often far above that of most rows: from so many rows times μ over the root of the columns on descent, whose clipped gradients do not
# depend on that norm so much; with δ = 0 from so many rows times ε a column on the mean message, then the objective, which needs no calibration there (`linear_choices arrays`).
_ARRAY_DESCENT_FROM: Final = 15.0
_ARRAY_MEAN_FROM: Final = 40.0
_ARRAY_OBJECTIVE_FROM: Final = 720.0
# More parameters take too long.
_MOST_STATISTICS: Final = 1024
# From so many rows times ε a column on, an objective's own probabilities are as good as calibrated ones on all tuning tables (`linear_choices needed`).
_CALIBRATED_BELOW: Final = 120.0
# Numbers are cut into bins where there are so many rows for each of the columns that gives.
_BINNED_ROWS: Final = 20
# Those of a regression of a number where rows times ε are so many for each of them: below that noise leaves a line at most, which centred numbers tell with less of it (`linear_choices ridge_encodings`).
_BINNED_RIDGE_SIGNAL: Final = 50.0


def chosen_method(
    facts: Facts, epsilon: float, delta: float, is_calibrated: bool = False, is_binned: bool = False
) -> MethodName:
    """By how loud rows are beside the noise: the mean message (with δ > 0 descent, or the mean message of several classes), then sufficient statistics of binned numbers, then objective perturbation (descent)."""
    rows, columns = facts.rows / facts.rows_per_unit, facts.width * facts.outputs
    signal = calibration_signal(rows, columns, epsilon, delta)
    if is_calibrated and is_binned and columns <= _MOST_STATISTICS:
        return _method_of_bins(facts, rows, signal, delta)
    is_several = facts.outputs > 1
    if delta > 0:
        is_loud = is_calibrated and facts.nonnegative and is_several and signal < _GAUSSIAN_STATISTICS[0]
        return "mean" if is_loud else "descent"
    return "mean" if signal < (_mean_below(facts) if is_calibrated else _MEAN_BELOW) else "objective"


def _mean_below(facts: Facts) -> float:
    """Below how many rows times ε a column the mean message is better than a perturbed objective, where a calibration centres the targets."""
    if facts.nonnegative:
        return _NONNEGATIVE_MEAN_BELOW
    if facts.outputs > 1:
        return _SEVERAL_MEAN_BELOW
    return _MEAN_BELOW if facts.entry_bounds else _ARRAY_MEAN_BELOW


def _method_of_bins(facts: Facts, rows: float, signal: float, delta: float) -> MethodName:
    """The same where most columns are bins of numbers."""
    if facts.outputs > 1:
        low, high = _GAUSSIAN_STATISTICS_OF_SEVERAL if delta > 0 else _PURE_STATISTICS_OF_SEVERAL
    else:
        low, high = _GAUSSIAN_STATISTICS if delta > 0 else _PURE_STATISTICS
    if signal >= high:
        return "descent" if delta > 0 else "objective"
    if signal >= low:
        return STATISTICS
    if facts.outputs > 1:
        return "mean"
    if rows < _FEW_ROWS if delta > 0 else facts.width >= _MANY_COLUMNS:
        return STATISTICS
    return "descent" if delta > 0 else "mean"


def chosen_ridge_method(facts: Facts, epsilon: float, delta: float, is_calibrated: bool) -> MethodName:
    """Sufficient statistics, up to as many columns as they take; of arrays with an intercept only where rows are few, else what is not led by the largest norm of a row."""
    if facts.width > _MOST_STATISTICS:
        return chosen_method(facts, epsilon, delta, is_calibrated)
    if facts.entry_bounds or not is_calibrated:
        return STATISTICS
    signal = calibration_signal(facts.rows / facts.rows_per_unit, facts.width, epsilon, delta)
    if delta > 0:
        return "descent" if signal >= _ARRAY_DESCENT_FROM else STATISTICS
    if signal >= _ARRAY_OBJECTIVE_FROM:
        return "objective"
    return "mean" if signal >= _ARRAY_MEAN_FROM else STATISTICS


def needs_calibration(method: MethodName, facts: Facts, epsilon: float, delta: float) -> bool:
    """Whether scores have to be given their level and slope: all but those of a perturbed objective in which noise is small, logistic or of an array, which have them."""
    if method != "objective" or delta > 0 or (not facts.loss.one_sided and facts.entry_bounds):
        return True
    rows, columns = facts.rows / facts.rows_per_unit, facts.width * facts.outputs
    enough = _CALIBRATED_BELOW if facts.loss.one_sided else _ARRAY_OBJECTIVE_FROM
    return calibration_signal(rows, columns, epsilon, delta) < enough


def calibration_signal(rows: float, columns: int, epsilon: float, delta: float) -> float:
    """How loud so many rows are beside the noise on so many parameters: n·ε/p of pure noise, n·μ/√p of Gaussian."""
    return rows * gaussian_mu_within(epsilon, delta) / math.sqrt(columns) if delta > 0 else rows * epsilon / columns


def chosen_encoding(rows: int, declared: Schema) -> Encoding:
    """Bins where there are twenty rows for each column that they give, else numbers about their centres."""
    return "binned" if rows >= _BINNED_ROWS * len(declared.names("binned")) else "centred"


def chosen_ridge_encoding(rows: float, declared: Schema, epsilon: float) -> Encoding:
    """Bins where rows (divided by those of a person) times ε are fifty for each column that they give, else numbers about their centres."""
    return "binned" if rows * epsilon >= _BINNED_RIDGE_SIGNAL * len(declared.names("binned")) else "centred"


def public_penalty(method: MethodName, facts: Facts, epsilon: float, delta: float) -> float:
    """ρ when none was asked for.

    Objective: 1.5·p·s²/n with p·s² the expected square of the linear term's noise, which balances noise and shrinkage where
    curvature is spread evenly; at least R²L/ε. Output: the geometric mean of noise and curvature. Descent stops early instead.
    """
    if method in ("descent", "mean", STATISTICS):
        return 0.0
    if method == "objective":
        balanced = 1.5 * _expected_squares(facts, epsilon / facts.outputs, delta / facts.outputs) / facts.rows
        return max(balanced, facts.norm_bound**2 * facts.loss.largest_slope / epsilon)
    reach = facts.norm_bound * facts.loss.largest_slope * facts.rows_per_unit
    noise = _coordinate_noise(2 * reach, epsilon, delta, facts.width * facts.outputs)
    return math.sqrt(noise * facts.norm_bound * facts.rows / facts.width) + facts.norm_bound**2


def _expected_squares(facts: Facts, epsilon: float, delta: float) -> float:
    """p·s²: the expected square of the linear term's noise."""
    moved = 2 * facts.loss.largest_slope * facts.rows_per_unit
    if delta > 0:
        return facts.width * _coordinate_noise(moved * facts.norm_bound, epsilon, delta, facts.width) ** 2
    bounds = facts.width, facts.norm_bound, facts.sum_bound, facts.entry_bounds
    scale = moved / epsilon
    # Infinite where ε is tiny, and no error.
    return expected_squares(quietest_norm(*bounds), *bounds) * (scale * scale)


def _coordinate_noise(sensitivity: float, epsilon: float, delta: float, width: int) -> float:
    """Standard deviation of a coordinate of gamma-norm or Gaussian noise."""
    if delta == 0:
        return math.sqrt(width + 1) * sensitivity / epsilon
    return sensitivity / gaussian_mu_within(epsilon, delta)


@functools.lru_cache(maxsize=1024)
def planned(
    method: MethodName, facts: Facts, epsilon: float, delta: float, sampling_rate: float = 1.0, centred: bool = False
) -> LinearMechanism:
    """The mechanism of that method, its noise calibrated; `centred` is for the mean message. Raise InvalidParameter for descent without δ."""
    if method == "objective":
        return ObjectivePerturbation(facts, epsilon, delta)
    if method == "output":
        return OutputPerturbation(facts, epsilon, delta)
    if method == "mean":
        return MeanMessage(facts, epsilon, delta, centred)
    if delta == 0:
        raise InvalidParameter(
            'method="descent" needs delta > 0.', 'Use for example delta=1e-6, or method="objective".'
        )
    return GradientDescent(facts, epsilon, delta, public_recipe(facts, epsilon, delta, sampling_rate))
