"""Draws from Gibbs posteriors of linear models as private mechanisms: logistic regression, and ridge regression on a ball.

Each is priced from public facts alone, and draws exactly or within a distance that is charged.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import expit

from sudare.array_types import Floats
from sudare.errors import InvalidParameter, NotSolved
from sudare.frames.rows import Rows
from sudare.gibbs.default_penalties import check_penalty, logistic_oscillation, squared_oscillation
from sudare.gibbs.exact_draws import Draws, exact_draws
from sudare.gibbs.gaussian_envelope import (
    GRADIENT_SHARE,
    LARGEST_GRADIENT_COST,
    Envelope,
    envelope,
    gradient_cost,
    least_acceptance,
)
from sudare.gibbs.pac_bayes import log_ratio_bounds
from sudare.gibbs.posteriors import Posterior
from sudare.gibbs.proximal_sampler import ProximalPlan, proximal_draw
from sudare.gibbs.temperatures import proportional_beta, pure_beta
from sudare.gibbs.truncated_gaussian import largest_gradient_cost, squared_posterior
from sudare.linear.mechanism import Facts, LinearMechanism
from sudare.linear.solvers import Objective, solved_gradient
from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import Cost, gaussian_cost, gaussian_mu_within, pure_cost
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

SamplerName = Literal["exact", "proximal"]
SAMPLERS: Final = ("auto", *get_args(SamplerName))

DRAWS: Final = Numbers(1, 10_000, whole=True)
# Proposals of a draw with fixed work, whatever happens.
FIXED_PROPOSALS: Final = 2_000
# Where more proposals than this could be needed for a draw of some table, an exact draw is not promised.
_MOST_IN_WORST_CASE: Final = 1e7
# Where more proposals than this are expected for a draw, the exact sampler is not tried.
_MOST_EXPECTED: Final = 50_000.0
# So many times the expected number may be needed: the expectation is that of a Gaussian with the same curvature at the mode.
_PATIENCE: Final = 200
_GRID_BITS: Final = 10
# What the gradient left at the computed mode may cost the envelope.
_GRADIENT_COST: Final = 1e-6
# The proximal sampler's total variation is kept to this part of δ, and to 1e-10.
_DISTANCE_SHARE: Final = 2.0**-24
_LARGEST_DISTANCE: Final = 1e-10
# Any tilt is right, but what is left of the ball beyond the Gaussian's mean square costs acceptance in proportion to the tilt, hence to βn: halvings
# of the tilt's interval go on until that cost is below `_TILT_SLACK`, and for `_LEAST_TILT_BISECTIONS` at least.
_TILT_BISECTIONS: Final = 60
_LEAST_TILT_BISECTIONS: Final = 6
_TILT_SLACK: Final = 0.125
# The most by which the log density of pure draws may vary over a ball: acceptance falls like the inverse of its root, and beyond this floats do not find the
# tilt well enough.
LARGEST_LOG_RANGE: Final = 1e8


class Sampled(NamedTuple):
    """Draws (draw × output × parameter) on the grid; and for the owner only: sampler, share of accepted proposals, log dQ/dP."""

    points: Floats
    sampler: SamplerName
    acceptance: float
    log_ratio: float


def check_drawing(draws: object, fixed_work: object) -> None:
    """Raise InvalidParameter unless a Gibbs posterior can be sampled with these parameters of an estimator."""
    DRAWS.check("draws", draws)
    if not isinstance(fixed_work, bool | np.bool_):
        raise InvalidParameter("fixed_work must be True or False.", "Use False.")


def check_gradient_cost(cost: float) -> None:
    """Raise InvalidParameter unless the gradient left at a computed mode costs an envelope little."""
    if not cost <= LARGEST_GRADIENT_COST:
        raise InvalidParameter(
            "The mode of a posterior of this many rows cannot be found well enough in floats.",
            "Use a larger regularization.",
        )


def check_log_range(log_range: float) -> None:
    """Raise InvalidParameter unless the losses on a ball, times β, vary so little that their posterior can be drawn exactly."""
    if not log_range <= LARGEST_LOG_RANGE:
        raise InvalidParameter(
            "The exact sampler could need too many proposals on a ball with so many rows and this epsilon, depending on the records.",
            "Use a smaller epsilon, or more draws.",
        )


def chain_distance(epsilon: float, delta: float, chains: int) -> float:
    """The total variation that each of so many chains may have: all of them together take 2⁻²⁴δ/(1 + e^ε), or 10⁻¹⁰."""
    # Without overflow.
    share = _DISTANCE_SHARE * delta * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    return min(_LARGEST_DISTANCE, share) / chains


def grid_below(smallest_deviation: float) -> float:
    """About a thousandth of the smallest standard deviation that a parameter can have; a power of two."""
    return power_of_two_below(smallest_deviation) * 2.0**-_GRID_BITS


def exact_draws_cost(epsilon: float, delta: float) -> Cost:
    """Pure where δ = 0, else Gaussian with the largest μ that (ε, δ) allows."""
    return pure_cost(epsilon) if delta == 0 else gaussian_cost(epsilon, delta)


class LinearDraws(LinearMechanism):
    """What draws of a linear model's posterior share: the mean of the draws is the model, one row of parameters an output."""

    epsilon: float
    delta: float
    draws: int

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """L: half of the most by which the gradients of two units' losses differ."""

    @property
    @abstractmethod
    def oscillation(self) -> float:
        """Ω: how much the difference of two units' losses can vary over the ball; asked for where δ = 0."""

    @cached_property
    def inverse_temperature(self) -> float:
        """β with 2βL/√(βρ) = μ; with δ = 0 that with βΩ = ε. Outputs and draws share what there is."""
        each = self.facts.outputs * self.draws
        if self.delta == 0:
            return pure_beta(self.epsilon / each, self.oscillation)
        square = gaussian_mu_within(self.epsilon, self.delta) ** 2 / each
        return proportional_beta(square, self.lipschitz, self.facts.penalty)

    @abstractmethod
    def sampled(self, rows: Rows, source: NoiseSource) -> Sampled:
        """Draws of every output, with what their owner may know."""

    @property
    def noise_scale(self) -> float:
        """Standard deviation of a parameter where the data say nothing: that of the prior, before it is restricted to a ball."""
        return 1 / math.sqrt(self.inverse_temperature * self.facts.penalty)

    def _grid_for(self, curvature: float) -> float:
        """About a thousandth of the smallest standard deviation of a parameter where no loss bends more than `curvature`."""
        stiffest = self.facts.penalty + self.facts.rows * curvature * self.facts.norm_bound**2
        return grid_below(1 / math.sqrt(self.inverse_temperature * stiffest))

    def fitted(self, rows: Rows, source: NoiseSource) -> Floats:
        """The mean of the draws, one row an output."""
        return self.combined(self.sampled(rows, source).points)

    def combined(self, points: Floats) -> Floats:
        """The mean of draws, on the grid: scores are linear, so it has the mean score of the draws."""
        return on_grid(points.mean(axis=0), self.grid)


@dataclass(frozen=True)
class LogisticDraws(LinearDraws):
    """(ε, δ)-DP and μ-GDP draws from exp(−β(Σ logistic loss + (ρ/2)‖θ‖²)), on a ball ε-DP, replace-one rows. Proof: proofs/gibbs.md.

    `facts.penalty` is ρ. Outputs (one against the rest) and draws share μ² equally, or ε where δ = 0. What is fitted is the mean of the draws.
    """

    facts: Facts
    epsilon: float
    delta: float
    draws: int = 1
    sampler: Literal["auto", "exact", "proximal"] = "exact"
    fixed_work: bool = False
    radius: float | None = None

    def __post_init__(self) -> None:
        DRAWS.check("draws", self.draws)
        check_penalty(self.facts)
        if self.delta == 0 and self.radius is None:
            raise InvalidParameter("delta = 0 needs bounded losses, hence a radius.", "Give radius, or delta > 0.")
        if self.sampler == "proximal" and self.radius is not None:
            raise InvalidParameter(
                "The proximal sampler draws from no ball, and is not near enough for delta = 0.", 'Use sampler="exact".'
            )
        if self.fixed_work and self.sampler == "proximal":
            raise InvalidParameter("The proximal sampler has no fixed work.", 'Use sampler="exact".')
        if self.sampler == "proximal" and self.proximal_plan is None:
            raise InvalidParameter(
                "The proximal sampler cannot keep within this epsilon and delta at this regularization.",
                "Use a larger regularization or delta, or a smaller epsilon.",
            )
        check_gradient_cost(gradient_cost(self.inverse_temperature, self.tolerance, self.penalty))
        if self.radius is not None:
            check_log_range(self.inverse_temperature * self.facts.rows * self.facts.norm_bound * self.radius)
        if self.proximal_plan is None and not self._least_acceptance * _MOST_IN_WORST_CASE >= 1:
            raise InvalidParameter(
                "The exact sampler could need too many proposals with so many rows and columns, depending on the records.",
                'Use sampler="auto" without fixed_work, a larger regularization or delta, or a smaller epsilon.',
            )
        # All that can be refused is refused here, from public facts: after the charge nothing is.
        _ = self.cost, self.grid, self.worst_case.steps(self.tolerance / 2)

    @property
    def _least_acceptance(self) -> float:
        facts = self.facts
        return least_acceptance(facts.rows, facts.width, facts.norm_bound, facts.loss.largest_curvature, facts.penalty)

    @cached_property
    def cost(self) -> Cost:
        """Gaussian with the largest μ that (ε, δ) allows, or pure. Exact draws add nothing; those of the proximal sampler their distance."""
        if self.delta == 0:
            return pure_cost(self.epsilon)
        plan = self.proximal_plan
        distance = Fraction(0) if plan is None else plan.total_variation * self.facts.outputs * self.draws
        return gaussian_cost(self.epsilon, self.delta, distance)

    @property
    def lipschitz(self) -> float:
        """R times the largest slope; all rows of a unit count."""
        facts = self.facts
        return facts.norm_bound * facts.loss.largest_slope * facts.rows_per_unit

    @property
    def oscillation(self) -> float:
        """2RB."""
        return math.inf if self.radius is None else logistic_oscillation(self.facts, self.radius)

    @cached_property
    def grid(self) -> float:
        """About a thousandth of the smallest standard deviation that a parameter can have."""
        return self._grid_for(self.facts.loss.largest_curvature)

    @cached_property
    def tolerance(self) -> float:
        """The gradient norm that the solver must certify at the mode."""
        facts = self.facts
        wanted = math.sqrt(2 * _GRADIENT_COST * GRADIENT_SHARE * facts.penalty / self.inverse_temperature)
        return max(min(wanted, 1e-4 * facts.norm_bound * facts.rows), self.worst_case.least_gradient)

    @cached_property
    def proximal_plan(self) -> ProximalPlan | None:
        """What the proximal sampler would do; None where it is not asked for or cannot be near enough in time."""
        if self.sampler == "exact" or self.fixed_work or self.radius is not None:
            return None
        facts = self.facts
        distance = chain_distance(self.epsilon, self.delta, facts.outputs * self.draws)
        if distance < 1e-200:
            return None
        sizes = facts.rows, facts.width, facts.norm_bound
        try:
            return ProximalPlan(*sizes, self.inverse_temperature, facts.penalty, self.tolerance, distance)
        except InvalidParameter:
            return None

    def posterior(self, rows: Rows, output: int = 0) -> Posterior:
        """The law to draw from, around its certified mode; on a ball around that of the tilted law."""
        facts = self.facts
        signed = np.concatenate([matrix * targets[:, output : output + 1] for matrix, targets in rows.blocks()])

        def tilted(tilt: float) -> Posterior:
            penalty = facts.penalty + tilt
            objective = Objective(rows, facts.loss, penalty, np.zeros(facts.width), facts.norm_bound, output)
            worst = replace(self.worst_case, penalty=penalty)
            minimum = solved_gradient(objective, max(self.tolerance, worst.least_gradient), worst)
            return Posterior(
                signed,
                self.inverse_temperature,
                facts.penalty,
                facts.norm_bound,
                minimum.parameters,
                minimum.gradient_bound,
                radius=self.radius,
                tilt=tilt,
            )

        return _within_ball_on_average(tilted)

    def sampled(self, rows: Rows, source: NoiseSource) -> Sampled:
        """Draws of every output, with what their owner may know."""
        parts = [self._sampled_output(self.posterior(rows, output), source) for output in range(self.facts.outputs)]
        samplers = {part.sampler for part in parts}
        return Sampled(
            np.stack([part.points for part in parts], axis=1),
            "proximal" if "proximal" in samplers else "exact",
            min(part.acceptance for part in parts),
            sum(part.log_ratio for part in parts),
        )

    def _sampled_output(self, posterior: Posterior, source: NoiseSource) -> Sampled:
        found = self._drawn_exactly(posterior, source)
        if found is not None:
            points, acceptance = found.points, found.accepted / found.proposals
        else:
            points, acceptance = self._drawn_by_chains(posterior, source)
        # The bound's prior is the whole Gaussian, not its part in a ball.
        log_ratio = math.nan
        if self.radius is None:
            log_ratio = float(np.sum(log_ratio_bounds(posterior, points, self.grid)))
        return Sampled(points, "proximal" if found is None else "exact", acceptance, log_ratio)

    def _drawn_by_chains(self, posterior: Posterior, source: NoiseSource) -> tuple[Floats, float]:
        """Draws of the proximal sampler, and the share of proposals that were accepted."""
        plan = self.proximal_plan
        if plan is None:
            raise AssertionError("exact draws go on until they are done where there is nothing else")
        drawn = [proximal_draw(posterior, plan, self.grid, source) for _ in range(self.draws)]
        return np.array([draw.point for draw in drawn]), plan.steps * self.draws / sum(draw.proposals for draw in drawn)

    def _drawn_exactly(self, posterior: Posterior, source: NoiseSource) -> Draws | None:
        """Exact draws; None where the proximal sampler was asked for, would be quicker, or turns out to be.

        An accepted proposal is independent of how many came before it, so giving up changes nothing in the law of what is drawn.
        Where nothing else could be drawn instead, this goes on until it is done.
        """
        if self.sampler == "proximal":
            return None
        plan, bound = self.proximal_plan, envelope(posterior)
        if plan is None:
            least = FIXED_PROPOSALS * self.draws if self.fixed_work else 0
            return exact_draws(posterior, bound, self.grid, self.draws, source, least_proposals=least)
        expected = 1 / max(bound.expected_acceptance, 1e-300)
        if expected > min(_MOST_EXPECTED, 2.0 * plan.steps):
            return None
        most = math.ceil(_PATIENCE * (self.draws + 10) * expected)
        try:
            return exact_draws(posterior, bound, self.grid, self.draws, source, most)
        except NotSolved:
            return None


def _within_ball_on_average(tilted: Callable[[float], Posterior]) -> Posterior:
    """The posterior with the least tilt, nearly, at which the Gaussian around the mode has a mean square of at most the squared radius."""

    def room(posterior: Posterior) -> float:
        if posterior.radius is None:
            return math.inf
        curvature = expit(posterior.scores) * expit(-posterior.scores)
        hessian = posterior.rows.T @ (posterior.rows * curvature[:, np.newaxis])
        stiffness = np.maximum(np.linalg.eigvalsh(hessian), 0.0) + posterior.penalty + posterior.tilt
        spread = float(np.sum(1 / stiffness)) / posterior.inverse_temperature
        return posterior.radius**2 - float(posterior.mode @ posterior.mode) - spread

    found = tilted(0.0)
    if (left := room(found)) >= 0:
        return found
    low, high = 0.0, found.penalty
    while not (left := room(found := tilted(high))) >= 0:
        low, high = high, 2 * high
    for done in range(_TILT_BISECTIONS):
        if done >= _LEAST_TILT_BISECTIONS and found.inverse_temperature * high / 2 * left <= _TILT_SLACK:
            break
        middle = (low + high) / 2
        between = tilted(middle)
        if (left_between := room(between)) >= 0:
            high, found, left = middle, between, left_between
        else:
            low = middle
    return found


@dataclass(frozen=True)
class RidgeDraws(LinearDraws):
    """(ε, δ)-DP (μ-GDP, or ε-DP with δ = 0) draws from exp(−β(Σ ½(xᵀθ − y)² + (ρ/2)‖θ‖²)) on ‖θ‖ ≤ B, replace-one rows. Proof: proofs/gibbs.md.

    Targets lie in [−1, 1]. The gradients of two losses differ by at most R²B + 2R, twice L = R(RB/2 + 1).
    """

    facts: Facts
    radius: float
    epsilon: float
    delta: float
    draws: int = 1
    fixed_work: bool = False

    def __post_init__(self) -> None:
        DRAWS.check("draws", self.draws)
        check_penalty(self.facts)
        # All that can be refused is refused here, from public facts: after the charge nothing is.
        _ = self.cost, self.grid
        facts = self.facts
        check_gradient_cost(
            largest_gradient_cost(
                facts.rows, facts.width, self.inverse_temperature, facts.penalty, facts.norm_bound, self.radius
            )
        )

    @cached_property
    def cost(self) -> Cost:
        """Gaussian with the largest μ that (ε, δ) allows, or pure; drawing adds nothing, because it is exact."""
        return exact_draws_cost(self.epsilon, self.delta)

    @property
    def oscillation(self) -> float:
        """(RB + 1)²."""
        return squared_oscillation(self.facts, self.radius)

    @cached_property
    def lipschitz(self) -> float:
        """L, rounded up, for all rows of a unit."""
        facts = self.facts
        row = facts.norm_bound * (facts.norm_bound * self.radius / 2 + 1)
        return row * facts.rows_per_unit * (1 + 2.0**-48)

    @cached_property
    def grid(self) -> float:
        """About a thousandth of the smallest standard deviation that a parameter can have."""
        return self._grid_for(1.0)

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
        return drawn_from_envelope(*self.posterior(rows), self.grid, self.draws, self.fixed_work, source)


def drawn_from_envelope(
    posterior: Posterior, bound: Envelope, grid: float, draws: int, fixed_work: bool, source: NoiseSource
) -> Sampled:
    """Exact draws from a posterior on a ball, by its envelope; at least `FIXED_PROPOSALS` proposals a draw with `fixed_work`."""
    least = FIXED_PROPOSALS * draws if fixed_work else 0
    drawn = exact_draws(posterior, bound, grid, draws, source, least_proposals=least)
    return Sampled(drawn.points[:, np.newaxis], "exact", drawn.accepted / drawn.proposals, math.nan)
