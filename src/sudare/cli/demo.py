"""`sudare demo`: private releases end to end, on made-up data, and a page about them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len

from sudare.cli.command_output import AsJson, answer, progress, reported
from sudare.cli.language import spoken, spoken_language

if TYPE_CHECKING:
    from sudare.demo.scenario_output import ResultLine

LINE_WIDTH = 16


@reported
def demo(
    out: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="The folder for report.html and the files of each run.")
    ] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Make a table, release statistics of it privately, try to cheat, and write DIR/report.html about all of it."""
    from sudare.demo.page import run_demo

    def show(line: ResultLine) -> None:
        if not as_json:
            answer({}, as_json, f"✓ {_padded(spoken(line.who))} {spoken(line.what)}")

    with progress(as_json) as tell:
        played = run_demo(out, tell, show, spoken_language())
    values = {
        "report": str(played.report),
        "folder": str(played.folder),
        "lines": [line._asdict() for line in played.lines],
        "seconds": round(played.seconds, 1),
    }
    answer(values, as_json, f"Open {played.report}   ({_duration(played.seconds)}; nothing left this machine)")


def _padded(text: str) -> str:
    """The text with blanks behind it, so that what follows begins in one column of the terminal."""
    return text + " " * (LINE_WIDTH - cell_len(text))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{seconds:.1f} s"
