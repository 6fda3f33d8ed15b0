"""Gaussian patterns as section 1.5 of Ide (2021) prints them: (1.54) to (1.61), each Λ by Algorithm 3.

The corrected pair is the product's `SparseGaussian`. What is wrong in print: (1.59) is the maximum for another prior than (1.55), and (1.61)
drops the term 2 Tr(Λ m̄ μᵀ) of the line before, so that its sign is wrong. `sign="right"` puts the sign right and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from sudare.array_types import Floats
from sudare.dictionary.exponential_families import Patterns, positive, symmetric
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.errors import InvalidParameter, NotSolved
from sudare.papers.p003_decentralised.printed_graphical_lasso import graphical_lasso_as_printed

Sign = Literal["printed", "right"]
Solver = Literal["algorithm3", "newton"]

# Algorithm 3's "until convergence": no entry of W moves by more in a round over all columns.
_ALGORITHM_3_TOLERANCE: Final = 1e-8


@runtime_checkable
class ExponentialFamily(Protocol):
    """What Algorithm 1 needs of a family (1.14): T(x), ln f(x | θ), and the θ that maximises (1.17). The product's families have these too."""

    def statistics(self, Z: Floats, /) -> Floats:
        """T(x) of every record, one a row."""

    def log_densities(self, Z: Floats, patterns: Patterns, /) -> Floats:
        """ln f(x | θ_k), records × patterns."""

    def updated(self, counts: Floats, statistics: Floats, /) -> Patterns:
        """θ_k from N_k and T_k (1.17)."""

    def log_prior(self, patterns: Patterns, /) -> float:
        """Σ ln p(θ_k) (1.5), up to a constant per pattern."""


@dataclass(frozen=True)
class PrintedGaussian:
    """N(μ, Λ⁻¹) with the prior (1.55), updated by (1.59), (1.60) and (1.61); `lambda0` and `rho0` are λ₀ and ρ₀."""

    lambda0: float = 0.1
    rho0: float = 1.0
    sign: Sign = "printed"
    solver: Solver = "algorithm3"

    def __post_init__(self) -> None:
        positive("lambda0", self.lambda0)
        positive("rho0", self.rho0)
        for name, words in (("sign", get_args(Sign)), ("solver", get_args(Solver))):
            if getattr(self, name) not in words:
                raise InvalidParameter(f"{name} is not one of {', '.join(words)}.", "Use one of these words.")

    def statistics(self, Z: Floats) -> Floats:
        """x and the upper triangle of xxᵀ: Σ r of these are m̄_k and C̄_k (1.57)."""
        return SparseGaussian().statistics(Z)

    def log_densities(self, Z: Floats, patterns: Patterns) -> Floats:
        """The logarithm of (1.54)."""
        return SparseGaussian().log_densities(Z, patterns)

    def updated(self, counts: Floats, statistics: Floats) -> Patterns:
        """μ_k = m̄_k/(λ₀ + N̄_k) (1.59), Σ_k = C̄_k/N̄_k ± μμᵀ (1.61), Λ_k by (1.60). Raise NotSolved where Λ_k is no precision."""
        columns = columns_of_statistics(statistics.shape[1])
        means = statistics[:, :columns] / (self.lambda0 + counts)[:, np.newaxis]
        second = symmetric(statistics[:, columns:], columns) / counts[:, np.newaxis, np.newaxis]
        products = means[:, :, np.newaxis] * means[:, np.newaxis]
        covariances = second + products if self.sign == "printed" else second - products
        precisions = [self._precision(*pair) for pair in zip(covariances, counts, strict=True)]
        return Patterns({"means": means, "precisions": np.stack(precisions)})

    def log_prior(self, patterns: Patterns) -> float:
        """The logarithm of (1.55), up to a constant."""
        sizes = self.lambda0 * np.square(patterns["means"]).sum() + self.rho0 * np.abs(patterns["precisions"]).sum()
        return float(-0.5 * sizes)

    def _precision(self, covariance: Floats, count: float) -> Floats:
        penalty = self.rho0 / float(count)
        if self.solver == "newton":
            return graphical_lasso(covariance, penalty, penalize_diagonal=True).precision
        found = graphical_lasso_as_printed(covariance, penalty, tol=_ALGORITHM_3_TOLERANCE)
        if not np.isfinite(found.gap):
            raise NotSolved(
                "Algorithm 3 ended with a matrix that is no precision.",
                # With the wrong sign Σ grows with the square of where records lie, which no penalty of the usual size makes up for.
                "Subtract the columns' means first, use a larger rho0, or updates='corrected'."
                if self.sign == "printed"
                else "Use a larger rho0, or updates='corrected'.",
            )
        return found.precision


def columns_of_statistics(width: int) -> int:
    """M, from the M + M(M + 1)/2 numbers of x and the upper triangle of xxᵀ."""
    return int((np.sqrt(9 + 8 * width) - 3) / 2 + 0.5)
