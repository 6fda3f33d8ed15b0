"""Dates on an axis: evenly apart, few, and each where it begins."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.report.date_axis import date_ticks, moment_text


@pytest.mark.parametrize("seconds", [1.0, 3e2, 2e4, 8e4, 2e5, 3e6, 4e8])
def test_dates_on_an_axis_are_evenly_apart_and_few(seconds: float) -> None:
    for start in np.random.default_rng(1).uniform(-1e9, 2e9, 50):
        places, texts = date_ticks(start, start + seconds)
        assert len(texts) == len(set(texts)) == len(places) <= 4
        assert all(start <= place <= start + seconds for place in places)
        assert len(np.unique(np.diff(places))) <= 1
        assert len(places) > 1 or seconds < 172_800


def test_a_minute_has_at_most_its_own_beginning() -> None:
    assert date_ticks(61.0, 119.0) == ([], [])
    assert date_ticks(30.0, 70.0) == ([60.0], ["1970-01-01 00:01"])


def test_a_moment_that_is_not_midnight_has_a_time() -> None:
    assert [moment_text(seconds) for seconds in (0.0, -60.0)] == ["1970-01-01", "1969-12-31 23:59"]
