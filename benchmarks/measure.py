"""Two sides, one run: ours and the peer take turns, and medians are compared."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from benchmarks.peers import ROOT
from benchmarks.registry import Benchmark

SHORTEST_SAMPLE_SECONDS = 0.05
MOST_REPEATS = 10_000


class PeerFailed(Exception):
    """A side could not run its case."""


class Side(Protocol):
    """One of the two that are compared."""

    def prepare(self, case: str, arguments: Mapping[str, int | float]) -> None:
        """Get ready, and run once to warm up."""

    def seconds(self, repeat: int) -> float:
        """How long so many runs take."""


@dataclass(frozen=True)
class Result:
    """A line of results.json. Without a peer its seconds and the ratio are None. A ratio above 1: ours is faster."""

    name: str
    ours_seconds: float | None
    peer: str
    peer_seconds: float | None
    ratio: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class Worker:
    """A side in a process of its own (benchmarks.worker), timed by a clock of `time`."""

    def __init__(self, python: Path | str, module: str, clock: str = "perf_counter") -> None:
        # One thread each: the machine's other cores belong to somebody else.
        surroundings = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
            "PYTHONWARNINGS": "ignore",
        }
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.worker", module, clock],
            cwd=ROOT,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # What was written to a process that has ended meanwhile cannot be flushed.
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._process.wait(timeout=60)
        self._answers.close()

    def prepare(self, case: str, arguments: Mapping[str, int | float]) -> None:
        """Tell the process to get ready."""
        self._ask({"case": case, "arguments": dict(arguments)})

    def seconds(self, repeat: int) -> float:
        """Ask the process to run."""
        return float(self._ask({"repeat": repeat})["seconds"])

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
        except BrokenPipeError:
            raise PeerFailed("the process ended") from None
        line = self._answers.readline()
        if not line:
            raise PeerFailed("the process ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerFailed(answer["error"])
        return answer


def ours_python() -> str:
    """The interpreter that runs this."""
    return sys.executable


def enough_repeats(side: Side) -> int:
    """How many runs make a sample long enough to be timed."""
    repeat = 1
    while repeat < MOST_REPEATS:
        taken = side.seconds(repeat)
        if taken >= SHORTEST_SAMPLE_SECONDS:
            return repeat
        repeat = min(MOST_REPEATS, max(2 * repeat, int(repeat * SHORTEST_SAMPLE_SECONDS / max(taken, 1e-9))))
    return repeat


def interleaved(ours: Side, peer: Side, rounds: int) -> tuple[float, float]:
    """Median seconds of one run, ours and the peer's, taking turns so that a busy moment slows both."""
    sides = (ours, peer)
    repeats = [enough_repeats(side) for side in sides]
    samples: list[list[float]] = [[], []]
    for _ in range(rounds):
        for index, side in enumerate(sides):
            samples[index].append(side.seconds(repeats[index]) / repeats[index])
    return statistics.median(samples[0]), statistics.median(samples[1])


def compared(benchmark: Benchmark, ours: Side, peer: Side, rounds: int) -> Result:
    """One line of results."""
    ours.prepare(benchmark.case, benchmark.arguments)
    peer.prepare(benchmark.case_of_peer, benchmark.arguments)
    ours_seconds, peer_seconds = interleaved(ours, peer, rounds)
    ours_seconds, peer_seconds = benchmark.ours_scale * ours_seconds, benchmark.peer_scale * peer_seconds
    ratio = peer_seconds / ours_seconds
    return Result(benchmark.name, ours_seconds, benchmark.peer.name, peer_seconds, ratio)


def without_peer(benchmark: Benchmark) -> Result:
    """A line that says that the peer was not there."""
    return Result(benchmark.name, None, benchmark.peer.name, None, None)


def missing(results: Sequence[Result]) -> list[Result]:
    """The lines without a peer."""
    return [result for result in results if result.ratio is None]
