"""Inputs that both sides of a benchmark make for themselves, from the same seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def linear_experts(experts: int, rows: int, width: int = 10) -> tuple[Floats, Floats, Floats]:
    """Rows, labels −1 and +1, and coefficients (experts × width) around the truth, some close to it and some far."""
    generator = np.random.default_rng(0)
    truth = generator.standard_normal(width)
    X = generator.standard_normal((rows, width)) / np.sqrt(width)
    labels = np.where(X @ truth + 0.3 * generator.standard_normal(rows) > 0, 1.0, -1.0)
    distances = generator.uniform(0, 2, size=(experts, 1))
    return X, labels, truth + distances * generator.standard_normal((experts, width))


def unit_rows(rows: int, columns: int) -> tuple[Floats, NDArray[np.int64]]:
    """Rows of norm one and labels 0 and 1 by the side of a random plane, with some noise."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((rows, columns))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    side = X @ generator.standard_normal(columns) + 0.2 * generator.standard_normal(rows)
    return X, (side > 0).astype(np.int64)
