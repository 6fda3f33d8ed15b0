"""What all statistics have in common: numbers of all sizes, seeds, defaults, what is released."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sudare.privacy import release as door
from sudare.schema import Category, Number, Schema
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from tests.release_kit import LEARNERS, fitted


def test_smaller_noise_is_chosen():
    """Per coordinate: gamma-norm (d+1)·Δ₂²/ε² against Laplace 2·Δ₁²/ε², from two columns on."""
    for columns in range(1, 6):
        for dimension, l1, l2_squared in ((columns, columns, columns), (2 * columns, 2.25 * columns, 4 * columns)):
            gamma_variance, laplace_variance = (dimension + 1) * l2_squared, 2 * l1**2
            assert (gamma_variance < laplace_variance) == (columns > 1)


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
        "cluster": None,
    }
    assert PrivateHistogram().get_params() == {
        **PrivateMean().get_params(),
        "bins": 10,
        "neighbours": "replace-one",
    }


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_of_means_and_counts_hold_as_often_as_they_say(delta):
    rows = np.random.default_rng(0).uniform(0.1, 0.9, (400, 3))
    means, counts = [], []
    for seed in range(60):
        found = PrivateMean(0.5, delta, bounds=(0, 1), random_state=seed).fit(rows).table()
        means.append((found["mean_low"] <= rows.mean(axis=0)) & (rows.mean(axis=0) <= found["mean_high"]))
        found = PrivateHistogram(0.5, delta, bounds=(0, 1), bins=2, random_state=seed).fit(rows).table()
        true = np.concatenate([np.histogram(column, 2, (0, 1))[0] for column in rows.T])
        counts.append((found["count_low"] <= true) & (true <= found["count_high"]))
    # 180 and 360 intervals: five standard deviations of a share are .081 and .057.
    assert 0.869 <= np.mean(means) <= 1.0
    assert 0.893 <= np.mean(counts) <= 1.0


def test_tables_name_columns_and_values():
    schema = Schema({"age": Number(0, 90, bins=(18,), missing="indicator"), "town": Category(("a", "b"))})
    model = PrivateHistogram(schema=schema, random_state=0).fit({"age": [3.0, None], "town": ["a", "b"]})
    assert model.table()["column"] == ["age"] * 3 + ["town"] * 2
    assert model.table()["value"] == ["0 to 18", "18 to 90", None, "a", "b"]
    wide, narrow = model.table(level=0.99), model.table(level=0.5)
    assert all(
        np.subtract(wide["count_high"], wide["count_low"]) >= np.subtract(narrow["count_high"], narrow["count_low"])
    )
