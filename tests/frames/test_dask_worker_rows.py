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

from sudare.errors import ClusterFailed, DataError, InvalidParameter, SourceUnreadable, SudareError, UnknownCategory
from sudare.frames import dask_clients, dask_worker_rows
from sudare.frames.fixed_order_summation import BLOCK_ROWS
from sudare.frames.row_reader import checked_rows, placed
from sudare.frames.rows import Rows, Tallied
from sudare.frames.source_shards import shards_of
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


def test_every_other_pass_begins_with_the_last_piece(folder, client, monkeypatch):
    """Where workers write rows to disk, those that were looked at last are still in memory."""
    rows, asked = checked_rows(folder, arrays_of, SCHEMA, cluster=client), []
    submitted = dask_worker_rows._submitted_together

    def noted(client, name, functions, futures):
        asked.extend(future.key for future in futures)
        return submitted(client, name, functions, futures)

    monkeypatch.setattr(dask_worker_rows, "_submitted_together", noted)
    sums = [rows.total(float_sums) for _ in range(3)]
    each = len(rows.pieces)
    assert each > 1
    assert asked[each : 2 * each] == asked[:each][::-1]
    assert asked[2 * each :] == asked[:each]
    np.testing.assert_array_equal(sums, np.broadcast_to(sums[0], (3, 3)))


def test_workers_give_the_bits_of_one_process(table, folder, client):
    here = checked_rows(folder, arrays_of, SCHEMA)
    there = checked_rows(folder, arrays_of, SCHEMA, cluster=client)
    assert (there.count, there.width, there.tally.tolist()) == (here.count, here.width, here.tally.tolist())
    np.testing.assert_array_equal(there.total(float_sums), here.total(float_sums))
    weights = np.random.default_rng(1).normal(size=ROWS)
    assert there.total(weighted, weights) == here.total(weighted, weights)
    np.testing.assert_array_equal(there.total(float_sums, first_rows=5000), here.total(float_sums, first_rows=5000))


def test_rows_in_memory_are_sent_and_logs_show_none(client, caplog):
    """By a client, a cluster or its address; what a worker raises comes back."""
    matrix = np.random.default_rng(3).normal(size=(BLOCK_ROWS + 10, 3)) + 123456.789
    here = Rows.held(matrix).total(functools.partial(np.sum, axis=0))
    for cluster in (client, client.cluster, client.scheduler.address):
        there = placed(Rows.held(matrix), cluster).total(functools.partial(np.sum, axis=0))
        np.testing.assert_array_equal(there, here)
    with caplog.at_level("DEBUG"), pytest.raises(DataError, match="not a finite number"):
        placed(Rows.held(matrix), client).total(not_finite)
    assert "123456" not in caplog.text


def not_finite(block):
    raise DataError("A value is not a finite number.", "Fill it.")


def test_partitions_of_any_length_give_the_same_bits(table, folder, client):
    """What has no known number of rows before it is read is moved to the borders of blocks by the workers."""
    import dask.dataframe

    frame = dask.dataframe.from_pandas(table.to_pandas(), npartitions=7)
    here = checked_rows(folder, arrays_of, SCHEMA)
    there = checked_rows(frame, arrays_of, SCHEMA, cluster=client)
    assert there.count == ROWS
    np.testing.assert_array_equal(there.total(float_sums), here.total(float_sums))


def test_what_workers_cannot_count_is_refused(table, client, tmp_path):
    import dask.dataframe

    pyarrow.parquet.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="no rows"):
        checked_rows(tmp_path / "empty.parquet", arrays_of, SCHEMA, cluster=client)
    frame = dask.dataframe.from_pandas(table.slice(0, 1000).to_pandas(), npartitions=3)
    with pytest.raises(InvalidParameter, match="persons"):
        checked_rows(frame, arrays_of, Schema(dict(SCHEMA.columns), person=Person("who", 2)), cluster=client)


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
    monkeypatch.setattr("sudare.frames.worker_failures.os.path.exists", lambda path: False)
    assert shards
    with pytest.raises(SourceUnreadable, match="A worker of the cluster does not find"):
        checked_rows(folder, arrays_of, SCHEMA, cluster=client)


def test_other_versions_are_refused(client, folder, monkeypatch):
    monkeypatch.setattr("sudare.frames.worker_failures._VERSION", "0.0.1")
    with pytest.raises(InvalidParameter, match=r"A worker of the cluster runs sudare 0\.0\.1"):
        checked_rows(folder, arrays_of, SCHEMA, cluster=client)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9, b"\xff" * 200], ids=["silent", "web", "anything"]
)
def test_a_port_with_another_server_is_told_in_time(answer, folder, monkeypatch):
    """One that accepts and stays silent, a web server, and one that sends anything."""
    monkeypatch.setattr(dask_clients, "CONNECTION_SECONDS", 0.2)
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
