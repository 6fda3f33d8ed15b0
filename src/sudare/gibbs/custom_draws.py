"""Draws from Gibbs posteriors of losses that a user supplies, as private mechanisms: what they cost and which sampler makes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.gibbs.exponential_mechanism import ExponentialLaw, candidate_draws, grid_draws
from sudare.gibbs.float_rejection_sampler import MOST_PROPOSALS, rejection_draws
from sudare.gibbs.langevin import LangevinPlan, langevin_draws
from sudare.gibbs.mechanisms import FIXED_PROPOSALS, chain_distance, check_log_range
from sudare.gibbs.potentials import Curvature, Potential, start_rounding
from sudare.gibbs.priors import Prior, QuadraticPrior
from sudare.gibbs.smooth_proximal import SmoothProximalPlan, smooth_proximal_draws
from sudare.gibbs.temperatures import largest_beta, proportional_beta, pure_beta
from sudare.privacy.accounting import Cost, exact, gaussian_mu_within, pure_cost, rounded_up
from sudare.privacy.mechanisms import power_of_two_below
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release_content import on_grid

Function = Callable[[Floats], Floats]

CustomSampler = Literal["exact", "rejection", "proximal", "langevin"]
CUSTOM_SAMPLERS: Final = ("auto", *get_args(CustomSampler))
_GRID_BITS: Final = 20
# Evaluations of the loss or its gradient in a step of the proximal sampler, about.
_EVALUATIONS_A_STEP: Final = 4
# β Σ loss may change by this over where its mode can be: its last digit is a 64th then. And what rounding of gradients may add to a chain's first divergence.
_LARGEST_SUM: Final = 2.0**46
_START_ROUNDING: Final = 0.5
# On the grid of exact draws a prior that lies outside of the ball may fall by so much from a point to the next.
_LARGEST_FALL: Final = 0.5
# Floats next to each other are at most so much of their size apart; with room for sums over coordinates.
_FAR_ROUNDING: Final = 2.0**-48


class CustomSampled(NamedTuple):
    """Draws on the grid, and the share of proposals that were accepted (for the owner only)."""

    points: Floats
    acceptance: float


@dataclass(frozen=True)
class CustomDraws:
    """(ε, δ)-DP (μ-GDP, or ε-DP with δ = 0) draws from exp(−β Σ loss)·prior, replace-one rows, if the loss is as declared. Proof: proofs/gibbs.md.

    Without a prior it is exp(−β(ρ/2)‖θ‖²). With a declared `smoothness` draws go on until they are done, and what could take too long is refused beforehand, from
    public facts. Without one they give up where that seems hopeless, which tells something about the records: for their owner only.
    """

    rows: int
    dimension: int
    lipschitz: float
    strong_convexity: float
    penalty: float
    epsilon: float
    delta: float
    draws: int = 1
    fixed_work: bool = False
    smoothness: float | None = None
    laplacian: float | None = None
    prior: Prior | None = None
    radius: float | None = None
    loss_range: tuple[float, float] | None = None
    beta: float | None = None
    sampler: Literal["auto", "exact", "rejection", "proximal", "langevin"] = "auto"

    def __post_init__(self) -> None:
        self._check_promise()
        self._check_constants()
        if self.beta is not None and not self.beta <= self.largest_inverse_temperature:
            raise InvalidParameter(
                f"beta is {self.beta!r}, more than the {self.largest_inverse_temperature:.6g} that epsilon and delta allow.",
                "Use a smaller beta, or a larger epsilon or delta.",
            )
        # All that can be refused is refused here, from public facts: after the charge nothing is.
        _ = self.chosen_sampler, self.cost, self.grid
        if self.chosen_sampler in ("exact", "rejection") and self.smoothness is not None:
            self._check_acceptance()
        if self.chosen_sampler in ("rejection", "proximal"):
            self._check_rounding()
        if self.chosen_sampler == "exact" and self.radius is not None:
            outside = self._pull > self.effective_prior.strong_convexity * self.radius
            if outside and not self._pull * self.grid <= _LARGEST_FALL:
                raise InvalidParameter(
                    "The prior pulls so hard out of the ball that exact draws could take too many proposals.",
                    "Use a wider prior, or a larger radius.",
                )

    def _check_promise(self) -> None:
        if self.delta == 0:
            if self.loss_range is None:
                raise InvalidParameter(
                    "delta = 0 needs bounded losses.", "Give loss_range=(low, high), or candidates, or delta > 0."
                )
            if self.radius is None:
                raise InvalidParameter(
                    "delta = 0 needs a ball: a convex loss that is bounded everywhere is constant.", "Give radius."
                )
        elif self.sampler == "exact":
            raise InvalidParameter("Only draws with delta = 0 are exact.", 'Use sampler="auto", or delta=0.')
        if self.delta == 0 and self.sampler not in ("auto", "exact"):
            raise InvalidParameter(
                f'sampler="{self.sampler}" is not exact, so it cannot keep a pure promise.', 'Use sampler="auto".'
            )
        if self.fixed_work and self.sampler == "proximal":
            raise InvalidParameter("The proximal sampler has no fixed work.", 'Use sampler="rejection" or "langevin".')

    def _check_constants(self) -> None:
        """Raise InvalidParameter where no loss is as declared: it would be charged for, and stopped."""
        if self.smoothness is not None and self.smoothness < self.strong_convexity:
            raise InvalidParameter(
                "No loss bends less than its strong convexity.", "Give a smoothness that is at least strong_convexity."
            )
        # The product may be above what it stands for in its last digits.
        if self.laplacian is not None and self.laplacian < self.dimension * self.strong_convexity * (1 - 1e-9):
            raise InvalidParameter(
                "No loss bends less in all directions together than its strong convexity times dimension.",
                "Give a laplacian that is at least that.",
            )

    def _check_acceptance(self) -> None:
        if self.chosen_sampler == "exact":
            check_log_range(self.inverse_temperature * self.rows * self._range)
        if not self.curvature.least_acceptance * MOST_PROPOSALS >= 1:
            raise InvalidParameter(
                "The sampler could need too many proposals with so many rows and parameters, depending on the records.",
                'Use a larger regularization, declare laplacian where losses bend in few directions, or (delta > 0) use sampler="langevin".',
            )

    def _check_rounding(self) -> None:
        """Raise InvalidParameter where floats could not tell losses apart as well as a draw needs, whatever the records are."""
        slope, known = self.inverse_temperature * self.rows * self.lipschitz, self.curvature
        if known.convexity > 0:
            farthest = min(slope / known.convexity, math.inf if known.radius is None else known.radius)
            starts = start_rounding(known, self._gradient_rounding)
            sums = slope * farthest <= _LARGEST_SUM and self._is_near_enough
            if sums and (self.chosen_sampler == "rejection" or starts <= _START_ROUNDING):
                return
        raise InvalidParameter(
            "The posterior is narrower than floating point can draw from.",
            "Use a smaller beta (or epsilon), fewer rows, or a stronger prior or regularization.",
        )

    @cached_property
    def _pull(self) -> float:
        """How steep the logarithm of the prior is at zero."""
        slope = self.effective_prior.gradient(np.zeros(self.dimension))
        return float(np.linalg.norm(np.asarray(slope, dtype=np.float64)))

    @property
    def _is_near_enough(self) -> bool:
        """Whether floats are so close where the prior has its mode that U's gradient there can be told apart from zero."""
        known = self.curvature
        place = min(self._pull / known.convexity, math.inf if known.radius is None else known.radius)
        stiffness = known.convexity if known.smoothness is None else known.smoothness
        return stiffness * place * _FAR_ROUNDING <= math.sqrt(known.convexity)

    @property
    def _gradient_rounding(self) -> float:
        """More than floats can do to the gradient of β Σ loss."""
        return 1e-12 * self.inverse_temperature * self.rows * self.lipschitz

    @cached_property
    def largest_inverse_temperature(self) -> float:
        """The largest β that (ε, δ) allows: βΩ = ε with Ω twice the losses' range, or 2βL/√κ = μ."""
        if self.delta == 0:
            return self._weight_of_range / self._range
        square = gaussian_mu_within(self.epsilon, self.delta) ** 2 / self.draws
        if self.prior is None:
            return proportional_beta(square, self.lipschitz, self.penalty + self.rows * self.strong_convexity)
        prior = self.prior.strong_convexity
        return largest_beta(square, self.lipschitz, prior, self.strong_convexity, self.rows)

    @cached_property
    def inverse_temperature(self) -> float:
        """β as asked for, or the largest."""
        return self.largest_inverse_temperature if self.beta is None else self.beta

    @property
    def _range(self) -> float:
        low, high = self.loss_range or (0.0, 0.0)
        return high - low

    @cached_property
    def _weight_of_range(self) -> float:
        """The largest w with which losses scaled to [0, 1] may count: 2w is ε over the draws, rounded down."""
        return pure_beta(self.epsilon / self.draws, 2.0)

    @cached_property
    def curvature(self) -> Curvature:
        """What is public about U = β Σ loss − log prior."""
        beta, prior, count = self.inverse_temperature, self.effective_prior, self.rows
        convexity = prior.strong_convexity + beta * count * self.strong_convexity
        if self.smoothness is None or prior.smoothness is None:
            return Curvature(self.dimension, convexity, None, None, self.radius)
        smoothness = max(convexity, prior.smoothness + beta * count * self.smoothness)
        bends = max(0.0, self.smoothness - self.strong_convexity) * self.dimension
        if self.laplacian is not None:
            bends = min(bends, max(0.0, self.laplacian - self.dimension * self.strong_convexity))
        trace = self.dimension * max(0.0, prior.smoothness - prior.strong_convexity) + beta * count * bends
        return Curvature(self.dimension, convexity, smoothness, trace, self.radius)

    @cached_property
    def effective_prior(self) -> Prior:
        """The prior, or exp(−(βρ/2)‖θ‖²)."""
        return QuadraticPrior(self.inverse_temperature * self.penalty) if self.prior is None else self.prior

    @cached_property
    def chosen_sampler(self) -> CustomSampler:
        """The sampler as asked for; with "auto" exact for δ = 0, else that of rejection and proximal which is sure to need less work."""
        if self.sampler != "auto":
            return self.sampler
        if self.delta == 0:
            return "exact"
        if self.smoothness is None or self.fixed_work:
            return "rejection"
        try:
            steps = self.proximal_plan.steps
        except InvalidParameter:
            return "rejection"
        return "rejection" if self.curvature.least_acceptance * _EVALUATIONS_A_STEP * steps >= 1 else "proximal"

    @cached_property
    def proximal_plan(self) -> SmoothProximalPlan:
        """What the proximal sampler does for every draw."""
        return SmoothProximalPlan(self.curvature, chain_distance(self.epsilon, self.delta, self.draws))

    @cached_property
    def langevin_plan(self) -> LangevinPlan:
        """What Langevin's steps are for every draw."""
        return LangevinPlan(self.curvature)

    @cached_property
    def cost(self) -> Cost:
        """Pure; or Gaussian with the μ of β, within the largest that (ε, δ) allows, and the distance of the proximal sampler."""
        if self.delta == 0:
            return pure_cost(self.epsilon)
        slope = 2 * self.inverse_temperature * self.lipschitz
        distance = Fraction(0)
        if self.chosen_sampler == "langevin":
            one = self.langevin_plan.mu(slope)
        else:
            one = slope / math.sqrt(self.curvature.convexity) * (1 + 1e-12)
        if self.chosen_sampler == "proximal":
            distance = self.proximal_plan.total_variation * self.draws
        mu = min(gaussian_mu_within(self.epsilon, self.delta), one * math.sqrt(self.draws) * (1 + 1e-12))
        return Cost(exact(self.epsilon), exact(self.delta), mu, Fraction(rounded_up(distance)))

    def wasserstein_distance(self, slope: Floats) -> float:
        """Returns a bound on the distance of Langevin's last point from the posterior; zero for other samplers. `slope` is the gradient of the summed loss at zero.

        Infinite where that is longer than n·L: gradients that only differ by 2L at most may be of any length, and the mode anywhere.
        """
        if self.chosen_sampler != "langevin":
            return 0.0
        # A part in 10⁹ for the rounding of a sum.
        longest = self.rows * self.lipschitz * (1 + 1e-9)
        if not float(np.linalg.norm(slope)) <= longest:
            return math.inf
        return self.langevin_plan.wasserstein_distance(self.inverse_temperature * longest + self._pull)

    @property
    def noise_scale(self) -> float:
        """The largest standard deviation that a parameter can have, nearly."""
        return 1 / math.sqrt(self.curvature.least_envelope_precision)

    @cached_property
    def grid(self) -> float:
        """The grid of the draws: about a millionth of the noise scale."""
        return power_of_two_below(self.noise_scale) * 2.0**-_GRID_BITS

    def potential(self, losses: Function, gradient: Function) -> Potential:
        """U, from one loss a row and the gradient of their sum."""
        beta, prior = self.inverse_temperature, self.effective_prior

        def value(point: Floats) -> float:
            return beta * float(np.sum(losses(point))) - float(prior.log_density(point))

        def slope(point: Floats) -> Floats:
            return np.asarray(beta * gradient(point) - np.asarray(prior.gradient(point), dtype=np.float64))

        return Potential(value, slope, self.curvature, self._gradient_rounding)

    def sampled(self, losses: Function, gradient: Function, source: NoiseSource) -> CustomSampled:
        """Draws on the grid; `losses` gives one number a row, `gradient` that of their sum."""
        potential = self.potential(losses, gradient)
        least = FIXED_PROPOSALS * self.draws if self.fixed_work else 0
        if self.chosen_sampler == "exact":
            law = self.law(losses)
            return CustomSampled(*grid_draws(law, potential, self.grid, self.draws, source, least))
        if self.chosen_sampler == "langevin":
            points, acceptance = langevin_draws(potential, self.langevin_plan, self.draws, source), 1.0
        elif self.chosen_sampler == "proximal":
            points, acceptance = smooth_proximal_draws(potential, self.proximal_plan, self.draws, source)
        else:
            points, acceptance = rejection_draws(potential, self.draws, source, least)
        return CustomSampled(on_grid(points, self.grid), acceptance)

    def law(self, losses: Function) -> ExponentialLaw:
        """The exact law with δ = 0."""
        if self.loss_range is None:
            raise AssertionError("refused when this was made")
        weight = min(self.inverse_temperature * self._range, self._weight_of_range)
        return ExponentialLaw(losses, self.loss_range, self.rows, weight, self.effective_prior.log_density)


@dataclass(frozen=True)
class CandidateDraws:
    """ε-DP draws among listed points from exp(−β Σ loss)·prior (Theorem 2), replace-one rows, whatever the loss is. Proof: proofs/gibbs.md."""

    rows: int
    loss_range: tuple[float, float]
    epsilon: float
    draws: int = 1
    beta: float | None = None
    prior: Prior | None = None

    def __post_init__(self) -> None:
        _ = self.cost
        if self.beta is not None and not self.beta * self._range <= self._largest_weight:
            raise InvalidParameter("beta is more than epsilon allows.", "Use a smaller beta, or a larger epsilon.")

    @property
    def _range(self) -> float:
        return self.loss_range[1] - self.loss_range[0]

    @cached_property
    def _largest_weight(self) -> float:
        return pure_beta(self.epsilon / self.draws, 2.0)

    @cached_property
    def inverse_temperature(self) -> float:
        """β as asked for, or ε over twice the range and the draws."""
        return self._largest_weight / self._range if self.beta is None else self.beta

    @cached_property
    def cost(self) -> Cost:
        """Pure."""
        return pure_cost(self.epsilon)

    @property
    def noise_scale(self) -> float:
        """How much better than another a candidate must be in summed loss to be e times as likely."""
        return 1 / self.inverse_temperature

    def law(self, losses: Function) -> ExponentialLaw:
        """The exact law."""
        weight = min(self.inverse_temperature * self._range, self._largest_weight)
        prior = QuadraticPrior(0.0) if self.prior is None else self.prior
        return ExponentialLaw(losses, self.loss_range, self.rows, weight, prior.log_density)

    def sampled(self, losses: Function, candidates: Floats, source: NoiseSource) -> CustomSampled:
        """Drawn candidates."""
        return CustomSampled(candidate_draws(self.law(losses), candidates, self.draws, source), 1.0)
