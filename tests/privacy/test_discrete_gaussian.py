"""The table has the law, four draws from it make a wide one, and broken tables are caught."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sudare.errors import NotSolved
from sudare.privacy import discrete_gaussian as noise
from sudare.privacy.discrete_gaussian import CumulativeTable, discrete_gaussian, gaussian_table, standard_table

HALF = 2**noise.FIRST_BITS


def no_more(place):
    raise AssertionError("the first bits should have decided")


def words_of(halves):
    return np.array(halves, dtype=np.uint32).view(np.uint64)


# The law of one draw


DIGITS = 80


@functools.lru_cache(maxsize=8)
def ideal_thresholds(deviation, reach):
    """P(|X| ≤ x)·2¹²⁷ for x = 0, …, reach − 1 in 80 decimal digits: the law without an end."""
    with localcontext(prec=DIGITS):
        rate = Decimal(1) / (2 * deviation**2)
        sums = list(itertools.accumulate([Decimal(1), *(2 * (-rate * x * x).exp() for x in range(1, 2 * reach))]))
        return [part / sums[-1] * 2**127 for part in sums[:reach]]


def total_variation(table, deviation):
    """Between the table and the law without an end."""
    with localcontext(prec=DIGITS):
        ideal = [Decimal(0), *ideal_thresholds(deviation, len(table.thresholds))]
        pairs = zip(itertools.pairwise([0, *table.thresholds]), itertools.pairwise(ideal), strict=True)
        cells = sum(abs((b - a) - (d - c)) for (a, b), (c, d) in pairs)
        return (cells + (2**127 - ideal[-1])) / 2 / 2**127


def fits(table, deviation, bound=noise.TABLE_DISTANCE):
    """The audit: all thresholds of a table against the law."""
    with localcontext(prec=DIGITS):
        return total_variation(table, deviation) <= Decimal(bound.numerator) / bound.denominator


def test_the_standard_table_has_the_law_to_the_stated_distance():
    """All 12,289 thresholds. The bound that the table computed for itself holds too, and is below the one that is charged."""
    standard_table.cache_clear()
    table = standard_table()
    assert len(table.thresholds) == noise.TABLE_REACH * noise.TABLE_DEVIATION + 1
    assert table.distance <= noise.TABLE_DISTANCE
    assert fits(table, noise.TABLE_DEVIATION, table.distance)


def test_a_table_that_is_not_exact_enough_is_refused(monkeypatch):
    standard_table.cache_clear()
    monkeypatch.setattr(noise, "gaussian_table", lambda deviation, reach: coarse)
    coarse = replace(gaussian_table(3, 36), distance=2 * noise.TABLE_DISTANCE)
    with pytest.raises(NotSolved, match="not exact enough"):
        standard_table()
    standard_table.cache_clear()


@pytest.mark.parametrize(("deviation", "reach"), [(1, 12), (3, 36), (20, 240)])
def test_any_table_has_its_law(deviation, reach):
    assert fits(gaussian_table(deviation, reach), deviation, gaussian_table(deviation, reach).distance)


@pytest.mark.parametrize(
    "broken",
    [
        lambda table: gaussian_table(0.8 * noise.TABLE_DEVIATION, noise.TABLE_REACH * noise.TABLE_DEVIATION),
        lambda table: gaussian_table(noise.TABLE_DEVIATION, 8 * noise.TABLE_DEVIATION),
        lambda table: replace(table, thresholds=tuple(t >> 64 << 64 for t in table.thresholds)),
        lambda table: replace(table, thresholds=tuple(int(float(t)) for t in table.thresholds)),
        lambda table: replace(table, thresholds=(table.thresholds[0] + 2**40, *table.thresholds[1:])),
    ],
    ids=["0.8 of the noise", "cut at 8 deviations", "63 bits alone", "thresholds in floats", "one value too likely"],
)
def test_broken_tables_are_caught(broken):
    assert not fits(broken(standard_table()), noise.TABLE_DEVIATION)


# From bits to draws


def draw(table, half, more):
    """|X| with its sign, by definition: thresholds that are not above the number that all bits make."""
    number = ((half >> 1) << noise.MORE_BITS) | more
    magnitude = sum(itertools.takewhile(bool, (threshold <= number for threshold in table.thresholds)))
    return -magnitude if half & 1 else magnitude


def looked_up(table, halves):
    """By the compiled loop's own code, so that every branch is seen."""
    numbers = np.empty(len(halves) // noise.DRAWS, dtype=np.int64)
    noise._look_up.py_func(np.array(halves, dtype=np.uint32), table.firsts, table.guide, numbers)
    return numbers


def test_first_bits_decide_as_all_bits_do():
    """Just below and just above thresholds everywhere in the table, with either sign, and far between."""
    table = standard_table()
    firsts = [int(first) for first in table.firsts[[0, 1, 2, 50, 700, 1500, 3000, 4500]]]
    singles = {0, 1, 2**20, HALF - 2, *(first + step for first in firsts for step in (-1, 1))} - set(
        table.firsts.tolist()
    )
    for first, sign in itertools.product(sorted(singles), (0, 1)):
        half = (first << 1) | sign
        number = looked_up(table, [half, 0, 0, 0])[0]
        assert number == draw(table, half, 0) == draw(table, half, 2**noise.MORE_BITS - 1)


def test_bits_that_equal_a_threshold_are_undecided_and_more_decide():
    table = standard_table()
    for value in (0, 5, 4000):
        half = int(table.firsts[value]) << 1
        rest = table.thresholds[value] & (2**noise.MORE_BITS - 1)
        assert looked_up(table, [half, 0, 0, 0])[0] == np.iinfo(np.int64).min
        assert discrete_gaussian(words_of([half, 0, 0, 0]), lambda place, rest=rest: rest - 1)[0] == value
        assert discrete_gaussian(words_of([half, 0, 0, 0]), lambda place, rest=rest: rest)[0] == value + 1
        assert discrete_gaussian(words_of([half | 1, 0, 0, 0]), lambda place, rest=rest: rest)[0] == -(value + 1)


def test_the_tails_are_reached():
    """Where all first bits are ones there is all of the tail, to its end."""
    ones = 2**32 - 2
    tail = [
        discrete_gaussian(words_of([ones, 0, 0, 0]), lambda place, more=more: more)[0] for more in (0, 2**95, 2**96 - 1)
    ]
    assert tail[0] < tail[1] < tail[2] == noise.TABLE_REACH * noise.TABLE_DEVIATION
    assert tail[0] > 6 * noise.TABLE_DEVIATION


def test_more_bits_are_asked_for_the_place_that_needs_them():
    half = int(standard_table().firsts[5]) << 1
    asked = []

    def more(place):
        asked.append(place)
        return 0

    discrete_gaussian(words_of([0, 0, 0, 0, 0, 0, half, 0]), more)
    assert 6 in asked
    assert set(asked) <= {4, 5, 6, 7}


def test_compiled_and_plain_loops_agree():
    halves = np.random.default_rng(1).integers(0, 2**32, 4 * 5000, dtype=np.uint32)
    table = standard_table()
    compiled = np.empty(5000, dtype=np.int64)
    noise._look_up(halves, table.firsts, table.guide, compiled)
    np.testing.assert_array_equal(looked_up(table, halves), compiled)


# The law of a number


def test_numbers_are_four_draws_in_the_base_of_the_factor():
    table = standard_table()
    halves = np.random.default_rng(2).integers(0, 2**32, 4 * 300, dtype=np.uint32)
    known = set(table.firsts.tolist())
    halves[np.isin(halves >> 1, list(known))] += 2
    expected = [
        sum(draw(table, int(half), 0) * noise.FACTOR**power for power, half in enumerate(line))
        for line in halves.reshape(-1, 4)
    ]
    np.testing.assert_array_equal(discrete_gaussian(words_of(halves), no_more), expected)


def convolved(deviation, factor, draws, span):
    """The law of X₀ + K·X₁ + … for discrete Gaussians of that deviation, at −span, …, span."""
    values = np.arange(-40 * deviation, 40 * deviation + 1)
    single = np.exp(-(values.astype(float) ** 2) / (2 * deviation**2))
    law = {int(value): weight for value, weight in zip(values, single / single.sum(), strict=True) if weight > 1e-18}
    total = dict(law)
    for power in range(1, draws):
        wider: dict[int, float] = {}
        for first, weight in total.items():
            for value, other in law.items():
                place = first + factor**power * value
                wider[place] = wider.get(place, 0.0) + weight * other
        total = wider
    return np.array([total.get(value, 0.0) for value in range(-span, span + 1)])


def test_draws_add_up_to_a_wide_discrete_gaussian():
    """The convolution lemma on a small scale: deviation 4, factor 2 (σ² over 1 + K² is 3.2, error below 1e-26), and one that is too far apart."""
    variance = 16 * (1 + 4 + 16)
    span = 100
    ideal = np.exp(-(np.arange(-span, span + 1.0) ** 2) / (2 * variance))
    ideal /= math.sqrt(2 * math.pi * variance)
    np.testing.assert_allclose(convolved(4, 2, 3, span), ideal, rtol=1e-10, atol=1e-16)
    far = convolved(1, 8, 2, 60)
    wrong = np.exp(-(np.arange(-60, 61.0) ** 2) / (2 * 65)) / math.sqrt(2 * math.pi * 65)
    assert np.abs(far - wrong).sum() > 0.1


def test_the_constants_of_the_proof():
    """s² = σ²/(1 + K²) is nearly 16; the stated distances are above what the lemmas give; the deviation is what units are made for."""
    s_squared = noise.TABLE_DEVIATION**2 / (1 + noise.FACTOR**2)
    # η = 2·Σ exp(−2π²s²j²) is below three times its first term, and the distance below 2η.
    assert math.log2(6) - 2 * math.pi**2 * s_squared * math.log2(math.e) < math.log2(noise.CONVOLUTION_DISTANCE)
    variance = noise.TABLE_DEVIATION**2 * sum(noise.FACTOR ** (2 * power) for power in range(noise.DRAWS))
    assert Fraction(noise.DEVIATION) ** 2 <= variance < Fraction(noise.DEVIATION) ** 2 * Fraction(1 + 2.0**-15)
    assert Fraction(1, 24 * variance) + noise.DRAWS * noise.TABLE_DISTANCE < noise.DISTANCE < Fraction(1, 2**72)


def is_normal(numbers, deviation=noise.DEVIATION):
    """Kolmogorov–Smirnov and the share beyond three deviations: false alarms below 1e-6."""
    low, high = stats.binom.ppf([2e-7, 1 - 2e-7], len(numbers), 2 * stats.norm.sf(3.0))
    far = np.sum(np.abs(numbers) > 3 * deviation)
    return stats.kstest(numbers / deviation, stats.norm.cdf).pvalue > 2e-7 and low <= far <= high


def test_numbers_are_normal_and_noise_that_is_not_is_caught():
    words = np.random.default_rng(3).integers(0, 2**64, 2 * 200_000, dtype=np.uint64)
    numbers = discrete_gaussian(words, lambda place: 0)
    assert is_normal(numbers)
    assert not is_normal(0.8 * numbers)
    assert not is_normal(np.abs(numbers))
    low_bits = np.bincount(numbers & 15, minlength=16)
    assert stats.chisquare(low_bits).pvalue > 1e-6
    single = np.float32(numbers).astype(np.int64)
    assert stats.chisquare(np.bincount(single & 15, minlength=16) + 1e-9).pvalue < 1e-6


def test_a_table_is_made_once():
    assert isinstance(standard_table(), CumulativeTable)
    assert standard_table() is standard_table()
