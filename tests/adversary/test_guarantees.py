"""Guarantees that say more than was done: each test is named after what the attacker wants, and it worked once."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.errors import SudareError
from sudare.gibbs import GibbsLogisticRegression, GibbsRidge
from sudare.joint import consortium_model, model_of
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.neural import PrivateMLPClassifier, PrivateMLPRegressor
from sudare.papers.p002_networks.estimators import (
    AnonymizedLearningClassifier,
    AnonymizingFirstClassifier,
    LearningFirstClassifier,
)
from sudare.perturbation import RecordPerturbation
from sudare.privacy import Ledger, Release, select_privately
from sudare.privacy.noise import SystemNoise
from sudare.schema import Number, Schema
from sudare.statistics import PrivateMean

KEY = Ed25519PrivateKey.generate()
ROWS = 60
OLDEST = 109.25


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=100.0, delta=0.1)


def patients() -> tuple[np.ndarray, np.ndarray]:
    """Two columns within a norm of one, and ages of which one stands out."""
    random = np.random.default_rng(0)
    ages = random.uniform(20, 80, ROWS)
    ages[7] = OLDEST
    return random.uniform(-0.5, 0.5, size=(ROWS, 2)), ages


def diagnoses() -> np.ndarray:
    """Labels of which one patient alone has the last."""
    labels = np.array(["flu", "cold"] * (ROWS // 2), dtype=object)
    labels[7] = "rare disease"
    return labels


def left_the_house(make, path) -> bool:
    """Whether what `make` gives could be released."""
    try:
        Release.of(make()).save(path, key=KEY)
    except SudareError:
        return False
    return path.exists()


def correct(model, X, y):
    return np.asarray(model.predict(X) == y, dtype=np.float64)


def close(model, X, y):
    return 1 / (1 + np.abs(model.predict(X) - y))


def test_publish_the_oldest_patients_age_through_a_list_of_parameters(account, tmp_path):
    X, ages = patients()
    path = tmp_path / "ages.sudare"
    ridge = PrivateRidge(1.0, regularization=[0.1, 1.0], norm_bound=2, account=account)
    assert not left_the_house(lambda: ridge.fit(X, ages), path)
    assert account.spent() == (0.0, 0.0)


def test_publish_the_oldest_patients_age_through_a_selection(account, tmp_path):
    X, ages = patients()
    candidates = [PrivateRidge(regularization=1.0), PrivateRidge(regularization=0.1, target_bounds=(0, 120))]

    def chosen():
        return select_privately(candidates[:1], X, ages, epsilon=1.0, row_scores=close, account=account).model

    assert not left_the_house(chosen, tmp_path / "ages.sudare")
    assert account.spent() == (0.0, 0.0)
    with pytest.raises(SudareError):
        select_privately(candidates, X, ages, epsilon=1.0, row_scores=close, account=account)
    assert account.spent() == (0.0, 0.0)


@pytest.mark.parametrize("learner", [PrivateLogisticRegression, PrivateLinearSVC])
def test_publish_the_name_of_a_disease_that_one_patient_has(account, tmp_path, learner):
    X, labels = patients()[0], diagnoses()
    listed = learner(1.0, regularization=[0.1, 1.0], account=account)
    assert not left_the_house(lambda: listed.fit(X, labels), tmp_path / "listed.sudare")

    def chosen():
        return select_privately([learner()], X, labels, epsilon=1.0, row_scores=correct, account=account).model

    assert not left_the_house(chosen, tmp_path / "chosen.sudare")
    assert account.spent() == (0.0, 0.0)


def test_see_a_void_result_as_valid_where_there_is_no_account():
    X, ages = patients()
    assert not PrivateRidge(regularization=[0.1, 1.0]).fit(X, ages).guarantee_.valid
    chosen = select_privately([PrivateRidge()], X, ages, epsilon=1.0, row_scores=close)
    assert not chosen.guarantee.valid
    assert not chosen.model.guarantee_.valid


def test_pay_two_for_a_network_that_promises_a_record_more_than_three_times_that(account):
    """d = 6 parameters: a try of ε = 0.5 a parameter promises a record 3, and all tries together 2·(3 + 0.5)."""
    X, labels = patients()[0], np.arange(ROWS) % 2
    network = LearningFirstClassifier(
        (),
        delta=0.0,
        bounds=(-1, 1),
        classes=[0, 1],
        encoding="scaled",
        epochs=1,
        accept_weak_guarantee=True,
    )
    tried: list[float] = []

    def scores(model, X, y):
        tried.append(model.guarantee_.epsilon)
        return correct(model, X, y)

    try:
        said = select_privately([network], X, labels, epsilon=2.0, row_scores=scores, account=account).guarantee.epsilon
    except SudareError:
        said = None
    if said is None:
        assert account.spent() == (0.0, 0.0)
    else:
        assert account.spent().epsilon == said >= 2 * (max(tried) + 0.5)


def test_publish_an_exact_maximum_through_a_scoring_function(account, tmp_path):
    _, ages = patients()

    def scores(model, X, y):
        model.mean_ = np.floor(X.max(axis=0) / model.grid_) * model.grid_
        return np.ones(len(X))

    def chosen():
        candidate = PrivateMean(bounds=(0, 200))
        return select_privately([candidate], ages[:, np.newaxis], epsilon=1.0, row_scores=scores, account=account).model

    assert not left_the_house(chosen, tmp_path / "oldest.sudare")


def one_record_stands_out(record):
    """Ages of 1,000 patients of which all but one are fifty."""
    ages = np.full((1000, 1), 50.0)
    ages[7] = record
    return ages


def old(model, X, y):
    """The older the better; a derived candidate is not to win."""
    return np.full(len(X), float(model.mean_[0] > 100 and type(model) is PrivateMean))


def refits_on_one_record(model, X, y):
    return old(model.set_params(epsilon=1e6).fit(X[7:8]), X, y)


def repeats_one_record(model, X, y):
    X[:] = X[7]
    return old(model, X, y)


class RepeatsOneRecord(PrivateMean):
    """A candidate that changes the table while it is fitted, and is never meant to win."""

    def fit(self, X, y=None):
        X[:] = X[7]
        return super().fit(X, y)


@pytest.mark.parametrize(
    ("scores", "candidate"),
    [
        (refits_on_one_record, PrivateMean),
        (repeats_one_record, PrivateMean),
        (old, RepeatsOneRecord),
    ],
    ids=["refits", "changes the table", "derived candidate"],
)
def test_publish_one_record_while_models_are_scored(account, tmp_path, monkeypatch, scores, candidate):
    """Row scores see the exact records and are called between the fits: nothing they do may reach a fit or its result."""
    monkeypatch.setattr("sudare.privacy.candidate_selection.logarithmic_draw", lambda parameter, noise: 40)

    def chosen():
        return select_privately(
            [PrivateMean(bounds=(0, 200)), candidate(bounds=(0, 200))],
            one_record_stands_out(150.0),
            epsilon=2.0,
            row_scores=scores,
            account=account,
        ).model

    path = tmp_path / "one.sudare"
    if left_the_house(chosen, path):
        # Noise of ε = 0.5 on 1,000 rows, of scale 0.4, does not move a mean of 50.1 as far.
        assert Release.load(path, trusted=[KEY.public_key()]).content.tensors["mean"] < 100


def test_publish_a_nearly_exact_mean_under_the_charge_of_another_thread(account, tmp_path, monkeypatch):
    """Two threads fit one model: the first pays for ε = 50 and is sealed with the charge that the second pays for ε = 0.01."""
    X, path, drawn = np.full((100, 1), 0.25), tmp_path / "mean.sudare", SystemNoise.infinity_norm
    model = PrivateMean(50.0, bounds=(0, 1), account=account)
    first_is_charged, second_is_charged = threading.Event(), threading.Event()
    first = threading.Thread(target=lambda: model.fit(X))

    def in_turns(self, values, scale):
        if threading.current_thread() is first:
            first_is_charged.set()
            second_is_charged.wait(60)
        else:
            second_is_charged.set()
            first.join(60)
            left_the_house(lambda: model, path)
        return drawn(self, values, scale)

    monkeypatch.setattr(SystemNoise, "infinity_norm", in_turns)
    first.start()
    assert first_is_charged.wait(60)
    with suppress(SudareError):
        PrivateMean.fit(model.set_params(epsilon=0.01), X)
    second_is_charged.set()
    first.join(60)
    assert not path.exists()


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(),
        PrivateLinearSVC(),
        PrivateRidge(),
        GibbsLogisticRegression(),
        GibbsRidge(),
        PrivateMLPClassifier(hidden_layer_sizes=(), bounds=(-1, 1), encoding="scaled", max_iter=1),
        PrivateMLPRegressor(hidden_layer_sizes=(), bounds=(-1, 1), encoding="scaled", max_iter=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_use_up_a_budget_for_what_can_never_leave(account, model):
    X, ages = patients()
    targets = ages if hasattr(model, "target_bounds") else np.arange(ROWS) % 2
    with pytest.raises(SudareError):
        Release.of(model.set_params(account=account).fit(X, targets))
    assert account.spent() == (0.0, 0.0)


UNUSABLE = [
    *((AnonymizingFirstClassifier, {"synthetic_rows": rows}) for rows in (-5, 0, 1.5, "x", 2**70)),
    (AnonymizingFirstClassifier, {"engine": "microaggregation", "groups": 1.5}),
    (LearningFirstClassifier, {"learning_rate": "x"}),
    (LearningFirstClassifier, {"limit": "x"}),
    (LearningFirstClassifier, {"batch_size": 2**70}),
    (AnonymizedLearningClassifier, {"threshold": [1]}),
    (AnonymizedLearningClassifier, {"epochs": None}),
    (AnonymizedLearningClassifier, {"learning_rate": 1e300}),
    (AnonymizedLearningClassifier, {"momentum": None}),
]


def test_use_up_a_budget_for_options_that_nothing_can_be_done_with(account):
    for estimator, options in UNUSABLE:
        model = estimator(
            (),
            epsilon=0.01,
            delta=0.0,
            bounds=(-1, 1),
            classes=[0, 1],
            encoding="scaled" if "engine" in options else "binned",
            accept_weak_guarantee=True,
            account=account,
            **options,
        )
        with pytest.raises(SudareError):
            model.fit(patients()[0], np.arange(ROWS) % 2)
        assert account.spent() == (0.0, 0.0)


def test_use_up_a_budget_for_parameters_that_run_away(account, tmp_path):
    """Descent whose steps were too long for the penalty ended in infinity, which no release can hold."""
    for place, (norm_bound, regularization, epsilon) in enumerate(
        itertools.product((2.0**-100, 1.0, 2.0**100), (1.0, 1e30), (1e-300, 1.0))
    ):
        model = PrivateLogisticRegression(
            epsilon, 1e-3, norm_bound=norm_bound, regularization=regularization, classes=[0, 1], account=account
        )
        before, X = account.spent(), patients()[0] * norm_bound
        if not left_the_house(lambda model=model, X=X: model.fit(X, np.arange(ROWS) % 2), tmp_path / f"{place}.sudare"):
            assert account.spent() == before


@pytest.mark.parametrize(
    "candidate",
    [
        RecordPerturbation(bounds=(-1, 1), epsilon=1.0),
        RecordPerturbation(bounds=(-1, 1), k=4),
        PrivateMean(),
        PrivateMean(bounds=(1, 0)),
    ],
    ids=["local", "local by k", "without bounds", "wrong bounds"],
)
def test_use_up_a_budget_for_a_selection_that_no_try_of_which_can_be_made(account, candidate):
    def scores(model, X, y):
        return np.ones(len(X))

    with pytest.raises(SudareError):
        select_privately([candidate], patients()[0], epsilon=1.0, row_scores=scores, account=account)
    assert account.spent() == (0.0, 0.0)


def test_use_up_a_budget_for_a_table_whose_rows_are_miscounted(account):
    """A table given as columns has as many rows as a column, not as many as there are columns."""
    X = {"age": patients()[1]}
    candidate = PrivateMean(schema=Schema({"age": Number(0, 120)}))
    try:
        model = select_privately(
            [candidate], X, epsilon=1.0, row_scores=lambda *_: np.ones(ROWS), account=account
        ).model
    except SudareError:
        model = None
    assert (model is None) == (account.spent() == (0.0, 0.0))


@pytest.mark.parametrize("changes", [{"parameters": np.zeros(3)}, {"rows": 1}], ids=["parameters", "rows"])
def test_publish_other_numbers_as_what_a_consortium_learned(tmp_path, changes):
    X, labels = patients()[0], np.arange(ROWS) % 2
    accounts = [Ledger(tmp_path / f"{name}.db").account("patients", epsilon=1.0) for name in "abc"]
    members = [(X[part::3], labels[part::3]) for part in range(3)]
    learned = consortium_model(members, classes=[0, 1], accounts=accounts, hide="nothing")
    forged = replace(learned.found[0], outcome=replace(learned.learned, **changes))
    assert not left_the_house(lambda: model_of(forged, accounts[0]), tmp_path / "forged.sudare")
    assert left_the_house(lambda: model_of(learned.found[0], accounts[0]), tmp_path / "honest.sudare")
