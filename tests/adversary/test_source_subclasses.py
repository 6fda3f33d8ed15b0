"""Classes of one's own in place of sources and declarations: what is charged would be what they say, and what is computed what they read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sudare.errors import InvalidParameter, SchemaError, SudareError
from sudare.frames import PersonJoin, Slice, batches, kept_persons, read
from sudare.frames.databases import SqlSource
from sudare.frames.derived_sources import DerivedSource
from sudare.frames.record_source import RecordSource
from sudare.frames.sources import CsvFile
from sudare.joint.member_rows import MemberTable
from sudare.privacy import Account, Ledger
from sudare.schema import Category, Number, Person, Schema
from sudare.schema.table_from_any_frame import Table
from sudare.statistics import GroupedTable, PrivateMean
from sudare.statistics.schema_discovery import draft_privately, planned_draft

MONTHS = ("2026-01", "2026-02")
SCHEMA = Schema({"month": Category(MONTHS), "age": Number(0, 100, bins=(50,))})
BY_PERSON = Schema(dict(SCHEMA.columns), Person("who", 1))


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Visits of two months and of a few persons as Parquet and CSV, other people's table beside them, and both in a database."""
    rows = np.arange(40)
    table = pd.DataFrame({"month": np.array(MONTHS)[rows % 2], "age": rows.astype(float), "who": rows % 4})
    others = table.assign(age=table.age + 50)
    for name, frame in (("visits", table), ("others", others)):
        frame.to_parquet(tmp_path / f"{name}.parquet")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        with closing(sqlite3.connect(tmp_path / "clinic.db")) as connection:
            frame.to_sql(name, connection, index=False)
            connection.commit()
    return tmp_path


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Ledger(tmp_path / "ledger.db").account("visits", epsilon=5.0, neighbours="add-remove")


def table_by_age(account: Account | None, schema: Schema = SCHEMA, **more: Any) -> GroupedTable:
    return GroupedTable(0.5, schema=schema, by=["age"], neighbours="add-remove", account=account, **more)


class WholeMonth(Slice):
    """A slice by its name, and all rows by what it reads."""

    def batches(self, columns: Any, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        return self._whole.batches(columns, batch_rows, schema)


class AnyMonth(Slice):
    """A slice of a partition that it makes up."""

    def partition(self) -> str:
        return "0" * 64


class Beside:
    """A class that keeps others from noticing what is derived from them."""

    def __init_subclass__(cls, **named: Any) -> None:
        pass


class BesideWholeMonth(Beside, WholeMonth):
    """The same with a class before it."""


@pytest.mark.parametrize("kind", [WholeMonth, AnyMonth, BesideWholeMonth])
def test_pay_for_one_month_and_read_all_of_them(kind: type[Slice], house: Path, account: Account) -> None:
    for month in MONTHS:
        given = kind(house / "visits.parquet", SCHEMA, {"month": month})
        for use in (table_by_age(account).fit, table_by_age(account).price, MemberTable, read, batches):
            with pytest.raises(InvalidParameter, match="no source of records"):
                use(given)
    assert account.spent().epsilon == 0


def test_pay_for_one_month_and_read_all_of_them_by_a_method_put_in_its_place(house: Path, account: Account) -> None:
    given, whole = (Slice(house / "visits.parquet", SCHEMA, {"month": month}) for month in MONTHS)
    object.__setattr__(given, "batches", whole._whole.batches)
    with pytest.raises(InvalidParameter, match="no source of records"):
        table_by_age(account).fit(given)
    object.__setattr__(whole, "partition", lambda: "0" * 64)
    with pytest.raises(InvalidParameter, match="no source of records"):
        table_by_age(account).fit(whole)
    assert account.spent().epsilon == 0
    table_by_age(account).fit(Slice(house / "visits.parquet", SCHEMA, {"month": MONTHS[0]}))
    assert account.spent().epsilon == 0.5


class DigestOfAnother(Schema):
    """A schema with other values under the digest of another one: two partitions that count as one."""

    @property
    def digest(self) -> str:
        return SCHEMA.digest


def test_have_two_partitions_taken_for_one_by_a_schema_that_says_so(house: Path, account: Account) -> None:
    turned = DigestOfAnother({"month": Category(MONTHS[::-1]), "age": Number(0, 100, bins=(50,))})
    with pytest.raises(InvalidParameter, match="schema must be a Schema"):
        Slice(house / "visits.parquet", turned, {"month": MONTHS[0]})
    with pytest.raises(InvalidParameter, match="schema must be a Schema"):
        table_by_age(account, turned).fit(house / "visits.parquet")
    assert account.spent().epsilon == 0


class WideNumber(Number):
    """A number that is declared with narrow bounds and clips to wide ones."""

    @property
    def half_range(self) -> float:
        return 1e-9


class NobodyTwice(Person):
    """Persons with one row each, by their own account."""

    @property
    def bound(self) -> int:
        return 1


@pytest.mark.parametrize(
    "declared",
    [{"columns": {"age": WideNumber(0, 100)}}, {"columns": dict(SCHEMA.columns), "person": NobodyTwice("who", 50)}],
)
def test_declare_bounds_or_persons_by_a_class_of_ones_own(declared: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        Schema(**declared)


class OneRowEach(DerivedSource):
    """Rows of which it says that no person has two, and that they come from nowhere."""

    most_rows = 1

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def origins(self) -> tuple[object, ...]:
        return ()

    def batches(self, columns: Any, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        return batches(self._path, columns, batch_rows, schema)

    def types(self, expected: Any) -> pa.Schema:
        return read(self._path).arrow.schema


class OtherRowsEveryTime(RecordSource):
    """Few rows for whoever counts, and many for whoever adds up."""

    is_steady = True

    def __init__(self, path: Path) -> None:
        self._path, self._passes = path, 0

    def batches(self, columns: Any, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        self._passes += 1
        tables = list(batches(self._path, columns, batch_rows, schema))
        return iter(tables * self._passes)

    def types(self, expected: Any) -> pa.Schema:
        return read(self._path).arrow.schema


class UncutJoin(PersonJoin):
    """A join that says how many rows of a person it keeps, and keeps all."""

    most_rows = 1

    def batches(self, columns: Any, batch_rows: int, schema: Schema | None) -> Iterator[Table]:
        return batches(self._sides[0], columns, batch_rows, schema)


def test_have_all_rows_of_a_person_read_under_the_charge_for_one(house: Path, account: Account) -> None:
    persons = Ledger(house / "persons.db").account("visits", epsilon=5.0, unit="person", neighbours="add-remove")
    frame = pd.read_parquet(house / "visits.parquet")
    join = UncutJoin(frame[["who", "age"]], frame[["who", "month"]], BY_PERSON, (1, 1))
    for given in (OneRowEach(house / "visits.parquet"), OtherRowsEveryTime(house / "visits.parquet"), join):
        for use in (table_by_age(persons, BY_PERSON).fit, lambda given: kept_persons(given, BY_PERSON), MemberTable):
            with pytest.raises(InvalidParameter, match="no source of records"):
                use(given)
        with pytest.raises(InvalidParameter, match="no source of records"):
            PersonJoin(given, frame, BY_PERSON, (1, 1))
    assert persons.spent().epsilon == 0


class OtherPath(os.PathLike[str]):
    """One path for whoever asks first, and another one for those who read."""

    def __init__(self, *paths: Path) -> None:
        self._paths = list(paths)

    def __fspath__(self) -> str:
        return str(self._paths.pop(0) if len(self._paths) > 1 else self._paths[0])


class OtherCsv(CsvFile):
    """The same as a CSV file."""

    def __fspath__(self) -> str:
        return str(self.path).replace("visits", "others")


class OtherTable(SqlSource):
    """One table for the account, and another one for the reader."""

    @property
    def query(self) -> str:  # type: ignore[override]
        self.__dict__["asked"] = self.__dict__.get("asked", 0) + 1
        return "visits" if self.__dict__["asked"] < 3 else "others"


def test_pay_for_one_table_and_read_another(house: Path) -> None:
    ledger = Ledger(house / "ledger.db")
    account = ledger.account("visits", epsilon=5.0, delta=1e-5, source=house / "visits.csv")
    database = ledger.account("clinic", epsilon=5.0, source=SqlSource(f"sqlite:///{house / 'clinic.db'}", "visits"))
    table = object.__new__(OtherTable)
    table.__dict__["url"] = f"sqlite:///{house / 'clinic.db'}"
    changing = [house / name for name in ("visits.csv", "visits.csv", "others.csv")]
    schema = Schema({"age": Number(0, 100)})
    for owner, given in ((account, OtherPath(*changing)), (account, OtherCsv(house / "visits.csv")), (database, table)):
        with pytest.raises(SudareError, match="no source of records"):
            PrivateMean(0.5, schema=schema, account=owner).fit(given)
        with pytest.raises(SudareError, match="no source of records"):
            PrivateMean(0.5, schema=schema, account=owner).price(given)
        assert owner.spent().epsilon == 0
    # What stands within a CsvFile is asked once.
    PrivateMean(0.5, schema=schema, account=account, random_state=None).fit(CsvFile(OtherPath(*changing)))
    assert account.spent().epsilon == 0.5


def test_draft_a_schema_of_one_table_and_pay_for_another(house: Path) -> None:
    account = Ledger(house / "ledger.db").account("visits", epsilon=5.0, delta=1e-5, source=house / "visits.csv")
    plan = planned_draft(house / "visits.csv", epsilon=0.5, delta=1e-6)
    with pytest.raises(SudareError, match="no source of records"):
        draft_privately(OtherCsv(house / "visits.csv"), plan, account)
    assert account.spent().epsilon == 0
