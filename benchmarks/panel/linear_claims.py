"""What is claimed of linear models, measured on the tables of a half: probabilities, ridge regression, encodings, and `auto` against single methods."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from benchmarks.panel.table_definition import PanelTable
from benchmarks.panel.tuning_and_judging import Half, tables
from sudare.linear import PrivateLogisticRegression, PrivateRidge
from sudare.linear.method_choice import METHODS, STATISTICS, chosen_encoding, chosen_ridge_encoding
from sudare.schema import Schema

Row = dict[str, Any]

EPSILONS: Final = (0.1, 0.5, 1.0, 3.0)
DELTAS: Final = (0.0, 1e-6)
MOST_ROWS: Final = 6_000
REPETITIONS: Final = 4
SINGLE_METHODS: Final = (*METHODS, STATISTICS)
# Tables with more binned columns than this are centred, so that one run takes minutes.
MOST_BINNED: Final = 200


def _methods(delta: float) -> tuple[str, ...]:
    return ("auto", *(method for method in SINGLE_METHODS if delta > 0 or method != "descent"))


def _cases(half: Half, target: Any) -> Iterator[tuple[PanelTable, float, float]]:
    for table in tables(half, target):
        for epsilon in EPSILONS:
            for delta in DELTAS:
                yield table, epsilon, delta


def answers_of(table: PanelTable, fit: pd.DataFrame, test: pd.DataFrame, model: Any, seed: int) -> list[float]:
    """What `judged` says of a model's probabilities."""
    return judged(table, fit, test, model.predict_proba(test), model.epsilon, seed)


def judged(
    table: PanelTable, fit: pd.DataFrame, test: pd.DataFrame, told: NDArray[np.float64], epsilon: float, seed: int
) -> list[float]:
    """AUC, log loss, that of the base rate with noise of the same ε, distance of the mean probability, recall of the rarest class, accuracy."""
    classes, label = np.array(table.schema.classes), table.schema.label
    truth = np.array([list(classes).index(value) for value in test[label]])
    shares = np.array([(fit[label] == value).mean() for value in classes])
    moved = 1 if len(classes) == 2 else 2
    noise = np.random.default_rng(seed).laplace(0, moved / (epsilon * len(fit)), len(classes))
    base = np.clip(shares + (noise if moved == 2 else np.array([-1, 1]) * noise[0]), 0.5 / len(fit), None)
    chances = np.clip(told, 1e-15, 1.0)
    columns = range(1, 2) if len(classes) == 2 else range(len(classes))
    area = float(np.mean([roc_auc_score(truth == place, chances[:, place]) for place in columns]))
    losses = [-np.log(given[truth]).mean() for given in (base / base.sum(),)]
    rarest = int(shares.argmin())
    code = chances.argmax(axis=1)
    return [
        area,
        float(-np.log(chances[np.arange(len(truth)), truth]).mean()),
        float(losses[0]),
        float(np.abs(chances.mean(axis=0) - shares).max()),
        float((code[truth == rarest] == rarest).mean()),
        float((code == truth).mean()),
    ]


def classification(half: Half) -> list[Row]:
    """One row a table, ε and δ: for `auto` and each single method the means over splits."""
    rows = []
    words = ("auc", "log_loss", "base_log_loss", "mean_distance", "recall", "accuracy")
    for table, epsilon, delta in _cases(half, "label"):
        encoding: Any = "binned" if len(table.schema.names("binned")) <= MOST_BINNED else "centred"
        row: Row = {"table": table.name, "epsilon": epsilon, "delta": delta, "encoding": encoding}
        for method in _methods(delta):
            found, balanced = [], []
            for seed in range(REPETITIONS):
                fit, test = table.fit_and_test(seed, MOST_ROWS)
                model = PrivateLogisticRegression(
                    epsilon, delta, schema=table.schema, encoding=encoding, method=method, random_state=seed
                ).fit(fit)
                found.append(answers_of(table, fit, test, model, seed))
                if method == "auto":
                    balanced.append(balanced_recall(model, fit, test, table))
            means = dict(zip(words, np.round(np.mean(found, axis=0), 4).tolist(), strict=True))
            if method == "auto":
                means |= {"balanced_recall": round(float(np.mean(balanced)), 4), "method": model.method_}
            row |= {"rows": len(fit), method: means}
        rows.append(row)
    return rows


def balanced_recall(
    model: PrivateLogisticRegression, fit: pd.DataFrame, test: pd.DataFrame, table: PanelTable
) -> float:
    """Recall of the class that is rarest in the rows to fit, with `decision="balanced"`: of this model, or of one fitted so where this has no base rates."""
    if model.base_rates_ is None:
        model = clone(model).set_params(decision="balanced").fit(fit)
    answers = model.classes_[np.argmax(model.predict_proba(test) / model.base_rates_, axis=1)]
    label = table.schema.label
    rarest = min(table.schema.classes, key=lambda value: float((fit[label] == value).mean()))
    return float(np.mean(answers[test[label] == rarest] == rarest))


def encodings(half: Half) -> list[Row]:
    """One row a table, ε and δ: the AUC with centred and with binned columns, and which of them `encoding="auto"` takes."""
    rows = []
    for table, epsilon, delta in _cases(half, "label"):
        if len(table.schema.names("binned")) > 2 * MOST_BINNED:
            continue
        row: Row = {"table": table.name, "epsilon": epsilon, "delta": delta}
        for encoding in ("centred", "binned"):
            areas = []
            for seed in range(REPETITIONS):
                fit, test = table.fit_and_test(seed, MOST_ROWS)
                model = PrivateLogisticRegression(
                    epsilon, delta, schema=table.schema, encoding=encoding, random_state=seed
                )
                areas.append(answers_of(table, fit, test, model.fit(fit), seed)[0])
            row[encoding] = round(float(np.mean(areas)), 4)
        declared = Schema(dict(table.schema.features))
        rows.append(row | {"rows": len(fit), "auto": chosen_encoding(len(fit), declared)})
    return rows


def summary_of_encodings(rows: list[Row]) -> Row:
    """Mean AUC of each encoding and of the one that the rule takes, and how often that is not the better one."""
    gaps = [max(row["centred"], row["binned"]) - row[row["auto"]] for row in rows]
    told: Row = {"cases": len(rows)}
    told |= {f"mean AUC, {word}": f"{np.mean([row[word] for row in rows]):.3f}" for word in ("centred", "binned")}
    told["mean AUC, the rule's"] = f"{np.mean([row[row['auto']] for row in rows]):.3f}"
    told["the rule's more than .01 AUC below the other"] = f"{sum(gap > 0.01 for gap in gaps)} of {len(gaps)}"
    told["mean and largest such gap"] = f"{np.mean(gaps):.4f}, {max(gaps):.4f}"
    return told


def ridge(
    half: Half,
    learner: type[PrivateRidge] = PrivateRidge,
    chosen: Sequence[PanelTable] | None = None,
    repetitions: int = REPETITIONS,
) -> list[Row]:
    """One row a table (all of the half, or those chosen), ε and δ: R² of both encodings, and how many answers were outside the declared bounds."""
    rows = []
    cases = itertools.product(tables(half, "number") if chosen is None else chosen, EPSILONS, DELTAS)
    for table, epsilon, delta in cases:
        row: Row = {"table": table.name, "epsilon": epsilon, "delta": delta, "outside": 0}
        facts: Any = table.schema.columns[table.schema.target or ""]
        for encoding in ("centred", "binned"):
            scores = []
            for seed in range(repetitions):
                fit, test = table.fit_and_test(seed, MOST_ROWS)
                model = learner(epsilon, delta, schema=table.schema, encoding=encoding, random_state=seed).fit(fit)  # type: ignore[arg-type]
                answers = model.predict(test)
                row["outside"] += int(((answers < facts.low) | (answers > facts.high)).sum())
                scores.append(model.score(test))
            row |= {"rows": len(fit), encoding: round(float(np.mean(scores)), 4)}
        rows.append(row | {"auto": chosen_ridge_encoding(len(fit), Schema(dict(table.schema.features)), epsilon)})
    return rows


def summary_of_classification(rows: list[Row]) -> Row:
    """How many cases keep each claim: of `auto`, and of any method."""
    cases = [(row, method, row[method]) for row in rows for method in ("auto", *SINGLE_METHODS) if method in row]
    seen = [(row, method, found) for row, method, found in cases if row["rows"] * row["epsilon"] >= 500]
    gaps = [max(row[method]["auc"] for method in SINGLE_METHODS if method in row) - row["auto"]["auc"] for row in rows]
    told: Row = {"cases": len(rows)}
    for word, chosen in (("auto", ("auto",)), ("all methods", ("auto", *SINGLE_METHODS))):
        mine = [found for _, method, found in cases if method in chosen]
        large = [found for _, method, found in seen if method in chosen]
        told[f"log loss above the base rate's, {word}"] = (
            f"{sum(one['log_loss'] > one['base_log_loss'] for one in mine)} of {len(mine)}"
        )
        told[f"log loss more than .01 above the base rate's, {word}"] = (
            f"{sum(one['log_loss'] > one['base_log_loss'] + 0.01 for one in mine)} of {len(mine)}"
        )
        told[f"mean probability off by more than .03 from n·ε = 500 on, {word}"] = (
            f"{sum(one['mean_distance'] > 0.03 for one in large)} of {len(large)}"
        )
        told[f"recall 0 where AUC is above .8, {word}"] = (
            f"{sum(one['recall'] == 0 for one in mine if one['auc'] > 0.8)} of {sum(one['auc'] > 0.8 for one in mine)}"
        )
    seen_balanced = [row["auto"] for row in rows if row["auto"]["auc"] > 0.8 and "balanced_recall" in row["auto"]]
    if seen_balanced:
        told['recall 0 where AUC is above .8, auto with decision="balanced"'] = (
            f"{sum(one['balanced_recall'] == 0 for one in seen_balanced)} of {len(seen_balanced)}"
        )
        told["mean recall of the rarest class there, likeliest and balanced"] = (
            f"{np.mean([one['recall'] for one in seen_balanced]):.2f}, {np.mean([one['balanced_recall'] for one in seen_balanced]):.2f}"
        )
    told["auto more than .01 AUC below the best single method"] = f"{sum(gap > 0.01 for gap in gaps)} of {len(gaps)}"
    told["mean and largest such gap"] = f"{np.mean(gaps):.4f}, {max(gaps):.4f}"
    return told


def by_method(rows: list[Row]) -> list[str]:
    """A table of means over all tables, one line for each δ and ε."""
    lines = [
        "| δ | ε | " + " | ".join(("auto", *SINGLE_METHODS)) + " |",
        "| --- | --- |" + " --- |" * (1 + len(SINGLE_METHODS)),
    ]
    for delta in DELTAS:
        for epsilon in EPSILONS:
            here = [row for row in rows if (row["delta"], row["epsilon"]) == (delta, epsilon)]
            cells = [
                f"{np.mean([row[method]['auc'] for row in here]):.3f}" if method in here[0] else "–"
                for method in ("auto", *SINGLE_METHODS)
            ]
            lines.append(f"| {delta:g} | {epsilon:g} | " + " | ".join(cells) + " |")
    return ["Mean AUC over the judging tables:", "", *lines]


def summary_of_ridge(rows: list[Row]) -> Row:
    """How many cases keep each claim."""
    worst = [min(row["centred"], row["binned"]) for row in rows]
    large = [one for one, row in zip(worst, rows, strict=True) if row["rows"] * row["epsilon"] >= 500]
    return {
        "cases": len(rows),
        "answers outside the declared bounds": sum(row["outside"] for row in rows),
        **{f"mean R², {word}": f"{np.mean([row[word] for row in rows]):.3f}" for word in ("centred", "binned")},
        "R² below −.01 (either encoding)": f"{sum(one < -0.01 for one in worst)} of {len(rows)}",
        "lowest R²": f"{min(worst):.3f}",
        "R² below −.01 from n·ε = 500 on": f"{sum(one < -0.01 for one in large)} of {len(large)}",
        "binned more than .02 below centred": f"{sum(row['binned'] < row['centred'] - 0.02 for row in rows)} of {len(rows)}",
        **_of_chosen_encodings(rows),
    }


def _of_chosen_encodings(rows: list[Row]) -> Row:
    """What is told of `encoding="auto"`, where it was looked at."""
    if not all("auto" in row for row in rows):
        return {}
    chosen = [row[row["auto"]] for row in rows]
    below = sum(mine < row["centred"] - 0.02 for mine, row in zip(chosen, rows, strict=True))
    behind = sum(mine < max(row["centred"], row["binned"]) - 0.02 for mine, row in zip(chosen, rows, strict=True))
    return {
        "mean R², the encoding that auto takes": f"{np.mean(chosen):.3f}",
        "auto's encoding more than .02 below centred": f"{below} of {len(rows)}",
        "auto's encoding more than .02 below the better one": f"{behind} of {len(rows)}",
    }


def quietly(measure: Any, half: Half) -> list[Row]:
    """The rows of a measurement, without warnings about classes that a small test half lacks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(measure(half))
