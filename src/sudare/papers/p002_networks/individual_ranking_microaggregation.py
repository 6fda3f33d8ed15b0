"""Individual ranking microaggregation as paper 002 takes it for AnonymizingFirst (its references 7 and 28, section 4-2 (1)).

Every column is sorted, every k rows that follow each other are a group, and all of them get one noisy value. Rows keep
the groups of their own values in all columns, so which groups meet in a row is shown without noise: replace one record, and that changes
for certain. The private counterpart is `sudare.synthesis.microaggregation`, from which rows are drawn anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sudare.parameter_checks import Numbers
from sudare.schema import Date, Number, Schema
from sudare.schema.column_values import declared_values
from sudare.schema.table_from_any_frame import as_table, no_rows

_GROUP_SIZES = Numbers(1, 2**31, whole=True)
_EPSILONS = Numbers(0, math.inf, open_low=True, open_high=True)


def individually_ranked(
    table: pd.DataFrame,
    schema: Schema,
    epsilon: float,
    generator: np.random.Generator,
    group_size: int | None = None,
) -> pd.DataFrame:
    """No privacy for a record: the declared columns with the noisy values of groups of k rows, each row in its own groups.

    As published, each of the m columns gets ε/m: means of numbers have Laplace noise of scale (high − low)·m/(kε), and end at the
    bounds; the category of a group is drawn by the exponential mechanism from its counts. k is √rows by default.
    """
    _EPSILONS.check("epsilon", epsilon)
    size = max(1, round(math.sqrt(len(table)))) if group_size is None else group_size
    _GROUP_SIZES.check("group_size", size)
    columns = schema.columns
    declared, _, _ = declared_values(as_table(table, list(columns)), columns)
    if not len(table):
        raise no_rows()
    share = epsilon / len(columns)
    published: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        values = declared[name]
        if isinstance(column, Number):
            noisy = _noisy_means(values.astype(np.float64), column, share, size, generator)
            published[name] = column.values_array(noisy) if isinstance(column, Date) else noisy
        else:
            chosen = _noisy_modes(values.astype(np.intp), len(column.levels), share, size, generator)
            published[name] = np.array(column.levels, dtype=object)[chosen]
    return pd.DataFrame(published, index=table.index)


def groups_of_rows(values: NDArray[Any], size: int) -> NDArray[np.intp]:
    """The number of every row's group: each has so many rows that follow each other in order, and the last what is left."""
    last = max(len(values) // size, 1) - 1
    groups = np.empty(len(values), dtype=np.intp)
    groups[np.argsort(values, kind="stable")] = np.minimum(np.arange(len(values)) // size, last)
    return groups


def _noisy_means(
    values: NDArray[np.float64], column: Number, epsilon: float, size: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    groups = groups_of_rows(values, size)
    means = np.bincount(groups, weights=values) / np.bincount(groups)
    noise = generator.laplace(scale=(column.high - column.low) / (size * epsilon), size=len(means))
    return np.asarray(np.clip(means + noise, column.low, column.high)[groups])


def _noisy_modes(
    codes: NDArray[np.intp], levels: int, epsilon: float, size: int, generator: np.random.Generator
) -> NDArray[np.intp]:
    """The largest of counts with Gumbel noise: the exponential mechanism, where a row moves a count by one."""
    groups = groups_of_rows(codes, size)
    counts = np.zeros((groups.max() + 1, levels))
    np.add.at(counts, (groups, codes), 1)
    return np.asarray(np.argmax(epsilon / 2 * counts + generator.gumbel(size=counts.shape), axis=1)[groups])
