"""One reader: every kind of source gives the same rows at every pass, has one identity, and refuses in one clear message."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from sudare.errors import ExtraMissing
from sudare.frames import batches, checked_rows, column_types, read, source
from sudare.schema import Category, Number, Schema, encode
from tests.source_kinds import FILES, HELD, ONCE, SOURCES

SCHEMA = Schema({"age": Number(0, 100), "ward": Category(("north", "south"))})


def visits(rows: int = 250) -> pa.Table:
    random = np.random.default_rng(5)
    wards = np.array(["north", "south"])[random.integers(0, 2, rows)]
    return pa.table(
        {"age": random.uniform(-5, 105, rows), "ward": pa.array(wards.tolist()), "remark": pa.array(["x"] * rows)}
    )


def arrays_of(table: Any) -> tuple[np.ndarray]:
    return (encode(SCHEMA, table, "scaled").matrix,)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_blocks_at_every_pass(kind: str, tmp_path: Path) -> None:
    expected = encode(SCHEMA, visits(), "scaled").matrix
    given = SOURCES[kind](visits(), tmp_path)
    rows = checked_rows(given, arrays_of, SCHEMA, batch_rows=37)
    assert rows.count == 250
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate([block for (block,) in rows.blocks(64)]), expected)


@pytest.mark.parametrize("kind", SOURCES)
def test_columns_and_types_of_every_source(kind: str, tmp_path: Path) -> None:
    opened = source(SOURCES[kind](visits(), tmp_path))
    assert {"age", "ward", "remark"} <= set(column_types(opened).names)
    assert opened.row_count() in (None, 250)
    table = read(opened, ["ward", "age"])
    assert table.names == ("ward", "age")
    np.testing.assert_array_equal(table["age"], visits().column("age").to_numpy())
    assert opened.is_stored == (kind not in (*HELD, *ONCE, "source in memory"))
    if opened.is_stored:
        assert all(1 <= batch.rows <= 50 for batch in batches(opened, batch_rows=50))
    if kind in FILES:
        assert opened.is_steady


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("deltalake", "pyiceberg.table", "pyiceberg", "duckdb"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "x.duckdb").touch()
    for given, extra in (
        ("delta:x", "delta"),
        (tmp_path, "delta"),
        ("iceberg:x", "iceberg"),
        (f"duckdb:///{tmp_path}/x.duckdb t", "duckdb"),
    ):
        with pytest.raises(ExtraMissing, match=rf"sudare\[{extra}\]"):
            read(given)
