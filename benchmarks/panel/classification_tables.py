"""Generated tables with a label: skewed, spiked, heavy-tailed, whole, few rows, many columns, unbalanced, several classes, determined pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from benchmarks.panel.table_definition import PanelTable, generator_of, labels_from_scores, numbered
from sudare.schema import Category, Label, Number, Schema

LABEL = Label((0, 1))


def _table(
    name: str, about: str, columns: dict[str, object], make: Callable[[np.random.Generator], pd.DataFrame]
) -> PanelTable:
    return PanelTable(name, about, Schema(columns), lambda: make(generator_of(name)))  # type: ignore[arg-type]


def skewed(name: str, rows: int, width: int, sigma: float, base_rate: float) -> PanelTable:
    """Log-normal columns; the log odds are linear in their logarithms."""
    high = float(10 ** round(np.log10(np.exp(3 * sigma))))

    def make(rng: np.random.Generator) -> pd.DataFrame:
        logs = rng.normal(0, sigma, (rows, width))
        scores = logs @ rng.normal(0, 1.5 / np.sqrt(width), width) / sigma
        return numbered(np.exp(logs), y=labels_from_scores(rng, scores, base_rate))

    columns = {f"x{place}": Number(0, high) for place in range(width)}
    return _table(name, f"{width} log-normal columns, σ = {sigma}", {**columns, "y": LABEL}, make)


def spiked(name: str, rows: int, zeros: float, base_rate: float) -> PanelTable:
    """Amounts that are mostly zero, hours that are mostly forty, and a job."""
    jobs = ("office", "shop", "farm", "works", "none")

    def make(rng: np.random.Generator) -> pd.DataFrame:
        gain, loss = (
            np.where(rng.random(rows) < zeros, 0, np.round(rng.gamma(1.5, scale, rows))) for scale in (3000, 600)
        )
        hours = np.where(rng.random(rows) < 0.5, 40, np.clip(np.round(rng.normal(38, 14, rows)), 1, 99))
        job = rng.integers(0, len(jobs), rows)
        scores = 1.5 * (gain > 0) + (loss > 900) + 0.04 * (hours - 40) + np.array([0.8, 0, -1, 0.2, -1.5])[job]
        label = labels_from_scores(rng, scores, base_rate)
        return pd.DataFrame({"gain": gain, "loss": loss, "hours": hours, "job": np.array(jobs)[job], "y": label})

    columns = {
        "gain": Number(0, 20_000, whole=True),
        "loss": Number(0, 5_000, whole=True),
        "hours": Number(1, 99, whole=True),
    }
    about = f"two amounts that are zero in {zeros:.0%} of rows, hours with a spike at 40, a job"
    return _table(name, about, {**columns, "job": Category(jobs), "y": LABEL}, make)


def heavy_tailed(name: str, rows: int, width: int, degrees: float) -> PanelTable:
    """Student's t columns within ±50."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        values = rng.standard_t(degrees, (rows, width))
        scores = np.tanh(values) @ rng.normal(0, 3 / np.sqrt(width), width)
        return numbered(np.clip(values, -50, 50), y=labels_from_scores(rng, scores, 0.4))

    columns = {f"x{place}": Number(-50, 50) for place in range(width)}
    return _table(
        name, f"{width} columns of Student's t with {degrees} degrees of freedom", {**columns, "y": LABEL}, make
    )


def whole_numbers(name: str, rows: int, base_rate: float) -> PanelTable:
    """Ages that heap at tens, children, visits, years of school."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        age = np.clip(np.round(rng.normal(45, 16, rows)), 18, 95)
        heaped = np.where(rng.random(rows) < 0.3, np.clip(10 * np.round(age / 10), 18, 95), age)
        children, visits = rng.poisson(1.4, rows), rng.negative_binomial(1, 0.2, rows)
        school = rng.choice([8, 10, 12, 13, 16, 18], rows, p=[0.1, 0.2, 0.35, 0.1, 0.2, 0.05])
        scores = 0.05 * (age - 45) + 0.4 * np.minimum(visits, 6) - 0.15 * school - 0.2 * children
        label = labels_from_scores(rng, scores, base_rate)
        columns = {
            "age": heaped,
            "children": np.minimum(children, 12),
            "visits": np.minimum(visits, 60),
            "school": school,
        }
        return pd.DataFrame({**columns, "y": label})

    bounds = {"age": (18, 95), "children": (0, 12), "visits": (0, 60), "school": (0, 20)}
    columns = {column: Number(low, high, whole=True) for column, (low, high) in bounds.items()}
    return _table(name, "ages that heap at tens, children, visits, years of school", {**columns, "y": LABEL}, make)


def gaussian(
    name: str,
    rows: int,
    width: int,
    informative: int,
    base_rate: float,
    *,
    strength: float = 2.0,
    shared: float = 0.0,
    bound: float = 4.0,
    shift: float = 0.0,
) -> PanelTable:
    """Normal columns, some of which matter. `shared` is the part that all have in common; `shift` moves them off the middle of their bounds."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        values = np.sqrt(1 - shared) * rng.normal(size=(rows, width)) + np.sqrt(shared) * rng.normal(size=(rows, 1))
        weights = np.zeros(width)
        weights[:informative] = rng.choice([-1, 1], informative) * strength / np.sqrt(max(informative, 1))
        label = labels_from_scores(rng, values @ weights, base_rate)
        return numbered(np.clip(values + shift, -bound, bound), y=label)

    columns = {f"x{place}": Number(-bound, bound) for place in range(width)}
    about = f"{rows:,} rows, {width} normal columns of which {informative} matter, base rate {base_rate}"
    return _table(name, about, {**columns, "y": LABEL}, make)


def clouds(name: str, rows: int, width: int, shares: Sequence[float], distance: float) -> PanelTable:
    """One normal cloud a class."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        centres = rng.normal(0, distance / np.sqrt(width), (len(shares), width))
        label = rng.choice(len(shares), rows, p=shares)
        return numbered(np.clip(centres[label] + rng.normal(size=(rows, width)), -6, 6), y=label)

    columns = {f"x{place}": Number(-6, 6) for place in range(width)}
    label = Label(tuple(range(len(shares))))
    return _table(
        name, f"{len(shares)} classes with shares {tuple(shares)}, {width} columns", {**columns, "y": label}, make
    )


def determined_pairs(name: str, rows: int, districts: int, base_rate: float) -> PanelTable:
    """Columns that others determine: the region of a district, the years of a degree; and no pension before sixty."""
    regions, degrees = ("north", "east", "south", "west"), ("none", "school", "trade", "college", "doctor")
    years = np.array([8, 10, 12, 16, 20])

    def make(rng: np.random.Generator) -> pd.DataFrame:
        district = np.minimum(rng.geometric(3 / districts, rows), districts) - 1
        degree = rng.choice(len(degrees), rows, p=[0.1, 0.3, 0.35, 0.2, 0.05])
        age = np.clip(np.round(rng.normal(48, 18, rows)), 18, 99)
        pension = (age >= 60) & (rng.random(rows) < 0.7)
        scores = 0.5 * (years[degree] - 12) + 0.02 * (age - 48) - 1.5 * pension + np.sin(district)
        return pd.DataFrame({
            "district": np.array([f"d{place:02}" for place in range(districts)])[district],
            "region": np.array(regions)[district * len(regions) // districts],
            "degree": np.array(degrees)[degree],
            "years": years[degree],
            "age": age,
            "pension": np.where(pension, "yes", "no"),
            "y": labels_from_scores(rng, scores, base_rate),
        })  # fmt: skip

    columns = {
        "district": Category(tuple(f"d{place:02}" for place in range(districts))),
        "region": Category(regions),
        "degree": Category(degrees),
        "years": Number(0, 20, whole=True),
        "age": Number(18, 99, whole=True),
        "pension": Category(("no", "yes")),
        "y": LABEL,
    }
    return _table(
        name, f"{districts} districts in four regions, degrees with their years, pension only from 60", columns, make
    )


def bent(name: str, rows: int, width: int, base_rate: float) -> PanelTable:
    """The middle of the first two columns is rare among ones: no line tells the classes apart."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        values = rng.uniform(-1, 1, (rows, width))
        scores = 6 * (np.abs(values[:, 0]) + np.abs(values[:, 1]) - 1) + values[:, 2]
        return numbered(values, y=labels_from_scores(rng, scores, base_rate))

    columns = {f"x{place}": Number(-1, 1) for place in range(width)}
    return _table(name, "the label depends on distances from the middle", {**columns, "y": LABEL}, make)


def categories(name: str, rows: int, levels: Sequence[int], base_rate: float) -> PanelTable:
    """Nothing but categories, some with many levels, used unequally."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        columns, scores = {}, np.zeros(rows)
        for place, count in enumerate(levels):
            shares = 1 / np.arange(1, count + 1)
            code = rng.choice(count, rows, p=shares / shares.sum())
            scores += rng.normal(0, 1, count)[code]
            columns[f"c{place}"] = np.array([f"v{level}" for level in range(count)])[code]
        return pd.DataFrame({**columns, "y": labels_from_scores(rng, scores, base_rate)})

    columns = {
        f"c{place}": Category(tuple(f"v{level}" for level in range(count))) for place, count in enumerate(levels)
    }
    return _table(name, f"categories with {', '.join(map(str, levels))} levels", {**columns, "y": LABEL}, make)


def mixed_classes(
    name: str, rows: int, numbers: int, levels: Sequence[int], classes: int, strength: float
) -> PanelTable:
    """Numbers and categories that each move the log odds of every class."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        values = rng.uniform(0, 1, (rows, numbers)) ** 2
        scores = (values - 1 / 3) @ rng.normal(0, 2 * strength, (numbers, classes))
        columns: dict[str, object] = {}
        for place, count in enumerate(levels):
            code = rng.integers(0, count, rows)
            scores += rng.normal(0, strength, (count, classes))[code]
            columns[f"c{place}"] = np.array([f"v{level}" for level in range(count)])[code]
        # The largest of scores with Gumbel noise is a draw from their softmax.
        return numbered(values, **columns, y=np.argmax(scores + rng.gumbel(size=scores.shape), axis=1))

    declared: dict[str, object] = {f"x{place}": Number(0, 1) for place in range(numbers)}
    declared |= {f"c{place}": Category(tuple(f"v{level}" for level in range(n))) for place, n in enumerate(levels)}
    about = f"{classes} classes, {numbers} numbers and categories with {', '.join(map(str, levels))} levels"
    return _table(name, about, {**declared, "y": Label(tuple(range(classes)))}, make)


CLASSIFICATION_TABLES = (
    skewed("skewed", 6_000, 6, 1.0, 0.35),
    skewed("very skewed", 5_000, 8, 2.0, 0.3),
    spiked("spiked amounts", 8_000, 0.9, 0.24),
    spiked("more spikes", 5_000, 0.82, 0.4),
    heavy_tailed("heavy tails", 6_000, 6, 3.0),
    heavy_tailed("heavier tails", 4_000, 10, 1.5),
    whole_numbers("whole numbers", 5_000, 0.45),
    whole_numbers("whole numbers, rare label", 7_000, 0.12),
    gaussian("few rows", 220, 4, 3, 0.5),
    gaussian("few rows, eight columns", 400, 8, 4, 0.35),
    gaussian("many columns", 3_000, 60, 10, 0.5),
    gaussian("a hundred columns", 6_000, 100, 20, 0.4, strength=3.0),
    gaussian("unbalanced", 12_000, 8, 5, 0.05, strength=2.5),
    gaussian("more unbalanced", 15_000, 10, 4, 0.02, strength=3.0),
    gaussian("alike columns", 5_000, 12, 12, 0.3, shared=0.8),
    gaussian("off centre", 5_000, 6, 6, 0.3, bound=20.0, shift=12.0),
    gaussian("far off centre", 7_000, 5, 5, 0.16, bound=50.0, shift=40.0),
    gaussian("no signal", 3_000, 6, 0, 0.3),
    gaussian("no signal, rare label", 4_000, 10, 0, 0.1),
    clouds("three classes", 3_000, 5, (0.4, 0.35, 0.25), 3.0),
    clouds("five uneven classes", 6_000, 8, (0.5, 0.25, 0.15, 0.07, 0.03), 4.0),
    determined_pairs("determined pairs", 6_000, 16, 0.4),
    determined_pairs("more determined pairs", 9_000, 24, 0.2),
    bent("bent", 6_000, 5, 0.5),
    bent("bent, rare label", 8_000, 8, 0.2),
    categories("categories", 5_000, (3, 6, 12, 30), 0.35),
    categories("more categories", 8_000, (2, 2, 5, 9, 20, 40), 0.15),
    # For tuning only.
    clouds("five classes", 3_500, 6, (0.3, 0.25, 0.2, 0.15, 0.1), 3.0),
    clouds("ten classes", 5_000, 12, (0.1,) * 10, 5.0),
    clouds("ten classes, uneven", 4_500, 7, (0.24, 0.18, 0.14, 0.11, 0.09, 0.08, 0.06, 0.05, 0.03, 0.02), 4.0),
    clouds("four classes, few rows", 260, 5, (0.4, 0.3, 0.2, 0.1), 3.0),
    mixed_classes("four classes, mixed columns", 4_000, 4, (3, 5, 8), 4, 1.0),
    mixed_classes("five classes, mixed columns", 1_200, 3, (4, 4), 5, 1.2),
    gaussian("few rows, three columns", 150, 3, 2, 0.4),
    gaussian("few rows, twenty columns", 500, 20, 6, 0.5),
    gaussian("forty columns, uneven", 2_500, 40, 8, 0.25, shared=0.3),
    gaussian("very rare label", 6_000, 6, 3, 0.03, strength=3.0),
    categories("few rows, categories", 400, (2, 3, 4, 6), 0.4),
    categories("two categories", 2_500, (8, 15), 0.5),
    spiked("spiked amounts, few rows", 700, 0.75, 0.3),
)
