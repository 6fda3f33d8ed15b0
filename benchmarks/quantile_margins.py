"""How often intervals of quantiles hold, computed from the law of the draws, for columns of many shapes: how the constants of their margins were chosen.

    python -m benchmarks.quantile_margins

Columns are made up, and none of them is in benchmarks/grouped_statistics.py, where the choice is judged. A table has ε = ¾ for its quantiles, as one by group with quartiles and counts at ε = 1.
Written to benchmarks/quantile_margins.json and to the page proofs/quantiles.md.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sudare.privacy.guarantee import NEIGHBOURS
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
}
ROWS: Final = (100, 300, 1000, 3000, 10_000)
WANTED: Final = ((0.5,), (0.25, 0.5, 0.75), tuple(place / 10 for place in range(1, 10)))
GROUPS: Final = 32
RESULTS: Final = Path(__file__).with_name("quantile_margins.json")
PAGE: Final = Path(__file__).resolve().parent.parent / "proofs" / "quantiles.md"
BEGIN, END = "<!-- quantile margins: written by their command -->", "<!-- end of quantile margins -->"


def coverages(mechanism: JointQuantiles, counts: Integers, exact: Sequence[int]) -> Floats:
    """How often the interval of each quantile of one column holds the cell where the exact one is. Single quantiles are taken as drawn from the exponential mechanism."""
    ends = mechanism.ends(float(counts.sum()))
    (choices, rate), *others = mechanism.stages([counts], ends)
    beyond = _shares_beyond(choices, rate, exact)
    fails = np.zeros(len(exact))
    for of_ends, rate_of_ends in others:
        # The first place of an end is the lower bound.
        cells = [exact[end.quantile] + 1 for end in ends]
        for end, (below, above) in zip(ends, _shares_beyond(of_ends, rate_of_ends, cells), strict=True):
            quantile_below, quantile_above = beyond[end.quantile]
            fails[end.quantile] += above * quantile_above if end.margin < 0 else below * quantile_below
    return 1 - fails


def _shares_beyond(choices: Sequence[Choice], rate: float, cells: Sequence[int]) -> list[tuple[float, float]]:
    """With which probability each choice is a cell before the given one, and with which one after it."""
    bounds, shares = law_of_bounds(choices, rate)
    chances, found = np.diff(shares, prepend=0.0), []
    for choice, cell in zip(choices, cells, strict=True):
        first, past = choice.within(bounds)
        below, above = np.clip(cell - first, 0, past - first), np.clip(past - 1 - cell, 0, past - first)
        found.append((float(chances @ (below / (past - first))), float(chances @ (above / (past - first)))))
    return found


def coverage(quantiles: tuple[float, ...], neighbours: str, rows: int, shape: str) -> float:
    """How often intervals of all quantiles of one made-up column hold."""
    mechanism = JointQuantiles(quantiles, 1, 0.75, neighbours, 1, True, 0.95)  # type: ignore[arg-type]
    cells = Cells(Number(0, 1), GROUPS)
    values = np.sort(np.clip(SHAPES[shape](np.random.default_rng(11), rows), 0, 1))
    places = cells.of(values)
    exact = [int(places[math.ceil(quantile * rows) - 1]) for quantile in quantiles]
    return float(np.mean(coverages(mechanism, np.bincount(places, minlength=cells.count), exact)))


def main() -> None:
    """Measure all columns for several choices of the constants, print, write."""
    cases = list(itertools.product(WANTED, NEIGHBOURS, ROWS, SHAPES))
    measured = []
    for beyond, needed, share in ((1, 1.5, 4), (2, 1, 4), (2, 1.5, 4), (2, 1.5, 3), (3, 1.5, 4)):
        joint_quantiles.ENDS_BEYOND, joint_quantiles.MARGINS_NEEDED = float(beyond), float(needed)
        joint_quantiles.INTERVAL_SHARE = Fraction(1, share)  # type: ignore[misc]
        found = {case: coverage(*case) for case in cases}
        means = [np.mean([each for case, each in found.items() if case[0] == wanted]) for wanted in WANTED]
        numbers = map(float, (*means, np.mean(list(found.values())), min(found.values())))
        constants = {"ends beyond": str(beyond), "margins needed": str(needed), "share of ε": f"1/{share}"}
        measured.append(
            {**constants, **dict(zip(("median", "quartiles", "deciles", "all", "least"), numbers, strict=True))}
        )
    text = markdown(measured)
    print(text)
    RESULTS.write_text(json.dumps(measured, indent=2, ensure_ascii=False) + "\n", "utf-8")
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", "utf-8")


def markdown(measured: Sequence[Mapping[str, str | float]]) -> str:
    """The table for the page."""
    rows = [[each if isinstance(each, str) else f"{each:.3f}" for each in line.values()] for line in measured]
    return "\n".join(f"| {' | '.join(row)} |" for row in ([*measured[0]], ["---"] * len(measured[0]), *rows))


if __name__ == "__main__":
    main()
