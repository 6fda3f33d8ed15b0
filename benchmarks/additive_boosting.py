"""Constants of the boosted additive classifier, chosen on tuning tables, and what it reaches on Adult's test rows.

    python -m benchmarks.additive_boosting --choose    # tries constants on the panel's tuning half; writes additive_boosting.json
    python -m benchmarks.additive_boosting             # Adult's test rows, ten seeds; writes additive_boosting.json and counts how often it was run

Adult is read from SUDARE_DATA. While constants are chosen its test rows are not read: a part of the training rows is held out instead.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.panel.tuning_and_judging import tables
from sudare.linear import PrivateAdditiveClassifier, PrivateLogisticRegression
from sudare.linear.additive_boosting import BoostingRecipe
from sudare.papers.adult import ADULT_SCHEMA, with_known_columns
from sudare.papers.datasets import data

RESULTS: Final = Path(__file__).with_name("additive_boosting.json")
DELTA: Final = 1e-6
CHOSEN: Final = BoostingRecipe()
# Each differs from what was chosen in one constant.
TRIED: Final[Mapping[str, BoostingRecipe]] = {
    "chosen": CHOSEN,
    "20 steps": replace(CHOSEN, steps=20, averaged=10),
    "80 steps": replace(CHOSEN, steps=80, averaged=40),
    "rate .3": replace(CHOSEN, rate=0.3),
    "rate 1": replace(CHOSEN, rate=1.0),
    "momentum .9": replace(CHOSEN, momentum=0.9),
    "counts 1/8": replace(CHOSEN, count_share=Fraction(1, 8)),
    "counts 1/40": replace(CHOSEN, count_share=Fraction(1, 40)),
    "shapes .4": replace(CHOSEN, shape_scale=0.4),
    "shapes 1.2": replace(CHOSEN, shape_scale=1.2),
}


def scores(model: Any, test: Any, label: str) -> tuple[float, float, float]:
    """Accuracy, AUC (of one class against the rest, averaged, where there are several) and log loss."""
    truth, chances = test[label].to_numpy(), model.predict_proba(test)
    given = chances[:, 1] if chances.shape[1] == 2 else chances
    if chances.shape[1] == 2:
        area = roc_auc_score(truth == model.classes_[1], given)
    else:
        area = np.mean([roc_auc_score(truth == each, chances[:, place]) for place, each in enumerate(model.classes_)])
    return (
        float(np.mean(model.predict(test) == truth)),
        float(area),
        float(log_loss(truth, chances, labels=model.classes_)),
    )


def made(recipe: BoostingRecipe, **options: Any) -> PrivateAdditiveClassifier:
    """A classifier with other constants."""
    tried: type[PrivateAdditiveClassifier] = type("Tried", (PrivateAdditiveClassifier,), {"_recipe": recipe})
    return tried(delta=DELTA, **options)


def choose(epsilons: tuple[float, ...] = (0.5, 1.0, 3.0), seeds: int = 2, most_rows: int = 10_000) -> dict[str, Any]:
    """Mean scores of every set of constants on the tuning tables, and by table for what was chosen and for logistic regression."""
    found: dict[str, list[Any]] = {name: [] for name in (*TRIED, "logistic, binned")}
    by_table: dict[str, Any] = {}
    for table in tables("tuning", "label"):
        label = table.schema.label or ""
        for epsilon in epsilons:
            here: dict[str, list[Any]] = {name: [] for name in found}
            for seed in range(seeds):
                fit, test = table.fit_and_test(seed, most_rows)
                options: dict[str, Any] = {"epsilon": epsilon, "schema": table.schema, "random_state": seed}
                models = {name: made(recipe, **options) for name, recipe in TRIED.items()}
                models["logistic, binned"] = PrivateLogisticRegression(delta=DELTA, encoding="binned", **options)
                for name, model in models.items():
                    here[name].append(scores(model.fit(fit), test, label))
            for name, each in here.items():
                found[name].append(np.mean(each, axis=0))
            by_table[f"{table.name}, ε = {epsilon:g}"] = {
                name: np.mean(here[name], axis=0).round(4).tolist() for name in ("chosen", "logistic, binned")
            }
            print(table.name, epsilon, by_table[f"{table.name}, ε = {epsilon:g}"], flush=True)
    means = {name: np.mean(each, axis=0).round(4).tolist() for name, each in found.items()}
    return {"means": means, "tables": by_table, "constants": {**asdict(CHOSEN), "count_share": str(CHOSEN.count_share)}}


def adult(seeds: int = 10) -> dict[str, Any]:
    """Scores on the official test rows, mean and standard deviation over seeds of the noise."""
    fit, test = (with_known_columns(data(name)) for name in ("adult-train", "adult-test"))
    found = {}
    for epsilon, delta in ((0.1, DELTA), (0.5, DELTA), (1.0, DELTA), (3.0, DELTA), (1.0, 0.0)):
        for name, learner, more in (
            ("additive", PrivateAdditiveClassifier, {}),
            ("logistic, binned", PrivateLogisticRegression, {"encoding": "binned"}),
        ):
            models = (
                learner(epsilon, delta, schema=ADULT_SCHEMA, random_state=1000 + seed, **more).fit(fit)
                for seed in range(seeds)
            )
            numbers = np.array([scores(model, test, "income") for model in models])
            found[f"{name}, ε = {epsilon:g}, δ = {delta:g}"] = {
                "mean": numbers.mean(axis=0).round(4).tolist(),
                "deviation": numbers.std(axis=0, ddof=1).round(4).tolist(),
            }
    return found


def main() -> None:
    """Choose, or judge, and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choose", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found = choose() if asked.choose else adult()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if asked.choose:
        kept["tuning"] = found
    else:
        kept["adult"], kept["adult_runs"] = found, kept.get("adult_runs", 0) + 1
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(kept["tuning"]["means"] if asked.choose else kept["adult"], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
