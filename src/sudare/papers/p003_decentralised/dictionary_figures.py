"""The dictionary on the chapter's example (figure 1.8) and on a harder one, repeated: patterns, held-out gap, dependencies, anomalies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from scipy.special import logsumexp
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture

from sudare.array_types import Floats
from sudare.dictionary import PatternDictionary
from sudare.papers.p003_decentralised.made_up_consortia import (
    Truth,
    chapter_truth,
    dictionary_scores,
    hard_truth,
    support_f1,
)
from sudare.papers.repetitions import Measurements, estimated_series, measurements, noted, repeated_results, repetitions
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.report.plots import Panel, curves

FIGURE_1_8_SEED: Final = 2021
CHAPTER_ROWS: Final = 300
STARTS: Final = (6, 12)
HARD_ROWS: Final = 150
HARD_START: Final = 10
RECORD_COUNTS: Final = (30, 100, 300)
TEST_ROWS: Final = 2000


@dataclass(frozen=True)
class Recovery:
    """One training on data whose truth is known."""

    patterns: int
    gap: float
    f1: float
    sums: int
    numbers: int


def recovered(truth: Truth, rows: int, start: int, seed: int, test_rows: int = TEST_ROWS) -> Recovery:
    """Train on fresh records and compare with the truth on others. Sums are exact whatever hides them, so nothing does here."""
    generator = np.random.default_rng(seed)
    fitted = PatternDictionary(start, hide="nothing").fit(truth.records(generator, rows))
    tests = truth.records(generator, test_rows)
    gap = truth.gap(dictionary_scores(fitted, tests), tests)
    return Recovery(fitted.n_patterns_, gap, support_f1(fitted, truth), fitted.n_sums_, fitted.n_numbers_)


def informed_gap(truth: Truth, rows: int, seed: int, test_rows: int = TEST_ROWS) -> float:
    """The gap of somebody who knows labels and supports, on the records that `recovered` learns from at this seed."""
    generator = np.random.default_rng(seed)
    fitted = truth.fitted_with_labels(truth.labelled_records(generator, rows))
    tests = truth.records(generator, test_rows)
    return truth.gap([fitted.model(member).score_samples(table) for member, table in enumerate(tests)], tests)


def recovery_table(repeats: int, tell: Tell) -> ResultTable:
    """The chapter's example from six and from twelve patterns, and with labels and supports told."""
    truth = chapter_truth()
    rows: list[Sequence[Cell]] = []
    for start in STARTS:
        title = f"chapter's example from {start} patterns"
        runs = repeated_results(tell, title, repeats, partial(recovered, truth, CHAPTER_ROWS, start))
        rows.append(
            (
                start,
                f"{sum(run.patterns == 3 for run in runs)} of {repeats}",
                float(np.median([run.gap for run in runs])),
                Estimate.of([run.gap for run in runs]),
                Estimate.of([run.f1 for run in runs]),
                int(np.median([run.sums for run in runs])),
                int(np.median([run.numbers for run in runs])),
            )
        )
    title = "chapter's example with labels and supports told"
    gaps = repeated_results(tell, title, repeats, partial(informed_gap, truth, CHAPTER_ROWS))
    rows.append(
        ("labels and supports told, records in one place", None, float(np.median(gaps)), Estimate.of(gaps), *[None] * 3)
    )
    return ResultTable(
        "The chapter's example: three members, three patterns, four sensors, 300 records each",
        ("K₀", "K = 3 found", "median gap, nats", "mean gap", "F1 of dependencies", "sums", "numbers shown"),
        rows,
        f"No ε: exact sums, 3,600 numbers held; {repeats} seeds, ± one standard error. Gap: held-out −ln p minus that of the truth. The last row "
        "is told from which pattern each record comes and which precisions are zero. The chapter prints one run and no gap.",
    )


@dataclass(frozen=True)
class Compared:
    """Gaps of the dictionary and of what members could do otherwise."""

    patterns: int
    gaps: dict[str, float]


def compared(truth: Truth, rows: int, start: int, seed: int, most: int) -> Compared:
    """The dictionary, own mixtures, one pooled mixture, and the pooled mixture with own weights; all choose K by BIC."""
    generator = np.random.default_rng([seed, 1])
    records, tests = truth.records(generator, rows), truth.records(generator, TEST_ROWS)
    fitted = PatternDictionary(start, hide="nothing").fit(records)
    own = [mixture_by_bic(table, most, seed) for table in records]
    pooled = mixture_by_bic(np.concatenate(records), most, seed)
    scores = {
        "dictionary": dictionary_scores(fitted, tests),
        "own mixture": [-model.score_samples(rows) for model, rows in zip(own, tests, strict=True)],
        "pooled mixture": [-pooled.score_samples(rows) for rows in tests],
        "pooled mixture, own weights": [
            -own_weights_score(pooled, table, rows) for table, rows in zip(records, tests, strict=True)
        ],
    }
    return Compared(fitted.n_patterns_, {name: truth.gap(values, tests) for name, values in scores.items()})


def mixture_by_bic(table: Floats, most: int, seed: int) -> Any:
    """scikit-learn's mixture with the number of patterns and the kind of covariance that BIC prefers."""
    models = [
        GaussianMixture(count, covariance_type=kind, reg_covar=1e-3, n_init=3, random_state=seed).fit(table)
        for count in range(1, max(1, min(most, len(table) // 10)) + 1)
        for kind in ("full", "diag")
    ]
    return min(models, key=lambda model: float(model.bic(table)))


def own_weights_score(mixture: Any, own: Floats, tests: Floats) -> Floats:
    """ln p of test records under a pooled mixture's patterns with weights from own records."""

    def log_densities(table: Floats) -> Floats:
        joint = np.log(np.maximum(mixture.predict_proba(table), 1e-300)) + mixture.score_samples(table)[:, np.newaxis]
        return np.asarray(joint - np.log(mixture.weights_))

    known, weights = log_densities(own), np.asarray(mixture.weights_)
    for _ in range(200):
        joint = known + np.log(np.maximum(weights, 1e-300))
        weights = np.exp(joint - logsumexp(joint, axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(logsumexp(log_densities(tests) + np.log(np.maximum(weights, 1e-300)), axis=1))


def hard_table(repeats: int, tell: Tell) -> ResultTable:
    """Ten members, five overlapping patterns, ten sensors."""
    truths = [hard_truth(np.random.default_rng(seed)) for seed in range(repeats)]
    lonely = sum(bool(np.any(np.count_nonzero(truth.weights, axis=0) == 1)) for truth in truths)
    runs = repeated_results(
        tell, "hard case", repeats, lambda seed: compared(truths[seed], HARD_ROWS, HARD_START, seed, most=8)
    )
    found = sum(run.patterns == 5 for run in runs)
    rows = [
        (
            name,
            f"{found} of {repeats}" if name == "dictionary" else None,
            Estimate.of([run.gaps[name] for run in runs]),
            float(np.median([run.gaps[name] for run in runs])),
        )
        for name in runs[0].gaps
    ]
    return ResultTable(
        f"A hard case: ten members, five patterns, ten sensors, {HARD_ROWS} records each",
        ("model", "K = 5 found", "gap, nats", "median gap"),
        rows,
        f"No ε. {repeats} repetitions, ± one standard error; truths are drawn anew for each. The dictionary begins with {HARD_START} patterns. The last row needs all records in one "
        f"place; the dictionary does not. In {lonely} of the {repeats} truths a pattern belongs to one member alone: unless others have records near "
        "it, it is not shared, and its member learns it at home.",
    )


def few_records_results(repeats: int, tell: Tell) -> tuple[ResultTable, Panel]:
    """The chapter's example with fewer records: where working together pays."""
    truth, rows = chapter_truth(), []
    by_name: dict[str, list[Estimate]] = {}
    for count in RECORD_COUNTS:
        title = f"{count} records a member"
        runs = repeated_results(tell, title, repeats, partial(compared, truth, count, STARTS[0], most=6))
        estimates = {name: Estimate.of([run.gaps[name] for run in runs]) for name in runs[0].gaps}
        rows.append((count, *estimates.values()))
        for name, estimate in estimates.items():
            by_name.setdefault(name, []).append(estimate)
    table = ResultTable(
        "Held-out gap with few records, the chapter's example",
        ("records a member", *by_name),
        rows,
        f"No ε. Nats a record above the truth, mean ± one standard error over {repeats} seeds.",
    )
    series = [estimated_series(name, line) for name, line in by_name.items()]
    panel = curves(
        RECORD_COUNTS, series, x_label="records a member", y_label="gap, nats", title="Few records", logarithmic=True
    )
    return table, panel


Scorer = Callable[[Floats], Floats]


def anomaly_scorers(records: Sequence[Floats], member: int, start: int, seed: int) -> dict[str, Scorer]:
    """Ways to score one member's new records: the dictionary and what else there is."""
    fitted = PatternDictionary(start, hide="nothing").fit(list(records))
    own = mixture_by_bic(records[member], 4, seed)
    pooled = mixture_by_bic(np.concatenate(list(records)), 6, seed)
    forest = IsolationForest(random_state=seed).fit(records[member])
    return {
        "dictionary": fitted.member(member).score_samples,
        "own mixture": lambda table: -np.asarray(own.score_samples(table)),
        "isolation forest on own records": lambda table: -np.asarray(forest.score_samples(table)),
        "pooled mixture": lambda table: -np.asarray(pooled.score_samples(table)),
    }


def anomaly_table(repeats: int, tell: Tell, rows: int = 30) -> ResultTable:
    """A pattern that is usual elsewhere and absent at the member: AUC of the member's scores."""
    truth = chapter_truth()

    def note(found: Measurements, seed: int) -> None:
        generator = np.random.default_rng([seed, 2])
        records = truth.records(generator, rows)
        usual = truth.records(generator, 1000)[0]
        strange = truth.of_patterns(generator, np.full(1000, 2))
        labels = np.repeat([0, 1], 1000)
        for name, score in anomaly_scorers(records, 0, STARTS[0], seed).items():
            found.note(name, float(roc_auc_score(labels, np.concatenate([score(usual), score(strange)]))))

    title = f"anomalies with {rows} records a member"
    found = measurements(tell, repetitions(title, repeats, partial(noted, note)))
    return ResultTable(
        f"Anomalies: a pattern absent at the member, {rows} records a member",
        ("scores", "AUC", "worst"),
        [(str(name), Estimate.of(areas), min(areas)) for name, areas in found.numbers.items()],
        f"No ε. {repeats} seeds, ± one standard error. Member 1 never has pattern C, which members 2 and 3 know well; its appearance at member 1 is a fault. Pooled scores call it usual.",
    )
