"""`sudare study`: figures and tables of the papers beside our own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from sudare.cli.command_output import AsJson, answer, progress, reported

if TYPE_CHECKING:
    from sudare.papers import ResultTable


@reported
def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A study, or `list` for all of them.")],
    out: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="The folder for NAME.json and NAME.html.")
    ] = Path("results"),
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", min=2, help="How often to repeat; without it, as often as the study says."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes instead of the printed setting: smaller, as each figure says.")
    ] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, help="Processes that share the repetitions; numbers are the same.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Run a study: our numbers beside the paper's, with standard errors, neighbours and δ. Writes JSON and a page."""
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    from sudare.papers import STUDIES, load_study, write_result
    from sudare.papers.study import result_values

    if name == "list":
        studies = {known: load_study(known) for known in STUDIES}
        listed = {known: {"title": each.title, "paper": each.paper} for known, each in studies.items()}
        answer({"studies": listed}, as_json, *(f"{known}  {each.title}" for known, each in studies.items()))
        return
    chosen = load_study(name)
    with progress(as_json) as tell:
        settings = chosen.settings(repeats, quick=quick)
        # Seconds in tables are those of one core, and `jobs` processes are to need no more cores than that.
        with parallel_config(n_jobs=jobs), threadpool_limits(1):
            result = chosen.run(tell, settings)
        files = write_result(name, chosen, result, settings, out)
    values = {**result_values(name, chosen, result, settings), "files": [str(file) for file in files]}
    shown = [part for table in result.tables for part in (_shown(table), table.says, "")]
    answer(values, as_json, chosen.title, "", *shown, f"Wrote {' and '.join(map(str, files))}.")


def _shown(table: ResultTable) -> Table:
    from sudare.papers.study import cell_text

    # No word of a heading is cut off, however narrow the screen is.
    columns = [Column(Text(heading), overflow="fold") for heading in table.columns]
    shown = Table(*columns, title=table.title, title_justify="left", box=None, pad_edge=False)
    for row in table.rows:
        shown.add_row(*(Text(cell_text(cell)) for cell in row))
    return shown
