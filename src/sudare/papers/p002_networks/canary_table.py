"""Canaries: a lower bound on ε of the product's descent, and bugs that the same audit refutes."""

from __future__ import annotations

from typing import Final

import numpy as np

from sudare.audit import Audit
from sudare.papers.p002_networks.canary_runs import (
    Trial,
    audit_of_descent,
    audit_of_sums,
    audit_of_turning,
    clipped_after_averaging,
    clipped_batch_sum,
    clipped_rows,
)
from sudare.papers.study import Cell, ResultTable, Tell

SEED: Final = 20170113
CANARIES, BYSTANDERS = 1_000, 500
DELTA, CONFIDENCE = 1e-5, 0.99
CLAIMS: Final = (1.0, 8.0)
TURNING_MU, TURNING_RUNS = 2.0, 2_000
NO_NOISE: Final = 1e-6


def measured(tell: Tell, canaries: int = CANARIES) -> list[tuple[str, Audit]]:
    """Every audit, under its name."""
    tell(f"{canaries:,} canaries")
    generator = np.random.default_rng(SEED)
    found = [
        (
            f"noisy descent, ε = {epsilon:g}",
            audit_of_descent(Trial(canaries, BYSTANDERS, epsilon, DELTA), generator, CONFIDENCE),
        )
        for epsilon in CLAIMS
    ]
    trial = Trial(canaries, BYSTANDERS, CLAIMS[0], DELTA, hidden=(32,))
    for name, summed, noise in (
        ("rows clipped, two layers", clipped_rows, 1.0),
        ("BUG: no noise", clipped_rows, NO_NOISE),
        ("BUG: clipped after averaging", clipped_after_averaging, 1.0),
    ):
        found.append((name, audit_of_sums(trial, summed, generator, CONFIDENCE, noise)))
    for name, summed in (
        ("rows clipped, two rows a run", clipped_rows),
        ("BUG: batch sum clipped, claimed by row", clipped_batch_sum),
    ):
        found.append((name, audit_of_turning(summed, TURNING_MU, DELTA, TURNING_RUNS, SEED, CONFIDENCE)))
    return found


def table(found: list[tuple[str, Audit]]) -> ResultTable:
    """Claims, what was measured, and whether that is as it should be."""
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            audit.claimed.epsilon,
            audit.epsilon_lower_bound,
            "holds" if audit.holds else "refuted",
            "as it should" if audit.holds != name.startswith("BUG") else "NOT AS IT SHOULD",
        )
        for name, audit in found
    ]
    return ResultTable(
        "Canaries in noisy descent",
        ("", "claimed ε", "measured: ε at least", "the claim", ""),
        rows,
        f"Add/remove records, δ = {DELTA:g}; each bound errs with probability at most {1 - CONFIDENCE:g}. {CANARIES:,} canaries in one run of 20 steps at sampling rate 1/2, each included by a coin (Steinke, Nasr and Jagielski "
        f"2023); the last two lines: {TURNING_RUNS:,} runs of one step with and without the canary, and a bound on μ. One run shows a fraction of what is claimed: it finds bugs, and proves nothing.",
    )
