"""Paper 001 corrected: one test for each slip that a number can show. Those about β are in test_inverse_temperatures.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import xlogy

from sudare.papers.p001_gibbs_posteriors.estimators import GibbsPosteriorClassifier
from sudare.papers.p001_gibbs_posteriors.inverse_temperatures import concentration_beta, gaussian_beta
from sudare.papers.p001_gibbs_posteriors.theorems import (
    b_corrected,
    b_printed,
    d_plus,
    gibbs_map,
    normal_posterior,
    u,
)
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
    """Restricted to an interval, a normal law keeps eq. 36 with D_LS = 1, and eq. 40."""
    for low, high in ((-0.5, 2.0), (3.0, 3.5), (-8.0, 0.5)):
        axis = np.linspace(low, high, 100_001)
        density = np.exp(-(axis**2) / 2)
        density /= density.sum()
        mean = density @ axis
        assert density @ (axis - mean) ** 2 <= 1
        for f, slope in (
            (axis, np.ones_like(axis)),
            (np.exp(axis / 2), np.exp(axis / 2) / 2),
            (1 + axis**2, 2 * axis),
            (np.cos(3 * axis), -3 * np.sin(3 * axis)),
        ):
            entropy = density @ xlogy(f**2, f**2) - xlogy(density @ f**2, density @ f**2)
            assert entropy <= 2 * (density @ slope**2) * (1 + 1e-4)


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


def test_the_root_of_equation_32_needs_a_plus():
    """D₊ = C′β²/(nβ + 1) of eq. 30 is u at the corrected root, and not at the printed one."""
    epsilon, delta, n, c_prime = 1.0, 1e-5, 1_000, 8.0
    lipschitz = math.sqrt(c_prime / 2)
    corrected, printed = b_corrected(epsilon, delta, n, c_prime), b_printed(epsilon, delta, n, c_prime)
    assert d_plus(corrected, n, 1.0, 1.0, lipschitz) == pytest.approx(u(epsilon, delta))
    assert d_plus(printed, n, 1.0, 1.0, lipschitz) < 0.9999 * u(epsilon, delta)
    assert math.isnan(b_printed(epsilon, delta, 10, c_prime))


def test_the_posterior_mean_of_section_4_2_has_a_sign():
    """On records below zero the posterior mean is below zero; eq. 28 prints the modulus. By quadrature."""
    records = np.array([-1.0, -0.5, 0.2])
    found = normal_posterior(records, 0.7)
    axis = np.linspace(-8, 8, 40_001)
    density = np.exp(-0.7 * ((axis[:, np.newaxis] - records) ** 2).sum(axis=1) / 2 - axis**2 / 2)
    density /= density.sum()
    assert found.mean == pytest.approx(density @ axis)
    assert found.variance == pytest.approx(density @ (axis - found.mean) ** 2)
    assert found.mean < 0


def test_the_prior_of_assumption_7_multiplies():
    """By quadrature: with a normal prior in the exponent as printed, −log π̄, the density grows without end where nβ < 1/τ²."""
    records, beta, axis = np.array([0.3]), 0.5, np.linspace(-30, 30, 60_001)
    losses, log_prior = beta * ((axis[:, np.newaxis] - records) ** 2).sum(axis=1) / 2, -(axis**2) / 2
    right = np.exp(-losses + log_prior)
    variance = right @ axis**2 / right.sum() - (right @ axis / right.sum()) ** 2
    assert normal_posterior(records, beta).variance == pytest.approx(variance)
    printed = -losses - log_prior
    assert printed[-1] > printed[len(axis) * 3 // 4] > printed[len(axis) // 2]


def test_the_energy_of_theorem_3_has_a_minus():
    """With H = Σ log p the Gibbs map prefers what makes the records unlikely; (9) does not."""
    likelihood = np.array([0.1, 0.4])
    right, printed = (gibbs_map(1.0, sign * np.log(likelihood), [1.0, 1.0]) for sign in (-1, 1))
    np.testing.assert_allclose(right, likelihood / likelihood.sum())
    assert printed[0] > printed[1]


def test_the_gibbs_map_prefers_small_values():
    law = gibbs_map(2.0, [0.0, 1.0, 3.0], [1.0, 1.0, 1.0])
    assert law[0] > law[1] > law[2]


def test_the_estimator_of_section_4_1_scores_by_z():
    """Eq. 24 prints x, the pair of z and y; a score depends on z alone."""
    random = np.random.default_rng(0)
    z = random.normal(size=(300, 2)) / 4
    y = np.where(z[:, 0] > 0, 1, -1)
    model = GibbsPosteriorClassifier(5.0, lam=0.05, random_state=0).fit(z, y)
    np.testing.assert_allclose(model.decision_function(z[:5]), np.column_stack([z[:5], np.ones(5)]) @ model.theta_)
    assert model.score(z, y) > 0.8


def test_at_the_printed_beta_a_constant_column_costs_more_than_delta():
    """Eq. 27 with R instead of √(R² + 1): at R = 0.1 and ε = 1 the profile of rows with their constant column is far above δ."""
    z = np.array([[0.1], [-0.1]] * 50)
    y = [1, -1] * 50
    printed = GibbsPosteriorClassifier(1.0, 1e-5, lam=10.0, R=0.1, classes=[-1, 1], random_state=0).fit(z, y)
    tight = GibbsPosteriorClassifier(
        1.0, 1e-5, lam=10.0, R=0.1, temperature="tight", classes=[-1, 1], random_state=0
    ).fit(z, y)
    assert printed.delta_ > 1e-2
    assert 0.9e-5 < tight.delta_ <= 1e-5
