"""Discrete Laplace noise modulo 2³², exact and many numbers at a time. Proof: proofs/discrete_laplace.md.

The binary digits of a geometric number are independent; with a sign it has the discrete Laplace law. Each digit is one
comparison of fair bits with the digit's probability, of which ever more bits are looked at until they differ: no float is
rounded anywhere. A sum modulo 2³² depends on the noise modulo 2³² only, so 32 digits are all there are.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Final

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from sudare.array_types import Words
from sudare.ball_precision import ball_precision
from sudare.errors import InvalidParameter
from sudare.privacy.noise import WordSource

Places = NDArray[np.intp]

DIGITS: Final = 32
_FIRST_BITS: Final = 16
_MORE_BITS: Final = 64
_BLOCK: Final = 2**14


def discrete_laplace(count: int, scale: Fraction, source: WordSource) -> NDArray[np.int32]:
    """Independent Z modulo 2³², from −2³¹ to 2³¹ − 1, with P(Z = z) ∝ exp(−|z|/scale): 1/scale-DP for sums modulo 2³².

    Raise InvalidParameter unless the scale is positive.
    """
    if scale <= 0:
        raise InvalidParameter(f"The scale of noise must be positive, got {scale}.", "Use K/ε for sensitivity K.")
    blocks = [min(_BLOCK, count - start) for start in range(0, count, _BLOCK)]
    return np.concatenate([np.empty(0, np.int32), *(_block(block, scale, source) for block in blocks)])


def _block(count: int, scale: Fraction, source: WordSource) -> NDArray[np.int32]:
    """A geometric number x where z = x ≥ 0, or its complement −1 − x where z < 0: that has the probability of a last digit."""
    digits = _digits(count, np.arange(DIGITS), scale, source)
    geometric = np.packbits(digits, axis=1, bitorder="little").view("<u4").ravel().astype(np.uint32, copy=False)
    negative = _digits(count, np.arange(1), scale, source).ravel()
    return np.where(negative, ~geometric, geometric).view(np.int32)


def digit_probability_bits(place: int, scale: Fraction, skipped: int, count: int) -> int:
    """So many binary digits, after those skipped, of the probability 1/(1 + exp(2^place/scale)) that a binary digit of a
    geometric number is 1.
    """
    exponent, bits = 2**place / scale, skipped + count
    if exponent >= bits:
        # The probability is below exp(−bits), and that below 2^−bits.
        return 0
    found, precision = None, bits
    # This ends: e to a rational power other than 0 is irrational, and so is the probability.
    while found is None:
        precision += 64
        with ball_precision(precision):
            small = arb(fmpq(-exponent.numerator, exponent.denominator)).exp()
            found = (small / (1 + small) * arb((1, bits))).floor().unique_fmpz()
    return int(found) % (1 << count)


@functools.lru_cache(maxsize=64)
def _thresholds(scale: Fraction, skipped: int, count: int) -> Words:
    """Those bits for every digit."""
    return np.array([digit_probability_bits(place, scale, skipped, count) for place in range(DIGITS)], dtype=np.uint64)


def _digits(count: int, places: Places, scale: Fraction, source: WordSource) -> NDArray[np.bool_]:
    """Independent bits in a column for each place: 1 with the probability of the geometric number's digit at that place."""
    first = _thresholds(scale, 0, _FIRST_BITS)[places].astype(np.uint16)
    size = count * len(places)
    words = source.words(-(-size * _FIRST_BITS // 64))
    drawn = words.view(np.uint16)[:size].reshape(count, len(places))
    ones = drawn < first
    equal = np.flatnonzero(drawn == first)
    ones.ravel()[equal] = _decided(places[equal % len(places)], scale, source)
    return ones


def _decided(places: Places, scale: Fraction, source: WordSource) -> NDArray[np.bool_]:
    """Digits whose fair bits agree with the first bits of their probability: more bits of both, until they differ."""
    ones = np.zeros(len(places), dtype=np.bool_)
    undecided, skipped = np.arange(len(places)), _FIRST_BITS
    while undecided.size:
        probabilities = _thresholds(scale, skipped, _MORE_BITS)[places[undecided]]
        drawn = source.words(undecided.size)
        ones[undecided] = drawn < probabilities
        undecided, skipped = undecided[drawn == probabilities], skipped + _MORE_BITS
    return ones
