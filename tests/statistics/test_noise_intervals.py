"""Quantiles of noise against draws of it, and intervals of ratios that hold as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sudare.errors import InvalidParameter
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.noise import SeededNoise
from sudare.statistics.noise_intervals import (
    checked_level,
    count_interval,
    gaussian_quantile,
    laplace_quantile,
    noise_quantile,
    ratio_interval,
)


def test_one_laplace_draw_in_closed_form() -> None:
    for level in (0.5, 0.9, 0.95, 0.99):
        assert laplace_quantile(np.zeros(1), 1, level)[0] == pytest.approx(-math.log(1 - level), rel=1e-4)


@pytest.mark.parametrize("cells", [1, 2, 7, 40])
@pytest.mark.parametrize("ratio", [0.0, 0.33, 1.0])
def test_quantiles_are_those_of_draws(cells: int, ratio: float) -> None:
    generator = np.random.default_rng(7)
    for quantile, draw in ((laplace_quantile, generator.laplace), (gaussian_quantile, generator.normal)):
        first, second = (draw(size=(40_000, cells)).sum(axis=1) for _ in range(2))
        within = np.abs(first - ratio * second) <= quantile(np.array([-ratio]), cells, 0.95)[0]
        # Six standard deviations of a share of 40,000.
        assert abs(within.mean() - 0.95) < 6 * math.sqrt(0.95 * 0.05 / 40_000)


@pytest.mark.parametrize("kind", ["laplace", "normal"])
@pytest.mark.parametrize(("ratio", "count"), [(-0.8, 30.0), (0.0, 60.0), (0.5, 500.0), (1.0, 40.0)])
def test_intervals_of_ratios_hold_as_often_as_they_say(kind: str, ratio: float, count: float) -> None:
    generator = np.random.default_rng(11)
    quantile = laplace_quantile if kind == "laplace" else gaussian_quantile
    noise = getattr(generator, kind)(scale=2.0, size=(2, 20_000))
    low, high = ratio_interval(
        ratio * count + noise[0], count + noise[1], lambda ends: quantile(ends, 1, 0.95), scale=2.0
    )
    share = np.mean((low <= ratio) & (ratio <= high))
    assert 0.94 <= share <= (1.0 if abs(ratio) == 1.0 else 0.965)


def test_of_a_group_that_may_be_empty_nothing_is_known() -> None:
    low, high = ratio_interval(np.array([3.0]), np.array([1.0]), lambda ends: gaussian_quantile(ends, 1, 0.95), 1.0)
    assert (low[0], high[0]) == (-1.0, 1.0)


@pytest.mark.parametrize(
    "mechanism", [Laplace(3.0, 0.5, 4), Gaussian(2.0, 0.5, 1e-6, 4), GammaNorm(2.0, 0.5, 2), GammaNorm(1.0, 2.0, 9)]
)
def test_the_quantile_of_a_mechanism_is_that_of_its_draws(mechanism: Laplace | Gaussian | GammaNorm) -> None:
    draws = mechanism.draws(np.zeros(mechanism.dimension), 3000, SeededNoise(5))[:, 0]
    within = np.mean(np.abs(draws) <= noise_quantile(mechanism, 0.9))
    # Five standard deviations of a share of 3,000.
    assert abs(within - 0.9) < 5 * math.sqrt(0.9 * 0.1 / 3000)


@pytest.mark.parametrize("level", [0, 1, -1, 2, True, "high", math.nan])
def test_levels_lie_between_none_and_all(level: object) -> None:
    with pytest.raises(InvalidParameter, match="level"):
        checked_level(level)  # type: ignore[arg-type]


def test_no_interval_of_a_count_begins_below_zero() -> None:
    low, high = count_interval(np.array([-10, -3, 2, 50]), 5.5)
    assert low.tolist() == [0, 0, 0, 44]
    assert high.tolist() == [0, 3, 8, 56]
