"""Claimed beside measured ε, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sudare.audit.registry import AuditReport

_SMALLEST_SHOWN: Final = 0.01


def audit_figure(report: AuditReport) -> Figure:
    """Every measurement under the line where it would equal the claim; a point above the line refutes the promise."""
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    claims = [comparison.claimed.epsilon for comparison in report.comparisons]
    limits = min(*claims, 1.0) / 2, max(*claims, 1.0) * 2
    axes.plot(limits, limits, color="black", linewidth=1, label="claimed")
    axes.fill_between(limits, limits, [limits[1]] * 2, color="tab:red", alpha=0.12, linewidth=0, label="promise broken")
    for label, marker, values in _series(report):
        shown = [
            (claim, max(value, _SMALLEST_SHOWN))
            for claim, value in zip(claims, values, strict=True)
            if value is not None
        ]
        if shown:
            axes.plot(*zip(*shown, strict=True), marker, markersize=8, fillstyle="none", label=label)
    axes.set(
        xscale="log",
        yscale="log",
        xlim=limits,
        ylim=(_SMALLEST_SHOWN * 0.8, limits[1]),
        xlabel="claimed ε",
        ylabel="ε is at least",
        title=f"{report.subject}: {'holds' if report.holds else 'REFUTED'}",
    )
    axes.legend(loc="upper left", fontsize="small")
    return figure


def save_audit_figure(report: AuditReport, path: Path) -> None:
    """The picture as a file, in the format that the name ends with."""
    figure = audit_figure(report)
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=150)


def _series(report: AuditReport) -> list[tuple[str, str, list[float | None]]]:
    return [
        ("from the law of the noise", "s", [comparison.computed for comparison in report.comparisons]),
        ("from outputs", "o", [comparison.sampled.epsilon_lower_bound for comparison in report.comparisons]),
        ("from lowest bits", "x", [comparison.lowest_bits.epsilon_lower_bound for comparison in report.comparisons]),
    ]
