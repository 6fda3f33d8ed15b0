"""The private networks as people use them: declared facts in, honest guarantees and clear refusals out, and releases that work without JAX."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sudare.errors import (
    DataError,
    InvalidParameter,
    MissingValue,
    NotCharged,
    ReleaseMalformed,
    SchemaError,
    SeededNoiseRefused,
    UnknownCategory,
)
from sudare.neural import PrivateMLPClassifier, PrivateMLPRegressor
from sudare.neural import private_network as models
from sudare.neural.calibration import Recipe, check_recipe, public_recipe
from sudare.neural.training_methods import VACUOUS_EPSILON, flattened, layered
from sudare.privacy import Guarantee, Ledger, Release
from sudare.privacy import private_estimator as base_room
from sudare.privacy.accounting import pure_cost
from sudare.report.card import card_rows
from sudare.schema import Person, Schema
from tests.neural.tables import NUMBER_SCHEMA, SCHEMA, crossed, patients
from tests.release_kit import KEY, TRUSTED

QUICK = {"hidden": (4,), "steps": 3, "physical_batch": 64}


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("rows", epsilon=100.0, delta=0.5)


def charges(account):
    return [entry.body["guarantee"] for entry in account.entries() if entry.kind == "charge"]


# Learning


def test_a_network_learns_what_no_line_separates():
    X, y = crossed(3000)
    model = PrivateMLPClassifier(epsilon=8.0, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > 0.9
    assert model.recipe_ == public_recipe(2000, 8.0, 1e-5, "replace-one")
    assert not model.guarantee_.valid


def test_a_network_learns_numbers():
    X = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    y = 100 * X[:, 0] * X[:, 1]
    model = PrivateMLPRegressor(
        epsilon=8.0, bounds=(-1, 1), target_bounds=(-100, 100), encoding="binned", rate=0.5, random_state=0
    ).fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > 0.5
    assert np.all(np.abs(model.predict(X)) <= 100)


def test_three_classes_and_probabilities():
    X, _ = crossed(200)
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.3, 0.3])]
    model = PrivateMLPClassifier(bounds=(-1, 1), classes=["a", "b", "c"], **QUICK).fit(X, y)
    assert model.predict_proba(X).shape == model.decision_function(X).shape == (200, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert set(model.predict(X)) <= {"a", "b", "c"}
    binary = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], **QUICK).fit(X, (X[:, 0] > 0).astype(int))
    np.testing.assert_array_equal(binary.decision_function(X) > 0, binary.predict(X) == 1)


def test_tables_files_and_batches_are_one(tmp_path):
    table = patients()
    table.to_parquet(tmp_path / "rows.parquet")
    fits = [
        PrivateMLPClassifier(schema=SCHEMA, random_state=3, **QUICK).fit(source)
        for source in (table, tmp_path / "rows.parquet", iter([table[:100], table[100:]]))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.parameters_, fits[0].parameters_)
    assert fits[0].score(table) == fits[0].score(table, table["ill"])
    beside = PrivateMLPClassifier(schema=SCHEMA, random_state=3, **QUICK).fit(table, table["ill"])
    np.testing.assert_array_equal(beside.parameters_, fits[0].parameters_)


def test_physical_batches_change_nothing_but_memory():
    X, y = crossed()
    small, large = (
        PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], random_state=1, **{**QUICK, "physical_batch": size}).fit(
            X, y
        )
        for size in (16, 256)
    )
    np.testing.assert_allclose(small.parameters_, large.parameters_, atol=1e-5)


def test_empty_samples_are_steps_like_others():
    """One row and a small rate: nearly every sample is empty, and every step still adds noise."""
    model = PrivateMLPClassifier(
        bounds=(-1, 1), classes=[0, 1], sampling_rate=2.0**-20, hidden=(4,), steps=5, random_state=0
    ).fit([[0.1, 0.2]], [1])
    assert np.all(model.parameters_[-2:] != 0)
    assert np.all(np.isfinite(model.parameters_))


def test_a_progress_bar_changes_nothing(capsys):
    X, y = crossed()
    quiet, shown = (
        PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], random_state=1, progress=progress, **QUICK).fit(X, y)
        for progress in (False, True)
    )
    np.testing.assert_array_equal(quiet.parameters_, shown.parameters_)


# Guarantees


def test_the_guarantee_is_the_one_asked_for_and_charged(account):
    X, y = crossed()
    model = PrivateMLPClassifier(epsilon=0.5, bounds=(-1, 1), classes=[0, 1], account=account, **QUICK)
    assert model.price(X, y).asked.epsilon == 0.5
    assert charges(account) == []
    model.fit(X, y)
    assert model.guarantee_ == Guarantee(0.5, 1e-5)
    assert model.parameter_guarantee_ is None
    assert [entry["epsilon"] for entry in charges(account)] == [0.5]
    assert model.n_rows_ == 400


def test_between_add_remove_neighbours_rows_are_declared_and_an_account_converts(tmp_path, account):
    X, y = crossed()
    parameters = {"epsilon": 0.5, "bounds": (-1, 1), "classes": [0, 1], "neighbours": "add-remove", **QUICK}
    with pytest.raises(InvalidParameter, match="no public one was declared"):
        PrivateMLPClassifier(account=account, **parameters).fit(X, y)
    assert charges(account) == []
    converted = PrivateMLPClassifier(account=account, expected_rows=500, **parameters).fit(X, y)
    assert (converted.guarantee_.neighbours, converted.guarantee_.epsilon) == ("replace-one", 1.0)
    assert converted.guarantee_.delta == pytest.approx(1e-5 * (1 + math.exp(0.5)))
    assert converted.n_rows_ is None
    own = Ledger(tmp_path / "other.db").account("rows", epsilon=1.0, delta=1e-3, neighbours="add-remove")
    kept = PrivateMLPClassifier(account=own, expected_rows=500, **parameters).fit(X, y)
    assert kept.guarantee_ == Guarantee(0.5, 1e-5, neighbours="add-remove")
    loaded = Release.of(converted)
    assert loaded.content.parameters["rows"] is None


def test_public_numbers_do_not_depend_on_private_rows():
    """Between add/remove neighbours not even on how many there are."""
    parameters = {"bounds": (-1, 1), "classes": [0, 1], "neighbours": "add-remove", "expected_rows": 450, **QUICK}
    first, second = (PrivateMLPClassifier(**parameters).fit(*crossed(rows, rows)) for rows in (300, 500))
    for name in ("recipe_", "noise_multiplier_", "noise_scale_", "grid_", "guarantee_", "n_rows_"):
        assert getattr(first, name) == getattr(second, name)


def test_classes_and_bounds_from_data_void_the_guarantee(account):
    X, y = crossed()
    assert not PrivateMLPClassifier(bounds=(-1, 1), **QUICK).fit(X, y).guarantee_.valid
    with pytest.raises(InvalidParameter, match="classes was not given"):
        PrivateMLPClassifier(bounds=(-1, 1), account=account, **QUICK).fit(X, y)
    assert charges(account) == []
    number = PrivateMLPRegressor(bounds=(-1, 1), **QUICK).fit(X, X[:, 0])
    assert not number.guarantee_.valid
    with pytest.raises(InvalidParameter, match="needs public bounds"):
        PrivateMLPClassifier(classes=[0, 1]).fit(X, y)


def test_seeds_are_refused_beside_an_account(account):
    with pytest.raises(SeededNoiseRefused):
        PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account, random_state=0, **QUICK).fit(*crossed())
    assert charges(account) == []


class FakeRoute:
    """A route that promises next to nothing to a record."""

    epsilon, delta, noise_scale, grid, exact_noise = 200.0, 0.0, 1.0, 2.0**-20, True
    parameter_guarantee = Guarantee(1.0, notion="parameter")
    cost = pure_cost(200.0)

    def fitted(self, rows, targets, source):
        source.words(1)
        return layered(np.zeros(4 * 20 + 4 + 4 * 2 + 2), (20, 4, 2))


def test_a_promise_to_parameters_is_printed_beside_that_to_records_and_must_be_accepted(tmp_path, monkeypatch):
    account = Ledger(tmp_path / "ledger.db").account("rows", epsilon=1000.0)
    monkeypatch.setattr(models.PrivateNetwork, "_route", lambda self, rows, declared: FakeRoute())
    X, y = crossed()
    parameters = {"bounds": (-1, 1), "classes": [0, 1], "account": account, **QUICK}
    with pytest.raises(InvalidParameter, match="To a record this promises ε = 200, which is next to nothing"):
        PrivateMLPClassifier("learning_first", **parameters).fit(X, y)
    assert charges(account) == []
    model = PrivateMLPClassifier("learning_first", accept_parameter_guarantee=True, **parameters).fit(X, y)
    assert model.guarantee_ == Guarantee(200.0)
    assert model.parameter_guarantee_ == Guarantee(1.0, notion="parameter")
    rows = dict(card_rows(Release.of(model).card("unchecked")))
    assert rows["beside it"].startswith("ε = 1.0 for one parameter of the model")
    assert "says next to nothing" in rows["accepted"]
    assert "ε = 200" in rows["guarantee"]
    assert "arithmetic" not in rows
    Release.of(model).save(tmp_path / "net.sudare", KEY)
    loaded = Release.load(tmp_path / "net.sudare", TRUSTED).model()
    assert loaded.parameter_guarantee_ == model.parameter_guarantee_


# Releases


def saved(model, path):
    Release.of(model).save(path, KEY)
    return Release.load(path, TRUSTED)


@pytest.mark.parametrize("declared", ["bounds", "schema"])
def test_a_release_predicts_as_its_model(declared, account, tmp_path):
    if declared == "bounds":
        X, y = crossed()
        model = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account, **QUICK).fit(X, y)
    else:
        X, y = patients(), None
        model = PrivateMLPClassifier(schema=SCHEMA, account=account, **QUICK).fit(X)
    release = saved(model, tmp_path / "net.sudare")
    again = release.model()
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.classes_, model.classes_)
    assert again.guarantee_ == model.guarantee_
    assert again.receipt_ == model.receipt_
    assert again.hidden == (4,)
    rows = dict(card_rows(release.card("unchecked")))
    assert rows["arithmetic"].startswith("whole-numbered noise")
    assert "beside it" not in rows
    assert "accepted" not in rows
    # Nothing but what everybody may know: no count of clipped values, no seed, no checkpoint.
    assert set(release.manifest()["parameters"]) == {
        *("epsilon", "delta", "neighbours", "rows", "columns", "person", "approach", "encoding", "exact_noise"),
        *("expected_rows", "hidden", "parameter_epsilon", "target", "vacuous"),
    }


def test_a_regressor_is_released(account, tmp_path):
    table = patients()
    model = PrivateMLPRegressor(schema=NUMBER_SCHEMA, encoding="scaled", account=account, **QUICK).fit(table)
    again = saved(model, tmp_path / "net.sudare").model()
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.score(table, table["cost"]) == model.score(table)
    assert again.target_bounds_ == (0.0, 1000.0)


def test_a_changed_or_unpaid_network_is_not_released(account):
    X, y = crossed()
    with pytest.raises(NotCharged):
        Release.of(PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], **QUICK).fit(X, y))
    model = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account, **QUICK).fit(X, y)
    model.parameters_[0] += model.grid_
    with pytest.raises(NotCharged, match="changed"):
        Release.of(model)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", [5]),
        ("hidden", ["4"]),
        ("hidden", [-4]),
        ("hidden", 4),
        ("hidden", [2**40]),
        ("approach", "telepathy"),
        ("approach", 7),
        ("encoding", "raw"),
        ("exact_noise", 1),
        ("expected_rows", 0),
        ("expected_rows", "many"),
        ("parameter_epsilon", 0.0),
        ("parameter_epsilon", math.inf),
        ("target", [0]),
        ("target", [0, "one"]),
        ("target", "ab"),
        ("vacuous", True),
    ],
)
def test_content_that_cannot_be_is_refused(name, value, account):
    model = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account, **QUICK).fit(*crossed(60))
    content = model.release_content()
    assert PrivateMLPClassifier.check_content(content, None) == model.guarantee_
    broken = replace(content, parameters={**content.parameters, name: value})
    with pytest.raises(ReleaseMalformed):
        PrivateMLPClassifier.check_content(broken, None)
    missing = replace(content, parameters={key: kept for key, kept in content.parameters.items() if key != name})
    with pytest.raises(ReleaseMalformed):
        PrivateMLPClassifier.check_content(missing, None)


def test_tensors_must_be_those_of_the_layers(account):
    content = (
        PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account, **QUICK)
        .fit(*crossed(60))
        .release_content()
    )
    parameters = content.tensors["parameters"]
    for tensors in (
        {},
        {"parameters": parameters[1:]},
        {"parameters": parameters.reshape(1, -1)},
        {"other": parameters},
    ):
        with pytest.raises(ReleaseMalformed, match="shapes and types"):
            PrivateMLPClassifier.check_content(replace(content, tensors=tensors), None)


def test_numbers_as_targets_of_a_release_must_be_bounds(account):
    model = PrivateMLPRegressor(bounds=(-1, 1), target_bounds=(0, 1), account=account, **QUICK)
    content = model.fit(crossed(60)[0], crossed(60)[1]).release_content()
    for target in ([0.0], [0, 1], [1.0, 0.0], [0.0, math.nan], "01"):
        with pytest.raises(ReleaseMalformed):
            PrivateMLPRegressor.check_content(
                replace(content, parameters={**content.parameters, "target": target}), None
            )


# Refusals


def test_bad_rows_are_refused_before_anything_is_charged(account):
    X, y = crossed(50)
    model = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account, **QUICK)
    by_schema = PrivateMLPClassifier(schema=SCHEMA, account=account, **QUICK)
    table = patients(50)
    cases = [
        (model, np.where(np.eye(50, 2) > 0, np.nan, X), y, DataError),
        (model, np.where(np.eye(50, 2) > 0, np.inf, X), y, DataError),
        (model, X[:0], y[:0], DataError),
        (model, X, None, DataError),
        (model, X, y[1:], DataError),
        (model, X, y + 1, DataError),
        (model, X, np.where(y == 1, np.nan, 0.0), DataError),
        (model, "rows.parquet", None, InvalidParameter),
        (by_schema, table.assign(smoker="sometimes"), None, UnknownCategory),
        (by_schema, table.assign(age=np.nan), None, MissingValue),
        (by_schema, table.drop(columns="ill"), None, SchemaError),
        (by_schema, table[:0], None, DataError),
        (by_schema, iter([table[:0]]), None, DataError),
        (by_schema, iter([table]), table["ill"], InvalidParameter),
    ]
    for estimator, rows, targets, error in cases:
        with pytest.raises(error):
            estimator.fit(rows, targets)
    assert charges(account) == []


def test_one_class_in_the_data_is_no_problem_and_one_declared_is():
    X, _ = crossed(50)
    model = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], **QUICK).fit(X, np.zeros(50, dtype=int))
    assert list(model.classes_) == [0, 1]
    for options in ({"classes": [0]}, {}):
        with pytest.raises(InvalidParameter, match="at least two classes"):
            PrivateMLPClassifier(bounds=(-1, 1), **options, **QUICK).fit(X, np.zeros(50, dtype=int))


@pytest.mark.parametrize("encoding", ["binned", "scaled", "centred"])
def test_constant_columns_are_columns(encoding):
    X, y = crossed(50)
    X[:, 1] = 0.25
    model = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], encoding=encoding, **QUICK).fit(X, y)
    assert np.all(np.isfinite(model.predict_proba(X)))


def test_values_beyond_the_bounds_count_as_the_bounds():
    X, y = crossed(50)
    fits = [
        PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], encoding="scaled", random_state=0, **QUICK).fit(rows, y)
        for rows in (np.sign(X), 1e300 * np.sign(X))
    ]
    np.testing.assert_array_equal(fits[0].parameters_, fits[1].parameters_)


@pytest.mark.parametrize(
    "options",
    [
        {"approach": "telepathy"},
        {"hidden": 64},
        {"hidden": (0,)},
        {"hidden": "64"},
        {"hidden": (1,) * 21},
        {"encoding": "raw"},
        {"neighbours": "cousins"},
        {"expected_rows": 0},
        {"steps": 0},
        {"steps": 1.5},
        {"steps": 10**6},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.5},
        {"sampling_rate": "all"},
        {"clip": 0.0},
        {"clip": math.inf},
        {"rate": -1.0},
        {"momentum": 1.0},
        {"momentum": True},
        {"physical_batch": 0},
        {"physical_batch": 2**25},
        {"delta": 0.0},
        {"approach_options": {"epochs": 3}},
        {"account": "patients"},
        {"schema": "schema.toml"},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(options):
    X, y = crossed(20)
    with pytest.raises(InvalidParameter):
        PrivateMLPClassifier(**{"bounds": (-1, 1), "classes": [0, 1], **QUICK, **options}).fit(X, y)


def test_persons_are_refused(account):
    schema = Schema(dict(SCHEMA.columns), Person("patient", 2))
    table = patients(40).assign(patient=np.arange(40) // 2)
    with pytest.raises(InvalidParameter, match="protect records"):
        PrivateMLPClassifier(schema=schema, account=account, **QUICK).fit(table)
    assert charges(account) == []


def test_a_price_needs_an_account():
    with pytest.raises(InvalidParameter, match="needs an account"):
        PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1]).price(*crossed(20))


def test_targets_must_be_declared_or_given():
    schema = Schema({"age": SCHEMA.columns["age"]})
    with pytest.raises(DataError, match="declares no label"):
        PrivateMLPClassifier(schema=schema, **QUICK).fit(pd.DataFrame({"age": [1.0, 2.0]}))
    with pytest.raises(DataError, match="declares no number"):
        PrivateMLPRegressor(schema=schema, **QUICK).fit(pd.DataFrame({"age": [1.0, 2.0]}))
    with pytest.raises(SchemaError, match="no target"):
        PrivateMLPClassifier(schema=schema, classes=[0, 1], **QUICK).fit(pd.DataFrame({"age": [1.0, 2.0]}))


def test_every_fit_goes_through_the_door(monkeypatch):
    class Stopped(Exception):
        pass

    def stop(*_, **__):
        raise Stopped

    monkeypatch.setattr(base_room, "pass_through", stop)
    for kind, declared in (
        (PrivateMLPClassifier, {"classes": [0, 1]}),
        (PrivateMLPRegressor, {"target_bounds": (0, 1)}),
    ):
        with pytest.raises(Stopped):
            kind(bounds=(-1, 1), **declared, **QUICK).fit(*crossed(20))


# Public rules


def test_the_public_recipe_is_always_usable():
    for rows in (1, 50, 3000, 10**5, 10**8):
        for epsilon in (0.01, 1.0, 10.0):
            for neighbours in ("replace-one", "add-remove"):
                recipe = public_recipe(rows, epsilon, 1e-6, neighbours)
                check_recipe(recipe)
                assert 200 <= recipe.steps <= 400
                assert 0 < recipe.rate <= 2
                assert recipe.sampling_rate == 1 or recipe.sampling_rate * 2**32 == int(recipe.sampling_rate * 2**32)
                assert recipe.physical_batch <= 8192


def test_what_is_given_is_taken():
    recipe = public_recipe(
        1000, 1.0, 1e-6, "replace-one", steps=7, sampling_rate=0.3, clip=2.0, rate=0.4, momentum=0.5, physical_batch=9
    )
    assert recipe == Recipe(7, math.floor(0.3 * 2**32) / 2**32, 2.0, 0.4, 0.5, 9)


def test_layers_come_back_from_one_vector():
    layers = layered(np.arange(3 * 4 + 4 + 4 * 2 + 2, dtype=float), (3, 4, 2))
    assert [(weights.shape, bias.shape) for weights, bias in layers] == [((3, 4), (4,)), ((4, 2), (2,))]
    np.testing.assert_array_equal(flattened(layers), np.arange(26))


def test_the_refusal_begins_above_what_the_card_calls_very_weak():
    assert VACUOUS_EPSILON == 20


WITHOUT_JAX = """
import sys
sys.modules["jax"] = None
import numpy as np
from sudare.errors import ExtraMissing
from sudare.neural import PrivateMLPClassifier
from sudare.privacy import Ledger, Release
from tests.neural.tables import crossed
from tests.release_kit import TRUSTED
X, y = crossed()
loaded = Release.load(sys.argv[1] + "/net.sudare", TRUSTED).model()
assert loaded.predict(X).shape == (400,)
account = Ledger(sys.argv[1] + "/other.db").account("rows", epsilon=5.0, delta=1e-3)
model = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account)
assert model.price(X, y).asked.epsilon == 1.0
try:
    model.fit(X, y)
except ExtraMissing as error:
    assert "sudare[neural]" in str(error)
else:
    raise AssertionError("trained without JAX")
assert [entry.kind for entry in account.entries()] == ["open"]
"""


def test_without_jax_a_release_predicts_and_training_is_refused_before_it_is_charged(account, tmp_path):
    model = PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account, **QUICK).fit(*crossed())
    Release.of(model).save(tmp_path / "net.sudare", KEY)
    subprocess.run([sys.executable, "-c", WITHOUT_JAX, str(tmp_path)], check=True)
