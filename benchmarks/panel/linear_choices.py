"""`python -m benchmarks.panel.linear_choices`: constants, rules of `auto` and encodings of linear models, each beside others on the tuning half.

Every comparison prints what it finds; results of those in `RECORDED` are kept in linear_choices.json, from which pages have their numbers.

The first recipe (constants of a mechanism) of each comparison is the one that is used; the others change one thing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from benchmarks.panel import linear_claims
from benchmarks.panel.classification_tables import bent, clouds, gaussian, heavy_tailed, skewed, whole_numbers
from benchmarks.panel.norm_bounded_arrays import arrays
from benchmarks.panel.tuning_and_judging import Half, tables
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.linear.descent_on_centred_targets import RECIPE as CENTRED
from sudare.linear.method_choice import METHODS, calibration_signal
from sudare.linear.method_choice import STATISTICS as STATISTICS_METHOD
from sudare.linear.score_calibration import CLASSES, NUMBERS, SEVERAL, Recipe
from sudare.linear.sufficient_statistics import RECIPE as STATISTICS
from sudare.schema import Schema, encode

RESULTS: Final = Path(__file__).with_suffix(".json")
# Constants of sufficient statistics that are compared with those in use, one at a time.
STATISTICS_TRIED: Final = {
    "target_share": (0.5, 0.7, 0.9),
    "least_target_share": (0.0, 0.05),
    "enough": (150.0, 500.0),
    "column_share": (0.1, 0.4),
    "number_share": (0.5, 0.85),
    "target_weight": (0.5, 2.0),
    "widths": (1.0, 2.0, 3.0),
    "quiet": (1000.0,),
    "product_noise": (0.1, 1.0),
    "no_line": (0.5, 0.9),
}
# Arrays of which only the norm of rows is known: what `auto` may take, each with a calibration or as it is.
ARRAY_EPSILONS: Final = (0.1, 0.3, 1.0, 3.0, 6.0)
ARRAY_DELTAS: Final = (0.0, 1e-5)
_AS_IT_IS: Final = type("AsItIs", (PrivateRidge,), {"_calibration": None})
ARRAY_METHODS: Final = (
    ("auto", PrivateRidge, "auto"),
    ("statistics", PrivateRidge, STATISTICS_METHOD),
    ("mean", PrivateRidge, "mean"),
    ("objective", PrivateRidge, "objective"),
    ("descent", PrivateRidge, "descent"),
    ("objective as it is", _AS_IT_IS, "objective"),
    ("descent as it is", _AS_IT_IS, "descent"),
)
CENTRED_TRIED: Final = {"level_share": (0.1, 0.5), "enough": (20.0, 100.0), "widths": (1.0, 2.0, 3.0)}
ARRAY_BANDS: Final = (0.0, 8.0, 15.0, 25.0, 40.0, 64.0, 128.0, 256.0, 512.0, 720.0, 1024.0, 2048.0, math.inf)
RIDGE_SIGNALS: Final = (20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 120.0)
# Large tables are where a calibration could be left out.
MANY_ROWS: Final = 20_000


def variants(used: Recipe) -> dict[str, Recipe]:
    """The recipe that is used, and others of which each changes one thing."""
    level, spread, association = used.shares
    return {
        "used": used,
        "half the level": replace(used, shares=(level / 2, spread, association)),
        "more for the sums": replace(used, shares=(level, 2 * spread, 2 * association)),
        "less for the sums": replace(used, shares=(level, spread / 2, association / 2)),
        "less is enough": replace(used, enough=tuple(each / 2 for each in used.enough)),  # type: ignore[arg-type]
        "half the shrinkage": replace(used, shrinkage=used.shrinkage / 2),
        "twice the shrinkage": replace(used, shrinkage=2 * used.shrinkage),
        "wider scale": replace(used, widths=2 * used.widths),
        "any correlation": replace(used, usual=math.inf),
        "small correlations": replace(used, usual=0.3),
    }


def recipes() -> None:
    """What the claims of the panel say of each recipe, on the tuning half."""
    for learner, used, measure, summary in (
        (PrivateLogisticRegression, CLASSES, linear_claims.classification, linear_claims.summary_of_classification),
        (PrivateRidge, NUMBERS, linear_claims.ridge, linear_claims.summary_of_ridge),
    ):
        for name, recipe in variants(used).items():
            learner._calibration = recipe
            found = summary(linear_claims.quietly(measure, "tuning"))
            print(json.dumps({f"{learner.__name__}, {name}": found}, indent=1, ensure_ascii=False), flush=True)
        learner._calibration = used


def methods_and_encodings(repetitions: int = 12) -> None:
    """AUC of methods and encodings beside the public number that the rules of `auto` look at, one line a case, smallest numbers first; then `true_gaps`."""
    cases = []
    for table in tables("tuning", "label"):
        for encoding in ("centred", "binned"):
            if len(table.schema.names(encoding)) > linear_claims.MOST_BINNED:  # type: ignore[arg-type]
                continue
            for epsilon in linear_claims.EPSILONS:
                for delta in linear_claims.DELTAS:
                    cases.append(_compared(table, encoding, epsilon, delta, repetitions))
    for case in sorted(cases, key=lambda case: case.signal):
        means = {method: round(float(np.mean(each)), 3) for method, each in case.areas.items()}
        print(f"{case.signal:9.2f} {case.name}: {means}, auto {case.chosen}")
    for encoding, delta in itertools.product(("centred", "binned"), linear_claims.DELTAS):
        here = [case for case in cases if case.encoding == encoding and case.name.startswith(f"δ = {delta:g},")]
        means = {
            method: round(float(np.mean([np.mean(case.areas[method or case.chosen]) for case in here])), 4)
            for method in ("", *here[0].areas)
        }
        print(json.dumps({f"mean AUC, {encoding}, δ = {delta:g}": {"auto": means.pop(""), **means}}), flush=True)
    for encoding in ("centred", "binned"):
        print(json.dumps({encoding: true_gaps([case for case in cases if case.encoding == encoding])}), flush=True)


class Compared(NamedTuple):
    """One case: AUC of each method in the same splits, and the method that `auto` takes."""

    name: str
    encoding: str
    signal: float
    areas: dict[str, list[float]]
    chosen: str


def _compared(table: Any, encoding: Any, epsilon: float, delta: float, repetitions: int) -> Compared:
    areas: dict[str, list[float]] = {}
    options = {"schema": table.schema, "encoding": encoding}
    for method in ("mean", "objective" if delta == 0 else "descent", STATISTICS_METHOD):
        for seed in range(repetitions):
            fit, test = table.fit_and_test(seed, linear_claims.MOST_ROWS)
            model = PrivateLogisticRegression(epsilon, delta, method=method, random_state=seed, **options).fit(fit)
            areas.setdefault(method, []).append(linear_claims.answers_of(table, fit, test, model, seed)[0])
    rule = PrivateLogisticRegression(epsilon, delta, random_state=0, **options).fit(fit)
    signal = calibration_signal(len(fit), rule.parameters_.size, epsilon, delta)
    name = f"δ = {delta:g}, ε = {epsilon:g}, {encoding}, {table.name}"
    return Compared(name, encoding, signal, areas, rule.method_)


def true_gaps(cases: Sequence[Compared]) -> dict[str, Any]:
    """By how much the expected AUC of `auto` is below that of the best single method.

    The best of several noisy means is too good, so which method is best is asked of one half of the splits and how much better it is of the other, and the other way round. Differences are
    within splits; the standard error is of the mean of those of a half.
    """
    gaps, errors = [], []
    for case in cases:
        each = {method: np.array(found) for method, found in case.areas.items()}
        middle = len(each[case.chosen]) // 2
        halves = slice(None, middle), slice(middle, None)
        differences = []
        for first, second in (halves, halves[::-1]):
            best = max(each, key=lambda method: float(each[method][first].mean()))
            differences.append(each[best][second] - each[case.chosen][second])
        gaps.append(float(np.mean([difference.mean() for difference in differences])))
        together = np.concatenate(differences)
        errors.append(float(together.std(ddof=1) / math.sqrt(len(together))))
    pairs = list(zip(gaps, errors, strict=True))
    return {
        "cases": len(pairs),
        "mean gap": round(float(np.mean(gaps)), 4),
        "its standard error": round(float(np.sqrt(np.sum(np.square(errors))) / len(errors)), 4),
        "above .01": sum(gap > 0.01 for gap in gaps),
        "above .01 by two standard errors": sum(gap > 0.01 + 2 * error for gap, error in pairs),
        "largest": round(max(gaps), 3),
    }


def with_and_without() -> None:
    """Log loss of objective perturbation and descent with a calibration and without, beside the public number of `needs_calibration`, smallest first."""
    lines: list[tuple[float, str]] = []
    for table in tables("tuning", "label"):
        encoding: Any = "binned" if len(table.schema.names("binned")) <= linear_claims.MOST_BINNED else "centred"
        for epsilon in linear_claims.EPSILONS:
            for method, delta in (("objective", 0.0), ("descent", 1e-6)):
                found = {}
                for name, recipe in (("with", CLASSES), ("without", None)):
                    learner = type("Tried", (PrivateLogisticRegression,), {"_calibration": recipe})
                    answers = []
                    for seed in range(2):
                        fit, test = table.fit_and_test(seed, MANY_ROWS)
                        options = {"schema": table.schema, "encoding": encoding, "method": method, "random_state": seed}
                        model = learner(epsilon, delta, **options).fit(fit)
                        answers.append(linear_claims.answers_of(table, fit, test, model, seed))
                    # AUC, log loss, distance of the mean probability, accuracy.
                    found[name] = np.mean(answers, axis=0)[[0, 1, 3, 5]].round(4).tolist()
                signal = calibration_signal(len(fit), model.parameters_.size, epsilon, delta)
                lines.append((signal, f"{method}, ε = {epsilon:g}, {table.name}: {found}"))
    for signal, line in sorted(lines):
        print(f"{signal:9.2f} {line}")


def several_classes(repetitions: int = 3) -> None:
    """What is claimed of probabilities of several classes, with each recipe, on the tuning tables that have some: the first as two classes have it, without a look at mean probabilities."""
    tried = {
        "as of two classes": CLASSES,
        "used": SEVERAL,
        "level for less": replace(SEVERAL, enough=(225.0, *SEVERAL.enough[1:])),
        "more for the sums": replace(SEVERAL, shares=(0.2, 0.04, 0.08, 0.06), enough=(300.0, 200.0, 400.0, 300.0)),
        "less for the sums": replace(SEVERAL, shares=(0.2, 0.04, 0.04, 0.04), enough=(225.0, 150.0, 200.0, 200.0)),
        "scores farther from normal": replace(SEVERAL, usual_miss=0.2),
    }
    chosen = [table for table in tables("tuning", "label") if len(table.schema.classes) > 2]
    for name, recipe in tried.items():
        learner = type("Tried", (PrivateLogisticRegression,), {"_calibration_of_several": recipe})
        cases = []
        for table, epsilon, delta in itertools.product(chosen, linear_claims.EPSILONS, linear_claims.DELTAS):
            found = []
            for seed in range(repetitions):
                fit, test = table.fit_and_test(seed, linear_claims.MOST_ROWS)
                options = {"schema": table.schema, "encoding": "binned", "random_state": seed}
                found.append(
                    linear_claims.answers_of(table, fit, test, learner(epsilon, delta, **options).fit(fit), seed)
                )
            cases.append((len(fit) * epsilon, *np.mean(found, axis=0)))
        numbers = np.array(cases)
        large = numbers[numbers[:, 0] >= 500]
        told = {
            "mean probability off by more than .03": f"{int((large[:, 4] > 0.03).sum())} of {len(large)}",
            "mean distance": round(float(large[:, 4].mean()), 4),
            "log loss less that of the base rate": round(float((numbers[:, 2] - numbers[:, 3]).mean()), 4),
            "mean AUC": round(float(numbers[:, 1].mean()), 4),
        }
        print(json.dumps({name: told}), flush=True)


def many_rows(repetitions: int = 2) -> None:
    """AUC and log loss of binned numbers with many rows, where sufficient statistics end: tables that are in neither half."""
    made = (
        skewed("skewed, many rows", 40_000, 6, 1.0, 0.35),
        heavy_tailed("heavy tails, many rows", 40_000, 6, 3.0),
        gaussian("normal, many rows", 40_000, 10, 6, 0.3),
        bent("bent, many rows", 40_000, 5, 0.5),
        whole_numbers("whole numbers, many rows", 40_000, 0.4),
        clouds("five classes, many rows", 30_000, 6, (0.3, 0.25, 0.2, 0.15, 0.1), 3.0),
    )
    for table, most, epsilon, delta in itertools.product(made, (10_000, 40_000), (0.5, 2.0), linear_claims.DELTAS):
        told = {}
        for method in ("objective" if delta == 0 else "descent", STATISTICS_METHOD):
            found = []
            for seed in range(repetitions):
                fit, test = table.fit_and_test(seed, most)
                options: Any = {"schema": table.schema, "encoding": "binned", "method": method, "random_state": seed}
                model = PrivateLogisticRegression(epsilon, delta, **options).fit(fit)
                found.append(linear_claims.answers_of(table, fit, test, model, seed)[:2])
            told[method] = np.mean(found, axis=0).round(4).tolist()
        signal = calibration_signal(len(fit), model.parameters_.size, epsilon, delta)
        print(f"{signal:9.1f} δ = {delta:g}, ε = {epsilon:g}, {len(fit):,} rows, {table.name}: {told}", flush=True)


def ridge_encodings() -> dict[str, Any]:
    """What `encoding="auto"` of ridge regression comes to with other numbers of rows times ε a column, two seeds."""
    found = {}
    rows = linear_claims.quietly(partial(_ridge_rows, PrivateRidge), "tuning")
    declared = {table.name: Schema(dict(table.schema.features)) for table in tables("tuning", "number")}
    for least in RIDGE_SIGNALS:
        chosen = []
        for row in rows:
            columns = len(declared[row["table"]].names("binned"))
            is_binned = row["rows"] * row["epsilon"] >= least * columns
            chosen.append(row | {"auto": "binned" if is_binned else "centred"})
        found[f"from {least:g} on"] = told = linear_claims.summary_of_ridge(chosen)
        print(json.dumps({f"from {least:g} on": {name: told[name] for name in told if "auto" in name}}), flush=True)
    return found


def statistics_recipes() -> None:
    """What is claimed of ridge regression, with each recipe of sufficient statistics: two seeds, tables of at most `MOST_BINNED` binned columns, on the tuning half."""
    tried = {"used": STATISTICS}
    for constant, values in STATISTICS_TRIED.items():
        tried |= {f"{constant} = {value:g}": replace(STATISTICS, **{constant: value}) for value in values}
    for name, recipe in tried.items():
        learner = type("Tried", (PrivateRidge,), {"_statistics": recipe})
        rows = linear_claims.quietly(partial(_ridge_rows, learner), "tuning")
        print(json.dumps({name: linear_claims.summary_of_ridge(rows)}, ensure_ascii=False), flush=True)


def _ridge_rows(learner: type[PrivateRidge], half: Half) -> list[dict[str, Any]]:
    """What `linear_claims.ridge` measures, of fewer tables and seeds."""
    narrow = [
        table for table in tables(half, "number") if len(table.schema.names("binned")) <= linear_claims.MOST_BINNED
    ]
    return linear_claims.ridge(half, learner, narrow, 2)


def ridge_methods() -> dict[str, float]:
    """R² of ridge regression by each method, one line a case, and the means, on the tuning half."""
    means: dict[str, list[float]] = {}
    for table in tables("tuning", "number"):
        for epsilon in linear_claims.EPSILONS:
            for delta in linear_claims.DELTAS:
                found = {}
                for method in (STATISTICS_METHOD, *METHODS):
                    if delta == 0 and method == "descent":
                        continue
                    scores = []
                    for seed in range(2):
                        fit, test = table.fit_and_test(seed, linear_claims.MOST_ROWS)
                        options = {"schema": table.schema, "method": method, "random_state": seed}
                        scores.append(PrivateRidge(epsilon, delta, **options).fit(fit).score(test))
                    found[method] = round(float(np.mean(scores)), 3)
                    # One table that noise spoils would decide a mean otherwise.
                    means.setdefault(f"δ = {delta:g}, {method}", []).append(max(-1.0, found[method]))
                print(f"δ = {delta:g}, ε = {epsilon:g}, {table.name}: {found}", flush=True)
    told = {name: round(float(np.mean(each)), 4) for name, each in means.items()}
    print(told)
    return told


def array_methods() -> dict[str, Any]:
    """R² of ridge regression on arrays by each method, with a calibration and as it is."""
    return _compared_on_arrays(ARRAY_METHODS, ARRAY_DELTAS)


def centred_recipes() -> dict[str, Any]:
    """R² of descent on targets about where they lie, with other constants than those in use, one at a time, on arrays."""
    tried = {"used": CENTRED}
    for constant, values in CENTRED_TRIED.items():
        tried |= {f"{constant} = {value:g}": replace(CENTRED, **{constant: value}) for value in values}
    learners = [
        (name, type("Tried", (PrivateRidge,), {"_centred": recipe}), "descent") for name, recipe in tried.items()
    ]
    return _compared_on_arrays(learners, ARRAY_DELTAS[1:])


def _compared_on_arrays(
    learners: Sequence[tuple[str, Any, str]], deltas: Sequence[float], repetitions: int = 4
) -> dict[str, Any]:
    """One line a case, smallest public numbers first (`calibration_signal`); then means over cases whose number is in the same band.

    Means count no case below −1; beside them is how many cases have an R² below −.01, and the lowest.
    """
    found: dict[tuple[float, float, str, float], dict[str, list[float]]] = {}
    for seed, epsilon, delta in itertools.product(range(repetitions), ARRAY_EPSILONS, deltas):
        for array in arrays(seed):
            rows, width = array.X.shape
            signal = calibration_signal(rows, width + 1, epsilon, delta)
            scores = found.setdefault((delta, signal, array.name, epsilon), {})
            options: Any = {"target_bounds": array.target_bounds, "norm_bound": 1.0, "random_state": seed}
            for name, learner, method in learners:
                if delta > 0 or method != "descent":
                    model = learner(epsilon, delta, method=method, **options).fit(array.X, array.y)
                    scores.setdefault(name, []).append(model.score(array.X_test, array.y_test))
    means = {case: {name: float(np.mean(each)) for name, each in scores.items()} for case, scores in found.items()}
    for (delta, signal, name, epsilon), each in sorted(means.items(), key=lambda case: case[0]):
        rounded = {method: round(mean, 3) for method, mean in each.items()}
        print(f"{signal:9.1f} δ = {delta:g}, ε = {epsilon:g}, {name}: {rounded}")
    told = {}
    for delta in deltas:
        for low, high in (*itertools.pairwise(ARRAY_BANDS), (0.0, math.inf)):
            cases = [each for case, each in means.items() if case[0] == delta and low <= case[1] < high]
            if cases:
                name = f"δ = {delta:g}, from {low:g} to {high:g}"
                told[name] = {"cases": len(cases), **_told_of(cases)}
                print(name, told[name], flush=True)
    return told


def _told_of(cases: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The mean R² of each method, how many cases are below −.01, and the lowest."""
    columns = {name: [case[name] for case in cases] for name in cases[0]}
    return {
        name: {
            "mean": round(float(np.mean(np.maximum(each, -1.0))), 4),
            "below -.01": sum(one < -0.01 for one in each),
            "least": round(min(each), 4),
        }
        for name, each in columns.items()
    }


def class_weights(repetitions: int = 4) -> dict[str, dict[str, float]]:
    """What weights of classes would be worth without any noise, beside likeliest classes and those answered by their base rates; `noise` is what they would multiply it by."""
    told = {}
    for table in tables("tuning", "label"):
        scores: list[dict[str, float]] = []
        target = table.schema.label or ""
        for seed in range(repetitions):
            fit, test = table.fit_and_test(seed, 20_000)
            declared = Schema(dict(table.schema.features))
            (X, y), (X_test, y_test) = (
                (encode(declared, rows[list(declared.columns)], "binned").matrix, rows[target].to_numpy().astype(str))
                for rows in (fit, test)
            )
            plain = LogisticRegression(max_iter=400).fit(X, y)
            weighted = LogisticRegression(max_iter=400, class_weight="balanced").fit(X, y)
            rates = np.array([np.mean(y == each) for each in plain.classes_])
            balanced = plain.classes_[np.argmax(plain.predict_proba(X_test) / rates, axis=1)]
            answers = {"likeliest": plain.predict(X_test), "balanced": balanced, "weights": weighted.predict(X_test)}
            found = {name: float(balanced_accuracy_score(y_test, each)) for name, each in answers.items()}
            scores.append({**found, "noise": float(1 / (len(rates) * rates.min()))})
        told[table.name] = {name: round(float(np.mean([each[name] for each in scores])), 4) for name in scores[0]}
        print(f"{table.name:24s} {told[table.name]}", flush=True)
    return told


RECORDED: Final[dict[str, Callable[[], Any]]] = {
    "ridge": ridge_methods,
    "arrays": array_methods,
    "centred": centred_recipes,
    "ridge_encodings": ridge_encodings,
    "weights": class_weights,
}
WAYS: Final = {
    "recipes": recipes,
    "methods": methods_and_encodings,
    "needed": with_and_without,
    "statistics": statistics_recipes,
    "several": several_classes,
    "many": many_rows,
    **RECORDED,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.panel.linear_choices", description=__doc__)
    parser.add_argument("what", nargs="*", choices=[*WAYS, []], default=list(WAYS))
    parser.add_argument("--splits", type=int, default=12, help="splits a case of `methods`")
    asked = parser.parse_args(arguments)
    for name in asked.what or WAYS:
        if name == "methods":
            methods_and_encodings(asked.splits)
        elif name in RECORDED:
            found = RECORDED[name]()
            recorded = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
            RESULTS.write_text(json.dumps({**recorded, name: found}, indent=1, ensure_ascii=False) + "\n", "utf-8")
        else:
            WAYS[name]()


if __name__ == "__main__":
    main()
