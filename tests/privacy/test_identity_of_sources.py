"""Which data an account pays for where they are objects in a store, lists of files, or tables of several folders: no spelling is a second budget."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from sudare.errors import InvalidParameter, SourceMismatch, SourceTaken, SourceUnreadable, SudareError
from sudare.frames import batches, kept_persons, read, source
from sudare.frames.person_joins import PersonJoin
from sudare.frames.record_source import FileList
from sudare.frames.sources import CsvFile, SqlSource
from sudare.privacy import Ledger, select_privately
from sudare.privacy.source_identity import (
    SliceIdentity,
    Source,
    _source_of,
    covers,
    given_source,
    looked_at,
    overlap,
    source_text,
    together,
)
from sudare.schema import Number, Person, Schema
from sudare.statistics import PrivateStandardScaler

AGES = Schema({"age": Number(0, 110)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("one/a", "two/a", "two/b", "months/month=1/a", "months/month=2/a"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame({"age": np.linspace(20, 80, 50)}).to_parquet(path)
    return Path(os.path.realpath(tmp_path))


class TestObjects:
    def test_one_text_for_one_place(self) -> None:
        for text in ("s3://bucket/a.parquet", "s3a://key:word@bucket//a.parquet", "S3://bucket:0/a.parquet?region=eu"):
            assert source_text(text) == "s3://bucket/a.parquet"
        assert source_text(CsvFile("gs://bucket/a.csv")) == "gs://bucket/a.csv"
        assert source_text("delta:s3://bucket/table/") == "s3://bucket/table"
        found = looked_at("s3://bucket/a.parquet")
        assert found.is_object
        assert found.is_verifiable
        assert found.database is None
        assert not found.is_path
        assert given_source("s3://key:word@bucket/a.parquet") == found

    def test_folders_and_patterns(self) -> None:
        bucket, table, a = (looked_at(text) for text in ("s3://b", "s3://b/table", "s3://b/table/a.parquet"))
        pattern, elsewhere = looked_at("s3://b/table/*.parquet"), looked_at("s3://other/table/a.parquet")
        assert covers(bucket, table)
        assert covers(table, a)
        assert covers(table, pattern)
        assert covers(pattern, a)
        assert covers(a, a)
        assert covers(Source("s3://b:0/table/a.parquet"), a)
        assert covers(a, Source("s3://b:0/table/a.parquet"))
        assert not covers(a, table)
        assert not covers(a, pattern)
        assert not covers(pattern, table)
        assert not covers(table, elsewhere)
        for one in (bucket, table, pattern, a, Source("s3://b:0/table")):
            assert overlap(one, a)
            assert overlap(a, one)
            assert not overlap(one, elsewhere)
        assert overlap(pattern, looked_at("s3://b/tab*"))
        assert not overlap(pattern, looked_at("s3://b/other/*.parquet"))
        assert not overlap(a, looked_at("s3://b/table/a.parquet.old"))
        assert not overlap(a, looked_at("/b/table/a.parquet"))
        assert not covers(a, looked_at("/b/table/a.parquet"))

    def test_lists_of_objects(self) -> None:
        listed = _source_of(FileList("s3://b/table", ("s3://b/table/a.parquet", "s3://b/far/c.parquet"), False))
        assert listed is not None
        assert not covers(looked_at("s3://b/table"), listed)
        assert covers(looked_at("s3://b"), listed)
        assert overlap(listed, looked_at("s3://b/far"))


class TestListsOfFiles:
    def test_a_dataset_is_its_files(self, folder: Path) -> None:
        one = given_source(pyarrow.dataset.dataset("one"))
        assert one is not None
        assert one.text == f"{folder}/one/a.parquet"
        assert one.files == looked_at("one/a.parquet").files
        two = given_source(pyarrow.dataset.dataset(["two/a.parquet", "two/b.parquet"]))
        assert two is not None
        assert two.text == f"{folder}/two"
        apart = given_source(pyarrow.dataset.dataset(["one/a.parquet", "two/b.parquet"]))
        assert apart is not None
        assert apart.text == str(folder)
        assert given_source(pyarrow.dataset.dataset(pa.table({"age": [1.0]}))) is None
        for owned, given, is_covered in (
            ("two", two, True),
            ("two/*.parquet", two, True),
            ("two/a.parquet", two, False),
            (".", apart, True),
            ("two", apart, False),
        ):
            assert covers(looked_at(owned), given) == is_covered
        assert covers(two, looked_at("two/a.parquet"))
        assert overlap(apart, looked_at("one/a.parquet"))
        # Of the folder that holds both, though it has a file of its own name, only the listed files are read.
        assert not covers(Source(str(folder), (), ()), Source(str(folder), (), ("/nowhere/a.parquet",)))

    def test_a_file_elsewhere_is_not_covered_by_the_name_of_the_list(self, folder: Path) -> None:
        """The log of a table may name files of others."""
        sly = _source_of(FileList(f"{folder}/one", (f"{folder}/one/a.parquet", f"{folder}/two/b.parquet"), True))
        assert sly is not None
        assert not covers(looked_at("one"), sly)
        assert overlap(sly, looked_at("two/b.parquet"))

    def test_a_table_of_several_folders_is_all_files_below(self, folder: Path) -> None:
        months = given_source("months")
        assert months == given_source(source("months"))
        assert months is not None
        assert len(months.files) == 2
        assert covers(looked_at("months"), looked_at("months/month=1/a.parquet"))
        assert overlap(months, looked_at("months/month=1"))
        (folder / "months" / "_SUCCESS").touch()
        assert not covers(looked_at(Path("months/_SUCCESS")), looked_at("months"))

    def test_a_folder_with_a_log_is_all_files_below(self, folder: Path) -> None:
        (folder / "two" / "_delta_log").mkdir()
        (folder / "two" / "part=1").mkdir()
        os.link("one/a.parquet", "two/part=1/a.parquet")
        assert overlap(looked_at("delta:two"), looked_at("one/a.parquet"))
        assert looked_at("delta:two").text == f"{folder}/two"

    def test_what_was_read_knows_where_from(self, folder: Path) -> None:
        for given in ("one", "months", pyarrow.dataset.dataset("one"), pyarrow.dataset.dataset("two")):
            assert given_source(read(given)) == given_source(given) == given_source(source(given))
        assert given_source(read({"age": [1.0]})) is None
        assert given_source(SqlSource("sqlite://", "t")) is None


def test_sources_need_a_schema_and_are_read_for_predictions(folder: Path) -> None:
    model = PrivateStandardScaler(1.0, schema=AGES, random_state=0).fit("one")
    frame = pd.read_parquet("one/a.parquet")
    np.testing.assert_array_equal(model.transform("one"), model.transform(frame))
    for given in ("one", iter([frame])):
        with pytest.raises(InvalidParameter, match="A data source needs a schema"):
            PrivateStandardScaler(1.0, bounds=(0, 110)).fit(given)


def test_a_choice_reads_its_source_into_memory(folder: Path) -> None:
    def chosen(given: Any) -> Any:
        tried = [PrivateStandardScaler(schema=AGES)]
        scores = lambda model, X, y: np.full(len(X), 0.5)  # noqa: E731
        return select_privately(tried, given, epsilon=4.0, row_scores=scores, random_state=1).model.mean_

    np.testing.assert_array_equal(chosen("one"), chosen(pd.read_parquet("one/a.parquet")))


def test_declared_objects(folder: Path) -> None:
    dataset = pyarrow.dataset.dataset("two")
    assert source_text(dataset) == looked_at(dataset).text == f"{folder}/two"


def test_databases_in_a_file(folder: Path) -> None:
    (folder / "x.duckdb").touch()
    named = looked_at("duckdb:///x.duckdb MAIN.Visits")
    assert named.text == f"duckdb:///{folder}/x.duckdb visits" == source_text(SqlSource("duckdb:///x.duckdb", "visits"))
    assert named.files == looked_at("x.duckdb").files != ()
    assert given_source("duckdb:///x.duckdb visits") == named
    os.link("x.duckdb", "y.duckdb")
    assert covers(named, looked_at("duckdb:///y.duckdb visits"))
    assert covers(looked_at("duckdb:///x.duckdb SELECT 1 FROM visits"), named)


@pytest.mark.parametrize("kind", ["file", "folder", "pattern", "dataset", "table"])
def test_one_file_has_one_budget(folder: Path, kind: str) -> None:
    spellings: dict[str, Any] = {
        "file": "one/a.parquet",
        "folder": Path("one"),
        "pattern": "one/*.parquet",
        "dataset": pyarrow.dataset.dataset("one"),
        "table": read("one/a.parquet"),
    }
    ledger = Ledger(folder / "ledger.db")
    account = ledger.account("patients", epsilon=9.0)
    PrivateStandardScaler(0.5, schema=AGES, account=account).fit(spellings.pop(kind))
    other = ledger.account("others", epsilon=9.0)
    for given in spellings.values():
        with pytest.raises((SourceTaken, SourceMismatch)):
            PrivateStandardScaler(0.5, schema=AGES, account=other).fit(given)
    assert other.spent().epsilon == 0


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        (("/d/a.parquet", "/d/b.parquet"), "/d"),
        (("s3://b/x/1.csv", "s3://b/x/2.csv"), "s3://b/x"),
        (("s3://b/1.csv", "s3://c/1.csv"), ""),
        (("postgresql://h:5432/d t", "postgresql://h:5432/d u"), "postgresql://h:5432/d"),
        (("postgresql://h:5432/d t", "postgresql://h:5432/e t"), ""),
        (("/d/a.parquet", "s3://b/1.csv"), ""),
        (("/d/a.parquet", "postgresql://h:5432/d t"), ""),
    ],
)
def test_several_sources_are_what_holds_all_of_them(texts: tuple[str, str], text: str) -> None:
    found = together(map(Source, texts))
    assert found == Source(text, listed=() if found is None else found.listed, is_several=True)
    assert together([Source(texts[0]), None, Source(texts[0])]) == Source(texts[0])
    assert together([None]) is None
    slices = [Source(texts[0], part=SliceIdentity("p", (("month", each),))) for each in "12"]
    assert together(slices) == Source(texts[0])
    assert together(slices[:1]) == slices[0]


def test_an_account_pays_for_all_that_rows_are_made_of(tmp_path: Path) -> None:
    places = [tmp_path / name / "t.parquet" for name in ("visits", "doses")]
    for place, name in zip(places, ("age", "dose"), strict=True):
        place.parent.mkdir()
        pd.DataFrame({"p": [1, 1, 2, 3], name: [1.0, 2.0, 3.0, 4.0]}).to_parquet(place)
    schema = Schema({"age": Number(0, 9), "dose": Number(0, 9)}, Person("p", 1))
    one = Schema({"dose": Number(0, 9)}, Person("p", 1))
    ledger = Ledger(tmp_path / "ledger.db")
    join = PersonJoin(*places, schema, (1, 1))
    named = ledger.account("harp", epsilon=9.0, unit="person")
    owns_one = ledger.account("violin", epsilon=9.0, unit="person", source=places[0])
    for account in (named, owns_one):
        for data in (
            join,
            read(join),
            pyarrow.dataset.dataset([pyarrow.dataset.dataset(str(each)) for each in places]),
        ):
            with pytest.raises(SourceMismatch, match="several sources") as told:
                PrivateStandardScaler(1.0, 1e-6, schema=schema, account=account).fit(data)
            assert str(tmp_path) in str(told.value)
    with pytest.raises(SourceMismatch, match="No folder"):
        named.check_source(together([Source("/d"), Source("s3://b/1.csv")]))
    for data in (kept_persons(places[1], one).source, read(kept_persons(places[1], one).source)):
        found = given_source(data)
        assert found is not None
        assert found.text == str(places[1].resolve())
    in_memory = PersonJoin(pd.DataFrame({"p": [1], "age": [1.0]}), places[1], schema, (1, 1))
    found = given_source(in_memory)
    assert found is not None
    assert found.text == str(places[1].resolve())
    assert (
        Ledger(tmp_path / "other.db")
        .account("both", epsilon=1.0, unit="person", source=tmp_path)
        .check_source(given_source(join))
        is None
    )


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:gehe1m@h:54x2/db visits",
        "s3:/K:gehe1m@b/x.parquet",
        "s3 ://K:gehe1m@b/x.parquet",
        "jdbc:postgresql://h/db?user=u&password=gehe1m t",
        "Server=h;Password=gehe1m",
        "u:gehe1m@h",
    ],
)
def test_a_mistyped_address_is_neither_kept_nor_quoted(tmp_path: Path, text: str) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(SourceUnreadable) as told:
        ledger.account("visits", epsilon=1.0, source=text)
    assert "gehe1m" not in str(told.value)
    assert not ledger.accounts()
    with pytest.raises(SudareError) as told_by_reader:
        list(batches(text))
    assert "gehe1m" not in str(told_by_reader.value)
