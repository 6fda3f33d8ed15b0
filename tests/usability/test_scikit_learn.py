"""The first learners among scikit-learn's own tools: its checks hold, and every private fit is counted exactly once."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sudare.errors import BudgetExceeded, NotReleasable
from sudare.privacy import Ledger, Release
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from tests.release_kit import LEARNERS, SCHEMA, matrix, refused, table


@parametrize_with_checks([learner(bounds=(-10, 10)) for learner in LEARNERS])
def test_scikit_learn_checks(estimator, check, monkeypatch):
    """None is expected to fail, and none to be skipped: one looks for this variable."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with warnings.catch_warnings():
        # One check gives a column vector on purpose to see whether it is warned about; ours have no use for y.
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=100.0)


def charges(account) -> list[float]:
    return [entry.body["guarantee"]["epsilon"] for entry in account.entries() if entry.kind == "charge"]


@pytest.mark.parametrize("learner", LEARNERS)
def test_cross_validation_is_charged_for_every_fold(learner, account):
    model = learner(0.5, bounds=(-1, 3), account=account)
    scores = cross_val_score(model, matrix(), cv=5, error_score="raise")
    assert len(scores) == 5
    assert np.isfinite(scores).all()
    assert charges(account) == [0.5] * 5
    assert account.spent().epsilon == 2.5


def fit_once(model) -> float:
    return model.fit(matrix()).guarantee_.epsilon


def test_fits_in_workers_are_charged(account):
    """Two parameters, three folds, and the refit: seven fits in processes of their own; then four by hand."""
    grid = {"epsilon": [0.25, 0.5]}
    search = GridSearchCV(PrivateHistogram(bounds=(-1, 3), account=account), grid, cv=3, n_jobs=2, error_score="raise")
    with joblib.parallel_backend("loky", n_jobs=2):
        search.fit(matrix())
    assert sorted(charges(account)[:6]) == [0.25] * 3 + [0.5] * 3
    assert len(charges(account)) == len(grid["epsilon"]) * 3 + 1
    assert charges(account)[6] == search.best_params_["epsilon"]
    account.ledger.verify()
    with refused(NotReleasable, "A GridSearchCV can never be released."):
        Release.of(search)
    model = PrivateMean(0.75, bounds=(-1, 3), account=account)
    done = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(fit_once)(model) for _ in range(4))
    assert done == [0.75] * 4
    assert charges(account)[7:] == [0.75] * 4


def test_forked_processes(account):
    model = PrivateMean(0.5, bounds=(-1, 3), account=account).fit(matrix())
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        # Of threads that other tests started; the children use none of them.
        warnings.filterwarnings("ignore", r".*\bfork\(\)")
        processes = [context.Process(target=fit_once, args=(model,)) for _ in range(3)]
        for process in processes:
            process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert charges(account) == [0.5] * 4
    account.ledger.verify()


@pytest.mark.parametrize("learner", LEARNERS)
def test_copies_charge_the_same_account(learner, account):
    model = learner(0.5, bounds=(-1, 3), account=account)
    copies = [clone(model), copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    assert charges(account) == []
    for number, copied in enumerate(copies, start=1):
        copied.fit(matrix())
        assert charges(account) == [0.5] * number
    copies[0].fit(matrix())
    assert charges(account) == [0.5] * 5
    assert account.spent().epsilon == 2.5
    copies[0].score(matrix())
    Release.of(copies[0])
    assert [entry.kind for entry in account.entries()] == ["open", *["charge", "result"] * 5]


def test_fitted_copies_are_not_charged_again(account):
    model = PrivateMean(0.5, bounds=(-1, 3), account=account).fit(matrix())
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied.receipt_ == model.receipt_
    assert charges(account) == [0.5]


def test_cross_validation_stops_where_the_budget_does(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("small", epsilon=1.5)
    with pytest.raises(BudgetExceeded):
        cross_val_score(PrivateMean(0.5, bounds=(-1, 3), account=account), matrix(), cv=5, error_score="raise")
    assert charges(account) == [0.5] * 3


def test_scaler_in_a_pipeline(account):
    """Charged with the pipeline, and the bounds of what comes out are public."""
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 2))
    labels = features[:, 0] > 0
    scaler = PrivateStandardScaler(5.0, bounds=(-5, 5), account=account)
    pipeline = make_pipeline(scaler, LogisticRegression()).fit(features, labels)
    assert charges(account) == [5.0]
    assert pipeline.score(features, labels) > 0.8
    with refused(NotReleasable, "A Pipeline can never be released."):
        Release.of(pipeline)
    assert Release.of(pipeline[0]).receipt == pipeline[0].receipt_


def test_frames_go_in_and_come_out(account):
    scaler = PrivateStandardScaler(schema=SCHEMA, account=account).set_output(transform="pandas")
    frame = scaler.fit_transform(table())
    assert list(frame.columns) == ["age", "bmi"]
    assert charges(account) == [1.0]
