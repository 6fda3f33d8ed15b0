"""OpenDP's side of grouped statistics; runs in the environment of opendp.in, where sudare is not installed.

Tables by OpenDP's interface for frames (`Context` over a lazy polars frame) with public keys, as its documentation shows: counts, sums and quantiles of all groups are
one query, which splits ε evenly. Quantiles of a whole column by `make_private_quantile`, each from an equal part of ε: the same measurement that the interface for frames makes, and a hundred times as fast.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
# That counts will be signed some day.
warnings.simplefilter("ignore", FutureWarning)


def released(
    file: str,
    by: list[str],
    column: str,
    bounds: list[float],
    wanted: list[str | float],
    epsilon: float,
    contributions: int,
    candidates: list[float],
    moved: float,
    repeats: int,
) -> list[dict[str, list[Any]]]:
    """The wanted aggregates ("count", "sum", quantiles) of a column by group, as often as asked for; candidates are moved by a growing part of `moved`."""
    frame = pl.scan_parquet(file)
    # Sums of integers need no floats; other columns are scaled by whoever calls this.
    aggregates = {
        "count": dp.len(signed=True).alias("count"),
        "sum": pl.col(column).fill_null(bounds[0]).dp.sum((int(bounds[0]), int(bounds[1]))).alias("sum"),
    }

    def quantile(one: float, part: float) -> Any:
        points = [point + part * moved for point in candidates]
        known = pl.col(column).cast(float).fill_nan(bounds[0]).fill_null(bounds[0])
        return known.dp.quantile(one, points).alias(str(one))

    margin = dp.polars.Margin(by=by, invariant="keys", max_length=2**20, max_groups=2**12)
    found = []
    for repeat in range(repeats):
        asked = [aggregates[one] if isinstance(one, str) else quantile(one, repeat / repeats) for one in wanted]
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=contributions),
            privacy_loss=dp.loss_of(epsilon=epsilon),
            split_evenly_over=1,
            margins=[margin],
        )
        query = context.query()
        made = query.group_by(by).agg(asked) if by else query.select(asked)
        found.append(made.release().collect().to_dict(as_series=False))
    return found


def quantiles(
    file: str,
    wanted: list[float],
    epsilon: float,
    contributions: int,
    candidates: list[list[float]],
    moved: float,
    repeats: int,
) -> list[list[float]]:
    """The wanted quantiles of one column, each among candidates of its own, as often as asked for; candidates are moved by a growing part of `moved`."""
    values = np.load(file).tolist()
    domain, metric = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(values)), dp.symmetric_distance()

    def measurement(quantile: float, points: list[float], scale: float) -> Any:
        return dp.m.make_private_quantile(
            domain, metric, dp.max_divergence(), candidates=points, alpha=quantile, scale=scale
        )

    scales = [
        dp.binary_search_param(
            lambda scale, one=one, points=points: measurement(one, points, scale), d_in=contributions, d_out=epsilon / len(wanted)
        )
        for one, points in zip(wanted, candidates, strict=True)
    ]  # fmt: skip
    return [
        [
            measurement(one, [point + repeat / repeats * moved for point in points], scale)(values)
            for one, points, scale in zip(wanted, candidates, scales, strict=True)
        ]
        for repeat in range(repeats)
    ]


if __name__ == "__main__":
    request = json.load(sys.stdin)
    print(json.dumps(released(**request) if "by" in request else quantiles(**request)))
