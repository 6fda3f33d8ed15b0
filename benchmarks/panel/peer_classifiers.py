"""Private classifiers of other libraries; runs in the environment of peers.lock, where sudare is not installed.

Reads what `benchmarks.panel.peer_claims` asks for from standard input as JSON, rows from the npz file named there, and writes probabilities beside it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np


def diffprivlib(rows: Any, labels: Any, epsilon: float, norm: float, seed: int) -> Any:
    """diffprivlib's logistic regression with the norm of rows declared: pure ε, neighbours that replace a row."""
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=1000, random_state=seed).fit(rows, labels)


def boosting(rows: Any, labels: Any, epsilon: float, delta: float, columns: Any, seed: int) -> Any:
    """interpret's private boosting with declared bounds: (ε, δ), neighbours of which one has a row more."""
    from interpret.privacy import DPExplainableBoostingClassifier

    bounds = {place: tuple(column) for place, column in enumerate(columns) if column}
    types = ["continuous" if column else "nominal" for column in columns]
    options = {"feature_types": types, "privacy_bounds": bounds, "n_jobs": 1, "random_state": seed}
    return DPExplainableBoostingClassifier(epsilon=epsilon, delta=delta, **options).fit(rows, labels)


def chances(model: Any, rows: Any, classes: int) -> Any:
    """One column a class, also of those that the rows to fit did not have."""
    found = np.zeros((len(rows), classes))
    found[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(rows)
    return found


def main() -> None:
    """Fit what is asked for, one after the other."""
    asked = json.load(sys.stdin)
    given, found = np.load(asked["rows"]), {}
    for name, case in asked["cases"].items():
        fit, test, labels = (
            given[f"{word}, {case['seed']}"]
            for word in (f"{case['encoding']} fit", f"{case['encoding']} test", "labels")
        )
        options = {word: value for word, value in case.items() if word not in ("peer", "encoding")}
        model = (diffprivlib if case["peer"] == "diffprivlib" else boosting)(fit, labels, **options)
        found[name] = chances(model, test, asked["classes"])
    np.savez(asked["answers"], **found)


if __name__ == "__main__":
    main()
