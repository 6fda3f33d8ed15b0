"""The method that paper 004 compares with: equation (3) for numbers (Igarashi et al. after Agrawal et al.)."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.papers.p004_reconstruction.printed_values import TOLERANCE
from sudare.perturbation.laplace import LaplacePerturbation

MOST_STEPS: Final = 3000


def iterative_bayesian_technique(
    perturbation: LaplacePerturbation,
    y: Floats,
    edges: Floats,
    *,
    tolerance: float = TOLERANCE,
    max_iter: int = MOST_STEPS,
) -> Floats:
    """No privacy of its own: shares of the original values in bins by equation (3), from values perturbed before.

    Both x and y are cut into the bins of the answer, as published; bins of y are as wide as the widest of x, and reach as far as
    the values do. It starts uniform and ends when the log-likelihood gains less than `tolerance`, or after `max_iter` steps: the paper
    prints no rule.
    """
    channel, frequencies = _discretised(perturbation, y, edges)
    shares = np.full(len(edges) - 1, 1 / (len(edges) - 1))
    before = -math.inf
    for _ in range(max_iter):
        expected = np.maximum(channel @ shares, 1e-300)
        now = float(len(y) * (frequencies @ np.log(expected)))
        if now - before < tolerance:
            break
        before = now
        shares = shares * (channel.T @ (frequencies / expected))
    return shares


def _discretised(perturbation: LaplacePerturbation, y: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Transition probabilities between bins, one column a bin of x, and how often each bin of y came."""
    low, high = perturbation.bounds
    inside = np.clip(edges, low, high)
    width = float(np.diff(edges).max())
    below = edges[0] - width * np.arange(math.ceil((edges[0] - y.min()) / width), 0, -1)
    above = edges[-1] + width * np.arange(1, math.ceil((y.max() - edges[-1]) / width) + 1)
    bins = np.concatenate((below, edges, above))
    bins = np.unique(np.concatenate(([perturbation.output_bounds[0]], bins[1:-1], [perturbation.output_bounds[1]])))
    channel = np.where(
        np.diff(inside) > perturbation.grid,
        _spread_channel(perturbation, bins, inside),
        perturbation.transition_at(bins, np.clip((edges[1:] + edges[:-1]) / 2, low, high)),
    )
    return channel, np.histogram(y, bins)[0] / len(y)


def _spread_channel(perturbation: LaplacePerturbation, bins: Floats, edges: Floats) -> Floats:
    """Transition probabilities of bins of x; those of an empty bin, of which there are some outside of the bounds, are not used."""
    distinct = np.unique(edges)
    place = np.minimum(np.searchsorted(distinct, edges[:-1]), len(distinct) - 2)
    return perturbation.transition(bins, distinct)[:, place]
