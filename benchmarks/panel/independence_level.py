"""`python -m benchmarks.panel.independence_level`: how often the test of `CrossTable` rejects columns that are independent, and columns that are not; writes independence_level.json and the table in docs/records.md.

Beside it the plain chi-square law of Pearson's statistic, of the same scores.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from benchmarks.peers import ROOT
from benchmarks.study_pages import markdown_table
from sudare.perturbation import LaplacePerturbation, RetainReplace, SquareWave, SubsetSelection
from sudare.reconstruction.cross_tables import bins_of, own_scores
from sudare.reconstruction.pair_proportions import ScoredAnswers, counted_pairs, independence, whitened

RESULTS: Final = Path(__file__).with_suffix(".json")
PAGE: Final = ROOT / "docs" / "records.md"
BEGIN, END = (
    "<!-- independence: written by `python -m benchmarks.panel.independence_level` -->",
    "<!-- end of independence -->",
)
LEVELS: Final = (0.05, 0.01)
TABLES: Final = 1_000
DEPENDENT_TABLES: Final = 300
# Of tables that take a tenth of a second and more: scores of a number need its distribution, and many pairs of scores with many records long draws.
SLOW_PART: Final = 10
SIZES: Final = (50, 400, 3_000)
_BOUNDS: Final = (0.0, 10.0)
_LETTERS: Final = ("a", "b", "c", "d")
_MANY: Final = tuple(range(20))


@dataclass(frozen=True)
class Case:
    """Two columns, how many records there are, and whether in a part of them the ranks of both columns agree."""

    columns: str
    records: int
    together: float = 0.0

    def drawn(self, generator: np.random.Generator) -> tuple[list[Any], list[NDArray[Any]]]:
        """Perturbations, and original columns: skewed numbers, spikes, rare categories."""
        first, second = KINDS[self.columns]
        originals = [MAKERS[one](generator, self.records) for one in (first, second)]
        chosen = np.flatnonzero(generator.random(self.records) < self.together)
        left, right = (column[chosen] for column in originals)
        originals[1][chosen[np.argsort(left, kind="stable")]] = np.sort(right)
        return [LAWS[one] for one in (first, second)], originals

    def p_values(self, seed: int) -> tuple[float, float]:
        """Of one table: by the test, and by the plain law."""
        generator = np.random.default_rng((seed, self.records, int(100 * self.together)))
        laws, originals = self.drawn(generator)
        scored: list[ScoredAnswers] = []
        for law, values in zip(laws, originals, strict=True):
            answers = law.perturb(values, random_state=int(generator.integers(2**31)), shuffle=False)
            scored.append(own_scores(law, bins_of(law, None), answers, 0))
        first, second = scored
        return independence(first, second, np.random.default_rng(0)).p_value, plain_p_value(first, second)

    def row(self) -> dict[str, Any]:
        """How many tables were rejected."""
        is_slow = "number" in self.columns or ("twenty" in self.columns and self.records > 1_000)
        tables = (DEPENDENT_TABLES if self.together else TABLES) // (SLOW_PART if is_slow else 1)
        ours, plain = np.array([self.p_values(seed) for seed in range(tables)]).T
        found = {f"rejected at {level}": int((ours < level).sum()) for level in LEVELS}
        by_plain = {f"rejected at {level} by the plain law": int((plain < level).sum()) for level in LEVELS}
        row = {**asdict(self), "tables": tables, **found, **by_plain}
        print(json.dumps(row), flush=True)
        return row


MAKERS: Final[dict[str, Any]] = {
    "letters": lambda rng, size: rng.choice(_LETTERS, size, p=[0.6, 0.25, 0.1, 0.05]),
    "letters in sets": lambda rng, size: rng.choice(_LETTERS, size, p=[0.6, 0.25, 0.1, 0.05]),
    "twenty": lambda rng, size: np.minimum(rng.geometric(0.3, size) - 1, 19),
    "skewed": lambda rng, size: rng.beta(2, 5, size) * 10,
    "spiked": lambda rng, size: np.where(rng.random(size) < 0.3, 0.0, rng.uniform(0, 10, size)),
}
LAWS: Final[dict[str, Any]] = {
    "letters": RetainReplace(_LETTERS, epsilon=1.0),
    "letters in sets": SubsetSelection(_LETTERS, epsilon=1.0),
    "twenty": RetainReplace(_MANY, epsilon=5.0),
    "skewed": SquareWave(_BOUNDS, epsilon=2.0),
    "spiked": LaplacePerturbation(_BOUNDS, epsilon=3.0),
}
KINDS: Final = {
    "two categories, one of them in sets": ("letters", "letters in sets"),
    "two categories of twenty values, most of them rare": ("twenty", "twenty"),
    "a number and a category": ("skewed", "letters"),
    "two numbers": ("skewed", "spiked"),
}
POWER: Final = (
    Case("two categories, one of them in sets", 400, 0.8),
    Case("two categories, one of them in sets", 3_000, 0.5),
    Case("two categories of twenty values, most of them rare", 400, 0.15),
    Case("a number and a category", 400, 0.8),
    Case("two numbers", 400, 0.5),
)


def plain_p_value(first: ScoredAnswers, second: ScoredAnswers) -> float:
    """By the chi-square law with as many degrees of freedom as there are pairs of scores."""
    counts, one, other = counted_pairs(first, second)
    records = len(first.answers)
    left, right = (
        whitened(scored.scores, np.bincount(scored.answers, minlength=len(scored.scores)) / records)
        for scored in (first, second)
    )
    together = (left[one] * (counts / records)[:, np.newaxis]).T @ right[other]
    return float(chi2.sf(records * float((together**2).sum()), together.size))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The table of the page: tables rejected, of a thousand independent and of some that are not."""
    lines = []
    for row in rows:
        told = [f"{row[f'rejected at {level}']}, {row[f'rejected at {level} by the plain law']}" for level in LEVELS]
        which = "independent" if not row["together"] else f"together in {row['together']:.0%}"
        lines.append([row["columns"], which, f"{row['records']:,}", f"{row['tables']:,}", *told])
    headings = ["columns", "", "records", "tables", *(f"rejected at {level:g}: test, plain law" for level in LEVELS)]
    return markdown_table(headings, lines)


def with_table(page: str, rows: Sequence[dict[str, Any]]) -> str:
    """The page with its written part made anew."""
    before, after = page.split(BEGIN, maxsplit=1)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}"


def main() -> None:
    """Count rejections, print and write them."""
    cases = [*(Case(kind, size) for kind in KINDS for size in SIZES if size <= 400 or "number" not in kind), *POWER]
    with ProcessPoolExecutor(3) as pool:
        rows = list(pool.map(Case.row, cases))
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), rows), "utf-8")


if __name__ == "__main__":
    main()
