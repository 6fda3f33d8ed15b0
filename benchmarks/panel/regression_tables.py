"""Generated tables with a number as target: lines, steps, bends, skewed, spiked and heavy-tailed targets, few rows, many columns, no signal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.panel.table_definition import Floats, PanelTable, generator_of, numbered
from sudare.schema import Number, Schema

Shape = Callable[[Floats], Floats]


def line(values: Floats) -> Floats:
    """A sum with falling weights."""
    return np.asarray(values @ (1 / np.arange(1, values.shape[1] + 1)))


def steps(values: Floats) -> Floats:
    """Jumps of the first three columns."""
    return np.asarray(np.sign(values[:, 0] - 0.3) + 0.7 * (np.abs(values[:, 1]) < 0.4) - 0.8 * (values[:, 2] > 0.6))


def bends(values: Floats) -> Floats:
    """Squares and a wave."""
    return np.asarray(2 * values[:, 0] ** 2 + np.sin(3 * values[:, 1]) + 0.3 * values[:, 2])


def nothing(values: Floats) -> Floats:
    """Zero, whatever the row."""
    return np.zeros(len(values))


def normal_around(rng: np.random.Generator, shape: Floats) -> Floats:
    """A target with normal noise."""
    return shape + rng.normal(0, 0.6, len(shape))


def skewed_around(rng: np.random.Generator, shape: Floats) -> Floats:
    """A positive target: log-normal."""
    return np.asarray(np.exp(shape + rng.normal(0, 0.7, len(shape))))


def spiked_around(rng: np.random.Generator, shape: Floats) -> Floats:
    """A cost that is zero for most."""
    return np.where(rng.random(len(shape)) < 0.65, 0.0, np.exp(shape + rng.normal(0, 0.5, len(shape))))


def heavy_around(rng: np.random.Generator, shape: Floats) -> Floats:
    """A target with Student's noise."""
    return np.asarray(shape + rng.standard_t(2, len(shape)))


def counted_around(rng: np.random.Generator, shape: Floats) -> Floats:
    """A whole number: Poisson."""
    return rng.poisson(np.exp(np.clip(shape, -4, 3))).astype(np.float64)


def number_target(
    name: str,
    rows: int,
    width: int,
    shape: Shape,
    around: Callable[[np.random.Generator, Floats], Floats],
    bounds: tuple[float, float],
    column_bound: float = 1.0,
) -> PanelTable:
    """Uniform columns within ±1, declared within ±`column_bound`; the target is clipped to its declared bounds."""

    def make() -> pd.DataFrame:
        rng = generator_of(name)
        values = rng.uniform(-1, 1, (rows, width))
        return numbered(values, y=np.clip(around(rng, shape(values)), *bounds))

    columns = {f"x{place}": Number(-column_bound, column_bound) for place in range(width)}
    about = f"{rows:,} rows, {width} columns, {shape.__name__}, {around.__name__.replace('_', ' ')} it"
    return PanelTable(name, about, Schema({**columns, "y": Number(*bounds)}, target="y"), make)


REGRESSION_TABLES = (
    number_target("line", 4_000, 6, line, normal_around, (-5, 5)),
    number_target("line in wide bounds", 5_000, 8, line, normal_around, (-40, 40), 3.0),
    number_target("steps", 5_000, 5, steps, normal_around, (-5, 5)),
    number_target("more steps", 3_000, 9, steps, normal_around, (-6, 4)),
    number_target("bends", 6_000, 6, bends, normal_around, (-4, 6)),
    number_target("bends, skewed target", 5_000, 5, bends, skewed_around, (0, 60)),
    number_target("skewed target", 6_000, 5, line, skewed_around, (0, 40)),
    number_target("spiked target", 5_000, 6, line, spiked_around, (0, 20)),
    number_target("spiked target, ten columns", 8_000, 10, line, spiked_around, (0, 30)),
    number_target("heavy-tailed target", 6_000, 6, line, heavy_around, (-30, 30)),
    number_target("counts", 4_000, 5, line, counted_around, (0, 20)),
    number_target("more counts", 7_000, 7, steps, counted_around, (0, 25)),
    number_target("few rows, a number", 250, 4, line, normal_around, (-5, 5)),
    number_target("few rows, a number, nine columns", 350, 9, line, normal_around, (-6, 6)),
    number_target("many columns, a number", 4_000, 50, line, normal_around, (-6, 6)),
    number_target("seventy columns, a number", 3_000, 70, line, normal_around, (-6, 6)),
    number_target("a number, no signal", 3_000, 6, nothing, normal_around, (-4, 8)),
    number_target("a skewed number, no signal", 4_000, 5, nothing, skewed_around, (0, 50)),
    # For tuning only.
    number_target("line, twelve columns", 2_000, 12, line, normal_around, (-8, 8), 2.0),
    number_target("line, twenty columns", 6_000, 20, line, skewed_around, (0, 30)),
    number_target("line, heavy tails", 900, 6, line, heavy_around, (-10, 10)),
    number_target("steps, few rows", 700, 4, steps, normal_around, (-4, 4)),
    number_target("bends, eight columns", 5_000, 8, bends, heavy_around, (-20, 20), 1.5),
    number_target("counts, few rows", 500, 3, line, counted_around, (0, 15)),
)
