"""How far pairs of columns of synthetic tables are from the truth, and what a model learns from them: the engines of `PrivateSynthesizer` side by side.

    python -m benchmarks.synthesis            # the judging tables and Adult: writes benchmarks/synthesis.json
    python -m benchmarks.synthesis --aim      # AIM on the same tables and cells (benchmarks/aim_peer.py): written there too
    python -m benchmarks.synthesis --determined   # Adult with education-num determined by education: how many rows contradict
    python -m benchmarks.synthesis --known        # the same with that map and impossible families declared: how many rows contradict
    python -m benchmarks.synthesis --tune     # tuning tables with other constants of the engine "adaptive"

Distances are total variation between the table of a pair in the data and in as many synthetic rows, in the cells of the schema.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.panel.tuning_and_judging import tables
from benchmarks.peers import AIM, ROOT, peer_python
from sudare.papers.adult_schema import ADULT_SCHEMA
from sudare.papers.datasets import data
from sudare.schema import Category, Label, Number, Schema, encode
from sudare.schema.combinations import cell_count
from sudare.synthesis import PrivateSynthesizer, adaptive_marginals, tree_distribution
from sudare.synthesis.table_cells import coded_rows, decoded

RESULTS: Final = Path(__file__).with_suffix(".json")
PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "records.md"
BEGIN, END = "<!-- synthesis: written by `python -m benchmarks.synthesis` -->", "<!-- end of synthesis -->"
ADULT: Final = "adult, 15 columns"
JUDGED: Final = ("more categories", "more determined pairs", "more spikes", "pima")
TUNED: Final = (
    "categories",
    "determined pairs",
    "few rows, eight columns",
    "spiked amounts",
    "three classes",
    "unbalanced",
)
EPSILONS: Final = (0.1, 1.0, 10.0)
ENGINES: Final = ("marginals", "adaptive")
DELTA: Final = 1e-6
# What AIM's authors advise, and smaller sizes for the time allowed on one core.
AIM_MEGABYTES: Final = (80, 20, 5)
AIM_SECONDS: Final = 1_200


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
    return Case(ADULT, Schema({name: columns[name] for name in train}), train, test)


def judge_determined() -> None:
    """Adult with education-num declared to follow education: rows that contradict the data, at every ε."""
    case = adult()
    years = Number(1, 16, whole=True, bins=tuple(range(2, 17)), determined_by="education")
    schema, found = Schema({**case.schema.columns, "education-num": years}), []
    possible = {*zip(case.fit["education"], case.fit["education-num"].astype(int), strict=True)}
    for epsilon in EPSILONS:
        model = PrivateSynthesizer(
            schema, engine="adaptive", epsilon=epsilon, delta=DELTA, neighbours="add-remove", random_state=0
        ).fit(case.fit)
        rows = model.sample(len(case.fit), random_state=0)
        drawn = zip(rows["education"], rows["education-num"].astype(int), strict=True)
        distances = pair_distances(schema, case.fit, rows)
        found.append({
            "epsilon": epsilon, "rows with an impossible pair": sum(pair not in possible for pair in drawn),
            "mean": round(float(np.mean([*distances.values()])), 4), "worst": round(max(distances.values()), 4),
        })  # fmt: skip
        print(found[-1], flush=True)
    RESULTS.write_text(json.dumps({**json.loads(RESULTS.read_text()), "adult, determined": found}, indent=1) + "\n")


def known_adult(case: Case) -> Schema:
    """Adult with what the survey's documentation says: the number of each education, and that husbands are men, wives women and both married."""
    educations = ADULT_SCHEMA.columns["education"].levels  # type: ignore[union-attr]
    apart = ["Never-married", "Divorced", "Separated", "Widowed", "Married-spouse-absent"]
    columns = {
        "education": Category(educations),
        "education-num": Number(1, 16, whole=True, bins=tuple(range(2, 17)), determined_by="education"),
    }
    return Schema(
        {**case.schema.columns, **columns},
        maps={"education-num": {name: place for place, name in enumerate(educations, 1)}},
        impossible=(
            {"relationship": "Husband", "sex": "Female"},
            {"relationship": "Wife", "sex": "Male"},
            {"relationship": ["Husband", "Wife"], "marital-status": apart},
        ),
    )


def judge_known() -> None:
    """Adult with its declared map and impossible families: rows that contradict them, in the data and drawn, at every ε."""
    case, found = adult(), []
    schema = known_adult(case)
    for epsilon in EPSILONS:
        start = time.process_time()
        model = PrivateSynthesizer(
            schema, engine="adaptive", epsilon=epsilon, delta=DELTA, neighbours="add-remove", random_state=0
        ).fit(case.fit)
        rows = model.sample(len(case.fit), random_state=0)
        # In the cells of the case, as without what is declared.
        told = result(case, "adaptive", epsilon, rows, time.process_time() - start)
        of_data, drawn = contradictions(schema, case.fit), contradictions(schema, rows)
        found.append({**told, "rows that contradict, data": of_data, "rows that contradict, drawn": drawn})
        print(found[-1], flush=True)
    RESULTS.write_text(json.dumps({**json.loads(RESULTS.read_text()), "adult, known": found}, indent=1) + "\n")


def contradictions(schema: Schema, rows: pd.DataFrame) -> list[int]:
    """Rows with an impossible pair of education and its number, then with each impossible family; counted in the table itself."""
    numbers = rows["education"].map(schema.maps["education-num"])
    wrong = [rows["education-num"] != numbers]
    for combination in schema.impossible:
        wrong.append(np.logical_and.reduce([rows[name].isin(values) for name, values in combination.items()]))
    return [int(each.sum()) for each in wrong]


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
    """One fit of one of our engines, judged."""
    start = time.process_time()
    made = PrivateSynthesizer(
        case.schema, engine=engine, epsilon=epsilon, delta=DELTA, neighbours="add-remove", random_state=seed
    ).fit(case.fit)
    rows = made.sample(len(case.fit), random_state=seed)
    return result(case, engine, epsilon, rows, time.process_time() - start)


def judged_aim(case: Case, epsilon: float, seed: int) -> dict[str, Any]:
    """One run of AIM in its own environment, judged; with a smaller model where its authors' size takes longer than allowed."""
    codes = {name: cells.astype(np.int64) for name, cells in coded_rows(case.fit, None, case.schema).codes.items()}
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "codes.npz", Path(folder) / "rows.npz"
        np.savez(given, **codes)
        settings = {
            "codes": str(given), "rows": str(made), "sizes": {name: cell_count(case.schema.columns[name]) for name in codes},
            "epsilon": epsilon, "delta": DELTA, "seed": seed, "iterations": 1_000, "seconds": AIM_SECONDS,
        }  # fmt: skip
        for megabytes in AIM_MEGABYTES:
            asked = json.dumps({**settings, "megabytes": megabytes})
            told = json.loads(_run_aim(asked))
            if told["finished"]:
                generator = np.random.default_rng(seed)
                cells = np.load(made)
                columns = {name: decoded(case.schema.columns[name], cells[name], generator) for name in codes}
                found = result(case, "AIM", epsilon, pd.DataFrame(columns), told["seconds"])
                return {**found, "megabytes": megabytes, "tables": told["tables"]}
    return {"table": case.name, "engine": "AIM", "epsilon": epsilon, "unfinished after": AIM_SECONDS}


def _run_aim(asked: str) -> str:
    one_core = {**os.environ, "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    command = [str(peer_python(AIM)), "-m", "benchmarks.aim_peer"]
    return subprocess.run(
        command, input=asked, cwd=ROOT, env=one_core, capture_output=True, text=True, check=True
    ).stdout.splitlines()[-1]


def result(case: Case, engine: str, epsilon: float, rows: pd.DataFrame, seconds: float) -> dict[str, Any]:
    """How near synthetic rows are."""
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
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": 0}
    results = []
    for case in (adult(), *judging_cases()):
        for epsilon, engine in itertools.product(EPSILONS, ENGINES):
            results.append(judged(case, engine, epsilon, seed=0))
            print(results[-1], flush=True)
        results.append({"table": case.name, "engine": "the data", "auc": _rounded(learned_auc(case, case.fit))})
    # Read again: AIM may have written meanwhile.
    known = {**(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}), "runs": known["runs"] + 1}
    RESULTS.write_text(json.dumps({**known, "delta": DELTA, "results": results}, indent=1) + "\n")


def judge_aim(names: Sequence[str], epsilons: Sequence[float]) -> None:
    """AIM on these tables, each written when it is done, in place of what stood there."""
    for case in (adult(), *judging_cases()):
        for epsilon in epsilons if case.name in names else ():
            found = judged_aim(case, epsilon, seed=0)
            print(found, flush=True)
            known = json.loads(RESULTS.read_text())
            others = [row for row in known.get("aim", []) if (row["table"], row["epsilon"]) != (case.name, epsilon)]
            known["aim"] = sorted([*others, found], key=lambda row: (row["table"], row["epsilon"]))
            RESULTS.write_text(json.dumps(known, indent=1) + "\n")


def table(known: Mapping[str, Any]) -> str:
    """The table of the page."""
    exact = {row["table"]: row["auc"] for row in known["results"] if row["engine"] == "the data"}
    rows = {
        (row["table"], row["epsilon"], row["engine"]): row
        for row in [*known["results"], *known.get("aim", [])]
        if "mean" in row
    }
    lines = [
        "| table (rows, columns) | ε | mean pair: marginals | adaptive | AIM | worst pair: marginals | adaptive | AIM | AUC: marginals | adaptive | AIM | the data | seconds: adaptive | AIM |",
        "| --- |" + " --- |" * 13,
    ]
    for name, epsilon in dict.fromkeys(key[:2] for key in rows):
        own = [rows.get((name, epsilon, engine)) for engine in (*ENGINES, "AIM")]
        cells = [_cell(row, part, 3) for part in ("mean", "worst", "auc") for row in own]
        about = f"{name} ({own[0]['rows']:,}, {own[0]['columns']})" if own[0] else name
        seconds = [_cell(row, "seconds", 1) for row in own[1:]]
        lines.append(f"| {about} | {epsilon:g} | {' | '.join(cells)} | {exact[name]:.3f} | {' | '.join(seconds)} |")
    return "\n".join(lines)


def write_page() -> None:
    """Put the table of the file of results into the page."""
    page, text = PAGE.read_text(), table(json.loads(RESULTS.read_text()))
    before, after = page.split(BEGIN, maxsplit=1)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def _cell(row: dict[str, Any] | None, part: str, places: int) -> str:
    return "–" if row is None or row[part] is None else f"{row[part]:.{places}f}"


def tuning_cases() -> Iterator[Case]:
    """The tables of the panel's tuning half that constants are compared on; Adult is one of them."""
    yield adult()
    for table in tables("tuning", "label"):
        if table.name in TUNED:
            yield Case(table.name, table.schema, *table.fit_and_test(0))


def options() -> Iterator[tuple[str, dict[str, Any]]]:
    """Constants to compare: those in use, and with one of them changed."""
    used = {"share": None, "rounds": 2, "growth": 2, "strength": 0.3, "cells": 2**18}
    yield "in use", used
    for share in (Fraction(1, 5), Fraction(7, 20), Fraction(1, 2)):
        yield f"share of columns {share}", {**used, "share": share}
    yield "growth 4", {**used, "growth": 4}
    for rounds in (1, 4):
        yield f"rounds {rounds}", {**used, "rounds": rounds}
    for strength in (0.1, 0.5, 1.0, 3.0):
        yield f"strength {strength}", {**used, "strength": strength}
    yield "cells 2^16", {**used, "cells": 2**16}


def tune() -> None:
    """Print geometric means over the tuning tables for each choice, with seeds that judging does not use."""
    cases, shares = list(tuning_cases()), dict(adaptive_marginals._SHARES_OF_COLUMNS)
    for name, chosen in options():
        adaptive_marginals._SHARES_OF_COLUMNS.update(
            shares if chosen["share"] is None else dict.fromkeys(shares, chosen["share"])
        )
        adaptive_marginals._GROWTH = chosen["growth"]  # type: ignore[misc]
        adaptive_marginals._ROUNDS_PER_COLUMN["gaussian"] = chosen["rounds"]
        adaptive_marginals.MOST_TREE_CELLS = chosen["cells"]  # type: ignore[misc]
        tree_distribution._PRIOR_STRENGTH = chosen["strength"]  # type: ignore[misc]
        for epsilon in EPSILONS:
            found = [judged(case, "adaptive", epsilon, seed) for case in cases for seed in (1, 2)]
            means, worst = (np.exp(np.log([row[part] for row in found]).mean()) for part in ("mean", "worst"))
            auc = np.mean([row["auc"] for row in found if row["auc"] is not None])
            print(f"{name}, ε = {epsilon:g}: mean {means:.4f}, worst {worst:.4f}, AUC {auc:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--aim", action="store_true")
    parser.add_argument("--determined", action="store_true")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--page", action="store_true", help="only write the page's table from the file of results")
    parser.add_argument("--tables", nargs="+", default=[ADULT, *JUDGED], help="for AIM: these only")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS, help="for AIM: these only")
    asked = parser.parse_args()
    for is_asked, judge_part in ((asked.tune, tune), (asked.determined, judge_determined), (asked.known, judge_known)):
        if is_asked:
            judge_part()
            return
    if asked.aim:
        judge_aim(asked.tables, asked.epsilons)
    elif not asked.page:
        judge()
    write_page()


if __name__ == "__main__":
    main()
