"""What ten sampled runs cost an account, as sums and by their μ: `python -m benchmarks.repeated_runs`. Writes repeated_runs.json."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from benchmarks.peers import ROOT
from sudare.linear.descent import sampled_cost, sampled_multiplier
from sudare.privacy.accounting import Budget, Cost, Spent, approximate_cost, gaussian_cost
from sudare.privacy.guarantee import Neighbours

RESULTS: Final = Path(__file__).with_suffix(".json")
PAGE: Final = ROOT / "proofs" / "gaussian_domination.md"
BLOCK: Final = re.compile(r"(<!-- repeated runs -->)\n.*?(<!-- end of repeated runs -->)", re.DOTALL)
RUNS: Final = 10
EPSILON, DELTA = 0.5, 1e-6
# Of δ 1e-5 is for the Gaussian part; as much again is reserved, which the old charges need.
BUDGET: Final = Budget.of(50.0, 2 * RUNS * DELTA, "gaussian", RUNS * DELTA)
SETTINGS: Final[tuple[tuple[str, float, int, Neighbours], ...]] = (
    ("descent, q = 1/8, 50 steps", 0.125, 50, "replace-one"),
    ("descent, q = 1/100, 200 steps", 0.01, 200, "replace-one"),
    ("network, q = 1/8, 400 steps", 0.125, 400, "replace-one"),
    ("network, q = 1/8, 400 steps", 0.125, 400, "add-remove"),
    ("network, q = 1/1000, 400 steps", 0.001, 400, "replace-one"),
)


def spent(cost: Cost) -> float:
    """ε of all runs in the account."""
    return BUDGET.shown(Spent.of([cost] * RUNS))[0]


def measured() -> list[dict[str, Any]]:
    """One row for each setting."""
    found = []
    for name, sampling_rate, steps, neighbours in SETTINGS:
        multiplier = sampled_multiplier(sampling_rate, steps, EPSILON, DELTA, neighbours)
        cost = sampled_cost(sampling_rate, multiplier, steps, EPSILON, DELTA, Fraction(0), neighbours)
        found.append(
            {
                "run": name,
                "neighbours": neighbours,
                "noise_multiplier": multiplier,
                "mu": cost.mu,
                "total_variation": float(cost.total_variation),
                "before": spent(approximate_cost(EPSILON, DELTA)),
                "after": spent(cost),
                "full_batches": spent(gaussian_cost(EPSILON, DELTA)),
            }
        )
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """The results as a table for the documentation."""
    lines = [
        "| run | relation | μ | γ | ε before | ε now | full batches |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        numbers = f"{row['mu']:.4f} | {row['total_variation']:.1e} | {row['before']:.2f} | {row['after']:.2f}"
        lines.append(f"| {row['run']} | {row['neighbours']} | {numbers} | {row['full_batches']:.2f} |")
    return "\n".join(lines)


def with_table(page: str, rows: list[dict[str, Any]]) -> str:
    """The page with the table between its marks."""
    return BLOCK.sub(lambda marks: f"{marks[1]}\n{table(rows)}\n{marks[2]}", page)


if __name__ == "__main__":
    results = measured()
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), results), "utf-8")
    print(table(results))
