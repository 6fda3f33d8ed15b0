"""How near reconstructed proportions come, ours beside multi-freq-ldpy's: `python -m benchmarks.accuracy` writes benchmarks/accuracy.json and docs/records.md.

Two columns of Adult (SUDARE_DATA), two ε. The error is the total variation distance to the proportions of the records, in
hundredths. Ours uses what `RecordPerturbation` and `CategoricalReconstruction` choose by themselves; of theirs every protocol and estimator.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.page_parts import write_part
from benchmarks.peers import ROOT, peer_python
from sudare.papers.datasets import data
from sudare.perturbation.categorical import best_kind
from sudare.reconstruction import CategoricalReconstruction

COLUMNS = ("education", "native-country")
EPSILONS = (0.65, 5.2)
REPEATS: Final = 10
RESULTS: Final = Path(__file__).with_name("accuracy.json")
PAGE: Final = ROOT / "docs" / "records.md"

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


def outcome(name: str, epsilon: float, values: int, errors: Errors) -> dict[str, Any]:
    """Means and standard errors by name."""
    found = {
        way: {"mean": statistics.mean(each), "standard_error": statistics.stdev(each) / len(each) ** 0.5}
        for way, each in errors.items()
    }
    return {"column": name, "values": values, "epsilon": epsilon, "repeats": len(errors["ours"]), "errors": found}


def table(outcomes: Sequence[dict[str, Any]]) -> str:
    """Ours beside the best of theirs."""
    lines = ["| column | ε | ours | multi-freq-ldpy, the best |", "| --- | ---: | ---: | ---: |"]
    for one in outcomes:
        errors = dict(one["errors"])
        own = errors.pop("ours")
        best = min(errors, key=lambda way: float(errors[way]["mean"]))
        told = [f"{each['mean']:.2f} ± {each['standard_error']:.2f}" for each in (own, errors[best])]
        lines.append(
            f"| {one['column']} ({one['values']} values) | {one['epsilon']:g} | {told[0]} | {told[1]} ({best}) |"
        )
    repeats = outcomes[0]["repeats"]
    return "\n".join(lines) + f"\n\nMean ± standard error of {repeats} perturbations of Adult's 32,561 training rows."


def main() -> None:
    """Measure, print and, with the usual number of perturbations, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="perturbations of each column")
    repeats = parser.parse_args().repeats
    outcomes = [
        outcome(name, epsilon, column_codes(name)[1], compared(name, epsilon, repeats))
        for name in COLUMNS
        for epsilon in EPSILONS
    ]
    print(table(outcomes))
    if repeats == REPEATS:
        RESULTS.write_text(json.dumps(outcomes, indent=2) + "\n", "utf-8")
        write_part(PAGE, "categories", table(outcomes))


if __name__ == "__main__":
    main()
