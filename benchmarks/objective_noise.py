"""What infinity-norm noise in the linear term of objective perturbation gains: `python -m benchmarks.objective_noise`. Writes objective_noise.json.

Logistic regression on tables of numbers, pure ε: the product's noise, which follows the bounds of the columns, and Euclidean noise of the same ε,
each with the penalty that the product takes for it. Median over seeds of the log loss and of the accuracy on held-out rows.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sudare.linear import PrivateLogisticRegression, method_choice
from sudare.linear.noise_calibration import NoiseNorm
from sudare.linear.objective_perturbation import ObjectivePerturbation
from sudare.schema import Encoding, Label, Number, Schema

RESULTS: Final = Path(__file__).with_suffix(".json")
EPSILONS: Final = (0.1, 0.5, 1.0, 3.0)
SEEDS: Final = 21
QUIETEST_NORM: Final = method_choice.quietest_norm
Table = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class EuclideanObjective(ObjectivePerturbation):
    """Density ∝ exp(−a‖b‖): what a model gets of which only the norm of rows is declared."""

    @cached_property
    def norm(self) -> NoiseNorm:
        return "euclidean"


def tables() -> dict[str, Table]:
    """Tables of numbers with public bounds: the usual ranges of each column, from the whole table for want of a document."""
    cancer = load_breast_cancer()
    found = {"breast cancer": (cancer.data, cancer.target)}
    pima = pd.read_csv(Path(os.environ.get("SUDARE_DATA", "data")) / "pima.csv").to_numpy(dtype=float)
    found["pima"] = (pima[:, :-1], pima[:, -1].astype(int))
    for columns in (10, 40):
        made = make_classification(20_000, columns, n_informative=columns // 2, flip_y=0.05, random_state=columns)
        found[f"made, {columns} columns"] = made
    return found


def schema_of(table: Table) -> Schema:
    """Declared columns."""
    low, high = table[0].min(axis=0), table[0].max(axis=0)
    columns = {f"x{place}": Number(float(a), float(b)) for place, (a, b) in enumerate(zip(low, high, strict=True))}
    return Schema({**columns, "y": Label((0, 1))})


def scores(
    table: Table, epsilon: float, mechanism: type[ObjectivePerturbation], encoding: Encoding
) -> dict[str, float]:
    """Medians over seeds."""
    method_choice.planned.cache_clear()
    method_choice.ObjectivePerturbation = mechanism  # type: ignore[misc]
    is_product = mechanism is ObjectivePerturbation
    # The rule for the penalty balances the noise, so it has to know which it is.
    method_choice.quietest_norm = QUIETEST_NORM if is_product else lambda *_: "euclidean"
    found: list[tuple[float, float]] = []
    schema = schema_of(table)
    frame = pd.DataFrame(table[0], columns=list(schema.features)).assign(y=table[1])
    for seed in range(SEEDS):
        train, test = train_test_split(frame, test_size=0.3, random_state=seed)
        model = PrivateLogisticRegression(
            epsilon, delta=0.0, schema=schema, method="objective", encoding=encoding, random_state=seed
        ).fit(train)
        probabilities = model.predict_proba(test)[:, 1]
        truth = test["y"].to_numpy()
        found.append((log_loss(truth, probabilities), float(np.mean((probabilities > 0.5) == truth))))
    loss, accuracy = np.median(found, axis=0)
    return {"log_loss": round(float(loss), 4), "accuracy": round(float(accuracy), 4)}


def measured() -> list[dict[str, Any]]:
    """One row for each table, ε and noise."""
    rows = []
    for name, table in tables().items():
        for epsilon in EPSILONS:
            row: dict[str, Any] = {"table": name, "epsilon": epsilon}
            for word, mechanism in (("product", ObjectivePerturbation), ("euclidean", EuclideanObjective)):
                row[word] = scores(table, epsilon, mechanism, "centred")
            rows.append(row)
            print(row, flush=True)
    return rows


if __name__ == "__main__":
    RESULTS.write_text(json.dumps(measured(), indent=2) + "\n")
