"""Table 2 of paper 004 on a made-up census."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers import load_study
from sudare.papers.p004_reconstruction import (
    table2 as columns,
)
from sudare.papers.repetitions import Measurements
from sudare.papers.study import Estimate, StudyResult, StudySettings, result_values

QUIET = lambda text: None  # noqa: E731


@pytest.mark.long
def test_table_2_has_a_row_for_each_method_and_a_column_for_each_binning(census):
    chosen = (columns.EDUCATION,)
    found = columns.measured(QUIET, 2, chosen)
    table = columns.table_2(found, chosen)
    assert [row[0] for row in table.rows[:2]] == [
        "Iterative Bayesian Technique, printed",
        "Proposed method, printed",
    ]
    assert [row[1] for row in table.rows[:2]] == [58.20, 62.76]
    assert all(len(row) == len(table.columns) for row in table.rows)
    accuracy = found.at(("education-num", "one", "auto"))
    assert isinstance(accuracy, Estimate)
    assert 20 < accuracy.value < 100
    assert found.repeats == 2
    by_components = columns.table_2_by_components(found, chosen)
    assert [row[1] for row in by_components.rows] == [1, 2, 3, 4, 5]
    assert sum(int(row[3].split()[0]) for row in by_components.rows) == 2
    stops = columns.table_2_early_stops(found, chosen)
    assert len(stops.rows[0]) == len(stops.columns)
    # Written results hold plain values only.
    values = result_values("004", load_study("004"), StudyResult([table], []), StudySettings(2))
    assert values["tables"][0]["rows"][0][1] == 58.20


def test_printed_values_stand_once_for_each_column():
    found = Measurements()
    for place in (("capital-gain", name) for name in columns.CAPITAL_GAIN.bins):
        for way in (
            columns.TECHNIQUE,
            columns.GRADIENT_IN_COLUMN_UNITS,
            columns.GRADIENT,
            columns.CLOSED_FORM,
            columns.ONE_COMPONENT,
            *columns.METHODS,
        ):
            found.note((*place, way), 50.0)
            found.note((*place, way), 51.0)
    table = columns.table_2(found, (columns.CAPITAL_GAIN,))
    assert table.title.startswith("Table 2:")
    assert table.rows[0][1:] == (91.60, None)
    assert table.rows[1][1:] == (91.67, None)


def test_bins_of_the_census_hold_every_record(census):
    for column in columns.COLUMNS:
        for edges in column.bins.values():
            assert np.histogram(column.values(), edges)[0].sum() == 400
    assert columns.zero_alone(1000)[:4].tolist() == [-0.5, 0.5, 1000, 2000]
    assert columns.zero_alone(1000)[-1] >= 99_999
