"""`sudare crosstab`: two columns against each other, from a release of perturbed records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len

from sudare.cli.command_output import AsJson, answer, progress, reported
from sudare.cli.inspect import signature_lines
from sudare.cli.language import Told, padded, padded_before, told
from sudare.cli.options import TrustedKeys
from sudare.cli.plot_files import check_picture, draw
from sudare.cli.reconstruct import ReleaseFile, perturbed_table
from sudare.errors import InvalidParameter

if TYPE_CHECKING:
    from sudare.perturbation import PerturbedTable
    from sudare.reconstruction import CrossTable

_EDGES_HELP = (
    "Public edges of the bins of this column, if it is a number: for example 0,18,65,110. Takes precedence over --bins."
)


@reported
def crosstab(
    file: ReleaseFile,
    first: Annotated[str, typer.Argument(metavar="A", help="The column whose values become rows.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The column whose values become columns.")],
    bins: Annotated[int, typer.Option("--bins", min=1, max=200, help="In how many equal bins a number is shown.")] = 10,
    first_edges: Annotated[str | None, typer.Option("--first-edges", metavar="EDGES_OF_A", help=_EDGES_HELP)] = None,
    second_edges: Annotated[str | None, typer.Option("--second-edges", metavar="EDGES_OF_B", help=_EDGES_HELP)] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="Besides auto, two categories have likelihood, shrinkage and inversion, two numbers bayes and mixture, and one of each bayes.",
        ),
    ] = "auto",
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the table into a PNG or SVG file.")
    ] = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Reconstruct how often each pair of values of two columns occurs. It is computed from the release alone, so it costs nothing."""
    check_picture(plot)
    table, signature = perturbed_table(file, trusted)
    with progress(as_json) as tell:
        tell(f"reconstructing {first} × {second}")
        found = _cross_table(table, first, second, bins, (first_edges, second_edges), method)
    if plot is not None:
        from sudare.reconstruction.plots import cross_table_panel

        draw(cross_table_panel(found, first, second), file=plot)
    statement = table.statement()
    answer(
        {"file": str(file), "signature": signature, "first": first, "second": second, **found.to_dict(),
         "statement": statement.to_dict()},
        as_json,
        *_lines(found, first, second),
        *statement.lines,
        *signature_lines(signature),
    )  # fmt: skip


def _cross_table(
    table: PerturbedTable,
    first: str,
    second: str,
    bins: int,
    edges: tuple[str | None, str | None],
    method: str,
) -> CrossTable:
    from sudare.reconstruction import CrossTable

    pair = table.perturbation(first), table.perturbation(second)
    if table.is_sampled:
        raise InvalidParameter(
            "Every row answers one column only: how two columns go together is not in this release.",
            "Ask for records that were perturbed without --one-column.",
        )
    if first == second:
        raise InvalidParameter("A cross table needs two different columns.", "Name two.")
    rows, columns = (_edges(perturbation, bins, text) for perturbation, text in zip(pair, edges, strict=True))
    return CrossTable(*pair, first_edges=rows, second_edges=columns, method=method).fit(
        table.column(first), table.column(second)
    )


def _edges(perturbation: object, bins: int, text: str | None) -> list[float] | None:
    """Edges that were given, or equal ones for a number column; None for categories."""
    import numpy as np

    from sudare.perturbation.number_channels import NumberPerturbation

    if text is None:
        if not isinstance(perturbation, NumberPerturbation):
            return None
        low, high = perturbation.bounds
        return [float(edge) for edge in np.linspace(low, high, bins + 1)]
    try:
        return [float(edge) for edge in text.split(",")]
    except ValueError:
        raise InvalidParameter(
            f"Edges must be numbers with commas between them, got '{text}'.", "Use for example 0,18,65,110."
        ) from None


def _lines(found: CrossTable, first: str, second: str) -> list[str]:
    """One line a value of the first column; long ones are not cut, as a table on the terminal would be."""
    from sudare.reconstruction.cross_tables import value_text
    from sudare.report.number_formatting import whole

    names, headings = ([value_text(value) for value in values] for values in found.values_)
    width = max(map(cell_len, [first, *names]))
    cells = [
        [f"{share:.4f} ± {error:.4f}" for share, error in zip(shares, errors, strict=True)]
        for shares, errors in zip(found.probabilities_, found.standard_errors_, strict=True)
    ]
    widths = [
        max(map(cell_len, [heading, *column]))
        for heading, column in zip(headings, zip(*cells, strict=True), strict=True)
    ]
    lines = [
        Told("  ".join([padded(name, width), *map(padded_before, texts, widths)]))
        for name, texts in zip([first, *names], [headings, *cells], strict=True)
    ]
    test = found.independence_
    return [
        told(
            "{first} (lines) by {second}, shares of all {n_records} records ± what the noise does to an unbiased share",
            first=first,
            second=second,
            n_records=whole(found.n_records_),
        ),
        *lines,
        f"Independent of each other: p = {test.p_value:.2g} (chi-square {test.statistic:.1f}, {test.degrees_of_freedom:.1f} degrees of freedom; "
        "for rows of different persons).",
    ]
