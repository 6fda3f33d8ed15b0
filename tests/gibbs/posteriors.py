"""Made-up posteriors for the tests of the samplers."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from sudare.frames.rows import Rows
from sudare.gibbs.posteriors import Posterior
from sudare.linear.losses import Logistic
from sudare.linear.solvers import Objective, minimised


def logistic_posterior(
    rows: int, width: int, seed: int, penalty: float, inverse_temperature: float, tolerance: float = 1e-7
) -> Posterior:
    """Rows in the unit ball with labels of a random linear model, and the solved mode."""
    random = np.random.default_rng(seed)
    matrix = random.standard_normal((rows, width)) * random.uniform(0.2, 1.0, width)
    matrix /= max(1.0, float(np.linalg.norm(matrix, axis=1).max()))
    labels = np.where(random.random(rows) < expit(4 * matrix @ random.standard_normal(width)), 1.0, -1.0)
    objective = Objective(Rows.held(matrix, labels[:, np.newaxis]), Logistic(), penalty, np.zeros(width), 1.0)
    solved = minimised(objective, tolerance)
    return Posterior(
        labels[:, np.newaxis] * matrix, inverse_temperature, penalty, 1.0, solved.parameters, solved.gradient_bound
    )


def energies(posterior: Posterior, points: np.ndarray) -> np.ndarray:
    """−log density, up to a constant."""
    scores = points @ posterior.rows.T
    losses = np.logaddexp(0.0, -scores).sum(axis=1)
    return np.asarray(posterior.inverse_temperature * (losses + posterior.penalty / 2 * (points**2).sum(axis=1)))
