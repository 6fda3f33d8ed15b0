"""Rows kept by the workers of a cluster: the bits, the refusals and the words of one process."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sudare.errors import ClusterFailed, DataError, InvalidParameter, SourceUnreadable, SudareError, UnknownCategory
from sudare.frames import dask_rows
from sudare.frames.dask_rows import total_on
from sudare.frames.fixed_point_packing import packed
from sudare.frames.fixed_tree import BLOCK_ROWS
from sudare.frames.rows import Tallied, checked_rows
from sudare.frames.shards import shards_of
from sudare.frames.sources import SqlSource, batches
from sudare.schema import Category, Number, Person, Schema

distributed = pytest.importorskip("distributed")

ROWS = 5 * BLOCK_ROWS + 123
SCHEMA = Schema({"age": Number(0, 110), "sex": Category(("f", "m"))})


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as made:
        yield made


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    return pa.table({"age": generator.uniform(-5, 120, ROWS), "sex": generator.choice(["f", "m"], ROWS)})


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """The table in two files with row groups of different lengths."""
    folder = tmp_path_factory.mktemp("rows")
    half = BLOCK_ROWS + 77
    pyarrow.parquet.write_table(table.slice(0, half), folder / "a.parquet", row_group_size=20_000)
    pyarrow.parquet.write_table(table.slice(half), folder / "b.parquet", row_group_size=100_001)
    return folder


def arrays_of(part):
    ages = part.column("age").to_numpy()
    outside = np.count_nonzero((ages < 0) | (ages > 110))
    is_female = part.column("sex").to_numpy() == "f"
    return Tallied((np.clip(ages, 0, 110)[:, np.newaxis] / 7, is_female), np.array([outside]))


def float_sums(ages, is_female):
    """Sums whose last bits depend on the order of the rows."""
    return np.array([ages.sum(), ages[is_female].sum(), np.sin(ages).sum()])


def weighted(ages, is_female, weights):
    return float(ages[:, 0] @ weights)


def test_workers_give_the_bits_of_one_process(table, folder, client):
    here = checked_rows(folder, arrays_of, SCHEMA)
    there = checked_rows(folder, arrays_of, SCHEMA, cluster=client)
    assert (there.count, there.width, there.tally.tolist()) == (here.count, here.width, here.tally.tolist())
    np.testing.assert_array_equal(there.total(float_sums), here.total(float_sums))
    weights = np.random.default_rng(1).normal(size=ROWS)
    assert there.total(weighted, weights) == here.total(weighted, weights)
    np.testing.assert_array_equal(there.total(float_sums, first_rows=5000), here.total(float_sums, first_rows=5000))


def test_partitions_of_any_length_give_the_same_bits(table, folder, client):
    """What has no known number of rows before it is read is moved to the borders of blocks by the workers."""
    import dask.dataframe

    frame = dask.dataframe.from_pandas(table.to_pandas(), npartitions=7)
    here = checked_rows(folder, arrays_of, SCHEMA)
    there = checked_rows(frame, arrays_of, SCHEMA, cluster=client)
    assert there.count == ROWS
    np.testing.assert_array_equal(there.total(float_sums), here.total(float_sums))


def females(part):
    return int(np.count_nonzero(part.column("sex").to_numpy() == "f"))


def test_one_pass_keeps_nothing(table, folder, client, tmp_path):
    import dask.dataframe

    expected = females(table)
    assert total_on(client, folder, females, SCHEMA) == expected
    frame = dask.dataframe.from_pandas(table.slice(0, 1000).to_pandas(), npartitions=3)
    assert total_on(client, frame, females, SCHEMA) == females(table.slice(0, 1000))
    pyarrow.parquet.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="no rows"):
        total_on(client, tmp_path / "empty.parquet", females, SCHEMA)
    with pytest.raises(InvalidParameter, match="persons"):
        total_on(client, frame, females, Schema(dict(SCHEMA.columns), person=Person("who", 2)))


@pytest.mark.parametrize("kind", ["csv", "table", "iterator", "database"])
def test_other_sources_give_the_same_sums(kind, table, client, tmp_path):
    import sqlalchemy

    part = table.slice(0, 3000)
    if kind == "csv":
        part.to_pandas().to_csv(tmp_path / "rows.csv", index=False)
        source = tmp_path / "rows.csv"
    elif kind == "database":
        engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/rows.sqlite")
        part.to_pandas().to_sql("people", engine, index=False)
        source = SqlSource(f"sqlite:///{tmp_path}/rows.sqlite", "people")
    else:
        source = next(batches(part)) if kind == "table" else batches(part, batch_rows=700)
    here = checked_rows(next(batches(part)), arrays_of, SCHEMA)
    there = checked_rows(source, arrays_of, SCHEMA, cluster=client)
    assert there.tally.tolist() == here.tally.tolist()
    np.testing.assert_array_equal(there.total(float_sums), here.total(float_sums))


def refused(source, cluster=None, schema=SCHEMA, function=arrays_of):
    with pytest.raises(SudareError) as caught:
        checked_rows(source, function, schema, cluster=cluster).total(float_sums)
    return type(caught.value), str(caught.value)


def unknown_sex(part):
    raise UnknownCategory("Column 'sex' holds a value that the schema does not list.", "List it.")


def test_errors_are_those_of_the_local_reader(client, tmp_path, monkeypatch, caplog, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"private")
    pyarrow.parquet.write_table(pa.table({"age": [], "sex": []}), "empty.parquet")
    pyarrow.parquet.write_table(pa.table({"other": [1]}), "other.parquet")
    with caplog.at_level("DEBUG"):
        for path in ("broken.parquet", "empty.parquet", "other.parquet", "absent.parquet", tmp_path / "broken.parquet"):
            assert refused(path, client) == refused(path)
        assert refused(folder, client, function=unknown_sex) == refused(folder, function=unknown_sex)
    assert "private" not in caplog.text


def failing(part):
    raise ValueError("the private value 4711")


def test_what_a_library_says_stays_at_the_worker(client, folder, caplog):
    with caplog.at_level("DEBUG"), pytest.raises(ClusterFailed, match=r"A worker failed \(ValueError\)") as caught:
        checked_rows(folder, failing, SCHEMA, cluster=client)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "4711" not in caplog.text


def test_persons_are_counted_before_anything_is_charged(client, tmp_path):
    schema = Schema(dict(SCHEMA.columns), person=Person("who", 2))
    people = pa.table({"age": [1.0] * 9, "sex": ["f"] * 9, "who": [1, 2, 3, 1, 2, 3, 4, 5, 1]})
    pyarrow.parquet.write_table(people, tmp_path / "people.parquet", row_group_size=2)
    assert refused(tmp_path / "people.parquet", client, schema) == refused(tmp_path / "people.parquet", schema=schema)


def test_a_file_that_changes_is_noticed(client, tmp_path):
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({"age": [1.0, 2.0], "sex": ["f", "m"]}), path)
    rows = checked_rows(path, arrays_of, SCHEMA, cluster=client)
    rows.pieces[0].rows = 3
    with pytest.raises(DataError, match="another number of rows"):
        rows.total(float_sums)


def test_rows_of_a_cluster_do_not_come_here(client, folder):
    rows = checked_rows(folder, arrays_of, SCHEMA, cluster=client)
    with pytest.raises(InvalidParameter, match="kept by a cluster"):
        rows.together()


def test_a_worker_that_does_not_see_the_files_says_so(client, folder, monkeypatch):
    shards = [shard for shard in shards_of(folder, BLOCK_ROWS) if shard.files]
    monkeypatch.setattr("sudare.frames.dask_rows.os.path.exists", lambda path: False)
    assert shards
    with pytest.raises(SourceUnreadable, match="A worker of the cluster does not find"):
        checked_rows(folder, arrays_of, SCHEMA, cluster=client)


def test_other_versions_are_refused(client, folder, monkeypatch):
    monkeypatch.setattr("sudare.frames.dask_rows._VERSION", "0.0.1")
    with pytest.raises(InvalidParameter, match=r"A worker of the cluster runs sudare 0\.0\.1"):
        checked_rows(folder, arrays_of, SCHEMA, cluster=client)


@pytest.mark.parametrize("shard_rows", [1, BLOCK_ROWS, 2 * BLOCK_ROWS, 10**9])
def test_shards_have_every_row_once_and_begin_at_blocks(table, folder, shard_rows):
    shards = shards_of(folder, shard_rows)
    parts = [[part.arrow for part in shard.tables(None, 10_000, SCHEMA)] for shard in shards]
    lengths = [sum(len(part) for part in tables) for tables in parts]
    assert all(length % BLOCK_ROWS == 0 for length in lengths[:-1])
    assert len(shards) == (1 if shard_rows == 10**9 else len(shards))
    assert pa.concat_tables(part for tables in parts for part in tables).equals(table)


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(0, 9), st.integers(1, 3)), elements=st.floats(allow_nan=False))
    | arrays.arrays(np.float64, 5, elements=st.integers(-(2**40), 2**40).map(lambda whole: whole * 2.0**-26))
    | arrays.arrays(np.float64, 5, elements=st.sampled_from([0.0, -0.0, 1.0, -128.0, 2.0**-1074, 2.0**1023]))
    | arrays.arrays(np.int64, 4)
)
def test_packing_changes_no_number(array):
    found = packed(array).unpacked()
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_grids_are_packed_small():
    rows = np.round(np.random.default_rng(0).uniform(-1, 1, (1000, 3)) * 2**26) / 2**26
    assert packed(rows).nbytes == rows.nbytes // 2
    assert packed((rows > 0).astype(np.float64)).nbytes == rows.nbytes // 8
    assert packed(np.zeros((4, 2))).nbytes == 8
    assert packed(functools.reduce(np.multiply, [rows] * 3)).nbytes == rows.nbytes


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9, b"\xff" * 200], ids=["silent", "web", "anything"]
)
def test_a_port_with_another_server_is_told_in_time(answer, folder, monkeypatch):
    """One that accepts and stays silent, a web server, and one that sends anything."""
    monkeypatch.setattr(dask_rows, "CONNECTION_SECONDS", 0.2)
    taken = []

    def serve(listening):
        with contextlib.suppress(OSError):
            while True:
                taken.append(listening.accept()[0])
                taken[-1].sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        with pytest.raises(InvalidParameter, match="not as a scheduler of Dask"):
            checked_rows(folder, arrays_of, SCHEMA, cluster=f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in taken:
        connection.close()


def test_an_address_leads_to_a_scheduler(folder):
    with distributed.LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address=None) as workers:
        assert checked_rows(folder, arrays_of, SCHEMA, cluster=workers.scheduler_address).count > 0
