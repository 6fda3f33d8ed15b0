"""The private networks as people use them: declared facts in, honest guarantees and clear refusals out, and releases that work without JAX."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

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
from sudare.neural.dp_sgd import public_recipe
from sudare.privacy import Guarantee, Ledger, Release
from sudare.privacy import private_estimator as base_room
from sudare.report.privacy_card import card_rows
from sudare.schema import Person, Schema
from tests.neural.tables import NUMBER_SCHEMA, SCHEMA, crossed, patients
from tests.release_kit import KEY, TRUSTED

QUICK = {"hidden_layer_sizes": (4,), "max_iter": 3, "max_physical_batch_size": 64}


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
    assert model.recipe_ == public_recipe(2000, 8.0, 1e-6, "replace-one")
    assert not model.guarantee_.valid


def test_a_network_learns_numbers():
    X = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    y = 100 * X[:, 0] * X[:, 1]
    model = PrivateMLPRegressor(
        epsilon=8.0, bounds=(-1, 1), target_bounds=(-100, 100), encoding="binned", learning_rate=0.5, random_state=0
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
        PrivateMLPClassifier(
            bounds=(-1, 1), classes=[0, 1], random_state=1, **{**QUICK, "max_physical_batch_size": size}
        ).fit(X, y)
        for size in (16, 256)
    )
    np.testing.assert_allclose(small.parameters_, large.parameters_, atol=1e-5)


@pytest.mark.long
def test_empty_samples_are_steps_like_others():
    """One row and a small rate: nearly every sample is empty, and every step still adds noise."""
    model = PrivateMLPClassifier(
        bounds=(-1, 1), classes=[0, 1], sampling_rate=2.0**-20, hidden_layer_sizes=(4,), max_iter=5, random_state=0
    ).fit([[0.1, 0.2]], [1])
    assert np.all(model.parameters_[-2:] != 0)
    assert np.all(np.isfinite(model.parameters_))


def test_a_progress_bar_changes_nothing(capsys):
    X, y = crossed()
    quiet, shown = (
        PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], random_state=1, verbose=verbose, **QUICK).fit(X, y)
        for verbose in (False, True)
    )
    np.testing.assert_array_equal(quiet.parameters_, shown.parameters_)


# Guarantees


def test_the_guarantee_is_the_one_asked_for_and_charged(account):
    X, y = crossed()
    model = PrivateMLPClassifier(epsilon=0.5, bounds=(-1, 1), classes=[0, 1], account=account, **QUICK)
    assert model.price(X, y).asked.epsilon == 0.5
    assert charges(account) == []
    model.fit(X, y)
    assert model.guarantee_ == Guarantee(0.5, 1e-6)
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
    assert converted.guarantee_.delta == pytest.approx(1e-6 * (1 + math.exp(0.5)))
    assert converted.n_rows_ is None
    own = Ledger(tmp_path / "other.db").account("rows", epsilon=1.0, delta=1e-3, neighbours="add-remove")
    kept = PrivateMLPClassifier(account=own, expected_rows=500, **parameters).fit(X, y)
    assert kept.guarantee_ == Guarantee(0.5, 1e-6, neighbours="add-remove")
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


def test_an_epsilon_that_promises_next_to_nothing_must_be_accepted(account, tmp_path):
    X, y = crossed()
    # Full batches: for ε = 25, the noise of sampled ones takes seconds to find.
    model = PrivateMLPClassifier(
        epsilon=25.0, bounds=(-1, 1), classes=[0, 1], account=account, **{**QUICK, "sampling_rate": 1.0}
    )
    with pytest.raises(InvalidParameter, match="To a record this promises ε = 25, which is next to nothing"):
        model.fit(X, y)
    assert charges(account) == []
    release = saved(model.set_params(accept_weak_guarantee=True).fit(X, y), tmp_path / "net.sudare")
    rows = dict(card_rows(release.card("unchecked")))
    assert "says next to nothing" in rows["accepted"]
    assert release.model().accept_weak_guarantee


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
    assert again.hidden_layer_sizes == (4,)
    rows = dict(card_rows(release.card("unchecked")))
    assert rows["arithmetic"].startswith("whole-numbered noise")
    assert "beside it" not in rows
    assert "accepted" not in rows
    # Nothing but what everybody may know: no count of clipped values, no seed, no checkpoint.
    assert set(release.manifest()["parameters"]) == {
        *("epsilon", "delta", "neighbours", "rows", "columns", "person", "approach", "encoding", "exact_noise"),
        *("expected_rows", "hidden_layer_sizes", "parameter_epsilon", "target", "vacuous"),
    }


def test_a_regressor_is_released(account, tmp_path):
    table = patients()
    model = PrivateMLPRegressor(schema=NUMBER_SCHEMA, encoding="scaled", account=account, **QUICK).fit(table)
    again = saved(model, tmp_path / "net.sudare").model()
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.score(table, table["cost"]) == model.score(table)
    assert again.target_bounds_ == (0.0, 1000.0)


FORMER = Path(__file__).parent / "files_of_0_1_0"


@pytest.mark.parametrize(
    ("name", "learner", "rows"),
    [
        ("gradient", "PrivateMLPClassifier", lambda: crossed()[0]),
        ("number", "PrivateMLPRegressor", patients),
        ("anonymizing_first", "AnonymizingFirstClassifier", patients),
        ("learning_first", "LearningFirstClassifier", patients),
        ("anonymized_learning", "AnonymizedLearningClassifier", patients),
    ],
)
def test_releases_with_the_former_names_still_load(name, learner, rows):
    """Written when a parameter was called `hidden`, and one learner had the approaches of paper 002."""
    release = Release.load(FORMER / f"{name}.release", TRUSTED)
    model = release.model()
    assert type(model).__name__ == learner
    assert model.hidden_layer_sizes == (4,)
    assert model.guarantee_ == release.guarantee
    answers = (model.predict if name == "number" else model.predict_proba)(rows()[:5])
    np.testing.assert_allclose(answers, np.load(FORMER / "answers.npz")[name], rtol=1e-12)
    # Files of both approaches name an ε of one parameter; of anonymized_learning it does not hold and is not repeated.
    assert (release.content.parameters["parameter_epsilon"] is not None) == ("learn" in name)
    is_true = name == "learning_first"
    assert (
        ("beside it" in dict(release.card("unchecked").remarks)) == (model.parameter_guarantee_ is not None) == is_true
    )


def test_former_and_present_names_are_not_mixed(account):
    content = (
        PrivateMLPClassifier(bounds=(-1, 1), classes=[0, 1], account=account, **QUICK)
        .fit(*crossed(60))
        .release_content()
    )
    parameters = dict(content.parameters)
    for broken in (
        {**parameters, "hidden": [4]},
        {**parameters, "approach": "learning_first"},
        {**{name: parameters[name] for name in parameters if name != "hidden_layer_sizes"}, "hidden": "4"},
    ):
        with pytest.raises(ReleaseMalformed):
            PrivateMLPClassifier.check_content(replace(content, parameters=broken), None)


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
        ("hidden_layer_sizes", [5]),
        ("hidden_layer_sizes", ["4"]),
        ("hidden_layer_sizes", [-4]),
        ("hidden_layer_sizes", 4),
        ("hidden_layer_sizes", [2**40]),
        ("approach", "learning_first"),
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
        {"hidden_layer_sizes": 64},
        {"hidden_layer_sizes": (0,)},
        {"hidden_layer_sizes": "64"},
        {"hidden_layer_sizes": (1,) * 21},
        {"encoding": "raw"},
        {"neighbours": "cousins"},
        {"expected_rows": 0},
        {"max_iter": 0},
        {"max_iter": 1.5},
        {"max_iter": 10**6},
        {"sampling_rate": 0.0},
        {"sampling_rate": 1.5},
        {"sampling_rate": "all"},
        {"clip": 0.0},
        {"clip": math.inf},
        {"learning_rate": -1.0},
        {"momentum": 1.0},
        {"momentum": True},
        {"max_physical_batch_size": 0},
        {"max_physical_batch_size": 2**25},
        {"delta": 0.0},
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


# Without JAX


WITHOUT_JAX = """
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] == "jax" else self.finder.find_spec(name, path, target)
sys.meta_path = [Without(finder) for finder in sys.meta_path]
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


# What the card of a release says besides its guarantee


def remarks(**parameters):
    plain = {"exact_noise": True, "approach": "learning_first", "parameter_epsilon": None, "vacuous": False}
    return dict(PrivateMLPClassifier.card_remarks({**plain, **parameters}))


def test_a_card_says_what_a_release_obliges_it_to():
    assert remarks() == {}
    told = remarks(exact_noise=False, parameter_epsilon=0.1, vacuous=True)
    assert list(told) == ["arithmetic", "beside it", "accepted"]
    assert told["arithmetic"].startswith("floating-point noise")
    assert told["beside it"].startswith("ε = 0.1 for one parameter")
    assert "next to nothing" in told["accepted"]
    network = remarks(approach="gradient")
    assert list(network) == ["arithmetic"]
    assert "counted in δ" in network["arithmetic"]
    assert "IEEE 754" in network["arithmetic"]
