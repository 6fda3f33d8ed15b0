"""`sudare show`: the numbers of a released statistic, with labels and intervals."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.answers import AsJson, answer, reported, write_new_private
from sudare.cli.inspect import read_release, signature_lines
from sudare.cli.options import TrustedKeys
from sudare.safe_text import escaped_for_terminal, spreadsheet_safe

if TYPE_CHECKING:
    from sudare.privacy.guarantee import Guarantee

# The group of all rows whose undeclared key was not selected; rows without a key are among them.
ALL_OTHERS: Final = "(all others)"


@reported
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A released statistic, usually NAME.sudare.")],
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="COLUMN", help="Of a table by group: only by this column; may be repeated."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="How often an interval holds the exact number.")] = 0.95,
    output: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the numbers to a new CSV file.")
    ] = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Print the numbers of a released statistic, with labels and intervals. It costs nothing: all follows from the file."""
    from sudare.errors import InvalidParameter
    from sudare.report.privacy_card import computed_from
    from sudare.statistics.noise_intervals import DEFAULT_LEVEL

    release, signature = read_release(file, trusted)
    model = release.model()
    if not hasattr(model, "table"):
        raise InvalidParameter(
            f"A {release.learner} has no table of numbers.",
            "See its card with `sudare inspect`; all its numbers are in `sudare inspect --json`.",
        )
    if by and release.learner != "GroupedTable":
        raise InvalidParameter(f"A {release.learner} is not grouped.", "Leave --by out.")
    is_drawn = release.learner == "PrivateQuantiles"
    if is_drawn and level != DEFAULT_LEVEL:
        raise InvalidParameter("Intervals of quantiles were drawn with them, for 0.95.", "Leave --level out.")
    found = model.table(by, level) if by else model.table() if is_drawn else model.table(level=level)
    written = [] if output is None else [f"Wrote {output}."]
    if output is not None:
        write_new_private(output, _csv_text(found).encode())
    about = computed_from(release.content.parameters)
    values = {"file": str(file), "learner": release.learner, "signature": signature, "level": level, "table": found}
    answer(
        {**values, **dict(about), "csv": None if output is None else str(output)},
        as_json,
        _shown(found),
        *(f"{label.capitalize()}: {escaped_for_terminal(text)}." for label, text in about),
        _said(release.guarantee, level),
        *signature_lines(signature),
        *written,
    )


def _shown(found: dict[str, list[Any]]) -> Table:
    """One column for each number, with its interval in it."""
    ends = {f"{name}_{end}" for name in found for end in ("low", "high")} & set(found)
    shown = Table(box=None, pad_edge=False)
    cells: list[list[str]] = []
    for name, values in found.items():
        if name in ends:
            continue
        shown.add_column(Text(escaped_for_terminal(name)), overflow="fold")
        written = list(map(_cell, values))
        if f"{name}_low" in ends:
            low, high = (map(_cell, found[f"{name}_{end}"]) for end in ("low", "high"))
            written = [f"{each} ({a} to {b})" for each, a, b in zip(written, low, high, strict=True)]
        cells.append(written)
    for row in zip(*cells, strict=True):
        shown.add_row(*(Text(escaped_for_terminal(cell)) for cell in row))
    return shown


def _cell(value: object) -> str:
    if value is None:
        return ALL_OTHERS
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _said(guarantee: Guarantee, level: float) -> str:
    records = "kept records" if guarantee.unit == "person" else "records"
    return f"Intervals hold the exact number of the {records} with probability {level:g}: they are about the noise ({guarantee})."


def _csv_text(found: dict[str, list[Any]]) -> str:
    """The numbers as CSV, without a cell that a spreadsheet takes for a formula."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(found)
    for row in zip(*found.values(), strict=True):
        values = (ALL_OTHERS if value is None else value for value in row)
        lines.writerow([spreadsheet_safe(value) if isinstance(value, str) else value for value in values])
    return text.getvalue()
