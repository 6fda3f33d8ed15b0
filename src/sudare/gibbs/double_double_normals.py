"""Numbers of a hundred bits, each the sum of two floats, and normal numbers of that fineness drawn exactly.

The proximal sampler keeps its states so finely that rounding them does not show in any total variation worth a charge (proofs/proximal.md).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from flint import arb

from sudare.array_types import Floats, Words
from sudare.ball_precision import ball_precision
from sudare.gibbs.lazy_uniforms import LazyUniforms, log_uniforms
from sudare.privacy.noise import NoiseSource

# Normal numbers are drawn on multiples of 2⁻¹⁰¹ below 16, in cells of this width.
_CELL: Final = 2.0**-5
_CELLS: Final = 512
_WEIGHT_BITS: Final = 52
_WORDS: Final = 4
# More than the rounding of x²/2 ≤ 128 and of the logarithms beside it.
_LOG_ERROR: Final = 1e-12
_SPLITTER: Final = 2.0**27 + 1

_WEIGHTS: Final = np.ceil(np.exp(-0.5 * (_CELL * np.arange(_CELLS)) ** 2) * (1 + 2.0**-40) * 2.0**_WEIGHT_BITS).astype(
    np.uint64
)
_ENDS: Final = np.cumsum(_WEIGHTS)
_TOTAL: Final = int(_ENDS[-1])
_FAIR_WORDS: Final = np.uint64(2**64 // _TOTAL * _TOTAL - 1)


class DoubleDouble(NamedTuple):
    """high + low, where |low| is at most half a unit in the last place of high."""

    high: Floats
    low: Floats

    @classmethod
    def of(cls, values: Floats) -> DoubleDouble:
        """Plain floats."""
        return cls(values, np.zeros_like(values))

    def plus(self, other: DoubleDouble) -> DoubleDouble:
        """The sum, to a relative 2⁻¹⁰¹ of |self| + |other| (Dekker 1971; Knuth's two-sum)."""
        total, rest = _two_sum(self.high, other.high)
        return _normalised(total, rest + (self.low + other.low))

    def times(self, factor: float) -> DoubleDouble:
        """The product with a float, to a relative 2⁻¹⁰¹."""
        product = self.high * factor
        first, second = _split(self.high), _split(np.asarray(factor))
        rest = first[0] * second[0] - product
        rest = rest + first[0] * second[1] + first[1] * second[0] + first[1] * second[1]
        return _normalised(product, rest + self.low * factor)

    def minus_floats(self, values: Floats) -> Floats:
        """The difference to floats, rounded to floats."""
        return np.asarray((self.high - values) + self.low)

    def balls(self) -> list[arb]:
        """Each number exactly."""
        return [arb(float(high)) + arb(float(low)) for high, low in zip(self.high, self.low, strict=True)]


def _two_sum(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The rounded sum and its exact rounding error."""
    total = first + second
    back = total - first
    return total, (first - (total - back)) + (second - back)


def _normalised(total: Floats, rest: Floats) -> DoubleDouble:
    high = total + rest
    return DoubleDouble(high, rest - (high - total))


def _split(values: Floats) -> tuple[Floats, Floats]:
    """Two halves of 26 bits whose sum is the value (Veltkamp)."""
    scaled = _SPLITTER * values
    high = scaled - (scaled - values)
    return high, values - high


def double_double_normals(count: int, source: NoiseSource) -> DoubleDouble:
    """Independent numbers on the multiples of 2⁻¹⁰¹ in (−16, 16) with probabilities ∝ exp(−x²/2), exactly.

    A cell is chosen by a weight that is at least the density at its lower end; within the cell all multiples are alike; then the candidate is
    accepted with the ratio of density to weight. A decision that floats leave open is made in ball arithmetic.
    """
    parts: list[DoubleDouble] = []
    found = 0
    while found < count:
        wanted = count - found + 8 + (count - found) // 32
        accepted = _accepted(source.words(_WORDS * wanted).reshape(_WORDS, -1), source)
        parts.append(accepted)
        found += len(accepted.high)
    return DoubleDouble(*(np.concatenate(column)[:count] for column in zip(*parts, strict=True)))


def _accepted(words: Words, source: NoiseSource) -> DoubleDouble:
    choice, position, more, acceptance = words[:, words[0] <= _FAIR_WORDS]
    cells = np.searchsorted(_ENDS, choice % np.uint64(_TOTAL), side="right")
    start, within = _CELL * cells, (position >> np.uint64(11)).astype(np.float64) * (_CELL * 2.0**-53)
    rest = (position & np.uint64(2047)).astype(np.float64) * 2.0**-64 + (more >> np.uint64(32)).astype(
        np.float64
    ) * 2.0**-96
    high, low = _two_sum(start, within)
    high, low = _normalised(high, low + _CELL * rest)
    logs, errors = log_uniforms(acceptance)
    gaps = _WEIGHT_BITS * math.log(2) - np.log(_WEIGHTS[cells].astype(np.float64)) - 0.5 * high * high - logs
    kept = gaps > 0
    for index in np.flatnonzero(np.abs(gaps) <= errors + _LOG_ERROR):
        kept[index] = _is_accepted(DoubleDouble(high[[index]], low[[index]]), cells[index], acceptance[[index]], source)
    signs = np.where(more & np.uint64(1), 1.0, -1.0)
    return DoubleDouble((signs * high)[kept], (signs * low)[kept])


def _is_accepted(value: DoubleDouble, cell: int, word: Words, source: NoiseSource) -> bool:
    """u·weight < 2⁵²·exp(−x²/2), with as many bits of u as it takes."""
    lazy = LazyUniforms(word, source)
    while True:
        with ball_precision(2 * lazy.bits + 128):
            limit = arb(2) ** _WEIGHT_BITS * (-(value.balls()[0] ** 2) / 2).exp()
            weighted = lazy.balls()[0] * arb(int(_WEIGHTS[cell]))
            if weighted < limit or weighted > limit:
                return bool(weighted < limit)
        lazy.refine()
