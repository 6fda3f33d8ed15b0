"""The combination that may be released: conventions, what it computes, what it refuses, and the way through a file."""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.errors import DataError, InvalidParameter, NotCharged, ReleaseMalformed
from sudare.experts import ExponentialWeights, PrivateExponentialWeights
from sudare.experts.expert_set import ExpertSet
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.privacy import Ledger, Release
from sudare.privacy.discrete_exponential_mechanism import GibbsDraws
from sudare.report import card_text
from sudare.schema import Label, Number, Person, Schema
from tests.experts.members import ColumnScore, ColumnValue
from tests.experts.test_several_classes import ClassColumns
from tests.release_kit import KEY, TRUSTED


class AnyClasses(PrivateExponentialWeights):
    """Experts of the classes that the labels have: scikit-learn's checks bring tables of many kinds."""

    def fit(self, X: Any, y: Any = None) -> Any:
        given, labels = self.experts, np.asarray(y)
        if y is not None and labels.ndim == 1 and labels.dtype.kind not in "fc" and len(np.unique(labels)) > 1:
            self.experts = [ClassColumns(np.unique(labels), shift) for shift in (0, 1)]
        elif y is not None and len(np.unique(labels.ravel())) == 1:
            self.experts = [ColumnScore()]
        try:
            return super().fit(X, y)
        finally:
            self.experts = given


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [
        PrivateExponentialWeights((ColumnScore(0), ColumnScore(1))),
        PrivateExponentialWeights((ColumnValue(0), ColumnValue(1))),
        AnyClasses((ClassColumns(), ClassColumns(shift=1))),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def task(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X + 0.3 * generator.normal(size=(rows, 3))).argmax(axis=1)


def saved(model: Any, path: Path) -> Release:
    Release.of(model).save(path, key=KEY)
    return Release.load(path, TRUSTED)


@pytest.fixture(scope="module")
def releases(tmp_path_factory) -> list[Release]:
    """Four members' models of three classes; the last one has learned from shifted labels."""
    folder = tmp_path_factory.mktemp("members")
    account, found = Ledger(folder / "ledger.db").account("others", epsilon=1000.0), []
    for place in range(4):
        X, y = task(300, place)
        model = PrivateLogisticRegression(20.0, classes=[0, 1, 2], account=account)
        found.append(saved(model.fit(X, (y + 1) % 3 if place == 3 else y), folder / f"{place}.sudare"))
    return found


@pytest.fixture
def account(tmp_path) -> Any:
    return Ledger(tmp_path / "own.db").account("own", epsilon=100.0)


def charges(account: Any) -> list[Any]:
    return [entry for entry in account.entries() if entry.kind == "charge"]


def asked_losses(model: PrivateExponentialWeights, X: Any, y: Any) -> list[Fraction]:
    """What the draws of a fit see."""
    seen: list[list[Fraction]] = []
    drawn = GibbsDraws.counts

    def noted(self: GibbsDraws, losses: Any, source: Any) -> Any:
        seen.append(list(losses))
        return drawn(self, losses, source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GibbsDraws, "counts", noted)
        model.fit(X, y)
    return seen[0]


def test_losses_are_half_brier_scores(releases):
    X, y = task(40, 50)
    chances = np.stack([release.model().predict_proba(X) for release in releases], axis=1)
    expected = ((chances - np.eye(3)[y][:, np.newaxis]) ** 2).sum(axis=(0, 2)) / 2
    found = asked_losses(PrivateExponentialWeights(releases), X, y)
    np.testing.assert_allclose([float(loss) for loss in found], expected, atol=40 * 2**-30)
    assert all((loss * 2**30).denominator == 1 for loss in found)


def test_losses_of_two_classes_are_squares():
    X, y = np.array([[0.0], [2.0], [-1.0]]), [1, 1, 0]
    found = asked_losses(PrivateExponentialWeights([ColumnScore()]), X, y)
    chance = 1 / (1 + np.exp(-X[:, 0]))
    assert float(found[0]) == pytest.approx(((chance - y) ** 2).sum(), abs=1e-8)


def test_losses_of_numbers_are_in_units_of_the_range():
    X, y = np.array([[0.0], [20.0], [-1.0]]), [1.0, 3.0, -50.0]
    model = PrivateExponentialWeights([ColumnValue(), ColumnValue(0, 4.0)], target_bounds=(0, 10))
    found = asked_losses(model, X, y)
    assert [float(loss) for loss in found] == pytest.approx([0.01 + 0.49, 0.09 + 0.49 + 0.09], abs=1e-8)
    assert is_regressor(model)
    assert not is_classifier(model)
    assert model.predict([[100.0]])[0] == 10


def test_many_draws_with_a_large_budget_are_the_exact_combination(releases):
    """With ε = 2·draws the temperature is one: the counts are those of the exact Gibbs weights of half the Brier score."""
    X, y = task(40, 51)
    model = PrivateExponentialWeights(releases, 8000.0, draws=4000, random_state=0).fit(X, y)
    assert model.temperature_ == 1
    exact = ExponentialWeights(releases, temperature=2.0, combine="probabilities").fit(X, y)
    np.testing.assert_allclose(model.weights_, exact.weights_, atol=0.04)
    np.testing.assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=0.04)


def test_a_combination_passes_the_door_and_comes_back(releases, account, tmp_path):
    X, y = task(200, 52)
    model = PrivateExponentialWeights(releases, 2.0, account=account)
    assert model.price(X, y).asked.epsilon == 2
    model.fit(X, y)
    assert account.remaining().epsilon == 98
    assert model.counts_.sum() == 4
    assert model.guarantee_.valid
    received = saved(model, tmp_path / "combined.sudare")
    assert received.guarantee.epsilon == 2
    assert set(received.content.tensors) == {"counts"}
    assert "4 draws among 4 released models" in card_text(received.card())
    loaded = received.model()
    assert loaded.expert_digests_ == tuple(release.digest for release in releases)
    assert loaded.oracle_residual_ == pytest.approx(4 * np.log(4) / 200 + 1 / 32)
    with pytest.raises(InvalidParameter, match="does not hold them"):
        loaded.predict(X)
    drawn = [release for release, count in zip(releases, model.counts_, strict=True) if count]
    for given in (releases[::-1], drawn):
        np.testing.assert_array_equal(loaded.with_experts(given).predict_proba(X), model.predict_proba(X))
    with pytest.raises(InvalidParameter, match="1 of the"):
        loaded.with_experts(drawn[1:])
    assert loaded.with_experts(releases).score(X, y) > 0.6


def test_numbers_pass_the_door(account, tmp_path):
    X, _ = task(100, 53)
    experts = [
        saved(PrivateRidge(20.0, target_bounds=(-1, 1), account=account).fit(X, X[:, place]), tmp_path / f"{place}")
        for place in range(2)
    ]
    model = PrivateExponentialWeights(experts, 5.0, draws=1, account=account).fit(X, X[:, 0])
    assert model.target_bounds_ == (-1.0, 1.0)
    loaded = saved(model, tmp_path / "combined.sudare").model().with_experts(experts)
    assert is_regressor(loaded)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert np.abs(loaded.predict(X)).max() <= 1


def test_tables_with_persons(account, tmp_path):
    columns = {"age": Number(0, 100), "dose": Number(0, 10), "ill": Label(("no", "yes"))}
    schema = Schema(columns, Person("who", 2))
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"age": generator.uniform(0, 100, 60), "dose": generator.uniform(0, 10, 60)})
    table["ill"], table["who"] = np.where(table["age"] > 50, "yes", "no"), np.arange(60) // 2
    experts = [
        saved(PrivateLogisticRegression(20.0, schema=schema, account=account).fit(table), tmp_path / str(place))
        for place in range(2)
    ]
    model = PrivateExponentialWeights(experts, 1.0, schema=schema, account=account).fit(table)
    assert model.guarantee_.unit == "person"
    assert model.temperature_ == 2 * 4 * 2
    loaded = saved(model, tmp_path / "combined.sudare").model().with_experts(experts)
    assert list(loaded.predict(table)) == list(model.predict(table))
    assert loaded.score(table, table["ill"]) > 0.7
    before = account.remaining()
    with pytest.raises(InvalidParameter, match="another schema"):
        PrivateExponentialWeights(experts, account=account).fit(table)
    with pytest.raises(DataError, match="no column names"):
        PrivateExponentialWeights(experts, schema=schema, account=account).fit(np.zeros((3, 2)), ["no"] * 3)
    assert account.remaining() == before
    cut = PrivateExponentialWeights(experts, schema=schema).fit(table.assign(who=1))
    assert cut.cut_rows_ == len(table) - 2


def test_experts_that_are_not_public_are_never_paid_for(releases, account):
    X, y = task(60, 54)
    mine = LogisticRegression().fit(X, y)
    with pytest.raises(InvalidParameter, match="not a release that was loaded"):
        PrivateExponentialWeights([*releases, mine], account=account).fit(X, y)
    unsaved = replace(releases[0], digest=None)
    renamed = replace(releases[0], digest="0" * 64)
    derived = object.__new__(type("Derived", (Release,), {}))
    for name, value in vars(releases[0]).items():
        object.__setattr__(derived, name, value)
    for forged in (unsaved, renamed, derived):
        with pytest.raises(InvalidParameter, match="not a release that was loaded"):
            PrivateExponentialWeights([forged], account=account).price(X, y)
    assert charges(account) == []
    # The content of a loaded release can be changed; what was changed is no longer public.
    moved = copy.deepcopy(releases[0])
    moved.content.tensors["parameters"] = -moved.content.tensors["parameters"]
    with pytest.raises(InvalidParameter, match="not changed since"):
        PrivateExponentialWeights([releases[1], moved], account=account).fit(X, y)
    assert charges(account) == []
    looked_at = PrivateExponentialWeights([*releases, mine]).fit(X, y)
    with pytest.raises(NotCharged):
        Release.of(looked_at)


@pytest.mark.parametrize(
    ("parameters", "rows", "labels", "error", "says"),
    [
        ({"draws": 0}, 5, [0, 1, 2, 0, 1], InvalidParameter, "draws"),
        ({"draws": 2.5}, 5, [0, 1, 2, 0, 1], InvalidParameter, "draws"),
        ({"epsilon": 0.0}, 5, [0, 1, 2, 0, 1], Exception, "psilon"),
        ({"experts": ()}, 5, [0, 1, 2, 0, 1], InvalidParameter, "no experts"),
        ({}, 5, [0, 1, 2, 0, 7], DataError, "not among the declared classes"),
        ({}, 5, [0, 1], DataError, "inconsistent numbers"),
        ({}, 5, None, DataError, "y is missing"),
        ({}, 0, [], DataError, "0 sample"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_a_charge(parameters, rows, labels, error, says, releases, account):
    model = PrivateExponentialWeights(**{"experts": releases, "account": account, **parameters})
    with pytest.raises(error, match=says):
        model.fit(np.zeros((rows, 3)), labels)
    with pytest.raises(DataError, match="features"):
        PrivateExponentialWeights(releases, account=account).fit(np.zeros((2, 4)), [0, 1])
    assert charges(account) == []


class Absurd(ColumnScore):
    """Not a number for negative rows."""

    def decision_function(self, X: Any) -> Any:
        scores = super().decision_function(X)
        return np.where(scores < 0, np.nan, scores)


def test_answers_that_are_no_numbers_know_nothing():
    X, y = np.array([[-1.0], [2.0]]), [0, 1]
    found = asked_losses(PrivateExponentialWeights([Absurd(), ColumnScore()]), X, y)
    assert float(found[0]) == pytest.approx(0.25 + (1 - 1 / (1 + np.exp(-2.0))) ** 2, abs=1e-8)
    model = PrivateExponentialWeights([Absurd()], draws=2).fit(X, y)
    np.testing.assert_allclose(model.predict_proba([[-3.0]]), 0.5)


def test_a_clone_and_a_copy_keep_the_experts(releases):
    model = PrivateExponentialWeights(releases, draws=2)
    assert clone(model).experts is model.experts
    assert not hasattr(copy.deepcopy(model), "counts_")
    assert clone(model).get_params() == model.get_params()


def content_of(releases: list[Release], account: Any) -> Any:
    return PrivateExponentialWeights(releases, account=account).fit(*task(40, 55)).release_content()


@pytest.mark.parametrize(
    ("parameters", "counts"),
    [
        ({"draws": 5}, None),
        ({"draws": 4.0}, None),
        ({"draws": 0}, None),
        ({"experts": ["a" * 64] * 3}, None),
        ({"experts": ["A" * 64] * 4}, None),
        ({"experts": [None] * 4}, None),
        ({"experts": []}, None),
        ({"target": [0]}, None),
        ({"target": [0, 1, "2"]}, None),
        ({"target": {"low": 0.0, "high": 0.0}}, None),
        ({"target": {"low": 0, "high": 1}}, None),
        ({"target": None}, None),
        ({"delta": 1e-6}, None),
        ({"epsilon": 1e-300}, None),
        ({"epsilon": 1e300}, None),
        ({}, [5, -1, 0, 0]),
        ({}, [1, 1, 1, 0]),
        ({}, [1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_files_that_lie(parameters, counts, releases, account):
    good = content_of(releases, account)
    assert PrivateExponentialWeights.check_content(good, None).epsilon == 1
    tensors = good.tensors if counts is None else {"counts": np.array(counts)}
    bad = replace(good, parameters={**good.parameters, **parameters}, tensors=tensors)
    with pytest.raises(ReleaseMalformed):
        PrivateExponentialWeights.check_content(bad, None)


def test_experts_are_asked_before_the_charge_and_never_after(releases, account, monkeypatch):
    X, y = task(30, 56)
    asked = ExpertSet.raw_blocks

    def counted(self: ExpertSet, *arguments: Any) -> Any:
        assert charges(account) == []
        return asked(self, *arguments)

    monkeypatch.setattr(ExpertSet, "raw_blocks", counted)
    assert PrivateExponentialWeights(releases, account=account).fit(X, y).guarantee_.valid
