"""`sudare audit`: does the promise hold? Claimed beside measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sudare.cli.command_output import AsJson, answer, progress, reported
from sudare.cli.plot_files import check_picture, draw
from sudare.errors import AuditFailed

if TYPE_CHECKING:
    from sudare.audit.registry import AuditReport


@reported
def audit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An audit, or `list` for all of them.")],
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples", min=100, help="Outputs to draw on each data set; without it, as many as the audit says."
        ),
    ] = None,
    epsilons: Annotated[
        list[float] | None, typer.Option("--epsilon", help="An ε to claim; may be repeated. Without it: 0.1, 1 and 5.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw claimed and measured into a PNG or SVG file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much privacy a mechanism really loses, from below, and compare with what it claims. A failure exits with 60."""
    from sudare.audit.registry import EPSILONS, audit_names, run_audit

    if name == "list":
        answer({"audits": list(audit_names())}, as_json, *audit_names())
        return
    check_picture(plot)
    with progress(as_json) as tell:
        tell(f"auditing {name}")
        report = run_audit(name, samples=samples, epsilons=tuple(epsilons or EPSILONS))
    if plot is not None:
        from sudare.audit.report_plot import audit_panel

        draw(audit_panel(report), file=plot, replace=True)
    verdict = "The promise held." if report.holds else f"AuditFailed: {AuditFailed.help}"
    answer(report.to_dict(), as_json, report.subject, _table(report), verdict)
    if not report.holds:
        raise typer.Exit(AuditFailed.exit_code)


def _table(report: AuditReport) -> Table:
    from sudare.report.number_formatting import nearest

    table = Table("claimed ε", "δ", "measured ε ≥", "sampled", "low bits", "law", "", box=None, pad_edge=False)
    for each in report.comparisons:
        measured = (each.measured, each.sampled.epsilon_lower_bound, each.lowest_bits.epsilon_lower_bound)
        computed = "–" if each.computed is None else nearest(each.computed)
        claim = nearest(each.claimed.epsilon), nearest(each.claimed.delta)
        table.add_row(*claim, *map(nearest, measured), computed, "holds" if each.holds else "REFUTED")
    return table
