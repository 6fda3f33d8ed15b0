"""Tables of DuckDB: read, never written, and nothing else is read by the way."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet
import pytest

from sudare.errors import SourceUnreadable
from sudare.frames import read
from sudare.frames.sources import SqlSource
from tests.frames.test_every_source import visits
from tests.source_kinds import duckdb_file


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
