"""The panel: every table and column in one half, the same at every call, within its declared bounds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.panel import split
from benchmarks.panel.columns import COLUMNS, PanelColumn
from benchmarks.panel.panel_table import PanelTable
from sudare.schema import Category, Label, Number

OF_A_FOLDER = ("adult", "adult hours", "adult age", "adult hours-per-week", "pima", "pima glucose")
TABLES = [table for table in split.ALL_TABLES if table.name not in OF_A_FOLDER]


def test_every_table_and_column_belongs_to_one_half() -> None:
    named = [thing.name for thing in (*split.ALL_TABLES, *COLUMNS)]
    assert len(set(named)) == len(named) >= 25
    assert set(named) == split.TUNING | split.JUDGING
    assert not split.TUNING & split.JUDGING


def test_halves_are_read_by_target() -> None:
    both = {*split.tables("judging", "label"), *split.tables("judging", "number")}
    assert both == set(split.tables("judging"))
    assert {column.name for column in split.columns("tuning")} < split.TUNING


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
    fit, test = table.halves(0, most_rows=150)
    assert len(fit) + len(test) == 150


@pytest.mark.parametrize("column", [one for one in COLUMNS if one.name not in OF_A_FOLDER], ids=lambda one: one.name)
def test_records_are_the_same_for_a_repetition_and_within_bounds(column: PanelColumn) -> None:
    records = column.records(500)
    assert np.array_equal(records, column.records(500))
    assert not np.array_equal(records, column.records(500, repetition=1))
    assert column.number.low <= records.min() < records.max() <= column.number.high
    assert not column.number.whole or np.array_equal(records, np.round(records))
