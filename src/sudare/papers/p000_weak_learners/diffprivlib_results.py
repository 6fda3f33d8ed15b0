"""diffprivlib's private logistic regressions as the weak learners of Figures 3 to 5, under the paper's receiver."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sudare.papers.diffprivlib_models import NOT_RUN, diffprivlib_interpreter, logistic_coefficients
from sudare.papers.p000_weak_learners.learning_tasks import Task
from sudare.papers.p000_weak_learners.node_accuracy_statistics import DIFFPRIVLIB, note_nodes
from sudare.papers.p000_weak_learners.simulated_members import PAPER_REGULARIZATION, mirror_averaged
from sudare.papers.repetitions import Measurements
from sudare.papers.study import Tell


def mirror_averaged_diffprivlib(
    tell: Tell,
    title: str,
    deal: Callable[[np.random.Generator], Task],
    seed: int,
    repeats: int,
    epsilons: Sequence[float],
) -> Measurements | None:
    """Accuracies on the data that `repeated` deals out at this seed, all at the paper's penalty; None where no interpreter has diffprivlib."""
    interpreter = diffprivlib_interpreter()
    if interpreter is None:
        return None
    tell(f"{title}, diffprivlib")
    tasks = [deal(np.random.default_rng((seed, number))) for number in range(repeats)]
    rows, labels = (np.stack([getattr(task, name) for task in tasks]) for name in ("rows", "labels"))
    penalty = rows.shape[2] * PAPER_REGULARIZATION
    coefficients = logistic_coefficients(interpreter, rows, labels, epsilons, [1 / penalty], seed)
    found = Measurements()
    for task, by_epsilon in zip(tasks, coefficients, strict=True):
        for epsilon, (messages,) in zip(epsilons, by_epsilon, strict=True):
            note_nodes(found, DIFFPRIVLIB, task.accuracy(mirror_averaged(task, messages)), epsilon)
    return found


def peer_text(peer: Measurements | None) -> str:
    """What a table says about diffprivlib."""
    if peer is None:
        return NOT_RUN
    return f"diffprivlib 0.6.6: its LogisticRegression (pure ε, no intercept) on the same rows at the paper's penalty, aggregated as the paper's; {peer.repeats} repetitions."
