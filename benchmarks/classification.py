"""diffprivlib's logistic regression on the rows and splits of study 001: `python -m benchmarks.classification`.

Needs Adult (SUDARE_DATA). Rows are encoded by our public declarations and bounded by their public norm, so diffprivlib sees what our
learners see; of its penalties the best is kept, chosen on the test rows, which favours it. The study holds what this prints.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.peers import ROOT, peer_python
from sudare.papers.adult import ADULT_SCHEMA, LABEL, with_known_columns
from sudare.papers.datasets import data
from sudare.papers.p000_weak_learners.learning_tasks import breast_cancer
from sudare.papers.p001_gibbs_posteriors import CANCER_FACTOR
from sudare.papers.p001_gibbs_posteriors.accuracy import CANCER_SEED, EPSILONS
from sudare.schema import SchemaEncoder

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)

Arrays = Mapping[str, NDArray[np.float64]]


def cancer_rows(repeat: int) -> Arrays:
    """The split of the study's repetition of that number; no intercept, as there."""
    task = breast_cancer(np.random.default_rng((CANCER_SEED, repeat)))
    return {
        "rows": task.rows.reshape(-1, task.rows.shape[2]), "labels": task.labels.ravel(), "norm": np.array(1.0),
        "test_rows": task.test_rows, "test_labels": task.test_labels,
    }  # fmt: skip


def adult_rows(repeat: int) -> Arrays:
    """The official split, every time: only the noise differs. A constant column stands for the intercept, which diffprivlib does not protect."""
    train, test = (with_known_columns(data(name)) for name in ("adult-train", "adult-test"))
    encoder = SchemaEncoder(ADULT_SCHEMA, "binned").fit(train)
    rows, test_rows = (np.pad(encoder.transform(part), ((0, 0), (0, 1)), constant_values=1.0) for part in (train, test))
    return {
        "rows": rows, "labels": _signs(train), "norm": np.array((encoder.norm_bound_**2 + 1) ** 0.5),
        "test_rows": test_rows, "test_labels": _signs(test),
    }  # fmt: skip


def _signs(table: pd.DataFrame) -> NDArray[np.float64]:
    return np.where(table[LABEL].to_numpy() == ">50K", 1.0, -1.0)


def accuracies(rows_of: Callable[[int], Arrays], repeats: int) -> Iterator[dict[str, dict[str, float]]]:
    """diffprivlib's accuracy by ε and penalty, repetition by repetition."""
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            file = Path(folder) / "rows.npz"
            np.savez(file, **rows_of(repeat))
            request = {"file": str(file), "epsilons": EPSILONS, "penalties": PENALTIES, "seed": repeat}
            finished = subprocess.run(
                [str(peer_python()), "-m", "benchmarks.diffprivlib_peer"],
                input=json.dumps(request), capture_output=True, text=True, check=True, cwd=ROOT,
            )  # fmt: skip
            yield json.loads(finished.stdout)


def best_lines(found: list[dict[str, dict[str, float]]]) -> Iterator[str]:
    """One line an ε: the best penalty's mean."""
    for epsilon in map(str, EPSILONS):
        by_penalty = {str(C): [one[epsilon][str(C)] for one in found] for C in PENALTIES}
        C, best = max(by_penalty.items(), key=lambda item: statistics.mean(item[1]))
        error = statistics.stdev(best) / len(best) ** 0.5
        yield f"  ε = {epsilon:4} {statistics.mean(best):.4f} ± {error:.4f}  (C = {C}; default C = 1: {statistics.mean(by_penalty['1.0']):.4f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classification", description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=10, help="seeds for Adult, and a quarter of the splits of breast cancer"
    )
    asked = parser.parse_args().repeats
    for title, rows_of, repeats in (
        ("breast cancer", cancer_rows, CANCER_FACTOR * asked),
        ("Adult", adult_rows, asked),
    ):
        print(f"{title}, {repeats} repeats, diffprivlib at pure ε: accuracy ± standard error")
        print("\n".join(best_lines(list(accuracies(rows_of, repeats)))), flush=True)


if __name__ == "__main__":
    main()
