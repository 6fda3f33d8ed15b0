"""Mixtures of normal distributions, cut off at the bounds, seen through the channel (paper 004, eqs. (5) to (13)).

Parameters have proper priors, so no scale shrinks to nothing: means are uniform between the bounds, scales log-normal, weights
logistic-normal. The printed update by gradient steps is replaced by Fisher scoring on counts: tens of steps, any number of records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

from sudare.array_types import Floats
from sudare.reconstruction.binning import Counts, States
from sudare.reconstruction.laplace_approximation import PosteriorMode, most_likely

MOST_COMPONENTS: Final = 7
TYPICAL_SCALES: Final = (0.06, 0.12)
"""Medians of the prior of a component's scale, in parts of the range; both are tried."""

_SCALE_DEVIATION: Final = 0.6
_WEIGHT_DEVIATION: Final = 1.5
_ATOM_MEAN: Final = -2.0
_ROOT_TWO_PI: Final = math.sqrt(2 * math.pi)
_LEAST_INSIDE: Final = 1e-10
_FARTHEST_START: Final = 3.0
_MODES_KEPT: Final = 3
_SPLITS: Final = 2
# Modes that differ by less in the log-posterior are one mode reached twice.
_SAME_MODE: Final = 0.05


@dataclass(frozen=True)
class Components:
    """Weights, means and scales in the column's unit; weights of the atoms follow those of the components."""

    weights: Floats
    means: Floats
    scales: Floats


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """K normal components cut off at the first and last edge, and one weight for each atom.

    Parameters: K + atoms log-weights, K means, K log-scales.
    """

    states: States
    components: int
    typical_scale: float

    @property
    def shares(self) -> int:
        """How many weights there are."""
        return self.components + len(self.states.atoms)

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return self.shares + 2 * self.components

    def unpacked(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights of components and atoms; means and scales in parts of the range."""
        count, shares = self.components, self.shares
        logarithms = _WEIGHT_DEVIATION * parameters[:shares]
        logarithms[count:] += _ATOM_MEAN
        weights = np.exp(logarithms - logarithms.max())
        means = ndtr(parameters[shares : shares + count])
        scales = self.typical_scale * np.exp(_SCALE_DEVIATION * parameters[shares + count :])
        return weights / weights.sum(), means, scales

    def packed(self, weights: Floats, means: Floats, scales: Floats) -> Floats:
        """Parameters for given weights (any total), means and scales; none is extreme, so that scoring can move it."""
        logarithms = np.log(np.maximum(weights, 1e-4 * weights.max()))
        logarithms -= logarithms[: self.components].mean()
        logarithms[self.components :] -= _ATOM_MEAN
        places = ndtri(np.clip(means, 1e-3, 1 - 1e-3))
        sizes = np.log(scales / self.typical_scale) / _SCALE_DEVIATION
        packed = np.concatenate((logarithms / _WEIGHT_DEVIATION, places, sizes))
        return np.asarray(np.clip(packed, -_FARTHEST_START, _FARTHEST_START))

    def probabilities(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Σ weight · (mass of the component in the cell), and derivatives."""
        count, shares, cells = self.components, self.shares, self.states.cells
        weights, means, scales = self.unpacked(parameters)
        by_component, by_mean, by_scale = cell_masses(self.states.unit_edges, means, scales)
        choices = np.zeros((cells + shares - count, shares))
        choices[:cells, :count] = by_component
        choices[cells:, count:] = np.eye(shares - count)
        probabilities = choices @ weights
        slopes = np.zeros((len(probabilities), self.size))
        slopes[:, :shares] = _WEIGHT_DEVIATION * (choices - probabilities[:, np.newaxis]) * weights
        pace = np.exp(-0.5 * parameters[shares : shares + count] ** 2) / _ROOT_TWO_PI
        slopes[:cells, shares : shares + count] = by_mean * (weights[:count] * pace)
        slopes[:cells, shares + count :] = by_scale * (weights[:count] * _SCALE_DEVIATION)
        return probabilities, slopes

    def described(self, parameters: Floats) -> Components:
        """Weights, means and scales in the column's unit."""
        weights, means, scales = self.unpacked(parameters)
        low, width = self.states.edges[0], self.states.edges[-1] - self.states.edges[0]
        return Components(weights, low + width * means, width * scales)


def cell_masses(edges: Floats, means: Floats, scales: Floats) -> tuple[Floats, Floats, Floats]:
    """Masses of cut-off normal distributions in cells, and their derivatives by mean and by log-scale."""
    standard = (edges[:, np.newaxis] - means) / scales
    below = ndtr(standard)
    density = np.exp(-0.5 * standard**2) / _ROOT_TWO_PI
    moment = density * standard
    inside = np.maximum(below[-1] - below[0], _LEAST_INSIDE)
    masses = np.diff(below, axis=0) / inside
    by_mean = (masses * (density[-1] - density[0]) - np.diff(density, axis=0)) / (inside * scales)
    by_scale = (masses * (moment[-1] - moment[0]) - np.diff(moment, axis=0)) / inside
    return masses, by_mean, by_scale


def mixture_fits(
    states: States,
    counts: Counts,
    typical_scale: float,
    shapes: Sequence[Floats],
    most_components: int = MOST_COMPONENTS,
) -> list[PosteriorMode[NormalMixture]]:
    """Modes for 1 … K components. They start from the quantiles of given distributions and from splits of the last ones."""
    fits: list[PosteriorMode[NormalMixture]] = []
    best: PosteriorMode[NormalMixture] | None = None
    for count in range(1, most_components + 1):
        modes = mixture_modes(states, counts, count, typical_scale, shapes, best)
        best = modes[0]
        fits.extend(modes)
    return fits


def mixture_modes(
    states: States,
    counts: Counts,
    components: int,
    typical_scale: float,
    shapes: Sequence[Floats],
    smaller: PosteriorMode[NormalMixture] | None = None,
) -> list[PosteriorMode[NormalMixture]]:
    """Different modes for one number of components, the highest first."""
    model = NormalMixture(states, components, typical_scale)
    starts = [start_at_quantiles(model, shape) for shape in (shapes if components > 1 else shapes[:1])]
    if smaller is not None:
        starts += splits(model, smaller)
    found = sorted((most_likely(model, states, counts, start) for start in starts), key=lambda fit: -fit.log_posterior)
    kept: list[PosteriorMode[NormalMixture]] = []
    for fit in found:
        if len(kept) < _MODES_KEPT and all(fit.log_posterior < other.log_posterior - _SAME_MODE for other in kept):
            kept.append(fit)
    return kept


def start_at_quantiles(model: NormalMixture, shape: Floats) -> Floats:
    """Equal parts of a distribution over the cells, each with its mean and scale; atoms as there."""
    cells = model.states.cells
    mass = shape[:cells] / shape[:cells].sum()
    middle = (model.states.unit_edges[1:] + model.states.unit_edges[:-1]) / 2
    part = np.minimum((np.cumsum(mass) - mass / 2) * model.components, model.components - 1e-9).astype(np.intp)
    weights = np.bincount(part, mass, model.components) + 1e-9
    means = np.bincount(part, mass * middle, model.components) / weights
    spread = np.bincount(part, mass * (middle - means[part]) ** 2, model.components) / weights
    # Parts without mass start in the middle of theirs.
    empty = weights < 1e-6
    means[empty] = (np.flatnonzero(empty) + 0.5) / model.components
    return model.packed(np.concatenate((weights * shape[:cells].sum(), shape[cells:])), means, np.sqrt(spread + 1e-4))


def splits(model: NormalMixture, smaller: PosteriorMode[NormalMixture]) -> list[Floats]:
    """Starts with one component of a smaller mixture split in two; those that are heavy and wide come first."""
    weights, means, scales = smaller.model.unpacked(smaller.parameters)
    count = smaller.model.components
    starts = []
    for chosen in np.argsort(-weights[:count] * scales)[:_SPLITS]:
        halved = np.insert(weights, count, weights[chosen] / 2)
        halved[chosen] /= 2
        moved = np.append(means, means[chosen] + scales[chosen])
        moved[chosen] -= scales[chosen]
        narrowed = np.append(scales, 0.7 * scales[chosen])
        narrowed[chosen] *= 0.7
        starts.append(model.packed(halved, moved, narrowed))
    return starts


def log_evidence(fit: PosteriorMode[NormalMixture]) -> float:
    """Laplace's, plus half the logarithm of how many modes differ by the components' names only.

    With K components far apart there are K! such modes; components that overlap share one. Laplace's volume counts overlapping ones
    too generously, so that half of the logarithm was the best compromise in simulations.
    """
    return fit.log_evidence + 0.5 * log_namings(fit)


def bayesian_information(fit: PosteriorMode[NormalMixture], records: int) -> float:
    """Schwarz's criterion, the less the better: it prefers few components that can be told apart."""
    # Weights sum to one, so that one parameter is not free.
    return -2 * fit.log_likelihood + (fit.model.size - 1) * math.log(records)


def log_namings(fit: PosteriorMode[NormalMixture]) -> float:
    """log of the number of distinct modes under renaming: Σ_k log(1 + Σ_{j<k} (1 − overlap of the modes with j and k exchanged))."""
    model, total = fit.model, 0.0
    for component in range(1, model.components):
        distinct = 1.0
        for other in range(component):
            exchanged = fit.parameters.copy()
            for block in (0, model.shares, model.shares + model.components):
                pair = [block + component, block + other]
                exchanged[pair] = exchanged[pair[::-1]]
            difference = exchanged - fit.parameters
            # Bhattacharyya coefficient of two normal distributions of equal precision.
            distinct += 1 - math.exp(-float(difference @ fit.precision @ difference) / 8)
        total += math.log(distinct)
    return total
