"""A loss that is hard to sample only if one record is as suspected, and its slope."""

from __future__ import annotations

import numpy as np


def sharp(theta, X):
    """Of a record on the right a loss with a sharp corner, of one on the left a line. All slopes are at most one."""
    sizes = np.sqrt(1e-12 + theta @ theta)
    return np.where(X[:, 0] > 0, sizes, 0.5 * theta[0])


def sharp_slope(theta, X):
    right = int(np.sum(X[:, 0] > 0))
    line = np.zeros_like(theta)
    line[0] = 0.5
    return right * theta / np.sqrt(1e-12 + theta @ theta) + (len(X) - right) * line
