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
    ChaudhuriClassifier(20.0, method="laplace"),
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


def test_output_perturbation_has_laplace_noise_on_every_entry_as_the_paper_words_it():
    X, y = made_up(40)
    rows = (X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0))[np.newaxis]
    signs = np.where(y == "yes", 1.0, -1.0)[np.newaxis]
    seed = np.random.RandomState(3).randint(2**31)
    for method, by_coordinate in (("output", False), ("laplace", True)):
        expected = perturbed_erm.chaudhuri_output(
            rows, signs, 1.0, 0.02, np.random.default_rng(seed), by_coordinate=by_coordinate
        )
        model = ChaudhuriClassifier(1.0, method=method, random_state=3).fit(X, y)
        np.testing.assert_array_equal(model.coef_, expected[0])


def test_computed_epsilons():
    X, y = made_up(50)

    def computed(model):
        return model.set_params(classes=["no", "yes"]).fit(X, y).computed_epsilon_

    assert computed(ObjectivePerturbationClassifier(1.0)) == pytest.approx(1.2013, abs=1e-3)
    assert computed(ChaudhuriClassifier(1.0)) < 0.7
    assert computed(ChaudhuriClassifier(1.0, method="output")) == 1.0
    assert computed(ChaudhuriClassifier(1.0, method="laplace")) == 1.0
    assert computed(GradientDescentClassifier(1.0)) < 0.1


@pytest.mark.parametrize("learner", [ObjectivePerturbationClassifier, ChaudhuriClassifier, GradientDescentClassifier])
def test_nothing_is_promised_where_classes_were_learned(learner):
    """Two tables that differ in one record give different `classes_` with certainty."""
    X = np.eye(4) / 2
    one, other = ["no", "no", "no", "flu"], ["no", "no", "no", "hiv"]
    learned = [learner(0.1, random_state=0).fit(X, y) for y in (one, other)]
    assert set(learned[0].classes_) != set(learned[1].classes_)
    assert [model.computed_epsilon_ for model in learned] == [np.inf, np.inf]
    declared = learner(0.1, classes=["no", "flu"], random_state=0)
    for y in (one, ["no"] * 4):
        assert list(declared.fit(X, y).classes_) == ["no", "flu"]
        assert np.isfinite(declared.computed_epsilon_)
        assert set(declared.predict(X)) <= {"no", "flu"}
    with pytest.raises(DataError, match="not among the declared classes"):
        declared.fit(X, other)
    with pytest.raises(DataError, match="binary"):
        declared.set_params(classes=["no", "flu", "hiv"]).fit(X, other)
    swapped = learner(5.0, classes=["yes", "no"], random_state=0).fit(X, ["no", "yes", "no", "yes"])
    usual = learner(5.0, classes=["no", "yes"], random_state=0).fit(X, ["yes", "no", "yes", "no"])
    np.testing.assert_array_equal(swapped.coef_, usual.coef_)


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
        ObjectivePerturbationClassifier(1.0, 1.0),
        GradientDescentClassifier(1.0, 0.0),
        GradientDescentClassifier(1.0, radius=0.0),
        ChaudhuriClassifier(1.0, regularization=0.0),
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


@pytest.mark.parametrize("published", [ChaudhuriClassifier, ObjectivePerturbationClassifier, GradientDescentClassifier])
def test_rows_that_are_shortened_are_told(published):
    rows, labels = np.array([[1.5, 0.0], [0.0, 1.0], [0.6, 0.8]]), [0, 1, 1]
    with pytest.warns(RuntimeWarning, match="Rows longer than norm_bound = 1 were shortened"):
        published(classes=[0, 1], random_state=0).fit(rows, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        published(classes=[0, 1], norm_bound=1.5, random_state=0).fit(rows, labels)
        published(classes=[0, 1], random_state=0).fit(rows[1:], labels[:2])
