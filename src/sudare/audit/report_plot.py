"""Claimed beside measured ε of an audit, as a picture."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes

from sudare.audit.registry import AuditReport
from sudare.report.plots import Panel, Theme

_SMALLEST_SHOWN: Final = 0.01


def audit_panel(report: AuditReport) -> Panel:
    """Every measurement under the line where it would equal the claim; a point above the line refutes the promise."""
    claims = [each.claimed.epsilon for each in report.comparisons]
    limits = min(*claims, 1.0) / 2, max(*claims, 1.0) * 2
    measured: list[tuple[str, str, list[float | None]]] = [
        ("from the law of the noise", "s", [each.computed for each in report.comparisons]),
        ("from outputs", "o", [each.sampled.epsilon_lower_bound for each in report.comparisons]),
        ("from lowest bits", "x", [each.lowest_bits.epsilon_lower_bound for each in report.comparisons]),
    ]

    def panel(axes: Axes, theme: Theme) -> None:
        axes.plot(limits, limits, color=theme.ink, linewidth=1, label="claimed")
        axes.fill_between(
            limits, limits, [limits[1]] * 2, color="tab:red", alpha=0.12, linewidth=0, label="promise broken"
        )
        for label, marker, values in measured:
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

    return panel
