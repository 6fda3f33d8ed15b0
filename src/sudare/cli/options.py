"""Options that several commands take, each declared once."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sudare.frames import Slice
    from sudare.schema import Schema


def table_place(table: str) -> str | Path:
    """Returns where a table is: an address as text, anything else as a path."""
    from sudare.frames.table_addresses import is_address

    return table if is_address(table) else Path(table)


def table_source(
    table: str, has_header: bool | None, encoding: str | None, csv: list[str] | None = None
) -> str | os.PathLike[str]:
    """The place itself where nothing was said of how it is written, else a CsvFile that has it."""
    from sudare.frames.csv_dialects import described_table

    return described_table(table_place(table), has_header, encoding, csv or [])


def table_name(table: str) -> str:
    """What a table is called: its file, folder, or table in a database. An address may hold a password before that."""
    from sudare.errors import SourceUnreadable
    from sudare.frames.databases import SqlSource
    from sudare.frames.table_addresses import parsed

    try:
        place = parsed(table)
    except SourceUnreadable:
        return "a table"
    named = place.query if isinstance(place, SqlSource) else str(getattr(place, "root", place))
    return "a query" if " " in named and isinstance(place, SqlSource) else Path(named).name


def sliced(source: str | os.PathLike[str], schema: Schema, where: list[str] | None) -> str | os.PathLike[str] | Slice:
    """The table, or the slice of it that COLUMN=VALUE names. Raise InvalidParameter unless every text is of that form."""
    from sudare.errors import InvalidParameter
    from sudare.frames import Slice

    if not where:
        return source
    pairs = [text.partition("=") for text in where]
    if not all(name and mark and value for name, mark, value in pairs) or len({name for name, _, _ in pairs}) < len(
        pairs
    ):
        raise InvalidParameter(
            "--slice is COLUMN=VALUE, with each column once.", "Use for example --slice month=2026-01."
        )
    return Slice(source, schema, {name: value for name, _, value in pairs})


class Filter(StrEnum):
    """How charges add up in a new account."""

    BASIC = "basic"
    GAUSSIAN = "gaussian"


TableFile = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help='A Parquet or CSV file, a folder or pattern of files; s3://, gs:// or abfs:// and a place there; delta: or iceberg: and a folder; or "sqlite:///FILE TABLE", with any database\'s address.',
    ),
]
HasHeader = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file names its columns; asked for where the file does not show it. Without names they are column_1, column_2, ….",
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="The encoding of a CSV file, such as cp932 or cp1252. Without it a file is UTF-8, or what its byte order mark names.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="The scheduler of a Dask cluster, such as tls://scheduler:8786, whose workers read the table and add up its rows.",
        show_default=False,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Where training is kept, so that a killed run goes on with the same noise and one charge.",
        show_default=False,
    ),
]
CsvFacts = Annotated[
    list[str] | None,
    typer.Option(
        "--csv",
        metavar="NAME=VALUE",
        help="How a CSV file is written: thousands=, (or . ' or a blank), tidy=yes (full-width figures, blanks around values), separator=; or decimal=, where they do not show. May be repeated.",
        show_default=False,
    ),
]
Slices = Annotated[
    list[str] | None,
    typer.Option(
        "--slice",
        metavar="COLUMN=VALUE",
        help="Only rows with this value of a declared category; may be repeated for further columns. Disjoint slices cost their most, not their sum; needs --neighbours add-remove.",
    ),
]
SchemaOfAllColumns = Annotated[
    Path, typer.Option("--schema", metavar="FILE", help="The public facts about all columns (TOML).")
]
ChargedEpsilon = Annotated[float, typer.Option("--epsilon", help="The ε of the guarantee, charged to the account.")]
ChargedDelta = Annotated[float, typer.Option("--delta", help="The δ of the guarantee; above 0 the noise is Gaussian.")]
AccountOrTableName = Annotated[
    str | None,
    typer.Option("--account", metavar="NAME", help="The account that pays; without it, the one named like the table."),
]
NewBudget = Annotated[
    float | None,
    typer.Option("--budget", metavar="EPSILON", help="Open the account with this ε, bound to the table, if it is new."),
]
NewBudgetDelta = Annotated[
    float | None, typer.Option("--budget-delta", metavar="DELTA", help="The δ of a newly opened account.")
]
Composition = Annotated[
    Filter | None, typer.Option("--composition", help="How charges add up in a newly opened account.")
]
NewRelease = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="The release to write, usually NAME.sudare.")
]
SigningKey = Annotated[
    Path | None,
    typer.Option("--key", envvar="SUDARE_KEY", metavar="FILE", help="Your Ed25519 private key (PEM) to sign with."),
]
TrustedKeys = Annotated[
    list[Path] | None,
    typer.Option(
        "--trusted",
        metavar="PUBLICKEY",
        help="An Ed25519 public key (PEM) that you trust; may be repeated. Another signature then ends with exit code 52.",
    ),
]
