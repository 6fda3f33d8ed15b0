"""Sums over sources larger than memory: the same bits from memory, from files, in any batches, and on a cluster."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.dictionary.e_step import gaussian_statistics
from sudare.errors import ColumnMissing, DataError, ExtraMissing, InvalidParameter, WrongType
from sudare.frames.block_sums import BLOCK_ROWS, statistics_over
from sudare.frames.fixed_tree import merged, nodes_of, pairwise_total, total_of

ROWS = 2 * BLOCK_ROWS + 12345


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).normal(size=(ROWS, 3))


@pytest.fixture(scope="module")
def step():
    """An E step of two patterns."""
    means = np.array([[0.0, 0.5, 1.0], [1.0, 0.0, -1.0]])
    factors = np.stack([np.eye(3), 1.5 * np.eye(3)])
    return functools.partial(
        gaussian_statistics,
        log_weights=np.log([0.3, 0.7]),
        means=means,
        precision_choleskys=factors,
        log_dets=np.array([0.0, 6 * np.log(1.5)]),
    )


def assert_same_bits(left, right):
    for ours, theirs in zip(left, right, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("batch_rows", [1000, BLOCK_ROWS, 100_000])
def test_batches_do_not_matter(table, step, batch_rows):
    parts = (table[start : start + batch_rows] for start in range(0, len(table), batch_rows))
    assert_same_bits(statistics_over(parts, step), step(table))


def test_parquet_files(table, step, tmp_path):
    names = ["a", "b", "c"]
    for index, (start, stop, group) in enumerate([(0, 50_000, 777), (50_000, ROWS, 30_000)]):
        columns = {name: table[start:stop, i] for i, name in enumerate(names)} | {"other": ["x"] * (stop - start)}
        pyarrow.parquet.write_table(pa.table(columns), tmp_path / f"{index}.parquet", row_group_size=group)
    assert_same_bits(statistics_over(tmp_path, step, columns=names), step(table))
    turned = statistics_over(tmp_path, lambda block: block.sum(axis=0), columns=["c", "a"])
    np.testing.assert_allclose(turned, table.sum(axis=0)[[2, 0]], rtol=1e-10, atol=1e-9)
    with pytest.raises(ColumnMissing):
        statistics_over(tmp_path, step, columns=["d"])
    with pytest.raises(WrongType):
        statistics_over(tmp_path, step)


def test_memory_holds_one_block(step):
    """Blocks are asked for one by one: a source without end is not read ahead of its use."""
    asked = []

    def parts():
        for index in range(20):
            asked.append(index)
            yield np.zeros((BLOCK_ROWS // 2, 3))

    seen = []

    def function(block):
        seen.append(len(asked))
        return len(block)

    assert statistics_over(parts(), function) == 10 * BLOCK_ROWS
    assert seen == list(range(2, 21, 2))


def test_a_source_must_hold_rows_of_one_kind():
    with pytest.raises(DataError, match="no rows"):
        statistics_over(np.empty((0, 3)), len)
    with pytest.raises(DataError, match="has 2 columns, those before it 3"):
        statistics_over(iter([np.ones((2, 3)), np.ones((2, 2))]), len)
    with pytest.raises(DataError, match="not a matrix"):
        statistics_over(np.ones(3), len)
    with pytest.raises(DataError, match="not a matrix"):
        statistics_over(np.array([["private", "text"]]), len)


@pytest.fixture(scope="module")
def client():
    import distributed

    # Two workers in this process: what is sent and computed is the same, and starting them takes a moment.
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as made:
        yield made


def test_cluster_gives_the_same_bits(table, step, client, tmp_path):
    expected = step(table)
    assert_same_bits(statistics_over(table, step, cluster=client), expected)
    assert_same_bits(statistics_over(table, step, cluster=client.cluster), expected)
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({name: table[:, i] for i, name in enumerate("abc")}), path)
    assert_same_bits(statistics_over(path, step, cluster=client.scheduler.address), expected)


def test_worker_errors_come_back_and_logs_show_no_rows(client, step, caplog):
    rows = np.full((10, 3), 123456.789)
    rows[3] = np.nan
    with caplog.at_level("DEBUG"), pytest.raises(DataError, match="not a finite number"):
        statistics_over(rows, step, cluster=client)
    assert "123456" not in caplog.text


@pytest.mark.parametrize(
    ("address", "said"),
    [("nonsense", "not the address"), ("tcp://127.0.0.1:99999", "be reached"), ("tcp://127.0.0.1:1", "be reached")],
)
def test_a_cluster_that_is_none(address, said, monkeypatch):
    """It is found out before a client is made, which would go on trying."""
    monkeypatch.setattr("distributed.Client.__init__", lambda *_, **__: pytest.fail("a client was made"))
    with pytest.raises(InvalidParameter, match=said):
        statistics_over(np.ones((2, 2)), len, cluster=address)


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ExtraMissing, match=r"sudare\[consortium\]"):
        statistics_over(np.ones((2, 2)), len, cluster="tcp://127.0.0.1:1")
    assert statistics_over(np.ones((2, 2)), len) == 2


def test_anything_that_adds_will_do(table):
    assert statistics_over(table, len) == ROWS


@given(st.lists(st.integers(-(2**40), 2**40), max_size=70))
def test_pairwise_total_adds_everything_once(numbers):
    assert pairwise_total(numbers) == (sum(numbers) if numbers else None)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(0, 5))
def test_pairwise_total_of_totals_of_aligned_parts(numbers, log_size):
    size = 2**log_size
    parts = [pairwise_total(numbers[start : start + size]) for start in range(0, len(numbers), size)]
    assert pairwise_total(parts) == pairwise_total(numbers)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_runs_of_parts_may_be_added_anywhere(numbers, cuts):
    """However a list is cut, what its runs add up to on their own makes the same total."""
    ends = [0, *sorted(min(cut, len(numbers)) for cut in cuts), len(numbers)]
    runs = [nodes_of(numbers[low:high], low) for low, high in itertools.pairwise(ends)]
    assert total_of(itertools.chain.from_iterable(runs)) == pairwise_total(numbers)
    assert merged(itertools.chain.from_iterable(runs)) == nodes_of(numbers)


def test_pairwise_total_is_more_accurate_than_a_running_sum():
    numbers = [0.1] * 2**16
    running = functools.reduce(operator.add, numbers)
    exact = math.fsum(numbers)
    assert pairwise_total(numbers) == exact != running
