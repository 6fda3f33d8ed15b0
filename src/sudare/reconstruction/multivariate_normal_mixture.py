"""Mixtures of normal distributions with full covariance over several columns, seen through the channel (paper 004, eqs. (16) and (17)).

The paper has no integral for correlated components and rotates the data instead; but Laplace noise is not the same in rotated
coordinates. Here the mixture is put on the cells of a grid, where the channel is exact and the likelihood and its gradient are sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
from scipy.optimize import minimize
from sklearn.cluster import KMeans

from sudare.array_types import Floats
from sudare.reconstruction.channels import ProductChannel

MOST_COMPONENTS: Final = 6
# Priors, in parts of the range: a covariance's mode is this scale squared, with the weight of a few records.
_TYPICAL_SCALE: Final = 0.08
_SCALE_RECORDS: Final = 4.0
_WEIGHT_RECORDS: Final = 1.0
_MEAN_LIMITS: Final = (-0.1, 1.1)
_LOG_PRECISION_LIMITS: Final = (-1.0, 5.0)
_LEAST_PROBABILITY: Final = 1e-300
_TRIAL_EVALUATIONS: Final = 60
_MOST_SCORINGS: Final = 40
_CHORD_STEPS: Final = 4
_GAIN_AT_REST: Final = 1e-2
_LONGEST_STEP: Final = 2.0
_LEAST_DAMPING, _FIRST_DAMPING, _MOST_DAMPING = 1e-6, 1e-3, 1e7
# What a further component must add to the log-likelihood for yet another one to be tried.
_LEAST_GAIN: Final = 1.0
_SPLITS: Final = 2


@dataclass(frozen=True, eq=False)
class Grid:
    """Middles of equal cells in the unit cube, one axis a column."""

    shape: tuple[int, ...]

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return len(self.shape)

    @cached_property
    def points(self) -> Floats:
        """The middles, one row a cell."""
        axes = [(np.arange(size) + 0.5) / size for size in self.shape]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.columns)

    @cached_property
    def statistics(self) -> Floats:
        """Places and products of two places: what the logarithm of a normal density is linear in."""
        products = [self.points[:, i] * self.points[:, j] for i, j in self.pairs]
        return np.column_stack([self.points, *products])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of columns, with themselves too."""
        return list(combinations_with_replacement(range(self.columns), 2))

    @property
    def within_cell(self) -> Floats:
        """The covariance of a place within its cell: what even spreading adds to that of the middles."""
        return np.diag([size**-2.0 / 12 for size in self.shape])


@dataclass(frozen=True, eq=False)
class JointComponents:
    """Weights, means and covariances."""

    weights: Floats
    means: Floats
    covariances: Floats


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """A mode: parameters in the unit cube, probabilities of the cells, and the log-likelihood."""

    parameters: Floats
    components: JointComponents
    probabilities: Floats
    log_likelihood: float

    @property
    def count(self) -> int:
        """How many components there are."""
        return len(self.components.weights)


class MixtureLikelihood:
    """The log-posterior of a mixture's parameters given counts.

    Parameters, for each component: a log-weight, the mean, and the Cholesky factor A of the precision A·Aᵀ with its diagonal in
    logarithms. The prior is a Dirichlet law for weights and an inverse-Wishart law for covariances: it does not depend on the
    order of columns.
    """

    def __init__(self, grid: Grid, channel: ProductChannel, counts: Floats, components: int) -> None:
        self.grid, self.channel, self.counts, self.components = grid, channel, counts, components
        self._lower = np.tril_indices(grid.columns)
        self._diagonal = np.flatnonzero(self._lower[0] == self._lower[1])

    def packed(self, weights: Floats, means: Floats, covariances: Floats) -> Floats:
        """The vector of parameters for given weights, means and covariances, within their limits."""
        factors = np.linalg.cholesky(np.linalg.inv(covariances))[:, self._lower[0], self._lower[1]]
        factors[:, self._diagonal] = np.clip(np.log(factors[:, self._diagonal]), *_LOG_PRECISION_LIMITS)
        logarithms = np.log(np.maximum(weights, 1e-4 * weights.max()))[:, np.newaxis]
        return np.hstack([logarithms, np.clip(means, *_MEAN_LIMITS), factors]).ravel()

    def unpacked(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights, means and factors of the precisions."""
        columns = self.grid.columns
        rows = parameters.reshape(self.components, -1)
        weights = np.exp(rows[:, 0] - rows[:, 0].max())
        entries = rows[:, 1 + columns :].copy()
        entries[:, self._diagonal] = np.exp(entries[:, self._diagonal])
        factors = np.zeros((self.components, columns, columns))
        factors[:, self._lower[0], self._lower[1]] = entries
        return weights / weights.sum(), rows[:, 1 : 1 + columns], factors

    @property
    def limits(self) -> list[tuple[float | None, float | None]]:
        """Returns bounds of every parameter: means stay near the bounds, and scales between a hundredth and three ranges."""
        entries: list[tuple[float | None, float | None]] = [(None, None)] * len(self._lower[0])
        for place in self._diagonal:
            entries[place] = _LOG_PRECISION_LIMITS
        return ([(None, None)] + [_MEAN_LIMITS] * self.grid.columns + entries) * self.components

    def densities(self, means: Floats, factors: Floats) -> Floats:
        """Each component on the cells, one column a component, cut off at the bounds."""
        precisions = factors @ factors.transpose(0, 2, 1)
        linear = np.einsum("kij,kj->ki", precisions, means)
        quadratic = [(-0.5 if i == j else -1.0) * precisions[:, i, j] for i, j in self.grid.pairs]
        logarithms = self.grid.statistics @ np.column_stack([linear, *quadratic]).T
        heights = np.exp(logarithms - logarithms.max(axis=0))
        return np.asarray(heights / heights.sum(axis=0))

    def value_and_gradient(self, parameters: Floats) -> tuple[float, Floats]:
        """The mean negative log-posterior of a record, and its gradient."""
        records = float(self.counts.sum())
        weights, means, factors = self.unpacked(parameters)
        densities = self.densities(means, factors)
        expected = np.maximum(self.channel.forward((densities @ weights).reshape(self.grid.shape)), _LEAST_PROBABILITY)
        height = float(np.sum(self.counts * np.log(expected)))
        pull = self.channel.backward(self.counts / expected).ravel()
        # p_k is an exponential family: its derivative is a covariance with the statistics.
        pulled = densities * pull[:, np.newaxis]
        totals = pulled.sum(axis=0)
        by_natural = weights * (self.grid.statistics.T @ (pulled - densities * totals))
        by_weight = weights * (totals - weights @ totals)
        rows = self._rows(means, factors, by_weight, by_natural)
        prior, prior_rows = self._prior(weights, factors)
        return -(height + prior) / records, -(rows + prior_rows).ravel() / records

    def _rows(self, means: Floats, factors: Floats, by_weight: Floats, by_natural: Floats) -> Floats:
        """Gradients by parameters from those by natural parameters, one row a component."""
        columns = self.grid.columns
        by_linear = by_natural[:columns].T
        by_precision = np.zeros_like(factors)
        for (i, j), slope in zip(self.grid.pairs, by_natural[columns:], strict=True):
            by_precision[:, i, j] = by_precision[:, j, i] = -0.5 * slope
        outer = by_linear[:, :, np.newaxis] * means[:, np.newaxis, :]
        by_precision += (outer + outer.transpose(0, 2, 1)) / 2
        by_mean = np.einsum("kij,kj->ki", factors @ factors.transpose(0, 2, 1), by_linear)
        return np.hstack([by_weight[:, np.newaxis], by_mean, self._entries(factors, 2 * by_precision @ factors)])

    def _entries(self, factors: Floats, by_factor: Floats) -> Floats:
        """The entries of the lower triangle, the diagonal by its logarithm."""
        entries = by_factor[:, self._lower[0], self._lower[1]]
        entries[:, self._diagonal] *= factors[:, self._lower[0], self._lower[1]][:, self._diagonal]
        return entries

    def _prior(self, weights: Floats, factors: Floats) -> tuple[float, Floats]:
        """n/2·(log|Λ| − s²·trace Λ) for precisions Λ, whose mode is s⁻²·I, and Σ log of the weights."""
        squared = _TYPICAL_SCALE**2
        diagonals = np.log(np.diagonal(factors, axis1=1, axis2=2))
        height = _SCALE_RECORDS * (float(diagonals.sum()) - 0.5 * squared * float((factors**2).sum()))
        by_weight = _WEIGHT_RECORDS * (1 - self.components * weights)
        entries = self._entries(factors, -_SCALE_RECORDS * squared * factors)
        entries[:, self._diagonal] += _SCALE_RECORDS
        rows = np.hstack([by_weight[:, np.newaxis], np.zeros((self.components, self.grid.columns)), entries])
        return height + _WEIGHT_RECORDS * float(np.log(np.maximum(weights, _LEAST_PROBABILITY)).sum()), rows

    def precision(self, parameters: Floats) -> Floats:
        """Fisher information of all records plus the curvature of the prior."""
        weights, means, factors = self.unpacked(parameters)
        densities = self.densities(means, factors)
        statistics = self.grid.statistics
        expected = self.channel.forward((densities @ weights).reshape(self.grid.shape))
        slopes = [densities * weights]
        for number in range(self.components):
            centred = statistics - densities[:, number] @ statistics
            slopes.append((weights[number] * densities[:, number])[:, np.newaxis] * centred)
        stacked = np.ascontiguousarray(np.hstack(slopes).T).reshape(-1, *self.grid.shape)
        seen = self.channel.forward(stacked).reshape(len(stacked), -1)
        seen *= np.sqrt(self.counts.sum() / np.maximum(expected.ravel(), _LEAST_PROBABILITY))
        chain = self._chain(weights, means, factors)
        return np.asarray(chain.T @ (seen @ seen.T) @ chain + self._prior_curvature(weights, factors))

    def _chain(self, weights: Floats, means: Floats, factors: Floats) -> Floats:
        """Derivatives of log-weights and natural parameters by parameters."""
        count, natural = self.components, self.grid.statistics.shape[1]
        chain = np.zeros((count * (1 + natural), count, 1 + self.grid.columns + len(self._lower[0])))
        chain[:count, :, 0] = np.eye(count) - weights
        for statistic in range(natural):
            chosen = np.zeros((natural, count))
            chosen[statistic] = 1.0
            rows = self._rows(means, factors, np.zeros(count), chosen)
            for number in range(count):
                chain[count + number * natural + statistic, number] = rows[number]
        return chain.reshape(len(chain), -1)

    def _prior_curvature(self, weights: Floats, factors: Floats) -> Floats:
        """Of the negative logarithm; a little is added for log-weights that move together, which changes nothing."""
        count, width = self.components, 1 + self.grid.columns + len(self._lower[0])
        curvature = np.zeros((count, width, count, width))
        curvature[:, 0, :, 0] = _WEIGHT_RECORDS * count * (np.diag(weights) - np.outer(weights, weights)) + 1.0 / count
        entries = np.full((count, len(self._lower[0])), _SCALE_RECORDS * _TYPICAL_SCALE**2)
        entries[:, self._diagonal] *= 2 * factors[:, self._lower[0], self._lower[1]][:, self._diagonal] ** 2
        for number in range(count):
            places = np.arange(1 + self.grid.columns, width)
            curvature[number, places, number, places] = entries[number]
        return curvature.reshape(count * width, count * width)

    def near(self, start: Floats) -> Floats:
        """Parameters near a mode, by L-BFGS."""
        options = {
            "maxfun": _TRIAL_EVALUATIONS,
            "maxiter": _TRIAL_EVALUATIONS,
            "maxcor": 20,
            "ftol": 1e-10,
            "gtol": 1e-6,
        }
        found = minimize(
            self.value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=self.limits, options=options
        )
        return np.asarray(found.x)

    def most_likely(self, start: Floats) -> MixtureFit:
        """The mode that is reached from `start`, by damped Fisher scoring."""
        records = float(self.counts.sum())
        point, (value, slope) = start, self.value_and_gradient(start)
        damping = _FIRST_DAMPING
        for _ in range(_MOST_SCORINGS):
            precision = self.precision(point)
            gain = 0.0
            while damping < _MOST_DAMPING:
                following = self._moved(point, slope * records, precision, damping)
                after, after_slope = self.value_and_gradient(following)
                gain = (value - after) * records
                if gain >= 0:
                    point, value, slope = following, after, after_slope
                    damping = max(damping / 10, _LEAST_DAMPING)
                    break
                damping *= 8
            if gain < _GAIN_AT_REST:
                break
        return self.described(point)

    def moved_mode(self, parameters: Floats, precision: Floats) -> Floats:
        """The mode near that of slightly different counts, by a few steps with the precision of these."""
        records = float(self.counts.sum())
        value, slope = self.value_and_gradient(parameters)
        damping = _LEAST_DAMPING
        for _ in range(_CHORD_STEPS):
            following = self._moved(parameters, slope * records, precision, damping)
            after, after_slope = self.value_and_gradient(following)
            if after <= value:
                parameters, value, slope = following, after, after_slope
            else:
                damping = max(damping, _FIRST_DAMPING) * 8
        return parameters

    def _moved(self, point: Floats, slope: Floats, precision: Floats, damping: float) -> Floats:
        damped = precision + np.diag(damping * precision.diagonal() + 1e-9)
        step = -np.linalg.solve(damped, slope)
        step *= min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-12))
        least, most = np.array([[-np.inf if a is None else a, np.inf if b is None else b] for a, b in self.limits]).T
        return np.asarray(np.clip(point + step, least, most))

    def described(self, parameters: Floats) -> MixtureFit:
        """The fit at some parameters."""
        weights, means, factors = self.unpacked(parameters)
        covariances = np.linalg.inv(factors @ factors.transpose(0, 2, 1)) + self.grid.within_cell
        probabilities = (self.densities(means, factors) @ weights).reshape(self.grid.shape)
        expected = np.maximum(self.channel.forward(probabilities), _LEAST_PROBABILITY)
        height = float(np.sum(self.counts * np.log(expected)))
        return MixtureFit(parameters, JointComponents(weights, means, covariances), probabilities, height)


def mixture_fits(
    grid: Grid,
    channel: ProductChannel,
    counts: Floats,
    shape: Floats,
    most_components: int,
    seed: int,
    *,
    all_of_them: bool,
) -> list[MixtureFit]:
    """The highest mode found for 1 … K components: from clusters of a given distribution, and from splits of smaller mixtures.

    Unless all are wanted, a component that adds next to nothing is the last one tried.
    """
    fits: list[MixtureFit] = []
    for count in range(1, most_components + 1):
        likelihood = MixtureLikelihood(grid, channel, counts, count)
        starts = [clusters(likelihood, shape, seed)]
        if fits:
            starts += splits(likelihood, fits[-1].components)
        near = min((likelihood.near(start) for start in starts), key=lambda end: likelihood.value_and_gradient(end)[0])
        fits.append(likelihood.most_likely(near))
        if count > 1 and not all_of_them and fits[-1].log_likelihood - fits[-2].log_likelihood < _LEAST_GAIN:
            break
    return fits


def clusters(likelihood: MixtureLikelihood, shape: Floats, seed: int) -> Floats:
    """A start at the k-means clusters of a distribution over the cells."""
    grid, mass = likelihood.grid, np.maximum(shape.ravel(), 0.0)
    points = grid.points
    label = KMeans(likelihood.components, n_init=2, random_state=seed).fit_predict(points, sample_weight=mass)
    weights, means, covariances = [], [], []
    for number in range(likelihood.components):
        own = mass * (label == number)
        total = max(float(own.sum()), 1e-9)
        mean = own @ points / total
        centred = points - mean
        weights.append(total)
        means.append(mean)
        covariances.append((centred * own[:, np.newaxis]).T @ centred / total + 1e-3 * np.eye(grid.columns))
    return likelihood.packed(np.array(weights), np.array(means), np.array(covariances))


def splits(likelihood: MixtureLikelihood, smaller: JointComponents) -> list[Floats]:
    """Starts with one component split in two along its longest axis; those that are heavy and long come first."""
    longest = np.linalg.eigh(smaller.covariances)
    lengths = np.sqrt(longest.eigenvalues[:, -1])
    starts = []
    for chosen in np.argsort(-smaller.weights * lengths)[:_SPLITS]:
        axis = lengths[chosen] * longest.eigenvectors[chosen, :, -1]
        weights = np.append(smaller.weights, smaller.weights[chosen] / 2)
        weights[chosen] /= 2
        means = np.vstack([smaller.means, smaller.means[chosen] + 0.8 * axis])
        means[chosen] -= 0.8 * axis
        covariances = np.concatenate([smaller.covariances, smaller.covariances[chosen : chosen + 1]])
        covariances[[chosen, -1]] -= 0.6 * np.outer(axis, axis)
        starts.append(likelihood.packed(weights, means, covariances))
    return starts


def information_criterion(fit: MixtureFit, records: int, columns: int) -> float:
    """BIC as a log-evidence: log-likelihood − ½·(parameters)·log(records)."""
    parameters = fit.count * (1 + columns + columns * (columns + 1) // 2) - 1
    return fit.log_likelihood - 0.5 * parameters * math.log(records)
