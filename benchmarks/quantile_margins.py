"""How often intervals of quantiles hold, and how wide they are, for columns of many shapes: how many records the ends of intervals need was chosen by this.

    python -m benchmarks.quantile_margins

Columns are made up, and none of them is in benchmarks/grouped_statistics.py, where the choice is judged. A table has ε = ¾ for its quantiles, as one by group with quartiles and counts at ε = 1.
Written to benchmarks/quantile_margins.json and to the page proofs/quantiles.md.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.privacy.guarantee import NEIGHBOURS
from sudare.privacy.noise import SeededNoise
from sudare.schema import Number
from sudare.statistics import joint_quantiles
from sudare.statistics.joint_quantiles import Cells, Choice, JointQuantiles, law_of_bounds

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHAPES: Final[dict[str, Callable[[np.random.Generator, int], Floats]]] = {
    "even": lambda generator, rows: generator.random(rows),
    "exponential": lambda generator, rows: generator.exponential(0.1, rows),
    "t, 3 degrees": lambda generator, rows: 0.5 + 0.03 * generator.standard_t(3, rows),
    "triangular": lambda generator, rows: generator.triangular(0, 1, 1, rows),
    "three peaks": lambda generator, rows: generator.choice([0.2, 0.5, 0.9], rows) + 0.02 * generator.normal(size=rows),
    "gamma": lambda generator, rows: generator.gamma(0.7, 0.1, rows),
    "half in a hundredth": lambda generator, rows: np.where(generator.random(rows) < 0.5, 0.4 + 0.01 * generator.random(rows), generator.normal(0.45, 0.15, rows)),
    "heaps": lambda generator, rows: np.round(generator.normal(0.45, 0.15, rows) * 20) / 20 + 0.01 * generator.random(rows),
}  # fmt: skip
ROWS: Final = (100, 300, 1000, 3000, 10_000)
WANTED: Final = ((0.5,), (0.25, 0.5, 0.75), tuple(place / 10 for place in range(1, 10)))
GROUPS: Final = 32
# Quantiles that are drawn of each column; how often the intervals around them hold is computed, not drawn.
DRAWS: Final = 5
NEEDED: Final = (1.0, 1.5, 2.0)
RESULTS: Final = Path(__file__).with_name("quantile_margins.json")
PAGE: Final = Path(__file__).resolve().parent.parent / "proofs" / "quantiles.md"
# A median so many records away from the edge of a gap of half of the range, of so many records.
RECORDS_TO_GAP: Final = (0, 3, 10, 30, 100)
ROWS_BESIDE_GAP: Final = 3000
GAP_RESULTS: Final = Path(__file__).with_name("quantile_gaps.json")
GAP_BEGIN, GAP_END = "<!-- quantile gaps: written by the same command -->", "<!-- end of quantile gaps -->"
BEGIN, END = "<!-- quantile margins: written by their command -->", "<!-- end of quantile margins -->"


def coverage_and_width(mechanism: JointQuantiles, counts: Integers, exact: Sequence[int], seed: int) -> Floats:
    """How often the intervals around quantiles that were drawn hold the cells where the exact ones are, and how wide intervals are, as a share of all cells; means over quantiles."""
    rows = float(counts.sum())
    ends, drawn = mechanism.ends(rows), mechanism.chosen([counts], SeededNoise(seed), rows)[0]
    middles = drawn[:, 0]
    fails = np.zeros(len(exact))
    if ends:
        choices, rate = mechanism.second_draw([counts], ends, middles[np.newaxis])
        # The first place is the cell of the quantile, or the lower bound.
        places = [
            exact[end.quantile] - middles[end.quantile] if end.is_upper else exact[end.quantile] + 1 for end in ends
        ]
        for end, (below, above) in zip(ends, _shares_beyond(choices, rate, places), strict=True):
            fails[end.quantile] += below if end.is_upper else above
    width = np.minimum(drawn[:, 2] + 1, len(counts)) - np.maximum(drawn[:, 1], 0)
    return np.array([1 - fails.mean(), width.mean() / len(counts)])


def _shares_beyond(choices: Sequence[Choice], rate: float, cells: Sequence[int]) -> list[tuple[float, float]]:
    """With which probability each choice is a cell before the given one, and with which one after it."""
    bounds, shares = law_of_bounds(choices, rate)
    chances, found = np.diff(shares, prepend=0.0), []
    for choice, cell in zip(choices, cells, strict=True):
        first, past = choice.within(bounds)
        below, above = np.clip(cell - first, 0, past - first), np.clip(past - 1 - cell, 0, past - first)
        found.append((float(chances @ (below / (past - first))), float(chances @ (above / (past - first)))))
    return found


def measured(quantiles: tuple[float, ...], neighbours: str, rows: int, shape: str) -> Floats:
    """How often intervals of all quantiles of one made-up column hold, and how wide they are."""
    return measured_of(SHAPES[shape](np.random.default_rng(11), rows), quantiles, neighbours, DRAWS)


def beside_a_gap(neighbours: str, records: int) -> Floats:
    """The same of a median that lies so many records away from the edge of a gap, above which the other half of the values are."""
    generator, below = np.random.default_rng(11), ROWS_BESIDE_GAP // 2 + records
    places = np.repeat([0.2, 0.8], [below, ROWS_BESIDE_GAP - below])
    return measured_of(places + 0.02 * generator.normal(size=ROWS_BESIDE_GAP), (0.5,), neighbours, 20 * DRAWS)


def measured_of(column: Floats, quantiles: tuple[float, ...], neighbours: str, draws: int) -> Floats:
    """How often intervals of all quantiles of a column hold, and how wide they are."""
    rows = len(column)
    mechanism = JointQuantiles(quantiles, 1, 0.75, neighbours, 1, True, 0.95)  # type: ignore[arg-type]
    cells = Cells(Number(0, 1), GROUPS)
    values = np.sort(np.clip(column, 0, 1))
    places = cells.of(values)
    exact = [int(places[math.ceil(quantile * rows) - 1]) for quantile in quantiles]
    counts = np.bincount(places, minlength=cells.count)
    found: Floats = np.mean([coverage_and_width(mechanism, counts, exact, seed) for seed in range(draws)], axis=0)
    return found


def main() -> None:
    """Measure all columns for several choices of the constant, print, write."""
    cases = list(itertools.product(WANTED, NEIGHBOURS, ROWS, SHAPES))
    lines: list[dict[str, str | float]] = []
    for needed in NEEDED:
        joint_quantiles.REACHES_NEEDED = needed
        found = {case: measured(*case) for case in cases}
        line: dict[str, str | float] = {"reaches needed": f"{needed:g}"}
        for name, wanted in zip(("median", "quartiles", "deciles"), WANTED, strict=True):
            line[name], line[f"width of {name}"] = map(
                float, np.mean([found[case] for case in cases if case[0] == wanted], axis=0)
            )
        shares = [float(each[0]) for each in found.values()]
        lines.append({**line, "all": float(np.mean(shares)), "least": min(shares)})
    text = markdown(lines)
    print(text)
    write(lines, text, RESULTS, BEGIN, END)
    write_gaps()


def write_gaps() -> None:
    """Measure medians beside gaps, print, write."""
    lines: list[dict[str, str | float]] = [
        {
            "records between median and gap": str(records),
            **{name: float(beside_a_gap(name, records)[0]) for name in NEIGHBOURS},
        }
        for records in RECORDS_TO_GAP
    ]
    text = markdown(lines)
    print(text)
    write(lines, text, GAP_RESULTS, GAP_BEGIN, GAP_END)


def write(lines: Sequence[Mapping[str, str | float]], text: str, results: Path, begin: str, end: str) -> None:
    """Put lines into their file, and their table into the page between its marks."""
    results.write_text(json.dumps(lines, indent=2, ensure_ascii=False) + "\n", "utf-8")
    before, _, rest = PAGE.read_text("utf-8").partition(begin)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}", "utf-8")


def markdown(measured: Sequence[Mapping[str, str | float]]) -> str:
    """The table for the page."""
    rows = [[each if isinstance(each, str) else f"{each:.3f}" for each in line.values()] for line in measured]
    return "\n".join(f"| {' | '.join(row)} |" for row in ([*measured[0]], ["---"] * len(measured[0]), *rows))


if __name__ == "__main__":
    main()
