"""Arrays of which only the norm of rows is known, for choosing rules of `PrivateRidge`: tuning tables without their schema, and generated ones. None is for judging.

Tables are encoded as the schema says, divided by its bound on the norm. Generated rows are normal with correlated columns, divided by the largest norm, as studies do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from benchmarks.panel.table_definition import Floats, PanelTable, generator_of
from benchmarks.panel.tuning_and_judging import tables
from sudare.schema import Schema, encode

ROWS: Final = (350, 2_000, 15_000)
TEST_ROWS: Final = 1_000
# Columns, correlation of neighbours, R² of the best line, and how many standard deviations of the target its bounds are apart.
GENERATED: Final = (
    (10, 0.5, 0.5, 4.0),
    (10, 0.8, 0.3, 8.0),
    (4, 0.3, 0.7, 5.0),
    (30, 0.5, 0.5, 6.0),
    (60, 0.3, 0.5, 4.0),
)


class NormBoundedArray(NamedTuple):
    """Rows within the unit ball, to fit and to test, and targets with their public bounds."""

    name: str
    X: Floats
    y: Floats
    X_test: Floats
    y_test: Floats
    target_bounds: tuple[float, float]


def arrays(seed: int) -> Iterator[NormBoundedArray]:
    """All arrays, dealt out by the seed."""
    for table in tables("tuning", "number"):
        matrix, targets, bounds = _encoded(table)
        for rows in ROWS:
            if rows == ROWS[0] or 2 * len(matrix) > 3 * rows:
                yield _dealt(table.name, matrix, targets, bounds, rows, seed)
    for shape in GENERATED:
        for rows in ROWS:
            yield _dealt(*_generated(*shape), rows, seed)


def _encoded(table: PanelTable) -> tuple[Floats, Floats, tuple[float, float]]:
    name = table.schema.target or ""
    target = table.schema.columns[name]
    features = Schema({each: facts for each, facts in table.schema.columns.items() if each != name})
    matrix = encode(features, table.frame, "centred").matrix / features.norm_bound("centred")
    return matrix, table.frame[name].to_numpy(dtype=np.float64), (float(target.low), float(target.high))  # type: ignore[union-attr]


def _generated(
    columns: int, correlation: float, explained: float, apart: float
) -> tuple[str, Floats, Floats, tuple[float, float]]:
    name = f"{columns} normal columns, R² {explained:g}"
    rng = generator_of(name)
    places = np.arange(columns)
    covariance = correlation ** np.abs(places[:, np.newaxis] - places)
    matrix = rng.multivariate_normal(np.zeros(columns), covariance, size=ROWS[-1] + TEST_ROWS)
    weights = rng.normal(size=columns) / np.sqrt(1 + places)
    signal = matrix @ weights
    targets = np.sqrt(explained) * signal / signal.std() + rng.normal(0, np.sqrt(1 - explained), len(matrix))
    # Bounds are not about the mean of the target.
    low, high = -apart * 0.4, apart * 0.6
    return name, matrix / np.linalg.norm(matrix, axis=1).max(), np.clip(targets, low, high), (low, high)


def _dealt(
    name: str, matrix: Floats, targets: Floats, bounds: tuple[float, float], rows: int, seed: int
) -> NormBoundedArray:
    order = np.random.default_rng(seed).permutation(len(matrix))
    most = min(rows, 2 * len(matrix) // 3)
    fit, test = order[:most], order[most:][:TEST_ROWS]
    return NormBoundedArray(f"{name}, {most:,} rows", matrix[fit], targets[fit], matrix[test], targets[test], bounds)
