"""The error of a private mean with bounds that a charged draft has found, beside that with the column's own range.

    python -m benchmarks.found_bounds            # the ten columns of the study; writes found_bounds.json and the table in docs/schema.md
    python -m benchmarks.found_bounds --tune     # tries constants of the rule on other columns, and prints the best

A column has 100,000 rows. Its bounds are found with ε = .1, and its mean is released with ε = .1. The oracle is told the column's exact least and greatest value.
The error of a mean is the root of its mean square over repetitions: what clipping does to the exact mean, and the variance of the Laplace noise.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import ROOT
from benchmarks.study_pages import markdown_table
from sudare.privacy.noise import SeededNoise
from sudare.statistics.found_bounds import RULE, BoundsRule, FoundNumber, found_number, noise_on_counts, whole_bounds

Floats = NDArray[np.float64]

RESULTS: Final = Path(__file__).with_name("found_bounds.json")
PAGE: Final = ROOT / "docs" / "schema.md"
BEGIN, END = "<!-- found bounds: written by python -m benchmarks.found_bounds -->", "<!-- end of found bounds -->"
ROWS: Final = 100_000
EPSILON: Final = 0.1
REPEATS: Final = 200
LARGEST_RATIO: Final = 1.2
# Bounds at these quantiles are what a better oracle chooses among.
TAILS: Final = (0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 2e-2, 5e-2)


@dataclass(frozen=True)
class Column:
    """Generated values, and whether they are whole numbers."""

    values: Floats
    whole: bool = False


def study_columns(seed: int = 77) -> dict[str, Column]:
    """Ten columns of different shape, made up and run once after the rule was fixed."""
    g = np.random.default_rng(seed)
    morning, plain = g.random(ROWS) < 0.6, g.random(ROWS) < 0.6
    return {
        "gamma delays (shape 0.5)": Column(g.gamma(0.5, 20, ROWS)),
        "triangular ages, 0 to 104": Column(np.floor(g.triangular(0, 35, 104, ROWS)), whole=True),
        "skewed temperatures below zero": Column(-10 - g.gumbel(0, 5, ROWS)),
        "Poisson counts (mean 4)": Column(g.poisson(4, ROWS).astype(float), whole=True),
        "Weibull lifetimes (shape 0.7)": Column(1e4 * g.weibull(0.7, ROWS)),
        "half-normal amounts in millions": Column(1e6 * np.abs(g.normal(size=ROWS))),
        "Student t, 4 degrees of freedom": Column(g.standard_t(4, ROWS)),
        "minutes of a day, two peaks": Column(np.where(morning, g.normal(480, 30, ROWS), g.normal(1080, 60, ROWS))),
        "ratings 1 to 5": Column(g.choice(np.arange(1.0, 6.0), ROWS, p=[0.05, 0.1, 0.15, 0.3, 0.4]), whole=True),
        "60 % exactly 100, else equally likely to 200": Column(np.where(plain, 100, g.uniform(0, 200, ROWS))),
    }  # fmt: skip


def tuning_columns(seed: int = 19) -> dict[str, Column]:
    """Other columns, of other shapes, on which constants are chosen."""
    g = np.random.default_rng(seed)
    zero = g.random(ROWS) < 0.6
    return {
        "triangular": Column(g.triangular(-3, 1, 9, ROWS)),
        "gamma": Column(g.gamma(2, 40, ROWS)),
        "Laplace": Column(g.laplace(1000, 3, ROWS)),
        "Student, 4 degrees": Column(12 + g.standard_t(4, ROWS)),
        "Weibull, heavy": Column(g.weibull(0.6, ROWS)),
        "log-normal, wide": Column(g.lognormal(0, 1.4, ROWS)),
        "die": Column(g.integers(1, 7, ROWS).astype(float), whole=True),
        "Poisson": Column(g.poisson(3, ROWS).astype(float), whole=True),
        "geometric": Column(g.geometric(0.1, ROWS).astype(float), whole=True),
        "half zeros, else gamma": Column(np.where(zero, 0.0, g.gamma(1.5, 200, ROWS))),
        "two thirds zeros, else log-normal": Column(np.where(g.random(ROWS) < 0.67, 0.0, g.lognormal(3, 1.3, ROWS))),
        "Pareto (α = 3), shifted": Column(50 + g.pareto(3, ROWS)),
        "seconds": Column(g.uniform(1.6e9, 1.66e9, ROWS)),
        "beta": Column(g.beta(2, 5, ROWS)),
    }


def found(column: Column, epsilon: float, noise: SeededNoise, rule: BoundsRule = RULE) -> FoundNumber | None:
    """Bounds found with noise; values must be sorted."""
    values = column.values

    def noisy(edges: Floats, share: float) -> Floats:
        below = np.searchsorted(values, edges, side="left")
        counts = np.diff(np.concatenate(([0], below, [len(values)]))).astype(np.float64)
        return noise_on_counts(share, len(counts), 1).apply(counts, noise)

    number = found_number(noisy, epsilon, 1, rule)
    return whole_bounds(number) if number is not None and column.whole else number


def squared_error(values: Floats, low: float, high: float, epsilon: float) -> float:
    """What clipping to these bounds and Laplace noise of a replaced row do to the mean."""
    bias = float(np.clip(values, low, high).mean() - values.mean())
    return bias**2 + 2 * ((high - low) / (len(values) * epsilon)) ** 2


def best_clipping(values: Floats, epsilon: float) -> float:
    """The least squared error among bounds at quantiles of the column: an oracle that may clip."""
    lows, highs = np.quantile(values, TAILS), np.quantile(values, 1 - np.array(TAILS))
    return min(squared_error(values, low, high, epsilon) for low in lows for high in highs if low < high)


def compared(
    column: Column, draft: float, mean: float, repeats: int, seed: int, rule: BoundsRule = RULE
) -> dict[str, float]:
    """Errors with found bounds, with the column's range, and with the best clipping; and how often nothing was found."""
    column = replace(column, values=np.sort(column.values))
    values, noise = column.values, SeededNoise(seed)
    numbers = [found(column, draft, noise, rule) for _ in range(repeats)]
    squares = [squared_error(values, each.low, each.high, mean) for each in numbers if each is not None]
    error = math.sqrt(np.mean(squares)) if squares else math.inf
    oracle = math.sqrt(squared_error(values, values[0], values[-1], mean))
    return {
        "error": error,
        "oracle": oracle,
        "ratio": error / oracle,
        "best_clipping_ratio": error / math.sqrt(best_clipping(values, mean)),
        "not_found": repeats - len(squares),
    }


def studied(repeats: int = REPEATS) -> dict[str, Any]:
    """What the study found: every column at ε = .1, and the largest ratio at other ε."""
    columns = study_columns()
    rows = {name: compared(column, EPSILON, EPSILON, repeats, 7) for name, column in columns.items()}
    others = [
        {"draft": draft, "mean": mean, **{name: compared(c, draft, mean, repeats // 4, 8)["ratio"] for name, c in columns.items()}}
        for draft, mean in ((1.0, 1.0), (0.1, 0.03), (0.03, 0.1), (0.01, 0.01))
    ]  # fmt: skip
    return {
        "rows": ROWS,
        "epsilon": EPSILON,
        "repeats": repeats,
        "rule": asdict(RULE),
        "columns": rows,
        "other_epsilons": others,
    }


def tuned(repeats: int = 12) -> list[tuple[float, float, BoundsRule]]:
    """Rules in the order of their largest ratio on the tuning columns, to one place, then of the mean one."""
    columns = {name: replace(each, values=np.sort(each.values)) for name, each in tuning_columns().items()}
    found_so_far = []
    grid = itertools.product(
        ((0.1, 0.1, 0.8), (0.15, 0.15, 0.7)), (4, 6, 8), (4.0, 6.0), (12.0, 25.0), (0.25, 0.5, 1.0, 2.0)
    )
    for shares, steps, window, tail, left_out in grid:
        rule = replace(
            RULE, shares=shares, steps_per_octave=steps, window_threshold=window, tail=tail, left_out=left_out
        )
        ratios = [compared(each, EPSILON, EPSILON, repeats, 3, rule)["ratio"] for each in columns.values()]
        found_so_far.append((max(ratios), float(np.mean(ratios)), rule))
    return sorted(found_so_far, key=lambda each: (round(each[0], 1), each[1]))


def table(results: Mapping[str, Any]) -> str:
    """The table of the page."""
    rows = [
        [
            name,
            f"{each['error']:.3g}",
            f"{each['oracle']:.3g}",
            f"{each['ratio']:.2f}",
            f"{each['best_clipping_ratio']:.2f}",
        ]
        for name, each in results["columns"].items()
    ]
    largest = max(each["ratio"] for each in results["columns"].values())
    others = [
        [f"{each['draft']:g}", f"{each['mean']:g}", *(f"{each[name]:.2f}" for name in results["columns"])]
        for each in results["other_epsilons"]
    ]
    return "\n\n".join(
        [
            markdown_table(
                ["column", "error, found bounds", "error, exact range", "ratio", "against the best clipping"], rows
            ),
            f"{results['rows']:,} rows; bounds found with ε = {results['epsilon']:g} of a column, means with ε = {results['epsilon']:g}; {results['repeats']} "
            f"repetitions. The largest ratio is {largest:.2f}. Ratios at other ε (of the draft, and of the mean), columns in the same order:",
            markdown_table(["draft", "mean", *(str(place) for place in range(1, len(rows) + 1))], others),
        ]
    )


def write_page(results: Mapping[str, Any], page: Path = PAGE) -> None:
    """Put the table into the page, between its marks."""
    text = page.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", "utf-8")


def main() -> None:
    """Run the study, or try constants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="try constants of the rule on the tuning columns")
    arguments = parser.parse_args()
    if arguments.tune:
        for largest, mean, rule in tuned()[:10]:
            print(f"{largest:.3f} {mean:.3f} {rule}")
        return
    results = studied()
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    write_page(results)
    print(table(results))


if __name__ == "__main__":
    main()
