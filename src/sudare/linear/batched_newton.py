"""Minimisers of many small penalised losses at once, by damped Newton steps."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.array_types import Floats
from sudare.linear.losses import Loss

_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 40


def batched_minimisers(X: Floats, y: Floats, loss: Loss, penalty: float, linear: Floats) -> Floats:
    """Minimisers θ [K, p] of Σ loss + (penalty/2)‖θ‖² + linearᵀθ, for X [K, n, p], y [K, n] and linear [K, p]."""
    tables, _, width = X.shape
    parameters = np.zeros((tables, width))
    active = np.arange(tables)
    tolerance = 1e-10 * (1 + np.linalg.norm(linear, axis=1))
    diagonal = penalty * np.eye(width)
    for _ in range(_MOST_STEPS):
        rows, targets, place = X[active], y[active], parameters[active]
        scores = np.matmul(rows, place[:, :, np.newaxis])[:, :, 0]
        slopes = loss.slope(scores, targets)
        gradient = np.matmul(slopes[:, np.newaxis, :], rows)[:, 0]
        gradient += penalty * place + linear[active]
        unfinished = np.linalg.norm(gradient, axis=1) > tolerance[active]
        if not unfinished.any():
            break
        active = active[unfinished]
        rows, targets, place, gradient = (part[unfinished] for part in (rows, targets, place, gradient))
        curvature = loss.curvature(scores[unfinished], targets)
        hessian = np.matmul((rows * curvature[:, :, np.newaxis]).transpose(0, 2, 1), rows) + diagonal
        direction = -np.linalg.solve(hessian, gradient[:, :, np.newaxis])[:, :, 0]
        sizes = _step_sizes(
            rows,
            targets,
            loss,
            penalty,
            linear[active],
            place,
            gradient,
            direction,
            scores[unfinished],
        )
        parameters[active] = place + sizes[:, np.newaxis] * direction
    return parameters


def _step_sizes(
    rows: Floats,
    targets: Floats,
    loss: Loss,
    penalty: float,
    linear: Floats,
    place: Floats,
    gradient: Floats,
    direction: Floats,
    scores: Floats,
) -> Floats:
    """For every table the first halving of a full step that lowers its objective enough."""
    change = np.matmul(rows, direction[:, :, np.newaxis])[:, :, 0]
    descent = np.sum(gradient * direction, axis=1)
    sizes = np.ones(len(rows))

    def value(chosen: NDArray[np.bool_]) -> Floats:
        moved = place[chosen] + sizes[chosen, np.newaxis] * direction[chosen]
        losses = loss.value(scores[chosen] + sizes[chosen, np.newaxis] * change[chosen], targets[chosen]).sum(axis=1)
        ridge = 0.5 * penalty * np.sum(moved**2, axis=1)
        return np.asarray(losses + ridge + np.sum(linear[chosen] * moved, axis=1))

    everyone = np.ones(len(rows), dtype=bool)
    sizes[:] = 0.0
    before = value(everyone)
    sizes[:] = 1.0
    after = value(everyone)
    for _ in range(_MOST_HALVINGS):
        worse = after > before + 1e-4 * sizes * descent + 1e-12 * np.abs(before)
        if not worse.any():
            break
        sizes[worse] *= 0.5
        after[worse] = value(worse)
    return sizes
