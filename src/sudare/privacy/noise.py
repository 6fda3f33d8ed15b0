"""Randomness that protects people, and its seeded twin for tests and simulation.

`SystemNoise` draws from the operating system's entropy and is exact: discrete Laplace and Gaussian noise on integers by
OpenDP, and Euclidean gamma-norm noise by interval refinement, so that no floating-point rounding of a noisy sum ever
shows the value underneath. `SeededNoise` has the same methods on a numpy generator; whatever is made with it is not
private, and says so (`valid`).
"""

from __future__ import annotations

import functools
import secrets
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import opendp.prelude as opendp
from flint import arb, fmpz
from flint import ctx as ball_context
from numpy.typing import NDArray
from sklearn.utils import check_random_state

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

opendp.enable_features("contrib")

_FIRST_BITS: Final = 128


class NoiseSource(Protocol):
    """Where noise comes from. `valid` says whether a guarantee may rest on it."""

    valid: ClassVar[bool]

    def laplace(self, values: Integers, scale: float) -> Integers:
        """Values plus independent Z with P(Z = z) ∝ exp(−|z|/scale)."""

    def gaussian(self, values: Integers, scale: float) -> Integers:
        """Values plus independent Z with P(Z = z) ∝ exp(−z²/(2·scale²))."""

    def gamma_norm(self, values: Floats, rate: float, grid: float) -> Floats:
        """Values plus b with density ∝ exp(−rate·‖b‖₂), rounded to multiples of `grid`."""

    def integer_below(self, limit: int) -> int:
        """A uniform whole number from 0 to limit − 1."""


class SystemNoise:
    """Exact noise from the operating system's entropy. Proofs: proofs/laplace.md, proofs/gaussian.md, proofs/gamma_norm.md."""

    valid: ClassVar[bool] = True

    def laplace(self, values: Integers, scale: float) -> Integers:
        """OpenDP's discrete Laplace; a sum beyond 64 bits saturates, which is post-processing."""
        return np.array(_discrete_laplace(scale)(values.tolist()), dtype=np.int64)

    def gaussian(self, values: Integers, scale: float) -> Integers:
        """OpenDP's discrete Gaussian; a sum beyond 64 bits saturates, which is post-processing."""
        return np.array(_discrete_gaussian(scale)(values.tolist()), dtype=np.int64)

    def gamma_norm(self, values: Floats, rate: float, grid: float) -> Floats:
        """The exact rounding of an ideal draw: bits are added until every coordinate's rounding is certain."""
        uniforms = _LazyUniforms(count=2 * len(values) + len(values) % 2)
        while True:
            multiples = _rounded_sums(values, rate, grid, uniforms)
            if multiples is not None:
                return np.array([float(multiple) * grid for multiple in multiples])
            uniforms.refine()

    def integer_below(self, limit: int) -> int:
        """From `secrets`."""
        return secrets.randbelow(limit)


class SeededNoise:
    """Reproducible noise for tests and simulation: protects nobody, because whoever knows the seed can subtract it."""

    valid: ClassVar[bool] = False

    def __init__(self, random_state: int | np.random.RandomState | None) -> None:
        self._random: Any = check_random_state(random_state)

    def laplace(self, values: Integers, scale: float) -> Integers:
        """The difference of two geometric variables, each an exponential one rounded down."""
        first, second = np.floor(scale * self._random.exponential(size=(2, *values.shape)))
        return _saturated_sum(values, first - second)

    def gaussian(self, values: Integers, scale: float) -> Integers:
        """A rounded normal variable."""
        return _saturated_sum(values, np.rint(self._random.normal(scale=scale, size=values.shape)))

    def gamma_norm(self, values: Floats, rate: float, grid: float) -> Floats:
        """A gamma radius times a uniform direction."""
        direction = self._random.normal(size=values.shape)
        direction /= np.linalg.norm(direction)
        radius = self._random.gamma(shape=len(values), scale=1 / rate)
        return np.asarray(np.rint((values + radius * direction) / grid) * grid, dtype=np.float64)

    def integer_below(self, limit: int) -> int:
        """From the seeded generator."""
        return int(self._random.randint(limit))


def noise_source(random_state: int | np.random.RandomState | None) -> NoiseSource:
    """Seeded noise when a seed is given, else the operating system's."""
    return SystemNoise() if random_state is None else SeededNoise(random_state)


def _saturated_sum(values: Integers, noise: Floats) -> Integers:
    """Values plus whole-numbered noise; noise beyond 62 bits saturates, so that a sum with 61-bit values cannot wrap."""
    return values + np.clip(noise, -(2.0**62), 2.0**62).astype(np.int64)


@functools.lru_cache(maxsize=64)
def _discrete_laplace(scale: float) -> opendp.Measurement:
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64")
    return opendp.m.make_laplace(*space, scale=scale)


@functools.lru_cache(maxsize=64)
def _discrete_gaussian(scale: float) -> opendp.Measurement:
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="f64")
    return opendp.m.make_gaussian(*space, scale=scale)


class _LazyUniforms:
    """Uniform numbers in (0, 1) known to ever more bits: each is an interval that contains the ideal real draw."""

    def __init__(self, count: int) -> None:
        self.bits = _FIRST_BITS
        self._numerators = [secrets.randbits(self.bits) for _ in range(count)]

    def refine(self) -> None:
        """Double the number of known bits; those known already stay."""
        self._numerators = [(number << self.bits) | secrets.randbits(self.bits) for number in self._numerators]
        self.bits *= 2

    def intervals(self) -> list[arb]:
        """Balls around [n/2^b, (n+1)/2^b]: (2n + 1 ± 1)/2^(b+1), the radius rounded up."""
        half_width = arb((1, -self.bits - 1))
        return [arb(2 * number + 1, 1) * half_width for number in self._numerators]


def _rounded_sums(values: Floats, rate: float, grid: float, uniforms: _LazyUniforms) -> list[fmpz] | None:
    """Nearest multiples of the grid to values + b, or None while some coordinate's rounding is not certain."""
    with ball_context.workprec(uniforms.bits + 64):
        noise = _gamma_norm_balls(len(values), arb(rate), uniforms.intervals())
        half = arb(1) / 2
        multiples: list[fmpz] = []
        for value, offset in zip(values, noise, strict=True):
            multiple = ((arb(float(value)) + offset) / arb(grid) + half).floor().unique_fmpz()
            if multiple is None:
                return None
            multiples.append(multiple)
    return multiples


def _gamma_norm_balls(dimension: int, rate: arb, uniforms: list[arb]) -> list[arb]:
    """b = r·g/‖g‖ with r ~ Gamma(dimension, rate) as a sum of exponentials and g normal by Box and Muller."""
    radius = -sum((uniform.log() for uniform in uniforms[:dimension]), start=arb(0)) / rate
    normals: list[arb] = []
    for first, second in zip(uniforms[dimension::2], uniforms[dimension + 1 :: 2], strict=True):
        length = (-2 * first.log()).sqrt()
        sine, cosine = (2 * second).sin_cos_pi()
        normals += [length * cosine, length * sine]
    normals = normals[:dimension]
    norm = sum((normal * normal for normal in normals), start=arb(0)).sqrt()
    return [radius * normal / norm for normal in normals]
