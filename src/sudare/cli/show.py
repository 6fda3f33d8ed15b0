"""`sudare show`: what is in a release, with labels, units and intervals."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from sudare.cli.command_output import AsJson, answer, note, reported, write_all_new_private
from sudare.cli.inspect import read_release, signature_lines
from sudare.cli.language import ToldTable, spoken_language
from sudare.cli.options import TrustedKeys
from sudare.cli.plot_files import check_picture, picture_content
from sudare.errors import InvalidParameter
from sudare.languages import translated
from sudare.safe_text import escaped_for_terminal, spreadsheet_safe

if TYPE_CHECKING:
    from sudare.dossier.number_table import MeasuredRows
    from sudare.dossier.released_numbers import ReleasedNumbers
    from sudare.privacy.guarantee import Guarantee

# So many rows of a picture can be read.
_MOST_DRAWN: Final = 60
_LARGEST_DRAWN: Final = 1e100


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
    from sudare.requests.request_kinds import title_of

    check_picture(plot)
    release, signature = read_release(file, trusted)
    numbers = released_numbers(release, by, level)
    found = dict(numbers.table)
    drawn = [] if plot is None else measured_rows(numbers, drawn_language(spoken_language()), _MOST_DRAWN)
    if plot is not None and not drawn:
        if output is None and parquet is None:
            raise InvalidParameter(
                "This release cannot be drawn: it has no numbers that a picture can show.", "Leave --plot out."
            )
        note("No picture was written: this release has no numbers that a picture can show.")
        plot = None
    contents: dict[Path, bytes] = {}
    if output is not None:
        contents[output] = _csv_text(numbers).encode()
    if parquet is not None:
        contents[parquet] = _parquet_content(numbers)
    if plot is not None:
        promise = release.guarantee
        made = translated(title_of(release.learner), drawn_language(spoken_language()))
        contents[plot] = _drawn(drawn, plot, f"{_beginning(made)}\nε = {promise.epsilon:g}, δ = {promise.delta:g}")
    write_all_new_private(contents)
    about = computed_from(release.content.parameters)
    files = [str(each) for each in contents]
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
    """The numbers, with words where a label is empty; a number that is unknown stays None."""
    return {
        name: list(values)
        if numbers.is_measured(name)
        else [numbers.none_text(name) if value is None else value for value in values]
        for name, values in numbers.table.items()
    }


def _parquet_content(numbers: ReleasedNumbers) -> bytes:
    """The numbers as a Parquet file. Dates among them are dates there, in a column of their own where a table has numbers beside them."""
    import pyarrow as pa
    import pyarrow.parquet

    content = pa.BufferOutputStream()
    columns = {}
    for name, values in _filled(numbers).items():
        dates = [value if isinstance(value, str) else None for value in values]
        if not numbers.is_measured(name) and name != numbers.measured:
            columns[name] = pa.array(values if len(set(map(type, values))) == 1 else list(map(_label_text, values)))
        elif not any(dates):
            columns[name] = pa.array(values, None if any(isinstance(value, int) for value in values) else pa.float64())
        elif None not in dates:
            columns[name] = _dates(dates)
        else:
            columns[name] = pa.array([None if isinstance(value, str) else value for value in values], pa.float64())
            columns[_name_of_dates(name)] = _dates(dates)
    pyarrow.parquet.write_table(pa.table(columns), content)
    taken: bytes = content.getvalue().to_pybytes()
    return taken


def _label_text(value: Any) -> str:
    """A label as it is written in a column that holds labels of several kinds: a histogram counts text, numbers, and yes and no."""
    from sudare.schema.columns import level_text

    return value if isinstance(value, str) else level_text(value)


def _name_of_dates(name: str) -> str:
    """What the column of dates beside a column of numbers is called: ends stay recognizable as such."""
    ending = next((end for end in ("_low", "_high") if name.endswith(end)), "")
    return f"{name.removesuffix(ending)}_date{ending}"


def _dates(texts: list[str | None]) -> Any:
    """Texts of dates as dates, or as moments where one has a time of day."""
    import datetime

    import pyarrow as pa

    read = [None if text is None else datetime.datetime.fromisoformat(text) for text in texts]
    if all(text is None or len(text) <= len("2026-01-31") for text in texts):
        return pa.array([None if moment is None else moment.date() for moment in read], pa.date32())
    return pa.array(read, pa.timestamp("us"))


def _drawn(drawn: list[MeasuredRows], file: Path, title: str) -> bytes:
    """A picture of each number, one below the other, under one title."""
    from sudare.report.plots import inches_for_rows, interval_rows

    rows = max(len(each.values) for each in drawn)
    if rows > _MOST_DRAWN:
        raise InvalidParameter(
            f"There are {rows} numbers, and a picture shows {_MOST_DRAWN} at most.",
            "Choose fewer with --by, or use --csv.",
        )
    if any(abs(value) > _LARGEST_DRAWN for each in drawn for value in (*each.values, *each.lows, *each.highs)):
        raise InvalidParameter("A picture shows no numbers beyond 10¹⁰⁰.", "Leave --plot out, or use --csv.")
    panels = [
        interval_rows(
            each.labels, each.values, each.lows, each.highs, x_label=each.axis, are_dates=each.are_dates,
            has_intervals=each.has_intervals,
        )
        for each in drawn
    ]  # fmt: skip
    return picture_content(*panels, file=file, panel_inches=inches_for_rows(rows), title=title)


def _beginning(title: str) -> str:
    """The title of a kind of release, without what explains it."""
    return re.split("[:：]", title)[0].strip()


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
        lines.writerow(
            [spreadsheet_safe(_label_text(value)) if isinstance(value, str | bool) else value for value in row]
        )
    return text.getvalue()
