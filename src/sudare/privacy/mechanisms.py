"""Noise calibrated to a promise: sensitivity and (ε, δ) in, scale, grid and cost out.

A mechanism works on a public grid. Reals are rounded to it before the noise, and the little that rounding adds to the
sensitivity is paid for; integers (counts, fixed-point sums) are on their grid already. Sensitivities are those of the
neighbour relation that the caller states. `apply` adds noise once; `draws` repeats it for audits and simulation, and each
of its rows is a release of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Final

import numpy as np

from sudare.array_types import Floats, Integers
from sudare.errors import DataError, InvalidParameter
from sudare.privacy.accounting import (
    TOTAL_VARIATION_SHARE,
    Cost,
    approximate_cost,
    exact,
    gaussian_cost,
    gaussian_mu_within,
    pure_cost,
    rounded_down,
    rounded_up,
)
from sudare.privacy.noise import NoiseSource, WholeNoise

_LAPLACE_GRID_BITS: Final = 24
_GAUSSIAN_GRID_BITS: Final = 30
_GAUSSIAN_MOST_GRID_BITS: Final = 40
_GAMMA_GRID_BITS: Final = 20
_INFINITY_GRID_BITS: Final = 24
# The noise of a coordinate is so many bits above its grid at least, so that a draw is hardly ever rejected.
_INFINITY_NOISE_BITS: Final = 8
_LARGEST_INTEGER: Final = 2.0**61
# Within these limits no scale, rate or grid below can overflow, underflow or be subnormal.
_LARGEST_NUMBER: Final = 2.0**300
_LARGEST_DIMENSION: Final = 2**40


def power_of_two_below(number: float) -> float:
    """The largest power of two that is at most `number`."""
    return math.ldexp(1.0, math.frexp(number)[1] - 1)


def _checked_number(name: str, number: float) -> None:
    if not 1 / _LARGEST_NUMBER <= number <= _LARGEST_NUMBER:
        raise InvalidParameter(
            f"{name} must be positive, finite and between 2⁻³⁰⁰ and 2³⁰⁰, got {number!r}.",
            "Derive it from declared bounds, and rescale columns with extreme units.",
        )


def _checked_dimension(dimension: int) -> None:
    if not isinstance(dimension, Integral) or not 1 <= dimension <= _LARGEST_DIMENSION:
        raise InvalidParameter(
            f"dimension must be a whole number of at least 1, got {dimension!r}.", "Give the number of values."
        )


def _checked_integer_grid(integer_grid: float | None) -> None:
    if integer_grid is None:
        return
    _checked_number("integer_grid", integer_grid)
    if power_of_two_below(integer_grid) != integer_grid:
        raise InvalidParameter(f"integer_grid must be a power of two, got {integer_grid!r}.", "Use 1.0 for counts.")


def _vector(values: Floats, dimension: int) -> Floats:
    """`values` if they are what was calibrated for: a finite vector of that dimension."""
    if np.shape(values) != (dimension,):
        raise InvalidParameter(
            f"The noise is calibrated for a vector of {dimension} values, got shape {np.shape(values)}.",
            "Give the mechanism the dimension of the values.",
        )
    if not np.all(np.isfinite(values)):
        raise DataError(
            "Noise cannot be added to values that are not finite.", "Clip to declared bounds and fill gaps first."
        )
    return values


def _multiples(values: Floats, grid: float) -> Integers:
    """Nearest multiples of the grid; beyond 61 bits they saturate, which brings no two values further apart."""
    with np.errstate(over="ignore"):
        steps = values / grid
    return np.rint(np.clip(steps, -_LARGEST_INTEGER, _LARGEST_INTEGER)).astype(np.int64)


def _checked_multiples(values: Floats, integer_grid: float | None) -> Floats:
    """`values`, if whole multiples are not promised or the promise is kept: nothing was paid for rounding them."""
    if integer_grid is not None and np.any(np.remainder(values, integer_grid)):
        raise DataError(
            "Values said to lie on the integer grid do not.", "Round them first, or leave integer_grid out."
        )
    return values


@dataclass(frozen=True)
class Laplace:
    """ε-DP for vectors whose L1 distance between neighbours is at most `sensitivity`. Proof: proofs/laplace.md.

    With `integer_grid` the values are whole multiples of that power of two already, and rounding costs nothing.
    """

    sensitivity: float
    epsilon: float
    dimension: int = 1
    integer_grid: float | None = None

    def __post_init__(self) -> None:
        _ = self.cost
        _checked_number("epsilon", self.epsilon)
        _checked_number("sensitivity", self.sensitivity)
        _checked_dimension(self.dimension)
        _checked_integer_grid(self.integer_grid)

    @property
    def loss_is_proportional(self) -> bool:
        """Whether vectors at a share of the sensitivity are told apart by that share of ε at most: rounding to a grid would add to it."""
        return self.integer_grid is not None

    @cached_property
    def cost(self) -> Cost:
        """Pure ε."""
        return pure_cost(self.epsilon)

    @property
    def grid(self) -> float:
        """Spacing of the possible outputs: that of the integers, else a 2⁻²⁴th of a coordinate's share of sensitivity."""
        if self.integer_grid is not None:
            return self.integer_grid
        return power_of_two_below(self.sensitivity / self.dimension) * 2.0**-_LAPLACE_GRID_BITS

    @cached_property
    def scale_in_steps(self) -> float:
        """Noise scale in grid steps, rounded up; rounding reals first moves a coordinate's difference by a step at most."""
        steps = math.ceil(Fraction(self.sensitivity) / Fraction(self.grid))
        rounding = 0 if self.integer_grid is not None else self.dimension
        return rounded_up((steps + rounding) / exact(self.epsilon))

    @property
    def noise_scale(self) -> float:
        """Scale b of the Laplace law, in the units of the values."""
        return self.scale_in_steps * self.grid

    @property
    def variance(self) -> float:
        """Expected squared noise on one value: 2b²."""
        return 2 * self.noise_scale**2

    def apply(self, values: Floats, source: WholeNoise) -> Floats:
        """Values with noise, on the grid."""
        return self.draws(values, 1, source).ravel()

    def draws(self, values: Floats, count: int, source: WholeNoise) -> Floats:
        """Independent noisy copies of the values, one a row."""
        return _noisy_copies(self, values, count, source.laplace)


def gaussian_grid_bits(epsilon: float, delta: float, stages: int = 1) -> int:
    """Enough for the distances of all stages to ideal noise, each at most μ²/(24·4^bits), to fit into the δ kept for them."""
    mu = gaussian_mu_within(epsilon, delta)
    growth = epsilon + math.log1p(math.exp(-epsilon))
    kept = float(TOTAL_VARIATION_SHARE) * delta
    needed = (growth + 2 * math.log(mu) + math.log(stages) - math.log(24 * kept)) / math.log(4)
    if mu < 1 / _LARGEST_NUMBER or needed > _GAUSSIAN_MOST_GRID_BITS:
        raise InvalidParameter(
            f"Gaussian noise cannot be exact enough for epsilon = {epsilon!r} with delta = {delta!r}.",
            "Use a larger delta, or an epsilon that is neither tiny nor huge.",
        )
    # A hundredth of a bit more than needed, so that the rounding of these logarithms does not matter.
    return max(_GAUSSIAN_GRID_BITS, math.ceil(needed + 0.01))


@dataclass(frozen=True)
class Gaussian:
    """(ε, δ)-DP and near μ-GDP, for vectors whose L2 distance between neighbours is at most `sensitivity`.

    Proof: proofs/gaussian.md. With `integer_grid` the values are whole multiples of that power of two already. Of as many
    vectors as `stages` the distances to ideal noise together fit into the share of δ that is kept for them.
    """

    sensitivity: float
    epsilon: float
    delta: float
    dimension: int = 1
    integer_grid: float | None = None
    stages: int = 1

    def __post_init__(self) -> None:
        _checked_number("sensitivity", self.sensitivity)
        _checked_dimension(self.dimension)
        _checked_integer_grid(self.integer_grid)
        _ = self.cost

    @cached_property
    def cost(self) -> Cost:
        """Gaussian with the largest μ that (ε, δ) allows, and the distance between discrete and ideal noise."""
        return gaussian_cost(self.epsilon, self.delta, self._distance_to_ideal())

    @cached_property
    def grid(self) -> float:
        """Spacing of the possible outputs: a 2⁻³⁰th of a coordinate's share of sensitivity, or finer; a power of two."""
        bits = gaussian_grid_bits(self.epsilon, self.delta, self.stages)
        natural = power_of_two_below(self.sensitivity / math.sqrt(self.dimension)) * 2.0**-bits
        return natural if self.integer_grid is None else min(natural, self.integer_grid)

    @cached_property
    def scale_in_steps(self) -> float:
        """Standard deviation in grid steps, rounded up; rounding reals first adds √dimension steps at most."""
        steps = Fraction(self.sensitivity) / Fraction(self.grid)
        rounding = 0 if self.integer_grid is not None else math.isqrt(self.dimension - 1) + 1
        return rounded_up((steps + rounding) / Fraction(gaussian_mu_within(self.epsilon, self.delta)))

    def _distance_to_ideal(self) -> Fraction:
        """Total variation between discrete Gaussian and rounded continuous noise: 1/(24σ²) a coordinate at most."""
        return Fraction(self.dimension) / (24 * Fraction(self.scale_in_steps) ** 2)

    @property
    def noise_scale(self) -> float:
        """Standard deviation, in the units of the values."""
        return self.scale_in_steps * self.grid

    @property
    def variance(self) -> float:
        """Expected squared noise on one value."""
        return self.noise_scale**2

    def apply(self, values: Floats, source: WholeNoise) -> Floats:
        """Values with noise, on the grid."""
        return self.draws(values, 1, source).ravel()

    def draws(self, values: Floats, count: int, source: WholeNoise) -> Floats:
        """Independent noisy copies of the values, one a row."""
        return _noisy_copies(self, values, count, source.gaussian)


def _noisy_copies(
    noise: Laplace | Gaussian, values: Floats, count: int, drawn: Callable[[Integers, float], Integers]
) -> Floats:
    """Rows of the values in whole steps of the grid, with noise that is drawn in such steps."""
    steps = _multiples(_checked_multiples(_vector(values, noise.dimension), noise.integer_grid), noise.grid)
    noisy = drawn(np.tile(steps, count), noise.scale_in_steps)
    return noisy.reshape(count, noise.dimension).astype(np.float64) * noise.grid


@dataclass(frozen=True)
class GammaNorm:
    """ε-DP for vectors whose L2 distance between neighbours is at most `sensitivity`. Proof: proofs/gamma_norm.md."""

    sensitivity: float
    epsilon: float
    dimension: int = 1

    def __post_init__(self) -> None:
        _ = self.cost
        _checked_number("epsilon", self.epsilon)
        _checked_number("sensitivity", self.sensitivity)
        _checked_dimension(self.dimension)

    @cached_property
    def cost(self) -> Cost:
        """Pure ε."""
        return pure_cost(self.epsilon)

    @cached_property
    def rate(self) -> float:
        """a in the density ∝ exp(−a‖b‖₂), rounded down."""
        return rounded_down(exact(self.epsilon) / Fraction(self.sensitivity))

    @cached_property
    def grid(self) -> float:
        """Spacing of the possible outputs: about a 2⁻²⁰th of the noise; rounding to it is post-processing."""
        return power_of_two_below(1 / self.rate) * 2.0**-_GAMMA_GRID_BITS

    @property
    def noise_scale(self) -> float:
        """1/a: the norm of the noise is Gamma(dimension, a), of mean dimension/a."""
        return 1 / self.rate

    @property
    def variance(self) -> float:
        """Expected squared noise on one value: (dimension + 1)/a²."""
        return (self.dimension + 1) * self.noise_scale**2

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """Values with noise, on the grid."""
        return source.gamma_norm(self._saturated(values), self.rate, self.grid)

    def draws(self, values: Floats, count: int, source: NoiseSource) -> Floats:
        """Independent noisy copies of the values, one a row."""
        saturated = self._saturated(values)
        return np.array([source.gamma_norm(saturated, self.rate, self.grid) for _ in range(count)])

    def _saturated(self, values: Floats) -> Floats:
        """The values, if they are a finite vector; beyond 61 bits of steps they saturate."""
        limit = _LARGEST_INTEGER * self.grid
        return np.minimum(np.maximum(_vector(values, self.dimension), -limit), limit)


@dataclass(frozen=True)
class InfinityNorm:
    """ε-DP for vectors whose L∞ distance between neighbours is at most `sensitivity`. Proof: proofs/infinity_norm.md.

    Noise on the whole vector at once with density ∝ exp(−ε·max|bᵢ|/sensitivity): the K-norm mechanism of a cube. With `integer_grid`
    the values are whole multiples of that power of two already, and rounding costs nothing. A `delta` that was asked for is charged; the noise does not need it.
    """

    sensitivity: float
    epsilon: float
    dimension: int = 1
    integer_grid: float | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        _ = self.cost
        _checked_number("epsilon", self.epsilon)
        _checked_number("sensitivity", self.sensitivity)
        _checked_dimension(self.dimension)
        _checked_integer_grid(self.integer_grid)

    @property
    def loss_is_proportional(self) -> bool:
        """Whether vectors at a share of the sensitivity are told apart by that share of ε at most: rounding to a grid would add to it."""
        return self.integer_grid is not None

    @cached_property
    def cost(self) -> Cost:
        """ε, and the δ that was asked for."""
        return approximate_cost(self.epsilon, self.delta)

    @cached_property
    def grid(self) -> float:
        """Spacing of the possible outputs: that of the integers or a 2⁻²⁴th of the sensitivity, and far below the noise."""
        coarsest = self.integer_grid or power_of_two_below(self.sensitivity) * 2.0**-_INFINITY_GRID_BITS
        per_value = power_of_two_below(self.sensitivity / (self.epsilon * self.dimension))
        return min(coarsest, per_value * 2.0**-_INFINITY_NOISE_BITS)

    @cached_property
    def scale_in_steps(self) -> float:
        """Noise scale in grid steps, rounded up; rounding reals first moves a coordinate's difference by a step at most."""
        steps = math.ceil(Fraction(self.sensitivity) / Fraction(self.grid))
        rounding = 0 if self.integer_grid is not None else 1
        return rounded_up((steps + rounding) / exact(self.epsilon))

    @property
    def noise_scale(self) -> float:
        """b in the density ∝ exp(−max|bᵢ|/b), in the units of the values: the largest coordinate is Gamma(dimension, b)."""
        return self.scale_in_steps * self.grid

    @property
    def variance(self) -> float:
        """Expected squared noise on one value: (dimension + 1)(dimension + 2)b²/3."""
        return (self.dimension + 1) * (self.dimension + 2) / 3 * self.noise_scale**2

    def apply(self, values: Floats, source: NoiseSource) -> Floats:
        """Values with noise, on the grid."""
        return self.draws(values, 1, source).ravel()

    def draws(self, values: Floats, count: int, source: NoiseSource) -> Floats:
        """Independent noisy copies of the values, one a row."""
        steps = _multiples(_checked_multiples(_vector(values, self.dimension), self.integer_grid), self.grid)
        noisy = np.array([source.infinity_norm(steps, self.scale_in_steps) for _ in range(count)])
        return noisy.astype(np.float64) * self.grid
