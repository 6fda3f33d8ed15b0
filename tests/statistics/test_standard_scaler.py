"""The scaler: what it computes, to the last bit where there is no noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sudare.privacy import Guarantee
from sudare.privacy.column_sums import (
    l2_sensitivity,
    public_grid,
)
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.release_content import Content
from sudare.schema import Number, Person, Schema
from sudare.statistics import PrivateStandardScaler
from tests.release_kit import SCHEMA, fitted, matrix, table, unfit
from tests.statistics.conftest import NoNoise

STEP = 2.0**-30


def declared(columns: int, most_rows: int | None = None) -> Schema:
    person = None if most_rows is None else Person("p", most_rows)
    return Schema({f"x{i}": Number(0, 1, bins=(0.5,)) for i in range(columns)}, person)


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
