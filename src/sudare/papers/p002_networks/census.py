"""The Adult census as paper 002 uses it: people without missing answers, 45,222 in all, of which 30,162 are officially to fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score

from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL
from sudare.papers.datasets import DataName, data
from sudare.papers.repetitions import Measurements, results
from sudare.papers.study import Tell
from sudare.privacy.guarantee import readable_up
from sudare.schema import Category, Column, Number, Schema

FOLDS: Final = 10
# Of the folds of figure 5.
SEED: Final = 20161201

_COUNTRIES: Final = (
    "United-States", "Cambodia", "Canada", "China", "Columbia", "Cuba", "Dominican-Republic", "Ecuador", "El-Salvador",
    "England", "France", "Germany", "Greece", "Guatemala", "Haiti", "Holand-Netherlands", "Honduras", "Hong", "Hungary",
    "India", "Iran", "Ireland", "Italy", "Jamaica", "Japan", "Laos", "Mexico", "Nicaragua", "Outlying-US(Guam-USVI-etc)",
    "Peru", "Philippines", "Poland", "Portugal", "Puerto-Rico", "Scotland", "South", "Taiwan", "Thailand",
    "Trinadad&Tobago", "Vietnam", "Yugoslavia",
)  # fmt: skip


def _without_missing(column: Column) -> Column:
    return column if isinstance(column, Number) else replace(column, missing=None)


# All 14 attributes and Salary, of people without missing answers; bounds and categories are the census's, not the data's.
PAPER_SCHEMA: Final = Schema(
    {
        **{name: _without_missing(column) for name, column in ADULT_SCHEMA.features.items()},
        "fnlwgt": Number(0, 1_500_000),
        "education-num": Number(1, 16),
        "native-country": Category(_COUNTRIES),
        LABEL: ADULT_SCHEMA.columns[LABEL],
    }
)


class Split(NamedTuple):
    """Rows to fit and rows to test on."""

    train: pd.DataFrame
    test: pd.DataFrame


def complete(name: DataName, schema: Schema) -> pd.DataFrame:
    """The rows without missing values in any attribute, in the declared columns."""
    return data(name).dropna()[list(schema.columns)]


def official(schema: Schema = ADULT_SCHEMA) -> Split:
    """The official parts."""
    return Split(complete("adult-train", schema), complete("adult-test", schema))


def folds(count: int, seed: int, schema: Schema = ADULT_SCHEMA) -> Iterator[Split]:
    """The first so many of ten-fold cross-validation over all rows; after ten, ten more from another order."""
    both = pd.concat(official(schema), ignore_index=True)
    for number in range(count):
        order = np.random.default_rng((seed, number // FOLDS)).permutation(len(both))
        tested = np.array_split(order, FOLDS)[number % FOLDS]
        yield Split(both.iloc[np.setdiff1d(order, tested)], both.iloc[tested])


class Scores(NamedTuple):
    """Accuracy and the mean of both classes' F-measures."""

    accuracy: float
    macro_f1: float


def promised_text(epsilon: float) -> str:
    """ε of a record, rounded up: a promise is never shown smaller than it is."""
    return f"{math.ceil(epsilon):,}" if epsilon >= 1000 else readable_up(epsilon)


@dataclass
class ScoresByMethod:
    """Accuracy and macro-F1 of every repetition by method and ε, and the ε that a record is promised."""

    accuracy: Measurements = field(default_factory=Measurements)
    macro_f1: Measurements = field(default_factory=Measurements)
    record_epsilon: dict[tuple[str, float], float] = field(default_factory=dict)

    def extend(self, other: ScoresByMethod) -> None:
        """Keep the scores of later repetitions, too."""
        self.accuracy.extend(other.accuracy)
        self.macro_f1.extend(other.macro_f1)
        self.record_epsilon.update(other.record_epsilon)

    def note(self, name: str, found: Scores, epsilon: float | None = None) -> None:
        """Keep the scores of one repetition."""
        self.accuracy.note(name, found.accuracy, epsilon)
        self.macro_f1.note(name, found.macro_f1, epsilon)


def all_scores(tell: Tell, calls: Iterable[tuple[str, Callable[[], ScoresByMethod]]]) -> ScoresByMethod:
    """The scores that all calls return, in their order."""
    found = ScoresByMethod()
    for part in results(tell, calls):
        found.extend(part)
    return found


def scores(model: Any, test: pd.DataFrame) -> Scores:
    """Of a fitted model's answers."""
    return scores_of(np.asarray(model.predict(test)), test)


def scores_of(answers: np.ndarray[Any, Any], test: pd.DataFrame) -> Scores:
    """Of answers."""
    right = test[LABEL].to_numpy()
    return Scores(float(np.mean(answers == right)), float(f1_score(right, answers, average="macro")))
