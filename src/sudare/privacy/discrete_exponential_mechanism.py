"""Draws with Gibbs weights, exactly: the exponential mechanism over a finite set, without a float in its law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.parameter_checks import Numbers
from sudare.privacy.accounting import Cost, exact, pure_cost, rounded_down
from sudare.privacy.noise import NoiseSource

Counts = NDArray[np.int64]

MOST_DRAWS: Final = 10_000
_DIGIT_BITS: Final = 32


@dataclass(frozen=True)
class GibbsDraws:
    """ε-DP independent draws j with P(j) ∝ e^(−r·loss_j), where one unit moves every loss by at most `unit_rows`. Proof: proofs/aggregation.md."""

    epsilon: float
    draws: int
    unit_rows: int

    def __post_init__(self) -> None:
        # Within these limits neither the rate nor the temperature can overflow or vanish.
        Numbers(2.0**-300, 2.0**300).check("epsilon", self.epsilon)
        Numbers(1, MOST_DRAWS, whole=True).check("draws", self.draws)

    @cached_property
    def cost(self) -> Cost:
        """Pure ε for all draws together."""
        return pure_cost(self.epsilon)

    @cached_property
    def rate(self) -> float:
        """r = ε/(2·rows of a unit·draws), rounded down."""
        return rounded_down(exact(self.epsilon) / (2 * self.unit_rows * self.draws))

    @property
    def noise_scale(self) -> float:
        """1/r: the temperature β of the Gibbs weights (eq. 11)."""
        return 1 / self.rate

    def counts(self, losses: Sequence[Fraction], source: NoiseSource) -> Counts:
        """How often each of the losses' owners was drawn."""
        least, rate = min(losses), Fraction(self.rate)
        exponents = [rate * (loss - least) for loss in losses]
        counts = np.zeros(len(losses), dtype=np.int64)
        for _ in range(self.draws):
            counts[drawn(exponents, source)] += 1
        return counts


def drawn(exponents: Sequence[Fraction], source: NoiseSource) -> int:
    """A draw of j with P(j) ∝ e^(−exponents[j]); the least exponent must be zero, so that few proposals are needed."""
    while True:
        proposed = source.integer_below(len(exponents))
        if exponential_coin(exponents[proposed], source):
            return proposed


def geometric(rate: Fraction, source: NoiseSource) -> int:
    """K with P(K = k) ∝ e^(−rate·k), exactly; however small the rate is, few coins are tossed (Canonne, Kamath and Steinke 2020)."""
    block = math.ceil(1 / rate)
    rest = source.integer_below(block)
    while not exponential_coin(rate * rest, source):
        rest = source.integer_below(block)
    blocks = 0
    while exponential_coin(rate * block, source):
        blocks += 1
    return rest + block * blocks


def exponential_coin(exponent: Fraction, source: NoiseSource) -> bool:
    """True with probability e^(−exponent), exactly; the exponent is not negative."""
    whole = exponent.numerator // exponent.denominator
    return all(_small_exponential_coin(Fraction(1), source) for _ in range(whole)) and _small_exponential_coin(
        exponent - whole, source
    )


def _small_exponential_coin(exponent: Fraction, source: NoiseSource) -> bool:
    """The same for exponents up to one: coins of probability γ/1, γ/2, … are tossed until one fails, which is an odd one's with e^(−γ)."""
    tossed = 1
    while rational_coin(exponent / tossed, source):
        tossed += 1
    return tossed % 2 == 1


def rational_coin(probability: Fraction, source: NoiseSource) -> bool:
    """True with a probability from 0 to 1, exactly: fair bits are compared with its binary digits, many at a time."""
    left, whole = probability.numerator, probability.denominator
    if left == whole:
        return True
    while True:
        digits, left = divmod(left << _DIGIT_BITS, whole)
        found = source.integer_below(1 << _DIGIT_BITS)
        if found != digits:
            return found < digits
