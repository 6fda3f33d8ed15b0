"""The law of objective perturbation for the logistic loss in two dimensions, and neighbours on which its bound is nearly reached.

Rows enter as z = y·x with multiplicities. A changed row z against z′ moves b by v = g·u + g′·w with u = −z, w = z′: the pairs below
let both weights g, g′ be near one while many other rows hold b along u + w.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from sudare.audit.linear_output_laws import CountedRows, linear_terms, log_determinants, pure_objective_log_density
from sudare.linear.losses import Logistic


def signed(rows, counts):
    """Signed rows z = y·x with multiplicities."""
    return CountedRows(np.asarray(rows), np.ones(len(rows)), np.asarray(counts))


def pure_log_ratios(pair, points, rate, penalty, order=2, units=1.0):
    """log p(θ | first) − log p(θ | second) for noise ∝ exp(−rate·‖b‖), the norm of that order of b over the units."""
    first, second = (
        pure_objective_log_density(table, points, Logistic(), rate, penalty, order, units) for table in pair
    )
    return first - second


def gaussian_log_ratios(pair, points, deviation, penalty):
    """The same for noise N(0, deviation²·I)."""
    first, second = (gaussian_objective_log_density(table, points, Logistic(), deviation, penalty) for table in pair)
    return first - second


def gaussian_objective_log_density(table, points, loss, deviation, penalty):
    """log density of the minimiser, up to a constant, for noise N(0, deviation²·I); a penalty is one number, or one a coordinate."""
    squares = np.sum(linear_terms(table, points, loss, penalty) ** 2, axis=1)
    return -squares / (2 * deviation**2) + log_determinants(table, points, loss, penalty)


def turned(vectors, turn):
    """Vectors of the plane, turned by an angle."""
    cosine, sine = np.cos(turn), np.sin(turn)
    return np.asarray(vectors) @ np.array([[cosine, sine], [-sine, cosine]])


def hard_pair(norm, angle=0.1, others=10**7, turn=0.0):
    """Neighbours: the row z = −u becomes z′ = w, with u and w at a small angle to the first axis; the others lie along it.

    All are then turned: by π/4 to where the sum of absolute values is largest for its norm.
    """
    u = norm * np.array([np.cos(angle), np.sin(angle)])
    w = norm * np.array([np.cos(angle), -np.sin(angle)])
    rest = norm * np.array([1.0, 0.0])
    counts = [1.0, others]
    return signed(turned([-u, rest], turn), counts), signed(turned([w, rest], turn), counts)


def largest_pure_loss(pair, rate, penalty, norm, angle=0.1, turn=0.0, order=2, units=1.0):
    """The largest log density ratio found over θ, from starts along the ray on which both weights are near one."""

    def negative(point):
        return -abs(float(pure_log_ratios(pair, point[np.newaxis], rate, penalty, order, units)[0]))

    starts = [
        turned([-back, side / np.sin(angle)], turn) / norm
        for back in (10.0, 20.0)
        for side in np.linspace(5.0, 40.0, 36)
    ]
    values = [negative(start) for start in starts]
    best = sorted(range(len(starts)), key=values.__getitem__)[:3]
    found = [minimize(negative, starts[i], method="Nelder-Mead", options={"maxiter": 400}).fun for i in best]
    return -min(*found, *(values[i] for i in best))
