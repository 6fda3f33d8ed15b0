"""`sudare crosstab`: two columns against each other, from a release of perturbed records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.answers import AsJson, answer, progress, reported
from sudare.cli.reconstruct import ReleaseFile, TrustedKeys, perturbed_table
from sudare.errors import InvalidParameter

if TYPE_CHECKING:
    from sudare.records import CategoricalCrossTable, PerturbedTable


@reported
def crosstab(
    file: ReleaseFile,
    first: Annotated[str, typer.Argument(metavar="A", help="The column whose values become rows.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The column whose values become columns.")],
    method: Annotated[
        str | None, typer.Option("--method", help="likelihood (the default), shrinkage or inversion.")
    ] = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Reconstruct how often each pair of categories of two columns occurs. It is computed from the release alone, so it costs nothing."""
    table, signature = perturbed_table(file, trusted)
    with progress(as_json) as tell:
        tell(f"reconstructing {first} × {second}")
        found = _cross_table(table, first, second, method)
    statement = table.statement()
    answer(
        {"file": str(file), "signature": signature, "first": first, "second": second, **found.to_dict(),
         "statement": statement.to_dict()},
        as_json,
        *_lines(found, first, second),
        *statement.lines,
    )  # fmt: skip


def _cross_table(table: PerturbedTable, first: str, second: str, method: str | None) -> CategoricalCrossTable:
    from sudare.records import CategoricalCrossTable
    from sudare.records.categorical import CategoryPerturbation

    pair = table.perturbation(first), table.perturbation(second)
    if first == second:
        raise InvalidParameter("A cross table needs two different columns.", "Name two.")
    rows, columns = pair
    if not isinstance(rows, CategoryPerturbation) or not isinstance(columns, CategoryPerturbation):
        raise InvalidParameter(
            "A cross table from the shell needs two category columns.", "Number columns: see sudare.records in Python."
        )
    options: dict[str, Any] = {} if method is None else {"method": method}
    return CategoricalCrossTable(rows, columns, **options).fit(table.column(first), table.column(second))


def _lines(found: CategoricalCrossTable, first: str, second: str) -> list[str]:
    """One line a category of the first column; long ones are not cut, as a table on the terminal would be."""
    from sudare.schema.columns import level_text

    names = [level_text(level) for level in found.values_[0]]
    headings = [level_text(level) for level in found.values_[1]]
    width = max(len(first), *map(len, names))
    widths = [max(6, len(heading)) for heading in headings]
    lines = [
        "  ".join([f"{first:<{width}}", *(f"{text:>{size}}" for text, size in zip(headings, widths, strict=True))])
    ]
    for name, shares in zip(names, found.probabilities_, strict=True):
        cells = [f"{share:{size}.4f}" for share, size in zip(shares, widths, strict=True)]
        lines.append("  ".join([f"{name:<{width}}", *cells]))
    return [f"{first} (lines) by {second}, shares of all {found.n_records_:,} records", *lines]
