"""Private empirical risk minimisation by perturbation (section 2.2.2): Algorithm 1, the recipe that was run (Chaudhuri et al.), and output perturbation.

K tables are fitted at once: rows [K, n, p] in the unit ball and labels [K, n] of −1 and +1 give parameters [K, p] of logistic
regressions. So ζ = 1 bounds a gradient and λ_max = ¼ a curvature. Neighbours replace one record.

Noise comes from a seeded generator of floats: these functions are for studies, and what they give must not be published.
`sudare.linear` has the corrected ones that may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.linear.batched_newton import batched_minimisers
from sudare.linear.losses import Logistic
from sudare.linear.noise_calibration import gaussian_loss_delta, pure_loss

LOGISTIC_CURVATURE: Final = 0.25
# Objectives without a penalty get this one, a row: it makes the minimiser unique and moves it by nothing that is seen.
_ALMOST_FREE: Final = 1e-9
_MOST_MULTIPLIERS: Final = 60
_BALL_ACCURACY: Final = 1e-9


# Algorithm 1


def algorithm_1(
    rows: Floats,
    labels: Floats,
    epsilon: float,
    delta: float,
    generator: np.random.Generator,
    *,
    extra_penalty: float | None = None,
    radius: float = math.inf,
) -> Floats:
    """(ε′, δ)-DP with the ε′ of `algorithm_1_epsilon`, which is above ε: Algorithm 1 as printed (Kifer, Smith and Thakurta 2012).

    argmin over ‖θ‖ ≤ radius of mean loss + Δ/(2n)·‖θ‖² + bᵀθ/n. `extra_penalty` is Δ, the least that the algorithm allows unless
    given. b has density ∝ exp(−ε‖b‖/2ζ) for δ = 0, else it is normal with deviation `algorithm_1_deviation`.
    """
    least = least_extra_penalty(epsilon)
    chosen = least if extra_penalty is None else extra_penalty
    if chosen < least:
        raise InvalidParameter(
            f"Algorithm 1 needs an extra penalty of at least 2·λ_max/ε = {least:.6g}, got {chosen!r}.",
            "Leave it out, or give a larger one.",
        )
    shape = (rows.shape[0], rows.shape[2])
    if delta == 0:
        noise = gamma_norm_noise(epsilon / 2, shape, generator)
    else:
        noise = generator.normal(0.0, algorithm_1_deviation(epsilon, delta), shape)
    return minimisers_in_ball(rows, labels, chosen, noise, radius)


def least_extra_penalty(epsilon: float) -> float:
    """Δ = 2·λ_max/ε (line 1 of Algorithm 1)."""
    return 2 * LOGISTIC_CURVATURE / epsilon


def algorithm_1_deviation(epsilon: float, delta: float) -> float:
    """ζ·√(8·log(2/δ) + 4ε)/ε (line 5 of Algorithm 1)."""
    return math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon


def algorithm_1_epsilon(epsilon: float, delta: float, extra_penalty: float | None = None) -> float:
    """The ε that Algorithm 1 keeps when one record is replaced, at the δ that was asked for; rounded up, infinite if none is found.

    The print is calibrated for a record that is added or removed. Proof: proofs/objective.md.
    """
    penalty = least_extra_penalty(epsilon) if extra_penalty is None else extra_penalty
    if delta == 0:
        return pure_loss(epsilon / 2, 1.0, penalty, Logistic())
    deviation = algorithm_1_deviation(epsilon, delta)
    return least_epsilon(lambda claimed: gaussian_loss_delta(deviation, claimed, 1.0, penalty, Logistic()) <= delta)


def least_epsilon(holds: Callable[[float], bool], accuracy: float = 1e-4) -> float:
    """The least ε at which a promise holds that holds for every larger one, to a relative accuracy, rounded up; infinite beyond 10⁶."""
    high = 1e-3
    while not holds(high):
        high *= 2
        if high > 1e6:
            return math.inf
    low = high / 2 if high > 1e-3 else 0.0
    while high - low > accuracy * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# What the paper's experiments run


def chaudhuri_objective(
    rows: Floats, labels: Floats, epsilon: float, regularization: float, generator: np.random.Generator
) -> Floats:
    """ε-DP in real arithmetic: objective perturbation as the paper's experiments use it (Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2).

    `regularization` is Λ of mean loss + (Λ/2)‖θ‖²; it is raised where ε needs more. Of ε only `chaudhuri_epsilon` is used.
    """
    members, count, width = rows.shape
    noise_epsilon, extra = chaudhuri_calibration(epsilon, count, regularization)
    noise = gamma_norm_noise(noise_epsilon / 2, (members, width), generator)
    return batched_minimisers(rows, labels, Logistic(), count * (regularization + extra), noise)


def chaudhuri_calibration(epsilon: float, rows: int, regularization: float) -> tuple[float, float]:
    """The ε that is left for the noise, and the regularization to add: their slack for the curvature, squared."""
    ratio = LOGISTIC_CURVATURE / (rows * regularization)
    left = epsilon - math.log(1 + 2 * ratio + ratio**2)
    if left > 0:
        return left, 0.0
    return epsilon / 2, LOGISTIC_CURVATURE / (rows * math.expm1(epsilon / 4)) - regularization


def chaudhuri_epsilon(epsilon: float, rows: int, regularization: float) -> float:
    """The ε that `chaudhuri_objective` keeps when one record is replaced, rounded up. Proof: proofs/objective.md."""
    noise_epsilon, extra = chaudhuri_calibration(epsilon, rows, regularization)
    return pure_loss(noise_epsilon / 2, 1.0, rows * (regularization + extra), Logistic())


def chaudhuri_output(
    rows: Floats,
    labels: Floats,
    epsilon: float,
    regularization: float,
    generator: np.random.Generator,
    *,
    by_coordinate: bool = False,
) -> Floats:
    """ε-DP in real arithmetic: output perturbation, way (a) of section 2.2.2 (Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1).

    The minimiser moves by at most 2/(nΛ) when a record is replaced. Noise has density ∝ exp(−nΛε‖b‖/2); `by_coordinate` adds
    Laplace noise to every entry, as the paper words it, of scale √p·2/(nΛε) so that the promise is the same.
    """
    members, count, width = rows.shape
    minimisers = batched_minimisers(rows, labels, Logistic(), count * regularization, np.zeros((members, width)))
    rate = count * regularization * epsilon / 2
    if by_coordinate:
        return np.asarray(minimisers + generator.laplace(0.0, math.sqrt(width) / rate, minimisers.shape))
    return minimisers + gamma_norm_noise(rate, (members, width), generator)


# Noise and minimisers


def gamma_norm_noise(rate: float, shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    """Rows with density ∝ exp(−rate·‖b‖)."""
    directions = generator.standard_normal(shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * generator.gamma(shape[1], 1 / rate, size=(shape[0], 1)))


def minimisers_in_ball(
    rows: Floats, labels: Floats, penalty: float, linear: Floats, radius: float = math.inf
) -> Floats:
    """Minimisers over ‖θ‖ ≤ radius of Σ logistic loss + (penalty/2)‖θ‖² + linearᵀθ, to a billionth of the radius.

    Outside the ball the constraint is a larger penalty: its size is found by Newton steps on 1/‖θ‖, kept within a bracket.
    """
    found = _penalised(rows, labels, np.full(len(rows), max(penalty, _ALMOST_FREE * rows.shape[1])), linear)
    outside = np.flatnonzero(np.linalg.norm(found, axis=1) > radius)
    if not outside.size:
        return found
    inner, signs, terms = rows[outside], labels[outside], linear[outside]
    low = np.full(len(outside), max(penalty, _ALMOST_FREE * rows.shape[1]))
    high = np.full(len(outside), math.inf)
    tried, places = low.copy(), found[outside]
    for _ in range(_MOST_MULTIPLIERS):
        norms = np.linalg.norm(places, axis=1)
        if np.all(np.abs(norms - radius) <= _BALL_ACCURACY * radius):
            break
        low, high = np.where(norms > radius, tried, low), np.where(norms > radius, high, tried)
        tried = _between(
            tried + (norms / radius - 1) * norms**2 / _curvature_along(inner, signs, tried, places), low, high
        )
        places = _penalised(inner, signs, tried, terms)
    found[outside] = places * np.minimum(1.0, radius / np.linalg.norm(places, axis=1))[:, np.newaxis]
    return found


def _penalised(rows: Floats, labels: Floats, penalties: Floats, linear: Floats) -> Floats:
    """Minimisers with a penalty for each table: in units of 1/√penalty every penalty is one."""
    roots = np.sqrt(penalties)[:, np.newaxis]
    return batched_minimisers(rows / roots[:, :, np.newaxis], labels, Logistic(), 1.0, linear / roots) / roots


def _curvature_along(rows: Floats, labels: Floats, penalties: Floats, places: Floats) -> Floats:
    """θᵀH⁻¹θ at every table's θ."""
    scores = np.matmul(rows, places[:, :, np.newaxis])[:, :, 0]
    weighted = rows * Logistic().curvature(scores, labels)[:, :, np.newaxis]
    hessians = np.matmul(weighted.transpose(0, 2, 1), rows) + penalties[:, np.newaxis, np.newaxis] * np.eye(
        rows.shape[2]
    )
    return np.asarray(np.sum(places * np.linalg.solve(hessians, places[:, :, np.newaxis])[:, :, 0], axis=1))


def _between(tried: Floats, low: Floats, high: Floats) -> Floats:
    """What was tried where it lies within the bracket, else the bracket's middle (geometric), or twice its lower end."""
    middle = np.where(np.isfinite(high), np.sqrt(low * np.where(np.isfinite(high), high, 1.0)), 2 * low)
    return np.where((tried > low) & (tried < high), tried, middle)
