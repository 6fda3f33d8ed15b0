"""A private step of a small network with convolutions beside an ordinary one on whatever device JAX has: `python -m benchmarks.gpu_images [BATCH …]`.

Needs JAX and numpy only, as gpu_step.py does: the packages around sudare's modules are left out. The noise is sent to the device in every step.
"""

from __future__ import annotations

import json
import statistics
import sys
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.gpu_step import TURNS, seconds_a_step

SIDES, CHANNELS, WIDTH = (8, 28), 16, 32
BATCHES = (1024, 4096, 16384)


def compared(side: int, batch: int) -> dict[str, Any]:
    """Medians of both steps and of their ratio, turn by turn."""
    source = Path(__file__).resolve().parent.parent / "src" / "sudare"
    for name, folder in (("sudare", source), ("sudare.neural", source / "neural")):
        package = sys.modules.setdefault(name, types.ModuleType(name))
        package.__path__ = [str(folder)]
    from benchmarks.network_workloads import image_inputs, ordinary_image_step, private_image_step

    given = image_inputs(batch, side, CHANNELS, WIDTH)
    noise = np.random.default_rng(0).integers(-(2**34), 2**34, given.parameters)
    ordinary = ordinary_image_step(given)
    steps = {"private": lambda _: private_image_step(given, noise), "ordinary": lambda _: ordinary()}
    for step in steps.values():
        seconds_a_step(step, given.state, 2)
    turns = [{name: seconds_a_step(step, given.state, 3) for name, step in steps.items()} for _ in range(TURNS)]
    return {
        "side": side,
        "batch": batch,
        **{f"{name}_ms": round(1e3 * statistics.median(turn[name] for turn in turns), 4) for name in steps},
        "ratio": round(statistics.median(turn["private"] / turn["ordinary"] for turn in turns), 3),
    }


def main() -> None:
    """Measure and print JSON, one line a case."""
    print(json.dumps({"device": jax.devices()[0].device_kind, "jax": jax.__version__}), flush=True)
    for side in SIDES:
        for batch in map(int, sys.argv[1:] or BATCHES):
            print(json.dumps(compared(side, batch)), flush=True)


if __name__ == "__main__":
    main()
