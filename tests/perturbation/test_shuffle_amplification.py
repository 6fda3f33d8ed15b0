"""What shuffling adds: never less than the exact sum, and better than the closed form."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sudare.perturbation.shuffle_amplification import divergence, shuffled_delta, shuffled_epsilon


def exact_delta(epsilon: float, local: float, rows: int) -> Fraction:
    """The hockey-stick divergence of the clone pair, summed over everything in rationals; e^ε₀ and e^ε as given floats."""
    growth, e0 = Fraction(math.exp(epsilon)), Fraction(math.exp(local))
    clone, truth = 1 / e0, e0 / (e0 + 1)
    total = Fraction(0)
    for clones in range(rows):
        weight = math.comb(rows - 1, clones) * clone**clones * (1 - clone) ** (rows - 1 - clones)
        half = [
            Fraction(math.comb(clones, a), 2**clones) if 0 <= a <= clones else Fraction(0)
            for a in range(-1, clones + 2)
        ]
        for a in range(clones + 2):
            less, same = half[a], half[a + 1]
            first, second = truth * less + (1 - truth) * same, (1 - truth) * less + truth * same
            total += weight * max(Fraction(0), first - growth * second)
    return total


@pytest.mark.parametrize("rows", [2, 5, 40])
@pytest.mark.parametrize("local", [0.5, 2.0])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_delta_is_at_least_the_exact_sum(rows: int, local: float, share: float) -> None:
    exact, computed = float(exact_delta(share * local, local, rows)), shuffled_delta(share * local, local, rows)
    assert exact <= computed <= exact * 1.2 + 1e-12


def test_more_clones_tell_less() -> None:
    """Blocks rest on this: a further clone is a coin that anybody could have thrown."""
    values = divergence(np.arange(0.0, 3000.0), 0.3, 2.0)
    assert np.all(np.diff(values) <= 1e-15)
    assert values[0] == pytest.approx(1 / (1 + math.exp(-2)) - math.exp(0.3) / (1 + math.exp(2)))


def test_amplification_is_better_than_the_closed_form() -> None:
    """Feldman, McMillan and Talwar (2021), Theorem 3.1, where it holds; and never worse than no amplification."""
    for local, rows in ((0.5, 10_000), (2.0, 10_000), (5.195, 100_000), (1.0, 10**6)):
        delta = 1e-6
        growth = math.exp(local)
        assert local <= math.log(rows / (16 * math.log(2 / delta)))
        closed = math.log1p(
            (growth - 1) / (growth + 1) * (8 * math.sqrt(growth * math.log(4 / delta) / rows) + 8 * growth / rows)
        )
        assert 0.1 * closed < shuffled_epsilon(local, rows, delta) < closed
    assert shuffled_epsilon(3.0, 2, 1e-6) == 3.0
    assert shuffled_epsilon(3.0, 1, 1e-6) == 3.0
