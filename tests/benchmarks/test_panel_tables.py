"""The panel: every table and column in one half, the same at every call, within its declared bounds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.panel import norm_bounded_arrays, tuning_and_judging
from benchmarks.panel.number_columns import COLUMNS, PanelColumn
from benchmarks.panel.table_definition import PanelTable
from sudare.schema import Category, Label, Number

OF_A_FOLDER = ("adult", "adult hours", "adult age", "adult hours-per-week", "pima", "pima glucose")
TABLES = [table for table in tuning_and_judging.ALL_TABLES if table.name not in OF_A_FOLDER]


def test_every_table_and_column_belongs_to_one_half() -> None:
    named = [thing.name for thing in (*tuning_and_judging.ALL_TABLES, *COLUMNS)]
    assert len(set(named)) == len(named) >= 25
    assert set(named) == tuning_and_judging.TUNING | tuning_and_judging.JUDGING
    assert not tuning_and_judging.TUNING & tuning_and_judging.JUDGING


def test_halves_are_read_by_target() -> None:
    both = {*tuning_and_judging.tables("judging", "label"), *tuning_and_judging.tables("judging", "number")}
    assert both == set(tuning_and_judging.tables("judging"))
    assert {column.name for column in tuning_and_judging.columns("tuning")} < tuning_and_judging.TUNING


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_are_the_same_at_every_call_and_as_declared(table: PanelTable) -> None:
    frame = table.frame
    assert frame.equals(table.make())
    assert list(frame.columns) == list(table.schema.columns)
    for name, facts in table.schema.columns.items():
        if isinstance(facts, Number):
            share_outside = np.mean((frame[name] < facts.low) | (frame[name] > facts.high))
            assert share_outside < 0.05
            assert not facts.whole or np.array_equal(frame[name], np.round(frame[name]))
        else:
            assert isinstance(facts, Category | Label)
            assert set(frame[name]) <= set(facts.levels)
    fit, test = table.fit_and_test(0, most_rows=150)
    assert len(fit) + len(test) == 150


@pytest.mark.parametrize("column", [one for one in COLUMNS if one.name not in OF_A_FOLDER], ids=lambda one: one.name)
def test_records_are_the_same_for_a_repetition_and_within_bounds(column: PanelColumn) -> None:
    records = column.records(500)
    assert np.array_equal(records, column.records(500))
    assert not np.array_equal(records, column.records(500, repetition=1))
    assert column.number.low <= records.min() < records.max() <= column.number.high
    assert not column.number.whole or np.array_equal(records, np.round(records))


def test_arrays_for_tuning_are_within_their_norm_and_bounds(monkeypatch) -> None:
    tuned = tuning_and_judging.tables("tuning", "number")
    monkeypatch.setattr(norm_bounded_arrays, "tables", lambda *half: {("tuning", "number"): tuned[:1]}[half])
    found = list(norm_bounded_arrays.arrays(0))
    assert len({array.name for array in found}) == len(found) >= 15
    for array in found:
        for X, y in ((array.X, array.y), (array.X_test, array.y_test)):
            assert 0.2 < np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
            assert array.target_bounds[0] <= y.min() < y.max() <= array.target_bounds[1]
