"""Algorithm 2 of paper 004: a mixture behind several perturbed columns, from their rows alone. The product does not use it.

Without rotation it is the algorithm of section 3.2: components without covariance, equations (18) and (19).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.papers.p004_reconstruction.algorithm1 import MOST_COMPONENTS, Update, check_flags, check_iteration
from sudare.papers.p004_reconstruction.normal_laplace import LEAST_SCALE, component_moments
from sudare.papers.p004_reconstruction.printed_values import TABLE_2_RATE, TOLERANCE
from sudare.parameter_checks import Numbers
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.binning import bin_edges, continuous_states
from sudare.reconstruction.channels import ProductChannel
from sudare.reconstruction.joint_distribution import (
    MOST_COLUMNS,
    JointClusters,
    JointDistribution,
    checked_columns,
    joint_cell_count,
)
from sudare.reconstruction.multivariate_normal_mixture import Grid, JointComponents
from sudare.reconstruction.reconstructed_distribution import Layout

MOST_STEPS: Final = 1_000
_BINS_IN_SCALE: Final = 8
_LEAST_TOTAL: Final = 1e-12


@dataclass(frozen=True, eq=False)
class RotatedMixture:
    """In units of the noise: weights and means; each component's own axes (columns) and its variances along them."""

    weights: Floats
    means: Floats
    axes: Floats
    variances: Floats

    @property
    def covariances(self) -> Floats:
        """In the original coordinates."""
        return (self.axes * self.variances[:, np.newaxis, :]) @ self.axes.transpose(0, 2, 1)

    def log_densities(self, rows: Floats) -> Floats:
        """log ρ_k Π_j f(y^(j); …), equation (19) along each component's own axes, as if rotated noise were Laplace noise again."""
        with np.errstate(divide="ignore"):
            logarithms = np.log(self.weights) * np.ones((len(rows), 1))
        for k, own in enumerate(self.axes):
            turned, centre = rows @ own, self.means[k] @ own
            for j in range(len(own)):
                scale = np.sqrt(self.variances[k, j : j + 1])
                logarithms[:, k] += component_moments(
                    np.ascontiguousarray(turned[:, j]), centre[j : j + 1], scale, 1.0
                ).log_density[:, 0]
        return logarithms


class FiniteMixtureJointReconstruction(BaseEstimator):
    """No privacy of its own: Algorithm 2 of paper 004, from rows that were perturbed before; it costs no budget.

    It rotates the rows of each component into principal axes and goes on as if the noise there were Laplace noise, which it is not:
    covariances come out wrong. `sudare.reconstruction.JointReconstruction` does without.

    Parameters
    ----------
    perturbations : the Laplace noise that was applied, one a column.
    components : K. The paper gives no rule for several columns.
    rotate : False is section 3.2, components without covariance (19).
    update : the M-step along the axes: 'closed-form', or 'gradient' as printed.
    learning_rate : α, for values in units of the noise (α/φ² for one in a column's own unit).
    cut_steps : cut a gradient step to half of the closed-form one, at which nothing diverges. False takes every step as it is, as printed.
    in_bins : count rows on a grid of an eighth of φ, which makes steps quick. False takes every row as it is.
    tolerance, max_iter : ε, and most steps. With rotation L may fall, so that a fit need not come to rest: a warning says so.
    n_init, random_state : random starts, of which the one with the highest L is kept, and their seed.

    Attributes
    ----------
    components_ : weights, means and covariances in the columns' units.
    log_likelihood_ : L (22), as the algorithm computes it.
    n_iter_, converged_ : steps of the fit, and whether it came to rest.
    distribution_ : the product's `JointDistribution`, for two or three columns; None for more.
    """

    def __init__(
        self,
        perturbations: Sequence[LaplacePerturbation],
        components: int,
        *,
        rotate: bool = True,
        update: Update = "closed-form",
        learning_rate: float = TABLE_2_RATE,
        cut_steps: bool = True,
        in_bins: bool = True,
        tolerance: float = TOLERANCE,
        max_iter: int = MOST_STEPS,
        n_init: int = 1,
        random_state: int | None = 0,
    ) -> None:
        self.perturbations = perturbations
        self.components = components
        self.rotate = rotate
        self.update = update
        self.learning_rate = learning_rate
        self.cut_steps = cut_steps
        self.in_bins = in_bins
        self.tolerance = tolerance
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, columns: Sequence[ArrayLike] | Floats) -> Self:
        """`components_` from the perturbed columns, row by row: a list with each column, or an array with one column a column."""
        self._check_parameters()
        values = np.column_stack(checked_columns(self.perturbations, columns))
        rows, counts = values / self._noise_scales, np.ones(len(values))
        if self.in_bins:
            rows, counts = gathered(rows)
        generator = np.random.default_rng(self.random_state)
        fits = [self._fitted(rows, counts, self._start(rows, counts, generator)) for _ in range(self.n_init)]
        mixture, height, self.n_iter_, self.converged_ = max(fits, key=lambda fit: fit[1])
        if not self.converged_:
            warnings.warn(
                f"Algorithm 2 was not at rest after {self.max_iter} steps; with rotation L need not rise.",
                ConvergenceWarning,
                stacklevel=2,
            )
        scales = self._noise_scales
        self._mixture = mixture
        self.log_likelihood_ = height - len(values) * float(np.log(scales).sum())
        self.components_ = JointComponents(
            mixture.weights, mixture.means * scales, mixture.covariances * np.outer(scales, scales)
        )
        few = len(scales) <= MOST_COLUMNS
        self.distribution_ = joint_distribution(self.components_, self.perturbations, len(values)) if few else None
        return self

    def responsibilities(self, columns: Sequence[ArrayLike] | Floats) -> Floats:
        """γ(i, l) of E-step 0: a row for each perturbed row, a column for each component."""
        check_is_fitted(self)
        values = np.column_stack(checked_columns(self.perturbations, columns))
        return _expected(self._mixture, values / self._noise_scales)[0]

    def predict(self, columns: Sequence[ArrayLike] | Floats) -> NDArray[np.intp]:
        """The component with the greatest γ for each perturbed row: E-step 1, and the clusters of section 4.3."""
        return np.asarray(self.responsibilities(columns).argmax(axis=1))

    @property
    def _noise_scales(self) -> Floats:
        return np.array([perturbation.noise_scale for perturbation in self.perturbations])

    def _check_parameters(self) -> None:
        if (
            not isinstance(self.perturbations, Sequence)
            or len(self.perturbations) < 2
            or not all(isinstance(perturbation, LaplacePerturbation) for perturbation in self.perturbations)
        ):
            raise InvalidParameter(
                "Algorithm 2 takes two or more columns, all with Laplace noise.",
                "Use FiniteMixtureReconstruction for one, sudare.reconstruction.JointReconstruction for other noise.",
            )
        Numbers(1, MOST_COMPONENTS, whole=True).check("components", self.components)
        check_flags(rotate=self.rotate, cut_steps=self.cut_steps, in_bins=self.in_bins)
        check_iteration(self.update, self.learning_rate, self.tolerance, self.max_iter, self.n_init, self.random_state)

    def _start(self, rows: Floats, counts: Floats, generator: np.random.Generator) -> RotatedMixture:
        """Line 1: random weights, means among the rows, cut to the bounds; variances that add up to those of the rows."""
        bounds = np.array([perturbation.bounds for perturbation in self.perturbations]).T / self._noise_scales
        shares = counts / counts.sum()
        chosen = rows[generator.choice(len(rows), self.components, p=shares)]
        variances = shares @ (rows - shares @ rows) ** 2 / self.components**2
        return RotatedMixture(
            generator.dirichlet(np.ones(self.components)),
            np.clip(chosen, *bounds),
            np.repeat(np.eye(rows.shape[1])[np.newaxis], self.components, axis=0),
            np.repeat(variances[np.newaxis], self.components, axis=0),
        )

    def _fitted(self, rows: Floats, counts: Floats, start: RotatedMixture) -> tuple[RotatedMixture, float, int, bool]:
        """Steps until |L_old − L_new| < ε, until they run out, or until a number overflows: mixture, L, steps, and whether it is at rest."""
        now, before = start, -math.inf
        rate = self.learning_rate if self.update == "gradient" else None
        longest = 0.5 if self.cut_steps else math.inf
        last = now
        for number in range(1, self.max_iter + 1):
            with np.errstate(over="ignore", invalid="ignore"):
                shares, heights = _expected(now, rows)
            height = float(counts @ heights)
            if not math.isfinite(height):
                return last, before, number, False
            if abs(height - before) < self.tolerance:
                return now, height, number, True
            before, last = height, now
            now = _updated(now, rows, counts, shares, rotate=self.rotate, rate=rate, longest=longest)
        height = float(counts @ _expected(now, rows)[1])
        return (now, height, self.max_iter, False) if math.isfinite(height) else (last, before, self.max_iter, False)


def joint_distribution(
    components: JointComponents, perturbations: Sequence[LaplacePerturbation], records: int
) -> JointDistribution:
    """Normal components on cells between the bounds, and their clusters through the exact channel."""
    edges, channels, layouts = [], [], []
    for perturbation in perturbations:
        cells = joint_cell_count(perturbation, len(perturbations))
        edges.append(bin_edges(perturbation, cells))
        states = continuous_states(perturbation, edges[-1], cells, np.empty(0))
        channels.append(states.channel)
        layouts.append(Layout(states.edges, states.atoms))
    channel = ProductChannel(channels)
    low, high = np.array([perturbation.bounds for perturbation in perturbations]).T
    densities = cell_densities(components, low + (high - low) * Grid(channel.shape).points)
    return JointDistribution(
        layouts,
        (densities @ components.weights).reshape(channel.shape),
        records,
        {"Algorithm 2": 1.0},
        JointClusters.of(components, densities, channel, edges),
    )


def gathered(rows: Floats) -> tuple[Floats, Floats]:
    """Distinct rows on a grid of an eighth of the noise scale, which is the unit, and how often each came."""
    distinct, counts = np.unique(np.floor(rows * _BINS_IN_SCALE), axis=0, return_counts=True)
    return (distinct + 0.5) / _BINS_IN_SCALE, counts.astype(np.float64)


def cell_densities(components: JointComponents, places: Floats) -> Floats:
    """Shares of each component at the middles of cells, one column a component, cut off at the bounds."""
    logarithms = np.empty((len(places), len(components.weights)))
    for k, (mean, covariance) in enumerate(zip(components.means, components.covariances, strict=True)):
        centred = places - mean
        logarithms[:, k] = -0.5 * np.einsum("ni,ni->n", centred, np.linalg.solve(covariance, centred.T).T)
    heights = np.exp(logarithms - logarithms.max(axis=0))
    return np.asarray(heights / heights.sum(axis=0))


def _expected(now: RotatedMixture, rows: Floats) -> tuple[Floats, Floats]:
    """E-step 0: responsibilities γ, and log g of each row."""
    logarithms = now.log_densities(rows)
    top = logarithms.max(axis=1, keepdims=True)
    shares = np.exp(logarithms - top)
    total = shares.sum(axis=1, keepdims=True)
    return shares / total, (top + np.log(total))[:, 0]


def _updated(
    now: RotatedMixture,
    rows: Floats,
    counts: Floats,
    shares: Floats,
    *,
    rotate: bool,
    rate: float | None,
    longest: float,
) -> RotatedMixture:
    """E-steps 1 and 2 and the M-step: new axes, and the update along them; closed-form if there is no rate, else no more than `longest` times that."""
    nearest = shares.argmax(axis=1)
    totals = np.maximum(counts @ shares, _LEAST_TOTAL)
    axes, means, variances = [], [], []
    for k, old in enumerate(now.axes):
        own = principal_axes(rows, counts, nearest == k) if rotate else old
        centre = now.means[k] @ own
        along = ((own.T @ now.covariances[k]) * own.T).sum(axis=1)
        weights = counts * shares[:, k] / totals[k]
        offsets, squares = _moments_along(rows @ own, centre, along, weights)
        if rate is None:
            new, spread = centre + offsets, squares - offsets**2
        else:
            # α·∂L/∂μ = (α·N_l/σ²)·offset, and the closed-form step is the offset.
            pace = np.minimum(rate * totals[k] / along, longest)
            new = centre + pace * offsets
            spread = (np.sqrt(along) + pace * (squares - along) / np.sqrt(along)) ** 2
        axes.append(own)
        means.append(own @ new)
        variances.append(np.maximum(spread, LEAST_SCALE**2))
    return RotatedMixture(totals / counts.sum(), np.array(means), np.array(axes), np.array(variances))


def _moments_along(turned: Floats, centre: Floats, along: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """E[x − μ] and E[(x − μ)²] of one component along each of its axes."""
    offsets, squares = np.empty(len(centre)), np.empty(len(centre))
    for j in range(len(centre)):
        found = component_moments(np.ascontiguousarray(turned[:, j]), centre[j : j + 1], np.sqrt(along[j : j + 1]), 1.0)
        offset = found.mean[:, 0] - centre[j]
        offsets[j], squares[j] = weights @ offset, weights @ (found.variance[:, 0] + offset**2)
    return offsets, squares


def principal_axes(rows: Floats, counts: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """P of equation (20) for the rows assigned to a component; the original axes where there are too few."""
    if counts[chosen].sum() <= rows.shape[1]:
        return np.eye(rows.shape[1])
    covariance = np.cov(rows[chosen].T, fweights=counts[chosen].astype(np.int64))
    return np.asarray(np.linalg.eigh(covariance).eigenvectors)
