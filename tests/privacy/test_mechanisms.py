"""Calibration: scales rounded towards more noise, grids that are powers of two, and refusals before anything is drawn."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.array_types import Floats, Integers
from sudare.errors import DataError, InvalidCost, InvalidParameter
from sudare.privacy.accounting import exact, gaussian_cost, gaussian_mu_within, pure_cost, total_variation_delta
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace, power_of_two_below
from sudare.privacy.noise import SeededNoise, SystemNoise

Mechanism = Laplace | Gaussian | GammaNorm

SENSITIVITIES = st.floats(1e-9, 1e9)
EPSILONS = st.floats(1e-4, 20.0)
DIMENSIONS = st.integers(1, 2000)
INTEGER_GRIDS = st.one_of(st.none(), st.integers(-40, 10).map(lambda exponent: 2.0**exponent))


class NoNoise:
    """A source that adds nothing and remembers what it was asked for."""

    valid: ClassVar[bool] = False

    def __init__(self) -> None:
        self.asked: list[tuple[list[float], float]] = []

    def laplace(self, values: Integers, scale: float) -> Integers:
        assert values.dtype == np.int64
        self.asked.append((values.tolist(), scale))
        return values

    gaussian = laplace

    def gamma_norm(self, values: Floats, rate: float, grid: float) -> Floats:
        self.asked.append((values.tolist(), rate))
        return np.rint(values / grid) * grid

    def integer_below(self, limit: int) -> int:
        raise AssertionError("no mechanism here draws integers")


def every_mechanism(sensitivity: float = 1.0, epsilon: float = 1.0, dimension: int = 1) -> list[Mechanism]:
    return [
        Laplace(sensitivity, epsilon, dimension),
        Gaussian(sensitivity, epsilon, 1e-6, dimension),
        GammaNorm(sensitivity, epsilon, dimension),
    ]


def is_power_of_two(number: float) -> bool:
    return number > 0 and math.frexp(number)[0] == 0.5


@given(st.floats(min_value=5e-324, max_value=1.7e308))
def test_power_of_two_below(number: float) -> None:
    below = power_of_two_below(number)
    assert is_power_of_two(below)
    assert below <= number
    assert Fraction(number) < 2 * Fraction(below)


def test_laplace_constants() -> None:
    scalar = Laplace(1.0, 0.1)
    assert scalar.grid == 2.0**-24
    assert scalar.scale_in_steps == 10 * (2**24 + 1)
    assert scalar.noise_scale == 10 * (2**24 + 1) / 2**24
    assert scalar.cost == pure_cost(0.1)
    vector = Laplace(3.0, 0.5, dimension=4)
    assert vector.grid == 2.0**-25
    assert vector.scale_in_steps == 2 * (3 * 2**25 + 4)
    counts = Laplace(2.0, 0.5, dimension=4, integer_grid=1.0)
    assert (counts.grid, counts.scale_in_steps, counts.noise_scale) == (1.0, 4.0, 4.0)
    assert Laplace(2.5, 1.0, integer_grid=1.0).scale_in_steps == 3.0
    assert Laplace(2.0, 1.0, integer_grid=0.25).scale_in_steps == 8.0


def test_gaussian_constants() -> None:
    scalar = Gaussian(1.0, 1.0, 1e-6)
    mu = gaussian_mu_within(1.0, 1e-6)
    assert scalar.grid == 2.0**-30
    assert scalar.scale_in_steps == pytest.approx((2**30 + 1) / mu, rel=1e-15)
    assert scalar.noise_scale == scalar.scale_in_steps * 2.0**-30
    vector = Gaussian(3.0, 1.0, 1e-6, dimension=5)
    # 3/√5 lies between 1 and 2; √5 is at most 3 steps.
    assert vector.grid == 2.0**-30
    assert vector.scale_in_steps == pytest.approx((3 * 2**30 + 3) / mu, rel=1e-15)
    assert Gaussian(3.0, 1.0, 1e-6, dimension=4).scale_in_steps == pytest.approx((3 * 2**30 + 2) / mu, rel=1e-15)
    assert Gaussian(1.0, 1.0, 1e-6, dimension=9).grid == 2.0**-32
    counts = Gaussian(1.0, 1.0, 1e-6, integer_grid=1.0)
    assert counts.grid == 2.0**-30
    assert counts.scale_in_steps == pytest.approx(2**30 / mu, rel=1e-15)
    assert Gaussian(1.0, 1.0, 1e-6, integer_grid=2.0**-40).grid == 2.0**-40
    assert Gaussian(1.0, 1.0, 1e-6, integer_grid=2.0**-40).scale_in_steps == pytest.approx(2**40 / mu, rel=1e-15)


def test_gamma_norm_constants() -> None:
    mechanism = GammaNorm(2.0, 0.5, dimension=3)
    assert mechanism.rate == 0.25
    assert mechanism.noise_scale == 4.0
    assert mechanism.grid == 4.0 * 2.0**-20
    assert mechanism.cost == pure_cost(0.5)
    assert GammaNorm(1.0, 3.0).grid == 2.0**-22


@given(SENSITIVITIES, EPSILONS, DIMENSIONS, INTEGER_GRIDS)
def test_laplace_scale_is_the_smallest_float_that_keeps_the_promise(
    sensitivity: float, epsilon: float, dimension: int, integer_grid: float | None
) -> None:
    mechanism = Laplace(sensitivity, epsilon, dimension, integer_grid)
    assert is_power_of_two(mechanism.grid)
    steps = math.ceil(Fraction(sensitivity) / Fraction(mechanism.grid)) + (dimension if integer_grid is None else 0)
    assert steps / Fraction(mechanism.scale_in_steps) <= exact(epsilon)
    assert steps / Fraction(math.nextafter(mechanism.scale_in_steps, 0)) > exact(epsilon)
    if integer_grid is None:
        # The price of the grid: less than a millionth more noise.
        assert steps * Fraction(mechanism.grid) <= Fraction(sensitivity) * (1 + Fraction(1, 10**6))


@given(SENSITIVITIES, st.floats(1e-3, 8.0), st.sampled_from([1e-9, 1e-6, 1e-3]), DIMENSIONS, INTEGER_GRIDS)
def test_gaussian_scale_is_the_smallest_float_that_keeps_the_promise(
    sensitivity: float, epsilon: float, delta: float, dimension: int, integer_grid: float | None
) -> None:
    mechanism = Gaussian(sensitivity, epsilon, delta, dimension, integer_grid)
    assert is_power_of_two(mechanism.grid)
    rounding = 0 if integer_grid is not None else math.ceil(math.sqrt(dimension))
    distance = Fraction(sensitivity) / Fraction(mechanism.grid) + rounding
    mu = Fraction(gaussian_mu_within(epsilon, delta))
    assert distance / Fraction(mechanism.scale_in_steps) <= mu
    assert distance / Fraction(math.nextafter(mechanism.scale_in_steps, 0)) > mu
    if integer_grid is not None:
        assert (Fraction(integer_grid) / Fraction(mechanism.grid)).denominator == 1
    assert mechanism.cost == gaussian_cost(epsilon, delta, dimension / (24 * Fraction(mechanism.scale_in_steps) ** 2))
    assert mechanism.cost.mu == mu
    assert total_variation_delta(exact(epsilon), mechanism.cost.total_variation) <= exact(delta) / 2**20


@given(SENSITIVITIES, EPSILONS, DIMENSIONS)
def test_gamma_norm_rate_is_the_largest_float_that_keeps_the_promise(
    sensitivity: float, epsilon: float, dimension: int
) -> None:
    mechanism = GammaNorm(sensitivity, epsilon, dimension)
    assert Fraction(mechanism.rate) * Fraction(sensitivity) <= exact(epsilon)
    assert Fraction(math.nextafter(mechanism.rate, math.inf)) * Fraction(sensitivity) > exact(epsilon)
    assert is_power_of_two(mechanism.grid)
    assert mechanism.grid * 2**19 < mechanism.noise_scale <= mechanism.grid * 2**21


@pytest.mark.parametrize(
    ("epsilon", "delta", "bits"), [(0.1, 1e-6, 30), (5.0, 1e-6, 30), (10.0, 1e-9, 31), (10.0, 1e-12, 36)]
)
def test_gaussian_grid_is_as_fine_as_a_small_delta_needs(epsilon: float, delta: float, bits: int) -> None:
    mechanism = Gaussian(1.0, epsilon, delta)
    assert mechanism.grid == 2.0**-bits
    taken = total_variation_delta(exact(epsilon), mechanism.cost.total_variation)
    assert taken <= exact(delta) / 2**20
    if bits > 30:
        # One bit less would not have been enough, or hardly.
        assert taken * 4 > exact(delta) / 2**20 * Fraction(95, 100)


@pytest.mark.parametrize(("stages", "bits"), [(1, 33), (4, 34), (16, 35), (64, 36)])
def test_gaussian_grid_is_as_fine_as_many_stages_need(stages: int, bits: int) -> None:
    """Four times as many stages need a bit more; all of their distances together fit into the δ that is kept for them."""
    mechanism = Gaussian(1.0, 20.0, 1e-5, stages=stages)
    assert mechanism.grid == 2.0**-bits
    assert stages * total_variation_delta(exact(20.0), mechanism.cost.total_variation) <= exact(1e-5) / 2**20


@pytest.mark.parametrize(("epsilon", "delta"), [(20.0, 1e-12), (1e5, 1e-6), (1e-300, 1e-300)])
def test_gaussian_refuses_what_no_grid_can_do(epsilon: float, delta: float) -> None:
    problem = f"Gaussian noise cannot be exact enough for epsilon = {epsilon!r} with delta = {delta!r}."
    with pytest.raises(InvalidParameter, match=f"^{re.escape(problem)} Use a larger delta"):
        Gaussian(1.0, epsilon, delta)


def gaussian(sensitivity: float, epsilon: float, dimension: int = 1) -> Gaussian:
    return Gaussian(sensitivity, epsilon, 1e-6, dimension)


@pytest.mark.parametrize("kind", [Laplace, GammaNorm, gaussian])
class TestRefusals:
    @pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.nan, math.inf, -math.inf, 2.0**-301, 2.0**301])
    def test_sensitivity(self, kind: Callable[..., Mechanism], sensitivity: float) -> None:
        with pytest.raises(
            InvalidParameter,
            match=r"^sensitivity must be positive, finite and between .* got " + re.escape(repr(sensitivity)),
        ):
            kind(sensitivity, 1.0)

    @pytest.mark.parametrize("dimension", [0, -1, 1.5, 2**40 + 1])
    def test_dimension(self, kind: Callable[..., Mechanism], dimension: int) -> None:
        with pytest.raises(
            InvalidParameter, match=rf"^dimension must be a whole number of at least 1, got {dimension}\."
        ):
            kind(1.0, 1.0, dimension)

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 5e-324])
    def test_epsilon(self, kind: Callable[..., Mechanism], epsilon: float) -> None:
        with pytest.raises(InvalidCost, match=r"^epsilon must be"):
            kind(1.0, epsilon)

    @pytest.mark.parametrize("sensitivity", [2.0**-300, 2.0**300])
    def test_the_ends_of_what_is_accepted_work(self, kind: Callable[..., Mechanism], sensitivity: float) -> None:
        mechanism = kind(sensitivity, 1.0, 2**40)
        assert mechanism.grid > 0
        assert math.isfinite(mechanism.noise_scale)
        small = kind(sensitivity, 1.0)
        drawn = small.apply(np.array([sensitivity]), SystemNoise())
        # Laplace and gamma-norm noise is beyond 10⁶ scales with probability e^−1000000.
        assert np.isfinite(drawn).all()
        assert abs(drawn[0]) < 1e6 * small.noise_scale


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (
            lambda: Laplace(0.0, 1.0),
            "sensitivity must be positive, finite and between 2⁻³⁰⁰ and 2³⁰⁰, got 0.0. "
            "Derive it from declared bounds, and rescale columns with extreme units.",
        ),
        (
            lambda: Laplace(1.0, 1.0, 0),
            "dimension must be a whole number of at least 1, got 0. Give the number of values.",
        ),
        (
            lambda: Laplace(1.0, 1.0, 1, 3.0),
            "integer_grid must be a power of two, got 3.0. Use 1.0 for counts.",
        ),
        (
            lambda: Laplace(1.0, 1.0, 2).apply(np.zeros((3, 1)), NoNoise()),
            "The noise is calibrated for a vector of 2 values, got shape (3, 1). "
            "Give the mechanism the dimension of the values.",
        ),
    ],
)
def test_refusals_say_what_was_wrong_and_what_to_do(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        refused()
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", [Laplace, GammaNorm])
@pytest.mark.parametrize("epsilon", [2.0**-301, 2.0**301])
def test_pure_mechanisms_refuse_extreme_epsilon(kind: type[Laplace | GammaNorm], epsilon: float) -> None:
    with pytest.raises(InvalidParameter, match=r"^epsilon must be positive, finite and between 2⁻³⁰⁰ and 2³⁰⁰, got"):
        kind(1.0, epsilon)


def test_gaussian_needs_delta() -> None:
    with pytest.raises(InvalidCost, match="Gaussian noise needs delta > 0"):
        Gaussian(1.0, 1.0, 0.0)


@pytest.mark.parametrize("grid", [0.0, -1.0, math.nan, math.inf, 2.0**301])
def test_integer_grid_must_be_usable(grid: float) -> None:
    for build in (lambda: Laplace(1.0, 1.0, integer_grid=grid), lambda: Gaussian(1.0, 1.0, 1e-6, integer_grid=grid)):
        with pytest.raises(InvalidParameter, match=r"^integer_grid must be positive"):
            build()


@pytest.mark.parametrize("grid", [0.1, 3.0, 1.0000000000000002])
def test_integer_grid_must_be_a_power_of_two(grid: float) -> None:
    for build in (lambda: Laplace(1.0, 1.0, integer_grid=grid), lambda: Gaussian(1.0, 1.0, 1e-6, integer_grid=grid)):
        with pytest.raises(InvalidParameter, match=rf"^integer_grid must be a power of two, got {grid!r}\."):
            build()


@pytest.mark.parametrize("mechanism", [Laplace(1.0, 1.0, 2, 0.5), Gaussian(1.0, 1.0, 1e-6, 2, 0.5)])
def test_values_off_the_integer_grid_are_refused(mechanism: Mechanism) -> None:
    """Their rounding was not paid for."""
    source = NoNoise()
    np.testing.assert_array_equal(mechanism.apply(np.array([1.5, -2.0]), source), [1.5, -2.0])
    with pytest.raises(DataError, match=r"^Values said to lie on the integer grid do not\. Round them first"):
        mechanism.apply(np.array([1.5, 0.25]), source)
    assert len(source.asked) == 1


@pytest.mark.parametrize("mechanism", every_mechanism(dimension=3))
def test_values_must_be_a_finite_vector_of_the_calibrated_dimension(mechanism: Mechanism) -> None:
    source = NoNoise()
    for values in (np.zeros(2), np.zeros(4), np.zeros((1, 3)), np.array(0.0)):
        with pytest.raises(InvalidParameter, match=r"^The noise is calibrated for a vector of 3 values, got shape \("):
            mechanism.apply(values, source)
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(DataError, match=r"^Noise cannot be added to values that are not finite\. Clip"):
            mechanism.apply(np.array([0.0, value, 1.0]), source)
    assert source.asked == []


@pytest.mark.parametrize("mechanism", every_mechanism(dimension=2))
def test_noise_is_asked_for_at_the_calibrated_scale_on_the_grid(mechanism: Mechanism) -> None:
    source = NoNoise()
    values = np.array([1.0, -2.0]) + 0.25 * mechanism.grid
    drawn = mechanism.apply(values, source)
    np.testing.assert_array_equal(drawn, [1.0, -2.0])
    if isinstance(mechanism, GammaNorm):
        assert source.asked == [(values.tolist(), mechanism.rate)]
    else:
        assert source.asked == [([1.0 / mechanism.grid, -2.0 / mechanism.grid], mechanism.scale_in_steps)]


@pytest.mark.parametrize("mechanism", every_mechanism(dimension=2))
def test_outputs_are_multiples_of_the_grid(mechanism: Mechanism) -> None:
    drawn = mechanism.draws(np.array([math.pi, -math.e]), 50, SystemNoise())
    assert drawn.shape == (50, 2)
    assert drawn.dtype == np.float64
    multiples = drawn / mechanism.grid
    np.testing.assert_array_equal(multiples, np.rint(multiples))
    assert len(np.unique(drawn)) > 90


@pytest.mark.parametrize("mechanism", every_mechanism(dimension=2))
def test_draws_are_repeated_applications(mechanism: Mechanism) -> None:
    source = SeededNoise(5)
    values = np.array([1.0, 2.0])
    rows = mechanism.draws(values, 1, SeededNoise(5))
    np.testing.assert_array_equal(mechanism.apply(values, source), rows[0])
    assert mechanism.apply(values, source).shape == (2,)
    far = np.array([0.0, 2.0**20])
    spread = mechanism.draws(far, 30, SeededNoise(5))
    assert (np.abs(spread[:, 0]) < 2.0**12).all()
    assert (np.abs(spread[:, 1] - 2.0**20) < 2.0**12).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mechanism", every_mechanism())
@pytest.mark.parametrize("value", [1e300, 1.7e308])
def test_huge_values_saturate_at_61_bits_of_steps(mechanism: Mechanism, value: float) -> None:
    source = NoNoise()
    limit = 2.0**61 * mechanism.grid
    for sign in (1, -1):
        assert mechanism.apply(np.array([sign * value]), source)[0] == sign * limit
        assert mechanism.apply(np.array([sign * limit / 2]), source)[0] == sign * limit / 2
        noisy = mechanism.apply(np.array([sign * value]), SystemNoise())
        # A hundred scales: probability below e^−100.
        assert noisy[0] == pytest.approx(sign * limit, abs=100 * mechanism.noise_scale)


finite = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=6), EPSILONS)
def test_rounding_reals_first_is_paid_for_in_l1(pairs: list[tuple[float, float]], epsilon: float) -> None:
    """Whatever two vectors at the declared distance round to, their distance in steps over the scale is at most ε."""
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    distance = sum((abs(Fraction(left) - Fraction(right)) for left, right in pairs), Fraction(0))
    sensitivity = max(float(distance) * (1 + 1e-15), 1e-9)
    mechanism = Laplace(sensitivity, epsilon, len(pairs))
    steps = steps_between(mechanism, first, second)
    assert sum(map(abs, steps)) / Fraction(mechanism.scale_in_steps) <= exact(epsilon)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=6), st.floats(0.01, 8.0))
def test_rounding_reals_first_is_paid_for_in_l2(pairs: list[tuple[float, float]], epsilon: float) -> None:
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    squared = sum(((Fraction(left) - Fraction(right)) ** 2 for left, right in pairs), Fraction(0))
    sensitivity = max(math.sqrt(squared) * (1 + 1e-15), 1e-9)
    mechanism = Gaussian(sensitivity, epsilon, 1e-6, len(pairs))
    steps = steps_between(mechanism, first, second)
    mu_squared = Fraction(gaussian_mu_within(epsilon, 1e-6)) ** 2
    assert sum(step**2 for step in steps) / Fraction(mechanism.scale_in_steps) ** 2 <= mu_squared


def steps_between(mechanism: Laplace | Gaussian, first: Floats, second: Floats) -> list[int]:
    source = NoNoise()
    mechanism.apply(first, source)
    mechanism.apply(second, source)
    (left, _), (right, _) = source.asked
    return [int(a) - int(b) for a, b in zip(left, right, strict=True)]
