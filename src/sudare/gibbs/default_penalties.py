"""Penalties that Gibbs posteriors of linear models have unless others are asked for, and how far one row moves their losses: from public facts alone."""

from __future__ import annotations

import math
from typing import Final

from sudare.errors import InvalidParameter
from sudare.gibbs.gaussian_envelope import penalty_for_acceptance, smallest_penalty
from sudare.gibbs.temperatures import pure_beta
from sudare.linear.mechanism import Facts
from sudare.privacy.accounting import gaussian_mu_within

_PENALTY_FACTOR: Final = 14.0
# The share of proposals that pure draws with the public penalty accept for every table, before those outside of the ball are refused.
_PURE_ACCEPTANCE: Final = 1e-6


def public_penalty(facts: Facts, epsilon: float, delta: float, draws: int = 1, slope: float = 1.0) -> float:
    """ρ when none was asked for: 14·R²s/√μ, s the largest slope of a loss and μ that of one draw. Measured in docs/gibbs.md."""
    unit = facts.rows_per_unit * math.sqrt(facts.outputs * draws)
    mu = gaussian_mu_within(epsilon, delta) / unit
    return max(_PENALTY_FACTOR * facts.norm_bound**2 * slope / math.sqrt(mu), 2 * _least_penalty(facts))


def ball_penalty(facts: Facts, radius: float, inverse_temperature: float) -> float:
    """ρ of pure draws on a ball when none was asked for: that of a prior as wide as the ball."""
    return max(facts.width / (inverse_temperature * radius**2), 2 * _least_penalty(facts))


def pure_logistic_penalty(facts: Facts, radius: float, epsilon: float, draws: int = 1) -> float:
    """ρ of pure logistic draws when none was asked for: as in `ball_penalty`, or what an exact draw of every table needs."""
    beta = pure_beta(epsilon / (facts.outputs * draws), logistic_oscillation(facts, radius))
    sizes = facts.rows, facts.width, facts.norm_bound
    drawn = penalty_for_acceptance(_PURE_ACCEPTANCE, *sizes, facts.loss.largest_curvature)
    return max(ball_penalty(facts, radius, beta), drawn)


def logistic_oscillation(facts: Facts, radius: float) -> float:
    """Ω of logistic losses on ‖θ‖ ≤ B, rounded up: scores lie within ±RB, losses in an interval of length RB."""
    return 2 * facts.norm_bound * radius * facts.rows_per_unit * (1 + 2.0**-48)


def squared_oscillation(facts: Facts, radius: float) -> float:
    """Ω of squared losses of targets in [−1, 1] on ‖θ‖ ≤ B, rounded up: losses lie between 0 and (RB + 1)²/2."""
    return (facts.norm_bound * radius + 1) ** 2 * facts.rows_per_unit * (1 + 2.0**-48)


def _least_penalty(facts: Facts) -> float:
    return smallest_penalty(facts.rows, facts.width, facts.norm_bound, facts.loss.largest_curvature)


def check_penalty(facts: Facts) -> None:
    """Raise InvalidParameter unless the penalty is large enough not to be lost to rounding."""
    if not facts.penalty >= _least_penalty(facts):
        raise InvalidParameter(
            "The regularization is too small for this many rows: rounding could swallow it.",
            "Use a larger regularization, or leave it out.",
        )
