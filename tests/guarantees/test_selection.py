"""Private selection: the exact law of the winner on finite mechanisms, and the twin that forgets the factor two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.privacy.candidate_selection import logarithmic_draw
from sudare.privacy.noise import SystemNoise


def winner_law(one_try: np.ndarray, tries_parameter: int) -> np.ndarray:
    """P(best = j) when outcome j of one try has rank j, from E[x^K] of the logarithmic number of tries."""
    gamma = 1 / tries_parameter
    edges = np.concatenate([[0.0], np.cumsum(one_try)])
    return np.diff(np.log1p(-(1 - gamma) * edges) / np.log(gamma))


def extreme_pair(log_odds: list[float], epsilon: float, side: list[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Two laws whose ratio is e^ε or e^−ε up to normalisation, made ε-close exactly by halving the exponent."""
    base = np.exp(log_odds)
    tilt = np.where(side, 1.0, -1.0) * epsilon / 4
    first, second = base * np.exp(tilt), base * np.exp(-tilt)
    return first / first.sum(), second / second.sum()


@given(
    st.lists(st.floats(-6, 6), min_size=2, max_size=8).flatmap(
        lambda odds: st.tuples(st.just(odds), st.lists(st.booleans(), min_size=len(odds), max_size=len(odds)))
    ),
    st.floats(0.01, 4),
    st.integers(2, 10_000),
)
def test_winner_costs_at_most_twice_one_try(drawn, epsilon, tries_parameter):
    odds, side = drawn
    first, second = extreme_pair(odds, epsilon, side)
    of_one_try = np.abs(np.log(first / second)).max()
    first_law, second_law = winner_law(first, tries_parameter), winner_law(second, tries_parameter)
    np.testing.assert_allclose(first_law.sum(), 1.0, rtol=1e-9)
    assert np.abs(np.log(first_law / second_law)).max() <= 2 * of_one_try + 1e-7


def test_the_factor_two_is_needed():
    """A twin that charges one try's ε for the whole is rejected: here the winner costs nearly twice as much."""
    epsilon = 1.0
    # The middle outcome wins if it turns up and the top one does not: rarer by e^ε for either reason.
    first = np.array([0.0, np.e * 1e-6, 1e-3])
    second = np.array([0.0, 1e-6, np.e * 1e-3])
    first[0], second[0] = 1 - first.sum(), 1 - second.sum()
    assert np.abs(np.log(first / second)).max() == pytest.approx(epsilon)
    laws = [winner_law(law, tries_parameter=100_000) for law in (first, second)]
    measured = np.abs(np.log(laws[0] / laws[1])).max()
    assert 1.95 * epsilon < measured <= 2 * epsilon


@pytest.mark.parametrize("tries_parameter", [2, 5, 50])
def test_number_of_tries_is_logarithmic(tries_parameter):
    """Chi-square over the first cells; the threshold is passed by a right sampler with probability below 1e-6."""
    from scipy import stats

    count = 30_000 // tries_parameter
    draws = np.array([logarithmic_draw(tries_parameter, SystemNoise()) for _ in range(count)])
    gamma = 1 / tries_parameter
    cells = np.arange(1, 12)
    law = (1 - gamma) ** cells / (cells * np.log(1 / gamma))
    expected = np.append(law, 1 - law.sum()) * count
    kept = expected > 5
    seen = np.append([np.sum(draws == cell) for cell in cells], np.sum(draws > cells[-1]))
    expected, seen = np.append(expected[kept], expected[~kept].sum()), np.append(seen[kept], seen[~kept].sum())
    enough = expected > 5
    statistic = float(((seen[enough] - expected[enough]) ** 2 / expected[enough]).sum())
    assert statistic < stats.chi2.isf(1e-6, enough.sum())
