"""Exact coins and draws: digit by digit on scripted bits, and by their frequencies with real ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from sudare.privacy.accounting import exact
from sudare.privacy.discrete_exponential_mechanism import GibbsDraws, drawn, exponential_coin, rational_coin
from sudare.privacy.noise import SeededNoise, SystemNoise
from tests.guarantees.gates import SMALLEST_CHI_SQUARE_P


class Scripted(SeededNoise):
    """Bits that are written down beforehand."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers

    def integer_below(self, limit: int) -> int:
        number = next(self.numbers)
        assert 0 <= number < limit
        return number


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([1431655764], True),
        ([1431655766], False),
        ([1431655765, 1431655764], True),
        ([1431655765, 1431655765, 1431655766], False),
    ],
)
def test_a_coin_compares_bits_with_digits(numbers, found):
    """One third has the digit 1431655765 again and again, to the base 2³²."""
    assert rational_coin(Fraction(1, 3), Scripted(iter(numbers))) is found


def test_coins_that_are_certain_and_a_half():
    assert rational_coin(Fraction(1), Scripted(iter([])))
    assert not rational_coin(Fraction(0), Scripted(iter([0, 0, 5])))
    assert rational_coin(Fraction(1, 2), Scripted(iter([2**31 - 1])))
    assert not rational_coin(Fraction(1, 2), Scripted(iter([2**31, 1])))
    assert not rational_coin(Fraction(1, 2), Scripted(iter([2**31, 0, 7])))


@given(probability=st.fractions(0, 1), bits=st.integers(0, 2**64 - 1))
def test_a_coin_falls_below_its_probability(probability, bits):
    """The first 64 bits of a uniform number decide, unless they are those of the probability."""
    assume(math.floor(probability * 2**64) != bits)
    assert rational_coin(probability, Scripted(iter(divmod(bits, 2**32)))) == (Fraction(bits, 2**64) < probability)


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(3, 10), Fraction(1), Fraction(9, 4)])
def test_exponential_coins(exponent):
    """Chi-square with one degree of freedom; false alarms once in a million."""
    source, tosses = SystemNoise(), 4000
    heads = sum(exponential_coin(exponent, source) for _ in range(tosses))
    chance = math.exp(-exponent)
    if exponent == 0:
        assert heads == tosses
        return
    cells = np.array([chance, 1 - chance]) * tosses
    assert stats.chisquare([heads, tosses - heads], cells).pvalue > SMALLEST_CHI_SQUARE_P


@pytest.mark.parametrize("source", [SystemNoise(), SeededNoise(0)], ids=["system", "seeded"])
def test_draws_have_gibbs_weights(source):
    losses = [Fraction(5, 2), Fraction(0), Fraction(1), Fraction(1, 4)]
    mechanism = GibbsDraws(4000.0, 2000, 1)
    assert mechanism.rate == 1
    counts = mechanism.counts(losses, source)
    expected = softmax([-float(loss) for loss in losses]) * 2000
    assert stats.chisquare(counts, expected).pvalue > SMALLEST_CHI_SQUARE_P


def test_only_differences_of_losses_matter():
    losses = [Fraction(7), Fraction(8)]
    shifted = [loss + 100 for loss in losses]
    mechanism = GibbsDraws(1.0, 20, 1)
    np.testing.assert_array_equal(mechanism.counts(losses, SeededNoise(1)), mechanism.counts(shifted, SeededNoise(1)))
    assert drawn([Fraction(0)], SystemNoise()) == 0


@given(epsilon=st.floats(1e-6, 1e3), draws=st.integers(1, 10_000), unit_rows=st.integers(1, 1000))
def test_the_rate_is_what_was_paid_for_and_no_less_than_needed(epsilon, draws, unit_rows):
    mechanism = GibbsDraws(epsilon, draws, unit_rows)
    spent = 2 * Fraction(mechanism.rate) * unit_rows * draws
    assert spent <= exact(epsilon)
    assert float(spent) == pytest.approx(epsilon, rel=1e-12)
    assert mechanism.cost.epsilon == exact(epsilon)
    assert mechanism.noise_scale == 1 / mechanism.rate
