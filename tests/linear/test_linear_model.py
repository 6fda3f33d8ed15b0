"""Bad and odd input to every private linear model and method: one path, one answer, and nothing that depends on private values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sudare.errors import SudareError
from sudare.frames.rows import Rows
from sudare.linear import PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from sudare.linear.losses import CappedSquares, Logistic, SmoothedHinge
from sudare.linear.rows import bounded_rows
from sudare.linear.solvers import Objective, minimised
from sudare.privacy import Ledger

MODELS = [PrivateLogisticRegression, PrivateLinearSVC, PrivateRidge]
METHODS = [("objective", 0.0), ("objective", 1e-6), ("output", 0.0), ("output", 1e-6), ("mean", 0.0), ("descent", 1e-6)]

models = st.sampled_from(MODELS)
methods = st.sampled_from(METHODS)
# Every finite float, with those that overflow when squared or vanish when divided drawn often.
entries = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 1e-308, 5e-324, 1e154, 1e8]),
)
tables = st.tuples(st.integers(1, 9), st.integers(1, 12)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=entries)
)


def model_of(kind, method="auto", delta=0.0, **options):
    declared = {"target_bounds": (-1, 1)} if kind is PrivateRidge else {"classes": [-1, 1]}
    return kind(1.0, delta, method=method, norm_bound=1.0, **declared, **options)


def parameters(fitted):
    return np.concatenate([np.ravel(fitted.coef_), np.ravel(fitted.intercept_)])


@settings(max_examples=60)
@given(models, methods, tables, st.data())
def test_any_finite_table_gives_a_finite_model(kind, method, table, data):
    """One row, one class, more columns than rows, constant columns, rows beyond the norm, entries of 1e308."""
    targets = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(table), max_size=len(table)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = model_of(kind, *method, random_state=0).fit(table, targets)
    assert np.all(np.isfinite(parameters(fitted)))
    assert np.all(np.isfinite(fitted.predict(np.zeros((2, table.shape[1])))))
    assert np.all(np.isfinite(fitted.predict(np.ones((2, table.shape[1])))))


@settings(max_examples=30)
@given(models, methods, tables, st.integers(0, 10**6))
def test_rows_beyond_the_norm_count_as_rows_on_it(kind, method, table, seed):
    """A row as long as one likes has the same effect as the row of norm one in its direction."""
    targets = np.where(np.random.default_rng(seed).random(len(table)) < 0.5, -1, 1)
    bounded = bounded_rows(table, 1.0)[0]
    first = model_of(kind, *method, random_state=seed).fit(table, targets)
    second = model_of(kind, *method, random_state=seed).fit(bounded, targets)
    np.testing.assert_array_equal(parameters(first), parameters(second))
    assert second.clipped_rows_ == 0


@settings(max_examples=25)
@given(models, methods, tables, tables)
def test_public_numbers_are_those_of_any_table_of_that_size(kind, method, one, other):
    rows, width = max(len(one), len(other)), max(one.shape[1], other.shape[1])
    fits = []
    for table, target in ((one, 1), (other, -1)):
        grown = np.zeros((rows, width))
        grown[: len(table), : table.shape[1]] = table
        fits.append(model_of(kind, *method).fit(grown, np.full(rows, target)))
    for name in ("method_", "penalty_", "grid_", "noise_scale_", "n_rows_", "n_features_in_", "guarantee_"):
        assert getattr(fits[0], name) == getattr(fits[1], name)


BAD_TABLES = {
    "NaN": lambda rows: np.where(np.eye(*rows.shape) > 0, np.nan, rows),
    "infinity": lambda rows: np.where(np.eye(*rows.shape) > 0, np.inf, rows),
    "minus infinity": lambda rows: np.where(np.eye(*rows.shape) > 0, -np.inf, rows),
    "no rows": lambda rows: rows[:0],
    "no columns": lambda rows: rows[:, :0],
    "text": lambda rows: np.full(rows.shape, "one"),
    "complex numbers": lambda rows: rows + 1j,
    "one dimension": lambda rows: rows[0],
    "three dimensions": lambda rows: rows[np.newaxis],
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("bad", BAD_TABLES)
def test_refusals_say_the_same_whatever_the_values_and_charge_nothing(tmp_path, kind, bad):
    """Two very different private tables with the same fault: one message, and no number of either in it."""
    account = Ledger(tmp_path / "ledger.db").account("patients", epsilon=10.0, delta=1e-3)
    random = np.random.default_rng(0)
    messages = []
    for table in (random.normal(size=(6, 3)), 12345.678 * random.normal(size=(6, 3))):
        broken = BAD_TABLES[bad](table)
        with pytest.raises((ValueError, TypeError)) as caught:
            model_of(kind, account=account).fit(broken, np.tile([-1, 1], 3)[: len(broken)])
        assert isinstance(caught.value, SudareError)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert account.spent().epsilon == 0


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
@pytest.mark.parametrize(
    "labels",
    [[-1, 1, 777, 1], [0.53125, 1, -1, 1], ["zebra", "b", "a", "b"], [[-1, 1]] * 4, [None] * 4, [-1, 1]],
    ids=["a third class", "a fraction", "text", "two columns", "missing", "too few"],
)
def test_undeclared_labels_are_refused_without_naming_them(tmp_path, kind, labels):
    account = Ledger(tmp_path / "ledger.db").account("patients", epsilon=10.0, delta=1e-3)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 — several messages, some in the words of scikit-learn
        model_of(kind, account=account).fit(np.zeros((4, 2)), labels)
    assert account.spent().epsilon == 0
    assert not any(value in str(caught.value) for value in ("777", "0.53", "zebra"))


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("only", [-1, 1])
def test_a_table_of_one_class_is_an_ordinary_table(kind, method, only):
    fitted = model_of(kind, *method, random_state=0).fit(np.eye(4), np.full(4, only))
    assert list(fitted.classes_) == [-1, 1]
    assert fitted.guarantee_.epsilon == 1.0


@settings(max_examples=60)
@given(
    st.sampled_from([Logistic(), SmoothedHinge(0.5), SmoothedHinge(1e-3), CappedSquares(1.0), CappedSquares(0.01)]),
    st.sampled_from([2, 60, 1_000, 8_000]),
    st.floats(-2, 3),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_no_table_defeats_the_solver(loss, rows, exponent, alike, seed):
    """Refusing to certify would tell something about the table: separable ones, and rows that are all alike, included."""
    random = np.random.default_rng(seed)
    table = np.tile([[0.6, 0.0, 0.5], [0.0, 0.6, 0.5]], (rows // 2, 1)) if alike else random.normal(size=(rows, 3))
    targets = np.where(np.arange(rows) % 2, 1.0, -1.0) if alike else np.sign(table @ np.array([1.0, 1.0, 0.0]))
    held = Rows.held(bounded_rows(table, 1.0)[0], targets[:, np.newaxis])
    found = minimised(Objective(held, loss, 10.0**exponent, np.zeros(3), 1.0), 1e-3)
    assert found.gradient_bound <= 1e-3
