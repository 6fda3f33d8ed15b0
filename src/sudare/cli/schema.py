"""`sudare schema`: a first draft of the public facts about a table, and whether a table agrees with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.answers import AsJson, answer, progress, reported, write_new_text
from sudare.cli.options import Encoding, HasHeader, table_source

app = typer.Typer(help="Draft a schema for a table, or check a table against one.", no_args_is_help=True)

TablePath = Annotated[
    Path, typer.Argument(metavar="TABLE", help="A Parquet or CSV file, or a folder of Parquet files.")
]


@app.callback()
def schema() -> None:
    """Draft a schema for a table, or check a table against one."""


@app.command("draft")
@reported
def draft(
    table: TablePath,
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
    table: TablePath,
    schema: Annotated[Path, typer.Option("--schema", metavar="FILE", help="The schema (TOML).")],
    has_header: HasHeader = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Whether a table agrees with a schema, and how many values would be clipped. The counts are exact: for the owner only."""
    from sudare.frames import batches
    from sudare.schema import Schema, encode

    declared, source = Schema.load(schema), table_source(table, has_header, encoding)
    rows, clipped = 0, dict.fromkeys(declared.columns, 0)
    with progress(as_json) as tell:
        for batch in batches(source, schema=declared):
            encoded = encode(declared, batch)
            if declared.target is not None:
                declared.encode_target(batch)
            rows += batch.rows
            for name, count in encoded.clipped.items():
                clipped[name] += count
            tell(f"{rows:,} rows")
        declared.check_person(batches(source, schema=declared))
    outside = {name: count for name, count in clipped.items() if count}
    values = {"rows": rows, "columns": list(declared.columns), "clipped": outside, "for": "the owner only"}
    told = ", ".join(f"{name} {count:,}" for name, count in outside.items())
    lines = [
        f"{rows:,} rows match the schema.",
        f"Values outside the bounds, which will be clipped: {told or 'none'}. Only you see this; do not pass it on.",
    ]
    answer(values, as_json, *lines)
