"""Every source gives the same rows, in batches, with bounded memory, and its errors tell nothing of what is in it."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sudare.errors import ColumnMissing, DataError, InvalidParameter, SourceUnreadable, SudareError, WrongType
from sudare.frames import batches, column_types, csv_files, read, row_count
from sudare.frames.sources import CsvFile, SqlSource
from sudare.schema import Category, Label, Number, Person, Schema, as_table, encode
from tests.schema_strategies import assert_keeps

SCHEMA = Schema(
    {
        "dose": Number(0, 10, missing="centre"),
        "ward": Category(("north", "south", "NA"), missing="unknown"),
        "visits": Category((0, 1, 2), missing=0),
        "urgent": Category((False, True)),
        "outcome": Label(("well", "ill")),
    },
    Person("patient", 100),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "dose": st.none() | st.floats(-20, 20).map(lambda value: round(value, 3)),
            "ward": st.sampled_from([None, "north", "south", "NA"]),
            "visits": st.sampled_from([None, 0, 1, 2]),
            "urgent": st.booleans(),
            "outcome": st.sampled_from(["well", "ill"]),
            "patient": st.integers(0, 9).map(lambda number: f"p{number}"),
            "remark": st.text("ab ,\"'\n", max_size=4),
        }
    ),
    min_size=1,
    max_size=40,
)
TYPES = pa.schema(
    [
        ("dose", pa.float64()),
        ("ward", pa.string()),
        ("visits", pa.int64()),
        ("urgent", pa.bool_()),
        ("outcome", pa.string()),
        ("patient", pa.string()),
        ("remark", pa.string()),
    ]
)


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TYPES)


def as_parquet(table: pa.Table, folder: Path) -> object:
    pyarrow.parquet.write_table(table, folder / "rows.parquet", row_group_size=7)
    return folder / "rows.parquet"


def as_parquet_folder(table: pa.Table, folder: Path) -> object:
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    half = table.num_rows // 2
    pyarrow.parquet.write_table(table.slice(0, half), parts / "0.parquet")
    pyarrow.parquet.write_table(table.slice(half), parts / "1.pq")
    (parts / "_notes.txt").write_text("not data")
    return str(parts)


def as_pattern(table: pa.Table, folder: Path) -> object:
    as_parquet_folder(table, folder)
    return str(folder / "parts" / "[01].*")


def as_csv(table: pa.Table, folder: Path) -> object:
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    return str(folder / "rows.csv")


def as_compressed_csv(table: pa.Table, folder: Path) -> object:
    as_csv(table, folder)
    with gzip.open(folder / "rows.csv.gz", "wb") as file:
        file.write((folder / "rows.csv").read_bytes())
    return folder / "rows.csv.gz"


def as_database(table: pa.Table, folder: Path) -> str:
    address = f"sqlite:///{folder / 'rows.db'}"
    metadata = sqlalchemy.MetaData()
    types: dict[Any, type[sqlalchemy.types.TypeEngine[Any]]] = {
        pa.float64(): sqlalchemy.Float,
        pa.int64(): sqlalchemy.Integer,
        pa.bool_(): sqlalchemy.Boolean,
        pa.string(): sqlalchemy.String,
    }
    rows = sqlalchemy.Table("rows", metadata, *(sqlalchemy.Column(field.name, types[field.type]) for field in TYPES))
    engine = sqlalchemy.create_engine(address)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(rows.insert(), table.to_pylist())
    engine.dispose()
    return address


SOURCES: dict[str, Callable[[pa.Table, Path], object]] = {
    "parquet": as_parquet,
    "parquet folder": as_parquet_folder,
    "pattern": as_pattern,
    "csv": as_csv,
    "compressed csv": as_compressed_csv,
    "sql table": lambda table, folder: SqlSource(as_database(table, folder), "rows"),
    "sql engine": lambda table, folder: SqlSource(sqlalchemy.create_engine(as_database(table, folder)), "main.rows"),
    "pandas": lambda table, folder: table.to_pandas(),
    "polars": lambda table, folder: pl.from_arrow(table),
    "pyarrow": lambda table, folder: table,
    "dictionary": lambda table, folder: table.to_pydict(),
    "iterator": lambda table, folder: (table.slice(start, 3) for start in range(0, table.num_rows, 3)),
    "reader": lambda table, folder: table.to_reader(max_chunksize=3),
}


@pytest.mark.parametrize("kind", SOURCES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, batch_rows=st.integers(1, 12))
def test_batches_together_are_the_table(kind: str, tmp_path: Path, rows: list[dict[str, Any]], batch_rows: int) -> None:
    table = arrow(rows)
    found = list(batches(SOURCES[kind](table, tmp_path), batch_rows=batch_rows, schema=SCHEMA))
    assert all(1 <= batch.rows <= batch_rows for batch in found)
    assert sum(batch.rows for batch in found) == len(rows)
    assert all(batch.names == SCHEMA.source_columns for batch in found)
    for encoding in ("scaled", "binned"):
        together = np.concatenate([encode(SCHEMA, batch, encoding).matrix for batch in found])  # type: ignore[arg-type]
        np.testing.assert_array_equal(together, encode(SCHEMA, table, encoding).matrix)  # type: ignore[arg-type]
    targets = np.concatenate([SCHEMA.encode_target(batch) for batch in found])
    np.testing.assert_array_equal(targets, SCHEMA.encode_target(table))
    SCHEMA.check_person(iter(found))


@pytest.mark.parametrize("kind", SOURCES)
def test_columns_are_selected_and_missed(kind: str, tmp_path: Path) -> None:
    table = arrow(
        [{"dose": 1.5, "ward": "north", "visits": 1, "urgent": True, "outcome": "ill", "patient": "p", "remark": ""}]
    )
    chosen = read(SOURCES[kind](table, tmp_path), columns=["remark", "dose"])
    assert chosen.names == ("remark", "dose")
    assert chosen["dose"].tolist() == [1.5]
    with pytest.raises(ColumnMissing, match="lacks 'absent'"):
        read(SOURCES[kind](table, tmp_path), columns=["dose", "absent"])
    every = read(SOURCES[kind](table, tmp_path))
    assert every.names == tuple(table.column_names)


@pytest.mark.parametrize(
    ("kind", "counted"),
    [
        *(
            (kind, True)
            for kind in ("parquet", "parquet folder", "pattern", "pandas", "polars", "pyarrow", "dictionary")
        ),
        *((kind, False) for kind in ("csv", "compressed csv", "sql table", "iterator", "reader")),
    ],
)
def test_rows_are_counted_where_that_is_cheap(kind: str, counted: bool, tmp_path: Path) -> None:
    table = arrow([{"dose": float(index)} for index in range(11)])
    assert row_count(SOURCES[kind](table, tmp_path)) == (11 if counted else None)


def test_queries_are_streamed(tmp_path: Path) -> None:
    table = arrow([{"dose": float(index), "remark": "12:30 100%"} for index in range(10)])
    address = as_database(table, tmp_path)
    source = SqlSource(
        sqlalchemy.make_url(address), "SELECT dose * 2 AS twice FROM rows WHERE remark LIKE '12:30 100%'"
    )
    found = [batch["twice"].tolist() for batch in batches(source, batch_rows=4)]
    assert found == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    assert column_types(source).names == ["twice"]
    assert len(column_types(SqlSource(address, "SELECT * FROM rows WHERE dose > 1e9"))) == 0
    first = next(batches(SqlSource(address, "rows"), batch_rows=1))
    assert first["dose"].tolist() == [0]


def test_types_are_told_without_reading_all(tmp_path: Path) -> None:
    table = arrow(
        [{"dose": 1.5, "ward": "north", "visits": 1, "urgent": True, "outcome": "ill", "patient": "p", "remark": "a"}]
    )
    for kind in ("parquet", "csv", "sql table", "pandas", "dictionary"):
        types = column_types(SOURCES[kind](table, tmp_path))
        assert types.names == table.column_names
        draft = Schema.draft(types)
        assert draft == Schema.draft(table)


def test_arrays_in_batches_take_names_from_the_schema() -> None:
    schema = Schema({"a": Number(0, 1), "b": Number(0, 1), "y": Label((0, 1))})
    found = list(batches(np.eye(2), batch_rows=1, schema=schema))
    assert [batch.names for batch in found] == [("a", "b"), ("a", "b")]
    assert read(np.eye(2), columns=["p", "q"])["q"].tolist() == [0, 1]
    with pytest.raises(DataError, match="no column names"):
        read(np.eye(2))


def test_a_table_behaves_like_a_frame_without_showing_itself() -> None:
    table = as_table({"x": [1, 2, 3], "name": ["Ann", None, "Bob"]})
    assert len(table) == table.rows == 3
    assert table["name"].tolist() == ["Ann", None, "Bob"]
    assert table.slice(1, 5)["x"].tolist() == [2, 3]
    assert as_table(table) is table
    assert as_table(table, ["x"]).names == ("x",)
    assert [batch.rows for batch in batches(table, batch_rows=2)] == [2, 1]
    assert pl.DataFrame(table)["x"].to_list() == [1, 2, 3]
    assert repr(table) == "Table(3 rows, 2 columns)"
    with pytest.raises(ColumnMissing, match="'y'"):
        table["y"]


@pytest.mark.parametrize("batch_rows", [0, -1, 1.5, True, None])
def test_batches_have_at_least_one_row(batch_rows: object) -> None:
    with pytest.raises(InvalidParameter, match="batch_rows"):
        batches({"x": [1]}, batch_rows=batch_rows)  # type: ignore[arg-type]


def test_empty_sources_have_no_batches(tmp_path: Path) -> None:
    empty = arrow([])
    (tmp_path / "header.csv").write_text("x,y\n")
    header = CsvFile(tmp_path / "header.csv", has_header=True)
    sources = [as_parquet(empty, tmp_path), header, empty, iter([]), pd.DataFrame({"x": []})]
    for source in sources:
        assert list(batches(source)) == []
    for source in sources:
        with pytest.raises(DataError, match="no rows"):
            read(source)


def test_types_that_differ_between_batches_are_refused() -> None:
    with pytest.raises(WrongType, match="changes its type"):
        read(iter([{"x": [1]}, {"x": ["a"]}]))
    assert read(iter([{"x": [1]}, {"x": [None]}, {"x": [1.5]}])).rows == 3


def test_errors_of_the_callers_iterator_are_the_callers() -> None:
    def tables() -> Iterator[object]:
        yield {"x": [1]}
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(batches(tables()))


def leaky_sources(secret: str, folder: Path) -> dict[str, Callable[[], object]]:
    """For every way in which a source can fail: a call on a source that contains the secret."""

    def file(name: str, content: str) -> Path:
        path = folder / name
        path.write_text(content, errors="surrogateescape")
        return path

    number = Schema({"x": Number(0, 1)}, Person("id", 1))
    address = as_database(arrow([{"remark": secret}]), folder)
    twice = f'SELECT 1 AS "{secret}", 2 AS "{secret}"'
    mixed = f"SELECT 1 AS x UNION ALL SELECT '{secret}'"
    numbers = "\n".join(["1"] * 3000)
    return {
        "ragged csv": lambda: read(file("a.csv", f"x,y\n{secret}\n")),
        "csv that becomes ragged": lambda: read(file("h.csv", f"x\n{numbers}\n{secret},{secret}\n")),
        "csv that flips": lambda: read(file("b.csv", f"x\n{numbers}\n{secret}\n")),
        "csv with text for numbers": lambda: read(file("c.csv", f"x\n{secret}\n"), schema=number),
        "csv without header": lambda: read(file("d.csv", f"{secret},1\n{secret},2\n"), columns=["x"]),
        "csv with one name twice": lambda: read(file("e.csv", f"{secret},{secret}\n1,2\n")),
        "csv with an open quote": lambda: read(file("f.csv", f'x,y\n"{secret},1\n')),
        "csv with other letters": lambda: read(
            file("g.csv", f"x\n{secret}\udcff\n"), schema=Schema({"x": Category(("a", "b"))})
        ),
        "mixed types under a name of the data": lambda: read({"x": [1], secret: [[1, "a"]]}),
        "query with mixed types under a name of the data": lambda: read(
            SqlSource(address, mixed.replace(" x ", f' "{secret}" '))
        ),
        "no parquet": lambda: read(file("a.parquet", secret)),
        "no parquet to count": lambda: row_count(file("b.parquet", secret)),
        "no parquet to tell types": lambda: column_types(file("c.parquet", secret)),
        "no schema": lambda: Schema.load(file("data.toml", f"{secret}\n")),
        "person with many rows": lambda: number.check_person({"id": [secret, secret]}),
        "person without name": lambda: number.check_person({"id": [secret, None]}),
        "query that fails": lambda: read(SqlSource(address, f"SELECT '{secret}' FROM nowhere")),
        "query with one name twice": lambda: read(SqlSource(address, twice)),
        "query with mixed types": lambda: read(SqlSource(address, mixed)),
        "query with a missing column": lambda: read(SqlSource(address, f"SELECT '{secret}'"), columns=["x"]),
        "table that is not there": lambda: read(SqlSource(address, secret)),
        "address with a password": lambda: read(SqlSource(f"sqlite://user:{secret}@host/path", "rows")),
        "address of an unknown kind": lambda: read(SqlSource(f"oracle9://user:{secret}@host/path", "rows")),
        "address that is none": lambda: read(SqlSource(f"user:{secret}@host", "rows")),
        "driver that is not installed": lambda: read(SqlSource(f"mssql+pymssql://user:{secret}@host/path", "rows")),
        "address for a path": lambda: read(f"postgresql://user:{secret}@host/path"),
    }


def test_errors_about_sources_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "CSV_BLOCK_BYTES", 2**12)
    secret = uuid.uuid4().hex
    for way, call in leaky_sources(secret, tmp_path).items():
        try:
            call()
        except SudareError as error:
            assert_keeps(secret, error)
        else:
            pytest.fail(f"{way} was not refused")


def test_a_database_source_shows_no_password() -> None:
    assert repr(SqlSource("postgresql://user:hunter2@host/path", "rows")) == "SqlSource(<postgresql>)"
    assert repr(SqlSource("hunter2", "rows")) == "SqlSource(<database>)"
    assert repr(SqlSource(sqlalchemy.create_engine("sqlite://"), "rows")) == "SqlSource(<database>)"


@pytest.mark.parametrize("name", ["absent.parquet", "absent*.parquet", "folder", "notes.txt"])
def test_paths_without_data_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("x\n1\n")
    with pytest.raises(SourceUnreadable, match=r"no data files|by its name"):
        batches(tmp_path / name)


MEASURE_ARROW_MEMORY = """
import sys, pyarrow
from sudare.frames import batches
for path in sys.argv[1:]:
    rows = sum(batch.rows for batch in batches(path, batch_rows=20_000))
    print(rows, pyarrow.default_memory_pool().max_memory())
"""


def written_in_pieces(path: Path, rows: int, columns: int) -> int:
    """Writes a Parquet file of random numbers; returns how many bytes its rows take in memory."""
    generator = np.random.default_rng(1)
    piece = 100_000
    names = [f"x{index}" for index in range(columns)]
    with pyarrow.parquet.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for _ in range(rows // piece):
            writer.write_table(pa.table({name: generator.normal(size=piece) for name in names}))
    return rows * columns * 8


def test_a_longer_parquet_file_takes_no_more_memory(tmp_path: Path) -> None:
    short, long = tmp_path / "short.parquet", tmp_path / "long.parquet"
    written_in_pieces(short, 200_000, 6)
    size = written_in_pieces(long, 600_000, 6)
    command = [sys.executable, "-c", MEASURE_ARROW_MEMORY, str(short), str(long)]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    rows_short, most_short, rows_long, most_long = map(int, told)
    assert (rows_short, rows_long) == (200_000, 600_000)
    # One group of rows is decoded at a time, so three times the groups take what one takes.
    assert most_long - most_short < size / 20


MEASURE_PEAK = """
import resource, sys
from sudare.frames import batches
from sudare.schema import Number, Schema, SchemaEncoder
path, columns, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if kind == "dataset":
    import pyarrow.dataset
    path = pyarrow.dataset.dataset(path)
if kind == "polars lazy":
    import polars
    path = polars.scan_parquet(path)
encoder = SchemaEncoder(Schema({f"x{index}": Number(-5, 5) for index in range(columns)}))
rows = 0
for batch in batches(path, batch_rows=65536):
    rows += len(encoder.transform(batch))
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "csv", "dataset", "polars lazy"])
def test_peak_memory_does_not_grow_with_the_file(kind: str, tmp_path: Path) -> None:
    ending = "csv" if kind == "csv" else "parquet"
    columns, peaks, sizes = 10, {}, {}
    for rows in (100_000, 2_000_000):
        path = tmp_path / f"{rows}.parquet"
        sizes[rows] = written_in_pieces(path, rows, columns)
        if ending == "csv":
            with pyarrow.csv.CSVWriter(path.with_suffix(".csv"), pyarrow.parquet.read_schema(path)) as writer:
                for batch in batches(path):
                    writer.write_table(batch.arrow)
        command = [sys.executable, "-c", MEASURE_PEAK, str(path.with_suffix(f".{ending}")), str(columns), kind]
        found, peaks[rows] = map(
            int, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
        )
        assert found == rows
    # Twenty times the rows may take a little more for caches of the allocator, not a share of the file.
    assert peaks[2_000_000] - peaks[100_000] < (sizes[2_000_000] - sizes[100_000]) / 2


def test_a_wrong_name_of_a_table_says_what_to_do(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "clinic.db")) as database:
        database.execute("CREATE TABLE visits (age REAL)")
    with pytest.raises(SourceUnreadable, match=r"no table or view of that name.*how the name is spelled"):
        read(f"sqlite:///{tmp_path}/clinic.db visit")
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as database:
        database.execute("CREATE TABLE visits (age DOUBLE)")
    with pytest.raises(SourceUnreadable, match="no table or view of that name"):
        read(f"duckdb:///{tmp_path}/clinic.duckdb visit")
