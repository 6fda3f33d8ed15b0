"""Shares of gamma-norm noise on whole numbers, drawn without any rounding. Proof: proofs/noise_shares.md.

Gamma-norm noise is normal noise of a random variance: N(0, s·I) with s ~ Gamma((p+1)/2, rate a²/2). Gamma variables of one rate add
up, so a share has a variance of its own, sᵢ ~ Gamma((p+1)/2n, a²/2), and any n shares make the whole. A share is drawn as a
discrete Gaussian vector, so that it lies on the grid of the sums. Its variance is a real number of which as many bits are drawn as
decisions need: `LazyUniform` refines itself, and balls of arithmetic (Arb) decide only what is certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from flint import arb

from sudare.ball_precision import ball_precision
from sudare.privacy.noise import NoiseSource, geometric

RealNumber = Callable[[int], arb]

# In squared steps, added to every share's variance: with it sums of discrete Gaussians are discrete Gaussian to 2⁻²⁰⁰.
VARIANCE_FLOOR: Final = 16
_FIRST_BITS: Final = 128
_GUARD_BITS: Final = 64
_ACCURATE_BITS: Final = 60
# Acceptance probabilities computed in floats are right to 2⁻⁴³ (proofs/noise_shares.md); nearer ones are left to balls.
_FLOAT_MARGIN: Final = 2.0**-38


class LazyUniform:
    """A uniform number in (0, 1) of which ever more bits are known; bits once drawn stay."""

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self._bits = 0
        self._numerator = 0
        self._draw(_FIRST_BITS)

    def _draw(self, bits: int) -> None:
        words = self._source.words(bits // 64)
        self._numerator = (self._numerator << bits) | int.from_bytes(words.tobytes(), "big")
        self._bits += bits

    def ball(self, bits: int) -> arb:
        """A ball that holds the number, of radius at most 2^−bits."""
        while self._bits < bits:
            self._draw(self._bits)
        return (arb(self._numerator) + arb(0.5, 0.5)) * arb((1, -self._bits))

    def near(self) -> float:
        """The number to within 2⁻⁵³."""
        return self._numerator / (1 << self._bits)

    def is_below(self, limit: RealNumber) -> bool:
        """Whether the number is below a real limit; more bits are drawn until that is certain."""
        bits = self._bits
        while True:
            with ball_precision(bits + _GUARD_BITS):
                difference = limit(bits) - self.ball(bits)
                if difference > 0:
                    return True
                if difference < 0:
                    return False
            bits *= 2


def drawn_gamma(shape: Fraction, source: NoiseSource) -> RealNumber:
    """A Gamma(shape, 1) variable: exponentials for the whole part of the shape, and for the rest rejection (Ahrens and Dieter 1974)."""
    whole, part = divmod(shape, 1)
    exponents = [LazyUniform(source) for _ in range(int(whole))]
    rest = _drawn_small_gamma(part, source) if part else None

    def value(bits: int) -> arb:
        total = arb(0) if rest is None else rest(bits)
        for uniform in exponents:
            total -= uniform.ball(bits).log()
        return total

    return value


def _drawn_small_gamma(shape: Fraction, source: NoiseSource) -> RealNumber:
    """A Gamma(shape, 1) variable for 0 < shape < 1.

    With b = 1 + shape/e and u uniform: where b·u ≤ 1 the candidate (b·u)^(1/shape) is kept with probability e^−x; else −log(b(1−u)/shape)
    with probability x^(shape−1).
    """
    while True:
        place, chance = LazyUniform(source), LazyUniform(source)
        if place.is_below(lambda bits: 1 / _width(shape)):
            candidate = _below_one(shape, place)
            kept = chance.is_below(lambda bits, x=candidate: (-x(bits)).exp())  # type: ignore[misc]
        else:
            candidate = _above_one(shape, place)
            kept = chance.is_below(lambda bits, x=candidate: ((_ratio(shape) - 1) * x(bits).log()).exp())  # type: ignore[misc]
        if kept:
            return candidate


def _ratio(number: Fraction) -> arb:
    return arb(number.numerator) / arb(number.denominator)


def _width(shape: Fraction) -> arb:
    return 1 + _ratio(shape) * arb(-1).exp()


def _below_one(shape: Fraction, place: LazyUniform) -> RealNumber:
    return lambda bits: ((_width(shape) * place.ball(bits)).log() / _ratio(shape)).exp()


def _above_one(shape: Fraction, place: LazyUniform) -> RealNumber:
    return lambda bits: -(_width(shape) * (1 - place.ball(bits)) / _ratio(shape)).log()


@dataclass(frozen=True, eq=False)
class RandomVariance:
    """A share's variance in squared steps: a real number, and the float next to it to a relative 2⁻⁵⁰."""

    exactly: RealNumber
    near: float


def drawn_variance(shape: Fraction, rate: float, source: NoiseSource) -> RandomVariance:
    """The floor plus a Gamma(shape, rate²/2) variable."""
    gamma = drawn_gamma(shape, source)

    def exactly(bits: int) -> arb:
        return VARIANCE_FLOOR + 2 * gamma(bits) / arb(rate) ** 2

    bits = _FIRST_BITS
    while True:
        with ball_precision(bits + _GUARD_BITS):
            ball = exactly(bits)
            if ball.is_finite() and ball.rel_accuracy_bits() >= _ACCURATE_BITS:
                return RandomVariance(exactly, float(ball.mid()))
        bits *= 2


def discrete_gaussian(variance: RandomVariance, source: NoiseSource) -> int:
    """A whole number z with probability ∝ exp(−z²/2s) for a real variance s (Canonne, Kamath and Steinke 2020, Algorithm 3).

    Candidates are discrete Laplace with a whole scale t; any t gives the right law, one near √s few rejections.
    """
    scale = math.isqrt(int(variance.near)) + 1
    while True:
        candidate = discrete_laplace(scale, source)
        if _is_kept(abs(candidate), scale, variance, source):
            return candidate


def _is_kept(size: int, scale: int, variance: RandomVariance, source: NoiseSource) -> bool:
    """True with probability exp(−(|z| − s/t)²/2s)."""
    chance = LazyUniform(source)
    probability = math.exp(-((size - variance.near / scale) ** 2) / (2 * variance.near))
    drawn = chance.near()
    if abs(drawn - probability) > _FLOAT_MARGIN:
        return drawn < probability

    def limit(bits: int) -> arb:
        exact = variance.exactly(bits)
        return (-((size - exact / scale) ** 2) / (2 * exact)).exp()

    return chance.is_below(limit)


def discrete_laplace(scale: int, source: NoiseSource) -> int:
    """A whole number z with probability ∝ exp(−|z|/scale) (Canonne, Kamath and Steinke 2020, Algorithm 2)."""
    while True:
        size = geometric(Fraction(scale), source)
        is_negative = source.integer_below(2) == 1
        if size or not is_negative:
            return -size if is_negative else size


def gamma_norm_share(size: int, shape: Fraction, rate: float, source: NoiseSource) -> list[int]:
    """One share: a variance for all numbers together, and a discrete Gaussian of that variance for each."""
    variance = drawn_variance(shape, rate, source)
    return [discrete_gaussian(variance, source) for _ in range(size)]
