"""Combinations as scikit-learn estimators: conventions, inputs that cannot be used, and the equations end to end."""

from __future__ import annotations

import traceback
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.errors import DataError, InvalidParameter, NotReleasable
from sudare.experts import AverageExperts, ExponentialWeights, MirrorAveraging, OwnPlusConsensus, StackedExperts
from sudare.experts.expert_set import ExpertSet
from sudare.linear import PrivateAdditiveClassifier, PrivateLogisticRegression
from sudare.privacy import Guarantee, Ledger, Release
from sudare.schema import Label, Number, Schema
from sudare.statistics import PrivateMean
from tests.experts.members import ColumnScore, ColumnValue, Line, RegressionLine

COMBINATIONS = (MirrorAveraging, ExponentialWeights, AverageExperts, StackedExperts)
CLASSIFIERS = (ColumnScore(0), ColumnScore(1), ColumnScore(0, 1.0))
REGRESSORS = (ColumnValue(0), ColumnValue(1), ColumnValue(0, 1.0))


class ConsensusOnAnyTable(OwnPlusConsensus):
    """Linear experts are as wide as the table they are asked about; scikit-learn's checks bring tables of many widths."""

    def _learn(self, rows, targets):
        line = Line if is_classifier(self) else RegressionLine
        width = np.asarray(rows).shape[1]
        asked = self.expert_set_
        self.expert_set_ = ExpertSet.of([line(np.ones(width)), line(np.eye(width)[0])])
        super()._learn(rows, targets)
        self.expert_set_ = asked


# One check gives infinite targets, and scikit-learn's own `type_of_target` warns before it refuses them.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [combination(CLASSIFIERS) for combination in (*COMBINATIONS, ConsensusOnAnyTable)]
    + [combination(REGRESSORS) for combination in (MirrorAveraging, ConsensusOnAnyTable)]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture
def own():
    """Own rows of a task on which the first coefficient decides."""
    generator = np.random.default_rng(3)
    X = generator.normal(size=(60, 3))
    return X, (X[:, 0] + 0.3 * generator.normal(size=60) > 0).astype(int)


@pytest.fixture
def experts():
    generator = np.random.default_rng(4)
    found = []
    for _ in range(5):
        X = generator.normal(size=(40, 3))
        found.append(LogisticRegression().fit(X, (X[:, 0] + generator.normal(size=40) > 0).astype(int)))
    return found


def test_mirror_averaging_is_equations_15_to_17(own, experts):
    X, y = own
    model = MirrorAveraging(experts, temperature=3.0).fit(X, y)
    scores = np.stack([expert.decision_function(X) for expert in experts], axis=1)
    losses = np.logaddexp(0, -np.where(y == 1, 1, -1)[:, np.newaxis] * scores)
    shares = np.exp(-np.cumsum(losses, axis=0) / 3)
    expected = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(model.weights_, expected, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), scores @ expected, atol=1e-12)
    assert model.oracle_residual_ == pytest.approx(3 * np.log(5) / 60)
    assert model.weight_path_.shape == (60, 5)


def test_models_that_are_asked_one_by_one_say_the_same_as_one_product(own, experts):
    X, y = own
    disguised = [Line(expert.coef_[0], expert.intercept_[0]) for expert in experts]
    for combination in (MirrorAveraging, ExponentialWeights, StackedExperts):
        one, other = combination(experts).fit(X, y), combination(disguised).fit(X, y)
        np.testing.assert_allclose(one.weights_, other.weights_, rtol=1e-6, atol=1e-9)


def test_any_classifier_is_an_expert(own):
    X, y = own
    kinds = [DecisionTreeClassifier(max_depth=2).fit(X, y), GaussianNB().fit(X, y), LogisticRegression().fit(X, y)]
    for combination in (*COMBINATIONS, ExponentialWeights):
        assert combination(kinds).fit(X, y).score(X, y) > 0.85


class SaysOnly:
    """An expert with nothing but `predict`."""

    def __init__(self, names):
        self.names = names

    def predict(self, X):
        return np.asarray(self.names)[(np.asarray(X)[:, 0] > 0).astype(int)]


def test_an_expert_with_predict_only_votes(own):
    X, y = own
    numbers = AverageExperts([SaysOnly([-1, 1])]).fit(X, y)
    assert set(numbers.decision_function(X)) == {-1.0, 1.0}
    named = SaysOnly(["ill", "well"])
    named.classes_ = np.array(["ill", "well"])
    model = AverageExperts([named]).fit(X, np.array(["ill", "well"])[y])
    assert list(model.predict([[1.0, 0, 0], [-1.0, 0, 0]])) == ["well", "ill"]


def test_votes_are_signs(own, experts):
    X, y = own
    model = MirrorAveraging(experts, combine="votes").fit(X, y)
    votes = np.stack([np.where(expert.decision_function(X) > 0, 1, -1) for expert in experts], axis=1)
    np.testing.assert_allclose(model.decision_function(X), votes @ model.weights_)


def test_theory_keeps_scores_where_condition_19_holds(own, experts):
    X, y = own
    loud = [Line(100 * expert.coef_[0], 0.0) for expert in experts]
    model = MirrorAveraging(loud, temperature="theory").fit(X, y)
    assert model.temperature_ == pytest.approx(np.e)
    assert np.abs(model.decision_function(X)).max() <= 1 + 1e-12
    assert model.oracle_residual_ == pytest.approx(np.e * np.log(5) / 60)


def test_regression_is_judged_by_squares():
    generator = np.random.default_rng(5)
    X = generator.normal(size=(50, 2))
    y = X[:, 0] + 0.1 * generator.normal(size=50)
    experts = [LinearRegression().fit(X, target) for target in (X[:, 0], X[:, 1])]
    model = MirrorAveraging(experts, temperature=1.0).fit(X, y)
    losses = np.stack([(expert.predict(X) - y) ** 2 for expert in experts], axis=1)
    shares = np.exp(-np.cumsum(losses, axis=0))
    np.testing.assert_allclose(model.weights_, (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0), atol=1e-12)
    assert is_regressor(model)
    assert not hasattr(model, "decision_function")
    assert StackedExperts(experts).fit(X, y).score(X, y) > 0.95
    with pytest.raises(InvalidParameter, match="theory"):
        MirrorAveraging(experts, temperature="theory").fit(X, y)


def test_clones_keep_their_experts_so_that_searches_work(own, experts):
    X, y = own
    copied = clone(MirrorAveraging(experts))
    assert copied.experts is experts or list(copied.experts) == experts
    assert cross_val_score(MirrorAveraging(experts), X, y).mean() > 0.7
    search = GridSearchCV(MirrorAveraging(experts), {"temperature": [0.5, 3.0]}).fit(X, y)
    assert search.best_params_["temperature"] in (0.5, 3.0)


@pytest.mark.parametrize("to_frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_reach_the_experts_as_frames(own, to_frame):
    X, y = own
    frame = to_frame({name: X[:, number] for number, name in enumerate("abc")})
    seen = []

    class Named:
        classes_ = np.array([0, 1])

        def decision_function(self, rows):
            seen.append(type(rows))
            return np.asarray(rows["a"])

    model = MirrorAveraging([Named(), Named()]).fit(frame, y)
    assert set(seen) == {type(frame)}
    np.testing.assert_allclose(model.decision_function(frame), X[:, 0])


def test_memory_does_not_grow_with_rows():
    """Scores of 300 experts on 20,000 rows are 48 MB; no more than a block of them is ever held."""
    generator = np.random.default_rng(14)
    X = generator.normal(size=(20_000, 3))
    y = (X[:, 0] > 0).astype(int)
    experts = [Line(generator.normal(size=3)) for _ in range(300)]
    disguised = [LogisticRegression().fit(X[:50], y[:50])] * 300
    for panel in (experts, disguised):
        model = MirrorAveraging(panel)
        tracemalloc.start()
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 24e6


# What cannot be used


def test_no_experts(own):
    for nothing in ((), [], None, "experts", 3):
        with pytest.raises(InvalidParameter, match="experts"):
            MirrorAveraging(nothing).fit(*own)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ([Line([1, 0, 0]), Line([1, 0])], "disagree on the number of features"),
        ([Line([1, 0, 0]), Line([1, 0, 0], classes=(1, 0))], "disagree on the classes"),
        ([Line([1, 0, 0], classes=(0, 1, 2))], r"one number a class \(3\)"),
        ([Line([1, 0, 0], classes=(0,))], "one class only"),
        ([Line([1, 0, 0]), LinearRegression().fit(np.eye(3), [1, 2, 3])], "Some experts classify"),
        ([LogisticRegression()], "not fitted"),
        ([LogisticRegression], "neither"),
        ([object()], "neither"),
    ],
)
def test_experts_that_do_not_fit_together(own, bad, says):
    with pytest.raises(InvalidParameter, match=says):
        MirrorAveraging(bad).fit(*own)


def test_rows_and_labels_that_cannot_be_used(own, experts):
    X, y = own
    model = MirrorAveraging(experts)
    hole = X.copy()
    hole[3, 1] = np.nan
    for rows, labels, says in (
        (hole, y, "NaN"),
        (X[:, :2], y, "3"),
        (X[:0], y[:0], "0 sample"),
        (X, y[:-1], "60 rows and 59 labels"),
        (X, np.where(y == 1, "yes", "no"), "experts do not know"),
        (X, np.arange(60) % 3, "experts do not know"),
    ):
        with pytest.raises((DataError, ValueError), match=says):
            model.fit(rows, labels)
    with pytest.raises(DataError, match="not finite"):
        MirrorAveraging([Line([np.inf, 0, 0])]).fit(X, y)
    for wrong in ({"temperature": 0}, {"temperature": "hot"}, {"temperature": np.nan}, {"combine": "all"}):
        with pytest.raises(InvalidParameter):
            MirrorAveraging(experts, **wrong).fit(X, y)


def test_errors_quote_no_label(own):
    X, _ = own
    secret = "Tanaka"
    for experts in (CLASSIFIERS, REGRESSORS):
        for y in ([secret] * 59 + [3.5], [[secret]] * 30 + [[secret, secret]] * 30, [object()] * 59 + [secret]):
            with pytest.raises((DataError, ValueError)) as caught:
                MirrorAveraging(experts).fit(X, np.array(y, dtype=object))
            assert secret not in "".join(traceback.format_exception(caught.value))


def test_absurd_losses_are_refused_and_not_turned_into_nan():
    X = np.eye(4)
    with pytest.raises(DataError, match="too large"), np.errstate(over="ignore", invalid="ignore"):
        MirrorAveraging([ColumnValue(0, 1e200), ColumnValue(1, 1e250)]).fit(X, np.ones(4))


@pytest.mark.parametrize("combination", [*COMBINATIONS, OwnPlusConsensus])
@pytest.mark.parametrize("coefficient", [1e308, -1e308, 1e200, np.inf, np.nan])
def test_experts_that_cannot_be_scored_are_named_and_left_out(combination, coefficient, own, experts):
    X, y = own
    alone = combination(experts).fit(X, y)
    spoiled = [experts[0], Line([coefficient] * 3), *experts[1:], Line([0.0, coefficient, 0.0])]
    with pytest.warns(RuntimeWarning, match=rf"experts 1, {len(spoiled) - 1} give answers"):
        model = combination(spoiled).fit(X, y)
    assert model.left_out_ == (1, len(spoiled) - 1)
    assert len(model.guarantee_) == len(spoiled)
    np.testing.assert_allclose(model.decision_values(X), alone.decision_values(X))
    if hasattr(model, "weights_"):
        assert len(model.weights_) == len(spoiled)
        np.testing.assert_array_equal(model.weights_[[1, -1]], 0.0)
    assert alone.left_out_ == ()


def test_scores_that_are_cut_off_or_votes_may_be_large(own, experts):
    X, y = own
    large = Line([1e200, 0, 0])
    assert MirrorAveraging([*experts, large], temperature="theory").fit(X, y).left_out_ == ()
    assert MirrorAveraging([*experts, large], combine="votes").fit(X, y).left_out_ == ()


def test_a_stack_is_not_overwhelmed_by_one_expert(own, experts):
    X, y = own
    with pytest.warns(RuntimeWarning, match=f"expert {len(experts)} gives"):
        model = StackedExperts([*experts, Line([1e30, 0, 0])]).fit(X, y)
    np.testing.assert_allclose(model.decision_values(X), StackedExperts(experts).fit(X, y).decision_values(X))


def test_rows_on_which_an_expert_overflows_are_refused(own, experts):
    X, y = own
    model = MirrorAveraging([*experts, Line([1e90, 0, 0])]).fit(X, y)
    with pytest.raises(DataError, match=f"On these rows expert {len(experts)} gives"):
        model.predict(X * 1e20)


def test_no_expert_is_left(own):
    X, y = own
    with pytest.raises(DataError, match="No expert can be scored"):
        MirrorAveraging([Line([1e308] * 3), Line([np.nan] * 3)]).fit(X, y)


@pytest.mark.parametrize("combination", [*COMBINATIONS, OwnPlusConsensus])
def test_one_row_and_one_class_are_enough_when_experts_name_the_classes(combination, own, experts):
    X, _ = own
    for rows in (1, 3, 30):
        model = combination(experts).fit(X[:rows], np.ones(rows, dtype=int))
        assert np.all(np.isfinite(model.decision_function(X)))
        assert list(model.classes_) == [0, 1]


def test_one_class_and_nobody_to_name_the_other(own):
    X, _ = own
    with pytest.raises(DataError, match="one class only"):
        MirrorAveraging(CLASSIFIERS).fit(X, np.ones(60))


# The door


@pytest.mark.parametrize("combination", [*COMBINATIONS, OwnPlusConsensus])
def test_nothing_learned_on_own_data_can_be_released(combination, own, experts):
    X, y = own
    model = combination(experts).fit(X, y)
    learned = [value for name, value in vars(model).items() if name.endswith("_") and name != "guarantee_"]
    assert learned
    for private in (model, *learned):
        with pytest.raises(NotReleasable):
            Release.of(private)


def test_a_name_on_the_list_does_not_help(own, experts):
    impostor = type("PrivateMean", (MirrorAveraging,), {})(experts).fit(*own)
    with pytest.raises(NotReleasable):
        Release.of(impostor)


def test_each_sender_keeps_its_own_guarantee(own):
    X, y = own
    first, second = Guarantee(1.0, 0.0), Guarantee(0.5, 1e-6)
    senders = [Line([1, 0, 0], guarantee=first), Line([0, 1, 0], guarantee=second), Line([0, 0, 1])]
    for combination in (*COMBINATIONS, OwnPlusConsensus):
        promised = combination(senders).fit(X, y).guarantee_
        assert promised[:2] == (first, second)
        assert promised[2].notion == "none"


@pytest.fixture
def released(tmp_path, own):
    """Models of three members, sent as files: a table of two columns with public bounds, and both classes declared."""
    schema = Schema({"age": Number(0, 100), "dose": Number(0, 10), "ill": Label((0, 1))})
    generator = np.random.default_rng(6)
    loaded = []
    for member in range(3):
        table = pd.DataFrame({"age": generator.uniform(0, 100, 200), "dose": generator.uniform(0, 10, 200)})
        table["ill"] = (table["age"] > 50).astype(int)
        account = Ledger(tmp_path / f"{member}.db").account("patients", epsilon=5.0)
        model = PrivateLogisticRegression(5.0, schema=schema, method="mean", account=account).fit(table)
        key = Ed25519PrivateKey.generate()
        Release.of(model).save(tmp_path / f"{member}.sudare", key=key)
        loaded.append(Release.load(tmp_path / f"{member}.sudare", trusted=[key.public_key()]))
    return loaded, table


@pytest.mark.parametrize("combination", [*COMBINATIONS, OwnPlusConsensus])
def test_releases_are_experts(combination, released):
    releases, table = released
    model = combination(releases).fit(table, table["ill"])
    assert model.guarantee_ == tuple(release.guarantee for release in releases)
    assert model.score(table, table["ill"]) > 0.8
    assert list(model.classes_) == [0, 1]


def test_experts_of_different_schemas_are_not_combined(released, tmp_path):
    releases, table = released
    other = Schema({"age": Number(0, 120), "dose": Number(0, 10), "ill": Label((0, 1))})
    stranger = PrivateLogisticRegression(5.0, schema=other, method="mean").fit(table)
    with pytest.raises(InvalidParameter, match="other schemas than expert 0 has: 3"):
        AverageExperts([*releases, stranger]).fit(table, table["ill"])


def test_private_models_of_arrays_answer_in_one_product(own):
    X, y = own
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    senders = [PrivateLogisticRegression(1.0, classes=[0, 1], random_state=seed).fit(rows, y) for seed in range(3)]
    one = MirrorAveraging(senders).fit(rows, y)
    assert one.expert_set_.stacked is not None
    scores = np.stack([sender.decision_function(rows) for sender in senders], axis=1)
    np.testing.assert_allclose(one.decision_function(rows), scores @ one.weights_, atol=1e-12)


def test_a_release_is_asked_for_its_model(tmp_path, own):
    """A released mean is no expert: the panel looks inside the release and says so."""
    account = Ledger(tmp_path / "ledger.db").account("a", epsilon=1.0)
    mean = PrivateMean(0.5, bounds=(-5, 5), account=account).fit(own[0])
    key = Ed25519PrivateKey.generate()
    Release.of(mean).save(tmp_path / "mean.sudare", key=key)
    loaded = Release.load(tmp_path / "mean.sudare", trusted=[key.public_key()])
    with pytest.raises(InvalidParameter, match="neither"):
        AverageExperts([loaded]).fit(*own)


def test_experts_of_different_kinds_and_one_schema_are_combined(released):
    releases, table = released
    schema = Schema({"age": Number(0, 100), "dose": Number(0, 10), "ill": Label((0, 1))})
    additive = PrivateAdditiveClassifier(5.0, schema=schema, random_state=0).fit(table)
    model = MirrorAveraging([*releases, additive], combine="probabilities").fit(table, table["ill"])
    assert len(model.weights_) == 4
    asked = [each.model() for each in releases] + [additive]
    mixed = np.stack([each.predict_proba(table)[:, 1] for each in asked], axis=1) @ model.weights_
    np.testing.assert_allclose(model.predict_proba(table)[:, 1], mixed, atol=1e-9)
    with pytest.raises(InvalidParameter, match=r"no coefficients|different encodings"):
        OwnPlusConsensus([*releases, additive]).fit(table, table["ill"])
