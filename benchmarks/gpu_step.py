"""A private training step beside an ordinary one on whatever device JAX has: `python benchmarks/gpu_step.py`.

Needs JAX and numpy only: sudare's network module is loaded by its path, so a bare machine with a GPU is enough. Both steps are compiled
and fed the same rows; they are timed in turn, many at a time without waiting in between, and the median of the turns counts. The noise of a
private step is drawn by the host: it is sent to the device in every step here, and the time it takes to draw is given beside, where sudare
can be imported. `places_differ` counts values of single rows that are other ones in another place of the batch (proofs/dp_sgd.md).
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

INPUTS, CLASSES = 128, 10
HIDDEN = ((64, 64), (512, 512), (2048, 2048))
BATCHES = (8192, 16384, 32768, 65536)
TURNS = 15
TURN_SECONDS = 0.1


def network() -> Any:
    """The module, without the package around it."""
    path = Path(__file__).resolve().parent.parent / "src" / "sudare" / "neural" / "per_row_clipping.py"
    specification = importlib.util.spec_from_file_location("network", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["network"] = module
    specification.loader.exec_module(module)
    return module


def seconds_a_step(step: Callable[[Any], Any], state: Any, count: int) -> float:
    """Mean time of so many steps in a row, the device's queue emptied before and after."""
    jax.block_until_ready(state)
    start = time.perf_counter()
    for _ in range(count):
        state = step(state)
    jax.block_until_ready(state)
    return (time.perf_counter() - start) / count


def compared(net: Any, hidden: tuple[int, ...], batch: int) -> dict[str, Any]:
    """Medians of both steps and of their ratio, turn by turn."""
    random = np.random.default_rng(0)
    x = jnp.asarray(random.normal(size=(batch, INPUTS)), jnp.float32)
    targets = jax.nn.one_hot(jnp.asarray(random.integers(0, CLASSES, batch)), CLASSES, dtype=jnp.float32)
    kept = jnp.ones(batch, jnp.float32)
    settings = net.StepSettings(
        max_iter=1e6, learning_rate=0.1, momentum=0.9, clip=1.0, noise_multiplier=1.0, expected_rows=float(batch)
    )
    sizes = (INPUTS, *hidden, CLASSES)
    state = net.initial_state(
        net.initial_parameters(random.normal(size=net.weight_count(sizes)), sizes, zero_last=False)
    )
    noise = random.integers(-(2**34), 2**34, net.weight_count(sizes) + sum(sizes[1:]))
    steps: dict[str, Callable[[Any], Any]] = {
        "private": lambda old: private_step(net, old, x, targets, kept, noise, settings),
        "ordinary": lambda old: net.plain_step(old, x, targets, kept, settings, "cross_entropy"),
    }
    for step in steps.values():
        seconds_a_step(step, state, 3)
    count = max(3, round(TURN_SECONDS / seconds_a_step(steps["ordinary"], state, 3)))
    turns = [{name: seconds_a_step(step, state, count) for name, step in steps.items()} for _ in range(TURNS)]
    return {
        "hidden": "×".join(map(str, hidden)),
        "batch": batch,
        **{f"{name}_ms": round(1e3 * statistics.median(turn[name] for turn in turns), 4) for name in steps},
        "ratio": round(statistics.median(turn["private"] / turn["ordinary"] for turn in turns), 3),
        "noise_ms": noise_milliseconds(net.weight_count(sizes) + sum(sizes[1:])),
        "places_differ": places_differ(net, state.parameters, x, targets),
    }


def private_step(net: Any, state: Any, x: Any, targets: Any, kept: Any, noise: Any, settings: Any) -> Any:
    """A whole private step on one physical batch."""
    blocks = net.row_parts(state.parameters, x, targets, None, "cross_entropy")
    with jax.enable_x64(True):
        return net.sampled_step(state, None, blocks, kept, noise, settings)


def noise_milliseconds(parameters: int) -> float | None:
    """The best of a few draws of all noise of a step, or None where sudare cannot be imported."""
    try:
        from sudare.neural.seeded_randomness import RunSeed
    except ImportError:
        return None
    seed, times = RunSeed(bytes(32)), []
    for step in range(5):
        start = time.perf_counter()
        seed.noise(step, parameters)
        times.append(time.perf_counter() - start)
    return round(1e3 * min(times), 4)


def places_differ(net: Any, parameters: Any, x: Any, targets: Any) -> int:
    """Values of single rows that change when rows change places."""
    order = np.random.default_rng(1).permutation(len(x))
    before = net.row_parts(parameters, x, targets, None, "cross_entropy")
    after = net.row_parts(parameters, x, targets, jnp.asarray(order), "cross_entropy")
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    return int(sum(jnp.sum(old[order] != new) for old, new in pairs))


def main() -> None:
    """Measure and print JSON, one line a case."""
    net, device = network(), jax.devices()[0]
    print(json.dumps({"device": device.device_kind, "jax": jax.__version__}), flush=True)
    for hidden in HIDDEN:
        for batch in BATCHES:
            print(json.dumps(compared(net, hidden, batch), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
