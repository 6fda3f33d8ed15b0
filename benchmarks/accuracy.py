"""How near reconstructed proportions come, ours beside multi-freq-ldpy's: `python -m benchmarks.accuracy [--repeats N]`.

Two columns of Adult (SUDARE_DATA), two ε. The error is the total variation distance to the proportions of the records, in
hundredths. Ours uses what `RecordPerturbation` and `CategoricalReconstruction` choose by themselves; of theirs every protocol and estimator.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import ROOT, peer_python
from sudare.papers.datasets import data
from sudare.perturbation.categorical import best_kind
from sudare.reconstruction import CategoricalReconstruction

COLUMNS = ("education", "native-country")
EPSILONS = (0.65, 5.2)

Errors = dict[str, list[float]]


def column_codes(name: str) -> tuple[NDArray[np.int64], int]:
    """A column of Adult's training rows as positions; a missing value is a category of its own."""
    column = data("adult-train")[name].fillna("missing")
    levels = sorted(column.unique())
    return column.map({level: code for code, level in enumerate(levels)}).to_numpy(dtype=np.int64), len(levels)


def error(proportions: object, truth: NDArray[np.float64]) -> float:
    """Total variation distance, in hundredths."""
    return float(50 * np.abs(np.asarray(proportions) - truth).sum())


def ours(codes: NDArray[np.int64], values: int, epsilon: float, seed: int) -> object:
    """Our default on freshly perturbed records (seeded: a simulation)."""
    perturbation = best_kind(values, epsilon)(range(values), epsilon=epsilon)
    return CategoricalReconstruction(perturbation).fit(perturbation.perturb(codes, random_state=seed)).probabilities_


def compared(name: str, epsilon: float, repeats: int) -> Errors:
    """Errors of both sides, repeat by repeat."""
    codes, values = column_codes(name)
    truth = np.bincount(codes, minlength=values) / len(codes)
    errors: Errors = {"ours": [error(ours(codes, values, epsilon, seed), truth) for seed in range(repeats)]}
    request = json.dumps({"records": codes.tolist(), "values": values, "epsilon": epsilon}) + "\n"
    finished = subprocess.run(
        [str(peer_python()), "-m", "benchmarks.multi_freq_ldpy_peer"],
        input=request * repeats, capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    for line in finished.stdout.splitlines():
        for estimator, proportions in json.loads(line).items():
            errors.setdefault(estimator, []).append(error(proportions, truth))
    return errors


def lines(errors: Errors) -> Iterator[str]:
    """The best first."""
    for name, found in sorted(errors.items(), key=lambda item: statistics.mean(item[1])):
        yield f"  {name:8}  {statistics.mean(found):7.3f} ± {statistics.stdev(found) / len(found) ** 0.5:.3f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--repeats", type=int, default=10, help="perturbations of each column")
    repeats = parser.parse_args().repeats
    for name in COLUMNS:
        for epsilon in EPSILONS:
            print(f"{name}, ε = {epsilon:g}, {repeats} repeats: total variation distance × 100, mean ± standard error")
            print("\n".join(lines(compared(name, epsilon, repeats))), flush=True)


if __name__ == "__main__":
    main()
