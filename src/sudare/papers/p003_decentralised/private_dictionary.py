"""The dictionary with ε: held-out gap against ε, ten members with a thousand records each. Faults: `detection_benchmark`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from sudare.dictionary import PatternDictionary
from sudare.papers.p003_decentralised.dictionary_figures import mixture_by_bic
from sudare.papers.p003_decentralised.made_up_consortia import chapter_truth, dictionary_scores
from sudare.papers.repetitions import estimated_series, repeated_results
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.report.plots import Panel, Series, curves

EPSILONS: Final = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
DELTA: Final = 1e-6
MEMBERS: Final = 10
ROWS: Final = 1000
START: Final = 8
# Wide public bounds: the patterns have means 0 and 5 and deviations up to 2.3.
BOUNDS: Final = (-15.0, 20.0)
TEST_ROWS: Final = 500


@dataclass(frozen=True)
class PrivateRun:
    """What one training gave."""

    patterns: int
    gap: float


def private_run(epsilon: float | None, seed: int, rows: int = ROWS, colluders: int = 1) -> PrivateRun:
    """One training at ε (None: exact sums) with fresh records and seeded noise of the same law."""
    truth, generator = chapter_truth(MEMBERS), np.random.default_rng([seed, 3])
    records, tests = truth.records(generator, rows), truth.records(generator, TEST_ROWS)
    model = PatternDictionary(
        START,
        bounds=BOUNDS,
        hide="nothing",
        epsilon=epsilon,
        delta=None if epsilon is None else DELTA,
        colluders=colluders,
        random_state=None if epsilon is None else seed,
    )
    fitted = model.fit(records)
    return PrivateRun(fitted.n_patterns_, truth.gap(dictionary_scores(fitted, tests), tests))


def own_gap(seed: int, rows: int = ROWS) -> float:
    """What members reach alone, without sharing anything."""
    truth, generator = chapter_truth(MEMBERS), np.random.default_rng([seed, 3])
    records, tests = truth.records(generator, rows), truth.records(generator, TEST_ROWS)
    own = [mixture_by_bic(table, 4, seed) for table in records[:3]]
    scores = [-model.score_samples(table) for model, table in zip(own, tests[:3], strict=True)]
    return truth.gap(scores, tests[:3])


def private_results(repeats: int, tell: Tell) -> tuple[ResultTable, list[Panel]]:
    """Gap against ε, and without ε."""
    rows: list[Sequence[Cell]] = []
    gaps = []
    for epsilon in (*EPSILONS, None):
        title = f"private dictionary at ε = {'∞' if epsilon is None else f'{epsilon:g}'}"
        runs = repeated_results(tell, title, repeats, partial(private_run, epsilon))
        gap = Estimate.of([run.gap for run in runs])
        found = sum(run.patterns == 3 for run in runs)
        rows.append(("none" if epsilon is None else epsilon, gap, f"{found} of {repeats}"))
        if epsilon is not None:
            gaps.append(gap)
    own = Estimate.of(repeated_results(tell, "own mixture", repeats, own_gap))
    rows.append(("own mixture, nothing shared", own, None))
    table = ResultTable(
        "The dictionary with ε: ten members, 1,000 records each, four sensors, three patterns",
        ("ε", "gap, nats", "K = 3 found"),
        rows,
        f"Replace-one records, δ = {DELTA:g}, towards everyone; each member knows its own share of the noise and no other. Bounds −15 to 20 are declared. "
        f"Seeded noise of the same law; ± one standard error over {repeats} seeds.",
    )
    return table, [
        curves(
            EPSILONS,
            [
                estimated_series("with ε", gaps),
                Series("own mixture", [own.value] * len(EPSILONS), dashed=True),
            ],
            x_label="ε",
            y_label="gap, nats",
            title="Held-out gap of the private dictionary",
            logarithmic=True,
        ),
    ]
