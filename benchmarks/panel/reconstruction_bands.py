"""How often 90 % bands of reconstructed columns hold: shares of bins, running sums and quantiles.

`python -m benchmarks.panel --only bands` judges; `python -m benchmarks.panel.reconstruction_bands` compares, on the tuning half, how much of the noise's width the ends of rough columns' bins are moved by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from benchmarks.panel.reconstruction_cases import Case, cases
from benchmarks.panel.tuning_and_judging import Half
from sudare.reconstruction import Distribution, Reconstruction, model_average

DESIGN: Final = ((300, "ε = 2"), (3_000, "k = 2"), (10_000, "ε = 1"), (100_000, "k = 2"))
LEVEL: Final = 0.9
QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
PARTS: Final = ("bins", "running sums", "quantiles")
# Near-empty bins would flatter.
_LEAST_SHARE: Final = 0.002
_FACTORS: Final = (0.01, 0.25, 0.5, 1.0)


def held(case: Case, found: Distribution, records: Any) -> dict[str, list[int]]:
    """Of bins, running sums and quantiles, how many hold and how many there are; nothing where there is no band."""
    shares, counted = case.shares(records), {}
    looked_at = shares > _LEAST_SHARE
    sums = np.cumsum(shares)
    # The last sum is one.
    inner = looked_at & (sums < 1 - _LEAST_SHARE)
    wanted = np.array(QUANTILES)
    for part, band, true, kept in (
        ("bins", found.band(case.edges, LEVEL), shares, looked_at),
        ("running sums", found.band(case.edges, LEVEL, cumulative=True), sums, inner),
        (
            "quantiles",
            found.quantile_band(wanted, LEVEL),
            np.quantile(records, wanted, method="inverted_cdf"),
            wanted > 0,
        ),
    ):
        if band.low is not None and band.high is not None:
            holds = (band.low - 1e-9 <= true) & (true <= band.high + 1e-9)
            counted[part] = [int(holds[kept].sum()), int(kept.sum())]
    return counted


def fitted(half: Half) -> Iterator[tuple[Case, Distribution, Any]]:
    """Every case with what `auto` finds and the original records."""
    for case in cases(half, DESIGN):
        records, perturbed = case.drawn(0)
        yield case, Reconstruction(case.perturbation).fit(perturbed).distribution_, records


def row_of(case: Case, found: Distribution, records: Any) -> dict[str, Any]:
    """How often the bands of one case hold."""
    about = {"column": case.column.name, "noise": case.noise, "privacy": case.privacy, "records": case.records}
    return {**about, "rough": found.resolution > 0, **held(case, found, records)}


def bands(half: Half) -> list[dict[str, Any]]:
    """A row for each case."""
    return [row_of(*each) for each in fitted(half)]


def coverage(rows: list[dict[str, Any]], part: str) -> float:
    """How many of a hundred hold."""
    counted = np.array([row[part] for row in rows if part in row])
    return float(100 * counted[:, 0].sum() / max(1, counted[:, 1].sum())) if len(counted) else float("nan")


def summary_of_bands(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverages, of all and by noise and records."""
    found: dict[str, Any] = {"fits": len(rows), "with a band": sum("bins" in row for row in rows)}
    for part in PARTS:
        found[f"coverage of {part}, %"] = round(coverage(rows, part), 1)
        by_column = [
            coverage([row for row in rows if row["column"] == name], part) for name in {row["column"] for row in rows}
        ]
        found[f"{part}: columns below 87, above 95"] = (
            f"{sum(one < 87 for one in by_column)}, {sum(one > 95 for one in by_column)} of {len(by_column)}"
        )
    return found


def by_noise(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each noise, number of records and privacy."""
    lines = [
        f"Coverage of {LEVEL:.0%} bands in percent, one draw of records and noise a column, bins that hold more than .2 % of the records:",
        "",
        f"| noise | records | privacy | {' | '.join(PARTS)} |",
        "| --- | --- | --- |" + " --- |" * len(PARTS),
    ]
    for key in dict.fromkeys((row["noise"], row["records"], row["privacy"]) for row in rows):
        own = [row for row in rows if (row["noise"], row["records"], row["privacy"]) == key]
        lines.append(
            f"| {key[0]} | {key[1]:,} | {key[2]} | " + " | ".join(f"{coverage(own, part):.1f}" for part in PARTS) + " |"
        )
    return lines


def main() -> None:
    """Print coverages of the tuning half with other parts of the noise's width, of all columns and of rough ones."""
    every = list(fitted("tuning"))
    for factor in _FACTORS:
        rows = []
        for case, found, records in every:
            moved = factor / model_average.NOISE_IN_RESOLUTION * found.resolution
            rows.append(row_of(case, replace(found, resolution=moved), records))
        print(f"{factor} of the noise's width", summary_of_bands(rows), flush=True)
        print("rough columns", summary_of_bands([row for row in rows if row["rough"]]), flush=True)
        print("\n".join(by_noise(rows)), flush=True)


if __name__ == "__main__":
    main()
