"""Columns of numbers: densities of very different shape, from which any number of records can be drawn; and columns of public tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes

from benchmarks.panel.table_definition import generator_of
from sudare.papers.adult_schema import ADULT_SCHEMA
from sudare.papers.datasets import data
from sudare.schema import Number

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]


@dataclass(frozen=True)
class PanelColumn:
    """A column with its public declaration. Records of public tables are drawn from them with replacement."""

    name: str
    number: Number
    draw: Draw

    def records(self, rows: int, repetition: int = 0) -> Floats:
        """So many records within the declared bounds; the same for the same repetition."""
        rng = generator_of(f"{self.name}, {repetition}")
        return np.clip(np.asarray(self.draw(rng, rows), dtype=np.float64), self.number.low, self.number.high)


def mixture(*parts: tuple[float, float, float]) -> Draw:
    """Normal parts: (share, mean, deviation)."""
    shares, means, deviations = np.array(parts).T

    def draw(rng: np.random.Generator, rows: int) -> Floats:
        part = rng.choice(len(shares), rows, p=shares / shares.sum())
        return rng.normal(means[part], deviations[part])

    return draw


def spiked(draw: Draw, spikes: dict[float, float]) -> Draw:
    """Records that have one of the given values with the given share, else those of `draw`."""
    values, shares = np.array(list(spikes)), np.array(list(spikes.values()))

    def with_spikes(rng: np.random.Generator, rows: int) -> Floats:
        place = rng.choice(len(values) + 1, rows, p=[*shares, 1 - shares.sum()])
        return np.where(place < len(values), np.append(values, 0)[place], draw(rng, rows))

    return with_spikes


def rounded(draw: Draw, step: float = 1.0) -> Draw:
    """Records rounded to multiples of a step."""
    return lambda rng, rows: step * np.round(draw(rng, rows) / step)


def square_wave(rng: np.random.Generator, rows: int) -> Floats:
    """Uniform on every other of eight strips of [0, 80]."""
    return 20 * rng.integers(0, 4, rows) + rng.uniform(0, 10, rows)


def resampled(values: Callable[[], Floats]) -> Draw:
    """Records of a public column, drawn with replacement."""
    return lambda rng, rows: rng.choice(values(), rows)


def adult(column: str) -> PanelColumn:
    """A column of Adult, with the bounds of the public schema."""
    facts = ADULT_SCHEMA.columns[column]
    assert isinstance(facts, Number)
    number = Number(facts.low, facts.high, whole=True)
    return PanelColumn(f"adult {column}", number, resampled(lambda: data("adult-train")[column].to_numpy(float)))


COLUMNS = (
    PanelColumn("normal", Number(-50, 50), mixture((1, 5, 9))),
    PanelColumn("narrow normal", Number(0, 200), mixture((1, 120, 4))),
    PanelColumn("two humps", Number(0, 100), mixture((0.6, 30, 6), (0.4, 70, 9))),
    PanelColumn("four humps", Number(0, 100), mixture((0.4, 12, 3), (0.2, 38, 3), (0.3, 60, 5), (0.1, 90, 3))),
    PanelColumn("log-normal", Number(0, 200), lambda rng, rows: rng.lognormal(3, 0.7, rows)),
    PanelColumn("very skewed amounts", Number(0, 10_000), lambda rng, rows: rng.lognormal(4.5, 1.6, rows)),
    PanelColumn("exponential", Number(0, 60), lambda rng, rows: rng.exponential(8, rows)),
    PanelColumn("gamma", Number(0, 500), lambda rng, rows: rng.gamma(0.8, 60, rows)),
    PanelColumn("student", Number(-40, 40), lambda rng, rows: 2 * rng.standard_t(2, rows)),
    PanelColumn("cauchy", Number(-100, 100), lambda rng, rows: 3 * rng.standard_cauchy(rows)),
    PanelColumn("uniform", Number(0, 24), lambda rng, rows: rng.uniform(0, 24, rows)),
    PanelColumn("part of the range", Number(0, 100), lambda rng, rows: rng.uniform(62, 81, rows)),
    PanelColumn("square wave", Number(0, 80), square_wave),
    PanelColumn("sawtooth", Number(0, 30), lambda rng, rows: 10 * rng.integers(0, 3, rows) + 10 * rng.beta(2, 1, rows)),
    PanelColumn("hours with a spike", Number(1, 99, whole=True), spiked(rounded(mixture((1, 38, 14))), {40: 0.47, 50: 0.1})),
    PanelColumn("heaped ages", Number(0, 110, whole=True), spiked(rounded(mixture((1, 45, 17))), {30: 0.06, 40: 0.08, 50: 0.08, 60: 0.06})),
    PanelColumn("mostly zero", Number(0, 5_000), spiked(lambda rng, rows: rng.gamma(2, 500, rows), {0: 0.82})),
    PanelColumn("zeros and wages", Number(0, 300), spiked(lambda rng, rows: rng.lognormal(4, 0.5, rows), {0: 0.35, 120: 0.1})),
    PanelColumn("children", Number(0, 12, whole=True), lambda rng, rows: rng.poisson(1.3, rows).astype(float)),
    PanelColumn("visits", Number(0, 80, whole=True), lambda rng, rows: rng.negative_binomial(1, 0.1, rows).astype(float)),
    PanelColumn("both ends", Number(0, 1), lambda rng, rows: rng.beta(0.4, 0.5, rows)),
    PanelColumn("scores at the top", Number(0, 100), lambda rng, rows: 100 * rng.beta(6, 1.2, rows)),
    adult("age"),
    adult("hours-per-week"),
    PanelColumn("cancer area", Number(0, 3_000), resampled(lambda: load_breast_cancer().data[:, 3])),
    PanelColumn("diabetes progression", Number(0, 400, whole=True), resampled(lambda: load_diabetes().target)),
    PanelColumn("pima glucose", Number(0, 250, whole=True), resampled(lambda: data("pima").iloc[:, 1].to_numpy(float))),
)  # fmt: skip
