"""Figures 1 and 3 and Tables 1 and 2: the paper's recipe on its synthetic data, correct local classifiers beside it, and what wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.papers.p000_weak_learners import simulated_members
from sudare.papers.p000_weak_learners.diffprivlib_results import mirror_averaged_diffprivlib, peer_text
from sudare.papers.p000_weak_learners.learning_tasks import Task, synthetic
from sudare.papers.p000_weak_learners.node_accuracy_statistics import (
    AGGREGATED,
    BARS,
    CONSENSUS,
    DIFFPRIVLIB,
    NEIGHBOURS,
    NOISY_MEANS,
    STACKING,
    WEAK_LEARNERS,
    node_panel,
    note_nodes,
    peer_lines,
    rows_with_peer,
)
from sudare.papers.repetitions import Measurements, repeated
from sudare.papers.study import Cell, Figure, ResultTable, Tell
from sudare.report.plots import Series, curves

EPSILONS: Final = (0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 1.9)
COMPARED: Final = (0.1, 0.5, 1.1, 1.9)
PAPER_IMPROVED: Final = dict(zip(EPSILONS, (88, 88, 92, 97, 97, 97, 97, 99, 99, 100), strict=True))
PAPER_LOCAL, PAPER_EXCHANGED, PAPER_POOLED = 0.559, 0.973, 0.999

# Seeds of the reported numbers. The receiver's form was chosen on other seeds, and these were not looked at before.
FIGURE_3_SEED, WINNING_SEED = 20150203, 20150319

COMBINATIONS: Final = (
    ("single", WEAK_LEARNERS, "–"),
    ("best", "ERM over single learners", "ERM"),
    ("simplex", "ERM over convex combinations, no penalty [2]", "ERM"),
    ("stacked", "L₂ logistic regression [3] (stacking)", "ERM"),
    ("gibbs", "Gibbs weights of all losses (eq. 11)", "EWA"),
    ("chaudhuri", "mirror averaging [9] (eqs. 15–17)", "EWA"),
    ("consensus", "own plus consensus (ours)", "–"),
)


def figure_3(tell: Tell, repeats: int, epsilons: Sequence[float]) -> Measurements:
    """The paper's messages and receiver, its baselines, and other messages under the same receiver."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        note_paper_recipe(found, synthetic(generator), epsilons, generator)

    return repeated(tell, "figure 3", repeats, FIGURE_3_SEED, note)


def figure_3_peer(tell: Tell, repeats: int, epsilons: Sequence[float]) -> Measurements | None:
    """The same with messages by diffprivlib, on the same data."""
    return mirror_averaged_diffprivlib(tell, "figure 3", synthetic, FIGURE_3_SEED, repeats, epsilons)


def note_paper_recipe(
    found: Measurements, task: Task, epsilons: Sequence[float], generator: np.random.Generator
) -> None:
    """Accuracies of one repetition, and how many members gain over each local classifier."""
    plain = simulated_members.plain_messages(task)
    shrunk = simulated_members.local_with_free_intercept(task, simulated_members.ARTEFACT_PENALTY)
    correct = task.accuracy(plain)
    note_nodes(found, "shrunk", shrunk)
    note_nodes(found, "local", correct)
    note_nodes(found, "exchanged", task.accuracy(simulated_members.mirror_averaged(task, plain)))
    note_nodes(found, "pooled", task.accuracy(simulated_members.pooled(task)))
    for epsilon in epsilons:
        messages = simulated_members.chaudhuri_messages(task, epsilon, generator)
        combined = task.accuracy(simulated_members.mirror_averaged(task, messages))
        note_nodes(found, "single", task.accuracy(messages), epsilon)
        note_nodes(found, "chaudhuri", combined, epsilon)
        note_nodes(found, "best", task.accuracy(simulated_members.best_single(task, messages)), epsilon)
        note_nodes(found, "gibbs", task.accuracy(simulated_members.exponentially_weighted(task, messages)), epsilon)
        found.note("over shrunk", share_of_hundred(combined > shrunk), epsilon)
        found.note("over local", share_of_hundred(combined > correct), epsilon)
        for name, send in (
            ("mean", simulated_members.mean_messages),
            ("objective", simulated_members.objective_messages),
        ):
            other = simulated_members.mirror_averaged(task, send(task, epsilon, generator))
            note_nodes(found, name, task.accuracy(other), epsilon)


def share_of_hundred(better: NDArray[np.bool_]) -> float:
    """Members that gain, per hundred."""
    return float(100 * better.mean())


def winning(tell: Tell, repeats: int, epsilons: Sequence[float]) -> Measurements:
    """Own plus consensus over noisy means, beside the same receiver without messages, and combinations of the paper's messages."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        note_winning_recipe(found, synthetic(generator), epsilons, generator, COMPARED)

    return repeated(tell, "own plus consensus", repeats, WINNING_SEED, note)


def note_winning_recipe(
    found: Measurements,
    task: Task,
    epsilons: Sequence[float],
    generator: np.random.Generator,
    compared: Sequence[float] = (),
) -> None:
    """Accuracy, paired gain and members that gain, of one repetition; more ways of combining at the ε in `compared`."""
    alone = task.accuracy(simulated_members.own_without_messages(task))
    note_nodes(found, "alone", alone)
    note_nodes(found, "pooled", task.accuracy(simulated_members.pooled(task)))
    for epsilon in epsilons:
        messages = simulated_members.mean_messages(task, epsilon, generator)
        combined = task.accuracy(simulated_members.own_and_others(task, messages))
        paper = simulated_members.chaudhuri_messages(task, epsilon, generator)
        note_nodes(found, "combined", combined, epsilon)
        found.note("gain", (combined - alone).mean(), epsilon)
        found.note("better", share_of_hundred(combined > alone), epsilon)
        note_nodes(found, "averaged", task.accuracy(simulated_members.mirror_averaged(task, messages)), epsilon)
        note_nodes(found, "paper", task.accuracy(simulated_members.mirror_averaged(task, paper)), epsilon)
        note_nodes(found, "stacked", simulated_members.stacked(task, paper), epsilon)
        note_nodes(found, "single", task.accuracy(paper), epsilon)
        if epsilon in compared:
            note_nodes(found, "simplex", task.accuracy(simulated_members.convex_combination(task, paper)), epsilon)
            note_nodes(found, "consensus", task.accuracy(simulated_members.own_and_others(task, paper)), epsilon)


def figure_3_tables(
    printed: Measurements, best: Measurements, peer: Measurements | None, epsilons: Sequence[float]
) -> list[ResultTable]:
    """Everything on the synthetic task."""
    return [
        table_1(printed, best, epsilons),
        levels_table(printed, best),
        accuracy_table(printed, peer, epsilons),
        table_2(printed, epsilons),
        winning_table(best, epsilons),
    ]


def table_1(printed: Measurements, best: Measurements, epsilons: Sequence[float]) -> ResultTable:
    """How the ways of combining that the paper's Table 1 orders do on the paper's own messages."""
    shown = [epsilon for epsilon in epsilons if epsilon in COMPARED]
    rows: list[tuple[Cell, ...]] = []
    for name, words, family in COMBINATIONS:
        source = printed if name in ("single", "best", "gibbs", "chaudhuri") else best
        rows.append((family, words, *(source.at(name, epsilon) for epsilon in shown)))
    return ResultTable(
        "Table 1: ways of combining, measured on the paper's private weak learners",
        ("family", "combination", *(f"ε = {epsilon:g}" for epsilon in shown)),
        rows,
        f"{NEIGHBOURS} {printed.repeats} seeds (ERM over combinations and own plus consensus: {best.repeats}). 100 nodes × 50 rows, accuracy, messages by Chaudhuri's "
        "objective perturbation. The paper's table has no numbers: it orders the literature into ERM and EWA. Its other entries (BIC, LASSO, Dantzig selector and "
        "mixing of split data, for regression, and averaging of expert predictions) are without privacy and are not run. Combinations with weights of any sign that are fitted on own rows learn from those rows too.",
    )


def levels_table(found: Measurements, best: Measurements) -> ResultTable:
    """Lines of figure 3 that do not depend on ε."""
    return ResultTable(
        "Figure 3, levels without privacy",
        ("", "paper", "ours"),
        [
            ("local classifier: free intercept, strong shrinkage", PAPER_LOCAL, found.at("shrunk")),
            ("local classifier: the printed λ_reg = 0.01, no intercept", PAPER_LOCAL, found.at("local")),
            ("local classifier: penalty tuned by cross-validation", PAPER_LOCAL, best.at("alone")),
            ("classifiers exchanged without noise, mirror averaging", PAPER_EXCHANGED, found.at("exchanged")),
            ("all 5,000 rows in one place", PAPER_POOLED, found.at("pooled")),
        ],
        f"Synthetic task, 100 nodes × 50 rows; no privacy; ± one standard error over {found.repeats} seeds "
        f"(tuned: {best.repeats}). The paper's 0.559 is reproduced by leaving the intercept unpenalised under a summed penalty of "
        f"{simulated_members.ARTEFACT_PENALTY:g}, found by trying: most nodes then answer with their more frequent class. The printed setting gives far "
        "more. No single setting gave 0.973.",
    )


def accuracy_table(found: Measurements, peer: Measurements | None, epsilons: Sequence[float]) -> ResultTable:
    """Accuracy against ε under mirror averaging."""
    return ResultTable(
        "Figure 3: mirror averaging (β = 3) of private models",
        ("ε", WEAK_LEARNERS, AGGREGATED, "aggregated, our objective perturbation", NOISY_MEANS, DIFFPRIVLIB),
        rows_with_peer(found, ("single", "chaudhuri", "objective", "mean"), peer, epsilons),
        f"{NEIGHBOURS} {found.repeats} seeds. 100 nodes × 50 rows. The paper's numbers are not given in the text. At ε = 0.1 the aggregated classifier beats "
        f"the shrunk local classifier (0.559) and not a correct one: the paper's claim there does not hold. {peer_text(peer)}",
    )


def table_2(found: Measurements, epsilons: Sequence[float]) -> ResultTable:
    """Members that gain, per hundred."""
    return ResultTable(
        "Table 2: nodes (of 100) where the aggregated classifier exceeds the local classifier",
        ("ε", "paper", "over the shrunk local classifier (0.559)", "over the local classifier with λ_reg = 0.01"),
        [
            (epsilon, PAPER_IMPROVED[epsilon], found.at("over shrunk", epsilon), found.at("over local", epsilon))
            for epsilon in epsilons
        ],
        f"{NEIGHBOURS} {found.repeats} seeds. Mirror averaging (β = 3) of the paper's messages.",
    )


def winning_table(found: Measurements, epsilons: Sequence[float]) -> ResultTable:
    """Own plus consensus on the synthetic task."""
    return ResultTable(
        "What wins: own plus consensus over noisy means",
        ("ε", "accuracy", "gain over μ = 0, paired", "members (of 100) better than their tuned own model"),
        found.rows(("combined", "gain", "better"), epsilons),
        f"{NEIGHBOURS} {found.repeats} seeds. The tuned own model is the same receiver with no messages (μ = 0): "
        f"{found.at('alone')}. Penalties are chosen on own rows by cross-validation. The rule for the doubt κ was "
        "chosen among about a dozen by test accuracy on other seeds; the seeds reported here were drawn afterwards.",
    )


def figure_3_figures(
    printed: Measurements, best: Measurements, peer: Measurements | None, epsilons: Sequence[float]
) -> list[Figure]:
    """Figure 1 with measured numbers, and Figure 3."""
    lines = [
        (printed, "chaudhuri", AGGREGATED),
        (printed, "single", WEAK_LEARNERS),
        (best, "stacked", STACKING),
        (printed, "mean", NOISY_MEANS),
        (best, "combined", CONSENSUS),
        *peer_lines(peer),
    ]
    # The first is dashed and the third dash-dotted, as in the paper.
    levels = [
        (printed, "exchanged", "aggregated, ε = ∞"),
        (printed, "local", "local, λ_reg = 0.01"),
        (printed, "shrunk", "local, free intercept, shrunk"),
        (best, "alone", "local, tuned"),
    ]
    title = "Synthetic data, n = 5,000, M + 1 = 100 nodes"
    strengths = [1 / epsilon for epsilon in reversed(epsilons)]
    sketch = [
        Series("f_agg, mirror averaging", [best.at("paper", each).value for each in reversed(epsilons)]),
        Series("f_agg, own plus consensus", [best.at("combined", each).value for each in reversed(epsilons)]),
        Series("f^(0), own data", [best.at("alone").value] * len(epsilons), dashed=True),
        Series("f_Dn, all data", [best.at("pooled").value] * len(epsilons), dashed=True),
    ]
    return [
        Figure(
            "Figure 1",
            "The paper sketches how accuracy falls with the strength of protection; here with what was measured on the synthetic data of section 5.1. "
            "The text gives it no numbers. Its promise, that the aggregate lies above own data for strong protection too, needs another receiver than mirror averaging.",
            [
                curves(
                    strengths, sketch, x_label="strength of protection, 1/ε", y_label="accuracy", title="As in Figure 1"
                )
            ],
        ),
        Figure(
            "Figure 3",
            f"Accuracy against ε. {BARS} The text prints 0.559 for the local classifier (which a free intercept under a summed penalty of {simulated_members.ARTEFACT_PENALTY:g} reproduces, and the "
            "printed setting does not), 0.973 for the aggregate without privacy and 0.999 for all data; heights of the curves are not given in the text. Stacking is that of reference [3]; own plus consensus is over noisy means.",
            [node_panel(title, epsilons, lines, levels)],
            differs=f"Means over {printed.repeats} data sets (stacking and own plus consensus: {best.repeats}) where the paper has one.",
        ),
    ]
