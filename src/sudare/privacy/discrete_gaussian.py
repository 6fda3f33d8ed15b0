"""Discrete Gaussian noise of deviation 2³⁴, quick enough for every parameter of a network in every step. Proof: proofs/discrete_gaussian.md.

32 fair bits make one draw of deviation 2¹⁰: a sign, and 31 bits that are compared with the cumulative probabilities of the law. Where they
do not decide, which happens once in some hundred thousand draws, 96 more bits are asked for; so the law is exact to 127 bits, in its
tails too. Four draws X₀ + K·X₁ + K²·X₂ + K³·X₃ with K = 2⁸ make a discrete Gaussian of deviation 2¹⁰·√(1 + K² + K⁴ + K⁶).
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from flint import arb
from numpy.typing import NDArray

from sudare.array_types import Integers, Words
from sudare.ball_precision import ball_precision
from sudare.compiled_loops import compiled
from sudare.errors import NotSolved

Halves = NDArray[np.uint32]
More = Callable[[int], int]

# The deviation of the law is this, and 2⁻¹⁷ of it more.
DEVIATION: Final = 2.0**34
TABLE_DEVIATION: Final = 2**10
FACTOR: Final = 2**8
DRAWS: Final = 4
WORDS_PER_NUMBER: Final = DRAWS // 2
# Draws end at so many deviations of the table.
TABLE_REACH: Final = 12
TABLE_DISTANCE: Final = Fraction(1, 2**100)
CONVOLUTION_DISTANCE: Final = Fraction(1, 2**400)
# Total variation between one number of `discrete_gaussian` and a normal variable of the same deviation, rounded to a whole number.
DISTANCE: Final = Fraction(1, 24 * 2**68) + DRAWS * TABLE_DISTANCE + (DRAWS - 1) * CONVOLUTION_DISTANCE

FIRST_BITS: Final = 31
MORE_BITS: Final = 96
_GUIDE_BITS: Final = 14
_BALL_BITS: Final = 256
_UNDECIDED: Final = np.iinfo(np.int64).min


@dataclass(frozen=True)
class CumulativeTable:
    """Cumulative probabilities of |X| for a discrete Gaussian X that ends at `reach`.

    `thresholds` are those of 0, 1, …, reach in units of 2⁻¹²⁷, the last one exactly 1; `firsts` their first 31 bits. `guide` has for the
    first bits of a draw how many thresholds are surely not above it. `distance` bounds the total variation to the law without an end.
    """

    thresholds: tuple[int, ...]
    firsts: Halves
    guide: NDArray[np.uint16]
    distance: Fraction

    def drawn(self, half: int, more: int) -> int:
        """X for 32 bits, of which the last is the sign, and 96 more."""
        magnitude = bisect.bisect_right(self.thresholds, (half >> 1) << MORE_BITS | more)
        return -magnitude if half & 1 else magnitude


def gaussian_table(deviation: int, reach: int) -> CumulativeTable:
    """The table of P(X = x) ∝ exp(−x²/(2·deviation²)), by ball arithmetic."""
    with ball_precision(_BALL_BITS):
        rate = 1 / (2 * arb(deviation) ** 2)
        sums = [arb(1)]
        for value in range(1, reach + 1):
            sums.append(sums[-1] + 2 * (-rate * value**2).exp())
        # Terms beyond the end fall faster than a geometric series from there on.
        beyond = 2 * (-rate * (reach + 1) ** 2).exp() / (1 - (-rate * (2 * reach + 3)).exp())
        scale = arb(2) ** (FIRST_BITS + MORE_BITS)
        scaled = [part / sums[-1] * scale for part in sums[:-1]]
        thresholds = [int(str(ball.mid().floor().unique_fmpz())) for ball in scaled]
        upper = (sum([1 + ball.rad() for ball in scaled], start=arb(0)) / scale + beyond / sums[-1]).upper().fmpq()
    thresholds.append(1 << (FIRST_BITS + MORE_BITS))
    firsts = np.array([threshold >> MORE_BITS for threshold in thresholds], dtype=np.uint32)
    starts = np.arange(2**_GUIDE_BITS, dtype=np.uint32) << np.uint32(FIRST_BITS - _GUIDE_BITS)
    guide = np.searchsorted(firsts, starts).astype(np.uint16)
    return CumulativeTable(tuple(thresholds), firsts, guide, Fraction(int(upper.p), int(upper.q)))


@functools.lru_cache(maxsize=1)
def standard_table() -> CumulativeTable:
    """The table that noise is drawn from. Raise NotSolved unless it is as near to the ideal law as δ is computed for."""
    table = gaussian_table(TABLE_DEVIATION, TABLE_REACH * TABLE_DEVIATION)
    if table.distance > TABLE_DISTANCE:
        raise NotSolved("The table of the noise is not exact enough.", "Report it; nothing was drawn.")
    return table


def discrete_gaussian(words: Words, more: More) -> Integers:
    """Independent discrete Gaussian numbers of deviation `DEVIATION`, one for every two words of 64 fair bits.

    `more(place)` gives 96 further fair bits for the 32 at a place, the same whenever it is asked.
    """
    table, halves = standard_table(), np.ascontiguousarray(words).view(np.uint32)
    numbers = np.empty(len(halves) // DRAWS, dtype=np.int64)
    _look_up(halves, table.firsts, table.guide, numbers)
    for place in np.flatnonzero(numbers == _UNDECIDED).tolist():
        first = DRAWS * place
        draws = [table.drawn(int(halves[half]), more(half)) for half in range(first, first + DRAWS)]
        numbers[place] = sum(draw * FACTOR**power for power, draw in enumerate(draws))
    return numbers


@compiled(nogil=True)
def _look_up(halves: Halves, firsts: Halves, guide: NDArray[np.uint16], numbers: Integers) -> None:
    """Numbers where the first 31 bits decide all their draws, and the mark for "undecided" where they do not."""
    for place in range(len(numbers)):
        number = np.int64(0)
        undecided = False
        for back in range(1, DRAWS + 1):
            half = halves[DRAWS * (place + 1) - back]
            first = half >> np.uint32(1)
            magnitude = np.int64(guide[first >> np.uint32(FIRST_BITS - _GUIDE_BITS)])
            # Once without a branch, which is enough for most draws; signs, too, are as hard to predict as they should be.
            magnitude += np.int64(firsts[magnitude] <= first)
            while firsts[magnitude] <= first:
                magnitude += 1
            if magnitude > 0 and firsts[magnitude - 1] == first:
                undecided = True
            number = number * FACTOR + magnitude * (1 - 2 * np.int64(half & np.uint32(1)))
        numbers[place] = _UNDECIDED if undecided else number
