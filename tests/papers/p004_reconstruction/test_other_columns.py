"""Sixteen simulated columns."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p004_reconstruction import other_columns
from sudare.papers.repetitions import Measurements

QUIET = lambda text: None  # noqa: E731


@pytest.mark.long
def test_other_columns_lie_between_their_bounds_and_are_compared_with_every_method():
    for place, (name, draw) in enumerate(other_columns.COLUMNS.items()):
        column = np.clip(draw(np.random.default_rng(place), 2000), 0, 1)
        assert np.histogram(column, other_columns.edges_of(name))[0].sum() == 2000
        assert (np.mean(column == 0) > 0.7) == ("zero" in name)
    names = ["uniform", "80% zero, gamma"]
    found = other_columns.measured(QUIET, 6, names, [500])
    table = other_columns.accuracy_table(found, names, [500])
    assert found.repeats == 2
    assert [row[0] for row in table.rows] == [*names, "all", "auto less this"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    uniform, zeros, both, difference = table.rows
    assert both[1].value == pytest.approx((uniform[1].value + zeros[1].value) / 2)
    assert difference[1].value == 0
    assert difference[2].value == pytest.approx(both[1].value - both[2].value)


def test_columns_where_the_default_is_behind_are_named():
    found = Measurements()
    for name, auto in (("near", 80.0), ("behind", 70.0)):
        for method, accuracy in (("auto", auto), ("evidence", 83.0)):
            for _ in range(2):
                found.note((name, 500, method), accuracy)
    assert other_columns.behind_text(found, ["near", "behind"], [500]).endswith("at: behind (500 records).")
    assert other_columns.behind_text(found, ["near"], [500]).endswith("at: no column.")
