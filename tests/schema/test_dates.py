"""Dates as numbers and as parts, whole numbers, and columns that are left out."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from sudare.errors import SchemaError, WrongType
from sudare.frames import read
from sudare.languages import translated
from sudare.schema import ENCODINGS, Date, DatePart, Label, Number, Schema, encode
from sudare.schema.dates import unreadable_dates

DAYS = Date(first="2020-01-01", last="2020-12-31", missing="2020-06-01")
HOURS = Date(first="2020-01-01T06:00", last="2020-01-03T05:00", unit="hour", timezone="Asia/Tokyo")
SCHEMA = Schema(
    {
        "day": DAYS,
        "hour": HOURS,
        "weekday": DatePart(part="weekday"),
        "visits": Number(0, 20, whole=True, missing=0),
        "outcome": Label(("ill", "well")),
    },
    drop=["id"],
)
TEXT = """id,day,hour,weekday,visits,outcome
1,2020-01-02,2020-01-01T00:30:00+00:00,2020-01-05,3,ill
2, 2021-02-01 ,2020-01-02T12:00:00+09:00,2020-02-29 12:30,20,well
3,,2020-01-01T06:00:00+09:00,1969-12-31,,ill
"""
TABLE = pd.DataFrame(
    {
        "day": pd.to_datetime(["2020-01-02", "2021-02-01", None]),
        "hour": pd.to_datetime(["2020-01-01T09:30", "2020-01-02T12:00", "2020-01-01T06:00"]).tz_localize("Asia/Tokyo"),
        "weekday": [datetime.date(2020, 1, 5), datetime.date(2020, 2, 29), datetime.date(1969, 12, 31)],
        "visits": [3, 20, None],
        "outcome": ["ill", "well", "ill"],
    }
)


def test_every_source_gives_the_same_numbers(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text(TEXT)
    pyarrow.parquet.write_table(pa.Table.from_pandas(TABLE), tmp_path / "visits.parquet")
    sources = [TABLE, pl.from_pandas(TABLE), pl.from_pandas(TABLE).lazy(), pa.Table.from_pandas(TABLE)]
    sources += [read(file, schema=SCHEMA), read(tmp_path / "visits.parquet", schema=SCHEMA)]
    for encoding in ENCODINGS:
        first, *others = (encode(SCHEMA, source, encoding).matrix for source in sources)
        for other in others:
            np.testing.assert_array_equal(first, other)
    scaled = dict(zip(SCHEMA.names(), encode(SCHEMA, TABLE).matrix.T, strict=True))
    assert (scaled["day"] * 365).round().tolist() == [1, 365, 152]
    assert (scaled["hour"] * 47).round().tolist() == [3, 30, 0]
    assert [scaled[f"weekday={day}"].tolist() for day in ("Sunday", "Saturday", "Wednesday")] == np.eye(3).tolist()


def test_what_was_declared_comes_back_from_files() -> None:
    assert Schema.from_toml(SCHEMA.to_toml()) == SCHEMA
    assert Schema.from_dict(SCHEMA.to_dict()).digest == SCHEMA.digest
    native = "[columns.day]\nkind = 'date'\nfirst = 2020-01-01\nlast = 2020-12-31\nmissing = 2020-06-01\n"
    assert Schema.from_toml(native).columns["day"] == DAYS
    # As before there were dates, whole numbers and dropped columns.
    old = Schema({"age": Number(0, 110, bins=(18, 65))})
    assert old.to_dict() == {"columns": {"age": {"kind": "number", "low": 0, "high": 110, "bins": [18, 65]}}}
    assert old.digest == "54e725b3801a5cac4684dee5387a37eb98644944f49fa6ab1e82061fa24c0e4a"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("quarter", [1, 4]),
        ("month", [2, 12]),
        ("day", [29, 31]),
        ("weekday", ["Saturday", "Wednesday"]),
        ("hour", [12, 0]),
    ],
)
def test_parts_are_those_of_the_calendar(part: Any, expected: list[Any]) -> None:
    facts = DatePart(part=part)
    held = pa.chunked_array([["2020-02-29 12:30", "1969-12-31"]])
    schema = Schema({"when": facts})
    levels = np.array(facts.levels, dtype=object)
    assert levels[encode(schema, {"when": held}).matrix.argmax(1)].tolist() == expected
    # A table that holds the part already, such as a synthetic one, is taken as it is.
    assert levels[encode(schema, {"when": expected}).matrix.argmax(1)].tolist() == expected
    assert levels[encode(schema, {"when": list(map(str, expected))}).matrix.argmax(1)].tolist() == expected


def test_text_is_read_as_declared() -> None:
    japanese = Date(first="2020-01-01", last="2020-12-31", format="%Y年%m月%d日")
    column = {"when": ["2020年01月03日", "２０２０年１月４日"]}
    assert encode(Schema({"when": japanese}), column).matrix.ravel().tolist() == [2 / 365, 3 / 365]
    with pytest.raises(WrongType, match="holds some that cannot be read as ISO 8601") as caught:
        encode(Schema({"when": DAYS}), {"when": ["2020-01-02", "31.12.2020"]})
    assert "format" in caught.value.remedy
    assert "31.12" not in str(caught.value)


@pytest.mark.parametrize("when", [["2020-01-01T00:00Z"], ["2020-01-01", "2020-01-01T00:00+09:00"], TABLE["hour"]])
def test_zones_are_declared_or_refused(when: Any) -> None:
    with pytest.raises(WrongType, match="name a time zone") as caught:
        encode(Schema({"when": DAYS}), {"when": when})
    assert 'timezone = "Asia/Tokyo"' in caught.value.remedy


@pytest.mark.parametrize("column", [[1.5, 2.0], [True, False], [datetime.time(12)], np.zeros(3)])
def test_what_are_no_dates_is_refused(column: Any) -> None:
    with pytest.raises(WrongType, match="'when' is declared to hold dates or times"):
        encode(Schema({"when": DAYS}), {"when": column})
    with pytest.raises(WrongType):
        encode(Schema({"when": DAYS}), np.zeros((2, 1)))


@pytest.mark.parametrize(
    "facts",
    [
        {"first": "2020-01-01", "last": "2020-01-01"},
        {"first": "2020-01-01", "last": "2019-01-01"},
        {"first": "soon", "last": "2020-01-01"},
        {"first": "2020-01-01T00:00+09:00", "last": "2021-01-01"},
        {"first": "2020-01-01", "last": "2021-01-01", "unit": "month"},
        {"first": "2020-01-01", "last": "2021-01-01", "timezone": "Tokyo?"},
        {"first": "2020-01-01", "last": "2021-01-01", "format": "%d.%m."},
        {"first": "2020-01-01", "last": "2021-01-01", "missing": "2022-01-01"},
        {"first": "2020-01-01", "last": "2021-01-01", "bins": ["2022-01-01"]},
    ],
)
def test_impossible_declarations_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        Date(**facts)


def test_a_part_is_one_of_those_known() -> None:
    with pytest.raises(SchemaError, match="part"):
        DatePart(part="century")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (pa.timestamp("s"), 2**62),
        (pa.timestamp("ms"), 2**63 - 1),
        (pa.timestamp("us"), 2**63 - 1),
        (pa.timestamp("us", "UTC"), 2**63 - 1),
        (pa.timestamp("ns"), 2**63 - 1),
        (pa.date64(), 2**62),
        (pa.date32(), 2**31 - 1),
    ],
    ids=str,
)
def test_moments_beyond_every_calendar_are_clipped_like_others(kind: pa.DataType, stored: int) -> None:
    """What programs write for "never" came out as any year between the bounds."""
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    values = pa.array([stored, -stored, None, 0], whole).cast(kind, safe=False)
    facts = Date(first="1900-01-01", last="2100-01-01", timezone="Asia/Tokyo", missing="2000-01-01")
    day = Schema({"day": facts, "n": Number(0, 1)})
    found = encode(day, pa.table({"day": values, "n": [0, 0, 0, 0]}), "scaled").matrix[:, 0]
    assert found[:2].tolist() == [1, 0]
    assert 0 < found[2] != found[3] > 0


def test_a_moment_that_another_zone_puts_out_of_the_calendar_is_clipped() -> None:
    texts = ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "2016-W01-1"]
    facts = Date(first="1900-01-01", last="2100-01-01", timezone="Asia/Tokyo")
    found = encode(Schema({"day": facts, "n": Number(0, 1)}), {"day": texts, "n": [0, 0, 0]}, "scaled").matrix[:, 0]
    assert found[:2].tolist() == [1, 0]


def test_whole_numbers() -> None:
    assert Number(0, 5, whole=True).edges == (1, 2, 3, 4, 5)
    assert Number(1, 100, whole=True).edges == tuple(range(11, 101, 10))
    assert Number(0, 3, whole=True, missing="indicator").stand_in == 2
    for facts in (
        {"low": 0.5, "high": 3},
        {"low": 0, "high": 3, "bins": (1.5,)},
        {"low": 0, "high": 3, "missing": 0.5},
    ):
        with pytest.raises(SchemaError, match="whole"):
            Number(**facts, whole=True)
    with pytest.raises(SchemaError, match="neither true nor false"):
        Number(0, 1, whole=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_fractions_in_a_whole_column_are_refused(encoding: Any) -> None:
    schema = Schema({"visits": Number(0, 20, whole=True, missing=0)})
    for table in ({"visits": [1.5, 2.0]}, np.array([[1.5]])):
        with pytest.raises(WrongType, match="not whole"):
            encode(schema, table, encoding)
    assert encode(schema, {"visits": [np.inf, -np.inf, np.nan]}).matrix.ravel().tolist() == [1, 0, 0]


def test_dropped_columns_are_named_once_and_not_declared() -> None:
    with pytest.raises(SchemaError, match="dropped and declared: 'age'"):
        Schema({"age": Number(0, 1)}, drop=["age"])
    with pytest.raises(SchemaError, match="not a list"):
        Schema({"age": Number(0, 1)}, drop="id")  # type: ignore[arg-type]
    assert Schema({"age": Number(0, 1)}, drop=["id", "id"]).drop == ("id",)
    assert Schema({"age": Number(0, 1)}, drop=["id"]) != Schema({"age": Number(0, 1)})


def test_dates_that_cannot_be_read_are_told_in_japanese_without_english() -> None:
    told = translated(unreadable_dates("visited", DAYS).problem, "ja")
    assert (
        told
        == "列 'visited' は日付または時刻と宣言されていますが、ISO 8601（2020-01-31、2020-01-31 17:05）として読めない値があります。"
    )
