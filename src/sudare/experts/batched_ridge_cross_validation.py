"""Penalised linear fits on own data, many at once, with the penalty chosen by cross-validation.

Not private: these run on the receiver's own rows, and nothing they give is released. Problems are stacked along the
first axis; sizes are those of small members, so all of one step's linear systems are solved together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.linear.batched_newton import batched_minimisers
from sudare.linear.losses import Logistic

PENALTIES: Final = tuple(float(penalty) for penalty in np.geomspace(1e3, 1e-2, 11))
FOLDS: Final = 5


class Fitted(NamedTuple):
    """Coefficients (problems × columns), and the penalty that each problem was fitted with."""

    coefficients: Floats
    penalties: Floats


def batch_fitted(designs: Floats, targets: Floats, penalties: Sequence[float], relative: Floats, task: str) -> Fitted:
    """Many problems (problems × rows × columns), each with its own choice of penalty; `relative` may be problems × columns.

    Each column's penalty is its `relative` one times the chosen one. Too few rows for cross-validation: the largest penalty.
    """
    problems, rows, _ = designs.shape
    ordered = sorted(penalties, reverse=True)
    if len(ordered) == 1 or rows < 2 * FOLDS:
        chosen = np.full(problems, ordered[0])
    else:
        held_out = np.zeros((problems, len(ordered)))
        folds = fold_numbers(targets)
        for fold in range(FOLDS):
            kept = folds != fold
            for number, penalty in enumerate(ordered):
                fitted = solved(designs * kept[:, :, np.newaxis], targets * kept, penalty * relative, task)
                held_out[:, number] += np.where(kept, 0.0, _losses(designs, targets, fitted, task)).sum(axis=1)
        chosen = np.asarray(ordered)[np.argmin(held_out, axis=1)]
    return Fitted(solved(designs, targets, chosen[:, np.newaxis] * relative, task), chosen)


def fold_numbers(targets: Floats) -> NDArray[np.intp]:
    """Folds of equal size with equal shares of each class, the same at every call: dealt out in the order of targets."""
    ranks = np.argsort(np.argsort(targets, axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(ranks % FOLDS, dtype=np.intp)


def solved(designs: Floats, targets: Floats, strengths: Floats, task: str) -> Floats:
    """The minimisers of sums of losses + ½ Σ strength_j w_j². A row of zeros counts for nothing."""
    strengths = np.broadcast_to(strengths, (len(designs), designs.shape[2]))
    if task == "regression":
        # Twice the squared loss's half: the loss of regression is (prediction − target)².
        normal = 2 * designs.swapaxes(1, 2) @ designs + strengths[:, :, np.newaxis] * np.eye(strengths.shape[1])
        return np.asarray(np.linalg.solve(normal, 2 * designs.swapaxes(1, 2) @ targets[:, :, np.newaxis])[:, :, 0])
    # Columns divided by the root of their penalty have a penalty of one each.
    roots = np.sqrt(strengths)
    scaled = designs / roots[:, np.newaxis]
    return batched_minimisers(scaled, targets, Logistic(), 1.0, np.zeros(strengths.shape)) / roots


def _losses(designs: Floats, targets: Floats, coefficients: Floats, task: str) -> Floats:
    scores = (designs @ coefficients[:, :, np.newaxis])[:, :, 0]
    return np.asarray((scores - targets) ** 2 if task == "regression" else np.logaddexp(0.0, -targets * scores))
