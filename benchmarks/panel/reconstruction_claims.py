"""How near `auto` comes to the best single method of reconstruction, column by column."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from benchmarks.panel.reconstruction_cases import accuracy, cases
from benchmarks.panel.tuning_and_judging import Half
from sudare.reconstruction.number_reconstruction import each_method

# Not every privacy with every number of records: that would take an hour of one processor.
DESIGN: Final = ((300, "ε = 2"), (3_000, "ε = 1"), (3_000, "k = 2"), (100_000, "ε = 0.5"), (100_000, "k = 2"))
SINGLE: Final = ("smooth", "mixture", "bayes")
METHODS: Final = ("auto", "evidence", *SINGLE)
_NEAR: Final = 1.0


def reconstruction(half: Half) -> list[dict[str, Any]]:
    """L1 accuracy of each method, a row for each case."""
    rows = []
    for case in cases(half, DESIGN):
        records, perturbed = case.drawn(0)
        found = each_method(case.perturbation, perturbed, with_auto=True)
        true = case.shares(records)
        about = {"column": case.column.name, "noise": case.noise, "privacy": case.privacy, "records": case.records}
        rows.append(
            {**about, **{name: round(accuracy(one.histogram(case.edges), true), 2) for name, one in found.items()}}
        )
    return rows


def gaps(rows: list[dict[str, Any]], method: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """By how much a method is below the best single one."""
    return np.array([max(row[single] for single in SINGLE) - row[method] for row in rows])


def summary_of_reconstruction(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Cases in which `auto` is far from the best single method, which nobody knows beforehand; and means."""
    found: dict[str, Any] = {"cases": len(rows)}
    for method in METHODS:
        far = gaps(rows, method)
        found[f"{method} more than 1.0 below the best single method"] = f"{int((far > _NEAR).sum())} of {len(rows)}"
        found[f"{method}: mean and largest such gap"] = f"{far.mean():.2f}, {far.max():.1f}"
    return found


def by_records(rows: list[dict[str, Any]]) -> list[str]:
    """Mean accuracies, a line for each noise, number of records and privacy."""
    lines = [
        "Mean L1 accuracy over the judging columns, one draw of records and noise each:",
        "",
        f"| noise | records | privacy | {' | '.join(METHODS)} | auto more than 1.0 below the best |",
        "| --- | --- | --- |" + " --- |" * (len(METHODS) + 1),
    ]
    for noise, records, privacy in dict.fromkeys((row["noise"], row["records"], row["privacy"]) for row in rows):
        own = [row for row in rows if (row["noise"], row["records"], row["privacy"]) == (noise, records, privacy)]
        means = " | ".join(f"{np.mean([row[method] for row in own]):.1f}" for method in METHODS)
        lines.append(
            f"| {noise} | {records:,} | {privacy} | {means} | {int((gaps(own, 'auto') > _NEAR).sum())} of {len(own)} |"
        )
    return lines
