"""Descent over a file that is larger than memory: by workers that keep their rows, and by reading the file at every step.

    python -m benchmarks.cluster [--folder FOLDER]

writes a table twice as large as the memory that a worker may have, as Parquet and as CSV, then takes steps of noisy gradient descent over it: with two workers of
a local Dask cluster of which each may have that memory, with one worker that may have twice as much, and in one process that reads a file at every step, that of
Parquet (numbers as they are in memory: the quickest there is) and that of CSV. It checks that all have the same bits, writes benchmarks/cluster.json, prints a
table and puts it into docs/scale.md. Seconds are of the clock, the least of all steps of a minute: run it where little else runs. FOLDER keeps the files for another run.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from benchmarks.peers import ROOT
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Rows
from sudare.linear import PrivateLogisticRegression
from sudare.schema import Label, Number, Schema

RESULTS: Final = Path(__file__).with_name("cluster.json")
PAGE: Final = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- cluster: written by its command -->", "<!-- end of cluster -->"
COLUMNS: Final = 16
ROW_GROUP: Final = 2**18
SECONDS: Final = 60


@dataclass(frozen=True)
class Cost:
    """What one way of descending over a file takes: seconds of the clock, and of processors in all processes; memory of the largest process."""

    way: str
    rows: int
    columns: int
    file_bytes: int
    limit_bytes: int
    first_pass_seconds: float
    step_seconds: float
    step_processor_seconds: float
    held_bytes: int


def schema() -> Schema:
    """Number columns and a label."""
    return Schema({**{f"c{number}": Number(-4.0, 4.0) for number in range(COLUMNS)}, "label": Label((0, 1))})


def write_rows(path: Path, rows: int) -> None:
    """A table whose numbers cannot be compressed, a row group at a time."""
    random = np.random.default_rng(0)
    types = pa.schema([(f"c{number}", pa.float64()) for number in range(COLUMNS)] + [("label", pa.int8())])
    with pyarrow.parquet.ParquetWriter(path, types, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, ROW_GROUP):
            values = random.normal(size=(min(ROW_GROUP, rows - start), COLUMNS))
            columns = [*values.T, (values[:, 0] > 0).astype(np.int8)]
            writer.write_table(pa.table(dict(zip(types.names, columns, strict=True)), schema=types))


def write_csv(path: Path, parquet: Path) -> None:
    """The table of a Parquet file as CSV, each number to its last digit, a row group at a time."""
    source = pyarrow.parquet.ParquetFile(parquet)
    with pyarrow.csv.CSVWriter(path, source.schema_arrow) as writer:
        for number in range(source.num_row_groups):
            writer.write_table(source.read_row_group(number))


def model(cluster: Any = None) -> PrivateLogisticRegression:
    """The learner whose steps are measured."""
    return PrivateLogisticRegression(1.0, 1e-6, schema=schema(), method="descent", random_state=0, cluster=cluster)


def rows_and_step(path: Path, cluster: Any) -> tuple[Rows, Any]:
    """The checked rows, and the exact sum of clipped gradients over them."""
    learner = model(cluster)
    rows = learner._read_rows(path, None)
    if cluster is None:
        # A fit keeps the rows of a file; this is about reading them.
        rows = checked_rows(path, partial(learner._reader()._block, y=None, schema=schema()), schema())
    mechanism: Any = learner.plan(rows.count, learner.declared_).mechanism
    descent = mechanism.learning
    place = np.full((1, descent.facts.width), 0.1)
    return rows, lambda: descent.clipped_sum(rows, place)


def seconds_of(action: Any) -> tuple[float, Any]:
    """How long it took by the clock, and what it gave."""
    begun = time.perf_counter()
    made = action()
    return time.perf_counter() - begun, made


def measured(way: str, path: Path, limit: int, cluster: Any, steps: int) -> tuple[Cost, NDArray[Any]]:
    """The cost of a first pass and of a step, the least of so many at least and of a minute, and the sum it gave."""
    first, (rows, step) = seconds_of(lambda: rows_and_step(path, cluster))
    # Loops are compiled first.
    step()
    before, begun, sums = processor_seconds(cluster), time.perf_counter(), []
    while len(sums) < steps or time.perf_counter() - begun < SECONDS:
        sums.append(seconds_of(step))
    processor = (processor_seconds(cluster) - before) / len(sums)
    held = max(cluster.run(resident_bytes).values()) if cluster is not None else resident_bytes()
    seconds = min(each for each, _ in sums)
    return Cost(way, rows.count, COLUMNS, path.stat().st_size, limit, first, seconds, processor, held), sums[0][1]


def processor_seconds(cluster: Any) -> float:
    """What this process and the workers have used so far."""
    return time.process_time() + (0.0 if cluster is None else sum(cluster.run(time.process_time).values()))


def resident_bytes() -> int:
    """The memory of this process."""
    return int(psutil.Process(os.getpid()).memory_info().rss)


def on_workers(workers: int, path: Path, limit: int, worker_limit: int, steps: int) -> tuple[Cost, NDArray[Any]]:
    """The cost with so many workers of one thread each."""
    import dask
    import distributed

    # Rows in clear are not written to disk, as docs/scale.md tells whoever owns a cluster.
    in_memory = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "memory_limit": worker_limit}
    with (
        dask.config.set(in_memory),
        distributed.LocalCluster(n_workers=workers, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        return measured(f"{workers} worker{'s' if workers > 1 else ''}", path, limit, client, steps)


def table(costs: list[Cost]) -> str:
    """The costs, and how they compare."""
    two, one, parquet, csv = costs
    lines = [
        f"{two.rows:,} rows of {two.columns} numbers, {two.file_bytes / 2**20:,.0f} MiB in Parquet ({csv.file_bytes / 2**20:,.0f} in CSV), twice the {two.limit_bytes / 2**20:,.0f} MiB that each of two workers may have:",
        "",
        "| | first pass | a step | of all processors | largest process |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {cost.way} | {cost.first_pass_seconds:.1f} s | {cost.step_seconds:.3f} s | {cost.step_processor_seconds:.3f} s | {cost.held_bytes / 2**20:,.0f} MiB |"
        for cost in costs
    ]
    ratios = [cost.step_seconds / two.step_seconds for cost in (one, parquet, csv)]
    of_processors = [cost.step_processor_seconds / two.step_processor_seconds for cost in (parquet, csv)]
    lines += [
        "",
        f"Two workers take a step {ratios[0]:.2f} times as fast as one, {ratios[1]:.1f} times as fast as reading the Parquet file and {ratios[2]:.1f} times as fast as reading the CSV file; processors have {of_processors[0]:.1f} and {of_processors[1]:.1f} times less to do than with these.",
    ]
    return "\n".join(lines)


def put_into(page: Path, text: str) -> None:
    """Replace the part of a page that this command writes."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", "utf-8")


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-mib", type=int, default=2048, help="memory that each of two workers may have")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where files lie, and stay; a temporary folder if left out")
    parser.add_argument("--try", dest="is_trial", action="store_true", help="print only, and limit nobody's memory")
    asked = parser.parse_args()
    limit = asked.limit_mib * 2**20
    rows = 2 * limit // (8 * COLUMNS + 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if asked.folder is None else asked.folder
        path, text_path = folder / f"rows-{rows}.parquet", folder / f"rows-{rows}.csv"
        if not text_path.exists():
            write_rows(path, rows)
            write_csv(unfinished := text_path.with_suffix(".unfinished"), path)
            unfinished.rename(text_path)
        found = [
            on_workers(2, path, limit, 0 if asked.is_trial else limit, asked.steps),
            on_workers(1, path, limit, 0 if asked.is_trial else 2 * limit, asked.steps),
            measured("reading Parquet at every step", path, limit, None, asked.steps),
            measured("reading CSV at every step", text_path, limit, None, min(asked.steps, 2)),
        ]
    for _, sums in found[1:]:
        np.testing.assert_array_equal(sums, found[0][1])
    costs = [cost for cost, _ in found]
    text = table(costs)
    print(text)
    if not asked.is_trial:
        RESULTS.write_text(json.dumps([asdict(cost) for cost in costs], indent=2) + "\n", "utf-8")
        put_into(PAGE, text)


if __name__ == "__main__":
    main()
