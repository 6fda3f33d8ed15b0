"""§4.1 and §4.2: the inverse temperature that a promise allows, by the paper's bounds where they hold and by the tight one."""

from __future__ import annotations

import math
from typing import Final

from scipy.special import ndtr

from sudare.errors import InvalidParameter
from sudare.papers.p001_gibbs_posteriors.inverse_temperatures import (
    concentration_beta,
    corollary_10_beta,
    gaussian_beta,
)
from sudare.papers.p001_gibbs_posteriors.theorems import d_plus, exponential_mechanism_beta, privacy_loss_tail
from sudare.papers.study import Cell, ResultTable
from sudare.privacy.accounting import gaussian_delta
from sudare.report.plots import Panel, Series, curves

DELTA: Final = 1e-5
ROW_COUNTS: Final = (100, 1_000, 10_000)
REGULARIZATIONS: Final = (1e-3, 1e-2, 1e-1)
EPSILONS: Final = (0.1, 1.0, 5.0)
DELTAS: Final = (1e-3, 1e-5, 1e-8)
CURVE_EPSILONS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# §4.2: records in [−a, a], and the interval [−b, b] with b = a + α·τ, for which the paper's L is a + b.
LARGEST_RECORD, CHEBYSHEV = 1.0, 2.0


def printed_beta(epsilon: float, delta: float, precision: float) -> float | None:
    """Corollary 10 (ii) for losses with L = 1; None where it is not proved."""
    try:
        return corollary_10_beta(epsilon, delta, 1.0, precision)
    except InvalidParameter:
        return None


def logistic_row(rows: int, regularization: float, epsilon: float, delta: float) -> tuple[Cell, ...]:
    """n, λ, ε, δ and the three bounds."""
    precision = rows * regularization
    tight = gaussian_beta(epsilon, delta, 1.0, precision)
    printed = printed_beta(epsilon, delta, precision)
    return (
        rows,
        regularization,
        epsilon,
        delta,
        "not proved" if printed is None else printed,
        concentration_beta(epsilon, delta, 1.0, precision),
        tight,
        "–" if printed is None else f"{tight / printed:.2f}",
    )


def logistic_table() -> ResultTable:
    """§4.1: β against each of n, λ, ε and δ, the others fixed."""
    settings = [
        *((rows, 1e-2, 1.0, DELTA) for rows in ROW_COUNTS),
        *((1_000, regularization, 1.0, DELTA) for regularization in REGULARIZATIONS),
        *((1_000, 1e-2, epsilon, DELTA) for epsilon in EPSILONS),
        *((1_000, 1e-2, 1.0, delta) for delta in DELTAS),
    ]
    return ResultTable(
        "§4.1: inverse temperatures for logistic regression",
        ("n", "λ", "ε", "δ", "Corollary 10 (ii), eq. 27", "Theorem 8", "tight", "tight over printed"),
        [logistic_row(*setting) for setting in settings],
        "Replace-one records; δ as stated. Prior N(0, I/nλ), rows of norm 1 with the bias column counted: the paper's ‖z‖ ≤ R with a constant column of 1 has L = √(R² + 1), not R. Corollary 10 (ii) is proved up to "
        "ε ≈ 1 and false from ε ≈ 9 (δ = 1e-5), so it is not used beyond. All three grow like √(nλ): no row lets n help more than that, because a logistic loss is not strongly convex. Computed, not sampled.",
    )


def normal_table() -> ResultTable:
    """§4.2: β for the mean of a normal law on an interval, σ = τ = 1."""
    paper_slope = 2 * LARGEST_RECORD + CHEBYSHEV
    rows: list[tuple[Cell, ...]] = []
    for count in (1, 10, 100, 1_000):
        for epsilon in (0.1, 1.0):
            printed = concentration_beta(epsilon, DELTA, paper_slope, 1.0, 1.0, count)
            tight = gaussian_beta(epsilon, DELTA, LARGEST_RECORD, 1.0, 1.0, count)
            deviation = 1 / math.sqrt(1 + count * tight)
            rows.append((count, epsilon, printed, tight, f"{tight / printed:.1f}", deviation))
    return ResultTable(
        "§4.2: the mean of a normal law on an interval",
        (
            "n",
            "ε",
            "eq. 32 (+4uC′, C(1 + log …) = 1, L = a + b)",
            "tight, L = a",
            "ratio",
            "deviation of the draw, tight",
        ),
        rows,
        f"Replace-one records in [−1, 1], δ = {DELTA:g}; a = σ = τ = 1, α = {CHEBYSHEV:g}, so b = {LARGEST_RECORD + CHEBYSHEV:g} and C′ = 2(a + b)². The paper leaves C unknown: restricting a strongly log-concave law to a convex set "
        "keeps its log-Sobolev constant, so C(1 + log …) is 1. Eq. 32's root needs + where − is printed. In the difference of two losses θ cancels, so L = a is enough and the interval may be any. Computed, not sampled.",
    )


def tail_table() -> ResultTable:
    """Theorem 8 beside the exact tail of the privacy loss for linear losses, where it is N(μ²/2, μ²)."""
    rows: list[tuple[Cell, ...]] = []
    for epsilon in (0.1, 1.0, 5.0):
        beta = concentration_beta(epsilon, DELTA, 1.0, 1.0)
        divergence = d_plus(beta, 1, 0.0, 1.0, 1.0)
        exact_tail = float(ndtr(-(epsilon - divergence) / (2 * beta)))
        rows.append(
            (
                epsilon,
                beta,
                divergence,
                privacy_loss_tail(epsilon, divergence),
                exact_tail,
                gaussian_delta(2 * beta, epsilon),
            )
        )
    return ResultTable(
        "Theorem 8: the tail of the privacy loss",
        (
            "ε",
            "β",
            "D = 2L²β²/m (eq. 16)",
            "bound on the tail (eq. 17)",
            "exact tail, linear losses",
            "exact δ, linear losses",
        ),
        rows,
        f"Replace-one records, L = m = 1, β such that eq. 17 is δ = {DELTA:g}. Eq. 16 holds with equality for linear losses. By Theorem 4 a tail is a δ; both steps, from the tail's bound to the tail and from the tail to δ, give something away. Computed, not sampled.",
    )


def pure_table() -> ResultTable:
    """Theorems 2 and 3 beside Corollary 10 for logistic losses on a ball."""
    rows: list[tuple[Cell, ...]] = []
    for epsilon in (0.1, 1.0, 5.0):
        for radius in (2.0, 4.0, 8.0):
            pure = exponential_mechanism_beta(epsilon, radius)
            rows.append((epsilon, radius, pure, *(gaussian_beta(epsilon, DELTA, 1.0, n * 0.01) for n in ROW_COUNTS)))
    return ResultTable(
        "Theorems 2 and 3: pure inverse temperatures on a ball",
        ("ε", "radius B", "β, pure", *(f"β, δ = {DELTA:g}, n = {n:,}, λ = 0.01" for n in ROW_COUNTS)),
        rows,
        "Replace-one records; rows of norm 1, ‖θ‖ ≤ B, so that logistic losses lie in an interval of length B: Δ₁ = B and β = ε/2B. Neither n nor λ enters the pure β, as the paper says; the one with δ grows like √(nλ). Computed, not sampled.",
    )


def gain_panel() -> Panel:
    """β against ε at n = 1,000, λ = 0.01."""
    precision = 10.0
    tight = [gaussian_beta(epsilon, DELTA, 1.0, precision) for epsilon in CURVE_EPSILONS]
    theorem = [concentration_beta(epsilon, DELTA, 1.0, precision) for epsilon in CURVE_EPSILONS]
    printed = [epsilon / 2 * math.sqrt(precision / (1 + 2 * math.log(1 / DELTA))) for epsilon in CURVE_EPSILONS]
    return curves(
        CURVE_EPSILONS,
        [
            Series("tight", tight),
            Series("Theorem 8", theorem),
            Series("eq. 27 as printed (proved up to ε ≈ 1)", printed, dashed=True),
        ],
        x_label="ε (δ = 1e-5, replace-one)",
        y_label="β",
        title="§4.1: n = 1,000, λ = 0.01",
        logarithmic=True,
    )
