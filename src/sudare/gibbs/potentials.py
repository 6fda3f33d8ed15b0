"""Laws ∝ e^{−U} whose U is known by its values, its gradients and public constants: near their modes, and under a Gaussian.

Everything here is in floats. Proof: proofs/gibbs.md, "Losses of a user".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import numpy as np
from scipy.optimize import minimize

from sudare.array_types import Floats
from sudare.errors import DataError
from sudare.linear.solvers import nesterov_step

# Part of the precision that pays for the gradient that is left at the computed mode.
SHARE: Final = 2.0**-10
LARGEST_GRADIENT_COST: Final = 1e-2
# Accelerated steps, times √(M/m): they take e⁻¹⁵⁰ off the height above the minimum, more than there are digits.
_ACCELERATED_STEPS: Final = 300
# After so many steps within a ball it is asked whether they may end.
_LOOK_AFTER: Final = 16
# Any tilt is right, but what is left of the ball beyond the Gaussian's mean square costs acceptance in proportion to the tilt, hence to βn: halvings
# go on until that cost is below `_SLACK`, and for `_LEAST_BISECTIONS` at least.
_BISECTIONS: Final = 60
_LEAST_BISECTIONS: Final = 6
_SLACK: Final = 0.125
# Proposals that are refused in a row before it is asked whether U is as smooth as declared, times the least acceptance; and rounding of values, relative.
_PATIENCE: Final = 20.0
_VALUE_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class Curvature:
    """What is public about U on ‖θ‖ ≤ radius: it bends between κ and M in every direction; all that is above κ adds up to `trace` at most.

    M and the trace are None where no smoothness was declared.
    """

    dimension: int
    convexity: float
    smoothness: float | None
    trace: float | None
    radius: float | None = None

    @property
    def least_envelope_precision(self) -> float:
        """κ, or what brings a Gaussian of that precision into the ball on average."""
        return self.convexity if self.radius is None else max(self.convexity, self.dimension / self.radius**2)

    @property
    def least_acceptance(self) -> float:
        """A share of proposals of an isotropic Gaussian that is accepted for every U, before those outside of the ball are refused."""
        if self.trace is None:
            return 0.0
        stiffer = 1 + self.trace / (self.dimension * self.least_envelope_precision)
        return math.exp(-self.dimension / 2 * (math.log(stiffer) + 2 * SHARE) - LARGEST_GRADIENT_COST)


@dataclass(frozen=True, eq=False)
class Potential:
    """U with its gradient. `rounding` is more than floats can do to a gradient."""

    value: Callable[[Floats], float]
    gradient: Callable[[Floats], Floats]
    curvature: Curvature
    rounding: float = 0.0


class Mode(NamedTuple):
    """A point near the mode of U + (ν/2)‖θ‖², the norm of that gradient there, and the gradient of U."""

    point: Floats
    left: float
    gradient: Floats


def tilted_mode(potential: Potential, tilt: float, start: Floats) -> Mode:
    """Near the minimiser of U + (ν/2)‖θ‖², by L-BFGS; where that misses, by as many accelerated steps as a smooth U needs."""
    known = potential.curvature
    convexity = known.convexity + tilt

    def value(point: Floats) -> float:
        return potential.value(point) + tilt / 2 * float(point @ point)

    def gradient(point: Floats) -> Floats:
        return potential.gradient(point) + tilt * point

    def mode(point: Floats) -> Mode:
        slope = potential.gradient(point)
        left = float(np.linalg.norm(slope + tilt * point)) * (1 + 1e-6) + potential.rounding
        return Mode(point, left, slope)

    options = {"maxiter": 10_000, "ftol": 0.0, "gtol": 0.0}
    found = minimize(value, start, jac=gradient, method="L-BFGS-B", options=options)
    near = mode(np.asarray(found.x, dtype=np.float64))
    if known.smoothness is None or gradient_cost(near.left, convexity) <= LARGEST_GRADIENT_COST:
        return near
    rate = math.sqrt(convexity / (known.smoothness + tilt))
    low, high = np.zeros(known.dimension), np.zeros(known.dimension)
    for _ in range(math.ceil(_ACCELERATED_STEPS / rate)):
        step = nesterov_step(gradient, low, high, convexity, rate)
        low, high = step.low, step.high
    return mode(low)


def gradient_cost(left: float, precision: float) -> float:
    """What a gradient of that norm at the computed mode takes off an envelope of that precision."""
    return left**2 / (2 * SHARE * precision)


class IsotropicEnvelope(NamedTuple):
    """e^{−U(θ) + U(centre)} ≤ e^{−precision/2·‖θ − centre‖² + log_constant} on the ball; ν is the tilt, `gradient_cost` a part of the constant."""

    centre: Floats
    precision: float
    log_constant: float
    gradient_cost: float
    tilt: float


def isotropic_envelope(potential: Potential) -> IsotropicEnvelope:
    """The Gaussian of precision (κ + ν)(1 − share) around the mode of U + (ν/2)‖θ‖². ν is 0, or what brings its mean square to the radius."""
    known = potential.curvature
    tilt = known.least_envelope_precision - known.convexity
    mode = tilted_mode(potential, tilt, np.zeros(known.dimension))
    if known.radius is not None:
        square = known.radius**2

        def room(tilt: float, mode: Mode) -> float:
            return square - float(mode.point @ mode.point) - known.dimension / (known.convexity + tilt)

        tilt, mode = _least_tilt(potential, tilt, mode, room, _SLACK)
        found = envelope_at(potential, mode.point, tilt)
        size, wanted = float(np.linalg.norm(mode.point)), square - known.dimension / (known.convexity + tilt)
        if not (tilt > 0 and size > 0 and wanted > 0):
            return found
        # Any centre is right. A computed mode that lies deeper than its tilt would have it costs acceptance in proportion to the tilt; at its proper distance that is p/2 at most.
        moved = envelope_at(potential, mode.point * (math.sqrt(wanted) / size), tilt)
        return min(found, moved, key=lambda envelope: envelope.log_constant)
    return envelope_at(potential, mode.point, tilt)


def envelope_at(potential: Potential, centre: Floats, tilt: float) -> IsotropicEnvelope:
    """Returns an envelope around any point near the mode."""
    known = potential.curvature
    slope = potential.gradient(centre) + tilt * centre
    left = float(np.linalg.norm(slope)) * (1 + 1e-6) + potential.rounding
    cost = gradient_cost(left, known.convexity + tilt)
    room = 0.0
    if known.radius is not None:
        square = float(centre @ centre)
        room = tilt / 2 * (known.radius**2 - square) + 1e-12 * tilt * (known.radius**2 + square)
    return IsotropicEnvelope(centre, (known.convexity + tilt) * (1 - SHARE), cost + room, cost, tilt)


class RefusedProposals:
    """Counts proposals around a centre that are refused in a row, and ends what a U that is not as declared would let go on for ever.

    After 20 over the least acceptance that the declared curvature gives, U is asked at each point: DataError is raised where it shows that U bends
    more than declared, or where no mode was found, as one of a smooth U would be. Nothing ends, however long it takes, where U is as declared.
    """

    def __init__(self, potential: Potential, bound: IsotropicEnvelope) -> None:
        known = potential.curvature
        self._potential, self._centre = potential, bound.centre
        self._most = math.inf if known.smoothness is None else _PATIENCE / known.least_acceptance
        self._has_no_mode = bound.gradient_cost > 1
        self._in_a_row = 0

    def accepted(self) -> None:
        """Begin to count again."""
        self._in_a_row = 0

    def refused(self, point: Floats) -> None:
        """Count one more."""
        self._in_a_row += 1
        if self._in_a_row > self._most and (self._has_no_mode or self._bends_more(point)):
            raise not_as_smooth()

    def _bends_more(self, point: Floats) -> bool:
        potential, centre = self._potential, self._centre
        return bends_more(potential, centre, potential.gradient(centre), point)


def bends_more(potential: Potential, place: Floats, slope: Floats, point: Floats) -> bool:
    """Whether U at a point of the ball is above the parabola that its smoothness and its gradient at a place allow, by more than rounding."""
    known, move = potential.curvature, point - place
    if known.smoothness is None or (known.radius is not None and point @ point > known.radius**2):
        return False
    high, low = potential.value(point), potential.value(place)
    along = float(slope @ move)
    rounding = _VALUE_ROUNDING * (1 + abs(high) + abs(low) + abs(along))
    return not high - low - along <= known.smoothness / 2 * float(move @ move) + rounding


def not_as_smooth() -> DataError:
    """What is raised where U is seen to bend more than declared."""
    return DataError("The loss is not as smooth as declared, or not a number.", "Check loss, gradient and smoothness.")


class Start(NamedTuple):
    """θ₀ near the mode on the ball, ∇U there, and what the law ∝ exp(−∇U(θ₀)ᵀv − (M/2)‖v‖²), v = θ − θ₀, may have in divergence from ∝ e^{−U} beyond (p/2)·log(M/κ)."""

    point: Floats
    gradient: Floats
    divergence: float


def start_near_mode(potential: Potential, most: float) -> Start:
    """A start whose divergence is `most` at most where U is as smooth as declared. Proof: proofs/smooth_samplers.md, "Start"."""
    known = potential.curvature
    mode = tilted_mode(potential, 0.0, np.zeros(known.dimension))
    if known.radius is None:
        return Start(mode.point, mode.gradient, mode.left**2 / (2 * known.convexity))
    square = known.radius**2

    def room(tilt: float, mode: Mode) -> float:
        return square - float(mode.point @ mode.point)

    tilt, inside = _least_tilt(potential, 0.0, mode, room, most / 8)
    found = _start_at(potential, inside.point if tilt == 0 else _on_sphere(inside.point, known.radius))
    return found if found.divergence <= most else _descended(potential, found, most)


def start_rounding(known: Curvature, rounding: float) -> float:
    """What rounding may add to the divergence of a start: that of gradients, and in a ball that of points of the sphere, whose gradients are 10¹² times as long at most."""
    if known.radius is None:
        return rounding**2 / (2 * known.convexity)
    near = min(0.26 + 8 * known.dimension * rounding**2 / known.convexity, 4 * known.radius * rounding)
    ratio = math.sqrt(max(1.0, (known.smoothness or 0.0) / known.convexity))
    return near + ratio * known.radius * rounding * 1e12 * 2.0**-51


def _start_at(potential: Potential, point: Floats) -> Start:
    """The start there, with the tilt ν ≥ 0 that bounds its divergence best: of a gradient that points inwards, or none."""
    known, slope = potential.curvature, potential.gradient(point)
    radius, square, width = cast(float, known.radius), float(point @ point), known.dimension
    ratio = math.sqrt(max(1.0, (known.smoothness or 0.0) / known.convexity)) * (8 * width + 1) / (8 * width - 1)
    divergences = []
    for tilt in {0.0, max(0.0, -float(slope @ point) / square) if square > 0 else 0.0}:
        left = float(np.linalg.norm(slope + tilt * point)) * (1 + 1e-6) + potential.rounding
        rest = ratio * tilt / 2 * max(0.0, radius**2 - square)
        near = min(0.26 + 8 * width * left**2 / (known.convexity + tilt), 4 * radius * left)
        divergences.append(near + rest)
    return Start(point, slope, min(divergences))


def _on_sphere(point: Floats, radius: float) -> Floats:
    """The point of the sphere in its direction, or one that is in the ball by rounding."""
    return point * (radius * (1 - 2.0**-52) / float(np.linalg.norm(point)))


def _descended(potential: Potential, start: Start, most: float) -> Start:
    """The start after accelerated steps within the ball, as many as bring it near enough, or as could be of use."""
    known = potential.curvature
    smoothness, radius = cast(float, known.smoothness), cast(float, known.radius)
    rate = math.sqrt(known.convexity / smoothness)
    before = point = start.point
    for step in range(1, math.ceil(_ACCELERATED_STEPS / rate) + 1):
        ahead = point + (1 - rate) / (1 + rate) * (point - before)
        before, point = point, ahead - potential.gradient(ahead) / smoothness
        if float(point @ point) >= radius**2:
            point = _on_sphere(point, radius)
        if step % _LOOK_AFTER == 0 and (start := _start_at(potential, point)).divergence <= most:
            break
    return start


def _least_tilt(
    potential: Potential, tilt: float, mode: Mode, room: Callable[[float, Mode], float], slack: float
) -> tuple[float, Mode]:
    """The least tilt from the given one on, nearly, that leaves room, and its mode; tilt times room is 2·slack at most where floats allow that."""
    if room(tilt, _numbers(mode)) >= 0:
        return tilt, mode
    known = potential.curvature
    low, high = tilt, 2 * tilt + max(known.convexity, 1 / (known.radius or 1.0) ** 2)
    while not room(high, mode := _numbers(tilted_mode(potential, high, mode.point))) >= 0:
        low, high = high, 2 * high
    for done in range(_BISECTIONS):
        if high - low < 1e-14 * high or (done >= _LEAST_BISECTIONS and high / 2 * room(high, mode) <= slack):
            break
        middle = (low + high) / 2
        between = _numbers(tilted_mode(potential, middle, mode.point))
        if room(middle, between) >= 0:
            high, mode = middle, between
        else:
            low = middle
    return high, mode


def _numbers(mode: Mode) -> Mode:
    """The mode. Raise DataError where it or the gradient there is not a number: a search among such modes would not end."""
    if not (math.isfinite(mode.left) and np.all(np.isfinite(mode.point))):
        raise DataError("The loss or its gradient is not a number everywhere in the ball.", "Check loss and gradient.")
    return mode
