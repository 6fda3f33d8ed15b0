"""How accurate diffprivlib's private logistic regression is, run on the rows and splits of this study, the best of its penalties."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.papers.diffprivlib_models import NOT_RUN, diffprivlib_interpreter, logistic_coefficients
from sudare.papers.repetitions import Measurements, measurements, noted, repetitions
from sudare.papers.study import Estimate, Tell

INVERSE_PENALTIES: Final = (0.001, 0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Split:
    """Rows to fit and to test on, of at most this norm, with labels −1 and +1. A constant column stands for an intercept, which diffprivlib does not protect."""

    rows: Floats
    labels: Floats
    test_rows: Floats
    test_labels: Floats
    norm: float = 1.0


def best_accuracies(
    tell: Tell, title: str, split_of: Callable[[int], Split], repeats: int, epsilons: Sequence[float]
) -> Mapping[float, Estimate] | None:
    """Accuracy at every ε, of the penalty that is best on the test rows, which favours diffprivlib; None where no interpreter has it."""
    interpreter = diffprivlib_interpreter()
    if interpreter is None:
        return None

    def note(found: Measurements, number: int) -> None:
        split = split_of(number)
        rows, labels = split.rows[np.newaxis, np.newaxis], split.labels[np.newaxis, np.newaxis]
        fitted = logistic_coefficients(interpreter, rows, labels, epsilons, INVERSE_PENALTIES, number, split.norm)
        right = (np.squeeze(fitted, (0, 3)) @ split.test_rows.T > 0) == (split.test_labels > 0)
        for place in np.ndindex(right.shape[:2]):
            found.note(INVERSE_PENALTIES[place[1]], float(right[place].mean()), epsilons[place[0]])

    found = measurements(tell, repetitions(f"{title}, diffprivlib", repeats, partial(noted, note)))
    return {
        epsilon: max((found.at(C, epsilon) for C in INVERSE_PENALTIES), key=lambda each: each.value)
        for epsilon in epsilons
    }


def peer_text(found: Mapping[float, Estimate] | None) -> str:
    """What a table says about diffprivlib."""
    if not found:
        return NOT_RUN
    repeats = min(each.repeats for each in found.values())
    return f"diffprivlib 0.6.6: its LogisticRegression on the same rows, the best of {len(INVERSE_PENALTIES)} C chosen on the test rows, which favours it; {repeats} repetitions."
