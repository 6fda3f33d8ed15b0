"""Which first lines of CSV files are taken for names of columns."""

from __future__ import annotations

import gzip
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError, SchemaError, SourceUnreadable
from sudare.frames import batches, column_types, read
from sudare.frames.csv_dialects import CsvFile
from sudare.frames.csv_header_detection import doubt_about
from sudare.safe_text import looks_like_a_value
from sudare.schema import Category, Number, Schema

HEADERS = [
    "age,income\n37,1200.5\n",
    "name,age\nTanaka,37\n",
    "y,x\n1,2\n",
    "Na,K,Cl\n140,4.1,101\n",
    "患者,年齢\n田中,37\n",
    "q1,q2\n1,2\n",
    "date,place\n2026-01-02,Kyoto\n",
    "smokes,city\ntrue,Kyoto\n",
    "first_visit,1st_dose\n37,2.5\n",
    "when,who\n2026年1月2日,Tanaka\n",
]
RECORDS = [
    "37,1200.5\n41,900\n",
    "Tanaka,37\nSuzuki,41\n",
    "Tanaka,2026-01-02\nSuzuki,2026-02-03\n",
    "Tanaka,02/03/2026\nSuzuki,04/05/2026\n",
    "Tanaka,2 Jan 2026\nSuzuki,3 Feb 2026\n",
    "Tanaka,2026-01-02T10:11:12Z\nSuzuki,2026-01-02T10:11:13Z\n",
    "田中,令和5年3月\n鈴木,令和5年4月\n",
    "Tanaka,３７\nSuzuki,４１\n",
    "Tanaka,true\nSuzuki,false\n",
    "Tanaka,NA\nSuzuki,41\n",
    "Tanaka,\nSuzuki,41\n",
    "Tanaka,1e5\nSuzuki,2e5\n",
    "Tanaka,12%\nSuzuki,30%\n",
    'Tanaka,"1,200"\nSuzuki,"1,300"\n',
    "Tanaka,090-1234-5678,4\nSuzuki,080-1111-2222,5\n",
    "P0017,high\nP0018,low\n",
    "170cm,3\n181cm,4\n",
    "Tanaka,male\nSuzuki,female\nSato,male\n",
    "Tanaka,Kyoto\nSuzuki,Osaka\n",
    "?,Kyoto\n3,Osaka\n",
    "Tanaka,Kyoto\n",
    "Tanaka,Na\nSuzuki,NA\n",
    "Tanaka,epilepsy\nSuzuki,none\nSato,-\n",
    "Tanaka,n.d.\nSuzuki,41\n",
    "田中,未測定\n鈴木,41\n",
    "tanaka@clinic.example,low\nsuzuki@clinic.example,41\n",
    "https://clinic.example/tanaka,low\nhttps://clinic.example/suzuki,41\n",
]


def written(folder, text):
    file = folder / "table.csv"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("text", HEADERS)
def test_names_above_values_are_a_header(tmp_path, text):
    names = text.splitlines()[0].split(",")
    assert column_types(written(tmp_path, text)).names == names


@pytest.mark.parametrize("text", RECORDS)
def test_what_may_be_a_record_is_refused_and_not_quoted(tmp_path, text):
    file = written(tmp_path, text)
    for look in (lambda: column_types(file), lambda: list(batches(file))):
        with pytest.raises(DataError, match="may be a record") as caught:
            look()
        assert "--no-header" in caught.value.remedy
        assert "has_header" in caught.value.remedy
        # The path is said, and a temporary folder may have any number.
        told = str(caught.value).replace(str(file), "")
        assert not any(cell in told for cell in ("Tanaka", "田中", "37", "1200", "male", "Kyoto"))


@pytest.mark.parametrize("text", RECORDS)
def test_a_person_may_say_that_there_is_no_header(tmp_path, text):
    source = CsvFile(written(tmp_path, text), has_header=False)
    found = read(source)
    assert found.names == tuple(f"column_{place}" for place in range(1, len(found.names) + 1))
    assert found.rows == len(text.splitlines())
    assert column_types(source).names == list(found.names)


def test_a_person_may_say_that_there_is_one(tmp_path):
    source = CsvFile(written(tmp_path, "2019,2020,\n3,4,5\n"), has_header=True)
    assert read(source).names == ("2019", "2020", "column_3")
    assert Schema.draft(column_types(source), has_header=True).count("[columns.") == 3
    with pytest.raises(SchemaError, match="column 1 looks like a value"):
        Schema.draft(column_types(source))


def test_text_only_is_read_where_the_names_are_declared(tmp_path):
    file = written(tmp_path, "city,answer\nKyoto,yes\nOsaka,no\n")
    schema = Schema({"answer": Category(("yes", "no"))})
    assert read(file, schema=schema).names == ("answer",)
    assert read(file, ["city"]).names == ("city",)
    with pytest.raises(DataError, match="all lines below"):
        read(file)
    with pytest.raises(DataError, match="all lines below"):
        read(file, schema=Schema({"else": Category(("yes", "no"))}))


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_the_row_numbers_that_pandas_writes_need_no_name(tmp_path, ending):
    file = tmp_path / f"table{ending}"
    pd.DataFrame({"age": [37, 41, 52], "city": ["Kyoto", "Osaka", "Nara"]}).to_csv(file)
    assert column_types(file).names == ["column_1", "age", "city"]
    assert read(file, schema=Schema({"age": Number(0, 110)})).names == ("age",)


def test_an_empty_first_cell_is_an_index_if_the_declared_names_stand_beside_it(tmp_path):
    file = written(tmp_path, ",age,city\n7,37,Kyoto\n3,41,Osaka\n9,52,Nara\n")
    assert read(file, schema=Schema({"age": Number(0, 110)})).rows == 3
    with pytest.raises(DataError, match="cell 1 is empty"):
        read(file)
    with pytest.raises(DataError, match="cell 1 is empty"):
        read(file, schema=Schema({"weight": Number(0, 110)}))


@pytest.mark.parametrize(
    "text",
    [
        ",Tanaka,Kyoto\n0,Suzuki,Osaka\n1,Sato,Nara\n2,Ito,Kobe\n",
        ",Tanaka,37\n0,Suzuki,41\n1,Sato,52\n2,Ito,33\n",
        ",Tanaka,\n0,Suzuki,41\n1,Sato,52\n2,Ito,33\n",
        '"",Tanaka\n1,Suzuki\n2,Sato\n3,Ito\n',
    ],
)
def test_row_numbers_do_not_make_a_record_a_header(tmp_path, text):
    with pytest.raises(DataError, match="may be a record"):
        read(written(tmp_path, text))


def test_declared_names_do_not_make_values_names(tmp_path):
    file = written(tmp_path, "37,Kyoto\n41,Osaka\n")
    with pytest.raises(DataError, match="cell 1 looks like a value"):
        read(file, schema=Schema({"37": Number(0, 1)}))


def test_compressed_files_and_empty_lines(tmp_path):
    file = tmp_path / "table.csv.gz"
    file.write_bytes(gzip.compress(b"\n37,Kyoto\n41,Osaka\n"))
    with pytest.raises(DataError, match="may be a record"):
        read(file)
    assert read(CsvFile(file, has_header=False)).rows == 2


@pytest.mark.parametrize("names", [("age", "age"), ("age", " age"), ("age", "age\u3000"), ("caf\u00e9", "cafe\u0301")])
def test_names_that_are_the_same_are_refused_in_every_format(tmp_path, names):
    file = written(tmp_path, ",".join(names) + "\n1,2\n")
    frame = pa.table([pa.array([1]), pa.array([2])], names=list(names))
    pa.parquet.write_table(frame, tmp_path / "table.parquet")
    sources = [file, tmp_path / "table.parquet", frame, pd.DataFrame([[1, 2]], columns=list(names))]
    for source in sources:
        with pytest.raises(DataError, match="same name"):
            read(source)
        with pytest.raises(DataError, match="same name"):
            column_types(source)


def test_a_first_line_that_does_not_end_where_reading_stops_is_no_header(tmp_path):
    record = ",".join("abcdefghijkl"[place] * 100_000 for place in range(12))
    file = written(tmp_path, f"{record}\n" + ",".join("123456789012") + "\n")
    with pytest.raises(DataError, match="all lines below"):
        column_types(file)


def test_a_long_cell_is_looked_at_once(tmp_path):
    """A number with a letter at its end was once tried in n² ways: a quarter of an hour for this one. The limit is one that only this meets."""
    file = written(tmp_path, "name,age\n" + "1" * 100_000 + "x,3\n")
    looking = f"from sudare.frames import column_types; print(column_types({str(file)!r}).names)"
    told = subprocess.run([sys.executable, "-c", looking], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.strip() == "['name', 'age']"


def test_names_in_an_unknown_encoding_are_not_quoted(tmp_path):
    file = tmp_path / "table.csv"
    file.write_bytes("naïve,b\n1,2\n".encode("latin-1"))
    for look in (lambda: column_types(file), lambda: read(file)):
        with pytest.raises(SourceUnreadable) as caught:
            look()
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_names_have_one_spelling(tmp_path):
    file = written(tmp_path, "cafe\u0301, age\n1,2\n")
    frame = pa.table({"cafe\u0301": [1], " age": [2]})
    pa.parquet.write_table(frame, tmp_path / "table.parquet")
    schema = Schema({"caf\u00e9": Number(0, 9), "age": Number(0, 9)})
    for source in (file, tmp_path / "table.parquet", frame, frame.to_pandas()):
        assert read(source).names == ("caf\u00e9", "age")
        assert read(source, schema=schema).names == ("caf\u00e9", "age")


@given(
    st.lists(st.lists(st.text(max_size=6), min_size=1, max_size=4), max_size=5),
    st.lists(st.text(max_size=6), max_size=2),
)
def test_every_first_line_gets_an_answer(lines, expected):
    reason = doubt_about(lines, expected)
    assert reason is None or "cell" in reason or "text" in reason
    # An empty first cell may stand above row numbers; every other one that looks like a value is doubted.
    if lines and any(map(looks_like_a_value, lines[0][not lines[0][0].strip() :])):
        assert reason is not None


def test_drafts_of_frames_whose_names_look_like_values_are_refused():
    with pytest.raises(SchemaError, match="looks like a value"):
        Schema.draft(pd.DataFrame({"Tanaka": ["Suzuki"], "37.5": [36.9]}))
    assert "[columns.0]" in Schema.draft(pd.DataFrame([[1.5, 2.5]]))
