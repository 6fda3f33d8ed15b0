"""What an onlooker wants to read from a refusal: whether a fit that was paid for ends in an error depends on one person's record.

Neighbouring tables must have the same outcome: refused before the charge, with the same words, or not at all.
"""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import SchemaError
from sudare.gibbs import GibbsLogisticRegression, GibbsPosterior
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.privacy import Ledger
from sudare.schema import Category, Number, Schema
from sudare.statistics import GroupedTable
from tests.gibbs.sharp_loss import sharp, sharp_slope
from tests.guarantees.fit_outcomes import flipped, outcome


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=1e6, delta=0.1)


def patients(seed=6, rows=40, columns=7):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, columns))
    return X, (X[:, 0] + random.normal(size=rows) * 0.3 > 0).astype(int)


def test_have_a_table_charged_whose_sums_no_float_holds(account):
    """It was charged, and then ended with an error, unless it had no rows."""
    schema = Schema({"v": Number(0, 5e-324), "g": Category(("a", "b"))})
    for asked in ({"mean_of": ["v"]}, {"variance_of": ["v"]}):
        with pytest.raises(SchemaError, match="2⁻⁹⁰⁰"):
            GroupedTable(1.0, schema=schema, by=["g"], account=account, **asked).fit({"v": [0.0], "g": ["a"]})
    assert account.spent().epsilon == 0


def test_read_one_persons_label_from_whether_the_solver_failed(account):
    """At 8519a7a the first table is refused always, and its neighbour never: a distinguisher that is never wrong."""
    X, y = patients()
    model = PrivateLinearSVC(method="output", smoothing=0.01, regularization=1e-6, classes=[0, 1])
    seen = [outcome(model, account, X, labels) for labels in (y, flipped(y, 2))]
    assert seen == [("fitted", "", 1)] * 2


@pytest.mark.parametrize("method", ["objective", "output"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(classes=[0, 1], regularization=0.01),
        PrivateLinearSVC(classes=[0, 1], smoothing=0.05, regularization=0.01),
        PrivateRidge(target_bounds=(0, 1), residual_cap=0.1, regularization=0.01),
    ],
    ids=lambda model: type(model).__name__,
)
def test_make_newtons_method_fail_after_the_charge(model, method, delta, account, monkeypatch):
    """Whatever makes Newton's steps fail, nothing is refused that was paid for."""
    monkeypatch.setattr("sudare.linear.solvers._MOST_STEPS", 0)
    X, y = patients()
    assert outcome(model.set_params(method=method, delta=delta), account, X, y) == ("fitted", "", 1)


def test_make_the_mode_of_a_posterior_fail_after_the_charge(account, monkeypatch):
    monkeypatch.setattr("sudare.linear.solvers._MOST_STEPS", 0)
    X, y = patients()
    assert outcome(GibbsLogisticRegression(classes=[0, 1]), account, X, y) == ("fitted", "", 1)


def test_read_one_record_from_a_sampler_that_gave_up(account):
    """A loss of one's own that is hard to sample only if one person's record is as suspected."""
    pair = np.full((3, 1), -0.5), np.array([[-0.5], [-0.5], [0.5]])
    model = GibbsPosterior(sharp, sharp_slope, dimension=30, epsilon=200.0, regularization=0.1)
    seen = [outcome(model, account, X) for X in pair]
    assert seen[0] == seen[1]
    assert seen[0][2] == (seen[0][0] == "fitted")


def test_read_one_label_from_an_exact_sampler_that_does_not_try(account):
    """Rejection seemed hopeless for one of two neighbours only: refused always or never, after the charge."""
    X, y = patients(0, 200, 12)
    model = GibbsLogisticRegression(5.0, 1e-5, classes=[0, 1], sampler="exact", regularization=0.00097)
    seen = [outcome(model, account, X, labels) for labels in (y, flipped(y, 79))]
    assert seen[0] == seen[1]
    assert seen[0][2] == (seen[0][0] == "fitted")
