"""Shamir's secret sharing over the prime field of 2^61 − 1: any t shares give the secret, t − 1 are uniform whatever it is.

The field serves both for seeds of 32 bytes, in limbs of 56 bits, and for whole vectors of numbers as a way of hiding them.
Proof: proofs/secure_sums.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sudare.array_types import Words
from sudare.errors import InvalidParameter
from sudare.sums.pseudorandom_streams import SEED_BYTES, stretched

PRIME: Final = 2**61 - 1
_LIMB_BYTES: Final = 7
SEED_LIMBS: Final = -(-SEED_BYTES // _LIMB_BYTES)
# A word equals the prime after masking with probability 2^−61; so many spares are never used up.
_SPARE_WORDS: Final = 8

_P: Final = np.uint64(PRIME)
_LOW_31: Final = np.uint64(2**31 - 1)
_LOW_30: Final = np.uint64(2**30 - 1)
_SHIFT_30, _SHIFT_31, _SHIFT_61, _ONE = (np.uint64(bits) for bits in (30, 31, 61, 1))


def reduced(words: Words) -> Words:
    """Residues of any words: 2^61 ≡ 1."""
    folded = (words & _P) + (words >> _SHIFT_61)
    return np.where(folded >= _P, folded - _P, folded)


def field_sum(first: Words, second: Words) -> Words:
    """The sum of two residues."""
    return reduced(first + second)


def field_product(first: Words, second: Words) -> Words:
    """The product of residues, from halves of 31 bits so that nothing leaves 64 bits: 2^62 ≡ 2 and 2^61 ≡ 1."""
    high, low = first >> _SHIFT_31, first & _LOW_31
    other_high, other_low = second >> _SHIFT_31, second & _LOW_31
    middle = high * other_low + low * other_high
    upper = ((high * other_high) << _ONE) + (middle >> _SHIFT_30) + ((middle & _LOW_30) << _SHIFT_31)
    return reduced(upper + low * other_low)


def field_elements(seed: bytes, count: int) -> Words:
    """Uniform residues from a seed; the one value of 61 bits that is no residue is thrown away."""
    words = stretched(seed, count + _SPARE_WORDS) & _P
    return np.asarray(words[words != _P][:count])


def shares_of(secrets: Words, threshold: int, count: int, seed: bytes) -> Words:
    """Shares (count × secrets): values at 1, …, count of polynomials of degree t − 1 whose other coefficients the seed gives."""
    if not 1 <= threshold <= count:
        raise InvalidParameter(
            f"A threshold of {threshold} does not fit {count} shares.", f"Use a threshold between 1 and {count}."
        )
    return shares_at(range(count), secrets, threshold, seed)


def shares_at(holders: Sequence[int], secrets: Words, threshold: int, seed: bytes) -> Words:
    """Shares (holders × secrets) of these holders, counted from zero, of the polynomials that the seed gives."""
    coefficients = field_elements(seed, (threshold - 1) * len(secrets)).reshape(threshold - 1, len(secrets))
    points = np.array(holders, dtype=np.uint64)[:, np.newaxis] + _ONE
    values = np.zeros((len(points), len(secrets)), dtype=np.uint64)
    for row in coefficients:
        values = field_product(field_sum(values, row), points)
    return field_sum(values, secrets)


def lagrange_weights(holders: Sequence[int]) -> list[int]:
    """λ with secret = Σ λ·share for the shares of these holders, who are counted from zero."""
    points = [holder + 1 for holder in holders]
    weights = []
    for point in points:
        numerator = denominator = 1
        for other in points:
            if other != point:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - point) % PRIME
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return weights


def field_inverse(values: Words) -> Words:
    """Inverses of residues that are not zero, by Fermat: x^(p−2), p − 2 = 2^61 − 3."""
    result, power = np.ones_like(values), values
    for bit in range(61):
        if (PRIME - 2) >> bit & 1:
            result = field_product(result, power)
        power = field_product(power, power)
    return result


def secrets_of_many(holders: Words, shares: Words) -> Words:
    """Secrets (owners × limbs) behind shares (owners × t × limbs) of holders (owners × t), counted from zero, all owners at once."""
    points = holders + _ONE
    weights = np.ones_like(points)
    denominators = np.ones_like(points)
    for place in range(points.shape[1]):
        other = points[:, place, np.newaxis]
        others = np.arange(points.shape[1]) != place
        weights = np.where(others, field_product(weights, np.broadcast_to(other, points.shape)), weights)
        difference = reduced(other + _P - points)
        denominators = np.where(others, field_product(denominators, difference), denominators)
    weights = field_product(weights, field_inverse(denominators))
    total = np.zeros((shares.shape[0], shares.shape[2]), dtype=np.uint64)
    for place in range(points.shape[1]):
        total = field_sum(total, field_product(shares[:, place], weights[:, place, np.newaxis]))
    return total


def seed_limbs(seed: bytes) -> Words:
    """A seed of 32 bytes as residues."""
    padded = seed.ljust(SEED_LIMBS * _LIMB_BYTES, b"\x00")
    limbs = [int.from_bytes(padded[at : at + _LIMB_BYTES], "little") for at in range(0, len(padded), _LIMB_BYTES)]
    return np.array(limbs, dtype=np.uint64)


def seed_or_none(limbs: Words) -> bytes | None:
    """The seed that limbs stand for; None if they stand for none, as where a share was wrong."""
    if len(limbs) != SEED_LIMBS or (limbs >= np.uint64(1 << 8 * _LIMB_BYTES)).any():
        return None
    padded = b"".join(int(limb).to_bytes(_LIMB_BYTES, "little") for limb in limbs)
    return padded[:SEED_BYTES]


# Numbers as residues


def residues(words: Words) -> Words:
    """Signed 64-bit words as residues; those of absolute value below 2^60 can be told apart."""
    signed = words.view(np.int64)
    return np.where(signed < 0, _P - (-signed).view(np.uint64) % _P, words % _P) % _P


def signed_words(values: Words) -> Words:
    """Residues as 64-bit words in two's complement: read as signed numbers they lie between −2^60 and 2^60."""
    negative = values > np.uint64(PRIME // 2)
    return np.where(negative, values - _P, values)
