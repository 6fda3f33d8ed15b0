"""What members send and what receivers make of it, for all members of a simulation at once.

Noise is seeded: these are simulations, and nothing here protects anybody. Releases are made by `sudare.linear`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import expit

from sudare.array_types import Floats
from sudare.experts.batched_ridge_cross_validation import PENALTIES as STACKING_PENALTIES
from sudare.experts.batched_ridge_cross_validation import batch_fitted, solved
from sudare.experts.own_plus_consensus import PENALTIES, Consensus, consensus_without_each, own_plus_consensus
from sudare.linear.batched_newton import batched_minimisers
from sudare.linear.losses import Logistic
from sudare.linear.noise_calibration import penalty_needed, pure_rate
from sudare.papers.p000_weak_learners.learning_tasks import Task
from sudare.papers.p000_weak_learners.perturbed_erm import chaudhuri_objective, gamma_norm_noise
from sudare.privacy.accounting import exact

TEMPERATURE: Final = 3.0
# λ_reg = 0.01 of equation (24) multiplies ‖θ‖²; Λ of mean loss + (Λ/2)‖θ‖² is twice that.
PAPER_REGULARIZATION: Final = 0.02
SIMPLEX_STEPS: Final = 400
SIMPLEX_RATE: Final = 80.0
# The summed penalty, found by trying, at which a local model with a free intercept shows the paper's 0.559.
ARTEFACT_PENALTY: Final = 43.0


# Messages


def chaudhuri_messages(task: Task, epsilon: float, generator: np.random.Generator) -> Floats:
    """Objective perturbation as the paper used it, pure ε, replace-one, at the paper's regularization."""
    return chaudhuri_objective(task.rows, task.labels, epsilon, PAPER_REGULARIZATION, generator)


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


def plain_messages(task: Task) -> Floats:
    """Models without any noise, at the paper's regularization."""
    penalty = task.rows.shape[1] * PAPER_REGULARIZATION
    return batched_minimisers(task.rows, task.labels, Logistic(), penalty, np.zeros(task.rows.shape[::2]))


# Receivers


def mirror_averaged(task: Task, messages: Floats) -> Floats:
    """Every member's mirror average (eqs. 15–17, β = 3) of the others' messages, weighted on its own rows."""
    energies = np.cumsum(_losses_of_others(task, messages), axis=1) / TEMPERATURE
    weights = np.exp(energies.min(axis=2, keepdims=True) - energies)
    weights /= weights.sum(axis=2, keepdims=True)
    return np.asarray(weights.mean(axis=1) @ messages)


def exponentially_weighted(task: Task, messages: Floats) -> Floats:
    """Every member's final Gibbs weights (eq. 11, β = 3) on the others' messages."""
    energies = _losses_of_others(task, messages).sum(axis=1) / TEMPERATURE
    weights = np.exp(energies.min(axis=1, keepdims=True) - energies)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True) @ messages)


def best_single(task: Task, messages: Floats) -> Floats:
    """For every member the one message of the others with the least loss on its own rows."""
    return np.asarray(messages[_losses_of_others(task, messages).sum(axis=1).argmin(axis=1)])


def _losses_of_others(task: Task, messages: Floats) -> Floats:
    """Logistic losses (members × own rows × messages); a member's own message has infinite ones."""
    members = len(messages)
    scores = np.einsum("kti,mi->ktm", task.rows, messages)
    losses = np.logaddexp(0.0, -task.labels[:, :, np.newaxis] * scores)
    losses[np.arange(members), :, np.arange(members)] = np.inf
    return np.asarray(losses)


def convex_combination(task: Task, messages: Floats) -> Floats:
    """Every member's convex combination of the others' messages with the least loss on its own rows: no penalty (section 3.1).

    By exponentiated gradient steps, which stay within the simplex.
    """
    members = len(messages)
    scores = np.einsum("kti,mi->ktm", task.rows, messages)
    others = 1.0 - np.eye(members)
    weights = others / (members - 1)
    step = 1 / np.abs(scores).max(axis=(1, 2))[:, np.newaxis]
    for number in range(1, SIMPLEX_STEPS + 1):
        combined = np.matmul(scores, weights[:, :, np.newaxis])[:, :, 0]
        slopes = -task.labels * expit(-task.labels * combined) / task.labels.shape[1]
        gradient = np.matmul(slopes[:, np.newaxis], scores)[:, 0]
        exponents = -step * SIMPLEX_RATE / np.sqrt(number) * gradient
        weights = weights * np.exp(exponents - exponents.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(weights @ messages)


def stacked(task: Task, messages: Floats) -> Floats:
    """Accuracies of stacking (Sarwate et al. 2014): every member's penalised logistic regression on the others' scores and a constant.

    Scores of linear models lie in a space of as many dimensions as there are features. In its axes, weighted by the singular values of
    the messages, the penalty on the weights is that of as many numbers, so the same problem is solved with few columns.
    """
    members, rows, width = task.rows.shape
    bases, scales = np.empty((members, width, min(width, members - 1))), np.empty(members)
    for member in range(members):
        others = np.delete(messages, member, axis=0)
        scales[member] = np.sqrt(np.mean((task.rows[member] @ others.T) ** 2))
        axes, sizes, _ = np.linalg.svd(others.T, full_matrices=False)
        bases[member] = axes * sizes / max(scales[member], np.finfo(np.float64).tiny)
    designs = np.concatenate([task.rows @ bases, np.ones((members, rows, 1))], axis=2)
    fitted = batch_fitted(designs, task.labels, STACKING_PENALTIES, np.ones(designs.shape[2]), "classification")
    parameters = np.matmul(bases, fitted.coefficients[:, :-1, np.newaxis])[:, :, 0]
    return _accuracies(task, parameters, fitted.coefficients[:, -1])


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
    return _accuracies(task, fitted[:, :-1], fitted[:, -1])


def _accuracies(task: Task, parameters: Floats, intercepts: Floats) -> Floats:
    """Share of test rows told right by each member's line with an intercept."""
    scores = task.test_rows @ parameters.T + intercepts
    return np.asarray((scores * task.test_labels[:, np.newaxis] > 0).mean(axis=0))


def pooled(task: Task) -> Floats:
    """One tuned model of everybody's rows: what nobody may compute."""
    width = task.rows.shape[2]
    rows, labels = task.rows.reshape(1, -1, width), task.labels.reshape(1, -1)
    return batch_fitted(rows, labels, PENALTIES, np.ones(width), "classification").coefficients
