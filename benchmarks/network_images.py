"""Small networks with convolutions on images: what is learned at which ε, and a step beside Opacus's: `python -m benchmarks.network_images`.

Writes network_images.json, from which `python -m benchmarks.study_pages` has the table of docs/neural.md. Images are scikit-learn's digits (1,797 of 8×8) and generated bars (6,000 of 8×8, four classes that no line tells
apart); the last fifth judges. Nothing is tuned: settings are the public rule. The peer's steps need its environment (benchmarks/peers.py). Steps are
told in processor time, so that what else runs on the machine counts for neither side.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from benchmarks.__main__ import measured
from benchmarks.network_workloads import convolution_parameters, convolutions
from benchmarks.registry import IMAGE_BENCHMARKS
from sudare.neural import PrivateMLPClassifier, PrivateNetwork

Arrays = tuple[NDArray[np.float64], NDArray[np.int64]]
EPSILONS = (1.0, 3.0, 8.0)
SEEDS = 2


def digits() -> Arrays:
    """Digits from 0 to 1, in one fixed random order."""
    loaded = load_digits()
    order = np.random.default_rng(0).permutation(len(loaded.target))
    return loaded.images[order] / 16, loaded.target[order]


def bars(rows: int = 6000, side: int = 8) -> Arrays:
    """A horizontal bar, a vertical one, a cross of both, or nothing, under noise."""
    generator = np.random.default_rng(0)
    images, classes = generator.uniform(0, 0.5, (rows, side, side)), generator.integers(0, 4, rows)
    places = generator.integers(0, side, (rows, 2))
    for image, kind, (row, column) in zip(images, classes, places, strict=True):
        if kind in (0, 2):
            image[row] += 0.5
        if kind in (1, 2):
            image[:, column] += 0.5
    return np.minimum(images, 1.0), classes


def accuracies(images: Any, classes: Any) -> list[dict[str, float]]:
    """Mean accuracy on the last fifth, of a network with convolutions and of a fully connected one of the same rule."""
    fitted, known = 4 * len(images) // 5, range(int(classes.max()) + 1)
    flat, found = images.reshape(len(images), -1), []
    # Compiled once for prediction.
    apply = jax.jit(convolutions)
    for epsilon in EPSILONS:
        options = {"epsilon": epsilon, "delta": 1e-5, "bounds": (0, 1), "classes": known}
        scores: dict[str, list[float]] = {"convolutions": [], "fully_connected": []}
        for seed in range(SEEDS):
            own = PrivateNetwork(apply, convolution_parameters(8, 8, 32, len(known)), **options, random_state=seed)
            scores["convolutions"].append(
                own.fit(images[:fitted], classes[:fitted]).score(images[fitted:], classes[fitted:])
            )
            peer = PrivateMLPClassifier((32,), encoding="scaled", **options, random_state=seed)
            scores["fully_connected"].append(
                peer.fit(flat[:fitted], classes[:fitted]).score(flat[fitted:], classes[fitted:])
            )
        found.append({"epsilon": epsilon, **{name: round(float(np.mean(each)), 3) for name, each in scores.items()}})
        print(found[-1], flush=True)
    return found


def main() -> None:
    """Measure and write."""
    steps = measured(IMAGE_BENCHMARKS, rounds=15, clock="process_time")
    result = {
        "steps": [
            {"name": step.name, "peer": step.peer, "ours_ms": _ms(step.ours_seconds), "peer_ms": _ms(step.peer_seconds),
             "ratio": None if step.ratio is None else round(step.ratio, 2)}
            for step in steps
        ],
        "digits": accuracies(*digits()),
        "bars": accuracies(*bars()),
    }  # fmt: skip
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    Path(__file__).with_suffix(".json").write_text(text, encoding="utf-8")


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1e3 * seconds, 2)


if __name__ == "__main__":
    main()
