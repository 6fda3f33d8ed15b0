"""Private linear models as people meet them: arrays and tables, classes and targets, doors and releases, bad input."""

from __future__ import annotations

import math
import pickle
import secrets

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from sudare.errors import (
    BudgetExceeded,
    DataError,
    InvalidParameter,
    NotCharged,
    ReleaseMalformed,
    SchemaError,
    SeededNoiseRefused,
    SudareError,
)
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.linear.objective_perturbation import ObjectivePerturbation
from sudare.linear.solvers import Minimum
from sudare.privacy import Ledger, Release
from sudare.privacy.noise import SystemNoise
from sudare.privacy.release_content import Content
from sudare.schema import Category, Label, Number, Person, Schema

CLASSIFIERS = [PrivateLogisticRegression, PrivateLinearSVC]
SCHEMA = Schema(
    {
        "age": Number(0, 100),
        "smoker": Category(("no", "yes")),
        "ill": Label(("no", "yes")),
    }
)
NUMBER_SCHEMA = Schema({"age": Number(0, 100), "dose": Number(0, 10), "weight": Number(0, 200)}, target="weight")


def _separable(rows=400, width=3, classes=2, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, width))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    centres = random.normal(size=(classes, width))
    return X, np.argmax(X @ centres.T, axis=1)


def _patients(rows=300, seed=0):
    random = np.random.default_rng(seed)
    age = random.uniform(0, 100, rows)
    smoker = random.random(rows) < 0.4
    ill = age + 40 * smoker + 10 * random.normal(size=rows) > 70
    return pd.DataFrame({"age": age, "smoker": np.where(smoker, "yes", "no"), "ill": np.where(ill, "yes", "no")})


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=100.0, delta=1e-3)


# Fitting


@pytest.mark.parametrize("model", CLASSIFIERS)
@pytest.mark.parametrize(
    ("method", "delta"),
    [
        ("objective", 0.0),
        ("objective", 1e-6),
        ("output", 0.0),
        ("output", 1e-6),
        ("mean", 0.0),
        ("mean", 1e-6),
        ("descent", 1e-6),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_method_learns(model, method, delta, classes):
    X, y = _separable(2000, classes=classes)
    fitted = model(epsilon=20.0, delta=delta, method=method, classes=range(classes), random_state=0).fit(X, y)
    assert fitted.method_ == method
    assert fitted.score(X, y) > (0.9 if classes == 2 else 0.75)
    assert fitted.coef_.shape == (1 if classes == 2 else 3, 3)
    assert fitted.guarantee_.epsilon == 20.0
    assert fitted.guarantee_.delta == delta


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("encoding", ["centred", "binned"])
def test_sufficient_statistics_learn_classes(delta, encoding):
    frame = _patients(3000)
    options = {"schema": SCHEMA, "encoding": encoding, "method": "statistics", "random_state": 0}
    fitted = PrivateLogisticRegression(4.0, delta, **options).fit(frame)
    reference = PrivateLogisticRegression(4.0, 1e-6, schema=SCHEMA, encoding=encoding, random_state=0).fit(frame)
    assert fitted.score(frame) > reference.score(frame) - 0.02
    assert fitted.predict_proba(frame)[:, 1].mean() == pytest.approx((frame["ill"] == "yes").mean(), abs=0.03)
    with pytest.raises(InvalidParameter, match="no column for a level"):
        PrivateLogisticRegression(1.0, classes=[0, 1], method="statistics", fit_intercept=False).fit(
            np.eye(4), [0, 1, 0, 1]
        )


@pytest.mark.parametrize(
    ("method", "delta"), [("objective", 0.0), ("objective", 1e-6), ("output", 0.0), ("mean", 0.0), ("descent", 1e-6)]
)
def test_ridge_learns_in_the_unit_of_the_target(method, delta):
    random = np.random.default_rng(0)
    X = random.uniform(-0.5, 0.5, size=(3000, 2))
    y = 100 + 60 * X[:, 0] - 30 * X[:, 1] + random.normal(size=3000)
    fitted = PrivateRidge(20.0, delta, target_bounds=(50, 150), method=method, random_state=0).fit(X, y)
    # The mean message takes all directions to be alike, so it only finds the direction and the rough size.
    assert fitted.score(X, y) > (0.3 if method == "mean" else 0.5)
    assert fitted.coef_.shape == (2,)
    np.testing.assert_allclose(fitted.predict(X), np.clip(X @ fitted.coef_ + fitted.intercept_, 50, 150))


@pytest.mark.parametrize("model", [*CLASSIFIERS, PrivateRidge])
def test_parameters_lie_on_a_public_grid(model):
    X, y = _separable()
    options = {"target_bounds": (0, 1)} if model is PrivateRidge else {"classes": [0, 1]}
    fitted = model(random_state=0, **options).fit(X, y)
    steps = fitted.parameters_ / fitted.grid_
    np.testing.assert_array_equal(steps, np.rint(steps))


def test_probabilities_and_scores_agree():
    X, y = _separable(classes=3)
    fitted = PrivateLogisticRegression(5.0, classes=[0, 1, 2], random_state=0).fit(X, y)
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(np.argmax(probabilities, axis=1), fitted.predict(X))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), probabilities)
    two = PrivateLogisticRegression(5.0, classes=[0, 1], random_state=0).fit(X, y > 0)
    np.testing.assert_array_equal(two.predict_proba(X)[:, 1] > 0.5, two.decision_function(X) > 0)
    np.testing.assert_allclose(two.decision_function(X), X @ two.coef_[0] + two.intercept_[0])


def test_undeclared_classes_void_the_guarantee():
    X, y = _separable()
    assert not PrivateLogisticRegression().fit(X, y).guarantee_.valid
    assert PrivateLogisticRegression(classes=[0, 1]).fit(X, y).guarantee_.valid
    assert not PrivateLogisticRegression(classes=[0, 1], random_state=0).fit(X, y).guarantee_.valid
    assert not PrivateRidge().fit(X, y).guarantee_.valid
    assert PrivateRidge(target_bounds=(0, 1)).fit(X, y).guarantee_.valid


def test_one_class_in_the_data_is_no_problem_when_classes_are_declared():
    X, _ = _separable(60)
    fitted = PrivateLogisticRegression(classes=["no", "yes"], random_state=0).fit(X, ["yes"] * 60)
    assert list(fitted.classes_) == ["no", "yes"]
    with pytest.raises(InvalidParameter, match="one class"):
        PrivateLogisticRegression().fit(X, ["yes"] * 60)


def test_classes_keep_their_declared_order():
    X, y = _separable(500)
    fitted = PrivateLogisticRegression(20.0, classes=[1, 0], random_state=0).fit(X, y)
    assert list(fitted.classes_) == [1, 0]
    assert fitted.score(X, y) > 0.9


def test_the_auto_rule_looks_at_public_facts_only():
    X, y = _separable(400)
    options = {"classes": [0, 1], "random_state": 0}
    assert PrivateLogisticRegression(1.0, **options).fit(X, y).method_ == "mean"
    assert PrivateLogisticRegression(1.2 * 4, **options).fit(X, y).method_ == "objective"
    assert PrivateLogisticRegression(1.0, 1e-6, **options).fit(X, y).method_ == "descent"
    # Without a constant column nothing centres the targets, and the mean message is for less.
    options["fit_intercept"] = False
    assert PrivateLogisticRegression(0.08, **options).fit(X, y).method_ == "mean"
    assert PrivateLogisticRegression(0.1, **options).fit(X, y).method_ == "objective"
    # One-hot rows.
    table, options = _patients(400), {"schema": SCHEMA, "encoding": "binned", "random_state": 0}
    for delta, expected in (
        (0.0, ["mean", "mean", "statistics", "objective"]),
        (1e-6, ["statistics", "descent", "statistics", "descent"]),
    ):
        sizes = ((0.1, 400), (0.1, 2000), (2.0, 400), (8.0, 20_000))
        fits = [PrivateLogisticRegression(epsilon, delta, **options).fit(_patients(rows)) for epsilon, rows in sizes]
        assert [fit.method_ for fit in fits] == expected
    # Steps that see some of the rows are descent's, and support vectors have no level to centre by.
    sampled = PrivateLogisticRegression(2.0, 1e-6, sampling_rate=0.5, **options).fit(table)
    assert (sampled.method_, PrivateLinearSVC(2.0, 1e-6, **options).fit(table).method_) == ("descent", "descent")


def _rare(classes: int, rows: int = 4000) -> tuple[pd.DataFrame, Schema]:
    """A table whose last class has two of a hundred records, and differs from the others."""
    random = np.random.default_rng(0)
    shares = np.append(np.full(classes - 1, 0.98 / (classes - 1)), 0.02)
    code = random.choice(classes, rows, p=shares)
    means = np.zeros((classes, 3))
    means[-1] = 1.0
    columns = {f"x{place}": Number(-4, 4) for place in range(3)}
    values = np.clip(means[code] + random.normal(size=(rows, 3)), -4, 4)
    frame = pd.DataFrame(values, columns=list(columns)).assign(y=code)
    return frame, Schema({**columns, "y": Label(tuple(range(classes)))})


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_balanced_decision_finds_records_of_a_rare_class(classes, delta):
    table, schema = _rare(classes)
    options = {"schema": schema, "encoding": "binned", "method": "statistics", "random_state": 0}
    likeliest = PrivateLogisticRegression(3.0, delta, **options).fit(table)
    balanced = PrivateLogisticRegression(3.0, delta, decision="balanced", **options).fit(table)
    assert np.array_equal(likeliest.predict_proba(table), balanced.predict_proba(table))
    assert balanced.base_rates_ == pytest.approx([0.98 / (classes - 1)] * (classes - 1) + [0.02], abs=0.02)
    is_rare = table["y"] == classes - 1
    found = [np.mean(model.predict(table)[is_rare] == classes - 1) for model in (likeliest, balanced)]
    assert found[0] < 0.2
    assert found[1] > 0.5
    ratios = balanced.predict_proba(table) / balanced.base_rates_
    assert np.array_equal(balanced.predict(table), np.argmax(ratios, axis=1))
    scores = balanced.decision_function(table)
    decided = scores > 0 if classes == 2 else scores.argmax(axis=1)
    assert np.array_equal(decided, balanced.predict(table))


def test_base_rates_are_paid_for_where_they_are_asked_for():
    X, y = _separable(400)
    options = {"classes": [0, 1], "method": "objective", "random_state": 0}
    assert PrivateLogisticRegression(5.0, **options).fit(X, y).base_rates_ is None
    rates = PrivateLogisticRegression(5.0, decision="balanced", **options).fit(X, y).base_rates_
    assert rates.sum() == pytest.approx(1.0)
    assert rates[1] == pytest.approx(np.mean(y), abs=0.1)
    with pytest.raises(InvalidParameter, match="no column for a level"):
        PrivateLogisticRegression(decision="balanced", fit_intercept=False, **options).fit(X, y)
    with pytest.raises(InvalidParameter, match="likeliest"):
        PrivateLogisticRegression(decision="rare", **options).fit(X, y)
    without = PrivateLogisticRegression(5.0, **options).fit(X, y).set_params(decision="balanced")
    with pytest.raises(InvalidParameter, match="fitted without them"):
        without.predict(X)


def test_releases_have_decision_and_base_rates_and_older_ones_come_back(tmp_path, account):
    table, schema = _rare(3, 500)
    fitted = PrivateLogisticRegression(3.0, decision="balanced", schema=schema, account=account).fit(table)
    key = Ed25519PrivateKey.generate()
    Release.of(fitted).save(tmp_path / "model.sudare", key)
    loaded = Release.load(tmp_path / "model.sudare", [key.public_key()]).model()
    assert np.array_equal(loaded.base_rates_, fitted.base_rates_)
    assert np.array_equal(loaded.predict(table), fitted.predict(table))
    # A decision that there was before it could be chosen is not named: members of earlier builds release the same.
    likeliest = PrivateLogisticRegression(3.0, schema=schema, account=account).fit(table)
    assert "decision" not in likeliest.release_content().parameters
    content, digest = fitted.release_content(), schema.digest
    parameters = {name: value for name, value in content.parameters.items() if name != "decision"}
    tensors, grids = ({"parameters": each["parameters"]} for each in (content.tensors, content.grids))
    older = Content(parameters, tensors, grids)
    PrivateLogisticRegression.check_content(older, digest)
    model = PrivateLogisticRegression.from_release(older, digest)
    assert (model.decision, model.base_rates_) == ("likeliest", None)
    assert np.array_equal(model.parameters_, fitted.parameters_)
    for wrong in (
        Content({**parameters, "decision": "balanced"}, tensors, grids),
        Content({**parameters, "decision": "rare"}, content.tensors, content.grids),
        Content(content.parameters, {**content.tensors, "base_rates": np.array([0.0, 0.5, 0.5])}, content.grids),
        Content(content.parameters, {**content.tensors, "base_rates": np.array([0.5, 0.5])}, content.grids),
    ):
        with pytest.raises(ReleaseMalformed):
            PrivateLogisticRegression.check_content(wrong, digest)


def test_ridge_cuts_numbers_into_bins_where_noise_leaves_more_than_a_line():
    """Two columns of ten bins each: from n·ε = 1,000 on."""
    for rows, epsilon, expected in ((400, 2.4, "centred"), (400, 2.6, "binned"), (2000, 0.4, "centred")):
        random = np.random.default_rng(0)
        table = pd.DataFrame({name: random.uniform(0, 10, rows) for name in ("age", "dose", "weight")})
        model = PrivateRidge(epsilon, schema=NUMBER_SCHEMA, encoding="auto", random_state=0).fit(table)
        assert model.encoding_ == expected


def test_regularization_is_chosen_privately(account):
    X, y = _separable(600)
    lean = PrivateLogisticRegression(
        8.0, regularization=[1e-4, 0.1, 1e3], classes=[0, 1], method="objective", account=account
    )
    fitted = lean.fit(X, y)
    assert fitted.regularization_ in (1e-4, 0.1, 1e3)
    assert fitted.guarantee_.epsilon == 8.0
    assert account.spent().epsilon == 8.0
    assert len([entry for entry in account.entries() if entry.kind == "charge"]) == 1
    assert Release.of(fitted).guarantee == fitted.guarantee_
    assert fitted.predict(X).shape == (600,)
    with pytest.raises(InvalidParameter, match="pure"):
        clone(lean).set_params(delta=1e-6).fit(X, y)


# Sampled descent


def test_sampled_descent_learns_and_promises_the_same():
    X, y = _separable(3000)
    options = {"classes": [0, 1], "random_state": 0, "fit_intercept": False}
    full = PrivateLogisticRegression(2.0, 1e-6, **options).fit(X, y)
    sampled = PrivateLogisticRegression(2.0, 1e-6, sampling_rate=0.2, **options).fit(X, y)
    assert sampled.method_ == "descent"
    assert sampled.score(X, y) > 0.9
    assert sampled.guarantee_ == full.guarantee_
    assert not np.array_equal(sampled.coef_, full.coef_)
    recipe = sampled.plan(3000, sampled.declared_).mechanism.recipe
    assert recipe.sampling_rate == 0.2
    # Sampling hides so much that a step needs about a fifth of the noise: next to the expected sum it is the same.
    assert sampled.noise_scale_ == pytest.approx(full.noise_scale_, rel=0.1)


@pytest.mark.parametrize("model", [*CLASSIFIERS, PrivateRidge])
def test_a_sampling_rate_of_one_is_full_batches(model):
    X, y = _separable(300)
    options = {"target_bounds": (0, 1)} if model is PrivateRidge else {"classes": [0, 1]}
    options |= {"method": "descent", "random_state": 0}
    fits = [model(1.0, 1e-6, sampling_rate=rate, **options).fit(X, y) for rate in (None, 1, 1.0)]
    np.testing.assert_array_equal(fits[0].parameters_, fits[1].parameters_)
    np.testing.assert_array_equal(fits[0].parameters_, fits[2].parameters_)


def test_sampled_descent_charges_its_promise_and_samples_from_the_system(account, monkeypatch):
    """Every step draws one word a row from the source behind the door, after the charge was entered."""
    X, y = _separable(200)
    lean = PrivateLogisticRegression(1.0, 1e-4, classes=[0, 1], sampling_rate=0.5, account=account)
    drawn = []

    def words(self, count):
        assert account.spent().epsilon == 1.0
        drawn.append(count)
        return np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)

    monkeypatch.setattr(SystemNoise, "words", words)
    quote = lean.price(X, y)
    fitted = lean.fit(X, y)
    recipe = fitted.plan(200, fitted.declared_).mechanism.learning.recipe
    assert drawn == [200] * recipe.steps
    assert (quote.asked.epsilon, quote.asked.delta) == (1.0, 1e-4)
    assert (account.spent().epsilon, account.spent().delta) == (1.0, 1e-4)
    assert fitted.guarantee_.valid
    assert Release.of(fitted).guarantee == fitted.guarantee_
    with pytest.raises(SeededNoiseRefused):
        clone(lean).set_params(random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"method": "objective"}, "sampling_rate is for"),
        ({"method": "auto", "delta": 0.0}, "sampling_rate is for"),
        ({"method": "mean"}, "sampling_rate is for"),
        ({"sampling_rate": 0.0}, "sampling_rate must be a number"),
        ({"sampling_rate": 1.5}, "sampling_rate must be a number"),
        ({"sampling_rate": float("nan")}, "sampling_rate must be a number"),
        ({"sampling_rate": True}, "sampling_rate must be a number"),
        ({"sampling_rate": "half"}, "sampling_rate must be a number"),
        ({"delta": 1e-14}, "delta is too small"),
    ],
)
def test_sampling_that_cannot_be_is_refused_before_anything_is_charged(account, parameters, words):
    X, y = _separable(100)
    lean = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], sampling_rate=0.25, account=account)
    with pytest.raises(InvalidParameter, match=words):
        lean.set_params(**parameters).fit(X, y)
    assert account.spent().epsilon == 0


def test_sampled_descent_protects_records_not_persons():
    table = _patients(200)
    table["who"] = np.arange(200) // 2
    persons = Schema(dict(SCHEMA.columns), Person("who", 2))
    with pytest.raises(InvalidParameter, match="persons"):
        PrivateLogisticRegression(1.0, 1e-5, schema=persons, sampling_rate=0.25, random_state=0).fit(table)


# Tables and sources


def test_a_table_with_a_label():
    table = _patients()
    fitted = PrivateLogisticRegression(10.0, schema=SCHEMA, random_state=0).fit(table)
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.score(table) > 0.8
    assert fitted.score(table) == fitted.score(table, table["ill"])
    assert list(fitted.feature_names_in_) == ["age", "smoker"]


def test_ridge_never_answers_outside_the_declared_bounds():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"age": random.uniform(0, 100, 60), "dose": random.uniform(0, 10, 60)})
    table["weight"] = 60 + 0.3 * table["age"] + 2 * table["dose"]
    bounds = NUMBER_SCHEMA.columns["weight"]
    lean = PrivateRidge(0.02, schema=NUMBER_SCHEMA, method="mean", fit_intercept=False, random_state=0)
    fitted = lean.fit(table)
    assert np.abs(fitted.coef_).max() > bounds.high - bounds.low
    assert bounds.low <= fitted.predict(table).min() <= fitted.predict(table).max() <= bounds.high


def test_a_table_with_a_number_as_target():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"age": random.uniform(0, 100, 800), "dose": random.uniform(0, 10, 800)})
    table["weight"] = 60 + 0.3 * table["age"] + 2 * table["dose"]
    fitted = PrivateRidge(20.0, 1e-6, schema=NUMBER_SCHEMA, random_state=0).fit(table)
    assert fitted.score(table) > 0.95
    assert fitted.target_bounds_ == (0.0, 200.0)


@pytest.mark.parametrize(("method", "delta"), [("objective", 0.0), ("output", 1e-6), ("mean", 0.0), ("descent", 1e-6)])
@pytest.mark.parametrize("encoding", ["centred", "binned"])
def test_files_and_batches_give_the_same_model_as_memory(tmp_path, method, delta, encoding):
    table = _patients(2500)
    path = tmp_path / "patients.parquet"
    table.to_parquet(path, row_group_size=700)
    lean = PrivateLogisticRegression(1.0, delta, schema=SCHEMA, encoding=encoding, method=method, random_state=3)
    from_memory = clone(lean).fit(table)
    from_file = clone(lean).fit(path)
    from_batches = clone(lean).fit(table.iloc[start : start + 333] for start in range(0, 2500, 333))
    np.testing.assert_array_equal(from_memory.parameters_, from_file.parameters_)
    np.testing.assert_array_equal(from_memory.parameters_, from_batches.parameters_)


def test_iterators_of_array_pairs():
    X, y = _separable(500)
    lean = PrivateLogisticRegression(classes=[0, 1], random_state=0)
    pairs = ((X[start : start + 100], y[start : start + 100]) for start in range(0, 500, 100))
    np.testing.assert_array_equal(clone(lean).fit(X, y).coef_, clone(lean).fit(pairs).coef_)
    with pytest.raises(DataError, match="pairs"):
        clone(lean).fit(iter([X]))


def test_sources_need_a_schema_with_a_target(tmp_path):
    path = tmp_path / "patients.parquet"
    _patients(20).to_parquet(path)
    with pytest.raises(InvalidParameter, match="schema"):
        PrivateLogisticRegression().fit(path)
    with pytest.raises((SchemaError, DataError)):
        PrivateLogisticRegression(schema=Schema({"age": Number(0, 100)})).fit(path)
    with pytest.raises(InvalidParameter, match="y was given"):
        PrivateLogisticRegression(schema=SCHEMA).fit(path, [1])


def test_persons_with_several_rows_cost_more_noise():
    table = _patients(200)
    table["who"] = np.arange(200) // 2
    persons = Schema(dict(SCHEMA.columns), Person("who", 2))
    for method, delta in [("objective", 0.0), ("objective", 1e-6), ("output", 0.0), ("mean", 0.0)]:
        options = {"method": method, "delta": delta, "random_state": 0, "regularization": 0.1}
        record = PrivateLogisticRegression(schema=SCHEMA, **options).fit(table)
        person = PrivateLogisticRegression(schema=persons, **options).fit(table)
        assert person.guarantee_.unit == "person"
        assert person.noise_scale_ > 1.5 * record.noise_scale_
    # Descent goes half as far instead, so that the noise in the result stays what it was.
    lean = PrivateLogisticRegression(1.0, 1e-6, schema=persons, method="descent", random_state=0).fit(table)
    mechanism = lean.plan(200, lean.declared_).mechanism.learning
    assert mechanism._deviation == pytest.approx(
        2 * 2 * mechanism.recipe.clip * np.sqrt(mechanism.recipe.steps) / mechanism.cost.mu
    )


# The door


def test_charges_before_and_releases_after(tmp_path, account):
    X, y = _separable()
    fitted = PrivateLogisticRegression(1.0, classes=[0, 1], account=account).fit(X, y)
    assert account.spent().epsilon == 1.0
    key = Ed25519PrivateKey.generate()
    Release.of(fitted).save(tmp_path / "model.sudare", key)
    loaded = Release.load(tmp_path / "model.sudare", [key.public_key()]).model()
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.coef_, fitted.coef_)
    assert loaded.guarantee_ == fitted.guarantee_


@pytest.mark.parametrize("encoding", ["centred", "scaled", "binned"])
def test_releases_of_tables_come_back(tmp_path, account, encoding):
    table = _patients()
    fitted = PrivateLinearSVC(2.0, schema=SCHEMA, encoding=encoding, account=account).fit(table)
    key = Ed25519PrivateKey.generate()
    Release.of(fitted).save(tmp_path / "model.sudare", key)
    loaded = Release.load(tmp_path / "model.sudare", [key.public_key()]).model()
    np.testing.assert_array_equal(loaded.predict(table), fitted.predict(table))


def test_releases_of_regressions_come_back(tmp_path, account):
    X, y = _separable()
    fitted = PrivateRidge(2.0, target_bounds=(-1, 3), residual_cap=2.0, account=account).fit(X, y)
    key = Ed25519PrivateKey.generate()
    Release.of(fitted).save(tmp_path / "model.sudare", key)
    loaded = Release.load(tmp_path / "model.sudare", [key.public_key()]).model()
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.residual_cap == 2.0


def test_what_may_not_leave(account):
    X, y = _separable()
    with pytest.raises(NotCharged):
        Release.of(PrivateLogisticRegression(classes=[0, 1]).fit(X, y))
    with pytest.raises(InvalidParameter, match="classes was not given"):
        PrivateLogisticRegression(account=account).fit(X, y)
    assert account.spent().epsilon == 0
    with pytest.raises(SeededNoiseRefused):
        PrivateLogisticRegression(classes=[0, 1], account=account, random_state=0).fit(X, y)
    fitted = PrivateLogisticRegression(classes=[0, 1], account=account).fit(X, y)
    fitted.parameters_ = fitted.parameters_ + 1
    with pytest.raises(NotCharged, match="changed"):
        Release.of(fitted)
    with pytest.raises(BudgetExceeded):
        PrivateLogisticRegression(1000.0, classes=[0, 1], account=account).fit(X, y)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "magic"},
        {"encoding": "binned"},
        {"norm_bound": -1.0},
        {"norm_bound": 2},
        {"penalty": float("inf")},
        {"fit_intercept": 1},
        {"target": [0]},
        {"target": [0, 0]},
        {"target": [0, "one"]},
        {"target": "01"},
        {"target": None},
        {"extra": 1},
        {"rows": 0},
    ],
)
def test_malformed_releases_are_refused(account, change):
    X, y = _separable(50)
    content = PrivateLogisticRegression(classes=[0, 1], account=account).fit(X, y).release_content()
    PrivateLogisticRegression.check_content(content, None)
    wrong = Content({**content.parameters, **change}, content.tensors, content.grids)
    with pytest.raises(ReleaseMalformed):
        PrivateLogisticRegression.check_content(wrong, None)
    short = Content(content.parameters, {"parameters": content.tensors["parameters"][1:]}, content.grids)
    with pytest.raises(ReleaseMalformed):
        PrivateLogisticRegression.check_content(short, None)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_coefficients_beyond_all_numbers_are_refused(account, sign):
    """A forged parameter that is finite, and no longer in the target's unit."""
    X, y = _separable(50)
    content = PrivateRidge(2.0, target_bounds=(-100, 100), account=account).fit(X, y).release_content()
    PrivateRidge.check_content(content, None)
    for place in (0, -1):
        forged = content.tensors["parameters"].copy()
        forged[place] = sign * 2.0**1022
        wrong = Content(content.parameters, {**content.tensors, "parameters": forged}, content.grids)
        with pytest.raises(ReleaseMalformed, match="larger than any number"):
            PrivateRidge.check_content(wrong, None)


def test_price_takes_nothing(account):
    X, y = _separable()
    for lean in (
        PrivateLogisticRegression(classes=[0, 1]),
        PrivateLogisticRegression(classes=[0, 1], regularization=[1, 2]),
    ):
        quote = lean.set_params(account=account).price(X, y)
        assert quote.asked.epsilon == 1.0
    assert account.spent().epsilon == 0
    with pytest.raises(InvalidParameter, match="account"):
        PrivateLogisticRegression().price(X, y)


def test_cross_validation_counts_every_fit(account):
    X, y = _separable()
    cross_val_score(PrivateLogisticRegression(0.5, classes=[0, 1], account=account), X, y, cv=5)
    assert account.spent().epsilon == 2.5


def test_pickles_leave_out_what_is_for_the_owner():
    X, y = _separable()
    fitted = PrivateLogisticRegression(classes=[0, 1], norm_bound=0.5, random_state=0).fit(X, y)
    assert fitted.clipped_rows_ == 400
    assert not hasattr(pickle.loads(pickle.dumps(fitted)), "clipped_rows_")


@pytest.mark.parametrize("bound", [1.0, math.nan])
@pytest.mark.parametrize("method", ["objective", "output"])
def test_an_uncertified_minimum_is_neither_used_nor_told(method, bound, account, monkeypatch):
    """Where Newton's steps fail, accelerated ones end at the same place: no refusal, the same noise, the same model."""
    X, y = _separable()
    model = PrivateLogisticRegression(classes=[0, 1], method=method, random_state=0)
    usual = model.fit(X, y).parameters_
    monkeypatch.setattr("sudare.linear.solvers.minimised", lambda objective, tolerance: Minimum(np.ones(4), bound, 1))
    np.testing.assert_allclose(clone(model).fit(X, y).parameters_, usual, atol=0.02 * np.abs(usual).max())
    Release.of(clone(model).set_params(account=account, random_state=None).fit(X, y))
    assert account.spent().epsilon == 1.0


# Bad input


BAD_X = {
    "NaN": np.full((5, 2), np.nan),
    "infinite": np.full((5, 2), np.inf),
    "empty": np.zeros((0, 2)),
    "no columns": np.zeros((5, 0)),
    "text": np.full((5, 2), "a"),
    "one dimension": np.zeros(5),
}


@pytest.mark.parametrize("model", [*CLASSIFIERS, PrivateRidge])
@pytest.mark.parametrize("name", BAD_X)
def test_bad_rows_are_refused_before_anything_is_charged(model, name, account):
    options = {"target_bounds": (0, 1)} if model is PrivateRidge else {"classes": [0, 1]}
    with pytest.raises((ValueError, TypeError)) as caught:
        model(account=account, **options).fit(BAD_X[name], np.array([0, 1, 0, 1, 0])[: len(BAD_X[name])])
    assert isinstance(caught.value, SudareError)
    assert account.spent().epsilon == 0


@pytest.mark.parametrize("y", [[0, 1, 2, 0, 1], [0, 1, np.nan, 0, 1], [0, 1], ["a", "b", "a", "b", "a"], None])
def test_bad_labels_are_refused_before_anything_is_charged(y, account):
    with pytest.raises(DataError):
        PrivateLogisticRegression(classes=[0, 1], account=account).fit(np.zeros((5, 2)), y)
    assert account.spent().epsilon == 0


@pytest.mark.parametrize("y", [[0, 1, np.inf, 0, 1], ["a"] * 5, [1 + 1j] * 5, [0, 1], None])
def test_bad_targets_are_refused_before_anything_is_charged(y, account):
    with pytest.raises(DataError):
        PrivateRidge(target_bounds=(0, 1), account=account).fit(np.zeros((5, 2)), y)
    assert account.spent().epsilon == 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": "1"},
        {"delta": 1.0},
        {"norm_bound": 0.0},
        {"norm_bound": float("inf")},
        {"norm_bound": "1"},
        {"regularization": -1.0},
        {"regularization": []},
        {"regularization": "strong"},
        {"regularization": [1.0, 0.0]},
        {"method": "magic"},
        {"method": "descent"},
        {"encoding": "magic"},
        {"schema": "patients.toml"},
        {"account": "patients"},
        {"classes": [0]},
        {"classes": [0, 0]},
        {"classes": [[0, 1]]},
        {"classes": [0.5, 1.5]},
    ],
)
def test_impossible_parameters_are_refused(parameters):
    X, y = _separable(20)
    with pytest.raises(SudareError):
        PrivateLogisticRegression(**{"classes": [0, 1], **parameters}).fit(X, y)


@pytest.mark.parametrize("bounds", [(1, 0), (0, float("inf")), (0,), "ab", (0, 0)])
def test_impossible_target_bounds_are_refused(bounds):
    with pytest.raises(InvalidParameter):
        PrivateRidge(target_bounds=bounds).fit(np.zeros((5, 2)), np.zeros(5))


@settings(max_examples=30)
@given(
    st.sampled_from(["objective", "output", "mean", "descent"]),
    st.sampled_from([(1, 3), (2, 40), (7, 1), (30, 2)]),
    st.sampled_from(["zero", "constant", "huge", "tiny", "spikes"]),
    st.booleans(),
)
def test_odd_tables_give_finite_models(method, shape, kind, one_class):
    """One row, more columns than rows, constant and zero columns, entries of 1e308: the same path, a finite answer."""
    values = {
        "zero": np.zeros(shape),
        "constant": np.full(shape, 0.5),
        "huge": np.full(shape, 1e308),
        "tiny": np.full(shape, 5e-324),
        "spikes": np.where(np.eye(*shape) > 0, -1e308, 1.0),
    }[kind]
    y = np.zeros(shape[0], dtype=int) if one_class else np.arange(shape[0]) % 2
    model = PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1], method=method, random_state=0).fit(values, y)
    assert np.all(np.isfinite(model.coef_))
    assert np.all(np.isfinite(model.intercept_))
    assert set(model.predict(np.zeros((2, shape[1])))) <= {0, 1}


def test_nothing_public_depends_on_the_data():
    """Neighbouring and very different tables of one size: method, penalty, grid, noise, manifest parameters are the same."""
    X, y = _separable(300)
    for method, delta in [("auto", 0.0), ("output", 0.0), ("auto", 1e-6)]:
        lean = PrivateLogisticRegression(1.0, delta, classes=[0, 1], method=method)
        first, second = clone(lean).fit(X, y), clone(lean).fit(1e300 * X[::-1], np.zeros(300, dtype=int))
        assert dict(first.release_content().parameters) == dict(second.release_content().parameters)
        assert dict(first.release_content().grids) == dict(second.release_content().grids)
        assert first.noise_scale_ == second.noise_scale_


def test_objective_raises_the_penalty_where_epsilon_needs_it():
    X, y = _separable(50)
    fitted = PrivateLogisticRegression(
        0.1, regularization=1e-9, method="objective", classes=[0, 1], random_state=0
    ).fit(X, y)
    assert fitted.penalty_ > 1
    assert isinstance(fitted.plan(50, fitted.declared_).mechanism.learning, ObjectivePerturbation)
