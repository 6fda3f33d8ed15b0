"""Many small members at once: batched fits for simulations, with the calibration that the estimators use.

Noise comes from a seeded generator, so nothing made here is private; it is the fast twin of `perturbation`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.errors import InvalidParameter
from sudare.linear.calibration import gaussian_deviation, penalty_needed, pure_rate
from sudare.linear.losses import Logistic, Loss
from sudare.privacy.accounting import exact, gaussian_mu_within
from sudare.privacy.guarantee import checked_delta, checked_epsilon

Floats = NDArray[np.float64]
NodeMethod = Literal["objective", "output", "mean", "plain"]

_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 40


def fit_nodes(
    X: Floats,
    y: Floats,
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    method: NodeMethod = "objective",
    norm_bound: float = 1.0,
    penalty: float = 1.0,
    loss: Loss | None = None,
    generator: np.random.Generator,
) -> Floats:
    """Parameters [K, p] of K members with n rows each: X [K, n, p] with rows within `norm_bound`, y [K, n] of −1 and +1.

    `penalty` is ρ = nΛ of the summed loss; objective perturbation raises it where ε needs more. "plain" adds no noise; "mean" is
    Σ y·x with noise, divided by n. The bias, if wanted, is a constant column that the caller adds.
    """
    if method not in get_args(NodeMethod):
        raise InvalidParameter(
            f"method must be one of {', '.join(get_args(NodeMethod))}, got {method!r}.", "Use one of these words."
        )
    checked_epsilon(epsilon)
    checked_delta(delta)
    chosen = Logistic() if loss is None else loss
    nodes, rows, width = X.shape
    if method == "mean":
        sums = np.einsum("kij,ki->kj", X, y)
        return np.asarray((sums + _noise(2 * norm_bound, epsilon, delta, (nodes, width), generator)) / rows)
    linear = np.zeros((nodes, width))
    if method == "objective":
        penalty = max(penalty, penalty_needed(epsilon, norm_bound, chosen))
        linear = _objective_noise(epsilon, delta, norm_bound, penalty, chosen, (nodes, width), generator)
    fitted = minimised_nodes(X, y, chosen, penalty, linear)
    if method == "output":
        sensitivity = 2 * norm_bound * chosen.largest_slope / penalty
        fitted = fitted + _noise(sensitivity, epsilon, delta, (nodes, width), generator)
    return fitted


def minimised_nodes(
    X: Floats, y: Floats, loss: Loss, penalty: float, linear: Floats, centre: Floats | None = None
) -> Floats:
    """Minimisers [K, p] of Σ loss + (penalty/2)‖θ − centre‖² + linearᵀθ, by damped Newton steps for all members at once."""
    nodes, _, width = X.shape
    centres = np.zeros((nodes, width)) if centre is None else np.broadcast_to(centre, (nodes, width))
    parameters = np.array(centres)
    active = np.arange(nodes)
    tolerance = 1e-10 * (1 + np.linalg.norm(linear, axis=1))
    diagonal = penalty * np.eye(width)
    for _ in range(_MOST_STEPS):
        rows, targets, place = X[active], y[active], parameters[active]
        scores = np.matmul(rows, place[:, :, np.newaxis])[:, :, 0]
        slopes = loss.slope(scores, targets)
        gradient = np.matmul(slopes[:, np.newaxis, :], rows)[:, 0]
        gradient += penalty * (place - centres[active]) + linear[active]
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
            centres[active],
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
    centres: Floats,
    place: Floats,
    gradient: Floats,
    direction: Floats,
    scores: Floats,
) -> Floats:
    """For every member the first halving of a full step that lowers its objective enough."""
    change = np.matmul(rows, direction[:, :, np.newaxis])[:, :, 0]
    descent = np.sum(gradient * direction, axis=1)
    sizes = np.ones(len(rows))

    def value(chosen: NDArray[np.bool_]) -> Floats:
        moved = place[chosen] + sizes[chosen, np.newaxis] * direction[chosen]
        losses = loss.value(scores[chosen] + sizes[chosen, np.newaxis] * change[chosen], targets[chosen]).sum(axis=1)
        ridge = 0.5 * penalty * np.sum((moved - centres[chosen]) ** 2, axis=1)
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


def _objective_noise(
    epsilon: float,
    delta: float,
    norm_bound: float,
    penalty: float,
    loss: Loss,
    shape: tuple[int, int],
    generator: np.random.Generator,
) -> Floats:
    if delta > 0:
        deviation = gaussian_deviation(exact(epsilon), exact(delta), norm_bound, penalty, loss)
        return generator.normal(scale=deviation, size=shape)
    return gamma_norm_noise(pure_rate(exact(epsilon), norm_bound, penalty, loss), shape, generator)


def _noise(
    sensitivity: float, epsilon: float, delta: float, shape: tuple[int, int], generator: np.random.Generator
) -> Floats:
    if delta > 0:
        return generator.normal(scale=sensitivity / gaussian_mu_within(epsilon, delta), size=shape)
    return gamma_norm_noise(float(Fraction(epsilon) / Fraction(sensitivity)), shape, generator)


def gamma_norm_noise(rate: float, shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    """Rows with density ∝ exp(−rate·‖b‖)."""
    directions = generator.standard_normal(shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * generator.gamma(shape[1], 1 / rate, size=(shape[0], 1)))
