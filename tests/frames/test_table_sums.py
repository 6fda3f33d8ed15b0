"""Sums over tables that are read once: the same bits from every source and in batches of any size, all rows checked before a charge."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import sqlalchemy

from sudare import Ledger, PrivateHistogram, PrivateMean
from sudare.errors import DataError, MissingValue, UnknownCategory
from sudare.frames.sources import SqlSource
from sudare.frames.table_sums import MOST_COLUMN_GROUPS, column_groups, totals_by_columns
from sudare.privacy.column_sums import exact_scaled_sums, exact_sums, fixed_point_step
from sudare.schema import Category, Number, Person, Schema, encode
from sudare.statistics import GroupedTable

ROWS = 600
SCHEMA = Schema(
    {
        "age": Number(0, 100, bins=(18.0, 40.0, 65.0), missing="centre"),
        "days": Number(-1, 3.5, missing=0.1),
        "ward": Category(("a", "b", "c")),
    }
)
NUMBERS = Schema({name: column for name, column in SCHEMA.columns.items() if isinstance(column, Number)})
LEARNERS = {
    "mean": PrivateMean(schema=NUMBERS, random_state=3),
    "histogram": PrivateHistogram(schema=SCHEMA, random_state=3),
    "table": GroupedTable(schema=SCHEMA, by=["ward", "age"], mean_of=["days"], random_state=3),
}


def visits():
    """A table with gaps, and with values beyond the bounds."""
    random = np.random.default_rng(19)
    table = pd.DataFrame({"age": random.normal(50, 30, ROWS), "days": random.normal(1, 2, ROWS)})
    table["ward"] = random.choice(["a", "b", "c"], ROWS)
    table.loc[random.random(ROWS) < 0.05, "age"] = np.nan
    table.loc[random.random(ROWS) < 0.05, "days"] = np.nan
    return table


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """One table in memory, and in stores that tell and that do not tell how many rows they have."""
    folder, table = tmp_path_factory.mktemp("stores"), visits()
    parts = folder / "parts"
    parts.mkdir()
    for start, end in ((0, 211), (211, ROWS)):
        table[start:end].to_parquet(parts / f"{start:04d}.parquet", row_group_size=77)
    table.to_csv(folder / "table.csv", index=False)
    engine = sqlalchemy.create_engine(f"sqlite:///{folder / 'table.db'}")
    table.to_sql("visits", engine, index=False)
    engine.dispose()
    return table, [parts, folder / "table.csv", SqlSource(f"sqlite:///{folder / 'table.db'}", "visits")]


def in_batches(table, size):
    return (table[start : start + size] for start in range(0, len(table), size))


def released(model):
    """The bits of everything that leaves."""
    content = model.release_content()
    return content.parameters, {name: tensor.tobytes() for name, tensor in content.tensors.items()}


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_source_gives_the_same_bits_in_batches_of_any_size(stored, learner, monkeypatch):
    table, stores = stored
    model = LEARNERS[learner]
    expected, clipped = released(model.fit(table)), model.clipped_
    arrow = pa.Table.from_pandas(table)
    for source in (arrow, *stores, in_batches(table, 333), iter([arrow[:7], table[7:]])):
        assert released(model.fit(source)) == expected
        assert model.clipped_ == clipped
    for rows in (1, 64, 10_000):
        monkeypatch.setattr("sudare.frames.table_sums.MOST_BATCH_ROWS", rows)
        monkeypatch.setattr("sudare.frames.table_sums.FEWEST_BATCH_ROWS", 1)
        assert released(model.fit(stores[0])) == expected


def test_sums_of_columns_are_those_of_the_encoded_matrix(stored):
    table, _ = stored
    step = fixed_point_step(ROWS)
    encoded = encode(NUMBERS, table)
    found = exact_scaled_sums(NUMBERS, table, step)
    assert found.sums.tolist() == exact_sums(encoded.matrix, step).tolist()
    assert (found.rows, found.clipped) == (ROWS, encoded.clipped)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_bad_last_row_and_no_rows_are_found_before_the_charge(learner, tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=10.0)
    strict = Schema({**SCHEMA.columns, "days": Number(-1, 3.5)})
    model = type(LEARNERS[learner])(
        **{**LEARNERS[learner].get_params(), "schema": strict, "account": account, "random_state": None}
    )
    before, table = account.entries(), visits().assign(days=1.0)
    table[:0].to_parquet(tmp_path / "none.parquet")
    gap, unknown = table.copy(), table.copy()
    gap.loc[ROWS - 1, "days"], unknown.loc[ROWS - 1, "ward"] = np.nan, "d"
    problems = [(gap, MissingValue)] + [(unknown, UnknownCategory)] * (learner != "mean")
    for number, (bad, problem) in enumerate(problems):
        bad.to_parquet(tmp_path / f"{number}.parquet")
        for source in (bad, tmp_path / f"{number}.parquet", in_batches(bad, 400)):
            with pytest.raises(problem):
                model.fit(source)
    for source in (table[:0], tmp_path / "none.parquet", iter([])):
        with pytest.raises(DataError, match="no rows"):
            model.fit(source)
    assert account.entries() == before


@pytest.mark.parametrize("learner", LEARNERS)
def test_persons_are_counted_in_every_source(learner, tmp_path):
    table = visits()
    table["who"] = np.arange(ROWS) // 2
    model = LEARNERS[learner]
    for most_rows in (2, 1):
        persons = Schema(dict(model.schema.columns), Person("who", most_rows))
        bounded = type(model)(**{**model.get_params(), "schema": persons})
        table.to_parquet(tmp_path / "table.parquet")
        for source in (table, tmp_path / "table.parquet", in_batches(table, 100)):
            # Everybody has two rows; further ones than declared are left out.
            assert bounded.fit(source).n_rows_ == ROWS * most_rows // 2


def test_a_file_whose_rows_are_not_those_it_says_is_noticed(stored, monkeypatch):
    _, (parts, *_) = stored
    monkeypatch.setattr("sudare.statistics.mean.row_count", lambda source: ROWS + 1)
    with pytest.raises(DataError, match="another number of rows"):
        LEARNERS["mean"].fit(parts)


def test_columns_with_other_numbers_of_rows_are_noticed(stored, monkeypatch):
    """As where a file is replaced between two columns."""
    _, (parts, *_) = stored
    sizes = iter([3, 4])
    monkeypatch.setattr("sudare.frames.table_sums.total_over_tables", lambda *_: SimpleNamespace(rows=next(sizes)))
    with pytest.raises(DataError, match="another number of rows"):
        totals_by_columns(parts, exact_scaled_sums, NUMBERS)


def test_many_columns_are_read_in_few_groups():
    schema = Schema({f"x{place}": Number(0, 1) for place in range(100)}, Person("who", 2))
    groups = column_groups(schema)
    assert len(groups) <= MOST_COLUMN_GROUPS
    assert [name for group in groups for name in group.columns] == list(schema.columns)
    assert column_groups(Schema({"x": Number(0, 1)}, Person("who", 2)))[0].person is not None


MEASURED = """
import resource, sys
from sudare import PrivateHistogram, PrivateMean, Schema
from sudare.schema import Number
from sudare.statistics import GroupedTable
names = [f"x{place}" for place in range(10)]
schema = Schema({name: Number(0, 100, bins=(25.0, 50.0, 75.0)) for name in names})
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
PrivateMean(schema=schema, random_state=0).fit(sys.argv[1])
PrivateHistogram(schema=schema, random_state=0).fit(sys.argv[1])
GroupedTable(schema=schema, by=names[:2], mean_of=names[2:], random_state=0).fit(sys.argv[1])
print(peak() - before)
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_file(tmp_path):
    """A file of 240 MB, in one row group, is scanned three times within 64 MB beyond the imports."""
    random = np.random.default_rng(0)
    table = pa.table({f"x{place}": random.normal(50, 20, 3_000_000) for place in range(10)})
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet", row_group_size=len(table))
    made = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path / "table.parquet")], capture_output=True, text=True, check=True
    )
    assert float(made.stdout) < 64
