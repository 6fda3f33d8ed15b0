"""`sudare predict --date-format`: tables that write dates otherwise than the table that the model was fitted to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Sudare

SCHEMA = """
[columns.arrived]
kind = "date"
first = "2026-01-01"
last = "2026-12-31"
format = "%Y/%m/%d"

[columns.left]
kind = "date part"
part = "weekday"
format = "%Y/%m/%d"

[columns.again]
kind = "category"
values = ["no", "yes"]
"""
DAYS = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(0, 360, 3), unit="D")
NEW = DAYS[::10]


def written(days: pd.DatetimeIndex, how: str, left: str | None = None) -> pd.DataFrame:
    return pd.DataFrame({"arrived": days.strftime(how), "left": days.strftime(left or how)})


@pytest.fixture
def released(house: Path, sudare: Sudare) -> Path:
    (house / "stays.toml").write_text(SCHEMA)
    rows = written(DAYS, "%Y/%m/%d").assign(again=np.where(DAYS.month > 6, "yes", "no"))
    rows.to_csv(house / "stays.csv", index=False)
    done = sudare("fit", "logistic", "stays.csv", "--schema", "stays.toml", "--target", "again", "--epsilon", "4",
                  "--budget", "4", "--key", "key.pem", "-o", "again.sudare")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    written(NEW, "%Y/%m/%d").to_csv(house / "new.csv", index=False)
    return house


def predicted(sudare: Sudare, table: str, *options: str) -> list[object]:
    told = sudare("predict", "again.sudare", table, "--proba", *options, "--json")
    assert told.exit_code == 0, told.stdout
    return [told.values["predictions"][name] for name in ("prediction", "probability_yes")]


def test_every_way_of_writing_a_day_gives_the_same_prediction(released: Path, sudare: Sudare) -> None:
    expected = predicted(sudare, "new.csv")
    written(NEW, "%d.%m.%Y", "%Y-%m-%d").to_csv(released / "other.csv", index=False)
    formats = ("--date-format", "arrived=%d.%m.%Y", "--date-format", "left=%Y-%m-%d")
    assert predicted(sudare, "other.csv", *formats) == expected
    pd.DataFrame({"arrived": NEW.date, "left": NEW}).to_parquet(released / "typed.parquet")
    assert predicted(sudare, "typed.parquet") == expected
    # A column that holds the part already needs no format.
    days = written(NEW, "%Y/%m/%d").assign(left=NEW.day_name())
    days.to_csv(released / "parts.csv", index=False)
    assert predicted(sudare, "parts.csv") == expected


def test_a_day_that_is_written_otherwise_is_refused_with_the_option(released: Path, sudare: Sudare) -> None:
    written(NEW, "%d.%m.%Y").to_csv(released / "other.csv", index=False)
    refused = sudare("predict", "again.sudare", "other.csv")
    assert refused.exit_code == 13
    assert "--date-format" in refused.stderr
    assert "arrived=%d.%m.%Y" in refused.stderr
    assert "01.01.2026" not in refused.stderr


@pytest.mark.parametrize(
    ("text", "exit_code", "told"),
    [
        ("arrived", 10, "COLUMN=FORMAT"),
        ("arrived=", 10, "COLUMN=FORMAT"),
        ("again=%d.%m.%Y", 10, "'arrived', 'left'"),
        ("arrived=%d.%m.", 11, "year, month and day"),
    ],
)
def test_a_format_that_cannot_be_used_is_refused(
    released: Path, sudare: Sudare, text: str, exit_code: int, told: str
) -> None:
    refused = sudare("predict", "again.sudare", "new.csv", "--date-format", text)
    assert (refused.exit_code, refused.stdout) == (exit_code, "")
    assert told in refused.stderr
