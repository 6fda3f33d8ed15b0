"""Rows that come only once: kept in memory or in an unnamed file, the same model to the bit, and no more memory than said."""

from __future__ import annotations

import itertools
import os
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from sudare.errors import DataError, InvalidParameter, PersonRowsExceeded
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.linear import row_spool as spool
from sudare.linear.row_spool import Spool
from sudare.linear.rows import BLOCK_ROWS, HeldRows
from sudare.privacy import Ledger
from sudare.schema import Category, Label, Number, Person, Schema

SCHEMA = Schema({"age": Number(0, 100), "smoker": Category(("no", "yes")), "ill": Label(("no", "yes"))})


def patients(rows, seed=0):
    random = np.random.default_rng(seed)
    age, smoker = random.uniform(0, 100, rows), random.random(rows) < 0.4
    ill = age + 40 * smoker + 10 * random.normal(size=rows) > 70
    return pd.DataFrame({"age": age, "smoker": np.where(smoker, "yes", "no"), "ill": np.where(ill, "yes", "no")})


def in_batches(table, size):
    return (table[start : start + size] for start in range(0, len(table), size))


@pytest.fixture
def no_room(monkeypatch):
    """Everything goes to files."""
    monkeypatch.setattr(spool, "SPOOL_ABOVE_BYTES", 0)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.sampled_from([0, 500, 2000, 10**9]),
    st.booleans(),
    st.integers(1, 3),
)
def test_what_comes_out_is_what_went_in(sizes, room, targets_last, outputs):
    total = sum(sizes)
    matrix = np.random.default_rng(total).normal(size=(total, 3))
    targets = np.arange(float(total * outputs)).reshape(total, outputs)
    edges = np.cumsum([0, *sizes])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "SPOOL_ABOVE_BYTES", room)
        kept = Spool()
        for start, end in itertools.pairwise(edges):
            # A view with gaps between its rows, as a column of a wider table is.
            kept.append_rows(np.repeat(matrix[start:end], 2, axis=0)[::2])
            if not targets_last:
                kept.append_targets(targets[start:end])
        if targets_last:
            kept.append_targets(targets)
        rows = kept.collected()
    assert kept.count == rows.count == total
    assert isinstance(rows, HeldRows)
    np.testing.assert_array_equal(rows.matrix, matrix)
    np.testing.assert_array_equal(rows.targets, targets)


def test_files_have_no_name_and_end_with_the_rows(no_room, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = Spool()
    kept.append_rows(np.ones((100, 5)))
    kept.append_targets(np.ones((100, 1)))
    assert list(tmp_path.iterdir()) == []
    opened = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert any(path.startswith(str(tmp_path)) for path in opened)
    rows = kept.collected()
    del kept
    assert rows.matrix.sum() == 500
    del rows
    opened = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert not any(path.startswith(str(tmp_path)) for path in opened)


@pytest.mark.parametrize(("method", "delta"), [("objective", 0.0), ("output", 1e-6), ("mean", 0.0), ("descent", 1e-6)])
def test_spooled_batches_give_the_same_model_as_memory(no_room, method, delta):
    table = patients(2 * BLOCK_ROWS + 77)
    lean = PrivateLogisticRegression(1.0, delta, schema=SCHEMA, method=method, random_state=3)
    spooled = clone(lean).fit(in_batches(table, 333))
    np.testing.assert_array_equal(clone(lean).fit(table).parameters_, spooled.parameters_)


@pytest.mark.parametrize("classes", [None, [0, 1, 2]])
def test_spooled_pairs_give_the_same_model_as_memory(no_room, classes):
    random = np.random.default_rng(0)
    X, y = 2 * random.normal(size=(1500, 3)), random.integers(0, 3, 1500)
    lean = PrivateLogisticRegression(1.0, 1e-6, classes=classes, random_state=0)
    whole, spooled = clone(lean).fit(X, y), clone(lean).fit(zip(in_batches(X, 400), in_batches(y, 400), strict=True))
    np.testing.assert_array_equal(whole.parameters_, spooled.parameters_)
    assert whole.clipped_rows_ == spooled.clipped_rows_ > 0
    assert list(spooled.classes_) == [0, 1, 2]
    assert spooled.n_features_in_ == 3


@pytest.mark.parametrize("bounds", [None, (-3.0, 3.0)])
def test_targets_of_pairs_are_learned_from_all_of_them_or_declared(bounds):
    random = np.random.default_rng(1)
    X, y = random.normal(size=(900, 2)), random.uniform(-2, 5, 900)
    lean = PrivateRidge(1.0, target_bounds=bounds, random_state=0)
    whole, pairs = clone(lean).fit(X, y), clone(lean).fit(zip(in_batches(X, 100), in_batches(y, 100), strict=True))
    assert whole.target_bounds_ == pairs.target_bounds_
    np.testing.assert_array_equal(whole.parameters_, pairs.parameters_)


def test_memory_is_bounded_however_long_the_iterator(monkeypatch):
    """10 MB of encoded rows pass through; what numpy and Python hold at once stays below a quarter of that.

    About 1.4 MB were seen: some batches on their way, and what is held until the first is written. In memory it is 21 MB.
    """
    monkeypatch.setattr(spool, "SPOOL_ABOVE_BYTES", 2**18)
    schema = Schema({**{f"x{index}": Number(0, 1) for index in range(20)}, "ill": Label((0, 1))})
    random = np.random.default_rng(0)

    def batches():
        for _ in range(60):
            values = random.random((1000, 20))
            yield pd.DataFrame({f"x{i}": values[:, i] for i in range(20)} | {"ill": (values[:, 0] > 0.5).astype(int)})

    model = PrivateLogisticRegression(1.0, schema=schema, method="mean", random_state=0)
    tracemalloc.start()
    try:
        model.fit(batches())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.n_rows_ == 60_000
    assert peak < 2.5e6


def test_a_full_disk_is_told_before_anything_is_charged(no_room, tmp_path, monkeypatch):
    account = Ledger(tmp_path / "ledger.db").account("patients", epsilon=10.0)
    monkeypatch.setattr(spool.tempfile, "TemporaryFile", lambda prefix: open("/dev/full", "wb"))  # noqa: SIM115
    with pytest.raises(DataError, match="No space left on device"):
        PrivateLogisticRegression(1.0, schema=SCHEMA, account=account).fit(in_batches(patients(500), 100))
    assert account.spent().epsilon == 0


def test_persons_are_counted_across_batches(no_room):
    table = patients(40)
    table["who"] = np.arange(40) // 2
    persons = Schema(dict(SCHEMA.columns), Person("who", 2))
    lean = PrivateLogisticRegression(1.0, schema=persons, random_state=0)
    np.testing.assert_array_equal(clone(lean).fit(table).coef_, clone(lean).fit(in_batches(table, 7)).coef_)
    table["who"] = np.arange(40) // 3
    with pytest.raises(PersonRowsExceeded):
        clone(lean).fit(in_batches(table, 7))


def test_iterators_that_cannot_be_read_charge_nothing(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("patients", epsilon=10.0)
    by_schema = PrivateLogisticRegression(1.0, schema=SCHEMA, account=account)
    by_arrays = PrivateLogisticRegression(1.0, classes=[0, 1], account=account)
    X, y = np.zeros((5, 2)), np.zeros(5, dtype=int)
    with pytest.raises(DataError, match="no rows"):
        by_schema.fit(iter([]))
    with pytest.raises(InvalidParameter, match="y was given"):
        by_schema.fit(iter([patients(5)]), y)
    for pairs in ([], [X], [(X, y, y)], [(X, y), X]):
        with pytest.raises(DataError, match="pairs"):
            by_arrays.fit(iter(pairs))
    with pytest.raises(DataError, match="pairs"):
        by_arrays.fit(iter([(X, y)]), y)
    with pytest.raises(DataError, match="inconsistent"):
        by_arrays.fit(iter([(X, y[:3])]))
    with pytest.raises(DataError, match="features"):
        by_arrays.fit(iter([(X, y), (np.zeros((5, 3)), y)]))
    with pytest.raises(DataError, match="declared classes"):
        by_arrays.fit(iter([(X, y), (X, y + 7)]))
    assert account.spent().epsilon == 0
