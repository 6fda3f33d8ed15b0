"""Released numbers as text and as rows of a picture."""

from __future__ import annotations

from sudare.dossier.number_table import all_measured_rows, has_intervals, measured_rows, number_table
from sudare.dossier.released_numbers import ReleasedNumbers

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
)
COEFFICIENTS = ReleasedNumbers(
    {"term": ["(intercept)", "age"], "coefficient": [0.25, -2.0]}, measured="coefficient", labels=("term",)
)


def test_intervals_stand_beside_their_number_and_units_in_headings() -> None:
    found = number_table(MEANS)
    assert found.headings == ["ward", "mean_age (years)", "count"]
    assert found.rows == [("a\\x1b", "41.2346 (40 – 42)", "7"), ("(all others)", "-0.5 (-1 – 0)", "8")]
    assert has_intervals(MEANS)


def test_the_first_rows() -> None:
    found = number_table(MEANS, 1)
    assert (len(found.rows), found.rows_in_all) == (1, 2)


def test_rows_of_a_picture() -> None:
    rows = measured_rows(MEANS)
    assert rows is not None
    assert (rows.axis, rows.labels, rows.has_intervals) == ("mean_age (years)", ["a\\x1b", "(all others)"], True)
    assert (rows.lows, rows.highs) == ([40.0, -1.0], [42.0, 0.0])


def test_what_has_no_interval_reaches_from_zero() -> None:
    rows = measured_rows(COEFFICIENTS)
    assert rows is not None
    assert (rows.lows, rows.highs, rows.has_intervals) == ([0.0, 0.0], [0.25, -2.0], False)
    assert not has_intervals(COEFFICIENTS)


def test_nothing_to_draw() -> None:
    assert measured_rows(ReleasedNumbers({"tensor": ["x"]})) is None
    assert measured_rows(ReleasedNumbers({"mean": [None]}, measured="mean")) is None


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
    assert [rows.axis for rows in all_measured_rows(numbers)] == ["count", "mean_age"]
    assert measured_rows(numbers) == all_measured_rows(numbers)[0]
    assert number_table(numbers).rows[1] == ("b", "0 (-1 – 1)", "41 (40 – 42)")


def test_numbers_without_intervals_are_drawn_alone() -> None:
    numbers = ReleasedNumbers({"term": ["a"], "coefficient": [-1e-300]}, measured="coefficient", labels=("term",))
    assert [rows.axis for rows in all_measured_rows(numbers)] == ["coefficient"]
    assert all_measured_rows(ReleasedNumbers({"layer": ["a"]})) == []
