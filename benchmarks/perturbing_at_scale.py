"""Ten million records perturbed, beside multi-freq-ldpy's client, which is called once a record.

    python -m benchmarks.perturbing_at_scale [--rows 10000000] [--turns 3]

First one column in memory by each perturbation, without and with shuffling; then a table of four columns the whole way: read in batches from Parquet,
charged, perturbed, shuffled on disk, released with its rows as Parquet; then the receiver's way: loaded, rows verified, one column
reconstructed. Every run has a process of its own, and both sides take turns. The peer does a hundredth of the rows: its time is proportional
to them. It neither shuffles, reads nor writes, and has nothing for numbers: in their place it does retain-replace of 16 values.
Ratios are of processor time, the least of all turns. A run with the usual number of rows is written to benchmarks/perturbing_at_scale.json and to the page.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from benchmarks.peers import PeerMissing, peer_python
from benchmarks.resources import Taken, taken
from benchmarks.table import PAGE, ratio_text
from sudare.perturbation import (
    LaplacePerturbation,
    RecordPerturbation,
    RetainReplace,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.exact_draws import MANY_ROWS
from sudare.perturbation.uniform_shuffle import shuffled
from sudare.privacy import Ledger, Release
from sudare.privacy.noise import SystemNoise
from sudare.reconstruction import Reconstruction
from sudare.schema import Category, Number, Schema

Run = Callable[[], object]

ROWS: Final = 10**7
PEERS_PART: Final = 100
EPSILON: Final = 0.65
TURNS: Final = 3
OURS: Final = "benchmarks.perturbing_at_scale"
PEER: Final = "benchmarks.multi_freq_ldpy_peer"
RESULTS: Final = Path(__file__).with_name("perturbing_at_scale.json")
BEGIN, END = "<!-- perturbing at scale: written by its command -->", "<!-- end of perturbing at scale -->"

_NUMBERS: Final = (0.0, 100.0)
_FEW_VALUES, _MANY_VALUES = 16, 42
_SCHEMA: Final = Schema(
    {
        "age": Number(*_NUMBERS),
        "income": Number(*_NUMBERS),
        "education": Category(tuple(f"level {number}" for number in range(_FEW_VALUES))),
        "country": Category(tuple(f"country {number}" for number in range(_MANY_VALUES))),
    }
)
_BATCH_ROWS: Final = 10**6


# What is timed


def one_column(kind: str, rows: int, *, shuffle: bool) -> Run:
    """A column in memory, perturbed, and then shuffled or not; the loops are compiled before."""
    perturbation = _perturbations()[kind]
    generator = np.random.default_rng(0)
    column = (
        generator.uniform(*_NUMBERS, rows)
        if perturbation.column_type is np.float64
        else generator.integers(0, perturbation.output_count, rows)
    )

    def run(values: NDArray[Any] = column) -> object:
        drawn = perturbation.drawn(values, SystemNoise())
        return shuffled(drawn, SystemNoise()) if shuffle else drawn

    run(column[: 2 * MANY_ROWS])
    return run


def _perturbations() -> dict[str, Perturbation]:
    few, many = range(_FEW_VALUES), range(_MANY_VALUES)
    return {
        "Laplace noise": LaplacePerturbation(_NUMBERS, epsilon=EPSILON),
        "square wave": SquareWave(_NUMBERS, epsilon=EPSILON),
        "retain-replace, 16 values": RetainReplace(few, epsilon=EPSILON),
        "subset selection, 42 values": SubsetSelection(many, epsilon=EPSILON),
        "unary encoding, 42 values": UnaryEncoding(many, epsilon=EPSILON),
    }


def table_written(rows: int, folder: str) -> Run:
    """The table on disk: ages and incomes, two categories."""

    def run() -> None:
        generator = np.random.default_rng(0)
        with pq.ParquetWriter(f"{folder}/table.parquet", _part(generator, 1).schema) as writer:
            for start in range(0, rows, _BATCH_ROWS):
                writer.write_table(_part(generator, min(_BATCH_ROWS, rows - start)))

    return run


def _part(generator: np.random.Generator, rows: int) -> pa.Table:
    columns: dict[str, Any] = {}
    for name, column in _SCHEMA.columns.items():
        if isinstance(column, Category):
            columns[name] = pa.array(column.values).take(pa.array(generator.integers(0, len(column.values), rows)))
        else:
            columns[name] = np.clip(generator.normal(45, 15, rows), *_NUMBERS)
    return pa.table(columns)


def whole_way(rows: int, folder: str) -> Run:
    """From the table on disk to a signed release with its rows, ε for each column as for one."""

    def run() -> None:
        account = Ledger(f"{folder}/ledger.db").account("table", epsilon=1000.0)
        model = RecordPerturbation(_SCHEMA, epsilon=EPSILON * len(_SCHEMA.columns), account=account)
        model.fit(f"{folder}/table.parquet")
        if model.n_rows_ != rows:
            raise RuntimeError("The table has another number of rows.")
        key = Ed25519PrivateKey.generate()
        for old in Path(folder).glob("table.sudare*"):
            old.unlink()
        for old in Path(folder).glob("table.rows.parquet"):
            old.unlink()
        Release.of(model).save(f"{folder}/table.sudare", key=key)
        raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        Path(f"{folder}/sender.key").write_bytes(raw)

    return run


def received(rows: int, folder: str) -> Run:
    """What a receiver does: signature, every byte of the rows, and the distribution of one column."""
    sender = Ed25519PublicKey.from_public_bytes(Path(f"{folder}/sender.key").read_bytes())

    def run() -> None:
        table = Release.load(f"{folder}/table.sudare", trusted=[sender]).model().table_
        beside = Path(f"{folder}/table.rows.parquet")
        opened = table.opened(beside) if beside.exists() else table
        perturbation: Any = opened.perturbation("age")
        found = Reconstruction(perturbation).fit(opened.column("age")).distribution_
        if found.records != rows:
            raise RuntimeError("The release has another number of rows.")

    return run


CASES: Final[Mapping[str, Callable[..., Run]]] = {
    **{kind: partial(one_column, kind, shuffle=False) for kind in _perturbations()},
    **{f"{kind}, shuffled": partial(one_column, kind, shuffle=True) for kind in _perturbations()},
    "table_written": table_written,
    "whole_way": whole_way,
    "received": received,
}


# How it is compared


@dataclass(frozen=True)
class Client:
    """A case of the peer's client."""

    case: str
    values: int


@dataclass(frozen=True)
class Line:
    """One comparison: what of ours, and which calls of the peer stand beside it, one a column."""

    name: str
    case: str
    clients: tuple[Client, ...] = ()


_NUMBER: Final = Client("retain_replace", _FEW_VALUES)
LINES: Final = (
    *(
        Line(case, case, (client,))
        for kind, client in {
            "Laplace noise": _NUMBER,
            "square wave": _NUMBER,
            "retain-replace, 16 values": Client("retain_replace", _FEW_VALUES),
            "subset selection, 42 values": Client("subset", _MANY_VALUES),
            "unary encoding, 42 values": Client("unary", _MANY_VALUES),
        }.items()
        for case in (kind, f"{kind}, shuffled")
    ),
    Line(
        "two numbers, subsets of 16 and of 42 values: Parquet in, charged, perturbed, shuffled on disk, released with its rows as Parquet",
        "whole_way",
        (_NUMBER, _NUMBER, Client("subset", _FEW_VALUES), Client("subset", _MANY_VALUES)),
    ),
    Line("the receiver: release loaded, every row verified, one column reconstructed", "received"),
)


@dataclass(frozen=True)
class Outcome:
    """A line of results: least times over the turns, the peer's scaled to all rows, and the most memory."""

    name: str
    rows: int
    ours_processor_seconds: float
    ours_seconds: float
    peak_bytes: int
    bytes_before: int
    peer_processor_seconds: float | None
    ratio: float | None


def outcome_of(line: Line, rows: int, ours: Sequence[Taken], peers: Sequence[Sequence[Taken]]) -> Outcome:
    """Least times; the peer's are added up over the columns."""
    processor = min(run.processor_seconds for run in ours)
    peer = PEERS_PART * sum(min(run.processor_seconds for run in runs) for runs in peers) if peers else None
    return Outcome(
        line.name,
        rows,
        processor,
        min(run.seconds for run in ours),
        max(run.peak_bytes for run in ours),
        max(run.bytes_before for run in ours),
        peer,
        None if peer is None else peer / processor,
    )


def measured(rows: int, turns: int) -> list[Outcome]:
    """Every line; both sides take turns. A call of the peer that several lines have is timed in the first two of them."""
    python = str(peer_python())
    found: list[Outcome] = []
    peers: dict[Client, list[Taken]] = {}
    with tempfile.TemporaryDirectory() as folder:
        taken(sys.executable, OURS, "table_written", {"rows": rows, "folder": folder})
        for line in LINES:
            place = {"folder": folder} if line.case in ("whole_way", "received") else {}
            ours: list[Taken] = []
            for _ in range(turns):
                ours.append(taken(sys.executable, OURS, line.case, {"rows": rows, **place}))
                for client in {client for client in line.clients if len(peers.get(client, ())) < 2 * turns}:
                    arguments = {"rows": rows // PEERS_PART, "values": client.values, "epsilon": EPSILON}
                    peers.setdefault(client, []).append(taken(python, PEER, client.case, arguments))
            found.append(outcome_of(line, rows, ours, [peers[client] for client in line.clients]))
            print(told(found[-1]), flush=True)
    return found


def told(outcome: Outcome) -> str:
    """One line for the terminal."""
    beside = "no peer" if outcome.ratio is None else f"{ratio_text(outcome.ratio)} times"
    return (
        f"{beside:>10}  {outcome.ours_processor_seconds:6.2f} s  {outcome.peak_bytes / 1e6:6.0f} MB"
        f" ({outcome.bytes_before / 1e6:.0f} before)  {outcome.name}"
    )


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The table for the page."""
    rows = [
        f"| {one.name} | {'–' if one.ratio is None else ratio_text(one.ratio)} | {one.peak_bytes / 1e6:.0f} MB ({one.bytes_before / 1e6:.0f}) |"
        for one in outcomes
    ]
    head = (
        f"| {outcomes[0].rows:,} records | peer's processor time ÷ ours | peak memory of the process (before the run) |"
    )
    return "\n".join([head, "| --- | --- | --- |", *rows])


def write_page(outcomes: Sequence[Outcome], page: Path = PAGE) -> None:
    """Replace the part between the marks."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{markdown(outcomes)}\n\n{END}{after}", "utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.perturbing_at_scale", description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=ROWS, help="how many records; other than the usual, nothing is written"
    )
    parser.add_argument("--turns", type=int, default=TURNS, help="runs of each side")
    options = parser.parse_args()
    try:
        outcomes = measured(options.rows, options.turns)
    except PeerMissing as reason:
        sys.exit(f"multi-freq-ldpy is not there: {reason}")
    if options.rows == ROWS:
        RESULTS.write_text(json.dumps([asdict(one) for one in outcomes], indent=2, ensure_ascii=False) + "\n", "utf-8")
        write_page(outcomes)


if __name__ == "__main__":
    main()
