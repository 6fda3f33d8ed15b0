"""Rows that wait: what comes out is what went in, from memory or from files that nobody can find."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError
from sudare.frames import row_spool as spool
from sudare.frames.row_spool import Spool, TableSpool


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.sampled_from([0, 500, 2000, 10**9]),
    st.sampled_from([np.float64, np.float32, np.uint8]),
    st.sampled_from([(), (1,), (3,)]),
)
def test_what_comes_out_is_what_went_in(sizes, room, dtype, shape):
    total = sum(sizes)
    matrix = np.random.default_rng(total).normal(size=(total, 3))
    others = np.random.default_rng(total).integers(0, 200, size=(total, *shape)).astype(dtype)
    edges = np.cumsum([0, *sizes])
    kept = Spool(room)
    for start, end in itertools.pairwise(edges):
        # A view with gaps between its rows, as a column of a wider table is.
        kept.append((np.repeat(matrix[start:end], 2, axis=0)[::2], others[start:end]))
    parts = [kept.part(number) for number in range(len(sizes))]
    first, second = kept.together()
    assert all(map(np.array_equal, kept.part(len(sizes) - 1), parts[-1]))
    np.testing.assert_array_equal(np.concatenate([part for part, _ in parts]), matrix)
    assert kept.count == total
    assert second.dtype == dtype
    np.testing.assert_array_equal(first, matrix)
    np.testing.assert_array_equal(second, others)


@pytest.mark.parametrize("room", [0, 1000, 2**27])
def test_tables_come_out_as_they_were(room, monkeypatch):
    monkeypatch.setattr(spool, "SPOOL_ABOVE_BYTES", room)
    kept, tables = TableSpool(), [pa.table({"a": range(rows), "b": ["x"] * rows}) for rows in (3, 0, 100)]
    places = [kept.put(table) for table in tables]
    assert [kept.get(place) for place in reversed(places)] == tables[::-1]


def test_files_have_no_name_and_end_with_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = Spool(0)
    kept.append((np.ones((100, 5)), np.ones((100, 1))))
    assert list(tmp_path.iterdir()) == []
    opened = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert any(path.startswith(str(tmp_path)) for path in opened)
    matrix, _ = kept.together()
    del kept, _
    assert matrix.sum() == 500
    del matrix
    opened = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert not any(path.startswith(str(tmp_path)) for path in opened)


def test_a_full_disk_is_told(monkeypatch):
    monkeypatch.setattr(spool.tempfile, "TemporaryFile", lambda prefix: open("/dev/full", "wb"))  # noqa: SIM115
    with pytest.raises(DataError, match="of an iterator do not fit into a temporary file"):
        Spool(0).append((np.ones(3),))
    with pytest.raises(DataError, match="Numbers do not fit") as caught:
        Spool(0, "Numbers do", "Delete some.").append((np.ones(3),))
    assert caught.value.remedy == "Delete some."
