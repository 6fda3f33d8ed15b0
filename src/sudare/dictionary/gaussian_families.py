"""Gaussian patterns: sparse precision matrices (section 1.5), and independent columns.

The prior is N(μ | 0, (λ₀Λ)⁻¹)·exp(−(ρ₀/2)‖Λ‖₁). The chapter prints the mean's prior with λ₀I (1.55), for which (1.59) is
not the maximum; with λ₀Λ it is, and the pair μ = m/(N+λ₀), Σ = (C − (N+λ₀)μμᵀ)/(N+1), ρ = ρ₀/(N+1) is exact: the
objective rises in every iteration. (1.61) has the wrong sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sudare.array_types import Booleans, Floats
from sudare.dictionary.dependency_selection import description_length
from sudare.dictionary.e_step import diagonal_gaussian_statistics, gaussian_statistics
from sudare.dictionary.exponential_families import (
    Expected,
    Family,
    Frame,
    Overall,
    Patterns,
    log_weights,
    positive,
    symmetric,
    upper_triangle,
)
from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.errors import DataError, InvalidParameter

_LOG_TWO_PI: Final = float(np.log(2 * np.pi))
# A start covers half of the overall variance, so that patterns overlap; a half of a split pattern keeps 36% along it.
_START_SHARE: Final = 0.5
_SPLIT_DISTANCE: Final = 0.8
_SOLVER_TOLERANCE: Final = 1e-9
_SMALLEST_VARIANCE: Final = 1e-12


@dataclass(frozen=True)
class _Gaussian(Family):
    """What both Gaussian families share: real columns, standardised by the opening sums."""

    shrinkage: float = 0.1
    sparsity: float = 0.5
    dtype: Literal["float64", "float32"] = "float64"

    def __post_init__(self) -> None:
        positive("shrinkage", self.shrinkage)
        positive("sparsity", self.sparsity)
        if self.dtype not in ("float64", "float32"):
            raise InvalidParameter(f"dtype is float64 or float32, got {self.dtype!r}.", "Use one of these words.")

    @property
    def precision(self) -> type[np.float64] | type[np.float32]:
        """Precision of the work on a record; sums are in float64 either way."""
        return np.float64 if self.dtype == "float64" else np.float32

    @property
    def rounding(self) -> float:
        """Seven digits, or five where the work on a record is in float32."""
        return 1e-7 if self.dtype == "float64" else 1e-5

    def frame(self, overall: Overall) -> Frame:
        """Overall mean 0 and variance 1."""
        return Frame(overall.mean, overall.deviation)

    def factors(self, variances: Floats, counts: Floats) -> Floats:
        """√(variance/moderated variance) of every pattern and column."""
        return np.asarray(np.sqrt(variances / moderated_variances(variances, counts)))

    def means(self, counts: Floats, sums: Floats) -> Floats:
        """μ = m/(N+λ₀) (1.59)."""
        return np.asarray(sums / (counts + self.shrinkage)[:, np.newaxis])


@dataclass(frozen=True)
class SparseGaussian(_Gaussian):
    """N(x | μ, Λ⁻¹) with few non-zero entries in Λ. `supports` (K × M × M) fixes which, and lifts their penalty."""

    name: ClassVar[str] = "sparse_gaussian"
    opens_with_pairs: ClassVar[bool] = True

    supports: tuple[Booleans, ...] | None = None

    def statistics(self, Z: Floats) -> Floats:
        """x and the upper triangle of xxᵀ (1.57)."""
        rows, columns = upper_triangle(Z.shape[1])
        return np.hstack([Z, Z[:, rows] * Z[:, columns]])

    def statistic_limits(self, overall: Overall) -> Floats:
        """Columns have mean 0 and variance 1, so Σ|z_i| and Σ|z_i z_j| are at most N, and stay so with weights r ≤ 1."""
        size = len(overall.mean)
        return np.full(size + size * (size + 1) // 2, float(overall.rows))

    def whole(self, overall: Overall) -> Floats:
        """Mean zero, and N times the correlations."""
        roots = overall.deviation
        correlations = overall.covariance / np.outer(roots, roots)
        return overall.rows * np.concatenate([np.zeros(len(roots)), correlations[upper_triangle(len(roots))]])

    def log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """(1.54)."""
        choleskys = np.linalg.cholesky(patterns["precisions"])
        log_roots = np.log(np.diagonal(choleskys, axis1=1, axis2=2)).sum(axis=1)
        densities = np.empty((len(Z), len(patterns)))
        for k, (mean, cholesky) in enumerate(zip(patterns["means"], choleskys, strict=True)):
            whitened = (Z - mean) @ cholesky
            densities[:, k] = log_roots[k] - 0.5 * np.einsum("ij,ij->i", whitened, whitened)
        return np.asarray(densities - 0.5 * Z.shape[1] * _LOG_TWO_PI)

    def expected(self, Z: Floats, weights: Floats, patterns: Patterns) -> Expected:
        """By the fused loops: no matrix of responsibilities is made."""
        choleskys = np.asarray(np.linalg.cholesky(patterns["precisions"]), dtype=np.float64)
        log_dets = 2 * np.log(np.diagonal(choleskys, axis1=1, axis2=2)).sum(axis=1)
        counts, sums, moments, log_likelihood = gaussian_statistics(
            Z, log_weights(weights), patterns["means"], choleskys, log_dets, self.precision
        )
        rows, columns = upper_triangle(Z.shape[1])
        return Expected(counts, np.hstack([sums, moments[:, rows, columns]]), float(log_likelihood))

    def conditional_log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """x_i given the others is normal with precision Λ_ii around x_i − (Λ(x−μ))_i/Λ_ii."""
        residuals = np.einsum("kij,nkj->nki", patterns["precisions"], Z[:, np.newaxis] - patterns["means"])
        diagonals = np.diagonal(patterns["precisions"], axis1=1, axis2=2)
        return np.asarray(0.5 * (np.log(diagonals) - _LOG_TWO_PI - residuals**2 / diagonals))

    def covariances(self, counts: Floats, statistics: Floats) -> Floats:
        """Σ = (C − (N+λ₀)μμᵀ)/(N+1), for every pattern."""
        size = column_count(statistics.shape[1])
        means = self.means(counts, statistics[:, :size])
        centred = symmetric(statistics[:, size:], size)
        centred -= (counts + self.shrinkage)[:, np.newaxis, np.newaxis] * means[:, :, np.newaxis] * means[:, np.newaxis]
        return np.asarray(centred / (counts + 1)[:, np.newaxis, np.newaxis])

    def updated(self, counts: Floats, statistics: Floats, previous: Patterns | None = None) -> Patterns:
        """(1.59) and the graphical lasso (1.60), exact for the corrected prior."""
        size = column_count(statistics.shape[1])
        covariances = self.covariances(counts, statistics)
        precisions = np.empty_like(covariances)
        for k, covariance in enumerate(covariances):
            penalty = self._penalty(k, counts[k], size)
            start = previous["precisions"][k] if previous is not None and len(previous) == len(counts) else None
            precisions[k] = graphical_lasso(
                covariance, penalty, _SOLVER_TOLERANCE, start, penalize_diagonal=True
            ).precision
        return Patterns({"means": self.means(counts, statistics[:, :size]), "precisions": precisions})

    def _penalty(self, k: int, count: float, size: int) -> Floats:
        """ρ₀/(N+1) everywhere; with a support, nothing within it, infinity outside, and the diagonal as ever."""
        penalty = np.full((size, size), self.sparsity / (count + 1))
        if self.supports is not None:
            diagonal = np.diag(penalty).copy()
            penalty = np.where(self.supports[k], 0.0, np.inf)
            np.fill_diagonal(penalty, diagonal)
        return penalty

    def log_prior(self, patterns: Patterns) -> float:
        """½ ln det Λ − (λ₀/2)μᵀΛμ − (ρ₀/2)‖Λ‖₁; with supports only the diagonal is penalised."""
        means, precisions = patterns["means"], patterns["precisions"]
        log_dets = np.linalg.slogdet(precisions)[1].sum()
        lengths = np.einsum("ki,kij,kj->", means, precisions, means)
        penalised = np.abs(precisions) if self.supports is None else np.diagonal(precisions, axis1=1, axis2=2)
        return float(0.5 * (log_dets - self.shrinkage * lengths - self.sparsity * penalised.sum()))

    def free_parameters(self, patterns: Patterns) -> int:
        """Means, and the non-zero entries of the precisions."""
        return int(patterns["means"].size + np.count_nonzero(np.triu(patterns["precisions"])))

    def description_length(self, counts: Floats, statistics: Floats, patterns: Patterns, rows: int) -> float:
        """Means and variances, and of the dependencies those that sparse patterns would keep, at the price of the extended BIC.

        Patterns are dense while their number is searched for. To pay for all their entries would refuse a pattern of fifty records
        in ten columns that a sparse description is well worth.
        """
        dependencies = sum(
            description_length(covariance, precision, count, rows)
            for covariance, precision, count in zip(
                self.covariances(counts, statistics), patterns["precisions"], counts, strict=True
            )
        )
        return 2 * patterns["means"].size * math.log(rows) + dependencies

    def start(self, points: Floats, overall: Overall) -> Patterns:
        """Means spread like the records as a whole, each with half of the overall covariance."""
        frame = self.frame(overall)
        correlation = overall.covariance / np.outer(frame.scale, frame.scale)
        values, vectors = np.linalg.eigh(correlation)
        # A direction without variance would have no precision.
        roots = np.sqrt(np.maximum(values, _SMALLEST_VARIANCE * len(values)))
        precision = (vectors / np.maximum(roots, 1e-3) ** 2) @ vectors.T / _START_SHARE
        means = points @ (vectors * roots).T
        return Patterns({"means": means, "precisions": np.repeat(precision[np.newaxis], len(points), axis=0)})

    def halves(self, pattern: Patterns, direction: Floats | None) -> Patterns:
        """Apart by 0.8 deviations to either side, along the longest axis unless another direction is given."""
        covariance = np.linalg.inv(pattern["precisions"][0])
        values, vectors = np.linalg.eigh(covariance)
        if direction is None:
            axis = vectors[:, -1] * np.sqrt(values[-1])
        else:
            axis = (vectors * np.sqrt(values)) @ (direction / np.linalg.norm(direction))
        remaining = covariance - _SPLIT_DISTANCE**2 * np.outer(axis, axis)
        precision = np.linalg.inv((remaining + remaining.T) / 2)
        means = pattern["means"][0] + _SPLIT_DISTANCE * np.stack([axis, -axis])
        return Patterns({"means": means, "precisions": np.stack([(precision + precision.T) / 2] * 2)})

    def natural(self, patterns: Patterns, frame: Frame) -> Patterns:
        """μ·scale + centre, and Λ divided by the scales of both columns."""
        return Patterns(
            {
                "means": frame.undone(patterns["means"]),
                "precisions": patterns["precisions"] / np.outer(frame.scale, frame.scale),
            }
        )

    def draws(self, patterns: Patterns, index: int, uniforms: Floats) -> Floats:
        """μ + L⁻ᵀ Φ⁻¹(u), where Λ = LLᵀ."""
        cholesky = np.linalg.cholesky(patterns["precisions"][index])
        return np.asarray(patterns["means"][index] + np.linalg.solve(cholesky.T, ndtri(uniforms).T).T)

    def moderated(self, patterns: Patterns, counts: Floats) -> Patterns:
        """Columns' variances within patterns by James and Stein; dependencies stay as they are."""
        variances = np.diagonal(np.linalg.inv(patterns["precisions"]), axis1=1, axis2=2)
        factors = self.factors(variances, counts)
        precisions = patterns["precisions"] * factors[:, :, np.newaxis] * factors[:, np.newaxis]
        return Patterns({"means": patterns["means"], "precisions": precisions})

    def with_supports(self, supports: tuple[Booleans, ...]) -> Self:
        """The family with fixed supports, whose entries are not penalised any more."""
        return replace(self, supports=supports)

    def for_patterns(self, chosen: NDArray[np.intp]) -> Self:
        """Returns the family with the supports of those patterns."""
        return self if self.supports is None else self.with_supports(tuple(self.supports[k] for k in chosen))


@dataclass(frozen=True)
class DiagonalGaussian(_Gaussian):
    """Independent normal columns within a pattern."""

    name: ClassVar[str] = "diagonal_gaussian"

    def statistics(self, Z: Floats) -> Floats:
        """x and x²."""
        return np.hstack([Z, Z**2])

    def statistic_limits(self, overall: Overall) -> Floats:
        """Returns bounds on the statistics, as for sparse patterns: N for sums and for squares."""
        return np.full(2 * len(overall.mean), float(overall.rows))

    def whole(self, overall: Overall) -> Floats:
        """Mean zero, and variance one."""
        return overall.rows * np.repeat([0.0, 1.0], len(overall.mean))

    def expected(self, Z: Floats, weights: Floats, patterns: Patterns) -> Expected:
        """By the fused loops."""
        counts, sums, squares, log_likelihood = diagonal_gaussian_statistics(
            Z, log_weights(weights), patterns["means"], patterns["precisions"], self.precision
        )
        return Expected(counts, np.hstack([sums, squares]), float(log_likelihood))

    def conditional_log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """Columns are independent, so the others do not matter."""
        squares = (Z[:, np.newaxis] - patterns["means"]) ** 2 * patterns["precisions"]
        return np.asarray(0.5 * (np.log(patterns["precisions"]) - _LOG_TWO_PI - squares))

    def updated(self, counts: Floats, statistics: Floats, previous: Patterns | None = None) -> Patterns:
        """Λ_i = (N+1)/(C_i − (N+λ₀)μ_i² + ρ₀): the diagonal case of the sparse update."""
        sums, squares = np.hsplit(statistics, 2)
        means = self.means(counts, sums)
        spread = squares - (counts + self.shrinkage)[:, np.newaxis] * means**2 + self.sparsity
        return Patterns({"means": means, "precisions": (counts + 1)[:, np.newaxis] / spread})

    def moderated(self, patterns: Patterns, counts: Floats) -> Patterns:
        """Columns' variances within patterns by James and Stein."""
        factors = self.factors(1 / patterns["precisions"], counts)
        return Patterns({"means": patterns["means"], "precisions": patterns["precisions"] * factors**2})

    def log_prior(self, patterns: Patterns) -> float:
        """½ Σ ln Λ_i − (λ₀/2)Σ Λ_i μ_i² − (ρ₀/2)Σ Λ_i."""
        precisions = patterns["precisions"]
        lengths = (precisions * patterns["means"] ** 2).sum()
        return float(0.5 * (np.log(precisions).sum() - self.shrinkage * lengths - self.sparsity * precisions.sum()))

    def start(self, points: Floats, overall: Overall) -> Patterns:
        """Means from the cloud; half of the overall variance."""
        return Patterns({"means": points.copy(), "precisions": np.full(points.shape, 1 / _START_SHARE)})

    def halves(self, pattern: Patterns, direction: Floats | None) -> Patterns:
        """Apart along a direction; without one, along all columns alike."""
        along = np.ones(pattern["means"].shape[1]) if direction is None else direction
        axis = _SPLIT_DISTANCE * along / np.linalg.norm(along) / np.sqrt(pattern["precisions"][0])
        precisions = 1 / (1 / pattern["precisions"][0] - axis**2)
        return Patterns(
            {"means": pattern["means"][0] + np.stack([axis, -axis]), "precisions": np.stack([precisions] * 2)}
        )

    def natural(self, patterns: Patterns, frame: Frame) -> Patterns:
        """In the units of the columns."""
        return Patterns(
            {"means": frame.undone(patterns["means"]), "precisions": patterns["precisions"] / frame.scale**2}
        )

    def draws(self, patterns: Patterns, index: int, uniforms: Floats) -> Floats:
        """μ + Φ⁻¹(u)/√Λ."""
        return np.asarray(patterns["means"][index] + ndtri(uniforms) / np.sqrt(patterns["precisions"][index]))


def moderated_variances(variances: Floats, counts: Floats) -> Floats:
    """Variances (patterns × columns) drawn towards each column's mean over patterns, as far as noise explains their differences.

    ln s² has variance 2/N. The positive-part rule of James and Stein (1961) on these logarithms has a smaller risk than none, whatever
    the true variances are, from three degrees of freedom on; where they truly differ it does next to nothing.
    """
    logs = np.log(variances)
    noise = 2 / counts[:, np.newaxis]
    centre = np.sum(logs / noise, axis=0) / np.sum(1 / noise)
    freedom = (len(counts) - 1) * variances.shape[1]
    distance = float(np.sum((logs - centre) ** 2 / noise))
    if freedom <= 2 or distance == 0:
        return variances
    return np.asarray(np.exp(centre + max(0.0, 1 - (freedom - 2) / distance) * (logs - centre)))


def column_count(statistics: int) -> int:
    """M from the length M + M(M+1)/2 of a sparse pattern's statistics."""
    size = int((np.sqrt(9 + 8 * statistics) - 3) / 2 + 0.5)
    if size + size * (size + 1) // 2 != statistics:
        raise DataError(f"{statistics} numbers are not means and an upper triangle.", "Give M + M(M+1)/2 of them.")
    return size


def partial_correlations(precisions: Floats) -> Floats:
    """r_ij = −Λ_ij/√(Λ_ii Λ_jj) (1.62), ones on the diagonal."""
    roots = np.sqrt(np.diagonal(precisions, axis1=-2, axis2=-1))
    correlations = -precisions / (roots[..., :, np.newaxis] * roots[..., np.newaxis, :])
    index = np.arange(precisions.shape[-1])
    correlations[..., index, index] = 1.0
    return np.asarray(correlations)
