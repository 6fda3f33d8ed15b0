"""Draws with exactly known probabilities, from fair bits.

Every law here gives each of its outcomes a whole number of the 2⁶⁴ (or 2³²) values that a word of fair bits can have. So
the largest ratio between the probabilities of one output under two inputs is a ratio of whole numbers: it is computed,
compared with e^ε, and never estimated. Proof: proofs/record_perturbation.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from flint import arb

from sudare.array_types import Integers, Words
from sudare.ball_precision import ball_precision
from sudare.privacy.accounting import decimal_up, exact
from sudare.privacy.noise import NoiseSource

WORD_BITS: Final = 64
# Values treated at once: their words, indices and outputs stay in the processor's cache.
CHUNK_VALUES: Final = 2**15
# Fewer rows than this are not worth compiling a loop for.
MANY_ROWS: Final = 2**16

_BALL_BITS: Final = 192


def ratio_within(epsilon: float) -> Fraction:
    """The largest multiple of 2⁻⁶⁴ that is not above e^ε; ε is the number that its decimal text names."""
    rate = exact(epsilon)
    with ball_precision(_BALL_BITS):
        growth = (arb(rate.numerator) / arb(rate.denominator)).exp()
        # The lower end of a ball is one number: rounding it down leaves no doubt.
        multiple = int((growth * arb(2) ** WORD_BITS).lower().floor().fmpz())
    return Fraction(multiple, 2**WORD_BITS)


def loss_of(ratio: Fraction) -> float:
    """log(ratio), rounded up to a float whose decimal text names it or a little more, as all ε are read."""
    with ball_precision(_BALL_BITS):
        mantissa, exponent = (arb(ratio.numerator) / arb(ratio.denominator)).log().upper().man_exp()
    return decimal_up(int(mantissa) * Fraction(2) ** int(exponent))


def many_words(source: NoiseSource, count: int) -> Words:
    """Words drawn piece by piece, which is quicker than at once."""
    words = np.empty(count, dtype=np.uint64)
    for start in range(0, count, CHUNK_VALUES):
        part = words[start : start + CHUNK_VALUES]
        part[:] = source.words(len(part))
    return words


@dataclass(frozen=True)
class AliasTable:
    """Outcome i with probability weights[i]/2⁶⁴ from one word, by Walker's (1977) method in whole numbers.

    There are 2^bits columns of equal capacity. The first bits of a word choose a column, the others a place in it: below
    its threshold the outcome is the column's own, above it that of its alias.
    """

    bits: int
    thresholds: Words
    aliases: Integers

    @classmethod
    def of(cls, weights: Sequence[int]) -> AliasTable:
        """The table for whole weights that add up to 2⁶⁴."""
        if sum(weights) != 2**WORD_BITS:
            raise ValueError("weights must add up to 2^64")
        bits = max(1, (len(weights) - 1).bit_length())
        columns, capacity = 2**bits, 2 ** (WORD_BITS - bits)
        left = [*weights, *([0] * (columns - len(weights)))]
        aliases = list(range(columns))
        small = [column for column, weight in enumerate(left) if weight < capacity]
        large = [column for column, weight in enumerate(left) if weight > capacity]
        while small:
            # Whole numbers: as long as some column lacks weight, another has too much of it.
            poor, rich = small.pop(), large[-1]
            aliases[poor] = rich
            left[rich] -= capacity - left[poor]
            if left[rich] <= capacity:
                large.pop()
                if left[rich] < capacity:
                    small.append(rich)
        return cls(bits, np.array(left, dtype=np.uint64), np.array(aliases, dtype=np.int64))

    @functools.cached_property
    def pairs(self) -> Words:
        """Threshold and alias of each column beside each other, so that one look at memory finds both."""
        return np.column_stack((self.thresholds, self.aliases.astype(np.uint64)))

    def weights(self, outcomes: int) -> list[int]:
        """How many words lead to each outcome: the law itself, read back from the table."""
        capacity = 2 ** (WORD_BITS - self.bits)
        counts = [0] * max(outcomes, 2**self.bits)
        for column, (threshold, alias) in enumerate(zip(self.thresholds.tolist(), self.aliases.tolist(), strict=True)):
            own = min(threshold, capacity)
            counts[column] += own
            counts[alias] += capacity - own
        return counts[:outcomes]

    def drawn(self, words: Words) -> Integers:
        """The outcome that each word leads to."""
        columns = (words >> np.uint64(WORD_BITS - self.bits)).astype(np.int64)
        places = words & np.uint64(2 ** (WORD_BITS - self.bits) - 1)
        return np.where(places < self.thresholds.take(columns), columns, self.aliases.take(columns))


@dataclass(frozen=True)
class StepNoise:
    """Discrete Laplace noise on whole steps, P(Z = z) ≈ tanh(1/2s)·e^{−|z|/s}; beyond ±reach it counts as ±reach.

    Inputs 0 … distance plus this noise, cut to −(reach − distance) … reach, have an exact largest ratio of
    probabilities; `scale` is the least, up to a millionth or so, for which that ratio is within e^ε.
    """

    distance: int
    scale: float
    reach: int
    ratio: Fraction

    @functools.cached_property
    def table(self) -> AliasTable:
        """The law as it is drawn from."""
        return AliasTable.of(laplace_weights(self.scale, self.reach))

    @property
    def overshoot(self) -> int:
        """How many steps an output can lie outside of the inputs' range."""
        return self.reach - self.distance

    def drawn(self, inputs: Integers, source: NoiseSource) -> Integers:
        """Inputs with noise, cut to the possible outputs."""
        noisy = self.table.drawn(source.words(len(inputs)))
        noisy += inputs
        noisy -= self.reach
        return np.clip(noisy, -self.overshoot, self.reach, out=noisy)


# Where the noise is cut, in units of its scale: what lies beyond has a probability of e⁻²² = 3e-10, and what
# lies within still has 2¹⁸ of the 2⁶⁴ words or more, so that rounding to whole words is of no consequence.
REACH_IN_SCALES: Final = 22


@functools.lru_cache(maxsize=256)
def step_noise(distance: int, epsilon: float) -> StepNoise:
    """The noise for which inputs at most `distance` steps apart are ε-indistinguishable, exactly."""
    limit = ratio_within(epsilon)
    scale = distance / epsilon * (1 + 2.0**-40)
    while True:
        reach = math.ceil(REACH_IN_SCALES * scale)
        weights = laplace_weights(scale, reach)
        ratio = largest_ratio(weights, distance)
        if ratio <= limit:
            return StepNoise(distance, scale, reach, ratio)
        scale *= 1 + max(2.0**-40, 1.1 * (loss_of(ratio) - epsilon) / epsilon)


def laplace_weights(scale: float, reach: int) -> list[int]:
    """Whole weights of −reach … reach that add up to 2⁶⁴: those of the discrete Laplace law rounded down, the rest at zero."""
    decay = math.exp(-1 / scale)
    sizes = np.arange(1, reach + 1)
    tail = np.exp(-sizes / scale) * (-math.expm1(-1 / scale) / (1 + decay))
    # The last one stands for all that are farther: Σ_{z ≥ reach} P(Z = z).
    tail[-1] = math.exp(-reach / scale) / (1 + decay)
    side = [int(weight) for weight in np.floor(tail * 2.0**WORD_BITS)]
    return [*reversed(side), 2**WORD_BITS - 2 * sum(side), *side]


def largest_ratio(weights: Sequence[int], distance: int) -> Fraction:
    """The largest ratio of probabilities of one output between inputs at most `distance` steps apart, for a symmetric law.

    The weights fall from the middle, so inside it is reached at the full distance and on one side; at either end, where
    outputs are cut, it is the ratio of what lies beyond.
    """
    reach = len(weights) // 2
    side = list(weights[reach:])
    if any(near < far for near, far in itertools.pairwise(side[:-1])):
        raise ValueError("the weights of noise must fall from the middle")
    near, far = np.array(side[: reach - distance], dtype=np.float64), np.array(side[distance:-1], dtype=np.float64)
    quotients = near / far
    # Floats find the place, whole numbers give the ratio.
    places = np.flatnonzero(quotients >= quotients.max() * (1 - 2.0**-45))
    inside = max(Fraction(side[place], side[place + distance]) for place in places.tolist())
    return max(inside, Fraction(sum(side[reach - distance :]), side[-1]))
