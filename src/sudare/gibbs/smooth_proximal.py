"""Draws within a known total variation of a law ∝ e^{−U}, U smooth and strongly convex, in floats. Proof: proofs/smooth_samplers.md.

The proximal sampler of `proximal_sampler`, for a U that is known by values and gradients only, on all of ℝᵖ or on a ball.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.gibbs.float_rejection_sampler import check_log_ratio
from sudare.gibbs.lazy_uniforms import log_uniforms, normals
from sudare.gibbs.potentials import Curvature, Mode, Potential, bends_more, mode_in_ball, not_as_smooth
from sudare.privacy.accounting import rounded_up
from sudare.privacy.noise import NoiseSource

# Acceptance of a proposal is e^{−2} at least on average, as far as the curvature's trace goes.
_LARGEST_RESIDUAL: Final = 2.0
MOST_STEPS: Final = 100_000
_SMALLEST_DISTANCE: Final = 1e-200
# What the computed start may have in divergence beyond (p/2)·log(M/κ).
_START_SLACK: Final = 1.0
# Up to so many parameters the curvature at the mode is measured, for better starting points of searches.
_MEASURED_WIDTH: Final = 200
_MOST_SEARCH_STEPS: Final = 10_000
# Proposals of one step that are refused before it is asked whether U is as smooth as declared.
_PATIENCE: Final = 1_000


@dataclass(frozen=True)
class SmoothProximalPlan:
    """Step size and number of steps for a total variation of at most `distance`, from public numbers alone."""

    curvature: Curvature
    distance: float

    def __post_init__(self) -> None:
        if self.curvature.smoothness is None or not self.curvature.convexity > 0:
            raise InvalidParameter(
                "The proximal sampler needs a declared smoothness and a strongly convex exponent.",
                "Give smoothness, and a prior or regularization.",
            )
        if not self.distance >= _SMALLEST_DISTANCE:
            raise InvalidParameter(
                "The proximal sampler cannot keep within this epsilon and delta.",
                'Use a larger delta or a smaller epsilon, or sampler="langevin".',
            )
        if not self.steps <= MOST_STEPS:
            raise InvalidParameter(
                f"The proximal sampler would need {self.steps:,} steps, more than {MOST_STEPS:,}.",
                'Use a larger regularization, give laplacian, or use sampler="langevin".',
            )

    @property
    def _ratio(self) -> float:
        """M/κ."""
        return max(1.0, (self.curvature.smoothness or 0.0) / self.curvature.convexity)

    @cached_property
    def spread(self) -> float:
        """√η: half of the trace over the proposals' precision κ + 1/η is the residual that acceptance may have to bear."""
        wanted = (self.curvature.trace or 0.0) / (2 * _LARGEST_RESIDUAL) - self.curvature.convexity
        return 1 / math.sqrt(max(wanted, self.curvature.convexity))

    @cached_property
    def first_divergence(self) -> float:
        """KL of the start from the law: at most (p/2)log(M/κ), and something for the search."""
        return 0.5 * self.curvature.dimension * math.log(self._ratio) + _START_SLACK

    @cached_property
    def _rate(self) -> float:
        contraction: float = math.log1p(self.curvature.convexity * self.spread**2) * (1 - 1e-9)
        return contraction

    @cached_property
    def steps(self) -> int:
        """The number K of steps for which √(KL₀/2)·(1 + κη)^{−K} is at most the distance."""
        start = math.sqrt(self.first_divergence / 2)
        return max(1, math.ceil(math.log(start / self.distance) / self._rate + 1e-6))

    @cached_property
    def total_variation(self) -> Fraction:
        """A bound on the distance between what is drawn and the law, apart from rounding in floats."""
        mixing = math.sqrt(self.first_divergence / 2) * math.exp(-self.steps * self._rate)
        return Fraction(rounded_up(Fraction(mixing * (1 + 1e-9))))


class ProximalDraws(NamedTuple):
    """The draws, and the share of proposals that were accepted (for the owner only)."""

    points: Floats
    acceptance: float


def smooth_proximal_draws(
    potential: Potential, plan: SmoothProximalPlan, draws: int, source: NoiseSource
) -> ProximalDraws:
    """Independent chains, one a draw. Raise DataError where U is seen not to be as declared."""
    mode, slack = mode_in_ball(potential)
    known = potential.curvature
    ratio = (known.smoothness or 0.0) / known.convexity
    unsure = mode.left**2 / (2 * known.convexity) if known.radius is None else slack * math.sqrt(ratio)
    if not unsure <= _START_SLACK:
        raise not_as_smooth()
    chain = _Chain(potential, plan, mode)
    points = []
    for _ in range(draws):
        state = chain.started(source)
        for _ in range(plan.steps):
            state = chain.moved(state, source)
        points.append(state)
    return ProximalDraws(np.array(points), chain.accepted / chain.made)


class _Chain:
    """U = (κ/2)‖x‖² + h with h convex, and what all steps share."""

    def __init__(self, potential: Potential, plan: SmoothProximalPlan, mode: Mode) -> None:
        self.potential, self.plan, self.mode = potential, plan, mode
        known = potential.curvature
        self.width, self.radius = known.dimension, known.radius
        self.convexity, self.stiffness = known.convexity, known.smoothness or known.convexity
        self.pull = 1 / plan.spread**2
        self.precision = self.convexity + self.pull
        self._tangent = mode.point, mode.gradient
        self._inverse = self._inverse_curvature()
        self.made = self.accepted = 0

    def _inverse_curvature(self) -> Floats:
        """About (∇²U + I/η)⁻¹ at the mode; any matrix would do, as only searches start from it."""
        if self.width > _MEASURED_WIDTH:
            return np.eye(self.width) / (self.stiffness + self.pull)
        step = 1e-5 / math.sqrt(self.stiffness)
        columns = [
            (self.potential.gradient(self.mode.point + step * axis) - self.mode.gradient) / step
            for axis in np.eye(self.width)
        ]
        hessian = np.array(columns)
        return np.asarray(np.linalg.inv((hessian + hessian.T) / 2 + self.pull * np.eye(self.width)), dtype=np.float64)

    def started(self, source: NoiseSource) -> Floats:
        """A draw of ∝ exp(−gᵀv − (M/2)‖v‖²) around the mode, on the ball."""
        self._tangent = self.mode.point, self.mode.gradient
        return self._gaussian(self.mode.point - self.mode.gradient / self.stiffness, self.stiffness, source)

    def moved(self, state: Floats, source: NoiseSource) -> Floats:
        """One step: y = x + √η·z, and a draw of ∝ exp(−U(x) − ‖x − y‖²/2η)."""
        goal = state + self.plan.spread * self._normal(source)[0]
        place, slope = self._near_restricted_mode(goal)
        # The tangent plane of h at `place`; the parabolas of κ and η are exact.
        push = slope - self.convexity * place
        mean = (self.pull * goal - push) / self.precision
        lowest = self._rest(place)
        for tries in itertools.count():
            point = self._gaussian(mean, self.precision, source)
            rise = self._rest(point) - lowest
            log_ratio = -(rise - float(push @ (point - place)))
            check_log_ratio(log_ratio, rise)
            self.made += 1
            if log_uniforms(source.words(1))[0][0] < log_ratio:
                self.accepted += 1
                return point
            if tries >= _PATIENCE and bends_more(self.potential, place, slope, point):
                break
        raise not_as_smooth()

    def _rest(self, point: Floats) -> float:
        """h = U − (κ/2)‖x‖²."""
        return self.potential.value(point) - self.convexity / 2 * float(point @ point)

    def _near_restricted_mode(self, goal: Floats) -> tuple[Floats, Floats]:
        """A point of the ball near the mode of U + ‖x − y‖²/2η, and ∇U there: a Newton step from the last such point, then gradient steps."""
        place, slope = self._tangent
        place = self._projected(place - self._inverse @ (slope + self.pull * (place - goal)))
        slope = self.potential.gradient(place)
        stiffness = self.stiffness + self.pull
        for _ in range(_MOST_SEARCH_STEPS):
            after = self._projected(place - (slope + self.pull * (place - goal)) / stiffness)
            if float(np.linalg.norm(after - place)) * stiffness <= math.sqrt(self.precision):
                break
            place, slope = after, self.potential.gradient(after)
        self._tangent = place, slope
        return place, slope

    def _projected(self, point: Floats) -> Floats:
        if self.radius is None:
            return point
        size = float(np.linalg.norm(point))
        return point if size <= self.radius else point * (self.radius / size)

    def _gaussian(self, mean: Floats, precision: float, source: NoiseSource) -> Floats:
        """A draw of N(mean, I/precision) restricted to the ball, by way of a narrower one that lies there on average."""
        if self.radius is None:
            return np.asarray(mean + self._normal(source)[0] / math.sqrt(precision))
        square = self.radius**2
        pushed = precision * float(np.linalg.norm(mean))
        narrow = (self.width + math.sqrt(self.width**2 + 4 * square * pushed**2)) / (2 * square)
        tilted = max(precision, narrow)
        while True:
            normal, limit = self._normal(source)
            point = precision / tilted * mean + normal / math.sqrt(tilted)
            size = float(point @ point)
            if size <= square and limit < -(tilted - precision) / 2 * (square - size):
                return np.asarray(point)

    def _normal(self, source: NoiseSource) -> tuple[Floats, float]:
        """A standard normal vector, and the logarithm of a uniform number."""
        words = source.words(self.width + self.width % 2 + 1)
        return normals(words[1:])[0][: self.width], float(log_uniforms(words[:1])[0][0])
