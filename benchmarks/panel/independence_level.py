"""`python -m benchmarks.panel.independence_level`: how often the test of `CrossTable` rejects columns that are independent, at 5 %; writes independence_level.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave, SubsetSelection
from sudare.reconstruction import CrossTable

RESULTS: Final = Path(__file__).with_suffix(".json")
TABLES: Final = 1_000
RECORDS: Final = 400
LEVEL: Final = 0.05
_BOUNDS: Final = (0.0, 10.0)
_LEVELS: Final = ("a", "b", "c", "d")


def columns(kind: str, generator: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """Perturbations, and independent original columns: skewed numbers, rare categories."""
    number = generator.beta(2, 5, RECORDS) * 10
    other = np.where(generator.random(RECORDS) < 0.3, 0.0, generator.uniform(0, 10, RECORDS))
    letters = [generator.choice(_LEVELS, RECORDS, p=[0.6, 0.25, 0.1, 0.05]) for _ in range(2)]
    return {
        "two categories, one of them in sets": ([RetainReplace(_LEVELS, epsilon=1.0), SubsetSelection(_LEVELS, epsilon=1.0)], letters),
        "a number and a category": ([SquareWave(_BOUNDS, epsilon=2.0), RetainReplace(_LEVELS, epsilon=1.0)], [number, letters[0]]),
        "two numbers": ([SquareWave(_BOUNDS, epsilon=2.0), LaplacePerturbation(_BOUNDS, epsilon=3.0)], [number, other]),
    }[kind]  # fmt: skip


def p_value(kind: str, seed: int) -> float:
    """Of one table; the method of the table itself does not matter for the test, so the quickest is used."""
    generator = np.random.default_rng(seed)
    laws, originals = columns(kind, generator)
    answers = [
        law.perturb(values, random_state=int(generator.integers(2**31)), shuffle=False)
        for law, values in zip(laws, originals, strict=True)
    ]
    method = "inversion" if "two categories" in kind else "bayes"
    return CrossTable(*laws, method=method).fit(*answers).independence_.p_value


def main() -> None:
    """Count rejections, print and write them."""
    rows = []
    for kind in ("two categories, one of them in sets", "a number and a category", "two numbers"):
        values = np.array([p_value(kind, seed) for seed in range(TABLES)])
        rows.append({"columns": kind, "tables": TABLES, "records": RECORDS, "rejected at .05": float(np.mean(values < LEVEL)), "rejected at .01": float(np.mean(values < 0.01))})  # fmt: skip
        print(rows[-1], flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
