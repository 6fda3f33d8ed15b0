"""One side of a comparison in a process of its own that stays: its start is never timed. Standard library only.

    python -m benchmarks.worker MODULE [CLOCK]

Requests and answers are lines of JSON. `{"case": NAME, "arguments": {…}}` prepares a case from MODULE.CASES;
`{"repeat": N}` runs it N times and answers with the seconds that all of them took by a clock of `time`: `perf_counter`, or `process_time`, which
counts what processors did for this process alone. An error is answered by its text.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Run = Callable[[], object]
Case = Callable[..., Run]


def seconds_of(run: Run, repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """How long so many runs take."""
    start = clock()
    for _ in range(repeat):
        run()
    return clock() - start


def answered(
    request: Mapping[str, Any],
    cases: Mapping[str, Case],
    prepared: list[Run],
    clock: Callable[[], float] = time.perf_counter,
) -> object:
    """The answer to one request; `prepared` keeps the case between requests."""
    if "case" in request:
        prepared[:] = [cases[request["case"]](**request["arguments"])]
        prepared[0]()
        return {"ready": True}
    return {"seconds": seconds_of(prepared[0], int(request["repeat"]), clock)}


def main(module: str, clock: str = "perf_counter") -> None:
    """Answer requests until there are no more."""
    answers = sys.stdout
    # What a library prints must not get between the answers.
    sys.stdout = sys.stderr
    prepared: list[Run] = []
    cases: Mapping[str, Case] = {}
    for line in sys.stdin:
        try:
            cases = cases or importlib.import_module(module).CASES
            answer = answered(json.loads(line), cases, prepared, getattr(time, clock))
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is told to the other side
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
