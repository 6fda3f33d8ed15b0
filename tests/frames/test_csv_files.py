"""CSV files keep the types that are declared, however late a field contradicts, and a gap is a gap however it is written."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from sudare.errors import SourceUnreadable, SudareError, WrongType
from sudare.frames import csv_files, read
from sudare.schema import Category, Number, Schema, encode
from tests.frames.test_sources import SCHEMA


def big_csv(path: Path, first: str, last: str) -> Path:
    """A file in which the last field stands several blocks after the others."""
    rows = 4 * csv_files.CSV_BLOCK_BYTES // (len(first) + 2)
    path.write_text("x,y\n" + f"{first},1\n" * rows + f"{last},1\n")
    return path


def test_declared_types_do_not_flip_late_in_a_csv_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "CSV_BLOCK_BYTES", 2**12)
    path = big_csv(tmp_path / "late.csv", "1", "2.5")
    with pytest.raises(SourceUnreadable, match=r"changes its type.*Give schema"):
        read(path)
    number = Schema({"x": Number(0, 10)})
    assert read(path, schema=number)["x"][-1] == 2.5
    assert read(path, schema=number).names == ("x",)
    big_csv(path, "1", "NA")
    assert math.isnan(read(path, schema=number)["x"][-1])
    big_csv(path, "1", "one")
    with pytest.raises(WrongType, match="'x' is declared to hold numbers"):
        read(path, schema=number)
    text = Schema({"x": Category(("1", "one"))})
    assert encode(text, read(path, schema=text)).matrix[-1].tolist() == [0, 1]
    # Undeclared columns that are asked for are text.
    assert set(read(path, columns=["y"], schema=text)["y"]) == {"1"}


def test_columns_that_a_schema_does_not_declare_are_text(tmp_path: Path) -> None:
    schema = Schema({"ward": Category(("a", "b"))})
    for last in ("007", "X9"):
        (tmp_path / "rows.csv").write_text(f"ward,code\na,007\nb,{last}\n")
        assert read(tmp_path / "rows.csv", ["ward", "code"], schema)["code"].tolist() == ["007", last]


def test_what_is_missing_in_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text(
        "dose,ward,visits,urgent,outcome,patient\n 3 ,NA,,true,ill,007\ninf,,2,False,well,NA\n,null,NA,TRUE,ill,8\n"
    )
    table = read(path, schema=SCHEMA)
    assert table["ward"].tolist() == ["NA", None, None]
    assert table["patient"].tolist() == ["007", "NA", "8"]
    np.testing.assert_array_equal(table["dose"], [3, math.inf, math.nan])
    np.testing.assert_array_equal(table["visits"], [math.nan, 2, math.nan])
    assert table["urgent"].tolist() == [True, False, True]
    path.write_text("urgent\n1\n")
    with pytest.raises(WrongType, match="'urgent'"):
        read(path, schema=Schema({"urgent": Category((False, True))}))
    path.write_text("visits\n1.5\n")
    with pytest.raises(WrongType, match="'visits' is declared to hold categories"):
        read(path, schema=Schema({"visits": Category((1, 2))}))
    path.write_text("dose\n1e999\n-1e999\n")
    assert encode(
        Schema({"dose": Number(0, 1)}), read(path, schema=Schema({"dose": Number(0, 1)}))
    ).matrix.tolist() == [[1], [0]]
    path.write_text("visits,patient\n1,\n")
    with pytest.raises(SudareError, match="'patient' lacks a value"):
        SCHEMA.check_person(read(path, schema=SCHEMA))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_late_type_is_told_whatever_the_number_of_threads(tmp_path: Path, threads: int) -> None:
    path = tmp_path / "late.csv"
    path.write_text("dose\n" + "1\n" * 4_000_000 + "much\n")
    before = pa.cpu_count()
    pa.set_cpu_count(threads)
    try:
        with pytest.raises(SourceUnreadable, match="changes its type"):
            read(path)
        with pytest.raises(WrongType, match="'dose' is declared to hold numbers"):
            read(path, schema=Schema({"dose": Number(0, 1)}))
    finally:
        pa.set_cpu_count(before)
