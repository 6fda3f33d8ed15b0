"""Figure 5 of paper 002: its three approaches against ε, with what that ε is worth to a record.

The figure prints no numbers. ε is one parameter's for the second and third approach, and a record's for
the first. Public rules for rates, thresholds and limits were found on a part of the official training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from sudare.neural.estimators import NetworkClassifier
from sudare.neural.training_methods import layer_outputs
from sudare.papers.adult import ADULT_SCHEMA
from sudare.papers.p002_networks.approaches import SgdSettings
from sudare.papers.p002_networks.census import FOLDS, Scores, ScoresByMethod, Split, folds, scores, scores_of
from sudare.papers.p002_networks.estimators import (
    AnonymizedLearningClassifier,
    AnonymizingFirstClassifier,
    LearningFirstClassifier,
)
from sudare.papers.p002_networks.ordinary_training import trained_without_privacy
from sudare.papers.study import Cell, ResultTable, Tell
from sudare.privacy.noise import SeededNoise
from sudare.report.plots import MARKERS, SERIES_COLOURS, Panel, Theme, finished
from sudare.schema import encode

EPSILONS: Final = (0.1, 1.0, 10.0, 100.0)
HIDDEN: Final = (64, 64, 64, 64)
SEED: Final = 20161201
PAPER_ACCURACY, PAPER_F_MEASURE = 0.85, 0.79
PLAIN: Final = SgdSettings(epochs=10, batch_size=256, learning_rate=0.1)


@dataclass(frozen=True)
class Line:
    """An approach with its options, and where its noise is in a few words."""

    name: str
    drawn_as: str
    estimator: type[NetworkClassifier]
    options: Mapping[str, Any] = field(default_factory=dict)


LINES: Final = (
    Line(
        "AnonymizingFirst, microaggregation",
        "synthetic, groups",
        AnonymizingFirstClassifier,
        {"engine": "microaggregation", "encoding": "scaled"},
    ),
    Line("AnonymizingFirst, marginals", "synthetic, marginals", AnonymizingFirstClassifier),
    Line("LearningFirst", "after learning", LearningFirstClassifier),
    Line("AnonymizedLearning, 1 epoch", "in updates", AnonymizedLearningClassifier),
    Line("AnonymizedLearning, 10 epochs", "in updates, 10 epochs", AnonymizedLearningClassifier, {"epochs": 10}),
    Line(
        "AnonymizedLearning, sums clipped as printed",
        "in updates, sums clipped",
        AnonymizedLearningClassifier,
        {"clipping": "batch"},
    ),
)


def measured(
    tell: Tell, repeats: int, lines: Sequence[Line] = LINES, epsilons: Sequence[float] = EPSILONS
) -> ScoresByMethod:
    """Every line at every ε on so many of ten folds."""
    figure = ScoresByMethod()
    for number, split in enumerate(folds(repeats, SEED)):
        tell(f"figure 5, fold {number + 1} of {repeats}")
        generator = np.random.default_rng((SEED, 1, number))
        figure.note("no privacy", plain_scores(split, int(generator.integers(2**31))))
        for line in lines:
            for epsilon in epsilons:
                model = made(line, epsilon, int(generator.integers(2**31))).fit(split.train)
                figure.note(line.name, scores(model, split.test), epsilon)
                figure.record_epsilon[line.name, epsilon] = model.guarantee_.epsilon
    return figure


def made(line: Line, epsilon: float, seed: int) -> NetworkClassifier:
    """The estimator of a line: replace-one, δ = 0."""
    return line.estimator(
        HIDDEN,
        epsilon=epsilon,
        delta=0.0,
        schema=ADULT_SCHEMA,
        accept_weak_guarantee=True,
        random_state=seed,
        **line.options,
    )


def plain_scores(split: Split, seed: int) -> Scores:
    """Ordinary learning with the same network on the same columns."""
    train, test = (encode(ADULT_SCHEMA, table, "binned").matrix for table in split)
    targets = np.eye(2, dtype=np.float32)[ADULT_SCHEMA.encode_target(split.train).astype(np.intp)]
    sizes = (train.shape[1], *HIDDEN, 2)
    layers = trained_without_privacy(
        train.astype(np.float32), targets, sizes, "cross_entropy", PLAIN, SeededNoise(seed)
    )
    classes = np.array(ADULT_SCHEMA.classes, dtype=object)
    return scores_of(classes[np.argmax(layer_outputs(layers, test), axis=1)], split.test)


def table(figure: ScoresByMethod, lines: Sequence[Line] = LINES, epsilons: Sequence[float] = EPSILONS) -> ResultTable:
    """Accuracy and macro-F1 with both guarantees."""
    without = "no privacy"
    rows: list[tuple[Cell, ...]] = [(without, None, None, figure.accuracy.at(without), figure.macro_f1.at(without))]
    for line in lines:
        rows += [
            (
                line.name,
                epsilon,
                figure.record_epsilon[line.name, epsilon],
                figure.accuracy.at(line.name, epsilon),
                figure.macro_f1.at(line.name, epsilon),
            )
            for epsilon in epsilons
        ]
    return ResultTable(
        "Figure 5: three approaches, and what they promise to a record",
        ("approach", "ε as the paper counts it", "ε of a record", "accuracy", "macro-F1"),
        rows,
        f"Replace-one records, δ = 0, ± one standard error over {figure.accuracy.repeats} of {FOLDS} folds of 45,222 people (folds share training rows, so the "
        f"true error is larger). Network with hidden layers {HIDDEN}. The paper's ε is one parameter's for LearningFirst and AnonymizedLearning; a record has part in all of them, and its ε is that many "
        f"times as large: no promise at all. AnonymizingFirst promises its ε to records. The figure prints no numbers; without privacy the paper has {PAPER_ACCURACY} and an F-measure of {PAPER_F_MEASURE}, the mean of both classes' (macro).",
    )


def panel(figure: ScoresByMethod, lines: Sequence[Line] = LINES, epsilons: Sequence[float] = EPSILONS) -> Panel:
    """As printed: accuracy against the paper's ε."""
    places = {(line.name, epsilon): epsilon for line in lines for epsilon in epsilons}
    return _drawn(figure, lines, epsilons, places, "ε as the paper counts it", "Figure 5, as printed")


def honest_panel(figure: ScoresByMethod, lines: Sequence[Line] = LINES, epsilons: Sequence[float] = EPSILONS) -> Panel:
    """The same accuracies against what a record is promised."""
    return _drawn(figure, lines, epsilons, figure.record_epsilon, "ε of a record", "Figure 5, for records")


def _drawn(
    figure: ScoresByMethod,
    lines: Sequence[Line],
    epsilons: Sequence[float],
    places: Mapping[tuple[str, float], float],
    x_label: str,
    title: str,
) -> Panel:
    """One curve a line over its own places, and the level without privacy."""
    level = figure.accuracy.at("no privacy").value

    def drawn(axes: Axes, theme: Theme) -> None:
        for index, line in enumerate(lines):
            found = [figure.accuracy.at(line.name, epsilon) for epsilon in epsilons]
            axes.errorbar(
                [places[line.name, epsilon] for epsilon in epsilons],
                [each.value for each in found],
                [each.standard_error for each in found],
                color=SERIES_COLOURS[index % 6],
                marker=MARKERS[index % 6],
                ms=4,
                capsize=2,
                label=line.drawn_as,
            )
        axes.axhline(level, color=theme.ink, linestyle="--", lw=1, label=f"no privacy ({level:.3f})")
        axes.set_xscale("log")
        finished(axes, theme, x_label, "accuracy", title)

    return drawn
