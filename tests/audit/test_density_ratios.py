"""Exact losses: they equal what the formulas say, and they never overstate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.audit import largest_log_ratio
from sudare.audit.density_ratios import (
    cloud,
    epsilon_of_cells,
    exact_epsilon,
    gamma_norm_log_density,
    gaussian_cells,
    hockey_stick,
    laplace_log_density,
)
from sudare.errors import InvalidParameter
from sudare.privacy.accounting import gaussian_epsilon


@given(st.integers(1, 4), st.floats(0.01, 10.0), st.integers(0, 10**6))
def test_ratios_of_laplace_and_gamma_norm_noise_are_scaled_distances(
    dimension: int, strength: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    pair = random.normal(size=dimension), random.normal(size=dimension)
    points = cloud(pair, 1.0, count=200)
    laplace = largest_log_ratio(laplace_log_density(1 / strength), pair, points)
    l1 = strength * np.abs(pair[1] - pair[0]).sum()
    assert (1 - 1e-9) * l1 <= laplace.epsilon_lower_bound <= l1
    gamma = largest_log_ratio(gamma_norm_log_density(strength), pair, points)
    l2 = strength * np.linalg.norm(pair[1] - pair[0])
    assert (1 - 1e-9) * l2 <= gamma.epsilon_lower_bound <= l2
    assert len(gamma.point) == dimension


def test_optimisation_finds_what_the_points_miss() -> None:
    def bump(points: np.ndarray, centre: np.ndarray) -> np.ndarray:
        return np.asarray(centre[0] * np.exp(-np.sum((points - 0.37) ** 2, axis=1)))

    found = largest_log_ratio(bump, ([0.0, 0.0], [2.0, 0.0]), [[0.0, 0.0], [1.0, 1.0]])
    assert found.epsilon_lower_bound == pytest.approx(2.0, abs=1e-6)
    assert found.point == pytest.approx((0.37, 0.37), abs=1e-3)


def test_points_must_fit_the_pair() -> None:
    density = laplace_log_density(1.0)
    for points in ([[0.0]], [0.0, 1.0], np.zeros((0, 2))):
        with pytest.raises(InvalidParameter, match=r"^points must be rows of 2 coordinates, got shape"):
            largest_log_ratio(density, ([0.0, 0.0], [1.0, 0.0]), points)


def test_hockey_stick() -> None:
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])
    assert hockey_stick(p, q, 0.0) == pytest.approx(0.5)
    assert hockey_stick(p, q, math.log(2)) == pytest.approx(0.3)
    assert hockey_stick(p, q, math.log(3.5)) == pytest.approx(0.0)


def test_epsilon_of_cells() -> None:
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])
    assert epsilon_of_cells(p, q, 0.0) == pytest.approx(math.log(5))
    assert epsilon_of_cells(q, p, 0.0) == pytest.approx(math.log(5))
    assert epsilon_of_cells(p, q, 0.3) == pytest.approx(math.log(2))
    assert epsilon_of_cells(p, q, 0.5) == 0.0
    assert epsilon_of_cells(np.array([1.0, 0.0]), np.array([0.5, 0.5]), 0.1) == math.inf


def test_gaussian_cells_are_probabilities_of_both_tails() -> None:
    edges = np.array([-40.0, -1.0, 0.0, 1.0, 40.0])
    cells = gaussian_cells(0.0, 1.0, edges)
    assert cells.sum() == pytest.approx(1.0, abs=1e-15)
    assert cells == pytest.approx(cells[::-1], rel=1e-12)
    # Both tails keep their relative precision: 1 − Φ(1) is not lost in 1.
    assert gaussian_cells(0.0, 1.0, np.array([8.0, 9.0]))[1] == pytest.approx(6.219e-16, rel=1e-3)
    assert gaussian_cells(0.0, 1.0, np.array([-9.0, -8.0]))[1] == pytest.approx(6.219e-16, rel=1e-3)
    assert gaussian_cells(2.0, 0.5, 2 + edges / 2) == pytest.approx(cells)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_cells_show_the_epsilon_of_a_gaussian_and_no_more(mu: float, delta: float) -> None:
    edges = np.linspace(-12 / mu, 1 + 12 / mu, 20_000)
    shown = epsilon_of_cells(gaussian_cells(0.0, 1 / mu, edges), gaussian_cells(1.0, 1 / mu, edges), delta)
    truth = gaussian_epsilon(mu, delta)
    assert (1 - 1e-5) * truth <= shown <= truth * (1 + 1e-9)
    coarse = np.linspace(-12 / mu, 1 + 12 / mu, 50)
    assert epsilon_of_cells(gaussian_cells(0.0, 1 / mu, coarse), gaussian_cells(1.0, 1 / mu, coarse), delta) < shown


def test_noise_of_an_unknown_kind_has_no_computed_loss() -> None:
    assert exact_epsilon(object(), (np.zeros(1), np.ones(1))) is None
