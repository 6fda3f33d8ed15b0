"""One reader: every kind of source gives the same rows at every pass, has one identity, and refuses in one clear message."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from sudare.errors import ExtraMissing, SourceUnreadable
from sudare.frames import batches, checked_rows, column_types, read, source
from sudare.frames.sources import SqlSource
from sudare.privacy.source_identity import covers, given_source, looked_at
from sudare.schema import Category, Number, Schema, encode
from tests.source_kinds import FILES, HELD, ONCE, SOURCES, delta, duckdb_file, library

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


def test_a_folder_of_no_files_and_other_things_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken" / "month=1").mkdir(parents=True)
    (tmp_path / "broken" / "month=1" / "a.parquet").write_text("hidden words")
    for path, says in (("empty", "no data files"), ("broken", "cannot be read as one table")):
        with pytest.raises(SourceUnreadable, match=says) as refusal:
            source(tmp_path / path)
        assert "hidden" not in str(refusal.value)


def test_names_in_folders_are_columns(tmp_path: Path) -> None:
    folder = SOURCES["hive folder"](visits(), tmp_path)
    assert read(folder, ["part", "age"])["part"].tolist() == ["0"] * 100 + ["1"] * 150
    for column, kind in ((Number(0, 9), float), (Category((0, 1)), int), (Category(("0", "1")), str)):
        found = read(folder, ["age", "part"], Schema({"part": column}))["part"].tolist()
        assert found == list(map(kind, [0] * 100 + [1] * 150))
    assert read(folder, ["age"], Schema({"part": Number(0, 9)})).names == ("age",)


def test_a_dataset_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(visits(), tmp_path / "a.parquet")
    dataset = pyarrow.dataset.dataset(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_text("hidden words")
    with pytest.raises(SourceUnreadable, match=r"^The dataset cannot be read \(\w+\)") as refusal:
        list(batches(dataset))
    assert "hidden" not in str(refusal.value)


def test_lazy_frames_that_fail_tell_nothing() -> None:
    frame = pl.LazyFrame({"age": [1.0], "ward": ["hidden"]})
    for broken in (frame.select(pl.col("ward").cast(pl.Int64)), frame.select("nowhere")):
        with pytest.raises(SourceUnreadable) as refusal:
            list(batches(broken))
        assert "hidden" not in str(refusal.value)
    with pytest.raises(SourceUnreadable, match="does not tell its columns"):
        column_types(frame.select("nowhere"))
    odd = pl.LazyFrame({"*": [1], "^a$": [2], "a": [3]})
    assert read(odd, ["^a$", "*"]).arrow.to_pydict() == {"^a$": [2], "*": [1]}


class TestDuckDB:
    def test_it_is_read_only_and_reads_no_other_file(self, tmp_path: Path) -> None:
        address = duckdb_file(visits(), tmp_path)
        pyarrow.parquet.write_table(visits(), tmp_path / "other.parquet")
        before = (tmp_path / "rows.duckdb").read_bytes()
        for query in (
            f"SELECT * FROM '{tmp_path}/other.parquet'",
            f"SELECT * FROM read_parquet('{tmp_path}/other.parquet')",
            "SELECT * FROM nowhere",
            "DROP TABLE rows",
            "INSERT INTO rows SELECT * FROM rows",
            "WITH a AS (SELECT 1) SELECT getenv('HOME') INTO b FROM a",
        ):
            with pytest.raises(SourceUnreadable) as refusal:
                read(SqlSource(address, query))
            assert str(tmp_path) not in str(refusal.value)
        assert (tmp_path / "rows.duckdb").read_bytes() == before

    def test_a_name_with_a_point_is_one_of_a_schema(self, tmp_path: Path) -> None:
        """The name of a file is a catalog's, and would be a second spelling of a table."""
        address = duckdb_file(visits(), tmp_path)
        assert read(f"{address} main.rows").rows == 250
        for name in ("rows.rows", "rows.main.rows"):
            with pytest.raises(SourceUnreadable):
                read(f"{address} {name}")
        with pytest.raises(SourceUnreadable, match="no DuckDB file"):
            read(f"duckdb:///{tmp_path}/nowhere.duckdb rows")


class TestDelta:
    def test_only_the_files_of_its_version_are_read(self, tmp_path: Path) -> None:
        table = delta(visits(), tmp_path)
        assert len(list(table.glob("*.parquet"))) == 2
        assert read(table).rows == 250
        older = library("deltalake").DeltaTable(str(table), version=0)
        assert read(older).rows == 10
        found = given_source(older)
        assert found is not None
        assert found.text == str(Path(table).resolve())
        assert len(found.listed) == 1

    def test_deletion_vectors_are_refused(self, tmp_path: Path) -> None:
        table = delta(visits(), tmp_path)
        log = sorted((table / "_delta_log").glob("*.json"))[0]
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "protocol" in line:
                features = ["deletionVectors"]
                line["protocol"] = {
                    "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features
                }  # fmt: skip
        log.write_text("\n".join(map(json.dumps, lines)))
        with pytest.raises(SourceUnreadable, match="deletion vectors"):
            read(table)

    def test_partitions_are_columns(self, tmp_path: Path) -> None:
        library("deltalake").write_deltalake(str(tmp_path / "wards"), visits(), partition_by=["ward"])
        found = read(tmp_path / "wards", ["ward", "age"])
        assert found.rows == 250
        assert set(found["ward"]) == {"north", "south"}
        identity = given_source(tmp_path / "wards")
        assert identity is not None
        assert covers(looked_at(tmp_path / "wards"), identity)
        assert not covers(looked_at(tmp_path / "wards" / "ward=north"), identity)


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


def test_iceberg_tables_that_are_none(tmp_path: Path) -> None:
    library("pyiceberg")
    with pytest.raises(SourceUnreadable, match="no Iceberg table at"):
        read(f"iceberg:{tmp_path}")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_text("hidden")
    with pytest.raises(SourceUnreadable, match="cannot be reached") as refusal:
        read(f"iceberg:{tmp_path}")
    assert "hidden" not in str(refusal.value)
