"""Paper 001 corrected: one test for each slip that a number can show. Those about β are in test_inverse_temperatures.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sudare.papers.p001_gibbs_posteriors.inverse_temperatures import concentration_beta, gaussian_beta
from sudare.privacy.accounting import gaussian_delta


def test_a_constant_column_counts_into_the_lipschitz_constant():
    """§4.1 says R for rows (z, 1) with ‖z‖ ≤ R; the gradient of a misclassified row has norm √(R² + 1)."""
    row = np.array([0.6, 0.8, 1.0])
    theta = -50 * row
    gradient = -row / (1 + math.exp(min(float(row @ theta), 700.0)))
    assert np.linalg.norm(gradient) == pytest.approx(math.sqrt(2))


def test_the_poincare_constant_is_the_log_sobolev_constant():
    """(40) with D_LS/2 is false for e^{−mx²/2} and f(x) = x: the energy is 1, D_LS = 1/m, and the variance is 1/m, not half of it."""
    precision, axis = 2.5, np.linspace(-12, 12, 100_001)
    density = np.exp(-precision * axis**2 / 2)
    variance = float(density @ axis**2 / density.sum())
    assert variance == pytest.approx(1 / precision)
    assert variance > 1 / (2 * precision)


def test_the_unknown_constant_of_theorem_9_can_be_one():
    """Restricted to an interval, a normal law has a smaller variance than N(0, 1): Poincaré's constant does not grow."""
    axis = np.linspace(-0.5, 2.0, 100_001)
    density = np.exp(-(axis**2) / 2)
    density /= density.sum()
    mean = density @ axis
    assert density @ (axis - mean) ** 2 <= 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_theorem_8_is_right_and_not_tight(epsilon):
    """At the β that its tail allows, the exact δ of linear losses is below the target; at the tight β it is reached."""
    for beta, reached in (
        (concentration_beta(epsilon, 1e-5, 1.0, 1.0), False),
        (gaussian_beta(epsilon, 1e-5, 1.0, 1.0), True),
    ):
        exact = gaussian_delta(2 * beta, epsilon)
        assert exact <= 1e-5
        assert (exact > 0.99e-5) == reached


def test_samplers_within_gamma_pay_in_both_directions():
    """A.4 with d_TV ≤ γ (printed ≥): δ grows by (1 + e^ε)γ, and two coins reach it."""
    epsilon, gamma = 1.0, 1e-3
    rare = 0.1
    ideal = math.exp(epsilon) * rare, rare
    sampled = ideal[0] + gamma, ideal[1] - gamma
    needed = sampled[0] - math.exp(epsilon) * sampled[1]
    assert needed == pytest.approx((1 + math.exp(epsilon)) * gamma)
