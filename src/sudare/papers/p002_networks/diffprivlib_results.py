"""How accurate diffprivlib's private logistic regression is, run beside ours on Adult, at one pure ε for records: δ = 0, replace-one, as diffprivlib promises.

Both are given the binned columns of the official split. diffprivlib has no rule for its penalty and protects no intercept, so that it gets the best of five on the test rows and, as ours, one-hot columns, which need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import numpy as np

from sudare.linear import PrivateLogisticRegression
from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL
from sudare.papers.diffprivlib_models import NOT_RUN, diffprivlib_interpreter, logistic_coefficients
from sudare.papers.p002_networks.census import Scores, ScoresByMethod, Split, all_scores, official, scores, scores_of
from sudare.papers.p002_networks.equal_epsilon_results import EPSILONS, SEED
from sudare.papers.repetitions import repetitions
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.schema import Label, encode

INVERSE_PENALTIES: Final = (0.001, 0.01, 0.1, 1.0, 10.0)
OURS: Final = "ours"


def measured(
    tell: Tell, repeats: int, epsilons: Sequence[float] = EPSILONS, split: Split | None = None
) -> ScoresByMethod:
    """Scores of ours, and of diffprivlib for each of its penalties where an interpreter has it; each fit with noise of its own."""
    given, interpreter = official() if split is None else split, diffprivlib_interpreter()

    def repetition(number: int) -> ScoresByMethod:
        found, generator = ScoresByMethod(), np.random.default_rng((SEED, 1, number))
        for epsilon in epsilons:
            seed = int(generator.integers(2**31))
            model = PrivateLogisticRegression(epsilon, schema=ADULT_SCHEMA, encoding="binned", random_state=seed)
            found.note(OURS, scores(model.fit(given.train), given.test), epsilon)
        if interpreter is not None:
            for (C, epsilon), theirs in peer_scores(
                partial(logistic_coefficients, interpreter), given, epsilons, number
            ).items():
                found.note(f"C = {C:g}", theirs, epsilon)
        return found

    return all_scores(tell, repetitions("beside diffprivlib", repeats, repetition))


def peer_scores(
    coefficients: Any, split: Split, epsilons: Sequence[float], seed: int
) -> Mapping[tuple[float, float], Scores]:
    """diffprivlib's scores by penalty and ε."""
    train, test = (encode(ADULT_SCHEMA, rows, "binned").matrix for rows in split)
    low, high = cast("Label", ADULT_SCHEMA.columns[LABEL]).classes
    signs = np.where(split.train[LABEL].to_numpy() == high, 1.0, -1.0)
    norm = ADULT_SCHEMA.norm_bound("binned")
    fitted = coefficients(
        train[np.newaxis, np.newaxis], signs[np.newaxis, np.newaxis], epsilons, INVERSE_PENALTIES, seed, norm
    )
    return {
        (C, epsilon): scores_of(np.where(test @ fitted[0, place, at, 0] > 0, high, low), split.test)
        for place, epsilon in enumerate(epsilons)
        for at, C in enumerate(INVERSE_PENALTIES)
    }


def best(found: ScoresByMethod, epsilon: float) -> tuple[Estimate, Estimate] | None:
    """Accuracy and macro-F1 of diffprivlib with the penalty that has the best accuracy on the test rows; None where it was not run."""
    names = [f"C = {C:g}" for C in INVERSE_PENALTIES]
    if not all(found.accuracy.values(name, epsilon) for name in names):
        return None
    chosen = max(names, key=lambda name: found.accuracy.at(name, epsilon).value)
    return found.accuracy.at(chosen, epsilon), found.macro_f1.at(chosen, epsilon)


def table(found: ScoresByMethod, epsilons: Sequence[float] = EPSILONS) -> ResultTable:
    """Accuracy and macro-F1 of both by ε."""
    rows: list[tuple[Cell, ...]] = []
    for epsilon in epsilons:
        theirs = best(found, epsilon)
        rows.append(
            (
                epsilon,
                found.accuracy.at(OURS, epsilon),
                found.macro_f1.at(OURS, epsilon),
                *((None, None) if theirs is None else theirs),
            )
        )
    repeats = found.accuracy.at(OURS, epsilons[0]).repeats
    was_run = best(found, epsilons[0]) is not None
    told = (
        f"diffprivlib 0.6.6: its LogisticRegression on the same columns, the best of {len(INVERSE_PENALTIES)} C chosen on the test rows, which favours it; {repeats} repetitions."
        if was_run
        else NOT_RUN
    )
    return ResultTable(
        "Adult at one pure ε, beside diffprivlib",
        ("ε, replace-one, δ = 0", "ours, accuracy", "ours, macro-F1", "diffprivlib, accuracy", "diffprivlib, macro-F1"),
        rows,
        f"Replace-one records, pure ε. PrivateLogisticRegression with nothing set but the encoding, on the official split; ± one standard error over {repeats} seeds of the noise. {told}",
    )
