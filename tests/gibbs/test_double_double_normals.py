"""Numbers of a hundred bits: sums and products against ball arithmetic, and normal numbers against their law."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from flint import ctx as ball_context
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.gibbs import double_double_normals as fine
from sudare.gibbs.double_double_normals import DoubleDouble, double_double_normals
from sudare.privacy.noise import SeededNoise, SystemNoise

HIGHS = st.floats(-1e6, 1e6).filter(lambda value: value == 0 or abs(value) > 1e-6)


def fine_number(high: float, share: float) -> DoubleDouble:
    return DoubleDouble(np.array([high]), np.array([share * np.spacing(abs(high)) / 2]))


@given(HIGHS, st.floats(-1, 1), HIGHS, st.floats(-1, 1), st.floats(1e-3, 1e3))
def test_sums_and_products_are_right_to_a_hundred_bits(first, low, second, other_low, factor):
    one, two = fine_number(first, low), fine_number(second, other_low)
    with ball_context.workprec(400):
        total = one.balls()[0] + two.balls()[0]
        assert abs(one.plus(two).balls()[0] - total) <= (abs(arb(first)) + abs(arb(second))) * arb(2) ** -101
        product = one.balls()[0] * arb(factor)
        assert abs(one.times(factor).balls()[0] - product) <= abs(product) * arb(2) ** -101
    np.testing.assert_allclose(one.minus_floats(np.array([second])), first - second, atol=1e-9)


def test_normal_numbers_have_their_law():
    """Dvoretzky–Kiefer–Wolfowitz: a false alarm at most once in 1e7."""
    draws = double_double_normals(200_000, SystemNoise())
    allowed = float(np.sqrt(np.log(2e7) / (2 * 200_000)))
    assert stats.kstest(draws.high, "norm").statistic <= allowed
    # Low parts are as fine as they say, and fair.
    steps = draws.low * 2.0**101
    assert np.array_equal(steps, np.rint(steps))
    assert stats.kstest(np.abs(draws.low) / (np.spacing(np.abs(draws.high)) / 2), "uniform").statistic <= 0.02


def test_a_wrong_weight_is_noticed(monkeypatch):
    """The planted bug: the middle of a cell's density instead of its largest, so that acceptance would exceed one."""
    lowered = np.ceil(fine._WEIGHTS * np.where(np.arange(512) < 32, 0.8, 1.0)).astype(np.uint64)
    monkeypatch.setattr(fine, "_WEIGHTS", lowered)
    monkeypatch.setattr(fine, "_ENDS", np.cumsum(lowered))
    monkeypatch.setattr(fine, "_TOTAL", int(lowered.sum()))
    monkeypatch.setattr(fine, "_FAIR_WORDS", np.uint64(2**64 // int(lowered.sum()) * int(lowered.sum()) - 1))
    draws = double_double_normals(200_000, SeededNoise(0))
    assert stats.kstest(draws.high, "norm").statistic > 0.02


def test_weights_are_above_the_density():
    with ball_context.workprec(200):
        for cell in range(0, 512, 7):
            density = (-((arb(cell) * arb(fine._CELL)) ** 2) / 2).exp() * arb(2) ** 52
            assert arb(int(fine._WEIGHTS[cell])) > density


@pytest.mark.parametrize(("word", "expected"), [(0, True), (2**64 - 1, False)])
def test_open_decisions_are_made_with_more_bits(word, expected):
    """At x = 0 the weight is a little more than the density: only the very last words are refused."""
    value = DoubleDouble(np.zeros(1), np.zeros(1))
    assert fine._is_accepted(value, 0, np.array([word], dtype=np.uint64), SeededNoise(0)) == expected


def test_a_decision_within_the_rounding_is_made_in_balls(monkeypatch):
    seen = []

    def counted(value, cell, word, source):
        seen.append(cell)
        return True

    monkeypatch.setattr(fine, "_is_accepted", counted)
    monkeypatch.setattr(fine, "_LOG_ERROR", 1.0)
    assert len(double_double_normals(50, SeededNoise(0)).high) == 50
    assert seen
