"""The rule of found bounds: noise alone shows nothing at any ε, and whole numbers end where they end."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.privacy.noise import SeededNoise
from sudare.statistics import found_bounds
from sudare.statistics.found_bounds import (
    RULE,
    SIZES,
    WINDOWS,
    Floats,
    FoundNumber,
    cheapest_bound,
    end_of_tail,
    found_number,
    least_sum,
    noise_on_counts,
)

ROWS = 100_000


def found_in(values: Floats, epsilon: float, noise: SeededNoise, *, whole: bool = False) -> FoundNumber | None:
    """What the rule finds in sorted values."""

    def noisy(edges: Floats, share: float) -> Floats:
        below = np.searchsorted(values, edges, side="left")
        counts = np.diff(np.concatenate(([0], below, [len(values)]))).astype(np.float64)
        return noise_on_counts(share, len(counts), 1).apply(counts, noise)

    return found_number(noisy, epsilon, 1, whole=whole)


def chance_that_a_sum_reaches(width: int, scale: float, least: float) -> float:
    """The exact probability that discrete Laplace noise of so many cells adds up to so much, by the Fourier transform of its law."""
    size = 1 << int(np.ceil(np.log2(scale * (60 + 30 * np.sqrt(width)))) + 1)
    steps = np.minimum(np.arange(size), size - np.arange(size))
    law = np.exp(-steps / scale)
    of_sum = np.fft.irfft(np.fft.rfft(law / law.sum()) ** width, size)
    return float(of_sum[int(np.ceil(least)) : size // 2].sum())


@pytest.mark.parametrize("scale", [0.3, 2.5, 25.0, 2000.0])
@pytest.mark.parametrize("width", WINDOWS)
def test_noise_alone_stands_out_with_a_thousandth_at_most(width: int, scale: float) -> None:
    windows = len(WINDOWS) * (len(SIZES) + 1)
    chance = chance_that_a_sum_reaches(width, scale, scale * least_sum(width, windows))
    assert 3 * windows * chance <= RULE.false_alarm
    # The check can fail: seven tenths of the threshold are too few.
    assert (
        scale < 1
        or 3 * windows * chance_that_a_sum_reaches(width, scale, 0.7 * scale * least_sum(width, windows))
        > RULE.false_alarm
    )


def test_an_empty_table_shows_no_bounds() -> None:
    noise = SeededNoise(1)
    assert [found_in(np.empty(0), epsilon, noise) for epsilon in (0.01, 1.0) for _ in range(50)] == [None] * 100


@pytest.mark.parametrize("shape", [0.5, 2.0])
def test_bounds_found_with_little_epsilon_stay_near_the_data(shape: float) -> None:
    values, noise = np.sort(np.random.default_rng(1).gamma(shape, 20, ROWS)), SeededNoise(2)
    for _ in range(40):
        number = found_in(values, 0.01, noise)
        assert number is not None
        assert -2 * values[-1] < number.low < np.quantile(values, 0.5)
        assert np.quantile(values, 0.9) < number.high < 3 * values[-1]


def squared_error(values: Floats, low: float, high: float, epsilon: float) -> float:
    """Of a private mean with these bounds: clipping, and Laplace noise."""
    return float((np.clip(values, low, high) - values).mean() ** 2 + 2 * ((high - low) / (len(values) * epsilon)) ** 2)


def test_few_rows_far_beyond_all_others_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 97 % zeros the histogram of sizes showed nothing else, and bounds ended there."""
    g = np.random.default_rng(8)
    values = np.sort(np.where(g.random(ROWS) < 0.03, g.gamma(2, 40, ROWS), 0.0))

    def highs(seed: int) -> list[float]:
        noise = SeededNoise(seed)
        return [0.0 if each is None else each.high for each in (found_in(values, 0.1, noise) for _ in range(20))]

    assert all(np.quantile(values, 0.995) < high < 3 * values[-1] for high in highs(5))
    monkeypatch.setattr(found_bounds, "with_far_edges", lambda near, middle, rule: near)
    assert any(high < 1 for high in highs(5))


def test_noise_alone_seldom_shows_a_cell_far_away() -> None:
    """That noise in one histogram is enough drew bounds out by any factor."""
    g, noise = np.random.default_rng(9), SeededNoise(6)
    values = np.sort(g.normal(50, 5, ROWS))
    edges = np.concatenate((-found_bounds.OCTAVES[::-1], found_bounds.OCTAVES))
    shares = []
    for _ in range(50):
        below = np.searchsorted(values, found_bounds.SIZES, side="left")
        counts = np.diff(np.concatenate(([0], below, [ROWS]))).astype(np.float64)
        noisy = noise_on_counts(0.015, len(counts), 1).apply(counts, noise)
        likely = found_bounds.sizes_that_may_hold_rows(noisy, edges, 0.015, 1, RULE)
        assert likely[np.searchsorted(edges, 50.0, side="right")]
        shares.append(np.mean(likely))
    assert np.mean(shares) < 0.2


@pytest.mark.parametrize(
    "chances", [(0.7, 0.28, 0.02), (0.13, 0.35, 0.34, 0.15, 0.03), (0.05, 0.1, 0.15, 0.3, 0.4), (0.5, 0.5), None]
)
def test_whole_numbers_are_neither_cut_nor_drawn_out(chances: tuple[float, ...] | None) -> None:
    g, noise, epsilon = np.random.default_rng(4), SeededNoise(3), 0.1
    values = np.sort(g.poisson(4, ROWS) if chances is None else g.choice(len(chances), ROWS, p=chances)).astype(float)
    found = [found_in(values, epsilon, noise, whole=True) for _ in range(50)]
    squares = [squared_error(values, number.low, number.high, epsilon) for number in found if number is not None]
    assert len(squares) == len(found)
    assert np.sqrt(np.mean(squares) / squared_error(values, values[0], values[-1], epsilon)) <= 1.2


def test_a_bound_is_moved_to_where_clipping_and_noise_cost_least() -> None:
    edges = np.arange(6.0)
    counts = np.array([0.0, 1000.0, 1000.0, 1000.0, 400.0, 0.0, 0.0])
    assert cheapest_bound(counts, edges, 4, 3.0, 0.0, 1.0, 10.0, RULE) == 4.0
    assert cheapest_bound(counts, edges, 4, 3.0, 0.0, 1.0, 100.0, RULE) == 3.0
    # Over empty cells it is moved in where the noise on their counts cannot hide much.
    assert cheapest_bound(counts, edges, 4, 4.5, 0.0, 1.0, 10.0, RULE) == 4.0
    assert cheapest_bound(counts, edges, 4, 4.5, 0.0, 100.0, 10.0, RULE) == 4.5


def test_a_tail_ends_before_cells_that_are_clearly_empty() -> None:
    expected = np.array([200.0, 150.0, 100.0, 70.0])
    assert end_of_tail(np.array([190.0, 160.0, 110.0, 60.0]), expected, 10.0, RULE) is None
    assert end_of_tail(np.array([190.0, 160.0, 4.0, -8.0]), expected, 10.0, RULE) == 2
    assert end_of_tail(np.array([-5.0, 3.0, 4.0, -8.0]), expected, 10.0, RULE) == 0
    # Under noise as large as what is expected nothing is clear.
    assert end_of_tail(np.array([190.0, 160.0, 4.0, -8.0]), expected, 100.0, RULE) is None


@pytest.mark.parametrize(("low", "high"), [(-3.0, 3.0), (-1.5, 8.0)])
def test_bounds_of_a_tail_that_is_cut_where_it_is_thick_are_near_the_cut(low: float, high: float) -> None:
    values = np.random.default_rng(6).standard_t(4, 2 * ROWS)
    values, noise = np.sort(values[(values >= low) & (values <= high)][:ROWS]), SeededNoise(8)
    found = [found_in(values, 0.1, noise) for _ in range(20)]
    widths = [(number.high - number.low) / (high - low) for number in found if number is not None]
    assert len(widths) == 20
    assert 0.9 < np.mean(widths) < 1.2
