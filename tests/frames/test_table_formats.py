"""Tables that are lists of files: folders by their names, Datasets, Delta and Iceberg tables, each in its version."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from sudare.errors import SourceMismatch, SourceUnreadable, WrongType
from sudare.frames import batches, read, source
from sudare.privacy import Ledger
from sudare.privacy.source_identity import covers, given_source, looked_at
from sudare.schema import Category, Number, Schema
from sudare.statistics import PrivateMean
from tests.frames.test_every_source import visits
from tests.source_kinds import SOURCES, delta, iceberg, library


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


@pytest.mark.parametrize("column", [Number(0, 9), Category((0, 1)), Category((False, True))])
@pytest.mark.parametrize("name", ["1.x", "１", "hidden words"])
def test_a_folder_whose_name_is_no_value_is_told_as_that(tmp_path: Path, name: str, column: Number | Category) -> None:
    for place in ("part=1", f"part={name}"):
        (tmp_path / place).mkdir()
        pyarrow.parquet.write_table(visits(), tmp_path / place / "a.parquet")
    with pytest.raises(WrongType, match=r"^Names of folders are the values of column 'part'") as refusal:
        read(tmp_path, ["age", "part"], Schema({"part": column}))
    assert name not in str(refusal.value)
    assert read(tmp_path, ["part"], Schema({"part": Category(("1", name))})).rows > 0


def test_a_dataset_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(visits(), tmp_path / "a.parquet")
    dataset = pyarrow.dataset.dataset(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_text("hidden words")
    with pytest.raises(SourceUnreadable, match=r"^The dataset cannot be read \(\w+\)") as refusal:
        list(batches(dataset))
    assert "hidden" not in str(refusal.value)


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

    def test_a_list_of_files_elsewhere_is_told_as_that(self, tmp_path: Path) -> None:
        table = delta(visits(), tmp_path)
        account = Ledger(tmp_path / "ledger.db").account("visits", epsilon=1.0, source=table)
        pyarrow.parquet.write_table(visits().slice(0, 10), tmp_path / "elsewhere.parquet")
        log = sorted((table / "_delta_log").glob("*.json"))[-1]
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                line["add"]["path"] = "../elsewhere.parquet"
        log.write_text("\n".join(map(json.dumps, lines)))
        schema = Schema({"age": Number(0, 110)})
        with pytest.raises(SourceMismatch, match="lists files that do not lie at"):
            PrivateMean(0.5, schema=schema, account=account).fit(table)
        assert account.spent().epsilon == 0

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

    def test_signs_in_values_of_partitions_name_other_folders(self, tmp_path: Path) -> None:
        """A blank, a slash or a letter beyond ASCII is written %20 in the folder's name: it is known by that name, whatever folder has the other one."""
        named = pa.table({"age": [30.0, 50.0] * 50, "ward": ["a b", "外科/1"] * 50})
        library("deltalake").write_deltalake(str(tmp_path / "wards"), named, partition_by=["ward"])
        listed = source(tmp_path / "wards").origin.files
        assert sorted(listed) == sorted(map(str, (tmp_path / "wards").rglob("*.parquet")))
        (tmp_path / "wards" / "ward=a b").mkdir()
        account = Ledger(tmp_path / "ledger.db").account("wards", epsilon=1.0, source=tmp_path / "wards")
        PrivateMean(0.5, schema=Schema({"age": Number(0, 110)}), account=account).fit(tmp_path / "wards")
        assert account.spent().epsilon == 0.5
        identity = given_source(tmp_path / "wards")
        assert identity is not None
        assert len(identity.files) == 2


class TestIceberg:
    @pytest.mark.parametrize("scheme", ["", "file:", "file://"])
    @pytest.mark.parametrize("folder", ["warehouse", "ware house", "ware%20house"])
    def test_a_table_is_known_by_its_files_however_its_location_is_written(
        self, tmp_path: Path, scheme: str, folder: str
    ) -> None:
        """Spark writes file:/visits: such a table was taken for one in memory, for which any account pays; and of file:///a%20b the folder "a b"."""
        library("pyiceberg")
        from pyiceberg.catalog.memory import InMemoryCatalog

        catalog = InMemoryCatalog("here", warehouse=f"{scheme}{tmp_path / folder}")
        catalog.create_namespace("clinic")
        made = catalog.create_table("clinic.rows", schema=visits().schema)
        made.append(visits())
        place = tmp_path / folder / "clinic" / "rows"
        for given in (made, f"iceberg:{place}"):
            identity = given_source(given)
            assert identity is not None
            assert identity.text == str(place)
            assert list(identity.listed) == list(map(str, place.rglob("*.parquet")))
            assert len(identity.files) == 1

    @pytest.mark.parametrize("location", ["hdfs://node/rows", "s3://bucket/rows", "postgresql://host/rows"])
    def test_files_whose_account_nobody_could_tell_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
    ) -> None:
        made = iceberg(visits(), tmp_path)
        monkeypatch.setattr(made, "location", lambda: location)
        with pytest.raises(SourceUnreadable, match="places of several kinds"):
            source(made)


def test_iceberg_tables_that_are_none(tmp_path: Path) -> None:
    library("pyiceberg")
    with pytest.raises(SourceUnreadable, match="no Iceberg table at"):
        read(f"iceberg:{tmp_path}")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_text("hidden")
    with pytest.raises(SourceUnreadable, match="cannot be reached") as refusal:
        read(f"iceberg:{tmp_path}")
    assert "hidden" not in str(refusal.value)
