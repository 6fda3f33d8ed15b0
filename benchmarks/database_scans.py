"""Statistics that a database adds up itself, beside the same statistics of rows that are read from it.

    python -m benchmarks.database_scans FOLDER [--rows 2000000] [--sqlite-rows 200000] [--turns 3]

FOLDER gets a file of DuckDB and one of SQLite with ten columns of numbers and a fixed seed, unless they are there. Clipped means, histograms and a table by group as in benchmarks.table_scans: added up
by the database, and read. Every run has a process of its own, and both sides take turns. Times are processor times, the least of all turns; DuckDB has one thread. A run with the usual
numbers of rows is written to benchmarks/database_scans.json and to docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.resources import Taken, taken
from benchmarks.table_scans import COLUMNS, Outcome, Run, grouped, histograms, means, outcome, told, write_page

ROWS: Final = 2_000_000
SQLITE_ROWS: Final = 200_000
TURNS: Final = 3
RESULTS: Final = Path(__file__).with_suffix(".json")
BEGIN, END = "<!-- database scans: written by its command -->", "<!-- end of database scans -->"
STATISTICS: Final[Mapping[str, Callable[[Any], Run]]] = {
    "means": means,
    "histograms": histograms,
    "grouped": grouped,
}
NAMES: Final = {
    "means": "clipped means, 10 columns",
    "histograms": "histograms of 10 bins, 10 columns",
    "grouped": "counts by 10 × 10 bins, and means of 8 columns",
}


def tables_at(duckdb_file: str, sqlite_file: str, rows: int, sqlite_rows: int) -> Run:
    """Both databases, unless they are there."""

    def write() -> None:
        import duckdb
        import pandas as pd

        generator = np.random.default_rng(19)
        if not Path(duckdb_file).exists():
            numbers = pd.DataFrame({name: generator.normal(50, 20, rows) for name in COLUMNS})
            with duckdb.connect(duckdb_file) as connection:
                connection.register("numbers", numbers)
                connection.execute("CREATE TABLE rows AS SELECT * FROM numbers")
        if not Path(sqlite_file).exists():
            few = pd.DataFrame({name: generator.normal(50, 20, sqlite_rows) for name in COLUMNS})
            with sqlite3.connect(sqlite_file) as connection:
                few.to_sql("rows", connection, index=False, chunksize=10_000)

    return write


def statistic(name: str, address: str, is_read: bool) -> Run:
    """One statistic of a table, added up by its database or read."""
    from sudare.frames import database_sums

    if is_read:
        database_sums._computed = lambda *_: None
    if not address.startswith("duckdb:"):
        return STATISTICS[name](address)
    import duckdb

    connection = duckdb.connect(address.removeprefix("duckdb:"), read_only=True, config={"threads": "1"})
    return STATISTICS[name](connection.sql("FROM rows"))


CASES: Final[Mapping[str, Callable[..., Run]]] = {"tables": tables_at, "statistic": statistic}


def measured(folder: Path, rows: int, sqlite_rows: int, turns: int) -> list[Outcome]:
    """Every line, both sides by turns."""

    def run(case: str, **arguments: Any) -> Taken:
        return taken(sys.executable, "benchmarks.database_scans", case, arguments)

    duckdb_file, sqlite_file = str(folder / f"rows-{rows}.duckdb"), str(folder / f"rows-{sqlite_rows}.sqlite")
    run("tables", duckdb_file=duckdb_file, sqlite_file=sqlite_file, rows=rows, sqlite_rows=sqlite_rows)
    found: list[Outcome] = []
    for kind, address, count in (
        ("DuckDB", f"duckdb:{duckdb_file}", rows),
        ("SQLite", f"sqlite:///{sqlite_file} rows", sqlite_rows),
    ):
        for name, words in NAMES.items():
            pairs = [
                [run("statistic", name=name, address=address, is_read=is_read) for is_read in (False, True)]
                for _ in range(turns)
            ]
            ours, read = [one for one, _ in pairs], [other for _, other in pairs]
            found.append(outcome(f"{kind}: {words}", count, "", ours, "read", read))
            print(told(found[-1]), flush=True)
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.database_scans", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the databases are, or are to be")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the table of DuckDB")
    parser.add_argument("--sqlite-rows", type=int, default=SQLITE_ROWS, help="rows of the table of SQLite")
    parser.add_argument("--turns", type=int, default=TURNS, help="runs of each side")
    options = parser.parse_args()
    outcomes = measured(options.folder, options.rows, options.sqlite_rows, options.turns)
    if (options.rows, options.sqlite_rows) == (ROWS, SQLITE_ROWS):
        RESULTS.write_text(json.dumps([asdict(one) for one in outcomes], indent=2, ensure_ascii=False) + "\n", "utf-8")
        write_page(outcomes, marks=(BEGIN, END))


if __name__ == "__main__":
    main()
