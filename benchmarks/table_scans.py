"""Statistics and a private model of large Parquet tables on one machine, beside what polars takes for the same sums.

    python -m benchmarks.table_scans FOLDER [--rows 20000000] [--model-rows 2000000] [--turns 3]

FOLDER gets two tables with a fixed seed, unless they are there: ten columns of numbers (1.7 GB at the usual size), and seventeen with a label. First clipped means of the ten
columns, then histograms of them in ten bins each, then a table by two columns of ten bins with the means of the other eight; polars adds up the same, exactly as
often and in the quickest of some ways to say it. Then logistic regression (ε = 1, δ = 1e-6) of the seventeen columns, centred and binned.
Every run has a process of its own, and both sides take turns. Ratios are of processor time, the least of all turns; memory is the most of the whole process, imports included. A
run with the usual numbers of rows is written to benchmarks/table_scans.json and to docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers import ROOT
from benchmarks.resources import Taken, taken

Run = Callable[[], object]

ROWS: Final = 20_000_000
MODEL_ROWS: Final = 2_000_000
TURNS: Final = 3
OURS: Final = "benchmarks.table_scans"
RESULTS: Final = Path(__file__).with_name("table_scans.json")
PAGE: Final = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- table scans: written by its command -->", "<!-- end of table scans -->"

COLUMNS: Final = tuple(f"x{place}" for place in range(10))
EDGES: Final = tuple(float(edge) for edge in range(10, 100, 10))
LOW, HIGH = 0.0, 100.0
FEATURES: Final = tuple(f"x{place}" for place in range(17))
_GROUP_ROWS: Final = 2**20


# The tables


def numbers_at(folder: Path, rows: int) -> Path:
    """Ten columns of numbers, some of them outside of the bounds."""

    def part(generator: np.random.Generator, size: int) -> pa.Table:
        return pa.table({name: generator.normal(50, 20, size) for name in COLUMNS})

    return _written(folder / f"numbers-{rows}.parquet", rows, part)


def labelled_at(folder: Path, rows: int) -> Path:
    """Seventeen columns and a label that follows a logistic model of them."""
    weights = np.random.default_rng(17).normal(size=len(FEATURES)) / 3

    def part(generator: np.random.Generator, size: int) -> pa.Table:
        values = generator.normal(size=(size, len(FEATURES)))
        chances = 1 / (1 + np.exp(-values @ weights))
        label = np.where(generator.random(size) < chances, "yes", "no")
        return pa.table({**{name: values[:, place] for place, name in enumerate(FEATURES)}, "label": label})

    return _written(folder / f"labelled-{rows}.parquet", rows, part)


def tables_at(folder: str, rows: int, model_rows: int) -> Run:
    """Both tables."""
    return lambda: (numbers_at(Path(folder), rows), labelled_at(Path(folder), model_rows))


def _written(path: Path, rows: int, part: Callable[[np.random.Generator, int], pa.Table]) -> Path:
    """The file, made of parts with a fixed seed unless it is there; whole or not at all."""
    if not path.exists():
        generator, unfinished = np.random.default_rng(19), path.with_suffix(".unfinished")
        with pq.ParquetWriter(unfinished, part(np.random.default_rng(0), 1).schema) as writer:
            for start in range(0, rows, _GROUP_ROWS):
                writer.write_table(part(generator, min(_GROUP_ROWS, rows - start)))
        unfinished.rename(path)
    return path


# What is timed: ours


def _declared() -> Any:
    from sudare.schema import Number, Schema

    return Schema({name: Number(LOW, HIGH, bins=EDGES) for name in COLUMNS})


def means(path: str) -> Run:
    """Clipped means with noise."""
    from sudare import PrivateMean

    return lambda: PrivateMean(schema=_declared(), random_state=0).fit(path)


def histograms(path: str) -> Run:
    """Counts of all columns in their bins, with noise."""
    from sudare import PrivateHistogram

    return lambda: PrivateHistogram(schema=_declared(), random_state=0).fit(path)


def grouped(path: str) -> Run:
    """Counts and means of eight columns by the bins of two, with noise."""
    from sudare.statistics import GroupedTable

    by, mean_of = COLUMNS[:2], COLUMNS[2:]
    return lambda: GroupedTable(schema=_declared(), by=by, mean_of=mean_of, random_state=0).fit(path)


def logistic(path: str, encoding: str) -> Run:
    """A fit of logistic regression; its loops are compiled before."""
    model = _logistic(encoding)
    _logistic(encoding).fit(next(pq.ParquetFile(path).iter_batches(batch_size=2000)).to_pandas())
    return lambda: model.fit(path)


def _logistic(encoding: str) -> Any:
    from sudare import PrivateLogisticRegression
    from sudare.schema import Label, Number, Schema

    bins = tuple(np.linspace(-4, 4, 11)[1:-1].tolist())
    columns = {name: Number(-4, 4, bins=bins) for name in FEATURES}
    schema = Schema({**columns, "label": Label(("no", "yes"))})
    return PrivateLogisticRegression(1.0, 1e-6, schema=schema, encoding=encoding, random_state=0)


# What is timed: polars


def polars_means(path: str) -> Run:
    """Means of clipped columns."""
    import polars as pl

    return lambda: pl.scan_parquet(path).select(pl.all().clip(LOW, HIGH).mean()).collect(engine="streaming")


def polars_histograms(path: str) -> Run:
    """How many values reach each edge: what counts in bins are differences of. Bins by `cut` and by division took twice as long."""
    import polars as pl

    reached = [(pl.col(name) >= edge).sum().alias(f"{name} {edge}") for name in COLUMNS for edge in EDGES]
    return lambda: pl.scan_parquet(path).select(reached).collect(engine="in-memory")


def polars_grouped(path: str) -> Run:
    """Rows and sums of clipped columns by the bins of two; bins by division, which is the quickest."""
    import polars as pl

    width = (HIGH - LOW) / (len(EDGES) + 1)
    by = [(pl.col(name).clip(LOW, HIGH) / width).floor().clip(0, len(EDGES)).cast(pl.UInt8) for name in COLUMNS[:2]]
    sums = [pl.col(name).clip(LOW, HIGH).sum() for name in COLUMNS[2:]]
    return lambda: pl.scan_parquet(path).group_by(by).agg(pl.len(), *sums).collect(engine="streaming")


CASES: Final[Mapping[str, Callable[..., Run]]] = {
    "tables": tables_at,
    "means": means,
    "histograms": histograms,
    "grouped": grouped,
    "logistic": logistic,
    "polars_means": polars_means,
    "polars_histograms": polars_histograms,
    "polars_grouped": polars_grouped,
}


# How it is compared


@dataclass(frozen=True)
class Outcome:
    """A line of results: least processor times over the turns, and the most memory of a process."""

    name: str
    rows: int
    seconds: float
    peak_bytes: int
    beside: str
    beside_seconds: float | None
    beside_peak_bytes: int | None
    ratio: float | None
    asked: str


def outcome(name: str, rows: int, asked: str, ours: Sequence[Taken], beside: str, others: Sequence[Taken]) -> Outcome:
    """Least times and most memory of both sides."""
    seconds, peak = _least(ours)
    if not others:
        return Outcome(name, rows, seconds, peak, beside, None, None, None, asked)
    other_seconds, other_peak = _least(others)
    return Outcome(name, rows, seconds, peak, beside, other_seconds, other_peak, seconds / other_seconds, asked)


def _least(runs: Sequence[Taken]) -> tuple[float, int]:
    return min(run.processor_seconds for run in runs), max(run.peak_bytes for run in runs)


def measured(folder: Path, rows: int, model_rows: int, turns: int) -> list[Outcome]:
    """Every line, both sides by turns."""

    def run(case: str, **arguments: Any) -> Taken:
        return taken(sys.executable, OURS, case, arguments)

    # In a process of its own: on Linux a new process begins with the most memory of its parent.
    run("tables", folder=str(folder), rows=rows, model_rows=model_rows)
    table, labelled = str(folder / f"numbers-{rows}.parquet"), str(folder / f"labelled-{model_rows}.parquet")
    found: list[Outcome] = []

    lines = {
        "means": ("clipped means, 10 columns", "≤ 1.5 and ≤ 300 MB"),
        "histograms": ("histograms of 10 bins, 10 columns", "≤ 2"),
        "grouped": ("counts by 10 × 10 bins, and means of 8 columns", "≤ 2"),
    }
    for case, (name, asked) in lines.items():
        pairs = [(run(case, path=table), run(f"polars_{case}", path=table)) for _ in range(turns)]
        found.append(outcome(name, rows, asked, [one for one, _ in pairs], "polars", [other for _, other in pairs]))
        print(told(found[-1]), flush=True)
    fits = {encoding: [run("logistic", path=labelled, encoding=encoding)] for encoding in ("centred", "binned")}
    for encoding, asked, beside in (("centred", "≤ 30 s", ""), ("binned", "≤ 2", "centred")):
        name = f"logistic regression, 17 columns, {encoding}"
        found.append(outcome(name, model_rows, asked, fits[encoding], beside, fits[beside] if beside else []))
        print(told(found[-1]), flush=True)
    return found


def told(one: Outcome) -> str:
    """One line for the terminal."""
    ratio = "" if one.ratio is None else f"{one.ratio:.2f} × {one.beside} ({one.beside_seconds:.2f} s)"
    return f"{one.seconds:7.2f} s  {one.peak_bytes / 1e6:5.0f} MB  {ratio:28}  {one.asked:18}  {one.name}, {one.rows:,} rows"


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The table for the page."""
    lines = [
        "| | rows | processor time | peak memory | beside | ratio | asked for |",
        "| --- | ---: | ---: | ---: | --- | ---: | --- |",
    ]
    for one in outcomes:
        ratio, beside = "", ""
        if one.ratio is not None and one.beside_seconds is not None and one.beside_peak_bytes is not None:
            ratio, beside = (
                f"{one.ratio:.2f}",
                f"{one.beside}: {one.beside_seconds:.2g} s, {one.beside_peak_bytes / 1e6:.0f} MB",
            )
        lines.append(
            f"| {one.name} | {one.rows:,} | {one.seconds:.2g} s | {one.peak_bytes / 1e6:.0f} MB | {beside} | {ratio} | {one.asked} |"
        )
    return "\n".join(lines)


def write_page(outcomes: Sequence[Outcome], page: Path = PAGE, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Replace the part between the marks."""
    begin, end = marks
    before, _, rest = page.read_text("utf-8").partition(begin)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{begin}\n\n{markdown(outcomes)}\n\n{end}{after}", "utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table_scans", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the tables are, or are to be")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the table of numbers")
    parser.add_argument("--model-rows", type=int, default=MODEL_ROWS, help="rows of the table with a label")
    parser.add_argument("--turns", type=int, default=TURNS, help="runs of each side")
    options = parser.parse_args()
    outcomes = measured(options.folder, options.rows, options.model_rows, options.turns)
    if (options.rows, options.model_rows) == (ROWS, MODEL_ROWS):
        RESULTS.write_text(json.dumps([asdict(one) for one in outcomes], indent=2, ensure_ascii=False) + "\n", "utf-8")
        write_page(outcomes)


if __name__ == "__main__":
    main()
