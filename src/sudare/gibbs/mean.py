"""The mean of records as a draw from a normal posterior that is restricted to a ball (§4.2 of the paper, in any dimension)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Final, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.gibbs.gaussian_envelope import GRADIENT_SHARE, Envelope, gradient_cost, rounding_of_factor
from sudare.gibbs.lazy_uniforms import UNIT_ROUNDOFF
from sudare.gibbs.mechanisms import (
    DRAWS,
    Sampled,
    check_drawing,
    check_gradient_cost,
    drawn_from_envelope,
    exact_draws_cost,
    grid_below,
)
from sudare.gibbs.posteriors import Posterior
from sudare.gibbs.temperatures import largest_beta, pure_beta
from sudare.gibbs.truncated_gaussian import linear_posterior
from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import Cost, gaussian_mu_within, rounded_up_root
from sudare.privacy.column_sums import exact_sums, fixed_point_step, on_grid_within, public_grid
from sudare.privacy.declared_columns import natural_bounds, rows_per_unit
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import DEFAULT_DELTA
from sudare.privacy.ledger import Account
from sudare.privacy.noise import NoiseSource
from sudare.privacy.private_estimator import Bounds
from sudare.privacy.release_content import on_grid
from sudare.schema import Schema
from sudare.statistics import PrivateMean
from sudare.statistics.noise_intervals import DEFAULT_LEVEL, checked_level

_LARGEST: Final = 2.0**100


def _signed_sums(step: float, scaled: Floats) -> Floats:
    return exact_sums(2 * scaled - 1, step)


@dataclass(frozen=True)
class MeanDraws:
    """(ε, δ)-DP (μ-GDP, or ε-DP with δ = 0) draws from a normal law restricted to a ball (§4.2), replace-one rows. Proof: proofs/gibbs.md.

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
        DRAWS.check("draws", self.draws)
        if not rounding_of_factor(1, self.width, float(self.width)) <= GRADIENT_SHARE / 2:
            raise InvalidParameter("So many columns cannot be drawn exactly in floats.", "Fit them in parts.")
        # All that can be refused is refused here, from public facts: after the charge nothing is.
        _ = self.cost, self.grid
        rounding = 16 * (self.width + 2) * UNIT_ROUNDOFF * self.rows * self.reach
        check_gradient_cost(gradient_cost(self.inverse_temperature, rounding, self.penalty))

    @cached_property
    def cost(self) -> Cost:
        """Gaussian with the largest μ that (ε, δ) allows, or pure; drawing adds nothing, because it is exact."""
        return exact_draws_cost(self.epsilon, self.delta)

    @cached_property
    def inverse_temperature(self) -> float:
        """β, the root of 4a²β² = μ²(1/τ² + nβ); with δ = 0 that with 4βaB = ε."""
        if self.delta == 0:
            return pure_beta(self.epsilon / self.draws, 4 * self.reach * self.radius * (1 + 2.0**-48))
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
        return drawn_from_envelope(*self.posterior(total), self.grid, self.draws, self.fixed_work, source)

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """The mean of the draws, on the grid, from the sum of the records."""
        return on_grid(self.sampled(values, source).points.mean(axis=0)[0], self.grid)


@dataclass(eq=False, repr=False)
class GibbsMean(PrivateMean):
    """(ε, δ)-DP means, ε-DP with delta = 0: a draw from a normal posterior on a ball, replace-one rows. Proof: proofs/gibbs.md.

    Columns are scaled to [−1, 1] by their public bounds. The likelihood is normal with variance 1 there, the prior N(0, prior_scale²·I) restricted to ‖θ‖ ≤ radius.

    Parameters
    ----------
    epsilon, delta : the promise; pure with delta = 0.
    bounds, schema, account, random_state : as in PrivateMean.
    prior_scale : the prior's deviation, in half-ranges.
    radius : of the ball around the middle of all ranges, in half-ranges; None for the smallest that holds every possible mean.
    draws : how many draws are made and averaged; they share the budget.
    fixed_work : makes the number of proposals constant, because it tells something about the records.

    Attributes
    ----------
    mean_ : means in the columns' own units, within the bounds.
    draws_ : the draws, one a row, in half-ranges around the middle; paid for.
    inverse_temperature_, total_variation_, noise_scale_, grid_ : β, the sampler's distance (0), the posterior's deviation in
        ranges, and the grid of the means (public).
    acceptance_ : accepted share of proposals; for the owner only.
    guarantee_, receipt_ : what is promised, and the ledger entry that was written first.
    """

    # How many proposals were needed tells about the records.
    for_the_owner = (*PrivateMean.for_the_owner, "acceptance_")
    extra_parameters = ()

    epsilon: float = 1.0
    delta: float = DEFAULT_DELTA
    _: KW_ONLY
    bounds: Bounds | None = None
    schema: Schema | None = None
    prior_scale: float = 1.0
    radius: float | None = None
    draws: int = 1
    fixed_work: bool = False
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None
    # A parameter of means that a draw does not have.
    cluster: ClassVar[Any] = None  # type: ignore[misc]

    def table(self, level: float = DEFAULT_LEVEL) -> dict[str, list[Any]]:
        """Means without intervals: a draw is off by the prior's pull, too, which depends on the records."""
        check_is_fitted(self)
        checked_level(level)
        return {"column": list(self.declared_.features), "mean": self.mean_.tolist()}

    def plan(self, rows: int, declared: Schema) -> Plan[MeanDraws]:
        """A record of p columns has norm √p at most; a person's records may all point one way."""
        width = len(declared.features)
        largest = rounded_up_root(Fraction(width))
        mechanism = MeanDraws(
            rows=rows,
            width=width,
            reach=largest * rows_per_unit(declared),
            radius=largest if self.radius is None else float(self.radius),
            prior_scale=float(self.prior_scale),
            epsilon=self._values_epsilon(declared),
            delta=float(self.delta),
            draws=int(self.draws),
            fixed_work=bool(self.fixed_work),
        )
        return Plan(mechanism, self._guarantee(declared))

    def fit(self, X: object, y: object = None) -> Self:
        """Charge, then draw."""
        checked = self._encoded_rows(self._open(X, reset=True))
        rows = checked.count
        plan = self.plan(rows, self.declared_)
        mechanism = plan.mechanism
        sums = checked.total(partial(_signed_sums, fixed_point_step(rows)))
        passage = self._enter(plan)
        sampled = mechanism.sampled(sums, passage.noise)
        low, high = natural_bounds(self.declared_)
        self.n_rows_, self.noise_scale_ = rows, mechanism.noise_scale / 2
        self.inverse_temperature_ = mechanism.inverse_temperature
        self.total_variation_ = float(mechanism.cost.total_variation)
        self.draws_ = sampled.points[:, 0]
        self.sampler_, self.acceptance_ = sampled.sampler, sampled.acceptance
        self.grid_ = public_grid(self.noise_scale_, high - low)
        middle = np.clip((1 + self.draws_.mean(axis=0)) / 2, 0.0, 1.0)
        self.mean_ = on_grid_within(low + (high - low) * middle, low, high, self.grid_)
        self._seal()
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_drawing(self.draws, self.fixed_work)
        Numbers(1 / _LARGEST, _LARGEST).check("prior_scale", self.prior_scale)
        Numbers(1 / _LARGEST, _LARGEST, optional=True).check("radius", self.radius)
