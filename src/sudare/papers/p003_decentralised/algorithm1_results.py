"""Figures 1.7 and 1.8 of Ide (2021) with the chapter's own learner, when γ-pruning finds three patterns, and EM over sums that are not exact."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import linear_sum_assignment

from sudare.array_types import Floats
from sudare.dictionary import PatternDictionary
from sudare.errors import DataError, NotSolved
from sudare.papers.p003_decentralised.algorithm1 import CollaborativeDictionary, Updates
from sudare.papers.p003_decentralised.consensus_methods import (
    Consensus,
    ConsensusOverLinks,
    PaillierConsensus,
    RandomChunking,
    exact_totals,
)
from sudare.papers.p003_decentralised.dictionary_figures import (
    CHAPTER_ROWS,
    FIGURE_1_8_SEED,
    STARTS,
    TEST_ROWS,
    recovered,
)
from sudare.papers.p003_decentralised.graphs import cycle
from sudare.papers.p003_decentralised.lossy_averaging import Links, dynamic_consensus, push_sum, robust_push_sum
from sudare.papers.p003_decentralised.made_up_consortia import Truth, chapter_truth
from sudare.papers.p003_decentralised.paillier import paillier_cost, slots
from sudare.papers.repetitions import repeated_results, repetitions, results
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.report.plots import SERIES_COLOURS, Panel, Series, Theme, curves, finished

START: Final = STARTS[0]
RHOS: Final = (1.0, 10.0, 30.0, 100.0)
NAMES: Final[dict[Updates, str]] = {
    "printed": "as printed",
    "sign": "(1.61)'s sign put right",
    "corrected": "corrected",
}
KEY_BITS: Final = (256, 2048)
ENCRYPTED_TOLERANCE: Final = 1e-3
LOSS, LATEST, LOSSY_ROUNDS = 0.3, 2, 200
EM_MEMBERS: Final = 9
EM_RECORDS: Final = 900
# N, m and the upper triangle of C of every pattern.
EM_NUMBERS: Final = START * (1 + 4 + 10)
FAR: Final = 20.0


# Figures 1.7 and 1.8


def figure_1_7() -> Panel:
    """The true weights of the three members."""
    truth = chapter_truth()
    return weights_panel(truth.weights, ("A", "B", "C"), "pattern", "weights in truth")


def figure_1_8() -> tuple[ResultTable, list[Panel]]:
    """Weights over the six starting indices by the chapter's learner, and what the product finds in the same records."""
    truth = chapter_truth()
    records = truth.records(np.random.default_rng(FIGURE_1_8_SEED), CHAPTER_ROWS)
    rows: list[Sequence[Cell]] = []
    panels = []
    indices = tuple(str(index + 1) for index in range(START))
    shown: tuple[tuple[Updates, float], ...] = (("printed", 30.0), ("printed", 1.0), ("corrected", 30.0))
    for updates, rho0 in shown:
        fitted = CollaborativeDictionary(START, rho0=rho0, updates=updates, random_state=FIGURE_1_8_SEED).fit(records)
        name = f"{NAMES[updates]}, ρ₀ = {rho0:g}"
        rows += [_weights_row(name, member, weights, fitted.indices_) for member, weights in enumerate(fitted.weights_)]
        panels.append(weights_panel(fitted.weights_, indices, "starting index of the pattern", name))
    ours = PatternDictionary(START, hide="nothing").fit(records)
    distances = np.sum((ours.means_[:, np.newaxis] - truth.means) ** 2, axis=2)
    found, true = linear_sum_assignment(distances)
    names = ["ABC"[index] for index in true]
    weights = ours.weights_[:, found]
    rows += [
        (
            "ours (merged and split by BIC: no starting indices)",
            member + 1,
            *(f"{name}: {weight:.3f}" for name, weight in zip(names, own, strict=True)),
            *[None] * (START - len(names)),
        )
        for member, own in enumerate(weights)
    ]
    panels.append(weights_panel(weights, tuple(names), "pattern", f"ours, from {START}"))
    table = ResultTable(
        f"Figure 1.8: weights over the {START} starting indices",
        ("updates", "member", *indices),
        rows,
        "No ε: exact sums. One seed, as in the chapter, whose text gives neither ρ₀ nor γ nor λ₀: γ − 1 = .01 and λ₀ = .1 here. A dash: pruned. True weights are 2/3, 1/3 and 0 in "
        "some order: the corrected updates find them, and with (1.61) as printed three patterns are left that are not the true ones.",
    )
    return table, panels


def _weights_row(name: str, member: int, weights: Floats, kept: np.ndarray) -> Sequence[Cell]:
    return (name, member + 1, *(float(weight) if index in kept else None for index, weight in enumerate(weights)))


def weights_panel(weights: Floats, labels: Sequence[str], x_label: str, title: str) -> Panel:
    """Bars of the members' weights side by side for each pattern."""

    def panel(axes: Axes, theme: Theme) -> None:
        width = 0.8 / len(weights)
        for member, own in enumerate(weights):
            places = np.arange(len(own)) + (member - (len(weights) - 1) / 2) * width
            axes.bar(places, own, width, label=f"participant {member + 1}", color=SERIES_COLOURS[member % 6])
        axes.set_xticks(np.arange(len(labels)), labels)
        axes.set_ylim(0, 1)
        finished(axes, theme, x_label, "π", title)

    return panel


# When γ-pruning works


@dataclass(frozen=True)
class PrunedRun:
    """Patterns that are left, and the held-out gap; none where Algorithm 3 ended with a matrix that is no precision."""

    patterns: int
    gap: float


def pruned(updates: Updates, rho0: float, seed: int) -> PrunedRun:
    """One training of the chapter's learner on the records that `recovered` gives the product at the same seed."""
    truth, generator = chapter_truth(), np.random.default_rng(seed)
    records, tests = truth.records(generator, CHAPTER_ROWS), truth.records(generator, TEST_ROWS)
    model = CollaborativeDictionary(START, rho0=rho0, updates=updates, random_state=seed)
    try:
        model.fit(records)
    except NotSolved:
        return PrunedRun(0, np.nan)
    return PrunedRun(model.n_patterns_, _gap(truth, model, tests))


def _gap(truth: Truth, model: CollaborativeDictionary, tests: list[Floats]) -> float:
    return truth.gap([model.member(position).score_samples(rows) for position, rows in enumerate(tests)], tests)


def pruning_results(repeats: int, tell: Tell) -> tuple[ResultTable, list[Panel]]:
    """Patterns left of six, and held-out gaps, by ρ₀ and by how updates are computed."""
    rows: list[Sequence[Cell]] = []
    counts: dict[str, list[float]] = {name: [] for name in NAMES.values()}
    gaps: dict[str, list[float]] = {name: [] for name in NAMES.values()}
    for updates, name in NAMES.items():
        for rho0 in RHOS:
            title = f"γ-pruning, {name}, ρ₀ = {rho0:g}"
            runs = repeated_results(tell, title, repeats, partial(pruned, updates, rho0))
            rows.append(_pruning_row(name, rho0, [run.patterns for run in runs], [run.gap for run in runs]))
            counts[name].append(float(np.mean([run.patterns for run in runs if run.patterns])))
            gaps[name].append(float(np.nanmedian([run.gap for run in runs])))
    ours = repeated_results(tell, "γ-pruning, ours", repeats, partial(recovered, chapter_truth(), CHAPTER_ROWS, START))
    rows.append(_pruning_row("ours", None, [run.patterns for run in ours], [run.gap for run in ours]))
    table = ResultTable(
        f"γ-pruning: patterns left from K₀ = {START} on the chapter's example",
        ("updates", "ρ₀", "ended", "K = 3 found", "patterns left, mean", "median gap, nats", "largest gap"),
        rows,
        f"No ε. γ − 1 = .01, λ₀ = .1; patterns with less than one record are removed; {repeats} seeds. Ended: Algorithm 3 can end with a matrix that is no precision. Small γ − 1 alone prunes next to nothing: what removes patterns is ρ₀, which has to be "
        "large, and then every precision is shrunk by it. Gap: held-out −ln p minus that of the truth. Ours has no such constant: BIC decides.",
    )
    panels = [
        curves(RHOS, [Series(*pair) for pair in counts.items()], x_label="ρ₀", y_label="patterns left, of 6"),
        curves(
            RHOS, [Series(*pair) for pair in gaps.items()], x_label="ρ₀", y_label="median gap, nats", logarithmic=True
        ),
    ]
    return table, panels


def _pruning_row(name: str, rho0: float | None, patterns: Sequence[int], gaps: Sequence[float]) -> Sequence[Cell]:
    ended = [count for count in patterns if count]
    return (
        name,
        rho0,
        f"{len(ended)} of {len(patterns)}",
        f"{ended.count(3)} of {len(patterns)}",
        float(np.mean(ended)),
        float(np.nanmedian(gaps)),
        float(np.nanmax(gaps)),
    )


# EM over sums


def em_over_sums_table(repeats: int, tell: Tell, key_bits: Sequence[int] = KEY_BITS) -> ResultTable:
    """The chapter's learner (corrected updates, ρ₀ = 30) when totals come by chunks, encryption, or links that lose messages."""
    ring, three, tolerance = cycle(EM_MEMBERS, 2), cycle(3), ENCRYPTED_TOLERANCE
    links = Links(ring, loss=LOSS, latest=LATEST)
    chunks: dict[str, Consensus] = {
        f"5 chunks, to {reached:g}": RandomChunking(ring, 5, reached) for reached in (1e-3, 1e-6)
    }
    lossy: dict[str, Consensus] = {
        f"{name}, {LOSS:.0%} lost, up to {LATEST} rounds late": ConsensusOverLinks(links, LOSSY_ROUNDS, averaging)
        for name, averaging in (
            ("dynamic consensus", dynamic_consensus),
            ("push-sum", push_sum),
            ("running sums", robust_push_sum),
        )
    }
    ways: list[tuple[int, str, Consensus, float, int]] = [
        (EM_MEMBERS, "exact", exact_totals, 0.0, repeats),
        *((EM_MEMBERS, name, consensus, 0.0, repeats) for name, consensus in {**chunks, **lossy}.items()),
        (EM_MEMBERS, f"exact, records {FAR:g} units from zero", exact_totals, FAR, repeats),
        *((EM_MEMBERS, f"{name}, records {FAR:g} units from zero", way, FAR, repeats) for name, way in chunks.items()),
        (3, "exact", exact_totals, 0.0, repeats),
        (3, "5 chunks, to 0.001", RandomChunking(three, 5, 1e-3), 0.0, repeats),
        *(
            (3, f"Paillier with {bits} bits, to {tolerance:g}", PaillierConsensus(three, bits, tolerance), 0.0, 1)
            for bits in key_bits
        ),
    ]
    calls = [
        call
        for members, name, consensus, offset, count in ways
        for call in repetitions(
            f"EM over sums of {members}: {name}",
            count,
            partial(em_run, consensus, members=members, offset=offset),
        )
    ]
    found = iter(results(tell, calls))
    runs = [list(islice(found, count)) for *_, count in ways]
    rows = [_em_row(members, name, own) for (members, name, *_), own in zip(ways, runs, strict=True)]
    rounds = paillier_cost(three, tolerance, key_bits[-1]).rounds
    alone = rounds * 2 * len(three.edges) * EM_NUMBERS
    together = rounds * 2 * len(three.edges) * -(-EM_NUMBERS // slots(key_bits[-1]))
    return ResultTable(
        "EM over sums: the chapter's learner by how totals are computed",
        (
            "S",
            "totals",
            "ended",
            "K = 3 found",
            "median gap, nats",
            "members' precisions differ by",
            "seconds an iteration (processor)",
        ),
        rows,
        f"No ε. {EM_RECORDS} records in all, K₀ = {START}, ρ₀ = 30, corrected updates, γ − 1 = .01, cycle with b = 2 (three members: b = 1), {LOSSY_ROUNDS} rounds over bad links; {repeats} seeds, encryption one. Ended: "
        "trainings that found a dictionary at all; others met totals that no records have. Differ: the largest relative difference between two members' Λ in the end, the worst seed. Totals that are a thousandth off give "
        "members different dictionaries, and none where records are far from zero: then the covariance is a small difference of large totals. Among three everyone is next to everyone, and chunks do less harm. Lost "
        f"messages cost accuracy unless running sums make up for them. With {key_bits[-1]} bits {slots(key_bits[-1])} numbers share a ciphertext, so that an iteration is {together:,} encrypted questions and answers; with one number in each it would be {alone:,}.",
    )


@dataclass(frozen=True)
class EmRun:
    """One training over inexact sums, with the seconds of one iteration; NaN and no iterations where it did not end."""

    patterns: int
    gap: float
    apart: float
    seconds: float
    iterations: int = 0


def em_run(consensus: Consensus, seed: int, members: int, offset: float = 0.0) -> EmRun:
    """One training on the chapter's example with so many members, its records moved by the offset."""
    truth, generator = chapter_truth(members), np.random.default_rng(seed)
    truth = replace(truth, means=truth.means + offset)
    records, tests = truth.records(generator, EM_RECORDS // members), truth.records(generator, TEST_ROWS)
    model = CollaborativeDictionary(
        START, rho0=30.0, updates="corrected", consensus=consensus, random_state=seed, max_iter=60
    )
    start = time.process_time()
    try:
        model.fit(records)
    except (DataError, NotSolved, FloatingPointError):
        return EmRun(0, np.nan, np.nan, np.nan)
    seconds = (time.process_time() - start) / model.n_iter_
    return EmRun(model.n_patterns_, _gap(truth, model, tests), disagreement(model), seconds, model.n_iter_)


def disagreement(model: CollaborativeDictionary) -> float:
    """The largest relative difference between two members' precisions; infinite where they kept different patterns."""
    first, *others = model.states_
    if any(not np.array_equal(first.alive, other.alive) for other in others):
        return float("inf")
    own = first.patterns["precisions"]
    sizes = np.linalg.norm(own, axis=(1, 2))
    return max(
        float((np.linalg.norm(other.patterns["precisions"] - own, axis=(1, 2)) / sizes).max()) for other in others
    )


def _em_row(members: int, name: str, runs: Sequence[EmRun]) -> Sequence[Cell]:
    ended = [run for run in runs if run.patterns]
    if not ended:
        return (members, name, f"0 of {len(runs)}", None, None, None, None)
    apart = max(run.apart for run in ended)
    return (
        members,
        name,
        f"{len(ended)} of {len(runs)}",
        f"{sum(run.patterns == 3 for run in ended)} of {len(runs)}",
        float(np.median([run.gap for run in ended])),
        apart if np.isfinite(apart) else "other patterns",
        Estimate.of([run.seconds for run in ended]).value if len(ended) > 1 else ended[0].seconds,
    )
