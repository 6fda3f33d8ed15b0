"""Draws from Gaussian posteriors restricted to a ball, as private methods: ridge regression, and means (§4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.errors import InvalidParameter
from sudare.frames.rows import Rows
from sudare.gibbs.ball_posteriors import largest_gradient_cost, linear_posterior, squared_posterior
from sudare.gibbs.gaussian_envelope import GRADIENT_SHARE, Envelope, gradient_cost, rounding_of_factor
from sudare.gibbs.lazy_uniforms import UNIT_ROUNDOFF
from sudare.gibbs.mechanisms import (
    FIXED_PROPOSALS,
    Sampled,
    check_gradient_cost,
    check_penalty,
    checked_draws,
    grid_below,
)
from sudare.gibbs.posteriors import Posterior
from sudare.gibbs.rejection import exact_draws
from sudare.gibbs.temperatures import largest_beta, proportional_beta
from sudare.linear.noise_once import Facts, applied
from sudare.privacy.accounting import Cost, gaussian_cost, gaussian_mu_within
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

Floats = NDArray[np.float64]

_LARGEST_TARGET: Final = 1.0


@dataclass(frozen=True)
class RidgeDraws:
    """(ε, δ)-DP and μ-GDP draws from exp(−β(Σ ½(xᵀθ − y)² + (ρ/2)‖θ‖²)) on ‖θ‖ ≤ B, replace-one rows. Proof: proofs/gibbs.md.

    Targets lie in [−1, 1]. The gradients of two losses differ by at most R²B + 2R, twice L = R(RB/2 + 1).
    """

    facts: Facts
    radius: float
    epsilon: float
    delta: float
    draws: int = 1
    fixed_work: bool = False

    def __post_init__(self) -> None:
        checked_draws(self.draws)
        check_penalty(self.facts)
        # All that can be refused is refused here, from public facts: after the charge nothing is.
        _ = self.cost, self.grid
        facts = self.facts
        check_gradient_cost(
            largest_gradient_cost(
                facts.rows, facts.width, self.inverse_temperature, facts.penalty, facts.norm_bound, self.radius
            )
        )

    @property
    def penalty(self) -> float:
        """ρ, as asked for."""
        return self.facts.penalty

    @cached_property
    def cost(self) -> Cost:
        """Gaussian with the largest μ that (ε, δ) allows; drawing adds nothing, because it is exact."""
        return gaussian_cost(self.epsilon, self.delta)

    @cached_property
    def lipschitz(self) -> float:
        """L, rounded up, for all rows of a unit."""
        facts = self.facts
        row = facts.norm_bound * (facts.norm_bound * self.radius / 2 + _LARGEST_TARGET)
        return row * facts.rows_per_unit * (1 + 2.0**-48)

    @cached_property
    def inverse_temperature(self) -> float:
        """β with 2βL/√(βρ) = μ."""
        square = gaussian_mu_within(self.epsilon, self.delta) ** 2 / self.draws
        return proportional_beta(square, self.lipschitz, self.facts.penalty)

    @property
    def noise_scale(self) -> float:
        """Standard deviation of a parameter where the data say nothing, before it is restricted to the ball."""
        return 1 / math.sqrt(self.inverse_temperature * self.facts.penalty)

    @cached_property
    def grid(self) -> float:
        """About a thousandth of the smallest standard deviation that a parameter can have."""
        facts = self.facts
        stiffest = facts.penalty + facts.rows * facts.norm_bound**2
        return grid_below(1 / math.sqrt(self.inverse_temperature * stiffest))

    def posterior(self, rows: Rows) -> tuple[Posterior, Envelope]:
        """The law to draw from, and its envelope."""
        facts = self.facts
        blocks = list(rows.blocks())
        matrix, targets = (np.concatenate([block[part] for block in blocks]) for part in (0, 1))
        return squared_posterior(
            matrix, targets[:, 0], self.inverse_temperature, facts.penalty, facts.norm_bound, self.radius
        )

    def sampled(self, rows: Rows, source: NoiseSource) -> Sampled:
        """Draws, with what their owner may know."""
        return _drawn_exactly(self, self.posterior(rows), source)

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """The mean of the draws."""
        return self.combined(self.sampled(rows, source).points)

    def combined(self, points: Floats) -> Floats:
        """The mean of draws, on the grid."""
        return on_grid(points.mean(axis=0), self.grid)

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """The mean of the draws as one vector, from a matrix of bounded rows with the target as last column."""
        return applied(self, 1, values, source)


@dataclass(frozen=True)
class MeanDraws:
    """(ε, δ)-DP and μ-GDP draws from a normal law restricted to a ball (§4.2), replace-one rows. Proof: proofs/gibbs.md.

    The posterior of the mean of records of norm ≤ `reach` under a normal likelihood of variance 1 and a prior N(0, prior_scale²·I) on ‖θ‖ ≤ radius, at inverse
    temperature β. Differences of losses are linear, with slopes up to 2·reach: θ cancels.
    """

    rows: int
    width: int
    reach: float
    radius: float
    prior_scale: float
    epsilon: float
    delta: float
    draws: int = 1
    fixed_work: bool = False

    def __post_init__(self) -> None:
        checked_draws(self.draws)
        if not rounding_of_factor(1, self.width, float(self.width)) <= GRADIENT_SHARE / 2:
            raise InvalidParameter("So many columns cannot be drawn exactly in floats.", "Fit them in parts.")
        # All that can be refused is refused here, from public facts: after the charge nothing is.
        _ = self.cost, self.grid
        rounding = 16 * (self.width + 2) * UNIT_ROUNDOFF * self.rows * self.reach
        check_gradient_cost(gradient_cost(self.inverse_temperature, rounding, self.penalty))

    @cached_property
    def cost(self) -> Cost:
        """Gaussian with the largest μ that (ε, δ) allows; drawing adds nothing, because it is exact."""
        return gaussian_cost(self.epsilon, self.delta)

    @cached_property
    def inverse_temperature(self) -> float:
        """β, the root of 4a²β² = μ²(1/τ² + nβ)."""
        square = gaussian_mu_within(self.epsilon, self.delta) ** 2 / self.draws
        return largest_beta(square, self.reach, 1 / self.prior_scale**2, 1.0, self.rows)

    @cached_property
    def penalty(self) -> float:
        """ρ of exp(β(Σxᵀθ − (ρ/2)‖θ‖²)): n + 1/(βτ²), rounded up."""
        return (self.rows + 1 / (self.inverse_temperature * self.prior_scale**2)) * (1 + 2.0**-48)

    @property
    def noise_scale(self) -> float:
        """Standard deviation of a coordinate, before it is restricted to the ball."""
        return 1 / math.sqrt(self.inverse_temperature * self.penalty)

    @cached_property
    def grid(self) -> float:
        """About a thousandth of the standard deviation."""
        return grid_below(self.noise_scale)

    def posterior(self, total: Floats) -> tuple[Posterior, Envelope]:
        """The law to draw from, and its envelope, from the sum of the records."""
        return linear_posterior(total, self.inverse_temperature, self.penalty, self.rows * self.reach, self.radius)

    def sampled(self, total: Floats, source: NoiseSource) -> Sampled:
        """Draws from the sum of the records, with what their owner may know."""
        return _drawn_exactly(self, self.posterior(total), source)

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """The mean of the draws, on the grid, from the sum of the records."""
        return on_grid(self.sampled(values, source).points.mean(axis=0)[0], self.grid)


def _drawn_exactly(method: RidgeDraws | MeanDraws, law: tuple[Posterior, Envelope], source: NoiseSource) -> Sampled:
    """Draws from a law on a ball, by its envelope."""
    least = FIXED_PROPOSALS * method.draws if method.fixed_work else 0
    drawn = exact_draws(*law, method.grid, method.draws, source, least_proposals=least)
    return Sampled(drawn.points[:, np.newaxis], "exact", drawn.accepted / drawn.proposals, math.nan)
