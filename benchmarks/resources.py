"""One run of a case in a process of its own: seconds, processor seconds and the most memory it took. Standard library only.

    python -m benchmarks.resources MODULE CASE '{"rows": 1000}'

MODULE.CASES[CASE](**arguments) prepares; what it returns is timed. One line of JSON tells what it took.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# One thread each: the machine's other cores belong to somebody else.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True)
class Taken:
    """What a run took. Memory is that of its whole process: before the run, and at the most."""

    seconds: float
    processor_seconds: float
    bytes_before: int
    peak_bytes: int


def peak_bytes() -> int:
    """The most memory this process has had so far. On Linux not by `getrusage`, whose number begins with that of the process which started this one."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(1024 * int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def taken_here(module: str, case: str, arguments: Mapping[str, Any]) -> Taken:
    """The case, prepared and run in this process."""
    run = importlib.import_module(module).CASES[case](**arguments)
    before, began, processor_began = peak_bytes(), time.perf_counter(), time.process_time()
    run()
    return Taken(time.perf_counter() - began, time.process_time() - processor_began, before, peak_bytes())


def taken(python: Path | str, module: str, case: str, arguments: Mapping[str, Any]) -> Taken:
    """The same in a new process."""
    finished = subprocess.run(
        [str(python), "-m", "benchmarks.resources", module, case, json.dumps(dict(arguments))],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Taken(**json.loads(finished.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(asdict(taken_here(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))))
