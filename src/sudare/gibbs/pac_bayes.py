"""A PAC-Bayes bound on the risk of drawn models, for the owner of the data. Statement and proof: proofs/gibbs.md.

With probability 1 − ξ over independent records and the draws, kl(r‖R) ≤ (Σ log dQ/dP + log(2√n/ξ))/n: r is the error rate of what was drawn on the
records, R its risk, P the prior, Q the posterior.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.gibbs.posteriors import Posterior, softplus

MISSED_WITH_PROBABILITY: Final = 0.05
_BISECTIONS: Final = 80


def log_ratio_bounds(posterior: Posterior, points: Floats, grid: float) -> Floats:
    """Upper bounds on log dQ/dP for a logistic posterior, wherever in its cell of the grid a drawn point came from.

    log dQ/dP = −βf(θ) − log E_P e^{−βf}, f the summed loss; and −log E_P e^{−βf} ≤ βf(θ₀) + (m/2)‖θ₀‖² + ½ log det(I + SᵀS/4ρ).
    """
    rows, beta, penalty = posterior.rows, posterior.inverse_temperature, posterior.penalty
    gram = rows.T @ rows / (4 * penalty) + np.eye(posterior.width)
    at_mode = float(np.sum(softplus(-posterior.scores)))
    evidence = beta * (at_mode + penalty / 2 * float(posterior.mode @ posterior.mode))
    evidence += 0.5 * float(np.linalg.slogdet(gram)[1])
    bounds = []
    for point in points:
        scores = rows @ point
        with np.errstate(over="ignore"):
            gradient = -((1 / (1 + np.exp(scores))) @ rows)
        lowest = float(np.sum(softplus(-scores))) - grid / 2 * float(np.sum(np.abs(gradient)))
        bounds.append(evidence - beta * lowest)
    return np.array(bounds)


def risk_bound(error_rate: float, log_ratio: float, rows: int) -> float:
    """The largest R with kl(r‖R) ≤ (log_ratio + log(2√n/ξ))/n."""
    limit = (max(log_ratio, 0.0) + math.log(2 * math.sqrt(rows) / MISSED_WITH_PROBABILITY)) / rows
    low, high = error_rate, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if binary_divergence(error_rate, middle) <= limit else (low, middle)
    return high


def binary_divergence(first: float, second: float) -> float:
    """kl(r‖R): the divergence between Bernoulli laws with these probabilities."""
    parts = ((first, second), (1 - first, 1 - second))
    return sum(p * math.log(p / q) if q > 0 else math.inf for p, q in parts if p > 0)
