"""Files with one line for every row of a table: private, new, as Parquet or CSV."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sudare.cli.command_output import write_new_private
from sudare.errors import InvalidParameter
from sudare.safe_text import spreadsheet_safe


def check_rows_output(output: Path | None) -> None:
    """Raise InvalidParameter unless a new table can be written there, or none is wanted."""
    if output is None:
        return
    if output.suffix not in (".csv", ".parquet"):
        raise InvalidParameter("Rows are written to a .csv or a .parquet file.", "Name --output so.")
    if os.path.lexists(output):
        raise InvalidParameter(f"'{output.name}' exists already.", "Move it, or choose another --output.")
    if not output.absolute().parent.is_dir():
        raise InvalidParameter(f"'{output}' cannot be written: there is no folder for it.", "Make it first.")


def write_rows(output: Path, columns: Mapping[str, Any]) -> None:
    """Columns of equal length in a new file that only its owner may read; no text of a CSV file is a formula of a spreadsheet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    content = pa.BufferOutputStream()
    if output.suffix == ".csv":
        pyarrow.csv.write_csv(spreadsheet_rows(table), content)
    else:
        pyarrow.parquet.write_table(table, content)
    write_new_private(output, content.getvalue().to_pybytes())


def spreadsheet_rows(table: Any) -> Any:
    """An Arrow table whose names and texts no spreadsheet takes for formulas."""
    import pyarrow as pa

    return pa.table(
        {
            spreadsheet_safe(name): _safe(column)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )


def _safe(texts: Any) -> Any:
    import pyarrow as pa

    return pa.array([None if text is None else spreadsheet_safe(text) for text in texts.to_pylist()], texts.type)
