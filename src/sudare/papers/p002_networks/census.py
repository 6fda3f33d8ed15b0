"""The Adult census as paper 002 uses it: people without missing answers, 45,222 in all, of which 30,162 are officially to fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score

from sudare.papers.adult import LABEL, with_known_columns
from sudare.papers.datasets import DataName, data
from sudare.papers.repetitions import Measurements

FOLDS: Final = 10


class Split(NamedTuple):
    """Rows to fit and rows to test on."""

    train: pd.DataFrame
    test: pd.DataFrame


def complete(name: DataName) -> pd.DataFrame:
    """The rows without missing values, in the declared columns."""
    return with_known_columns(data(name).dropna())


def official() -> Split:
    """The official parts."""
    return Split(complete("adult-train"), complete("adult-test"))


def folds(count: int, seed: int) -> Iterator[Split]:
    """The first so many of ten-fold cross-validation over all rows; after ten, ten more from another order."""
    both = pd.concat(official(), ignore_index=True)
    for number in range(count):
        order = np.random.default_rng((seed, number // FOLDS)).permutation(len(both))
        tested = np.array_split(order, FOLDS)[number % FOLDS]
        yield Split(both.iloc[np.setdiff1d(order, tested)], both.iloc[tested])


class Scores(NamedTuple):
    """Accuracy and the mean of both classes' F-measures."""

    accuracy: float
    macro_f1: float


@dataclass
class ScoresByMethod:
    """Accuracy and macro-F1 of every repetition by method and ε, and the ε that a record is promised."""

    accuracy: Measurements = field(default_factory=Measurements)
    macro_f1: Measurements = field(default_factory=Measurements)
    record_epsilon: dict[tuple[str, float], float] = field(default_factory=dict)

    def note(self, name: str, found: Scores, epsilon: float | None = None) -> None:
        """Keep the scores of one repetition."""
        self.accuracy.note(name, found.accuracy, epsilon)
        self.macro_f1.note(name, found.macro_f1, epsilon)


def scores(model: Any, test: pd.DataFrame) -> Scores:
    """Of a fitted model's answers."""
    return scores_of(np.asarray(model.predict(test)), test)


def scores_of(answers: np.ndarray[Any, Any], test: pd.DataFrame) -> Scores:
    """Of answers."""
    right = test[LABEL].to_numpy()
    return Scores(float(np.mean(answers == right)), float(f1_score(right, answers, average="macro")))
