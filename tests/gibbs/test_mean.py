"""Means drawn from a truncated normal posterior."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sudare.errors import (
    InvalidParameter,
)
from sudare.gibbs import GibbsMean
from tests.gibbs.tables import separable


@pytest.mark.parametrize("draws", [1, 5])
def test_means_are_near_the_truth_and_within_bounds(draws):
    random = np.random.default_rng(0)
    X = random.uniform(0, 1, size=(5000, 3)) * [10, 20, 30]
    model = GibbsMean(1.0, 1e-6, bounds=([0, 0, 0], [10, 20, 30]), draws=draws, random_state=0).fit(X)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0), rtol=0.02)
    assert model.draws_.shape == (draws, 3)
    assert model.score(X) < 0
    # The flat-prior posterior is that of Gaussian noise on the mean: sensitivity 2√p/n in half-ranges.
    assert model.noise_scale_ == pytest.approx(math.sqrt(draws * 3) / (5000 * 0.23204), rel=0.02)


def test_a_mean_at_the_edge_of_the_ball():
    X = np.ones((50, 2))
    model = GibbsMean(0.1, 1e-6, bounds=(-1, 1), random_state=0).fit(X)
    assert np.all(np.abs(model.mean_) <= 1)
    narrow = GibbsMean(0.1, 1e-6, bounds=(-1, 1), radius=0.01, random_state=0).fit(X)
    assert np.linalg.norm(narrow.draws_) <= 0.01 + 1e-3


@pytest.mark.parametrize("options", [{"radius": 0.0}, {"prior_scale": 0}, {"prior_scale": math.nan}, {"fixed_work": 1}])
def test_bad_parameters_of_means(options):
    with pytest.raises(InvalidParameter):
        GibbsMean(**{"bounds": (-1, 1), **options}).fit(separable()[0])


def test_pure_means(account):
    X = np.full((4_000, 2), 0.4)
    model = GibbsMean(1.0, 0.0, bounds=(-1, 1), account=account).fit(X)
    assert (account.spent().epsilon, account.spent().delta) == (1.0, 0.0)
    np.testing.assert_allclose(model.mean_, 0.4, atol=0.4)


def test_a_draw_has_a_table_without_intervals():
    model = GibbsMean(1.0, bounds=(-1, 1), random_state=0).fit(np.full((400, 2), 0.4))
    assert list(model.table()) == ["column", "mean"]
    assert model.table()["mean"] == model.mean_.tolist()
