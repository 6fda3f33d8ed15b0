"""Sums over Spark dataframes: with a stand-in for their iterator protocol, and with Spark itself where it is installed."""

from __future__ import annotations

import io
import os
import pickle
import shutil

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from sudare.errors import ClusterFailed, ColumnMissing, DataError, InvalidParameter, UnknownCategory
from sudare.frames import spark_sums
from sudare.frames.spark_sums import is_spark, total_on_spark
from sudare.linear import PrivateRidge
from sudare.schema import Category, Number, Person, Schema
from sudare.statistics import GroupedTable, PrivateHistogram, PrivateMean, PrivateStandardScaler

SCHEMA = Schema({"age": Number(0, 110), "sex": Category(("f", "m"))})
TABLE = pa.table({"age": np.arange(1000.0) % 100, "sex": ["f", "m"] * 500, "other": range(1000)})


class Frame:
    """What `mapInArrow` does: a pickled function gets an iterator of batches for each partition, and gives batches."""

    def __init__(self, table, partitions=3):
        self.table, self.partitions, self.columns = table, partitions, table.column_names

    def select(self, *names):
        return Frame(self.table.select(names), self.partitions)

    def mapInArrow(self, function, schema):
        assert schema == "part binary"
        sent = cloudpickle.dumps(function)
        size = -(-len(self.table) // self.partitions) or 1
        found = []
        for start in range(0, size * self.partitions, size):
            batches = self.table.slice(start, size).to_batches(max_chunksize=100)
            found += [row for batch in cloudpickle.loads(sent)(iter(batches)) for row in batch.to_pylist()]
        return Collected([(row["part"],) for row in found])


class Collected:
    def __init__(self, rows):
        self.rows = rows

    def collect(self):
        return self.rows


def count_of(table):
    assert table.names == ("age", "sex")
    return np.array([table.rows, int(table["age"].sum())])


def unknown(table):
    raise UnknownCategory("Column 'sex' holds a value that the schema does not list.", "List it.")


def failing(table):
    raise ValueError("the private value 4711")


@pytest.mark.parametrize("partitions", [1, 3, 1000])
def test_executors_add_up_their_partitions(partitions):
    frame = Frame(TABLE, partitions)
    assert is_spark(frame)
    assert not is_spark(TABLE)
    assert total_on_spark(frame, count_of, SCHEMA).tolist() == [1000, int(TABLE["age"].to_numpy().sum())]


def test_errors_are_ours_and_show_nothing():
    with pytest.raises(UnknownCategory, match="does not list"):
        total_on_spark(Frame(TABLE), unknown, SCHEMA)
    with pytest.raises(ClusterFailed, match=r"A worker failed \(ValueError\)") as caught:
        total_on_spark(Frame(TABLE), failing, SCHEMA)
    assert "4711" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(DataError, match="no rows"):
        total_on_spark(Frame(TABLE.slice(0, 0)), count_of, SCHEMA)
    with pytest.raises(ColumnMissing):
        total_on_spark(Frame(TABLE.select(["other"])), count_of, SCHEMA)
    with pytest.raises(InvalidParameter, match="persons"):
        total_on_spark(Frame(TABLE), count_of, Schema(dict(SCHEMA.columns), person=Person("other", 2)))


def test_what_spark_says_is_not_passed_on(monkeypatch):
    def collect(self):
        raise RuntimeError("a row of 4711")

    monkeypatch.setattr(Collected, "collect", collect)
    with pytest.raises(ClusterFailed, match="Spark could not") as caught:
        total_on_spark(Frame(TABLE), count_of, SCHEMA)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "learner",
    [
        PrivateMean(1.0, schema=SCHEMA, random_state=0),
        PrivateHistogram(1.0, schema=SCHEMA, random_state=0),
        PrivateStandardScaler(1.0, schema=SCHEMA, random_state=0),
        GroupedTable(1.0, schema=SCHEMA, by=["sex"], mean_of=["age"], random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_statistics_take_a_spark_dataframe(learner):
    here, there = clone(learner).fit(TABLE), clone(learner).fit(Frame(TABLE))
    assert there.release_content() == here.release_content()
    assert there.clipped_ == here.clipped_


def test_models_want_rows_in_their_order():
    schema = Schema({**SCHEMA.columns, "other": Number(0, 1000)}, target="other")
    with pytest.raises(InvalidParameter, match="no fixed order"):
        PrivateRidge(1.0, schema=schema).fit(Frame(TABLE))


@pytest.mark.long
@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
def test_spark_itself():
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")

    # Executors do not see the folder of the tests: this is sent as it stands here.
    def sums(table):
        return [table.rows, int(table["age"].sum())]

    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.createDataFrame(TABLE.to_pandas()).repartition(3)
        found = np.array(total_on_spark(frame, sums, SCHEMA)).reshape(-1, 2).sum(axis=0)
        assert found.tolist() == [1000, int(TABLE["age"].to_numpy().sum())]
    finally:
        session.stop()


def test_an_answer_that_names_a_function_is_refused() -> None:
    """Pickles can call whatever they name."""
    with pytest.raises(pickle.UnpicklingError):
        spark_sums._Answers(io.BytesIO(pickle.dumps(os.system))).load()
