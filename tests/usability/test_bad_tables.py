"""Tables and questions as people get them wrong: each is refused with one message that says what to do, quotes nothing, and costs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from sudare.errors import SudareError
from sudare.frames import PersonJoin
from sudare.frames.sources import CsvFile, SqlSource
from sudare.privacy import Ledger
from sudare.schema import Category, Date, Number, Person, Schema
from sudare.statistics import GroupedTable
from tests.source_kinds import delta, duckdb_file, library, sqlite

COLUMNS: dict[str, Any] = {
    "age": Number(0, 120),
    "stays": Number(0, 50, whole=True),
    "day": Date(first="2020-01-01", last="2029-12-31"),
    "ward": Category(("north", "south")),
}
SCHEMA = Schema(COLUMNS)
PERSONS = Schema(COLUMNS, Person("who", 2))
# What only the owner of the table may know.
SECRET = "7193"
HEADER = "age,stays,day,ward"
GOOD = "30,1,2024-05-01,north"


def visits(**changed: Any) -> pd.DataFrame:
    """Four good rows, with some columns put in place of theirs."""
    columns = {"age": [30.0, 40.0, 50.0, 60.0], "stays": [1, 2, 3, 4], "ward": ["north", "south"] * 2}
    days = pd.to_datetime(["2024-05-01"] * 4)
    return pd.DataFrame({**columns, "day": days, **changed})


def text(*lines: str, encoding: str = "utf-8", name: str = "visits.csv") -> Callable[[Path], Path]:
    """A file of these lines."""

    def written(folder: Path) -> Path:
        (folder / name).write_bytes(("\n".join(lines) + "\n").encode(encoding))
        return folder / name

    return written


def said(made: Callable[[Path], Path], **facts: Any) -> Callable[[Path], CsvFile]:
    """A file of which its owner says something."""
    return lambda folder: CsvFile(made(folder), **facts)


def parquet(frame: pd.DataFrame) -> Callable[[Path], Path]:
    """A file of these rows."""

    def written(folder: Path) -> Path:
        frame.to_parquet(folder / "visits.parquet")
        return folder / "visits.parquet"

    return written


def broken_parquet(folder: Path) -> Path:
    parquet(visits())(folder).write_bytes(b"PAR1" + SECRET.encode() * 20)
    return folder / "visits.parquet"


def cut_short(folder: Path) -> Path:
    path = text(HEADER, GOOD, encoding="utf-16")(folder)
    path.write_bytes(path.read_bytes()[:-1])
    return path


def files_of_different_columns(folder: Path) -> Path:
    visits().to_parquet(folder / "1.parquet")
    visits().drop(columns="age").to_parquet(folder / "2.parquet")
    return folder


def deleted_rows(folder: Path) -> Path:
    place = delta(pa.Table.from_pandas(visits().drop(columns="day")), folder)
    log = min((place / "_delta_log").glob("*.json"))
    lines, features = [json.loads(line) for line in log.read_text().splitlines()], ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    log.write_text(
        "\n".join(json.dumps({**line, "protocol": protocol} if "protocol" in line else line) for line in lines)
    )
    return place


def no_iceberg(folder: Path) -> str:
    library("pyiceberg")
    return f"iceberg:{folder}/none"


def stored(make: Callable[[pa.Table, Path], str], name: str) -> Callable[[Path], str]:
    """The address of a table of a database that has another one."""
    return lambda folder: f"{make(pa.Table.from_pandas(visits()), folder)} {name}"


def writing_query(folder: Path) -> SqlSource:
    return SqlSource(sqlite(pa.Table.from_pandas(visits()), folder), "DROP TABLE rows")


def broken_relation(folder: Path) -> Any:
    frame = visits(stays=["1", "2", "3", SECRET + "x"])
    return library("duckdb").connect().from_arrow(pa.Table.from_pandas(frame)).project("*replace(stays::INT AS stays)")


def tables_that_change(folder: Path) -> Iterator[pd.DataFrame]:
    return iter([visits(), visits(age=["thirty", SECRET, "a", "b"])])


# What is wrong: the source, and what the message must speak of.
TABLES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no file": (lambda folder: folder / "none.parquet", "no data files"),
    "empty folder": (lambda folder: folder, "no data files"),
    "pattern without files": (lambda folder: str(folder / "*.parquet"), "no data files"),
    "no rows": (parquet(visits().iloc[:0]), "no rows"),
    "header only": (text(HEADER), "no rows"),
    "no Parquet": (broken_parquet, "read as Parquet"),
    "files of different columns": (files_of_different_columns, "columns"),
    "Shift_JIS, not said": (text(HEADER, "30,1,2024-05-01,北", encoding="cp932"), "encoding"),
    "EUC-JP, not said": (text(HEADER, "30,1,2024-05-01,北棟", encoding="euc-jp"), "encoding"),
    "another encoding than said": (said(text(HEADER, "30,1,2024-05-01,北", encoding="cp932"), encoding="utf-8"), "--encoding"),
    "an encoding that there is not": (said(text(HEADER, GOOD), encoding="latin-99"), "encoding"),
    "UTF-16 cut short": (cut_short, "whole"),
    "several separators": (text("age;stays,day;ward,x", "30;1,2024-05-01;north,1"), "separator"),
    "a line of more fields": (text(HEADER, GOOD, GOOD + f",{SECRET}"), "number of fields"),
    "a line of fewer fields, late": (text(HEADER, *[GOOD] * 60_000, f"{SECRET},1"), "number of fields"),
    "thousands separators": (text(HEADER.replace(",", ";"), f'"{SECRET[0]},{SECRET[1:]}";1;2024-05-01;north'), "thousands"),
    "full-width digits": (text(HEADER, "３０,1,2024-05-01,north"), "full-width"),
    "no header": (text(GOOD, GOOD), "header"),
    "names given twice": (text(HEADER + ",age", GOOD + ",30"), "same name"),
    "a column less": (parquet(visits().drop(columns="stays")), "stays"),
    "text in place of numbers": (text(HEADER, GOOD, f"x{SECRET},1,2024-05-01,north"), "age"),
    "a word that is no category": (text(HEADER, GOOD, f"30,1,2024-05-01,w{SECRET}"), "ward"),
    "a fraction in place of a whole number": (text(HEADER, GOOD, "30,1.7193,2024-05-01,north"), "whole"),
    "no date": (text(HEADER, GOOD, f"30,1,{SECRET}-13-45,north"), "day"),
    "a gap": (text(HEADER, GOOD, ",1,2024-05-01,north"), "missing"),
    "numbers as booleans": (parquet(visits(age=[True] * 4)), "age"),
    "a store that there is not": (lambda folder: "memory://none/visits.parquet", "no data files"),
    "a store that nobody knows": (lambda folder: f"s4://key:{SECRET}@bucket/visits.parquet", "address"),
    "Delta with deleted rows": (deleted_rows, "deletion"),
    "no Iceberg table": (no_iceberg, "Iceberg"),
    "no table of the database": (stored(sqlite, "none"), "table"),
    "no table of the DuckDB file": (stored(duckdb_file, "none"), "table"),
    "a query that writes": (writing_query, "only reads"),
    "a relation that fails": (broken_relation, "relation"),
    "a lazy frame that fails": (lambda folder: pl.LazyFrame(visits(stays=["1", "2", "3", SECRET + "x"]).to_dict("list")).with_columns(pl.col("stays").cast(pl.Int64)), "lazy frame"),
    "a Dataset without files": (lambda folder: pyarrow.dataset.dataset([]), "lacks"),
    "an iterator of nothing": (lambda folder: iter([]), "no rows"),
    "tables that change on the way": (tables_that_change, "age"),
    "an array": (lambda folder: np.ones((4, 4)), "ward"),
    "no table at all": (lambda folder: 5, "not a table"),
}  # fmt: skip

PERSON_TABLES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no column of persons": (parquet(visits()), "who"),
    "rows of nobody": (parquet(visits(who=[SECRET, None, "a", "b"])), "names no person"),
    "an array of persons": (lambda folder: np.ones((4, 4)), "column names"),
    "a join without the person": (lambda folder: PersonJoin(visits(who=list("abcd")), visits(), PERSONS, (1, 2)), "who"),
}  # fmt: skip

QUESTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a group that is not declared": ({"by": ["wards"]}, "ward"),
    "a mean of words": ({"by": ["ward"], "mean_of": ["ward"]}, "mean_of"),
    "a quantile above 1": ({"by": ["ward"], "quantile_of": ["age"], "quantiles": [1.5]}, "quantile"),
    "keys without δ": ({"keys": ["name"]}, "delta"),
    "ε of nothing": ({"by": ["ward"], "epsilon": 0.0}, "epsilon"),
    "more than there is": ({"by": ["ward"], "epsilon": 5.0}, "is left"),
    "a cluster that there is not": ({"by": ["ward"], "cluster": "tcp://127.0.0.1:9"}, "scheduler"),
}  # fmt: skip


@pytest.fixture
def account(tmp_path: Path) -> Any:
    return Ledger(tmp_path / "ledger" / "ledger.db").account("visits", 1.0, 1e-6)


def check_refused(account: Any, speaks_of: str, attempt: Callable[[], object]) -> None:
    with pytest.raises(SudareError, match=speaks_of) as refusal:
        attempt()
    told = refusal.value
    assert told.problem.endswith((".", "?"))
    assert told.remedy.endswith((".", ")"))
    assert SECRET not in str(told)
    assert "\n" not in str(told)
    assert account.spent().epsilon == 0
    assert account.remaining() == (1.0, 1e-6)


@pytest.mark.parametrize("kind", TABLES)
def test_a_bad_table(kind: str, account: Any, tmp_path: Path) -> None:
    made, speaks_of = TABLES[kind]
    table = GroupedTable(1.0, schema=SCHEMA, by=["ward"], mean_of=["age", "stays", "day"], account=account)
    place = tmp_path / "data"
    place.mkdir()
    check_refused(account, speaks_of, lambda: table.fit(made(place)))


@pytest.mark.parametrize("kind", PERSON_TABLES)
def test_a_bad_table_of_persons(kind: str, account: Any, tmp_path: Path) -> None:
    made, speaks_of = PERSON_TABLES[kind]
    table = GroupedTable(1.0, schema=PERSONS, by=["ward"], mean_of=["age"], account=account)
    check_refused(account, speaks_of, lambda: table.fit(made(tmp_path)))


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_bad_question(kind: str, account: Any, tmp_path: Path) -> None:
    parameters, speaks_of = QUESTIONS[kind]
    path = parquet(visits(name=list("abcd")))(tmp_path)
    check_refused(account, speaks_of, lambda: GroupedTable(schema=SCHEMA, account=account, **parameters).fit(path))
