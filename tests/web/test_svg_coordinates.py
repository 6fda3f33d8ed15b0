"""Coordinates of small pictures."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from sudare.dossier.number_table import MeasuredRows
from sudare.web.svg_coordinates import interval_picture


def test_a_number_of_which_nothing_is_known_has_its_interval_and_no_dot() -> None:
    rows = MeasuredRows("variance", ["a", "b"], [math.nan, 2.0], [0.0, 1.0], [9.0, 3.0], has_intervals=True)
    unknown, known = interval_picture(rows).intervals
    assert unknown.value is None
    assert known.value is not None
    assert unknown.low < known.low < known.value < known.high < unknown.high


@pytest.mark.parametrize(
    ("last", "told", "middle"),
    [
        ("2025-06-25", ["2025-06-22", "2025-06-23", "2025-06-25"], 1 / 3),
        ("2025-06-23T12:00", ["2025-06-22", "2025-06-23 12:00"], None),
    ],
)
def test_a_date_stands_where_it_begins(last: str, told: list[str], middle: float | None) -> None:
    low, high = (datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() for moment in ("2025-06-22", last))
    picture = interval_picture(MeasuredRows("mean", ["day"], [low], [low], [high], has_intervals=True, are_dates=True))
    assert [tick.text for tick in picture.ticks] == told
    if middle is not None:
        share = (picture.ticks[1].place - picture.left) / (picture.right - picture.left)
        assert share == pytest.approx(middle)
