"""Table 2 of paper 004 on a made-up census."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.papers import load_study
from sudare.papers.p004_reconstruction import (
    table2 as columns,
)
from sudare.papers.study import Estimate, StudyResult, result_values

QUIET = lambda text: None  # noqa: E731


@pytest.mark.long
def test_table_2_has_a_row_for_each_column_and_binning(census):
    chosen = columns.COLUMNS[1:2]
    found = columns.measured(QUIET, 2, chosen)
    table = columns.table_2(found, chosen)
    assert len(table.rows) == 1
    assert len(table.rows[0]) == len(table.columns)
    assert table.rows[0][2] == 58.20
    accuracy = found.at(("education-num", "one", "auto"))
    assert isinstance(accuracy, Estimate)
    assert 20 < accuracy.value < 100
    assert found.repeats == 2
    # Written results hold plain values only.
    values = result_values("004", load_study("004"), StudyResult([table], []), load_study("004").settings(2))
    assert values["tables"][0]["rows"][0][0] == "education-num"


def test_bins_of_the_census_hold_every_record(census):
    for column in columns.COLUMNS:
        for edges in column.bins.values():
            assert np.histogram(column.values(), edges)[0].sum() == 400
    assert columns.zero_alone(1000)[:4].tolist() == [-0.5, 0.5, 1000, 2000]
    assert columns.zero_alone(1000)[-1] >= 99_999
