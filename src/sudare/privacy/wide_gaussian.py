"""Discrete Gaussian noise of deviation 2³⁴, quick enough for every parameter of a network in every step. Proof: proofs/wide_gaussian.md.

A word of 64 fair bits makes one draw of deviation 2¹²: a sign, and 63 bits that are compared with the cumulative probabilities of the
law. Where they do not decide, 64 more bits are asked for, which happens once in 2⁴⁷ draws; so the law is exact to 127 bits, in its tails
too. Three such draws X₀ + K·X₁ + K²·X₂ make a discrete Gaussian of deviation 2¹²·√(1 + K² + K⁴) with K = 2¹¹.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numba
import numpy as np
from flint import arb
from flint import ctx as ball_context
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

# The deviation of the law is this, and 2⁻²³ of it more.
DEVIATION: Final = 2.0**34
WORDS_PER_NUMBER: Final = 3
TABLE_DEVIATION: Final = 2**12
FACTOR: Final = 2**11
# Draws end at so many deviations of the table.
TABLE_REACH: Final = 12
TABLE_DISTANCE: Final = Fraction(1, 2**100)
_CONVOLUTION_DISTANCE: Final = Fraction(1, 2**108)
# Total variation between one number of `wide_gaussian` and a normal variable of the same deviation, rounded to a whole number.
DISTANCE: Final = Fraction(1, 24 * 2**68) + WORDS_PER_NUMBER * TABLE_DISTANCE + 2 * _CONVOLUTION_DISTANCE

_FIRST_BITS: Final = 63
_MORE_BITS: Final = 64
_GUIDE_BITS: Final = 16
_BALL_BITS: Final = 256
_UNDECIDED: Final = np.iinfo(np.int32).min


@dataclass(frozen=True)
class Table:
    """Cumulative probabilities of |X| for a discrete Gaussian X that ends at `reach`.

    `thresholds` are those of 0, 1, …, reach in units of 2⁻¹²⁷, the last one exactly 1; `firsts` their first 63 bits. `guide` has for the
    first bits of a word how many thresholds are surely not above it. `distance` bounds the total variation to the law without an end.
    """

    thresholds: tuple[int, ...]
    firsts: Words
    guide: NDArray[np.uint16]
    distance: Fraction

    def magnitude(self, first: int, more: int) -> int:
        """|X| where the first bits do not decide."""
        return bisect.bisect_right(self.thresholds, (first << _MORE_BITS) | more)


def gaussian_table(deviation: int, reach: int) -> Table:
    """The table of P(X = x) ∝ exp(−x²/(2·deviation²)), by ball arithmetic."""
    with ball_context.workprec(_BALL_BITS):
        rate = 1 / (2 * arb(deviation) ** 2)
        sums = [arb(1)]
        for value in range(1, reach + 1):
            sums.append(sums[-1] + 2 * (-rate * value**2).exp())
        # Terms beyond the end fall faster than a geometric series from there on.
        beyond = 2 * (-rate * (reach + 1) ** 2).exp() / (1 - (-rate * (2 * reach + 3)).exp())
        scaled = [part / sums[-1] * arb(2) ** (_FIRST_BITS + _MORE_BITS) for part in sums[:-1]]
        errors = [1 + ball.rad() for ball in scaled]
        distance = sum(errors, start=arb(0)) * arb(2) ** -(_FIRST_BITS + _MORE_BITS) + beyond / sums[-1]
        upper = distance.upper().fmpq()
        thresholds = [int(ball.mid().floor().unique_fmpz()) for ball in scaled]
    bound = Fraction(int(upper.p), int(upper.q))
    thresholds.append(1 << (_FIRST_BITS + _MORE_BITS))
    firsts = np.array([threshold >> _MORE_BITS for threshold in thresholds], dtype=np.uint64)
    starts = np.arange(2**_GUIDE_BITS, dtype=np.uint64) << np.uint64(_FIRST_BITS - _GUIDE_BITS)
    return Table(tuple(thresholds), firsts, np.searchsorted(firsts, starts).astype(np.uint16), bound)


@functools.lru_cache(maxsize=1)
def standard_table() -> Table:
    """The table that noise is drawn from."""
    return gaussian_table(TABLE_DEVIATION, TABLE_REACH * TABLE_DEVIATION)


def table_draws(table: Table, words: Words, more: Callable[[int], int]) -> NDArray[np.int32]:
    """One draw for each word; `more(place)` gives 64 further fair bits for the word at a place, the same whenever it is asked."""
    drawn = np.empty(len(words), dtype=np.int32)
    _look_up(words, table.firsts, table.guide, drawn)
    for place in np.flatnonzero(drawn == _UNDECIDED):
        word = int(words[place])
        magnitude = table.magnitude(word >> 1, more(int(place)))
        drawn[place] = -magnitude if word & 1 else magnitude
    return drawn


def wide_gaussian(words: Words, more: Callable[[int], int]) -> Integers:
    """Independent discrete Gaussian numbers, one for every three words; `more` as for `table_draws`."""
    drawn = table_draws(standard_table(), words, more).reshape(WORDS_PER_NUMBER, -1).astype(np.int64)
    return np.asarray(drawn[0] + FACTOR * (drawn[1] + FACTOR * drawn[2]))


def _compiled(function: Callable[..., None]) -> Any:
    """Compiled once per machine where a cache folder can be written, else once per process; other threads run meanwhile."""
    njit: Any = numba.njit
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)


@_compiled
def _look_up(words: Words, firsts: Words, guide: NDArray[np.uint16], drawn: NDArray[np.int32]) -> None:
    """Signed draws where the first 63 bits of a word decide, and the mark for "undecided" where they do not."""
    for place in range(len(words)):
        first = words[place] >> np.uint64(1)
        magnitude = np.int64(guide[first >> np.uint64(_FIRST_BITS - _GUIDE_BITS)])
        while firsts[magnitude] <= first:
            magnitude += 1
        # Without a branch: signs are as hard to predict as they should be.
        drawn[place] = magnitude * (1 - 2 * np.int64(words[place] & np.uint64(1)))
        if magnitude > 0 and firsts[magnitude - 1] == first:
            drawn[place] = _UNDECIDED
