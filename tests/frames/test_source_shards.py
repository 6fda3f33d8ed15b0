"""Shards of files: together every row once, each beginning at a block."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from sudare.frames.fixed_order_summation import BLOCK_ROWS
from sudare.frames.source_shards import shards_of
from sudare.schema import Category, Number, Schema

ROWS = 5 * BLOCK_ROWS + 123
SCHEMA = Schema({"age": Number(0, 110), "sex": Category(("f", "m"))})


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


@pytest.mark.parametrize("shard_rows", [1, BLOCK_ROWS, 2 * BLOCK_ROWS, 10**9])
def test_shards_have_every_row_once_and_begin_at_blocks(table, folder, shard_rows):
    shards = shards_of(folder, shard_rows)
    parts = [[part.arrow for part in shard.tables(None, 10_000, SCHEMA)] for shard in shards]
    lengths = [sum(len(part) for part in tables) for tables in parts]
    assert all(length % BLOCK_ROWS == 0 for length in lengths[:-1])
    assert len(shards) == (1 if shard_rows == 10**9 else len(shards))
    assert pa.concat_tables(part for tables in parts for part in tables).equals(table)
