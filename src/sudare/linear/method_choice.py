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

MethodName = Literal["objective", "output", "descent", "mean"]
METHODS: Final = get_args(MethodName)

# Below so many rows times ε a column, pure noise leaves nothing of the minimiser but its direction at zero.
_MEAN_BELOW: Final = 12.0


def chosen_method(facts: Facts, epsilon: float, delta: float) -> MethodName:
    """Descent where δ > 0; else objective perturbation, or the mean message where n·ε is below twelve times the columns."""
    if delta > 0:
        return "descent"
    few = facts.rows * epsilon < _MEAN_BELOW * facts.width * facts.rows_per_unit * facts.outputs
    return "mean" if few else "objective"


def public_penalty(method: MethodName, facts: Facts, epsilon: float, delta: float) -> float:
    """ρ when none was asked for.

    Objective: 1.5·p·s²/n with p·s² the expected square of the linear term's noise, which balances noise and shrinkage where
    curvature is spread evenly; at least R²L/ε. Output: the geometric mean of noise and curvature. Descent stops early instead.
    """
    if method in ("descent", "mean"):
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
    return expected_squares(quietest_norm(*bounds), *bounds) * (moved / epsilon) ** 2


def _coordinate_noise(sensitivity: float, epsilon: float, delta: float, width: int) -> float:
    """Standard deviation of a coordinate of gamma-norm or Gaussian noise."""
    if delta == 0:
        return math.sqrt(width + 1) * sensitivity / epsilon
    return sensitivity / gaussian_mu_within(epsilon, delta)


@functools.lru_cache(maxsize=1024)
def planned(
    method: MethodName, facts: Facts, epsilon: float, delta: float, sampling_rate: float = 1.0
) -> LinearMechanism:
    """The mechanism of that method, calibrated. Raise InvalidParameter for descent without δ."""
    if method == "objective":
        return ObjectivePerturbation(facts, epsilon, delta)
    if method == "output":
        return OutputPerturbation(facts, epsilon, delta)
    if method == "mean":
        return MeanMessage(facts, epsilon, delta)
    if delta == 0:
        raise InvalidParameter(
            'method="descent" needs delta > 0.', 'Use for example delta=1e-6, or method="objective".'
        )
    return GradientDescent(facts, epsilon, delta, public_recipe(facts, epsilon, delta, sampling_rate))
