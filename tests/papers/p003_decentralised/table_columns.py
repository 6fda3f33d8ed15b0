"""Tables of studies by column."""

from __future__ import annotations

from sudare.papers.study import Cell, ResultTable


def columns(table: ResultTable) -> dict[str, list[Cell]]:
    """Cells by the name of their column, in the order of rows; every row must have a cell for each."""
    assert all(len(row) == len(table.columns) for row in table.rows)
    return {name: [row[index] for row in table.rows] for index, name in enumerate(table.columns)}
