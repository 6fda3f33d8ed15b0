"""Draws within a known total variation of a law ∝ e^{−U}, U smooth and strongly convex, in floats. Proof: proofs/smooth_samplers.md.

The proximal sampler of `proximal_sampler`, for a U that is known by values and gradients only, on all of ℝᵖ or on a ball. Any size of steps gives the
distance that is charged, with as many steps as that size needs: the size is chosen by what short trials on this U cost.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple, cast

import numpy as np
from scipy.special import gammainc, gammaln

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.gibbs.float_rejection_sampler import check_log_ratio
from sudare.gibbs.lazy_uniforms import log_uniforms, normals
from sudare.gibbs.potentials import Curvature, Potential, Start, bends_more, not_as_smooth, start_near_mode
from sudare.privacy.accounting import rounded_up
from sudare.privacy.noise import NoiseSource

# Acceptance of a proposal is e^{−2} at least on average, as far as the curvature's trace goes; the point where the tangent is taken may cost half more.
_LARGEST_RESIDUAL: Final = 2.0
_TANGENT_COST: Final = 0.5
MOST_STEPS: Final = 100_000
# In a ball: how much shorter steps may be, as powers of the root of two.
_SHORTER: Final = 25
_SMALLEST_DISTANCE: Final = 1e-200
# What the computed start may have in divergence beyond (p/2)·log(M/κ).
_START_SLACK: Final = 1.0
# Up to so many parameters the curvature at the mode is measured, for better starting points of searches.
_MEASURED_WIDTH: Final = 200
_MOST_SEARCH_STEPS: Final = 10_000
# Proposals of one step that are refused before it is asked whether U is as smooth as declared, and before a longer step is drawn by a chain of its own.
_PATIENCE: Final = 1_000
_MOST_PROPOSALS: Final = 1_000
# Longer steps: how many times the η before, until 1/η is below κ over this; how many steps a trial has, and how many proposals each of them may take.
_FACTOR: Final = 4.0
_LONGEST: Final = 10.0
_TRIAL_STEPS: Final = 10
_TRIAL_PROPOSALS: Final = 100
# With so few steps nothing is tried.
_FEW_STEPS: Final = 100


@dataclass(frozen=True)
class Steps:
    """So many steps of variance η = spread². Where proposals of a step are refused too often, it is drawn by the `restricted` plan; None where that does not happen."""

    spread: float
    count: int
    restricted: SmoothProximalPlan | None = None


@dataclass(frozen=True)
class SmoothProximalPlan:
    """Steps for a total variation of at most `distance`, from public numbers alone: `sure` ones, whose proposals are accepted often for every U, and longer ones."""

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
        # As many proposals on average, for the worst table, as of so many steps without a ball.
        if not math.log(self.steps) + self.residual <= math.log(MOST_STEPS) + _LARGEST_RESIDUAL + _TANGENT_COST:
            raise InvalidParameter(
                f"The proximal sampler would need {self.steps:,} steps, more than can be made for every table.",
                'Use a larger regularization, give laplacian, or use sampler="langevin".',
            )

    @property
    def _ratio(self) -> float:
        """M/κ."""
        return max(1.0, (self.curvature.smoothness or 0.0) / self.curvature.convexity)

    @cached_property
    def spread(self) -> float:
        """√η: half of the trace over the proposals' precision κ + 1/η is the residual that acceptance may have to bear. In a ball, the one with the fewest proposals for the worst table."""
        known = self.curvature
        pull = max((known.trace or 0.0) / (2 * _LARGEST_RESIDUAL) - known.convexity, known.convexity)
        if known.radius is None:
            return 1 / math.sqrt(pull)
        spreads = [1 / math.sqrt(pull * 2 ** (power / 2)) for power in range(_SHORTER)]
        return min(spreads, key=lambda spread: math.log(self._count(spread, self.distance)) + self._residual(spread))

    @cached_property
    def residual(self) -> float:
        """Acceptance of a proposal of a sure step is e^{−residual} at least, on average."""
        return self._residual(self.spread)

    def _residual(self, spread: float) -> float:
        known = self.curvature
        precision, trace = known.convexity + 1 / spread**2, known.trace or 0.0
        if known.radius is None:
            return trace / (2 * precision) + _TANGENT_COST
        most = min(trace, (known.smoothness or 0.0) - known.convexity)
        depth = known.radius * mean_depth(known.dimension, precision * known.radius**2)
        return trace / (2 * precision) + (math.sqrt(most) * depth + 1) ** 2 / 2

    @cached_property
    def first_divergence(self) -> float:
        """KL of the start from the law: at most (p/2)log(M/κ), and something for the search."""
        return 0.5 * self.curvature.dimension * math.log(self._ratio) + _START_SLACK

    def _count(self, spread: float, distance: float) -> int:
        """The number K of steps for which √(KL₀/2)·(1 + κη)^{−K} is at most that distance."""
        start = math.sqrt(self.first_divergence / 2)
        rate = math.log1p(self.curvature.convexity * spread**2) * (1 - 1e-9)
        return max(1, math.ceil(math.log(start / distance) / rate + 1e-6))

    @cached_property
    def steps(self) -> int:
        """How many sure steps a draw takes."""
        return self._count(self.spread, self.distance)

    @property
    def sure(self) -> Steps:
        """Steps of `spread`."""
        return Steps(self.spread, self.steps)

    @cached_property
    def longer(self) -> tuple[Steps, ...]:
        """Longer and longer steps, as far as each restricted law can be drawn by sure steps of its own: half of the distance is for these, the other for mixing."""
        found: list[Steps] = []
        pull = 1 / self.spread**2
        while (pull := pull / _FACTOR) * _LONGEST >= self.curvature.convexity:
            spread = 1 / math.sqrt(pull)
            count = self._count(spread, self.distance / 2)
            try:
                restricted = SmoothProximalPlan(self._restricted(spread), self.distance / (2 * count))
            except InvalidParameter:
                break
            found.append(Steps(spread, count, restricted))
        return tuple(found)

    def _restricted(self, spread: float) -> Curvature:
        """What is public about U(x) + ‖x − y‖²/2η."""
        pull, known = 1 / spread**2, self.curvature
        return replace(known, convexity=known.convexity + pull, smoothness=(known.smoothness or 0.0) + pull)

    @cached_property
    def total_variation(self) -> Fraction:
        """A bound on the distance between what is drawn and the law, apart from rounding in floats."""
        return Fraction(rounded_up(Fraction(self.distance)))


def mean_depth(dimension: int, precision: float) -> float:
    """How far below its tangent plane a Gaussian of that precision around a point of the unit sphere lies on average, restricted to the ball. By quadrature."""
    depth = np.concatenate([np.geomspace(1e-9, 1e-2, 400, endpoint=False), np.linspace(1e-2, 2.0, 800)])
    half, square = (dimension - 1) / 2, precision / 2 * depth * (2 - depth)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The first term of the series where the other is no longer a number.
        first = half * np.log(square) - square - gammaln(half + 1) - np.log1p(-np.minimum(square / (half + 1), 0.5))
        across = np.log(gammainc(half, square)) if half > 0 else np.zeros_like(depth)
    logs = np.where(np.isfinite(across), across, first) - precision / 2 * depth**2
    weights = np.exp(logs - logs.max()) * np.gradient(depth)
    return float(weights @ depth / weights.sum())


class ProximalDraws(NamedTuple):
    """The draws, and the share of proposals that were accepted (for the owner only)."""

    points: Floats
    acceptance: float


def smooth_proximal_draws(
    potential: Potential, plan: SmoothProximalPlan, draws: int, source: NoiseSource
) -> ProximalDraws:
    """Independent chains, one a draw. Raise DataError where U is seen not to be as declared."""
    shape = _Shape.of(potential)
    chain = _Chain(shape, _quickest(shape, plan, draws, source))
    points = [chain.drawn(source) for _ in range(draws)]
    return ProximalDraws(np.array(points), chain.accepted / chain.made)


class _Shape(NamedTuple):
    """U, a point near its mode, and about ∇²U there; None where there are too many parameters to measure it."""

    potential: Potential
    mode: Start
    hessian: Floats | None

    @classmethod
    def of(cls, potential: Potential) -> _Shape:
        """Raise DataError where no mode is found, as one of a U as declared would be."""
        mode, width = _found_mode(potential), potential.curvature.dimension
        if width > _MEASURED_WIDTH:
            return cls(potential, mode, None)
        step = 1e-5 / math.sqrt(potential.curvature.smoothness or 1.0)
        columns = [(potential.gradient(mode.point + step * axis) - mode.gradient) / step for axis in np.eye(width)]
        hessian = np.array(columns)
        return cls(potential, mode, (hessian + hessian.T) / 2)

    def restricted(self, goal: Floats, spread: float, curvature: Curvature) -> _Shape:
        """That of U(x) + ‖x − y‖²/2η."""
        pull, whole = 1 / spread**2, self.potential

        def value(point: Floats) -> float:
            return whole.value(point) + pull / 2 * float((point - goal) @ (point - goal))

        def gradient(point: Floats) -> Floats:
            return whole.gradient(point) + pull * (point - goal)

        potential = replace(whole, value=value, gradient=gradient, curvature=curvature)
        hessian = None if self.hessian is None else self.hessian + pull * np.eye(len(goal))
        return _Shape(potential, _found_mode(potential), hessian)


def _found_mode(potential: Potential) -> Start:
    mode = start_near_mode(potential, _START_SLACK)
    if not mode.divergence <= _START_SLACK:
        raise not_as_smooth()
    return mode


def _quickest(shape: _Shape, plan: SmoothProximalPlan, draws: int, source: NoiseSource) -> Steps:
    """The steps that take fewest evaluations of U, by short trials: longer ones as long as that falls.

    Trials have noise of their own and are forgotten, so that whatever they find, a chain of the chosen steps is as near to the law as planned.
    """
    chosen = plan.sure
    if chosen.count * draws <= _FEW_STEPS:
        return chosen
    least = _trial(shape, chosen, source)
    for steps in plan.longer:
        work = _trial(shape, steps, source)
        if not work < least:
            break
        chosen, least = steps, work
    return chosen


def _trial(shape: _Shape, steps: Steps, source: NoiseSource) -> float:
    """About how many evaluations a chain takes; infinite where a step of a short one is refused too often."""
    chain = _Chain(shape, steps)
    state = chain.started(source)
    for _ in range(_TRIAL_STEPS):
        after = chain.tried(chain.goal(state, source), source, _TRIAL_PROPOSALS)
        if after is None:
            return math.inf
        state = after
    return chain.evaluations / _TRIAL_STEPS * steps.count


class _Chain:
    """U = (κ/2)‖x‖² + h with h convex, and what all steps share."""

    def __init__(self, shape: _Shape, steps: Steps) -> None:
        self.shape, self.steps = shape, steps
        self.potential, self.mode = shape.potential, shape.mode
        known = self.potential.curvature
        self.width, self.radius = known.dimension, known.radius
        self.convexity, self.stiffness = known.convexity, known.smoothness or known.convexity
        self.pull = 1 / steps.spread**2
        self.precision = self.convexity + self.pull
        self._tangent = self.mode.point, self.mode.gradient
        # About (∇²U + I/η)⁻¹; any matrix would do, as only searches use it.
        self._inverse = (
            np.eye(self.width) / (self.stiffness + self.pull)
            if shape.hessian is None
            else np.linalg.inv(shape.hessian + self.pull * np.eye(self.width))
        )
        self.made = self.accepted = self.evaluations = 0

    def drawn(self, source: NoiseSource) -> Floats:
        """The state after all steps."""
        state = self.started(source)
        for _ in range(self.steps.count):
            goal = self.goal(state, source)
            state = self._restricted_draw(goal, source)
        return state

    def started(self, source: NoiseSource) -> Floats:
        """A draw of ∝ exp(−gᵀv − (M/2)‖v‖²) around the mode, on the ball."""
        self._tangent = self.mode.point, self.mode.gradient
        return self._gaussian(self.mode.point - self.mode.gradient / self.stiffness, self.stiffness, source)

    def goal(self, state: Floats, source: NoiseSource) -> Floats:
        """y = x + √η·z."""
        return np.asarray(state + self.steps.spread * self._normal(source)[0])

    def _restricted_draw(self, goal: Floats, source: NoiseSource) -> Floats:
        """A draw of ∝ exp(−U(x) − ‖x − y‖²/2η), or of a law within the distance of the `restricted` plan: how often proposals are refused tells nothing of what is accepted."""
        plan, spread = self.steps.restricted, self.steps.spread
        point = self.tried(goal, source, math.inf if plan is None else _MOST_PROPOSALS)
        if point is None and plan is not None:
            point = _Chain(self.shape.restricted(goal, spread, plan.curvature), plan.sure).drawn(source)
        return cast(Floats, point)

    def tried(self, goal: Floats, source: NoiseSource, most: float) -> Floats | None:
        """An accepted proposal, which has the law ∝ exp(−U(x) − ‖x − y‖²/2η); None where so many are refused. Raise DataError where U is seen to bend more than declared."""
        place, slope = self._near_restricted_mode(goal)
        # The tangent plane of h at `place`; the parabolas of κ and η are exact.
        push = slope - self.convexity * place
        mean = (self.pull * goal - push) / self.precision
        lowest = self._value(place)
        for tries in itertools.count(1):
            point = self._gaussian(mean, self.precision, source)
            rise, move = self._value(point) - lowest, point - place
            # That of h over its tangent plane: in differences, as squares of θ would have no digits left where the mode is far from zero.
            log_ratio = -(rise - float(slope @ move) - self.convexity / 2 * float(move @ move))
            check_log_ratio(log_ratio, rise, abs(lowest))
            self.made += 1
            if log_uniforms(source.words(1))[0][0] < log_ratio:
                self.accepted += 1
                return point
            if tries > _PATIENCE and bends_more(self.potential, place, slope, point):
                raise not_as_smooth()
            if tries > most:
                break
        return None

    def _value(self, point: Floats) -> float:
        self.evaluations += 1
        return self.potential.value(point)

    def _near_restricted_mode(self, goal: Floats) -> tuple[Floats, Floats]:
        """A point of the ball near the mode of U + ‖x − y‖²/2η, and ∇U there: a Newton step from the last such point, then gradient steps.

        Any point would be right. Near enough is where the gradient that is left takes about e^{−1/2} off acceptance at most.
        """
        place, slope = self._tangent
        place = self._projected(place - self._inverse @ (slope + self.pull * (place - goal)))
        slope = self._slope(place)
        stiffness = self.stiffness + self.pull
        for _ in range(_MOST_SEARCH_STEPS):
            after = self._projected(place - (slope + self.pull * (place - goal)) / stiffness)
            if float(np.linalg.norm(after - place)) * stiffness <= self.precision / math.sqrt(stiffness):
                break
            place, slope = after, self._slope(after)
        self._tangent = place, slope
        return place, slope

    def _slope(self, point: Floats) -> Floats:
        self.evaluations += 1
        return self.potential.gradient(point)

    def _projected(self, point: Floats) -> Floats:
        if self.radius is None:
            return point
        size = float(np.linalg.norm(point))
        return point if size <= self.radius else point * (self.radius / size)

    def _gaussian(self, mean: Floats, precision: float, source: NoiseSource) -> Floats:
        """A draw of N(mean, I/precision) restricted to the ball: by way of a narrower one that lies there on average, or, where the mean is far outside, from the pole on inwards."""
        if self.radius is None:
            return np.asarray(mean + self._normal(source)[0] / math.sqrt(precision))
        square, size = self.radius**2, float(np.linalg.norm(mean))
        pushed = precision * size
        if precision * (size - self.radius) ** 2 >= 1 and size > self.radius and pushed * self.radius >= self.width**2:
            return self._below_pole(mean / size, size, precision, self.radius, source)
        narrow = (self.width + math.sqrt(self.width**2 + 4 * square * pushed**2)) / (2 * square)
        tilted = max(precision, narrow)
        while True:
            normal, limit = self._normal(source)
            point = precision / tilted * mean + normal / math.sqrt(tilted)
            size = float(point @ point)
            if size <= square and limit < -(tilted - precision) / 2 * (square - size):
                return np.asarray(point)

    def _below_pole(self, pole: Floats, size: float, precision: float, radius: float, source: NoiseSource) -> Floats:
        """The same for a mean of that size far outside: how far below the tangent plane at the pole is about exponential, where across is normal."""
        fall = precision * (size - radius)
        while True:
            normal, limit = self._normal(source)
            across = (normal - float(normal @ pole) * pole) / math.sqrt(precision * size / radius)
            square = float(across @ across)
            depth = square / (2 * radius) - float(log_uniforms(source.words(1))[0][0]) / fall
            if square <= depth * (2 * radius - depth) and limit < -precision / 2 * depth**2:
                return np.asarray((radius - depth) * pole + across)

    def _normal(self, source: NoiseSource) -> tuple[Floats, float]:
        """A standard normal vector, and the logarithm of a uniform number."""
        words = source.words(self.width + self.width % 2 + 1)
        return normals(words[1:])[0][: self.width], float(log_uniforms(words[:1])[0][0])
