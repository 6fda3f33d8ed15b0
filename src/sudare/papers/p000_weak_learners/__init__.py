"""Paper 000 (Minami, Arai, Sato and Nakagawa 2015): figures 3 to 5 and table 2, correct baselines, what wins, and one site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.papers.p000_weak_learners import simulated_members
from sudare.papers.p000_weak_learners.adult_accuracy import fresh_table, official_table, one_site, one_site_panel
from sudare.papers.p000_weak_learners.learning_tasks import Task, breast_cancer, diabetes, synthetic
from sudare.papers.repetitions import Measurements, accuracies_panel, repeated
from sudare.papers.study import Figure, ResultTable, Study, StudyResult, StudySettings, Tell
from sudare.report.plots import Panel

Floats = NDArray[np.float64]

EPSILONS: Final = (0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 1.9)
REAL_EPSILONS: Final = (0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0)
PAPER_IMPROVED: Final = (88, 88, 92, 97, 97, 97, 97, 99, 99, 100)
PAPER_LOCAL, PAPER_EXCHANGED, PAPER_POOLED = 0.559, 0.973, 0.999
# Parts that cost little are repeated this many times as often: their spread over seeds is large, or margins are small.
CHEAP_FACTOR, ADULT_FACTOR = 3, 2
CANCER_TITLE, PIMA_TITLE = "Figure 4: breast cancer", "Figure 5: diabetes (Pima)"

# Seeds of the reported numbers. The receiver's form was chosen on other seeds, and these were not looked at before.
FIGURE_3_SEED, WINNING_SEED, PATIENTS_SEED = 20150203, 20150319, 20150417

PURE_EPSILON: Final = "ε (pure, replace-one)"
NEIGHBOURS: Final = "Replace-one records, pure ε (δ = 0), ± one standard error over"


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All figures and tables."""
    repeats = settings.repeats
    printed, best = figure_3(tell, CHEAP_FACTOR * repeats), winning(tell, repeats)
    cancer = real(tell, breast_cancer, CANCER_TITLE, CHEAP_FACTOR * repeats)
    pima = real(tell, diabetes, PIMA_TITLE, CHEAP_FACTOR * repeats)
    adult = one_site(tell, ADULT_FACTOR * repeats)
    tables = [
        baseline_table(printed, best),
        figure_3_table(printed),
        table_2(printed),
        winning_table(best),
        real_table(CANCER_TITLE, cancer),
        real_table(PIMA_TITLE, pima),
        official_table(adult),
        fresh_table(adult),
    ]
    figures = [
        Figure("Figure 3", "Accuracy against ε on synthetic data.", [figure_3_panel(printed, best)]),
        Figure("Figure 4", "Accuracy against ε, breast cancer.", [real_panel(CANCER_TITLE, cancer)]),
        Figure("Figure 5", "Accuracy against ε, diabetes (Pima).", [real_panel(PIMA_TITLE, pima)]),
        Figure("One site", "Accuracy against ε on Adult.", [one_site_panel(adult)]),
    ]
    return StudyResult(tables, figures)


# Figure 3 and table 2: the paper's recipe on its synthetic data


def figure_3(tell: Tell, repeats: int) -> Measurements:
    """The paper's messages and receiver, its baselines, and the noisy mean under the same receiver."""
    return repeated(tell, "figure 3", repeats, FIGURE_3_SEED, note_paper_recipe)


def note_paper_recipe(found: Measurements, generator: np.random.Generator) -> None:
    """Accuracies of one repetition, and how many members gain over each local baseline."""
    task = synthetic(generator)
    plain = simulated_members.plain_messages(task)
    artefact = simulated_members.local_with_free_intercept(task, simulated_members.ARTEFACT_PENALTY)
    correct = task.accuracy(plain)
    found.note("artefact", artefact.mean())
    found.note("local", correct.mean())
    found.note("exchanged", task.accuracy(simulated_members.mirror_averaged(task, plain)).mean())
    found.note("pooled", task.accuracy(simulated_members.pooled(task)).mean())
    for epsilon in EPSILONS:
        messages = simulated_members.chaudhuri_messages(task, epsilon, generator)
        combined = task.accuracy(simulated_members.mirror_averaged(task, messages))
        found.note("single", task.accuracy(messages).mean(), epsilon)
        found.note("chaudhuri", combined.mean(), epsilon)
        found.note("over artefact", share_of_hundred(combined > artefact), epsilon)
        found.note("over local", share_of_hundred(combined > correct), epsilon)
        for name, send in (
            ("mean", simulated_members.mean_messages),
            ("objective", simulated_members.objective_messages),
        ):
            other = simulated_members.mirror_averaged(task, send(task, epsilon, generator))
            found.note(name, task.accuracy(other).mean(), epsilon)


def share_of_hundred(better: NDArray[np.bool_]) -> float:
    """Members that gain, per hundred."""
    return float(100 * better.mean())


def baseline_table(found: Measurements, best: Measurements) -> ResultTable:
    """Lines of figure 3 that do not depend on ε."""
    return ResultTable(
        "Figure 3, levels without privacy",
        ("", "paper", "ours"),
        [
            ("own data only: free intercept, strong shrinkage (an artefact)", PAPER_LOCAL, found.at("artefact")),
            ("own data only: the printed λ = 0.01, no intercept", PAPER_LOCAL, found.at("local")),
            ("own data only: penalty tuned by cross-validation", PAPER_LOCAL, best.at("alone")),
            ("models exchanged without noise, mirror averaging", PAPER_EXCHANGED, found.at("exchanged")),
            ("everybody's data in one place", PAPER_POOLED, found.at("pooled")),
        ],
        f"Synthetic task, 100 members × 50 rows; no privacy; ± one standard error over {found.repeats} seeds "
        f"(tuned: {best.repeats}). The paper's 0.559 is reproduced by leaving the intercept unpenalised under a summed penalty of "
        f"{simulated_members.ARTEFACT_PENALTY:g}, found by trying: most members then answer with their more frequent class. The printed setting gives far "
        "more. No single setting gave 0.973.",
    )


def figure_3_table(found: Measurements) -> ResultTable:
    """Accuracy against ε under mirror averaging."""
    return ResultTable(
        "Figure 3: mirror averaging (β = 3) of private models",
        (
            "ε",
            "one private model",
            "combined, the paper's messages",
            "our objective perturbation",
            "noisy means",
        ),
        found.rows(("single", "chaudhuri", "objective", "mean"), EPSILONS),
        f"{NEIGHBOURS} {found.repeats} seeds. 100 members × 50 rows. The figure prints no numbers. At ε = 0.1 the combined models beat "
        "the artefact (0.56) and not a correct local model: the paper's claim there does not hold.",
    )


def table_2(found: Measurements) -> ResultTable:
    """Members that gain, per hundred."""
    return ResultTable(
        "Table 2: members (of 100) whose combined model is better than their own",
        ("ε", "paper", "over the artefact", "over a correct local model"),
        [
            (epsilon, PAPER_IMPROVED[number], found.at("over artefact", epsilon), found.at("over local", epsilon))
            for number, epsilon in enumerate(EPSILONS)
        ],
        f"{NEIGHBOURS} {found.repeats} seeds. Mirror averaging (β = 3) of the paper's messages.",
    )


# What wins


def winning(tell: Tell, repeats: int) -> Measurements:
    """Own plus consensus over noisy means, beside the same receiver without messages."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        note_winning_recipe(found, synthetic(generator), EPSILONS, generator)

    return repeated(tell, "own plus consensus", repeats, WINNING_SEED, note)


def note_winning_recipe(
    found: Measurements, task: Task, epsilons: Sequence[float], generator: np.random.Generator
) -> None:
    """Accuracy, paired gain and members that gain, of one repetition."""
    alone = task.accuracy(simulated_members.own_without_messages(task))
    found.note("alone", alone.mean())
    found.note("pooled", task.accuracy(simulated_members.pooled(task)).mean())
    for epsilon in epsilons:
        messages = simulated_members.mean_messages(task, epsilon, generator)
        combined = task.accuracy(simulated_members.own_and_others(task, messages))
        averaged = task.accuracy(simulated_members.mirror_averaged(task, messages))
        paper = simulated_members.mirror_averaged(task, simulated_members.chaudhuri_messages(task, epsilon, generator))
        found.note("combined", combined.mean(), epsilon)
        found.note("gain", (combined - alone).mean(), epsilon)
        found.note("better", share_of_hundred(combined > alone), epsilon)
        found.note("averaged", averaged.mean(), epsilon)
        found.note("paper", task.accuracy(paper).mean(), epsilon)


def winning_table(found: Measurements) -> ResultTable:
    """Own plus consensus on the synthetic task."""
    return ResultTable(
        "What wins: own plus consensus over noisy means",
        ("ε", "accuracy", "gain over μ = 0, paired", "members (of 100) better than their tuned own model"),
        found.rows(("combined", "gain", "better"), EPSILONS),
        f"{NEIGHBOURS} {found.repeats} seeds. The tuned own model is the same receiver with no messages (μ = 0): "
        f"{found.at('alone')}. Penalties are chosen on own rows by cross-validation. The rule for the doubt κ was "
        "chosen among about a dozen by test accuracy on other seeds; the seeds reported here were drawn afterwards.",
    )


def figure_3_panel(printed: Measurements, best: Measurements) -> Panel:
    """All recipes against ε."""
    lines = [
        (best, "combined", "own plus consensus"),
        (printed, "mean", "mirror averaging, noisy means"),
        (printed, "chaudhuri", "mirror averaging, as printed"),
        (printed, "single", "one private model"),
    ]
    levels = [(best, "alone", "own data only, tuned"), (printed, "artefact", "own data only, as printed")]
    title = "Figure 3: synthetic data, 100 members × 50 rows"
    return accuracies_panel(title, PURE_EPSILON, EPSILONS, lines, levels)


# Figures 4 and 5: patients


def real(tell: Tell, deal: Callable[[np.random.Generator], Task], title: str, repeats: int) -> Measurements:
    """All recipes on one of the medical tables, dealt out anew in every repetition."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        task = deal(generator)
        found.note("free intercept", simulated_members.local_with_free_intercept(task, penalty=1.0).mean())
        note_winning_recipe(found, task, REAL_EPSILONS, generator)

    return repeated(tell, title, repeats, PATIENTS_SEED, note)


def real_table(title: str, found: Measurements) -> ResultTable:
    """Accuracy against ε for patients."""
    claims = {
        CANCER_TITLE: "The paper claims a gain over own data from ε ≈ 2.5 (printed “ε ≤ 2.5”, which must be ≥).",
        PIMA_TITLE: "The paper claims to equal or beat own data from ε ≥ 0.3.",
    }
    return ResultTable(
        title,
        (
            "ε",
            "mirror averaging, the paper's messages",
            "mirror averaging, noisy means",
            "own plus consensus",
            "gain over μ = 0, paired",
        ),
        found.rows(("paper", "averaged", "combined", "gain"), REAL_EPSILONS),
        f"{NEIGHBOURS} {found.repeats} random splits. {claims[title]} The figures print no numbers. Own data only: tuned, no intercept "
        f"{found.at('alone')}; with a free intercept {found.at('free intercept')} (test classes are balanced, training classes are not). "
        f"Everybody's data in one place: {found.at('pooled')}. The rule for κ and the choice of no intercept were made by test accuracy on other "
        "random splits of these same patients, so the level of own plus consensus may be a little optimistic.",
    )


def real_panel(title: str, found: Measurements) -> Panel:
    """The same as a picture."""
    lines = [
        (found, "combined", "own plus consensus"),
        (found, "averaged", "mirror averaging, noisy means"),
        (found, "paper", "mirror averaging, as printed"),
    ]
    levels = [(found, "alone", "own data only, tuned"), (found, "pooled", "all data in one place")]
    return accuracies_panel(title, PURE_EPSILON, REAL_EPSILONS, lines, levels)


STUDY: Final = Study(
    title="Aggregating private weak learners: figures 3 to 5, table 2, correct baselines, what wins, and one site (Adult)",
    paper="000: Minami, Arai, Sato, Nakagawa (2015), Aggregating differentially private weak learners",
    repeats=10,
    run=run,
)
