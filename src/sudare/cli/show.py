"""`sudare show`: what is in a release, with labels, units and intervals."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from sudare.cli.command_output import AsJson, answer, reported, write_new_private
from sudare.cli.inspect import read_release, signature_lines
from sudare.cli.language import ToldTable, spoken_language
from sudare.cli.options import TrustedKeys
from sudare.cli.plot_files import check_picture, draw
from sudare.errors import InvalidParameter
from sudare.safe_text import escaped_for_terminal, spreadsheet_safe

if TYPE_CHECKING:
    from sudare.dossier.number_table import MeasuredRows
    from sudare.dossier.released_numbers import ReleasedNumbers
    from sudare.privacy.guarantee import Guarantee

# So many rows of a picture can be read.
_MOST_DRAWN: Final = 60


@reported
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A release, usually NAME.sudare.")],
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="COLUMN", help="Of a table by group: only by this column; may be repeated."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="How often an interval holds the exact number.")] = 0.95,
    output: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the numbers to a new CSV file.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write the numbers to a new Parquet file.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the numbers, with their intervals, into a new PNG or SVG file."),
    ] = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print what is in a release: numbers with labels, units and intervals, coefficients, layers. It costs nothing: all follows from the file."""
    from sudare.dossier.number_table import has_intervals, measured_rows
    from sudare.dossier.released_numbers import released_numbers
    from sudare.report.fonts import drawn_language
    from sudare.report.privacy_card import computed_from

    check_picture(plot)
    release, signature = read_release(file, trusted)
    numbers = released_numbers(release, by, level)
    found = dict(numbers.table)
    drawn = [] if plot is None else measured_rows(numbers, drawn_language(spoken_language()))
    if plot is not None and not drawn:
        raise InvalidParameter(f"This {release.learner} cannot be drawn: it has no numbers.", "Leave --plot out.")
    if output is not None:
        write_new_private(output, _csv_text(numbers).encode())
    if parquet is not None:
        _write_parquet(parquet, numbers)
    if plot is not None:
        promise = release.guarantee
        _draw(drawn, plot, f"{release.learner}, ε = {promise.epsilon:g}, δ = {promise.delta:g}")
    about = computed_from(release.content.parameters)
    files = [str(each) for each in (output, parquet, plot) if each is not None]
    values = {
        "file": str(file), "learner": release.learner, "signature": signature, "level": level, "table": found,
        "units": dict(numbers.units), "notes": list(numbers.notes),
    }  # fmt: skip
    answer(
        {**values, **dict(about), "csv": None if output is None else str(output), "files": files},
        as_json,
        _shown(numbers),
        *(f"Computed from: {escaped_for_terminal(text)}." for _, text in about),
        *numbers.notes,
        _said(release.guarantee, level) if has_intervals(numbers) else f"Guarantee: {release.guarantee}.",
        *signature_lines(signature),
        *(f"Wrote {each}." for each in files),
    )


def _filled(numbers: ReleasedNumbers) -> dict[str, list[Any]]:
    """The numbers, with words where a cell is empty."""
    return {
        name: [numbers.none_text(name) if value is None else value for value in values]
        for name, values in numbers.table.items()
    }


def _write_parquet(file: Path, numbers: ReleasedNumbers) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    content = pa.BufferOutputStream()
    columns = {name: pa.array(values) for name, values in _filled(numbers).items()}
    pyarrow.parquet.write_table(pa.table(columns), content)
    write_new_private(file, content.getvalue().to_pybytes())


def _draw(drawn: list[MeasuredRows], file: Path, title: str) -> None:
    """A picture of each number, one below the other, under one title."""
    from sudare.report.plots import inches_for_rows, interval_rows

    rows = max(len(each.values) for each in drawn)
    if rows > _MOST_DRAWN:
        raise InvalidParameter(
            f"There are {rows} numbers, and a picture shows {_MOST_DRAWN} at most.",
            "Choose fewer with --by, or use --csv.",
        )
    panels = [
        interval_rows(
            each.labels, each.values, each.lows, each.highs, x_label=each.axis, are_dates=each.are_dates,
            has_intervals=each.has_intervals, title="" if place else title,
        )
        for place, each in enumerate(drawn)
    ]  # fmt: skip
    draw(*panels, file=file, panel_inches=inches_for_rows(rows))


def _shown(numbers: ReleasedNumbers) -> ToldTable:
    """One column for each number, with its interval in it."""
    from sudare.dossier.number_table import number_table

    found = number_table(numbers, spoken_language())
    shown = ToldTable(box=None, pad_edge=False)
    for heading in found.headings:
        shown.add_column(Text(heading), overflow="fold")
    for row in found.rows:
        shown.add_row(*map(Text, row))
    return shown


def _said(guarantee: Guarantee, level: float) -> str:
    records = "kept records" if guarantee.unit == "person" else "records"
    return f"Intervals hold the exact number of the {records} with probability {level:g}: they are about the noise ({guarantee})."


def _csv_text(numbers: ReleasedNumbers) -> str:
    """The numbers as CSV, without a cell that a spreadsheet takes for a formula."""
    found = _filled(numbers)
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(map(spreadsheet_safe, found))
    for row in zip(*found.values(), strict=True):
        lines.writerow([spreadsheet_safe(value) if isinstance(value, str) else value for value in row])
    return text.getvalue()
