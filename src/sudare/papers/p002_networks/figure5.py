"""Figure 5 of paper 002 in the printed setting: three approaches against ε, accuracy and F-measure, with what that ε is worth to a record.

14 attributes, four hidden layers, 500 epochs, batches of 50, α = .01, λ = .001, ten folds. What the text does not give (widths, thresholds,
group sizes, values of ε) is in `Setting`. The ε of the figure is one parameter's for LearningFirst and AnonymizedLearning. For
AnonymizingFirst the paper takes microaggregation in which rows keep their groups: it promises a record nothing at any ε.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from sudare.array_types import Singles
from sudare.neural.per_row_clipping import Parameters, initial_parameters, mapped, weight_count
from sudare.neural.training import as_layers
from sudare.neural.training_method_base import Facts, Layers, layer_outputs, parameters_in
from sudare.papers.adult_schema import LABEL
from sudare.papers.p002_networks.approaches import PRINTED, LearningFirst, SgdSettings, record_cost
from sudare.papers.p002_networks.census import (
    FOLDS,
    PAPER_SCHEMA,
    SEED,
    Scores,
    ScoresByMethod,
    Split,
    all_scores,
    folds,
    promised_text,
    scores_of,
)
from sudare.papers.p002_networks.corrected_results import Line
from sudare.papers.p002_networks.individual_ranking_microaggregation import individually_ranked
from sudare.papers.p002_networks.printed_training import (
    Batches,
    Descent,
    NoisyChanges,
    fixed_batches,
    trained,
    trained_with_noisy_changes,
)
from sudare.papers.repetitions import Measurements
from sudare.papers.study import Cell, Figure, ResultTable, Tell
from sudare.privacy.accounting import decimal_up
from sudare.privacy.noise import SeededNoise
from sudare.report.plots import Panel, Series, Theme, finished, line_look
from sudare.schema import encode

PAPER_ACCURACY, PAPER_F_MEASURE = 0.85, 0.79
NOT_GIVEN: Final = "not given in the text"
RAW, MAJORITY = "raw data", "majority"
ANONYMIZING_FIRST, LEARNING_FIRST, ANONYMIZED_LEARNING = "AnonymizingFirst", "LearningFirst", "AnonymizedLearning"
APPROACHES: Final = (ANONYMIZING_FIRST, LEARNING_FIRST, ANONYMIZED_LEARNING)
_CLASSES: Final = np.array(PAPER_SCHEMA.classes, dtype=object)


@dataclass(frozen=True)
class Setting:
    """Epochs, batch size, rate and λ as printed; widths, thresholds, and ε, which the text does not give.

    `limit` is w_max = −w_min of LearningFirst, `threshold` Δw_max = −Δw_min of AnonymizedLearning.
    """

    sgd: SgdSettings
    hidden: tuple[int, ...] = (16, 16, 16, 16)
    limit: float = 0.25
    threshold: float = 0.3
    epsilons: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)

    @property
    def descent(self) -> Descent:
        """The numbers of eqs 5 and 6."""
        return Descent(self.sgd.learning_rate, self.sgd.regularization, float(self.sgd.batch_size))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths of all layers."""
        return (len(PAPER_SCHEMA.names("scaled")), *self.hidden, len(PAPER_SCHEMA.classes))


PRINTED_SETTING: Final = Setting(SgdSettings(**PRINTED))
QUICK_SETTING: Final = replace(PRINTED_SETTING, sgd=replace(PRINTED_SETTING.sgd, epochs=10), epsilons=(1.0, 100.0))


def measured(tell: Tell, repeats: int, setting: Setting = PRINTED_SETTING) -> ScoresByMethod:
    """Every approach at every ε on so many of ten folds."""
    return all_scores(
        tell,
        (
            (
                f"figure 5, fold {number + 1} of {repeats}",
                Fold(split, setting, np.random.default_rng((SEED, 1, number))).all_scores,
            )
            for number, split in enumerate(folds(repeats, SEED, PAPER_SCHEMA))
        ),
    )


@dataclass(frozen=True)
class Fold:
    """Rows to learn from and to test on, and everything that is random in one fold."""

    split: Split
    setting: Setting
    generator: np.random.Generator

    def all_scores(self) -> ScoresByMethod:
        """The scores of every approach at every ε."""
        figure, setting = ScoresByMethod(), self.setting
        most = self.split.train[LABEL].mode().iloc[0]
        figure.note(MAJORITY, scores_of(np.full(len(self.split.test), most, dtype=object), self.split.test))
        start, batches = self.start(), self.batches(self.split.train)
        figure.note(RAW, self.scores(self.learned(start, batches)))
        within = self.learned(start, batches, setting.limit)
        for epsilon in setting.epsilons:
            method = LearningFirst(self.facts, epsilon, limit=setting.limit)
            noisy = method.noised(as_layers(within), SeededNoise(self.seed()))
            figure.note(LEARNING_FIRST, self.scores(noisy), epsilon)
            for approach in (LEARNING_FIRST, ANONYMIZED_LEARNING):
                cost = record_cost(epsilon, parameters_in(setting.sizes), 1, 0.0)
                figure.record_epsilon[approach, epsilon] = decimal_up(cost.epsilon)
        for epsilon in setting.epsilons:
            table = individually_ranked(self.split.train, PAPER_SCHEMA, epsilon, self.generator)
            figure.note(ANONYMIZING_FIRST, self.scores(self.learned(start, self.batches(table))), epsilon)
        for epsilon, network in zip(setting.epsilons, self.learned_with_noise(start, batches), strict=True):
            figure.note(ANONYMIZED_LEARNING, self.scores(network), epsilon)
        return figure

    @property
    def facts(self) -> Facts:
        """What everybody may know of a fit."""
        rows, classes = len(self.split.train), PAPER_SCHEMA.classes
        return Facts(rows, self.setting.sizes, "cross_entropy", "replace-one", PAPER_SCHEMA, "scaled", classes)

    def seed(self) -> int:
        """A seed of its own for everything that is random."""
        return int(self.generator.integers(2**31))

    def start(self) -> Parameters:
        """Random weights, from which all approaches begin."""
        sizes = self.setting.sizes
        return initial_parameters(self.generator.standard_normal(weight_count(sizes)), sizes, zero_last=False)

    def batches(self, table: pd.DataFrame) -> Batches:
        """Encoded rows, dealt out to batches once."""
        rows, targets = encoded(table)
        chosen, kept = fixed_batches(len(rows), self.setting.sgd.batch_size, self.generator.random(len(rows)))
        return Batches(rows[chosen], targets[chosen], kept)

    def learned(self, start: Parameters, batches: Batches, limit: float | None = None) -> Parameters:
        """Parameters after ordinary learning as printed, within the limit if there is one."""
        setting, descent = self.setting, self.setting.descent
        if limit is not None:
            start = mapped(lambda part: jnp.clip(part, -limit, limit), start)
            descent = descent._replace(limit=limit)
        return trained(start, batches, setting.sgd.epochs, descent, "cross_entropy")

    def learned_with_noise(self, start: Parameters, batches: Batches) -> list[Parameters]:
        """Parameters for every ε after learning with noise of scale (Δ_max − Δ_min)·E/ε in every change."""
        setting, generator = self.setting, np.random.default_rng(self.seed())
        scales = tuple(2 * setting.threshold * setting.sgd.epochs / epsilon for epsilon in setting.epsilons)
        noisy = NoisyChanges(setting.threshold, scales)
        return trained_with_noisy_changes(
            start, batches, setting.sgd.epochs, setting.descent, noisy, "cross_entropy", generator
        )

    def scores(self, layers: Parameters | Layers) -> Scores:
        """On the rows to test on."""
        rows, _ = encoded(self.split.test)
        plain = tuple((np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in layers)
        return scores_of(_CLASSES[np.argmax(layer_outputs(plain, rows.astype(np.float64)), axis=1)], self.split.test)


def encoded(table: pd.DataFrame) -> tuple[Singles, Singles]:
    """Inputs in [0, 1] (numbers scaled, categories one-hot) and one-hot targets."""
    rows = encode(PAPER_SCHEMA, table, "scaled").matrix.astype(np.float32)
    return rows, np.eye(len(_CLASSES), dtype=np.float32)[PAPER_SCHEMA.encode_target(table).astype(np.intp)]


def table(figure: ScoresByMethod, setting: Setting) -> ResultTable:
    """Accuracy and F-measure with what the paper counts and what a record is promised."""
    printed = f"{PAPER_ACCURACY} and {PAPER_F_MEASURE}"
    rows: list[tuple[Cell, ...]] = [
        (name, None, None, figure.accuracy.at(name), figure.macro_f1.at(name), paper)
        for name, paper in ((RAW, printed), (MAJORITY, NOT_GIVEN))
    ]
    for name in APPROACHES:
        for epsilon in setting.epsilons:
            promised = figure.record_epsilon.get((name, epsilon))
            rows.append(
                (
                    name,
                    epsilon,
                    "none holds" if promised is None else promised_text(promised),
                    figure.accuracy.at(name, epsilon),
                    figure.macro_f1.at(name, epsilon),
                    NOT_GIVEN,
                )
            )
    parameters = parameters_in(setting.sizes)
    return ResultTable(
        f"Figure 5: the three approaches{' in the printed setting' if setting == PRINTED_SETTING else ''}",
        ("approach", "ε as the paper counts it", "ε of a record", "accuracy", "F-measure", "paper"),
        rows,
        f"Replace-one records, δ = 0; ± one standard error over {figure.accuracy.repeats} of {FOLDS} folds of 45,222 people (folds share training rows, so the true error is larger). {described(setting)} The F-measure is the mean of both classes'. "
        f"The paper's ε is one parameter's for LearningFirst and AnonymizedLearning; a record has part in all {parameters:,} of them, and its ε is that many times as large: no promise at all. AnonymizingFirst shows without noise which groups meet in a row, so no ε holds for a record.",
    )


def described(setting: Setting) -> str:
    """The setting in words."""
    sgd = setting.sgd
    return (
        f"{len(PAPER_SCHEMA.features)} attributes, {sgd.epochs} epochs, batches of {sgd.batch_size}, rate {sgd.learning_rate:g}, λ = {sgd.regularization:g}, "
        f"hidden layers {setting.hidden}."
    )


def drawn(figure: ScoresByMethod, setting: Setting) -> Figure:
    """As printed: both measures against the paper's ε, with the levels of raw data and of the majority."""

    def panel(measure: str, found: Measurements) -> Panel:
        labels = {name: name for name in APPROACHES} | {ANONYMIZING_FIRST: f"{ANONYMIZING_FIRST} (protects no record)"}
        lines = [(setting.epsilons, found.series(name, label, setting.epsilons)) for name, label in labels.items()]
        levels = {f"{name} ({found.at(name).value:.3f})": found.at(name).value for name in (RAW, MAJORITY)}
        return _curves(lines, levels, x_label="ε as the paper counts it", y_label=measure)

    return Figure(
        "Figure 5",
        "Accuracy and F-measure of the three approaches against ε, with raw data and the more frequent class. Means over folds; bars are one standard "
        f"error. The text prints {PAPER_ACCURACY} and {PAPER_F_MEASURE} for raw data; the values of the figure, its ε and what its baseline is are {NOT_GIVEN}.",
        [panel("accuracy", figure.accuracy), panel("F-measure", figure.macro_f1)],
        f"Not given in the text and chosen here: {setting.hidden[0]} units a hidden layer, w_max = {setting.limit:g}, Δw_max = {setting.threshold:g}, groups of √n rows, one-hot inputs, "
        "and how a group's category is drawn (exponential mechanism). AnonymizingFirst is individual ranking microaggregation as the paper cites it, which protects no record. "
        "AnonymizedLearning clips and noises Δw, as it is meant; as printed it noises w, and the data do not enter. Its noise covers the thresholds; it is drawn as floats, and all ε multiply the same draws.",
    )


def by_record(figure: ScoresByMethod, corrected: ScoresByMethod, setting: Setting, lines: Sequence[Line]) -> Figure:
    """The same accuracies against what a record is promised, beside methods that promise it something."""

    def panel(measure: str, printed: Measurements, found: Measurements) -> Panel:
        on_parameters = [
            (
                [figure.record_epsilon[name, epsilon] for epsilon in setting.epsilons],
                printed.series(name, f"{name}, printed", setting.epsilons),
            )
            for name in (LEARNING_FIRST, ANONYMIZED_LEARNING)
        ]
        first, *others = [
            (
                [corrected.record_epsilon[line.name, epsilon] for epsilon in line.epsilons],
                found.series(line.name, line.name, line.epsilons),
            )
            for line in lines
        ]
        levels = {f"majority ({printed.at(MAJORITY).value:.3f})": printed.at(MAJORITY).value}
        return _curves([first, *on_parameters, *others], levels, x_label="ε of a record", y_label=measure)

    return Figure(
        "Figure 5, by a record's ε",
        "The approaches on parameters as printed, and methods that promise a record something, on the same folds, against what a record is promised. "
        "AnonymizingFirst as printed promises nothing and is not drawn; with marginals it promises its ε. Bars are one standard error over folds.",
        [
            panel("accuracy", figure.accuracy, corrected.accuracy),
            panel("F-measure", figure.macro_f1, corrected.macro_f1),
        ],
    )


def _curves(
    lines: Sequence[tuple[Sequence[float], Series]], levels: Mapping[str, float], x_label: str, y_label: str
) -> Panel:
    """Each line over its own values of ε, on a logarithmic axis, and dashed levels."""

    def panel(axes: Axes, theme: Theme) -> None:
        for index, (places, line) in enumerate(lines):
            look = line_look(index, theme)
            axes.errorbar(places, line.values, line.standard_errors, ms=4, capsize=2, label=line.label, **look)
        for style, (label, level) in zip(("--", ":"), levels.items(), strict=False):
            axes.axhline(level, color=theme.ink, linestyle=style, lw=1, label=label)
        axes.set_xscale("log")
        # The formatter of logarithmic axes writes formulas, which pictures do not draw.
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        finished(axes, theme, x_label, y_label, "")

    return panel
