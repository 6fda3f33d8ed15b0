"""What paper 004 prints, and its two methods: the technique it compares with, and Algorithm 1. The product does not use them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sudare.papers.p004_reconstruction.normal_laplace import Expectation, Parameters, expectation, gradients
from sudare.perturbation.laplace import LaplacePerturbation

Floats = NDArray[np.float64]

TABLE_2: Final = {
    "age": {"iterative": 86.02, "proposed": 88.03},
    "education-num": {"iterative": 58.20, "proposed": 62.76},
    "capital-gain": {"iterative": 91.60, "proposed": 91.67},
}
FIGURE_2_NOISE: Final = {1_000: 3.18, 10_000: 2.45, 100_000: 2.03, 1_000_000: 1.75}
FIGURE_1: Final = Parameters(
    np.array([0.1, 0.6, 0.2, 0.1]), np.array([-1.0, 3.0, 5.0, 9.0]), np.sqrt([0.1, 0.2, 0.5, 0.01])
)

_GAIN_AT_REST: Final = 1e-3
_MOST_STEPS: Final = 3000
_MOST_GRADIENT_STEPS: Final = 1000
_MOST_HALVINGS: Final = 40
_LEAST_SCALE: Final = 1e-6
_BINS: Final = 600


def l1_accuracy(found: Floats, truth: Floats) -> float:
    """100 if two histograms agree, 0 if they share nothing: 100·(1 − ½Σ|p − q|)."""
    return float(100 * (1 - 0.5 * np.abs(found - truth).sum()))


def iterative_technique(perturbation: LaplacePerturbation, y: Floats, edges: Floats) -> Floats:
    """The method compared with (Igarashi et al.): both x and y in the bins of the answer, until the likelihood rests.

    Bins of y are as wide as the widest of x, and reach as far as the values do.
    """
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
    frequencies = np.histogram(y, bins)[0] / len(y)
    shares = np.full(len(edges) - 1, 1 / (len(edges) - 1))
    before = -math.inf
    for _ in range(_MOST_STEPS):
        expected = np.maximum(channel @ shares, 1e-300)
        now = float(len(y) * (frequencies @ np.log(expected)))
        if now - before < _GAIN_AT_REST:
            break
        before = now
        shares = shares * (channel.T @ (frequencies / expected))
    return shares


def _spread_channel(perturbation: LaplacePerturbation, bins: Floats, edges: Floats) -> Floats:
    """Transition probabilities of bins of x; those of an empty bin, of which there are some outside of the bounds, are not used."""
    distinct = np.unique(edges)
    place = np.minimum(np.searchsorted(distinct, edges[:-1]), len(distinct) - 2)
    return perturbation.transition(bins, distinct)[:, place]


def algorithm_1(
    y: Floats, noise_scale: float, components: int, rate: float, generator: np.random.Generator
) -> tuple[Parameters, float]:
    """Algorithm 1 (GEM), as printed: random start, gradient steps of the summed likelihood with a fixed rate.

    Where a step would lower the likelihood it is halved: the paper asks for a rate at which nothing diverges, and with the sum
    over 10⁵ records the printed one does. Values are binned finely, which changes nothing visible. Returns the log-likelihood too.
    """
    places, counts = binned(y)
    now = random_start(y, components, generator)
    found = expectation(places, counts, now, noise_scale)
    for _ in range(_MOST_GRADIENT_STEPS):
        following, seen = _gradient_step(places, counts, now, found, noise_scale, rate)
        gain = seen.log_likelihood - found.log_likelihood
        if gain < 0:
            break
        now, found = following, seen
        if gain < _GAIN_AT_REST:
            break
    return now, found.log_likelihood


def _gradient_step(
    places: Floats, counts: Floats, now: Parameters, found: Expectation, noise_scale: float, rate: float
) -> tuple[Parameters, Expectation]:
    by_mean, by_scale = gradients(counts, found, now)
    weights = (found.responsibilities * counts[:, np.newaxis]).sum(axis=0) / counts.sum()
    for halving in range(_MOST_HALVINGS):
        step = rate * 0.5**halving
        scales = np.maximum(np.abs(now.scales + step * by_scale), _LEAST_SCALE)
        following = Parameters(weights, now.means + step * by_mean, scales)
        seen = expectation(places, counts, following, noise_scale)
        if seen.log_likelihood >= found.log_likelihood:
            break
    return following, seen


def random_start(y: Floats, components: int, generator: np.random.Generator) -> Parameters:
    """Means among the values, equal scales, random weights."""
    spread = float(np.std(y))
    means = np.sort(generator.choice(y, components))
    return Parameters(generator.dirichlet(np.ones(components)), means, np.full(components, spread / components))


def binned(y: Floats) -> tuple[Floats, Floats]:
    """Means and counts of values in 600 bins."""
    low, high = float(y.min()), float(y.max())
    place = np.minimum(((y - low) / (high - low) * _BINS).astype(np.intp), _BINS - 1)
    counts = np.bincount(place, minlength=_BINS).astype(np.float64)
    sums = np.bincount(place, y, minlength=_BINS)
    filled = counts > 0
    return sums[filled] / counts[filled], counts[filled]


def mixture_histogram(parameters: Parameters, edges: Floats) -> Floats:
    """Masses of a normal mixture in bins, what lies outside counted into the first and last."""
    below = ndtr((edges[:, np.newaxis] - parameters.means) / parameters.scales) @ parameters.weights
    below[0], below[-1] = 0.0, 1.0
    return np.diff(below)
