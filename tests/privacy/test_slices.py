"""proofs/slices.md: disjoint slices of one source cost the most that is spent on any of them, and everything else its sum."""

from __future__ import annotations

import itertools
import math
import pickle
import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
import sqlalchemy
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import (
    BudgetExceeded,
    DataError,
    InvalidParameter,
    LedgerCorrupt,
    RelationMismatch,
    ReleaseMalformed,
    SourceUnreadable,
    SudareError,
    UnknownCategory,
)
from sudare.frames import Slice, batches, column_types, read, row_count
from sudare.frames.databases import SqlSource
from sudare.frames.sources import CsvFile
from sudare.privacy import Guarantee, Ledger, Release
from sudare.privacy.account_balance import AccountState
from sudare.privacy.account_terms import Terms
from sudare.privacy.accounting import Budget, Cost, Spent, approximate_cost, exact, gaussian_cost, mu_of_pure, pure_cost
from sudare.privacy.ledger_chain import Entry
from sudare.privacy.source_identity import SliceIdentity, given_source
from sudare.report import card_text
from sudare.schema import Category, Number, Person, Schema
from sudare.statistics import GroupedTable, PrivateHistogram, PrivateMean, PrivateQuantiles
from tests.source_kinds import library

MONTHS = ("2026-01", "2026-02", "2026-03")
SITES = ("north", "south")
SCHEMA = Schema({"month": Category(MONTHS), "site": Category(SITES), "age": Number(0, 100, bins=(50,))})
TABLE = pd.DataFrame(
    {
        "month": [MONTHS[i % 3] for i in range(30)],
        "site": [SITES[i % 2] for i in range(30)],
        "age": np.arange(30.0),
    }
)
ADDED = Guarantee(0.5, neighbours="add-remove")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    TABLE.to_parquet(tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


@pytest.fixture
def account(tmp_path: Path) -> Any:
    return Ledger(tmp_path / "ledger.db").account("visits", epsilon=2.0, delta=1e-5, neighbours="add-remove")


def counted(account: Any, source: Any, epsilon: float = 0.5, **changes: Any) -> PrivateHistogram:
    return PrivateHistogram(epsilon, schema=SCHEMA, neighbours="add-remove", account=account, **changes).fit(source)


# Which rows are in a slice


def test_slices_by_one_column_are_all_rows_once(path: Path) -> None:
    parts = [read(Slice(path, SCHEMA, {"month": month})) for month in MONTHS]
    assert sorted(age for part in parts for age in part["age"]) == TABLE["age"].tolist()
    both = [read(Slice(path, SCHEMA, {"month": m, "site": s})) for m, s in itertools.product(MONTHS, SITES)]
    assert sum(part.rows for part in both) == len(TABLE)
    assert read(Slice(path, SCHEMA, {"site": "south"}), columns=["age"]).names == ("age",)
    assert next(batches(Slice(path, SCHEMA, {"site": "south"}), batch_rows=4)).rows == 2
    assert row_count(Slice(path, SCHEMA, {"site": "south"})) is None
    assert column_types(Slice(path, SCHEMA, {"site": "south"})).names == ["month", "site", "age"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({}, "at least one column"),
        (None, "at least one column"),
        ({"age": "3"}, "'age' is not one"),
        ({"ward": "3"}, "'ward' is not one"),
        ({3: "3"}, "3 is not one"),
        ({"month": "2026-1"}, "does not list '2026-1'"),
        ({"month": 202601}, "does not list 202601"),
    ],
)
def test_slices_that_are_none(path: Path, where: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        Slice(path, SCHEMA, where)


def test_data_of_which_nobody_can_tell_whether_they_stay_have_no_slices(tmp_path: Path) -> None:
    """Whoever holds a table could name its rows anew before every fit; a server's rows change, and a query may give others every time."""
    refused: list[Any] = [
        TABLE,
        iter([TABLE]),
        "s3://clinic/visits.parquet",
        "postgresql://db/clinic visits",
        "sqlite:// visits",
        "sqlite:///file:visits.db?uri=true visits",
        f"sqlite:///{tmp_path}/visits.db SELECT * FROM visits",
        SqlSource(sqlalchemy.create_engine(f"sqlite:///{tmp_path}/visits.db"), "visits"),
        pyarrow.dataset.dataset(pa.table({"month": []})),
    ]
    for data in refused:
        with pytest.raises(InvalidParameter, match="nobody could tell"):
            Slice(data, SCHEMA, {"month": MONTHS[0]})


def in_sqlite(folder: Path) -> str:
    with sqlite3.connect(folder / "visits.db") as connection:
        TABLE.to_sql("visits", connection, index=False, if_exists="replace")
    return f"sqlite:///{folder / 'visits.db'} visits"


def in_duckdb(folder: Path) -> str:
    with library("duckdb").connect(str(folder / "visits.duckdb")) as connection:
        connection.register("given", TABLE)
        connection.execute("CREATE OR REPLACE TABLE visits AS SELECT * FROM given")
    return f"duckdb:///{folder / 'visits.duckdb'} visits"


def in_folders(folder: Path) -> Path:
    for month, rows in TABLE.groupby("month"):
        (folder / "visits" / f"month={month}").mkdir(parents=True)
        rows.drop(columns="month").to_parquet(folder / "visits" / f"month={month}" / "rows.parquet")
    return folder / "visits"


@pytest.mark.parametrize("place", [in_sqlite, in_duckdb, in_folders])
def test_tables_of_databases_and_folders_of_folders_have_slices(place: Any, tmp_path: Path, account: Any) -> None:
    """Disjoint slices cost their most, overlapping ones and the whole their sum."""
    table = place(tmp_path)
    parts = [read(Slice(table, SCHEMA, {"month": month})) for month in MONTHS]
    assert sorted(age for part in parts for age in part["age"]) == TABLE["age"].tolist()
    for month in MONTHS:
        counted(account, Slice(table, SCHEMA, {"month": month}))
    assert account.spent().epsilon == 0.5
    counted(account, Slice(table, SCHEMA, {"site": "north"}))
    assert account.spent().epsilon == 1.0
    counted(account, table)
    assert account.spent().epsilon == 1.5
    account.ledger.verify()


@pytest.mark.parametrize("is_linked", [False, True], ids=["named", "linked"])
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_rows_of_a_database_that_were_named_anew_are_charged_again(
    kind: str, is_linked: bool, tmp_path: Path, account: Any
) -> None:
    """Also where the change is still in the log beside the database, which is not beside a link to it."""
    table = (in_sqlite if kind == "sqlite" else in_duckdb)(tmp_path)
    if is_linked:
        (tmp_path / "links").mkdir()
        link = tmp_path / "links" / "visits"
        link.symlink_to(tmp_path / ("visits.db" if kind == "sqlite" else "visits.duckdb"))
        table = f"{kind}:///{link} visits"
    counted(account, Slice(table, SCHEMA, {"month": MONTHS[0]}))
    change = f"UPDATE visits SET month = '{MONTHS[1]}'"
    if kind == "duckdb":
        with library("duckdb").connect(str(tmp_path / "visits.duckdb")) as connection:
            connection.execute(change)
    else:
        kept = sqlite3.connect(tmp_path / "visits.db")
        kept.execute("PRAGMA journal_mode = WAL")
        kept.execute(change)
        kept.commit()
    counted(account, Slice(table, SCHEMA, {"month": MONTHS[1]}))
    assert account.spent().epsilon == 1.0
    if kind == "sqlite":
        kept.close()


def test_a_file_that_moves_to_another_folder_by_a_link_is_charged_again(tmp_path: Path, account: Any) -> None:
    """Its bytes and its place stay, and the name of the folder is the value of a column."""
    TABLE.drop(columns="month").to_parquet(tmp_path / "rows.parquet")
    for month in MONTHS[:2]:
        (tmp_path / "visits" / f"month={month}").mkdir(parents=True)
    for month in MONTHS[:2]:
        link = tmp_path / "visits" / f"month={month}" / "rows.parquet"
        link.symlink_to(tmp_path / "rows.parquet")
        counted(account, Slice(tmp_path / "visits", SCHEMA, {"month": month}))
        link.unlink()
    assert account.spent().epsilon == 1.0


def test_a_file_under_another_ending_is_charged_again(tmp_path: Path, account: Any) -> None:
    """Its ending says how its bytes are read."""
    path = tmp_path / "visits.parquet"
    TABLE.to_parquet(path)
    for ending, month in zip(("parquet", "pq"), MONTHS, strict=False):
        link = tmp_path / f"link.{ending}"
        link.symlink_to(path)
        counted(account, Slice(link, SCHEMA, {"month": month}))
    assert account.spent().epsilon == 1.0


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("sqlite", "CREATE VIEW moving AS SELECT CASE random() % 2 WHEN 0 THEN '2026-01' ELSE '2026-02' END AS month, site, age FROM visits"),
        ("sqlite", "CREATE VIRTUAL TABLE moving USING fts5(month, site, age)"),
        ("sqlite", "SELECT 1"),
        ("duckdb", "CREATE VIEW moving AS SELECT CASE WHEN random() < 0.5 THEN '2026-01' ELSE '2026-02' END AS month, site, age FROM visits"),
        ("duckdb", "CREATE TABLE moving (site VARCHAR, age DOUBLE, month VARCHAR GENERATED ALWAYS AS (CASE WHEN random() < 0.5 THEN '2026-01' ELSE '2026-02' END))"),
        ("duckdb", "CREATE VIEW moving AS SELECT CASE WHEN random() < 0.5 THEN '2026-01' ELSE '2026-02' END AS month, site, age FROM visits; CREATE MACRO list(x) AS ['BASE TABLE']"),
        ("duckdb", "CREATE TABLE moving AS FROM visits; CREATE MACRO encode(x) AS x"),
        ("duckdb", "SELECT 1"),
    ],
)  # fmt: skip
def test_what_a_database_computes_has_no_slices(kind: str, statement: str, tmp_path: Path, account: Any) -> None:
    """A row could be in every slice, one after the other."""
    table = (in_sqlite if kind == "sqlite" else in_duckdb)(tmp_path).removesuffix("visits") + "moving"
    opened: Any = sqlite3 if kind == "sqlite" else library("duckdb")
    with opened.connect(str(tmp_path / ("visits.db" if kind == "sqlite" else "visits.duckdb"))) as connection:
        connection.execute(statement)
    with pytest.raises(InvalidParameter, match="a table that it stores"):
        counted(account, Slice(table, SCHEMA, {"month": MONTHS[0]}))
    assert account.spent().epsilon == 0


def test_a_row_with_an_undeclared_value_is_in_no_slice_and_refused(tmp_path: Path, account: Any) -> None:
    TABLE.assign(month="2030-01").to_parquet(tmp_path / "odd.parquet")
    with pytest.raises(UnknownCategory):
        counted(account, Slice(tmp_path / "odd.parquet", SCHEMA, {"month": MONTHS[0]}))
    assert account.spent().epsilon == 0


def test_a_slice_of_a_file_that_is_gone(path: Path, account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Slice(path, SCHEMA, {"month": MONTHS[0]})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        with pytest.raises(SourceUnreadable, match="Permission denied"):
            given_source(part)
    path.unlink()
    with pytest.raises(SourceUnreadable):
        counted(account, part)


# What is charged


def test_disjoint_slices_cost_their_most_and_the_whole_is_added(path: Path, account: Any) -> None:
    for month in MONTHS:
        model = counted(account, Slice(path, SCHEMA, {"month": month}))
        assert model.guarantee_ == ADDED
    assert account.spent().epsilon == 0.5
    counted(account, Slice(path, SCHEMA, {"month": MONTHS[0]}))
    assert account.spent().epsilon == 1.0
    counted(account, read(path))
    assert account.spent().epsilon == 1.5
    assert [(where["month"], spent.epsilon) for where, spent in account.slices()] == [
        (MONTHS[0], 1.5),
        (MONTHS[1], 1.0),
        (MONTHS[2], 1.0),
    ]
    account.ledger.verify()


def test_slices_that_may_overlap_are_added(path: Path, account: Any) -> None:
    """By another column, by two columns, by another schema, read otherwise: any of these may hold the same rows."""
    named = {**SCHEMA.columns, "month": Category((*MONTHS, "2026-04"))}
    for place, part in enumerate(
        (
            Slice(path, SCHEMA, {"month": MONTHS[0]}),
            Slice(path, SCHEMA, {"site": "north"}),
            Slice(path, SCHEMA, {"month": MONTHS[1], "site": "south"}),
            Slice(path, Schema(named), {"month": MONTHS[1]}),
        ),
        start=1,
    ):
        counted(account, part, 0.25)
        assert account.spent().epsilon == 0.25 * place


def test_rows_that_were_named_anew_in_the_file_are_charged_again(path: Path, account: Any) -> None:
    counted(account, Slice(path, SCHEMA, {"month": MONTHS[0]}))
    TABLE.assign(month=TABLE["month"].map(dict(zip(MONTHS, MONTHS[1:] + MONTHS[:1], strict=True)))).to_parquet(path)
    counted(account, Slice(path, SCHEMA, {"month": MONTHS[1]}))
    assert account.spent().epsilon == 1.0


@pytest.mark.parametrize("learner", [PrivateHistogram, GroupedTable, PrivateQuantiles])
def test_a_file_that_is_written_while_a_slice_is_read_is_refused_before_the_charge(
    learner: Any, path: Path, account: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose record is moved after the file was looked at, and before it is read, would be in two slices and charged for one."""
    made = learner(0.5, schema=SCHEMA, neighbours="add-remove", account=account)
    if learner is GroupedTable:
        made.set_params(by=["site"])
    made.fit(Slice(path, SCHEMA, {"month": MONTHS[0]}))
    as_ever, moved = Slice.batches, TABLE.assign(month=MONTHS[1])

    def written_first(self: Slice, *arguments: Any) -> Any:
        if not pd.read_parquet(path).equals(moved):
            moved.to_parquet(path)
        return as_ever(self, *arguments)

    monkeypatch.setattr(Slice, "batches", written_first)
    with pytest.raises(DataError, match="changed"):
        made.fit(Slice(path, SCHEMA, {"month": MONTHS[1]}))
    assert account.spent().epsilon == 0.5


def test_bytes_that_are_read_in_another_encoding_are_charged_again(tmp_path: Path, account: Any) -> None:
    """One row, two texts: é of UTF-8 is another word in Latin-1."""
    file = tmp_path / "visits.csv"
    file.write_bytes("site,age\né,3\né,4\n".encode())
    words = ("é", "é".encode().decode("latin-1"))
    schema = Schema({"site": Category(words), "age": Number(0, 100, bins=(50,))})
    for encoding, word in zip(("utf-8", "latin-1"), words, strict=True):
        part = Slice(CsvFile(file, encoding=encoding), schema, {"site": word})
        PrivateHistogram(0.5, schema=schema, neighbours="add-remove", account=account).fit(part)
    assert account.spent().epsilon == 1.0


def test_a_table_that_says_it_was_a_slice_is_charged_for_all_records(path: Path, account: Any) -> None:
    for month in MONTHS[:2]:
        counted(account, read(Slice(path, SCHEMA, {"month": month})))
    assert account.spent().epsilon == 1.0
    assert account.slices() == []


def test_a_slice_of_another_source_is_refused(tmp_path: Path, path: Path, account: Any) -> None:
    counted(account, read(path))
    TABLE.head(3).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(SudareError, match="pays for"):
        counted(account, Slice(tmp_path / "other.parquet", SCHEMA, {"month": MONTHS[0]}))


def test_a_budget_refuses_what_the_records_of_a_slice_do_not_have(path: Path, account: Any) -> None:
    first, second = (Slice(path, SCHEMA, {"month": month}) for month in MONTHS[:2])
    counted(account, first, 1.75)
    with pytest.raises(BudgetExceeded, match=r"0\.25 of 2 is left"):
        counted(account, first)
    with pytest.raises(BudgetExceeded):
        counted(account, read(path))
    counted(account, second, 2.0)
    assert account.remaining().epsilon == 0
    model = PrivateHistogram(0.5, schema=SCHEMA, neighbours="add-remove", account=account)
    third = model.price(Slice(path, SCHEMA, {"month": MONTHS[2]}))
    assert (third.left_before.epsilon, third.left_after.epsilon, third.admitted) == (2.0, 1.5, True)
    assert not model.price(second).admitted
    assert not model.price(read(path)).admitted


def test_replaced_records_may_move_so_a_slice_costs_two_steps(tmp_path: Path, path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=2.0)
    for month in MONTHS:
        model = counted(account, Slice(path, SCHEMA, {"month": month}))
        assert model.guarantee_ == Guarantee(1.0)
    assert account.spent().epsilon == 1.0
    part = Slice(path, SCHEMA, {"month": MONTHS[0]})
    with pytest.raises(RelationMismatch, match="not public"):
        PrivateMean(0.1, schema=SCHEMA, account=account).fit(part)
    with pytest.raises(RelationMismatch, match="not public"):
        PrivateMean(0.1, schema=SCHEMA, account=account).price(part)
    assert PrivateMean(0.1, schema=SCHEMA).fit(part).n_rows_ == 10


def test_persons_may_be_in_many_slices_and_are_charged_for_all_records(tmp_path: Path) -> None:
    schema = Schema(dict(SCHEMA.columns), Person("patient", 3))
    TABLE.assign(patient=[f"p{i // 3}" for i in range(30)]).to_parquet(tmp_path / "p.parquet")
    account = Ledger(tmp_path / "ledger.db").account("p", epsilon=2.0, unit="person", neighbours="add-remove")
    for month in MONTHS[:2]:
        part = Slice(tmp_path / "p.parquet", schema, {"month": month})
        PrivateHistogram(0.5, schema=schema, neighbours="add-remove", account=account).fit(part)
    assert account.spent().epsilon == 1.0


def test_grouped_tables_read_slices_in_batches_and_leave_as_releases(path: Path, account: Any, tmp_path: Path) -> None:
    part = Slice(path, SCHEMA, {"month": MONTHS[1]})
    table = GroupedTable(0.5, schema=SCHEMA, by=["site"], mean_of=["age"], neighbours="add-remove", account=account)
    assert Release.of(table.fit(part)).guarantee == ADDED
    assert account.spent().epsilon == 0.5
    entry = next(entry for entry in account.entries() if entry.kind == "charge")
    assert entry.body["slice"]["where"] == {"month": MONTHS[1]}
    counts = GroupedTable(1e5, schema=SCHEMA, by=["month"], neighbours="add-remove", random_state=0).fit(part)
    assert counts.table()["count"] == [0, 10, 0]


EMPTY = "2026-04"
WITH_EMPTY = Schema({"month": Category((*MONTHS, EMPTY)), "age": Number(0, 100, bins=(50,))})


@pytest.mark.parametrize("person", [None, Person("patient", 2)])
@pytest.mark.parametrize("place", ["visits.csv", "visits.parquet", "sqlite:///{}/visits.db visits"])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (GroupedTable, {"by": ["month"], "mean_of": ["age"], "variance_of": ["age"]}),
        (GroupedTable, {"by": ["month"], "quantile_of": ["age"]}),
        (GroupedTable, {"by": ["month"], "keys": ["site"], "delta": 1e-6}),
        (PrivateQuantiles, {"quantile_of": ["age"]}),
        (PrivateHistogram, {}),
    ],
)
def test_whether_a_slice_has_rows_is_not_told(
    kind: Any, changes: Any, place: str, person: Person | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice without rows is fitted and charged like any other: a refusal would tell that not one record is in it."""
    monkeypatch.chdir(tmp_path)
    table = TABLE.assign(patient=[f"p{i}" for i in range(30)])
    table.to_csv("visits.csv", index=False)
    table.to_parquet("visits.parquet")
    with sqlite3.connect("visits.db") as database:
        table.to_sql("visits", database, index=False)
    schema = replace(WITH_EMPTY, person=person)
    unit = "record" if person is None else "person"
    account = Ledger("ledger.db").account("a", epsilon=2.0, delta=1e-5, neighbours="add-remove", unit=unit)
    part = Slice(place.format(tmp_path), schema, {"month": EMPTY})
    model = kind(0.5, schema=schema, neighbours="add-remove", account=account, **changes).fit(part)
    assert account.spent().epsilon == 0.5
    assert Release.of(model).guarantee.epsilon == 0.5
    assert model.table()
    with pytest.raises(DataError, match="no rows"):
        kind(0.5, schema=schema, neighbours="add-remove", **changes).fit(table[:0])


def test_undeclared_groups_of_a_slice(path: Path, tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "visits.csv", index=False)
    for place in (path, tmp_path / "visits.csv"):
        part = Slice(place, WITH_EMPTY, {"month": MONTHS[1]})
        table = GroupedTable(
            1e5, 1e-6, schema=WITH_EMPTY, keys=["site"], mean_of=["age"], neighbours="add-remove", random_state=0
        ).fit(part)
        assert dict(zip(table.table()["site"], table.table()["count"], strict=True)) == {
            "north": 5,
            "south": 5,
            None: 0,
        }
    with pytest.raises(SudareError, match="lacks 'ward'"):
        GroupedTable(1.0, 1e-6, schema=WITH_EMPTY, by=["month"], keys=["ward"], neighbours="add-remove").fit(part)


# The arithmetic


IDENTITIES = [SliceIdentity(p, (("m", w),)) for p, w in itertools.product(("p", "q"), ("1", "2"))]
TERMS = Terms(Budget.of(5.0, 1e-3, "gaussian", 5e-4), "replace-one", "record", "x")
COSTS = st.one_of(
    st.sampled_from([0.1, 0.5, 1.0, 3.0]).map(pure_cost),
    st.sampled_from([0.1, 0.5]).map(lambda epsilon: approximate_cost(epsilon, 1e-6)),
    st.sampled_from([0.1, 0.5]).map(lambda epsilon: gaussian_cost(epsilon, 1e-6, Fraction(1, 2**80))),
)


@given(st.lists(st.tuples(st.sampled_from([None, *IDENTITIES]), COSTS), max_size=8))
def test_the_total_covers_every_record_that_stays_and_every_record_that_moves(charges: Any) -> None:
    """Every path of the proof, in exact fractions: one slice of each partition in two steps, or any two of each in one step each."""
    state = AccountState(TERMS, Spent(), 1)
    for part, cost in charges:
        state = state.charged(cost if part is None else cost.of_moving_row(), part)
    total = state.spent
    whole = [cost for part, cost in charges if part is None]
    for places in itertools.product(itertools.combinations_with_replacement(("1", "2"), 2), repeat=2):
        seen = list(whole)
        for partition, (left, entered) in zip(("p", "q"), places, strict=True):
            for part, cost in charges:
                if part is None or part.partition != partition or part.where[0][1] not in (left, entered):
                    continue
                seen.append(cost.for_group(2) if left == entered else cost)
        spent = Spent.of(seen)
        for name in ("epsilon", "delta", "mu_squared", "total_variation", "leaked_delta"):
            assert getattr(spent, name) <= getattr(total, name)
        assert (spent.gaussian_charges > 0) <= (total.gaussian_charges > 0)
    assert AccountState.from_text(state.to_text()) == state
    assert all(state.of_slice(part).spent.epsilon <= total.epsilon for part in IDENTITIES)


def test_the_planted_bug_of_a_most_without_two_steps_is_found() -> None:
    """A record that moves between two slices of ε = 1 has lost 2, not 1; and so has one that is replaced within one."""
    state = AccountState(TERMS, Spent(), 1)
    for part in IDENTITIES[:2]:
        state = state.charged(pure_cost(1.0), part)
    assert state.spent.epsilon < 2


def test_two_steps_of_a_pure_charge_are_more_than_two_charges_in_mu() -> None:
    """mu(2ε)² ≥ 2·mu(ε)², which the proof shows; and at ε = 100, where another bound begins."""
    for epsilon in (1e-6, 0.01, 0.5, 1.0, 5.0, 40.0, 51.0, 99.0, 100.0, 101.0, 1000.0):
        assert mu_of_pure(exact(2 * epsilon)) ** 2 >= 2 * mu_of_pure(exact(epsilon)) ** 2 * (1 - 1e-12)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_two_steps_of_a_gaussian_charge(epsilon: float) -> None:
    cost = gaussian_cost(epsilon, 1e-6, Fraction(1, 2**90))
    moved = cost.of_moving_row()
    assert moved.epsilon == 2 * cost.epsilon
    assert moved.mu is not None
    assert cost.mu is not None
    assert moved.mu >= 2 * cost.mu
    assert moved.delta >= 2 * cost.delta
    assert moved.total_variation == 2 * cost.total_variation
    assert Cost.from_dict(moved.to_dict()) == moved


def test_restored_ledgers_have_nothing_left_in_any_slice() -> None:
    state = AccountState(replace(TERMS, budget=Budget.of(2.0)), Spent(), 1).charged(pure_cost(0.5), IDENTITIES[0])
    entry = Entry(5, "", "t", "x", "restore", {"lost": [], "reason": "disk"})
    after = state.after(entry)
    assert after.slices == {}
    assert after.spent.epsilon == 2


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"partition": "p"},
        {"partition": 3, "where": {"m": "1"}},
        {"partition": "p", "where": {}},
        {"partition": "p", "where": {"m": 1}},
        {"partition": "p", "where": [["m", "1"]]},
        {"partition": "p", "where": {"m": "1"}, "more": 1},
    ],
)
def test_entries_with_slices_that_no_charge_has(said: Any) -> None:
    body = {"cost": pure_cost(0.1).to_dict(), "slice": said}
    with pytest.raises((ValueError, KeyError)):
        AccountState(TERMS, Spent(), 1).after(Entry(5, "", "t", "x", "charge", body))


def test_balances_with_slices_that_none_wrote() -> None:
    text = AccountState(TERMS, Spent(), 1).charged(pure_cost(0.1), IDENTITIES[0]).to_text()
    assert AccountState.from_text(text).to_text() == text
    for changed in (text.replace('"gaussian_charges":0', '"gaussian_charges":0.0', 1), text.replace("1/10", "0.1", 1)):
        with pytest.raises(LedgerCorrupt):
            AccountState.from_text(changed)


def test_balances_without_slices_have_the_text_they_had() -> None:
    assert '"slices"' not in AccountState(TERMS, Spent(), 1).charged(pure_cost(0.1), None).to_text()


def test_what_is_claimed_of_disjoint_slices_holds_exactly() -> None:
    """Two counts with discrete Laplace noise, every output of a small lattice: a removed record, and one that moves."""
    epsilon, reach = 0.5, 60
    decay = math.exp(-epsilon)
    noise = {z: decay ** abs(z) for z in range(-reach, reach + 1)}

    def law(counts: tuple[int, int]) -> np.ndarray:
        margins = [np.array([noise.get(y - count, 0.0) for y in range(-20, 21)]) for count in counts]
        return np.outer(*margins)

    before = law((5, 7))
    largest = {
        name: float(np.abs(np.log(before / law(after))).max())
        for name, after in {"removed": (4, 7), "moved": (4, 8)}.items()
    }
    assert largest["removed"] == pytest.approx(epsilon)
    assert largest["moved"] == pytest.approx(2 * epsilon)


def test_whether_two_files_hold_the_same_bytes_does_not_decide_the_cost(tmp_path: Path) -> None:
    for name in ("a", "b"):
        TABLE.to_parquet(tmp_path / f"{name}.parquet")
    partitions = [Slice(tmp_path / f"{name}.parquet", SCHEMA, {"month": MONTHS[0]}).partition() for name in ("a", "b")]
    assert partitions[0] != partitions[1]
    assert Slice(tmp_path / "a.parquet", SCHEMA, {"month": MONTHS[1]}).partition() == partitions[0]


# What a release says of it


def test_a_release_says_which_slice_it_is_from(path: Path, account: Any, tmp_path: Path) -> None:
    key, where = Ed25519PrivateKey.generate(), {"month": MONTHS[0], "site": "south"}
    fitted = counted(account, Slice(path, SCHEMA, where))
    Release.of(pickle.loads(pickle.dumps(fitted))).save(tmp_path / "south.sudare", key)
    loaded = Release.load(tmp_path / "south.sudare", trusted=[key.public_key()])
    assert loaded.content.parameters["slice"] == where
    assert loaded.model().slice_ == where
    assert loaded.model().release_content() == loaded.content
    assert "the rows with “month” = “2026-01” and “site” = “south”" in card_text(loaded.card())


def test_a_release_from_all_rows_names_no_slice(path: Path, account: Any) -> None:
    model = counted(account, Slice(path, SCHEMA, {"site": "south"}))
    content = counted(model.account, path, 0.25).release_content()
    assert "slice" not in content.parameters
    assert model.fit(path).slice_ == {}


def test_a_slice_of_persons_rows_is_named_after_their_bound_was_chosen(tmp_path: Path) -> None:
    TABLE.assign(who=np.arange(30) // 3).to_parquet(tmp_path / "visits.parquet")
    schema = replace(SCHEMA, person=Person("who", "auto", 4))
    part = Slice(tmp_path / "visits.parquet", schema, {"site": "south"})
    model = PrivateHistogram(1.0, schema=schema, neighbours="add-remove", random_state=0).fit(part)
    assert model.slice_ == {"site": "south"}


@pytest.mark.parametrize("where", [None, {}, ["month"], {"month": 3}, {"month": "a\nb"}])
def test_a_slice_that_no_learner_wrote_is_refused(path: Path, where: Any) -> None:
    model = PrivateHistogram(1.0, schema=SCHEMA, neighbours="add-remove", random_state=0).fit(path)
    content = model.release_content()
    odd = replace(content, parameters={**content.parameters, "slice": where})
    with pytest.raises(ReleaseMalformed, match="its slice"):
        PrivateHistogram.check_content(odd, model.schema_digest_)


def test_a_slice_beside_a_public_number_of_rows_is_refused(path: Path) -> None:
    model = PrivateHistogram(1.0, schema=SCHEMA, random_state=0).fit(path)
    content = model.release_content()
    odd = replace(content, parameters={**content.parameters, "slice": {"site": "south"}})
    with pytest.raises(ReleaseMalformed, match="its slice"):
        PrivateHistogram.check_content(odd, model.schema_digest_)
