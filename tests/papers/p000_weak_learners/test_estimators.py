"""Learners of paper 000 on own data: what they learn, what they keep, and that they cannot leave."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare import Release
from sudare.errors import DataError, InvalidParameter, SudareError
from sudare.experts import MirrorAveraging
from sudare.papers.p000_weak_learners import noisy_sgd, perturbed_erm
from sudare.papers.p000_weak_learners.estimators import (
    ChaudhuriClassifier,
    GradientDescentClassifier,
    ObjectivePerturbationClassifier,
)

ALL = [
    ObjectivePerturbationClassifier(20.0),
    ObjectivePerturbationClassifier(20.0, 1e-6, radius=2.0),
    ChaudhuriClassifier(20.0),
    ChaudhuriClassifier(20.0, method="output"),
    GradientDescentClassifier(5.0, noise="modern"),
    GradientDescentClassifier(50.0, convexity=0.1, loss="hinge"),
]


def made_up(rows, seed=0):
    X = np.random.default_rng(seed).normal(size=(rows, 4)) * 3
    return X, np.where(X[:, 1] > 0, "yes", "no")


@pytest.mark.parametrize("model", ALL)
def test_much_epsilon_learns_the_classes_whatever_the_unit(model):
    X, y = made_up(200)
    model.set_params(norm_bound=5.0, random_state=0).fit(X, y)
    assert model.score(*made_up(500, 1)) > 0.8
    scaled = type(model)(**{**model.get_params(), "norm_bound": 500.0}).fit(100 * X, y)
    np.testing.assert_allclose(100 * scaled.coef_, model.coef_, rtol=1e-8)


@pytest.mark.parametrize("model", ALL)
def test_none_can_be_released(model):
    with pytest.raises(SudareError):
        Release.of(model.fit(*made_up(30)))
    assert not hasattr(model, "guarantee_")


def test_parameters_are_those_of_the_functions():
    X, y = made_up(40)
    rows = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    signs = np.where(y == "yes", 1.0, -1.0)
    seed = np.random.RandomState(3).randint(2**31)
    model = ChaudhuriClassifier(1.0, random_state=3).fit(X, y)
    expected = perturbed_erm.chaudhuri_objective(
        rows[np.newaxis], signs[np.newaxis], 1.0, 0.02, np.random.default_rng(seed)
    )
    np.testing.assert_array_equal(model.coef_, expected[0])
    descended = GradientDescentClassifier(1.0, random_state=3).fit(X, y)
    sigma = noisy_sgd.printed_sigma(40, 1.0, 1e-6)
    np.testing.assert_array_equal(
        descended.coef_, noisy_sgd.algorithm_2(rows, signs, sigma, np.random.default_rng(seed), radius=1.0)
    )


def test_computed_epsilons():
    X, y = made_up(50)
    assert ObjectivePerturbationClassifier(1.0).fit(X, y).computed_epsilon_ == pytest.approx(1.2013, abs=1e-3)
    assert ChaudhuriClassifier(1.0).fit(X, y).computed_epsilon_ < 0.7
    assert ChaudhuriClassifier(1.0, method="output").fit(X, y).computed_epsilon_ == 1.0
    assert GradientDescentClassifier(1.0).fit(X, y).computed_epsilon_ < 0.1


def test_they_are_experts_for_mirror_averaging():
    """Figure 2: learners of other members, combined on own rows."""
    experts = [ChaudhuriClassifier(5.0, norm_bound=5.0, random_state=seed).fit(*made_up(60, seed)) for seed in range(9)]
    own = MirrorAveraging(experts).fit(*made_up(40, 9))
    assert own.score(*made_up(500, 10)) > 0.8
    assert len(own.guarantee_) == 9
    assert all(promise.epsilon == np.inf for promise in own.guarantee_)


def test_wrong_parameters_and_labels_are_refused():
    X, y = made_up(30)
    for wrong in (
        ChaudhuriClassifier(0.0),
        ChaudhuriClassifier(1.0, norm_bound=-1.0),
        ChaudhuriClassifier(1.0, method="both"),
        GradientDescentClassifier(1.0, noise="none"),
        GradientDescentClassifier(1.0, loss="squared"),
        ObjectivePerturbationClassifier(1.0, extra_penalty=0.1),
    ):
        with pytest.raises(InvalidParameter):
            wrong.fit(X, y)
    for labels in (None, y[:-1], np.repeat("no", 30), np.arange(30) % 3):
        with pytest.raises(DataError):
            ChaudhuriClassifier().fit(X, labels)


@pytest.mark.long
@parametrize_with_checks([ObjectivePerturbationClassifier(), ChaudhuriClassifier(), GradientDescentClassifier()])
def test_scikit_learn_check(estimator, check, monkeypatch):
    """None is skipped either: one looks for this variable."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with warnings.catch_warnings():
        # One check gives a column vector on purpose to see whether it is warned about.
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)
