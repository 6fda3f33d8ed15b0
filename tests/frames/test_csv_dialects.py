"""CSV files as people have them: encodings, separators, decimal marks, and numbers that are none."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import InvalidParameter, SourceUnreadable, SudareError, UnknownCategory, WrongType
from sudare.frames import column_types, read
from sudare.frames.csv_dialects import (
    CsvFile,
    detected_decimal_point,
    detected_encoding,
    detected_separator,
    likely_encodings,
    why_no_number,
)
from sudare.schema import Category, Number, Schema, encode

JAPANESE = "年齢,都道府県\n31,東京都\n47,大阪府\n52,北海道\n60,カナガワ\n29,ひろしま\n"
SCHEMA = Schema({"年齢": Number(0, 110), "都道府県": Category(["東京都", "大阪府", "北海道", "カナガワ", "ひろしま"])})
PATH = Path("people.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp932", "euc_jp"])
@pytest.mark.parametrize("packed", [False, True])
def test_japanese_tables_are_read_in_every_usual_encoding(tmp_path: Path, encoding: str, packed: bool) -> None:
    file = tmp_path / ("people.csv.gz" if packed else "people.csv")
    written = JAPANESE.encode(encoding)
    file.write_bytes(gzip.compress(written) if packed else written)
    shows = encoding in ("utf-8", "utf-8-sig", "utf-16")
    said = CsvFile(file, encoding=None if shows else encoding)
    for table in (read(said), read(said, schema=SCHEMA), read(CsvFile(file, encoding=encoding), schema=SCHEMA)):
        assert table.arrow.to_pydict() == {
            "年齢": [31, 47, 52, 60, 29],
            "都道府県": ["東京都", "大阪府", "北海道", "カナガワ", "ひろしま"],
        }
    assert column_types(said).names == ["年齢", "都道府県"]
    if not shows:
        with pytest.raises(SourceUnreadable, match=f"--encoding {encoding} "):
            read(file)


def test_one_record_does_not_change_how_the_others_are_read(tmp_path: Path) -> None:
    file, remark = tmp_path / "cities.csv", "これはひらがなです" * 300
    file.write_bytes(b"city,remark\n" + "東京,ok\n".encode() * 300 + "東京,".encode() + remark.encode("cp932"))
    with pytest.raises(SourceUnreadable, match="--encoding cp932 "):
        read(file)
    for record in ("1,2", "1;2"):
        assert detected_separator(f"a,b;c\n1,2;3\n{record}\n", ()) is None


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "cp1251", "iso8859_2"])
def test_an_encoding_that_does_not_show_is_asked_for(tmp_path: Path, encoding: str) -> None:
    names = (
        "École,Größe\nà côté,1\nélève,2\ncafé crème,3\n" if encoding != "cp1251" else "Город,Рост\nМосква,1\nКазань,2\n"
    )
    if encoding == "iso8859_2":
        names = "Město,Výška\nPříbram,1\nČeské Budějovice,2\n"
    file = tmp_path / "people.csv"
    file.write_bytes(names.encode(encoding))
    with pytest.raises(SourceUnreadable, match="does not show") as refusal:
        read(file)
    assert "--encoding" in refusal.value.remedy
    column = names.splitlines()[0].split(",")[1]
    assert read(CsvFile(file, encoding=encoding)).arrow[column].to_pylist()[:2] == [1, 2]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1))
def test_what_is_utf_8_is_read_as_utf_8(text: str) -> None:
    assert detected_encoding(text.encode(), PATH) in ("utf-8", "utf-16") or "\ufeff" in text


def test_a_character_cut_by_the_end_of_the_sample_is_no_fault(tmp_path: Path) -> None:
    for encoding in ("utf-8", "cp932", "euc_jp"):
        lines = "a,b\n" + "1,とうきょう都\n" * 60_000
        for shift in (0, 1):
            written = ("x" * shift + lines).encode(encoding)
            if encoding == "utf-8":
                assert detected_encoding(written[: 2**20], PATH) == encoding
            else:
                assert likely_encodings(written[: 2**20]) == [encoding]


@pytest.mark.parametrize("name", ["", "no such", "zip", 3, "base64"])
def test_an_encoding_is_one_of_text(name: object) -> None:
    with pytest.raises(InvalidParameter, match="encoding"):
        CsvFile("people.csv", encoding=name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "separator", "point"),
    [
        ("a,b\n1,2\n", ",", "."),
        ("a;b\n1,5;2\n", ";", ","),
        ("a;b\n1.5;2\n", ";", "."),
        ("a;b\n1,500;2\n", ";", "."),
        ("a;b\n1,5;2.5\n", ";", None),
        ("a;b\n1,5;1,234\n", ";", None),
        ("a;b\n1.234;3,5\n", ";", None),
        ("a, b;c\n1;3,5\n", None, None),
        ("name;age, years\nBob;3\nEve;4\n", None, None),
        ("a\tb\n1,25\t2\n", "\t", ","),
        ("a|b\n1|2\n", "|", "."),
        ('"a;b",c\n1,2\n', ",", "."),
        ('"a,b";c\n1;2\n', ";", "."),
        ("", ",", "."),
    ],
)
def test_separators_and_decimal_marks(text: str, separator: str | None, point: str | None) -> None:
    assert detected_separator(text, ()) == separator
    if separator is not None:
        assert detected_decimal_point(text, separator) == point


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ('"1,234,567"', "thousands"),
        ("1 234", "thousands"),
        ("４２", "full-width"),
        ('"3,5"', "decimal comma"),
        ("¥1200", "currency"),
        ("12%", "unit"),
        ("2026-11-16", 'kind = "date"'),
        ("16.11.2026", 'kind = "date"'),
        ("2026年11月16日", 'kind = "date"'),
        ("many", "cannot be read as numbers"),
    ],
)
def test_numbers_that_are_none_are_told_with_the_fix_and_without_the_value(
    tmp_path: Path, cell: str, says: str
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(f"pay,age\n1,2\n{cell},3\n", "utf-8")
    with pytest.raises(WrongType, match=says) as refusal:
        read(file, schema=Schema({"pay": Number(0, 1e7), "age": Number(0, 110)}))
    assert cell.strip('"') not in str(refusal.value)
    assert "'pay'" in str(refusal.value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_plain_numbers_are_no_matter(number: float) -> None:
    assert why_no_number([str(int(number)) if number.is_integer() else f"{number:f}"]) is None


def test_other_blanks_around_names_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(" age , pay\u3000\n31,2\n", "utf-8")
    assert read(tmp_path / "people.csv", schema=Schema({"age": Number(0, 110), "pay": Number(0, 9)})).names == (
        "age",
        "pay",
    )


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("gb2312", "北京 上海 广州"),
        ("gb18030", "城市 年龄"),
        ("euc_kr", "서울 부산 대구"),
        ("big5", "臺北 高雄"),
        ("cp1251", "жена мужь"),
        ("koi8-r", "даша маша"),
        ("iso8859-5", "годы имяя"),
        ("cp1256", "مصرا قطرر"),
        ("cp1252", "ÉÉ ÀÈ"),
        ("iso2022_jp", "都市 東京"),
        ("utf-32", "a b"),
        ("euc_jp", "東京 大阪"),
    ],
)
def test_other_alphabets_are_not_taken_for_japanese(encoding: str, words: str) -> None:
    text = "city,age\n" + "".join(f"{word},{30 + place}\n" for place, word in enumerate(words.split() * 4))
    with pytest.raises(SourceUnreadable, match="does not show"):
        detected_encoding(text.encode(encoding), PATH)


def test_kanji_alone_are_told_in_shift_jis() -> None:
    assert likely_encodings("都道府県,年齢\n東京都,31\n大阪府,47\n".encode("cp932")) == ["cp932"]


def test_a_line_that_is_cut_where_the_looked_at_beginning_ends_tells_no_decimal_mark(tmp_path: Path) -> None:
    file = tmp_path / "tage.csv"
    line = "24.12.2026;0,5\n"
    beginning = "tag;wert".ljust((2**20 - len("24.12") - 1) % len(line) + len(line)) + "\n"
    file.write_text(beginning + line * (2**20 // len(line) + 9), "utf-8")
    assert file.read_bytes()[: 2**20].endswith(b"\n24.12")
    assert set(read(file).arrow["wert"].to_pylist()) == {0.5}


def test_what_does_not_show_can_be_said(tmp_path: Path) -> None:
    file = tmp_path / "orte.csv"
    file.write_text("ort;einwohner;quote\nA;1.5;3,5\nB;567;2,25\n", "utf-8")
    with pytest.raises(SourceUnreadable, match="decimal mark"):
        read(file)
    assert read(CsvFile(file, decimal=",")).arrow["quote"].to_pylist() == [3.5, 2.25]
    for wrong in ({"separator": ":"}, {"decimal": "x"}):
        with pytest.raises(InvalidParameter):
            CsvFile(file, **wrong)


def test_a_cell_beyond_all_measure_is_no_crash(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text("a;b\n1;" + "x" * 200_000 + "\n", "utf-8")
    assert read(CsvFile(file, has_header=True)).names == ("a", "b")


AMOUNTS = Schema({"amount": Number(0, 1e9), "code": Category((1, 2)), "ward": Category(("a", "b"))})


@pytest.mark.parametrize(
    ("text", "said", "option"),
    [
        ('amount,code,ward\n"1,234,567.5",1,a\n12,2,b\n', {"thousands": ","}, "thousands=,"),
        ("amount,code,ward\n1'234'567.5,1,a\n12,2,b\n", {"thousands": "'"}, "thousands='"),
        ("amount;code;ward\n1.234.567,5;1;a\n12,0;2;b\n", {"thousands": "."}, "thousands="),
        ("amount;code;ward\n1\u202f234\u202f567,5;1;a\n12,0;2;b\n", {"thousands": " "}, "thousands= "),
        ("amount,code,ward\n１２３４５６７．５,１,a\n１２,2,b\n", {"tidy": True}, "tidy=yes"),
        ("amount,code,ward\n1234567.5\u3000,1,a\n\u300012,2,b\n", {"tidy": True}, "tidy=yes"),
        (
            '　amount, code ,ward\n"１，２３４，５６７．５　",1,\u3000a \n12,2, b\n',
            {"tidy": True, "thousands": ","},
            "tidy=yes",
        ),
    ],
)
def test_numbers_as_people_write_them(tmp_path: Path, text: str, said: dict[str, Any], option: str) -> None:
    file = tmp_path / "amounts.csv"
    file.write_text(text, "utf-8")
    with pytest.raises(SudareError) as caught:
        read(file, schema=AMOUNTS)
    assert option in caught.value.remedy
    assert "234" not in str(caught.value)
    for schema in (AMOUNTS, None):
        found = read(CsvFile(file, has_header=True, **said), schema=schema).arrow.to_pydict()
        assert found == {"amount": [1234567.5, 12.0], "code": [1, 2], "ward": ["a", "b"]}


def test_codes_in_full_width_figures_are_told_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("grade,n\n１,3\n2,4\n")
    schema = Schema({"grade": Category((1, 2)), "n": Number(0, 9)})
    with pytest.raises(WrongType, match=r"'grade' is declared to hold categories .* full-width") as refused:
        read(tmp_path / "x.csv", schema=schema)
    assert "tidy=yes" in str(refused.value)
    assert read(CsvFile(tmp_path / "x.csv", tidy=True), schema=schema)["grade"].tolist() == [1, 2]


def test_what_is_no_number_stays_refused_and_gaps_stay_gaps(tmp_path: Path) -> None:
    file = tmp_path / "amounts.csv"
    file.write_text("amount,code,ward\n1234,1,a\nmany,2,b\n")
    with pytest.raises(WrongType, match="'amount' is declared to hold numbers"):
        read(CsvFile(file, tidy=True), schema=AMOUNTS)
    file.write_text("amount,code,ward\nNA,1,a\n,2,b\n")
    assert read(CsvFile(file, thousands=","), schema=AMOUNTS).arrow["amount"].null_count == 2


@pytest.mark.parametrize("wrong", [{"thousands": ";"}, {"thousands": ",", "decimal": ","}, {"tidy": "yes"}])
def test_marks_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        CsvFile("amounts.csv", **wrong)


def test_listed_values_with_blanks_or_capitals_are_told(tmp_path: Path) -> None:
    file = tmp_path / "amounts.csv"
    for cell, hint in ((" b", "tidy=yes"), ("ｂ", "another width"), ("B", "capitals"), ("c", "does not list. Add")):
        file.write_text(f"amount,code,ward\n1,1,a\n1,1,{cell}\n")
        with pytest.raises(UnknownCategory) as caught:
            encode(AMOUNTS, read(file, schema=AMOUNTS))
        assert hint in str(caught.value)


def test_look_alikes_of_japanese_encodings_are_told(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_bytes("ward\n１〜２\n".encode("euc_jp"))
    schema = Schema({"ward": Category(("１～２", "３～４"))})
    table = read(CsvFile(tmp_path / "cases.csv", encoding="euc_jp"), schema=schema)
    with pytest.raises(UnknownCategory, match="look alike"):
        encode(schema, table)


def test_what_is_shown_of_a_file_has_no_password() -> None:
    assert repr(CsvFile("s3://K:gehe1m@b/x.csv", encoding="cp932")) == "CsvFile(…/x.csv, encoding='cp932')"
    assert repr(CsvFile("s3://K:gehe1m@b")) == "CsvFile(…/b)"
