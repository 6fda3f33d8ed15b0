"""All disagreements of a table with a schema, counted and without values."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sudare.errors import ColumnMissing, MissingValue, UnknownCategory, WrongType
from sudare.frames.schema_validation import schema_report
from sudare.schema import Category, Date, DatePart, Label, Number, Person, Schema

SCHEMA = Schema(
    {"age": Number(0, 110), "town": Category(("a", "b")), "pay": Number(0, 9, missing="centre"), "ill": Label((0, 1))}
)
GOOD = pd.DataFrame({"age": [1.0, 2.0], "town": ["a", "b"], "pay": [1.0, None], "ill": [0, 1]})


def written(frame: pd.DataFrame, folder: Path, ending: str) -> object:
    path = folder / f"table.{ending}"
    if ending == "frame":
        return frame
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "frame"])
def test_what_agrees(tmp_path: Path, ending: str) -> None:
    found = schema_report(written(GOOD, tmp_path, ending), SCHEMA)
    assert (found.rows, found.problems, found.clipped, found.ignored, found.person_like) == (2, [], {}, [], [])


@pytest.mark.parametrize("ending", ["csv", "parquet", "frame"])
def test_all_problems_are_told_with_counts_and_no_value(tmp_path: Path, ending: str) -> None:
    table = pd.DataFrame(
        {
            "age": ["many", "31", "32"],
            "Town": ["a", "b", "a"],
            "pay": [100.0, None, -1.0],
            "ill": [0, 7, 8],
            "patient_id": ["x7", "x7", "x8"],
            "remark": ["fine", "fine", "fine"],
        }
    )
    found = schema_report(written(table, tmp_path, ending), SCHEMA)
    kinds = {problem.column: type(problem.error) for problem in found.problems}
    assert kinds == {"town": ColumnMissing, "age": WrongType, "ill": UnknownCategory}
    texts = " ".join(str(problem.error) for problem in found.problems)
    assert "Did you mean 'Town'" in texts
    assert "'ill' holds 2 values" in texts
    assert "many" not in texts
    assert found.clipped == {"pay": 2}
    assert found.ignored == ["Town", "patient_id", "remark"]
    assert found.person_like == ["patient_id"]


def test_gaps_and_persons() -> None:
    schema = Schema(dict(SCHEMA.columns), Person("who", 1))
    table = GOOD.assign(age=[None, None], who=["me", "me"])
    found = schema_report(table, schema)
    assert [type(problem.error) for problem in found.problems] == [MissingValue]
    assert found.cut_rows == 1
    nobody = schema_report(GOOD.assign(who=["me", None]), schema).problems
    assert [(problem.column, type(problem.error)) for problem in nobody] == [("who", MissingValue)]
    absent = schema_report(GOOD, schema).problems
    assert [problem.column for problem in absent] == ["who"]


@pytest.mark.parametrize(
    ("name", "values", "looks"),
    [
        ("patient_id", [1, 1, 2], True),
        ("customerId", ["a", "a", "b"], True),
        ("患者番号", [1, 2, 2], True),
        ("card", ["a", "a", "b"], True),
        ("household", [1, 2, 2], True),
        ("ICカード", ["a", "b", "b"], True),
        ("被保険者", [1, 2, 2], True),
        ("row_id", [1, 2, 3], False),
        ("town", ["a", "a", "b"], False),
        ("user", ["a"] * 100, False),
    ],
)
def test_columns_that_look_like_persons(name: str, values: list[object], looks: bool) -> None:
    table = {"age": [1.0] * len(values), name: values}
    assert schema_report(table, Schema({"age": Number(0, 9)})).person_like == ([name] if looks else [])


@pytest.mark.parametrize("ending", ["csv", "parquet", "frame"])
def test_dates_whole_numbers_and_columns_left_out(tmp_path: Path, ending: str) -> None:
    schema = Schema(
        {
            "day": Date(first="2020-01-01", last="2020-12-31"),
            "weekday": DatePart(part="weekday"),
            "visits": Number(0, 9, whole=True),
            "town": Category(("a", "b"), other="c"),
        },
        drop=["remarks"],
    )
    good = pd.DataFrame(
        {
            "day": ["2020-01-02", "2021-01-01"],
            "weekday": ["2020-01-02", "Monday"],
            "visits": [1.0, 12.0],
            "town": ["a", "elsewhere"],
            "remarks": ["x", "y"],
            "more": [1.5, 2.5],
        }
    )
    bad = good.assign(day=["2020-01-02", "2.1.2020"], visits=[0.5, 1.5])
    told = schema_report(written(good.assign(weekday="2020-01-02"), tmp_path, ending), schema)
    assert (told.problems, told.clipped, told.ignored) == ([], {"day": 1, "visits": 1}, ["more"])
    problems = schema_report(written(bad, tmp_path, ending), schema).problems
    assert [(each.column, type(each.error)) for each in problems] == [
        ("day", WrongType),
        ("weekday", WrongType),
        ("visits", WrongType),
    ]
    for words, each in zip(
        ("holds 1 that cannot", "holds 1 that cannot", "holds 2 that are not whole"), problems, strict=True
    ):
        assert words in each.error.problem
