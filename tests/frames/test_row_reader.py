"""Rows of any source: counted and checked once, in the same blocks at every pass; what comes once is kept, in memory or an unnamed file."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import sqlalchemy
from sklearn.base import clone

from sudare.errors import DataError, InvalidParameter, MissingValue, PersonRowsExceeded
from sudare.frames import row_reader as reader
from sudare.frames import row_spool as spool
from sudare.frames import sources
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import BLOCK_ROWS
from sudare.frames.sources import SqlSource
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.privacy import Ledger
from sudare.schema import Category, Label, Number, Person, Schema, as_table

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


def arrays_of(table):
    """The ages and who smokes; a gap is refused."""
    named = as_table(table, ["age", "smoker"])
    ages = named["age"]
    if np.isnan(ages).any():
        raise MissingValue("A gap.", "Fill it.")
    return ages[:, np.newaxis], named["smoker"] == "yes"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """One table in memory and in all kinds of stores."""
    folder, table = tmp_path_factory.mktemp("stores"), patients(2500)
    parts = folder / "parts"
    parts.mkdir()
    for start, end in ((0, 1111), (1111, 2500)):
        table[start:end].to_parquet(parts / f"{start:04d}.parquet", row_group_size=77)
    table.to_csv(folder / "table.csv", index=False)
    engine = sqlalchemy.create_engine(f"sqlite:///{folder / 'table.db'}")
    table.to_sql("patients", engine, index=False)
    engine.dispose()
    return table, [parts, str(folder / "table.csv"), SqlSource(f"sqlite:///{folder / 'table.db'}", "patients")]


def test_every_source_gives_the_same_blocks_at_every_pass(stored, no_room):
    table, sources = stored
    expected = checked_rows(table, arrays_of, SCHEMA)
    assert (expected.count, expected.width) == (2500, 1)
    for source, read_once in [*itertools.product(sources, [False, True]), (in_batches(table, 333), False)]:
        rows = checked_rows(source, arrays_of, SCHEMA, batch_rows=200, read_once=read_once)
        assert (rows.count, rows.width) == (2500, 1)
        for _ in range(2):
            for ours, theirs in zip(rows.blocks(), expected.blocks(), strict=True):
                np.testing.assert_array_equal(ours[0], theirs[0])
                np.testing.assert_array_equal(ours[1], theirs[1])
        np.testing.assert_array_equal(rows.together()[0], table[["age"]])


def test_all_rows_are_looked_at_first(tmp_path):
    """What is wrong with the last row is said before anybody has seen the first."""
    table = patients(300)
    table.loc[299, "age"] = np.nan
    table.to_parquet(tmp_path / "gap.parquet")
    for source in (table, tmp_path / "gap.parquet", in_batches(table, 100)):
        with pytest.raises(MissingValue):
            checked_rows(source, arrays_of, SCHEMA)
    table[:0].to_parquet(tmp_path / "none.parquet")
    for source in (table[:0], tmp_path / "none.parquet", iter([]), iter([table[:0]])):
        with pytest.raises(DataError, match="no rows"):
            checked_rows(source, arrays_of, SCHEMA)


@pytest.mark.parametrize("rows_now", [299, 300, 301, 0])
def test_a_source_that_changes_between_passes_is_noticed(tmp_path, rows_now):
    path = tmp_path / "table.parquet"
    patients(300).to_parquet(path)
    rows = checked_rows(path, arrays_of, SCHEMA)
    patients(rows_now).to_parquet(path)
    with pytest.raises(DataError, match=r"was changed while it was read.* What was charged stays charged"):
        rows.together()
    with pytest.raises(DataError, match="was changed while it was read"):
        list(rows.blocks(100))


def test_a_source_that_changes_while_it_is_checked_is_refused(tmp_path):
    path = tmp_path / "table.parquet"
    patients(300).to_parquet(path)

    def arrays_of_changing(table):
        patients(300).to_parquet(path)
        return arrays_of(table)

    with pytest.raises(DataError, match=r"was changed while it was read.*meanwhile.$"):
        checked_rows(path, arrays_of_changing, SCHEMA)


def test_persons_are_counted_in_every_source(tmp_path):
    table = patients(40)
    # As numbers 07 and 7 would be one person.
    table["who"] = [f"0{row - 1}" if row % 2 else str(row) for row in range(40)]
    persons = Schema(dict(SCHEMA.columns), Person("who", 1))
    table.to_csv(tmp_path / "table.csv", index=False)
    for source in (table, tmp_path / "table.csv", in_batches(table, 7)):
        assert checked_rows(source, arrays_of, persons).count == 40
    table.loc[39, "who"] = "0"
    table.to_csv(tmp_path / "table.csv", index=False)
    for source, read_once in ((table, False), (tmp_path / "table.csv", False), (tmp_path / "table.csv", True)):
        with pytest.raises(PersonRowsExceeded):
            checked_rows(source, arrays_of, persons, read_once=read_once)
    with pytest.raises(PersonRowsExceeded):
        checked_rows(in_batches(table, 7), arrays_of, persons)


@pytest.mark.parametrize(("method", "delta"), [("objective", 0.0), ("output", 1e-6), ("mean", 0.0), ("descent", 1e-6)])
def test_spooled_batches_give_the_same_model_as_memory(no_room, method, delta):
    table = patients(2 * BLOCK_ROWS + 77)
    lean = PrivateLogisticRegression(1.0, delta, schema=SCHEMA, method=method, random_state=3)
    spooled = clone(lean).fit(in_batches(table, 333))
    np.testing.assert_array_equal(clone(lean).fit(table).parameters_, spooled.parameters_)


@pytest.mark.parametrize("encoding", ["centred", "binned"])
def test_rows_of_a_file_are_kept_between_passes_where_there_is_room(tmp_path, monkeypatch, encoding):
    """Kept in memory, in a file, or read anew because they are too many or the disk is full: the same model."""
    binned = {**SCHEMA.columns, "age": Number(0, 100, bins=(30.0, 50.0, 70.0))}
    table, path = patients(BLOCK_ROWS + 77), tmp_path / "table.parquet"
    table.to_parquet(path)
    lean = PrivateLogisticRegression(1.0, 1e-6, schema=Schema(binned), encoding=encoding, random_state=3)
    expected = clone(lean).fit(table).parameters_.tolist()
    asked = []

    def counting(*arguments):
        asked.append(arguments[0])
        return sources.batches(*arguments)

    monkeypatch.setattr(reader, "batches", counting)
    many_times = {}
    for name, settings in {
        "memory": {},
        "file": {"row_spool.SPOOL_ABOVE_BYTES": 0},
        "too many": {"row_reader.MOST_KEPT_BYTES": 1000},
        "full": {
            "row_spool.SPOOL_ABOVE_BYTES": 0,
            "row_spool.tempfile.TemporaryFile": lambda prefix: open("/dev/full", "wb"),  # noqa: SIM115
        },
    }.items():
        with monkeypatch.context() as patch:
            for setting, value in settings.items():
                patch.setattr(f"sudare.frames.{setting}", value)
            asked.clear()
            assert clone(lean).fit(path).parameters_.tolist() == expected
            many_times[name] = len(asked) > 1
    assert many_times == {"memory": False, "file": False, "too many": True, "full": True}


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
    # What is imported and compiled for a first fit is not counted.
    clone(model).fit(itertools.islice(batches(), 2))
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
    cut = clone(lean).fit(table)
    assert (cut.n_rows_, cut.cut_rows_) == (27, 13)
    np.testing.assert_array_equal(cut.coef_, clone(lean).fit(in_batches(table, 7)).coef_)


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
