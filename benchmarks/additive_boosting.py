"""Constants of the boosted additive classifier beside others on the panel's tuning tables, and what it reaches on Adult's test rows.

    python -m benchmarks.additive_boosting --choose    # compares constants on the panel's tuning half; writes additive_boosting.json
    python -m benchmarks.additive_boosting --schemas   # other public bins and columns of Adult, by cross-validation on its training rows; writes additive_boosting.json
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
from sklearn.model_selection import KFold

from benchmarks.panel.tuning_and_judging import tables
from sudare.linear import PrivateAdditiveClassifier, PrivateLogisticRegression
from sudare.linear.additive_boosting import BoostingRecipe
from sudare.papers.adult_schema import ADULT_SCHEMA, LABEL
from sudare.papers.datasets import data
from sudare.schema import Category, Number, Schema

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
    "penalties kept": replace(CHOSEN, adapted=CHOSEN.steps + 1),
}

_COUNTRIES: Final = (
    "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany", "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece",
    "South", "China", "Cuba", "Iran", "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal",
    "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia", "Hungary", "Guatemala", "Nicaragua",
    "Scotland", "Thailand", "Yugoslavia", "El-Salvador", "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands",
)  # fmt: skip
_LOSSES: Final = Number(0, 5_000, bins=(1, *range(500, 3_000, 100)), unit="dollars")
_GAINS: Final = Number(
    0, 100_000, bins=(1, *range(500, 10_000, 250), *range(10_000, 30_000, 2_500), 50_000), unit="dollars"
)
_GAINS_BY_HUNDREDS: Final = Number(
    0, 100_000, bins=(1, *range(500, 10_000, 100), 10_000, 12_500, 15_000, 20_000, 30_000, 50_000), unit="dollars"
)
_LOG_GAINS: Final = Number(
    0, 100_000, bins=(1, 1_000, 2_000, 4_000, 5_000, 7_000, 10_000, 20_000, 50_000), unit="dollars"
)
_AGES: Final = Number(17, 90, bins=(20, 22, 24, 26, 28, 30, 32, 35, 38, 41, 45, 50, 55, 60, 65, 70), unit="years")
_HOURS: Final = Number(1, 99, bins=(10, 20, 25, 30, 35, 40, 41, 45, 46, 50, 51, 55, 60, 61, 70), unit="hours")
_WEIGHTS: Final = Number(
    10_000, 1_500_000, bins=(50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000, 600_000)
)
_SCHOOL_YEARS: Final = Number(1, 16, bins=tuple(range(2, 17)), whole=True)


def other_columns(without: tuple[str, ...] = (), **columns: Any) -> Schema:
    """Adult's schema with some columns declared otherwise (a low line stands for a hyphen), or left out."""
    found = dict(ADULT_SCHEMA.columns) | {name.replace("_", "-"): column for name, column in columns.items()}
    label = found.pop(LABEL)
    return Schema({name: column for name, column in found.items() if name not in without} | {LABEL: label})


# Bins are round numbers. The attributes that the paper's eleven columns leave out are education-num, native-country and fnlwgt, a weight of sampling.
LOSSES: Final = other_columns(capital_loss=_LOSSES)
FINER: Final = other_columns(
    ("education",), capital_loss=_LOSSES, capital_gain=_GAINS_BY_HUNDREDS, education_num=_SCHOOL_YEARS
)
SCHEMAS: Final[Mapping[str, Schema]] = {
    "eleven columns": ADULT_SCHEMA,
    "capital losses by hundreds": LOSSES,
    "capital gains on a log scale too": other_columns(capital_loss=_LOSSES, capital_gain=_LOG_GAINS),
    "fine capital gains too": other_columns(capital_loss=_LOSSES, capital_gain=_GAINS),
    "capital gains by hundreds too": other_columns(capital_loss=_LOSSES, capital_gain=_GAINS_BY_HUNDREDS),
    "capital gains by hundreds, education by its number": FINER,
    "capital gains by hundreds, all fourteen": other_columns(
        capital_loss=_LOSSES,
        capital_gain=_GAINS_BY_HUNDREDS,
        native_country=Category(_COUNTRIES, missing="unknown"),
        fnlwgt=_WEIGHTS,
        education_num=_SCHOOL_YEARS,
    ),
    "finer ages too": other_columns(capital_loss=_LOSSES, age=_AGES),
    "finer hours too": other_columns(capital_loss=_LOSSES, hours_per_week=_HOURS),
    "country too": other_columns(capital_loss=_LOSSES, native_country=Category(_COUNTRIES, missing="unknown")),
    "weights of sampling too": other_columns(capital_loss=_LOSSES, fnlwgt=_WEIGHTS),
    "all fourteen": other_columns(
        capital_loss=_LOSSES,
        native_country=Category(_COUNTRIES, missing="unknown"),
        fnlwgt=_WEIGHTS,
        education_num=_SCHOOL_YEARS,
    ),
    "education by its number": other_columns(("education",), capital_loss=_LOSSES, education_num=_SCHOOL_YEARS),
    "without race": other_columns(("race",), capital_loss=_LOSSES),
}


def compared_schemas(folds: int = 5) -> dict[str, Any]:
    """Mean scores of each schema at ε = 1 over folds of the training rows, and at ε = 10, where there is little noise."""
    rows, found = data("adult-train"), {}
    splits = list(KFold(folds, shuffle=True, random_state=0).split(rows))
    for name, schema in SCHEMAS.items():
        table = rows[list(schema.columns)]
        told: dict[str, Any] = {"bins": len(Schema(dict(schema.features)).names("binned"))}
        for epsilon in (1.0, 10.0):
            each = []
            for seed, (fit, test) in enumerate(splits):
                model = PrivateAdditiveClassifier(epsilon, DELTA, schema=schema, random_state=seed)
                model.fit(table.iloc[fit].reset_index(drop=True))
                each.append(scores(model, table.iloc[test].reset_index(drop=True), LABEL))
            told[f"ε = {epsilon:g}"] = np.mean(each, axis=0).round(4).tolist()
        found[name] = told
        print(name, told, flush=True)
    return found


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
    fit, test = (data(name) for name in ("adult-train", "adult-test"))
    finer = "additive, finer bins"
    found = {}
    for epsilon, delta in ((0.1, DELTA), (0.5, DELTA), (1.0, DELTA), (3.0, DELTA), (1.0, 0.0)):
        for name, learner, more in (
            ("additive", PrivateAdditiveClassifier, {}),
            (finer, PrivateAdditiveClassifier, {}),
            ("logistic, binned", PrivateLogisticRegression, {"encoding": "binned"}),
        ):
            schema = FINER if name == finer else ADULT_SCHEMA
            rows = fit[list(schema.columns)]
            models = (
                learner(epsilon, delta, schema=schema, random_state=1000 + seed, **more).fit(rows)
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
    parser.add_argument("--schemas", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found = choose() if asked.choose else compared_schemas() if asked.schemas else adult()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if asked.choose:
        kept["tuning"] = found
    elif asked.schemas:
        kept["schemas"] = found
    else:
        kept["adult"], kept["adult_runs"] = found, kept.get("adult_runs", 0) + 1
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    told = kept["tuning"]["means"] if asked.choose else kept["schemas"] if asked.schemas else kept["adult"]
    print(json.dumps(told, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
