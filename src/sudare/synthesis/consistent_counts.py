"""From noisy counts to consistent tables without negative cells. All of this is post-processing: no data, no cost.

Counts of a column and the label come from several noisy tables; they are averaged by their precision, made to agree on the
number of rows of every class, and projected onto what counts can be. Tables of pairs are drawn towards what the columns
alone say, the more the less a cell stands out of the noise, and then raked until their margins are those counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.reconstruction.maximum_likelihood import projected_on_simplex

_RAKINGS: Final = 20
_LEAST_SHARE: Final = 1e-6
_TINY: Final = 1e-300
# A class that noise pushed below one row counts as one row.
_LEAST_CLASS: Final = 1.0
_ROUNDING_VARIANCE: Final = 1 / 12


def noise_variance(standard_deviation: float) -> float:
    """Returns the variance of a noisy count that was rounded to a whole number."""
    return standard_deviation**2 + _ROUNDING_VARIANCE


def averaged(tables: Sequence[Floats], variances: Sequence[float]) -> tuple[Floats, float]:
    """Tables of one shape averaged by their precision, and the variance of the average."""
    precisions = np.array([1 / variance for variance in variances])
    stacked = sum((precision * table for precision, table in zip(precisions, tables, strict=True)), np.zeros(()))
    return np.asarray(stacked / precisions.sum()), float(1 / precisions.sum())


def consistent_singles(tables: Sequence[Floats], variances: Sequence[float]) -> list[Floats]:
    """Tables (cell, class) of all columns, none negative, with the same number of rows of every class."""
    sums, sum_variances = (
        [table.sum(axis=0) for table in tables],
        [variance * len(table) for table, variance in zip(tables, variances, strict=True)],
    )
    totals = np.maximum(averaged(sums, sum_variances)[0], _LEAST_CLASS)
    return [
        np.column_stack([projected_on_simplex(table[:, each], totals[each]) for each in range(len(totals))])
        for table in tables
    ]


def independent(first: Floats, second: Floats) -> Floats:
    """Table (first cell, second cell, class) of two columns that tell nothing of each other within a class."""
    return np.asarray(first[:, np.newaxis, :] * second[np.newaxis, :, :] / first.sum(axis=0))


def shrunk(noisy: Floats, model: Floats, variance: float, trust: float) -> Floats:
    """Noisy counts drawn towards a model: fully where its cells are far below the noise, hardly where far above.

    This is the mean of a normal posterior when true counts deviate from the model by √trust of it.
    """
    spread = trust * model**2
    weight = spread / (spread + variance)
    return np.asarray(np.maximum(weight * noisy + (1 - weight) * model, _LEAST_SHARE * model))


def raked(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """A table (first cell, second cell, …) scaled in turn until its margins are near `rows` and equal to `columns`."""
    for _ in range(_RAKINGS):
        table = table * (rows / np.maximum(table.sum(axis=1), _TINY))[:, np.newaxis]
        table = table * (columns / np.maximum(table.sum(axis=0), _TINY))[np.newaxis]
    return table


def conditional(table: Floats, single: Floats) -> Floats:
    """P(second | first, class) as (first, class, second); of a first cell that never occurs, P(second | class)."""
    turned = np.swapaxes(table, 1, 2)
    total = turned.sum(axis=2, keepdims=True)
    overall = single.T / single.sum(axis=0)[:, np.newaxis]
    return np.where(total > 0, turned / np.where(total > 0, total, 1.0), overall)
