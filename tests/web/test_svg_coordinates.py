"""Coordinates of small pictures."""

from __future__ import annotations

import math

from sudare.dossier.number_table import MeasuredRows
from sudare.web.svg_coordinates import interval_picture


def test_a_number_of_which_nothing_is_known_has_its_interval_and_no_dot() -> None:
    rows = MeasuredRows("variance", ["a", "b"], [math.nan, 2.0], [0.0, 1.0], [9.0, 3.0], has_intervals=True)
    unknown, known = interval_picture(rows).intervals
    assert unknown.value is None
    assert known.value is not None
    assert unknown.low < known.low < known.value < known.high < unknown.high
