"""The paper's future work, measured: experts for two classes, three classes and numbers, combined exactly for their owner, and within a budget for release.

Members hold parts of the Adult census data. All senders but some publish private linear models of it; these have learned from exchanged labels, as a member with other codes in
its table would have. Mirror averaging and exponential weights are those of `sudare.experts`, released combinations its `PrivateExponentialWeights`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

from sudare.array_types import Floats
from sudare.experts import (
    AverageExperts,
    ExponentialWeights,
    MirrorAveraging,
    OwnPlusConsensus,
    PrivateExponentialWeights,
    StackedExperts,
)
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL, with_known_columns
from sudare.papers.datasets import data
from sudare.papers.repetitions import Measurements, estimated_series, repeated
from sudare.papers.study import Cell, Figure, ResultTable, StudyResult, StudySettings, Tell
from sudare.report.plots import Panel, Series, curves
from sudare.schema import Category, Schema, encode

SENDERS, EXCHANGED, SENDER_ROWS = 10, 3, 2000
SENDER_EPSILON, SENDER_DELTA = 1.0, 1e-6
OWN_ROWS: Final = (100, 1000)
EPSILONS: Final = (0.5, 1.0, 2.0, 5.0)
TEST_ROWS, QUICK_TEST_ROWS = 4000, 1000
SEED: Final = 20150417

AVERAGE, MIRROR, WEIGHTS = "plain average", "mirror averaging", "exponential weights"
STACKED, CONSENSUS = "stacking", "own plus consensus"
BEST, OWN = "best expert, in hindsight", "own data only"
_MARRIED: Final = ("Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent")


@dataclass(frozen=True)
class CensusTask:
    """A column of the census data to predict from others; `bounds` are those of numbers, None for classes."""

    title: str
    target: str
    left_out: tuple[str, ...] = ()
    classes: int = 2
    bounds: tuple[float, float] | None = None

    @property
    def schema(self) -> Schema:
        """The features' public facts; income is one of them where it is not the target."""
        known = {
            name: column for name, column in ADULT_SCHEMA.columns.items() if name not in (self.target, *self.left_out)
        }
        if self.target != LABEL:
            known[LABEL] = Category(("<=50K", ">50K"))
        return Schema(known)

    def rows(self, table: pd.DataFrame) -> tuple[Floats, NDArray[Any]]:
        """Rows within the unit ball, and targets."""
        schema = self.schema
        matrix = encode(schema, table, "centred").matrix / schema.norm_bound("centred")
        return matrix, self.targets(table[self.target])

    def targets(self, column: pd.Series) -> NDArray[Any]:
        """Numbers; or the number of a class."""
        if self.bounds is not None:
            return column.to_numpy(dtype=np.float64)
        if self.target == LABEL:
            return (column == ">50K").to_numpy().astype(np.intp)
        # Never married, married, married once.
        return np.where(column == "Never-married", 0, np.where(column.isin(_MARRIED), 1, 2))


TASKS: Final = (
    CensusTask("income, two classes", LABEL),
    CensusTask("marital status, three classes", "marital-status", ("relationship",), classes=3),
    CensusTask("age, numbers from 17 to 90", "age", bounds=(17.0, 90.0)),
)


def released_combinations(tell: Tell, settings: StudySettings) -> StudyResult:
    """One table and one panel a task: what every way of combining loses on test rows, and how much it tells right."""
    train, test = (with_known_columns(data(name)) for name in ("adult-train", "adult-test"))
    found = [(task, measured(tell, settings, task, train, test)) for task in TASKS]
    caption = (
        f"Loss on test rows of combinations that a receiver of {OWN_ROWS[0]} rows may release, against ε, beside those for its owner only (dashed); "
        "bars are standard errors. Regression and its verification are the future work of the paper's section 6."
    )
    return StudyResult(
        [result_table(*each) for each in found], [Figure("Future work", caption, [loss_panel(*each) for each in found])]
    )


def measured(
    tell: Tell, settings: StudySettings, task: CensusTask, train: pd.DataFrame, test: pd.DataFrame
) -> Measurements:
    """Losses and accuracies (or R²) of one task, each under (combination, what, own rows)."""
    rows, targets = task.rows(train)
    tested = task.rows(test.iloc[: QUICK_TEST_ROWS if settings.quick else TEST_ROWS])

    def note(found: Measurements, generator: np.random.Generator) -> None:
        order = generator.permutation(len(rows))
        places = np.split(order[: SENDERS * SENDER_ROWS], SENDERS)
        experts = [
            sent_model(task, rows[part], targets[part], number < EXCHANGED, generator)
            for number, part in enumerate(places)
        ]
        for own_rows in OWN_ROWS:
            own = order[SENDERS * SENDER_ROWS :][:own_rows]
            for name, model in combinations(task, experts, rows[own], targets[own], generator).items():
                note_best_on_test(found, task, name, own_rows, [model], tested)
            note_best_on_test(found, task, BEST, own_rows, experts, tested)

    return repeated(tell, f"combinations, {task.title}", settings.repeats, SEED, note)


def sent_model(
    task: CensusTask, rows: Floats, targets: NDArray[Any], exchanged: bool, generator: np.random.Generator
) -> Any:
    """A sender's private model; seeded, for simulation."""
    promise, seed = (SENDER_EPSILON, SENDER_DELTA), int(generator.integers(2**31))
    if task.bounds is not None:
        learned = sum(task.bounds) - targets if exchanged else targets
        return PrivateRidge(*promise, target_bounds=task.bounds, random_state=seed).fit(rows, learned)
    learned = (targets + 1) % task.classes if exchanged else targets
    return PrivateLogisticRegression(*promise, classes=list(range(task.classes)), random_state=seed).fit(rows, learned)


def combinations(
    task: CensusTask, experts: Sequence[Any], rows: Floats, targets: NDArray[Any], generator: np.random.Generator
) -> Mapping[str, Any]:
    """Every way of combining, fitted to own rows."""
    alone: Any = Ridge() if task.bounds is not None else LogisticRegression(max_iter=1000)
    ways: dict[str, Any] = {
        OWN: alone,
        AVERAGE: AverageExperts(experts, combine="probabilities"),
        MIRROR: MirrorAveraging(experts, temperature="theory", combine="probabilities"),
        WEIGHTS: ExponentialWeights(experts, temperature="theory", combine="probabilities"),
        STACKED: StackedExperts(experts),
        CONSENSUS: OwnPlusConsensus(experts),
        **{
            released_name(epsilon): PrivateExponentialWeights(
                experts, epsilon, random_state=int(generator.integers(2**31))
            )
            for epsilon in EPSILONS
        },
    }
    return {name: way.fit(rows, targets) for name, way in ways.items()}


def released_name(epsilon: float) -> str:
    """What a table calls a released combination."""
    return f"released, ε = {epsilon:g}"


def note_best_on_test(
    found: Measurements,
    task: CensusTask,
    name: str,
    own_rows: int,
    models: Sequence[Any],
    tested: tuple[Floats, NDArray[Any]],
) -> None:
    """Keep the least loss of some models on test rows, and what the model with that loss tells right."""
    qualities = [quality(task, model, *tested) for model in models]
    loss, right = min(qualities)
    found.note((name, "loss", own_rows), loss)
    found.note((name, "right", own_rows), right)


def quality(task: CensusTask, model: Any, rows: Floats, targets: NDArray[Any]) -> tuple[float, float]:
    """Mean loss in [0, 1] (half the Brier score; squares in units of the range), and accuracy or R²."""
    if task.bounds is not None:
        low, high = task.bounds
        missed = (np.clip(model.predict(rows), low, high) - targets) ** 2
        return float(missed.mean() / (high - low) ** 2), float(1 - missed.mean() / targets.var())
    chances = model.predict_proba(rows)
    truth = np.eye(chances.shape[1])[targets]
    return float(((chances - truth) ** 2).sum(axis=1).mean() / 2), float((chances.argmax(axis=1) == targets).mean())


def loss_panel(task: CensusTask, found: Measurements) -> Panel:
    """Losses of released combinations against ε, for few own rows, and levels that do not depend on it."""

    def level(name: str) -> Series:
        loss = found.at((name, "loss", OWN_ROWS[0])).value
        return Series(f"{name} ({loss:.3f})", [loss] * len(EPSILONS), dashed=True)

    released = [found.at((released_name(epsilon), "loss", OWN_ROWS[0])) for epsilon in EPSILONS]
    lines = [estimated_series("released", released), *map(level, (OWN, AVERAGE, MIRROR, STACKED, CONSENSUS))]
    return curves(EPSILONS, lines, x_label="ε (pure, replace-one)", y_label="loss", title=task.title)


def result_table(task: CensusTask, found: Measurements) -> ResultTable:
    """Losses and accuracies of all combinations, for few and for many own rows."""
    right = "accuracy" if task.bounds is None else "R²"
    columns = ["combination"] + [f"{what}, {own_rows:,} own rows" for own_rows in OWN_ROWS for what in ("loss", right)]
    names = (OWN, BEST, AVERAGE, MIRROR, WEIGHTS, STACKED, CONSENSUS, *map(released_name, EPSILONS))
    rows: list[tuple[Cell, ...]] = [
        (name, *(found.at((name, what, own_rows)) for own_rows in OWN_ROWS for what in ("loss", "right")))
        for name in names
    ]
    judged = "half the Brier score" if task.bounds is None else "the squared error in units of the range, squared"
    return ResultTable(
        f"Future work: {task.title}",
        columns,
        rows,
        f"Adult census data, {SENDERS} senders of {SENDER_ROWS:,} rows whose models are (ε, δ) = ({SENDER_EPSILON:g}, {SENDER_DELTA:g}), {EXCHANGED} of them learned from exchanged labels; "
        f"± one standard error over {found.repeats} repetitions. The loss is {judged}. Mirror averaging and exponential weights have the theorem's temperature. Without privacy for the receiver's own rows, hence for their owner only: all but the plain average and the ones that are called released; "
        "released ones are pure ε (δ = 0), replace-one records of the receiver, four draws.",
    )
