"""ε-DP of Laplace noise, scalar and vector: proofs/laplace.md, measured and computed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.array_types import Floats, Integers
from sudare.audit import distinguish
from sudare.audit.density_ratios import exact_epsilon
from sudare.privacy.accounting import exact, rounded_up
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import SystemNoise, _discrete_laplace
from tests.guarantees.gates import EPSILONS, follows, has_mass_function, real_draws


def l1_pair(dimension: int) -> tuple[Floats, Floats]:
    """Two vectors at L1 distance one, apart in every coordinate."""
    weights = np.arange(1.0, dimension + 1)
    return np.zeros(dimension), weights / weights.sum()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_exact_loss_is_the_claim(epsilon: float, dimension: int) -> None:
    """By the density: this is where ε = 0.1 is shown, which no affordable sample can."""
    loss = exact_epsilon(Laplace(1.0, epsilon, dimension), l1_pair(dimension))
    assert loss is not None
    assert 0.999999 * epsilon <= loss <= epsilon


# The upper gate fails with probability 1e-6 (confidence). The lower one: in 25 or 40 runs with numpy
# noise of this law the bound had mean m and deviation s (over ε) with (m − 0.8)/s between 6.9 and 9.7 at these sizes.
@pytest.mark.parametrize(
    ("epsilon", "dimension", "samples"),
    [(1.0, 1, 40_000), (5.0, 1, 60_000), pytest.param(1.0, 2, 80_000, marks=pytest.mark.long), (5.0, 2, 70_000)],
)
def test_sampled_loss_is_near_the_claim_and_not_above(epsilon: float, dimension: int, samples: int) -> None:
    mechanism = Laplace(1.0, epsilon, dimension)
    audit = distinguish(real_draws(mechanism), l1_pair(dimension), epsilon, samples, batched=True, measured_share=0.7)
    assert audit.holds, str(audit)
    assert audit.tightness >= 0.8, str(audit)


@pytest.mark.long
def test_sampled_loss_at_a_tenth() -> None:
    """Two million real draws a side: in 8 runs with numpy noise the mean was 0.921 ε, the deviation 0.008 ε."""
    audit = distinguish(real_draws(Laplace(1.0, 0.1)), l1_pair(1), 0.1, 2_000_000, batched=True, measured_share=0.8)
    assert audit.holds, str(audit)
    assert audit.tightness >= 0.8, str(audit)


@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_sampler_draws_the_discrete_laplace_law(scale: float) -> None:
    decay = np.exp(-1 / scale)

    def mass(z: Integers) -> Floats:
        return np.asarray((1 - decay) / (1 + decay) * decay ** np.abs(z))

    drawn = SystemNoise().laplace(np.zeros(50_000, dtype=np.int64), scale)
    assert has_mass_function(drawn, mass, most=200)
    assert not has_mass_function(2 * drawn, mass, most=200)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_draws_at_production_scale_follow_the_density(epsilon: float) -> None:
    """The grid is a 2⁻²⁴th of the noise, far below what 20,000 draws can resolve."""
    mechanism = Laplace(1.0, epsilon, 2)
    drawn = real_draws(mechanism)(np.array([0.25, -3.0]), 10_000)
    for centre, column in zip((0.25, -3.0), drawn.T, strict=True):
        assert follows(column, stats.laplace(loc=centre, scale=mechanism.noise_scale))
    # Coordinates are independent: so is the sign of one of the size of the other.
    size, sign = np.abs(drawn[:, 0] - 0.25), drawn[:, 1] > -3.0
    assert stats.ks_2samp(size[sign], size[~sign]).pvalue > 1e-6


@given(st.floats(1e-6, 1e6), st.floats(1e-3, 20.0), st.integers(1, 1000), st.sampled_from([None, 1.0, 0.125]))
def test_opendp_agrees_with_the_claim(
    sensitivity: float, epsilon: float, dimension: int, integer_grid: float | None
) -> None:
    """OpenDP's own privacy map at the largest distance in steps, rounded up by it to a float, gives at most ε.

    ε is what its decimal text says (`exact`), which can lie a little above the float of the same name.
    """
    mechanism = Laplace(sensitivity, epsilon, dimension, integer_grid)
    steps = -(-Fraction(sensitivity) // Fraction(mechanism.grid)) + (dimension if integer_grid is None else 0)
    measurement: Any = _discrete_laplace(mechanism.scale_in_steps)
    mapped = measurement.map(int(steps))
    assert mapped <= rounded_up(exact(epsilon))
    assert exact(mapped) > exact(epsilon) * Fraction(999_999, 1_000_000)
