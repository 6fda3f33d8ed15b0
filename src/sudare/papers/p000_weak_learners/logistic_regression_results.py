"""Which method of the product's private logistic regression does best where: small tables, pure ε and δ, and sampled descent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from sudare.linear import PrivateLogisticRegression
from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL, with_known_columns
from sudare.papers.datasets import data
from sudare.papers.p000_weak_learners.learning_tasks import Task, breast_cancer, synthetic
from sudare.papers.repetitions import Measurements, repeated
from sudare.papers.study import Cell, ResultTable, Tell

EPSILONS: Final = (0.1, 1.0)
DELTA: Final = 1e-6
METHODS: Final = ("auto", "objective", "output", "mean", "descent")
SAMPLING_RATES: Final = (None, 0.5, 0.1, 0.02)
SAMPLED_ROWS: Final = 1_000
METHODS_SEED, SAMPLING_SEED = 20151001, 20151002

# Rows and labels to fit, rows and labels to test on.
Split = tuple[Any, Any, Any, Any]


@dataclass(frozen=True)
class Source:
    """A name, a random split, and what the estimator is told about its rows."""

    name: str
    split: Callable[[np.random.Generator], Split]
    told: dict[str, Any]


_ARRAYS: Final[dict[str, Any]] = {"norm_bound": 1.0, "classes": [-1.0, 1.0], "fit_intercept": False}


def sources() -> list[Source]:
    """Adult with few rows, the synthetic task of section 5.1, and breast cancer; all members' rows in one place."""
    train, test = (with_known_columns(data(name)) for name in ("adult-train", "adult-test"))
    adult: dict[str, Any] = {"schema": ADULT_SCHEMA, "encoding": "binned"}
    return [
        Source("Adult, binned, 500 rows", lambda generator: some_rows(train, test, 500, generator), adult),
        Source("Adult, binned, 4,000 rows", lambda generator: some_rows(train, test, 4_000, generator), adult),
        Source("sphere, 10 columns, 50 rows", lambda generator: pooled(sphere(generator, 50)), _ARRAYS),
        Source("sphere, 10 columns, 1,000 rows", lambda generator: pooled(sphere(generator, 1_000)), _ARRAYS),
        Source("breast cancer, 30 columns, 400 rows", lambda generator: pooled(breast_cancer(generator)), _ARRAYS),
    ]


def some_rows(train: pd.DataFrame, test: pd.DataFrame, rows: int, generator: np.random.Generator) -> Split:
    """So many training rows at random, and the official test rows."""
    chosen = train.iloc[generator.permutation(len(train))[:rows]]
    return chosen.drop(columns=LABEL), chosen[LABEL], test.drop(columns=LABEL), test[LABEL]


def sphere(generator: np.random.Generator, rows: int) -> Task:
    """The synthetic task in one place."""
    return synthetic(generator, nodes=1, rows=rows, test=1_000)


def pooled(task: Task) -> Split:
    """All members' rows."""
    return task.rows.reshape(-1, task.rows.shape[2]), task.labels.ravel(), task.test_rows, task.test_labels


def methods_compared(tell: Tell, repeats: int) -> Measurements:
    """Accuracies by source, δ and method."""
    known = sources()

    def note(found: Measurements, generator: np.random.Generator) -> None:
        for source in known:
            rows, labels, test_rows, test_labels = source.split(generator)
            for delta in (0.0, DELTA):
                for epsilon in EPSILONS:
                    for method in METHODS:
                        seed = int(generator.integers(2**31))
                        if method == "descent" and delta == 0:
                            continue
                        model = PrivateLogisticRegression(
                            epsilon, delta, method=method, random_state=seed, **source.told
                        )
                        accuracy = model.fit(rows, labels).score(test_rows, test_labels)
                        found.note((source.name, delta, method), accuracy, epsilon)

    return repeated(tell, "methods of linear models", repeats, METHODS_SEED, note)


def methods_table(found: Measurements) -> ResultTable:
    """One row for every source, δ and ε."""
    names = list(dict.fromkeys(key[0][0] for key in found.numbers if isinstance(key, tuple)))
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for delta in (0.0, DELTA):
            for epsilon in EPSILONS:
                measured = [
                    None if method == "descent" and delta == 0 else found.at((name, delta, method), epsilon)
                    for method in METHODS
                ]
                rows.append((name, delta, epsilon, *measured))
    return ResultTable(
        "Methods of the product's private logistic regression",
        ("data", "δ", "ε", *METHODS),
        rows,
        f"Replace-one records, accuracy on held-out rows, ± one standard error over {found.repeats} random splits, noise included. “Sphere” is the synthetic task of section 5.1 with all rows in one place. "
        "Nothing is set but the method; penalties, clips and steps follow the public rules.",
    )


def sampling_compared(tell: Tell, repeats: int) -> Measurements:
    """Accuracies of descent by the probability with which a step sees a row."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        rows, labels, test_rows, test_labels = pooled(sphere(generator, SAMPLED_ROWS))
        for rate in SAMPLING_RATES:
            model = PrivateLogisticRegression(
                1.0, DELTA, method="descent", sampling_rate=rate, random_state=int(generator.integers(2**31)), **_ARRAYS
            )
            found.note(rate or "all", model.fit(rows, labels).score(test_rows, test_labels))

    return repeated(tell, "sampled descent", repeats, SAMPLING_SEED, note)


def sampling_table(found: Measurements) -> ResultTable:
    """One column for every rate."""
    rates: Sequence[float | None] = SAMPLING_RATES
    return ResultTable(
        "Sampled descent",
        ("rows seen by a step", "accuracy"),
        [("all" if rate is None else f"each with probability {rate:g}", found.at(rate or "all")) for rate in rates],
        f"Replace-one records, ε = 1, δ = {DELTA:g}; {SAMPLED_ROWS:,} rows of the sphere, 1,000 to test, ± one standard error over {found.repeats} seeds.",
    )
