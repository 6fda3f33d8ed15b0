"""Perturbations of one column: the k rule, what is refused, and the channel that reconstruction relies on."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sudare.errors import DataError, InvalidParameter, MissingValue, SchemaError, UnknownCategory, WrongType
from sudare.perturbation import (
    LaplacePerturbation,
    RetainReplace,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
    epsilon_of_k,
    k_of_epsilon,
)
from sudare.perturbation.square_wave import wave_half_width

NUMBERS = (LaplacePerturbation, SquareWave)
CATEGORIES = (RetainReplace, UnaryEncoding, SubsetSelection)
# Chi-square p-values are approximate far out; a thousand times stricter than the false-alarm rate of 1e-6.
SMALLEST_P = 1e-9

rows_and_k = st.integers(2, 10**9).flatmap(lambda k: st.tuples(st.just(k), st.integers(k + 1, 10**12)))


@pytest.mark.parametrize(
    ("bounds", "phi"), [((17, 90), 14.05), ((0, 99_999), 19_247.53), ((1, 16), 2.88)], ids=["age", "gain", "education"]
)
def test_noise_scales_of_the_paper(bounds: tuple[float, float], phi: float) -> None:
    """Paper 004, section 5.2: k = 2 among Adult's 32,561 rows; printed with two decimals."""
    perturbation = LaplacePerturbation(bounds, k=2, n_records=32_561)
    width = bounds[1] - bounds[0]
    assert perturbation.noise_scale == pytest.approx(2 * width / math.log(32_560), rel=1e-6)
    assert abs(perturbation.noise_scale - phi) < 0.0101
    assert perturbation.epsilon == pytest.approx(width / perturbation.noise_scale, rel=1e-6)


def test_retained_probability_of_the_paper() -> None:
    """ρ = (r − 1)/(r − 1 + V) with r = √((N − 1)/(k − 1))."""
    perturbation = RetainReplace(list("abcde"), k=3, n_records=1001)
    ratio = math.sqrt(1000 / 2)
    own, other = perturbation.tick_probabilities
    assert own - other == pytest.approx((ratio - 1) / (ratio - 1 + 5), rel=1e-6)
    assert own == pytest.approx(ratio / (ratio - 1 + 5), rel=1e-6)
    assert own + 4 * other == pytest.approx(1.0, abs=1e-15)


@given(rows_and_k)
def test_epsilon_of_k_keeps_k(case: tuple[int, int]) -> None:
    """The float is at most the real number, and less by less than a billionth; back again it gives at least k."""
    k, rows = case
    if rows - 1 <= (k - 1) * 1.0001:
        return
    epsilon = epsilon_of_k(k, rows)
    assert epsilon == pytest.approx(0.5 * math.log((rows - 1) / (k - 1)), rel=1e-9)
    assert k_of_epsilon(epsilon, rows) >= k * (1 - 1e-15)


def test_persons_with_several_rows_need_less_epsilon() -> None:
    one, three = epsilon_of_k(2, 10_000), epsilon_of_k(2, 10_000, rows_per_person=3)
    assert three == pytest.approx(0.5 * math.log((10_000 - 3) / 3))
    assert three < one
    assert k_of_epsilon(three, 10_000, 3) == pytest.approx(2)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({}, InvalidParameter, "either epsilon or k"),
        ({"epsilon": 1.0, "k": 2, "n_records": 10}, InvalidParameter, "either epsilon or k"),
        ({"k": 2}, InvalidParameter, "among how many records"),
        ({"k": 1, "n_records": 10}, InvalidParameter, "k must be a whole number from 2"),
        ({"k": 2.5, "n_records": 10}, InvalidParameter, "k must be a whole number from 2"),
        ({"k": 10, "n_records": 10}, InvalidParameter, "cannot be reached among 10 records"),
        ({"k": 11, "n_records": 10}, InvalidParameter, "cannot be reached among 10 records"),
        ({"k": 2, "n_records": 1}, InvalidParameter, "k = 2 cannot be reached among 1 record"),
        ({"k": 2, "n_records": True}, InvalidParameter, "n_records must be a whole number"),
        ({"epsilon": 0.0}, InvalidParameter, "must lie from"),
        ({"epsilon": -1.0}, InvalidParameter, "must lie from"),
        ({"epsilon": math.nan}, InvalidParameter, "must lie from"),
        ({"epsilon": math.inf}, InvalidParameter, "must lie from"),
        ({"epsilon": 10**5000}, InvalidParameter, "must lie from"),
        ({"epsilon": 17.0}, InvalidParameter, "must lie from"),
        ({"epsilon": "1"}, InvalidParameter, "must lie from"),
    ],
)
@pytest.mark.parametrize("made", [lambda **options: LaplacePerturbation((0, 1), **options),
                                  lambda **options: RetainReplace(["a", "b"], **options)])  # fmt: skip
def test_impossible_promises_are_refused(made: Any, options: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        made(**options)


@pytest.mark.parametrize(
    "bounds", [(1, 1), (2, 1), (0, math.inf), (math.nan, 1), (0,), "ab", 3, (0, 1, 2), (0, 1e-300)]
)
@pytest.mark.parametrize("kind", NUMBERS)
def test_bounds_must_be_bounds(kind: Any, bounds: Any) -> None:
    with pytest.raises(InvalidParameter, match="bounds must be two finite numbers"):
        kind(bounds, epsilon=1.0)


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_that_cannot_be_perturbed(kind: Any) -> None:
    perturbation = kind((0, 10), epsilon=1.0)
    for values, error, says in (
        ([1.0, math.nan], DataError, "missing"),
        ([], DataError, "no values"),
        ([[1.0], [2.0]], DataError, "2 dimensions"),
        (["secret"], WrongType, "not numbers"),
    ):
        with pytest.raises(error, match=says) as caught:
            perturbation.perturb(values)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_that_cannot_be_perturbed(kind: Any) -> None:
    with pytest.raises(SchemaError, match="fewer than two"):
        kind(["a"], epsilon=1.0)
    with pytest.raises(SchemaError, match="more than 4096"):
        kind(range(5000), epsilon=1.0)
    perturbation = kind(["a", "b"], epsilon=1.0)
    with pytest.raises(UnknownCategory):
        perturbation.perturb(["a", "secret"])
    with pytest.raises(MissingValue):
        perturbation.perturb(["a", None])
    with pytest.raises(DataError, match="no values"):
        perturbation.perturb([])
    assert len(kind(["a", "b"], epsilon=1.0, missing="?").perturb(["a", None])) == 2


def test_fewer_values_than_promised_are_refused() -> None:
    perturbation = LaplacePerturbation((0, 10), k=2, n_records=100)
    with pytest.raises(DataError, match="n_records = 100 is more than the 99 values"):
        perturbation.perturb(np.zeros(99))
    assert len(perturbation.perturb(np.zeros(100))) == 100


@pytest.mark.parametrize("kind", NUMBERS)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0.01, 16.0))
def test_inputs_and_outputs_are_on_a_public_grid(kind: Any, low: float, width: float, epsilon: float) -> None:
    perturbation = kind((low, low + width), epsilon=epsilon)
    assert perturbation.steps * perturbation.grid == pytest.approx(
        perturbation.bounds[1] - perturbation.bounds[0], rel=1e-12
    )
    outside = np.array([low - 1e9, low, low + width / 3, low + width, math.inf, -math.inf])
    codes = perturbation.codes(outside)
    assert codes.min() == 0 == codes[0] == codes[1] == codes[5]
    assert codes.max() == perturbation.steps == codes[3] == codes[4]
    assert 16 <= perturbation.steps <= 2**16
    assert perturbation.noise_scale > 0
    assert perturbation.exact_epsilon <= epsilon
    assert perturbation.exact_epsilon >= epsilon * (1 - 1e-4) - 1e-5
    ends = perturbation.decoded(np.array([0, perturbation.output_count - 1]))
    assert ends == pytest.approx(perturbation.output_bounds, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 8.0])
def test_channel_is_that_of_the_draws(kind: Any, epsilon: float) -> None:
    """Chi-square of 40,000 draws from one value, in ten bins of about equal probability."""
    perturbation = kind((-2.0, 5.0), epsilon=epsilon)
    drawn = perturbation.perturb(np.full(40_000, 1.3), random_state=1)
    inner = np.quantile(drawn, np.linspace(0.1, 0.9, 9))
    low, high = perturbation.output_bounds
    edges = np.unique(np.concatenate([[low], np.unique(inner), [high]]))
    expected = perturbation.transition_at(edges, [1.3])[:, 0]
    assert expected.sum() == pytest.approx(1.0)
    counts = np.histogram(drawn, edges)[0]
    assert stats.chisquare(counts, 40_000 * expected / expected.sum()).pvalue > SMALLEST_P
    elsewhere = perturbation.transition_at(edges, [4.3])[:, 0]
    assert stats.chisquare(counts, 40_000 * elsewhere / elsewhere.sum()).pvalue < SMALLEST_P


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_transition_is_the_mean_over_the_bin(kind: Any, epsilon: float) -> None:
    """Against the average of `transition_at` over many points of each bin; bins that do not follow the grid."""
    perturbation = kind((0.1, 7.7), epsilon=epsilon)
    low, high = perturbation.output_bounds
    edges_y, edges_x = np.linspace(low, high, 23), np.array([0.1, 0.7, math.pi, 5.0, 7.7])
    exact = perturbation.transition(edges_y, edges_x)
    assert exact.sum(axis=0) == pytest.approx(np.ones(4))
    for column, (left, right) in enumerate(itertools.pairwise(edges_x)):
        points = np.linspace(left, right, 20_001)
        mean = perturbation.transition_at(edges_y, (points[1:] + points[:-1]) / 2).mean(axis=1)
        assert exact[:, column] == pytest.approx(mean, abs=2e-4)


@pytest.mark.parametrize("kind", NUMBERS)
def test_cdf_counts_what_lies_at_or_below(kind: Any) -> None:
    perturbation = kind((0, 1), epsilon=1.0)
    low, high = perturbation.output_bounds
    grid = perturbation.decoded(np.arange(perturbation.output_count))
    cdf = perturbation.cdf(grid, 0.25)
    assert np.all(np.diff(cdf) > 0)
    assert cdf[-1] == 1.0
    assert perturbation.cdf(low - 1e-6, 0.25) == 0.0
    masses = np.diff(np.concatenate([[0.0], cdf]))
    distance, scale = np.abs(grid - 0.25), perturbation.noise_scale
    ideal = np.exp(-distance / scale) if kind is LaplacePerturbation else np.where(distance <= scale, math.e, 1.0)
    density = ideal / ideal.sum()
    # Inside, mass and density agree up to the rounding of one to the grid.
    assert masses[10:-10] == pytest.approx(density[10:-10], rel=0.02)
    assert perturbation.cdf([[low], [high]], [0.0, 1.0]).shape == (2, 2)


@pytest.mark.parametrize("edges", [[1.0], [1.0, 1.0], [2.0, 1.0], [[0.0, 1.0]]])
def test_edges_must_rise(edges: Any) -> None:
    perturbation = LaplacePerturbation((0, 1), epsilon=1.0)
    with pytest.raises(InvalidParameter, match="edges_y must rise"):
        perturbation.transition_at(edges, [0.5])
    with pytest.raises(InvalidParameter, match="edges_x must rise"):
        perturbation.transition([0.0, 1.0], edges)
    with pytest.raises(InvalidParameter, match="outside of the bounds"):
        perturbation.transition([0.0, 1.0], [-1.0, 0.5])


def test_the_wave_is_as_wide_as_published() -> None:
    """Li et al. (2020): b = (εe^ε − e^ε + 1)/(2e^ε(e^ε − 1 − ε)), about 0.256 at ε = 1; the series continues it to zero."""
    assert wave_half_width(1.0) == pytest.approx(0.2561, abs=1e-4)
    assert wave_half_width(0.0099999) == pytest.approx(wave_half_width(0.0100001), abs=1e-5)
    assert wave_half_width(1e-3) == pytest.approx(0.5, abs=1e-3)


def test_square_wave_tells_more_about_the_mean_of_spread_values_than_nothing() -> None:
    """The mean of outputs is a straight line in the value: slope p − q times 2b, by the law itself."""
    wave = SquareWave((0, 1), epsilon=1.0)
    outputs = np.arange(-wave.overshoot, wave.steps + wave.overshoot + 1)
    values = wave.bounds[0] + outputs * wave.grid
    means = [
        float(np.diff(wave.steps_cdf(outputs, np.array(code)), prepend=0.0) @ values) for code in (0, wave.steps // 2, wave.steps)
    ]  # fmt: skip
    assert means[1] - means[0] == pytest.approx(means[2] - means[1], rel=1e-6)
    assert means[2] > means[0]


@pytest.mark.parametrize("kind", [*NUMBERS, *CATEGORIES])
def test_seeds_repeat_and_entropy_does_not(kind: Any) -> None:
    made = kind((0, 10), epsilon=1.0) if kind in NUMBERS else kind(list(range(11)), epsilon=1.0)
    values = np.arange(11).repeat(20)
    first, again = (made.perturb(values, random_state=3) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, made.perturb(values, random_state=4))
    assert not np.array_equal(made.perturb(values), made.perturb(values))
    assert made.guarantee.notion == "local"
    assert made.guarantee.epsilon == 1.0


def test_descriptions_make_equality() -> None:
    assert LaplacePerturbation((0, 1), epsilon=1.0) == LaplacePerturbation((0.0, 1.0), epsilon=1.0)
    assert LaplacePerturbation((0, 1), epsilon=1.0) != SquareWave((0, 1), epsilon=1.0)
    assert len({RetainReplace(["a", "b"], epsilon=1.0), RetainReplace(["a", "b"], epsilon=1.0)}) == 1
    assert "noise_scale" in repr(LaplacePerturbation((0, 1), epsilon=1.0))
