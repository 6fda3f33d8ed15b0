"""Sixteen simulated columns."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers.p004_reconstruction import (
    other_columns,
)

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
