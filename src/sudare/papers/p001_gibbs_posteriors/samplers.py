"""§4.3: how many steps each sampler needs until its distance is worth a charge, and how long a draw takes here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sudare.frames.rows import Rows
from sudare.gibbs.gaussian_envelope import envelope
from sudare.gibbs.mechanisms import LogisticDraws, Sampled
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.rows import bounded_rows
from sudare.papers.adult import ADULT_SCHEMA, LABEL, with_known_columns
from sudare.papers.datasets import data
from sudare.papers.study import ResultTable, Tell
from sudare.privacy.noise import SystemNoise
from sudare.report.plots import Panel, Series, curves
from sudare.schema import encode

Floats = NDArray[np.float64]

EPSILON, DELTA = 1.0, 1e-5
DISTANCES: Final = (1e-3, 1e-5, 1e-7, 1e-10, 1e-13)
SEED: Final = 20150612


@dataclass(frozen=True)
class Case:
    """A posterior to draw from, how it was drawn from, and what was measured."""

    name: str
    method: LogisticDraws
    processor_seconds: float
    sampled: Sampled
    expected_proposals: float


def langevin_steps(width: int, smallest: float, largest: float, distance: float) -> float:
    """Steps of unadjusted Langevin for a total variation, by the explicit bound of Dalalyan (2017, Theorem 2).

    TV ≤ ½·exp((p/4)log(M/m) − Tm/2) + √(pM²Th/8) for small steps h and T = Kh; half of the distance to each term.
    """
    duration = 2 / smallest * (width / 4 * math.log(largest / smallest) + math.log(1 / distance))
    step = 2 * distance**2 / (width * largest**2 * duration)
    return duration / step


def proximal_steps(width: int, smallest: float, largest: float, distance: float) -> float:
    """Steps of the proximal sampler for a total variation, from the same public numbers (proofs/proximal.md)."""
    pull = max((largest - smallest) / 8 - smallest, smallest)
    start = math.sqrt(width / 4 * math.log(largest / smallest))
    return math.ceil(math.log(start / distance) / math.log1p(smallest / pull))


def precisions(method: LogisticDraws) -> tuple[float, float]:
    """m and M, from public facts."""
    facts, beta = method.facts, method.inverse_temperature
    return beta * facts.penalty, beta * (facts.penalty + facts.rows * facts.norm_bound**2 / 4)


def measured_cases(tell: Tell) -> list[Case]:
    """One release each of three posteriors."""
    cases = []
    for name, runs, make in (
        ("n = 1,000, p = 10, m/nβ = 1e-2", 3, lambda: synthetic_rows(1_000, 10)),
        ("n = 50,000, p = 100, m/nβ = 1e-3", 1, lambda: synthetic_rows(50_000, 100)),
        ("Adult, n = 32,561, p = 92, m/nβ = 1e-4", 1, census_rows),
    ):
        tell(f"sampling: {name}")
        cases.append(measured(name, runs, make, float(name.rpartition(" ")[2])))
    return cases


def measured(name: str, runs: int, make: Callable[[], tuple[Rows, float]], ratio: float) -> Case:
    """Processor time of one release, mode and envelope included: the least of so many runs. The first of several compiles code."""
    rows, norm_bound = make()
    facts = Facts(rows.count, rows.width, norm_bound, Logistic(), ratio * rows.count * norm_bound**2)
    method = LogisticDraws(facts, EPSILON, DELTA, sampler="auto")
    source = SystemNoise()
    taken = math.inf
    for _ in range(runs):
        start = time.process_time()
        sampled = method.sampled(rows, source)
        taken = min(taken, time.process_time() - start)
    expected = 1 / envelope(method.posterior(rows)).expected_acceptance
    return Case(name, method, taken, sampled, expected)


def synthetic_rows(count: int, width: int) -> tuple[Rows, float]:
    """Rows in the unit ball whose columns fade, with labels of a logistic model."""
    random = np.random.default_rng((SEED, count, width))
    matrix = random.standard_normal((count, width)) * (1 + np.arange(width)) ** -0.25
    matrix /= np.linalg.norm(matrix, axis=1).max()
    normal = random.standard_normal(width)
    labels = np.where(random.random(count) < expit(8 * matrix @ normal / np.linalg.norm(normal)), 1.0, -1.0)
    return Rows.held(bounded_rows(matrix, 1.0)[0], labels[:, np.newaxis]), 1.0


def census_rows() -> tuple[Rows, float]:
    """Adult's training rows, binned."""
    table = with_known_columns(data("adult-train"))
    norm_bound = ADULT_SCHEMA.norm_bound("binned")
    matrix = bounded_rows(encode(ADULT_SCHEMA, table, "binned").matrix, norm_bound)[0]
    labels = np.where(table[LABEL].to_numpy() == ">50K", 1.0, -1.0)
    return Rows.held(matrix, labels[:, np.newaxis]), norm_bound


def steps_table(cases: list[Case]) -> ResultTable:
    """Steps by sampler and distance."""
    rows = []
    for case in cases:
        smallest, largest = precisions(case.method)
        for distance in (1e-7, 1e-13):
            width = case.method.facts.width
            rows.append(
                (
                    case.name,
                    distance,
                    f"{langevin_steps(width, smallest, largest, distance):.1e}",
                    int(proximal_steps(width, smallest, largest, distance)),
                    f"{case.expected_proposals:.2g}",
                )
            )
    return ResultTable(
        "§4.3: steps until a chain is near enough",
        (
            "posterior",
            "total variation γ",
            "Langevin (Dalalyan 2017): steps",
            "proximal: steps",
            "exact, γ = 0: proposals expected",
        ),
        rows,
        f"Replace-one records, ε = {EPSILON:g}, δ = {DELTA:g}; (1 + e^ε)γ is added to δ (Theorem 12), so γ = 1e-7 takes 4% of this δ. Steps of chains follow from m and M = m + βnR²/4 alone. Langevin's grow like 1/γ², the proximal "
        "sampler's like log(1/γ). Proposals of the exact sampler are those that a Gaussian with the posterior's curvature at the mode would need. Computed, not sampled.",
    )


def times_table(cases: list[Case]) -> ResultTable:
    """What one release takes."""
    return ResultTable(
        "One release: time of the processor",
        ("posterior", "sampler", "share of proposals accepted", "total variation charged", "seconds"),
        [
            (
                case.name,
                case.sampled.sampler,
                float(f"{case.sampled.acceptance:.2g}"),
                float(case.method.cost.total_variation),
                float(f"{case.processor_seconds:.3g}"),
            )
            for case in cases
        ],
        f'Replace-one records, ε = {EPSILON:g}, δ = {DELTA:g}, sampler="auto". One core; mode, envelope and draw; the first is the fastest of three. The share that was accepted is a fact about the records: a study may show it, a release does not.',
    )


def steps_panel() -> Panel:
    """Steps against the distance, n = 1,000, p = 10."""
    facts = Facts(1_000, 10, 1.0, Logistic(), 10.0)
    smallest, largest = precisions(LogisticDraws(facts, EPSILON, DELTA))
    return curves(
        DISTANCES,
        [
            Series("Langevin", [langevin_steps(10, smallest, largest, distance) for distance in DISTANCES]),
            Series("proximal", [proximal_steps(10, smallest, largest, distance) for distance in DISTANCES]),
        ],
        x_label="total variation γ",
        y_label="steps",
        title="§4.3: n = 1,000, p = 10, m/nβ = 1e-2",
        logarithmic=True,
    )
