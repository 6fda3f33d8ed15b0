"""The same network with convolutions by Opacus on a GPU, for `benchmarks.gpu_images`: `python -m benchmarks.gpu_images_peer [BATCH …]`. Needs PyTorch and Opacus."""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch
from torch import nn

from benchmarks.opacus_peer import convolutions, ghost, hooks, images_of

SIDES, CHANNELS, WIDTH = (8, 28), 16, 32
BATCHES = (1024, 4096, 16384)
TURNS, STEPS = 15, 3


def on_gpu(side: int, batch: int) -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The network and a batch."""
    images, labels = images_of(batch, side)
    return convolutions(side, CHANNELS, WIDTH).cuda(), (images.cuda(), labels.cuda())


def seconds_a_step(run: object) -> float:
    """The median of some turns, each of some steps."""
    turns = []
    for _ in range(TURNS + 2):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(STEPS):
            run()  # type: ignore[operator]
        torch.cuda.synchronize()
        turns.append((time.perf_counter() - begun) / STEPS)
    return statistics.median(turns[2:])


def main() -> None:
    """Measure and print JSON, one line a case."""
    print(json.dumps({"device": torch.cuda.get_device_name(0), "torch": torch.__version__}), flush=True)
    for side in SIDES:
        for batch in map(int, sys.argv[1:] or BATCHES):
            found = {
                name: 1e3 * seconds_a_step(way(*on_gpu(side, batch)))
                for name, way in (("hooks", hooks), ("ghost", ghost))
            }
            print(
                json.dumps(
                    {"side": side, "batch": batch, **{f"{name}_ms": round(ms, 4) for name, ms in found.items()}}
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
