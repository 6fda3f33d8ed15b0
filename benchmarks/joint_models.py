"""What ten members learn together, beside one who holds all rows: Adult's official test rows, additive model and network.

    python -m benchmarks.joint_models    # some minutes; writes joint_models.json

Adult is read from SUDARE_DATA. Members hold every tenth row of the training rows; two of ten shares of the noise are not counted on.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.additive_boosting import scores
from sudare.joint import consortium_model
from sudare.linear import PrivateAdditiveClassifier
from sudare.neural import PrivateMLPClassifier
from sudare.papers.adult_schema import ADULT_SCHEMA, with_known_columns
from sudare.papers.datasets import data

RESULTS: Final = Path(__file__).with_name("joint_models.json")
MEMBERS: Final = 10
COLLUDERS: Final = 2
EPSILON: Final = 1.0
DELTA: Final = 1e-6


def model(fit: Any, method: str, together: bool, seed: int) -> Any:
    """One model of all rows, or of ten members' sums."""
    options: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "schema": ADULT_SCHEMA, "random_state": seed}
    if not together:
        learner = PrivateAdditiveClassifier if method == "boosting" else PrivateMLPClassifier
        return learner(**options).fit(fit)
    parts = [fit.iloc[first::MEMBERS] for first in range(MEMBERS)]
    shared = {"method": method, "colluders": COLLUDERS, "hide": "nothing", "encoding": "binned"}
    return consortium_model(parts, **shared, **options).model()


def measured(seeds: int = 3) -> dict[str, Any]:
    """Accuracy, AUC and log loss on the test rows, means over seeds of the noise."""
    fit, test = (with_known_columns(data(name)) for name in ("adult-train", "adult-test"))
    found = {}
    for method in ("boosting", "network"):
        for name, together in (("all rows in one place", False), ("ten members", True)):
            numbers = np.array(
                [scores(model(fit, method, together, seed), test, "income") for seed in range(2000, 2000 + seeds)]
            )
            found[f"{method}, {name}"] = {
                "mean": numbers.mean(axis=0).round(4).tolist(),
                "deviation": numbers.std(axis=0, ddof=1).round(4).tolist(),
            }
            print(method, name, found[f"{method}, {name}"], flush=True)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    facts = {"epsilon": EPSILON, "delta": DELTA, "members": MEMBERS, "colluders": COLLUDERS}
    RESULTS.write_text(json.dumps({**facts, "found": measured()}, indent=1) + "\n")
