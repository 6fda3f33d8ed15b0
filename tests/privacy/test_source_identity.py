"""Which data an account pays for: spellings of one file, addresses of one database, and what overlaps."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy

from sudare.errors import AccountMismatch, InvalidParameter, SourceMismatch, SourceTaken, SourceUnreadable
from sudare.frames import read
from sudare.frames.file_discovery import CSV_ENDINGS, PARQUET_ENDINGS
from sudare.frames.sources import SqlSource
from sudare.privacy import Ledger
from sudare.privacy import source_identity as sources
from sudare.privacy.accounting import pure_cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account
from sudare.privacy.source_identity import (
    LONGEST_SOURCE,
    MOST_FINGERPRINTS,
    Source,
    change_times,
    check_free,
    check_pays_for,
    check_unshared,
    covers,
    given_source,
    looked_at,
    overlap,
    source_text,
)
from sudare.schema import Number, Schema
from sudare.schema.table_from_any_frame import Table
from sudare.statistics import PrivateMean

AGES = Schema({"age": Number(0, 110)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, also the current one, with two tables."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        pd.DataFrame({"age": np.linspace(20, 80, 50)}).to_parquet(tmp_path / f"{name}.parquet")
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def ledger(folder: Path) -> Ledger:
    return Ledger(folder / "ledger.db")


class TestText:
    @pytest.mark.parametrize("source", ["", "  ", os.fsencode("table.csv"), 7])
    def test_a_source_has_a_name(self, source: Any) -> None:
        with pytest.raises(InvalidParameter) as caught:
            source_text(source)
        assert caught.value.problem == "A source needs a name, as text."
        assert caught.value.remedy == "Give a path, an address or a description."

    def test_a_source_is_not_longer_than_a_ledger_can_keep(self, folder: Path) -> None:
        assert looked_at("x" * LONGEST_SOURCE).text == "x" * LONGEST_SOURCE
        for source in ("x" * (LONGEST_SOURCE + 1), SqlSource("postgresql://h/d", "x" * LONGEST_SOURCE)):
            with pytest.raises(InvalidParameter) as caught:
                looked_at(source)
            assert caught.value.problem == "A source has at most 8192 letters."
            assert caught.value.remedy == "Give a shorter path or description."

    def test_a_file_has_one_name(self, folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "link.parquet").symlink_to(folder / "a.parquet")
        for spelling in ("a.parquet", "./a.parquet", "sub/../a.parquet", "link.parquet", f"{folder}//a.parquet"):
            assert source_text(spelling) == source_text(Path(spelling)) == f"{folder}/a.parquet"
        for address in (f"file://{folder}/a.parquet", f"FILE://localhost{folder}/%61.parquet", "file:a.parquet"):
            assert source_text(address) == f"{folder}/a.parquet"
        assert source_text("sub") == source_text("sub/") == f"{folder}/sub"

    def test_a_path_has_one_name_before_the_file_is_there(self, folder: Path) -> None:
        for spelling in ("later.csv", Path("later.csv"), "./later.csv", "../" + folder.name + "/later.csv"):
            assert source_text(spelling) == f"{folder}/later.csv"
        assert source_text(Path("later")) == f"{folder}/later"
        assert source_text(" the later table ") == "the later table"

    def test_databases(self, folder: Path) -> None:
        plain = "postgresql://db.example:5432/clinic visits"
        for text in (
            "postgresql://db.example/clinic visits",
            'postgresql+psycopg2://ann:secret@DB.example.:5432/clinic?sslmode=require public."visits"',
            "postgresql:///?host=db.example&dbname=clinic&port=5432 visits",
        ):
            assert source_text(text) == plain
        assert source_text("postgresql:///clinic") == source_text("postgresql://127.0.0.1/clinic")
        assert source_text("postgresql:///clinic?host=/run/pg") == "postgresql://localhost:5432/clinic"
        assert source_text("postgresql://ann@h/ a.b") == "postgresql://h:5432/ann a.b"
        assert source_text("postgresql://h h.b") == "postgresql://h:5432/ h.b"
        assert source_text("mariadb://h/d t") == source_text("mysql+pymysql://h:3306/d t")
        assert source_text("postgresql://h/d SELECT x FROM t") == "postgresql://h:5432/d"
        assert source_text("sqlite:///x.db main.t") == f"sqlite:///{folder}/x.db t"
        for unread in ("sqlite:///:memory: t", "postgresql://h:port/d t", "postgresql:///d?port=x t"):
            with pytest.raises(SourceUnreadable, match="none that can be read"):
                source_text(unread)
        assert source_text("postgresql:///d?host=a&host=b t") == "postgresql://a,b:5432/d t"
        assert source_text("postgresql://h:1/d?host=g&port=2&dbname=e t") == "postgresql://g:2/e t"
        assert source_text("postgresql://h/d?hostaddr=10.0.0.1&host=g t") == "postgresql://10.0.0.1:5432/d t"
        assert source_text("postgresql://h?user=ann t") == "postgresql://h:5432/ann t"
        assert source_text("postgresql:///?service=clinic t") == "postgresql://service=clinic:5432/service=clinic t"
        assert Source("postgresql://service=clinic:5432/service=clinic t").database is not None
        assert source_text("postgresql://h/d Visits") == "postgresql://h:5432/d Visits"
        assert source_text("sqlite:///x.db MAIN.Visits") == f"sqlite:///{folder}/x.db visits"

    def test_an_escape_in_the_name_of_a_file_is_a_part_of_it(self, folder: Path) -> None:
        plain, escaped = (
            looked_at(SqlSource(sqlalchemy.URL.create("sqlite", database=name), "t")) for name in ("a b.db", "a%20b.db")
        )
        assert plain.text == f"sqlite:///{folder}/a%20b.db t" == source_text("sqlite:///a%20b.db t")
        assert escaped.text == f"sqlite:///{folder}/a%2520b.db t" == source_text(escaped.text)
        assert not covers(plain, escaped)
        assert source_text(SqlSource("no address", "t")) == "a database"
        assert source_text(SqlSource("sqlite:///file::memory:?uri=true", "t")) == "a database"

    def test_a_database_behind_a_link(self, folder: Path) -> None:
        (folder / "far" / "inner").mkdir(parents=True)
        (folder / "link").symlink_to(folder / "far" / "inner")
        assert source_text(SqlSource("sqlite:///link/../x.db", "t")) == f"sqlite:///{folder}/x.db t"
        assert source_text(SqlSource("sqlite:///file:link/../x.db?uri=true", "t")) == f"sqlite:///{folder}/far/x.db t"

    def test_sql_sources(self, folder: Path) -> None:
        spaced = folder / "my clinic.db"
        for url in (
            f"sqlite:///{spaced}",
            sqlalchemy.make_url("sqlite:///my clinic.db"),
            sqlalchemy.create_engine("sqlite:///my clinic.db"),
            f"sqlite:///file:{folder}/my%20clinic.db?mode=ro&uri=true",
        ):
            text = source_text(SqlSource(url, "visits"))
            assert text == f"sqlite:///{folder}/my%20clinic.db visits"
            assert Source(text).database == (f"sqlite:///{folder}/my%20clinic.db", "visits")
        assert source_text(SqlSource("sqlite://", "visits")) == "a database"
        assert given_source(SqlSource("sqlite://", "visits")) is None


def test_the_files_that_can_be_read_are_paths() -> None:
    assert (*PARQUET_ENDINGS, *CSV_ENDINGS) == sources._FILE_ENDINGS


class TestFiles:
    def test_a_link_is_the_file(self, folder: Path) -> None:
        os.link("a.parquet", "c.parquet")
        a, c = looked_at("a.parquet"), looked_at("c.parquet")
        assert a.files == c.files
        assert len(a.files) == 1
        assert covers(a, c)
        assert overlap(a, c)
        assert not covers(a, looked_at("b.parquet"))
        assert not overlap(a, looked_at("b.parquet"))

    def test_a_file_that_was_replaced_is_the_same_source(self, folder: Path) -> None:
        a = looked_at("a.parquet")
        os.replace("b.parquet", "a.parquet")
        assert covers(a, looked_at("a.parquet"))
        os.link("a.parquet", "c.parquet")
        assert overlap(a, looked_at("c.parquet"))

    def test_a_file_that_was_moved_is_the_same_source(self, folder: Path) -> None:
        a = looked_at("a.parquet")
        os.rename("a.parquet", "c.parquet")
        assert covers(a, looked_at("c.parquet"))
        assert overlap(a, looked_at("c.parquet"))

    def test_another_file_in_the_inode_of_a_deleted_one_is_another_source(self, folder: Path) -> None:
        a = looked_at("a.parquet")
        status = os.stat("a.parquet")
        os.rename("a.parquet", "c.parquet")
        os.utime("c.parquet", ns=(0, status.st_mtime_ns + 1))
        assert not overlap(a, looked_at("c.parquet"))

    def test_what_is_kept_of_a_file_does_not_depend_on_what_is_in_it(self, folder: Path) -> None:
        a, status = looked_at("a.parquet"), os.stat("a.parquet")
        with open("a.parquet", "ab") as file:
            file.write(b"one more")
        os.utime("a.parquet", ns=(0, status.st_mtime_ns))
        assert looked_at("a.parquet").files == a.files
        (kept,) = a.files
        assert len(bytes.fromhex(kept)) == 32

    def test_a_file_that_an_older_ledger_wrote_is_known_after_it_was_moved(self, folder: Path) -> None:
        status = os.stat("a.parquet")
        plain = f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
        a = Source(f"{folder}/a.parquet", (plain,))
        os.rename("a.parquet", "c.parquet")
        moved = looked_at("c.parquet")
        assert covers(a, moved)
        assert overlap(a, moved)
        os.remove("c.parquet")
        assert overlap(a, moved)
        assert not overlap(Source(f"{folder}/a.parquet", (f"{plain}1",)), moved)

    def test_times_of_change_cannot_be_set_back(self, folder: Path) -> None:
        before, status = change_times(looked_at(folder)), os.stat("a.parquet")
        assert [path for path, _ in before] == [f"{folder}/a.parquet", f"{folder}/b.parquet"]
        time.sleep(0.02)
        os.utime("a.parquet", ns=(status.st_atime_ns, status.st_mtime_ns))
        after = change_times(looked_at(folder))
        assert after[0] > before[0]
        assert after[1] == before[1]
        assert change_times(None) == []

    def test_folders_and_patterns(self, folder: Path) -> None:
        every, pattern, a = looked_at(folder), looked_at("*.parquet"), looked_at("a.parquet")
        assert pattern.text == f"{folder}/*.parquet"
        assert covers(every, a)
        assert covers(pattern, a)
        assert covers(every, pattern)
        assert not covers(a, pattern)
        assert not covers(a, every)
        for one in (every, pattern):
            assert overlap(one, a)
            assert overlap(a, one)
        (folder / "sub").mkdir()
        shutil.copy("a.parquet", "sub/a.parquet")
        assert overlap(every, looked_at("sub"))
        assert covers(every, looked_at("b.parquet"))
        assert not overlap(a, looked_at("sub"))
        assert not covers(a, looked_at("nothing.parquet"))
        assert covers(looked_at("nothing.parquet"), looked_at("./nothing.parquet"))

    def test_so_many_files_are_remembered(self, folder: Path) -> None:
        (folder / "many").mkdir()
        for number in range(MOST_FINGERPRINTS + 5):
            (folder / "many" / f"{number}.csv").touch()
        os.symlink("nowhere", "many/broken.csv")
        assert len(looked_at("many").files) == MOST_FINGERPRINTS

    def test_what_is_in_memory_has_no_source(self, folder: Path) -> None:
        table = read("a.parquet")
        assert given_source(table) == given_source("a.parquet") == looked_at("a.parquet")
        assert given_source(table.select(["age"]).slice(0, 3)) == looked_at("a.parquet")
        assert given_source(Table(table.arrow)) is None
        assert given_source(table.arrow) is None
        # What a fit is given as text is read as a path, letter by letter.
        for text in ("a name", "pat*", " a.parquet", "file :a.parquet"):
            assert given_source(text) == Source(f"{folder}/{text}")
        assert given_source("a.parq*") == Source(f"{folder}/a.parq*", looked_at("a.parquet").files)

    def test_a_pattern_does_not_go_up_again(self, folder: Path) -> None:
        for act in (given_source, looked_at):
            with pytest.raises(InvalidParameter) as caught:
                act("x*/../a.parquet")
            assert caught.value.problem == "A pattern of files has '..' after '*', '?' or '['."
            assert caught.value.remedy == "Write the folder before the pattern."
        (folder / "x*").mkdir()
        assert looked_at("x*/../a.parquet") == looked_at("a.parquet")
        assert looked_at(f"../{folder.name}/*.parquet").text == f"{folder}/*.parquet"


class TestDatabases:
    def test_tables_and_queries(self, folder: Path) -> None:
        whole, visits, labs = (
            looked_at(f"postgresql://h/d {query}") for query in ("SELECT 1 FROM x", "visits", "labs")
        )
        elsewhere = looked_at("postgresql://h/e visits")
        assert covers(whole, visits)
        assert not covers(visits, whole)
        assert covers(visits, looked_at("postgresql+psycopg://h/d public.visits"))
        assert not covers(visits, labs)
        assert not covers(visits, elsewhere)
        assert not covers(visits, looked_at("a.parquet"))
        assert overlap(whole, visits)
        assert overlap(labs, whole)
        assert not overlap(visits, labs)
        assert not overlap(whole, elsewhere)
        assert not overlap(visits, looked_at("a.parquet"))
        assert not overlap(visits, Source("visits"))

    def test_tables_that_differ_by_case(self, folder: Path) -> None:
        one, other = looked_at("postgresql://h/d visits"), looked_at("postgresql://h/d Visits")
        assert overlap(one, other)
        assert not covers(one, other)
        assert covers(looked_at("sqlite:///x.db visits"), looked_at("sqlite:///x.db Visits"))

    def test_an_sqlite_file_is_a_file(self, folder: Path) -> None:
        sqlite3.connect("clinic.db").close()
        (folder / "clinic.db").write_bytes(b"")
        os.link("clinic.db", "other.db")
        clinic, other = (looked_at(SqlSource(f"sqlite:///{name}.db", "visits")) for name in ("clinic", "other"))
        assert clinic.files == other.files != ()
        assert covers(clinic, other)
        assert overlap(clinic, other)


def test_taken_by_another(folder: Path) -> None:
    taken = {"patients": (Source("patients"), looked_at("a.parquet")), "visits": (Source("visits"),)}
    check_free("patients", (looked_at("a.parquet"),), taken)
    check_free("staff", (looked_at("b.parquet"), Source("staff")), taken)
    for asked in ((looked_at("a.parquet"),), (Source("VISITS"),)):
        with pytest.raises(SourceTaken, match=r"^The source of account 'staff' is bound to account "):
            check_free("staff", asked, taken)
    with pytest.raises(SourceTaken, match=r"^An account 'visıts' could be mistaken for the account 'visits'"):
        check_free("visıts", (Source("staff"),), taken)


def test_a_list_of_files_elsewhere_is_not_paid_for_by_its_name(folder: Path) -> None:
    """A table that is a list of files (Delta, Iceberg) lies at the account's source, and what it lists does not."""
    (folder / "table").mkdir()
    shutil.copy("a.parquet", folder / "table" / "own.parquet")
    own = looked_at("table")
    listed = [Source(own.text, listed=(str(folder / name),)) for name in ("table/own.parquet", "b.parquet")]
    check_pays_for("staff", own, listed[0])
    with pytest.raises(SourceMismatch) as caught:
        check_pays_for("staff", own, listed[1])
    assert caught.value.problem == (
        f"What is to be read lists files that do not lie at '{own.text}', for which account 'staff' pays. "
        "Nothing was computed or spent."
    )
    assert caught.value.remedy == (
        "Write a table whose files lie below it; or let an account pay that is for a folder with all of them."
    )


def test_what_an_earlier_account_pays_for(folder: Path) -> None:
    earlier = {"patients": (Source("patients"), looked_at("a.parquet"))}
    check_unshared("staff", looked_at("b.parquet"), earlier)
    os.link("a.parquet", "c.parquet")
    with pytest.raises(SourceTaken) as caught:
        check_unshared("staff", looked_at("c.parquet"), earlier)
    assert caught.value.problem == (
        "What account 'staff' is to pay for belongs to account 'patients', which was there before. "
        "Nothing was computed or spent."
    )
    assert caught.value.remedy == "Let that account pay; or read files that are not its own."


class TestAccounts:
    @staticmethod
    def fitted(account: Account, X: object) -> PrivateMean:
        return PrivateMean(epsilon=0.5, schema=AGES, account=account).fit(X)

    @staticmethod
    def kinds(account: Account) -> list[str]:
        return [entry.kind for entry in account.entries()]

    def test_an_account_pays_for_its_own_source(self, ledger: Ledger, folder: Path) -> None:
        account = ledger.account("patients", epsilon=3.0, source="a.parquet")
        assert account.terms.files == looked_at("a.parquet").files
        assert self.fitted(account, read("a.parquet")).account == account
        model = PrivateMean(epsilon=0.5, schema=AGES, account=account)
        for act in (model.price, model.fit):
            with pytest.raises(SourceMismatch) as caught:
                act(read("b.parquet"))
            assert caught.value.problem == (
                f"Account 'patients' pays for '{folder}/a.parquet', and not for '{folder}/b.parquet'. "
                "Nothing was computed or spent."
            )
            assert caught.value.remedy == SourceMismatch.help
        with pytest.raises(SourceMismatch):
            account.charge(Guarantee(0.5), pure_cost(0.5), "a test", source=looked_at("b.parquet"))
        assert self.kinds(account) == ["open", "charge", "result"]
        # What is in memory has no source that could be looked at: the declared one stands.
        self.fitted(account, pd.DataFrame({"age": [30.0, 40.0]}))
        ledger.verify()

    def test_no_account_is_bound_to_the_source_of_another(self, ledger: Ledger, folder: Path) -> None:
        """Whichever comes first by name."""
        for name, owner in (("ants", "bees"), ("zebras", "yaks")):
            account = ledger.account(name, epsilon=1.0)
            ledger.account(owner, epsilon=1.0, source="a.parquet" if owner == "bees" else "b.parquet")
            with pytest.raises(SourceTaken):
                account.bind(looked_at("a.parquet" if owner == "bees" else "b.parquet"))
            assert self.kinds(account) == ["open"]

    def test_an_account_with_a_name_is_bound_by_its_first_charge(self, ledger: Ledger, folder: Path) -> None:
        account = ledger.account("patients", epsilon=1.0)
        model = PrivateMean(epsilon=0.5, schema=AGES, account=account)
        model.price(read("b.parquet"))
        with pytest.raises(Exception, match=r"asks for ε = 2 of account 'patients'"):
            PrivateMean(epsilon=2.0, schema=AGES, account=account).fit(read("b.parquet"))
        assert self.kinds(account) == ["open"]
        model.fit(read("a.parquet"))
        assert self.kinds(account) == ["open", "bind", "charge", "result"]
        assert account.terms.bound == f"{folder}/a.parquet"
        with pytest.raises(SourceMismatch):
            model.fit(read("b.parquet"))
        account.bind(looked_at("a.parquet"))
        with pytest.raises(SourceMismatch):
            account.bind(looked_at("b.parquet"))
        assert self.kinds(account) == ["open", "bind", "charge", "result"]
        ledger.raise_budget("patients", epsilon=2.0, reason="more")
        assert account.terms.bound == f"{folder}/a.parquet"
        ledger.verify()

    def test_nobody_is_bound_to_the_source_of_another(self, ledger: Ledger, folder: Path) -> None:
        first, second = (ledger.account(name, epsilon=1.0) for name in ("first", "other"))
        first.bind(looked_at("a.parquet"))
        with pytest.raises(SourceTaken):
            second.bind(looked_at("a.parquet"))
        with pytest.raises(SourceTaken):
            self.fitted(second, read("a.parquet"))
        for source in ("a.parquet", "first"):
            with pytest.raises(SourceTaken):
                ledger.account("third", epsilon=1.0, source=source)
        assert self.kinds(second) == ["open"]

    def test_of_two_accounts_for_what_became_one_file_the_first_pays(self, ledger: Ledger, folder: Path) -> None:
        first = ledger.account("first", epsilon=3.0, source="later.parquet")
        second = ledger.account("other", epsilon=3.0, source="a.parquet")
        self.fitted(second, read("a.parquet"))
        os.link("a.parquet", "later.parquet")
        self.fitted(first, read("later.parquet"))
        for act in (second.check_source, second.bind):
            with pytest.raises(SourceTaken):
                act(looked_at("a.parquet"))
        with pytest.raises(SourceTaken):
            second.charge(Guarantee(0.5), pure_cost(0.5), "a test", source=looked_at("a.parquet"))
        assert self.kinds(second) == ["open", "charge", "result"]

    def test_a_source_that_is_named_again_is_the_same(self, ledger: Ledger, folder: Path) -> None:
        ledger.account("patients", epsilon=1.0).bind(looked_at("a.parquet"))
        for source in ("a.parquet", f"file://{folder}/a.parquet", "PATIENTS", None):
            assert ledger.account("patients", epsilon=1.0, source=source).name == "patients"
        for source in ("b.parquet", folder, "staff"):
            with pytest.raises(AccountMismatch, match="was opened with another source"):
                ledger.account("patients", epsilon=1.0, source=source)
