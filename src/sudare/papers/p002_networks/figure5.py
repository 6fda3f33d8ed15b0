"""Figure 5 of paper 002: its three approaches against ε, with what that ε is worth to a record.

The figure prints no numbers; earlier prototypes stand beside ours. ε is one parameter's for the second and third approach, and a record's for
the first. Public rules for rates, thresholds and limits were found on a part of the official training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from sudare.neural import PrivateMLPClassifier
from sudare.neural.training_methods import layer_outputs
from sudare.neural.training_settings import Course
from sudare.papers.adult import ADULT_SCHEMA
from sudare.papers.p002_networks.census import FOLDS, Scores, Split, folds, scores, scores_of
from sudare.papers.p002_networks.ordinary_training import ordinarily_learned
from sudare.papers.repetitions import Measurements
from sudare.papers.study import Cell, ResultTable, Tell
from sudare.privacy.noise import SeededNoise
from sudare.report.plots import MARKERS, SERIES_COLOURS, Panel, Theme, finished
from sudare.schema import Encoding, encode

EPSILONS: Final = (0.1, 1.0, 10.0, 100.0)
HIDDEN: Final = (64, 64, 64, 64)
SEED: Final = 20161201
PAPER_ACCURACY, PAPER_F_MEASURE = 0.85, 0.79
PLAIN: Final = Course(epochs=10, batch_rows=256, rate=0.1)


@dataclass(frozen=True)
class Line:
    """An approach with its options, where its noise is in a few words, and the accuracies of an earlier prototype by ε."""

    name: str
    drawn_as: str
    approach: str
    options: Mapping[str, Any] = field(default_factory=dict)
    prototype: Sequence[float | None] = (None, None, None, None)
    encoding: Encoding = "binned"


LINES: Final = (
    Line(
        "AnonymizingFirst, microaggregation",
        "synthetic, groups",
        "anonymizing_first",
        {"engine": "microaggregation"},
        encoding="scaled",
    ),
    Line("AnonymizingFirst, marginals", "synthetic, marginals", "anonymizing_first"),
    Line("LearningFirst", "after learning", "learning_first", {}, (0.496, 0.585, 0.803, 0.838)),
    Line("AnonymizedLearning, 1 epoch", "in updates", "anonymized_learning", {}, (0.805, 0.834, 0.840, 0.840)),
    Line(
        "AnonymizedLearning, 10 epochs",
        "in updates, 10 epochs",
        "anonymized_learning",
        {"epochs": 10},
        (0.709, 0.802, 0.840, 0.844),
    ),
    Line(
        "AnonymizedLearning, sums clipped as printed",
        "in updates, sums clipped",
        "anonymized_learning",
        {"clipping": "batch"},
    ),
)


@dataclass(frozen=True)
class Figure5:
    """Accuracy and macro-F1 by line and ε, and what a record is promised."""

    accuracy: Measurements
    macro_f1: Measurements
    record_epsilon: dict[tuple[str, float], float]


def measured(tell: Tell, repeats: int, lines: Sequence[Line] = LINES, epsilons: Sequence[float] = EPSILONS) -> Figure5:
    """Every line at every ε on so many of ten folds."""
    figure = Figure5(Measurements(), Measurements(), {})
    for number, split in enumerate(folds(repeats, SEED)):
        tell(f"figure 5, fold {number + 1} of {repeats}")
        generator = np.random.default_rng((SEED, 1, number))
        _note(figure, "no privacy", plain_scores(split, int(generator.integers(2**31))), None)
        for line in lines:
            for epsilon in epsilons:
                model = made(line, epsilon, int(generator.integers(2**31))).fit(split.train)
                _note(figure, line.name, scores(model, split.test), epsilon)
                figure.record_epsilon[line.name, epsilon] = model.guarantee_.epsilon
    return figure


def made(line: Line, epsilon: float, seed: int) -> PrivateMLPClassifier:
    """The estimator of a line: replace-one, δ = 0."""
    return PrivateMLPClassifier(
        line.approach,
        HIDDEN,
        epsilon=epsilon,
        delta=0.0,
        schema=ADULT_SCHEMA,
        encoding=line.encoding,
        approach_options=line.options,
        accept_parameter_guarantee=True,
        random_state=seed,
    )


def plain_scores(split: Split, seed: int) -> Scores:
    """Ordinary learning with the same network on the same columns."""
    train, test = (encode(ADULT_SCHEMA, table, "binned").matrix for table in split)
    targets = np.eye(2, dtype=np.float32)[ADULT_SCHEMA.encode_target(split.train).astype(np.intp)]
    sizes = (train.shape[1], *HIDDEN, 2)
    layers = ordinarily_learned(train.astype(np.float32), targets, sizes, "cross_entropy", PLAIN, SeededNoise(seed))
    classes = np.array(ADULT_SCHEMA.classes, dtype=object)
    return scores_of(classes[np.argmax(layer_outputs(layers, test), axis=1)], split.test)


def _note(figure: Figure5, name: str, found: Scores, epsilon: float | None) -> None:
    figure.accuracy.note(name, found.accuracy, epsilon)
    figure.macro_f1.note(name, found.macro_f1, epsilon)


def table(figure: Figure5, lines: Sequence[Line] = LINES, epsilons: Sequence[float] = EPSILONS) -> ResultTable:
    """Accuracy and macro-F1 with both guarantees."""
    rows: list[tuple[Cell, ...]] = [
        (
            "no privacy",
            None,
            None,
            figure.accuracy.at("no privacy"),
            figure.macro_f1.at("no privacy"),
            f"{PAPER_ACCURACY} / {PAPER_F_MEASURE} (paper)",
        )
    ]
    for line in lines:
        rows += [
            (
                line.name,
                epsilon,
                figure.record_epsilon[line.name, epsilon],
                figure.accuracy.at(line.name, epsilon),
                figure.macro_f1.at(line.name, epsilon),
                line.prototype[EPSILONS.index(epsilon)],
            )
            for epsilon in epsilons
        ]
    return ResultTable(
        "Figure 5: three approaches, and what they promise to a record",
        ("approach", "ε as the paper counts it", "ε of a record", "accuracy", "macro-F1", "prototype: accuracy"),
        rows,
        f"Replace-one records, δ = 0, ± one standard error over {figure.accuracy.repeats} of {FOLDS} folds of 45,222 people (folds share training rows, so the "
        f"true error is larger). Network with hidden layers {HIDDEN}. The paper's ε is one parameter's for LearningFirst and AnonymizedLearning; a record has part in all of them, and its ε is that many "
        "times as large: no promise at all. AnonymizingFirst promises its ε to records. The figure prints no numbers; its F-measure of .79 without privacy is the mean of both classes' (macro).",
    )


def panel(figure: Figure5, lines: Sequence[Line] = LINES, epsilons: Sequence[float] = EPSILONS) -> Panel:
    """As printed: accuracy against the paper's ε."""
    places = {(line.name, epsilon): epsilon for line in lines for epsilon in epsilons}
    return _drawn(figure, lines, epsilons, places, "ε as the paper counts it", "Figure 5, as printed")


def honest_panel(figure: Figure5, lines: Sequence[Line] = LINES, epsilons: Sequence[float] = EPSILONS) -> Panel:
    """The same accuracies against what a record is promised."""
    return _drawn(figure, lines, epsilons, figure.record_epsilon, "ε of a record", "Figure 5, for records")


def _drawn(
    figure: Figure5,
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
