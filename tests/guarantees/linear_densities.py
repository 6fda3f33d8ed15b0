"""The exact law of objective perturbation in two dimensions, and neighbouring tables on which its bound is nearly reached.

θ and the linear term b determine each other, so the density of θ is that of b times the determinant of the Hessian. Rows enter
as z = y·x with multiplicities. A changed row z against z′ moves b by v = g·u + g′·w with u = −z, w = z′: the pairs below let
both weights g, g′ be near one while many other rows hold b along u + w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


@dataclass(frozen=True)
class Table:
    """Signed rows with multiplicities."""

    rows: np.ndarray
    counts: np.ndarray


def linear_term(table, points, penalty):
    """b for which each point is the minimiser: −ρθ + Σ σ(−zᵀθ)·z; `penalty` is a number or one a coordinate."""
    wrong = expit(-points @ table.rows.T) * table.counts
    return wrong @ table.rows - penalty * points


def log_determinant(table, points, penalty):
    """log det of the Hessian at each point."""
    wrong = expit(-points @ table.rows.T)
    weights = wrong * (1 - wrong) * table.counts
    hessians = np.einsum("ki,ij,il->kjl", weights, table.rows, table.rows) + np.diag(np.broadcast_to(penalty, 2))
    return np.linalg.slogdet(hessians)[1]


def pure_log_ratios(pair, points, rate, penalty):
    """log p(θ | first) − log p(θ | second) for noise ∝ exp(−rate·‖b‖)."""
    logs = [
        -rate * np.linalg.norm(linear_term(table, points, penalty), axis=1) + log_determinant(table, points, penalty)
        for table in pair
    ]
    return logs[0] - logs[1]


def gaussian_log_ratios(pair, points, deviation, penalty):
    """The same for noise N(0, deviation²·I)."""
    logs = [
        -np.sum(linear_term(table, points, penalty) ** 2, axis=1) / (2 * deviation**2)
        + log_determinant(table, points, penalty)
        for table in pair
    ]
    return logs[0] - logs[1]


def hard_pair(norm, angle=0.1, others=10**7):
    """Neighbours: the row z = −u becomes z′ = w, with u and w at a small angle to the first axis; the others lie along it."""
    u = norm * np.array([np.cos(angle), np.sin(angle)])
    w = norm * np.array([np.cos(angle), -np.sin(angle)])
    rest = norm * np.array([1.0, 0.0])
    counts = np.array([1.0, others])
    return Table(np.array([-u, rest]), counts), Table(np.array([w, rest]), counts)


def largest_pure_loss(pair, rate, penalty, norm, angle=0.1):
    """The largest log density ratio found over θ, from starts along the ray on which both weights are near one."""

    def negative(point):
        return -abs(float(pure_log_ratios(pair, point[np.newaxis], rate, penalty)[0]))

    starts = [
        np.array([-back, side / np.sin(angle)]) / norm for back in (10.0, 20.0) for side in np.linspace(5.0, 40.0, 36)
    ]
    values = [negative(start) for start in starts]
    best = sorted(range(len(starts)), key=values.__getitem__)[:3]
    found = [minimize(negative, starts[i], method="Nelder-Mead", options={"maxiter": 400}).fun for i in best]
    return -min(*found, *(values[i] for i in best))
