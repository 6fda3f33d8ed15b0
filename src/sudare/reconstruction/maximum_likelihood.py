"""Maximum likelihood of proportions from perturbed answers, with a certificate of how near the maximum is.

Two ways: accelerated EM (the Iterative Bayesian Technique) and, where the matrix of second derivatives can be afforded, Newton steps inside
the simplex, which do not slow down where proportions go to zero. The log-likelihood is concave in the proportions p. For weights c of the answers and D_v = Σ_i c_i·K_iv/(K·p)_i with Σc = 1, no p has
a mean log-likelihood that is higher by more than max_v D_v − 1: when that gap is small, p is as good as the maximum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.reconstruction.channels import Channel, ProductChannel

# In units of the log-likelihood of all records: far below what could be told apart.
LARGEST_GAP: Final = 0.01
MOST_STEPS: Final = 4000
_NEWTON_STEPS: Final = 12
_STACKING_STEPS: Final = 500
_SMALLEST: Final = 1e-300


@dataclass(frozen=True)
class Fitted:
    """Proportions, and by how much their log-likelihood can be below the largest."""

    proportions: Floats
    gap: float
    steps: int


def maximum_likelihood(channel: Channel, counts: Floats, most_steps: int = MOST_STEPS) -> Fitted:
    """The proportions of the largest likelihood given counts of the answers, to within `LARGEST_GAP`, or what `most_steps` lead to."""
    records = float(counts.sum())
    shares = counts / records

    def ascent(proportions: Floats) -> tuple[Floats, float, float]:
        """One EM step, the mean log-likelihood before it, and the gap before it."""
        mixed = np.maximum(channel.forward(proportions), _SMALLEST)
        factors = channel.backward(shares / mixed)
        better = proportions * factors
        return better / better.sum(), float(np.sum(shares * np.log(mixed))), records * float(factors.max() - 1)

    current = np.full(channel.shape, 1 / math.prod(channel.shape))
    better, value, gap = ascent(current)
    steps = 1
    while gap > LARGEST_GAP and steps < most_steps:
        # SQUAREM (Varadhan and Roland 2008): along the curve through two EM steps, as far as their curvature suggests.
        second, _, _ = ascent(better)
        move, bend = better - current, second - 2 * better + current
        size = math.sqrt(float((bend * bend).sum()))
        stride = max(1.0, math.sqrt(float((move * move).sum())) / size) if size > 0 else 1.0
        far = np.maximum(current + 2 * stride * move + stride**2 * bend, 0.1 * second)
        far /= far.sum()
        after, far_value, far_gap = ascent(far)
        steps += 2
        if far_value >= value:
            current, better, value, gap = far, after, far_value, far_gap
        else:
            current = second
            better, value, gap = ascent(second)
            steps += 1
    return Fitted(current, max(gap, 0.0), steps)


def newton_likelihood(ticks: Floats, counts: Floats, extra: float) -> Fitted:
    """The maximum of Σ c_i·log(1 + extra·(ticks·p)_i) over proportions, from inside (a logarithmic barrier of falling weight μ).

    At the maximum with barrier the log-likelihood is within V·μ of the largest, for V categories.
    """
    cells = ticks.shape[1]
    proportions, barrier, steps = np.full(cells, 1 / cells), float(counts.sum()) / cells, 0
    while True:
        for _ in range(_NEWTON_STEPS):
            move, decrement = _newton_move(ticks, counts, extra, proportions, barrier)
            steps += 1
            longest = np.min(np.where(move < 0, -0.95 * proportions / np.minimum(move, -_SMALLEST), 1.0))
            proportions = proportions + min(1.0, float(longest)) * move
            proportions /= proportions.sum()
            if decrement < 0.01 * barrier * cells:
                break
        if barrier * cells <= LARGEST_GAP / 2:
            break
        barrier = max(barrier / 8, LARGEST_GAP / (2 * cells))
    records = float(counts.sum())
    weights = counts / records / (1 + extra * (ticks @ proportions))
    factors = weights.sum() + extra * (weights @ ticks)
    return Fitted(proportions, max(0.0, records * float(factors.max() - 1)), steps)


def _newton_move(
    ticks: Floats, counts: Floats, extra: float, proportions: Floats, barrier: float
) -> tuple[Floats, float]:
    """The Newton step along the simplex, and by how much it should raise the objective."""
    mixed = 1 + extra * (ticks @ proportions)
    gradient = extra * ((counts / mixed) @ ticks) + barrier / proportions
    curvature = extra**2 * (ticks * (counts / mixed**2)[:, np.newaxis]).T @ ticks
    curvature[np.diag_indices_from(curvature)] += barrier / proportions**2
    solved = np.linalg.solve(curvature, np.column_stack([gradient, np.ones_like(gradient)]))
    move: Floats = solved[:, 0] - solved[:, 1] * (solved[:, 0].sum() / solved[:, 1].sum())
    return move, float(gradient @ move) / 2


def stacked_weights(channel: Channel, candidates: Sequence[Floats], parts: Sequence[Floats]) -> Floats:
    """Weights of the candidates with the largest likelihood of held-out records (Breiman 1996; a concave problem).

    `candidates` has for each method one reconstruction a part, made without that part.
    """
    if len(candidates) == 1:
        return np.ones(1)
    predicted = np.column_stack([channel.forward(reconstructed).ravel() for reconstructed in candidates])
    counts = np.concatenate([part.ravel() for part in parts])
    seen = counts > 0
    # A factor for each answer changes nothing but keeps products of small probabilities away from zero.
    likelihoods = predicted[seen] / np.maximum(predicted[seen].max(axis=1, keepdims=True), _SMALLEST)
    return maximum_likelihood(ProductChannel([likelihoods]), counts[seen], most_steps=_STACKING_STEPS).proportions


def projected_on_simplex(point: Floats, total: float = 1.0) -> Floats:
    """The nearest point without negative entries that add up to `total`, in the Euclidean sense (Held, Wolfe and Crowder 1974)."""
    falling = np.sort(point, axis=None)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, point.size + 1)
    threshold = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray(np.maximum(point - threshold, 0.0))
