"""ε-DP of infinity-norm noise: proofs/infinity_norm.md, measured and computed."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.array_types import Floats
from sudare.audit import distinguish
from sudare.audit.density_ratios import exact_epsilon
from sudare.privacy import noise as noise_module
from sudare.privacy.accounting import exact
from sudare.privacy.mechanisms import InfinityNorm
from sudare.privacy.noise import NoiseSource, SeededNoise, SystemNoise
from sudare.statistics.noise_intervals import infinity_norm_quantile
from tests.guarantees.gates import EPSILONS, SMALLEST_CHI_SQUARE_P, follows, has_mass_function, real_draws

REACH = 200
RIGHT = noise_module._cube_half_side


def lattice_law(dimension: int, scale: float) -> dict[tuple[int, ...], float]:
    """P(Z = z) ∝ exp(−max|zᵢ|/scale) on a small lattice, and the mass of every shell beyond it in the normalisation."""
    shells = [
        ((2 * r + 1) ** dimension - (2 * r - 1) ** dimension if r else 1) * math.exp(-r / scale) for r in range(REACH)
    ]
    reach = range(-6, 7)
    total = sum(shells)
    return {
        place: math.exp(-max(map(abs, place)) / scale) / total for place in itertools.product(reach, repeat=dimension)
    }


@dataclass(frozen=True)
class QuietInfinityNorm(InfinityNorm):
    """Noise × 0.8."""

    @cached_property
    def scale_in_steps(self) -> float:
        return 0.8 * InfinityNorm(self.sensitivity, self.epsilon, self.dimension, self.integer_grid).scale_in_steps


def without_rejection(dimension: int, scale: Fraction, source: NoiseSource) -> int:
    """The planted bug: a sum of as many geometric variables as there are coordinates and one, every one of them kept."""
    return sum(noise_module.geometric(scale, source) for _ in range(dimension + 1))


def one_too_few(dimension: int, scale: Fraction, source: NoiseSource) -> int:
    """The planted bug: the law of the shell's radius taken for that of the cube's half side."""
    return RIGHT(dimension - 1, scale, source)


@pytest.mark.parametrize(
    ("dimension", "scale"),
    [
        (1, 1.5),
        pytest.param(2, 0.7, marks=pytest.mark.long),
        pytest.param(2, 1.5, marks=pytest.mark.long),
        pytest.param(3, 1.0, marks=pytest.mark.long),
    ],
)
def test_the_law_on_small_lattices_is_exact(dimension: int, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lattice point of probability above 100 in 10,000 draws by itself, all others together."""
    law = lattice_law(dimension, scale)

    def p_value(count: int = 10_000) -> float:
        zero, source = np.zeros(dimension, dtype=np.int64), SystemNoise()
        drawn = Counter(tuple(source.infinity_norm(zero, scale).tolist()) for _ in range(count))
        cells = [place for place, mass in law.items() if count * mass >= 100]
        seen = [drawn[place] for place in cells]
        expected = [count * law[place] for place in cells]
        return float(
            stats.chisquare([*seen, count - sum(seen)], [*expected, count - sum(expected)], sum_check=False).pvalue
        )

    assert p_value() > SMALLEST_CHI_SQUARE_P
    for bug in (without_rejection, one_too_few):
        monkeypatch.setattr(noise_module, "_cube_half_side", bug)
        assert p_value() < SMALLEST_CHI_SQUARE_P


def test_the_law_of_the_half_side() -> None:
    """P(R = r) ∝ (2r + 1)^d e^{−r/s}: rejection makes it so, as exact fractions of the sum's law."""
    for dimension, r in itertools.product((1, 2, 5), range(6)):
        kept = math.prod(Fraction(2 * r + 1, 2 * (r + place)) for place in range(1, dimension + 1))
        negative_binomial = math.comb(r + dimension, dimension)
        assert kept * negative_binomial * math.factorial(dimension) * 2**dimension == (2 * r + 1) ** dimension
        assert kept <= 1


@pytest.mark.parametrize("scale", [0.4, 3.0])
def test_geometric_draws(scale: float) -> None:
    drawn = np.array([noise_module.geometric(Fraction(scale), SystemNoise()) for _ in range(20_000)])
    decay = math.exp(-1 / scale)
    assert has_mass_function(drawn, lambda k: np.where(k >= 0, (1 - decay) * decay ** np.maximum(k, 0), 0.0), most=100)


@given(st.integers(1, 3), st.sampled_from([0.3, 1.0, 4.0]), st.integers(1, 3))
def test_no_output_on_the_lattice_is_likelier_by_more_than_epsilon(
    dimension: int, epsilon: float, distance: int
) -> None:
    """All outputs near all pairs at that distance: the ratio is e^ε at most, and somewhere e^ε."""
    mechanism = InfinityNorm(float(distance), epsilon, dimension, integer_grid=1.0)
    scale, steps = Fraction(mechanism.scale_in_steps), round(distance / mechanism.grid)
    corners = itertools.product((-steps, 0, steps), repeat=dimension)
    outputs = list(itertools.product((-2 * steps, -1, 0, steps, 3 * steps), repeat=dimension))
    losses = [
        (max(abs(y - h) for y, h in zip(output, corner, strict=True)) - max(map(abs, output))) / scale
        for corner in corners
        for output in outputs
    ]
    assert max(losses) <= exact(epsilon)
    assert float(max(losses)) == pytest.approx(epsilon, rel=1e-9)


@given(st.floats(1e-6, 1e6), st.floats(1e-3, 700.0), st.integers(1, 1000), st.sampled_from([None, 1.0, 0.125]))
def test_rounding_first_is_paid_for_and_draws_are_hardly_ever_rejected(
    sensitivity: float, epsilon: float, dimension: int, integer_grid: float | None
) -> None:
    mechanism = InfinityNorm(sensitivity, epsilon, dimension, integer_grid)
    steps = -(-Fraction(sensitivity) // Fraction(mechanism.grid)) + (integer_grid is None)
    assert Fraction(steps) / Fraction(mechanism.scale_in_steps) <= exact(epsilon)
    assert mechanism.scale_in_steps >= 2.0**8 * dimension
    assert integer_grid is None or (integer_grid / mechanism.grid).is_integer()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_exact_loss_is_the_claim(epsilon: float, dimension: int) -> None:
    pair = np.zeros(dimension), np.ones(dimension)
    loss = exact_epsilon(InfinityNorm(1.0, epsilon, dimension), pair)
    assert loss is not None
    assert 0.999999 * epsilon <= loss <= epsilon
    quiet = exact_epsilon(QuietInfinityNorm(1.0, epsilon, dimension), pair)
    assert quiet is not None
    assert quiet > 1.2 * epsilon


# The audit of the correct noise fails with probability 1e-6 (its confidence). The twin's loss is 1.25 times the claim.
@pytest.mark.long
def test_sampled_loss_is_near_the_claim_and_the_twin_is_found() -> None:
    pair = np.zeros(2), np.ones(2)
    audit = distinguish(real_draws(InfinityNorm(1.0, 2.0, 2)), pair, 2.0, 12_000, batched=True, measured_share=0.7)
    assert audit.holds, str(audit)
    assert audit.tightness >= 0.6, str(audit)
    twin = distinguish(real_draws(QuietInfinityNorm(1.0, 2.0, 2)), pair, 2.0, 12_000, batched=True, measured_share=0.7)
    assert not twin.holds, str(twin)


@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_coordinates_of_draws_follow_their_law(dimension: int) -> None:
    """P(|b| ≤ x) by the quantiles that intervals use, and the variance that noise is chosen by."""
    mechanism = InfinityNorm(1.0, 0.5, dimension, integer_grid=2.0**-30)
    drawn = real_draws(mechanism)(np.zeros(dimension), 2000)

    class Law:
        @staticmethod
        def cdf(sizes: Floats) -> Floats:
            bound = sizes / mechanism.noise_scale
            beyond = stats.gamma(dimension + 1).sf(bound) - bound / dimension * stats.gamma(dimension).sf(bound)
            return np.asarray(1 - beyond)

    assert follows(np.abs(drawn[:, 0]), Law)
    assert not follows(0.8 * np.abs(drawn[:, 0]), Law)
    # The largest coordinate is Gamma(d, b).
    assert follows(np.abs(drawn).max(axis=1), stats.gamma(dimension, scale=mechanism.noise_scale))


@pytest.mark.parametrize(("dimension", "level"), [(1, 0.95), (2, 0.5), (3, 0.9), (30, 0.99)])
def test_quantiles_are_those_of_the_lattice(dimension: int, level: float) -> None:
    """Against the exact sum over half sides at a scale of 200 steps."""
    scale = 200.0
    sides = np.arange(60_000)
    weights = np.exp(dimension * np.log(2 * sides + 1) - sides / scale - dimension * math.log(2 * dimension * scale))
    within = int(scale * infinity_norm_quantile(dimension, level))
    held = np.sum(weights * np.minimum(1.0, (2 * within + 1) / (2 * sides + 1))) / weights.sum()
    assert held == pytest.approx(level, abs=0.003)


def test_one_dimension_is_laplace_noise() -> None:
    assert infinity_norm_quantile(1, 0.9) == pytest.approx(-math.log(0.1))


def test_seeded_draws_have_the_same_law_at_production_scale() -> None:
    mechanism, source = InfinityNorm(1.0, 0.5, 3, integer_grid=2.0**-30), SeededNoise(0)
    drawn = mechanism.draws(np.zeros(3), 2000, source)
    assert follows(np.abs(drawn).max(axis=1), stats.gamma(3, scale=mechanism.noise_scale))


def test_sums_beyond_62_bits_saturate() -> None:
    far = np.array([2**61, -(2**61)])
    found = SystemNoise().infinity_norm(far, 2.0**300)
    assert set(np.abs(found).tolist()) == {2**62}


def test_variances_of_noise_on_many_means() -> None:
    """The numbers of the proof page: deviation over that of gamma-norm noise, for sums that move by one in every column."""
    for columns, ratio in ((2, 0.82), (10, 0.63), (30, 0.60)):
        assert round(math.sqrt((columns + 2) / (3 * columns)), 2) == pytest.approx(ratio, abs=0.006)
