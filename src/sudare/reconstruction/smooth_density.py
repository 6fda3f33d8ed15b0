"""Densities whose logarithm is a smooth random curve: the non-parametric part of a reconstruction.

The logarithm of the density is a normal process with squared-exponential covariance plus a line and a parabola. How far two places
influence each other (length) and how much the curve swings (amplitude) are averaged over a grid, weighted by evidence: this is
the penalty's empirical-Bayes choice, without a single winner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.reconstruction.binning import Counts, States
from sudare.reconstruction.laplace_approximation import PosteriorMode, most_likely

LENGTHS: Final = (0.02, 0.03, 0.045, 0.07, 0.1, 0.15, 0.22, 0.33)
"""In parts of the range."""
AMPLITUDES: Final = (0.35, 0.7, 1.4, 2.8, 5.6)
"""Standard deviations of the log-density."""

_TREND_DEVIATION: Final = 6.0
_PARABOLA_DEVIATION: Final = 40.0
# Parts of the curve with less than this part of the variance of the largest are not seen.
_NEGLIGIBLE_VARIANCE: Final = 1e-6
_MOST_CURVES: Final = 100
# An atom's prior: a log-weight of −3 against all cells together, give or take 4.
_ATOM_MEAN, _ATOM_DEVIATION = -3.0, 4.0
# Noise does not tell an atom from values right beside it, and most columns with an atom have few of those: the log-density is
# expected to be this much lower beside an atom, less so with distance (in parts of the range).
_GAP_DEPTH, _GAP_WIDTH = 3.0, 0.03


@dataclass(frozen=True, eq=False)
class LogDensity:
    """Probabilities proportional to exp(offset + directions·z)."""

    directions: Floats
    offset: Floats
    length: float
    amplitude: float
    curves: int

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return int(self.directions.shape[1])

    def probabilities(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Softmax and its derivatives."""
        logarithms = self.directions @ parameters + self.offset
        weights = np.exp(logarithms - logarithms.max())
        shares = weights / weights.sum()
        return shares, shares[:, np.newaxis] * (self.directions - shares @ self.directions)


def log_density(states: States, length: float, amplitude: float) -> LogDensity:
    """The model for cells and atoms; away from atoms every cell has the same prior weight."""
    cells, atoms = states.cells, len(states.atoms)
    curves = smooth_curves(cells, length)
    count = curves.shape[1]
    middle = (np.arange(cells) + 0.5) / cells - 0.5
    directions = np.zeros((cells + atoms, count + 2 + atoms))
    directions[:cells, :count] = curves * amplitude
    directions[:cells, count] = _TREND_DEVIATION * middle
    directions[:cells, count + 1] = _PARABOLA_DEVIATION * (middle**2 - 1 / 12)
    directions[cells:, count + 2 :] = _ATOM_DEVIATION * np.eye(atoms)
    places = np.interp(states.atoms, states.edges, states.unit_edges) - 0.5
    gaps = _GAP_DEPTH * np.exp(-np.abs(middle[:, np.newaxis] - places) / _GAP_WIDTH).sum(axis=1)
    offset = np.concatenate((-np.log(cells) - gaps, np.full(atoms, _ATOM_MEAN)))
    return LogDensity(directions, offset, length, amplitude, count)


@lru_cache(maxsize=64)
def smooth_curves(cells: int, length: float) -> Floats:
    """Principal curves of the squared-exponential covariance on equal cells, each times its standard deviation."""
    places = (np.arange(cells) + 0.5) / cells
    covariance = np.exp(-0.5 * ((places[:, np.newaxis] - places) / length) ** 2)
    variances, curves = np.linalg.eigh(covariance)
    kept = np.flatnonzero(variances > _NEGLIGIBLE_VARIANCE * variances[-1])[-_MOST_CURVES:]
    found = np.asarray(curves[:, kept] * np.sqrt(variances[kept]))
    found.flags.writeable = False
    return found


def smooth_fits(
    states: States, counts: Counts, lengths: Sequence[float], amplitudes: Sequence[float]
) -> list[PosteriorMode[LogDensity]]:
    """One fit for each length and amplitude; each starts where the one of the next smaller amplitude ended."""
    fits = []
    for length in lengths:
        start: Floats | None = None
        previous = 1.0
        for amplitude in amplitudes:
            model = log_density(states, length, amplitude)
            if start is None:
                start = np.zeros(model.size)
            start[: model.curves] *= previous / amplitude
            fit = most_likely(model, states, counts, start)
            start, previous = fit.parameters.copy(), amplitude
            fits.append(fit)
    return fits
