"""What a database adds up itself has the bits of what the reader adds up; wherever it might not, the rows are read."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy
from hypothesis import given, settings
from sklearn.base import clone

from sudare.errors import DataError, MissingValue, SudareError, UnknownCategory, WrongType
from sudare.frames import database_tables, sources
from sudare.frames.database_sums import SummedColumn, _SqliteView, database_counts, database_rows
from sudare.frames.database_sums import database_sums as sums_of
from sudare.frames.databases import SqlSource
from sudare.privacy import Ledger
from sudare.privacy.column_sums import exact_scaled_sums, fixed_point_step
from sudare.schema import Category, Number, Person, Schema, counted
from sudare.statistics import GroupedTable, PrivateHistogram, PrivateMean
from sudare.statistics.exact_group_sums import Groups, database_group_sums, group_sums
from tests.ledgers import postgresql_server
from tests.source_kinds import library

duckdb = library("duckdb")

HOSTILE = 'a"; DROP TABLE "rows"; --%s :x'
NAME = '"' + HOSTILE.replace('"', '""') + '"'
WORDS = ("north", "O'Brien", "'; DROP TABLE rows; --", "100 %", "München")
SCHEMA = Schema(
    {
        HOSTILE: Number(-1.5, 0.7, bins=(-1.0, 0.1, 0.3), missing="indicator"),
        "count": Number(0, 50, whole=True, missing=3),
        "wide": Number(-1e300, 1e299),
        "small": Number(1e-9, 1e-3, missing="centre"),
        "site": Category(WORDS, missing="none"),
        "code": Category((3, 7, -1), missing=7, other=99),
    }
)
NUMBERS = Schema({name: column for name, column in SCHEMA.columns.items() if isinstance(column, Number)})

FLOATS = st.one_of(
    st.floats(allow_nan=True),
    st.floats(-2, 2),
    st.sampled_from((-1.5, 0.7, 0.1, 0.3, 0.30000000000000004, -0.0, 0.05, 2.0**-30, 0.7 - 2.0**-31)),
    st.integers(-(2**31), 2**31).map(lambda place: -1.5 + 2.2 * place / 2**31),
)
ROWS = st.fixed_dictionaries(
    {
        HOSTILE: st.none() | FLOATS,
        "count": st.none() | st.integers(-5, 60),
        "wide": st.floats(allow_nan=False),
        "small": st.none() | st.floats(0, 2e-3) | FLOATS,
        "site": st.none() | st.sampled_from(WORDS),
        "code": st.none() | st.sampled_from((3, 7, -1, 5, 2**62)),
    }
)


TYPES = {"count": pa.int32(), "site": pa.string(), "code": pa.int64()}


def relation(rows: list[dict[str, Any]], connection: Any) -> Any:
    """A relation over a table of Arrow."""
    columns = {name: [row[name] for row in rows] for name in SCHEMA.columns}
    table = pa.table({name: pa.array(values, TYPES.get(name, pa.float64())) for name, values in columns.items()})
    return connection.from_arrow(table)


def sqlite_table(rows: list[dict[str, Any]], path: Path) -> SqlSource:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE IF EXISTS rows")
        names = (NAME, "count", "wide", "small", "site", "code")
        types = ("REAL", "INTEGER", "DOUBLE", "FLOAT", "TEXT", "BIGINT")
        connection.execute(f"CREATE TABLE rows ({', '.join(map(' '.join, zip(names, types, strict=True)))})")
        connection.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", [[row[name] for name in SCHEMA.columns] for row in rows]
        )
    return SqlSource(f"sqlite:///{path}", "rows")


def assert_same(data: Any, rows: int) -> None:
    """All that a database adds up is what the reader adds up of the same data."""
    table = sources.read(data, schema=SCHEMA)
    found, read = database_counts(data, SCHEMA), counted(SCHEMA, table)
    assert found is not None
    assert np.concatenate([each.counts for each in found]).tolist() == read.cells.tolist()
    assert {name: count for each in found for name, count in each.outside.items()} == read.clipped
    assert database_rows(data, SCHEMA) == rows == read.rows
    step = fixed_point_step(rows)
    summed = [SummedColumn(name, number, step) for name, number in NUMBERS.columns.items()]  # type: ignore[arg-type]
    whole, exact = sums_of(data, NUMBERS, (), summed), exact_scaled_sums(NUMBERS, table, step)
    assert whole is not None
    assert (whole.sums[:, 0] * step).tobytes() == (exact.sums + 0.0).tobytes()
    assert whole.outside == exact.clipped
    groups = Groups.of({name: SCHEMA.columns[name] for name in ("site", HOSTILE, "code")})
    by_group = database_group_sums(data, SCHEMA, groups, ("small", "count"), ("count",))
    here = group_sums(SCHEMA, groups, ("small", "count"), ("count",), table)
    assert by_group is not None
    assert by_group.steps.tolist() == here.steps.tolist()
    assert by_group.clipped == here.clipped


@given(st.lists(ROWS, min_size=1, max_size=30))
@settings(max_examples=8)
def test_a_relation_of_duckdb_gives_the_same_bits(rows: list[dict[str, Any]]) -> None:
    with duckdb.connect() as connection:
        assert_same(relation(rows, connection), len(rows))


@given(rows=st.lists(ROWS, min_size=1, max_size=30))
@settings(max_examples=8)
def test_a_table_of_sqlite_gives_the_same_bits(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert_same(sqlite_table(rows, tmp_path_factory.getbasetemp() / "rows.db"), len(rows))


@pytest.mark.long
def test_a_table_of_postgresql_gives_the_same_bits() -> None:
    generator = np.random.default_rng(0)
    rows = [
        {
            HOSTILE: generator.choice([None, math.nan, math.inf, 0.1, generator.uniform(-2, 2)]),
            "count": generator.choice([None, int(generator.integers(-5, 60))]),
            "wide": float(generator.choice([1e300, -1e300, 0.0, generator.normal() * 1e299])),
            "small": generator.choice([None, generator.uniform(0, 2e-3)]),
            "site": generator.choice([None, *WORDS]),
            "code": generator.choice([None, 3, 7, 5]),
        }
        for _ in range(500)
    ]
    with postgresql_server() as address:
        url = sqlalchemy.make_url(address).set(drivername="postgresql+psycopg")
        engine = sqlalchemy.create_engine(url)
        columns = [
            sqlalchemy.Column(name, kind)
            for name, kind in zip(
                SCHEMA.columns,
                (sqlalchemy.Double, sqlalchemy.Integer, sqlalchemy.Double, sqlalchemy.Double, sqlalchemy.Text, sqlalchemy.BigInteger),
                strict=True,
            )
        ]  # fmt: skip
        table = sqlalchemy.Table("rows", sqlalchemy.MetaData(), *columns)
        table.metadata.create_all(engine)
        keyed = [{f"c{place}": value for place, value in enumerate(row.values())} for row in rows]
        with engine.begin() as connection:
            values = {column: sqlalchemy.bindparam(f"c{place}") for place, column in enumerate(columns)}
            connection.execute(table.insert().values(values), keyed)
        assert_same(SqlSource(url, "rows"), len(rows))
        assert database_rows(SqlSource(url, "SELECT * FROM rows"), SCHEMA) is None
        with engine.begin() as connection:
            connection.exec_driver_sql(
                "CREATE OPERATOR public.+ (leftarg = bigint, rightarg = bigint, procedure = int8mul)"
            )
        engine.dispose()
        assert database_rows(SqlSource(url, "rows"), SCHEMA) is None


def test_learners_have_databases_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch is read, and what is released has the same bits as from a table in memory."""
    frame = pd.DataFrame({"age": np.linspace(-3, 103, 500), "site": ["north", "south"] * 250})
    schema = Schema({"age": Number(0, 100), "site": Category(("north", "south"))})
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        frame.to_sql("rows", connection, index=False)
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE rows AS SELECT * FROM frame")
    learners = (
        PrivateMean(1.0, schema=schema, random_state=0),
        PrivateHistogram(1.0, schema=schema, random_state=0),
        GroupedTable(1.0, schema=schema, by=["site"], mean_of=["age"], variance_of=["age"], random_state=0),
    )
    read = [clone(each).fit(frame) for each in learners]
    monkeypatch.setattr(database_tables, "sql_batches", None)
    for address in (
        f"sqlite:///{tmp_path / 'rows.db'} rows",
        f"duckdb:///{tmp_path / 'rows.duckdb'} SELECT * FROM rows",
    ):
        for learner, expected in zip(learners, read, strict=True):
            found = clone(learner).fit(address)
            assert {name: tensor.tobytes() for name, tensor in found.release_content().tensors.items()} == {
                name: tensor.tobytes() for name, tensor in expected.release_content().tensors.items()
            }
            assert found.clipped_ == expected.clipped_


# Where the rows are read


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("SELECT 1.5::DECIMAL(5, 2) AS x", Number(0, 1)),
        ("SELECT 1::HUGEINT AS x", Number(0, 1)),
        ("SELECT '3' AS x", Number(0, 1)),
        ("SELECT DATE '2026-01-01' AS x", Number(0, 1)),
        ("SELECT true AS x", Number(0, 1)),
        ("SELECT 1.0::DOUBLE AS x", Category((1, 2))),
        ("SELECT 'a' AS x", Category(("a", "ä"), other="b")),
        ("SELECT 'a' AS x", Category(("a", "\\"))),
        ("SELECT 'a' AS x", Category(tuple(f"a{place}" for place in range(300)), other="a")),
        ("SELECT 'a' AS x, 'b' AS sudare_0", Category(("a", "c"))),
        ("SELECT 'a' AS x, 'b' AS X", Category(("a", "c"))),
        ("SELECT 'a' AS y", Category(("a", "c"))),
        ("SELECT NULL::VARCHAR AS x", Category(("a", "c"))),
        ("SELECT 'b' AS x", Category(("a", "c"))),
        ("SELECT NULL::DOUBLE AS x", Number(0, 1)),
        ("SELECT 0.5::DOUBLE AS x", Number(0, 1, whole=True)),
        ("SELECT 1e16::DOUBLE AS x", Number(0, 1, whole=True)),
        ("SELECT 0.5::DOUBLE AS x", Number(0, 300, bins=tuple(range(1, 300)))),
    ],
)
def test_what_leaves_a_doubt_is_read(statement: str, column: Any) -> None:
    with duckdb.connect() as connection:
        assert database_counts(connection.sql(statement), Schema({"x": column})) is None


def test_what_is_no_database_is_read(tmp_path: Path) -> None:
    schema = Schema({"x": Number(0, 1)})
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "rows.parquet")
    for data in ({"x": [1.0]}, tmp_path / "rows.parquet", iter([{"x": [1.0]}]), "sqlite:////nowhere/rows.db rows"):
        assert database_rows(data, schema) is None
    with duckdb.connect() as connection:
        person = Schema({"x": Number(0, 1)}, Person("id", 2))
        assert database_counts(connection.sql("SELECT 0.5::DOUBLE AS x, 3 AS id"), person) is None


@pytest.mark.parametrize("values", [[1, "text"], [0.5, b"bytes"], [2**53 + 1, 0.5]])
def test_values_of_sqlite_with_types_of_their_own_are_read(values: list[Any], tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute("CREATE TABLE rows (x)")
        connection.executemany("INSERT INTO rows VALUES (?)", [[value] for value in values])
    address = f"sqlite:///{tmp_path / 'rows.db'} rows"
    assert database_counts(address, Schema({"x": Number(0, 1)})) is None
    assert database_counts(address, Schema({"x": Category(("text", "c"), other="other")})) is None
    assert database_counts(address, Schema({"x": Category((True, False))})) is None


def test_collations_do_not_merge_values(tmp_path: Path) -> None:
    schema = Schema({"x": Category(("a", "A"), other="other")})
    words = ["a", "A", "a ", "á"]
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute("CREATE TABLE rows (x TEXT COLLATE NOCASE)")
        connection.executemany("INSERT INTO rows VALUES (?)", [["a"], ["A"], ["A"]])
    found = database_counts(f"sqlite:///{tmp_path / 'rows.db'} rows", Schema({"x": Category(("a", "A"))}))
    assert found is not None
    assert found[0].counts.tolist() == [1, 2]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (x VARCHAR COLLATE NOACCENT)")
        connection.executemany("INSERT INTO rows VALUES (?)", [[word] for word in words])
        connection.execute("SET default_collation = 'nocase'")
        found = database_counts(connection.sql("FROM rows"), schema)
        assert found is not None
        assert found[0].counts.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW rows AS SELECT abs(random() % 1000) AS x FROM stored",
        "CREATE VIEW rows AS SELECT x FROM stored",
        "CREATE VIRTUAL TABLE rows USING fts5(x)",
    ],
)
def test_what_sqlite_does_not_store_is_read(made: str, tmp_path: Path) -> None:
    """A view's column may be another number when it is compared with the bounds than when it is added."""
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute("CREATE TABLE stored (x INTEGER)")
        connection.executemany("INSERT INTO stored VALUES (?)", [[place] for place in range(9)])
        connection.execute(made)
    url, schema = f"sqlite:///{tmp_path / 'rows.db'}", Schema({"x": Number(0, 9)})
    assert database_rows(SqlSource(url, "stored"), schema) == 9
    assert database_rows(SqlSource(url, "rows"), schema) is None
    assert database_rows(SqlSource(url, "SELECT x FROM stored"), schema) is None
    assert database_rows(SqlSource(sqlalchemy.create_engine(url), "stored"), schema) is None


def test_bytes_that_are_no_text_are_read(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute("CREATE TABLE rows (x TEXT)")
        connection.execute("INSERT INTO rows VALUES (CAST(x'ff41' AS TEXT))")
    assert (
        database_counts(f"sqlite:///{tmp_path / 'rows.db'} rows", Schema({"x": Category(("a", "c"), other="b")}))
        is None
    )


@pytest.mark.parametrize(
    "macro",
    ["sum(a) AS 1000", '"/"(a, b) AS a', "encode(a) AS a", "duckdb_functions() AS TABLE SELECT true AS internal"],
)
def test_databases_with_functions_of_their_own_are_read(macro: str, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE rows AS SELECT 0.5::DOUBLE AS x")
        schema, name = Schema({"x": Number(0, 1)}), f"duckdb:///{tmp_path / 'rows.duckdb'}"
        assert database_rows(connection.sql("FROM rows"), schema) == 1
        connection.execute(f"CREATE MACRO {macro}")
        assert database_rows(connection.sql("FROM rows"), schema) is None
    assert database_rows(SqlSource(name, "rows"), schema) is None


@pytest.mark.parametrize(
    ("statement", "column", "error"),
    [
        ("SELECT unnest(['a', NULL]) AS x", Category(("a", "c")), MissingValue),
        ("SELECT unnest(['a', 'b']) AS x", Category(("a", "c")), UnknownCategory),
        ("SELECT unnest([1.0::DOUBLE, 0.5]) AS x", Number(0, 1, whole=True), WrongType),
        ("SELECT unnest([1.0::DOUBLE, 'nan']) AS x", Number(0, 1), MissingValue),
        ("SELECT 1.0::DOUBLE AS x WHERE false", Number(0, 1), DataError),
    ],
)
def test_bad_rows_are_told_by_the_reader_and_cost_nothing(
    statement: str, column: Any, error: type[SudareError], tmp_path: Path
) -> None:
    account = Ledger(tmp_path / "ledger.db").account("rows", epsilon=3.0)
    with duckdb.connect() as connection:
        rows = connection.sql(statement)
        schema = Schema({"x": column, "n": Number(0, 1)} if isinstance(column, Category) else {"x": column})
        rows = rows.project("x, 1.0::DOUBLE AS n")
        learners: list[Any] = [PrivateHistogram(1.0, schema=schema, account=account)]
        if isinstance(column, Number):
            learners.append(PrivateMean(1.0, schema=schema, account=account))
        learners.append(GroupedTable(1.0, schema=schema, by=["x"], account=account))
        for learner in learners:
            with pytest.raises(error):
                learner.fit(rows)
    assert account.spent().epsilon == 0


def test_nothing_is_written(tmp_path: Path) -> None:
    """Names and values of columns are quoted: what looks like a statement is a name."""
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute(f"CREATE TABLE rows ({NAME} TEXT)")
        connection.executemany("INSERT INTO rows VALUES (?)", [[word] for word in WORDS])
    before = (tmp_path / "rows.db").read_bytes()
    schema = Schema({HOSTILE: Category(WORDS)})
    found = database_counts(f"sqlite:///{tmp_path / 'rows.db'} rows", schema)
    assert found is not None
    assert found[0].counts.tolist() == [1] * len(WORDS)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows AS SELECT 1 AS kept")
        connection.execute(f"CREATE TABLE hostile ({NAME} VARCHAR)")
        connection.executemany("INSERT INTO hostile VALUES (?)", [[word] for word in WORDS])
        found = database_counts(connection.sql("FROM hostile"), schema)
        assert found is not None
        assert found[0].counts.tolist() == [1] * len(WORDS)
        assert connection.sql("SHOW TABLES").fetchall() == [("hostile",), ("rows",)]
    assert (tmp_path / "rows.db").read_bytes() == before


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_written_without_rounding(value: float) -> None:
    text = _SqliteView._float(_SqliteView, value)  # type: ignore[arg-type]
    with sqlite3.connect(":memory:") as connection:
        ((found,),) = connection.execute(f"SELECT {text}").fetchall()
    assert found == value
