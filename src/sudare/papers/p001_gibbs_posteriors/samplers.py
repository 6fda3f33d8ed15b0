"""§4.3: how many steps each sampler needs until its distance is worth a charge, and how long a draw takes here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import expit

from sudare.array_types import Floats
from sudare.frames.rows import Rows
from sudare.gibbs import GibbsPosterior
from sudare.gibbs.gaussian_envelope import envelope
from sudare.gibbs.langevin import steps_needed
from sudare.gibbs.mechanisms import LogisticDraws, Sampled
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts
from sudare.linear.rows import bounded_rows
from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL, with_known_columns
from sudare.papers.datasets import data
from sudare.papers.study import ResultTable, Tell
from sudare.privacy.noise import SystemNoise
from sudare.report.plots import Panel, Series, curves
from sudare.schema import encode

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


def private_langevin_steps(smallest: float, largest: float) -> int:
    """Steps of Langevin that is private by itself (proofs/smooth_samplers.md): no distance is paid for, so they do not depend on one."""
    return steps_needed(smallest, largest)


def proximal_steps(width: int, smallest: float, largest: float, distance: float) -> float:
    """Steps of the proximal sampler for a total variation, from the same public numbers (proofs/proximal.md)."""
    pull = max((largest - smallest) / 8 - smallest, smallest)
    start = math.sqrt(width / 4 * math.log(largest / smallest))
    return math.ceil(math.log(start / distance) / math.log1p(smallest / pull))


def precisions(method: LogisticDraws) -> tuple[float, float]:
    """m and M, from public facts."""
    facts, beta = method.facts, method.inverse_temperature
    return beta * facts.penalty, beta * (facts.penalty + facts.rows * facts.norm_bound**2 / 4)


def measured_cases(tell: Tell, most: int | None = None) -> list[Case]:
    """One release each of three posteriors, or of so many of them."""
    cases = []
    every: tuple[tuple[str, int, Callable[[], tuple[Rows, float]]], ...] = (
        ("n = 1,000, p = 10, m/nβ = 1e-2", 3, lambda: synthetic_rows(1_000, 10)),
        ("n = 50,000, p = 100, m/nβ = 1e-3", 1, lambda: synthetic_rows(50_000, 100)),
        ("Adult, n = 32,561, p = 92, m/nβ = 1e-4", 1, census_rows),
    )
    for name, runs, make in every[:most]:
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
                    private_langevin_steps(smallest, largest),
                    int(proximal_steps(width, smallest, largest, distance)),
                    f"{case.expected_proposals:.2g}",
                )
            )
    return ResultTable(
        "§4.3: steps until a chain is near enough",
        (
            "posterior",
            "total variation γ",
            "Langevin whose distance is charged (Dalalyan 2017): steps",
            "Langevin, private by itself: steps",
            "proximal: steps",
            "exact, γ = 0: proposals expected",
        ),
        rows,
        f"Replace-one records, ε = {EPSILON:g}, δ = {DELTA:g}; (1 + e^ε)γ is added to δ (Theorem 12), so γ = 1e-7 takes 4% of this δ. Steps of chains follow from m and M = m + βnR²/4 alone. Langevin's grow like 1/γ² if their distance has to be charged, and do not depend on γ if their own privacy is used (γ is then a matter of accuracy); the proximal "
        "sampler's grow like log(1/γ). Proposals of the exact sampler are those that a Gaussian with the posterior's curvature at the mode would need. Computed, not sampled.",
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
        f'Replace-one records, ε = {EPSILON:g}, δ = {DELTA:g}, sampler="auto". One core; mode, envelope and draw; the first is the fastest of three. What is charged is known before: the distance of the chain that could have had to draw, also where the draw was exact. The share that was accepted is a fact about the records: a study may show it, a release does not.',
    )


def custom_times_table(tell: Tell, rows: int = 50_000, width: int = 30) -> ResultTable:
    """A loss that the library does not know, drawn by every sampler of `GibbsPosterior`."""
    held, norm_bound = synthetic_rows(rows, width)
    blocks = list(held.blocks())
    matrix, labels = (np.concatenate([block[part] for block in blocks]) for part in (0, 1))
    facts: dict[str, Any] = {"lipschitz": 1.0, "smoothness": 0.25, "laplacian": 0.25, "target_bounds": (-1, 1)}
    table = []
    cases: dict[str, dict[str, Any]] = {
        "Λ = 0.1": {"delta": DELTA, "regularization": 0.1},
        "Λ = 0.01": {"delta": DELTA, "regularization": 0.01},
        "Λ = 0.01, smoothness alone": {"delta": DELTA, "regularization": 0.01, "laplacian": None},
        "Λ = 0.01, Langevin": {"delta": DELTA, "regularization": 0.01, "sampler": "langevin"},
        "Λ = 0.02, pure, ‖θ‖ ≤ 4": {"delta": 0.0, "regularization": 0.02, "radius": 4.0, "loss_range": (0.0, 4.02)},
    }
    for name, options in cases.items():
        tell(f"a loss of one's own: {name}")
        model = GibbsPosterior(
            own_loss, own_gradient, epsilon=EPSILON, norm_bound=norm_bound, random_state=0, **(facts | options)
        )
        start = time.process_time()
        model.fit(matrix, labels[:, 0])
        taken = time.process_time() - start
        table.append((name, model.sampler_, model.total_variation_, float(f"{taken:.3g}")))
    return ResultTable(
        "§4.3: a loss of one's own, one release",
        ("posterior", "sampler", "total variation charged", "seconds of one core"),
        table,
        f"Replace-one records, ε = {EPSILON:g}, δ = {DELTA:g} or 0; n = {rows:,}, p = {width}, logistic loss given as a function with its slope, smoothness and, but where it says so, Laplacian. Whether a draw can be had is known before anything is charged. Seconds are those of a busy machine.",
    )


def own_loss(theta: Floats, X: Floats, y: Floats) -> Floats:
    """log(1 + e^{−yxᵀθ})."""
    return np.asarray(np.logaddexp(0, -y * (X @ theta)))


def own_gradient(theta: Floats, X: Floats, y: Floats) -> Floats:
    """That of the sum."""
    return np.asarray(-(y * expit(-y * (X @ theta))) @ X)


def steps_panel() -> Panel:
    """Steps against the distance, n = 1,000, p = 10."""
    facts = Facts(1_000, 10, 1.0, Logistic(), 10.0)
    smallest, largest = precisions(LogisticDraws(facts, EPSILON, DELTA))
    return curves(
        DISTANCES,
        [
            Series(
                "Langevin, distance charged",
                [langevin_steps(10, smallest, largest, distance) for distance in DISTANCES],
            ),
            Series("Langevin, private by itself", [private_langevin_steps(smallest, largest) for _ in DISTANCES]),
            Series("proximal", [proximal_steps(10, smallest, largest, distance) for distance in DISTANCES]),
        ],
        x_label="total variation γ",
        y_label="steps",
        title="§4.3: n = 1,000, p = 10, m/nβ = 1e-2",
        logarithmic=True,
    )
