"""Mean, histogram and scaler: what they compute, to the last bit where there is no noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from sudare.errors import InvalidCost, InvalidParameter, SchemaError
from sudare.privacy import Guarantee
from sudare.privacy import release as door
from sudare.privacy.column_sums import (
    l2_sensitivity,
    public_grid,
)
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.private_estimator import Plan
from sudare.privacy.release_content import Content
from sudare.schema import Category, Number, Person, Schema
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from sudare.statistics.estimators import LARGEST_COUNT, check_within, proportions
from tests.release_kit import LEARNERS, SCHEMA, fitted, matrix, refused, table, unfit

STEP = 2.0**-30


class NoNoise:
    """What would come out without noise, or with the same offset everywhere."""

    valid = False
    offset = 0.0

    def laplace(self, values, scale):
        return values + round(self.offset)

    gaussian = laplace

    def gamma_norm(self, values, rate, grid):
        return values + self.offset


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(door, "noise_source", lambda random_state: NoNoise())


@pytest.fixture
def far_off(monkeypatch):
    """Noise that drowns everything, upwards."""
    monkeypatch.setattr(door, "noise_source", lambda random_state: NoNoise())
    monkeypatch.setattr(NoNoise, "offset", 2.0**61)


@pytest.fixture
def far_below(monkeypatch):
    monkeypatch.setattr(door, "noise_source", lambda random_state: NoNoise())
    monkeypatch.setattr(NoNoise, "offset", -(2.0**61))


# Plans: what a fit will do, known without data


def declared(columns: int, most_rows: int | None = None) -> Schema:
    person = None if most_rows is None else Person("p", most_rows)
    return Schema({f"x{i}": Number(0, 1, bins=(0.5,)) for i in range(columns)}, person)


@pytest.mark.parametrize("most_rows", [None, 3])
def test_plans_of_the_mean(most_rows):
    rows = most_rows or 1
    guarantee = Guarantee(0.5, unit="record" if most_rows is None else "person")
    one, two = declared(1, most_rows), declared(2, most_rows)
    mean = PrivateMean(0.5)
    assert mean.plan(10, one) == Plan(Laplace(float(rows), 0.5, 1, integer_grid=STEP), guarantee)
    assert mean.plan(10, two) == Plan(GammaNorm(l2_sensitivity(Fraction(1), 2, rows), 0.5, 2), guarantee)
    gaussian = PrivateMean(0.5, 1e-6).plan(2**23, two)
    assert gaussian.mechanism == Gaussian(l2_sensitivity(Fraction(1), 2, rows), 0.5, 1e-6, 2, integer_grid=2.0**-28)
    assert gaussian.guarantee == Guarantee(0.5, 1e-6, unit=guarantee.unit)


@pytest.mark.parametrize("most_rows", [None, 3])
@pytest.mark.parametrize(("neighbours", "cells"), [("replace-one", 2), ("add-remove", 1)])
def test_plans_of_the_histogram(most_rows, neighbours, cells):
    rows = most_rows or 1
    guarantee = Guarantee(0.5, neighbours=neighbours, unit="record" if most_rows is None else "person")
    pure = PrivateHistogram(0.5, neighbours=neighbours).plan(10, declared(3, most_rows))
    assert pure == Plan(Laplace(3.0 * cells * rows, 0.5, 6, integer_grid=1.0), guarantee)
    gaussian = PrivateHistogram(0.5, 1e-6, neighbours=neighbours).plan(10, declared(3, most_rows))
    l2 = l2_sensitivity(Fraction(cells), 3, rows)
    assert gaussian.mechanism == Gaussian(l2, 0.5, 1e-6, 6, integer_grid=1.0)


@pytest.mark.parametrize("most_rows", [None, 3])
def test_plans_of_the_scaler(most_rows):
    rows = most_rows or 1
    one, two = declared(1, most_rows), declared(2, most_rows)
    scaler = PrivateStandardScaler(0.5)
    assert scaler.plan(10, one).mechanism == Laplace((2.25 + STEP) * rows, 0.5, 2, integer_grid=STEP)
    l2 = l2_sensitivity((2 + Fraction(STEP)) ** 2, 2, rows)
    assert scaler.plan(10, two).mechanism == GammaNorm(l2, 0.5, 4)
    gaussian = PrivateStandardScaler(0.5, 1e-6).plan(10, one).mechanism
    assert gaussian == Gaussian((2 + STEP) * rows, 0.5, 1e-6, 2, integer_grid=STEP)
    assert scaler.plan(10, one).guarantee == Guarantee(0.5, unit="record" if most_rows is None else "person")


def test_smaller_noise_is_chosen():
    """Per coordinate: gamma-norm (d+1)·Δ₂²/ε² against Laplace 2·Δ₁²/ε², from two columns on."""
    for columns in range(1, 6):
        for dimension, l1, l2_squared in ((columns, columns, columns), (2 * columns, 2.25 * columns, 4 * columns)):
            gamma_variance, laplace_variance = (dimension + 1) * l2_squared, 2 * l1**2
            assert (gamma_variance < laplace_variance) == (columns > 1)


# Means


def test_mean_without_noise(no_noise):
    rows = np.array([[0.0, 10.0], [1.0, 20.0], [0.5, 90.0], [2.0, -50.0]])
    model = PrivateMean(bounds=([0, 10], [1, 60])).fit(rows)
    assert model.mean_.tolist() == [0.625, 25.0]
    assert model.n_rows_ == 4
    assert model.clipped_ == {"x0": 1, "x1": 2}
    assert model.noise_scale_ == GammaNorm(l2_sensitivity(Fraction(1), 2, 1), 1.0, 2).noise_scale / 4
    assert model.grid_ == public_grid(model.noise_scale_, np.array([1.0, 50.0]))


def test_score_of_the_mean(no_noise):
    model = PrivateMean(bounds=([0, 10], [1, 60])).fit([[0.5, 35.0]])
    assert model.mean_.tolist() == [0.5, 35.0]
    assert model.score([[0.5, 35.0]]) == 0.0
    assert model.score([[1.0, 35.0], [0.5, 60.0]]) == -(0.25 + 0.25) / 4
    assert model.score([[99.0, -99.0]]) == -0.25


def test_means_stay_within_the_bounds_whatever_the_noise(far_off):
    model = PrivateMean(1e-6, bounds=(0.1, [0.7, 110])).fit([[0.3, 5.0]])
    assert (model.mean_ <= [0.7, 110]).all()
    assert model.mean_ == pytest.approx([0.7, 110.0], rel=1e-4)


def test_means_stay_within_the_bounds_below(far_below):
    model = PrivateMean(1e-6, bounds=(0.1, [0.7, 110])).fit([[0.3, 5.0]])
    assert (model.mean_ >= 0.1).all()
    assert model.mean_ == pytest.approx([0.1, 0.1], abs=1e-4)


# Histograms


def test_histogram_tells_its_owner_how_many_values_were_clipped():
    rows = [[-1.0, 0.5], [0.5, 2.0], [3.0, 0.25], [1.0, 0.0]]
    model = PrivateHistogram(bounds=(0, 1), bins=2, random_state=0).fit(rows)
    assert model.clipped_ == {"x0": 2, "x1": 1}


def test_histogram_without_noise(no_noise):
    rows = np.array([[0.0, 1.0], [0.5, 2.0], [0.49, 3.0], [7.0, 4.0]])
    model = PrivateHistogram(bounds=([0, 0], [1, 4]), bins=2).fit(rows)
    assert {name: counts.tolist() for name, counts in model.counts_.items()} == {"x0": [2, 2], "x1": [1, 3]}
    assert model.counts_["x0"].dtype == np.int64
    assert model.probabilities_["x1"].tolist() == [0.25, 0.75]
    assert model.n_rows_ == 4
    assert model.noise_scale_ == 4.0
    assert PrivateHistogram(bounds=(0, 4), bins=2, neighbours="add-remove").fit(rows).n_rows_ is None


def test_histogram_of_a_schema_without_noise(no_noise):
    rows = pd.DataFrame(
        {
            "age": [10.0, None, 109.0],
            "bmi": [12.0, 18.5, 59.0],
            "smoker": ["no", None, "no"],
            "ill": [0, 1, 1],
        }
    )
    model = PrivateHistogram(schema=SCHEMA).fit(rows)
    assert model.counts_["age"].tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert model.counts_["bmi"].tolist() == [1, 1, 0, 1]
    assert model.counts_["smoker"].tolist() == [2, 0, 1]
    assert list(model.counts_) == ["age", "bmi", "smoker"]


def test_gaussian_counts_are_whole(no_noise):
    model = PrivateHistogram(delta=1e-6, bounds=(0, 4), bins=4).fit([[0.0], [1.0], [1.5]])
    assert model.counts_["x0"].tolist() == [1, 2, 0, 0]


def test_score_of_the_histogram(no_noise):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.9, 1.0]])
    logs = math.log(0.75) + math.log(0.5)
    assert model.score([[0.1, 0.1]]) == pytest.approx(logs, rel=1e-15)
    assert model.score([[0.1, 0.1], [0.9, 0.9]]) == pytest.approx((logs + math.log(0.25) + math.log(0.5)) / 2)


def test_score_of_cells_that_noise_emptied(no_noise):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0]] * 10)
    assert model.score([[1.0]]) == pytest.approx(math.log(0.5 / 10))
    model._set_counts(np.array([-3, -5]))
    assert model.probabilities_["x0"].tolist() == [0.5, 0.5]
    assert model.score([[1.0]]) == pytest.approx(math.log(0.5))
    model._set_counts(np.array([5, -5]))
    assert model.score([[1.0]]) == pytest.approx(math.log(0.1))
    model._set_counts(np.array([1, 0]))
    assert model.score([[1.0]]) == pytest.approx(math.log(0.5))


def test_score_uses_the_mean_total_of_the_columns(no_noise):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0, 0.0]])
    model._set_counts(np.array([10, 0, 30, -4]))
    assert model.score([[1.0, 0.0]]) == pytest.approx(math.log(0.5 / 20))


def test_counts_saturate(far_off):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0, 1.0]] * 3)
    assert model.counts_["x1"].tolist() == [LARGEST_COUNT, LARGEST_COUNT]
    assert LARGEST_COUNT == 2**53
    assert model.probabilities_["x0"].tolist() == [0.5, 0.5]
    assert model.score([[0.0, 0.0]]) == pytest.approx(2 * math.log(0.5))
    # So many of the largest counts add up to more than 64 bits hold.
    many = PrivateHistogram(bounds=(0, 1), bins=2000).fit([[0.0]])
    assert many.score([[0.0]]) == pytest.approx(math.log(1 / 2000))


def test_counts_saturate_below(far_below):
    model = PrivateHistogram(bounds=(0, 1), bins=2).fit([[0.0]])
    assert model.counts_["x0"].tolist() == [-LARGEST_COUNT, -LARGEST_COUNT]


def test_proportions():
    assert proportions(np.array([1, 3])).tolist() == [0.25, 0.75]
    assert proportions(np.array([-1, 2, 2])).tolist() == [0.0, 0.5, 0.5]
    assert proportions(np.array([0, 0, 0, 0])).tolist() == [0.25] * 4
    assert proportions(np.array([-1, -9])).tolist() == [0.5, 0.5]
    assert proportions(np.array([0, 1])).tolist() == [0.0, 1.0]


def test_bins():
    def edges(bins) -> tuple[float, ...]:
        model = PrivateHistogram(bounds=(0, 8), bins=bins).fit([[1.0]])
        column = model.declared_.columns["x0"]
        assert isinstance(column, Number)
        assert len(model.counts_["x0"]) == len(column.bins) + 1
        return column.bins

    assert edges(2) == (4.0,)
    assert edges(4) == edges(np.int64(4)) == (2.0, 4.0, 6.0)
    assert edges([1, 2.5]) == edges((1, 2.5)) == edges(np.array([1, 2.5])) == (1.0, 2.5)
    assert len(edges(10_000)) == 9_999
    assert len(PrivateHistogram(bounds=(0, 1)).fit([[1.0]]).counts_["x0"]) == 10


@pytest.mark.parametrize("bins", [1, 0, -3, True, False, 10_001, np.int64(1), 10**30])
def test_numbers_of_bins_that_cannot_be(bins):
    with refused(InvalidParameter, f"bins must be from 2 to 10000, got {bins!r}.", "Use for example 10."):
        PrivateHistogram(bounds=(0, 1), bins=bins).fit([[1.0]])


@pytest.mark.parametrize("bins", [None, 2.5, "10", {0.5}, {"a": 1}])
def test_bins_that_are_neither_number_nor_edges(bins):
    with refused(InvalidParameter, "bins must be a number of bins or a list of inner edges.", "Use for example 10."):
        PrivateHistogram(bounds=(0, 1), bins=bins).fit([[1.0]])


@pytest.mark.parametrize("bins", [[], [0], [2], [0.5, 0.4], [math.nan], ["a"]])
def test_edges_that_cannot_be(bins):
    with pytest.raises(SchemaError):
        PrivateHistogram(bounds=(0, 1), bins=bins).fit([[1.0]])


@pytest.mark.parametrize("neighbours", ["", "add/remove", None, 1])
def test_neighbours_that_are_not_known(neighbours):
    with refused(InvalidParameter, "neighbours must be one of replace-one, add-remove.", "Use one of these words."):
        PrivateHistogram(bounds=(0, 1), neighbours=neighbours).fit([[1.0]])
    with pytest.raises(InvalidCost, match="epsilon must be a positive"):
        PrivateHistogram("1", bounds=(0, 1), neighbours=neighbours).fit([[1.0]])


# Scalers


def test_scaler_without_noise(no_noise):
    rows = np.array([[0.0, 20.0], [1.0, 20.0], [0.0, 40.0], [1.0, 40.0]])
    model = PrivateStandardScaler(100.0, bounds=([0, 0], [1, 60])).fit(rows)
    assert model.mean_.tolist() == [0.5, 30.0]
    assert model.scale_ == pytest.approx([0.5, 10.0], abs=1e-6)
    assert model.n_rows_ == 4
    assert model.noise_scale_ == model.plan(4, model.declared_).mechanism.noise_scale / 4
    assert model.grid_ == public_grid(model.noise_scale_, np.array([0.5, 30.0]))
    transformed = model.transform([[0.0, 20.0], [0.5, 30.0], [9.0, -9.0]])
    assert transformed == pytest.approx(np.array([[-1, -1], [0, 0], [1, -3]]), abs=1e-5)
    assert transformed.dtype == np.float64
    low, high = model.bounds_
    assert low == pytest.approx([-1, -3], abs=1e-5)
    assert high == pytest.approx([1, 3], abs=1e-5)


def test_score_of_the_scaler(no_noise):
    model = PrivateStandardScaler(100.0, bounds=(0, 1)).fit([[0.0], [1.0], [0.25], [0.75]])
    z = (0.9 - model.mean_[0]) / model.scale_[0]
    expected = -0.5 * z**2 - math.log(model.scale_[0]) - 0.5 * math.log(2 * math.pi)
    assert model.score([[0.9]]) == pytest.approx(expected, rel=1e-12)
    at_mean = model.score([model.mean_.tolist()])
    assert model.score([[0.9], model.mean_.tolist()]) == pytest.approx((expected + at_mean) / 2, rel=1e-9)


def test_deviation_lost_in_noise_is_set_to_the_noise(no_noise):
    model = PrivateStandardScaler(1.0, bounds=(0, 4)).fit([[1.0]] * 100)
    assert model.mean_.tolist() == [1.0]
    assert model.scale_[0] == pytest.approx(2 * model.noise_scale_, abs=model.grid_)
    assert model.noise_scale_ == pytest.approx(0.0225, rel=1e-3)
    large = PrivateStandardScaler(1e-3, bounds=(0, 4)).fit([[1.0]])
    assert large.noise_scale_ > 1
    assert large.scale_.tolist() == [2.0]


def test_mean_is_clipped_before_the_deviation_is_taken(no_noise, monkeypatch):
    """z = −1 with noise (−1/2, +4/5): the mean is −1 and the variance 9/5 − 1, not 9/5 − 9/4."""
    monkeypatch.setattr(
        NoNoise, "laplace", lambda self, values, scale: values + np.rint(np.array([-0.5, 0.8]) / STEP).astype(np.int64)
    )
    model = PrivateStandardScaler(1e4, bounds=(0, 2)).fit([[0.0]])
    assert model.mean_.tolist() == [0.0]
    assert model.scale_ == pytest.approx([math.sqrt(0.8)], abs=1e-6)


def test_noise_of_any_size_gives_a_scale():
    model = PrivateStandardScaler(1e-80, bounds=(0, 4)).fit([[1.0]])
    assert model.noise_scale_ > 1e79
    assert model.scale_.tolist() == [2.0]


def test_scalers_stay_within_the_bounds_whatever_the_noise(far_off):
    model = PrivateStandardScaler(bounds=(0.1, [0.7, 110])).fit([[0.3, 5.0]])
    assert (model.mean_ <= [0.7, 110]).all()
    assert (model.scale_ <= np.array([0.6, 109.9]) / 2).all()
    assert (model.scale_ >= model.grid_).all()


def test_scalers_stay_within_the_bounds_below(far_below):
    model = PrivateStandardScaler(bounds=(0.1, [0.7, 110])).fit([[0.3, 5.0]])
    assert (model.mean_ >= 0.1).all()
    assert (model.scale_ >= model.grid_).all()


def test_transformed_columns_lie_within_their_bounds():
    model = fitted(PrivateStandardScaler, "bounds", None)
    low, high = model.bounds_
    transformed = model.transform(np.vstack([matrix() * 100, np.full((1, 3), -1.0), np.full((1, 3), 3.0)]))
    assert (transformed >= low - 1e-9).all()
    assert (transformed <= high + 1e-9).all()
    assert np.isclose(transformed.max(axis=0), high).all()
    assert np.isclose(transformed.min(axis=0), low).all()


def test_scaler_speaks_pandas():
    scaler = PrivateStandardScaler(schema=SCHEMA).set_output(transform="pandas")
    frame = scaler.fit(table()).transform(table())
    assert list(frame.columns) == ["age", "bmi"]
    assert fitted(PrivateStandardScaler, "bounds", None).get_feature_names_out().tolist() == ["x0", "x1", "x2"]


# Releases


def test_released_values_lie_within():
    check_within(np.array([0.0, 1.0]), 0.0, np.array([1.0, 1.0]))
    for values in ([0.0, 1.1], [-0.1, 1.0], [math.nan]):
        with unfit("its numbers lie outside of what was declared"):
            check_within(np.array(values), 0.0, 1.0)


@pytest.mark.parametrize(("learner", "tensors"), [(PrivateMean, ["mean"]), (PrivateStandardScaler, ["mean", "scale"])])
def test_content_of_numbers(learner, tensors):
    model = fitted(learner, "schema", None)
    content = model.release_content()
    assert list(content.tensors) == tensors
    assert content.grids == dict.fromkeys(tensors, model.grid_)
    for name in tensors:
        assert content.tensors[name] is getattr(model, f"{name}_")
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in content.tensors.items()} == dict.fromkeys(
        tensors, ((2,), np.float64)
    )
    model.check_numbers(content)


def test_content_of_counts():
    model = fitted(PrivateHistogram, "schema", None)
    content = model.release_content()
    assert content.tensors["counts"].tolist() == [count for part in model.counts_.values() for count in part]
    assert content.grids == {"counts": None}
    assert (content.tensors["counts"].shape, content.tensors["counts"].dtype) == ((10 + 4 + 3,), np.int64)
    model.check_numbers(content)


def scaler_content(mean=0.5, scale=0.25, grids=(0.125, 0.125)) -> Content:
    parameters = fitted(PrivateStandardScaler, "bounds", None, rows=[[0.5]]).release_content().parameters
    columns = [["x0", {"kind": "number", "low": 0, "high": 1}]]
    return Content(
        {**parameters, "columns": columns},
        {"mean": np.array([mean]), "scale": np.array([scale])},
        dict(zip(("mean", "scale"), grids, strict=True)),
    )


def test_values_of_a_released_scaler():
    for good in ({}, {"mean": 0.0}, {"mean": 1.0}, {"scale": 0.125}, {"scale": 0.5}):
        assert PrivateStandardScaler.check_content(scaler_content(**good), None) == Guarantee(1.0)
    bad = [
        {"mean": -0.125},
        {"mean": 1.125},
        {"mean": math.nan},
        {"scale": 0.0},
        {"scale": 0.0625},
        {"scale": -0.25},
        {"scale": 0.625},
        {"scale": math.inf},
        {"scale": math.nan},
    ]
    for values in bad:
        with unfit("its numbers lie outside of what was declared"):
            PrivateStandardScaler.check_content(scaler_content(**values), None)
    with unfit("its means and its deviations are on different grids"):
        PrivateStandardScaler.check_content(scaler_content(grids=(0.125, 0.25)), None)


def histogram_content(counts, **parameters) -> Content:
    original = fitted(PrivateHistogram, "bounds", None, rows=[[0.5]], bins=2).release_content()
    return Content({**original.parameters, **parameters}, {"counts": np.array(counts)}, {"counts": None})


def test_values_of_a_released_histogram():
    for counts in ([0, 0], [-(2**53), 2**53]):
        assert PrivateHistogram.check_content(histogram_content(counts), None) == Guarantee(1.0)
    for counts in ([2**53 + 1, 0], [0, -(2**53) - 1], [-(2**63), 0]):
        with unfit("its numbers lie outside of what was declared"):
            PrivateHistogram.check_content(histogram_content(counts), None)


def test_bins_come_back():
    single = PrivateHistogram(bounds=(0, 1), bins=4).fit([[0.3]]).release_content()
    assert PrivateHistogram.from_release(single, None).bins == (0.25, 0.5, 0.75)
    for bins, bounds in ((4, (0, 1)), (4, (0, [1, 2])), ((0.25, 0.5), (0, [1, 2])), (2, (0, [1, 3]))):
        model = PrivateHistogram(bounds=bounds, bins=bins).fit(np.full((3, 2), 0.3))
        loaded = PrivateHistogram.from_release(model.release_content(), None)
        again = PrivateHistogram(**loaded.get_params()).fit(np.full((3, 2), 0.3))
        assert again.declared_ == model.declared_ == loaded.declared_
    assert PrivateHistogram.from_release(model.release_content(), None).bins == 2
    by_schema = PrivateHistogram.from_release(fitted(PrivateHistogram, "schema", None).release_content(), "0" * 64)
    assert by_schema.bins == 10


# Numbers of all sizes


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("rows", "bounds"),
    [
        (np.full((5, 2), 1e308), (0, 1.7e308)),
        (np.full((5, 2), -1e308), (-8e307, 8e307)),
        (np.array([[1e308, 1e-308]] * 5), ([0, 0], [1.7e308, 1e-250])),
        (np.full((5, 1), 1e10), (1e10, 1e10 + 1e-3)),
        (np.full((20, 1), 3.0), (0, 10)),
        (np.array([[3.0]]), (0, 10)),
        (np.array([[3.0, -4.0]]), (-10, 10)),
        (np.full((10, 50), 0.3), (0, 1)),
        (np.full((5, 1), 1e-200), (0, 1e-199)),
    ],
    ids=["huge", "huge and negative", "huge and tiny", "far from zero", "constant", "one", "one row", "wide", "tiny"],
)
def test_numbers_of_all_sizes(learner, delta, rows, bounds):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        model = learner(delta=delta, bounds=bounds).fit(rows)
        assert math.isfinite(model.score(rows))
    low, high = np.broadcast_to(bounds[0], rows.shape[1]), np.broadcast_to(bounds[1], rows.shape[1])
    if learner is not PrivateHistogram:
        assert (model.mean_ >= low).all()
        assert (model.mean_ <= high).all()
    if learner is PrivateStandardScaler:
        assert np.isfinite(model.transform(rows)).all()
        assert (model.scale_ > 0).all()
    assert learner.check_content(model.release_content(), None).epsilon == 1.0
    door._check_grids(model.release_content())


def test_large_tables_are_told_well():
    """The norm of gamma-norm noise in d dimensions passes 30 scales with probability e^-30·Σ 30^k/k!, k < d: 3e-8 at d = 6."""
    rows = np.random.default_rng(1).beta(2, 5, size=(20_000, 3))
    mean = PrivateMean(bounds=(0, 1)).fit(rows)
    assert np.abs(mean.mean_ - rows.mean(axis=0)).max() <= 30 * mean.noise_scale_ < 0.003
    scaler = PrivateStandardScaler(bounds=(0, 1)).fit(rows)
    assert np.abs(scaler.mean_ - rows.mean(axis=0)).max() <= 30 * scaler.noise_scale_
    assert scaler.scale_ == pytest.approx(rows.std(axis=0), rel=0.1)
    counts = PrivateHistogram(bounds=(0, 1), bins=4).fit(rows).counts_
    for index, found in enumerate(counts.values()):
        exact = np.histogram(rows[:, index], bins=4, range=(0, 1))[0]
        # Twelve cells at scale 6: some noise beyond 100 has probability 12·e^(-100/6) < 1e-6.
        assert np.abs(found - exact).max() <= 100


def test_seeds_repeat():
    for learner in LEARNERS:
        first, second = (fitted(learner, "schema", None, random_state=3).release_content() for _ in range(2))
        assert first == second
        assert first != fitted(learner, "schema", None, random_state=4).release_content()


def test_defaults():
    assert PrivateMean().get_params() == PrivateStandardScaler().get_params()
    assert PrivateMean().get_params() == {
        "epsilon": 1.0,
        "delta": 0.0,
        "bounds": None,
        "schema": None,
        "account": None,
        "random_state": None,
    }
    assert PrivateHistogram().get_params() == {
        **PrivateMean().get_params(),
        "bins": 10,
        "neighbours": "replace-one",
    }


def test_categories_are_counted_by_their_declared_values(no_noise):
    schema = Schema({"a": Category((3, 1, 2))})
    model = PrivateHistogram(schema=schema).fit({"a": [1, 1, 3]})
    assert model.counts_["a"].tolist() == [1, 2, 0]
