"""Persons with many rows: memory and time of leaving rows out, and how good the privately chosen bound is.

    python -m benchmarks.persons            # everything, into benchmarks/persons.json and docs/statistics.md
    python -m benchmarks.persons --judge    # only how good the bound is; memory and time stay those of the last run
    python -m benchmarks.persons --tune     # the constants of sudare.privacy.contribution_bound_selection, on tables that the study does not have
    python -m benchmarks.persons --page     # the page from the committed numbers

A table has a group and a value for every row; rows of a person are alike, and persons with many rows are unlike others, so that leaving rows out biases
counts and means. Errors are those of a table of counts and means by group, ε = 1, add/remove persons, against the whole table: of counts the sum over
groups of |error| as a share of all rows, of means the mean over groups of |error| as a share of the range; that of a table is the sum of both. Best is the fixed bound with the least error,
a mean over repeats, found with knowledge of the table. Kept rows are drawn uniformly of each person's, which is what the keyed choice does.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from benchmarks.peers import ROOT
from benchmarks.resources import peak_bytes
from benchmarks.study_pages import markdown_table
from sudare.frames.person_buckets import RowLimits
from sudare.privacy import contribution_bound_selection
from sudare.privacy.contribution_bound_selection import BoundChoice, bound_epsilon, candidate_bounds
from sudare.schema import Category, Number, Person, Schema
from sudare.statistics.grouped_noise import grouped_mechanism
from sudare.statistics.grouped_table import GroupedTable

Draw = Callable[[int], NDArray[np.int64]]

RESULTS: Final = ROOT / "benchmarks" / "persons.json"
PAGE: Final = ROOT / "docs" / "statistics.md"
BLOCK: Final = re.compile(r"(<!-- persons -->\n).*?(<!-- end of persons -->)", re.DOTALL)
EPSILON: Final = 1.0
GROUPS: Final = 60
LARGEST: Final = 1000
REPEATS: Final = 300
MEMORY_ROWS: Final = 10_000_000
# Bounds that are chosen less often are left out of means.
LIKELY: Final = 1e-5
# Constants of the rule that are compared.
TUNED: Final = {
    "BOUND_SHARE": (0.065, 0.07, 0.075, 0.08, 0.085),
    "STEP_RATIO": (1.03, 1.05),
    "FULL_EXCESS": (0.2, 0.25, 0.3, 0.35, 0.4),
    "PERSONS_ABOVE": (0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
    "NOISE_GROWTH": (0.01, 0.03),
}


@dataclass(frozen=True)
class Skewed:
    """A table: whose each row is, its group, and its value in [−1, 1]."""

    persons: NDArray[np.int64]
    groups: NDArray[np.int64]
    values: NDArray[np.float64]


def skewed(counts: NDArray[np.int64], seed: int) -> Skewed:
    """A table of persons with so many rows each; who has many has other groups and other values."""
    generator = np.random.default_rng(seed)
    counts = np.clip(counts, 1, 20_000)
    persons = np.repeat(np.arange(len(counts)), counts)
    home = generator.integers(0, GROUPS, len(counts))
    away = generator.random(len(persons)) < 0.3
    groups = np.where(away, generator.integers(0, GROUPS, len(persons)), home[persons])
    level = np.tanh(0.4 * np.log(counts) - 0.8 + 0.4 * generator.normal(size=len(counts)))
    values = np.clip(level[persons] + 0.3 * generator.normal(size=len(persons)), -1, 1)
    return Skewed(persons, groups, values)


def mixed(generator: np.random.Generator, persons: int, share: float, many: Draw, few: Draw) -> NDArray[np.int64]:
    """Numbers of rows of persons of two kinds."""
    return np.where(generator.random(persons) < share, many(persons), few(persons))


def tables(kind: str) -> dict[str, Skewed]:
    """Tables to choose constants on, or others to judge them on: three that the rule before this one was judged on, and three made up after the rule was fixed. All were run with three sets of constants, chosen on the tables for tuning, the last one for a rule that keeps more rows of some persons."""
    if kind == "tune":
        g = np.random.default_rng(1)
        found: dict[str, Any] = {
            "negative binomial": 1 + g.negative_binomial(0.7, 0.12, 30_000),
            "Pareto 1.6": np.floor((1 - g.random(30_000)) ** (-1 / 1.6)),
            "two kinds": mixed(g, 20_000, 0.05, lambda n: g.poisson(60, n), lambda n: 1 + g.poisson(3, n)),
            "regular visitors": mixed(g, 20_000, 0.03, lambda n: g.integers(30, 200, n), lambda n: 1 + g.poisson(3, n)),
            "machines": mixed(g, 30_000, 0.02, lambda n: g.poisson(300, n), lambda n: g.geometric(0.3, n)),
            "log-normal": np.ceil(g.lognormal(1.2, 1.1, 30_000)),
            "geometric": g.geometric(0.08, 25_000),
            "one or twelve": mixed(g, 30_000, 0.15, lambda n: np.full(n, 12), lambda n: np.full(n, 1)),
            "Zipf 2": np.minimum(g.zipf(2.0, 40_000), 800),
            "three kinds": mixed(
                g,
                25_000,
                0.03,
                lambda n: g.poisson(150, n),
                lambda n: mixed(g, n, 0.12, lambda n: g.poisson(25, n), lambda n: 1 + g.poisson(2, n)),
            ),
            "equally likely": g.integers(1, 60, 12_000),
            "very few with most": mixed(g, 40_000, 0.01, lambda n: g.integers(100, 700, n), lambda n: 1 + g.poisson(2, n)),
        }  # fmt: skip
    else:
        g, h = np.random.default_rng(78), np.random.default_rng(1911)
        found = {
            "Weibull 0.6": np.ceil(6 * g.weibull(0.6, 30_000)),
            "log-series 0.97": g.logseries(0.97, 40_000),
            "a few very busy": mixed(g, 25_000, 0.02, lambda n: g.integers(50, 400, n), lambda n: 1 + g.poisson(5, n)),
            "gamma 0.5": np.ceil(h.gamma(0.5, 25, 30_000)),
            "subscribers": mixed(h, 30_000, 0.08, lambda n: h.binomial(52, 0.9, n), lambda n: h.geometric(0.5, n)),
            "Yule 2.5": h.geometric(np.exp(-h.exponential(1 / 1.5, 50_000))),
        }
    return {name: skewed(np.asarray(counts, np.int64), seed) for seed, (name, counts) in enumerate(found.items())}


def cells_of(table: Skewed, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Counts and sums of values by group."""
    groups = table.groups[kept]
    return np.stack([np.bincount(groups, minlength=GROUPS), np.bincount(groups, table.values[kept], GROUPS)])


def errors_of(noisy: NDArray[np.float64], whole: NDArray[np.float64]) -> tuple[float, float]:
    """Of counts, and of means."""
    counts = float(np.abs(noisy[0] - whole[0]).sum() / whole[0].sum())
    means = np.clip(noisy[1] / np.maximum(noisy[0], 1.0), -1, 1)
    return counts, float(np.abs(means - whole[1] / whole[0]).mean() / 2)


class Measured:
    """Errors of fixed bounds and of chosen ones on a table."""

    def __init__(self, table: Skewed) -> None:
        self._table, generator = table, np.random.default_rng(0)
        counts = np.bincount(table.persons)
        self.histogram = np.bincount(np.minimum(counts, LARGEST + 1), minlength=LARGEST + 2)
        self._whole = cells_of(table, np.ones(len(table.persons), np.bool_))
        # Rows come by person: the place of each among its person's, in a random order.
        order = np.lexsort((generator.random(len(table.persons)), table.persons))
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._rows = counts[table.persons]
        self._cells: dict[RowLimits, NDArray[np.float64]] = {}

    def errors(self, limits: RowLimits, epsilon: float, repeat: int) -> tuple[float, float]:
        """Errors of one noisy table: infinity-norm noise on both numbers of every group, as in the product."""
        if limits not in self._cells:
            most = np.where(self._rows >= limits.many_from, limits.many, limits.few)
            self._cells[limits] = cells_of(self._table, self._place < most)
        scale = grouped_mechanism(1, "add-remove", limits.many, 2 * GROUPS, epsilon, 0.0).noise_scale
        generator = np.random.default_rng(repeat)
        noise = generator.gamma(3.0, scale, GROUPS) * generator.uniform(-1, 1, (2, GROUPS))
        return errors_of(self._cells[limits] + noise, self._whole)

    def mean_errors(self, limits: RowLimits, epsilon: float, repeats: int) -> NDArray[np.float64]:
        """Errors with such limits."""
        errors = [self.errors(limits, epsilon, repeat) for repeat in range(repeats)]
        found: NDArray[np.float64] = np.mean(errors, axis=0)
        return found

    def best(self, repeats: int) -> tuple[int, NDArray[np.float64]]:
        """The best fixed bound, and its errors."""
        found = {
            bound: self.mean_errors(RowLimits.equal(bound), EPSILON, repeats) for bound in candidate_bounds(LARGEST)
        }
        best = min(found, key=lambda bound: float(found[bound].sum()))
        return best, found[best]

    def chosen(self, repeats: int) -> tuple[list[int], NDArray[np.float64]]:
        """The bounds below which a twentieth, half and all but a twentieth of the private choices lie, and the mean errors: by the law of the choice."""
        choice = choice_of_product()
        chances, bounds = law(choice, self.histogram), candidate_bounds(LARGEST)
        likely = np.flatnonzero(chances > LIKELY)
        errors = [self.mean_errors(*limits_and_epsilon(choice, bounds[place]), repeats) for place in likely]
        reached = np.searchsorted(np.cumsum(chances), [0.05, 0.5, 0.95])
        mean: NDArray[np.float64] = chances[likely] @ np.array(errors) / chances[likely].sum()
        return [bounds[place] for place in reached], mean


def choice_of_product() -> BoundChoice:
    """How the product chooses a bound for the tables of this study."""
    spent = bound_epsilon(EPSILON)
    return BoundChoice.of(spent, EPSILON - spent, 2 * GROUPS, LARGEST, "add-remove", is_proportional=True)


def limits_and_epsilon(choice: BoundChoice, bound: int) -> tuple[RowLimits, float]:
    """Which rows are kept with a bound, and the ε of the table."""
    limits, spent = choice.limits(bound, EPSILON)
    return limits, EPSILON - spent


def law(choice: BoundChoice, histogram: NDArray[np.int64]) -> NDArray[np.float64]:
    """The probabilities of the candidates, over what the number wanted is lowered by."""
    rate = float(choice.rate)
    lowered = np.arange(int(40 / rate))
    excess = np.array([float(each) for each in choice.excess(histogram)])
    accepted = np.exp(-rate * np.maximum(excess + lowered[:, None], 0.0))
    accepted[:, -1] = 1.0
    refused = np.cumprod(1 - accepted, axis=1)
    weights = np.exp(-rate * lowered) * -np.expm1(-rate)
    found: NDArray[np.float64] = weights @ (accepted * np.column_stack([np.ones(len(lowered)), refused[:, :-1]]))
    return found


def tuned(repeats: int = 60) -> None:
    """Print how much worse than the best fixed bound each choice of constants is, on the tables for tuning: the root of the mean squared excess, by which they are sorted, the mean and the largest ratio."""
    measured = {name: Measured(table) for name, table in tables("tune").items()}
    best = {name: each.best(repeats)[1].sum() for name, each in measured.items()}
    errors: dict[tuple[str, RowLimits, float], float] = {}

    def ratio(name: str) -> float:
        """The mean error of chosen bounds as a share of the best."""
        choice, each = choice_of_product(), measured[name]
        chances, found = law(choice, each.histogram), 0.0
        likely = np.flatnonzero(chances > LIKELY)
        for place in likely:
            case = name, *limits_and_epsilon(choice, candidate_bounds(LARGEST)[place])
            if case not in errors:
                errors[case] = float(each.mean_errors(*case[1:], repeats).sum())
            found += chances[place] * errors[case]
        return float(found / chances[likely].sum() / best[name])

    found = []
    for values in itertools.product(*TUNED.values()):
        with contextlib.ExitStack() as patched:
            for name, value in zip(TUNED, values, strict=True):
                patched.enter_context(patch.object(contribution_bound_selection, name, value))
            ratios = np.array([ratio(name) for name in measured])
        told = ", ".join(f"{name} {value:g}" for name, value in zip(TUNED, values, strict=True))
        found.append((float(np.sqrt(np.mean((ratios - 1) ** 2))), float(ratios.mean()), float(ratios.max()), told))
    for spread, mean, worst, told in sorted(found):
        print(f"excess {spread:.4f}, mean {mean:.3f}, largest {worst:.3f} with {told}")


def judged() -> list[dict[str, Any]]:
    """The chosen bound beside the best fixed one, with the constants of the product, on the tables for judging."""
    found = []
    for name, table in tables("judge").items():
        each = Measured(table)
        (best, best_errors), (bounds, errors) = each.best(REPEATS), each.chosen(REPEATS)
        found.append(
            {
                "table": name,
                "persons": int(table.persons.max() + 1),
                "rows": len(table.persons),
                "most rows": int(np.bincount(table.persons).max()),
                "best bound": best,
                "chosen bounds": bounds,
                "best errors": best_errors.tolist(),
                "errors": errors.tolist(),
            }
        )
    return found


def memory() -> dict[str, Any]:
    """Processor time and peak memory of a table by group of ten million rows, in processes of their own."""
    found: dict[str, Any] = {"rows": MEMORY_ROWS}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("many persons", "one person has half"):
            path = Path(folder) / "rows.parquet"
            _write(path, name)
            for what in ("read", "fit"):
                command = [sys.executable, "-m", "benchmarks.persons", "--within", what, os.fspath(path)]
                answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
                found[f"{name}, {what}"] = json.loads(answer)
    return found


def _write(path: Path, name: str) -> None:
    """Rows of which at most three of a person will be kept, in row groups, so that writing needs little memory."""
    generator = np.random.default_rng(0)
    types = pa.schema({"patient": pa.int64(), "ward": pa.string(), "days": pa.float64(), "age": pa.float64()})
    with pa.parquet.ParquetWriter(path, types) as writer:
        for _ in range(MEMORY_ROWS // 500_000):
            persons = np.floor(2_000_000 * generator.random(500_000) ** 2).astype(np.int64)
            if name == "one person has half":
                persons[generator.random(500_000) < 0.5] = 7
            wards = pa.array(np.array(["surgery", "medicine", "maternity"])[generator.integers(0, 3, 500_000)])
            days, age = generator.gamma(2, 3, 500_000), generator.uniform(0, 100, 500_000)
            writer.write_table(pa.table([pa.array(persons), wards, pa.array(days), pa.array(age)], schema=types))


def within(what: str, path: str) -> dict[str, float]:
    """What reading or fitting took in this process."""
    schema = Schema(
        {"ward": Category(("surgery", "medicine", "maternity")), "days": Number(0, 60), "age": Number(0, 110)}
    )
    start, cut = time.process_time(), 0
    # "read" is the same table without persons: what remains is what choosing rows takes.
    if what == "fit":
        schema = Schema(schema.columns, Person("patient", 3))
    model = GroupedTable(1.0, schema=schema, by=["ward"], mean_of=["days", "age"], random_state=0).fit(path)
    if what == "fit":
        cut = model.cut_rows_
    seconds, megabytes = time.process_time() - start, peak_bytes() / 2**20
    return {"processor seconds": round(seconds, 1), "peak MB": round(megabytes), "cut rows": cut}


def page_text(found: dict[str, Any]) -> str:
    """What the documentation says of the numbers."""
    rows = [
        [
            each["table"],
            f"{each['persons']:,}",
            f"{each['most rows']:,}",
            str(each["best bound"]),
            f"{each['chosen bounds'][0]}–{each['chosen bounds'][2]}",
            *(
                f"{100 * one:.2f} : {100 * other:.2f}"
                for one, other in zip(each["errors"], each["best errors"], strict=True)
            ),
            f"{sum(each['errors']) / sum(each['best errors']):.2f}",
        ]
        for each in found["judged"]
    ]
    headings = [
        "rows a person",
        "persons",
        "most rows",
        "best bound",
        "chosen (90 %)",
        "error of counts, %: chosen : best",
        "error of means, %",
        "both",
    ]
    parts = [markdown_table(headings, rows)]
    of_memory = [
        [name, f"{each['processor seconds']:.1f} s", f"{each['peak MB']:,} MB", f"{each['cut rows']:,}"]
        for name, each in found["memory"].items()
        if isinstance(each, dict)
    ]
    parts.append(
        f"A table of counts and two means by group of {found['memory']['rows']:,} rows in Parquet, at most three of a person kept (fit), and of all rows without persons (read):\n\n"
        + markdown_table(["table", "processor time", "peak memory", "rows left out"], of_memory)
    )
    return "\n\n".join(parts) + "\n"


def write_page() -> None:
    """The page with the committed numbers."""
    text = PAGE.read_text("utf-8")
    PAGE.write_text(
        BLOCK.sub(lambda found: found[1] + page_text(json.loads(RESULTS.read_text("utf-8"))) + found[2], text), "utf-8"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.persons")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--within", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.within:
        print(json.dumps(within(*arguments.within)))
        return
    if arguments.tune:
        tuned()
        return
    if not arguments.page:
        of_memory = json.loads(RESULTS.read_text("utf-8"))["memory"] if arguments.judge else memory()
        found = {"memory": of_memory, "judged": judged()}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    write_page()
    print(page_text(json.loads(RESULTS.read_text("utf-8"))))


if __name__ == "__main__":
    main()
