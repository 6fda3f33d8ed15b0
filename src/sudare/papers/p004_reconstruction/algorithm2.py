"""The paper's ways to several columns: components without covariance (eqs. (18) and (19)), and Algorithm 2, which rotates the data.

Both are given more than the paper gives them: they start at the true means, and the printed gradient steps of a fixed rate are
replaced by the closed-form update that they approximate. The product does not use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.papers.p004_reconstruction.normal_laplace import component_moments

Floats = NDArray[np.float64]

_STEPS: Final = 60
_BINS: Final = 100
_LEAST_VARIANCE: Final = 1e-4


@dataclass(frozen=True)
class Rotated:
    """Weights and means; each component's own axes (columns) and its variances along them."""

    weights: Floats
    means: Floats
    axes: Floats
    variances: Floats

    @property
    def covariances(self) -> Floats:
        """In the original coordinates."""
        return (self.axes * self.variances[:, np.newaxis, :]) @ self.axes.transpose(0, 2, 1)


def gathered(columns: Floats) -> tuple[Floats, Floats]:
    """Distinct rows on a fine grid, and how often each came."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    width = (high - low) / _BINS
    distinct, counts = np.unique(np.floor((columns - low) / width), axis=0, return_counts=True)
    return low + (distinct + 0.5) * width, counts.astype(np.float64)


def paper_mixture(columns: Floats, noise_scale: float, means: Floats, *, rotate: bool) -> Rotated:
    """Components without covariance, or, rotated, Algorithm 2: axes are the principal ones of the records assigned to a component."""
    rows, counts = gathered(columns)
    components, dimensions = means.shape
    now = Rotated(
        np.full(components, 1 / components),
        means.copy(),
        np.repeat(np.eye(dimensions)[np.newaxis], components, axis=0),
        np.ones((components, dimensions)),
    )
    for _ in range(_STEPS):
        now = _updated(now, rows, counts, noise_scale, rotate=rotate)
    return now


def _updated(now: Rotated, rows: Floats, counts: Floats, noise_scale: float, *, rotate: bool) -> Rotated:
    """One step: responsibilities, new axes, and the update along them, as if rotated noise had the same law."""
    shares = _responsibilities(now, rows, noise_scale)
    axes = now.axes
    if rotate:
        axes = np.array([_principal_axes(rows, counts, shares.argmax(axis=1) == k) for k in range(len(now.weights))])
    totals, means, variances = counts @ shares, [], []
    for k, own in enumerate(axes):
        turned, centre = rows @ own, now.means[k] @ own
        along = ((own.T @ now.covariances[k]) * own.T).sum(axis=1)
        weights = counts * shares[:, k] / totals[k]
        moments = [
            component_moments(turned[:, j], centre[j : j + 1], np.sqrt(along[j : j + 1]), noise_scale)
            for j in range(len(own))
        ]
        new = np.array([weights @ moment.mean[:, 0] for moment in moments])
        spread = [
            weights @ (moment.variance[:, 0] + (moment.mean[:, 0] - mean) ** 2)
            for moment, mean in zip(moments, new, strict=True)
        ]
        means.append(own @ new)
        variances.append(np.maximum(spread, _LEAST_VARIANCE))
    return Rotated(totals / counts.sum(), np.array(means), axes, np.array(variances))


def _responsibilities(now: Rotated, rows: Floats, noise_scale: float) -> Floats:
    logarithms = np.log(np.maximum(now.weights, 1e-12)) * np.ones((len(rows), 1))
    for k, own in enumerate(now.axes):
        turned, centre = rows @ own, now.means[k] @ own
        for j in range(len(own)):
            scale = np.sqrt(now.variances[k, j : j + 1])
            logarithms[:, k] += component_moments(turned[:, j], centre[j : j + 1], scale, noise_scale).log_density[:, 0]
    shares = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _principal_axes(rows: Floats, counts: Floats, chosen: NDArray[np.bool_]) -> Floats:
    if counts[chosen].sum() <= rows.shape[1]:
        return np.eye(rows.shape[1])
    return np.asarray(np.linalg.eigh(np.cov(rows[chosen].T, fweights=counts[chosen].astype(np.int64))).eigenvectors)
