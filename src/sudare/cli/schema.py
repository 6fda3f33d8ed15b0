"""`sudare schema`: a first draft of the public facts about a table, and whether a table agrees with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.answers import AsJson, answer, progress, reported, write_new_text
from sudare.cli.options import Encoding, HasHeader, TableFile, table_source
from sudare.safe_text import escaped_for_terminal

app = typer.Typer(help="Draft a schema for a table, or check a table against one.", no_args_is_help=True)


@app.callback()
def schema() -> None:
    """Draft a schema for a table, or check a table against one."""


@app.command("draft")
@reported
def draft(
    table: TableFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a new file instead.")
    ] = None,
    has_header: HasHeader = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """A first schema from names and types of columns; every bound is left as a question to a human, never copied."""
    from sudare.frames import column_types
    from sudare.schema import Schema

    types = column_types(table_source(table, has_header, encoding))
    text = Schema.draft(types, has_header=has_header)
    if output is not None:
        write_new_text(output, text)
    values = {"columns": list(types.names), "draft": text, "output": None if output is None else str(output)}
    answer(
        values, as_json, text if output is None else f"Wrote {output}. Answer every question mark in it by knowledge."
    )


@app.command("check")
@reported
def check(
    table: TableFile,
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The schema (TOML).")],
    has_header: HasHeader = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Whether a table agrees with a schema: all problems at once, what would be clipped, and what is ignored. Counts are exact: for the owner only."""
    from sudare.frames.schema_validation import schema_report
    from sudare.schema import Schema

    declared, source = Schema.load(schema), table_source(table, has_header, encoding)
    with progress(as_json) as tell:
        found = schema_report(source, declared, tell)
    values = {
        "rows": found.rows,
        "columns": list(declared.columns),
        "problems": [
            {
                "column": each.column,
                "error": type(each.error).__name__,
                "problem": each.error.problem,
                "remedy": each.error.remedy,
            }
            for each in found.problems
        ],
        "clipped": found.clipped,
        "ignored": found.ignored,
        "person_like": found.person_like,
        "for": "the owner only",
    }
    clipped = ", ".join(f"{name} {count:,}" for name, count in found.clipped.items())
    opening = (
        f"{found.rows:,} rows match the schema."
        if not found.problems
        else f"The table does not match the schema; {len(found.problems)} problem{'s' if len(found.problems) > 1 else ''}:"
    )
    lines = [
        opening,
        *(f"- {escaped_for_terminal(str(each.error))}" for each in found.problems),
        f"Values outside the bounds, which will be clipped: {escaped_for_terminal(clipped or 'none')}. Only you see this; do not pass it on.",
    ]
    if found.ignored:
        lines.append(
            f"Columns that the schema does not name and that are ignored: {escaped_for_terminal(', '.join(found.ignored))}."
        )
    lines += [
        f"Column {escaped_for_terminal(repr(name))} looks as if it said whose row it is, and values occur again: if persons have several rows, declare [person] in the schema, "
        "or the promise is to rows only."
        for name in found.person_like
    ]
    answer(values, as_json, *lines)
    if found.problems:
        raise typer.Exit(found.problems[0].error.exit_code)
