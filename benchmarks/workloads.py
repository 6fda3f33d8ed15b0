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


def sparse_correlations(variables: int, rows: int, blocks: int = 1, disturbance: float = 0.0) -> Floats:
    """Correlations of rows whose variables depend on about four others each, within blocks of equal size.

    `disturbance` weights the rows unevenly, as an iteration of EM does.
    """
    from sklearn.datasets import make_sparse_spd_matrix

    size = variables // blocks
    X = np.empty((rows, variables))
    generator = np.random.default_rng(variables)
    for block in range(blocks):
        precision = make_sparse_spd_matrix(
            size, alpha=1 - 4 / size, smallest_coef=0.2, largest_coef=0.6, random_state=variables + block
        )
        X[:, block * size : (block + 1) * size] = generator.multivariate_normal(
            np.zeros(size), np.linalg.inv(precision), rows
        )
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    weights = 1 + disturbance * generator.standard_normal(rows)
    S = np.asarray((X * weights[:, np.newaxis]).T @ X / weights.sum())
    inside = np.kron(np.eye(blocks), np.ones((size, size)))
    return S * inside


def overlapping_patterns(rows: int, columns: int, patterns: int) -> tuple[Floats, Floats, Floats]:
    """Rows of normal patterns that overlap, and where EM begins: means, and precision matrices."""
    generator = np.random.default_rng(0)
    means = 2 * generator.standard_normal((patterns, columns))
    mixing = np.eye(columns) + 0.3 * generator.standard_normal((patterns, columns, columns))
    origin = generator.integers(patterns, size=rows)
    X = means[origin] + np.einsum("nij,nj->ni", mixing[origin], generator.standard_normal((rows, columns)))
    return X, means + 0.5, np.stack([np.eye(columns)] * patterns)
