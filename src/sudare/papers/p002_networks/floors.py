"""What was asked of networks before they were built, and what was found, line by line."""

from __future__ import annotations

from typing import Final

from sudare.papers.p000_weak_learners.repetitions import NARROWLY, verdict
from sudare.papers.p002_networks.record_level import DELTA, GRADIENT, SYNTHETIC, SYNTHETIC_NETWORK, RecordLevel
from sudare.papers.study import Cell, Estimate, ResultTable

GRADIENT_ASKED: Final = {0.1: 0.836, 0.5: 0.850, 1.0: 0.853}
SYNTHETIC_AT, SYNTHETIC_ASKED, SYNTHETIC_SECONDS = 1.0, 0.84, 10.0


def floors_table(found: RecordLevel) -> ResultTable:
    """Every bound with what was found."""
    rows: list[tuple[Cell, ...]] = [
        _row(f"{GRADIENT}, accuracy", epsilon, f"≥ {least:g}", found.accuracy.at(GRADIENT, epsilon), least)
        for epsilon, least in GRADIENT_ASKED.items()
        if epsilon in found.accuracy.by_epsilon[GRADIENT]
    ]
    if SYNTHETIC_AT in found.accuracy.by_epsilon[SYNTHETIC]:
        for name in (SYNTHETIC, SYNTHETIC_NETWORK):
            reached = found.accuracy.at(name, SYNTHETIC_AT)
            rows.append(_row(f"{name}, accuracy", SYNTHETIC_AT, f"≥ {SYNTHETIC_ASKED:g}", reached, SYNTHETIC_ASKED))
        seconds = found.seconds.at(SYNTHETIC, SYNTHETIC_AT)
        left = Estimate(SYNTHETIC_SECONDS - seconds.value, seconds.standard_error, seconds.repeats)
        rows.append((f"{SYNTHETIC}, seconds", SYNTHETIC_AT, f"≤ {SYNTHETIC_SECONDS:g}", seconds, verdict(left, 0.0)))
    return ResultTable(
        "What was asked for, and what was reached",
        ("", "ε", "asked", "found", ""),
        rows,
        f"Add/remove records, δ = {DELTA:g}, ± one standard error over seeds on the official test rows. Rules of networks and of synthetic rows were found on training rows; earlier prototypes, from which they start, had been judged on the test rows. Seconds on this machine: counting, drawing and learning. {NARROWLY}",
    )


def _row(what: str, epsilon: float, asked: str, found: Estimate, least: float) -> tuple[Cell, ...]:
    return what, epsilon, asked, found, verdict(found, least)
