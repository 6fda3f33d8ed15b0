"""The privacy core, measured: how much noise costs, what floating-point noise gives away, what composition saves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from sudare.array_types import Floats
from sudare.audit import Audit, distinguish_lowest_bits
from sudare.papers.datasets import data
from sudare.papers.own_studies.batch_composition import declared_batch
from sudare.papers.study import Estimate, Figure, ResultTable, Study, StudyResult, StudySettings, Tell
from sudare.privacy.accounting import Budget, Cost, Spent, gaussian_cost, pure_cost
from sudare.privacy.mechanisms import Laplace
from sudare.privacy.noise import SystemNoise
from sudare.report.plots import Panel, Series, compared_bars, curves
from sudare.statistics import PrivateHistogram, PrivateMean

EPSILONS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
GAUSSIAN_DELTA: Final = 1e-6
LOWEST_AGE, HIGHEST_AGE, AGE_BINS = 0.0, 120.0, 24
LEAK_EPSILONS: Final = (0.5, 1.0, 2.0)
LEAK_SAMPLES: Final = 20_000
CHARGES: Final = (1, 10, 25, 50, 100)
TOTAL_DELTA: Final = 1e-6


@dataclass(frozen=True)
class ErrorPoint:
    """Mean absolute errors at one (ε, δ), measured and expected."""

    epsilon: float
    delta: float
    mean: Estimate
    mean_theory: float
    count: Estimate
    count_theory: float


def run(tell: Tell, settings: StudySettings) -> StudyResult:
    """All three parts."""
    repeats = settings.repeats
    tell("reading Adult")
    ages = data("adult-train")["age"].to_numpy(dtype=np.float64)
    points = [
        error_point(ages, epsilon, delta, repeats, tell) for delta in (0.0, GAUSSIAN_DELTA) for epsilon in EPSILONS
    ]
    tell("looking at lowest bits")
    leaks = [(epsilon, *leak(epsilon, LEAK_SAMPLES)) for epsilon in LEAK_EPSILONS]
    tell("composing charges")
    small = gaussian_cost(0.1, 1e-8)
    pure = pure_cost(0.05)
    tables = [error_table(points, len(ages)), leak_table(leaks), composition_table(small, pure)]
    figures = [
        Figure("What noise costs", "Mean absolute errors against ε; bars are standard errors.", error_panels(points)),
        Figure("Lowest bits", "How often floating-point noise gives a record away.", [leak_panel(leaks)]),
        Figure("Composition", "The ε of many charges together.", [composition_panel(pure)]),
    ]
    return StudyResult(tables, figures)


# (a) What noise costs


def error_point(ages: Floats, epsilon: float, delta: float, repeats: int, tell: Tell) -> ErrorPoint:
    """Errors of mean age and of the counts of five-year groups, over repeated fits with the real noise."""
    tell(f"mean and histogram at ε = {epsilon:g}, δ = {delta:g}")
    column, bounds = ages[:, np.newaxis], (LOWEST_AGE, HIGHEST_AGE)
    true_mean = ages.mean()
    true_counts = np.histogram(ages, AGE_BINS, bounds)[0]
    mean = [abs(PrivateMean(epsilon, delta, bounds=bounds).fit(column).mean_[0] - true_mean) for _ in range(repeats)]
    counts = [
        np.abs(PrivateHistogram(epsilon, delta, bounds=bounds, bins=AGE_BINS).fit(column).counts_["x0"] - true_counts)
        for _ in range(repeats)
    ]
    step = (HIGHEST_AGE - LOWEST_AGE) / len(ages)
    return ErrorPoint(
        epsilon,
        delta,
        mean=Estimate.of(mean),
        mean_theory=step * (1 / epsilon if delta == 0 else expected_gaussian_error(1.0, epsilon, delta)),
        count=Estimate.of([errors.mean() for errors in counts]),
        count_theory=expected_laplace_count_error(2.0, epsilon)
        if delta == 0
        else expected_gaussian_error(math.sqrt(2), epsilon, delta),
    )


def expected_laplace_count_error(sensitivity: float, epsilon: float) -> float:
    """E|Z| of discrete Laplace noise, P(Z = z) ∝ p^|z| with p = e^(−ε/Δ): 2p/(1 − p²)."""
    p = math.exp(-epsilon / sensitivity)
    return 2 * p / (1 - p * p)


def expected_gaussian_error(sensitivity: float, epsilon: float, delta: float) -> float:
    """E|Z| of the Gaussian noise that (ε, δ) needs: σ√(2/π) with σ = Δ/μ and δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""

    def excess(mu: float) -> float:
        tail = math.exp(epsilon + float(norm.logcdf(-mu / 2 - epsilon / mu)))
        return float(norm.cdf(mu / 2 - epsilon / mu)) - tail - delta

    return sensitivity / float(brentq(excess, 1e-6, 50.0)) * math.sqrt(2 / math.pi)


def error_table(points: Sequence[ErrorPoint], rows: int) -> ResultTable:
    """Measured beside expected."""
    return ResultTable(
        "Mean absolute error on Adult's age",
        ("ε", "δ", "mean age, years", "theory", "count of a five-year group", "theory"),
        [(p.epsilon, p.delta, p.mean, p.mean_theory, p.count, p.count_theory) for p in points],
        f"{rows:,} rows, replace-one records; bounds 0 to 120 years are declared; δ = 0 is Laplace, δ > 0 Gaussian noise. "
        "± is one standard error. Theory is the closed form of the noise.",
    )


def error_panels(points: Sequence[ErrorPoint]) -> list[Panel]:
    """Error against ε, for the mean and for the counts."""
    by_delta = [[point for point in points if point.delta == delta] for delta in (0.0, GAUSSIAN_DELTA)]
    names = ("δ = 0", f"δ = {GAUSSIAN_DELTA:g}")

    def panel(title: str, unit: str, measured: str, theory: str) -> Panel:
        series = [
            Series(
                name,
                [getattr(point, measured).value for point in group],
                [getattr(point, measured).standard_error for point in group],
            )
            for name, group in zip(names, by_delta, strict=True)
        ]
        expected = [Series("theory", [getattr(point, theory) for point in group], dashed=True) for group in by_delta]
        return curves(EPSILONS, [*series, *expected], x_label="ε", y_label=unit, title=title, logarithmic=True)

    return [
        panel("Error of the mean age", "years", "mean", "mean_theory"),
        panel("Error of a five-year group's count", "people", "count", "count_theory"),
    ]


# (b) What floating-point noise gives away


def leak(epsilon: float, samples: int) -> tuple[Audit, Audit]:
    """What the lowest bits of value + noise show of the value: numpy's Laplace noise, and ours, on neighbours 0 and 1."""
    generator = np.random.default_rng(0)
    mechanism, source = Laplace(1.0, epsilon), SystemNoise()
    pair = np.zeros(1), np.ones(1)
    naive = distinguish_lowest_bits(
        lambda value, count: value + generator.laplace(scale=1 / epsilon, size=(count, 1)),
        pair,
        epsilon,
        samples,
        batched=True,
    )
    ours = distinguish_lowest_bits(
        lambda value, count: mechanism.draws(value, count, source), pair, epsilon, samples, batched=True
    )
    return naive, ours


def event_shares(audit: Audit) -> tuple[float, float]:
    """How often the most telling event was seen on either neighbour, in percent."""
    counts = audit.counts
    return (
        100 * counts.hits_where_likelier / counts.trials_where_likelier,
        100 * counts.hits_where_rarer / counts.trials_where_rarer,
    )


def leak_table(leaks: Sequence[tuple[float, Audit, Audit]]) -> ResultTable:
    """Claimed beside measured, and how often the telling bits were seen."""
    rows = []
    for epsilon, naive, ours in leaks:
        shares = [f"{likelier:.1f} / {rarer:.1f} %" for likelier, rarer in map(event_shares, (naive, ours))]
        rows.append((epsilon, naive.epsilon_lower_bound, shares[0], ours.epsilon_lower_bound, shares[1]))
    return ResultTable(
        "Lowest bits of value + Laplace noise",
        ("claimed ε", "numpy: ε at least", "numpy: seen", "ours: ε at least", "ours: seen"),
        rows,
        f"Neighbours: the numbers 0 and 1 (replace-one, sensitivity 1), δ = 0; {LEAK_SAMPLES:,} draws on each, bounds right with "
        "probability 1 − 10⁻⁶. Seen: how often the most telling bits appear on either neighbour; on one and never on the other "
        "refutes every ε.",
    )


def leak_panel(leaks: Sequence[tuple[float, Audit, Audit]]) -> Panel:
    """Measured ε of both beside the claim."""
    return compared_bars(
        [f"ε = {epsilon:g}" for epsilon, _, _ in leaks],
        [naive.epsilon_lower_bound for _, naive, _ in leaks],
        [ours.epsilon_lower_bound for _, _, ours in leaks],
        names=("numpy noise", "ours"),
        x_label="claimed",
        y_label="ε shown by lowest bits",
        title="What the lowest bits give away",
    )


# (c) What composition saves


def composed(cost: Cost, charges: int) -> tuple[float, float, float]:
    """ε of so many equal charges at TOTAL_DELTA: plain sum, Gaussian filter, one batch declared beforehand."""
    spent = Spent.of([cost] * charges)
    plain = float(spent.epsilon)
    filtered = Budget.of(max(plain, 1.0), TOTAL_DELTA, "gaussian").shown(spent)[0]
    return plain, filtered, float(declared_batch([cost] * charges, TOTAL_DELTA).epsilon)


def composition_table(gaussian: Cost, pure: Cost) -> ResultTable:
    """What a hundred small charges add up to."""
    return ResultTable(
        "A hundred small charges",
        ("charges", "each", "basic: ε", "Gaussian filter: ε", "declared batch: ε"),
        [
            (100, "Gaussian, ε = 0.1, δ = 1e-8", *composed(gaussian, 100)),
            (100, "pure, ε = 0.05", *composed(pure, 100)),
        ],
        "Replace-one records, total δ = 1e-6. Basic and Gaussian filters hold for charges chosen one after the other; the batch, composed by "
        "privacy loss distributions, must be declared before it starts. Computed, not sampled: no standard errors.",
    )


def composition_panel(cost: Cost) -> Panel:
    """ε against the number of charges."""
    columns = list(zip(*(composed(cost, charges) for charges in CHARGES), strict=True))
    names = ("basic", "Gaussian filter", "declared batch")
    return curves(
        CHARGES,
        [Series(name, column) for name, column in zip(names, columns, strict=True)],
        x_label="pure charges of ε = 0.05",
        y_label="total ε at δ = 1e-6",
        title="What charges add up to",
    )


STUDY: Final = Study(
    title="The privacy core: error against ε, floating-point leaks, composition",
    paper="none: the ground that the papers stand on",
    repeats=20,
    run=run,
)
