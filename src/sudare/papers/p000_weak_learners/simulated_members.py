"""What members send and what receivers make of it, for all members of a simulation at once.

Noise is seeded: these are simulations, and nothing here protects anybody. Releases are made by `sudare.linear`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.experts.own_plus_consensus import PENALTIES, Consensus, consensus_without_each, own_plus_consensus
from sudare.experts.penalised_fits import batch_fitted, solved
from sudare.linear.batched_newton import batched_minimisers
from sudare.linear.losses import Logistic
from sudare.linear.noise_calibration import penalty_needed, pure_rate
from sudare.papers.p000_weak_learners.learning_tasks import Task
from sudare.privacy.accounting import exact

Floats = NDArray[np.float64]

TEMPERATURE: Final = 3.0
# λ_reg = 0.01 of equation (24) multiplies ‖θ‖²; Λ of mean loss + (Λ/2)‖θ‖² is twice that.
PAPER_REGULARIZATION: Final = 0.02
# The summed penalty, found by trying, at which a local model with a free intercept shows the paper's 0.559.
ARTEFACT_PENALTY: Final = 43.0
LOGISTIC_CURVATURE: Final = 0.25


# Messages


def chaudhuri_messages(task: Task, epsilon: float, generator: np.random.Generator) -> Floats:
    """Objective perturbation as the paper used it (Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2), pure ε, replace-one."""
    members, rows, width = task.rows.shape
    noise_epsilon, extra = chaudhuri_calibration(epsilon, rows, PAPER_REGULARIZATION)
    noise = gamma_norm_noise(noise_epsilon / 2, (members, width), generator)
    return batched_minimisers(task.rows, task.labels, Logistic(), rows * (PAPER_REGULARIZATION + extra), noise)


def chaudhuri_calibration(epsilon: float, rows: int, regularization: float) -> tuple[float, float]:
    """The ε that is left for the noise, and the regularization to add: their slack for the curvature, squared."""
    ratio = LOGISTIC_CURVATURE / (rows * regularization)
    left = epsilon - math.log(1 + 2 * ratio + ratio**2)
    if left > 0:
        return left, 0.0
    return epsilon / 2, LOGISTIC_CURVATURE / (rows * math.expm1(epsilon / 4)) - regularization


def mean_messages(task: Task, epsilon: float, generator: np.random.Generator) -> Floats:
    """Noisy means of label × row, pure ε, replace-one: the gradient at θ = 0."""
    members, rows, width = task.rows.shape
    sums = np.einsum("kij,ki->kj", task.rows, task.labels)
    return np.asarray((sums + gamma_norm_noise(epsilon / 2, (members, width), generator)) / rows)


def objective_messages(task: Task, epsilon: float, generator: np.random.Generator) -> Floats:
    """Our objective perturbation with the joint logistic bound, pure ε, replace-one, at a penalty that needs no slack."""
    return objective_fits(task.rows, task.labels, epsilon, max(2 / epsilon, 10.0), generator)


def objective_fits(
    rows: Floats, labels: Floats, epsilon: float, penalty: float, generator: np.random.Generator
) -> Floats:
    """Private logistic regressions [K, p] of K members with rows [K, n, p] in the unit ball and labels [K, n] of −1 and +1.

    `penalty` is ρ = nΛ of the summed loss; it is raised where ε needs more.
    """
    loss = Logistic()
    penalty = max(penalty, penalty_needed(epsilon, 1.0, loss))
    noise = gamma_norm_noise(pure_rate(exact(epsilon), 1.0, penalty, loss), rows.shape[::2], generator)
    return batched_minimisers(rows, labels, loss, penalty, noise)


def gamma_norm_noise(rate: float, shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    """Rows with density ∝ exp(−rate·‖b‖)."""
    directions = generator.standard_normal(shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * generator.gamma(shape[1], 1 / rate, size=(shape[0], 1)))


def plain_messages(task: Task) -> Floats:
    """Models without any noise, at the paper's regularization."""
    penalty = task.rows.shape[1] * PAPER_REGULARIZATION
    return batched_minimisers(task.rows, task.labels, Logistic(), penalty, np.zeros(task.rows.shape[::2]))


# Receivers


def mirror_averaged(task: Task, messages: Floats) -> Floats:
    """Every member's mirror average (eqs. 15–17, β = 3) of the others' messages, weighted on its own rows."""
    members = len(messages)
    scores = np.einsum("kti,mi->ktm", task.rows, messages)
    energies = np.cumsum(np.logaddexp(0.0, -task.labels[:, :, np.newaxis] * scores), axis=1) / TEMPERATURE
    energies[np.arange(members), :, np.arange(members)] = np.inf
    weights = np.exp(energies.min(axis=2, keepdims=True) - energies)
    weights /= weights.sum(axis=2, keepdims=True)
    return np.asarray(weights.mean(axis=1) @ messages)


def own_and_others(task: Task, messages: Floats) -> Floats:
    """Every member's own plus consensus of the others' messages."""
    return own_plus_consensus(task.rows, task.labels, consensus_without_each(messages))[0]


def own_without_messages(task: Task) -> Floats:
    """The same receiver with μ = 0: a local model, tuned by cross-validation over the same penalties."""
    members, _, width = task.rows.shape
    nothing = Consensus(np.zeros((members, width)), np.ones(members))
    return own_plus_consensus(task.rows, task.labels, nothing)[0]


def local_with_free_intercept(task: Task, penalty: float) -> Floats:
    """Accuracies of local models whose intercept is not penalised."""
    members, rows, width = task.rows.shape
    designs = np.concatenate([task.rows, np.ones((members, rows, 1))], axis=2)
    almost_free = 1e-6
    fitted = solved(designs, task.labels, np.append(np.full(width, penalty), almost_free), "classification")
    scores = task.test_rows @ fitted[:, :-1].T + fitted[:, -1]
    return np.asarray((scores * task.test_labels[:, np.newaxis] > 0).mean(axis=0))


def pooled(task: Task) -> Floats:
    """One tuned model of everybody's rows: what nobody may compute."""
    width = task.rows.shape[2]
    rows, labels = task.rows.reshape(1, -1, width), task.labels.reshape(1, -1)
    return batch_fitted(rows, labels, PENALTIES, np.ones(width), "classification").coefficients
