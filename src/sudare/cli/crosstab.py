"""`sudare crosstab`: two columns against each other, from a release of perturbed records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.answers import AsJson, answer, progress, reported
from sudare.cli.inspect import signature_lines
from sudare.cli.options import TrustedKeys
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
        str | None,
        typer.Option(
            "--method",
            help="Two categories: likelihood (the default), shrinkage or inversion. Two numbers: auto (the default), bayes or mixture.",
        ),
    ] = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Reconstruct how often each pair of values of two columns occurs. It is computed from the release alone, so it costs nothing."""
    table, signature = perturbed_table(file, trusted)
    with progress(as_json) as tell:
        tell(f"reconstructing {first} × {second}")
        found = _cross_table(table, first, second, bins, (first_edges, second_edges), method)
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
    method: str | None,
) -> CrossTable:
    from sudare.reconstruction import CrossTable

    pair = table.perturbation(first), table.perturbation(second)
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
    names, headings = ([_label(value) for value in values] for values in found.values_)
    width = max(len(first), *map(len, names))
    widths = [max(6, len(heading)) for heading in headings]
    lines = [
        "  ".join([f"{first:<{width}}", *(f"{text:>{size}}" for text, size in zip(headings, widths, strict=True))])
    ]
    for name, shares in zip(names, found.probabilities_, strict=True):
        cells = [f"{share:{size}.4f}" for share, size in zip(shares, widths, strict=True)]
        lines.append("  ".join([f"{name:<{width}}", *cells]))
    return [f"{first} (lines) by {second}, shares of all {found.n_records_:,} records", *lines]


def _label(value: Any) -> str:
    from sudare.reconstruction.cross_tables import Interval
    from sudare.schema.columns import level_text

    return str(value) if isinstance(value, Interval) else level_text(value)
