"""Figures 4 and 5: breast cancer and diabetes, dealt out to ten nodes, with the paper's own local classifier and the tuned one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sudare.papers.p000_weak_learners import simulated_members
from sudare.papers.p000_weak_learners.diffprivlib_results import mirror_averaged_diffprivlib, peer_text
from sudare.papers.p000_weak_learners.learning_tasks import Task
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
from sudare.papers.p000_weak_learners.synthetic_data_results import note_winning_recipe
from sudare.papers.repetitions import Measurements, repeated
from sudare.papers.study import Figure, ResultTable, Tell

EPSILONS: Final = (0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0)
CANCER_TITLE, PIMA_TITLE = "Figure 4: breast cancer", "Figure 5: diabetes (Pima)"
SHORT_TITLES: Final = {
    "Figure 4": "Breast cancer, 10 nodes × 40 rows",
    "Figure 5": "Diabetes (Pima), 10 nodes × 60 rows",
}
PATIENTS_SEED: Final = 20150417
# The penalty of scikit-learn's and liblinear's defaults: C = 1, intercept free.
USUAL_PENALTY: Final = 1.0
CLAIMS: Final = {
    CANCER_TITLE: "The paper claims a gain over the local classifier from ε ≈ 2.5 (printed “ε ≤ 2.5”, which must be ≥) and none for ε < 1.5.",
    PIMA_TITLE: "The paper claims to equal or beat the local classifier from ε ≥ 0.3.",
}

REMARKS: Final = {
    "Figure 4": " The local classifier with a free intercept is the one at which the paper's threshold reappears."
}


def patients(
    tell: Tell, deal: Callable[[np.random.Generator], Task], title: str, repeats: int, epsilons: Sequence[float]
) -> Measurements:
    """All recipes on one of the medical tables, dealt out anew in every repetition."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        task = deal(generator)
        note_nodes(found, "free intercept", simulated_members.local_with_free_intercept(task, USUAL_PENALTY))
        note_winning_recipe(found, task, epsilons, generator)

    return repeated(tell, title, repeats, PATIENTS_SEED, note)


def patients_peer(
    tell: Tell, deal: Callable[[np.random.Generator], Task], title: str, repeats: int, epsilons: Sequence[float]
) -> Measurements | None:
    """The paper's recipe with messages by diffprivlib, on the same data."""
    return mirror_averaged_diffprivlib(tell, title, deal, PATIENTS_SEED, repeats, epsilons)


def patients_table(
    title: str, found: Measurements, peer: Measurements | None, epsilons: Sequence[float]
) -> ResultTable:
    """Accuracy against ε for patients."""
    return ResultTable(
        title,
        ("ε", WEAK_LEARNERS, AGGREGATED, STACKING, NOISY_MEANS, CONSENSUS, "its gain over μ = 0, paired", DIFFPRIVLIB),
        rows_with_peer(found, ("single", "paper", "stacked", "averaged", "combined", "gain"), peer, epsilons),
        f"{NEIGHBOURS} {found.repeats} random splits. {CLAIMS[title]} Heights are not given in the text. Local classifier: with a free intercept (the usual one, "
        f"C = 1) {found.at('free intercept')}, which the aggregated classifier reaches {epsilon_reached_text(found, 'free intercept', epsilons)}; tuned, without intercept {found.at('alone')} (test classes are balanced, training classes are "
        f"not), which it reaches {epsilon_reached_text(found, 'alone', epsilons)}. All data in one place: {found.at('pooled')}. The rule for κ and the choice of no intercept were made by test accuracy on other "
        f"random splits of these same patients, so the level of own plus consensus may be a little optimistic. {peer_text(peer)}",
    )


def epsilon_reached_text(found: Measurements, level: str, epsilons: Sequence[float]) -> str:
    """From which ε on the aggregated classifier is at least as good as a local one, in words."""
    behind = [epsilon for epsilon in epsilons if found.at("paper", epsilon).value < found.at(level).value]
    ahead = [epsilon for epsilon in epsilons if not behind or epsilon > behind[-1]]
    return f"from ε = {ahead[0]:g} on" if ahead else f"at no ε up to {epsilons[-1]:g}"


def patients_figure(
    label: str, title: str, found: Measurements, peer: Measurements | None, epsilons: Sequence[float]
) -> Figure:
    """The same as a picture."""
    lines = [
        (found, "paper", AGGREGATED),
        (found, "single", WEAK_LEARNERS),
        (found, "stacked", STACKING),
        (found, "averaged", NOISY_MEANS),
        (found, "combined", CONSENSUS),
        *peer_lines(peer),
    ]
    levels = [
        (found, "free intercept", "local, free intercept"),
        (found, "alone", "local, tuned"),
        (found, "pooled", "all data"),
    ]
    return Figure(
        label,
        f"Accuracy against ε. {BARS} {CLAIMS[title]} Heights of the curves are not given in the text. Own plus consensus is over noisy means.{REMARKS.get(label, '')}",
        [node_panel(SHORT_TITLES[label], epsilons, lines, levels)],
        differs=f"Means over {found.repeats} random splits where the paper has one; how the paper brings rows into the unit ball is not given in the text (here: public centres and scales).",
    )
