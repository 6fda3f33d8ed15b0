"""How far pairs of columns of synthetic tables are from the truth, and what a model learns from them: the engines of `PrivateSynthesizer` side by side.

    python -m benchmarks.synthesis            # the judging tables and Adult: writes benchmarks/synthesis.json
    python -m benchmarks.synthesis --tune     # Adult (a tuning table) with other constants of the engine "adaptive"

Distances are total variation between the table of a pair in the data and in as many synthetic rows, in the cells of the schema.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.panel.tuning_and_judging import tables
from sudare.papers.datasets import data
from sudare.schema import Category, Label, Number, Schema, encode
from sudare.synthesis import PrivateSynthesizer, adaptive_marginals, tree_distribution
from sudare.synthesis.table_cells import cell_count, coded_rows

RESULTS: Final = Path(__file__).with_suffix(".json")
JUDGED: Final = ("more categories", "more determined pairs", "more spikes", "pima")
EPSILONS: Final = (0.1, 1.0, 10.0)
ENGINES: Final = ("marginals", "adaptive")
DELTA: Final = 1e-6


@dataclass(frozen=True)
class Case:
    """Rows to fit and rows to test, with their schema."""

    name: str
    schema: Schema
    fit: pd.DataFrame
    test: pd.DataFrame


def adult() -> Case:
    """All fifteen columns of Adult; numbers in ten equal bins of bounds that are round, categories as the data's description lists them."""
    train, test = data("adult-train"), data("adult-test")
    bounds = {
        "age": (17, 90), "fnlwgt": (10_000, 1_500_000), "education-num": (1, 16), "capital-gain": (0, 99_999),
        "capital-loss": (0, 4_500), "hours-per-week": (1, 99),
    }  # fmt: skip
    columns: dict[str, Any] = {name: Number(*bounds[name], whole=True) for name in bounds}
    for name in train:
        if name not in bounds:
            levels = tuple(sorted({*train[name].dropna(), *test[name].dropna()}))
            columns[name] = Label(levels) if name == "income" else Category(levels, missing="?")
    return Case("adult, 15 columns", Schema({name: columns[name] for name in train}), train, test)


def judging_cases() -> Iterator[Case]:
    """The tables of the panel's judging half that are judged here."""
    for table in tables("judging", "label"):
        if table.name in JUDGED:
            fit, test = table.fit_and_test(0)
            yield Case(table.name, table.schema, fit, test)


def pair_distances(schema: Schema, first: pd.DataFrame, second: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Total variation between two tables for every pair of columns, in the schema's cells."""
    codes = [coded_rows(frame, None, schema).codes for frame in (first, second)]
    found = {}
    for one, other in itertools.combinations(schema.columns, 2):
        sizes = cell_count(schema.columns[one]), cell_count(schema.columns[other])
        shares = [
            np.bincount(np.ravel_multi_index((each[one], each[other]), sizes), minlength=sizes[0] * sizes[1])
            / len(each[one])
            for each in codes
        ]
        found[one, other] = float(np.abs(shares[0] - shares[1]).sum() / 2)
    return found


def learned_auc(case: Case, rows: pd.DataFrame) -> float | None:
    """AUC on test rows of a logistic regression learned from these rows; None where they have one class or the label more than two."""
    label = case.schema.label
    if label is None or len(case.schema.classes) != 2 or rows[label].nunique() < 2:
        return None
    model = LogisticRegression(C=0.1, max_iter=300).fit(
        encode(case.schema, rows, "binned").matrix, case.schema.encode_target(rows)
    )
    scores = model.decision_function(encode(case.schema, case.test, "binned").matrix)
    return float(roc_auc_score(case.schema.encode_target(case.test), scores))


def judged(case: Case, engine: Any, epsilon: float, seed: int) -> dict[str, Any]:
    """One fit, judged."""
    start = time.process_time()
    made = PrivateSynthesizer(
        case.schema, engine=engine, epsilon=epsilon, delta=DELTA, neighbours="add-remove", random_state=seed
    ).fit(case.fit)
    rows = made.sample(len(case.fit), random_state=seed)
    seconds = time.process_time() - start
    distances = pair_distances(case.schema, case.fit, rows)
    worst = max(distances, key=lambda pair: distances[pair])
    return {
        "table": case.name, "rows": len(case.fit), "columns": len(case.schema.columns), "engine": engine, "epsilon": epsilon,
        "mean": round(float(np.mean([*distances.values()])), 4), "worst": round(distances[worst], 4), "worst pair": list(worst),
        "auc": _rounded(learned_auc(case, rows)), "seconds": round(seconds, 1),
    }  # fmt: skip


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def judge() -> None:
    """Every table at every ε by every engine, one seed; the file says how often this was run."""
    runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else 0
    results = []
    for case in (adult(), *judging_cases()):
        for epsilon, engine in itertools.product(EPSILONS, ENGINES):
            results.append(judged(case, engine, epsilon, seed=0))
            print(results[-1], flush=True)
        results.append({"table": case.name, "engine": "the data", "auc": _rounded(learned_auc(case, case.fit))})
    RESULTS.write_text(json.dumps({"runs": runs + 1, "delta": DELTA, "results": results}, indent=1) + "\n")


def tune() -> None:
    """Adult at two values of ε with other shares and rounds, one seed that judging does not use."""
    case = adult()
    for share, rounds in itertools.product((Fraction(1, 10), Fraction(1, 5), Fraction(2, 5)), (2, 4, 8)):
        adaptive_marginals._SHARE_OF_COLUMNS = share  # type: ignore[misc]
        adaptive_marginals._ROUNDS_PER_COLUMN["gaussian"] = rounds
        for epsilon in (0.1, 1.0):
            found = judged(case, "adaptive", epsilon, seed=1)
            print(share, rounds, epsilon, found["mean"], found["worst"], found["seconds"], flush=True)
    adaptive_marginals._SHARE_OF_COLUMNS = Fraction(1, 5)  # type: ignore[misc]
    adaptive_marginals._ROUNDS_PER_COLUMN["gaussian"] = 4
    for strength in (0.3, 1.0, 3.0):
        tree_distribution._PRIOR_STRENGTH = strength  # type: ignore[misc]
        for epsilon in (0.1, 1.0):
            found = judged(case, "adaptive", epsilon, seed=1)
            print("strength", strength, epsilon, found["mean"], found["worst"], found["seconds"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true")
    asked = parser.parse_args()
    tune() if asked.tune else judge()


if __name__ == "__main__":
    main()
