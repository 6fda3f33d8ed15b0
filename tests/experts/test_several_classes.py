"""Combinations of experts for three classes or more, against formulas written out here, and as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.errors import InvalidParameter
from sudare.experts import AverageExperts, ExponentialWeights, MirrorAveraging, OwnPlusConsensus, StackedExperts
from sudare.experts.expert_set import ExpertSet
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression
from sudare.privacy import Ledger, Release
from tests.experts.members import ColumnScore
from tests.release_kit import KEY, TRUSTED

WEIGHTED = (AverageExperts, ExponentialWeights, MirrorAveraging)
ALL = (*WEIGHTED, StackedExperts, OwnPlusConsensus)
NAMES = np.array(["low", "middle", "high"])


class ClassColumns(ClassifierMixin, BaseEstimator):
    """Scores of given classes, each a column of the table that it comes back to. It has nothing to learn."""

    def __init__(self, classes: Any = (0, 1, 2), shift: int = 0) -> None:
        self.classes = classes
        self.shift = shift

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> Any:
        return np.asarray(self.classes)

    def decision_function(self, X: Any) -> Any:
        matrix = np.asarray(X, dtype=float)
        scores = matrix[:, (np.arange(len(self.classes)) + self.shift) % matrix.shape[1]]
        return scores[:, 1] - scores[:, 0] if len(self.classes) == 2 else scores


class AnyClasses:
    """Experts of the classes that the labels have: scikit-learn's checks bring tables of many kinds."""

    def _targets(self, y: Any, rows: int) -> Any:
        labels = np.asarray(y)
        if y is not None and labels.ndim == 1 and (labels.dtype.kind not in "fc" or len(np.unique(labels)) == 1):
            found = np.unique(labels)
            named = [ClassColumns(found, shift) for shift in (0, 1)]
            self.expert_set_ = ExpertSet.of([ColumnScore()] if len(found) == 1 else named)
        return super()._targets(y, rows)  # type: ignore[misc]


class MirrorOfAnyClasses(AnyClasses, MirrorAveraging):
    """Weights."""


class StackOfAnyClasses(AnyClasses, StackedExperts):
    """Weights for every class."""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [kind((ClassColumns(), ClassColumns(shift=1))) for kind in (MirrorOfAnyClasses, StackOfAnyClasses)]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def task(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 4))
    return X, (X[:, :3] + 0.5 * generator.normal(size=(rows, 3))).argmax(axis=1)


@pytest.fixture(scope="module")
def experts() -> list[Any]:
    found: list[Any] = [LogisticRegression().fit(*task(60, seed)) for seed in range(3)]
    X, y = task(200, 9)
    # One that knows no better than to shift all classes by one.
    return [*found, LogisticRegression().fit(X, (y + 1) % 3)]


def scores_of(experts: list[Any], X: np.ndarray) -> np.ndarray:
    return np.stack([expert.decision_function(X) for expert in experts], axis=1)


def mirror_weights(losses: np.ndarray, temperature: float, from_equal: bool = False) -> np.ndarray:
    totals = np.cumsum(losses, axis=0)
    if from_equal:
        totals = np.vstack([np.zeros(losses.shape[1]), totals[:-1]])
    return softmax(-totals / temperature, axis=1).mean(axis=0)


def test_scores_are_judged_by_the_softmax_loss(experts):
    X, y = task(50, 20)
    scores = scores_of(experts, X)
    losses = -log_softmax(scores, axis=2)[np.arange(50), :, y]
    model = MirrorAveraging(experts, temperature=2.0).fit(X, y)
    np.testing.assert_allclose(model.weights_, mirror_weights(losses, 2.0), atol=1e-12)
    combined = np.einsum("rmc,m->rc", scores, model.weights_)
    np.testing.assert_allclose(model.decision_function(X), combined, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), softmax(combined, axis=1), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), combined.argmax(axis=1))
    final = ExponentialWeights(experts, temperature=2.0).fit(X, y).weights_
    np.testing.assert_allclose(final, softmax(-losses.sum(axis=0) / 2), atol=1e-12)
    assert model.weights_[3] < 0.05


def test_probabilities_are_judged_by_the_brier_score(experts):
    X, y = task(50, 21)
    chances = np.stack([expert.predict_proba(X) for expert in experts], axis=1)
    losses = ((chances - np.eye(3)[y][:, np.newaxis]) ** 2).sum(axis=2)
    model = MirrorAveraging(experts, temperature="theory", combine="probabilities").fit(X, y)
    assert model.temperature_ == 4
    np.testing.assert_allclose(model.weights_, mirror_weights(losses, 4.0, from_equal=True), atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), np.einsum("rmc,m->rc", chances, model.weights_), atol=1e-12)


def test_probabilities_of_two_classes_are_those_of_several(experts):
    X, y = task(60, 22)
    two = [LogisticRegression().fit(*(part[:40] for part in (X, y > 0))) for _ in range(1)]
    two += [GaussianNB().fit(X, y > 0), RidgeClassifier().fit(X, y > 0)]
    model = MirrorAveraging(two, combine="probabilities").fit(X, y > 0)
    second = np.stack(
        [two[0].predict_proba(X)[:, 1], two[1].predict_proba(X)[:, 1], expit(two[2].decision_function(X))], axis=1
    )
    losses = 2 * (second - (y > 0)[:, np.newaxis]) ** 2
    np.testing.assert_allclose(model.weights_, mirror_weights(losses, 3.0), atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], second @ model.weights_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), second @ model.weights_ > 0.5)


def test_theory_cuts_scores_off_where_its_temperature_holds(experts):
    X, y = task(50, 23)
    model = MirrorAveraging(experts, temperature="theory").fit(X, y)
    assert model.temperature_ == pytest.approx(2 * np.e)
    assert model.oracle_residual_ == pytest.approx(2 * np.e * np.log(4) / 50)
    assert np.abs(model.decision_function(X)).max() <= 0.5 + 1e-12


def test_votes_are_halves(experts):
    X, y = task(50, 24)
    model = AverageExperts(experts, combine="votes").fit(X, y)
    votes = np.eye(3)[scores_of(experts, X).argmax(axis=2)] - 0.5
    np.testing.assert_allclose(model.decision_function(X), votes.mean(axis=1), atol=1e-12)


@pytest.mark.parametrize("combine", ["scores", "probabilities", "votes"])
@pytest.mark.parametrize("combination", [*WEIGHTED, StackedExperts])
def test_experts_of_all_kinds_are_combined(combination, combine):
    X, y = task(150, 25)
    kinds = [DecisionTreeClassifier(max_depth=4), GaussianNB(), LogisticRegression(), RidgeClassifier()]
    model = combination([kind.fit(X, NAMES[y]) for kind in kinds], combine=combine).fit(X, NAMES[y])
    assert model.score(X, NAMES[y]) > 0.7
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert list(model.classes_) == sorted(NAMES)


def test_a_stack_has_weights_for_every_class(experts):
    X, y = task(80, 26)
    model = StackedExperts(experts, penalty=1.0).fit(X, y)
    scores = scores_of(experts, X)
    assert model.weights_.shape == (3, 4)
    expected = np.einsum("rmc,cm->rc", scores, model.weights_) + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-10)
    # Weights are penalised in units of the answers' size, intercepts as they are: the gradient of each class's problem is zero.
    size = np.sqrt(np.mean(scores**2))
    for place in range(3):
        signs = np.where(y == place, 1.0, -1.0)
        pull = -signs * expit(-signs * expected[:, place])
        np.testing.assert_allclose(scores[:, :, place].T @ pull, -model.weights_[place] * size**2, atol=1e-6)
        np.testing.assert_allclose(pull.sum(), -model.intercept_[place], atol=1e-6)


def test_own_plus_consensus_fits_each_class_against_the_rest():
    X, y = task(60, 27)
    senders = [RidgeClassifier().fit(*task(40, seed)) for seed in range(5)]
    model = OwnPlusConsensus(senders, penalty=0.5).fit(X, y)
    assert model.coef_.shape == (3, 4)
    for place in range(3):
        of_class = []
        for sender in senders:
            line = LogisticRegression().fit(X, y == place)
            line.coef_, line.intercept_ = sender.coef_[place : place + 1], sender.intercept_[place : place + 1]
            of_class.append(line)
        binary = OwnPlusConsensus(of_class, penalty=0.5).fit(X, y == place)
        np.testing.assert_allclose(model.coef_[place], binary.coef_, atol=1e-8)
        np.testing.assert_allclose(model.intercept_[place], binary.intercept_, atol=1e-8)
    chances = expit(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), chances / chances.sum(axis=1, keepdims=True))


@pytest.fixture(scope="module")
def releases(tmp_path_factory) -> list[Release]:
    folder, found = tmp_path_factory.mktemp("members"), []
    for number, kind in enumerate((PrivateLogisticRegression, PrivateLogisticRegression, PrivateLinearSVC)):
        account = Ledger(folder / f"{number}.db").account("a", epsilon=20.0)
        model = kind(20.0, classes=[0, 1, 2], norm_bound=3.0, account=account).fit(*task(300, number))
        Release.of(model).save(folder / f"{number}.sudare", key=KEY)
        found.append(Release.load(folder / f"{number}.sudare", TRUSTED))
    return found


@pytest.mark.parametrize("combination", ALL)
def test_released_models_of_several_classes_are_experts(combination, releases):
    X, y = task(300, 28)
    model = combination(releases).fit(X, y)
    assert model.score(X, y) > 0.6
    assert model.expert_set_.stacked is not None
    asked = np.stack([release.model().decision_function(X) for release in releases], axis=1)
    if combination is AverageExperts:
        np.testing.assert_allclose(model.decision_function(X), asked.mean(axis=1), atol=1e-10)


@pytest.mark.parametrize("combination", ALL)
def test_experts_that_cannot_be_scored_are_left_out(combination, experts):
    X, y = task(40, 29)
    absurd = LogisticRegression().fit(*task(40, 1))
    absurd.coef_ = absurd.coef_.copy()
    absurd.coef_[1, 2] = 1e300
    alone = combination(experts).fit(X, y)
    with pytest.warns(RuntimeWarning, match="expert 1 gives"):
        model = combination([experts[0], absurd, *experts[1:]]).fit(X, y)
    assert model.left_out_ == (1,)
    np.testing.assert_allclose(model.decision_values(X), alone.decision_values(X), atol=1e-9)


def test_experts_must_agree_on_the_classes(experts):
    X, y = task(40, 30)
    with pytest.raises(InvalidParameter, match="disagree on the classes"):
        MirrorAveraging([*experts, LogisticRegression().fit(X, y > 0)]).fit(X, y)
