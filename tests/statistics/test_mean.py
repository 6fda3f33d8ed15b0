"""The mean: what it computes, to the last bit where there is no noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sudare.privacy import Guarantee
from sudare.privacy.column_sums import (
    l2_sensitivity,
    public_grid,
)
from sudare.privacy.mechanisms import GammaNorm, Gaussian, Laplace
from sudare.privacy.private_estimator import Plan
from sudare.schema import Number, Person, Schema
from sudare.statistics import PrivateMean

STEP = 2.0**-30


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
