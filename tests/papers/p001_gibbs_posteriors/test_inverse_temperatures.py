"""Inverse temperatures: the roots they are meant to be, ordered as proved, refused where false, exact on linear losses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.papers.p001_gibbs_posteriors.inverse_temperatures import (
    concentration_beta,
    corollary_10_beta,
    corollary_10_one_beta,
    gaussian_beta,
)
from sudare.privacy.accounting import gaussian_delta, gaussian_mu_within

EPSILONS = st.floats(0.01, 20.0)
DELTAS = st.floats(1e-9, 1e-2)
SIZES = st.floats(0.01, 100.0)


@given(EPSILONS, DELTAS, SIZES, SIZES, st.floats(0.0, 10.0), st.integers(1, 10_000))
def test_the_tight_beta_costs_what_the_target_allows(
    epsilon: float, delta: float, lipschitz: float, prior: float, loss: float, rows: int
) -> None:
    beta = gaussian_beta(epsilon, delta, lipschitz, prior, loss, rows)
    exact_mu = 2 * beta * lipschitz / math.sqrt(prior + rows * beta * loss)
    allowed = gaussian_mu_within(epsilon, delta)
    assert exact_mu <= allowed
    assert exact_mu == pytest.approx(allowed, rel=1e-9)
    assert gaussian_delta(exact_mu, epsilon) <= delta


@given(EPSILONS, DELTAS, SIZES, SIZES, st.floats(0.0, 10.0), st.integers(1, 10_000))
def test_the_tight_condition_allows_most(
    epsilon: float, delta: float, lipschitz: float, prior: float, loss: float, rows: int
) -> None:
    tight = gaussian_beta(epsilon, delta, lipschitz, prior, loss, rows)
    assert concentration_beta(epsilon, delta, lipschitz, prior, loss, rows) < tight
    # A record more can only help where every loss is strongly convex.
    assert gaussian_beta(epsilon, delta, lipschitz, prior, loss, rows + 1) >= tight


@given(st.floats(0.01, 1.0), DELTAS)
def test_concentration_is_never_below_corollary_10(epsilon: float, delta: float) -> None:
    assert corollary_10_beta(epsilon, delta, 1.0, 1.0) <= concentration_beta(epsilon, delta, 1.0, 1.0) * (1 + 1e-12)


@given(EPSILONS, DELTAS)
def test_the_corrected_root_of_equation_32(epsilon: float, delta: float) -> None:
    """§4.2 with σ = τ = 1: D₊ = C′β²/(nβ + 1) = u, and the root with +4uC′ solves it (the printed −4uC′ does not)."""
    rows, constant = 7, 3.5
    beta = concentration_beta(epsilon, delta, math.sqrt(constant / 2), 1.0, 1.0, rows)
    tail = math.log(1 / delta)
    u = epsilon + 2 * tail - math.sqrt((epsilon + 2 * tail) ** 2 - epsilon**2)
    assert constant * beta**2 / (rows * beta + 1) == pytest.approx(u, rel=1e-6)
    assert beta == pytest.approx((rows * u + math.sqrt(rows**2 * u**2 + 4 * u * constant)) / (2 * constant), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "gain"), [(0.1, 1.59), (1.0, 1.31)])
def test_gain_over_corollary_10(epsilon: float, gain: float) -> None:
    ratio = gaussian_beta(epsilon, 1e-5, 1.0, 1.0) / corollary_10_beta(epsilon, 1e-5, 1.0, 1.0)
    assert ratio == pytest.approx(gain, abs=0.01)


@pytest.mark.parametrize("epsilon", [1.1, 5.0, 9.0, 20.0])
def test_corollary_10_two_is_refused_beyond_its_proof(epsilon: float) -> None:
    with pytest.raises(InvalidParameter, match="not proved"):
        corollary_10_beta(epsilon, 1e-5, 1.0, 1.0)


def test_corollary_10_two_is_false_for_large_epsilon() -> None:
    """On linear losses the profile is exactly that of two Gaussians: at ε = 10 the printed β has δ above 1e-5."""
    for epsilon, is_false in [(8.0, False), (10.0, True)]:
        mu = epsilon / math.sqrt(1 + 2 * math.log(1e5))
        assert (gaussian_delta(mu, epsilon) > 1e-5) == is_false


def test_corollary_10_one_is_refused_where_it_is_false() -> None:
    beta, delta = corollary_10_one_beta(1.0, 1.0, 1.0)
    assert beta == pytest.approx(math.sqrt(0.5))
    assert delta == pytest.approx(math.exp(-0.5))
    # The counterexample: linear losses, ε = 5, claimed δ .223, true .384.
    assert gaussian_delta(math.sqrt(10.0), 5.0) == pytest.approx(0.384, abs=5e-4)
    assert math.exp(-6 / 4) == pytest.approx(0.223, abs=5e-4)
    with pytest.raises(InvalidParameter, match="false"):
        corollary_10_one_beta(5.0, 1.0, 1.0)


def test_corollary_10_one_is_false_for_losses_that_are_never_negative_too() -> None:
    """log(1 + e^{xθ + 20}) for x = ±1 instead of xθ, under a standard normal prior: δ by quadrature."""
    theta, step = np.linspace(-25.0, 25.0, 200_001, retstep=True)
    beta = math.sqrt(10.0) / 2
    one, other = (np.exp(20 * beta - beta * np.logaddexp(0, x * theta + 20) - theta**2 / 2) for x in (1, -1))
    one, other = one / (one.sum() * step), other / (other.sum() * step)
    delta = float(np.maximum(one - math.exp(5.0) * other, 0).sum() * step)
    assert delta == pytest.approx(gaussian_delta(math.sqrt(10.0), 5.0), abs=1e-4)
    assert delta > math.exp(-6 / 4)


def test_tight_on_linear_losses() -> None:
    """Must show 2: the exact δ of the linear-loss posterior at the tight β is within 1 % of the target."""
    for epsilon in (0.1, 1.0, 5.0):
        beta = gaussian_beta(epsilon, 1e-5, 0.7, 2.3)
        # N(−βΣx/m, I/m): replacing x = −L by L moves the mean by 2βL/m, in standard deviations 2βL/√m.
        moved = (2 * beta * 0.7 / 2.3) / math.sqrt(1 / 2.3)
        assert 0.99e-5 <= gaussian_delta(moved, epsilon) <= 1e-5


def test_a_delta_of_zero_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        concentration_beta(1.0, 0.0, 1.0, 1.0)
