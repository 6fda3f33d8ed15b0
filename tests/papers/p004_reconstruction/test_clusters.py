"""Clusters of perturbed records."""

from __future__ import annotations

import pytest

from sudare.papers.p004_reconstruction import clusters

QUIET = lambda text: None  # noqa: E731


@pytest.mark.long
def test_no_way_assigns_records_much_better_than_the_true_parameters():
    several = clusters.SEVERAL[:1]
    found = clusters.measured(QUIET, 2, several, records=5000)
    table = clusters.table(found, several, records=5000)
    assert [row[0] for row in table.rows] == [clusters.ONE_COLUMN, "2 columns, two components"]
    for row in table.rows:
        assert all(cell.value < row[3].value + 0.05 for cell in row[1:])
    assert table.rows[1][2].value > table.rows[1][3].value - 0.05
