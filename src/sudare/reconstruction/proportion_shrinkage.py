"""Proportions from unbiased but noisy ones: the posterior mean under a prior that is learned from all categories together.

Many categories with small proportions drown in the noise one by one, but not together: how the noisy proportions are spread
says how the true ones are. A prior is a law for the sizes of categories, given that they add up to one: equal shapes (a
Dirichlet law), or a few large categories among many small ones. Which priors fit is weighed by their marginal likelihood, and
the posterior means are averaged with these weights (hierarchical Bayes on a grid).

That sizes add up to one is a saddle-point condition: each posterior is tilted by e^{λp}, with the λ for which means add up to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import gammainc, gammaln

from sudare.array_types import Floats

_CELLS: Final = 192
_FARTHEST: Final = 9.0
_NEWTON_STEPS: Final = 60
_SMALLEST: Final = 1e-300


@dataclass(frozen=True)
class SizePrior:
    """Sizes relative to their mean: Gamma laws of these shapes and means, in these shares."""

    shares: tuple[float, ...]
    shapes: tuple[float, ...]
    means: tuple[float, ...]

    @classmethod
    def alike(cls, shape: float) -> SizePrior:
        """Given their sum, a symmetric Dirichlet law."""
        return cls((1.0,), (shape,), (1.0,))

    @classmethod
    def few_large(cls, share: float, times: float, shape: float) -> SizePrior:
        """A share of categories that are so many times larger than the others on average."""
        small = 1 / (share * times + 1 - share)
        return cls((share, 1 - share), (1.0, shape), (times * small, small))

    def masses(self, edges: Floats) -> Floats:
        """The probability of each cell between consecutive edges (along the last axis), in units of the mean size."""
        below = sum(
            share * gammainc(shape, edges * (shape / mean))
            for share, shape, mean in zip(self.shares, self.shapes, self.means, strict=True)
        )
        masses: Floats = np.maximum(np.diff(np.asarray(below), axis=-1), _SMALLEST)
        return masses

    def log_density_of_sum(self, categories: int) -> float:
        """log density, at its mean, of the sum of so many sizes (in units of the mean size): near that of a normal law."""
        second = sum(
            share * mean**2 * (1 + 1 / shape)
            for share, shape, mean in zip(self.shares, self.shapes, self.means, strict=True)
        )
        if len(self.shapes) == 1:
            # The sum of Gamma variables is one again.
            total = categories * self.shapes[0]
            return math.log(self.shapes[0]) - float(gammaln(total)) + (total - 1) * math.log(total) - total
        return -0.5 * math.log(2 * math.pi * categories * (second - 1))


PRIORS: Final = (
    *(SizePrior.alike(shape) for shape in (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 5.0, 20.0, 100.0)),
    *(
        SizePrior.few_large(share, times, shape)
        for share in (0.03, 0.1, 0.25, 0.5)
        for times in (10.0, 50.0, 300.0)
        for shape in (0.7, 3.0, 30.0)
    ),
)


def posterior_mean(estimates: Floats, standard_errors: Floats) -> Floats:
    """Proportions that add up to one, from unbiased estimates with independent normal errors."""
    cells = Cells.around(estimates, standard_errors)
    found = [cells.given(prior) for prior in PRIORS]
    evidence = np.array([weight for weight, _ in found])
    weights = np.exp(evidence - evidence.max())
    mean: Floats = np.einsum("p,pv->v", weights / weights.sum(), np.array([means for _, means in found]))
    proportions: Floats = mean / mean.sum()
    return proportions


@dataclass(frozen=True)
class Cells:
    """Cells of sizes for each category (a row), which cover all that its noisy estimate leaves open, and the log-likelihood in each."""

    edges: Floats
    middles: Floats
    log_likelihood: Floats

    @classmethod
    def around(cls, estimates: Floats, standard_errors: Floats) -> Cells:
        """Cells from zero, narrow there; or around the estimate where zero is out of the question."""
        reach = _FARTHEST * standard_errors
        low, high = np.maximum(estimates - reach, 0.0), np.maximum(estimates, 0.0) + reach
        position = np.linspace(0.0, 1.0, _CELLS + 1)
        shape = np.where(low[:, np.newaxis] > 0, position, position**3)
        edges = low[:, np.newaxis] + (high - low)[:, np.newaxis] * shape
        middles = (edges[:, 1:] + edges[:, :-1]) / 2
        distances = (middles - estimates[:, np.newaxis]) / standard_errors[:, np.newaxis]
        return cls(edges, middles, -(distances**2) / 2)

    def given(self, prior: SizePrior) -> tuple[float, Floats]:
        """The log marginal likelihood under a prior for sizes that add up to one, and the posterior means."""
        categories = len(self.edges)
        log_joint = self.log_likelihood + np.log(prior.masses(self.edges * categories))
        tilt, means, log_sums, variance = 0.0, np.empty(0), np.empty(0), 0.0
        low, high = -math.inf, math.inf
        for _ in range(_NEWTON_STEPS):
            tilted = log_joint + tilt * self.middles
            largest = tilted.max(axis=1, keepdims=True)
            masses = np.exp(tilted - largest)
            sums = masses.sum(axis=1)
            log_sums = np.log(sums) + largest[:, 0]
            means = (masses * self.middles).sum(axis=1) / sums
            variance = float(((masses * self.middles**2).sum(axis=1) / sums - means**2).sum())
            missing = 1 - float(means.sum())
            if abs(missing) < 1e-9:
                break
            low, high = (tilt, high) if missing > 0 else (low, tilt)
            tilt = _next_tilt(tilt, missing / max(variance, _SMALLEST), low, high)
        # Saddle-point approximation of the joint density of the estimates and of "they add up to one", over that of the latter.
        joint = float(log_sums.sum()) - tilt - 0.5 * math.log(2 * math.pi * max(variance, _SMALLEST))
        return joint - prior.log_density_of_sum(categories) - math.log(categories), means


def _next_tilt(tilt: float, newton: float, low: float, high: float) -> float:
    """A Newton step, or half of the way to the end of the interval where that would leave it."""
    proposed = tilt + newton
    if low < proposed < high:
        return proposed
    if math.isinf(low) or math.isinf(high):
        return tilt + newton / 2
    return (low + high) / 2
