"""Inverse temperatures: the roots they are meant to be, rounded down, and refusals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter
from sudare.gibbs.temperatures import largest_beta, proportional_beta

SIZES = st.floats(0.01, 100.0)


@given(SIZES, SIZES, SIZES, st.floats(0.0, 10.0), st.integers(1, 10_000))
def test_the_largest_beta_costs_what_mu_allows(
    mu: float, lipschitz: float, prior: float, loss: float, rows: int
) -> None:
    beta = largest_beta(mu**2, lipschitz, prior, loss, rows)
    cost = 2 * beta * lipschitz / math.sqrt(prior + rows * beta * loss)
    assert cost <= mu
    assert cost == pytest.approx(mu, rel=1e-9)


@given(SIZES, SIZES, SIZES)
def test_a_prior_as_cold_as_the_losses(mu: float, lipschitz: float, penalty: float) -> None:
    beta = proportional_beta(mu**2, lipschitz, penalty)
    cost = 2 * beta * lipschitz / math.sqrt(beta * penalty)
    assert cost <= mu
    assert cost == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, 1e-70])
def test_bad_constants(bad: float) -> None:
    with pytest.raises(InvalidParameter):
        largest_beta(1.0, bad, 1.0)
    with pytest.raises(InvalidParameter):
        largest_beta(1.0, 1.0, bad)
    with pytest.raises(InvalidParameter):
        proportional_beta(1.0, 1.0, bad)


def test_other_bad_arguments() -> None:
    with pytest.raises(InvalidParameter, match="loss_convexity"):
        largest_beta(1.0, 1.0, 1.0, -1.0)
    with pytest.raises(InvalidParameter, match="rows"):
        largest_beta(1.0, 1.0, 1.0, 0.0, 0)
    with pytest.raises(InvalidParameter, match="floating point"):
        largest_beta(1e4, 1e-50, 1e50)
