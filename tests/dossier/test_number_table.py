"""Released numbers as text and as rows of a picture."""

from __future__ import annotations

import math

from sudare.dossier.number_table import has_intervals, measured_rows, number_table
from sudare.dossier.released_numbers import BinText, Heading, OwnText, ReleasedNumbers, TermText, level_cell

MEANS = ReleasedNumbers(
    {
        "ward": ["a\x1b", None],
        "mean_age": [41.23456789, -0.5],
        "mean_age_low": [40.0, -1.0],
        "mean_age_high": [42.0, 0.0],
        "count": [7, 8],
    },
    units={"mean_age": "years"},
    measured="mean_age",
    labels=("ward",),
    headings={"ward": Heading("ward", is_name=True), "mean_age": Heading("mean of {column}", "age")},
    undeclared=frozenset({"ward"}),
)
COEFFICIENTS = ReleasedNumbers(
    {"term": [OwnText("(intercept)"), "age"], "coefficient": [0.25, -2.0]}, measured="coefficient", labels=("term",)
)


def test_intervals_stand_beside_their_number_and_units_in_headings() -> None:
    found = number_table(MEANS)
    assert found.headings == ["ward", "mean of age (years)", "count"]
    assert found.rows == [("a\\x1b", "41.2 (40.0 – 42.0)", "7"), ("(all others)", "-0.50 (-1.00 – 0)", "8")]
    assert has_intervals(MEANS)


def test_our_words_are_said_in_japanese_and_names_are_not() -> None:
    names = ("count", "mean", "length of stay")
    numbers = ReleasedNumbers(
        {
            "mean": ["count", None],
            "count": [1, 2],
            "bins": [BinText("0 to 3"), BinText("3 to 6")],
            **{f"mean_{name}": [0.5, 0.5] for name in names},
        },
        headings={
            "mean": Heading("mean", is_name=True),
            "bins": Heading("bins", is_name=True),
            **{f"mean_{name}": Heading("mean of {column}", name) for name in names},
        },
    )
    found = number_table(numbers, "ja")
    assert found.headings == ["mean", "件数", "bins", "count の平均", "mean の平均", "length of stay の平均"]
    assert [row[:3] for row in found.rows] == [("count", "1", "0 – 3"), ("（欠損）", "2", "3 – 6")]
    assert [row[0] for row in number_table(COEFFICIENTS, "ja").rows] == ["（切片）", "age"]


def test_the_first_rows() -> None:
    found = number_table(MEANS, most_rows=1)
    assert (len(found.rows), found.rows_in_all) == (1, 2)


def test_rows_of_a_picture() -> None:
    rows = measured_rows(MEANS)[0]
    assert (rows.axis, rows.labels, rows.has_intervals) == ("mean of age (years)", ["a\\x1b", "(all others)"], True)
    assert (rows.lows, rows.highs) == ([40.0, -1.0], [42.0, 0.0])


def test_what_has_no_interval_has_no_width() -> None:
    (rows,) = measured_rows(COEFFICIENTS, "ja")
    assert (rows.lows, rows.highs, rows.has_intervals) == ([0.25, -2.0], [0.25, -2.0], False)
    assert (rows.axis, rows.labels) == ("係数", ["（切片）", "age"])
    assert not has_intervals(COEFFICIENTS)


def test_nothing_to_draw() -> None:
    assert measured_rows(ReleasedNumbers({"tensor": ["x"]})) == []
    assert measured_rows(ReleasedNumbers({"mean": [None]}, measured="mean")) == []
    assert measured_rows(ReleasedNumbers({"layer": ["a"]})) == []


def test_a_grouped_table_has_a_picture_of_every_number() -> None:
    numbers = ReleasedNumbers(
        {
            "ward": ["a", "b"],
            "count": [3.0, -0.0],
            "count_low": [1.0, -1.0],
            "count_high": [5.0, 1.0],
            "mean_age": [40.0, 41.0],
            "mean_age_low": [39.0, 40.0],
            "mean_age_high": [41.0, 42.0],
        },
        measured="count",
        labels=("ward",),
    )
    assert [rows.axis for rows in measured_rows(numbers)] == ["count", "mean age"]
    assert number_table(numbers).rows[1] == ("b", "0 (-1.0 – 1.0)", "41.0 (40.0 – 42.0)")


def test_columns_of_different_units_and_dates_are_drawn_apart() -> None:
    numbers = ReleasedNumbers(
        {
            "column": ["day", "stay", "age", "rest"],
            "unit": ["", "days", "", "days"],
            "value": ["1970-01-02", 4.0, 50.0, 5.0],
            "value_low": ["1970-01-01", 3.0, 49.0, 4.0],
            "value_high": ["1970-01-03", 5.0, 51.0, 6.0],
        },
        measured="value",
        labels=("column", "unit"),
    )
    dates, days, plain = measured_rows(numbers)
    assert (dates.labels, dates.are_dates, dates.values, dates.lows) == (["day"], True, [86_400.0], [0.0])
    assert (days.axis, days.labels, days.values) == ("value (days)", ["stay", "rest"], [4.0, 5.0])
    assert (plain.axis, plain.labels, plain.are_dates) == ("value", ["age"], False)
    assert number_table(numbers).rows[0][2] == "1970-01-02 (1970-01-01 – 1970-01-03)"


def of_columns(**ends: tuple[float, float]) -> ReleasedNumbers:
    return ReleasedNumbers(
        {
            "column": list(ends),
            "mean": [(low + high) / 2 for low, high in ends.values()],
            "mean_low": [low for low, _ in ends.values()],
            "mean_high": [high for _, high in ends.values()],
        },
        measured="mean",
        labels=("column",),
    )


def test_columns_without_a_unit_share_an_axis_only_where_each_interval_can_be_seen() -> None:
    (together,) = measured_rows(of_columns(age=(40.0, 42.0), stay=(3.0, 5.0)))
    assert together.labels == ["age", "stay"]
    apart = measured_rows(of_columns(crew=(6.6, 7.4), water=(100.0, 570.0), pumps=(1.0, 30.0)))
    assert [rows.labels for rows in apart] == [["crew"], ["water"], ["pumps"]]
    assert [rows.axis for rows in apart] == ["mean"] * 3


UNKNOWN = ReleasedNumbers(
    {
        "ward": ["a", "b"],
        "variance_age": [2.5, None],
        "variance_age_low": [2.0, 0.0],
        "variance_age_high": [3.0, 100.0],
    },
    measured="variance_age",
    labels=("ward",),
)


def test_a_number_of_which_nothing_is_known_is_called_unknown_and_drawn_without_a_point() -> None:
    assert [row[1] for row in number_table(UNKNOWN).rows] == ["2.50 (2.00 – 3.00)", "(unknown) (0 – 100)"]
    assert number_table(UNKNOWN, "ja").rows[1][1] == "（不明） (0 – 100)"
    (rows,) = measured_rows(UNKNOWN)
    assert rows.values[0] == 2.5
    assert math.isnan(rows.values[1])
    assert (rows.lows[1], rows.highs[1]) == (0.0, 100.0)


def test_bins_of_terms_are_signs_in_every_language() -> None:
    assert [TermText(text).said("en") for text in ("age=0 to 11", "age=missing")] == ["age=0 – 11", "age=(missing)"]
    assert TermText("年齢=missing").said("ja") == "年齢=（欠損）"
    assert level_cell("missing").said("ja") == "（欠損）"


COUNTS = ReleasedNumbers(
    {
        "column": ["length of stay", "length of stay", "smoker", "smoker"],
        "value": [BinText("0 to 3"), BinText("3 to 6"), False, True],
        "count": [1, 2, 3, 4],
        "count_low": [0, 1, 2, 3],
        "count_high": [2, 3, 4, 5],
    },
    measured="count",
    labels=("column", "value"),
)


def test_what_is_too_much_for_one_picture_is_drawn_column_by_column() -> None:
    (together,) = measured_rows(COUNTS, "en", most_rows=4)
    assert together.labels[0] == "length of stay, 0 – 3"
    stays, smokers = measured_rows(COUNTS, "ja", most_rows=3)
    assert (stays.axis, stays.labels, stays.values) == ("length of stay: 件数", ["0 – 3", "3 – 6"], [1, 2])
    assert (smokers.axis, smokers.labels, smokers.highs) == ("smoker: 件数", ["false", "true"], [4, 5])


def test_yes_and_no_are_written_as_in_the_schema() -> None:
    assert [row[1] for row in number_table(COUNTS).rows] == ["0 – 3", "3 – 6", "false", "true"]
