"""The vectorised discrete Laplace law: every digit has its exact probability, and digits and sign make the law."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sudare.errors import InvalidParameter
from sudare.papers.p002_networks import discrete_laplace as module
from sudare.papers.p002_networks.discrete_laplace import DIGITS, digit_probability_bits, discrete_laplace
from sudare.privacy.noise import SystemNoise

SCALES = [Fraction(1, 3), Fraction(17, 10), Fraction(2**20), Fraction(10**9, 7)]


class Scripted:
    """Words from a list, one call after the other; a call for a number of words that was not foreseen fails."""

    def __init__(self, *calls):
        self.calls = [np.asarray(call, dtype=np.uint64) for call in calls]

    def words(self, count):
        words = self.calls.pop(0)
        assert len(words) == count
        return words


def digit_probability(place, scale):
    """1/(1 + exp(2^place/scale)), to as many digits as the context has."""
    small = (Decimal(-(2**place)) * scale.denominator / scale.numerator).exp()
    return small / (1 + small)


def packed(sixteen_bit_words):
    """64-bit words that hold these."""
    return np.asarray(sixteen_bit_words, dtype=np.uint16).view(np.uint64)


@settings(max_examples=60, deadline=None)
@given(
    place=st.integers(0, DIGITS - 1),
    scale=st.fractions(Fraction(1, 1000), 2**40, max_denominator=10**6),
    skipped=st.sampled_from([0, 16, 80]),
    count=st.sampled_from([16, 64]),
)
def test_bits_are_those_of_the_probability(place, scale, skipped, count):
    with localcontext() as context:
        context.prec, context.Emin = 120, -(10**15)
        expected = int(digit_probability(place, scale) * 2 ** (skipped + count)) % 2**count
    assert digit_probability_bits(place, scale, skipped, count) == expected


def test_bits_of_a_probability_that_is_nearly_one_half_need_more_precision():
    """(1 − tanh(1/2s))/2 for huge s: so many zeros after the first bits that the first balls hold a whole number."""
    scale = Fraction(2) ** 300
    bits = [digit_probability_bits(0, scale, skipped, 64) for skipped in (0, 64, 128)]
    assert bits == [2**63 - 1, 2**64 - 1, 2**64 - 1]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("number", [0, 1, 5, 1000, 2**20 + 3])
def test_independent_digits_make_a_geometric_number(scale, number):
    """Π of the digits' probabilities = (1 − q)·qˣ/(1 − q^(2³²)): the law of X modulo 2³²."""
    with localcontext() as context:
        context.prec, context.Emin = 60, -(10**15)
        product = Decimal(1)
        for place in range(DIGITS):
            one = digit_probability(place, scale)
            product *= one if number >> place & 1 else 1 - one
        q = (Decimal(-scale.denominator) / scale.numerator).exp()
        expected = (1 - q) * q**number / (1 - q ** (2**DIGITS))
        assert abs(product / expected - 1) < Decimal("1e-40")


@pytest.mark.parametrize("scale", SCALES)
def test_every_word_of_the_first_bits_gives_a_digit_its_share(scale):
    """All 2¹⁶ words for one digit: as many ones as the first bits of its probability say, and the last word is not decided yet."""
    place = max(0, int(scale).bit_length() - 1)
    words = np.arange(2**16, dtype=np.uint16)
    share = digit_probability_bits(place, scale, 0, 16)
    for later, extra in ([0], 1), ([2**64 - 1], 0):
        ones = module._digits(2**16, np.array([place]), scale, Scripted(words.view(np.uint64), later)).ravel()
        assert ones.sum() == share + extra
        assert ones[:share].all()


def test_undecided_digits_are_compared_further_until_bits_differ():
    scale, places = Fraction(17, 10), np.array([0, 1, 2, 0])
    same = [digit_probability_bits(place, scale, 16, 64) for place in places]
    below, above = same[0] - 1, same[1] + 1
    more = [digit_probability_bits(place, scale, 80, 64) for place in (2, 0)]
    source = Scripted([below, above, same[2], same[3]], [more[0] - 1, more[1]], [2**64 - 1])
    assert module._decided(places, scale, source).tolist() == [True, False, True, False]
    assert source.calls == []


def test_digits_and_sign_become_a_number():
    """x for a sign of 0, and −1 − x for 1; a word of zeros is below every probability that first bits can show."""
    scale, large = Fraction(2**20), 2**16 - 1
    digits = np.full((4, DIGITS), large)
    digits[1, [0, 2]] = 0
    digits[3, [0, 2]] = 0
    drawn = discrete_laplace(4, scale, Scripted(packed(digits.ravel()), packed([large, large, 0, 0])))
    assert drawn.dtype == np.int32
    assert drawn.tolist() == [0, 5, -1, -6]


def test_nothing_is_drawn_for_nothing_and_a_scale_must_be_positive():
    assert discrete_laplace(0, Fraction(1), Scripted()).tolist() == []
    with pytest.raises(InvalidParameter, match="scale of noise must be positive"):
        discrete_laplace(1, Fraction(0), Scripted())


def test_blocks_are_cut_where_many_are_drawn(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 3)
    assert len(discrete_laplace(7, Fraction(5), SystemNoise())) == 7


def chi_square_p(drawn, scale, reach):
    """p of the counts of −reach, …, reach and of the two tails, under the discrete Laplace law."""
    q = np.exp(-1 / scale)
    inside = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
    tail = q ** (reach + 1) / (1 + q)
    counts = np.bincount(np.clip(drawn.astype(np.int64), -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    return stats.chisquare(counts, len(drawn) * np.concatenate([[tail], inside, [tail]])).pvalue


def laplace_p(drawn, scale):
    """p of Kolmogorov and Smirnov's test against the continuous law, which is as good where a step is a millionth of the scale."""
    return stats.kstest(drawn / scale, stats.laplace.cdf).pvalue


def test_small_and_large_scales_have_the_law():
    """Each with false alarms once in ten million."""
    source = SystemNoise()
    for scale, reach in ((Fraction(1, 3), 3), (Fraction(17, 10), 9), (Fraction(30), 80)):
        assert chi_square_p(discrete_laplace(200_000, scale, source), float(scale), reach) > 1e-7
    large = discrete_laplace(200_000, Fraction(2**20), source)
    assert laplace_p(large, 2.0**20) > 1e-7
    # Last digits are fair, and signs independent of sizes.
    assert stats.binomtest(int(np.sum(large & 1)), 200_000).pvalue > 1e-7
    assert abs(np.corrcoef(np.sign(large), np.abs(large))[0, 1]) < 6 / np.sqrt(200_000)


@pytest.mark.parametrize(
    "bug", ["four fifths of the scale", "a sign for zero", "a digit left out", "one digit for two"]
)
def test_wrong_laws_are_found(bug):
    scale, source, count = Fraction(17, 10), SystemNoise(), 200_000
    if bug == "four fifths of the scale":
        drawn = discrete_laplace(count, scale * Fraction(4, 5), source)
    elif bug == "a sign for zero":
        drawn = discrete_laplace(count, scale, source)
        drawn = np.where(drawn < 0, ~drawn, drawn) * np.where(np.arange(count) % 2, 1, -1)
    elif bug == "a digit left out":
        drawn = discrete_laplace(count, scale, source) & ~np.int32(2)
    else:
        drawn = discrete_laplace(count, scale, source)
        drawn = np.where(drawn & 1, drawn | 2, drawn & ~np.int32(2))
    assert chi_square_p(drawn, float(scale), 9) < 1e-7


def test_sums_modulo_two_to_the_32_do_not_show_where_noise_wrapped():
    """Noise is known modulo 2³² only, so a sum must be too: far beyond, all residues are equally likely."""
    drawn = discrete_laplace(100_000, Fraction(2) ** 60, SystemNoise())
    counts = np.bincount((drawn.astype(np.int64) + 2**31) >> 24, minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-7
