"""Run the benchmarks: `python -m benchmarks [--only WORD] [--rounds N]`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack

from rich.console import Console
from rich.table import Table

from benchmarks.measure import PeerFailed, Result, Worker, compared, missing, ours_python, without_peer
from benchmarks.peers import PeerMissing, peer_python
from benchmarks.registry import BENCHMARKS, OURS, Benchmark, Peer
from benchmarks.table import ratio_text, write_page, write_results

console = Console()


def measured(benchmarks: Sequence[Benchmark], rounds: int, clock: str = "perf_counter") -> list[Result]:
    """Every benchmark, with one lasting process for each side, timed by a clock of `time`; peers that are not there are named."""
    results = []
    with ExitStack() as stack:
        ours = stack.enter_context(Worker(ours_python(), OURS, clock))
        peers: dict[Peer, Worker | None] = {}
        for benchmark in benchmarks:
            if benchmark.peer not in peers:
                peers[benchmark.peer] = _started(benchmark.peer, stack, clock)
            peer = peers[benchmark.peer]
            result = without_peer(benchmark) if peer is None else _compared(benchmark, ours, peer, rounds)
            console.print(f"{ratio_text(result.ratio):>8}  {result.name}", highlight=False, soft_wrap=True)
            results.append(result)
    return results


def _started(peer: Peer, stack: ExitStack, clock: str) -> Worker | None:
    try:
        python = ours_python() if peer.environment is None else peer_python(peer.environment)
    except PeerMissing as reason:
        console.print(f"{peer.name} is not there: {reason}", style="bold red", markup=False)
        return None
    return stack.enter_context(Worker(python, peer.module, clock))


def _compared(benchmark: Benchmark, ours: Worker, peer: Worker, rounds: int) -> Result:
    try:
        return compared(benchmark, ours, peer, rounds)
    except PeerFailed as reason:
        console.print(f"{benchmark.name} could not be run: {reason}", style="bold red", markup=False)
        return without_peer(benchmark)


def printed(results: Sequence[Result]) -> Table:
    """The table for the terminal."""
    table = Table("benchmark", "ours, ms", "peer", "peer, ms", "ratio", box=None, pad_edge=False)
    for result in results:
        times = [f"{1000 * s:.3g}" if s is not None else "–" for s in (result.ours_seconds, result.peer_seconds)]
        table.add_row(result.name, times[0], result.peer, times[1], ratio_text(result.ratio))
    return table


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", help="only benchmarks whose name contains this word; nothing is written")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each side")
    options = parser.parse_args()
    chosen = [benchmark for benchmark in BENCHMARKS if options.only in benchmark.name]
    results = measured(chosen, options.rounds)
    console.print(printed(results))
    absent = missing(results)
    if absent:
        console.print(f"{len(absent)} of {len(results)} benchmarks have no peer to compare with.", style="bold red")
    if len(chosen) == len(BENCHMARKS):
        write_results(results)
        write_page(results)


if __name__ == "__main__":
    main()
