"""Private classifiers of other libraries on the tables of a half: diffprivlib's logistic regression and DP-EBM of interpret, under our promise.

Our promise is for neighbours that replace a row. diffprivlib's is too, with pure ε, which is given to it for every δ. DP-EBM's is for neighbours of which one has a row
more: it is given the ε with which its noise keeps ours (`boosting_epsilon`). DP-EBM knows two classes and needs δ > 0.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from benchmarks.panel.linear_claims import DELTAS, EPSILONS, MOST_ROWS, REPETITIONS, judged
from benchmarks.panel.table_definition import PanelTable
from benchmarks.panel.tuning_and_judging import Half, tables
from benchmarks.peers import ROOT, peer_python
from sudare.privacy.accounting import gaussian_mu_within
from sudare.schema import Number, Schema, encode

Row = dict[str, Any]

BOOSTING: Final = "DP-EBM"
DIFFPRIVLIB: Final = {"centred": "diffprivlib, centred", "binned": "diffprivlib, binned"}
# What DP-EBM spends on its bins, of ε and of δ.
_BIN_SHARE, _BIN_DELTA = 0.1, 0.5
WORDS: Final = ("auc", "log_loss")


def exact_mu(epsilon: float, delta: float) -> float:
    """μ of the noise that DP-EBM takes for (ε, δ)."""

    def missing(mu: float) -> float:
        return float(norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - delta)

    return float(brentq(missing, 1e-5, 100.0, xtol=1e-12))


def boosting_epsilon(epsilon: float, delta: float) -> float:
    """The ε to ask DP-EBM for, so that with its noise a replaced row is within (ε, δ).

    A replaced row moves counts in bins by √2 where an added one moves them by 1, and sums of residuals by 2; both have Gaussian noise, whose squared μ add up.
    """
    wanted = gaussian_mu_within(epsilon, delta)

    def excess(asked: float) -> float:
        bins = exact_mu(_BIN_SHARE * asked, _BIN_DELTA * delta)
        sums = exact_mu((1 - _BIN_SHARE) * asked, (1 - _BIN_DELTA) * delta)
        return 2 * bins**2 + 4 * sums**2 - wanted**2

    return float(brentq(excess, epsilon / 20, 2 * epsilon, xtol=1e-9))


def peers(half: Half) -> list[Row]:
    """One row a table, ε and δ: AUC and log loss of each peer, means over the splits that `linear_claims.classification` has."""
    return [row for table in tables(half, "label") for row in _of_table(table)]


def _of_table(table: PanelTable) -> list[Row]:
    splits = [table.fit_and_test(seed, MOST_ROWS) for seed in range(REPETITIONS)]
    classes, label, features = list(table.schema.classes), table.schema.label, Schema(dict(table.schema.features))
    arrays = {}
    for seed, (fit, test) in enumerate(splits):
        arrays[f"labels, {seed}"] = np.array([classes.index(value) for value in fit[label]])
        for word, frame in (("fit", fit), ("test", test)):
            arrays[f"columns {word}, {seed}"] = _as_numbers(features, frame)
            for encoding in DIFFPRIVLIB:
                arrays[f"{encoding} {word}, {seed}"] = encode(features, frame, encoding).matrix  # type: ignore[arg-type]
    cases = _cases(features, len(classes))
    answers = _answers(arrays, {name: case for name, (_, _, case) in cases.items()}, len(classes))
    rows = []
    for epsilon in EPSILONS:
        for delta in DELTAS:
            row: Row = {"table": table.name, "epsilon": epsilon, "delta": delta}
            for peer in (*DIFFPRIVLIB.values(), BOOSTING):
                found = [
                    judged(table, *splits[case["seed"]], answers[name], epsilon, case["seed"])[:2]
                    for name, (whose, promises, case) in cases.items()
                    if whose == peer and (epsilon, delta) in promises
                ]
                if found:
                    row[peer] = dict(zip(WORDS, np.mean(found, axis=0).round(4).tolist(), strict=True))
            rows.append(row)
    return rows


def _cases(features: Schema, classes: int) -> dict[str, tuple[str, tuple[tuple[float, float], ...], Row]]:
    """Who is asked for what, and for which promises the answer counts."""
    found: dict[str, tuple[str, tuple[tuple[float, float], ...], Row]] = {}
    bounds = [
        [column.low, column.high] if isinstance(column, Number) else None for column in features.features.values()
    ]
    for seed in range(REPETITIONS):
        for epsilon in EPSILONS:
            for encoding, name in DIFFPRIVLIB.items():
                case: Row = {"peer": "diffprivlib", "encoding": encoding, "epsilon": epsilon, "seed": seed}
                case["norm"] = features.norm_bound(encoding)  # type: ignore[arg-type]
                found[f"{name} {epsilon} {seed}"] = name, tuple((epsilon, delta) for delta in DELTAS), case
            for delta in DELTAS:
                if delta > 0 and classes == 2:
                    asked = {"epsilon": boosting_epsilon(epsilon, delta), "delta": delta, "columns": bounds}
                    case = {"peer": "interpret", "encoding": "columns", "seed": seed, **asked}
                    found[f"{BOOSTING} {epsilon} {delta} {seed}"] = BOOSTING, ((epsilon, delta),), case
    return found


def _as_numbers(features: Schema, frame: Any) -> Any:
    """Numbers as they are and categories as the places of their levels."""
    return np.column_stack(
        [
            frame[name].to_numpy(dtype=float)
            if isinstance(column, Number)
            else frame[name].map({level: place for place, level in enumerate(column.levels)}).to_numpy(dtype=float)
            for name, column in features.features.items()
        ]
    )


def _answers(arrays: dict[str, Any], cases: dict[str, Row], classes: int) -> dict[str, Any]:
    """Probabilities of the test rows, by case."""
    with tempfile.TemporaryDirectory() as folder:
        given, answers = Path(folder) / "rows.npz", Path(folder) / "answers.npz"
        np.savez(given, **arrays)
        asked = json.dumps({"rows": str(given), "answers": str(answers), "classes": classes, "cases": cases})
        command = [str(peer_python()), "-W", "ignore", "-m", "benchmarks.panel.peer_classifiers"]
        subprocess.run(command, input=asked, text=True, cwd=ROOT, check=True)
        with np.load(answers) as found:
            return dict(found)


def summary_of_peers(rows: list[Row]) -> Row:
    """How many cases each peer was run in."""
    return {f"cases, {peer}": sum(peer in row for row in rows) for peer in (*DIFFPRIVLIB.values(), BOOSTING)}


def beside_auto(rows: list[Row], ours: list[Row]) -> list[str]:
    """Two tables of means, AUC and log loss, for each δ and ε: `auto` and diffprivlib on all tables, `auto` and DP-EBM where that was run."""
    own = {(row["table"], row["epsilon"], row["delta"]): row["auto"] for row in ours}
    lines = []
    for word, name in zip(WORDS, ("AUC", "log loss"), strict=True):
        heads = ("auto", *DIFFPRIVLIB.values(), "tables", f"auto, where {BOOSTING} was run", BOOSTING, "tables")
        lines += [f"Mean {name}:", "", "| δ | ε | " + " | ".join(heads) + " |", "| --- | --- |" + " --- |" * len(heads)]
        for delta in DELTAS:
            for epsilon in EPSILONS:
                here = [row for row in rows if (row["delta"], row["epsilon"]) == (delta, epsilon)]
                boosted = [row for row in here if BOOSTING in row]
                cells = [_mean([own[_key(row)][word] for row in here])]
                cells += [_mean([row[peer][word] for row in here]) for peer in DIFFPRIVLIB.values()]
                cells += [str(len(here)), _mean([own[_key(row)][word] for row in boosted])]
                cells += [_mean([row[BOOSTING][word] for row in boosted]), str(len(boosted))]
                lines.append(f"| {delta:g} | {epsilon:g} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines[:-1]


def _key(row: Row) -> tuple[str, float, float]:
    return row["table"], row["epsilon"], row["delta"]


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f}" if values else "–"
