"""`python -m benchmarks.panel.cross_tables [--tuning]`: whether `CrossTable` is ever worse than the product of the margins.

Without the option the judging half is run and counted: into cross_tables.json and the table in docs/records.md. With it the tuning half, which is printed only.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from benchmarks.panel.table_definition import Floats, Half, generator_of
from benchmarks.panel.tuning_and_judging import tables
from benchmarks.peers import ROOT
from benchmarks.study_pages import markdown_table
from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave, SubsetSelection
from sudare.perturbation.linkage_risk import epsilon_of_k
from sudare.reconstruction import CrossTable
from sudare.reconstruction.cross_tables import ColumnBin
from sudare.schema import Category, Label, Number

RESULTS: Final = Path(__file__).with_suffix(".json")
PAGE: Final = ROOT / "docs" / "records.md"
BEGIN, END = (
    "<!-- cross tables: written by `python -m benchmarks.panel.cross_tables` -->",
    "<!-- end of cross tables -->",
)

KINDS: Final = ("two categories", "a number and a category", "two numbers")
PAIRS: Final[dict[Half, dict[str, tuple[tuple[str, str, str], ...]]]] = {
    "tuning": {
        "two categories": (
            ("adult", "marital-status", "relationship"), ("adult", "workclass", "race"), ("determined pairs", "district", "region"), ("categories", "c0", "c1"),
        ),
        "a number and a category": (("adult", "age", "marital-status"), ("spiked amounts", "hours", "job")),
        "two numbers": (("adult", "age", "education-num"), ("whole numbers", "age", "visits")),
    },
    "judging": {
        "two categories": (
            ("more determined pairs", "district", "region"), ("more determined pairs", "degree", "pension"), ("more categories", "c2", "c3"), ("more categories", "c2", "y"),
        ),
        "a number and a category": (("wine", "x12", "y"), ("more spikes", "hours", "job")),
        "two numbers": (("alike columns", "x0", "x1"), ("whole numbers, rare label", "age", "children")),
    },
}  # fmt: skip
"""By table, columns that go together much, a little, and not at all."""
# ε is that of each column; k = 2 is for both columns together.
DESIGN: Final = ((300, "ε = 2"), (3_000, "ε = 1"), (100_000, "ε = 0.5"), (100_000, "k = 2"))
LAWS: Final = {
    "Laplace, retain or replace": (LaplacePerturbation, RetainReplace),
    "square wave, subset": (SquareWave, SubsetSelection),
}
DRAWS: Final = 3
JOINT: Final = {"two categories": "likelihood", "a number and a category": "bayes", "two numbers": "bayes"}
"""The estimate that is shrunk, or for two numbers one part of it."""
ERRORS: Final = ("shrunk", "joint", "unbiased", "product")


def perturbation(facts: Any, laws: str, epsilon: float) -> Any:
    """Of a column of the schema."""
    number, category = LAWS[laws]
    if isinstance(facts, Number):
        return number((facts.low, facts.high), epsilon=epsilon, whole=facts.whole)
    assert isinstance(facts, Category | Label)
    return category(facts.levels, epsilon=epsilon)


def shares(rows: pd.DataFrame, found: CrossTable) -> Floats:
    """The records' own proportions of the pairs of a table."""
    places = []
    for name, values in zip(rows, found.values_, strict=True):
        bins = [each for each in values if isinstance(each, ColumnBin)]
        if bins:
            inner = [each.low for each in bins[1:]]
            places.append(np.searchsorted(inner, rows[name].to_numpy(float), side="right"))
        else:
            places.append(pd.Index(values).get_indexer(pd.Index(rows[name])))
    size = [len(values) for values in found.values_]
    return np.bincount(np.ravel_multi_index(places, size), minlength=size[0] * size[1]).reshape(size) / len(rows)


def distance(found: Floats, true: Floats) -> float:
    """Half of the L1 distance, in hundredths."""
    return float(50 * np.abs(found - true).sum())


def errors(rows: pd.DataFrame, pair: Sequence[Any], kind: str, seed: int) -> dict[str, float]:
    """Of one draw of the noise: the table as it is told, the joint estimate, the unbiased proportions, and the product of the table's own margins."""
    answers = [
        law.perturb(rows[name].to_numpy(), random_state=seed + place, shuffle=False)
        for place, (law, name) in enumerate(zip(pair, rows, strict=True))
    ]
    found = CrossTable(*pair).fit(*answers)
    joint = CrossTable(*pair, method=JOINT[kind]).fit(*answers)
    true, told = shares(rows, found), found.probabilities_
    return {
        "shrunk": distance(told, true),
        "joint": distance(joint.probabilities_, true),
        "unbiased": distance(found.unbiased_, true),
        "product": distance(np.outer(told.sum(axis=1), told.sum(axis=0)) / told.sum(), true),
    }


@dataclass(frozen=True)
class Case:
    """Two columns of a table, how many records are drawn of it, and what they go through."""

    half: Half
    kind: str
    table: str
    columns: tuple[str, ...]
    records: int
    privacy: str
    laws: str

    def row(self, draws: int = DRAWS) -> dict[str, Any]:
        """Mean errors, and by how much the table is worse than the product, with a standard error over draws of records and noise."""
        table = next(each for each in tables(self.half) if each.name == self.table)
        names = list(self.columns)
        frame = table.frame[names].dropna()
        epsilon = epsilon_of_k(2, self.records) / 2 if self.privacy == "k = 2" else float(self.privacy[4:])
        pair = [perturbation(table.schema.columns[name], self.laws, epsilon) for name in names]
        found = []
        for draw in range(draws):
            rng = generator_of(f"{self}, {draw}")
            drawn = frame.sample(self.records, replace=True, random_state=rng)
            found.append(errors(drawn, pair, self.kind, int(rng.integers(2**31 - 2))))
        gaps = np.array([one["shrunk"] - one["product"] for one in found])
        means = {each: round(float(np.mean([one[each] for one in found])), 3) for each in ERRORS}
        spread = float(gaps.std(ddof=1) / np.sqrt(draws))
        row = {**asdict(self), **means, "gap": round(float(gaps.mean()), 4), "standard error": round(spread, 4)}
        print(json.dumps(row, ensure_ascii=False), flush=True)
        return row


def cases(half: Half) -> list[Case]:
    """Every pair of a half with each number of records and privacy, behind both kinds of laws."""
    return [
        Case(half, kind, name, tuple(columns), *size, laws)
        for kind, pairs in PAIRS[half].items()
        for name, *columns in pairs
        for size in DESIGN
        for laws in LAWS
    ]


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Means and gaps by kind of pair and number of records."""
    lines = []
    for kind, records, privacy in dict.fromkeys((row["kind"], row["records"], row["privacy"]) for row in rows):
        own = [row for row in rows if (row["kind"], row["records"], row["privacy"]) == (kind, records, privacy)]
        worst = max(own, key=lambda row: row["gap"])
        lines.append([
            kind, f"{records:,}, {privacy}", *(f"{np.mean([row[each] for row in own]):.1f}" for each in ERRORS),
            f"{np.mean([row['gap'] for row in own]):.2f}", f"{worst['gap']:.2f} ± {worst['standard error']:.2f}",
            *(f"{sum(row['gap'] > times * row['standard error'] for row in own)} of {len(own)}" for times in (1, 2)),
        ])  # fmt: skip
    headings = [
        "columns", "records, privacy", "table", "joint estimate alone", "unbiased", "product of margins", "table − product", "the worst pair",
        "worse by > 1 s.e.", "by > 2 s.e.",
    ]  # fmt: skip
    return markdown_table(headings, lines)


def with_table(page: str, results: dict[str, Any]) -> str:
    """The page with its written part made anew."""
    times = "once" if results["judged"] == 1 else f"{results['judged']} times"
    rows = results["rows"]
    beyond = [row["gap"] for row in rows if row["gap"] > 2 * row["standard error"]]
    most = f", by {max(beyond):.2f} at most" if beyond else ""
    told = (
        f"{summary(rows)}\n\nOf {len(rows)} cases {len(beyond)} are worse than the product by more than two standard errors{most}; "
        f"{sum(row['gap'] < -2 * row['standard error'] for row in rows)} are better by more. The judging half was run {times} for this."
    )
    before, after = page.split(BEGIN, maxsplit=1)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n\n{told}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and on the judging half count and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.panel.cross_tables", description=__doc__)
    parser.add_argument("--tuning", action="store_true", help="the tuning half; nothing is counted or written")
    asked = parser.parse_args(arguments)
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(Case.row, cases("tuning" if asked.tuning else "judging")))
    print(summary(rows))
    if not asked.tuning:
        judged = json.loads(RESULTS.read_text("utf-8"))["judged"] + 1 if RESULTS.exists() else 1
        results = {"judged": judged, "rows": rows}
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
        PAGE.write_text(with_table(PAGE.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()
