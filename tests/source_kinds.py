"""One table as every kind of source: for tests that ask whether all of them give the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
import sqlalchemy

from sudare.frames import source
from sudare.frames.sources import SqlSource


def parquet(table: pa.Table, folder: Path) -> Path:
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=97)
    return path


def parts(table: pa.Table, folder: Path) -> Path:
    place = folder / "parts"
    place.mkdir()
    third = table.num_rows // 3
    pyarrow.parquet.write_table(table.slice(0, third), place / "0.parquet", row_group_size=31)
    pyarrow.parquet.write_table(table.slice(third), place / "1.pq")
    return place


def csv(table: pa.Table, folder: Path) -> Path:
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    return folder / "rows.csv"


def sqlite(table: pa.Table, folder: Path) -> str:
    address = f"sqlite:///{folder / 'rows.db'}"
    engine = sqlalchemy.create_engine(address)
    table.to_pandas().to_sql("rows", engine, index=False)
    engine.dispose()
    return address


def in_memory_store(table: pa.Table, folder: Path) -> str:
    """A folder of fsspec's store in memory, called like the folder."""
    import fsspec

    store, name = fsspec.filesystem("memory"), folder.name
    for place, start in ((0, 0), (1, 100)):
        with store.open(f"/{name}/{place}.parquet", "wb") as file:
            pyarrow.parquet.write_table(table.slice(start, 100 if place == 0 else None), file)
    return f"memory://{name}"


def hive(table: pa.Table, folder: Path) -> Path:
    for place, start in ((0, 0), (1, 100)):
        (folder / "hive" / f"part={place}").mkdir(parents=True)
        part = table.slice(start, 100 if place == 0 else None)
        pyarrow.parquet.write_table(part, folder / "hive" / f"part={place}" / "rows.parquet")
    return folder / "hive"


def duckdb_file(table: pa.Table, folder: Path) -> str:
    duckdb = library("duckdb")
    path = folder / "rows.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return f"duckdb:///{path}"


def duckdb_relation(table: pa.Table, folder: Path) -> object:
    duckdb = library("duckdb")
    connection = duckdb.connect()
    return connection.from_arrow(table)


def delta(table: pa.Table, folder: Path) -> Path:
    deltalake = library("deltalake")
    # An older version is not read, and neither are its files.
    for rows in (table.slice(0, 10), table):
        deltalake.write_deltalake(str(folder / "delta"), rows, mode="overwrite")
    return folder / "delta"


def iceberg(table: pa.Table, folder: Path) -> Any:
    library("pyiceberg")
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("here", warehouse=str(folder / "iceberg"))
    catalog.create_namespace("clinic")
    made = catalog.create_table("clinic.rows", schema=table.schema)
    made.append(table)
    return made


def dask(table: pa.Table, folder: Path) -> object:
    frames: Any = importlib.import_module("dask.dataframe")
    return frames.from_pandas(table.to_pandas(), npartitions=3, sort=False)


def library(name: str) -> Any:
    """An optional package; the test is skipped where it is missing."""
    return pytest.importorskip(name, reason=f"{name} is not installed")


def pieces(table: pa.Table) -> Any:
    return (table.slice(start, 83) for start in range(0, table.num_rows, 83))


Maker = Callable[[pa.Table, Path], object]

FILES: dict[str, Maker] = {
    "parquet": parquet,
    "path as text": lambda table, folder: str(parquet(table, folder)),
    "folder": parts,
    "pattern": lambda table, folder: f"{parts(table, folder)}/[01].p*",
    "csv": csv,
    "dataset": lambda table, folder: pyarrow.dataset.dataset(parts(table, folder), format="parquet"),
    "dataset with a filter": lambda table, folder: pyarrow.dataset.dataset(parquet(table, folder)).filter(
        pyarrow.dataset.field(table.column_names[0]).is_valid()
    ),
    "hive folder": hive,
    "object store": in_memory_store,
    "pattern in an object store": lambda table, folder: f"{in_memory_store(table, folder)}/*.parquet",
    "delta folder": delta,
    "delta address": lambda table, folder: f"delta:{delta(table, folder)}",
    "delta table": lambda table, folder: library("deltalake").DeltaTable(str(delta(table, folder))),
    "iceberg address": lambda table, folder: f"iceberg:{iceberg(table, folder).location()}",
    "iceberg table": iceberg,
}
QUERIES: dict[str, Maker] = {
    "sql table": lambda table, folder: SqlSource(sqlite(table, folder), "rows"),
    "sql address": lambda table, folder: f"{sqlite(table, folder)} SELECT * FROM rows",
    "duckdb address": lambda table, folder: f"{duckdb_file(table, folder)} rows",
    "duckdb query": lambda table, folder: SqlSource(duckdb_file(table, folder), "SELECT * FROM rows"),
    "duckdb relation": duckdb_relation,
    "polars lazy": lambda table, folder: pl.scan_parquet(parquet(table, folder)),
    "narwhals lazy": lambda table, folder: nw.from_native(pl.from_arrow(table).lazy()),  # type: ignore[union-attr]
    "dask": dask,
    "dataset in memory": lambda table, folder: pyarrow.dataset.dataset(table),
}
HELD: dict[str, Maker] = {
    "pandas": lambda table, folder: table.to_pandas(),
    "polars": lambda table, folder: pl.from_arrow(table),
    "arrow": lambda table, folder: table,
    "record batch": lambda table, folder: table.combine_chunks().to_batches()[0],
    "narwhals": lambda table, folder: nw.from_native(pd.DataFrame(table.to_pydict())),
    "dictionary": lambda table, folder: {name: table.column(name).to_numpy() for name in table.column_names},
}
ONCE: dict[str, Maker] = {
    "iterator": lambda table, folder: pieces(table),
    "reader": lambda table, folder: table.to_reader(max_chunksize=29),
}
SOURCES: dict[str, Maker] = {
    **FILES,
    **QUERIES,
    **HELD,
    **ONCE,
    "source": lambda table, folder: source(parquet(table, folder)),
    "source in memory": lambda table, folder: source(table),
}
